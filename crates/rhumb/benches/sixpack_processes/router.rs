//! A member's router: BIRD, with static routes that are enabled and disabled by its control socket.

use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::lan::{Process, Station};

/// BIRD at work.
pub(crate) struct Router {
    pub(crate) index: usize,
    _station: Station,
    socket: PathBuf,
    log: PathBuf,
    process: Process,
}

/// What it says of its session with the proxy.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) is_up: bool,
    /// Routes that it has.
    pub(crate) received: usize,
    /// Announcements and withdrawals that came since it started.
    pub(crate) updates: usize,
    pub(crate) withdrawals: usize,
}

impl Router {
    /// Starts it; it announces nothing before it is told to.
    /// The first `routes` of the table are its own.
    pub(crate) fn start(
        index: usize,
        station: Station,
        asn: u32,
        proxy: &str,
        routes: usize,
        folder: &Path,
    ) -> Self {
        let path = |name: &str| folder.join(format!("bird{index}.{name}"));
        let own: String = (0..routes).map(|number| static_route(number, index)).collect();
        std::fs::write(path("routes"), own).unwrap();
        let v4 = &station.v4;
        let config = format!(
            "router id {v4};\nlog stderr {{ warning, error, auth, fatal, bug }};\nprotocol device {{}}\n\
             protocol static announced {{\n disabled;\n ipv4;\n include \"{}\";\n}}\n\
             protocol bgp exchange {{\n local {v4} as {asn};\n neighbor {proxy} as {};\n local role rs_client;\n \
             enforce first as off;\n connect retry time 1;\n connect delay time 1;\n error wait time 1, 2;\n \
             ipv4 {{ import all; export where source = RTS_STATIC; next hop address {v4}; }};\n\
             ipv6 {{ import all; export none; next hop address {}; }};\n}}\n",
            path("routes").display(),
            crate::rig::EXCHANGE,
            station.v6,
        );
        std::fs::write(path("conf"), config).unwrap();
        let socket = path("ctl");
        let script = format!(
            "bird -f -c {} -s {} -P {}",
            path("conf").display(),
            socket.display(),
            path("pid").display()
        );
        let process = Process::start(&station.host, &script, &path("log"));
        let log = path("log");
        Self { index, _station: station, socket, log, process }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Announces its routes, or takes them back.
    pub(crate) fn enable(&self, does: bool) {
        let command = if does { "enable announced" } else { "disable announced" };
        assert!(!self.ask(command).is_empty());
    }

    /// What it complained of.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub(crate) fn received(&self) -> usize {
        self.session().received
    }

    /// Without a socket it has no session yet.
    pub(crate) fn session(&self) -> Session {
        let mut session = Session::default();
        for line in self.ask("show protocols all exchange") {
            let mut words = line.split_whitespace();
            match (words.next(), words.next()) {
                (Some("BGP"), Some("state:")) => session.is_up = line.contains("Established"),
                (Some("Routes:"), Some(count)) => session.received += number(count),
                (Some("Import"), Some("updates:")) => {
                    session.updates += words.next().map_or(0, number);
                }
                (Some("Import"), Some("withdraws:")) => {
                    session.withdrawals += words.next().map_or(0, number);
                }
                _ => {}
            }
        }
        session
    }

    /// The lines that it answers with.
    fn ask(&self, command: &str) -> Vec<String> {
        let Ok(stream) = UnixStream::connect(&self.socket) else { return Vec::new() };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut lines = BufReader::new(&stream).lines();
        // Its greeting.
        if lines.next().is_none() {
            return Vec::new();
        }
        (&stream).write_all(format!("{command}\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        for line in lines.map_while(Result::ok) {
            // The last line has a code with a space behind it; 0000, 8xxx and 9xxx end an answer.
            let (code, text) = line.split_at_checked(5).unwrap_or((&line, ""));
            let is_last = code.ends_with(' ') && matches!(code.as_bytes()[0], b'0' | b'8' | b'9');
            let is_coded = code.as_bytes().first().is_some_and(u8::is_ascii_digit);
            answer.push(if is_coded { text.to_owned() } else { line.clone() });
            if is_coded && is_last {
                break;
            }
        }
        answer
    }
}

fn number(text: &str) -> usize {
    text.trim_end_matches(',').parse().unwrap_or(0)
}

/// One of the table; several share a path, as in the
/// real one. All routers' paths are of one length.
fn static_route(number: usize, index: usize) -> String {
    let prefix = Ipv4Addr::from(FIRST_PREFIX + ((number as u32) << 8));
    let tail = [FIRST_ASN + (number % PATHS) as u32, FIRST_ASN + index as u32];
    let tail = tail.map(|asn| format!("bgp_path.prepend({asn}); ")).concat();
    format!("route {prefix}/24 blackhole {{ bgp_path = +empty+; {tail}}};\n")
}

/// 16.0.0.0.
const FIRST_PREFIX: u32 = 16 << 24;
/// Of the private numbers of four octets.
const FIRST_ASN: u32 = 4_200_000_000;
/// Different paths: the real table has one for some six routes.
const PATHS: usize = 8192;
/// BIRD answers when it has finished what it is at.
const PATIENCE: Duration = Duration::from_secs(30);
