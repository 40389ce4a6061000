//! Routers that demand capabilities, and capabilities for them.

use rhumb_capability::{
    Capability, Credential, Delegations, Epoch, EpochKeys, Flags, Master, Principal, Scheme, Suite,
    VerifierConfig, WindowClock,
};
use rhumb_switch::{Border, NamePrefix, Stamp, Stamps, short_address};
use rhumb_wire::Name;

use super::World;

pub const PRINCIPAL: Principal = Principal(7);
const EPOCH: Epoch = Epoch(3);

/// The master key of router `router`.
fn keys(router: usize) -> EpochKeys {
    EpochKeys::new(EPOCH, &Master::new([router as u8 + 1; Master::LEN]))
}

impl World {
    /// Has a router demand capabilities of `peers`.
    pub fn demand(&mut self, router: usize, peers: &[Name]) {
        let border = self.new_border(router, peers);
        self.routers[router].switch.set_border(Some(border));
    }

    /// Has a router demand capabilities of all that are outside of its domain.
    pub fn demand_of_outside(&mut self, router: usize) {
        let border = self.new_border(router, &[]).of_domain();
        self.routers[router].switch.set_border(Some(border));
    }

    fn new_border(&self, router: usize, peers: &[Name]) -> Border {
        let mut config = VerifierConfig::new(Vec::new());
        (config.packets_per_s, config.accounts) = (100_000, 16);
        let name = self.routers[router].switch.name();
        let mut border = Border::new(&name, peers.iter().copied(), config).unwrap();
        border.verifier_mut().install_epoch(keys(router));
        border
    }

    /// What router `router` demands of a principal now, or `ahead` windows later.
    pub fn capability(&self, router: usize, principal: Principal, ahead: i64) -> Credential {
        let clock = WindowClock::default();
        let mut window = clock.at(self.now.unix_ms * 1000);
        window.0 = window.0.checked_add_signed(ahead as i32).unwrap();
        let capability = Capability {
            waypoint: short_address(&self.routers[router].switch.name()),
            principal,
            flags: Flags::NONE,
            window,
            epoch: EPOCH,
            suite: Suite::ALL[0],
            scheme: Scheme::CaveatChain,
            delegations: Delegations::default(),
        };
        keys(router).mint(capability, clock.not_after_s(window)).unwrap().into()
    }

    /// Has router `from` stamp what it sends to router `to` with these.
    pub fn stamp(&mut self, from: usize, to: usize, credentials: Vec<(NamePrefix, Credential)>) {
        let peer = self.routers[to].switch.name();
        let stamps =
            credentials.into_iter().map(|(source, credential)| Stamp { peer, source, credential });
        let stamps = Stamps::new(stamps, 1).unwrap();
        self.routers[from].switch.set_stamps(Some(stamps));
    }

    /// Has router `to` demand capabilities of router `from`, which has one.
    pub fn border(&mut self, from: usize, to: usize) {
        let foreign = self.routers[from].switch.name();
        self.demand(to, &[foreign]);
        let credential = self.capability(to, PRINCIPAL, 0);
        self.stamp(from, to, vec![(NamePrefix::ANY, credential)]);
    }

    /// PDUs that a router counted for a principal.
    pub fn billed(&self, router: usize, principal: Principal) -> u64 {
        let border = self.routers[router].switch.border().unwrap();
        border.verifier().accounts().principal(principal).packets
    }

    /// PDUs whose capability a router refused, and why.
    pub fn refused(&self, router: usize) -> Vec<(&'static str, u64)> {
        let border = self.routers[router].switch.border().unwrap();
        let drops = border.drops();
        let counted = drops.iter().filter(|(_, count)| *count > 0);
        counted.map(|(reason, count)| (reason.name(), count)).collect()
    }
}
