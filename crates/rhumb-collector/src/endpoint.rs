//! Where a collector is: an address as people write it, `http://HOST:PORT`.
//!
//! Invariant: what is in it can stand in the head of a request as it is.

use std::fmt;
use std::net::IpAddr;

use http::Uri;

use crate::error::CollectorError;

/// An address of a receiver of OTLP over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    is_secure: bool,
    /// Without the brackets that an IPv6 address has.
    host: String,
    port: u16,
    path: String,
}

impl Endpoint {
    /// `http` or `https`, a host, and a port if it is not the usual one of these. Metrics go to
    /// `/v1/metrics` below the path, unless it ends so.
    ///
    /// # Errors
    /// When it is anything else: it has no user and no question, which would be secrets in a log.
    pub fn parse(text: &str) -> Result<Self, CollectorError> {
        let uri: Uri = text.parse().map_err(|_| CollectorError::Endpoint)?;
        let (is_secure, usual) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            _ => return Err(CollectorError::Endpoint),
        };
        let authority = uri.authority().ok_or(CollectorError::Endpoint)?;
        let is_plain = !authority.as_str().contains('@') && uri.query().is_none();
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        let has_port = authority.as_str().len() > authority.host().len();
        if !is_plain || host.is_empty() || (has_port && authority.port_u16().is_none()) {
            return Err(CollectorError::Endpoint);
        }
        let below = uri.path().trim_end_matches('/');
        let path = match below.ends_with(METRICS) {
            true => below.to_owned(),
            false => format!("{below}{METRICS}"),
        };
        let port = authority.port_u16().unwrap_or(usual);
        Ok(Self { is_secure, host: host.to_owned(), port, path })
    }

    /// Whether it is reached over TLS.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Whether others can read what goes there: it is plain text that leaves this host.
    pub fn is_open_to_others(&self) -> bool {
        let is_here = self.host == "localhost"
            || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        !self.is_secure && !is_here
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

/// Where the protocol has them.
const METRICS: &str = "/v1/metrics";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_a_host_and_where_below_it() {
        for (text, whole) in [
            ("http://localhost:4318", "http://localhost:4318/v1/metrics"),
            ("https://c.example", "https://c.example:443/v1/metrics"),
            ("https://c.example/otlp/", "https://c.example:443/otlp/v1/metrics"),
            ("http://[::1]:4318/v1/metrics", "http://[::1]:4318/v1/metrics"),
            ("http://192.0.2.1", "http://192.0.2.1:80/v1/metrics"),
        ] {
            assert_eq!(Endpoint::parse(text).unwrap().to_string(), whole);
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "localhost:4318",
            "ftp://c.example",
            "grpc://c.example:4317",
            "http://",
            "http://user:secret@c.example",
            "http://c.example/?token=secret",
            "/v1/metrics",
            "http://c.example:99999",
            "http://c.example:",
            "http://c example",
            "http://c.example/a\r\nX: y",
        ] {
            assert_eq!(Endpoint::parse(text), Err(CollectorError::Endpoint), "{text}");
        }
    }

    #[test]
    fn plain_text_to_another_host_is_open_to_others() {
        for (text, is_open) in [
            ("http://localhost", false),
            ("http://127.0.0.9", false),
            ("http://[::1]", false),
            ("http://192.0.2.1", true),
            ("http://localhost.example", true),
            ("https://192.0.2.1", false),
        ] {
            assert_eq!(Endpoint::parse(text).unwrap().is_open_to_others(), is_open, "{text}");
        }
    }
}
