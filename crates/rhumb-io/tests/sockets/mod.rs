//! What the UDP tests share: sockets on loopback, and receiving with a bound on time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use rhumb_io::PacketIo;
use rhumb_io::udp::{Options, UdpSocket};
use rhumb_wire::Batch;

/// A socket on a free port of IPv4 loopback.
pub(crate) fn loopback(options: Options) -> UdpSocket {
    bind(Ipv4Addr::LOCALHOST.into(), options)
}

/// A socket on a free port of `ip`.
pub(crate) fn bind(ip: IpAddr, options: Options) -> UdpSocket {
    UdpSocket::bind(SocketAddr::new(ip, 0), options).expect("a free port")
}

/// Sends datagrams of the bytes given to `to`, all of which must be accepted.
pub(crate) fn send_all(from: &mut UdpSocket, to: SocketAddr, datagrams: &[Vec<u8>]) {
    let mut batch = Batch::new();
    for datagram in datagrams {
        batch.push(to, datagram);
    }
    let report = from.send(&batch).expect("send");
    assert_eq!((report.sent, report.dropped()), (datagrams.len(), 0));
}

/// Receives exactly `count` datagrams, with their senders.
pub(crate) fn receive_all(socket: &mut UdpSocket, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    let (mut batch, mut received) = (Batch::new(), Vec::new());
    while received.len() < count {
        let ready = socket.wait(Some(Duration::from_secs(5)), None).expect("wait");
        assert!(ready.readable, "{} of {count} datagrams arrived", received.len());
        let datagrams = socket.receive(&mut batch).expect("receive");
        assert_eq!(datagrams, batch.len());
        received.extend(batch.iter().map(|(peer, bytes)| (peer, bytes.to_vec())));
    }
    assert_eq!(socket.receive(&mut batch).expect("receive"), 0, "more than {count} arrived");
    received
}

/// Datagrams of the sizes given, each with bytes of its own.
pub(crate) fn datagrams_of(sizes: &[usize]) -> Vec<Vec<u8>> {
    let byte = |index: usize, at: usize| (index.wrapping_mul(31) ^ at.wrapping_mul(7)) as u8;
    let datagram = |(index, &len): (usize, &usize)| (0..len).map(|at| byte(index, at)).collect();
    sizes.iter().enumerate().map(datagram).collect()
}
