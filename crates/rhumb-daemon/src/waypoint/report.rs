//! What is told of revocations and of principals: status and metrics.

use rhumb_waypoint::Totals;
use serde::Serialize;
use serde_json::{Value, json};

use super::follow::News;
use crate::daemon::{Metric, Reading};

/// What is known of revocations.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Followed {
    pub(crate) serial: u32,
    #[serde(rename = "in_force")]
    pub(crate) revocations: usize,
    /// Whether the key server answers.
    pub is_current: bool,
    /// Whether all of it is in a file; `None` without one.
    pub(crate) is_kept: Option<bool>,
}

impl Followed {
    /// Takes a piece of news. What is revoked, if that is new, is left to the caller.
    pub fn take(&mut self, news: &News) {
        match news {
            News::Lost => self.is_current = false,
            News::Kept(is_kept) => self.is_kept = Some(*is_kept),
            News::Revoked { serial, revocations, is_current, done: _ } => {
                self.serial = *serial;
                self.revocations = revocations.len();
                self.is_current = *is_current;
            }
        }
    }

    /// For `/metrics`: as in the status; whether they are kept only where there is a file.
    pub fn metrics(&self) -> Vec<Reading> {
        let mut metrics =
            vec![SERIAL.is(self.serial), REVOKED.is(self.revocations), FOLLOWS.is(self.is_current)];
        metrics.extend(self.is_kept.map(|is_kept| KEPT.is(is_kept)));
        metrics
    }
}

/// The principals with most bytes.
pub fn accounts(totals: &Totals) -> Vec<Value> {
    let shown = top(totals).into_iter().take(SHOWN_ACCOUNTS);
    let account = |(principal, packets, bytes)| json!({"principal": principal, "packets": packets, "bytes": bytes});
    shown.map(account).collect()
}

/// The principals with most bytes, and all others as one.
pub fn by_principal(totals: &Totals) -> [Reading; 2] {
    let (mut packets, mut bytes) = (Vec::new(), Vec::new());
    let (mut others, mut others_bytes) = (totals.total.packets, totals.total.bytes);
    for (principal, its_packets, its_bytes) in top(totals).into_iter().take(METRIC_PRINCIPALS) {
        packets.push((principal.to_string(), its_packets));
        bytes.push((principal.to_string(), its_bytes));
        others = others.saturating_sub(its_packets);
        others_bytes = others_bytes.saturating_sub(its_bytes);
    }
    packets.push((OTHERS.to_owned(), others));
    bytes.push((OTHERS.to_owned(), others_bytes));
    [PRINCIPAL_PACKETS.by("principal", packets), PRINCIPAL_BYTES.by("principal", bytes)]
}

/// Principal, packets, bytes: most bytes first.
fn top(totals: &Totals) -> Vec<(u32, u64, u64)> {
    let all = totals.principals.iter();
    let mut all: Vec<_> = all.map(|(who, usage)| (who.0, usage.packets, usage.bytes)).collect();
    all.sort_unstable_by_key(|(who, _, bytes)| (std::cmp::Reverse(*bytes), *who));
    all
}

/// Bounded: see [`METRIC_PRINCIPALS`]. A principal that drops out of the
/// first ones is gone from here until it is back.
const PRINCIPAL_PACKETS: Metric = Metric::counter(
    "rhumb_waypoint_principal_packets_total",
    "Packets forwarded for the principals with most bytes since the start, and for others.",
);
/// As [`PRINCIPAL_PACKETS`].
const PRINCIPAL_BYTES: Metric =
    Metric::counter("rhumb_waypoint_principal_bytes_total", "Their bytes.");
/// Compare with the key server's.
const SERIAL: Metric = Metric::gauge("rhumb_waypoint_revocations_serial", "Serial of revocations.");
/// 0: the file cannot be written, and a restart without the key server would forget some.
const KEPT: Metric = Metric::gauge(
    "rhumb_waypoint_revocations_are_kept",
    "Whether all revocations are in the file.",
);
/// Ends with the windows they are for.
const REVOKED: Metric = Metric::gauge("rhumb_waypoint_revocations", "Revocations in force.");
/// 0 for long: revocations do not reach this waypoint; look at the log.
const FOLLOWS: Metric = Metric::gauge(
    "rhumb_waypoint_follows_key_server",
    "Whether the key server answers, so that no revocation is missing.",
);
/// Principals with samples of their own: what a
/// monitoring system stores for each waypoint is bounded.
const METRIC_PRINCIPALS: usize = 20;
/// All the others.
const OTHERS: &str = "other";
/// Principals in the status. All of them are in `rhumb waypoint accounts`.
const SHOWN_ACCOUNTS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::Snapshot;
    use rhumb_capability::{Principal, Usage};

    #[test]
    fn metrics_of_principals_are_bounded_and_add_up() {
        let mut totals = Totals::default();
        for number in 0..50_u32 {
            let usage = Usage { packets: 1, bytes: u64::from(number) };
            totals.principals.insert(Principal(number), usage);
            totals.total.packets += 1;
            totals.total.bytes += u64::from(number);
        }
        let metrics = by_principal(&totals).to_vec();
        let text = Snapshot { status: Value::Null, metrics }.prometheus_text();
        assert!(text.contains("principal_packets_total{principal=\"49\"} 1\n"), "{text}");
        assert!(!text.contains("{principal=\"29\"}"), "{text}");
        assert!(text.contains("principal_packets_total{principal=\"other\"} 30\n"), "{text}");
        let others: u64 = (0..30).sum();
        assert!(text.contains(&format!("bytes_total{{principal=\"other\"}} {others}\n")), "{text}");
    }
}
