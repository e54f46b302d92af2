//! A steady load that counts what fails.

use crate::http::Ask;
use hyper_util::rt::TokioIo;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Longest time for one request of the load.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A running load.
#[derive(Debug)]
pub struct Load {
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    workers: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    failed: AtomicU64,
    first_failure: std::sync::Mutex<Option<String>>,
}

/// What a load saw.
#[derive(Clone, Debug)]
pub struct Report {
    /// Requests sent.
    pub sent: u64,
    /// Requests that got no answer, or one with another status than 200.
    pub failed: u64,
    /// What was wrong with the first one that failed.
    pub first_failure: Option<String>,
}

impl Load {
    /// Starts `workers` connections, each of which sends `ask` at most `per_second` times a second
    /// until the load is stopped. A connection that the server closes is opened again; a request that
    /// met the closing of its connection before it was sent is no failure.
    #[must_use]
    pub fn start(port: u16, ask: &Ask, workers: u32, per_second: u32) -> Self {
        let counts = Arc::new(Counts::default());
        let stop = Arc::new(AtomicBool::new(false));
        let mut set = JoinSet::new();
        for _ in 0..workers {
            set.spawn(work(
                port,
                ask.clone(),
                per_second,
                counts.clone(),
                stop.clone(),
            ));
        }
        Self {
            counts,
            stop,
            workers: set,
        }
    }

    /// What it saw so far.
    #[must_use]
    pub fn report(&self) -> Report {
        Report {
            sent: self.counts.sent.load(Ordering::Relaxed),
            failed: self.counts.failed.load(Ordering::Relaxed),
            first_failure: self
                .counts
                .first_failure
                .lock()
                .ok()
                .and_then(|failure| failure.clone()),
        }
    }

    /// Stops it and says what it saw.
    pub async fn stop(mut self) -> Report {
        self.stop.store(true, Ordering::Relaxed);
        while self.workers.join_next().await.is_some() {}
        self.report()
    }
}

async fn work(port: u16, ask: Ask, per_second: u32, counts: Arc<Counts>, stop: Arc<AtomicBool>) {
    let mut tick = tokio::time::interval(Duration::from_secs(1) / per_second.max(1));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut connection = None;
    while !stop.load(Ordering::Relaxed) {
        tick.tick().await;
        let result = tokio::time::timeout(TIMEOUT, send(port, &ask, &mut connection)).await;
        counts.sent.fetch_add(1, Ordering::Relaxed);
        let failure = match result {
            Ok(Ok(200)) => continue,
            Ok(Ok(status)) => format!("status {status}"),
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => format!("no answer in {TIMEOUT:?}"),
        };
        connection = None;
        counts.failed.fetch_add(1, Ordering::Relaxed);
        if let Ok(mut first) = counts.first_failure.lock() {
            first.get_or_insert(failure);
        }
    }
}

type Sender = hyper::client::conn::http1::SendRequest<http_body_util::Full<hyper::body::Bytes>>;

async fn send(port: u16, ask: &Ask, connection: &mut Option<Sender>) -> anyhow::Result<u16> {
    // `ready` tells whether the server has closed the connection since the last answer.
    let kept = match connection.take() {
        Some(mut sender) => sender.ready().await.is_ok().then_some(sender),
        None => None,
    };
    let mut sender = match kept {
        Some(sender) => sender,
        None => connect(port).await?,
    };
    let answer = ask.over(&mut sender).await?;
    if answer.header("connection") != "close" {
        *connection = Some(sender);
    }
    Ok(answer.status.as_u16())
}

async fn connect(port: u16) -> anyhow::Result<Sender> {
    let stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}
