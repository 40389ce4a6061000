//! Two processes that hold one key at one peer: the newer handshake has the session, the former
//! process can still be told so, and neither its records nor its end touch the newer one.

use std::time::Duration;

use rhumb_link::{Config, DropReason, Event, SessionId};
use rhumb_wire::datagram::{RECORD_OVERHEAD, RecordHeader};

use crate::pair::{Net, identity};

const SECOND: Duration = Duration::from_secs(1);

/// Host 1 has a session with host 0; host 2 holds the same key.
fn rivals() -> (Net, SessionId, SessionId) {
    let mut net = Net::new();
    let one_key = identity();
    net.add_identity(one_key.clone(), Config::default());
    net.add(Config::default());
    net.add_identity(one_key, Config::default());
    let (ours, theirs) = net.establish();
    net.take_events(1);
    net.connect(2, 1);
    net.run(SECOND);
    (net, ours, theirs)
}

fn tells_of_a_former(net: &mut Net, session: SessionId) -> usize {
    let told = |event: &Event| *event == Event::Former { session };
    net.take_events(1).iter().filter(|event| told(event)).count()
}

#[test]
fn the_former_process_is_told_of_and_can_be_told_under_its_own_keys() {
    let (mut net, ours, theirs) = rivals();
    let newer = net.session(2, 1);
    assert_eq!(tells_of_a_former(&mut net, theirs), 0, "nobody has used the former keys");
    for _ in 0..3 {
        let flying = net.seal(0, ours, b"still here").expect("it does not know yet");
        net.launch(flying);
        net.run(SECOND / 10);
    }
    assert_eq!(tells_of_a_former(&mut net, theirs), 1, "once, however much comes");
    assert!(net.hosts[1].received.is_empty(), "the session is the newer process's");
    let dropped = net.hosts[1].endpoint.drops().of(DropReason::FormerProcess);
    assert_eq!(dropped, 3);

    let mut word = vec![0; RECORD_OVERHEAD + 4];
    word[RecordHeader::LEN..][..4].copy_from_slice(b"stop");
    let to = net.hosts[1].endpoint.seal_former(theirs, &mut word, net.now).expect("it is there");
    assert_eq!(to, net.hosts[0].address);
    let router = net.hosts[1].address;
    let opened = net.hosts[0].endpoint.open(router, &mut word, net.now);
    assert_eq!(&word[opened.expect("its own keys").plaintext], b"stop");
    // Whatever the former one does, the newer one has the session.
    net.hosts[0].endpoint.close(ours, net.now);
    net.collect(0);
    net.run(SECOND);
    assert_eq!(net.session(1, 2), theirs);
    net.send(2, 1, b"in");
    net.send(1, 2, b"out");
    net.run(SECOND);
    assert_eq!(net.hosts[1].received, [(theirs, b"in".to_vec())]);
    assert_eq!(net.hosts[2].received, [(newer, b"out".to_vec())]);
}

#[test]
fn a_process_that_moved_by_a_fresh_handshake_is_no_other() {
    let mut net = Net::pair();
    let (_, theirs) = net.establish();
    net.hosts[0].address.set_port(9);
    net.connect(0, 1);
    net.run(SECOND);
    for _ in 0..100 {
        net.send(0, 1, b"data");
        net.run(SECOND);
    }
    assert_eq!(tells_of_a_former(&mut net, theirs), 0);
    assert_eq!(net.hosts[1].received.len(), 100);
    let mut word = vec![0; RECORD_OVERHEAD];
    let sealed = net.hosts[1].endpoint.seal_former(theirs, &mut word, net.now);
    assert_eq!(sealed, Err(DropReason::UnknownSession), "the former keys are gone by now");
}
