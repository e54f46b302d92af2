//! Envoy beside the host: its bootstrap, and the one that the host runs itself.
//!
//! [`ManagedEnvoy`] starts Envoy, restarts it when it ends, and drains and stops it at the end. It is
//! made to outlive the host's *crash*: it is in a process group of its own, so that neither Ctrl-C nor the
//! host's death reach it, and goes on serving what it last had. The next host finds it through the record
//! in the [`DataDir`], adopts it if it was started as this host would start it, and drains and replaces it
//! if not. There are never two: two Envoys share a port without a word.

mod admin;
mod binary;
mod bootstrap;
mod data_dir;
mod managed;
mod plan;
mod process;
mod record;
mod stop;

#[cfg(test)]
mod tests;

pub use binary::find;
pub use bootstrap::bootstrap;
pub use data_dir::DataDir;
pub use managed::{ManagedEnvoy, Options, bound};

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

/// What keeps a managed Envoy from running.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be used.
    #[error("cannot {what} {}: {reason}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not. It is in the text already, so it is no `source`, which would be printed again.
        reason: io::Error,
    },
    /// Another host uses the data folder.
    #[error(
        "data folder {} is in use by process {holder}; stop that process, or choose another folder with --data-dir",
        path.display()
    )]
    Locked {
        /// The folder.
        path: PathBuf,
        /// Its process id, or `unknown`.
        holder: String,
    },
    /// The path of a socket would be longer than the kernel allows.
    #[error(
        "data folder {} has too long a path for a socket in it; choose a shorter one with --data-dir",
        path.display()
    )]
    LongPath {
        /// The folder.
        path: PathBuf,
    },
    /// There is no Envoy.
    #[error("{0}")]
    NoBinary(String),
    /// An address that is none.
    #[error(
        "xDS address '{0}' is neither HOST:PORT nor unix:PATH; write for example 127.0.0.1:18000"
    )]
    XdsAddress(String),
    /// Envoy did not come up.
    #[error("Envoy did not start: {reason}\n{log}")]
    Start {
        /// What happened.
        reason: String,
        /// What it last said.
        log: String,
    },
    /// An Envoy of an earlier host does not end.
    #[error("Envoy of an earlier host (process {0}) cannot be stopped; stop it yourself")]
    Stuck(i32),
}

/// Process ids of Envoys that an earlier host with this data folder started and that still run.
#[must_use]
pub fn orphans(dir: &DataDir) -> Vec<i32> {
    let found = process::with_argument(&dir.bootstrap());
    found.iter().map(|process| process.pid).collect()
}

/// Whether nobody listens on an address. Ask before a listener is first sent: Envoy would share the
/// port with whoever has it (`SO_REUSEPORT`). What the managed Envoy itself has bound, an adopted one
/// above all, says [`bound`].
///
/// The address is bound for a moment without `SO_REUSEPORT`, which fails beside any listener. Where it
/// fails for another reason (no such address, no permission) the port is not said to be taken: Envoy's own
/// error tells more.
#[must_use]
pub fn port_is_free(address: SocketAddr) -> bool {
    match TcpListener::bind(address) {
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::AddrInUse,
    }
}
