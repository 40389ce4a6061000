//! What was seen.

use serde_json::{Map, Value, json};

use crate::rig::{MEMBERS, Rig};
use crate::router::Session;
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
    pub(crate) before: Vec<(String, Usage)>,
    pub(crate) after: Vec<(String, Usage)>,
    /// What routers were told until its end.
    pub(crate) updates: Vec<Session>,
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

    pub(crate) fn skipped(why: String) -> Self {
        Self { conditions: json!({ "skipped": why }), phases: Vec::new() }
    }

    pub(crate) fn json(&self) -> Value {
        let mut phases = Map::new();
        let mut before: &[Session] = &[Session::default(); MEMBERS];
        for phase in &self.phases {
            phases.insert(phase.name.to_owned(), phase.json(before));
            before = &phase.updates;
        }
        json!({ "bench": "sixpack-processes", "conditions": self.conditions, "phases": phases })
    }

    pub(crate) fn text(&self) -> String {
        if let Some(why) = self.conditions["skipped"].as_str() {
            return format!("skipped: {why}");
        }
        let mut lines = vec![format!("{}", self.conditions)];
        let mut before: &[Session] = &[Session::default(); MEMBERS];
        for phase in &self.phases {
            lines.push(phase.text(before));
            before = &phase.updates;
        }
        lines.join("\n")
    }
}

impl Phase {
    fn routes_per_s(&self) -> f64 {
        self.routes as f64 / self.seconds
    }

    /// Seconds of processors in the phase, and memory at its end, by process.
    fn usage(&self) -> impl Iterator<Item = (&str, f64, Usage)> {
        let pairs = self.before.iter().zip(&self.after);
        pairs.map(|((name, before), (_, after))| (&name[..], after.cpu_s - before.cpu_s, *after))
    }

    /// Announcements and withdrawals that each router got in the phase.
    fn told<'a>(&'a self, before: &'a [Session]) -> impl Iterator<Item = [usize; 2]> + 'a {
        let pairs = self.updates.iter().zip(before);
        pairs.map(|(now, before)| {
            // After a session that began anew the count is another.
            [(now.updates, before.updates), (now.withdrawals, before.withdrawals)]
                .map(|(now, before)| now.saturating_sub(before))
        })
    }

    fn json(&self, before: &[Session]) -> Value {
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
            "router_updates_and_withdrawals": self.told(before).collect::<Vec<_>>(),
        })
    }

    fn text(&self, before: &[Session]) -> String {
        let told: Vec<String> =
            self.told(before).map(|[updates, withdrawals]| format!("{updates}+{withdrawals}")).collect();
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
