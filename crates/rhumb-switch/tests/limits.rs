//! What a domain leaves its members at a router: so many names, so much carried, and to whom they
//! send. Neither sessions, keys nor memberships shown in turns get anybody more of it.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::sync::Arc;
use std::time::Duration;

use rhumb_node::core::Event;
use rhumb_switch::{DropReason, Remote};
use rhumb_trust::{Access, Identity, Membership, Rule, Standing, Window};
use rhumb_wire::datagram::LANES;
use rhumb_wire::flow::FlowAccept;
use rhumb_wire::nack::Reason;
use rhumb_wire::pdu::{Label, LabelledHeader};
use rhumb_wire::{Action, Limits, Metadata, Name, PduHeader, Rights, Role, Statement};

use crate::world::{Stranger, World, router_address};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A world with one router, which takes members of a domain only.
struct Closed {
    world: World,
    domain: Identity,
}

/// A key, of which every process that has it can show another membership.
struct Key(Identity);

impl Key {
    fn new(role: Role) -> Self {
        Self(Identity::generate(role, 0).unwrap())
    }

    fn name(&self) -> Name {
        self.0.name()
    }

    fn with(&self, membership: &Membership) -> Arc<Identity> {
        let key =
            Identity::from_parts((**self.0.metadata()).clone(), self.0.pkcs8_der().to_vec().into())
                .unwrap();
        Arc::new(key.with_membership(membership.clone()).unwrap())
    }
}

fn names(names: u32) -> Limits {
    Limits { names, ..Limits::NONE }
}

fn rate(kbit_per_s: u32) -> Limits {
    Limits { kbit_per_s, ..Limits::NONE }
}

fn only_to(name: Name) -> Limits {
    Limits { only_to: Some(name), ..Limits::NONE }
}

impl Closed {
    fn with_workers(workers: u8) -> Self {
        let mut world = World::new();
        world.config.link.workers = workers;
        world.line(1);
        let domain = Identity::generate(Role::Domain, 0).unwrap();
        let members = Rule::of_domain(domain.name(), Rights::JOIN, Standing::Admitted);
        // What members serve is nobody's member.
        let capsules = Rule { domain: None, role: Some(Role::Capsule), ..members.clone() };
        let access = Access {
            rules: vec![members, capsules],
            otherwise: Standing::Refused,
            ..Access::default()
        };
        let now = world.now;
        world.routers[0].switch.set_access(access, now);
        Self { world, domain }
    }

    fn new() -> Self {
        Self::with_workers(1)
    }

    fn admit(&self, limits: Limits, member: Name) -> Membership {
        self.admit_by(limits, (&self.domain, None), member, Rights::JOIN)
    }

    fn admit_by(
        &self,
        limits: Limits,
        by: (&Identity, Option<&Membership>),
        member: Name,
        rights: Rights,
    ) -> Membership {
        let window = Window::starting(self.world.now.unix_s(), 24 * 3600);
        Membership::sign_within(limits, by, member, rights, 1, window).unwrap()
    }

    /// A node within these limits, which tries to join.
    fn node(&mut self, limits: Limits) -> usize {
        let key = Key::new(Role::Node);
        let membership = self.admit(limits, key.name());
        let node = self.world.node_of(key.with(&membership), 0);
        self.world.run(2 * SECOND);
        node
    }

    /// Somebody with a session, who shows this.
    fn shows(&mut self, key: &Key, membership: &Membership) -> Stranger {
        Stranger::with_identity(&mut self.world, 0, key.with(membership))
    }

    fn joins(&mut self, stranger: &mut Stranger) {
        let via = self.world.routers[0].switch.name();
        let route = stranger.route(via, &self.world);
        let header = PduHeader::new(Action::Advertise, stranger.name(), via);
        stranger.send(&mut self.world, header, &[], &[route]);
        self.world.run(20 * MS);
        stranger.keep_alive(&mut self.world);
    }

    /// Attaches as many new names as there is room for, of so many that it tries.
    fn serves(&mut self, stranger: &mut Stranger, tries: usize) -> usize {
        let before = self.attached();
        for _ in 0..tries {
            let owner = self.world.identity(Role::Capsule);
            stranger.serve(&mut self.world, &owner, 0);
            self.world.run(20 * MS);
            stranger.keep_alive(&mut self.world);
        }
        self.attached() - before
    }

    fn attached(&self) -> usize {
        self.world.routers[0].switch.status(self.world.now).attached.len()
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        self.world.dropped(0, reason)
    }

    /// What the router says of how a name was refused.
    fn refused(&self, name: Name) -> String {
        let refused = self.world.routers[0].switch.status(self.world.now).refused;
        let of_name = refused.into_iter().find(|it| it.name == name);
        of_name.and_then(|it| it.missing).unwrap_or_default()
    }
}

#[test]
fn no_session_and_no_other_membership_gets_a_member_more_names() {
    let mut closed = Closed::new();
    let key = Key::new(Role::Node);
    let (narrow, wide) = (closed.admit(names(3), key.name()), closed.admit(names(6), key.name()));
    let mut one = closed.shows(&key, &narrow);
    closed.joins(&mut one);
    assert_eq!(closed.serves(&mut one, 4), 2, "three with its own");
    assert_eq!(closed.dropped(DropReason::TooManyNames), 2);
    assert!(
        closed.refused(key.name()).contains("have 3 names here"),
        "{}",
        closed.refused(key.name())
    );
    assert!(one.nacks().iter().any(|nack| matches!(nack, Reason::Overloaded(_))));
    // Other sessions of the same key, one after the other and side by side.
    for _ in 0..3 {
        let mut other = closed.shows(&key, &narrow);
        closed.serves(&mut other, 2);
        assert!(closed.attached() <= 3, "{}", closed.attached());
    }
    // What counts is what is shown now; what it has stays counted.
    let mut other = closed.shows(&key, &wide);
    closed.joins(&mut other);
    closed.serves(&mut other, 8);
    assert_eq!(closed.attached(), 6);
    let _narrow_again = closed.shows(&key, &narrow);
    closed.world.run(SECOND);
    assert_eq!(closed.attached(), 3, "what is too much is detached");
}

#[test]
fn keys_that_a_member_admits_share_its_names() {
    let mut closed = Closed::new();
    let site = Key::new(Role::Node);
    let rights = Rights::JOIN.and(Rights::ADMIT);
    let own = closed.admit_by(names(4), (&closed.domain, None), site.name(), rights);
    let mut nodes = Vec::new();
    for _ in 0..12 {
        let key = Key::new(Role::Node);
        let given = closed.admit_by(names(4), (&site.0, Some(&own)), key.name(), Rights::JOIN);
        nodes.push(closed.world.node_of(key.with(&given), 0));
        closed.world.run(SECOND);
    }
    assert_eq!(closed.attached(), 4);
    let mut itself = closed.shows(&site, &own);
    closed.joins(&mut itself);
    assert_eq!(closed.attached(), 4, "nor has the site itself one more");
    // One that leaves makes room for another one of them, and not for two.
    let joined: Vec<usize> =
        nodes.iter().copied().filter(|it| closed.world.nodes[*it].core.is_joined()).collect();
    assert_eq!(joined.len(), 4);
    let now = closed.world.now;
    closed.world.nodes[joined[0]].core.leave(now);
    closed.world.run(30 * SECOND);
    assert_eq!(closed.attached(), 4);
}

#[test]
fn a_name_moves_between_those_who_share_a_limit_that_is_used_up() {
    let mut closed = Closed::new();
    let site = Key::new(Role::Node);
    let rights = Rights::JOIN.and(Rights::ADMIT);
    let own = closed.admit_by(names(3), (&closed.domain, None), site.name(), rights);
    let keys = [Key::new(Role::Node), Key::new(Role::Node)];
    let mut servers = keys.map(|key| {
        let given = closed.admit_by(names(3), (&site.0, Some(&own)), key.name(), Rights::JOIN);
        let mut server = closed.shows(&key, &given);
        closed.joins(&mut server);
        server
    });
    let owner = closed.world.identity(Role::Capsule);
    for server in [0, 1, 0] {
        closed.world.run(SECOND);
        servers[server].serve(&mut closed.world, &owner, 0);
        closed.world.run(20 * MS);
        servers[server].keep_alive(&mut closed.world);
        assert_eq!(closed.attached(), 3);
    }
    assert_eq!(closed.dropped(DropReason::TooManyNames), 0);
    assert_eq!(closed.serves(&mut servers[1], 2), 0);
}

#[test]
fn a_name_that_several_serve_counts_for_each_of_them() {
    let mut closed = Closed::new();
    let site = Key::new(Role::Node);
    let rights = Rights::JOIN.and(Rights::ADMIT);
    let own = closed.admit_by(names(4), (&closed.domain, None), site.name(), rights);
    let owner = closed.world.identity(Role::Capsule);
    // The first two have room for it and for their own name each, the others for neither.
    for expected in [0, 0, 2, 4] {
        let key = Key::new(Role::Node);
        let given = closed.admit_by(names(4), (&site.0, Some(&own)), key.name(), Rights::JOIN);
        let mut server = closed.shows(&key, &given);
        let via = closed.world.routers[0].switch.name();
        let window = Window::starting(closed.world.now.unix_s(), 600);
        let statement = Statement::Service { server: key.name(), several: true };
        let sequence = closed.world.now.unix_ms;
        let word = owner.certify(statement, sequence, window).unwrap();
        let mut metadata = Vec::new();
        Metadata::emit_list(&[(**owner.metadata()).clone()], &mut metadata);
        let header = PduHeader::new(Action::Advertise, owner.name(), via);
        let route = server.route(via, &closed.world);
        server.send(&mut closed.world, header, &metadata, &[word, route]);
        closed.joins(&mut server);
        assert_eq!(closed.dropped(DropReason::TooManyNames), expected);
    }
}

#[test]
fn a_member_sends_to_the_one_name_only_and_answers_nobody_else() {
    let mut closed = Closed::new();
    let (server, other) = (closed.node(Limits::NONE), closed.node(Limits::NONE));
    let limits = only_to(closed.world.name(server));
    let member = closed.node(limits);
    let name = closed.world.name(member);
    closed.world.send(member, server, b"a report");
    closed.world.run(SECOND);
    assert_eq!(closed.world.nodes[server].received.len(), 1);
    closed.world.send(member, other, b"a secret");
    closed.world.run(SECOND);
    assert!(closed.world.nodes[other].received.is_empty());
    assert!(closed.dropped(DropReason::OutOfReach) > 0);
    assert!(closed.refused(name).contains("lets it send to"), "{}", closed.refused(name));
    // It may be sent to by all; whoever pings it is answered if it may be sent to.
    for (from, answered) in [(server, true), (other, false)] {
        closed.world.nodes[from].events.clear();
        let now = closed.world.now;
        closed.world.nodes[from].core.ping(name, 64, 36, now).unwrap();
        closed.world.run(SECOND);
        let pong = |event: &Event| matches!(event, Event::Pong { .. });
        assert_eq!(closed.world.nodes[from].events.iter().any(pong), answered);
    }
}

#[test]
fn a_flow_ends_when_its_sender_shows_that_it_may_send_elsewhere_only() {
    let mut closed = Closed::new();
    let (one, other) = (closed.node(Limits::NONE), closed.node(Limits::NONE));
    let [to_one, to_other] = [one, other].map(|node| closed.world.name(node));
    let key = Key::new(Role::Node);
    let anybody = closed.admit(Limits::NONE, key.name());
    let mut sender = closed.shows(&key, &anybody);
    closed.joins(&mut sender);
    let data = [1, 0, 0, 9, 42, 0, 0, 0, 0, 0];
    let arrives = |closed: &mut Closed, sender: &mut Stranger| {
        let before = closed.world.nodes[one].received.len();
        for _ in 0..2 {
            let header = PduHeader::new(Action::Data, sender.name(), to_one);
            sender.send(&mut closed.world, header, &data, &[]);
            closed.world.run(20 * MS);
            sender.keep_alive(&mut closed.world);
        }
        closed.world.nodes[one].received.len() > before
    };
    assert!(arrives(&mut closed, &mut sender));
    let narrow = closed.admit(only_to(to_other), key.name());
    let mut sender = closed.shows(&key, &narrow);
    closed.joins(&mut sender);
    assert!(!arrives(&mut closed, &mut sender));
    assert!(sender.nacks().contains(&Reason::NotAuthorised));
    assert!(closed.dropped(DropReason::OutOfReach) >= 2);
    let mut sender = closed.shows(&key, &anybody);
    closed.joins(&mut sender);
    assert!(arrives(&mut closed, &mut sender));
}

/// Sends PDUs of 1000 bytes for so long, one each millisecond, by its label or, until there is one,
/// in names. How many bytes of them arrived.
fn flood(
    closed: &mut Closed,
    senders: &mut [(Stranger, Option<Label>)],
    to: usize,
    ms: u32,
) -> usize {
    let (before, destination) = (closed.world.nodes[to].received.len(), closed.world.name(to));
    let mut data = vec![0; 1000 - LabelledHeader::LEN];
    data[..5].copy_from_slice(&[1, 0, 0, 9, 42]);
    for _ in 0..ms {
        for (sender, label) in &mut *senders {
            let header = PduHeader::new(Action::Data, sender.name(), destination);
            match *label {
                None => sender.send(&mut closed.world, header, &data, &[]),
                Some(label) => {
                    let header = LabelledHeader { action: Action::Data, ttl: 64, tag: 1, label };
                    sender.send_labelled(&mut closed.world, header, &data);
                }
            }
            let accepted = sender.inbox.iter().find(|(it, _)| it.action == Action::FlowAccept);
            let given = accepted.and_then(|(_, data)| FlowAccept::parse(data).ok());
            *label = label.or(given.map(|accept| accept.label));
        }
        closed.world.run(MS);
    }
    (closed.world.nodes[to].received.len() - before) * 1000
}

/// Bytes in a second by which a flood of 1000 a millisecond from each sender is cut: to `most`
/// kbit/s and a burst.
fn assert_about(bytes: usize, kbit_per_s: usize, seconds: usize) {
    let (even, burst) = (kbit_per_s * 125 * seconds, (16 << 10).max(kbit_per_s * 125 / 8));
    assert!(bytes <= even + burst + 1000, "{bytes} of {even}");
    assert!(bytes + 1000 >= even * 9 / 10, "{bytes} of {even}");
}

#[test]
fn a_rate_bounds_what_a_member_sends_in_names_and_by_labels_on_all_workers() {
    for workers in [1, 4] {
        let mut closed = Closed::with_workers(workers);
        let (to, free) = (closed.node(Limits::NONE), closed.node(Limits::NONE));
        // On the lane of another worker than the switch, where there is one.
        let on_lane = || Some(Key::new(Role::Node)).filter(|it| it.name().0[0] % LANES == 1);
        let key = std::iter::repeat_with(on_lane).flatten().next().unwrap();
        let membership = closed.admit(rate(800), key.name());
        let mut sender = closed.shows(&key, &membership);
        closed.joins(&mut sender);
        let mut senders = [(sender, None)];
        let bytes = flood(&mut closed, &mut senders, to, 2000);
        assert_about(bytes, 800, 2);
        assert!(senders[0].1.is_some(), "it was told a label");
        assert!(closed.dropped(DropReason::RateExceeded) > 1000);
        let nacks = senders[0].0.nacks();
        assert!(nacks.iter().any(|nack| matches!(nack, Reason::Overloaded(1..=1000))));
        assert!(closed.refused(key.name()).contains("more than the 800 kbit/s"));
        // Nobody else pays for it.
        let dropped = closed.dropped(DropReason::RateExceeded);
        for _ in 0..100 {
            closed.world.send(free, to, &[7; 900]);
            closed.world.run(MS);
        }
        assert_eq!(closed.dropped(DropReason::RateExceeded), dropped);
        let from_free = closed.world.name(free);
        let received =
            closed.world.nodes[to].received.iter().filter(|(from, _)| *from == from_free);
        assert_eq!(received.count(), 100);
    }
}

/// A router with a rate, of which the next one demands capabilities besides.
#[test]
fn a_rate_bounds_what_comes_over_a_border_too() {
    let mut world = World::new();
    let (domain, key) = (Identity::generate(Role::Domain, 0).unwrap(), Key::new(Role::Router));
    let window = Window::starting(world.now.unix_s(), 24 * 3600);
    let by = (&domain, None);
    let shown = Membership::sign_within(rate(800), by, key.name(), Rights::CARRY, 1, window);
    let [near, far] = [0, 1].map(router_address);
    let identity = world.identity(Role::Router);
    let upstream = Remote { address: far, name: Some(identity.name()) };
    world.router(key.with(&shown.unwrap()), near, Some(upstream), None);
    world.router(identity, far, None, Some(far));
    world.run(2 * SECOND);
    world.border(0, 1);
    let (a, b) = (world.node(0), world.node(1));
    world.warm_up(a, b);
    let before = world.nodes[b].received.len();
    for _ in 0..500 {
        world.send(a, b, &[7; 1000]);
        world.settle();
    }
    let bytes = (world.nodes[b].received.len() - before) * 1000;
    assert!((10_000..=17_000).contains(&bytes), "a burst: {bytes}");
    assert!(world.dropped(1, DropReason::RateExceeded) >= 400);
}

#[test]
fn keys_sessions_and_memberships_in_turns_share_one_rate() {
    let mut closed = Closed::new();
    let to = closed.node(Limits::NONE);
    let site = Key::new(Role::Node);
    let rights = Rights::JOIN.and(Rights::ADMIT);
    let own = closed.admit_by(rate(1600), (&closed.domain, None), site.name(), rights);
    let keys: Vec<Key> = (0..4).map(|_| Key::new(Role::Node)).collect();
    let show = |closed: &mut Closed, key: &Key, kbit_per_s| {
        let by = (&site.0, Some(&own));
        let given = closed.admit_by(rate(kbit_per_s), by, key.name(), Rights::JOIN);
        let mut sender = closed.shows(key, &given);
        closed.joins(&mut sender);
        (sender, None)
    };
    let mut senders: Vec<_> = keys.iter().map(|key| show(&mut closed, key, 1600)).collect();
    let bytes = flood(&mut closed, &mut senders, to, 2000);
    assert_about(bytes, 1600, 2);
    // Each new handshake would bring a burst: 20 of them 320 kB, in place of what 40 ms are worth.
    let mut bytes = 0;
    for turn in 0..20 {
        let kbit_per_s = if turn % 2 == 0 { 100 } else { 1600 };
        let mut again = [show(&mut closed, &keys[0], kbit_per_s)];
        bytes += flood(&mut closed, &mut again, to, 20);
    }
    assert!(bytes < 150_000, "{bytes}");
}
