//! A way to a server that can be disturbed: cut, slowed down, or silent without being closed.
#![allow(dead_code, reason = "each test file uses a part")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;

/// How bytes pass.
#[derive(Clone, Copy, Debug)]
struct Passage {
    /// Each piece of data takes this long.
    delay: Duration,
    /// Nothing passes and nothing is closed: the network is gone, and nobody was told.
    held: bool,
    /// New connections are closed at once.
    refuses: bool,
    /// Connections with smaller numbers are closed.
    closed_before: u64,
    /// Nothing passes on connections with smaller numbers ever again, and they are not closed.
    stranded_before: u64,
}

/// A unix socket that leads to a TCP address.
pub struct Way {
    socket: PathBuf,
    passage: watch::Sender<Passage>,
    connections: watch::Receiver<u64>,
}

impl Way {
    pub fn open(socket: &Path, to: SocketAddr) -> Self {
        let listener = UnixListener::bind(socket).expect("a socket");
        let (passage, watched) = watch::channel(Passage {
            delay: Duration::ZERO,
            held: false,
            refuses: false,
            closed_before: 0,
            stranded_before: 0,
        });
        let (count, connections) = watch::channel(0);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                if watched.borrow().refuses {
                    continue;
                }
                let number = *count.borrow();
                count.send_modify(|count| *count += 1);
                tokio::spawn(carry(near, to, number, watched.clone()));
            }
        });
        Self {
            socket: socket.to_owned(),
            passage,
            connections,
        }
    }

    pub fn address(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Closes all connections, and those to come.
    pub fn cut(&self) {
        let next = *self.connections.borrow();
        self.passage.send_modify(|passage| {
            passage.refuses = true;
            passage.closed_before = next;
        });
    }

    /// Stops everything, and closes nothing.
    pub fn hold(&self) {
        self.passage.send_modify(|passage| passage.held = true);
    }

    /// Nothing passes on the connections of now any more, and they are not closed; new ones are good.
    pub fn strand(&self) {
        let next = *self.connections.borrow();
        self.passage
            .send_modify(|passage| passage.stranded_before = next);
    }

    /// Each piece of data takes a while, in both directions.
    pub fn slow(&self, delay: Duration) {
        self.passage.send_modify(|passage| passage.delay = delay);
    }

    /// Ends what [`Way::cut`], [`Way::hold`] and [`Way::slow`] did. What was held goes on.
    pub fn mend(&self) {
        self.passage.send_modify(|passage| {
            passage.delay = Duration::ZERO;
            passage.held = false;
            passage.refuses = false;
        });
    }
}

/// Carries bytes both ways until one side closes or the connection is cut.
async fn carry(near: UnixStream, to: SocketAddr, number: u64, passage: watch::Receiver<Passage>) {
    let Ok(far) = TcpStream::connect(to).await else {
        return;
    };
    let _ = far.set_nodelay(true);
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let mut cut = passage.clone();
    tokio::select! {
        () = pump(near_read, far_write, number, passage.clone()) => {}
        () = pump(far_read, near_write, number, passage) => {}
        _ = cut.wait_for(|passage| number < passage.closed_before) => {}
    }
}

async fn pump(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    number: u64,
    mut passage: watch::Receiver<Passage>,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        // While nothing passes nothing is read either: whoever sends will feel it.
        if passes(&mut passage, number).await.is_none() {
            return;
        }
        let Ok(length @ 1..) = from.read(&mut buffer).await else {
            // Being told of an end takes the same way.
            passes(&mut passage, number).await;
            return;
        };
        let Some(delay) = passes(&mut passage, number).await else {
            return;
        };
        tokio::time::sleep(delay).await;
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

/// Waits until bytes may pass; how long they take. None if the way is gone.
async fn passes(passage: &mut watch::Receiver<Passage>, number: u64) -> Option<Duration> {
    let open = passage
        .wait_for(|passage| !passage.held && number >= passage.stranded_before)
        .await
        .ok()?;
    Some(open.delay)
}
