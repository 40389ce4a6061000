//! What is sent over UDP arrives complete, byte for byte and in
//! order per peer, whatever the two ends can do.
#![cfg(target_os = "linux")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rhumb_io::PacketIo;
use rhumb_io::udp::{Options, UdpSocket};
use rhumb_wire::Batch;

use crate::sockets::{bind, datagrams_of, loopback, receive_all, send_all};

/// All combinations of a sender with and without segments
/// and a receiver with and without superpackets.
fn combinations() -> impl Iterator<Item = (Options, Options)> {
    [(false, false), (false, true), (true, false), (true, true)].into_iter().map(|(gso, gro)| {
        (Options { gso, ..Options::default() }, Options { gro, ..Options::default() })
    })
}

#[test]
fn mixed_sizes_to_several_peers() {
    let sizes = [1000, 1000, 1000, 64, 64, 1400, 1, 700, 701, 702, 300, 300, 300, 299, 300, 2];
    for (sending, receiving) in combinations() {
        let mut senders = [loopback(sending), loopback(sending)];
        let mut receivers = [loopback(receiving), loopback(receiving), loopback(receiving)];
        let peers = receivers.each_ref().map(PacketIo::local_address);
        // Each receiver gets every third datagram of each
        // sender, so that the sender has to regroup.
        let sent = datagrams_of(&sizes.repeat(3));
        for sender in &mut senders {
            let mut batch = Batch::new();
            for (index, datagram) in sent.iter().enumerate() {
                batch.push(peers[index % 3], datagram);
            }
            assert_eq!(sender.send(&batch).expect("send").sent, sent.len());
        }
        for (index, receiver) in receivers.iter_mut().enumerate() {
            let received = receive_all(receiver, 2 * sizes.len());
            for sender in &senders {
                let from_sender =
                    received.iter().filter(|(peer, _)| *peer == sender.local_address());
                let expected = sent.iter().skip(index).step_by(3);
                assert!(
                    from_sender.map(|(_, bytes)| bytes).eq(expected),
                    "{sending:?} {receiving:?}"
                );
            }
        }
    }
}

#[test]
fn runs_travel_as_superpackets_and_are_split() {
    for (sending, receiving) in combinations() {
        let (mut sender, mut receiver) = (loopback(sending), loopback(receiving));
        assert_eq!(sender.capabilities().gso, sending.gso);
        assert_eq!(receiver.capabilities().gro, receiving.gro);
        let mut sizes = [500; 70];
        sizes[69] = 123;
        let sent = datagrams_of(&sizes);
        send_all(&mut sender, receiver.local_address(), &sent);
        let received = receive_all(&mut receiver, sent.len());
        assert!(received.iter().map(|(_, bytes)| bytes).eq(&sent));

        let (sent, received) = (sender.counters(), receiver.counters());
        assert_eq!(sent.sent_messages, if sending.gso { 2 } else { 70 });
        assert_eq!((sent.sent_datagrams, sent.sent_bytes), (70, 69 * 500 + 123));
        assert_eq!((received.received_datagrams, received.received_bytes), (70, 69 * 500 + 123));
        assert!(received.received_messages <= 70);
        if sending.gso && receiving.gro {
            assert_eq!(received.received_messages, 2);
        }
        if !receiving.gro {
            assert_eq!(received.received_messages, 70);
        }
        assert_eq!(sent.segmentation_refused, 0);
        assert_eq!(received.receive_queue_overflows, 0);
    }
}

#[test]
fn jumbo_and_largest_datagrams() {
    for (sending, receiving) in combinations() {
        let (mut sender, mut receiver) = (loopback(sending), loopback(receiving));
        for sizes in [vec![8900; 8], vec![65_507], vec![40_000, 1, 25_000]] {
            let sent = datagrams_of(&sizes);
            send_all(&mut sender, receiver.local_address(), &sent);
            let received = receive_all(&mut receiver, sent.len());
            assert!(received.iter().map(|(_, bytes)| bytes).eq(&sent), "{sizes:?}");
        }
    }
}

#[test]
fn many_batches_through_one_batch_edited_in_place() {
    // A forwarder as the daemon has it: receives, edits, redirects and sends in the same arena.
    let (mut source, mut forwarder) = (loopback(Options::default()), loopback(Options::default()));
    let mut sink = loopback(Options::default());
    let mut batch = Batch::new();
    for round in 0..50u8 {
        let sent: Vec<Vec<u8>> = (0..40).map(|index| vec![index ^ round; 300]).collect();
        send_all(&mut source, forwarder.local_address(), &sent);
        let mut forwarded = 0;
        while forwarded < 40 {
            forwarder.wait(Some(std::time::Duration::from_secs(5)), None).expect("wait");
            let received = forwarder.receive(&mut batch).expect("receive");
            assert!(received > 0, "{forwarded} of 40 datagrams came to the forwarder");
            for index in 0..received {
                batch.datagram_mut(index).1[0] = 0xFF;
                batch.redirect(index, sink.local_address());
                if forwarded + index == 20 {
                    batch.drop_datagram(index);
                }
            }
            forwarded += received;
            if forwarded == 40 {
                batch.push(sink.local_address(), b"own");
            }
            forwarder.send(&batch).expect("send");
        }
        let received = receive_all(&mut sink, 40);
        let mut expected = sent;
        expected.remove(20);
        for datagram in &mut expected {
            datagram[0] = 0xFF;
        }
        expected.push(b"own".to_vec());
        assert!(received.iter().map(|(_, bytes)| bytes).eq(&expected));
    }
    let counters = forwarder.counters();
    assert!(counters.sent_messages < counters.sent_datagrams / 10, "{counters:?}");
}

fn has_ipv6() -> bool {
    let has = std::net::UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    if !has {
        println!("skipped: this machine has no IPv6 loopback address");
    }
    has
}

#[test]
fn ipv6() {
    if !has_ipv6() {
        return;
    }
    for (sending, receiving) in combinations() {
        let mut sender = bind(Ipv6Addr::LOCALHOST.into(), sending);
        let mut receiver = bind(Ipv6Addr::LOCALHOST.into(), receiving);
        let sent = datagrams_of(&[1200; 40]);
        send_all(&mut sender, receiver.local_address(), &sent);
        let received = receive_all(&mut receiver, sent.len());
        assert!(received.iter().map(|(_, bytes)| bytes).eq(&sent));
        assert!(received.iter().all(|(peer, _)| *peer == sender.local_address()));
    }
}

#[test]
fn a_socket_on_the_unspecified_ipv6_address_serves_ipv4_peers() {
    if !has_ipv6() {
        return;
    }
    let mut both = bind(Ipv6Addr::UNSPECIFIED.into(), Options::default());
    let port = both.local_address().port();
    let addresses: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    for ip in addresses {
        let mut peer = bind(ip, Options::default());
        send_all(&mut peer, SocketAddr::new(ip, port), &datagrams_of(&[100; 3]));
        let received = receive_all(&mut both, 3);
        assert!(received.iter().all(|(from, _)| *from == peer.local_address()), "{received:?}");
        send_all(&mut both, peer.local_address(), &datagrams_of(&[100; 5]));
        assert_eq!(receive_all(&mut peer, 5).len(), 5);
    }
}

#[test]
fn sockets_that_share_a_port_share_its_peers() {
    let options = Options { reuse_port: true, ..Options::default() };
    let mut first = loopback(options);
    let mut second = UdpSocket::bind(first.local_address(), options).expect("a shared port");
    let mut batch = Batch::new();
    for _ in 0..32 {
        send_all(&mut loopback(Options::default()), first.local_address(), &datagrams_of(&[10]));
    }
    let mut counts = [0, 0];
    for (socket, count) in [&mut first, &mut second].into_iter().zip(&mut counts) {
        while socket.receive(&mut batch).expect("receive") > 0 {
            *count += batch.len();
        }
    }
    assert_eq!(counts[0] + counts[1], 32, "{counts:?}");
    assert!(counts[0] > 0 && counts[1] > 0, "{counts:?}");
}
