//! What this host has sent to names that may not begin to send to it: their answers are let in.
//!
//! Two generations: what is used is young, the old ones are forgotten when [`LIFE`] is over or the
//! young ones are too many. So an answer is let in for [`LIFE`] after the last packet at least,
//! unless this host begins more than [`MOST`] conversations meanwhile. Only this host's own packets
//! make entries.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::packet::Flow;

#[derive(Debug)]
pub(super) struct Flows {
    young: HashSet<Flow>,
    old: HashSet<Flow>,
    turns_at: Instant,
}

impl Flows {
    pub(super) fn new(now: Instant) -> Self {
        Self { young: HashSet::new(), old: HashSet::new(), turns_at: now + LIFE }
    }

    /// This host goes on with it.
    pub(super) fn sent(&mut self, flow: Flow, now: Instant) {
        self.turn(now);
        if self.young.len() >= MOST && !self.young.contains(&flow) {
            self.age(now);
        }
        self.young.insert(flow);
    }

    /// Whether this host has sent something that this may answer.
    pub(super) fn has(&mut self, flow: &Flow, now: Instant) -> bool {
        self.turn(now);
        self.young.contains(flow) || self.old.contains(flow)
    }

    fn turn(&mut self, now: Instant) {
        if now >= self.turns_at {
            let is_long_ago = now >= self.turns_at + LIFE;
            self.age(now);
            if is_long_ago {
                self.old.clear();
            }
        }
    }

    fn age(&mut self, now: Instant) {
        self.old = std::mem::take(&mut self.young);
        self.turns_at = now + LIFE;
    }
}

/// A program that says nothing for longer finds its conversation over, as behind many a firewall;
/// those with names that were allowed last for ever.
const LIFE: Duration = Duration::from_secs(1800);
/// Some 80 bytes each, in two generations: 10 MB.
const MOST: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::packet::Packet;
    use crate::ip::tests::udp;

    fn flow(peer: u8, port: u16) -> Flow {
        let addresses = [[1; 16].into(), [peer; 16].into()];
        Packet::parse(&udp(addresses, [port, 9], 0)).unwrap().sent().unwrap()
    }

    #[test]
    fn answers_are_let_in_for_as_long_as_is_said_and_no_longer_than_twice() {
        let start = Instant::now();
        let just = Duration::from_nanos(1);
        let mut flows = Flows::new(start);
        flows.sent(flow(2, 1), start + LIFE - just);
        assert!(flows.has(&flow(2, 1), start + 2 * LIFE - just * 2));
        assert!(!flows.has(&flow(2, 2), start + LIFE));
        assert!(!flows.has(&flow(2, 1), start + 3 * LIFE));
        let mut flows = Flows::new(start);
        flows.sent(flow(2, 1), start);
        assert!(!flows.has(&flow(2, 1), start + 2 * LIFE), "nobody looked meanwhile");
    }

    #[test]
    fn there_is_a_bound() {
        let start = Instant::now();
        let mut flows = Flows::new(start);
        for port in 0..=u16::MAX {
            flows.sent(flow(2, port), start);
        }
        assert_eq!((flows.young.len(), flows.old.len()), (MOST, 0));
        flows.sent(flow(3, 1), start);
        assert_eq!((flows.young.len(), flows.old.len()), (1, MOST));
        assert!(flows.has(&flow(2, 1), start));
    }
}
