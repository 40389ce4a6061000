//! Channels between names over TCP: TLS 1.3 in which both ends prove a name, messages
//! of bounded length in order, queues of bounded size. The servers of the private
//! exchange and the members' proxies talk over them.
//!
//! 1. [`Credentials`] are made of an identity: `rhumb keygen` makes its file. There is no
//!    certificate authority: who is at the other end is a name that was agreed on beforehand.
//! 2. A server [`Listener::bind`]s and takes channels with [`Listener::accept`]; a closure says
//!    which names it admits. A client [`connect`]s to an address at which one name must answer.
//! 3. A [`Channel`] has an [`Inbox`] and an [`Outbox`], which may be cloned. What waits to
//!    be sent is bounded: [`Outbox::try_send`] refuses, [`Outbox::send`] waits. Both ends
//!    say every now and then that they are there.
//!
//! On the stream a frame is its length, 4 bytes little-endian, and as many bytes. An empty frame
//! says that its sender is there. The server's first frame is empty: it tells the client that it is
//! admitted, which TLS 1.3 alone does not.
//!
//! What strangers can do: hold one of [`MAX_HANDSHAKES`] places for up to [`HANDSHAKE_TIMEOUT`],
//! until others need it. No frame of theirs is read.

#![forbid(unsafe_code)]

mod credentials;
mod error;
mod frame;
mod listener;

pub use credentials::Credentials;
pub use error::{ChannelError, SendError};
pub use frame::{BINDING_LEN, Channel, FRAME_HEAD_LEN, Inbox, Outbox, STALL_TIMEOUT};
pub use listener::{Counters, Listener, MAX_HANDSHAKES, MAX_HANDSHAKES_A_SOURCE};

use std::net::SocketAddr;
use std::time::Duration;

use rhumb_wire::Name;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::{TlsConnector, TlsStream};

/// What is spoken on a channel, and its bounds. Both ends must name the same
/// one; what one may send, the other must take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol {
    /// Name and version, as in `rhumb-member/1`: who speaks another version is told so.
    pub name: &'static str,
    /// The longest message in bytes that is taken.
    pub max_received: usize,
    /// The longest message in bytes that can be sent.
    pub max_sent: usize,
    /// Bytes that may wait to be sent, at least one longest message.
    pub max_queue: usize,
}

/// Opens a channel to `address`, where `name` must answer.
///
/// # Errors
///
/// [`ChannelError::WrongName`] when somebody else answers, [`ChannelError::Refused`] when our name
/// is not admitted there, [`ChannelError::OtherProtocol`], and whatever TCP and TLS say.
pub async fn connect(
    credentials: &Credentials,
    address: SocketAddr,
    name: Name,
    protocol: &Protocol,
) -> Result<Channel, ChannelError> {
    connect_to(credentials, address, Some(name), protocol).await
}

/// Opens a channel to whoever answers at `address`, who proves a name that nobody said beforehand.
/// Only for what is agreed on by something else that is bound to this channel
/// ([`Channel::binding`]): until then somebody in the middle may be at the other end.
///
/// # Errors
///
/// As [`connect`], but for the wrong name.
pub async fn connect_to_anybody(
    credentials: &Credentials,
    address: SocketAddr,
    protocol: &Protocol,
) -> Result<Channel, ChannelError> {
    connect_to(credentials, address, None, protocol).await
}

async fn connect_to(
    credentials: &Credentials,
    address: SocketAddr,
    name: Option<Name>,
    protocol: &Protocol,
) -> Result<Channel, ChannelError> {
    let shake = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(credentials.client(name, protocol)?);
        // Nothing depends on it: the name is in the certificate, and none is sent in the clear.
        let nobody = ServerName::IpAddress(address.ip().into());
        let stream = connector.connect(nobody, stream).await?;
        let mut channel = Channel::start(TlsStream::Client(stream), address, *protocol, None)?;
        channel.inbox.wait_for_welcome().await?;
        Ok(channel)
    };
    let outcome = timeout(HANDSHAKE_TIMEOUT, shake).await.unwrap_or(Err(ChannelError::TimedOut));
    outcome.map_err(|error: ChannelError| error.explained(credentials.name(), protocol.name))
}

/// Between neighbours a handshake takes milliseconds; a machine
/// at its limits gets a thousand times as long.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often an end that has nothing to say says that it is there.
pub const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// After this long without a byte the other end is gone:
/// three times it did not say that it is there.
pub const SILENCE: Duration = Duration::from_secs(16);
