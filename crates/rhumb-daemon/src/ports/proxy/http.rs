//! A proxy of HTTP/1.1 (RFC 9110, section 7; RFC 9112): CONNECT, and requests for whole URLs, which
//! are handed on as one request a connection.

use std::io;

use httparse::{Error, Request, Status};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::socks::Target;

/// What a program asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) what: What,
    /// What came behind the request's head.
    pub(super) rest: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Bytes both ways.
    Connect(Target),
    /// One request: its head as its server is to see it.
    Fetch { from: Target, head: Vec<u8> },
    /// How a browser finds this proxy.
    Configuration,
    /// What is none of these, and what to say to it.
    Not(&'static str),
}

/// Reads the head of a request.
///
/// # Errors
///
/// When the connection breaks before it has ended.
pub(super) async fn accept(tcp: &mut (impl AsyncRead + Unpin)) -> io::Result<Asked> {
    let mut read = Vec::with_capacity(4096);
    loop {
        if tcp.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some((what, len)) = parse(&read) {
            return Ok(Asked { what, rest: read.split_off(len) });
        }
        if read.len() > LONGEST_HEAD {
            return Ok(Asked {
                what: What::Not("the head of the request is too long"),
                rest: vec![],
            });
        }
    }
}

/// What a head asks for, and how long it is; `None` while more of it is to come.
fn parse(read: &[u8]) -> Option<(What, usize)> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = Request::new(&mut headers);
    match request.parse(read) {
        Ok(Status::Partial) => None,
        Ok(Status::Complete(len)) => Some((judge(&request), len)),
        Err(Error::TooManyHeaders) => Some((What::Not("there are too many headers"), read.len())),
        Err(_) => Some((What::Not("this is no HTTP request"), read.len())),
    }
}

fn judge(request: &Request<'_, '_>) -> What {
    let (method, uri) = (request.method.unwrap_or(""), request.path.unwrap_or(""));
    if method == "CONNECT" {
        return match target(uri, None) {
            Some(target) => What::Connect(target),
            None => What::Not("CONNECT takes a host and a port"),
        };
    }
    if method == "GET" && uri == CONFIGURATION_PATH {
        return What::Configuration;
    }
    let Some(rest) = strip_scheme(uri) else {
        return What::Not(
            "this is a proxy: have the program ask it for http://NAME.rhumb.internal/",
        );
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let Some(from) = target(authority, Some(80)) else {
        return What::Not("the URL has no host");
    };
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut head = format!("{method} {slash}{path} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
    let ends_here: Vec<&str> = values(request, "connection").flat_map(|it| it.split(',')).collect();
    for header in &*request.headers {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name.trim());
        if is("host") || HOP_BY_HOP.iter().any(|it| is(it)) || ends_here.iter().any(|it| is(it)) {
            continue;
        }
        head.extend_from_slice(header.name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(header.value);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"Connection: close\r\n\r\n");
    What::Fetch { from, head }
}

fn values<'a>(request: &'a Request<'_, '_>, name: &str) -> impl Iterator<Item = &'a str> {
    let named = request.headers.iter().filter(move |it| it.name.eq_ignore_ascii_case(name));
    named.filter_map(|header| str::from_utf8(header.value).ok())
}

fn strip_scheme(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_at_checked("http://".len())?;
    scheme.eq_ignore_ascii_case("http://").then_some(rest)
}

/// A host that is a name has no brackets, and no colon but that before a port.
fn target(authority: &str, usual_port: Option<u16>) -> Option<Target> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (authority, usual_port?),
    };
    (!host.is_empty() && !host.contains('@')).then(|| Target { host: host.to_owned(), port })
}

/// Answers instead of somebody else: one line for people.
pub(super) async fn answer(
    tcp: &mut (impl AsyncWrite + Unpin),
    status: &str,
    text: &str,
) -> io::Result<()> {
    write(tcp, status, "text/plain; charset=utf-8", &format!("rhumb proxy: {text}\n")).await
}

/// Sends what a browser needs to ask this proxy for names, and nobody for anything else.
pub(super) async fn configure(
    tcp: &mut (impl AsyncWrite + Unpin),
    proxy: std::net::SocketAddr,
) -> io::Result<()> {
    let suffix = crate::names::host::SUFFIX;
    let script = format!(
        "function FindProxyForURL(url, host) {{\n  \
         return dnsDomainIs(host, \"{suffix}\") ? \"SOCKS5 {proxy}\" : \"DIRECT\";\n}}\n"
    );
    write(tcp, "200 OK", "application/x-ns-proxy-autoconfig", &script).await
}

async fn write(
    tcp: &mut (impl AsyncWrite + Unpin),
    status: &str,
    kind: &str,
    body: &str,
) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    tcp.write_all(head.as_bytes()).await?;
    tcp.write_all(body.as_bytes()).await?;
    tcp.shutdown().await
}

/// Says that bytes go both ways from here on.
pub(super) async fn connected(tcp: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    tcp.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await
}

/// Where a browser is told how to use this proxy.
pub(super) const CONFIGURATION_PATH: &str = "/proxy.pac";
/// What concerns one connection, and is not handed on (RFC 9110, section 7.6.1).
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
];
const LONGEST_HEAD: usize = 32 << 10;
const MOST_HEADERS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> What {
        let (what, len) = parse(text.as_bytes()).expect("a whole head");
        assert!(len <= text.len());
        what
    }

    fn at(host: &str, port: u16) -> Target {
        Target { host: host.to_owned(), port }
    }

    #[test]
    fn connect_and_whole_urls_are_taken() {
        let connect = "CONNECT a.rhumb.internal:443 HTTP/1.1\r\nHost: x\r\n\r\n";
        assert_eq!(asked(connect), What::Connect(at("a.rhumb.internal", 443)));
        let fetch = "POST HTTP://a.b:81/c?d=http://e/ HTTP/1.1\r\nHost: other\r\nX-A: 1\r\n\
                     Connection: X-B, close\r\nX-B: 2\r\nProxy-Connection: keep-alive\r\n\
                     Transfer-Encoding: chunked\r\n\r\n";
        let head = "POST /c?d=http://e/ HTTP/1.1\r\nHost: a.b:81\r\nX-A: 1\r\n\
                    Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
        assert_eq!(asked(fetch), What::Fetch { from: at("a.b", 81), head: head.into() });
        for (uri, path) in [("http://a", "/"), ("http://a?x", "/?x"), ("http://a/", "/")] {
            let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let fetch = What::Fetch { from: at("a", 80), head: head.into() };
            assert_eq!(asked(&format!("GET {uri} HTTP/1.1\r\n\r\n")), fetch);
        }
        assert_eq!(asked("GET /proxy.pac HTTP/1.1\r\n\r\n"), What::Configuration);
    }

    #[test]
    fn what_is_no_request_of_a_proxy_is_said() {
        for text in [
            "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            "GET https://a/ HTTP/1.1\r\n\r\n",
            "GET http:///x HTTP/1.1\r\n\r\n",
            "GET http://me@a/ HTTP/1.1\r\n\r\n",
            "CONNECT a HTTP/1.1\r\n\r\n",
            "CONNECT a:99999 HTTP/1.1\r\n\r\n",
            "\u{1}\u{2}\r\n\r\n",
        ] {
            assert!(matches!(asked(text), What::Not(_)), "{text:?}");
        }
        let many: String = (0..=MOST_HEADERS).map(|n| format!("X-{n}: 1\r\n")).collect();
        let many = format!("GET http://a/ HTTP/1.1\r\n{many}\r\n");
        assert_eq!(asked(&many), What::Not("there are too many headers"));
    }

    #[tokio::test]
    async fn a_head_comes_in_parts_and_ends_somewhere() {
        let whole = b"CONNECT a:1 HTTP/1.1\r\n\r\nhello";
        for cut in 1..whole.len() {
            let mut tcp = tokio::io::join(whole[..cut].chain(&whole[cut..]), tokio::io::sink());
            let asked = accept(&mut tcp).await.unwrap();
            assert_eq!(asked.what, What::Connect(at("a", 1)));
            assert!(b"hello".starts_with(&asked.rest));
        }
        assert!(accept(&mut &whole[..20]).await.is_err(), "it ends too early");
        let endless = vec![b'x'; LONGEST_HEAD * 2];
        let long = [b"GET http://a/", &endless[..]].concat();
        assert!(matches!(accept(&mut &long[..]).await.unwrap().what, What::Not(_)));
    }
}
