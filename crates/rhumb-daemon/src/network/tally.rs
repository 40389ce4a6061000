//! What came to a keeper, by what came of it: for `rhumb status` and metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use rhumb_channel::Counters;
use serde_json::json;

use crate::daemon::{Metric, Snapshot, by_reason};

/// Talks by their end. All only grow.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Whoever joined, and members who asked again.
    pub(super) welcomed: AtomicU64,
    /// Who has proven an invitation, or its name, and was told why not.
    pub(super) refused: AtomicU64,
    /// Who has proven nothing, and was told nothing.
    pub(super) unproven: AtomicU64,
    /// Who left, was late, made no sense, or made room for others.
    pub(super) broken: AtomicU64,
}

impl Tally {
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn each(&self) -> [(&'static str, u64); 4] {
        [
            ("welcomed", &self.welcomed),
            ("refused", &self.refused),
            ("unproven", &self.unproven),
            ("broken", &self.broken),
        ]
        .map(|(outcome, counter)| (outcome, counter.load(Ordering::Relaxed)))
    }

    /// How the keeper of `network` is, with `members` and as many `invited`.
    pub(super) fn snapshot(
        &self,
        network: &str,
        (members, invited): (usize, usize),
        door: &Counters,
    ) -> Snapshot {
        let handshakes = door.each();
        let status = json!({
            "role": "keeper",
            "network": network,
            "members": members,
            "open_invitations": invited,
            "talks": by_reason(self.each()),
            "handshakes": by_reason(handshakes.clone()),
        });
        let metrics = vec![
            MEMBERS.is(members),
            INVITATIONS.is(invited),
            TALKS.by("outcome", self.each()),
            HANDSHAKES.by("outcome", handshakes),
        ];
        Snapshot { status, metrics }
    }
}

const MEMBERS: Metric = Metric::gauge("rhumb_network_members", "Members of the network.");
const INVITATIONS: Metric =
    Metric::gauge("rhumb_network_open_invitations", "Invitations that nobody has used yet.");
const TALKS: Metric =
    Metric::counter("rhumb_network_talks_total", "Talks with the keeper, by what came of them.");
const HANDSHAKES: Metric = Metric::counter(
    "rhumb_network_handshakes_total",
    "Connections to the keeper, by what came of them.",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_try_is_seen() {
        let tally = Tally::default();
        Tally::count(&tally.unproven);
        let told = tally.snapshot("home", (2, 1), &Counters::default());
        assert_eq!(told.status["talks"]["unproven"], 1);
        assert_eq!(
            (&told.status["members"], &told.status["open_invitations"]),
            (&2.into(), &1.into())
        );
        let text = told.prometheus_text();
        assert!(text.contains("rhumb_network_talks_total{outcome=\"unproven\"} 1"), "{text}");
    }
}
