//! Each service of the package, run once by the command line of its unit, as its user, with its
//! settings: it is ready, survives `systemctl reload`, ends well, and calls nothing of the system
//! that its sandbox refuses.
//!
//! Flow: 1. a RIB and a router, with keys made as their settings say; 2. a network, and this
//! host as its first member.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::inside::Inside;
use super::unit::Unit;
use crate::files::said;
use crate::process;

/// Runs all of them.
pub(super) fn run(inside: &Inside) -> Result<(), String> {
    for role in ["rib", "router"] {
        let key = format!("/etc/rhumb/{role}.key");
        said(inside.command("rhumb").args(["keygen", "--role", role, "--out", &key]))?;
        said(inside.command("chown").args([&format!("rhumb-{role}:"), &key]))?;
    }
    let rib = Service::start(inside, "rhumb-rib.service", "@")?;
    let name = rib.said.split_whitespace().find_map(|word| word.split_once('@'));
    let (name, _) = name.ok_or_else(|| format!("a RIB says no name: {}", rib.said))?;
    let settings = format!("rib = [\"{name}@127.0.0.1:7461\"]\nlocator = \"127.0.0.1:7460\"\n");
    let mut add = inside.command("sh");
    said(add.args(["-ec", "printf %s \"$1\" >>/etc/rhumb/router.toml", "sh", &settings]))?;
    let router = Service::start(inside, "rhumb-router.service", "@")?;
    router.end()?;
    rib.end()?;

    let network = Unit::read(inside, "rhumb-network@home.service")?;
    let create = ["rhumb", "network", "create", "home", "--address", "127.0.0.1"];
    said(&mut as_user(inside, &network, &create.map(str::to_owned)))?;
    let network = Service::start(inside, "rhumb-network@home.service", "is there")?;
    let node = Service::start(inside, "rhumb-up.service", "this host is")?;
    if !node.said.contains("home") {
        return Err(format!("the node is in no network: {}", node.said));
    }
    node.end()?;
    network.end()
}

/// A command of the user, and in the environment, of a unit.
fn as_user(inside: &Inside, unit: &Unit, words: &[String]) -> Command {
    let user = unit.value("User").unwrap_or("root");
    let mut command = inside.command("setpriv");
    command.args([&format!("--reuid={user}"), &format!("--regid={user}")]);
    command.args(["--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]);
    command.args(["env", "--ignore-environment", "PATH=/usr/bin:/bin"]);
    command.arg(format!("--chdir={}", unit.value("WorkingDirectory").unwrap_or("/")));
    command.arg(format!("HOME=/var/lib/{user}"));
    command.args(unit.words("Environment")).args(words);
    command
}

/// A service that runs.
struct Service<'a> {
    inside: &'a Inside,
    unit: Unit,
    process: Child,
    /// The line that said so.
    said: String,
    /// Where its system calls are written to.
    calls: Option<String>,
}

impl<'a> Service<'a> {
    /// Starts it, and waits until it says that it is ready, in a line that has `ready` in it.
    fn start(inside: &'a Inside, name: &str, ready: &str) -> Result<Self, String> {
        let unit = Unit::read(inside, name)?;
        let user = unit.value("User").ok_or_else(|| format!("{name} is root's"))?;
        let folders = [("StateDirectory", "/var/lib"), ("RuntimeDirectory", "/run")];
        for (key, around) in folders {
            let folder = format!("{around}/{}", unit.value(key).unwrap_or(user));
            let mut make = inside.command("install");
            said(make.args(["-d", "-m", "0700", "-o", user, "-g", user, &folder]))?;
        }
        let mut words = unit.words("ExecStart");
        let mut calls = None;
        if process::is_installed("strace") {
            let file = format!("/run/{}/calls", unit.value("RuntimeDirectory").unwrap_or(user));
            let trace = ["strace", "-D", "-f", "-q", "-s", "0", "-o", &file].map(str::to_owned);
            words.splice(0..0, trace);
            calls = Some(file);
        }
        let mut command = as_user(inside, &unit, &words);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        let output = process.stdout.take();
        let mut service = Self { inside, unit, process, said: String::new(), calls };
        service.said = line_with(ready, output).ok_or_else(|| format!("{name} is never ready"))?;
        Ok(service)
    }

    /// Has it read its settings again if its unit says that it does, and ends it.
    fn end(mut self) -> Result<(), String> {
        let name = self.unit.name.clone();
        if self.unit.value("ExecReload").is_some() {
            self.signal("HUP")?;
        }
        self.signal("TERM")?;
        let since = Instant::now();
        let status = loop {
            match self.process.try_wait().map_err(|error| error.to_string())? {
                Some(status) => break status,
                None if since.elapsed() > PATIENCE => return Err(format!("{name} does not end")),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        if !status.success() {
            return Err(format!("{name} ended with {status}"));
        }
        match self.calls.take() {
            Some(calls) => self.look_at(&calls),
            None => Ok(()),
        }
    }

    /// Whether the sandbox lets it do what it did.
    fn look_at(&self, calls: &str) -> Result<(), String> {
        let allowed = self.unit.allowed_calls(self.inside)?;
        let since = Instant::now();
        // Who writes them ends a moment later.
        let made = loop {
            let text = said(self.inside.command("cat").arg(calls))?;
            let is_whole = text.lines().last().is_some_and(|line| line.contains("+++"));
            if is_whole || since.elapsed() > PATIENCE {
                break calls_in(&text);
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let refused: Vec<_> = made.difference(&allowed).cloned().collect();
        match (made.contains("execve"), &refused[..]) {
            (true, []) => Ok(()),
            (false, _) => Err(format!("{}: strace saw nothing", self.unit.name)),
            _ => Err(format!("{}: its sandbox refuses {refused:?}", self.unit.name)),
        }
    }

    fn signal(&self, signal: &str) -> Result<(), String> {
        let id = self.process.id().to_string();
        said(Command::new("kill").args(["-s", signal, &id])).map(drop)
    }
}

impl Drop for Service<'_> {
    fn drop(&mut self) {
        // Of one that has ended there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn line_with(words: &str, output: Option<impl Read + Send + 'static>) -> Option<String> {
    let output = output?;
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        // What it says later is read, too, so that it never waits for us.
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let since = Instant::now();
    loop {
        let line = lines.recv_timeout(PATIENCE.saturating_sub(since.elapsed())).ok()?;
        if line.contains(words) {
            return Some(line);
        }
    }
}

/// The names of system calls in what strace writes: `17 openat(..) = 3`.
fn calls_in(text: &str) -> BTreeSet<String> {
    let names = text.lines().filter_map(|line| {
        let (id, call) = line.split_once(char::is_whitespace)?;
        id.parse::<u32>().ok()?;
        let (name, _) = call.trim_start().split_once('(')?;
        let is_name = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
        name.chars().all(is_name).then(|| name.to_owned())
    });
    names.collect()
}

/// A debug build with its system calls watched, on two busy cores.
const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_calls_are_read() {
        let text = "7 openat(AT_FDCWD, \"\"..., 0) = 3\n12  <... futex resumed>) = 0\n\
                    12 futex(0x7f, FUTEX_WAKE <unfinished ...>\n7 --- SIGTERM {} ---\n\
                    7 +++ exited with 0 +++\n";
        let names: Vec<String> = calls_in(text).into_iter().collect();
        assert_eq!(names, ["futex", "openat"]);
    }
}
