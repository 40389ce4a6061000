//! What tests of `rhumb stamp` stand on: four hosts in a line, a - r1 - r2 - b, with a waypoint on
//! each router, and nothing else gets from a to b.

#![allow(dead_code, clippy::unwrap_used)] // Each test file uses a part of this; a test may panic.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rhumb_capability::{
    Capability, Credential, Delegations, Epoch, EpochKeys, Flags, Master, Principal, Scheme, Suite,
    Window, WindowClock,
};
use serde_json::Value;

use super::harness::{Place, Run};
use super::wire::{Host, Line};

/// Windows of 1024 s, taken so much longer that no test outlives one in which it began.
pub(crate) fn window_clock() -> WindowClock {
    WindowClock::new(10, 400_000, 5_000).unwrap()
}

/// Microseconds of Unix time on a clock that is ahead.
pub(crate) fn now_us(ahead_s: i64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    (now.as_micros() as u64).saturating_add_signed(ahead_s * 1_000_000)
}

/// The line, with waypoints.
pub(crate) struct Rig {
    pub(crate) line: Line,
    pub(crate) place: Place,
    /// r1's and r2's.
    pub(crate) waypoints: [Daemon; 2],
    pub(crate) ahead_s: i64,
}

/// A daemon on a host, with its admin endpoint.
pub(crate) struct Daemon {
    pub(crate) started: Started,
    pub(crate) ready: Value,
}

impl Daemon {
    /// Starts `rhumb` with these arguments, and waits until it is ready.
    pub(crate) fn start(place: &Place, host: &Host, ahead_s: i64, arguments: &[&str]) -> Self {
        let ahead = ahead_s.to_string();
        let all = [&["--json", "--with-parent", "--clock-offset-s", &ahead], arguments].concat();
        let mut command = place.command(&all);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut started = Started::on(host, &mut command);
        let mut line = String::new();
        BufReader::new(started.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not ready: {line}"));
        Self { started, ready }
    }

    /// Its status.
    pub(crate) fn status(&self, place: &Place, host: &Host) -> Value {
        status(place, host, self.ready["admin"].as_str().unwrap())
    }
}

/// The status at an admin address; null when nobody answers there yet.
pub(crate) fn status(place: &Place, host: &Host, admin: &str) -> Value {
    let mut command = place.command(&["--json", "status", "--admin", admin]);
    let output = Run::of(output_on(host, &mut command)).output;
    serde_json::from_str(&output).unwrap_or_default()
}

impl Rig {
    /// A new one, whose clocks are ahead; `None`, and why, where the
    /// process may not make it or a program is missing.
    pub(crate) fn new(ahead_s: i64, programs: &[&str]) -> Option<Self> {
        for program in [&["nft"], programs].concat() {
            let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
            if !found.is_ok_and(|it| it.status.success()) {
                println!("skipped: {program} is not installed");
                return None;
            }
        }
        let line = Line::new()?;
        for router in [&line.r1, &line.r2] {
            router.run(
                "nft add table inet plain; \
                 nft add chain inet plain forward '{ type filter hook forward priority 0; }'; \
                 nft add rule inet plain forward iifname left oifname right counter drop",
            );
        }
        let place = Place::new();
        place.write("waypoint.toml", WAYPOINT_CONFIG);
        for (name, address) in WAYPOINTS {
            place.write(
                &format!("{name}.master"),
                &format!("rhumb-master 1\nwaypoint {address}\nepoch 1\nkey {}\n", "05".repeat(16)),
            );
        }
        line.a.run(&format!("chmod 600 {}/*.master", place.folder().display()));
        let waypoints = [
            waypoint(&place, &line.r1, ahead_s, [("w1", Line::R1), ("w1v6", Line::R1_6)]),
            waypoint(&place, &line.r2, ahead_s, [("w2", Line::R2), ("w2v6", Line::R2_6)]),
        ];
        let rig = Self { line, place, waypoints, ahead_s };
        let window = window_clock().at(now_us(ahead_s));
        for (name, address) in WAYPOINTS {
            for (suffix, window) in [("", window), ("-next", Window(window.0 + 1))] {
                let path = rig.place.path(&format!("{name}{suffix}.cap"));
                let credential = credential(address, window, window_clock());
                rhumb_capability::file::save(&path, &credential).unwrap();
            }
        }
        Some(rig)
    }

    /// Starts `rhumb stamp daemon` on a with these options.
    pub(crate) fn daemon(&self, options: &[&str]) -> Daemon {
        let arguments = [&["stamp", "daemon", "--admin", "127.0.0.1:0"], options].concat();
        Daemon::start(&self.place, &self.line.a, self.ahead_s, &arguments)
    }

    /// The options for these capability files.
    pub(crate) fn keys(&self, names: &[&str]) -> Vec<String> {
        let ahead = ["--clock-offset-s".to_owned(), self.ahead_s.to_string()];
        let files =
            names.iter().flat_map(|name| ["--capability".to_owned(), format!("{name}.cap")]);
        ahead.into_iter().chain(files).collect()
    }

    /// `rhumb stamp` with these options, to be run on a.
    pub(crate) fn stamp(&self, options: &[&str]) -> Command {
        let mut arguments = vec!["stamp"];
        arguments.extend(options);
        let mut command = self.place.command(&arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a shell script on a, stamped with the keys of these files.
    pub(crate) fn run_stamped(&self, keys: &[&str], script: &str) -> Run {
        let keys = self.keys(keys);
        let mut options: Vec<&str> = keys.iter().map(String::as_str).collect();
        options.extend(["--", "sh", "-c", script]);
        Run::of(output_on(&self.line.a, &mut self.stamp(&options)))
    }

    /// Waits until each waypoint has let so many more packets
    /// pass than before: they tell a moment later.
    #[track_caller]
    pub(crate) fn expect_passed(&self, before: &[u64], more: u64) {
        wait_until("packets at the waypoints", || {
            self.passed().iter().zip(before).all(|(now, before)| now - before >= more)
        });
    }

    /// Packets that each waypoint let pass so far.
    pub(crate) fn passed(&self) -> Vec<u64> {
        let hosts = [&self.line.r1, &self.line.r2];
        let statuses =
            self.waypoints.iter().zip(hosts).map(|(daemon, host)| daemon.status(&self.place, host));
        statuses.map(|it| it["counters"]["forwarded_packets"].as_u64().unwrap()).collect()
    }
}

/// Runs a command on a host to its end.
pub(crate) fn output_on(host: &Host, command: &mut Command) -> Output {
    host.enter(|| command.output().unwrap())
}

/// A process on a host, ended with the value.
pub(crate) struct Started(pub(crate) Child);

impl Started {
    /// Starts it.
    pub(crate) fn on(host: &Host, command: &mut Command) -> Self {
        Self(host.enter(|| command.spawn().unwrap()))
    }

    /// As a shell script, its output thrown away.
    pub(crate) fn script(host: &Host, script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-ec", &format!("exec {script}")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self::on(host, &mut command)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something holds; a generous bound, since
/// the machine may be busy with everything else.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What stands on a host of a stamper: rules, devices; both empty where nothing is left.
pub(crate) fn traces(host: &Host) -> String {
    let rules = host.run("ip rule show; ip -6 rule show");
    let rules = rules.lines().filter(|line| line.contains("proto 82"));
    let devices = host.run("ip -o link show");
    let devices = devices.lines().filter(|line| line.contains(": stamp"));
    let routes = host.run("ip route show table all; ip -6 route show table all");
    let routes = routes.lines().filter(|line| line.contains("proto 82") || line.contains("stamp"));
    rules.chain(devices).chain(routes).collect::<Vec<_>>().join("\n")
}

/// A credential of principal 7.
pub(crate) fn credential(address: &str, window: Window, clock: WindowClock) -> Credential {
    let capability = Capability {
        waypoint: address.parse().unwrap(),
        principal: Principal(7),
        flags: Flags::NONE,
        window,
        epoch: Epoch(1),
        suite: Suite::HeaderAes,
        scheme: Scheme::CaveatChain,
        delegations: Delegations::default(),
    };
    let keys = EpochKeys::new(Epoch(1), &Master::new([5; Master::LEN]));
    keys.mint(capability, clock.not_after_s(window)).unwrap().into()
}

/// Names of capability files, and whose they are.
pub(crate) const WAYPOINTS: [(&str, &str); 4] =
    [("w1", Line::R1), ("w2", Line::R2), ("w1v6", Line::R1_6), ("w2v6", Line::R2_6)];

fn waypoint(place: &Place, host: &Host, ahead_s: i64, served: [(&str, &str); 2]) -> Daemon {
    let [(v4, address), (v6, address_v6)] = served;
    let (master, master_v6) = (format!("{v4}.master"), format!("{v6}.master"));
    let keys = [
        "--address",
        address,
        "--address",
        address_v6,
        "--master",
        &master,
        "--master",
        &master_v6,
    ];
    let before = ["--config", "waypoint.toml", "waypoint", "--io", "raw", "--admin", "127.0.0.1:0"];
    let accounts = format!("{v4}.accounts");
    let all = [&before[..], &["--accounts", &accounts], &keys].concat();
    let daemon = Daemon::start(place, host, ahead_s, &all);
    // It takes nothing that is dated before half a second after its start.
    std::thread::sleep(Duration::from_millis(510));
    daemon
}

/// As in [`window_clock`].
pub(crate) const WAYPOINT_CONFIG: &str =
    "[waypoint]\nwindow_bits = 10\ngrace_ms = 400000\nskew_ms = 5000\n";
const PATIENCE: Duration = Duration::from_secs(20);

/// A file of so many bytes that are not all the same.
pub(crate) fn write_file(path: &PathBuf, len: usize) {
    let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + at / 251) as u8).collect();
    std::io::Write::write_all(&mut File::create(path).unwrap(), &bytes).unwrap();
}

/// A host behind a, 10.8.9.2 and 2001:db8:8:9::2, for which a forwards.
pub(crate) fn behind(rig: &Rig) -> Host {
    let host = Host::new().unwrap();
    let Line { a, r1, r2, .. } = &rig.line;
    a.run(&format!(
        "ip link add inner type veth peer name outer netns {}; \
         ip address add 10.8.9.1/24 dev inner; ip address add 2001:db8:8:9::1/64 dev inner nodad; \
         ip link set inner up; echo 1 > /proc/sys/net/ipv4/ip_forward; \
         echo 1 > /proc/sys/net/ipv6/conf/all/forwarding",
        host.path()
    ));
    host.run(
        "ip address add 10.8.9.2/24 dev outer; ip address add 2001:db8:8:9::2/64 dev outer nodad; \
         ip link set outer up; ip route add default via 10.8.9.1; ip route add default via 2001:db8:8:9::1",
    );
    r1.run(
        "ip route add 10.8.9.0/24 via 10.8.0.1; ip route add 2001:db8:8:9::/64 via 2001:db8:8:0::1",
    );
    r2.run(
        "ip route add 10.8.9.0/24 via 10.8.1.1; ip route add 2001:db8:8:9::/64 via 2001:db8:8:1::1",
    );
    host
}
