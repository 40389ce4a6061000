//! Every hour a session gets fresh keys from a fresh handshake,
//! in place, and not one datagram is lost by it.

#![allow(clippy::unwrap_used)] // A test may.

use std::time::Duration;

use rhumb_link::{Event, RENEWAL_INTERVAL};

use crate::pair::{Fate, Net, is_record};

fn renewals(net: &mut Net, host: usize) -> usize {
    let renewed = |event: &Event| matches!(event, Event::Established { renewed: true, .. });
    net.take_events(host).iter().filter(|event| renewed(event)).count()
}

#[test]
fn it_happens_every_hour_and_the_session_stays_the_same() {
    let mut net = Net::pair();
    let sessions = net.establish();
    let first = net.hosts[0].endpoint.peer(sessions.0).unwrap().clone();
    net.take_events(0);
    net.take_events(1);
    net.run(RENEWAL_INTERVAL * 5 + Duration::from_secs(60));
    assert_eq!((renewals(&mut net, 0), renewals(&mut net, 1)), (5, 5));
    assert_eq!((net.session(0, 1), net.session(1, 0)), sessions);
    let peer = net.hosts[0].endpoint.peer(sessions.0).unwrap();
    assert!(peer.initiator, "whoever began goes on to begin");
    assert_eq!(peer.established_at, first.established_at);
    assert!(peer.renewed_at > first.renewed_at + RENEWAL_INTERVAL * 4);
    net.assert_carries("five hours later");
}

/// Sends in both directions every 3 ms while a renewal runs in
/// which one handshake datagram, the n-th, is lost.
fn renew_under_traffic(lost: Option<usize>) -> Net {
    let mut net = Net::pair();
    net.establish();
    let mut handshakes = 0;
    net.set_fate(move |_, flying| {
        if is_record(&flying.bytes) && flying.bytes.len() > 28 {
            return Fate::Arrives;
        }
        handshakes += 1;
        if Some(handshakes - 1) == lost { Fate::Lost } else { Fate::Arrives }
    });
    net.take_events(0);
    net.connect(0, 1);
    for n in 0u32..600 {
        net.send(0, 1, &n.to_be_bytes());
        net.send(1, 0, &n.to_be_bytes());
        net.run(Duration::from_millis(3));
    }
    net.run(Duration::from_secs(1));
    net
}

#[test]
fn no_datagram_is_lost_by_it_whichever_of_its_own_is_lost() {
    for lost in std::iter::once(None).chain((0..16).map(Some)) {
        let mut net = renew_under_traffic(lost);
        assert_eq!(renewals(&mut net, 0), 1, "lost {lost:?}");
        for host in 0..2 {
            let received = net.hosts[host].received.len();
            assert_eq!(received, 600, "host {host}, lost {lost:?}, drops {:?}", net.drops(host));
        }
    }
}

#[test]
fn when_the_initiator_cannot_the_responder_does() {
    let mut net = Net::pair();
    net.establish();
    net.take_events(0);
    let initiator = net.hosts[0].address;
    net.set_fate(move |_, flying| {
        let initial = flying.bytes[0] == 0x90 || flying.bytes.get(13) == Some(&1);
        if flying.from == initiator && initial { Fate::Lost } else { Fate::Arrives }
    });
    net.run(RENEWAL_INTERVAL + Duration::from_secs(400));
    assert!(renewals(&mut net, 0) >= 1);
    let session = net.session(0, 1);
    assert!(!net.hosts[0].endpoint.peer(session).unwrap().initiator);
    net.assert_carries("renewed by the responder");
}
