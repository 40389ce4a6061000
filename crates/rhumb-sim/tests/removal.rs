//! A domain removes somebody while one router's clock is wrong and another one is cut off from the
//! RIB: each of them hears of it as soon as it can.

use std::time::Duration;

use rhumb_sim::{Conditions, Fault, StationId, World};
use rhumb_trust::{Access, Identity, Removal, Rule, Standing, Window};
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody};
use rhumb_wire::{Action, Name, PduHeader, Rights, Role};

const SECOND: Duration = Duration::from_secs(1);

struct Scene {
    world: World,
    domain: Identity,
    rib: StationId,
    routers: Vec<StationId>,
    operator: StationId,
}

/// A RIB and three routers of a domain, the second of which is a minute and a half behind.
fn scene(conditions: Conditions) -> Scene {
    let mut world = World::new(5, conditions);
    let domain = Identity::generate(Role::Domain, 0).expect("a key");
    let name = domain.name();
    let rib = world.add_rib_with(|config| config.domain = Some(name));
    let rule = Rule::of_domain(name, Rights::JOIN, Standing::Admitted);
    let access = Access { rules: vec![rule], ..Access::default() };
    let routers: Vec<StationId> = (0..3)
        .map(|_| world.add_router_with(None, |config| config.access = access.clone()))
        .collect();
    world.apply(&Fault::SetClock { station: routers[1], ahead_ms: -90_000 });
    let operator = world.add_outsider(Role::Node);
    let (rib_name, address) = (world.name(rib), world.address(rib));
    world.with_outsider(operator, |operator, now| operator.connect(address, Some(rib_name), now));
    world.run(SECOND * 10);
    Scene { world, domain, rib, routers, operator }
}

impl Scene {
    fn remove(&mut self, member: Name) {
        let now = self.world.clock_of(self.operator);
        let window = Window::starting(now.unix_s(), 3600);
        let removal = Removal::sign(&self.domain, None, member, now.unix_ms, window);
        let (metadata, certificates) = removal.expect("a domain's own word").lists();
        let mut data = Vec::new();
        let body = RibRequestBody::Publish { metadata, certificates };
        RibRequest { id: RequestId(1), body }.emit(&mut data);
        let rib = self.world.name(self.rib);
        let sent = self.world.with_outsider(self.operator, |operator, now| {
            let session = operator.session_with(&rib).expect("a session");
            let header = PduHeader::new(Action::RibRequest, operator.name(), rib);
            operator.send(session, header, &data, &[], now)
        });
        assert_eq!(sent, Some(true));
    }

    /// Which routers judge by how many removals.
    fn heard(&self) -> Vec<usize> {
        let of = |router: &StationId| {
            let now = self.world.clock_of(*router);
            self.world.switch(*router).expect("it runs").status(now).removals
        };
        self.routers.iter().map(of).collect()
    }
}

#[test]
fn a_router_whose_clock_is_behind_or_that_was_cut_off_hears_of_a_removal_later() {
    let mut scene = scene(Conditions::LAN);
    let cut_off = scene.routers[2];
    scene.world.apply(&Fault::Cut(scene.rib, cut_off));
    scene.remove(Name([7; 32]));
    scene.world.run(SECOND);
    // By the second one's clock it was signed in the future.
    assert_eq!(scene.heard(), [1, 0, 0]);
    scene.world.run(SECOND * 30);
    scene.world.apply(&Fault::Mend(scene.rib, cut_off));
    scene.world.run(SECOND * 40);
    assert_eq!(scene.heard()[2], 1);
    scene.world.run(SECOND * 90);
    assert_eq!(scene.heard(), [1, 1, 1]);
}

#[test]
fn a_network_that_loses_much_delays_removals_and_loses_none() {
    let mut scene = scene(Conditions { loss: 0.2, spares_handshakes: true, ..Conditions::LAN });
    for number in 1..=40 {
        scene.remove(Name([number; 32]));
        scene.world.run(SECOND / 10);
        // The order itself may be lost.
        scene.remove(Name([number; 32]));
        scene.world.run(SECOND / 10);
    }
    scene.world.run(SECOND * 180);
    let heard = scene.heard();
    assert!(heard[0] >= 30, "{heard:?}");
    assert!(heard.iter().all(|it| *it == heard[0]), "{heard:?}");
}
