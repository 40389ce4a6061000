//! An honest flow: PDUs with names from one node to another,
//! each sent once, whatever the network says of it.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use rhumb_wire::{Action, PduHeader, Role};

use super::{PATIENCE, Stranger};

/// Two nodes that have joined.
pub(crate) struct Flow {
    source: Stranger,
    sink: Stranger,
    next: u64,
}

/// What became of what was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carried {
    pub(crate) sent: u64,
    pub(crate) arrived: u64,
}

impl Carried {
    pub(crate) fn share(self) -> f64 {
        self.arrived as f64 / self.sent as f64
    }
}

impl Flow {
    /// From a node at one router to one at another, or at the
    /// same; something has arrived when this returns.
    pub(crate) fn between(from: SocketAddr, to: SocketAddr) -> Self {
        let source = Stranger::join(Ipv4Addr::new(127, 8, 0, 1), from, Role::Node);
        let sink = Stranger::join(Ipv4Addr::new(127, 8, 0, 2), to, Role::Node);
        let mut flow = Self { source, sink, next: 0 };
        let begun = Instant::now();
        while flow.run(20, Duration::from_millis(100)).arrived < 2 {
            assert!(begun.elapsed() < PATIENCE, "nothing is carried");
        }
        flow
    }

    /// Who receives.
    pub(crate) fn sink(&self) -> rhumb_wire::Name {
        self.sink.name()
    }

    /// Sends at a rate for so long, and waits for what is under way.
    pub(crate) fn run(&mut self, per_s: u64, time: Duration) -> Carried {
        let (first, begun) = (self.next, Instant::now());
        let header = PduHeader::new(Action::Data, self.source.name(), self.sink.name());
        let mut arrived = HashSet::new();
        let sent = (time.as_secs_f64() * per_s as f64) as u64;
        let mut last = begun;
        while (arrived.len() as u64) < sent {
            let owed = begun.elapsed().as_micros() as u64 * per_s / 1_000_000;
            while self.next - first < owed.min(sent) {
                self.source.send(header, &self.next.to_be_bytes(), &[]);
                self.next += 1;
                last = Instant::now();
            }
            if self.next - first == sent && last.elapsed() > GRACE {
                break;
            }
            self.source.pump();
            self.source.inbox.clear();
            self.sink.pump();
            for (header, data) in self.sink.inbox.drain(..) {
                let number = data.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
                if header.action == Action::Data && number >= first {
                    arrived.insert(number);
                }
            }
            std::thread::sleep(Duration::from_micros(300));
        }
        Carried { sent, arrived: arrived.len() as u64 }
    }
}

/// What has not come by then will not come.
const GRACE: Duration = Duration::from_secs(1);
