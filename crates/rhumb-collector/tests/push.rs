//! What is pushed to collectors that take it, and to such as hang, lie, redirect or drip.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rhumb_collector::{AnswerFault, Collector, Endpoint, PushError};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// Takes a request and says `answer`: what was asked.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str) -> String {
    let mut asked = Vec::new();
    while !asked.ends_with(BODY) {
        if stream.read_buf(&mut asked).await.unwrap() == 0 {
            break;
        }
    }
    // Who does not like it hangs up.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
    String::from_utf8(asked).unwrap()
}

/// A collector that gives one answer, and what it was asked.
async fn plain(given: &'static str) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        answer(stream, given).await
    });
    (url, asked)
}

fn collector(url: &str, headers: &str, anchors: Option<&[u8]>) -> Collector {
    Collector::new(Endpoint::parse(url).unwrap(), "rhumb/test", headers, anchors).unwrap()
}

/// A certificate as people keep it.
fn pem(der: &[u8]) -> String {
    let text = data_encoding::BASE64.encode(der);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

const BODY: &[u8] = b"{\"resourceMetrics\":[]}";
const TAKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

#[tokio::test]
async fn a_collector_is_posted_json_with_what_the_operator_adds() {
    let (url, asked) = plain(TAKEN).await;
    collector(&url, "X-Scope: fra1", None).push(BODY).await.unwrap();
    let asked = asked.await.unwrap();
    let (head, body) = asked.split_once("\r\n\r\n").unwrap();
    assert_eq!(body.as_bytes(), BODY);
    assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\nHost: 127.0.0.1:"), "{head}");
    for line in ["Content-Type: application/json", "Content-Length: 22", "X-Scope: fra1"] {
        assert!(head.contains(&format!("\r\n{line}")), "{line}: {head}");
    }
}

#[tokio::test]
async fn what_refuses_redirects_or_does_not_speak_has_taken_nothing() {
    let redirects = "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://evil.example/\r\n\r\n";
    for (given, code) in [("HTTP/1.1 503 Busy\r\nRetry-After: 60\r\n\r\n", 503), (redirects, 307)] {
        let (url, _asked) = plain(given).await;
        let refused = collector(&url, "", None).push(BODY).await.unwrap_err();
        assert!(matches!(refused, PushError::Refused { code: it } if it == code), "{refused}");
    }
    for (given, fault) in
        [("+PONG\r\n", AnswerFault::Malformed), ("HTTP/1.1 2", AnswerFault::Short)]
    {
        let (url, _asked) = plain(given).await;
        let wrong = collector(&url, "", None).push(BODY).await.unwrap_err();
        assert!(matches!(wrong, PushError::Answer(it) if it == fault), "{given}: {wrong}");
    }
}

#[tokio::test]
async fn an_answer_without_end_is_not_read_to_its_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        while stream.write_all(b"X-More: and more and more and more\r\n").await.is_ok() {}
    });
    let wrong = collector(&url, "", None).push(BODY).await.unwrap_err();
    // More headers than there may be, or more bytes: whichever is seen first.
    assert!(matches!(wrong, PushError::Answer(_)), "{wrong}");
}

#[tokio::test]
async fn over_tls_it_is_told_only_if_somebody_trusted_says_who_it_is() {
    let made = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let CertifiedKey { cert, signing_key } = made;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let told = tokio::spawn(async move {
        let mut told = Vec::new();
        for _ in 0..3 {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(stream) = acceptor.accept(stream).await {
                told.push(answer(stream, TAKEN).await);
            }
        }
        told
    });
    let own = pem(cert.der());
    let token = "Authorization: Bearer secret";
    let at = |host: &str, anchors: &str| {
        collector(&format!("https://{host}:{port}"), token, Some(anchors.as_bytes()))
    };
    at("localhost", &own).push(BODY).await.unwrap();
    // By another name than its certificate has, and by somebody else's word.
    at("127.0.0.1", &own).push(BODY).await.unwrap_err();
    let other = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let other = pem(other.cert.der());
    at("localhost", &other).push(BODY).await.unwrap_err();
    let told = told.await.unwrap();
    assert_eq!(told.iter().filter(|it| it.contains("Bearer secret")).count(), 1, "{told:?}");
}
