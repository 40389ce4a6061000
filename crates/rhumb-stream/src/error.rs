//! Why streams cannot be carried at all: all of it is local.

use std::io;
use std::net::SocketAddr;

/// What stands against carrying streams.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The address to take connections at cannot be had.
    #[error("TLS cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The system gives no thread, or nothing to wait with.
    #[error("streams cannot be carried: {0}")]
    System(#[from] io::Error),
    /// The key or its certificate is refused by the library.
    #[error("TLS with this key is refused: {0}")]
    Credentials(#[from] rustls::Error),
    /// The certificate cannot be made.
    #[error("no certificate can be made of this key")]
    Certificate,
}
