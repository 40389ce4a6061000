//! What a world can do to its stations and links: plain data, so that a run can print what it did.

use std::time::Duration;

use crate::World;
use crate::conditions::Conditions;
use crate::rib::{Lie, RibHost};
use crate::station::{Host, Plan, StationId};

/// One thing done to stations or links.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// A station ends without a word. What it held in memory is gone; its
    /// key, its address and a RIB's store remain.
    Crash(StationId),
    /// A station that crashed starts again.
    Start(StationId),
    /// A station stops to compute; what arrives waits, as far as its socket has room.
    Freeze(StationId),
    /// A frozen station goes on.
    Thaw(StationId),
    /// A node withdraws its name and ends.
    Leave(StationId),
    /// A station gets another address, which its program does not notice.
    MoveAddress(StationId),
    /// A node's process ends without a word, and another under its name begins at `router`.
    MoveRouter {
        /// Which node.
        node: StationId,
        /// Where it joins.
        router: StationId,
    },
    /// The civil clock of a station is so many milliseconds ahead from now on.
    SetClock {
        /// Whose.
        station: StationId,
        /// Negative: behind.
        ahead_ms: i64,
    },
    /// Nothing passes between two stations.
    Cut(StationId, StationId),
    /// Nothing passes from the first to the second.
    CutOneWay(StationId, StationId),
    /// Nothing passes between these stations and all others.
    Part(Vec<StationId>),
    /// A cut between two stations is over.
    Mend(StationId, StationId),
    /// All cuts are over.
    MendAll,
    /// The link between two stations is like this from now on.
    SetLink(StationId, StationId, Conditions),
    /// All links are like this from now on.
    SetAllLinks(Conditions),
    /// A RIB begins to lie, or stops.
    SetLie(StationId, Lie),
    /// Verifying a chain takes a router so long from now on.
    SetVerifierTime(StationId, Duration),
}

impl World {
    /// Does something to stations or links now.
    ///
    /// # Panics
    /// When a station is none of this world's, or not of the kind that this can be done to.
    pub fn apply(&mut self, fault: &Fault) {
        self.remember(|| format!("{fault:?}"));
        match *fault {
            Fault::Crash(station) => self.stations[station.0].crash(),
            Fault::Start(station) => {
                self.stations[station.0].crash();
                self.start(station);
            }
            Fault::Freeze(station) => {
                self.stations[station.0].frozen = true;
                self.stations[station.0].wake_at = None;
            }
            Fault::Thaw(station) => {
                self.stations[station.0].frozen = false;
                self.wake(station, self.now);
            }
            Fault::Leave(node) => {
                self.with_core(node, rhumb_node::core::Core::leave);
            }
            Fault::MoveAddress(station) => self.move_address(station),
            Fault::MoveRouter { node, router } => {
                let rhumb_switch::Remote { address, name } = self.remote(router);
                self.stations[node.0].crash();
                match &mut self.stations[node.0].plan {
                    Plan::Node { config } => {
                        config.router = rhumb_node::Remote { address, name }.into();
                    }
                    _ => panic!("{node:?} is no node"),
                }
                self.move_address(node);
                self.start(node);
            }
            Fault::SetClock { station, ahead_ms } => {
                self.stations[station.0].ahead_ms = ahead_ms;
                self.wake(station, self.now);
            }
            Fault::Cut(a, b) => self.network.cut(a, b),
            Fault::CutOneWay(from, to) => self.network.cut_one_way(from, to),
            Fault::Part(ref group) => {
                for &inner in group {
                    for outer in self.ids().filter(|id| !group.contains(id)) {
                        self.network.cut(inner, outer);
                    }
                }
            }
            Fault::Mend(a, b) => self.network.mend(a, b),
            Fault::MendAll => self.network.mend_all(),
            Fault::SetLink(a, b, conditions) => self.network.set_link(a, b, conditions),
            Fault::SetAllLinks(conditions) => self.network.set_all_links(conditions),
            Fault::SetLie(rib, lie) => match &mut self.stations[rib.0].host {
                Some(Host::Rib(RibHost::Liar(liar))) => liar.lie = lie,
                _ => panic!("{rib:?} is no RIB that lies"),
            },
            Fault::SetVerifierTime(router, time) => match &mut self.stations[router.0].plan {
                Plan::Router { verifier_time, .. } => *verifier_time = time,
                _ => panic!("{router:?} is no router"),
            },
        }
    }

    fn move_address(&mut self, station: StationId) {
        let moved = &mut self.stations[station.0];
        self.network.vacate(moved.address);
        // Every port once: nobody comes back to where another was.
        let port =
            moved.address.port().checked_add(1).expect("a station moves some thousand times");
        moved.address.set_port(port);
        let address = moved.address;
        self.network.settle(station, address);
    }
}
