//! Trouble with one datagram, peer or port is told or counted, and does not touch the rest.
#![cfg(target_os = "linux")]

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use rhumb_io::udp::{Options, UdpSocket};
use rhumb_io::{IoError, PacketIo};
use rhumb_wire::Batch;

use crate::sockets::{datagrams_of, loopback, receive_all, send_all};

#[test]
fn a_closed_port_does_not_stop_a_socket() {
    let (mut sender, mut receiver) = (loopback(Options::default()), loopback(Options::default()));
    let closed = loopback(Options::default()).local_address();
    let mut batch = Batch::new();
    for round in 0..20 {
        batch.clear();
        batch.push(closed, &[1; 100]);
        batch.push(closed, &[2; 100]);
        batch.push(receiver.local_address(), &[round; 100]);
        let report = sender.send(&batch).expect("an ICMP error is not ours");
        assert_eq!((report.sent, report.dropped()), (3, 0));
        assert_eq!(receive_all(&mut receiver, 1)[0].1, [round; 100]);
        assert_eq!(sender.receive(&mut batch).expect("an ICMP error is not ours"), 0);
    }
}

#[test]
fn a_port_in_use_is_told_in_words() {
    let first = loopback(Options::default());
    let error = UdpSocket::bind(first.local_address(), Options::default()).expect_err("in use");
    let text = error.to_string();
    assert!(text.contains(&first.local_address().to_string()), "{text}");
    assert!(text.contains("in use"), "{text}");
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::AddrInUse));
}

#[test]
fn an_address_of_another_machine_is_told_in_words() {
    // 192.0.2.0/24 is for documentation (RFC 5737): no machine has such an address.
    let address = SocketAddr::from(([192, 0, 2, 1], 0));
    let error = UdpSocket::bind(address, Options::default()).expect_err("not ours");
    assert!(matches!(error, IoError::Bind { address: refused, .. } if refused == address));
    assert!(error.to_string().contains("192.0.2.1 is not an address of this machine"), "{error}");
}

#[test]
fn datagrams_that_cannot_be_sent_are_counted_and_the_others_arrive() {
    let (mut sender, mut receiver) = (loopback(Options::default()), loopback(Options::default()));
    let to = receiver.local_address();
    let mut batch = Batch::new();
    batch.push(to, &[1; 200]);
    batch.push(to, &vec![2; 65_508]);
    batch.push(SocketAddr::from((Ipv6Addr::LOCALHOST, to.port())), &[3; 200]);
    batch.push(SocketAddr::from((Ipv4Addr::BROADCAST, to.port())), &[4; 200]);
    batch.push(to, &[5; 200]);
    batch.push(to, &[6; 200]);
    batch.drop_datagram(5);
    let report = sender.send(&batch).expect("send");
    assert_eq!((report.sent, report.dropped_too_big, report.dropped_unreachable), (2, 1, 2));
    assert_eq!(report.dropped_busy, 0);
    let received: Vec<u8> =
        receive_all(&mut receiver, 2).iter().map(|(_, bytes)| bytes[0]).collect();
    assert_eq!(received, [1, 5]);
    let counters = sender.counters();
    assert_eq!((counters.send_dropped_too_big, counters.send_dropped_unreachable), (1, 2));
}

#[test]
fn an_empty_datagram_is_dropped_and_the_next_is_not() {
    let mut receiver = loopback(Options::default());
    let sender = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    sender.send_to(&[], receiver.local_address()).expect("send");
    sender.send_to(b"next", receiver.local_address()).expect("send");
    assert_eq!(receive_all(&mut receiver, 1)[0].1, b"next");
    assert_eq!(receiver.counters().receive_malformed, 1);
}

#[test]
fn a_full_receive_queue_is_counted() {
    let small = Options { receive_buffer_bytes: Some(4096), ..Options::default() };
    let (mut sender, mut receiver) = (loopback(Options::default()), loopback(small));
    for _ in 0..100 {
        send_all(&mut sender, receiver.local_address(), &datagrams_of(&[1000]));
    }
    let overflows = receiver.counters().receive_queue_overflows as usize;
    assert!(overflows > 0 && overflows < 100, "{overflows}");
    receive_all(&mut receiver, 100 - overflows);
}

#[test]
fn nothing_waits_in_a_new_socket() {
    let mut socket = loopback(Options::default());
    let mut batch = Batch::new();
    assert_eq!(socket.receive(&mut batch).expect("receive"), 0);
    assert_eq!(socket.send(&batch).expect("send").sent, 0);
    let ready = socket.wait(Some(Duration::from_millis(1)), None).expect("wait");
    assert!(!ready.readable && !ready.woken);
}
