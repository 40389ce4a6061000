//! TCP segments signed with a shared secret (RFC 2385), as BGP neighbours demand it of each other:
//! a weak signature, yet nobody beside the path ends a session by a forged segment.
//!
//! Invariant: the secret is in no message of an error, and no copy of it stays here. Source: Linux
//! `include/uapi/linux/tcp.h` (`struct tcp_md5sig`), tcp(7).

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::socklen_t;
use zeroize::Zeroizing;

use crate::udp::sys::option;

/// Signs segments to `peer`, and drops those from it that are not signed by the same
/// secret. To be set before connecting; on a listener, for each neighbour, before it
/// accepts. An empty secret ends it for this peer.
///
/// # Errors
/// A secret beyond 80 bytes; an IPv6 peer of an IPv4 socket; a kernel without it; no TCP socket; an
/// empty secret where none was set.
pub fn set_tcp_md5_secret(socket: BorrowedFd<'_>, peer: IpAddr, secret: &[u8]) -> io::Result<()> {
    if secret.len() > MAX_SECRET {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a TCP MD5 secret has at most 80 bytes",
        ));
    }
    let domain = option(socket, libc::SOL_SOCKET, libc::SO_DOMAIN)?;
    let mut request = Zeroizing::new([0u8; REQUEST_LEN]);
    let address: &[u8] = match (domain, peer) {
        (libc::AF_INET, IpAddr::V4(peer)) => &peer.octets(),
        (libc::AF_INET6, IpAddr::V4(peer)) => &peer.to_ipv6_mapped().octets(),
        (libc::AF_INET6, IpAddr::V6(peer)) => &peer.octets(),
        _ => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the socket is of another family than the peer",
            ));
        }
    };
    let address_at = if domain == libc::AF_INET { ADDRESS_AT } else { ADDRESS_V6_AT };
    request[..2].copy_from_slice(&(domain as libc::sa_family_t).to_ne_bytes());
    request[address_at..address_at + address.len()].copy_from_slice(address);
    request[LENGTH_AT..LENGTH_AT + 2].copy_from_slice(&(secret.len() as u16).to_ne_bytes());
    request[SECRET_AT..SECRET_AT + secret.len()].copy_from_slice(secret);
    let (value, len) = (request.as_ptr(), REQUEST_LEN as socklen_t);
    // SAFETY: `value` is valid for reads of `len` bytes, all initialized,
    // which the kernel copies before it returns.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_MD5SIG, value.cast(), len)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `TCP_MD5SIG_MAXKEYLEN`.
const MAX_SECRET: usize = 80;
/// Of `sockaddr_in`, behind family and port.
const ADDRESS_AT: usize = 4;
/// Of `sockaddr_in6`, behind family, port and flow.
const ADDRESS_V6_AT: usize = 8;
/// Behind a `sockaddr_storage` of 128 bytes, flags and prefix length.
const LENGTH_AT: usize = 130;
/// Behind length and interface.
const SECRET_AT: usize = 136;
const REQUEST_LEN: usize = SECRET_AT + MAX_SECRET;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::time::Duration;

    use socket2::{Domain, Socket, Type};

    use super::*;

    /// For what happens at once, on however slow a machine.
    const LONG: Duration = Duration::from_secs(20);
    /// For what never happens.
    const SHORT: Duration = Duration::from_millis(300);

    /// Whether a client with this secret reaches the listener within a time.
    fn connects(listener: &TcpListener, theirs: Option<&[u8]>, within: Duration) -> bool {
        let address = listener.local_addr().unwrap();
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
        if let Some(secret) = theirs {
            set_tcp_md5_secret(socket.as_fd(), address.ip(), secret).unwrap();
        }
        if socket.connect_timeout(&address.into(), within).is_err() {
            return false;
        }
        let (mut accepted, _) = listener.accept().unwrap();
        accepted.write_all(b"signed").unwrap();
        let mut heard = [0; 6];
        TcpStream::from(socket).read_exact(&mut heard).unwrap();
        heard == *b"signed"
    }

    #[test]
    fn who_knows_the_secret_comes_in_and_nobody_else() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(host).unwrap();
            let peer = listener.local_addr().unwrap().ip();
            set_tcp_md5_secret(listener.as_fd(), peer, b"secret").unwrap();
            assert!(connects(&listener, Some(b"secret"), LONG), "{host}");
            assert!(!connects(&listener, Some(b"Secret"), SHORT), "{host}");
            assert!(!connects(&listener, None, SHORT), "{host}");
            set_tcp_md5_secret(listener.as_fd(), peer, b"").unwrap();
            assert!(connects(&listener, None, LONG), "{host}");
        }
    }

    #[test]
    fn what_cannot_be_set_is_an_error_that_does_not_tell_the_secret() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let too_long =
            set_tcp_md5_secret(listener.as_fd(), [127, 0, 0, 1].into(), &[b'x'; 81]).unwrap_err();
        assert!(!too_long.to_string().contains('x'), "{too_long}");
        let other_family =
            set_tcp_md5_secret(listener.as_fd(), "::1".parse().unwrap(), b"secret").unwrap_err();
        assert!(!other_family.to_string().contains("secret"), "{other_family}");
        assert!(set_tcp_md5_secret(listener.as_fd(), [127, 0, 0, 1].into(), &[b'x'; 80]).is_ok());
    }
}
