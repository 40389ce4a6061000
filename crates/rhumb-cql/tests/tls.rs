//! Nodes are spoken to in TLS where there are certificates to believe, and never in anything else;
//! a node that cannot be spoken to says why.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::spawn;
use std::time::Duration;

use rhumb_cql::{Cluster, CqlAddress, Credentials, TlsFault};
use rhumb_rib::RibError;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig, ServerConnection, Stream, SupportedProtocolVersion,
};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use crate::cassandra::certificates::{Authority, Valid};
use crate::cassandra::{Cassandra, Purpose, USER};
use crate::world::{anchors, connect_to, options, with_cluster, with_cluster_for};

/// Why no node of an address is spoken to, if these certificates are believed.
async fn refusal(address: &CqlAddress, believed: Option<&Authority>) -> RibError {
    let mut options = options();
    options.trust_anchors = believed.map(anchors);
    Cluster::connect(address, options).await.expect_err("nobody to speak to")
}

/// As [`refusal`], of a node that is there.
async fn fault(address: &CqlAddress, believed: Option<&Authority>) -> TlsFault {
    let RibError::StoreNotTrusted { node, source } = refusal(address, believed).await else {
        panic!("a node that is there")
    };
    assert_eq!(node, address.nodes()[0]);
    source.downcast_ref::<TlsFault>().expect("a fault of TLS").clone()
}

fn address_of(nodes: &[SocketAddr]) -> CqlAddress {
    let nodes: Vec<_> = nodes.iter().map(ToString::to_string).collect();
    format!("cql://{}/rib", nodes.join(",")).parse().expect("an address")
}

/// Carries connections to somewhere, as whoever stands in between would.
fn relay(to: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.93.9:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = TcpStream::connect(&to) else { return };
            for (from, into) in [(&near, &far), (&far, &near)] {
                let copies = [from, into].map(|it| it.try_clone().expect("a socket"));
                let [mut from, mut into] = copies;
                spawn(move || {
                    let _ = std::io::copy(&mut from, &mut into);
                    let _ = into.shutdown(Shutdown::Both);
                });
            }
        }
    });
    address
}

/// Answers each connection with a handshake, and ends it when the client does.
fn serve(config: ServerConfig) -> SocketAddr {
    let listener = TcpListener::bind("127.0.93.9:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let config = Arc::new(config);
    spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut connection = ServerConnection::new(config.clone()).expect("a connection");
            let mut stream = Stream::new(&mut connection, &mut stream);
            let _ = stream.read(&mut [0; 9]).and_then(|_| stream.write_all(&[0x84]));
        }
    });
    address
}

/// A server with a certificate of the address that [`serve`] is at.
fn server(
    version: &'static SupportedProtocolVersion,
    authority: &Authority,
    valid: Valid,
    clients: Option<&Authority>,
) -> ServerConfig {
    let builder = ServerConfig::builder_with_provider(default_provider().into());
    let builder = builder.with_protocol_versions(&[version]).expect("a version");
    let builder = match clients {
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from(clients.certificate().to_vec())).expect("a root");
            let verifier = WebPkiClientVerifier::builder_with_provider(
                roots.into(),
                default_provider().into(),
            );
            builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
        }
        None => builder.with_no_client_auth(),
    };
    let certified = authority.sign("127.0.93.9", valid);
    let key = PrivateKeyDer::try_from(certified.key).expect("a key");
    builder.with_single_cert(vec![certified.certificate.into()], key).expect("a certificate")
}

#[test]
fn a_node_that_does_not_prove_to_be_at_its_address_is_told_nothing() {
    with_cluster_for(Purpose::Secured, async |cluster| {
        let address = cluster.address("rib");
        let authority = cluster.authority().expect("it speaks TLS");
        assert_eq!(fault(&address, Some(&Authority::new())).await, TlsFault::Issuer);
        let elsewhere = address_of(&[relay(address.nodes()[0].clone())]);
        let TlsFault::Address { names } = fault(&elsewhere, Some(authority)).await else {
            panic!("it is of another address")
        };
        let host = address.nodes()[0].split(':').next().expect("a host");
        assert!(names.len() == 1 && names[0].contains(host), "{names:?}");
        // In plain text it gets no password, whoever forgot to say what is to be believed.
        assert_eq!(fault(&address, None).await, TlsFault::Wanted);
    });
}

#[test]
fn who_has_a_wrong_password_is_refused_in_tls_too() {
    with_cluster_for(Purpose::Secured, async |cluster| {
        for given in [None, Some("cassandra:wrong")] {
            let mut options = options();
            options.trust_anchors = cluster.authority().map(anchors);
            options.credentials = given.map(|given| Credentials::parse(given).unwrap());
            let refused = Cluster::connect(&cluster.address("rib"), options).await;
            assert!(matches!(refused, Err(RibError::StoreRefusesUser { .. })), "{refused:?}");
        }
    });
}

#[test]
fn nodes_that_cannot_be_spoken_to_keep_nobody_from_the_others() {
    with_cluster_for(Purpose::Secured, async |cluster| {
        let silent = TcpListener::bind("127.0.93.9:0").unwrap();
        let real = cluster.address("rib").nodes()[0].clone();
        let others = [silent.local_addr().unwrap(), relay(real.clone())];
        let all = format!("cql://{},{},{real}/rib", others[0], others[1]).parse().unwrap();
        let mut options = options();
        options.patience = Duration::from_secs(15);
        options.trust_anchors = cluster.authority().map(anchors);
        Cluster::connect(&all, options).await.unwrap().check_schema().await.unwrap();
    });
}

#[test]
fn a_node_of_the_cluster_that_hangs_keeps_no_server_from_beginning() {
    with_cluster_for(Purpose::Secured, async |cluster| {
        let address = cluster.address("rib");
        let (_, port) = address.nodes()[0].split_once(':').unwrap();
        // A node of which the real one says that it is there.
        let silent = TcpListener::bind(format!("127.0.93.9:{port}")).unwrap();
        let session = session(cluster).await;
        let write = "INSERT INTO system.peers (peer, rpc_address, host_id, data_center, rack, tokens, \
             release_version) VALUES ('127.0.93.9', '127.0.93.9', uuid(), 'dc1', 'r9', {'7'}, '5.0.9')";
        session.query_unpaged(write, ()).await.unwrap();
        let mut options = options();
        options.trust_anchors = cluster.authority().map(anchors);
        let begun = Cluster::connect(&address, options).await;
        let is_tried = silent.set_nonblocking(true).and_then(|()| silent.accept()).is_ok();
        let write = "DELETE FROM system.peers WHERE peer = '127.0.93.9'";
        session.query_unpaged(write, ()).await.unwrap();
        begun.unwrap().check_schema().await.unwrap();
        assert!(is_tried);
    });
}

/// The driver's own, to write what no server would.
async fn session(cluster: &Cassandra) -> Session {
    let mut roots = RootCertStore::empty();
    let authority = cluster.authority().expect("it speaks TLS");
    roots.add(CertificateDer::from(authority.certificate().to_vec())).expect("a root");
    let builder = ClientConfig::builder_with_provider(default_provider().into());
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    let session = SessionBuilder::new().known_nodes(cluster.address("rib").nodes());
    let session = session.user(USER, USER).tls_context(Some(Arc::new(config)));
    session.build().await.expect("a connection")
}

#[test]
fn a_node_that_speaks_no_tls_is_not_spoken_to_otherwise() {
    with_cluster(async |cluster| {
        let address = cluster.address("rib");
        assert_eq!(
            fault(&cluster.address_of(&[1], "rib"), Some(&Authority::new())).await,
            TlsFault::NotThere
        );
        connect_to(&address).await.check_schema().await.unwrap();
    });
}

#[test]
fn what_is_wrong_with_a_certificate_is_told() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let authority = Authority::new();
        for version in [&TLS12, &TLS13] {
            let fault = async |valid, clients| {
                let server = server(version, &authority, valid, clients);
                fault(&address_of(&[serve(server)]), Some(&authority)).await
            };
            for valid in [Valid::Formerly, Valid::Later] {
                assert_eq!(fault(valid, None).await, TlsFault::Time, "{valid:?}, {version:?}");
            }
            let asked = fault(Valid::Now, Some(&authority)).await;
            assert_eq!(asked, TlsFault::ClientCertificate, "{version:?}");
        }
    });
}

#[test]
fn a_node_that_says_nothing_is_not_waited_for_without_end() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let silent = TcpListener::bind("127.0.93.9:0").unwrap();
        let address = address_of(&[silent.local_addr().unwrap()]);
        for believed in [None, Some(&Authority::new())] {
            let RibError::StoreUnreachable { nodes, .. } = refusal(&address, believed).await else {
                panic!("it says nothing")
            };
            assert_eq!(nodes, address.nodes()[0]);
        }
    });
}
