//! The first words with each node that was named, before the driver speaks to any: whether it is
//! there, proves who it is, and speaks as it is spoken to.
//!
//! The driver waits without an end for a handshake, and tells neither which node failed nor why it
//! ended a connection. So nothing but `OPTIONS`, which everybody may ask, is sent here, and nodes
//! that do not answer it are left out: the driver hears of them from the others. Those that it
//! hears of are greeted, too, each time before it connects ([`Greeter`]).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rhumb_rib::RibError;
use rustls::pki_types::ServerName;
use scylla::errors::TranslationError;
use scylla::policies::address_translator::{AddressTranslator, UntranslatedPeer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use crate::CqlAddress;
use crate::tls::{TlsFault, TrustAnchors};

/// Those of the nodes that answer, by TLS if there are certificates to believe.
pub(crate) async fn answering(
    address: &CqlAddress,
    anchors: Option<&TrustAnchors>,
    patience: Duration,
) -> Result<Vec<String>, RibError> {
    let mut greetings = JoinSet::new();
    for node in address.nodes() {
        let (node, anchors) = (node.clone(), anchors.cloned());
        greetings.spawn(async move {
            let told = greet(&node, anchors).await;
            (node, told)
        });
    }
    let (mut nodes, mut faults, mut away) = (Vec::new(), Vec::new(), None);
    let mut until = Instant::now() + patience;
    while let Ok(Some(told)) = timeout_at(until, greetings.join_next()).await {
        match told {
            Ok((node, Ok(()))) => {
                nodes.push(node);
                until = until.min(Instant::now() + GRACE);
            }
            Ok((node, Err(Silence::Fault(source)))) => {
                faults.push(RibError::StoreNotTrusted { node, source: Box::new(source) });
            }
            Ok((_, Err(Silence::Away(error)))) => away = Some(error),
            Err(error) => away = Some(io::Error::other(error)),
        }
    }
    if !nodes.is_empty() {
        for error in faults {
            tracing::warn!(%error, "going on without it");
        }
        return Ok(nodes);
    }
    Err(faults.pop().unwrap_or_else(|| RibError::StoreUnreachable {
        nodes: address.nodes().join(","),
        source: Box::new(away.unwrap_or_else(|| io::ErrorKind::TimedOut.into())),
    }))
}

/// Why a node did not answer.
enum Silence {
    Fault(TlsFault),
    Away(io::Error),
}

impl From<io::Error> for Silence {
    fn from(error: io::Error) -> Self {
        match TlsFault::of(error) {
            Ok(fault) => Self::Fault(fault),
            Err(error) => Self::Away(error),
        }
    }
}

/// Greets a node before the driver connects to it by TLS: else one that hangs would keep the driver
/// from beginning, and from looking at the cluster again.
pub(crate) struct Greeter {
    pub(crate) anchors: TrustAnchors,
    pub(crate) patience: Duration,
}

#[async_trait]
impl AddressTranslator for Greeter {
    /// Translates nothing: it is what the driver asks before each connection.
    async fn translate_address(
        &self,
        peer: &UntranslatedPeer,
    ) -> Result<SocketAddr, TranslationError> {
        let address = peer.untranslated_address();
        let node = address.to_string();
        let told = match timeout(self.patience, greet(&node, Some(self.anchors.clone()))).await {
            Ok(Err(Silence::Fault(fault))) => Err(io::Error::other(fault)),
            Ok(Err(Silence::Away(error))) => Err(error),
            Ok(Ok(())) => Ok(address),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        told.map_err(|error| TranslationError::IoError(Arc::new(error)))
    }
}

async fn greet(node: &str, anchors: Option<TrustAnchors>) -> Result<(), Silence> {
    let stream = TcpStream::connect(node).await?;
    let Some(anchors) = anchors else {
        return match ask(stream).await {
            Ok(TLS_ALERT) => Err(Silence::Fault(TlsFault::Wanted)),
            Err(error) if is_end(&error) => Err(Silence::Fault(TlsFault::Wanted)),
            told => Ok(told.map(drop)?),
        };
    };
    let name = ServerName::IpAddress(stream.peer_addr()?.ip().into());
    match TlsConnector::from(anchors.client()).connect(name, stream).await {
        Ok(stream) => Ok(ask(stream).await.map(drop)?),
        Err(error) if is_end(&error) => Err(Silence::Fault(TlsFault::NotThere)),
        Err(error) => Err(error.into()),
    }
}

/// Asks what the node offers, and returns the first byte of its answer.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<u8> {
    stream.write_all(&OPTIONS).await?;
    stream.flush().await?;
    stream.read_u8().await
}

/// Whether the other side ended the connection.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// CQL 4, no flags, stream 0, OPTIONS, and no body.
const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];
/// What an alert of TLS begins with.
const TLS_ALERT: u8 = 21;
/// How long other nodes are waited for after one has answered.
const GRACE: Duration = Duration::from_millis(500);
