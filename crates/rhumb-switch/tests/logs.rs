//! RIBs that keep logs: what one shows and its log does not say is proven against it, one that
//! tells this to one router and that to another is found out when they compare, and honest ones
//! never are, whatever happens to names, and whatever strangers tell.

use std::collections::HashMap;
use std::time::Duration;

use rhumb_switch::{Fault, RibStatus};
use rhumb_trust::log::Roots;
use rhumb_trust::{Access, Identity, Rule, Standing};
use rhumb_wire::log::{Head, NOTHING};
use rhumb_wire::metadata::Role;
use rhumb_wire::rib::{Refusal, RibRequestBody, RibResponseBody};
use rhumb_wire::{Action, Name, PduHeader};

use crate::world::{Stranger, World, router_address};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// One RIB, a liar that tells the truth so far, and routers that look at each answer.
fn scene(routers: usize) -> (World, usize) {
    let mut world = World::new();
    world.config.check_rib_answers = 1;
    let liar = world.liar(Box::new(|_, truth| Some(truth)));
    world.rib = None;
    for index in 0..routers {
        let identity = world.identity(Role::Router);
        let address = router_address(index);
        world.router(identity, address, None, Some(address));
        world.run(SECOND);
    }
    (world, liar)
}

/// How a router sees the one RIB.
fn seen(world: &World, router: usize) -> RibStatus {
    world.routers[router].switch.status(world.now).ribs[0]
}

fn times(rib: &RibStatus, fault: Fault) -> u64 {
    rib.faults.iter().find(|(label, _)| *label == fault.as_str()).expect("each kind").1
}

fn total(rib: &RibStatus) -> u64 {
    rib.faults.iter().map(|(_, times)| times).sum()
}

/// A node at one router sends to a new one at another.
fn talk(world: &mut World, from: usize, to: usize) {
    let (from, to) = (world.node(from), world.node(to));
    world.send(from, to, b"does it?");
    world.run(SECOND);
}

#[test]
fn honest_ribs_prove_what_they_show_whatever_happens_to_names() {
    let mut world = World::new();
    world.config.check_rib_answers = 1;
    world.replica();
    for index in 0..3 {
        let identity = world.identity(Role::Router);
        world.router(identity, router_address(index), None, Some(router_address(index)));
    }
    world.run(SECOND);
    let here = world.node(0);
    for round in 0..12 {
        // They come, are asked for at once, move, leave, and leases end meanwhile.
        let identity = world.identity(Role::Node);
        let node = world.node_of(identity.clone(), 1 + round % 2);
        world.run(SECOND / 2);
        world.send(here, node, b"there?");
        world.run(SECOND / 2);
        let moved = world.node_of(identity, 2 - round % 2);
        world.run(SECOND / 2);
        world.send(here, moved, b"and there?");
        let now = world.now;
        if round % 3 == 0 {
            world.nodes[moved].core.leave(now);
        }
        world.run(MINUTE);
    }
    for router in 0..3 {
        for rib in world.routers[router].switch.status(world.now).ribs {
            assert_eq!((total(&rib), rib.unproven, rib.fork), (0, 0, None), "{router}");
        }
    }
    let ribs = world.routers[0].switch.status(world.now).ribs;
    assert!(ribs.iter().map(|rib| rib.proven).sum::<u64>() >= 12, "{ribs:?}");
    assert!(ribs.iter().any(|rib| rib.log_epoch > Some(10) && rib.log_names > Some(3)), "{ribs:?}");
}

/// Whoever had one of a name's statements shows it for ever, to those who never saw a newer one: no
/// word of its own contradicts that.
fn serve_the_first(world: &mut World, liar: usize) {
    let mut first: HashMap<Name, RibResponseBody> = HashMap::new();
    world.liars[liar].is_mute = true;
    world.liars[liar].lie = Box::new(move |question, truth| match question {
        RibRequestBody::LookUpRoute(name) => {
            if matches!(truth, RibResponseBody::Found { .. }) {
                first.entry(*name).or_insert_with(|| truth.clone());
            }
            Some(first.get(name).cloned().unwrap_or(truth))
        }
        _ => Some(truth),
    });
}

#[test]
fn one_that_shows_what_its_log_does_not_say_is_named() {
    let (mut world, liar) = scene(4);
    serve_the_first(&mut world, liar);
    let identity = world.identity(Role::Node);
    let before = world.node_of(identity.clone(), 1);
    // The fourth router has the RIB show what is true now, and it goes on to show that.
    let asks = world.node(3);
    world.run(SECOND);
    world.send(asks, before, b"does it?");
    world.run(SECOND);
    world.node_of(identity, 2);
    world.run(5 * SECOND);
    let late = world.node(0);
    world.send(late, before, b"does it?");
    world.run(10 * SECOND);
    let rib = seen(&world, 0);
    assert_eq!((times(&rib, Fault::Unlogged), total(&rib)), (1, 1), "{rib:?}");
    assert_eq!(rib.suspected_of, Some("unlogged"));
}

#[test]
fn one_that_has_no_proof_is_counted_and_one_that_forges_it_is_named() {
    let (mut world, liar) = scene(2);
    // It says for ever that something has just changed.
    world.liars[liar].lie = Box::new(|_, truth| {
        Some(match truth {
            RibResponseBody::Proof { head, .. } => RibResponseBody::Proof { head, path: None },
            truth => truth,
        })
    });
    talk(&mut world, 0, 1);
    world.run(20 * SECOND);
    let rib = seen(&world, 0);
    assert_eq!((total(&rib), rib.proven), (0, 0));
    assert!(rib.unproven > 0, "{rib:?}");

    world.liars[liar].lie = Box::new(|_, mut truth| {
        if let RibResponseBody::Proof { path: Some(path), .. } = &mut truth {
            path.branches.iter_mut().for_each(|(_, hash)| hash[0] ^= 1);
        }
        Some(truth)
    });
    talk(&mut world, 0, 1);
    world.run(5 * SECOND);
    assert_eq!(seen(&world, 0).suspected_of, Some("forged"));

    // To keep no log is no fault.
    let (mut world, liar) = scene(2);
    world.liars[liar].lie = Box::new(|question, truth| {
        Some(match question {
            RibRequestBody::Prove(_) => RibResponseBody::Refused(Refusal::Malformed),
            _ => truth,
        })
    });
    talk(&mut world, 0, 1);
    world.run(20 * SECOND);
    let rib = seen(&world, 0);
    assert_eq!((total(&rib), rib.proven, rib.unproven, rib.log_epoch), (0, 0, 0, None));
}

#[test]
fn one_that_leads_from_no_head_to_the_next_is_named() {
    let (mut world, liar) = scene(2);
    world.liars[liar].lie = Box::new(|question, truth| {
        Some(match question {
            RibRequestBody::WayBack { .. } => RibResponseBody::Refused(Refusal::NoLog),
            _ => truth,
        })
    });
    talk(&mut world, 0, 1);
    assert_eq!(total(&seen(&world, 0)), 0, "one head alone needs no other");
    for _ in 0..6 {
        talk(&mut world, 0, 1);
        world.run(2 * SECOND);
    }
    let rib = seen(&world, 0);
    assert_eq!(rib.suspected_of, Some("forked"), "{rib:?}");
    assert_eq!(times(&rib, Fault::Forked), total(&rib));
}

/// The first router is told of a world of its own, in which everything holds together.
fn deceived() -> World {
    let (mut world, liar) = scene(3);
    let (victim, now) = (world.routers[0].switch.name(), world.now);
    world.liars[liar].deceive(victim, now);
    // All say again what they have said, so that both worlds have it.
    world.run(6 * MINUTE);
    world
}

#[test]
fn one_that_tells_each_another_world_is_found_out_when_they_compare() {
    let mut world = deceived();
    // They have a session, since one has sent to the other, and each has had an answer proven.
    talk(&mut world, 0, 1);
    talk(&mut world, 1, 0);
    assert!(seen(&world, 0).proven > 0 && seen(&world, 1).proven > 0);
    assert_eq!((total(&seen(&world, 0)), total(&seen(&world, 1))), (0, 0), "each by itself");
    world.run(3 * MINUTE);
    for router in 0..2 {
        let rib = seen(&world, router);
        assert!((1..=4).contains(&times(&rib, Fault::Forked)), "{router}: {rib:?}");
        assert_eq!(times(&rib, Fault::Forked), total(&rib));
        assert_eq!(rib.suspected_of, Some("forked"));
    }
    // Whoever repeats them does not have it told more often.
    let fork = seen(&world, 0).fork.expect("kept");
    let before = times(&seen(&world, 0), Fault::Forked);
    let mut stranger = Stranger::new(&mut world, 0, Role::Router);
    let mut data = Vec::new();
    Head::emit_list(&[fork.one, fork.other], &mut data);
    let header = PduHeader::new(Action::Heads, stranger.name(), world.routers[0].switch.name());
    for _ in 0..100 {
        stranger.send(&mut world, header, &data, &[]);
        world.run(SECOND / 10);
    }
    assert!(times(&seen(&world, 0), Fault::Forked) <= before + 1, "{:?}", seen(&world, 0));
    let status = serde_json::to_value(seen(&world, 0)).unwrap();
    let is_head = |head: &serde_json::Value| {
        head.as_str().is_some_and(|text| {
            let bytes = (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..][..2], 16));
            Head::parse(&bytes.collect::<Result<Vec<u8>, _>>().unwrap()).is_ok()
        })
    };
    let fork = status["fork"].as_array();
    assert!(fork.is_some_and(|heads| heads.len() == 2 && heads.iter().all(is_head)), "{status}");
}

/// A node sends to somebody whom no RIB knows.
fn seek(world: &mut World, from: usize, number: u8) {
    let sent = world.nodes[from].core.send(Name([number; 32]), 7, b"is it there?", world.now);
    sent.expect("room");
    world.settle();
}

/// Who is told that names are not there has that proven as well, so a world in which there is less
/// is found out as one in which there is something else.
#[test]
fn one_that_denies_to_one_what_it_shows_to_others_is_found_out_when_they_compare() {
    let (mut world, liar) = scene(2);
    talk(&mut world, 0, 1);
    talk(&mut world, 1, 0);
    let askers = [world.node(0), world.node(1)];
    let (victim, now) = (world.routers[0].switch.name(), world.now);
    world.liars[liar].deceive(victim, now);
    world.run(6 * MINUTE);
    let before = [0, 1].map(|router| seen(&world, router).proven);
    for number in 0..8 {
        askers.iter().for_each(|asker| seek(&mut world, *asker, number));
        world.run(2 * SECOND);
    }
    for (router, before) in before.iter().enumerate() {
        assert!(seen(&world, router).proven > *before, "{router}: {:?}", seen(&world, router));
    }
    world.run(3 * MINUTE);
    for router in 0..2 {
        let rib = seen(&world, router);
        // Once a minute, however often they tell each other of it.
        assert!((1..=4).contains(&times(&rib, Fault::Forked)), "{router}: {rib:?}");
        assert_eq!(times(&rib, Fault::Forked), total(&rib));
    }
}

/// Anybody may ask for any name, and no RIB knows it.
#[test]
fn denials_leave_proofs_to_what_is_shown() {
    let (mut world, liar) = scene(2);
    // For ever it says of such names that something has just changed.
    world.liars[liar].lie = Box::new(|question, truth| {
        Some(match (question, truth) {
            (RibRequestBody::Prove(name), RibResponseBody::Proof { head, .. })
                if name.0 == [name.0[0]; 32] =>
            {
                RibResponseBody::Proof { head, path: None }
            }
            (_, truth) => truth,
        })
    });
    let asker = world.node(0);
    world.run(SECOND);
    let before = seen(&world, 0).proven;
    for number in 0..100 {
        seek(&mut world, asker, number);
        world.run(SECOND / 20);
    }
    assert_eq!(seen(&world, 0).proven, before);
    talk(&mut world, 0, 1);
    world.run(2 * SECOND);
    let rib = seen(&world, 0);
    assert!(rib.proven > before, "{rib:?}");
    world.run(20 * SECOND);
    assert!(seen(&world, 0).unproven > 0, "none of them was asked for: {rib:?}");
}

#[test]
fn strangers_heads_change_nothing() {
    let (mut world, liar) = scene(2);
    talk(&mut world, 0, 1);
    let before = seen(&world, 0);
    assert!(before.proven > 0);
    let rib = world.liars[liar].identity.name();
    let mut stranger = Stranger::new(&mut world, 0, Role::Router);
    let mine = Identity::generate(Role::Rib, 0).unwrap();
    let now_ms = world.now.unix_ms;
    let roots = |epoch| Roots {
        epoch,
        began_ms: now_ms - 1000,
        made_ms: now_ms,
        names: 1,
        map: [1; 32],
        history: if epoch == 0 { NOTHING } else { [2; 32] },
    };
    let mut data = Vec::new();
    // Of the router's RIB, not signed by it; of another one, signed; from the future; and nonsense.
    let mut forged = mine.sign_head(roots(3)).unwrap();
    forged.rib = rib;
    Head::emit_list(&[forged, mine.sign_head(roots(4)).unwrap()], &mut data);
    let router = world.routers[0].switch.name();
    let header = PduHeader::new(Action::Heads, stranger.name(), router);
    for _ in 0..100 {
        stranger.send(&mut world, header, &data, &[]);
        stranger.send(&mut world, header, &data[..30], &[]);
    }
    world.run(5 * SECOND);
    let after = seen(&world, 0);
    assert_eq!((after.log_epoch, total(&after), after.fork), (before.log_epoch, 0, None));
    // A node has no say at all.
    let mut node = Stranger::new(&mut world, 0, Role::Node);
    let before = world.dropped(0, rhumb_switch::DropReason::NotForUs);
    let header = PduHeader::new(Action::Heads, node.name(), router);
    node.send(&mut world, header, &data, &[]);
    world.run(SECOND);
    assert_eq!(world.dropped(0, rhumb_switch::DropReason::NotForUs), before + 1);
}

/// Two routers that admit each other, the first of which is told of a world of its own, and a third
/// one; and heads of the log that each of the two is told of, oldest first.
fn deceived_friends() -> (World, [Vec<Head>; 2]) {
    let mut world = World::new();
    world.config.check_rib_answers = 1;
    let liar = world.liar(Box::new(|_, truth| Some(truth)));
    world.rib = None;
    let identities = [0, 1, 2].map(|_| world.identity(Role::Router));
    let rules = identities.iter().map(|it| Rule::named(it.name(), Standing::Admitted)).collect();
    world.config.access = Access { rules, ..Access::default() };
    let names = [&identities[0], &identities[1]].map(|it| it.name());
    // Both logs begin together, so each head of the one has to be linked to those of the other.
    let now = world.now;
    world.liars[liar].deceive(names[0], now);
    let invented = world.identity(Role::Node);
    world.liars[liar].invent(&invented, now);
    for (index, identity) in identities.into_iter().enumerate() {
        let address = router_address(index);
        world.router(identity, address, None, Some(address));
    }
    world.run(SECOND);
    let mut heads = [Vec::new(), Vec::new()];
    for round in 0..8 {
        talk(&mut world, round % 2, 1 - round % 2);
        let now = world.now;
        for (asker, heads) in names.iter().zip(&mut heads) {
            heads.extend(world.liars[liar].head_for(*asker, now));
            heads.dedup();
        }
    }
    assert!(heads.iter().all(|heads| heads.len() > 4), "{heads:?}");
    // Two heads of one epoch would be enough without a link.
    for _ in 0..3 {
        talk(&mut world, 1, 2);
    }
    assert!(seen(&world, 0).log_epoch < seen(&world, 1).log_epoch);
    assert!(seen(&world, 0).proven > 0 && seen(&world, 1).proven > 0);
    assert_eq!((total(&seen(&world, 0)), total(&seen(&world, 1))), (0, 0), "each by itself");
    (world, heads)
}

/// Many strangers go on to show both routers what each knows to be in the log that it is told of.
#[test]
fn strangers_old_heads_keep_nothing_from_being_linked_that_admitted_routers_tell() {
    let (mut world, heads) = deceived_friends();
    let mut strangers: Vec<(usize, Stranger)> = (0..8)
        .map(|number| (number % 2, Stranger::new(&mut world, number % 2, Role::Router)))
        .collect();
    for turn in 0..1500 {
        for (number, (router, stranger)) in strangers.iter_mut().enumerate() {
            let old = &heads[*router];
            let mut data = Vec::new();
            Head::emit_list(&[old[(turn + number) % (old.len() - 1)]], &mut data);
            let to = world.routers[*router].switch.name();
            let header = PduHeader::new(Action::Heads, stranger.name(), to);
            stranger.send(&mut world, header, &data, &[]);
        }
        world.run(SECOND / 5);
    }
    for router in 0..2 {
        let rib = seen(&world, router);
        assert!(times(&rib, Fault::Forked) > 0, "{router}: {rib:?}");
        assert_eq!(times(&rib, Fault::Forked), total(&rib));
    }
}
