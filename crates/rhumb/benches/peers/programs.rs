//! What programs see of names without a device: `rhumb forward` beside `ssh -L`, how soon a first
//! byte is there, how many bytes are on the wire for those of a program, and what a connection
//! holds that nothing goes over.
//!
//! Client, router and server are where the tunnels are. The ends of the last three are nodes in
//! this process, each with a thread of its own, so that no program's start is measured.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_node::{Admits, Config, Node, Remote};
use rhumb_trust::Identity;
use rhumb_wire::{Name, Role};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;

use crate::contestants::{Ground, Ready, carriers, rhumb, serve};
use crate::machine::{Core, median};
use crate::namespace::Namespace;
use crate::place::{ROUTER_FACING_CLIENT, ROUTER_FACING_SERVER, SERVER_IP};
use crate::process::{Process, output_of};

/// What was seen, and how it stands to what the documents ask for.
pub(crate) struct Programs {
    pub(crate) figures: Map<String, Value>,
    pub(crate) targets: Vec<Value>,
}

/// One connection of iperf3 over a port that was brought to the client.
struct Bulk {
    mbit_per_s: f64,
    cpu_s_per_gb: f64,
}

/// Measures all of it. What cannot be had is named in `left_out`.
pub(crate) fn measure(
    ground: &Ground,
    left_out: &mut Map<String, Value>,
) -> Result<Programs, String> {
    let mut figures = Map::new();
    for (name, bulk) in [("forward", forward as fn(&Ground) -> _), ("ssh -L", ssh)] {
        let mut seen: Vec<Bulk> = Vec::new();
        for round in 1..=ROUNDS {
            match bulk(ground) {
                Ok(bulk) => seen.push(bulk),
                Err(problem) => {
                    left_out.insert(format!("{name}, round {round}"), problem.into());
                }
            }
        }
        if !seen.is_empty() {
            let rate = median(seen.iter().map(|it| it.mbit_per_s));
            let cpu = median(seen.iter().map(|it| it.cpu_s_per_gb));
            let cpu = (cpu * 1000.0).round() / 1000.0;
            figures.insert(
                name.to_owned(),
                json!({ "mbit_per_s": rate.round(), "ends_cpu_s_per_gb": cpu }),
            );
        }
    }
    let ends = Ends::join(ground)?;
    let (beyond_ms, round_trip_ms) = ends.first_byte()?;
    figures.insert("first_byte_ms_beyond_two_round_trips".to_owned(), json!(beyond_ms));
    figures.insert("round_trip_ms".to_owned(), json!(round_trip_ms));
    for (what, bytes) in ends.overhead(ground)? {
        figures.insert(what.to_owned(), json!(bytes));
    }
    figures.insert("idle_connection_bytes".to_owned(), json!(ends.idle(ground)?));
    let name = "from nothing to the first byte of a known name, beyond two round trips";
    let targets = vec![json!({
        "name": name, "value": beyond_ms, "target": "below 5 ms", "met": beyond_ms < 5.0,
    })];
    Ok(Programs { figures, targets })
}

fn forward(ground: &Ground) -> Result<Bulk, String> {
    let (place, folder) = (&ground.place, &ground.folder);
    let (_rib, _router, ready) = carriers(ground)?;
    for key in ["client.key", "server.key"] {
        let _ = std::fs::remove_file(folder.join(key));
        output_of(rhumb(&["keygen", "--out", key], folder), &place.client)?;
    }
    let to = remote(&ready, ROUTER_FACING_SERVER);
    let offers = ["serve", IPERF_PORT, "--allow", "client", "--key", "server.key", "--router", &to];
    let (server, _) = serve("server", &offers, (&place.server, Core::Load), ground)?;
    let from = remote(&ready, ROUTER_FACING_CLIENT);
    let service = format!("server:{IPERF_PORT}");
    let brings = ["forward", LOCAL_PORT, &service, "--key", "client.key", "--router", &from];
    let (client, _) = serve("client", &brings, (&place.client, Core::Load), ground)?;
    bulk(ground, || (server.cpu() + client.cpu()).as_secs_f64())
}

fn ssh(ground: &Ground) -> Result<Bulk, String> {
    let (place, folder) = (&ground.place, &ground.folder);
    for key in ["host", "user"] {
        for file in [key.to_owned(), format!("{key}.pub")] {
            let _ = std::fs::remove_file(folder.join(file));
        }
        let mut make = Command::new("ssh-keygen");
        make.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(key));
        output_of(make, &place.server)?;
    }
    let describe = |error: std::io::Error| format!("sshd: {error}");
    std::fs::create_dir_all("/run/sshd").map_err(describe)?;
    let (home, [a, b, c, d]) = (folder.display(), SERVER_IP);
    let settings = format!(
        "ListenAddress {a}.{b}.{c}.{d}:2222\nHostKey {home}/host\nAuthorizedKeysFile {home}/user.pub\n\
         StrictModes no\nUsePAM no\nUseDNS no\nPidFile none\nPermitRootLogin prohibit-password\n"
    );
    std::fs::write(folder.join("sshd.conf"), settings).map_err(describe)?;
    place.set_forwarding(true)?;
    let mut daemon = Command::new("/usr/sbin/sshd");
    daemon.args(["-D", "-e", "-f"]).arg(folder.join("sshd.conf"));
    let server = Process::start("sshd", daemon, (&place.server, Core::Load), folder)?;
    let mut command = Command::new("ssh");
    let unknown = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"];
    let brought = format!("{LOCAL_PORT}:127.0.0.1:{IPERF_PORT}");
    command.args(["-F", "none", "-N", "-o", "BatchMode=yes"]).args(unknown);
    command.args(["-c", "aes128-gcm@openssh.com", "-L", &brought, "-p", "2222", "-i"]);
    command.arg(folder.join("user")).arg(format!("root@{a}.{b}.{c}.{d}"));
    std::thread::sleep(Duration::from_millis(500));
    let client = Process::start("ssh", command, (&place.client, Core::Load), folder)?;
    // A session of sshd is a process of its own.
    let outcome = bulk(ground, || server.cpu_with_children() + client.cpu().as_secs_f64());
    place.set_forwarding(false)?;
    outcome
}

/// Has iperf3 send to its server by the port that was brought to the client.
fn bulk(ground: &Ground, cpu: impl Fn() -> f64) -> Result<Bulk, String> {
    let place = &ground.place;
    let mut server = Command::new("iperf3");
    server.args(["-s", "-B", "127.0.0.1", "-p", IPERF_PORT]);
    let _server = Process::start("iperf3", server, (&place.server, Core::Load), &ground.folder)?;
    let client = |seconds: &str| {
        let mut command = Command::new("iperf3");
        command.args(["--json", "-c", "127.0.0.1", "-p", LOCAL_PORT, "-t", seconds]);
        let seen: Value = serde_json::from_str(&output_of(command, &place.client)?)
            .map_err(|error| error.to_string())?;
        match seen["error"].as_str() {
            Some(problem) => Err(format!("iperf3: {problem}")),
            None => Ok(seen["end"]["sum_received"].clone()),
        }
    };
    let mut attempts = 0;
    while let Err(problem) = client("1") {
        attempts += 1;
        if attempts == 10 {
            return Err(problem);
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    let before = cpu();
    let seen = client("4")?;
    let spent = cpu() - before;
    let number = |key: &str| seen[key].as_f64().ok_or_else(|| format!("iperf3 says {seen}"));
    Ok(Bulk {
        mbit_per_s: number("bits_per_second")? / 1e6,
        cpu_s_per_gb: spent / (number("bytes")? / 1e9),
    })
}

fn remote(router: &Ready, [a, b, c, d]: [u8; 4]) -> String {
    format!("{}@{a}.{b}.{c}.{d}:{}", router.name, router.address.port())
}

/// Two nodes, a router, and a server's process that is asked for nothing.
struct Ends {
    runtime: Runtime,
    client: Node,
    server: Node,
    router_of_client: Remote,
    _carriers: [Process; 2],
    idle: Process,
    idle_name: Name,
}

impl Ends {
    fn join(ground: &Ground) -> Result<Self, String> {
        let (rib, router, ready) = carriers(ground)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let facing = |ip: [u8; 4]| Remote {
            address: SocketAddr::from((ip, ready.address.port())),
            name: Some(ready.name),
        };
        let router_of_client = facing(ROUTER_FACING_CLIENT);
        let client = node(&runtime, &ground.place.client, router_of_client)?;
        let server = node(&runtime, &ground.place.server, facing(ROUTER_FACING_SERVER))?;
        let _ = std::fs::remove_file(ground.folder.join("idle.key"));
        let key = ["keygen", "--out", "idle.key"];
        output_of(rhumb(&key, &ground.folder), &ground.place.server)?;
        let to = remote(&ready, ROUTER_FACING_SERVER);
        let words = ["serve", "9", "--allow-all", "--key", "idle.key", "--router", &to];
        let inside = (&ground.place.server, Core::Load);
        let (idle, offered) = serve("idle", &words, inside, ground)?;
        let idle_name = offered.name;
        let carriers = [rib, router];
        Ok(Self { runtime, client, server, router_of_client, _carriers: carriers, idle, idle_name })
    }

    /// Milliseconds beyond two round trips, and a round trip's, medians of as many connections.
    fn first_byte(&self) -> Result<(f64, f64), String> {
        let to = self.server.name();
        let mut listener = self.server.listen(7, Admits::Everybody).map_err(said)?;
        self.runtime.block_on(async {
            let echo = tokio::spawn(async move {
                while let Some(mut stream) = listener.accept().await {
                    let byte = stream.read_u8().await.unwrap_or_default();
                    let _ = stream.write_u8(byte).await;
                    let _ = stream.deliver().await;
                }
            });
            let mut round_trips = Vec::new();
            for _ in 0..SAMPLES {
                let reply = self.client.ping(to, Duration::from_secs(5)).await.map_err(said)?;
                round_trips.push(reply.rtt.as_secs_f64() * 1e3);
            }
            let mut taken = Vec::new();
            for _ in 0..SAMPLES {
                let begin = Instant::now();
                let connection = self.client.connect(to).await.map_err(said)?;
                let mut stream = connection.open(7).await.map_err(said)?;
                stream.write_u8(1).await.map_err(said)?;
                stream.read_u8().await.map_err(said)?;
                taken.push(begin.elapsed().as_secs_f64() * 1e3);
                connection.close();
                // Its end is told before the next one begins.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            echo.abort();
            let round_trip = median(round_trips.into_iter());
            let beyond = median(taken.into_iter()) - 2.0 * round_trip;
            Ok((rounded(beyond), rounded(round_trip)))
        })
    }

    /// Bytes on the client's wire, in both directions, beyond those of the program: for a hundred
    /// of a stream, and for a datagram of 64 and of 1,000 bytes.
    fn overhead(&self, ground: &Ground) -> Result<[(&'static str, f64); 3], String> {
        let to = self.server.name();
        let wire = || ground.place.client.run(wire_bytes)?;
        let mut listener = self.server.listen(8, Admits::Everybody).map_err(said)?;
        let before = wire()?;
        self.runtime.block_on(async {
            let sink = tokio::spawn(async move {
                let mut stream = listener.accept().await?;
                let mut part = vec![0; 1 << 16];
                while stream.read(&mut part).await.is_ok_and(|len| len > 0) {}
                Some(())
            });
            let mut stream = self.client.open(to, 8).await.map_err(said)?;
            let part = vec![0; 1 << 16];
            for _ in 0..STREAM_BYTES / part.len() {
                stream.write_all(&part).await.map_err(said)?;
            }
            stream.shutdown().await.map_err(said)?;
            stream.deliver().await.map_err(said)?;
            sink.await.map_err(said).map(drop)
        })?;
        let streamed = (wire()? - before) as f64 / STREAM_BYTES as f64 - 1.0;
        let mut beyond = [("overhead_percent_of_a_stream", rounded(streamed * 100.0)), NONE, NONE];
        let mut port = self.server.bind(9, Admits::Everybody).map_err(said)?;
        let sizes =
            [("overhead_of_a_datagram_of_64", 64), ("overhead_of_a_datagram_of_1000", 1000)];
        for (slot, (what, len)) in beyond[1..].iter_mut().zip(sizes) {
            let before = wire()?;
            let arrived = self.runtime.block_on(async {
                let body = vec![0; len];
                let mut arrived = 0_u32;
                for _ in 0..DATAGRAMS {
                    self.client.send_to(to, 9, &body).await.map_err(said)?;
                    let one = tokio::time::timeout(Duration::from_secs(1), port.receive());
                    arrived += u32::from(matches!(one.await, Ok(Some(_))));
                }
                Ok::<_, String>(arrived)
            })?;
            let each = (wire()? - before) as f64 / f64::from(arrived.max(1));
            *slot = (what, rounded(each - len as f64));
        }
        Ok(beyond)
    }

    /// Bytes that a server's process has grown by, for each connection that does nothing.
    fn idle(&self, ground: &Ground) -> Result<f64, String> {
        let before = self.idle.resident().ok_or("a process tells no memory")?;
        let mut clients = Vec::new();
        for _ in 0..IDLE {
            let client = node(&self.runtime, &ground.place.client, self.router_of_client)?;
            let to = self.idle_name;
            let connected = self.runtime.block_on(client.connect(to)).map_err(said)?;
            clients.push((client, connected));
        }
        // What beginning took is given back.
        std::thread::sleep(Duration::from_secs(3));
        let after = self.idle.resident().ok_or("a process tells no memory")?;
        Ok(((after.saturating_sub(before)) as f64 / f64::from(IDLE)).round())
    }
}

/// A node of this process, whose socket is in a namespace.
fn node(runtime: &Runtime, inside: &Namespace, router: Remote) -> Result<Node, String> {
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_s = now_s.map_err(said)?.as_secs();
    let identity = Arc::new(Identity::generate(Role::Node, now_s).map_err(said)?);
    inside.run(|| runtime.block_on(Node::join(identity, Config::new(router))))?.map_err(said)
}

/// Bytes that went over this namespace's wire, in both directions.
fn wire_bytes() -> Result<u64, String> {
    let counts = std::fs::read_to_string("/proc/thread-self/net/dev").map_err(said)?;
    let line = counts.lines().find_map(|line| line.trim().strip_prefix("rhumb-cr:"));
    let fields: Vec<u64> =
        line.ok_or("no wire")?.split_whitespace().filter_map(|it| it.parse().ok()).collect();
    // Bytes received stand first, bytes sent ninth: proc_pid_net(5).
    fields.first().zip(fields.get(8)).map(|(a, b)| a + b).ok_or("no counts".to_owned())
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

const NONE: (&str, f64) = ("", 0.0);
const ROUNDS: usize = 3;
const SAMPLES: usize = 40;
const STREAM_BYTES: usize = 16 << 20;
const DATAGRAMS: usize = 1000;
const IDLE: u32 = 100;
const IPERF_PORT: &str = "5201";
const LOCAL_PORT: &str = "5301";
