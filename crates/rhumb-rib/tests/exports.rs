//! Exports: by which domain a name is known outside, and that the inside has no part in it.

use rhumb_rib::Config;
use rhumb_wire::rib::{RibRequestBody, RibResponseBody};
use rhumb_wire::{Certificate, Name, Role, Scope, Statement};

use crate::world::{Directory, Holder, window};

impl Holder {
    /// A word that the name is known by this domain.
    pub(crate) fn export(&self, via: Name, sequence: u64) -> Certificate {
        self.export_up_to(via, None, sequence)
    }

    pub(crate) fn export_up_to(&self, via: Name, up_to: Option<Name>, number: u64) -> Certificate {
        self.say(Statement::Route { via, scope: Scope::ByDomain { up_to } }, number, window())
    }
}

fn rib_of(domain: &Holder) -> Directory<crate::Usual> {
    let mut config = Config::default();
    config.domain = Some(domain.name());
    Directory::with(config)
}

fn exports_of(rib: &mut Directory<crate::Usual>, name: Name) -> Vec<Certificate> {
    match rib.ask(RibRequestBody::LookUpExport(name)) {
        RibResponseBody::Found { certificates, level: 0, .. } => certificates,
        RibResponseBody::Absent(_) => Vec::new(),
        other => panic!("{other:?} is no answer to a look-up"),
    }
}

#[test]
fn inside_a_name_is_reached_by_its_router_and_outside_by_its_domain() {
    let (domain, parent) = (Holder::of(Role::Domain), Holder::of(Role::Domain));
    let [name, router, border] = [0, 1, 2].map(|_| Holder::new());
    let said = [
        (&name, name.route(router.name(), 1)),
        (&name, name.export(domain.name(), 2)),
        (&router, router.locator(1)),
        (&domain, domain.route(border.name(), 1)),
        (&domain, domain.export(parent.name(), 2)),
        (&border, border.locator(1)),
    ];
    let mut inside = rib_of(&domain);
    for (holder, certificate) in &said {
        inside.tell(holder, certificate.clone()).unwrap();
    }
    assert_eq!(inside.found(name.name()), [said[0].1.clone(), said[2].1.clone()]);
    assert_eq!(exports_of(&mut inside, name.name()), [said[1].1.clone()]);
    assert_eq!(inside.verified_routers(domain.name()), Ok(vec![border.name()]));
    // The parent knows of it what shows outside.
    let mut outside = rib_of(&parent);
    for at in [1, 3, 4, 5] {
        outside.tell(said[at].0, said[at].1.clone()).unwrap();
    }
    let way = vec![domain.name(), border.name()];
    assert_eq!(outside.verified_routers(name.name()), Ok(way));
    assert_eq!(exports_of(&mut outside, name.name()), [said[1].1.clone(), said[4].1.clone()]);
}

#[test]
fn what_only_its_own_domain_exports_is_absent_in_it_without_a_route() {
    let (domain, name) = (Holder::of(Role::Domain), Holder::new());
    let mut inside = rib_of(&domain);
    inside.tell(&name, name.export(domain.name(), 1)).unwrap();
    assert_eq!(inside.found(name.name()), []);
    assert_eq!(exports_of(&mut inside, name.name()).len(), 1);
    // Withdrawn, nothing of it is left.
    inside.tell(&name, name.withdrawal(1)).unwrap();
    assert_eq!(exports_of(&mut inside, name.name()), []);
}

#[test]
fn a_way_is_cut_where_a_router_would_be_exported() {
    let [domain, parent] = [0, 1].map(|_| Holder::of(Role::Domain));
    let [name, router] = [0, 1].map(|_| Holder::new());
    let mut rib = rib_of(&parent);
    rib.tell(&name, name.route(router.name(), 1)).unwrap();
    rib.tell(&router, router.export(domain.name(), 1)).unwrap();
    assert_eq!(rib.verified_routers(name.name()), Ok(vec![router.name()]));
    // Nor does what a third domain exports come to this one.
    assert_eq!(exports_of(&mut rib, router.name()), []);
    assert_eq!(exports_of(&mut Directory::new(), router.name()), []);
}

#[test]
fn where_a_name_is_and_by_which_domain_it_is_known_are_taken_together() {
    let (domain, name, router) = (Holder::of(Role::Domain), Holder::new(), Holder::new());
    let mut inside = rib_of(&domain);
    inside.tell(&router, router.locator(1)).unwrap();
    let (route, export) = (name.route(router.name(), 1), name.export(domain.name(), 2));
    inside.publish(&[&name, &router], vec![route.clone(), export.clone()]).unwrap();
    assert_eq!(inside.found(name.name())[0], route);
    assert_eq!(exports_of(&mut inside, name.name()), std::slice::from_ref(&export));
    // The same again, and one of them renewed.
    let renewed = name.export(domain.name(), 3);
    inside.publish(&[&name, &router], vec![route.clone(), renewed.clone()]).unwrap();
    assert_eq!(exports_of(&mut inside, name.name()), [renewed]);
    // In no other order, and not of two names.
    let wrong = [
        vec![export, route.clone()],
        vec![route.clone(), route.clone()],
        vec![route, router.export(domain.name(), 3)],
    ];
    for certificates in wrong {
        let refused = inside.publish(&[&name, &router], certificates);
        assert_eq!(refused, Err(rhumb_wire::rib::Refusal::Malformed));
    }
}
