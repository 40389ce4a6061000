//! Who takes bundles says so, as often as it needs to be said, and under keys of its own.

use std::time::Duration;

use rhumb_link::{Config, DropReason, MIN_DATAGRAM_LEN};

use crate::pair::{Fate, Net, identity};

const SECOND: Duration = Duration::from_secs(1);

fn takes() -> Config {
    let mut config = Config::default();
    config.bundles = true;
    config
}

/// What hosts 0 and 1 may put into a bundle for each other.
fn rooms(net: &Net) -> [Option<usize>; 2] {
    [(0, 1), (1, 0)].map(|(of, with)| net.hosts[of].endpoint.bundle_room(net.session(of, with)))
}

#[test]
fn whoever_takes_them_is_known_to_and_nobody_else() {
    for (first, second) in [(true, true), (true, false), (false, true), (false, false)] {
        let config = |it| if it { takes() } else { Config::default() };
        let mut net = Net::pair_with(config(first), config(second));
        net.establish();
        net.run(SECOND);
        // Nobody is told who could do nothing with it.
        let both = first && second;
        assert_eq!(rooms(&net).map(|it| it.is_some()), [both; 2], "{first} {second}");
        net.assert_carries("bundles or not");
    }
}

#[test]
fn it_is_said_again_where_it_was_lost() {
    let mut net = Net::pair_with(takes(), takes());
    let mut lost = 0;
    net.set_fate(move |_, flying| {
        let is_bundle = flying.bytes[0] & 0xF0 == 0xE0;
        lost += usize::from(is_bundle);
        if is_bundle && lost <= 4 { Fate::Lost } else { Fate::Arrives }
    });
    net.establish();
    // Busy: no keep-alive is due.
    for n in 0u32..3_000 {
        net.send(0, 1, &n.to_be_bytes());
        net.send(1, 0, &n.to_be_bytes());
        net.run(Duration::from_millis(3));
    }
    assert!(
        rooms(&net).iter().all(|room| room.is_some_and(|it| it >= usize::from(MIN_DATAGRAM_LEN)))
    );
}

#[test]
fn another_process_of_the_name_that_takes_none_is_sent_none() {
    let mut net = Net::new();
    let (router, node) = (net.add(takes()), identity());
    let first = net.add_identity(node.clone(), takes());
    net.connect(first, router);
    net.run(SECOND);
    let room = |net: &Net, with| net.hosts[router].endpoint.bundle_room(net.session(router, with));
    assert!(room(&net, first).is_some());
    // It was replaced by an older version; what it said under its keys may still be under way.
    let second = net.add_identity(node, Config::default());
    net.connect(second, router);
    net.run(SECOND);
    assert_eq!(room(&net, second), None);
    net.run(30 * SECOND);
    assert_eq!(room(&net, second), None);
}

#[test]
fn who_takes_none_drops_one_and_the_session_lives() {
    let mut net = Net::pair();
    net.establish();
    let session = net.session(0, 1);
    let mut datagram = vec![0; 12 + 9 + 16];
    let now = net.now;
    let to = net.hosts[0].endpoint.seal_bundle(session, &mut datagram, now).expect("sealed");
    let from = net.hosts[0].address;
    let opened = net.hosts[1].endpoint.open(from, &mut datagram, now);
    assert_eq!((opened.err(), to), (Some(DropReason::Malformed), net.hosts[1].address));
    net.assert_carries("after a bundle");
}
