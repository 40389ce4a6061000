//! An exchange as its members see it: a LAN of network namespaces on which
//! real routers of five makes announce real routes.
//!
//! 1. [`lan`] lays the LAN: one host per router, and as many more as servers and proxies need.
//! 2. [`Member::start`] starts a router, told to speak with one
//!    neighbour; it announces its part of the [`slice`].
//! 3. [`Member::received`] asks the router, by its own tool, what that neighbour has told it.
//!
//! [`oracle`] says what each should have received, by rules of
//! its own. [`baseline`] is a plain route server.

// Each test file uses a part of this; a test may panic; iterators are made for the call.
#![allow(dead_code, clippy::unwrap_used, clippy::needless_pass_by_value)]

pub(crate) mod baseline;
mod bird;
mod exabgp;
mod frr;
mod gobgp;
mod lan;
mod mrt;
mod openbgpd;
pub(crate) mod oracle;
pub(crate) mod private;
pub(crate) mod slice;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) use lan::{Lan, Process, Station};
use slice::Announced;

/// The exchange's AS: IX.br's.
pub(crate) const EXCHANGE: u32 = 26162;
/// Where a plain route server listens.
pub(crate) const SERVER: &str = "10.90.0.1";

/// The makes of routers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Make {
    Bird,
    GoBgp,
    Frr,
    OpenBgpd,
    ExaBgp,
}

/// The members: their ASes, and what they run.
pub(crate) const MEMBERS: [(u32, Make); 6] = [
    (1916, Make::Bird),
    (25933, Make::GoBgp),
    (18881, Make::Frr),
    (28303, Make::OpenBgpd),
    (53237, Make::ExaBgp),
    (22177, Make::Bird),
];

/// Who exports to whom: rows and columns 15, 53, 140, 162, 276 and 305 of IX.br's peering matrix.
pub(crate) const MATRIX: [[u8; 6]; 6] = [
    [1, 1, 1, 0, 1, 0],
    [1, 1, 0, 1, 1, 0],
    [1, 0, 1, 1, 1, 1],
    [0, 1, 1, 1, 1, 1],
    [1, 1, 1, 1, 1, 1],
    [0, 0, 1, 1, 1, 1],
];

/// What all this needs: programs, and the Debian packages with them.
const PROGRAMS: [(&str, &str); 6] = [
    ("bird", "bird2"),
    ("gobgpd", "gobgpd"),
    ("/usr/lib/frr/bgpd", "frr"),
    ("vtysh", "frr"),
    ("bgpctl", "openbgpd"),
    ("exabgp", "exabgp"),
];

/// A route as a router received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) next_hop: String,
    pub(crate) path: Vec<u32>,
    pub(crate) origin: String,
    /// Some routers tell none from zero, others do not.
    pub(crate) med: u32,
    pub(crate) communities: BTreeSet<String>,
}

/// By prefix.
pub(crate) type Table = BTreeMap<String, Received>;

/// A LAN; `None`, and why, where namespaces or a router cannot be had.
pub(crate) fn lan() -> Option<Lan> {
    for (program, package) in PROGRAMS {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        if !found.is_ok_and(|it| it.status.success()) {
            println!("skipped: without {program} (Debian package {package})");
            return None;
        }
    }
    Lan::new().map_err(|why| println!("skipped: {why}")).ok()
}

/// A member's router.
pub(crate) struct Member {
    pub(crate) index: usize,
    pub(crate) asn: u32,
    pub(crate) make: Make,
    pub(crate) station: Station,
    /// The one it speaks with.
    pub(crate) neighbour: String,
    /// What it announces.
    pub(crate) routes: Vec<Announced>,
    /// Of TCP-MD5, for its neighbour; BIRD and FRR are told.
    pub(crate) password: Option<String>,
    /// Its session carries IPv4 alone; BIRD is told.
    pub(crate) only_v4: bool,
    folder: PathBuf,
    processes: Vec<Process>,
}

impl Member {
    /// Makes the host and its files; nothing runs yet.
    pub(crate) fn new(lan: &mut Lan, index: usize, neighbour: &str, folder: &Path) -> Self {
        let (asn, make) = MEMBERS[index];
        let folder = folder.join(format!("member{index}"));
        std::fs::create_dir_all(&folder).unwrap();
        // FRR runs as a user of its own.
        for folder in [folder.parent().unwrap(), &folder] {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let station = lan.station(11 + index);
        Self {
            index,
            asn,
            make,
            station,
            neighbour: neighbour.to_owned(),
            routes: slice::of(asn),
            password: None,
            only_v4: false,
            folder,
            processes: Vec::new(),
        }
    }

    /// Starts the router, which announces its routes.
    pub(crate) fn start(&mut self) {
        self.processes = match self.make {
            Make::Bird => bird::start(self),
            Make::GoBgp => gobgp::start(self),
            Make::Frr => frr::start(self),
            Make::OpenBgpd => openbgpd::start(self),
            Make::ExaBgp => exabgp::start(self),
        };
    }

    /// How many routes its neighbour has withdrawn, where the router counts them.
    pub(crate) fn withdrawals(&self) -> Option<u32> {
        (self.make == Make::Bird).then(|| bird::withdrawals(self))
    }

    /// What the router has from its neighbour, without what would
    /// loop: some makes show that, others do not.
    pub(crate) fn received(&self) -> Table {
        let mut table = match self.make {
            Make::Bird => bird::received(self),
            Make::GoBgp => gobgp::received(self),
            Make::Frr => frr::received(self),
            Make::OpenBgpd => openbgpd::received(self),
            Make::ExaBgp => exabgp::received(self),
        };
        table.retain(|_, route| !route.path.contains(&self.asn));
        table
    }

    /// Takes a route back.
    pub(crate) fn withdraw(&mut self, prefix: &str) {
        let at = self.routes.iter().position(|route| route.prefix == prefix).unwrap();
        let route = self.routes.remove(at);
        match self.make {
            Make::Bird => bird::configure(self),
            Make::GoBgp => gobgp::withdraw(self, &route),
            Make::Frr => frr::withdraw(self, &route),
            Make::OpenBgpd => openbgpd::withdraw(self, &route),
            Make::ExaBgp => exabgp::withdraw(self, &route),
        }
    }

    /// Announces a route, in place of any other to its prefix.
    pub(crate) fn announce(&mut self, route: Announced) {
        self.routes.retain(|other| other.prefix != route.prefix);
        self.routes.push(route.clone());
        match self.make {
            Make::Bird => bird::configure(self),
            Make::GoBgp => gobgp::announce(self, &route),
            Make::Frr => frr::announce(self, &route),
            Make::OpenBgpd => openbgpd::announce(self, &[route]),
            Make::ExaBgp => exabgp::announce(self, &route),
        }
    }

    /// Kills the router without a warning.
    pub(crate) fn kill(&mut self) {
        self.processes.clear();
    }

    /// Kills the router, and the host with it: no connection
    /// of its is closed, none is answered any more.
    pub(crate) fn vanish(&mut self) {
        self.station.host.run("ip link set eth down");
        self.kill();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A command on the router's host.
    fn ask(&self, script: &str) -> String {
        self.station.host.run(script)
    }

    /// Next hop of its routes to a prefix.
    fn next_hop(&self, prefix: &str) -> &str {
        if is_v6(prefix) { &self.station.v6 } else { &self.station.v4 }
    }
}

/// Whether a prefix is of IPv6.
pub(crate) fn is_v6(prefix: &str) -> bool {
    prefix.contains(':')
}

/// Waits until tables equal what is expected, and says how they differ if they do not become so.
#[track_caller]
pub(crate) fn expect_tables<'a>(
    what: &str,
    members: impl Iterator<Item = &'a Member> + Clone,
    expected: &BTreeMap<usize, Table>,
) {
    expect_tables_or(what, members, expected, PATIENCE, String::new);
}

/// As [`expect_tables`], for so long; `context` is told, too, if they do not become so.
#[track_caller]
pub(crate) fn expect_tables_or<'a>(
    what: &str,
    members: impl Iterator<Item = &'a Member> + Clone,
    expected: &BTreeMap<usize, Table>,
    patience: Duration,
    context: impl Fn() -> String,
) {
    let begin = Instant::now();
    loop {
        let mut differing =
            members.clone().flat_map(|member| difference(member, &expected[&member.index]));
        // Asking a router starts programs: while the first differs, the others are not asked.
        let Some(first) = differing.next() else { return };
        if begin.elapsed() > patience {
            let differences: Vec<String> = std::iter::once(first).chain(differing).collect();
            let some = differences.iter().step_by(differences.len() / 12 + 1).cloned();
            let some = some.collect::<Vec<_>>().join("\n");
            panic!("{what}: {} differences:\n{some}\n{}", differences.len(), context());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn difference(member: &Member, expected: &Table) -> Vec<String> {
    let received = member.received();
    let prefixes: BTreeSet<&String> = received.keys().chain(expected.keys()).collect();
    let differing =
        prefixes.into_iter().filter(|prefix| received.get(*prefix) != expected.get(*prefix));
    differing
        .map(|prefix| {
            let (is, should) = (received.get(prefix), expected.get(prefix));
            format!(
                "{:?} (AS {}) has for {prefix}\n  {is:?}\n  instead of\n  {should:?}",
                member.make, member.asn
            )
        })
        .collect()
}

/// For a machine that is busy with everything else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
