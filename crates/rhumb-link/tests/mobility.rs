//! A session's address changes by a fresh handshake, and never because a datagram came from elsewhere.

#![allow(clippy::unwrap_used)] // A test may.

mod pair;

use std::net::SocketAddr;
use std::time::Duration;

use pair::{Fate, Net};
use rhumb_link::Event;

#[test]
fn a_moved_peer_takes_its_session_along() {
    let mut net = Net::pair();
    let (_, theirs) = net.establish();
    net.take_events(1);
    let moved: SocketAddr = "203.0.113.9:9".parse().unwrap();
    net.hosts[0].address = moved;
    net.connect(0, 1);
    net.run(Duration::from_secs(1));
    assert_eq!(
        net.take_events(1),
        [Event::Established { session: theirs, attempt: None, peer: net.name(0), renewed: true }]
    );
    assert_eq!(net.hosts[1].endpoint.peer(theirs).unwrap().address, moved);
    assert_eq!(net.hosts[1].endpoint.sessions().count(), 1);
    net.assert_carries("after the move");
}

#[test]
fn a_record_from_elsewhere_diverts_nothing() {
    let mut net = Net::pair();
    let (ours, theirs) = net.establish();
    let home = net.hosts[0].address;
    let mut record = net.seal(0, ours, b"captured").unwrap();
    record.from = "203.0.113.66:6".parse().unwrap();
    net.deliver(&record).expect("it is authentic all the same");
    assert_eq!(net.hosts[1].endpoint.records_from_elsewhere(), 1);
    assert_eq!(net.hosts[1].endpoint.peer(theirs).unwrap().address, home);
    assert_eq!(net.seal(1, theirs, b"answer").unwrap().to, home);
}

#[test]
fn a_handshake_that_does_not_complete_moves_nothing() {
    let mut net = Net::pair();
    let (_, theirs) = net.establish();
    let home = net.hosts[0].address;
    // Somebody replays what the peer sends from another address, but never gets the answers.
    let elsewhere: SocketAddr = "203.0.113.66:6".parse().unwrap();
    net.set_fate(|_, _| Fate::Lost);
    net.connect(0, 1);
    net.run(Duration::from_millis(500));
    for mut flying in net.sent.clone() {
        if flying.from == home {
            flying.from = elsewhere;
            let _ = net.deliver(&flying);
        }
    }
    assert_eq!(net.hosts[1].endpoint.peer(theirs).unwrap().address, home);
    assert_eq!(net.hosts[1].endpoint.half_open(), 0);
}
