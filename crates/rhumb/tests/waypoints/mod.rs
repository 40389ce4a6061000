//! A line a - r1 - r2 - b with waypoints on it, run as their operators run
//! them, and a sender that stamps by the library.

#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]
#![allow(dead_code, reason = "each user takes a part")]

use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rhumb_capability::{
    Capability, Credential, Delegations, Encapsulation, Epoch, EpochKeys, Flags, Master, PacketIds,
    Principal, Scheme, Stamper, Suite, WindowClock,
};
use rhumb_io::ip::{Fate, IpBatch, IpIo, RawOptions, RawSocket};
use rhumb_keyserver::principal::{PRINCIPALS_HEAD, master_text};
use serde_json::Value;

use crate::harness::{Place, Running};
use crate::wire::{Host, Line};

pub(crate) const PORT: u16 = 7470;
/// UDP ports of the two ends.
pub(crate) const ENDS: u16 = 5555;

/// What a waypoint on the host of the key server has in its configuration to follow it.
pub(crate) const FOLLOW: &str =
    "key_server = \"127.0.0.1:5300\"\nzone = \"_k.example\"\nkey = \"follower.tsig\"";

/// The line, and a folder for files.
pub(crate) struct Rig {
    pub(crate) line: Line,
    pub(crate) place: Place,
}

/// A waypoint that runs.
pub(crate) struct Daemon {
    pub(crate) running: Running,
    pub(crate) ready: Value,
}

/// A credential for a waypoint, as the operator mints it now.
#[derive(Clone, Copy)]
pub(crate) struct Pass {
    pub(crate) waypoint: &'static str,
    pub(crate) epoch: u8,
    pub(crate) principal: u32,
    /// The id of a delegation to everywhere below 10.8.0.0/16.
    pub(crate) delegation: Option<u32>,
    pub(crate) suite: Suite,
}

pub(crate) const fn pass(waypoint: &'static str) -> Pass {
    let suite = Suite::HeaderAes;
    Pass { waypoint, epoch: 1, principal: 7, delegation: None, suite }
}

impl Pass {
    fn credential(&self) -> Credential {
        let clock = WindowClock::default();
        let window = clock.at(now_us());
        let capability = Capability {
            waypoint: self.waypoint.parse().unwrap(),
            principal: Principal(self.principal),
            flags: Flags::NONE,
            window,
            epoch: Epoch(self.epoch),
            suite: self.suite,
            scheme: Scheme::CaveatChain,
            delegations: Delegations::default(),
        };
        let keys = EpochKeys::new(Epoch(self.epoch), &master(self.waypoint, self.epoch));
        let own = Credential::from(keys.mint(capability, clock.not_after_s(window)).unwrap());
        match self.delegation {
            None => own,
            Some(id) => {
                let id = rhumb_capability::DelegationId::new(id).unwrap();
                own.delegate("10.8.0.0/16".parse().unwrap(), id).unwrap()
            }
        }
    }
}

/// The master key of a waypoint, the same in each run.
pub(crate) fn master(waypoint: &str, epoch: u8) -> Master {
    Master::new(std::array::from_fn(|at| waypoint.as_bytes()[at % waypoint.len()] ^ epoch))
}

pub(crate) fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

impl Rig {
    /// `None`, and why, where namespaces cannot be had.
    pub(crate) fn new() -> Option<Self> {
        Some(Self { line: Line::new()?, place: Place::new() })
    }

    /// Writes a master key file of the folder `NAME.keys`.
    pub(crate) fn write_master(&self, name: &str, waypoint: &str, epoch: u8) -> PathBuf {
        let folder = self.place.path(&format!("{name}.keys"));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{}-{epoch}.master", waypoint.replace(':', "_")));
        let text = master_text(waypoint.parse().unwrap(), Epoch(epoch), &master(waypoint, epoch));
        // As an editor does it: whole, or not there.
        let beside = folder.join("beside");
        std::fs::write(&beside, text.as_bytes()).unwrap();
        std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(&beside, &path).unwrap();
        path
    }

    /// Starts a waypoint on a host, with keys of epoch 1; `more` is added to its configuration.
    pub(crate) fn start(&self, host: &Host, name: &str, addresses: &[&str], more: &str) -> Daemon {
        for address in addresses {
            self.write_master(name, address, 1);
        }
        self.write_config(name, addresses, more);
        self.start_again(host, name)
    }

    pub(crate) fn write_config(&self, name: &str, addresses: &[&str], more: &str) {
        let text = format!(
            "[waypoint]\naddresses = {addresses:?}\nmaster = [\"{name}.keys\"]\nadmin = \"127.0.0.1:0\"\n\
             accounts = \"{name}.accounts\"\npackets_per_s = 100000\n{more}\n"
        );
        self.place.write(&format!("{name}.toml"), &text);
    }

    /// Starts a waypoint with the configuration that is there,
    /// and waits until it takes what is stamped now.
    pub(crate) fn start_again(&self, host: &Host, name: &str) -> Daemon {
        let daemon = self.start_at_once(host, name);
        std::thread::sleep(NOT_TAKEN_AFTER_START);
        daemon
    }

    /// The same without waiting.
    pub(crate) fn start_at_once(&self, host: &Host, name: &str) -> Daemon {
        let config = format!("{name}.toml");
        let mut running = host.enter(|| self.place.start(&["--config", &config, "waypoint"]));
        let ready = running.next_object();
        Daemon { running, ready }
    }

    /// Starts a key server on a host, with the zone `_k.example`, an operator and
    /// a waypoint that follows, and no principals.
    pub(crate) fn start_key_server(&self, host: &Host, waypoint: &str) -> Running {
        for name in ["operator", "follower"] {
            let (file, key) = (format!("{name}.tsig"), format!("{name}.k.example"));
            let run = self.place.run(&["capability", "signer", &key, "--out", &file]);
            assert_eq!(run.code, 0, "{}", run.errors);
        }
        let master = self.write_master("w1", waypoint, 1);
        let book = self.place.path("principals");
        std::fs::write(&book, format!("{PRINCIPALS_HEAD}\n")).unwrap();
        std::fs::set_permissions(&book, std::fs::Permissions::from_mode(0o600)).unwrap();
        let text = format!(
            "[keyserver]\nzone = \"_k.example\"\nlisten = [\"127.0.0.1:5300\"]\n\
             name_servers = [\"ns.example\"]\nprincipals = \"principals\"\njournal = \"revocations\"\n\
             operators = [\"operator.tsig\"]\n[[keyserver.waypoint]]\naddress = \"{waypoint}\"\n\
             master = \"{}\"\nfollower = \"follower.tsig\"\n",
            master.display()
        );
        self.place.write("keys.toml", &text);
        self.start_key_server_again(host)
    }

    /// Starts it with the files that are there.
    pub(crate) fn start_key_server_again(&self, host: &Host) -> Running {
        let mut server = host.enter(|| self.place.start(&["--config", "keys.toml", "keyserver"]));
        server.next_object();
        server
    }

    /// Has principal 7 revoked, or what `more` says of it; what the command reports.
    pub(crate) fn revoke(&self, host: &Host, more: &[&str]) -> Value {
        let own = ["--json", "--config", "keys.toml", "capability", "revoke", "7"];
        let arguments = [&own[..], &["--key", "operator.tsig"], more].concat();
        let run = host.enter(|| self.place.run(&arguments));
        assert_eq!(run.code, 0, "{}{}", run.output, run.errors);
        run.object()
    }

    /// Both waypoints of the line, IPv4 and IPv6.
    pub(crate) fn start_both(&self, more: &str) -> [Daemon; 2] {
        let Line { r1, r2, .. } = &self.line;
        [
            self.start(r1, "w1", &[Line::R1, Line::R1_6], more),
            self.start(r2, "w2", &[Line::R2, Line::R2_6], more),
        ]
    }

    pub(crate) fn status(&self, host: &Host, daemon: &Daemon) -> Value {
        let admin = daemon.ready["admin"].as_str().unwrap();
        let run = host.enter(|| self.place.run(&["--json", "status", "--admin", admin]));
        assert_eq!(run.code, 0, "{}", run.errors);
        run.object()
    }

    /// Waits until a status is as `is_so` wants it, and returns it.
    #[track_caller]
    pub(crate) fn wait_for(
        &self,
        host: &Host,
        daemon: &Daemon,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let begin = Instant::now();
        loop {
            let status = self.status(host, daemon);
            if is_so(&status) {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE, "{status:#}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A text from the metrics page.
    pub(crate) fn metrics(&self, host: &Host, daemon: &Daemon) -> String {
        use std::io::{Read, Write};
        let admin = daemon.ready["admin"].as_str().unwrap();
        host.enter(|| {
            let mut stream = std::net::TcpStream::connect(admin).unwrap();
            write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
            text
        })
    }
}

/// Sends stamped packets from host a.
pub(crate) struct Sender {
    raw: RawSocket,
    batch: IpBatch,
    ids: PacketIds,
}

impl Sender {
    pub(crate) fn on(host: &Host) -> Self {
        let raw = host.enter(|| RawSocket::open(&RawOptions::default()).unwrap());
        let random = now_us() as u32;
        Self { raw, batch: IpBatch::new(9000), ids: PacketIds::new(0, random) }
    }

    /// A packet, stamped for these waypoints.
    pub(crate) fn stamp(&mut self, passes: &[Pass], packet: &[u8]) -> Vec<u8> {
        self.stamp_as(passes, packet, Encapsulation::IP)
    }

    pub(crate) fn stamp_as(
        &mut self,
        passes: &[Pass],
        packet: &[u8],
        encapsulation: Encapsulation,
    ) -> Vec<u8> {
        self.stamp_at(passes, packet, encapsulation, now_us())
    }

    /// A packet that says that it was stamped at `at_us`.
    pub(crate) fn stamp_at(
        &mut self,
        passes: &[Pass],
        packet: &[u8],
        encapsulation: Encapsulation,
        at_us: u64,
    ) -> Vec<u8> {
        let credentials: Vec<Credential> = passes.iter().map(Pass::credential).collect();
        let credentials: Vec<&Credential> = credentials.iter().collect();
        let stamper = Stamper::new(&credentials, encapsulation).unwrap();
        let room = stamper.headroom();
        let mut buffer = vec![0; room];
        buffer.extend_from_slice(packet);
        let range =
            stamper.stamp(&mut buffer, room..room + packet.len(), &mut self.ids, at_us).unwrap();
        buffer[range].to_vec()
    }

    /// So many copies of a packet, each stamped for one waypoint at `at_us`.
    pub(crate) fn stamp_many(
        &mut self,
        pass: Pass,
        packet: &[u8],
        count: usize,
        at_us: u64,
    ) -> Vec<Vec<u8>> {
        let stamper = Stamper::new(&[&pass.credential()], Encapsulation::IP).unwrap();
        let room = stamper.headroom();
        let one = |_| {
            let mut buffer = vec![0; room];
            buffer.extend_from_slice(packet);
            let range = room..buffer.len();
            let range = stamper.stamp(&mut buffer, range, &mut self.ids, at_us).unwrap();
            buffer[range].to_vec()
        };
        (0..count).map(one).collect()
    }

    /// Sends a packet as it stands.
    #[track_caller]
    pub(crate) fn send(&mut self, packet: &[u8]) {
        self.batch.clear();
        assert!(self.batch.push(packet));
        self.raw.send(&mut self.batch).unwrap();
        assert_eq!(self.batch.fate(0), Fate::Sent);
    }

    /// Stamps and sends.
    #[track_caller]
    pub(crate) fn send_by(&mut self, passes: &[Pass], packet: &[u8]) {
        let packet = self.stamp(passes, packet);
        self.send(&packet);
    }
}

/// A UDP socket on a host, which waits for a while.
pub(crate) fn socket(host: &Host, port: u16) -> UdpSocket {
    let socket = host.enter(|| UdpSocket::bind(("::", port)).unwrap());
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// The next datagram's payload.
#[track_caller]
pub(crate) fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 9000];
    loop {
        match socket.recv_from(&mut buffer) {
            // Whoever was stopped and goes on is interrupted where it waits for a limited time:
            // signal(7).
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => {
                let (len, _) = received.expect("a datagram");
                return buffer[..len].to_vec();
            }
        }
    }
}

/// What has come and has not been received.
pub(crate) fn count_waiting(socket: &UdpSocket) -> usize {
    socket.set_nonblocking(true).unwrap();
    let mut buffer = [0; 9000];
    let mut count = 0;
    while socket.recv_from(&mut buffer).is_ok() {
        count += 1;
    }
    socket.set_nonblocking(false).unwrap();
    count
}

/// A UDP packet from port to port [`ENDS`], not to be cut.
pub(crate) fn udp(from: &str, to: &str, payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    let mut udp = Vec::new();
    for word in [ENDS, ENDS, len, 0] {
        udp.extend(word.to_be_bytes());
    }
    udp.extend_from_slice(payload);
    let mut packet = ip(from, to, 17, &udp);
    let at = packet.len() - udp.len();
    let addresses = if at == 20 { 12..20 } else { 8..40 };
    let mut sum = u64::from(len) + 17 + words(&packet[addresses]) + words(&packet[at..]);
    while sum > 0xFFFF {
        sum = (sum >> 16) + (sum & 0xFFFF);
    }
    packet[at + 6..at + 8].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    packet
}

/// An IP packet with hop limit 64.
pub(crate) fn ip(from: &str, to: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (from, to): (IpAddr, IpAddr) = (from.parse().unwrap(), to.parse().unwrap());
    let mut packet = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0];
            packet[2..4].copy_from_slice(&((20 + payload.len()) as u16).to_be_bytes());
            packet.extend(from.octets());
            packet.extend(to.octets());
            packet
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut packet = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
            packet[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
            packet.extend(from.octets());
            packet.extend(to.octets());
            packet
        }
        _ => panic!("{from} and {to}"),
    };
    packet.extend_from_slice(payload);
    right_checksum(&mut packet);
    packet
}

/// Writes the checksum of an IPv4 header.
pub(crate) fn right_checksum(packet: &mut [u8]) {
    if packet[0] >> 4 == 4 {
        packet[10..12].fill(0);
        let mut sum = words(&packet[..20]);
        while sum > 0xFFFF {
            sum = (sum >> 16) + (sum & 0xFFFF);
        }
        packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
}

fn words(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(2);
    words.map(|two| u64::from(two[0]) << 8 | two.get(1).map_or(0, |low| u64::from(*low))).sum()
}

/// ICMP that comes to a host, of both families.
pub(crate) struct IcmpEar([RawSocket; 2]);

impl IcmpEar {
    pub(crate) fn on(host: &Host) -> Self {
        let open = |protocol, ipv4, ipv6| {
            let options =
                RawOptions { protocol: Some(protocol), ipv4, ipv6, ..RawOptions::default() };
            host.enter(|| RawSocket::open(&options).unwrap())
        };
        let any = RawOptions::default();
        Self([open(1, any.ipv4, None), open(58, None, any.ipv6)])
    }

    /// The errors among the packets that have come.
    pub(crate) fn errors(&mut self) -> Vec<Vec<u8>> {
        let mut batch = IpBatch::new(9000);
        let mut found = Vec::new();
        for socket in &mut self.0 {
            while socket.receive(&mut batch).unwrap() > 0 {
                let all = batch.iter().map(|(_, packet)| packet.to_vec());
                found.extend(all.filter(|packet| match packet[0] >> 4 {
                    4 => matches!(packet[20], 3 | 11 | 12),
                    _ => packet[40] < 128,
                }));
            }
        }
        found
    }

    /// Waits for the next errors.
    #[track_caller]
    pub(crate) fn next_errors(&mut self) -> Vec<Vec<u8>> {
        let begin = Instant::now();
        loop {
            let found = self.errors();
            if !found.is_empty() {
                return found;
            }
            assert!(begin.elapsed() < PATIENCE, "no ICMP error comes");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A count in a status.
pub(crate) fn count(status: &Value, path: &[&str]) -> u64 {
    let value = path.iter().fold(status, |value, key| &value[*key]);
    value.as_u64().unwrap_or_else(|| panic!("no {path:?} in {status:#}"))
}

/// A waypoint takes nothing that is dated before half a second after its start.
pub(crate) const NOT_TAKEN_AFTER_START: Duration = Duration::from_millis(510);
/// For a machine that is busy with everything else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
