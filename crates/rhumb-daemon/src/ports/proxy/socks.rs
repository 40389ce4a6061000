//! SOCKS version 5 (RFC 1928), as far as a proxy on a loopback address needs it: no
//! authentication, CONNECT and UDP ASSOCIATE.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What a program asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    Connect(Target),
    /// The program's datagrams come from this port, if it says so.
    Associate,
}

/// Where to: an address says whom nobody here can reach.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Target {
    pub(super) host: String,
    pub(super) port: u16,
}

/// Section 6: what a program is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Reply {
    Done = 0,
    Failed = 1,
    NotAllowed = 2,
    HostUnreachable = 4,
    Refused = 5,
    CommandUnknown = 7,
    AddressUnknown = 8,
}

/// The version that the first byte of a connection says.
pub(super) const VERSION: u8 = 5;

/// Agrees on no authentication, and takes the request. `None` when the program cannot go on so, and
/// has been told.
///
/// # Errors
///
/// When the connection breaks, or what comes is not SOCKS 5.
pub(super) async fn accept<S>(tcp: &mut S) -> io::Result<Option<Request>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let [version, count] = read(tcp).await?;
    let mut methods = vec![0; usize::from(count)];
    tcp.read_exact(&mut methods).await?;
    if version != VERSION || !methods.contains(&NO_AUTHENTICATION) {
        tcp.write_all(&[VERSION, NO_METHOD]).await?;
        return Ok(None);
    }
    tcp.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let [version, command, _, kind] = read(tcp).await?;
    if version != VERSION {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let target = match kind {
        IPV4 => IpAddr::from(read::<4, _>(tcp).await?).to_string(),
        IPV6 => IpAddr::from(read::<16, _>(tcp).await?).to_string(),
        DOMAIN => {
            let [len] = read(tcp).await?;
            let mut host = vec![0; usize::from(len)];
            tcp.read_exact(&mut host).await?;
            String::from_utf8_lossy(&host).into_owned()
        }
        _ => {
            reply(tcp, Reply::AddressUnknown, NOWHERE).await?;
            return Ok(None);
        }
    };
    let port = u16::from_be_bytes(read(tcp).await?);
    match command {
        CONNECT => Ok(Some(Request::Connect(Target { host: target, port }))),
        ASSOCIATE => Ok(Some(Request::Associate)),
        _ => {
            reply(tcp, Reply::CommandUnknown, NOWHERE).await?;
            Ok(None)
        }
    }
}

/// Answers a request; `bound` is where datagrams go.
pub(super) async fn reply<S>(tcp: &mut S, reply: Reply, bound: SocketAddr) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    let mut said = vec![VERSION, reply as u8, 0];
    emit_address(bound, &mut said);
    tcp.write_all(&said).await
}

/// What stands before a datagram (section 7), and the datagram. `None` for what is none, and for
/// fragments, which nobody has to take.
pub(super) fn parse_datagram(datagram: &[u8]) -> Option<(Target, &[u8])> {
    let (&[_, _, 0, kind], rest) = datagram.split_first_chunk()? else { return None };
    let (host, rest) = match kind {
        IPV4 => {
            let (address, rest) = rest.split_first_chunk::<4>()?;
            (Ipv4Addr::from(*address).to_string(), rest)
        }
        IPV6 => {
            let (address, rest) = rest.split_first_chunk::<16>()?;
            (Ipv6Addr::from(*address).to_string(), rest)
        }
        DOMAIN => {
            let (&len, rest) = rest.split_first()?;
            let (host, rest) = rest.split_at_checked(usize::from(len))?;
            (String::from_utf8_lossy(host).into_owned(), rest)
        }
        _ => return None,
    };
    let (port, body) = rest.split_first_chunk()?;
    Some((Target { host, port: u16::from_be_bytes(*port) }, body))
}

/// What stands before the datagrams that come from there.
pub(super) fn datagram_head(target: &Target) -> Vec<u8> {
    let mut head = vec![0, 0, 0, DOMAIN];
    // A host that came in such a head, or in a request, is no longer.
    head.push(u8::try_from(target.host.len()).unwrap_or(u8::MAX));
    head.extend(target.host.bytes().take(usize::from(u8::MAX)));
    head.extend(target.port.to_be_bytes());
    head
}

async fn read<const N: usize, S: AsyncRead + Unpin>(tcp: &mut S) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    tcp.read_exact(&mut bytes).await?;
    Ok(bytes)
}

fn emit_address(address: SocketAddr, out: &mut Vec<u8>) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(IPV4);
            out.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(IPV6);
            out.extend(ip.octets());
        }
    }
    out.extend(address.port().to_be_bytes());
}

/// What a refusal says, where an address has to stand.
pub(super) const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const ASSOCIATE: u8 = 3;
const IPV4: u8 = 1;
const DOMAIN: u8 = 3;
const IPV6: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// What is taken of `said`, and what is answered.
    async fn asked(said: &[u8]) -> (io::Result<Option<Request>>, Vec<u8>) {
        let (mut ours, mut theirs) = tokio::io::duplex(4096);
        theirs.write_all(said).await.unwrap();
        theirs.shutdown().await.unwrap();
        let request = accept(&mut ours).await;
        drop(ours);
        let mut answered = Vec::new();
        theirs.read_to_end(&mut answered).await.unwrap();
        (request, answered)
    }

    #[tokio::test]
    async fn requests_are_taken_as_rfc_1928_has_them() {
        let hello = [5, 1, 0];
        let by_name = [&hello[..], &[5, 1, 0, 3, 3], b"a.b", &[0, 80]].concat();
        let (request, answered) = asked(&by_name).await;
        let target = Target { host: "a.b".to_owned(), port: 80 };
        assert_eq!(request.unwrap(), Some(Request::Connect(target)));
        assert_eq!(answered, [5, 0]);
        let by_address = [&hello[..], &[5, 1, 0, 1, 192, 0, 2, 1, 0x1f, 0x90]].concat();
        let target = Target { host: "192.0.2.1".to_owned(), port: 8080 };
        assert_eq!(asked(&by_address).await.0.unwrap(), Some(Request::Connect(target)));
        let associate = [&hello[..], &[5, 3, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(asked(&associate).await.0.unwrap(), Some(Request::Associate));
    }

    #[tokio::test]
    async fn what_is_not_offered_is_refused_as_rfc_1928_says() {
        let (request, answered) = asked(&[5, 1, 2]).await;
        assert_eq!((request.unwrap(), answered), (None, vec![5, 0xff]), "a password");
        let bind = [5, 1, 0, 5, 2, 0, 1, 192, 0, 2, 1, 0, 80];
        let (request, answered) = asked(&bind).await;
        assert_eq!((request.unwrap(), &answered[..4]), (None, &[5, 0, 5, 7][..]));
        let (request, answered) = asked(&[5, 1, 0, 5, 1, 0, 9]).await;
        assert_eq!((request.unwrap(), &answered[..4]), (None, &[5, 0, 5, 8][..]));
        for cut in 0..bind.len() {
            assert!(asked(&bind[..cut]).await.0.is_err(), "{cut} bytes");
        }
    }

    #[test]
    fn datagrams_say_where_to_and_fragments_are_none() {
        let target = Target { host: "a.rhumb.internal".to_owned(), port: 53 };
        let whole = [&datagram_head(&target)[..], b"question"].concat();
        assert_eq!(parse_datagram(&whole), Some((target, &b"question"[..])));
        let mut fragment = whole.clone();
        fragment[2] = 1;
        assert_eq!(parse_datagram(&fragment), None);
        for cut in 0..whole.len() - b"question".len() {
            assert_eq!(parse_datagram(&whole[..cut]), None, "{cut} bytes");
        }
        let to_address = [0, 0, 0, 1, 192, 0, 2, 1, 0, 53, b'x'];
        let target = Target { host: "192.0.2.1".to_owned(), port: 53 };
        assert_eq!(parse_datagram(&to_address), Some((target, &b"x"[..])));
    }
}
