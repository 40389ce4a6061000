//! Who may speak for a name: its holder, or a server by its owner's word, as long as that holds.

use std::sync::Arc;
use std::time::Duration;

use rhumb_end::{EndError, Event, ProofError};
use rhumb_trust::{AdCert, Identity, Window};
use rhumb_wire::{Name, Role};

use crate::world::World;

/// A world in which `server` answers for a capsule that it shows `ad_cert` of.
struct Served {
    world: World,
    client: Name,
    server: Name,
    capsule: Arc<Identity>,
}

impl Served {
    fn new() -> Self {
        let (mut world, client, server) = World::pair();
        let capsule = Arc::new(Identity::generate(Role::Capsule, 1).unwrap());
        world.served_by.insert(capsule.name(), server);
        Self { world, client, server, capsule }
    }

    fn word_for(&self, server: Name, lasts_s: u64) -> AdCert {
        let window = Window::starting(self.world.now.unix_s(), lasts_s);
        AdCert::sign(&self.capsule, server, 1, window).unwrap()
    }

    fn serve(&mut self, ad_cert: &AdCert) {
        self.world.end(self.server).serve(ad_cert).unwrap();
    }
}

#[test]
fn a_server_speaks_for_a_name_by_its_owners_word_in_both_directions() {
    let mut served = Served::new();
    let word = served.word_for(served.server, 600);
    served.serve(&word);
    let Served { mut world, client, server, capsule } = served;
    let id = world.connected(client, capsule.name()).unwrap();
    assert_eq!(world.carry(client, server, id, b"for the capsule"), b"for the capsule");
    let as_capsule =
        |event: &Event| matches!(event, Event::Connected { local, .. } if *local == capsule.name());
    assert!(world.events[&server].iter().any(as_capsule));
    // And the server may begin in that name.
    world.offer(client, [capsule.name()]);
    let now = world.now;
    let other = world.join();
    world.offer(other, [capsule.name()]);
    let id = world.end(server).connect(capsule.name(), other, now).unwrap();
    world.run(Duration::from_secs(1));
    assert!(world.end(server).is_open(id));
    let from_capsule =
        |event: &Event| matches!(event, Event::Connected { peer, .. } if *peer == capsule.name());
    assert!(world.events[&other].iter().any(from_capsule));
}

#[test]
fn a_server_without_the_owners_word_does_not() {
    let mut served = Served::new();
    // It was certified, and another one is.
    let other = served.world.join();
    let word = served.word_for(other, 600);
    served.serve(&word);
    let Served { mut world, client, server, capsule } = served;
    let expected = capsule.name();
    let error = world.connected(client, expected).unwrap_err();
    let wrong = ProofError::WrongName { expected, found: server };
    assert_eq!(error, EndError::NotProven(wrong));
}

#[test]
fn a_word_that_is_over_is_none() {
    let mut served = Served::new();
    let word = served.word_for(served.server, 10);
    served.serve(&word);
    let Served { mut world, client, server, capsule } = served;
    world.now = world.now.plus(Duration::from_secs(80));
    let owner = capsule.name();
    let error = world.connected(client, owner).unwrap_err();
    assert_eq!(error, EndError::NotProven(ProofError::NotInForce { owner, server }));
}

#[test]
fn a_connection_ends_with_the_word_that_it_rests_on() {
    let mut served = Served::new();
    let word = served.word_for(served.server, 10);
    served.serve(&word);
    let Served { mut world, client, capsule, .. } = served;
    let id = world.connected(client, capsule.name()).unwrap();
    let stream = world.open(client, id);
    world.run(Duration::from_secs(65));
    assert!(world.end(client).is_open(id));
    world.run(Duration::from_secs(8));
    assert_eq!(world.ended(client, id), Some(EndError::ProofEnded(capsule.name())));
    assert!(world.outcome(client, id, stream).is_err());
}

#[test]
fn a_name_that_is_served_no_longer_is_closed() {
    let mut served = Served::new();
    let word = served.word_for(served.server, 600);
    served.serve(&word);
    let Served { mut world, client, server, capsule } = served;
    let id = world.connected(client, capsule.name()).unwrap();
    let own = world.connected(client, server).unwrap();
    let now = world.now;
    world.end(server).stop_serving(capsule.name(), now);
    world.run(Duration::from_secs(1));
    let peer = capsule.name();
    assert_eq!(world.ended(client, id), Some(EndError::ClosedByPeer { peer, code: 0 }));
    assert!(world.end(client).is_open(own));
}

#[test]
fn names_that_are_not_ours_or_are_are_refused_at_once() {
    let (mut world, a, b) = World::pair();
    let now = world.now;
    assert_eq!(world.end(a).connect(b, a, now), Err(EndError::NotOurs(b)));
    assert_eq!(world.end(a).connect(a, a, now), Err(EndError::OwnName));
}
