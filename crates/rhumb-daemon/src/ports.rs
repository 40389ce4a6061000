//! What `rhumb serve`, `forward` and `proxy` share: one TCP connection on one stream, each
//! direction ending by itself, datagrams of programs, and how much is said about what failed.

pub mod associations;
pub mod datagrams;
pub mod door;
pub mod offer;
mod places;
pub mod proxy;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rhumb_node::{Node, Stream, StreamError, stream_error};
use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::TcpStream;

use crate::clock;
use crate::failure::{Failure, Outcome};

/// What went over a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    /// Bytes from the stream to TCP.
    pub received: u64,
    /// Bytes from TCP to the stream.
    pub sent: u64,
}

/// Carries between the two until both directions have ended.
///
/// # Errors
///
/// When one of them breaks: both are then given up.
pub async fn carry(mut stream: Stream, mut tcp: TcpStream) -> io::Result<Carried> {
    tcp.set_nodelay(true)?;
    let (received, sent) =
        copy_bidirectional_with_sizes(&mut stream, &mut tcp, BUFFER, BUFFER).await?;
    Ok(Carried { received, sent })
}

/// Listens for programs of this host, and says where.
///
/// # Errors
///
/// When the address is taken, or not this host's.
pub fn listen(local: SocketAddr) -> Outcome<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(local).map_err(|error| taken(local, &error))?;
    listener.set_nonblocking(true).map_err(Failure::setup)?;
    let local = listener.local_addr().map_err(Failure::setup)?;
    Ok((listener, local))
}

/// What is wrong with a local address.
pub fn taken(local: SocketAddr, error: &io::Error) -> Failure {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => "ports below 1024 need CAP_NET_BIND_SERVICE",
        _ => "choose another port",
    };
    Failure::setup_text(format!("cannot listen on {local}: {error}; {advice}"))
}

/// Waits until a node has ended, which says why.
///
/// # Errors
///
/// Always: nobody here ends it.
pub async fn until_ended<T>(node: &Node) -> Outcome<T> {
    let mut standing = node.watch();
    while standing.changed().await.is_some() {}
    node.status().await.map_err(Failure::operation)?;
    Err(Failure::operation_text("the node has ended"))
}

/// What broke, for people: the stream's own reason, if it was that.
pub fn reason(error: &io::Error) -> String {
    match stream_error(error) {
        Some(StreamError::Connection(error)) => error.to_string(),
        Some(error) => error.to_string(),
        None => format!("the program's connection broke: {error}"),
    }
}

/// Says a few things a minute: others can cause any number of them.
#[derive(Debug, Default)]
pub struct Seldom(Mutex<Option<(Instant, u32)>>);

impl Seldom {
    /// Whether there is room to say another thing at `now`.
    pub fn may_say(&self, now: Instant) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = said.filter(|(since, _)| now < *since + MINUTE).unwrap_or((now, 0));
        let may = count < A_MINUTE;
        *said = Some((since, if may { count + 1 } else { count }));
        may
    }
}

/// Large enough for TCP's segments to be put together, small enough for hundreds of connections.
const BUFFER: usize = 64 << 10;
const MINUTE: Duration = Duration::from_secs(60);
const A_MINUTE: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_things_a_minute_are_said() {
        let (seldom, now) = (Seldom::default(), crate::clock::now().instant);
        let said = (0..100).filter(|_| seldom.may_say(now)).count();
        assert_eq!(said, A_MINUTE as usize);
        assert!(!seldom.may_say(now + MINUTE - Duration::from_nanos(1)));
        assert!(seldom.may_say(now + MINUTE));
    }
}
