//! Each service of the package where no systemd can run: once, by the command line of its unit,
//! as its user, with its settings and the capabilities that its unit gives it. It tells systemd
//! that it is ready, survives `systemctl reload` and tells of that, and ends well. Its sandbox is
//! tried by `trial`, under a systemd, and not here.
//!
//! Flow: 1. a RIB, and a router by sockets and by AF_XDP, with keys made as their settings say,
//! and a dashboard, which sees how they are and gets nothing else of them; 2. a network, and this
//! host as its first member, without and with a network device; 3. a key server, a waypoint and a
//! stamper; 4. both servers of an exchange, and a member.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::inside::Inside;
use super::settings;
use super::unit::Unit;
use crate::files::{said, set_mode, told};

/// Runs all of them.
pub(super) fn run(inside: &Inside) -> Result<(), String> {
    written(inside, settings::ROUTING)?;
    let rib = Service::start(inside, "rhumb-rib.service", "@")?;
    let router = Service::start(inside, "rhumb-router.service", "@")?;
    dashboard(inside)?;
    router.end()?;
    written(inside, settings::LINKS)?;
    Service::start(inside, "rhumb-router-xdp.service", "left by ")?.end()?;
    rib.end()?;
    network(inside)?;
    waypoint(inside)?;
    exchange(inside)
}

/// Runs a script of root's there.
fn written(inside: &Inside, script: &str) -> Result<String, String> {
    said(inside.command("sh").args(["-ec", script]))
}

/// The dashboard sees how RIB and router are, as whoever is in its group does. It is given no copy
/// of what the RIB stores; nobody else, another daemon's user above all, sees anything.
fn dashboard(inside: &Inside) -> Result<(), String> {
    written(inside, settings::DASHBOARD)?;
    let service = Service::start(inside, "rhumb-dashboard.service", "dashboard ready")?;
    let since = Instant::now();
    loop {
        let told = written(inside, settings::LOOK_AT_DASHBOARD)?;
        let roles = [r#""role":"rib""#, r#""role":"router""#];
        if roles.iter().all(|role| told.contains(role)) {
            break;
        }
        if since.elapsed() > PATIENCE {
            return Err(format!("the dashboard does not see RIB and router: {told}"));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let socket = "/run/rhumb-status/rib/rib.sock";
    let words = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let status = words(&["rhumb", "status", "--admin", socket]);
    said(&mut as_user(inside, &service.unit, &status))?;
    let backup = words(&["rhumb", "rib", "backup", "/run/rhumb-dashboard/copy", "--admin", socket]);
    if said(&mut as_user(inside, &service.unit, &backup)).is_ok() {
        return Err("a reader of status is given a copy of a RIB".to_owned());
    }
    let other = Unit::read(inside, "rhumb-router.service")?;
    if said(&mut as_user(inside, &other, &status)).is_ok() {
        return Err("a router's user may ask the RIB how it is".to_owned());
    }
    service.end()
}

/// A network of this host's, and its node.
fn network(inside: &Inside) -> Result<(), String> {
    written(inside, settings::NETWORK)?;
    let network = Service::start(inside, "rhumb-network@home.service", "is there")?;
    for (unit, told) in [("rhumb-up.service", "home"), ("rhumb-vpn.service", "on rhumb0")] {
        if unit.contains("vpn") && written(inside, DEVICES).is_err() {
            continue;
        }
        let node = Service::start(inside, unit, "this host is")?;
        if !node.said.contains(told) {
            return Err(format!("{unit}: nothing of `{told}`: {}", node.said));
        }
        node.end()?;
    }
    network.end()
}

/// A waypoint, the key server of its keys, and who stamps by them.
fn waypoint(inside: &Inside) -> Result<(), String> {
    written(inside, settings::WAYPOINT)?;
    let keys = Service::start(inside, "rhumb-keyserver.service", "keyserver ready")?;
    // Where there is no such device the sandbox is seen by the other checks alone.
    if written(inside, "test -c /dev/net/tun").is_ok() {
        Service::start(inside, "rhumb-stamp.service", "stamper ready")?.end()?;
    }
    keys.end()?;
    Service::start(inside, "rhumb-waypoint.service", "waypoint ready")?.end()
}

/// Both servers of an exchange, which on real hosts are not beside each other, and a member.
fn exchange(inside: &Inside) -> Result<(), String> {
    written(inside, settings::EXCHANGE)?;
    let two = Service::start(inside, "rhumb-exchange@two.service", "exchange ready")?;
    let one = Service::start(inside, "rhumb-exchange@one.service", "exchange ready")?;
    Service::start(inside, "rhumb-member.service", "member ready")?.end()?;
    one.end()?;
    two.end()
}

/// A command of the user, and in the environment, of a unit.
fn as_user(inside: &Inside, unit: &Unit, words: &[String]) -> Command {
    let user = unit.value("User").unwrap_or("root");
    let mut command = inside.command("prlimit");
    // Where root may not lift it, as in some containers, rings of AF_XDP are refused, and the
    // router goes on with sockets.
    let lifted = ["--memlock=unlimited", "true"];
    if unit.value("LimitMEMLOCK") == Some("infinity")
        && said(inside.command("prlimit").args(lifted)).is_ok()
    {
        command.arg(lifted[0]);
    }
    command.args(["setpriv".to_owned(), format!("--reuid={user}"), format!("--regid={user}")]);
    let rights = rights(&unit.all_words("AmbientCapabilities"));
    let sets = ["inh-caps", "ambient-caps", "bounding-set"].map(|set| format!("--{set}={rights}"));
    command.arg(match unit.value("SupplementaryGroups") {
        Some(group) => format!("--groups={group}"),
        None => "--clear-groups".to_owned(),
    });
    command.arg("--no-new-privs").args(sets);
    command.args(["env", "--ignore-environment", "PATH=/usr/bin:/bin"]);
    command.arg(format!("--chdir={}", unit.value("WorkingDirectory").unwrap_or("/")));
    command.arg(format!("HOME=/var/lib/{user}"));
    command.arg(format!("NOTIFY_SOCKET=/run/{}", manager_of(unit)));
    command.args(unit.words("Environment")).args(words);
    command
}

/// Capabilities as `setpriv` is told of them: these alone.
fn rights(capabilities: &[String]) -> String {
    let added = capabilities.iter().filter_map(|it| it.strip_prefix("CAP_"));
    added.fold("-all".to_owned(), |all, one| format!("{all},+{}", one.to_lowercase()))
}

/// A service that runs.
struct Service {
    unit: Unit,
    process: Child,
    /// The line that said so.
    said: String,
    /// Where systemd would hear it.
    manager: UnixDatagram,
}

impl Service {
    /// Starts it, and waits until it says that it is ready, in a line that has `ready` in it.
    fn start(inside: &Inside, name: &str, ready: &str) -> Result<Self, String> {
        let unit = Unit::read(inside, name)?;
        let user = unit.value("User").ok_or_else(|| format!("{name} is root's"))?;
        let folders = [("StateDirectory", "/var/lib"), ("RuntimeDirectory", "/run")];
        for (key, around) in folders {
            let folder = format!("{around}/{}", unit.value(key).unwrap_or(user));
            let mut make = inside.command("install");
            said(make.args(["-d", "-m", "0700", "-o", user, "-g", user, &folder]))?;
        }
        if unit.value("Type") != Some("notify") {
            return Err(format!("{name} is none that tells when it is ready"));
        }
        let manager = hear(inside, &unit)?;
        let mut words = unit.words("ExecStart");
        // Files of options have none before somebody writes some.
        words.retain(|word| !word.starts_with('$'));
        let mut command = as_user(inside, &unit, &words);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| format!("{name}: {error}"))?;
        let output = process.stdout.take();
        let mut service = Self { unit, process, said: String::new(), manager };
        service.said = line_with(ready, output).ok_or_else(|| format!("{name} is never ready"))?;
        service.tells("READY=1")?;
        Ok(service)
    }

    /// Has it read its settings again if its unit says that it does, and ends it.
    fn end(mut self) -> Result<(), String> {
        let name = self.unit.name.clone();
        if self.unit.value("ExecReload").is_some() {
            self.signal("HUP")?;
            self.tells("RELOADING=1")?;
            self.tells("READY=1")?;
        }
        self.signal("TERM")?;
        self.tells("STOPPING=1")?;
        let since = Instant::now();
        let status = loop {
            match self.process.try_wait().map_err(|error| error.to_string())? {
                Some(status) => break status,
                None if since.elapsed() > PATIENCE => return Err(format!("{name} does not end")),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        match status.success() {
            true => Ok(()),
            false => Err(format!("{name} ended with {status}")),
        }
    }

    /// Whether this is what it tells systemd next.
    fn tells(&self, word: &str) -> Result<(), String> {
        let mut buffer = [0; 256];
        let heard = self.manager.recv(&mut buffer).map(|len| &buffer[..len]);
        match heard {
            Ok(told) if told == word.as_bytes() => Ok(()),
            Ok(told) => Err(format!(
                "{}: {word} is not what it tells: {}",
                self.unit.name,
                String::from_utf8_lossy(told)
            )),
            Err(error) => Err(format!("{} never tells {word}: {error}", self.unit.name)),
        }
    }

    fn signal(&self, signal: &str) -> Result<(), String> {
        let id = self.process.id().to_string();
        said(Command::new("kill").args(["-s", signal, &id])).map(drop)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Of one that has ended there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Takes systemd's place for a service.
fn hear(inside: &Inside, unit: &Unit) -> Result<UnixDatagram, String> {
    let path = inside.run_file(&manager_of(unit));
    // There is none the first time.
    let _ = std::fs::remove_file(&path);
    let manager = UnixDatagram::bind(&path).map_err(|error| told(&path, &error))?;
    set_mode(&path, 0o666)?;
    manager.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
    Ok(manager)
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

/// Below `/run`.
fn manager_of(unit: &Unit) -> String {
    format!("manager-{}", unit.name)
}

/// Where network devices are made, as udev has it: everybody may open it, and capabilities decide.
const DEVICES: &str = "
    mknod -m 0666 /run/tun c 10 200
    mount --bind /run/tun /dev/net/tun
";
/// A debug build, on two busy cores.
const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_these_alone() {
        assert_eq!(rights(&[]), "-all");
        let both = ["CAP_NET_RAW", "CAP_BPF"].map(str::to_owned);
        assert_eq!(rights(&both), "-all,+net_raw,+bpf");
    }
}
