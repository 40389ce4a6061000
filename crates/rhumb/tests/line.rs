//! The line of namespaces that tests of routers on the way
//! use: whole from end to end, and gone afterwards.
#![cfg(target_os = "linux")]

use std::net::UdpSocket;
use std::time::Duration;

use crate::wire::Line;

#[test]
fn a_line_carries_packets_from_end_to_end() {
    let Some(line) = Line::new() else { return };
    for (ip, any) in [(Line::B, "0.0.0.0:7000"), (Line::B6, "[::]:7000")] {
        let bind = || UdpSocket::bind(any).expect("a free port");
        let (near, far) = (line.a.enter(bind), line.b.enter(bind));
        far.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        near.send_to(b"hello", (ip, 7000)).expect("a way");
        let (len, from) = far.recv_from(&mut [0; 9]).expect("a datagram");
        assert_eq!((len, from.port()), (5, 7000));
        assert!([Line::A, Line::A6].iter().any(|it| it.parse() == Ok(from.ip())), "{from}");
    }
    // A command inside is a process of that host.
    assert!(line.r2.run("ip route get 10.8.0.1").contains("via 10.8.1.1"));
}
