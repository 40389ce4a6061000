//! Trust domains in a simulated world: each with a RIB, a border router where it lies in another
//! one, and routers inside; all of them production cores, with memberships and border words as
//! `rhumb domain` makes them.

use std::sync::Arc;
use std::time::Duration;

use rhumb_sim::{Conditions, Disk, START_S, StationId, World};
use rhumb_switch::Remote;
use rhumb_trust::{Access, Export, Identity, Membership, Rule, Standing, Window};
use rhumb_wire::{Certificate, Name, Rights, Role, Scope, Statement};

/// A domain with its stations.
pub(crate) struct Domain {
    pub(crate) identity: Arc<Identity>,
    membership: Option<Membership>,
    /// The domains around it, the nearest first.
    pub(crate) around: Vec<Name>,
    pub(crate) rib: StationId,
    pub(crate) border: Option<StationId>,
    pub(crate) interiors: Vec<StationId>,
}

/// A world with links of [`DELAY`] each way and without loss.
pub(crate) fn world(seed: u64) -> World {
    let mut world = World::new(seed, Conditions { delay: DELAY, ..Conditions::LAN });
    world.expect_at_most(u64::MAX);
    world
}

/// A key of a role.
pub(crate) fn key(role: Role) -> Identity {
    Identity::generate(role, START_S).expect("a key")
}

/// What `issuer` says from the beginning of the world on.
pub(crate) fn says(issuer: &Identity, statement: Statement, number: u64) -> Certificate {
    let window = Window::starting(START_S, LIFETIME_S);
    issuer.certify(statement, START_S * 1000 + number, window).expect("signed")
}

impl Domain {
    /// A domain inside of `parent`, or of none, with so many routers inside. `fill` is told the
    /// domain's name and those of the routers inside, and gives what the RIB has on its disk.
    pub(crate) fn add(
        world: &mut World,
        parent: Option<&Self>,
        interiors: usize,
        fill: impl FnOnce(&rhumb_rib::Config, Name, &[Name]) -> Disk,
    ) -> Self {
        let identity = Arc::new(key(Role::Domain));
        let name = identity.name();
        let all = [Rights::JOIN, Rights::CARRY, Rights::PUBLISH, Rights::ADMIT];
        let membership = parent.map(|parent| {
            let rights = all.into_iter().reduce(Rights::and).expect("four rights");
            admit(&parent.identity, parent.membership.as_ref(), name, rights)
        });
        let around = parent.map_or_else(Vec::new, |it| [&[it.name()], &it.around[..]].concat());
        let member =
            |role: Role, rights: Rights| member((&identity, membership.as_ref()), role, rights);
        let carry = Rights::CARRY.and(Rights::PUBLISH);
        let routers: Vec<_> = (0..interiors).map(|_| member(Role::Router, carry)).collect();
        let names: Vec<Name> = routers.iter().map(|it| it.name()).collect();

        let mut config = rhumb_rib::Config::default();
        config.domain = Some(name);
        config.parents = parent.map(|it| world.remote(it.rib)).into_iter().collect();
        let members = Rule::of_domain(name, Rights::PUBLISH, Standing::Admitted);
        config.access = Access { rules: vec![members], ..Access::default() };
        let disk = fill(&config, name, &names);
        let rib = world.add_rib_as(member(Role::Rib, Rights::PUBLISH), config, disk);
        let ribs = vec![world.remote(rib)];

        let border = parent.map(|parent| {
            let router = member(Role::Router, carry);
            let stands = Statement::Route { via: router.name(), scope: Scope::Any };
            let export = Export { domain: parent.name(), up_to: None }.statement();
            let words = [says(&identity, stands, 0), says(&identity, export, 1)];
            let metadata = identity.metadata().clone();
            let words = words.into_iter().map(|word| (metadata.clone(), word)).collect();
            add_router(world, router, (name, &around, &ribs), words)
        });
        let place = (name, &around[..], &ribs[..]);
        let interiors =
            routers.into_iter().map(|it| add_router(world, it, place, Vec::new())).collect();
        Self { identity, membership, around, rib, border, interiors }
    }

    pub(crate) fn name(&self) -> Name {
        self.identity.name()
    }

    /// A key with this domain's word for it.
    pub(crate) fn member(&self, role: Role, rights: Rights) -> Arc<Identity> {
        member((&self.identity, self.membership.as_ref()), role, rights)
    }

    /// A node at one of the routers inside, known outside by this domain.
    pub(crate) fn add_node(&self, world: &mut World, interior: usize) -> StationId {
        let export = Some(Export { domain: self.name(), up_to: None });
        let identity = self.member(Role::Node, Rights::JOIN);
        let router = self.interiors[interior % self.interiors.len()];
        world.add_node_as(identity, router, |config| config.export = export)
    }
}

/// Somebody with a key of its own, admitted by a domain or by whom that admitted.
pub(crate) fn member(
    (issuer, by): (&Identity, Option<&Membership>),
    role: Role,
    rights: Rights,
) -> Arc<Identity> {
    let key = key(role);
    let word = admit(issuer, by, key.name(), rights);
    Arc::new(key.with_membership(word).expect("its own membership"))
}

pub(crate) fn admit(
    domain: &Identity,
    by: Option<&Membership>,
    member: Name,
    rights: Rights,
) -> Membership {
    let window = Window::starting(START_S, LIFETIME_S);
    Membership::sign(domain, by, member, rights, START_S * 1000, window).expect("signed")
}

fn add_router(
    world: &mut World,
    identity: Arc<Identity>,
    (name, around, ribs): (Name, &[Name], &[Remote]),
    words: Vec<(Arc<rhumb_wire::Metadata>, Certificate)>,
) -> StationId {
    let domain =
        rhumb_switch::Domain { name, around: around.to_vec(), customers: Vec::new(), words };
    world.add_router_as(identity, |config| {
        config.ribs = ribs.to_vec();
        config.domain = Some(domain);
        config.max_flows = ENTRIES;
        config.max_grants = ENTRIES;
        config.max_routes = ENTRIES;
        config.max_publications = ENTRIES;
    })
}

/// Sends a message, and says how long it took to arrive, in milliseconds; `None` when it did not.
pub(crate) fn delivery_ms(world: &mut World, from: StationId, to: StationId) -> Option<f64> {
    let (before, sent_at) = (world.received(to).len(), world.now());
    world.send(from, to, 100).expect("there is room");
    world.run_until(PATIENCE, |world| world.received(to).len() > before).then(|| {
        let at = world.received(to)[before].at;
        (at - sent_at).as_secs_f64() * 1e3
    })
}

/// Of each link, one way.
pub(crate) const DELAY: Duration = Duration::from_millis(5);
/// Until sessions are up and everything is published.
pub(crate) const SETTLING: Duration = Duration::from_secs(5);
/// Far longer than any look-up.
const PATIENCE: Duration = Duration::from_secs(10);
const LIFETIME_S: u64 = 24 * 3600;
/// Of each table of a router: a thousand routers are in one process.
const ENTRIES: usize = 1 << 12;
