//! The door: handshakes are made side by side, in a bounded number of
//! places, and only names that are admitted come out.
//!
//! When all places are taken, the oldest handshake makes room, and one source never has more than
//! its share. So strangers who connect and say nothing cost a member at most a second try.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rhumb_wire::Name;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::{TlsAcceptor, TlsStream};

use crate::credentials::Credentials;
use crate::{Channel, ChannelError, HANDSHAKE_TIMEOUT, Protocol};

/// A socket that channels come in by.
pub struct Listener {
    socket: TcpListener,
    acceptor: TlsAcceptor,
    protocols: Arc<[Protocol]>,
    handshakes: JoinSet<(IpAddr, Result<Channel, ChannelError>)>,
    /// In the order in which they began.
    places: Vec<Place>,
    counters: Arc<Counters>,
}

/// A handshake under way.
struct Place {
    source: IpAddr,
    handle: AbortHandle,
}

/// What came to the door, by outcome. All only grow.
#[derive(Debug, Default)]
pub struct Counters {
    /// Channels that came about.
    pub opened: AtomicU64,
    /// Names that are not admitted, and peers that prove none.
    pub strangers: AtomicU64,
    /// Peers that speak another protocol or version.
    pub other_protocols: AtomicU64,
    /// Handshakes that failed in another way.
    pub failed: AtomicU64,
    /// Handshakes that took too long, or made room for others.
    pub late: AtomicU64,
    /// Connections of sources that had their share of handshakes already.
    pub crowded: AtomicU64,
}

impl Listener {
    /// Listens on `address` for channels of one of `protocols`, from the names that `admits` says.
    ///
    /// # Errors
    ///
    /// When the address cannot be had.
    pub async fn bind(
        address: SocketAddr,
        credentials: &Credentials,
        protocols: &[Protocol],
        admits: impl Fn(Name) -> bool + Send + Sync + 'static,
    ) -> Result<Self, ChannelError> {
        let config = credentials.server(protocols, Arc::new(admits))?;
        Ok(Self {
            socket: TcpListener::bind(address).await?,
            acceptor: TlsAcceptor::from(config),
            protocols: protocols.into(),
            handshakes: JoinSet::new(),
            places: Vec::new(),
            counters: Arc::default(),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// What came to the door so far.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// The next channel. May be dropped before it is done and called again: handshakes go on.
    pub async fn accept(&mut self) -> Channel {
        loop {
            tokio::select! {
                Some(done) = self.handshakes.join_next() => {
                    self.places.retain(|place| !place.handle.is_finished());
                    if let Some(channel) = self.judge(done) {
                        return channel;
                    }
                }
                connection = self.socket.accept() => match connection {
                    Ok((stream, source)) => self.begin(stream, source),
                    Err(error) => {
                        tracing::warn!(%error, "a connection could not be taken");
                        sleep(ERROR_PAUSE).await;
                    }
                },
            }
        }
    }

    fn begin(&mut self, stream: TcpStream, address: SocketAddr) {
        let source = address.ip().to_canonical();
        let of_source = self.places.iter().filter(|place| place.source == source).count();
        if of_source >= MAX_HANDSHAKES_A_SOURCE {
            self.counters.crowded.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if self.places.len() >= MAX_HANDSHAKES {
            self.places.remove(0).handle.abort();
        }
        let acceptor = self.acceptor.clone();
        let protocols = Arc::clone(&self.protocols);
        let handle = self.handshakes.spawn(async move {
            let shake = shake(acceptor, stream, address, &protocols);
            let outcome = timeout(HANDSHAKE_TIMEOUT, shake).await;
            (source, outcome.unwrap_or(Err(ChannelError::TimedOut)))
        });
        self.places.push(Place { source, handle });
    }

    /// Counts what came of a handshake.
    fn judge(
        &self,
        done: Result<(IpAddr, Result<Channel, ChannelError>), tokio::task::JoinError>,
    ) -> Option<Channel> {
        let (counter, outcome) = match done {
            Ok((_, Ok(channel))) => (&self.counters.opened, Some(channel)),
            Ok((source, Err(error))) => {
                tracing::debug!(%source, %error, "a handshake failed");
                let counter = match error {
                    ChannelError::Stranger(_) | ChannelError::Identity(_) => {
                        &self.counters.strangers
                    }
                    ChannelError::OtherProtocol { .. } => &self.counters.other_protocols,
                    ChannelError::TimedOut => &self.counters.late,
                    _ => &self.counters.failed,
                };
                (counter, None)
            }
            Err(_) => (&self.counters.late, None),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        outcome
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Counters {
    /// All of them, with names for metrics.
    #[must_use]
    pub fn each(&self) -> HashMap<&'static str, u64> {
        let all = [
            ("opened", &self.opened),
            ("stranger", &self.strangers),
            ("other_protocol", &self.other_protocols),
            ("failed", &self.failed),
            ("late", &self.late),
            ("crowded", &self.crowded),
        ];
        all.into_iter().map(|(name, counter)| (name, counter.load(Ordering::Relaxed))).collect()
    }
}

async fn shake(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    address: SocketAddr,
    protocols: &[Protocol],
) -> Result<Channel, ChannelError> {
    stream.set_nodelay(true)?;
    let names: Vec<&str> = protocols.iter().map(|protocol| protocol.name).collect();
    let other = || ChannelError::OtherProtocol { ours: names.join(", ") };
    let stream = match acceptor.accept(stream).await.map_err(ChannelError::from) {
        Err(ChannelError::Tls(rustls::Error::NoApplicationProtocol)) => return Err(other()),
        outcome => outcome?,
    };
    let session = stream.get_ref().1;
    let agreed = session.alpn_protocol();
    let known = protocols.iter().find(|protocol| Some(protocol.name.as_bytes()) == agreed);
    let protocol = known.ok_or_else(other)?;
    // The empty frame tells the client that it is admitted.
    let welcome = Some(Vec::new());
    Channel::start(TlsStream::Server(stream), address, *protocol, welcome)
}

/// Handshakes at a time: each holds some 50 kB. All members of a large
/// exchange that come back at once take some rounds.
pub const MAX_HANDSHAKES: usize = 256;
/// Of one address: sites of a member behind one router, or an exchange's test host, come at once.
pub const MAX_HANDSHAKES_A_SOURCE: usize = 64;
/// So that a socket that fails does not spin.
const ERROR_PAUSE: Duration = Duration::from_millis(100);
