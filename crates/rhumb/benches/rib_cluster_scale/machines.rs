//! What processes take of the machine: those of RIBs and of the cluster's nodes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cassandra::{Cassandra, NODES};
use crate::report::Report;
use crate::servers::{Ribs, cpu_s};

/// What was spent and read so far.
#[derive(Clone, Copy)]
pub(crate) struct Spent {
    /// Of the RIBs' processors.
    pub(crate) ribs_s: f64,
    pub(crate) nodes_s: f64,
    /// Entries that the first RIB needed and had in memory.
    at_hand: f64,
    /// And those that it had to read.
    read: f64,
}

impl Spent {
    /// By the first so many RIBs, and all nodes.
    pub(crate) fn so_far(cluster: &Cassandra, ribs: &Ribs, count: usize) -> Self {
        let processes: Vec<u32> =
            ribs.ribs[..count].iter().map(|it| it.running.child.id()).collect();
        // Whoever looks has a RIB count what is stored, so one alone is looked at.
        let status = status(ribs, 0);
        let counter = |what: &str| status["counters"][what].as_f64().unwrap_or(0.0);
        Self {
            ribs_s: processes.iter().map(|it| cpu_s(*it)).sum(),
            nodes_s: (0..NODES).map(|node| cpu_s(cluster.process(node))).sum(),
            at_hand: counter("entries_at_hand"),
            read: counter("entries_read"),
        }
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            ribs_s: self.ribs_s - before.ribs_s,
            nodes_s: self.nodes_s - before.nodes_s,
            at_hand: self.at_hand - before.at_hand,
            read: self.read - before.read,
        }
    }

    /// Of the entries that were needed, the part that was in memory.
    pub(crate) fn at_hand_part(&self) -> f64 {
        self.at_hand / (self.at_hand + self.read).max(1.0)
    }
}

/// What a RIB says of itself.
pub(crate) fn status(ribs: &Ribs, rib: usize) -> Value {
    let admin = admin(rib);
    ribs.place.run(&["--json", "status", "--admin", &admin]).object()
}

/// Where the RIB of this number tells it, within its place.
pub(crate) fn admin(rib: usize) -> String {
    format!("./{}.admin", rib + 1)
}

/// How long it takes a RIB that has just started to count what is stored.
pub(crate) fn count(ribs: &Ribs, stored: usize, report: &mut Report) {
    let began = Instant::now();
    let mut found = None;
    while found.is_none() && began.elapsed() < COUNTING {
        std::thread::sleep(Duration::from_millis(500));
        found = status(ribs, 0)["stored_names"].as_u64();
    }
    match found {
        Some(found) => {
            // A part is counted for all.
            let error = found.abs_diff(stored as u64) as f64 / stored as f64;
            assert!(error <= 0.01, "{found} names are counted, and {stored} are there");
            report.figure("counted_amiss", error);
            report.figure("counting_all_s", began.elapsed().as_secs_f64());
        }
        None => report.note("counting_all", "not in ten minutes"),
    }
}

/// Memory and disk of everybody.
pub(crate) fn measure(cluster: &Cassandra, ribs: &Ribs, report: &mut Report) {
    for (at, rib) in ribs.ribs.iter().enumerate() {
        let now = memory_mb(rib.running.child.id());
        report.figure(&format!("rib_{}_memory_mb", at + 1), now["VmRSS"]);
        report.figure(&format!("rib_{}_most_memory_mb", at + 1), now["VmHWM"]);
        let failures = &status(ribs, at)["cluster"]["failures"];
        let failures = failures.as_object().into_iter().flatten();
        let failures = failures.filter_map(|(why, count)| Some((why, count.as_f64()?)));
        for (why, count) in failures.filter(|(_, count)| *count > 0.0) {
            report.figure(&format!("rib_{}_store_failures_{why}", at + 1), count);
        }
    }
    for node in 0..NODES {
        let now = memory_mb(cluster.process(node));
        report.figure(&format!("node_{}_own_memory_mb", node + 1), now["RssAnon"]);
        report.figure(&format!("node_{}_mapped_files_mb", node + 1), now["RssFile"]);
        let (all, alone) = disk_bytes(&cluster.node_folder(node).join("data"));
        report.figure(&format!("node_{}_disk_mb", node + 1), all as f64 / 1e6);
        report.figure(&format!("node_{}_disk_of_its_own_mb", node + 1), alone as f64 / 1e6);
    }
}

/// Source: proc_pid_status(5).
fn memory_mb(process: u32) -> BTreeMap<&'static str, f64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let of = |what: &'static str| {
        let line = text.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        (what, kib.unwrap_or(0.0) * 1024.0 / 1e6)
    };
    ["VmRSS", "VmHWM", "RssAnon", "RssFile"].map(of).into()
}

/// Bytes of all files below a folder, and of those that no other folder has, too.
fn disk_bytes(folder: &Path) -> (u64, u64) {
    let (mut all, mut alone) = (0, 0);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        // What is compacted goes away while one looks.
        let Ok(metadata) = entry.metadata() else { continue };
        let (below, below_alone) = match metadata.is_dir() {
            true => disk_bytes(&entry.path()),
            false if metadata.nlink() > 1 => (metadata.len(), 0),
            false => (metadata.len(), metadata.len()),
        };
        (all, alone) = (all + below, alone + below_alone);
    }
    (all, alone)
}

const COUNTING: Duration = Duration::from_secs(600);
