//! A steady load that counts what fails.

use crate::http::{Answer, Ask};
use hyper_util::rt::TokioIo;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Longest time for one request of the load.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What is wrong with an answer.
type Check = Arc<dyn Fn(&Answer) -> Result<(), String> + Send + Sync>;

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
    /// Requests that got no answer, or one that is not as it should be.
    pub failed: u64,
    /// What was wrong with the first one that failed.
    pub first_failure: Option<String>,
}

impl Load {
    /// Starts `workers` connections, each of which sends `ask` at most `per_second` times a second
    /// until the load is stopped. Any answer but a 200 is a failure. A connection that the server
    /// closes is opened again; a request that met the closing of its connection before it was sent is
    /// no failure.
    #[must_use]
    pub fn start(port: u16, ask: &Ask, workers: u32, per_second: u32) -> Self {
        Self::start_checked(port, ask, workers, per_second, |answer| {
            match answer.status.as_u16() {
                200 => Ok(()),
                status => Err(format!("status {status}")),
            }
        })
    }

    /// As [`Load::start`], with an own idea of which answers are as they should be: `check` says what
    /// is wrong with one.
    #[must_use]
    pub fn start_checked(
        port: u16,
        ask: &Ask,
        workers: u32,
        per_second: u32,
        check: impl Fn(&Answer) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        let counts = Arc::new(Counts::default());
        let stop = Arc::new(AtomicBool::new(false));
        let check: Check = Arc::new(check);
        let mut set = JoinSet::new();
        for _ in 0..workers {
            set.spawn(work(
                port,
                ask.clone(),
                per_second,
                check.clone(),
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

    /// Waits until it has sent this many requests more than now.
    pub async fn send_more(&self, requests: u64) -> anyhow::Result<()> {
        let enough = self.report().sent + requests;
        crate::wait::until("the load goes on", async || match self.report().sent {
            sent if sent >= enough => Ok(()),
            sent => Err(format!("{sent} of {enough} requests are sent")),
        })
        .await
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

    /// Lets it go on for this many requests, stops it, and fails if any of its requests did.
    pub async fn flawless(self, more: u64) -> anyhow::Result<()> {
        self.send_more(more).await?;
        let report = self.stop().await;
        anyhow::ensure!(
            report.failed == 0,
            "{} of {} requests failed; the first: {}",
            report.failed,
            report.sent,
            report.first_failure.unwrap_or_default()
        );
        Ok(())
    }

    /// Stops it and says what it saw.
    pub async fn stop(mut self) -> Report {
        self.stop.store(true, Ordering::Relaxed);
        while self.workers.join_next().await.is_some() {}
        self.report()
    }
}

async fn work(
    port: u16,
    ask: Ask,
    per_second: u32,
    check: Check,
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
) {
    let mut tick = tokio::time::interval(Duration::from_secs(1) / per_second.max(1));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut connection = None;
    while !stop.load(Ordering::Relaxed) {
        tick.tick().await;
        let result = tokio::time::timeout(TIMEOUT, send(port, &ask, &mut connection)).await;
        let verdict = match result {
            Ok(Ok(answer)) => check(&answer),
            Ok(Err(error)) => {
                connection = None;
                Err(format!("{error:#}"))
            }
            Err(_) => {
                connection = None;
                Err(format!("no answer in {TIMEOUT:?}"))
            }
        };
        if let Err(failure) = verdict {
            counts.failed.fetch_add(1, Ordering::Relaxed);
            if let Ok(mut first) = counts.first_failure.lock() {
                first.get_or_insert(failure);
            }
        }
        counts.sent.fetch_add(1, Ordering::Relaxed);
    }
}

type Sender = hyper::client::conn::http1::SendRequest<http_body_util::Full<hyper::body::Bytes>>;

async fn send(port: u16, ask: &Ask, connection: &mut Option<Sender>) -> anyhow::Result<Answer> {
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
    Ok(answer)
}

async fn connect(port: u16) -> anyhow::Result<Sender> {
    let stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}
