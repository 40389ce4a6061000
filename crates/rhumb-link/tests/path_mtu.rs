//! How large datagrams may be: the largest that the path carries is found, followed, and confirmed,
//! by nothing but what the peer has sealed.

use std::net::SocketAddr;
use std::time::Duration;

use pair::{Fate, Flying, Net};
use rhumb_link::{Config, DropReason, MIN_DATAGRAM_LEN, RAISE_INTERVAL, SessionId};
use rhumb_wire::datagram::RECORD_OVERHEAD;

use crate::pair;

/// The network takes datagrams of so many bytes from one host to the
/// other, and loses larger ones without a word.
fn narrow(net: &mut Net, from: usize, to: usize) {
    let first = net.hosts[0].address;
    net.set_fate(move |_, flying| {
        let carries = if flying.from == first { from } else { to };
        if flying.bytes.len() > carries { Fate::Lost } else { Fate::Arrives }
    });
}

fn largest(net: &Net, host: usize, session: SessionId) -> u16 {
    net.hosts[host].endpoint.peer(session).expect("it lives").max_datagram_len
}

/// Has a host send a PDU that makes a datagram of `len` bytes; whether it may.
fn send_one_of(net: &mut Net, from: usize, to: usize, len: u16) -> bool {
    let pdu = vec![7; usize::from(len) - RECORD_OVERHEAD];
    let before = net.hosts[to].received.len();
    let session = net.session(from, to);
    let Ok(flying) = net.seal(from, session, &pdu) else { return false };
    net.launch(flying);
    net.run(Duration::from_millis(50));
    net.hosts[to].received.len() > before
}

fn config(max_datagram_len: u16) -> Config {
    let mut config = Config::default();
    config.max_datagram_len = max_datagram_len;
    config
}

fn elsewhere() -> SocketAddr {
    SocketAddr::from(([203, 0, 113, 9], 999))
}

#[test]
fn a_wide_path_is_used_whole_after_one_round_trip() {
    for (first, second, expected) in [(1452, 1452, 1452), (9000, 9000, 9000), (9000, 1300, 1300)] {
        let mut net = Net::pair_with(config(first), config(second));
        net.connect(0, 1);
        while net.find_session(0, 1).is_none() {
            net.run(Duration::from_millis(1));
        }
        let session = net.session(0, 1);
        assert_eq!(largest(&net, 0, session), MIN_DATAGRAM_LEN);
        net.run(Duration::from_millis(60));
        assert_eq!(largest(&net, 0, session), expected);
        assert_eq!(largest(&net, 1, net.session(1, 0)), expected);
        assert_eq!(net.hosts[0].sizes, [(session, expected)]);
        assert!(send_one_of(&mut net, 0, 1, expected) && send_one_of(&mut net, 1, 0, expected));
        assert!(!send_one_of(&mut net, 0, 1, expected + 1));
        assert!(net.drops(0).contains(&(DropReason::TooBig, 1)));
        let sent = net.sent.len();
        net.run(Duration::from_secs(3600));
        let probes =
            net.sent[sent..].iter().filter(|it| it.bytes.len() > 44 && pair::is_record(&it.bytes));
        assert!(
            probes.count() <= 4,
            "an idle session asks after a fresh handshake, and nothing else"
        );
    }
}

#[test]
fn each_direction_has_its_own_size() {
    let mut net = Net::pair();
    narrow(&mut net, 1372, 1300);
    let (ours, theirs) = net.establish();
    net.run(Duration::from_secs(5));
    assert_eq!((largest(&net, 0, ours), largest(&net, 1, theirs)), (1372, 1292));
    assert!(send_one_of(&mut net, 0, 1, 1372) && send_one_of(&mut net, 1, 0, 1292));
    assert!(net.hosts[0].events.len() + net.hosts[1].events.len() == 2, "nothing else happened");
}

#[test]
fn a_path_that_shrinks_under_traffic_is_noticed_within_two_seconds() {
    let mut net = Net::pair();
    let (session, _) = net.establish();
    let traffic = |net: &mut Net, seconds: u32| {
        for _ in 0..seconds * 50 {
            net.send(0, 1, b"traffic");
            net.run(Duration::from_millis(20));
        }
        largest(net, 0, session)
    };
    for (now, found) in [(1300, 1292), (MIN_DATAGRAM_LEN, MIN_DATAGRAM_LEN)] {
        assert!(traffic(&mut net, 2) > now);
        narrow(&mut net, now.into(), 1452);
        assert!(traffic(&mut net, 2) <= now, "noticed");
        assert_eq!(traffic(&mut net, 5), found, "and found anew");
    }
    narrow(&mut net, 1452, 1452);
    net.run(RAISE_INTERVAL + Duration::from_secs(5));
    assert_eq!(largest(&net, 0, session), 1452, "and that it has grown, later");
    assert!(send_one_of(&mut net, 0, 1, 1452));
}

#[test]
fn an_idle_session_notices_when_it_is_used_again() {
    let mut net = Net::pair();
    let (session, _) = net.establish();
    narrow(&mut net, 1280, 1280);
    net.run(Duration::from_secs(100));
    assert_eq!(largest(&net, 0, session), 1452, "nobody asks");
    net.send(0, 1, b"traffic");
    net.run(Duration::from_secs(6));
    assert!(largest(&net, 0, session) <= 1280);
}

#[test]
fn loss_and_silence_are_not_taken_for_a_narrow_path() {
    let mut net = Net::pair();
    let (session, _) = net.establish();
    net.set_fate(|_, _| Fate::Lost);
    for _ in 0..10 {
        net.send(0, 1, b"into the void");
        net.run(Duration::from_secs(1));
    }
    net.set_fate(|_, _| Fate::Arrives);
    net.run(Duration::from_secs(6));
    assert_eq!(largest(&net, 0, session), 1452);
    // Every tenth datagram is lost, for ten minutes of traffic.
    net.set_fate(|number, _| if (number * 7) % 10 == 0 { Fate::Lost } else { Fate::Arrives });
    let mut small = 0;
    for _ in 0..6000 {
        net.send(0, 1, b"traffic");
        net.run(Duration::from_millis(100));
        small += usize::from(largest(&net, 0, session) < 1452);
    }
    assert!(small < 60, "{small} of 6000 times");
}

#[test]
fn nobody_off_the_path_changes_a_size() {
    let mut net = Net::pair();
    let (session, _) = net.establish();
    let (peer, home) = (net.hosts[1].address, net.hosts[0].address);
    // Probes and answers of this session, again, altered, and from elsewhere.
    let seen: Vec<Flying> = net.sent.iter().filter(|it| it.bytes[0] >> 4 == 0xD).cloned().collect();
    assert!(seen.len() >= 4, "a probe and an answer of each");
    for flying in seen {
        for (from, at) in [(flying.from, None), (elsewhere(), None), (flying.from, Some(20))] {
            let mut bytes = flying.bytes.clone();
            if let Some(at) = at {
                bytes[at] ^= 1;
            }
            assert!(net.deliver(&Flying { from, bytes, ..flying.clone() }).is_err());
        }
    }
    for len in [44, 60, MIN_DATAGRAM_LEN.into(), 1452] {
        let mut forged = vec![0; len];
        forged[0] = 0xD0;
        let _ = net.deliver(&Flying { from: peer, to: home, bytes: forged });
    }
    net.run(Duration::from_secs(10));
    assert_eq!(net.hosts[0].sizes, [(session, 1452)]);
}

/// Somebody passes a record on from an address of their choice: nothing goes
/// there but what the check of addresses allows.
#[test]
fn no_probe_goes_to_an_address_that_is_not_proven() {
    let mut net = Net::pair();
    net.establish();
    let since = net.sent.len();
    for _ in 0..100 {
        net.send(0, 1, b"as long as the least PDU");
        let diverted = net.sent.last().unwrap().clone();
        let _ = net.deliver(&Flying { from: elsewhere(), ..diverted });
        net.run(Duration::from_millis(100));
    }
    let there: Vec<usize> = net.sent[since..]
        .iter()
        .filter(|flying| flying.to == elsewhere())
        .map(|flying| flying.bytes.len())
        .collect();
    assert!(!there.is_empty() && there.iter().all(|len| *len == 44), "{there:?}");
}

#[test]
fn a_move_to_another_host_begins_anew_and_another_port_does_not() {
    for (to, lost) in [(elsewhere(), true), (SocketAddr::from(([192, 0, 2, 1], 4001)), false)] {
        let mut net = Net::pair();
        let (_, theirs) = net.establish();
        net.hosts[1].sizes.clear();
        net.hosts[0].address = to;
        net.send(0, 1, b"as long as the least PDU");
        net.run(Duration::from_secs(1));
        let begun_anew = [(theirs, MIN_DATAGRAM_LEN), (theirs, 1452)];
        assert_eq!(net.hosts[1].sizes, begun_anew[..if lost { 2 } else { 0 }]);
    }
}

/// A peer that answers no probes, as one that does not know them,
/// and one that answers only some, cost little.
#[test]
fn probes_are_few_whatever_the_peer_answers() {
    let mut net = Net::pair();
    narrow(&mut net, MIN_DATAGRAM_LEN.into(), 1452);
    net.establish();
    let since = net.sent.len();
    let first = net.hosts[0].address;
    for _ in 0..600 {
        net.send(0, 1, b"traffic");
        net.run(Duration::from_millis(100));
    }
    let sent: Vec<usize> = net.sent[since..]
        .iter()
        .filter(|it| it.from == first && it.bytes.len() > 60)
        .map(|it| it.bytes.len())
        .collect();
    assert!(sent.len() <= 20, "one search in a minute: {sent:?}");
}

/// A worker that seals on a lane of its own has the same bound.
#[test]
fn workers_are_told() {
    use rhumb_link::WorkerLanes;
    let mut shared = Config::default();
    shared.workers = 2;
    let mut net = Net::pair_with(shared, Config::default());
    let (session, _) = net.establish();
    let mut worker = WorkerLanes::new(shared.cipher);
    let mut tell = |net: &mut Net| {
        while let Some((number, update)) = net.hosts[0].endpoint.poll_update() {
            assert_eq!(number, 1);
            worker.update(update, net.now);
        }
        let mut may = |len: u16| worker.seal(session, &mut vec![0; len.into()], net.now).is_ok();
        let larger = [1452, 1292, MIN_DATAGRAM_LEN].into_iter().find(|len| may(*len));
        larger.unwrap()
    };
    assert_eq!(tell(&mut net), 1452);
    narrow(&mut net, 1300, 1452);
    for _ in 0..70 {
        net.send(0, 1, b"traffic");
        net.run(Duration::from_millis(100));
    }
    assert_eq!(tell(&mut net), 1292);
}
