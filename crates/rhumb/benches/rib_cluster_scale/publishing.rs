//! Changes, each durable at a quorum when it is acknowledged: new routes of names that no RIB has
//! in memory, their renewals, and names that were never stored before.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use rhumb_wire::rib::{RibRequestBody, RibResponseBody};

use crate::cassandra::Cassandra;
use crate::machines::Spent;
use crate::report::Report;
use crate::servers::Ribs;
use crate::talk::{Talk, quantile_ms};
use crate::world::Holder;

const TIME: Duration = Duration::from_secs(8);
/// Orders under way.
const WINDOW: usize = 64;
/// For the first one, which may have to wait for what all others need, too.
const PATIENCE: Duration = Duration::from_secs(180);
const ANSWERED: Duration = Duration::from_secs(10);
/// Of names that nobody knows.
const NEW: usize = 2000;

/// Returns how many changes were stored in a second.
pub(crate) fn measure(cluster: &Cassandra, ribs: &mut Ribs, report: &mut Report) -> f64 {
    // No two neighbours among ranks after each other.
    let count = ribs.holders.len();
    let mut all = (0..count).map(|at| at * STEP % count);
    let mut publishing = Publishing { cluster, ribs, report };
    // Nodes that have just started have yet to compile what they do.
    publishing.run(None, &mut all);
    let stored = publishing.run(Some("new_routes"), &mut all);
    let renewals = publishing.run(Some("renewals"), &mut stored.iter().copied().cycle()).len();
    let new = (0..NEW).map(|_| Holder::new());
    publishing.ribs.holders.extend(new);
    let stored: HashSet<usize> =
        publishing.run(Some("new_names"), &mut (count..count + NEW)).into_iter().collect();
    // Who was not stored in time is nobody that others may ask for.
    let mut at = 0..;
    ribs.holders.retain(|_| at.next().is_some_and(|at| at < count || stored.contains(&at)));
    renewals as f64 / TIME.as_secs_f64()
}

struct Publishing<'a> {
    cluster: &'a Cassandra,
    ribs: &'a mut Ribs,
    report: &'a mut Report,
}

impl Publishing<'_> {
    /// Tells one RIB of these for a while; returns whose were stored. What it came to is told by
    /// this name.
    fn run(&mut self, what: Option<&str>, holders: &mut dyn Iterator<Item = usize>) -> Vec<usize> {
        let mut talk: Talk<usize> = Talk::new(self.ribs.connect(0));
        let before = Spent::so_far(self.cluster, self.ribs, 1);
        let (mut stored, mut waited) = (Vec::new(), Vec::new());
        let (mut refused, mut unanswered) = (0usize, 0usize);
        let (began, mut first) = (Instant::now(), None);
        let mut is_over = false;
        while !is_over || talk.under_way() > 0 {
            let since = first.map_or(Duration::ZERO, |it: Instant| it.elapsed());
            is_over |= since >= TIME || first.is_none() && began.elapsed() >= PATIENCE;
            while !is_over && talk.under_way() < WINDOW {
                let Some(holder) = holders.next() else {
                    is_over = true;
                    break;
                };
                let order = self.ribs.order(holder);
                talk.ask(order, holder);
            }
            for answered in talk.answers(Duration::from_millis(2)) {
                match answered.body {
                    RibResponseBody::Stored => {
                        first = first.or(Some(Instant::now()));
                        stored.push(answered.about);
                        waited.push(answered.waited);
                    }
                    // Two renewals of one name may overtake each other.
                    RibResponseBody::Superseded(_) => {}
                    RibResponseBody::Refused(_) => refused += 1,
                    other => panic!("{other:?} of an order"),
                }
            }
            unanswered += talk.given_up(ANSWERED).len();
        }
        let seconds = first.map_or(1.0, |it| it.elapsed().as_secs_f64());
        let spent = Spent::so_far(self.cluster, self.ribs, 1).since(before);
        let Some(what) = what else { return stored };
        let count = stored.len() as f64;
        let mut tell = |of: &str, value: f64| self.report.figure(&format!("{what}_{of}"), value);
        tell("per_wall_s", count / seconds);
        tell("per_rib_cpu_s", count / spent.ribs_s);
        tell("per_nodes_cpu_s", count / spent.nodes_s);
        tell("p50_ms", quantile_ms(&mut waited, 0.5));
        tell("p99_ms", quantile_ms(&mut waited, 0.99));
        if let Some(first) = first {
            tell("first_stored_s", first.duration_since(began).as_secs_f64());
        }
        tell("stored", count);
        tell("refused", refused as f64);
        tell("unanswered", unanswered as f64);
        stored
    }
}

/// A prime: it visits all.
const STEP: usize = 7919;

/// What is asked for a name.
pub(crate) fn look_up(ribs: &Ribs, holder: usize) -> RibRequestBody {
    RibRequestBody::LookUpRoute(ribs.holders[holder].name())
}
