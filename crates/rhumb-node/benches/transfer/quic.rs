//! Plain QUIC, as programs without names use it: quinn on sockets of its own, one stream from the
//! near end to the far one, without a router between them.
//!
//! It is as it comes, but for windows as wide as those of TCP beside it, and the congestion control
//! that is asked for.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;

use quinn::congestion::{BbrConfig, CubicConfig};
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig, VarInt};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::time::timeout;

use crate::file::runtime;
use crate::flows::{LOOKS_EVERY, Progress};
use crate::place::Place;

/// Brings so many bytes from the near end to the far one.
pub(crate) fn over(place: &Place<'_>, control: &str, bytes: u64, progress: &Progress) {
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| place.far(move || take(place.address, &tell, bytes, progress)));
        let (to, certificate) = told.recv().expect("a server");
        place.near(|| give(to, certificate, control, bytes, progress));
    });
}

fn take(
    at: IpAddr,
    tell: &mpsc::Sender<(SocketAddr, CertificateDer<'static>)>,
    bytes: u64,
    progress: &Progress,
) {
    runtime().block_on(async {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed([NAME.to_owned()]).expect("a certificate");
        let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
        let config = ServerConfig::with_single_cert(vec![cert.der().clone()], key.into());
        let mut config = config.expect("a key that fits");
        config.transport_config(Arc::new(transport(None)));
        let endpoint = Endpoint::server(config, SocketAddr::new(at, 0)).expect("a port");
        let address = endpoint.local_addr().expect("an address");
        tell.send((address, cert.der().clone())).expect("somebody who connects");
        let incoming = endpoint.accept().await.expect("a connection");
        let connection = incoming.await.expect("a handshake");
        read(&connection, bytes, progress).await;
        connection.close(VarInt::from_u32(0), b"");
        // Its last words are on their way then.
        endpoint.wait_idle().await;
    });
}

async fn read(connection: &Connection, bytes: u64, progress: &Progress) {
    let Ok(mut stream) = connection.accept_uni().await else { return };
    while !progress.is_over(bytes) {
        match timeout(LOOKS_EVERY, stream.read_chunk(usize::MAX, true)).await {
            Ok(Ok(Some(chunk))) => {
                progress.arrived.fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed);
            }
            Ok(_) => return,
            Err(_) => {}
        }
    }
}

fn give(
    to: SocketAddr,
    certificate: CertificateDer<'static>,
    control: &str,
    bytes: u64,
    progress: &Progress,
) {
    runtime().block_on(async {
        let mut roots = RootCertStore::empty();
        roots.add(certificate).expect("a certificate of our own");
        let mut config = ClientConfig::with_root_certificates(Arc::new(roots)).expect("TLS 1.3");
        config.transport_config(Arc::new(transport(Some(control))));
        let endpoint = Endpoint::client(([0, 0, 0, 0], 0).into()).expect("a port");
        let connecting = endpoint.connect_with(config, to, NAME).expect("an address");
        let connection = connecting.await.expect("a handshake");
        let written = write(&connection, bytes, progress).await;
        // The other end closes when it has all, or wants no more.
        assert!(written.is_ok() || progress.is_over(bytes), "{written:?}");
        connection.closed().await;
        endpoint.wait_idle().await;
    });
}

async fn write(
    connection: &Connection,
    bytes: u64,
    progress: &Progress,
) -> Result<(), quinn::WriteError> {
    let mut stream = connection.open_uni().await?;
    let part = vec![0x5A; 64 << 10];
    let mut left = bytes;
    while left > 0 && !progress.stop.load(Ordering::Relaxed) {
        let write = stream.write(&part[..part.len().min(left as usize)]);
        if let Ok(written) = timeout(LOOKS_EVERY, write).await {
            left -= written? as u64;
        }
    }
    // That it was closed before is told by what has not arrived.
    let _ = stream.finish();
    Ok(())
}

fn transport(control: Option<&str>) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(WINDOW)).send_window(WINDOW.into());
    match control {
        Some("bbr") => transport.congestion_controller_factory(Arc::new(BbrConfig::default())),
        Some(_) => transport.congestion_controller_factory(Arc::new(CubicConfig::default())),
        None => &mut transport,
    };
    transport
}

const NAME: &str = "far.example";
/// As TCP's buffers are.
const WINDOW: u32 = 32 << 20;
