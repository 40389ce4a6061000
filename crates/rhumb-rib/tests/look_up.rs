//! What is published is found: as the chain that leads
//! outward from a name, as far as anything is known.

use std::slice::from_ref;

use rhumb_rib::store::Memory;
use rhumb_rib::{Asker, Config, Outcome, Rib};
use rhumb_trust::{Window, name_of, verify_statement};
use rhumb_wire::certificate::MAX_CHAIN;
use rhumb_wire::rib::{Refusal, RequestId, RibRequest, RibRequestBody, RibResponseBody};
use rhumb_wire::{Certificate, Name, Scope, Statement};
use world::{Directory, Holder, NOW_S, routes, window};

use crate::world;

#[test]
fn a_chain_of_three_hops_is_found_and_verifies() {
    let mut directory = Directory::new();
    let line = Holder::line(4);
    let mut chain = routes(&line, 1);
    chain.push(line[3].locator(1));
    let issuers: Vec<_> = line.iter().collect();
    assert_eq!(directory.publish(&issuers, chain.clone()), Ok(()));
    let routers: Vec<_> = line[1..].iter().map(Holder::name).collect();
    assert_eq!(directory.verified_routers(line[0].name()), Ok(routers));
    assert_eq!(directory.found(line[0].name()), chain);
    assert_eq!(directory.rib.counters().statements_stored, 4);
}

#[test]
fn statements_published_apart_by_different_holders_make_one_chain() {
    let mut directory = Directory::new();
    let line = Holder::line(4);
    // The far end first, the near end last: any order will do.
    for (holder, certificate) in line.iter().zip(routes(&line, 1)).rev() {
        assert_eq!(directory.tell(holder, certificate), Ok(()));
    }
    let routers: Vec<_> = line[1..].iter().map(Holder::name).collect();
    assert_eq!(directory.verified_routers(line[0].name()), Ok(routers));
}

#[test]
fn a_server_that_is_nowhere_is_no_way_to_what_it_serves() {
    let mut directory = Directory::new();
    let line = Holder::line(2);
    let owner = Holder::of(rhumb_wire::Role::Capsule);
    let service =
        owner.say(Statement::Service { server: line[0].name(), several: false }, 1, window());
    assert_eq!(directory.tell(&owner, service.clone()), Ok(()));
    assert!(matches!(directory.look_up(owner.name()), RibResponseBody::Absent(_)));
    let route = line[0].route(line[1].name(), 1);
    assert_eq!(directory.tell(&line[0], route.clone()), Ok(()));
    assert_eq!(directory.found(owner.name()), [service, route]);
    assert_eq!(directory.tell(&line[0], line[0].withdrawal(2)), Ok(()));
    assert!(matches!(directory.look_up(owner.name()), RibResponseBody::Absent(_)));
}

#[test]
fn a_chain_without_an_address_leads_as_far_as_it_can() {
    let mut directory = Directory::new();
    let line = Holder::line(2);
    assert_eq!(directory.tell(&line[0], line[0].route(line[1].name(), 1)), Ok(()));
    assert_eq!(directory.verified_routers(line[0].name()), Ok(vec![line[1].name()]));
    // Metadata sent once need not be sent again.
    assert_eq!(directory.publish(&[], vec![line[0].route(line[1].name(), 2)]), Ok(()));
    assert_eq!(directory.found(line[0].name())[0].sequence, 2);
}

#[test]
fn a_long_lease_leads_no_further_than_its_router_says_and_ends_by_a_newer_word() {
    let mut directory = Directory::new();
    let [node, router, next] = [0, 1, 2].map(|_| Holder::new());
    let says = |via: &Holder, sequence, window| {
        node.say(Statement::Route { via: via.name(), scope: Scope::Any }, sequence, window)
    };
    let day = says(&router, 1, Window::starting(NOW_S, 86_400));
    let address = router.locator(1);
    let both = vec![day.clone(), address.clone()];
    assert_eq!(directory.publish(&[&node, &router], both.clone()), Ok(()));
    assert_eq!(directory.found(node.name()), both);
    // The router is gone: what it says of itself ends, and with it the way to all its names.
    directory.now_s = address.not_after_s + 61;
    assert_eq!(directory.found(node.name()), from_ref(&day));
    // One word by the router, and all of them are there again.
    let window = Window::starting(directory.now_s, 600);
    let again = router.say(address.statement, 2, window);
    assert_eq!(directory.tell(&router, again.clone()), Ok(()));
    assert_eq!(directory.found(node.name()), [day, again]);
    // Who moves or leaves is not bound by what is left of the day.
    let moved = says(&next, 2, window);
    assert_eq!(directory.tell(&node, moved.clone()), Ok(()));
    assert_eq!(directory.found(node.name()), [moved]);
    assert_eq!(directory.tell(&node, node.say(Statement::Withdrawal, 3, window)), Ok(()));
    assert_eq!(directory.found(node.name()), []);
}

#[test]
fn an_address_ends_the_chain_even_where_a_route_leads_on() {
    let mut directory = Directory::new();
    let line = Holder::line(3);
    let issuers: Vec<_> = line.iter().collect();
    assert_eq!(directory.publish(&issuers, routes(&line, 1)), Ok(()));
    let locator = line[1].locator(1);
    assert_eq!(directory.tell(&line[1], locator.clone()), Ok(()));
    assert_eq!(directory.found(line[0].name())[1..], *from_ref(&locator));
    // Of the router itself, the address is all there is to say.
    assert_eq!(directory.found(line[1].name()), from_ref(&locator));
    assert!(verify_statement(&locator, line[1].0.metadata(), NOW_S).is_ok());
}

#[test]
fn a_loop_is_cut_where_it_would_close() {
    let mut directory = Directory::new();
    let line = Holder::line(3);
    for from in 0..3 {
        let route = line[from].route(line[(from + 1) % 3].name(), 1);
        assert_eq!(directory.tell(&line[from], route), Ok(()));
    }
    let routers: Vec<_> = line[1..].iter().map(Holder::name).collect();
    assert_eq!(directory.verified_routers(line[0].name()), Ok(routers));
    // A route to oneself leads nowhere.
    let itself = Holder::new();
    let route = itself.route(itself.name(), 1);
    assert_eq!(directory.tell(&itself, route), Err(Refusal::Malformed));
}

#[test]
fn scopes_that_exclude_each_other_are_not_joined() {
    let mut directory = Directory::new();
    let line = Holder::line(3);
    for (at, destination) in [(0, Name([1; 32])), (1, Name([2; 32]))] {
        let scope = Scope::Destination(destination);
        let route = Statement::Route { via: line[at + 1].name(), scope };
        assert_eq!(directory.tell(&line[at], line[at].say(route, 1, window())), Ok(()));
    }
    assert_eq!(directory.verified_routers(line[0].name()), Ok(vec![line[1].name()]));
    assert_eq!(directory.verified_routers(line[1].name()), Ok(vec![line[2].name()]));
}

#[test]
fn the_longest_chain_has_eight_and_metadata_gives_way() {
    let mut directory = Directory::new();
    let line = Holder::line(MAX_CHAIN + 2);
    for (holder, certificate) in line.iter().zip(routes(&line, 1)) {
        assert_eq!(directory.tell(holder, certificate), Ok(()));
    }
    let RibResponseBody::Found { metadata, certificates, .. } = directory.look_up(line[0].name())
    else {
        panic!("the chain is there");
    };
    assert_eq!(certificates, routes_of(&mut directory, &line)[..MAX_CHAIN]);
    // 1300 bytes: 39 for the frame, 8 x 156 for the routes, and the 13
    // left are too few for the 49 of one metadata.
    assert_eq!(metadata, []);
    // Seven routes leave room for three, from the near end.
    let RibResponseBody::Found { metadata, .. } = directory.look_up(line[2].name()) else {
        panic!("the chain is there");
    };
    let known: Vec<_> = line[2..5].iter().map(Holder::name).collect();
    assert_eq!(metadata.iter().map(name_of).collect::<Vec<_>>(), known);
}

/// What each holder said, as stored.
fn routes_of(directory: &mut Directory<crate::Usual>, line: &[Holder]) -> Vec<Certificate> {
    line[..line.len() - 1].iter().map(|holder| directory.found(holder.name())[0].clone()).collect()
}

#[test]
fn an_answer_fits_whoever_asks() {
    let mut directory = Directory::new();
    let line = Holder::line(6);
    let issuers: Vec<_> = line.iter().collect();
    assert_eq!(directory.publish(&issuers, routes(&line, 1)), Ok(()));
    let mut lens = Vec::new();
    for max_answer_len in 227..1300 {
        let asker = Asker::admitted(world::ASKER, max_answer_len);
        let mut data = Vec::new();
        let body = RibRequestBody::LookUpRoute(line[0].name());
        RibRequest { id: RequestId(1), body }.emit(&mut data);
        let answer = world::look_up_with(&mut directory.rib, asker, &data, NOW_S).unwrap();
        let mut out = Vec::new();
        answer.emit(&mut out);
        assert!(out.len() <= max_answer_len, "{} in {max_answer_len}", out.len());
        lens.push(out.len());
    }
    // One certificate at least, and in the end all of them with all metadata.
    assert_eq!((lens[0], lens[lens.len() - 1]), (39 + 156, 39 + 5 * 156 + 5 * 49));
}

#[test]
fn metadata_is_found_by_name() {
    let mut directory = Directory::new();
    let holder = Holder::new();
    assert_eq!(directory.tell(&holder, holder.withdrawal(1)), Ok(()));
    let name = holder.name();
    let found = RibResponseBody::Found {
        name,
        level: 0,
        metadata: vec![holder.metadata()],
        certificates: Vec::new(),
    };
    assert_eq!(directory.ask(RibRequestBody::LookUpMetadata(name)), found);
    let absent = directory.ask(RibRequestBody::LookUpMetadata(Name([1; 32])));
    assert!(matches!(absent, RibResponseBody::Absent(_)), "{absent:?}");
}

#[test]
fn a_directory_answers_about_itself() {
    let mut directory = Directory::new();
    let name = directory.identity.name();
    let found = RibResponseBody::Found {
        name,
        level: 0,
        metadata: vec![(**directory.identity.metadata()).clone()],
        certificates: Vec::new(),
    };
    assert_eq!(directory.ask(RibRequestBody::LookUpMetadata(name)), found);
    assert_eq!(directory.look_up(name), found);
}

#[test]
fn what_is_staged_is_found_after_the_commit() {
    let mut rib = Rib::new(Directory::new().identity, Memory::new(), Config::default());
    let asker = Asker::admitted(world::ASKER, 1300);
    let line = Holder::line(3);
    let ask = |id, body| {
        let mut data = Vec::new();
        RibRequest { id: RequestId(id), body }.emit(&mut data);
        data
    };
    for (id, holder) in line.iter().enumerate() {
        let body = RibRequestBody::Publish {
            metadata: vec![holder.metadata()],
            certificates: vec![holder.locator(1)],
        };
        let data = ask(id as u32, body);
        assert!(matches!(rib.handle_request(asker, &data, NOW_S), Outcome::Staged(_)));
    }
    // The same again waits for the same commit.
    let again = RibRequestBody::Publish {
        metadata: vec![line[0].metadata()],
        certificates: vec![line[0].locator(2)],
    };
    assert!(matches!(rib.handle_request(asker, &ask(7, again), NOW_S), Outcome::Staged(_)));
    let look_up = ask(8, RibRequestBody::LookUpRoute(line[1].name()));
    let Outcome::Answer(answer) = rib.handle_request(asker, &look_up, NOW_S) else {
        panic!("a look-up is answered at once");
    };
    assert!(matches!(answer.body, RibResponseBody::Absent(_)));
    assert_eq!(rib.sweep(NOW_S, 1), 0);
    let answers: Vec<_> = rib.commit().into_iter().map(|r| (r.id.0, r.body)).collect();
    assert_eq!(answers, [0, 1, 2, 7].map(|id| (id, RibResponseBody::Stored)));
    assert_eq!((rib.counters().commits, rib.stored_names().unwrap()), (1, 3));
    let Outcome::Answer(answer) = rib.handle_request(asker, &look_up, NOW_S) else {
        panic!("a look-up is answered at once");
    };
    assert!(matches!(answer.body, RibResponseBody::Found { .. }));
    assert_eq!(rib.commit(), []);
}

/// The name that a directory finds by an address, and one that it says is absent.
fn by_address<S: rhumb_rib::store::Store>(
    directory: &mut Directory<S>,
    beginning: [u8; Name::ADDRESS_LEN],
) -> Result<Name, Name> {
    match directory.ask(RibRequestBody::LookUpAddress(beginning)) {
        RibResponseBody::Found { name, metadata, certificates, level } => {
            assert_eq!((name_of(&metadata[0]), certificates.len(), level), (name, 0, 0));
            Ok(name)
        }
        RibResponseBody::Absent(absence) => match absence.statement {
            Statement::Absence { subject } => Err(subject),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_name_is_found_by_its_address_and_no_other_one_is() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = rhumb_rib::store::Embedded::open(&folder.path().join("rib")).unwrap();
    found_by_address(Directory::new());
    found_by_address(Directory::over(embedded, Config::default()));
}

fn found_by_address<S: rhumb_rib::store::Store>(mut directory: Directory<S>) {
    let holders: Vec<_> = (0..20).map(|_| Holder::new()).collect();
    for holder in &holders {
        assert_eq!(directory.tell(holder, holder.locator(1)), Ok(()));
    }
    for holder in &holders {
        let beginning = holder.name().beginning();
        assert_eq!(by_address(&mut directory, beginning), Ok(holder.name()));
        for at in [0, 14] {
            for change in [1, 0x80] {
                let mut other = beginning;
                other[at] ^= change;
                assert_eq!(by_address(&mut directory, other), Err(Name::first_of(other)));
            }
        }
    }
    for other in [[0; 15], [255; 15]] {
        assert_eq!(by_address(&mut directory, other), Err(Name::first_of(other)));
    }
    let rib = directory.rib.name();
    assert_eq!(by_address(&mut directory, rib.beginning()), Ok(rib));
}
