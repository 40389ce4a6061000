//! The sockets of a group receive exactly their lanes, and the first everything else.
#![cfg(target_os = "linux")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rhumb_io::udp::{Group, Options, UdpSocket};
use rhumb_io::{IoError, PacketIo};
use rhumb_wire::Batch;
use rhumb_wire::datagram::{Counter, LANES, RecordHeader, RecordKind, SessionIndex};

use crate::sockets::{bind, datagrams_of, loopback, receive_all, send_all};

fn group(ip: IpAddr, count: usize) -> Group {
    Group::bind(SocketAddr::new(ip, 0), Options::default(), count).expect("a free port")
}

fn record(kind: RecordKind, lane: u8) -> Vec<u8> {
    let index = SessionIndex::new(0x0ABC_DE08).expect("28 bits").with_lane(lane);
    let header = RecordHeader { kind, index, counter: Counter::new(1, 2) };
    [&header.emit()[..], &[7; 30]].concat()
}

/// Every lane with every kind of record, and what is no
/// record. One address each, so that none are joined.
fn send_everything(to: &Group) -> usize {
    let address = to.sockets[0].local_address();
    let mut sent = 0;
    let mut send = |datagram: Vec<u8>| {
        send_all(&mut bind(address.ip(), Options::default()), address, &[datagram]);
        sent += 1;
    };
    for lane in 0..LANES {
        for kind in [RecordKind::Pdu, RecordKind::Close, RecordKind::Path, RecordKind::Bundle] {
            send(record(kind, lane));
        }
    }
    // DTLS, an initial, a retry, discovery, noise, and what is too short to say.
    for first in [22, 63, 0x90, 0xA0, 0xC0, 0xFF, 0] {
        send([&[first][..], &[0xFF; 40]].concat());
    }
    send(vec![0x80]);
    send(vec![0x80, 0, 1]);
    sent
}

#[test]
fn each_socket_gets_its_lanes_and_the_first_the_rest() {
    for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)] {
        for count in [2, 3, 4, 8] {
            let mut group = group(ip, count);
            assert!(group.steered && group.sockets.len() == count);
            let sent = send_everything(&group);
            let mut received = 0;
            for (worker, socket) in group.sockets.iter_mut().enumerate() {
                let lanes = (0..LANES).filter(|lane| usize::from(*lane) % count == worker).count();
                let expected = 4 * lanes + if worker == 0 { 9 } else { 0 };
                for (_, datagram) in receive_all(socket, expected) {
                    if let Ok(header) = RecordHeader::parse(&datagram) {
                        assert_eq!(usize::from(header.index.lane()) % count, worker);
                    }
                }
                received += expected;
            }
            assert_eq!(received, sent);
        }
    }
}

#[test]
fn all_send_from_one_address() {
    for steered in [true, false] {
        let mut group = group(Ipv4Addr::LOCALHOST.into(), 3);
        if !steered {
            let first = group.sockets.swap_remove(0);
            group = Group::unsteered(first, 3).expect("descriptors");
        }
        let address = group.sockets[0].local_address();
        let mut peer = loopback(Options::default());
        for socket in &mut group.sockets {
            send_all(socket, peer.local_address(), &datagrams_of(&[100]));
        }
        assert!(receive_all(&mut peer, 3).iter().all(|(from, _)| *from == address));
    }
}

#[test]
fn where_nothing_is_steered_the_first_gets_all() {
    let first = loopback(Options::default());
    let mut group = Group::unsteered(first, 2).expect("descriptors");
    assert!(!group.steered);
    let sent = send_everything(&group);
    assert_eq!(receive_all(&mut group.sockets[0], sent).len(), sent);
    assert_eq!(group.sockets[1].receive(&mut Batch::new()).expect("nothing"), 0);
}

#[test]
fn an_address_of_somebody_else_is_refused_even_if_he_would_share_it() {
    let options = Options { reuse_port: true, ..Options::default() };
    let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0).into(), options).expect("a free port");
    let taken = Group::bind(other.local_address(), Options::default(), 2);
    assert!(matches!(taken, Err(IoError::Bind { .. })), "{taken:?}");
}
