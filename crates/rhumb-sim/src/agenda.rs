//! What happens next: everything that is going to happen, in the order of
//! time, and of decision where times are equal.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::StationId;
use crate::fault::Fault;
use crate::network::Flight;

/// Something that happens at a moment.
#[derive(Debug)]
pub(crate) enum Occurrence {
    /// A datagram reaches its address.
    Arrival(Flight),
    /// A station gets to its inbox or to its timers, if it still means to at this very moment.
    Wake(StationId),
    /// The verifier of a router that was started as its `incarnation` is done.
    Verified { router: StationId, incarnation: u32 },
    /// The world does something to its stations.
    Fault(Fault),
    /// A node sends a message.
    Message { from: StationId, to: StationId, len: usize },
}

/// The order of things to come.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    occurrences: BTreeMap<(Duration, u64), Occurrence>,
    decided: u64,
}

impl Agenda {
    pub(crate) fn add(&mut self, at: Duration, occurrence: Occurrence) {
        self.occurrences.insert((at, self.decided), occurrence);
        self.decided += 1;
    }

    /// When the next thing happens.
    pub(crate) fn next_at(&self) -> Option<Duration> {
        self.occurrences.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next thing, if it happens no later than `end`.
    pub(crate) fn take(&mut self, end: Duration) -> Option<(Duration, Occurrence)> {
        if self.next_at()? > end {
            return None;
        }
        self.occurrences.pop_first().map(|((at, _), occurrence)| (at, occurrence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_before_decision_and_decision_before_nothing() {
        let mut agenda = Agenda::default();
        let at = Duration::from_secs;
        for (time, station) in [(2, 0), (1, 1), (2, 2), (1, 3)] {
            agenda.add(at(time), Occurrence::Wake(StationId(station)));
        }
        let mut order = Vec::new();
        while let Some((time, Occurrence::Wake(StationId(station)))) = agenda.take(at(1)) {
            order.push((time.as_secs(), station));
        }
        assert_eq!(order, [(1, 1), (1, 3)]);
        assert_eq!(agenda.next_at(), Some(at(2)));
    }
}
