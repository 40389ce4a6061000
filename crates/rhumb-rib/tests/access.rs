//! Whom a RIB serves: routers by their sessions, issuers by the rules
//! that fit them, and what changes while it runs.

use rhumb_link::Source;
use rhumb_rib::{Asker, Config, Outcome};
use rhumb_trust::{Access, Rule, Standing, Who};
use rhumb_wire::rib::{
    Refusal, RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody, StoreId,
};
use rhumb_wire::{Name, Role};

use crate::world::{Directory, Holder, NOW_S};

const VIA: Name = Name([1; 32]);

fn rule(name: Option<Name>, role: Option<Role>, standing: Standing) -> Rule {
    Rule { name, domain: None, role, label: None, standing }
}

fn directory(access: Access) -> Directory<crate::Usual> {
    let mut config = Config::default();
    config.access = access;
    Directory::with(config)
}

/// What `router` is answered, as the server has it ask.
fn ask(
    directory: &mut Directory<crate::Usual>,
    router: &Holder,
    body: RibRequestBody,
) -> RibResponseBody {
    let (name, metadata) = (&router.name(), &router.metadata());
    let standing = directory.rib.standing(&Who { name, metadata, membership: None, now_s: NOW_S });
    let source = Source::V4([192, 0, 2, 7]);
    let asker = Asker { standing, source, ..Asker::admitted(router.name(), 1300) };
    let mut data = Vec::new();
    RibRequest { id: RequestId(1), body }.emit(&mut data);
    match directory.rib.handle_request(asker, &data, NOW_S) {
        Outcome::Answer(RibResponse { body, .. }) => body,
        Outcome::Staged(_) => directory.rib.commit().pop().expect("an answer").body,
        other => panic!("{other:?}"),
    }
}

fn publish(holder: &Holder, sequence: u64) -> RibRequestBody {
    let certificates = vec![holder.route(VIA, sequence)];
    RibRequestBody::Publish { metadata: vec![holder.metadata()], certificates }
}

const NOT_AUTHORISED: RibResponseBody = RibResponseBody::Refused(Refusal::NotAuthorised);

#[test]
fn a_closed_rib_serves_the_routers_it_names_and_their_clients() {
    let (ours, foreign, client) = (Holder::new(), Holder::new(), Holder::of(Role::Node));
    let rules = vec![rule(Some(ours.name()), None, Standing::Admitted)];
    let mut directory =
        directory(Access { rules, otherwise: Standing::Refused, ..Access::default() });
    let (look_up, order) = (RibRequestBody::LookUpRoute(client.name()), publish(&client, 1));
    assert_eq!(ask(&mut directory, &foreign, look_up.clone()), NOT_AUTHORISED);
    assert_eq!(ask(&mut directory, &foreign, order.clone()), NOT_AUTHORISED);
    assert_eq!(ask(&mut directory, &ours, order), RibResponseBody::Stored);
    assert!(matches!(ask(&mut directory, &ours, look_up), RibResponseBody::Found { .. }));
    assert_eq!(directory.rib.counters().refused(Refusal::NotAuthorised), 2);
    let refused: Vec<_> = directory.rib.refused().collect();
    assert_eq!((refused.len(), refused[0].name, refused[0].count), (1, foreign.name(), 2));
    assert_eq!((refused[0].source, refused[0].last_s), (Source::V4([192, 0, 2, 7]), NOW_S));
}

#[test]
fn an_issuer_that_a_rule_refuses_is_stored_for_nobody() {
    let (router, client, other) = (Holder::new(), Holder::of(Role::Node), Holder::of(Role::Node));
    let rules = vec![rule(Some(client.name()), None, Standing::Refused)];
    let mut directory =
        directory(Access { rules, otherwise: Standing::Admitted, ..Access::default() });
    assert_eq!(ask(&mut directory, &router, publish(&client, 1)), NOT_AUTHORISED);
    assert_eq!(ask(&mut directory, &router, publish(&other, 1)), RibResponseBody::Stored);
    assert_eq!(directory.rib.refused().next().unwrap().name, client.name());
    // Not in company, either.
    let chain = vec![other.route(client.name(), 2), client.route(VIA, 2)];
    let metadata = vec![other.metadata(), client.metadata()];
    let order = RibRequestBody::Publish { metadata, certificates: chain };
    assert_eq!(ask(&mut directory, &router, order), NOT_AUTHORISED);
}

#[test]
fn it_says_which_store_it_has() {
    let mut config = Config::default();
    config.store = StoreId([7; 16]);
    let (mut directory, router) = (Directory::with(config), Holder::new());
    let said = ask(&mut directory, &router, RibRequestBody::WhichStore);
    assert_eq!(said, RibResponseBody::Store(StoreId([7; 16])));
}

#[test]
fn rules_change_while_it_runs() {
    let (router, client) = (Holder::new(), Holder::of(Role::Node));
    let mut directory = directory(Access::default());
    assert_eq!(ask(&mut directory, &router, publish(&client, 1)), RibResponseBody::Stored);
    let rules = vec![rule(None, Some(Role::Router), Standing::Refused)];
    directory.rib.set_access(Access { rules, ..Access::default() });
    assert_eq!(ask(&mut directory, &router, publish(&client, 2)), NOT_AUTHORISED);
    directory.rib.set_access(Access::default());
    assert_eq!(ask(&mut directory, &router, publish(&client, 2)), RibResponseBody::Stored);
}
