//! Domains that nest: what is looked for inside is found outside, so many levels further out, and
//! what changes there is heard of here.

use rhumb_rib::{Config, DropReason, Fault};
use rhumb_trust::{Access, Rule, Standing, Window, name_of, verify_chain};
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody};
use rhumb_wire::{Action, Certificate, Name, Role, Statement};

use crate::world::net::Net;
use crate::world::{Holder, NOW_S};

/// A domain with a border, of which its own directory and nobody else is told.
pub(crate) struct Domain {
    pub(crate) holder: Holder,
    pub(crate) border: Holder,
    pub(crate) rib: usize,
}

impl Domain {
    pub(crate) fn at(net: &mut Net, end: usize, parent: Option<&Domain>) -> Self {
        let (holder, border) = (Holder::of(Role::Domain), Holder::new());
        let parents: Vec<_> = parent.iter().map(|it| Net::address(it.rib)).collect();
        let rib = net.add_rib(&holder, &parents);
        net.publish(end, rib, &holder, holder.route(border.name(), 1));
        net.publish(end, rib, &border, border.locator(1));
        if let Some(parent) = parent {
            net.publish(end, rib, &holder, holder.export(parent.holder.name(), 2));
        }
        Self { holder, border, rib }
    }

    pub(crate) fn name(&self) -> Name {
        self.holder.name()
    }
}

/// Three domains around each other, the outermost first, and a second one beside the innermost.
struct Nest {
    net: Net,
    end: usize,
    out: Domain,
    mid: Domain,
    one: Domain,
    two: Domain,
}

impl Nest {
    fn new() -> Self {
        let mut net = Net::new();
        let end = net.add_end(Role::Router);
        let out = Domain::at(&mut net, end, None);
        let mid = Domain::at(&mut net, end, Some(&out));
        let one = Domain::at(&mut net, end, Some(&mid));
        let two = Domain::at(&mut net, end, Some(&mid));
        net.run(500);
        Self { net, end, out, mid, one, two }
    }

    /// A node of a domain, which is known outside as far as `up_to`.
    fn node(&mut self, domain: Name, rib: usize, up_to: Option<Name>) -> Holder {
        let node = Holder::of(Role::Node);
        self.come(&node, (domain, rib), up_to);
        node
    }

    /// A node comes to a router of a domain.
    fn come(&mut self, node: &Holder, (domain, rib): (Name, usize), up_to: Option<Name>) {
        let (end, router) = (self.end, Holder::new());
        self.net.publish(end, rib, &router, router.locator(1));
        self.net.publish(end, rib, node, node.route(router.name(), 1));
        self.net.publish(end, rib, node, node.export_up_to(domain, up_to, 2));
        self.net.run(300);
    }

    /// What an end was told last of a name that changed.
    fn told(&self, end: usize, name: Name) -> Option<Vec<Certificate>> {
        let heard = self.net.ends[end].responses().into_iter();
        let mut changes = heard.filter_map(|it| match it.body {
            RibResponseBody::Changed { name: of, certificates, .. } => Some((of, certificates)),
            _ => None,
        });
        changes.rfind(|(of, _)| *of == name).map(|(_, certificates)| certificates)
    }

    fn look_up(&mut self, rib: usize, name: Name) -> Option<(u8, Vec<Certificate>)> {
        self.net.look_up(self.end, rib, name)
    }

    fn level(&mut self, rib: usize, name: Name) -> Option<u8> {
        self.look_up(rib, name).map(|(level, _)| level)
    }
}

fn issuers(certificates: &[Certificate]) -> Vec<Name> {
    certificates.iter().map(|certificate| certificate.issuer).collect()
}

#[test]
fn a_name_is_found_at_the_level_where_it_is_known_and_by_what_shows_there() {
    for is_deferred in [false, true] {
        let mut nest = Nest::new();
        for rib in 0..4 {
            nest.net.ribs[rib].is_deferred = is_deferred;
            nest.net.stop(rib);
            nest.net.start(rib);
        }
        nest.net.run(6000);
        let node = nest.node(nest.one.name(), nest.one.rib, None);
        let (one, two, mid, out) = (nest.one.rib, nest.two.rib, nest.mid.rib, nest.out.rib);
        let (inside, chain) = nest.look_up(one, node.name()).expect("found");
        assert_eq!((inside, chain.len()), (0, 2));
        let shown = [node.name(), nest.one.name(), nest.one.border.name()];
        for (rib, level) in [(mid, 0), (two, 1)] {
            let (found, chain) = nest.look_up(rib, node.name()).expect("found");
            assert_eq!((found, issuers(&chain)), (level, shown.to_vec()));
        }
        let shown = [node.name(), nest.one.name(), nest.mid.name(), nest.mid.border.name()];
        let (found, chain) = nest.look_up(out, node.name()).expect("found");
        assert_eq!((found, issuers(&chain)), (0, shown.to_vec()));
        // What is of the outermost domain is two levels away from the innermost one.
        let far = nest.node(nest.out.name(), out, None);
        assert_eq!(nest.level(one, far.name()), Some(2));
        assert_eq!(nest.level(mid, far.name()), Some(1));
        // It is verified by what comes with it, and asked for once.
        let climbs = nest.net.rib(one).counters().climbs;
        let answer = nest.net.ask(nest.end, one, RibRequestBody::LookUpRoute(far.name()));
        let RibResponseBody::Found { metadata, certificates, .. } = answer else { panic!() };
        let key_of = |name: &Name| metadata.iter().find(|m| name_of(m) == *name).map(|m| m.key);
        assert!(verify_chain(far.name(), certificates, key_of, NOW_S + 60).is_ok());
        assert_eq!(nest.net.rib(one).counters().climbs, climbs);
        let metadata = RibRequestBody::LookUpMetadata(nest.out.name());
        let answer = nest.net.ask(nest.end, one, metadata);
        assert!(matches!(answer, RibResponseBody::Found { level: 2, metadata, .. }
            if metadata == [nest.out.holder.metadata()]));
    }
}

#[test]
fn who_does_not_say_so_is_absent_outside_and_who_says_how_far_goes_no_further() {
    let mut nest = Nest::new();
    let (one, two, mid, out) = (nest.one.rib, nest.two.rib, nest.mid.rib, nest.out.rib);
    let kept = nest.node(nest.one.name(), one, Some(nest.one.name()));
    let near = nest.node(nest.one.name(), one, Some(nest.mid.name()));
    let far = nest.node(nest.one.name(), one, Some(nest.out.name()));
    for (name, levels) in [
        (kept.name(), [Some(0), None, None, None]),
        (near.name(), [Some(0), Some(1), Some(0), None]),
        (far.name(), [Some(0), Some(1), Some(0), Some(0)]),
    ] {
        let found = [one, two, mid, out].map(|rib| nest.level(rib, name));
        assert_eq!(found, levels);
    }
}

#[test]
fn what_is_withdrawn_inside_is_withdrawn_for_those_who_found_it_from_elsewhere() {
    let mut nest = Nest::new();
    let (one, two) = (nest.one.rib, nest.two.rib);
    let node = nest.node(nest.one.name(), one, None);
    let asker = nest.net.add_end(Role::Router);
    assert!(nest.net.look_up(asker, two, node.name()).is_some());
    let withdrawal = node.withdrawal(3);
    nest.net.publish(nest.end, one, &node, withdrawal.clone());
    nest.net.run(500);
    let heard = nest.net.ends[asker].responses();
    let change = heard.iter().find_map(|it| match &it.body {
        RibResponseBody::Changed { name, level: 1, certificates, .. } if *name == node.name() => {
            Some(certificates.clone())
        }
        _ => None,
    });
    assert_eq!(change, Some(vec![withdrawal]));
    nest.net.run(3000);
    assert_eq!(nest.level(two, node.name()), None);
}

#[test]
fn who_asked_for_a_name_that_was_absent_and_was_told_of_it_hears_that_it_goes_again() {
    let mut nest = Nest::new();
    let (one, two, domain) = (nest.one.rib, nest.two.rib, nest.one.name());
    let node = Holder::of(Role::Node);
    let asker = nest.net.add_end(Role::Router);
    assert!(nest.net.look_up(asker, two, node.name()).is_none());
    nest.come(&node, (domain, one), None);
    let told = nest.told(asker, node.name()).expect("told of it");
    assert_eq!(issuers(&told), [node.name(), domain, nest.one.border.name()]);
    // Longer than absences are remembered.
    nest.net.run(90_000);
    let withdrawal = node.withdrawal(3);
    nest.net.publish(nest.end, one, &node, withdrawal.clone());
    nest.net.run(500);
    assert_eq!(nest.told(asker, node.name()), Some(vec![withdrawal]));
}

#[test]
fn a_domain_that_moves_to_another_border_is_found_there_by_whom_it_was_found_before() {
    let mut nest = Nest::new();
    let (one, two) = (nest.one.rib, nest.two.rib);
    let node = nest.node(nest.one.name(), one, None);
    assert!(nest.level(two, node.name()).is_some());
    let border = Holder::new();
    nest.net.publish(nest.end, one, &border, border.locator(1));
    let word = nest.one.holder.route(border.name(), 7);
    nest.net.publish(nest.end, one, &nest.one.holder, word);
    nest.net.run(1000);
    let (level, chain) = nest.look_up(two, node.name()).expect("found");
    assert_eq!(level, 1);
    assert_eq!(issuers(&chain), [node.name(), nest.one.name(), border.name()]);
}

#[test]
fn with_the_domain_around_away_what_is_inside_and_what_was_found_is_served() {
    let mut nest = Nest::new();
    let (one, two, mid) = (nest.one.rib, nest.two.rib, nest.mid.rib);
    let node = nest.node(nest.one.name(), one, None);
    let other = nest.node(nest.one.name(), one, None);
    assert_eq!(nest.level(two, node.name()), Some(1));
    nest.net.stop(mid);
    assert_eq!(nest.level(two, nest.two.name()), Some(0));
    assert_eq!(nest.level(two, node.name()), Some(1));
    assert_eq!(nest.level(two, other.name()), None);
    // Until it ends.
    nest.net.run(700_000);
    assert_eq!(nest.level(two, node.name()), None);
    nest.net.start(mid);
    nest.net.run(6000);
    assert!(nest.net.rib(two).parents(nest.net.now.instant).all(|(_, name, _)| name.is_some()));
}

#[test]
fn a_silent_one_around_is_given_up_and_what_was_found_is_served() {
    let mut nest = Nest::new();
    let (one, two, mid) = (nest.one.rib, nest.two.rib, nest.mid.rib);
    let node = nest.node(nest.one.name(), one, None);
    assert_eq!(nest.level(two, node.name()), Some(1));
    nest.net.cut.insert(Net::address(mid));
    assert_eq!(nest.level(two, Name([7; 32])), None);
    assert_eq!(nest.level(two, node.name()), Some(1));
}

#[test]
fn domains_around_each_other_end_in_an_absence() {
    for len in [2, 3, 4] {
        let mut net = Net::new();
        let end = net.add_end(Role::Router);
        for at in 0..len {
            net.add_rib(&Holder::of(Role::Domain), &[Net::address((at + 1) % len)]);
        }
        net.run(2000);
        let since = net.now.instant;
        for number in 0..5 {
            assert_eq!(net.look_up(end, 0, Name([number; 32])), None, "of {len}");
        }
        let lasted = net.now.instant.duration_since(since);
        // Two see each other; the question of more goes round until its time is over.
        let bound = std::time::Duration::from_secs(if len == 2 { 1 } else { 5 * 4 });
        assert!(lasted < bound, "{lasted:?} in a circle of {len}");
        net.run(10_000);
        let climbs: u64 = (0..len).map(|rib| net.rib(rib).counters().climbs).sum();
        assert!(climbs <= 5 * len as u64, "{climbs} in a circle of {len}");
        let absences: u64 = (0..len).map(|rib| net.rib(rib).counters().absences_signed).sum();
        assert!(absences <= 30 * len as u64, "{absences} in a circle of {len}");
    }
}

#[test]
fn of_two_domains_that_claim_a_third_it_is_in_the_one_that_it_names_itself() {
    let mut net = Net::new();
    let end = net.add_end(Role::Router);
    let top = Domain::at(&mut net, end, None);
    let [left, right] = [(); 2].map(|()| Domain::at(&mut net, end, Some(&top)));
    let (child, border) = (Holder::of(Role::Domain), Holder::new());
    // Its directory talks with those of both, and each could say that it is its own.
    let rib = net.add_rib(&child, &[Net::address(left.rib), Net::address(right.rib)]);
    let (node, router) = (Holder::of(Role::Node), Holder::new());
    for (by, said) in [
        (&child, child.route(border.name(), 1)),
        (&border, border.locator(1)),
        (&router, router.locator(1)),
        (&node, node.route(router.name(), 1)),
        (&node, node.export(child.name(), 2)),
    ] {
        net.publish(end, rib, by, said);
    }
    let within = |net: &mut Net| net.look_up(end, top.rib, node.name()).map(|it| issuers(&it.1));
    for (sequence, around) in [(2, &left), (3, &right)] {
        net.publish(end, rib, &child, child.export(around.name(), sequence));
        net.run(20_000);
        let shown = [node.name(), child.name(), around.name(), around.border.name()];
        assert_eq!(within(&mut net), Some(shown.to_vec()));
    }
}

/// A directory whose domain around is the test itself.
fn under_a_liar() -> (Net, usize, usize, usize) {
    let mut net = Net::new();
    let liar = net.add_end_at(Role::Rib, Net::address(50));
    let end = net.add_end(Role::Router);
    let rib = net.add_rib(&Holder::of(Role::Domain), &[Net::address(50)]);
    net.run(500);
    (net, liar, end, rib)
}

/// Answers every look-up under way with what `lie` says of the name.
fn lie(net: &mut Net, liar: usize, rib: usize, lie: impl Fn(RequestId, Name) -> RibResponseBody) {
    let (now, rib) = (net.now, net.rib(rib).name());
    let liar = &mut net.ends[liar];
    for (header, data) in std::mem::take(&mut liar.heard) {
        assert_eq!(header.action, Action::RibRequest);
        let RibRequest { id, body } = RibRequest::parse(&data).expect("a request");
        if let RibRequestBody::LookUpRoute(name) = body {
            liar.respond(rib, &RibResponse { id, body: lie(id, name) }, now);
        }
    }
}

#[test]
fn what_the_domain_around_makes_up_is_not_believed() {
    let (mut net, liar, end, rib) = under_a_liar();
    let (node, border) = (Holder::of(Role::Node), Holder::new());
    let forged = Certificate { sequence: 9, ..node.route(border.name(), 1) };
    let foreign = border.locator(1);
    let found = |level, certificates: &[Certificate]| RibResponseBody::Found {
        name: node.name(),
        level,
        metadata: vec![node.metadata(), border.metadata()],
        certificates: certificates.to_vec(),
    };
    let honest = [node.route(border.name(), 1), border.locator(1)];
    for answer in [found(0, &[forged]), found(0, &[foreign]), found(8, &honest)] {
        let id = net.send(end, rib, RibRequestBody::LookUpRoute(node.name()));
        for _ in 0..500 {
            net.run(10);
            lie(&mut net, liar, rib, |_, _| answer.clone());
        }
        let answered = net.answer(end, id);
        assert!(matches!(answered, Some(RibResponseBody::Absent(_))), "{answered:?}");
    }
    assert!(net.rib(rib).counters().beyond_refused >= 2);
    let id = net.send(end, rib, RibRequestBody::LookUpRoute(node.name()));
    net.run(50);
    lie(&mut net, liar, rib, |_, _| found(7, &honest));
    net.run(50);
    assert!(matches!(net.answer(end, id), Some(RibResponseBody::Found { level: 8, .. })));
    // Nor does anybody else speak for it.
    let now = net.now;
    let other = net.rib(rib).name();
    let change = RibResponseBody::Changed {
        name: node.name(),
        level: 0,
        metadata: vec![node.metadata()],
        certificates: vec![node.withdrawal(5)],
    };
    net.ends[end].respond(other, &RibResponse { id: RequestId(1), body: change }, now);
    net.run(50);
    assert_eq!(net.rib(rib).counters().dropped(DropReason::NotARequest), 1);
    assert!(net.look_up(end, rib, node.name()).is_some());
}

/// Answers what somebody who plays a RIB was asked by `rib`, as it likes.
fn play(
    net: &mut Net,
    player: usize,
    rib: usize,
    answer: impl Fn(RibRequestBody) -> RibResponseBody,
) {
    let (now, rib) = (net.now, net.rib(rib).name());
    let player = &mut net.ends[player];
    for (_, data) in std::mem::take(&mut player.heard) {
        let RibRequest { id, body } = RibRequest::parse(&data).expect("a request");
        if !matches!(body, RibRequestBody::Acknowledge) {
            player.respond(rib, &RibResponse { id, body: answer(body) }, now);
        }
    }
}

#[test]
fn of_two_ribs_around_the_one_that_withholds_is_found_out_and_the_other_is_believed() {
    let mut net = Net::new();
    let [honest, withholds] =
        [50, 51].map(|number| net.add_end_at(Role::Rib, Net::address(number)));
    let end = net.add_end(Role::Router);
    let parents = [Net::address(51), Net::address(50)];
    let rib = net.add_rib(&Holder::of(Role::Domain), &parents);
    net.run(500);
    let (node, border) = (Holder::of(Role::Node), Holder::new());
    let id = net.send(end, rib, RibRequestBody::LookUpRoute(node.name()));
    let identity = net.ends[withholds].identity.clone();
    for _ in 0..100 {
        net.run(10);
        let now_s = net.now.unix_s();
        play(&mut net, honest, rib, |body| match body {
            RibRequestBody::LookUpRoute(name) => RibResponseBody::Found {
                name,
                level: 0,
                metadata: vec![node.metadata(), border.metadata()],
                certificates: vec![node.route(border.name(), 1), border.locator(1)],
            },
            _ => RibResponseBody::Stored,
        });
        play(&mut net, withholds, rib, |body| match body {
            RibRequestBody::LookUpRoute(subject) => {
                let statement = Statement::Absence { subject };
                let window = Window::starting(now_s, 2);
                let denial = identity.certify(statement, now_s * 1000, window);
                RibResponseBody::Absent(denial.expect("a signature"))
            }
            _ => RibResponseBody::Stored,
        });
    }
    assert!(matches!(net.answer(end, id), Some(RibResponseBody::Found { level: 1, .. })));
    let conducts = net.rib(rib).parents_conduct();
    let times = |at: usize| Fault::ALL.map(|fault| conducts[at].times(fault));
    assert_eq!(conducts[0].suspicion(net.now.instant).map(|it| it.fault), Some(Fault::Withheld));
    assert_eq!(times(0).iter().sum::<u64>(), conducts[0].times(Fault::Withheld));
    assert_eq!((times(1), conducts[1].suspicion(net.now.instant)), ([0; 6], None));
}

/// So many look-ups of random names a second, for three seconds, by a stranger; whether what
/// somebody who is admitted asks of the domain around meanwhile is answered.
fn flooded(mut config: Config) -> (usize, u64) {
    let mut net = Net::new();
    let honest = net.add_end(Role::Router);
    let floods = net.add_end(Role::Router);
    let name = net.ends[honest].identity.name();
    let standing = Standing::Admitted;
    let rule = Rule { name: Some(name), domain: None, role: None, label: None, standing };
    config.access = Access { rules: vec![rule], ..Access::default() };
    let out = Domain::at(&mut net, honest, None);
    let rib = net.add_rib_with(&Holder::of(Role::Domain), &[Net::address(out.rib)], config);
    let names: Vec<Holder> = (0..10).map(|_| Holder::new()).collect();
    for holder in &names {
        net.publish(honest, out.rib, holder, holder.locator(1));
    }
    net.run(500);
    assert!(net.look_up(floods, rib, out.name()).is_some());
    let mut asked = Vec::new();
    for tick in 0..300u32 {
        for number in 0..30u32 {
            let mut name = [0xEE; 32];
            name[..4].copy_from_slice(&(tick * 30 + number).to_be_bytes());
            net.send(floods, rib, RibRequestBody::LookUpRoute(Name(name)));
        }
        if tick % 30 == 15 {
            let name = names[(tick / 30) as usize].name();
            asked.push(net.send(honest, rib, RibRequestBody::LookUpRoute(name)));
        }
        net.ends[floods].heard.clear();
        net.run(10);
    }
    net.run(100);
    let found = |id: &&RequestId| {
        matches!(net.answer(honest, **id), Some(RibResponseBody::Found { level: 1, .. }))
    };
    (asked.iter().filter(found).count(), net.rib(rib).counters().climbs)
}

#[test]
fn a_flood_of_random_names_by_a_stranger_leaves_who_is_admitted_its_answers() {
    // With no bounds of their own strangers have what the domain around answers: the attack.
    let mut unbounded = Config::default();
    (unbounded.climbs_per_source_per_s, unbounded.climbs_per_s) = (u32::MAX, u32::MAX / 2);
    let (answered, _) = flooded(unbounded);
    assert!(answered < 10, "{answered}");
    let (answered, climbs) = flooded(Config::default());
    assert_eq!(answered, 10);
    assert!(climbs <= 10 + 1 + 50 * 5, "{climbs}");
}

#[test]
fn a_withdrawal_of_something_that_nobody_was_told_of_is_told_to_nobody() {
    let (mut net, liar, end, rib) = under_a_liar();
    let node = Holder::of(Role::Node);
    net.publish(end, rib, &node, node.route(Name([1; 32]), 1));
    net.publish(end, rib, &node, node.withdrawal(2));
    net.run(500);
    let heard = net.ends[liar].heard.iter().map(|(_, data)| RibRequest::parse(data).unwrap().body);
    assert!(heard.into_iter().all(|body| body == RibRequestBody::WhichStore));
}
