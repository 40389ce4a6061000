//! What was seen.

use serde_json::{Map, Value, json};

use crate::rig::{MEMBERS, Rig, State};
use crate::usage::Usage;

pub(crate) struct Report {
    conditions: Value,
    pub(crate) phases: Vec<Phase>,
}

/// A phase, and how processes stood before and after it.
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    /// That it was about.
    pub(crate) routes: usize,
    pub(crate) seconds: f64,
    pub(crate) before: State,
    pub(crate) after: State,
}

impl Report {
    pub(crate) fn new(rig: &Rig, load: Option<f64>) -> Self {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let conditions = json!({
            "load_average_before": load,
            "cores": cores,
            "members": MEMBERS,
            "routes": rig.routes,
            "contested": rig.contested,
            "shards": rig.shards,
            "hosts": "network namespaces on one bridge; BGP and TLS over TCP between processes",
        });
        Self { conditions, phases: Vec::new() }
    }

    pub(crate) fn skipped(why: &str) -> Self {
        Self { conditions: json!({ "skipped": why }), phases: Vec::new() }
    }

    pub(crate) fn json(&self) -> Value {
        let phases = self.phases.iter().map(|phase| (phase.name.to_owned(), phase.json()));
        let phases: Map<String, Value> = phases.collect();
        json!({
            "bench": "sixpack-processes",
            "conditions": self.conditions,
            "phases": phases,
            "targets": self.targets(),
        })
    }

    /// The paper's 250,000 prefixes, by the rate that was seen; none when nothing was measured.
    fn targets(&self) -> Vec<Value> {
        let asked = [("table", "announce_250k_s", 120.0), ("late", "join_250k_s", 15.0)];
        let targets = asked.into_iter().filter_map(|(phase, name, most)| {
            let phase = self.phases.iter().find(|it| it.name == phase)?;
            let value = 250_000.0 / phase.routes_per_s();
            let target = format!("at most {most}");
            Some(json!({ "name": name, "value": value, "target": target, "met": value <= most }))
        });
        targets.collect()
    }

    pub(crate) fn text(&self) -> String {
        if let Some(why) = self.conditions["skipped"].as_str() {
            return format!("skipped: {why}");
        }
        let phases = self.phases.iter().map(Phase::text);
        std::iter::once(self.conditions.to_string()).chain(phases).collect::<Vec<_>>().join("\n")
    }
}

impl Phase {
    fn routes_per_s(&self) -> f64 {
        self.routes as f64 / self.seconds
    }

    /// Seconds of processors in the phase, and memory at its end, by process.
    fn usage(&self) -> impl Iterator<Item = (&str, f64, Usage)> {
        let pairs = self.before.usage.iter().zip(&self.after.usage);
        pairs.map(|((name, before), (_, after))| (&name[..], after.cpu_s - before.cpu_s, *after))
    }

    /// Announcements and withdrawals that each router got in the phase.
    fn told(&self) -> impl Iterator<Item = [usize; 2]> {
        let pairs = self.before.sessions.iter().zip(&self.after.sessions);
        pairs.map(|(before, after)| {
            // BIRD counts anew when it enables a protocol, not when a session begins anew.
            [(before.updates, after.updates), (before.withdrawals, after.withdrawals)]
                .map(|(before, after)| after.saturating_sub(before))
        })
    }

    fn json(&self) -> Value {
        let processes = self.usage().map(|(name, cpu_s, after)| {
            let value = json!({
                "cpu_s": cpu_s,
                "resident_mb": after.resident_mb,
                "most_resident_mb": after.most_resident_mb,
            });
            (name.to_owned(), value)
        });
        json!({
            "seconds": self.seconds,
            "routes_per_s": self.routes_per_s(),
            "processes": processes.collect::<Map<String, Value>>(),
            "router_updates_and_withdrawals": self.told().collect::<Vec<_>>(),
        })
    }

    fn text(&self) -> String {
        let told: Vec<String> =
            self.told().map(|[updates, gone]| format!("{updates}+{gone}")).collect();
        let mut text = format!(
            "{}: {:.1} s, {:.0} routes per s; updates and withdrawals at routers: {}",
            self.name,
            self.seconds,
            self.routes_per_s(),
            told.join(", "),
        );
        for (name, cpu_s, after) in self.usage() {
            text += &format!(
                "\n  {name:<8} {cpu_s:>7.2} s of processors, {:>6.0} MB resident, at most {:.0}",
                after.resident_mb, after.most_resident_mb
            );
        }
        text
    }
}
