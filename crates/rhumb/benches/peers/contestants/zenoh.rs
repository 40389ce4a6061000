//! zenohd over TLS: a publisher and a subscriber, clients of the router. Messages of any size are a
//! stream there, and are batched by both ends and by the router.

use std::io::Write;
use std::path::Path;
use std::process::{ChildStdin, Command};
use std::time::Duration;

use serde_json::json;

use super::{Contestant, Ground, Standing};
use crate::install;
use crate::load::{Load, Pace, Slice};
use crate::machine::Core;
use crate::process::{Process, output_of};

pub(crate) fn contestant() -> Contestant {
    Contestant {
        name: "zenohd-tls",
        about: format!("zenohd {}, TLS per hop over TCP", install::ZENOH_VERSION),
        largest_payload: 65_000,
        needs_forwarding: false,
        start,
    }
}

fn start(ground: &Ground) -> Result<Standing, String> {
    let (place, folder) = (&ground.place, &ground.folder);
    certify(ground)?;
    let tls = json!({
        "root_ca_certificate": "zenoh-ca.pem",
        "listen_certificate": "zenoh.pem",
        "listen_private_key": "zenoh.key",
        "verify_name_on_connect": false,
    });
    let config = |name: &str, role: &str, key: &str, at: &str| {
        let endpoints = json!({ "endpoints": [format!("tls/{at}:{PORT}")] });
        let quiet = json!({ "multicast": { "enabled": false }, "gossip": { "enabled": false } });
        let config = json!({
            "mode": role,
            key: endpoints,
            "scouting": quiet,
            "transport": { "link": { "tls": tls } },
        });
        let file = format!("zenoh-{name}.json5");
        let written = std::fs::write(folder.join(&file), config.to_string());
        written.map(|()| file).map_err(|error| error.to_string())
    };

    let mut command = Command::new(ground.tools.path("zenohd"));
    command.args(["--config", &config("router", "router", "listen", "0.0.0.0")?]);
    let mut router = Process::start("zenohd", command, (&place.router, Core::Measured), folder)?;
    let listens = |_: &Process| {
        let inside = place.router.run(|| std::fs::read_to_string("/proc/thread-self/net/tcp"));
        inside.ok()?.ok()?.contains(&format!(":{PORT:04X} {LISTENING}")).then_some(())
    };
    router.wait_for("listen", listens)?;

    // Where the socket of the turn before was.
    let _ = std::fs::remove_file(folder.join(SOCKET));
    let load = |words: [&str; 3]| {
        let mut command = Command::new(ground.tools.path("zenoh-load"));
        command.args(words);
        command
    };
    let command = load(["publish", &config("client", "client", "connect", "10.9.1.2")?, SOCKET]);
    let mut client = Process::start("publisher", command, (&place.client, Core::Load), folder)?;
    client.first_line()?;
    let command = load(["subscribe", &config("server", "client", "connect", "10.9.2.2")?, SOCKET]);
    let server = Process::start("subscriber", command, (&place.server, Core::Load), folder)?;
    let orders = client.take_input()?;
    let load = Messages { publisher: client, orders, answers: 1 };
    Ok(Standing {
        load: Box::new(load),
        router: Some(router),
        metrics: None,
        others: vec![server],
        tunnel: None,
    })
}

/// Makes an authority and a certificate of the router's.
fn certify(ground: &Ground) -> Result<(), String> {
    let run = |words: &str| {
        let mut command = Command::new("openssl");
        command.args(words.split(' ')).current_dir(&ground.folder);
        output_of(command, &ground.place.router).map(drop)
    };
    let names = "basicConstraints=CA:FALSE\nsubjectAltName=IP:10.9.1.2,IP:10.9.2.2\n";
    write(&ground.folder.join("zenoh.ext"), names)?;
    run(
        "req -x509 -newkey rsa:2048 -nodes -keyout zenoh-ca.key -out zenoh-ca.pem -subj /CN=bench -days 2",
    )?;
    run("req -newkey rsa:2048 -nodes -keyout zenoh.key -out zenoh.csr -subj /CN=router")?;
    run(
        "x509 -req -in zenoh.csr -CA zenoh-ca.pem -CAkey zenoh-ca.key -CAcreateserial -out zenoh.pem -days 2 -extfile zenoh.ext",
    )
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The publisher, which does a slice for each line it is told.
struct Messages {
    publisher: Process,
    orders: ChildStdin,
    /// Lines that it has printed and that were read.
    answers: usize,
}

impl Load for Messages {
    fn run(&mut self, payload: usize, pace: Pace, time: Duration) -> Result<Slice, String> {
        let (window, per_s) = match pace {
            Pace::Closed(window) => (window, 0),
            Pace::Open(per_s) => (0, per_s.ceil() as u64),
        };
        writeln!(self.orders, "{payload} {window} {per_s} {}", time.as_millis())
            .map_err(|error| format!("the publisher: {error}"))?;
        let at = self.answers;
        let answer = self.publisher.wait_for("answer", |process| {
            let output = process.output();
            let line = output.split_inclusive('\n').nth(at).map(str::to_owned);
            line.filter(|line| line.ends_with('\n'))
        })?;
        self.answers += 1;
        let fields: Vec<u64> = answer.split_whitespace().flat_map(str::parse).collect();
        let [sent, arrived, wall, p50, p99] = fields[..] else {
            return Err(format!("the publisher says: {answer}"));
        };
        let [wall, p50, p99] = [wall, p50, p99].map(Duration::from_nanos);
        Ok(Slice { sent, arrived, wall, p50, p99 })
    }
}

const PORT: u16 = 7447;
/// What `/proc/net/tcp` says of a socket that listens: no peer, state 10.
const LISTENING: &str = "00000000:0000 0A";
/// Between publisher and subscriber; a file, so that it leads from one namespace to the other.
const SOCKET: &str = "zenoh.sock";
