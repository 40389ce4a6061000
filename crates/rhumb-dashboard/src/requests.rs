//! Which requests are answered at all, by their heads alone, before anything else is looked at.
//!
//! - `Host` is an address, `localhost`, or a name that the dashboard was told to go by: a page
//!   under a name of somebody else's, which that one lets point here, is refused (DNS rebinding).
//!   While the dashboard listens on loopback, so is every address that is not.
//! - `Origin`, where there is one, is that host: no other site's page is answered, nor one of
//!   another port.
//! - `Sec-Fetch-Site`, by which browsers say who asks, is `same-origin`, or `none` for who typed
//!   the address.
//!
//! No answer permits another origin anything (CORS): there is no header here that would.

use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::{HOST, HeaderName, ORIGIN};

/// By what the dashboard is called.
#[derive(Debug, Clone)]
pub(crate) struct Called {
    /// Names besides addresses and `localhost`, in small letters.
    pub(crate) hosts: Vec<String>,
    /// It listens on loopback, and is called by no other address.
    pub(crate) on_loopback: bool,
}

impl Called {
    /// Says why a request with such a head is refused, if it is.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), &'static str> {
        let host = only(headers, &HOST).ok_or("one Host header is needed")?;
        if !self.is_called(host) {
            return Err("the dashboard is not called so: use its address, or give --host NAME");
        }
        if headers.contains_key(ORIGIN) {
            let origin = only(headers, &ORIGIN).unwrap_or_default();
            let of = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            if !of.is_some_and(|of| of.eq_ignore_ascii_case(host)) {
                return Err("another site's page asks");
            }
        }
        if headers.contains_key(FETCH_SITE) {
            let site = only(headers, &FETCH_SITE).unwrap_or_default();
            if !["same-origin", "none"].contains(&site) {
                return Err("another site's page asks: open the dashboard by its own address");
            }
        }
        Ok(())
    }

    fn is_called(&self, host: &str) -> bool {
        let name = without_port(host);
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        match bare.parse::<IpAddr>() {
            Ok(address) => !self.on_loopback || address.to_canonical().is_loopback(),
            Err(_) => {
                let name = name.to_ascii_lowercase();
                name == "localhost" || self.hosts.contains(&name)
            }
        }
    }
}

/// Whether the page came by TLS, as far as the browser says.
pub(crate) fn is_by_tls(headers: &HeaderMap) -> bool {
    only(headers, &ORIGIN).is_some_and(|origin| origin.starts_with("https://"))
}

/// The value of a header that is there once.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// The cookie of that name, if there is one.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(axum::http::header::COOKIE).iter();
    let pairs = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(';'));
    pairs
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(key, value)| (key == name).then_some(value))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

#[cfg(test)]
mod tests {
    use super::*;

    fn heads(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(key, value)| {
            (HeaderName::from_static(key), axum::http::HeaderValue::from_str(value).unwrap())
        });
        let mut map = HeaderMap::new();
        for (key, value) in pairs {
            map.append(key, value);
        }
        map
    }

    fn called(on_loopback: bool) -> Called {
        Called { hosts: vec!["board.example.org".to_owned()], on_loopback }
    }

    #[test]
    fn a_host_is_an_address_of_ours_or_a_name_that_was_given() {
        let is_fine = |host: &str, it: &Called| it.check(&heads(&[("host", host)])).is_ok();
        for host in [
            "127.0.0.1:7485",
            "127.0.0.1",
            "localhost:7485",
            "LOCALHOST",
            "[::1]:7485",
            "127.8.8.8:1",
            "Board.Example.org",
        ] {
            assert!(is_fine(host, &called(true)), "{host}");
        }
        for host in [
            "evil.example:7485",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "board.example.org.evil.example",
            "",
            "192.0.2.1:7485",
            "0.0.0.0:7485",
            "[::]:7485",
            "[2001:db8::1]",
            "localhost:x",
            "a@localhost",
        ] {
            assert!(!is_fine(host, &called(true)), "{host}");
        }
        assert!(is_fine("192.0.2.1:7485", &called(false)));
        assert!(!is_fine("evil.example", &called(false)));
        assert!(called(true).check(&heads(&[])).is_err());
        let twice = [("host", "localhost"), ("host", "localhost")];
        assert!(called(true).check(&heads(&twice)).is_err());
    }

    #[test]
    fn pages_of_other_sites_and_ports_are_refused() {
        let with = |key, value| {
            called(true).check(&heads(&[("host", "127.0.0.1:7485"), (key, value)])).is_ok()
        };
        assert!(
            with("origin", "http://127.0.0.1:7485") && with("origin", "https://127.0.0.1:7485")
        );
        for origin in [
            "http://evil.example",
            "http://127.0.0.1:7486",
            "http://127.0.0.1",
            "null",
            "",
            "file://",
            "http://127.0.0.1:7485.evil.example",
            "http://localhost:7485",
        ] {
            assert!(!with("origin", origin), "{origin}");
        }
        assert!(with("sec-fetch-site", "same-origin") && with("sec-fetch-site", "none"));
        for site in ["cross-site", "same-site", "", "same-origin, none"] {
            assert!(!with("sec-fetch-site", site), "{site}");
        }
    }

    #[test]
    fn cookies_are_told_apart() {
        let headers = heads(&[("cookie", "a=1; rhumb=x; rhumb2=y"), ("cookie", "b=2")]);
        assert_eq!(cookie(&headers, "rhumb"), Some("x"));
        assert_eq!(cookie(&headers, "b"), Some("2"));
        assert_eq!(cookie(&headers, "humb"), None);
    }
}
