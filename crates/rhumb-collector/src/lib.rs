//! The way to a collector of OpenTelemetry: one POST of what a daemon counts, over HTTP/1.1, or
//! over TLS where its address begins with `https`. What is posted is made by whoever counts.
//!
//! 1. [`Endpoint::parse`] takes the collector's address, without asking anybody.
//! 2. [`Collector::new`] reads who is trusted and what is said in headers.
//! 3. [`Collector::push`] connects, says it, and hears the status line: nothing is kept of what
//!    fails, since counts are sums and the next push says all of it again.
//!
//! Invariant: whatever answers, a push ends within [`DEADLINE`] and takes no more than
//! [`MAX_ANSWER_LEN`] bytes of it. It follows no redirection, so that what is pushed, and the
//! token with it, reaches nobody but whom the operator named.

#![forbid(unsafe_code)]

mod endpoint;
mod error;

pub use endpoint::Endpoint;
pub use error::{AnswerFault, CollectorError, PushError};

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

/// Whom it is told to, and how.
pub struct Collector {
    endpoint: Endpoint,
    /// With the name that its certificate has to show; nothing for plain text.
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// What stands in the head of each request, with tokens in it.
    head: Zeroizing<String>,
}

impl Collector {
    /// `headers` are lines of `Name: value` beside the usual ones, as for a token; `anchors` is a
    /// PEM text of those who sign the collector's certificate, in place of those whom the system
    /// trusts. `agent` says which program this is.
    ///
    /// # Errors
    /// When a header is none, or its value would travel in plain text to another host; when nobody
    /// is trusted.
    pub fn new(
        endpoint: Endpoint,
        agent: &str,
        headers: &str,
        anchors: Option<&[u8]>,
    ) -> Result<Self, CollectorError> {
        let mut head = Zeroizing::new(format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {agent}\r\nContent-Type: application/json\r\n\
             Connection: close\r\n",
            endpoint.path(),
            endpoint.authority(),
        ));
        let mut lines = headers.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        lines.try_for_each(|(number, line)| {
            if endpoint.is_open_to_others() {
                return Err(CollectorError::PlainText);
            }
            let refused = CollectorError::Header { line: number + 1 };
            let (name, value) = line.split_once(':').ok_or_else(|| refused.clone())?;
            let (name, value) = (name.trim(), value.trim());
            let is_name = HeaderName::from_bytes(name.as_bytes()).is_ok_and(|it| !is_ours(&it));
            if !is_name || HeaderValue::from_str(value).is_err() {
                return Err(refused);
            }
            for part in [name, ": ", value, "\r\n"] {
                head.push_str(part);
            }
            Ok(())
        })?;
        let tls = match endpoint.is_secure() {
            true => Some(secure(&endpoint, anchors)?),
            false => None,
        };
        Ok(Self { endpoint, tls, head })
    }

    /// Where it is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Says it, once.
    ///
    /// # Errors
    /// When the collector is not reached, does not prove who it is, does not answer within
    /// [`DEADLINE`], or refuses what was said.
    pub async fn push(&self, json: &[u8]) -> Result<(), PushError> {
        self.push_within(DEADLINE, json).await
    }

    async fn push_within(&self, deadline: Duration, json: &[u8]) -> Result<(), PushError> {
        timeout(deadline, self.push_now(json)).await.unwrap_or(Err(PushError::Late))
    }

    async fn push_now(&self, json: &[u8]) -> Result<(), PushError> {
        let at = (self.endpoint.host(), self.endpoint.port());
        let stream = TcpStream::connect(at).await.map_err(PushError::Connection)?;
        match &self.tls {
            None => self.say(stream, json).await,
            Some((connector, name)) => {
                let secure = connector.connect(name.clone(), stream).await;
                self.say(secure.map_err(PushError::Connection)?, json).await
            }
        }
    }

    async fn say<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        mut stream: S,
        json: &[u8],
    ) -> Result<(), PushError> {
        let length = format!("Content-Length: {}\r\n\r\n", json.len());
        for part in [self.head.as_bytes(), length.as_bytes(), json] {
            stream.write_all(part).await.map_err(PushError::Connection)?;
        }
        stream.flush().await.map_err(PushError::Connection)?;
        let mut answer = Vec::with_capacity(512);
        loop {
            match status(&answer)? {
                Some(200..=299) => return Ok(()),
                Some(code) => return Err(PushError::Refused { code }),
                None if answer.len() >= MAX_ANSWER_LEN => return Err(AnswerFault::Long.into()),
                None => {}
            }
            let mut rest = (&mut stream).take((MAX_ANSWER_LEN - answer.len()) as u64);
            match rest.read_buf(&mut answer).await {
                Ok(0) => return Err(AnswerFault::Short.into()),
                Ok(_) => {}
                Err(error) => return Err(PushError::Connection(error)),
            }
        }
    }
}

impl fmt::Debug for Collector {
    /// Without headers: a token may be among them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

/// The code of an answer, when its head is there.
fn status(answer: &[u8]) -> Result<Option<u16>, AnswerFault> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(answer) {
        Ok(httparse::Status::Complete(_)) => Ok(response.code),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(_) => Err(AnswerFault::Malformed),
    }
}

/// Whether a header says how long a request is and whom it is for, which is not the operator's.
fn is_ours(name: &HeaderName) -> bool {
    use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
    [CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING].contains(name)
}

fn secure(
    endpoint: &Endpoint,
    anchors: Option<&[u8]>,
) -> Result<(TlsConnector, ServerName<'static>), CollectorError> {
    let mut roots = RootCertStore::empty();
    match anchors {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|_| CollectorError::Anchors)?;
                roots.add(certificate).map_err(|_| CollectorError::Anchors)?;
            }
        }
        None => {
            let system = rustls_native_certs::load_native_certs();
            // Some systems have old ones that nothing reads; the others count.
            roots.add_parsable_certificates(system.certs);
        }
    }
    if roots.is_empty() {
        return Err(CollectorError::Anchors);
    }
    let config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("invariant: the provider has cipher suites of all versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(endpoint.host().to_owned());
    let name = name.map_err(|_| CollectorError::Endpoint)?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

/// Connecting, saying it and hearing the answer.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// Of an answer's head, which is all that is read.
pub const MAX_ANSWER_LEN: usize = 16 << 10;
const MAX_HEADERS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str, headers: &str) -> Result<Collector, CollectorError> {
        Collector::new(Endpoint::parse(url).unwrap(), "rhumb/0", headers, None)
    }

    #[test]
    fn a_header_says_nothing_that_is_not_the_operators_and_nothing_in_plain_text() {
        let local = "http://127.0.0.1:4318";
        let told = at(local, "Authorization: Bearer x\n\nX-Scope: a b\n").unwrap();
        assert!(told.head.ends_with("Authorization: Bearer x\r\nX-Scope: a b\r\n"));
        for wrong in ["no colon", "a b: c", ": c", "Host: other", "content-length: 3", "X: \u{7f}"]
        {
            let refused = at(local, &format!("X-Fine: yes\n{wrong}")).unwrap_err();
            assert_eq!(refused, CollectorError::Header { line: 2 }, "{wrong}");
        }
        let open = at("http://192.0.2.1:4318", "Authorization: Bearer x").unwrap_err();
        assert_eq!(open, CollectorError::PlainText);
        assert!(at("http://192.0.2.1:4318", "").is_ok());
        assert!(!format!("{told:?}").contains("Bearer"));
    }

    #[test]
    fn nobody_is_trusted_by_a_text_without_a_certificate() {
        let endpoint = Endpoint::parse("https://collector.example").unwrap();
        let refused = Collector::new(endpoint, "rhumb/0", "", Some(b"nothing in it"));
        assert_eq!(refused.unwrap_err(), CollectorError::Anchors);
    }

    #[tokio::test]
    async fn one_that_takes_all_and_answers_nothing_is_waited_for_no_longer_than_was_said() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let collector = at(&format!("http://{}", listener.local_addr().unwrap()), "").unwrap();
        let soon = Duration::from_millis(50);
        let late = collector.push_within(soon, b"{}").await.unwrap_err();
        assert!(matches!(late, PushError::Late), "{late}");
        drop(listener);
        let gone = collector.push(b"{}").await.unwrap_err();
        assert!(matches!(gone, PushError::Connection(_)), "{gone}");
    }

    #[test]
    fn an_answer_is_its_status_line() {
        assert_eq!(status(b"").unwrap(), None);
        assert_eq!(status(b"HTTP/1.1 200 OK\r\nA: b\r\n").unwrap(), None);
        assert_eq!(status(b"HTTP/1.1 204 \r\n\r\nrest").unwrap(), Some(204));
        assert_eq!(status(b"SSH-2.0-x\r\n").unwrap_err(), AnswerFault::Malformed);
    }
}
