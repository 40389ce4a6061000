//! The package under a systemd: installed by dpkg, each service started in the sandbox that
//! systemd makes of its unit, ended, killed, stopped in its tracks, upgraded under traffic, and
//! removed with all that runs.
//!
//! Flow: 1. the package, and what sysusers and tmpfiles make of it; 2. every service, where a call
//! that its sandbox refuses is its end; 3. what somebody in a service's place can do; 4. a service
//! that dies, and one that hangs; 5. those that an operator enables, as at boot, as they are
//! shipped; 6. traffic while settings are read again, and while the package is upgraded; 7. the
//! journal; 8. removal.

mod scripts;
mod service;

use std::collections::BTreeMap;

use scripts::{
    CAN, COMPLAINTS, DROPS, PROBE, READERS, SECRETS, STRICT, TALK, TO_REFUSE, UNCONFINED,
};
use service::{GIVEN_UP, Service};

use super::machine::{Machine, PACKAGE};
use super::settings;
use crate::files::said;
use crate::report::Outcome;

/// Tries it all, in this order; what comes after a failure has nothing to stand on.
pub(super) fn run(machine: &Machine) -> Outcome {
    let mut outcome = Outcome::default();
    for (what, part) in PARTS {
        match part(machine) {
            Ok(()) => outcome.passed += 1,
            Err(problem) => {
                let what = format!("package: {what} under systemd: {problem}");
                outcome.add(Outcome::failed(what));
                break;
            }
        }
    }
    outcome
}

type Part = fn(&Machine) -> Result<(), String>;

const PARTS: [(&str, Part); 8] = [
    ("installation", install),
    ("services", services),
    ("the sandbox", sandbox),
    ("services that fail", failures),
    ("start at boot", boot),
    ("traffic", traffic),
    ("the journal", journal),
    ("removal", remove),
];

/// Users and folders are there, and folders again after `/run` was lost, as at boot.
fn install(machine: &Machine) -> Result<(), String> {
    dpkg(machine, &["--install", PACKAGE])?;
    let folders = "stat -c '%n %a %U:%G' /var/lib/rhumb /run/rhumb-status /run/rhumb-status/*";
    let made = machine.run(folders)?;
    let rib = "/run/rhumb-status/rib 750 rhumb-rib:rhumb-status";
    if !made.lines().any(|line| line == rib) {
        return Err(format!("no `{rib}`: {made}"));
    }
    machine.run("rm -r /run/rhumb-status; systemd-tmpfiles --create --boot")?;
    let again = machine.run(folders)?;
    match again == made {
        true => Ok(()),
        false => Err(format!("at boot folders are others: {again}")),
    }
}

/// Each of them once.
fn services(machine: &Machine) -> Result<(), String> {
    machine.run(STRICT)?;
    for script in [settings::ROUTING, settings::DASHBOARD, settings::LINKS, settings::NETWORK] {
        machine.run(script)?;
    }
    let rib = Service::start(machine, "rhumb-rib", GIVEN_UP)?;
    let router = Service::start(machine, "rhumb-router", GIVEN_UP)?;
    dashboard(machine)?;
    let xdp = Service::start(machine, "rhumb-router-xdp", GIVEN_UP)?;
    router.gave_way()?;
    xdp.sees_only("var/lib", "rhumb-router")?;
    if machine.run("prlimit --memlock=unlimited true").is_ok() {
        xdp.says("left by AF_XDP")?;
    }
    xdp.stop()?;
    // What was mounted there has left nothing that the package does not know of.
    machine.run("find /usr/lib/rhumb | xargs dpkg --search >/dev/null")?;
    rib.stop()?;
    let network = Service::start(machine, "rhumb-network@home", GIVEN_UP)?;
    let node = Service::start(machine, "rhumb-up", GIVEN_UP)?;
    if has_devices(machine) {
        let vpn = Service::start(machine, "rhumb-vpn", GIVEN_UP)?;
        node.gave_way()?;
        machine.run("ip address show rhumb0 | grep -q inet6")?;
        vpn.stop()?;
    } else {
        node.stop()?;
    }
    network.stop()?;
    machine.run(settings::WAYPOINT)?;
    let keys = Service::start(machine, "rhumb-keyserver", CAP_NET_BIND_SERVICE)?;
    if has_devices(machine) {
        let rights = CAP_NET_ADMIN | CAP_NET_RAW;
        Service::start(machine, "rhumb-stamp", rights)?.stop()?;
    }
    keys.stop()?;
    Service::start(machine, "rhumb-waypoint", GIVEN_UP)?.stop()?;
    machine.run(settings::EXCHANGE)?;
    let two = Service::start(machine, "rhumb-exchange@two", GIVEN_UP)?;
    let one = Service::start(machine, "rhumb-exchange@one", GIVEN_UP)?;
    Service::start(machine, "rhumb-member", CAP_NET_BIND_SERVICE)?.stop()?;
    one.stop()?;
    two.stop()
}

/// It sees what daemons tell; so does who is added to its group, and nobody else.
fn dashboard(machine: &Machine) -> Result<(), String> {
    let service = Service::start(machine, "rhumb-dashboard", GIVEN_UP)?;
    machine.wait("the dashboard sees RIB and router", || {
        let told = machine.run(settings::LOOK_AT_DASHBOARD)?;
        Ok([r#""role":"rib""#, r#""role":"router""#].iter().all(|role| told.contains(role)))
    })?;
    machine.run(READERS)?;
    service.stop()
}

/// What somebody in a RIB's place can do is what a RIB does, and no more.
fn sandbox(machine: &Machine) -> Result<(), String> {
    machine.run(PROBE)?;
    // Without it that user can do more, or this would tell nothing.
    let free = machine.run(UNCONFINED)?;
    if let Some(refused) = TO_REFUSE.iter().find(|it| !free.contains(**it)) {
        return Err(format!("`{refused}` is nothing that only a sandbox refuses: {free}"));
    }
    let rib = Service::start(machine, "rhumb-rib", GIVEN_UP)?;
    let can = machine.run("cat /run/rhumb-rib/can; rm /run/rhumb-rib/can")?;
    if can != CAN {
        return Err(format!("a RIB's place lets one do other things than these: {CAN}\n{can}"));
    }
    // Its /tmp is another one than that of the machine.
    machine.run("cd /tmp; if test -e probe; then exit 1; fi")?;
    machine.run("rm -r /etc/systemd/system/rhumb-rib.service.d")?;
    machine.systemctl(&["daemon-reload"])?;
    rib.stop()
}

/// A daemon that is killed is there again, and so is one that hangs.
fn failures(machine: &Machine) -> Result<(), String> {
    let rib = Service::start(machine, "rhumb-rib", GIVEN_UP)?;
    for (number, signal) in ["KILL", "STOP"].into_iter().enumerate() {
        machine.systemctl(&["kill", "--signal", signal, "rhumb-rib"])?;
        let again = (number + 1).to_string();
        machine.wait(&format!("a RIB is there again after SIG{signal}"), || {
            Ok(rib.properties(["NRestarts", "ActiveState"])? == [&again, "active"])
        })?;
    }
    // A core would hold keys.
    machine.run("journalctl --unit rhumb-rib | grep -q 'code=killed, status=6/ABRT'")?;
    rib.says("Watchdog timeout")?;
    machine.systemctl(&["stop", "rhumb-rib"])?;
    machine.run("rm -r /etc/systemd/system/rhumb-.service.d")?;
    machine.systemctl(&["daemon-reload"])?;
    Ok(())
}

/// All that one host can have starts by itself, at the first attempt, a router after its RIB.
fn boot(machine: &Machine) -> Result<(), String> {
    let enabled = at_boot(machine);
    machine.systemctl(&[&["enable", "--quiet"], &enabled[..]].concat())?;
    machine.systemctl(&["start", "multi-user.target"])?;
    for unit in &enabled {
        let service = Service::of(machine, unit);
        machine.wait(&format!("{unit} is up"), || {
            Ok(service.property("ActiveState")? != "activating")
        })?;
        service.is_running()?;
    }
    let ready = Service::of(machine, "rhumb-rib").property("ActiveEnterTimestampMonotonic")?;
    let router = Service::of(machine, "rhumb-router");
    let started = router.property("ExecMainStartTimestampMonotonic")?;
    match (ready.parse::<u64>(), started.parse::<u64>()) {
        (Ok(ready), Ok(started)) if ready <= started => Ok(()),
        _ => Err(format!("the router starts at {started}, its RIB is there at {ready}")),
    }
}

/// A name is reached while services read their settings again, and after an upgrade by who began
/// before it; by then everything that ran runs the new program.
fn traffic(machine: &Machine) -> Result<(), String> {
    machine.run(TALK)?;
    let answered = |number: usize| {
        machine.wait(&format!("{number} pings are answered"), || {
            let pings = machine.run("journalctl --unit pinging --output cat")?;
            if let Some(lost) = pings.lines().find(|line| line.contains("no answer")) {
                return Err(format!("a ping is lost: {lost}"));
            }
            Ok(pings.lines().filter(|line| line.ends_with(" ms")).count() >= number)
        })
    };
    answered(5)?;
    let dropped = machine.run(DROPS)?;
    for reloads in 1..=2 {
        for role in ["rib", "router"] {
            reread(machine, role)?;
        }
        answered(5 + reloads * 10)?;
    }
    let now = machine.run(DROPS)?;
    if now != dropped {
        return Err(format!("reloads had traffic dropped: {dropped}\n{now}"));
    }
    upgrade(machine)?;
    let so_far = machine.run("journalctl --unit pinging --output cat | grep -c ' ms$'")?;
    let so_far: usize = so_far.parse().map_err(|_| format!("{so_far} pings"))?;
    machine.wait("pings are answered after an upgrade", || {
        let now = machine.run("journalctl --unit pinging --output cat | grep -c ' ms$'")?;
        Ok(now.parse::<usize>().is_ok_and(|now| now >= so_far + 20))
    })?;
    machine.systemctl(&["stop", "pinging", "answering"]).map(drop)
}

/// A daemon reads its settings again: also those that nobody can follow, which it says.
fn reread(machine: &Machine, role: &str) -> Result<(), String> {
    let unit = format!("rhumb-{role}");
    let service = Service::of(machine, &unit);
    let log = format!("journalctl --unit {unit} --output cat | grep -c 'rules from before' || :");
    let before = machine.run(&log)?;
    machine.run(&format!("printf 'nonsense = 1\n' >>/etc/rhumb/{role}.toml"))?;
    service.reload()?;
    machine
        .wait(&format!("{unit} says what it cannot follow"), || Ok(machine.run(&log)? != before))?;
    machine.run(&format!("sed -i -e '/^nonsense/d' /etc/rhumb/{role}.toml"))?;
    service.reload()
}

/// Services that run, or are about to, start again; what does not come up fails no upgrade.
fn upgrade(machine: &Machine) -> Result<(), String> {
    // It is for ever about to: another router than that of its network answers at the address.
    machine.systemctl(&["enable", "--quiet", "rhumb-up"])?;
    // It fails, as it should.
    let _ = machine.systemctl(&["start", "rhumb-up"]);
    let processes = |machine: &Machine| -> Result<BTreeMap<_, _>, String> {
        let units = at_boot(machine).into_iter();
        units.map(|it| Ok((it, Service::of(machine, it).property("MainPID")?))).collect()
    };
    let before = processes(machine)?;
    let told = dpkg(machine, &["--install", PACKAGE])?;
    if !told.contains("rhumb-up.service did not start again") {
        return Err(format!("an upgrade leaves alone what is about to start: {told}"));
    }
    for (unit, process) in processes(machine)? {
        Service::of(machine, unit).is_running()?;
        let program = machine.run(&format!("readlink /proc/{process}/exe"))?;
        if before.get(unit) == Some(&process) || program != "/usr/bin/rhumb" {
            return Err(format!("{unit} goes on by the program before: {program}"));
        }
    }
    machine.systemctl(&["disable", "--quiet", "--now", "rhumb-up"]).map(drop)
}

/// Nothing secret is in the journal, and no complaint of a sandbox.
fn journal(machine: &Machine) -> Result<(), String> {
    machine.run(SECRETS)?;
    let complaints = machine.run(COMPLAINTS)?;
    match complaints.is_empty() {
        true => Ok(()),
        false => Err(complaints),
    }
}

/// What runs is ended, and nothing of it is enabled any longer.
fn remove(machine: &Machine) -> Result<(), String> {
    dpkg(machine, &["--remove", "rhumb"])?;
    let left = machine.systemctl(&["list-units", "--all", "--plain", "--no-legend", "rhumb-*"])?;
    let links = machine.run("find /etc/systemd/system -name 'rhumb-*'; pgrep -x rhumb || :")?;
    match left.is_empty() && links.is_empty() {
        true => Ok(()),
        false => Err(format!("removed, and still there: {left} {links}")),
    }
}

/// What dpkg says. Pages of the manual are indexed by somebody else's trigger, which takes seconds.
fn dpkg(machine: &Machine, arguments: &[&str]) -> Result<String, String> {
    let mut dpkg = machine.command("dpkg");
    said(dpkg.args(["--no-triggers", "--force-unsafe-io"]).args(arguments))
}

/// Those that can be on one host together.
fn at_boot(machine: &Machine) -> Vec<&'static str> {
    let mut units = AT_BOOT.to_vec();
    if has_devices(machine) {
        units.push("rhumb-stamp");
    }
    units
}

/// Whether the kernel has network devices of programs.
fn has_devices(machine: &Machine) -> bool {
    machine.run(": <>/dev/net/tun").is_ok()
}

const CAP_NET_BIND_SERVICE: u64 = 1 << 10;
const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_NET_RAW: u64 = 1 << 13;
const AT_BOOT: [&str; 8] = [
    "rhumb-router",
    "rhumb-rib",
    "rhumb-dashboard",
    "rhumb-keyserver",
    "rhumb-waypoint",
    "rhumb-exchange@one",
    "rhumb-exchange@two",
    "rhumb-member",
];
