//! Announcements through whole servers: real ones at
//! their pace, as many as can be, and full tables.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rhumb_exchange::{Destination, Event, Lane, RouteId};
use serde_json::{Value, json};

use crate::exchange::{Exchange, Seen, now, resident_mb};
use crate::report::{Target, median, quantile};

/// What is under way, and how long it took.
#[derive(Default)]
struct Progress {
    /// Of each announcer and destination the last announcement, if not all members have it: since
    /// when, and how many lack it. One that is replaced before may never get to anybody.
    exports: BTreeMap<(Lane, Destination), (RouteId, Instant, usize)>,
    /// Destinations whose best route is not known anew at
    /// all members: since when, and who lacks it.
    selections: BTreeMap<Destination, (Instant, BTreeSet<Lane>)>,
    /// Who announces to a destination.
    announcers: BTreeMap<Destination, BTreeSet<Lane>>,
    export_ms: Vec<f64>,
    selection_ms: Vec<f64>,
    synced: BTreeSet<Lane>,
    missed: u64,
}

impl Progress {
    fn announce(&mut self, exchange: &mut Exchange, lane: Lane, to: &Destination, class: u8) {
        let begun = now();
        let id = exchange.announce(lane, to, class);
        self.exports.insert((lane, to.clone()), (id, begun, exchange.connected() - 1));
        let announcers = self.announcers.entry(to.clone()).or_default();
        announcers.insert(lane);
        if announcers.len() > 1 {
            let lanes = (0..exchange.connected()).map(|lane| Lane(lane as u16)).collect();
            self.selections.entry(to.clone()).or_insert((begun, lanes));
        }
    }

    fn withdraw(&mut self, exchange: &mut Exchange, lane: Lane, to: &Destination) {
        exchange.withdraw(lane, to);
        self.exports.remove(&(lane, to.clone()));
        if let Some(announcers) = self.announcers.get_mut(to) {
            announcers.remove(&lane);
            if announcers.len() < 2 {
                self.selections.remove(to);
            }
        }
    }

    fn note(&mut self, seen: &mut Vec<Seen>) {
        for Seen { lane, event, at } in seen.drain(..) {
            let ms = |begun: Instant| (at - begun).as_secs_f64() * 1e3;
            match event {
                Event::Offered { destination, from, id, .. } => {
                    let key = (from, destination);
                    let Some((last, begun, left)) = self.exports.get_mut(&key) else { continue };
                    if *last != id {
                        continue;
                    }
                    *left -= 1;
                    if *left == 0 {
                        self.export_ms.push(ms(*begun));
                        self.exports.remove(&key);
                    }
                }
                Event::Selected { destination, .. } | Event::Missed { destination } => {
                    let Some((begun, lanes)) = self.selections.get_mut(&destination) else {
                        continue;
                    };
                    lanes.remove(&lane);
                    if lanes.is_empty() {
                        self.selection_ms.push(ms(*begun));
                        self.selections.remove(&destination);
                    }
                }
                Event::Synced => {
                    self.synced.insert(lane);
                }
                _ => {}
            }
        }
    }

    /// Goes on until `done`, at most until the time is over; whether it is done.
    fn until(
        &mut self,
        exchange: &mut Exchange,
        over: Instant,
        done: impl Fn(&Self) -> bool,
    ) -> bool {
        let mut seen = Vec::new();
        while !done(self) {
            if now() >= over {
                self.missed += 1;
                return false;
            }
            exchange.step(over.min(now() + Duration::from_millis(20)), &mut seen);
            self.note(&mut seen);
        }
        true
    }
}

fn start(members: usize, shards: u16) -> (Exchange, Progress) {
    let (mut exchange, mut progress) = (Exchange::start(shards), Progress::default());
    (0..members).for_each(|lane| exchange.connect(Lane(lane as u16)));
    let over = now() + Duration::from_secs(10);
    let all = progress.until(&mut exchange, over, |progress| progress.synced.len() == members);
    assert!(all, "members are served within seconds");
    (exchange, progress)
}

/// What a trace took: announcements, and times of them all.
pub(crate) struct Replayed {
    name: &'static str,
    announcements: usize,
    export_ms: [f64; 3],
    selections: usize,
    selection_ms: [f64; 3],
    /// Also what was withdrawn before all members had it.
    unfinished: usize,
}

/// Replays traces at their pace: what a second has is spread
/// over it; seconds without anything are left out.
pub(crate) fn replay(shards: u16) -> Vec<Replayed> {
    let traces = [
        ("LINX 2007", include_str!("data/linx-2007.txt")),
        ("JINX 2015", include_str!("data/jinx-2015.txt")),
    ];
    traces.into_iter().map(|(name, trace)| replay_one(name, trace, shards)).collect()
}

fn replay_one(name: &'static str, trace: &str, shards: u16) -> Replayed {
    let lines: Vec<Vec<&str>> = trace.lines().map(|line| line.split(' ').collect()).collect();
    let second = |line: &[&str]| line[0].parse::<u64>().expect("a trace of ours");
    let lane = |line: &[&str]| Lane(line[1].parse().expect("a trace of ours"));
    let members = lines.iter().map(|line| lane(line).0).max().map_or(0, |most| most + 1);
    let (mut exchange, mut progress) = start(usize::from(members).max(CONNECTED), shards);
    let begun = now();
    let mut seen = Vec::new();
    let mut announcements = 0;
    for second_lines in lines.chunk_by(|left, right| left[0] == right[0]) {
        for (number, line) in second_lines.iter().enumerate() {
            let part = number as f64 / second_lines.len() as f64;
            let due = begun + Duration::from_secs_f64(second(line) as f64 + part);
            while now() < due {
                exchange.step(due, &mut seen);
                progress.note(&mut seen);
            }
            let to = Destination::new(line[3].as_bytes()).expect("short");
            match line[2].parse::<u8>() {
                Ok(path) => {
                    let class = 15 - path.clamp(1, 14);
                    progress.announce(&mut exchange, lane(line), &to, class);
                    announcements += 1;
                }
                Err(_) => progress.withdraw(&mut exchange, lane(line), &to),
            }
        }
    }
    progress.until(&mut exchange, now() + Duration::from_secs(3), |progress| {
        progress.exports.is_empty() && progress.selections.is_empty()
    });
    exchange.stop();
    Replayed {
        name,
        announcements,
        selections: progress.selection_ms.len(),
        export_ms: summary(&mut progress.export_ms),
        selection_ms: summary(&mut progress.selection_ms),
        unfinished: progress.exports.len() + progress.selections.len(),
    }
}

/// Mean, median, 99th percentile.
fn summary(values: &mut [f64]) -> [f64; 3] {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    [mean, median(values), quantile(values, 0.99)]
}

/// As many as can be: routes per destination, and changes per second.
pub(crate) struct Stressed {
    routes: usize,
    per_s: f64,
}

/// Destinations change one after the other, so many at a time; a change is
/// done when all members have what comes of it.
pub(crate) fn stress(shards: u16) -> Vec<Stressed> {
    [1, 2, 4, 8].into_iter().map(|routes| stress_one(routes, shards)).collect()
}

fn stress_one(routes: usize, shards: u16) -> Stressed {
    let (mut exchange, mut progress) = start(CONNECTED, shards);
    let all: Vec<Destination> = (0..WINDOW).map(|number| destination(number as u32)).collect();
    for to in &all {
        for lane in 0..routes {
            progress.announce(&mut exchange, Lane(lane as u16), to, 5);
        }
    }
    let over = now() + Duration::from_secs(20);
    let settled =
        |progress: &Progress| progress.exports.is_empty() && progress.selections.is_empty();
    assert!(progress.until(&mut exchange, over, settled), "the first routes arrive");
    let (mut seen, mut count, mut turn) = (Vec::new(), 0, 0);
    let mut changing: BTreeMap<&Destination, usize> = BTreeMap::new();
    let begun = now();
    let over = begun + STRESS;
    progress.export_ms.clear();
    progress.selection_ms.clear();
    while now() < over {
        // Whatever is done changes again.
        let is_done = |to: &Destination, progress: &Progress| {
            let is_exported = || !progress.exports.contains_key(&(Lane(0), to.clone()));
            if routes == 1 { is_exported() } else { !progress.selections.contains_key(to) }
        };
        let done = progress.export_ms.len();
        for to in &all {
            if is_done(to, &progress) {
                let lane = Lane((turn % routes) as u16);
                turn += 1;
                progress.announce(&mut exchange, lane, to, 1 + (turn % 9) as u8);
                *changing.entry(to).or_default() += 1;
            }
        }
        exchange.step(now() + Duration::from_millis(1), &mut seen);
        progress.note(&mut seen);
        count += progress.export_ms.len() - done;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let done = if routes == 1 { count } else { progress.selection_ms.len() };
    exchange.stop();
    Stressed { routes, per_s: done as f64 / seconds }
}

/// A full table: one member announces it, another one comes and gets it.
pub(crate) struct Tabled {
    prefixes: usize,
    announce_s: f64,
    join_s: f64,
    resident_mb: [f64; 2],
}

pub(crate) fn full_table(shards: u16) -> Tabled {
    let before = resident_mb();
    let (mut exchange, mut progress) = start(TABLE_CONNECTED, shards);
    let begun = now();
    let over = begun + TABLE_TIME;
    let mut seen = Vec::new();
    let mut prefixes = 0;
    while prefixes < TABLE && now() < over {
        while progress.exports.len() < TABLE_WINDOW && prefixes < TABLE {
            let to = destination(prefixes as u32);
            progress.announce(&mut exchange, Lane(0), &to, 5);
            prefixes += 1;
        }
        exchange.step(now() + Duration::from_millis(1), &mut seen);
        progress.note(&mut seen);
    }
    let last = now() + Duration::from_secs(5);
    progress.until(&mut exchange, last, |progress| progress.exports.is_empty());
    let announce_s = begun.elapsed().as_secs_f64();
    let after = resident_mb();
    let joined = now();
    let newcomer = Lane(TABLE_CONNECTED as u16);
    exchange.connect(newcomer);
    let over = joined + Duration::from_secs(20);
    let all = progress.until(&mut exchange, over, |seen| seen.synced.contains(&newcomer));
    let join_s = if all { joined.elapsed().as_secs_f64() } else { f64::INFINITY };
    exchange.stop();
    Tabled { prefixes, announce_s, join_s, resident_mb: [before, after] }
}

fn destination(number: u32) -> Destination {
    let [a, b, c, d] = number.to_be_bytes();
    Destination::new(&[24, b, c, d, a]).expect("short")
}

impl Replayed {
    pub(crate) fn text(&self) -> String {
        let ms = |[mean, median, high]: [f64; 3]| {
            format!("mean {mean:.2} ms, median {median:.2} ms, p99 {high:.2} ms")
        };
        format!(
            "replay {}: {} announcements, {}; {} selections, {}; unfinished {}",
            self.name,
            self.announcements,
            ms(self.export_ms),
            self.selections,
            ms(self.selection_ms),
            self.unfinished
        )
    }

    pub(crate) fn json(&self) -> Value {
        let ms =
            |[mean, median, high]: [f64; 3]| json!({"mean": mean, "median": median, "p99": high});
        json!({
            "trace": self.name,
            "announcements": self.announcements,
            "export_ms": ms(self.export_ms),
            "selections": self.selections,
            "selection_ms": ms(self.selection_ms),
            "unfinished": self.unfinished,
        })
    }

    pub(crate) fn targets(&self) -> [Target; 2] {
        let name = self.name.split(' ').next().unwrap_or_default().to_lowercase();
        [("export", self.export_ms), ("selection", self.selection_ms)]
            .map(|(of, [.., high])| Target::at_most(format!("{name}_{of}_p99_ms"), high, 10.0))
    }
}

impl Stressed {
    pub(crate) fn text(&self) -> String {
        format!(
            "stress: {} routes per prefix: {:.0} announcements per second",
            self.routes, self.per_s
        )
    }

    pub(crate) fn json(&self) -> Value {
        json!({"routes": self.routes, "per_s": self.per_s})
    }

    /// Five times the paper's 619 and 64.
    pub(crate) fn target(&self) -> Option<Target> {
        match self.routes {
            1 => Some(Target::at_least("export_all_per_s", self.per_s, 3096.0)),
            8 => Some(Target::at_least("select_best_8_per_s", self.per_s, 322.0)),
            _ => None,
        }
    }
}

impl Tabled {
    /// Of the paper's 250 thousand prefixes.
    fn of_250k(&self, seconds: f64) -> f64 {
        seconds * TABLE as f64 / self.prefixes as f64
    }

    /// Of the 503,590 routes of JINX.
    fn of_jinx(&self, seconds: f64) -> f64 {
        seconds * 503_590.0 / self.prefixes as f64
    }

    fn bytes_per_route(&self) -> f64 {
        (self.resident_mb[1] - self.resident_mb[0]) * 1e6 / self.prefixes as f64
    }

    pub(crate) fn text(&self) -> String {
        format!(
            "full table: {} prefixes announced in {:.1} s (250 k in {:.0} s, JINX's 503,590 in {:.0} s); a new member \
             served in {:.1} s ({:.1} s, {:.1} s); {:.0} MB resident, {:.0} bytes per route of servers and {} members",
            self.prefixes,
            self.announce_s,
            self.of_250k(self.announce_s),
            self.of_jinx(self.announce_s),
            self.join_s,
            self.of_250k(self.join_s),
            self.of_jinx(self.join_s),
            self.resident_mb[1],
            self.bytes_per_route(),
            TABLE_CONNECTED,
        )
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "prefixes": self.prefixes,
            "announce_s": self.announce_s,
            "announce_250k_s": self.of_250k(self.announce_s),
            "announce_jinx_s": self.of_jinx(self.announce_s),
            "join_s": self.join_s,
            "join_250k_s": self.of_250k(self.join_s),
            "join_jinx_s": self.of_jinx(self.join_s),
            "resident_mb": self.resident_mb,
            "bytes_per_route": self.bytes_per_route(),
        })
    }

    pub(crate) fn targets(&self) -> [Target; 2] {
        [
            Target::at_most("announce_250k_s", self.of_250k(self.announce_s), 120.0),
            Target::at_most("join_250k_s", self.of_250k(self.join_s), 15.0),
        ]
    }
}

/// Members that are connected; LINX has more announcers.
pub(crate) const CONNECTED: usize = 16;
pub(crate) const TABLE_CONNECTED: usize = 4;
/// Changes under way.
const WINDOW: usize = 64;
const TABLE_WINDOW: usize = 512;
/// Of each number of routes.
const STRESS: Duration = Duration::from_secs(6);
/// The paper's; what is not done in the time is extrapolated, which the text says by giving both.
const TABLE: usize = 250_000;
const TABLE_TIME: Duration = Duration::from_secs(35);
