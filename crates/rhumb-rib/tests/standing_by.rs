//! Of two words for servers the older one counts only while the newer
//! one's server is not there, and who may say that.

use rhumb_wire::rib::{Refusal, RibRequestBody};
use rhumb_wire::{Certificate, Name, Role, Statement};

use crate::world::{Directory, Holder, window};

const ROUTER: Name = Name([7; 32]);

/// A capsule that was moved from one server to another.
struct Moved<S> {
    directory: Directory<S>,
    owner: Holder,
    servers: [Holder; 2],
    words: [Certificate; 2],
}

fn moved() -> Moved<crate::Usual> {
    let mut directory = Directory::new();
    let owner = Holder::of(Role::Capsule);
    let servers = [Holder::of(Role::Node), Holder::of(Role::Node)];
    let word = |number: usize| {
        let server = servers[number].name();
        owner.say(Statement::Service { server, several: false }, 5 + number as u64, window())
    };
    let words = [word(0), word(1)];
    for server in &servers {
        directory.tell(server, server.route(ROUTER, 20)).expect("stored");
    }
    for word in &words {
        directory.tell(&owner, word.clone()).expect("stored");
    }
    Moved { directory, owner, servers, words }
}

impl<S: rhumb_rib::store::Store> Moved<S> {
    fn older_again(&mut self) -> Result<(), Refusal> {
        self.directory.tell(&self.owner, self.words[0].clone())
    }

    fn server(&mut self) -> Option<Name> {
        self.directory.found(self.owner.name()).first()?.statement.hands_on_to()
    }

    fn gone(&mut self, asker: Name, sequence: u64) {
        let name = self.servers[1].name();
        assert_eq!(self.directory.ask_as(asker, RibRequestBody::Gone { name, sequence }), None);
    }
}

#[test]
fn the_older_word_counts_again_when_the_newer_server_has_left_and_until_it_is_back() {
    let mut moved = moved();
    assert_eq!(moved.older_again(), Err(Refusal::Superseded));
    let [older, newer] = [0, 1].map(|number: usize| moved.servers[number].name());
    assert_eq!(moved.server(), Some(newer));
    let farewell = moved.servers[1].withdrawal(20);
    moved.directory.tell(&moved.servers[1], farewell).expect("stored");
    assert_eq!(moved.older_again(), Ok(()));
    assert_eq!(moved.server(), Some(older));
    // Back again: its own route first, then the owner's word, as a router publishes them.
    let route = moved.servers[1].route(ROUTER, 21);
    moved.directory.tell(&moved.servers[1], route).expect("stored");
    moved.directory.tell(&moved.owner, moved.words[1].clone()).expect("stored");
    assert_eq!(moved.server(), Some(newer));
    assert_eq!(moved.older_again(), Err(Refusal::Superseded));
}

#[test]
fn only_the_router_that_a_route_names_says_that_its_name_is_gone_and_only_of_that_route() {
    let mut moved = moved();
    moved.gone(Name([8; 32]), 20);
    assert_eq!(moved.older_again(), Err(Refusal::Superseded), "somebody else says so");
    moved.gone(ROUTER, 19);
    assert_eq!(moved.older_again(), Err(Refusal::Superseded), "of a route that is over");
    moved.gone(ROUTER, 20);
    let route = moved.servers[1].route(ROUTER, 21);
    moved.directory.tell(&moved.servers[1], route).expect("stored");
    assert_eq!(moved.older_again(), Err(Refusal::Superseded), "it has come again since");
    moved.gone(ROUTER, 21);
    assert_eq!(moved.older_again(), Ok(()));
}

#[test]
fn what_is_withdrawn_never_counts_again_and_a_nodes_own_route_never_steps_back() {
    let mut moved = moved();
    moved.gone(ROUTER, 20);
    let withdrawal = moved.owner.withdrawal(5);
    moved.directory.tell(&moved.owner, withdrawal).expect("stored");
    assert_eq!(moved.older_again(), Err(Refusal::Superseded));
    let line = [Holder::new(), Holder::new(), Holder::new()];
    let [before, after] = [line[0].route(line[1].name(), 1), line[0].route(line[2].name(), 2)];
    for route in [&before, &after] {
        moved.directory.tell(&line[0], route.clone()).expect("stored");
    }
    assert_eq!(moved.directory.tell(&line[0], before), Err(Refusal::Superseded));
}
