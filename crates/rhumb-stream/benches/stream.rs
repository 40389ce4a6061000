//! What a link over TLS costs whoever forwards: frames from one link to another by the production
//! link and carrier, without a switch's look-ups, beside a relay that copies the bytes of one TCP
//! connection into another and does nothing else. That relay is what the kernel takes for itself.
//!
//! Client, router and server are threads in network namespaces of their own, joined by two veth
//! pairs of MTU 1,500; the router has core 1, both ends have core 0. Frames are as many under way
//! as in the bench of peers. CPU time is that of the router's thread, and of what the kernel does
//! in it. Once as there, with runs of segments cut in software; once with a device that cuts them.
//!
//! Run by `cargo xtask bench stream`, as root; `--json` prints one object, `--rounds=N` measures so
//! often, `--payload=N` one of the sizes alone. Takes a minute.
#![allow(clippy::disallowed_methods, reason = "a bench owns its clock and its threads")]
#![allow(clippy::unwrap_used, reason = "a bench that cannot go on has nothing else to say")]

#[path = "../../rhumb-io/benches/machine/mod.rs"]
mod machine;
#[path = "../../rhumb-switch/benches/switch/namespace.rs"]
mod namespace;
#[path = "../../rhumb-io/benches/machine/pin.rs"]
mod pin;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use namespace::{Namespace, ip, set_up_veth};
use rhumb_io::Wake;
use rhumb_io::udp::{Options, UdpSocket};
use rhumb_link::{Config, Endpoint, Limits};
use rhumb_stream::{Carrier, Settings, listen};
use rhumb_trust::{Identity, Now};
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::{Batch, Name, Role};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |option: &str| -> Option<usize> {
        words.iter().find_map(|word| word.strip_prefix(option)?.strip_prefix('=')?.parse().ok())
    };
    let place = match Place::new() {
        Ok(place) => place,
        Err(problem) => {
            eprintln!("network namespaces, as root: {problem}");
            std::process::exit(2);
        }
    };
    let is_json = words.iter().any(|word| word == "--json");
    let mut rows = Vec::new();
    for (segments, cuts_itself) in [("software", false), ("device", true)] {
        place.have_device_cut(cuts_itself).unwrap();
        for payload in PAYLOADS.into_iter().filter(|it| number("--payload").unwrap_or(*it) == *it) {
            let mut turns: [Vec<Figures>; 2] = Default::default();
            for _ in 0..number("--rounds").unwrap_or(ROUNDS) {
                turns[0].push(place.measure(payload, relay, PlainEnds::dial));
                turns[1].push(place.measure(payload, route, LinkEnds::dial));
            }
            for (name, turns) in ["tcp", "links"].into_iter().zip(&turns) {
                rows.push((segments, payload, name, Figures::median(turns)));
            }
        }
    }
    let [cpu, kernel, load] = machine::conditions();
    if is_json {
        let row = |(segments, payload, name, it): &(&str, usize, &str, Figures)| {
            format!(
                "{{\"cut_by\":\"{segments}\",\"payload\":{payload},\"contestant\":\"{name}\",\"gbps\":{:.3},\"user_s_per_gb\":{:.3},\"system_s_per_gb\":{:.3}}}",
                it.gbps, it.user, it.system
            )
        };
        let rows: Vec<String> = rows.iter().map(row).collect();
        println!("{{\"{}\":\"{}\",\"rows\":[{}]}}", cpu.0, cpu.1, rows.join(","));
        return;
    }
    println!("{}; kernel {}; load {}", cpu.1, kernel.1, load.1);
    println!("cut by    payload  router  Gbit/s  CPU s/GB    user  system");
    for (segments, payload, name, Figures { gbps, user, system }) in rows {
        println!(
            "{segments:9} {payload:7}  {name:6} {gbps:7.2} {:9.3} {user:7.3} {system:7.3}",
            user + system
        );
    }
}

/// Of one turn: CPU time is the router's, in seconds for a gigabyte of payload.
#[derive(Debug, Clone, Copy)]
struct Figures {
    gbps: f64,
    user: f64,
    system: f64,
}

impl Figures {
    fn median(turns: &[Self]) -> Self {
        let median = |of: fn(&Self) -> f64| machine::median(turns.iter().map(of));
        Self {
            gbps: median(|it| it.gbps),
            user: median(|it| it.user),
            system: median(|it| it.system),
        }
    }
}

/// Where it happens.
struct Place {
    client: Namespace,
    router: Namespace,
    server: Namespace,
}

impl Place {
    fn new() -> Result<Self, String> {
        let [client, router, server] = Namespace::fresh()?;
        for (end, near, far, [a, b]) in [
            (&client, "rhumb-rc", "rhumb-cr", [ROUTER_FACING_CLIENT, [10, 9, 1, 1]]),
            (&server, "rhumb-rs", "rhumb-sr", [ROUTER_FACING_SERVER, [10, 9, 2, 1]]),
        ] {
            let path = end.path();
            router.run(|| {
                ip(&format!(
                    "link add {near} mtu 1500 type veth peer name {far} mtu 1500 netns {path}\n"
                ))
            })??;
            router.run(|| set_up_veth(near, a))??;
            end.run(|| set_up_veth(far, b))??;
        }
        Ok(Self { client, router, server })
    }

    /// Whether runs of TCP segments are cut by devices, all of them, or before they get there.
    fn have_device_cut(&self, it_does: bool) -> Result<(), String> {
        let word = if it_does { "on" } else { "off" };
        for (at, device) in [
            (&self.client, "rhumb-cr"),
            (&self.router, "rhumb-rc"),
            (&self.router, "rhumb-rs"),
            (&self.server, "rhumb-sr"),
        ] {
            let status =
                at.run(|| Command::new("ethtool").args(["-K", device, "tso", word]).status())?;
            if !status.is_ok_and(|status| status.success()) {
                return Err(format!("ethtool -K {device} tso {word}"));
            }
        }
        Ok(())
    }

    /// A router and its ends, afresh.
    fn measure<E: Ends>(
        &self,
        payload: usize,
        router: fn(&Shared) -> (),
        ends: fn(&Self, usize, Name) -> E,
    ) -> Figures {
        let shared = Arc::new(Shared::default());
        let thread = self.start(router, &shared);
        while !shared.is_ready.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        pin::pin_to(0);
        let name = *shared.name.lock().unwrap();
        let mut ends = ends(self, payload, name);
        carry(&mut ends, WARM_UP);
        let before = shared.cpu();
        let begin = Instant::now();
        let arrived = carry(&mut ends, SLICE) as f64 * payload as f64;
        let wall = begin.elapsed();
        let after = shared.cpu();
        shared.is_over.store(true, Ordering::Relaxed);
        drop(ends);
        thread.join().unwrap();
        let per_gb = |at: usize| (after[at] - before[at]) as f64 / 1e6 / (arrived / 1e9);
        Figures {
            gbps: arrived * 8.0 / wall.as_secs_f64() / 1e9,
            user: per_gb(0),
            system: per_gb(1),
        }
    }

    fn start(&self, router: fn(&Shared) -> (), shared: &Arc<Shared>) -> JoinHandle<()> {
        let shared = Arc::clone(shared);
        // A thread is in the namespace that it is begun in.
        let start = || {
            std::thread::spawn(move || {
                pin::pin_to(1);
                router(&shared);
            })
        };
        self.router.run(start).unwrap()
    }
}

/// What the router's thread says of itself.
struct Shared {
    is_ready: AtomicBool,
    is_over: AtomicBool,
    name: std::sync::Mutex<Name>,
    /// Microseconds of user and of system time, told after each turn.
    spent: [AtomicU64; 2],
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            is_ready: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            name: std::sync::Mutex::new(Name([0; 32])),
            spent: Default::default(),
        }
    }
}

impl Shared {
    fn cpu(&self) -> [u64; 2] {
        self.spent.each_ref().map(|time| time.load(Ordering::Relaxed))
    }

    /// Whether the router goes on.
    fn turn(&self) -> bool {
        let [user, system] = sys::thread_times();
        self.spent[0].store(user, Ordering::Relaxed);
        self.spent[1].store(system, Ordering::Relaxed);
        !self.is_over.load(Ordering::Relaxed)
    }
}

/// Has frames go through the router, a window of them under way; how many arrived.
fn carry(ends: &mut impl Ends, time: Duration) -> u64 {
    let (begin, mut sent, mut arrived) = (Instant::now(), 0, 0);
    let mut last = begin;
    while begin.elapsed() < time {
        if sent + BATCH <= arrived + WINDOW {
            ends.send();
            sent += BATCH;
        }
        let more = ends.receive();
        arrived += more;
        if more > 0 {
            last = Instant::now();
        }
        assert!(last.elapsed() < PATIENCE, "nothing arrives: {arrived} of {sent}");
    }
    arrived
}

/// Client and server.
trait Ends {
    /// Sends a batch of frames.
    fn send(&mut self);
    /// How many arrived, of whole ones.
    fn receive(&mut self) -> u64;
}

/// Connections without anything.
struct PlainEnds {
    source: TcpStream,
    sink: TcpStream,
    batch: Vec<u8>,
    frame: u64,
    incoming: Vec<u8>,
    came: u64,
}

impl PlainEnds {
    fn dial(place: &Place, payload: usize, _: Name) -> Self {
        let connect = |from: &Namespace, to| from.run(|| TcpStream::connect((to, PORT))).unwrap();
        let source = connect(&place.client, Ipv4Addr::from(ROUTER_FACING_CLIENT)).unwrap();
        // The router takes the first one for the source.
        std::thread::sleep(Duration::from_millis(50));
        let sink = connect(&place.server, Ipv4Addr::from(ROUTER_FACING_SERVER)).unwrap();
        source.set_nodelay(true).unwrap();
        sink.set_nonblocking(true).unwrap();
        let frame = payload + FRAME_OVERHEAD;
        let batch = vec![7; frame * BATCH as usize];
        Self { source, sink, batch, frame: frame as u64, incoming: vec![0; READ_LEN], came: 0 }
    }
}

impl Ends for PlainEnds {
    fn send(&mut self) {
        self.source.write_all(&self.batch).unwrap();
    }

    fn receive(&mut self) -> u64 {
        let before = self.came / self.frame;
        match self.sink.read(&mut self.incoming) {
            Ok(read) => self.came += read as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("the sink: {error}"),
        }
        self.came / self.frame - before
    }
}

/// The relay: whatever comes on the first connection goes out on the second.
fn relay(shared: &Shared) {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap();
    shared.is_ready.store(true, Ordering::Release);
    let (mut source, _) = listener.accept().unwrap();
    let (mut sink, _) = listener.accept().unwrap();
    sink.set_nodelay(true).unwrap();
    source.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let mut bytes = vec![0; READ_LEN];
    while shared.turn() {
        match source.read(&mut bytes) {
            Ok(0) => return,
            Ok(read) if sink.write_all(&bytes[..read]).is_err() => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// An endpoint, and what it sends and receives with.
struct Link {
    endpoint: Endpoint,
    carrier: Carrier,
    wake: Wake,
    batch: Batch,
    arrived: u64,
}

impl Link {
    fn new(listening: Option<SocketAddr>) -> Self {
        let identity = Arc::new(Identity::generate(Role::Node, 1).unwrap());
        let mut config = Config::default();
        config.streams = true;
        let endpoint = Endpoint::new(identity.clone(), config, [7; 32], Instant::now()).unwrap();
        let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let mut carrier = Carrier::new(UdpSocket::bind(any, Options::default()).unwrap());
        let wake = Wake::new().unwrap();
        let listening = listening.map(|at| listen(at).unwrap());
        let max_datagram_len = config.max_datagram_len;
        let settings = Settings { listening, max_datagram_len, limits: Limits::default() };
        carrier.carry_streams(identity, settings, wake.clone()).unwrap();
        Self { endpoint, carrier, wake, batch: Batch::new(), arrived: 0 }
    }

    /// A turn that neither waits nor forwards.
    fn turn(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
        self.transmit();
        self.carrier.meet(&mut self.endpoint, Now { instant: now, unix_ms: 1_700_000_000_000 });
        self.transmit();
        while self.endpoint.poll_event().is_some() {}
    }

    fn transmit(&mut self) {
        self.batch.clear();
        self.endpoint.poll_transmit(&mut self.batch);
        if !self.batch.is_empty() {
            self.carrier.send(&mut self.batch).unwrap();
        }
    }

    /// Opens what came, once; has those that carry something go on to `next`, if to anybody.
    fn receive(&mut self, next: Option<Name>, now: Instant) -> usize {
        let Self { endpoint, carrier, batch, .. } = self;
        let received = carrier.receive(batch).unwrap();
        let next = next.and_then(|name| {
            let session = endpoint.session_of(&name)?;
            Some((session, endpoint.peer(session)?.address))
        });
        for slot in 0..received {
            let (from, datagram) = batch.datagram_mut(slot);
            let is_record = matches!(Datagram::parse(datagram), Ok(Datagram::Record(_)));
            let opened = is_record.then(|| endpoint.open(from, datagram, now).ok()).flatten();
            let carries = opened.is_some_and(|opened| !opened.plaintext.is_empty());
            match next {
                Some((session, to)) if carries => {
                    let sealed = endpoint.seal(session, batch.datagram_mut(slot).1, now);
                    assert_eq!(sealed, Ok(to));
                    batch.redirect(slot, to);
                }
                _ => batch.drop_datagram(slot),
            }
            self.arrived += u64::from(carries);
        }
        if next.is_some() && received > 0 {
            carrier.send(batch).unwrap();
        }
        received
    }
}

/// The router: from the first peer to the second.
fn route(shared: &Shared) {
    let mut link = Link::new(Some((Ipv4Addr::UNSPECIFIED, PORT).into()));
    *shared.name.lock().unwrap() = link.endpoint.name();
    shared.is_ready.store(true, Ordering::Release);
    let mut peers: Vec<Name> = Vec::new();
    while shared.turn() {
        link.carrier.wait(Some(Duration::from_millis(20)), Some(&link.wake)).unwrap();
        let now = Instant::now();
        for _ in 0..8 {
            if link.receive(peers.get(1).copied(), now) == 0 || link.carrier.is_drained() {
                break;
            }
        }
        link.endpoint.handle_timeout(now);
        link.transmit();
        let civil = Now { instant: now, unix_ms: 1_700_000_000_000 };
        link.carrier.meet(&mut link.endpoint, civil);
        while let Some(event) = link.endpoint.poll_event() {
            if let rhumb_link::Event::Established { peer, .. } = event {
                peers.push(peer);
            }
        }
    }
}

struct LinkEnds {
    source: Link,
    sink: Link,
    router: Name,
    payload: Vec<u8>,
}

impl LinkEnds {
    fn dial(place: &Place, payload: usize, router: Name) -> Self {
        let dial = |from: &Namespace, to: [u8; 4]| {
            let mut link = from.run(|| Link::new(None)).unwrap();
            let begin = Instant::now();
            // The port answers over TCP alone.
            let to = SocketAddr::from((to, PORT));
            link.endpoint.connect(to, Some(router), begin);
            while link.endpoint.session_of(&router).is_none() {
                assert!(begin.elapsed() < PATIENCE, "no session");
                let now = Instant::now();
                from.run(|| link.turn(now)).unwrap();
                link.receive(None, now);
                link.carrier.wait(Some(Duration::from_millis(5)), Some(&link.wake)).unwrap();
            }
            link
        };
        let source = dial(&place.client, ROUTER_FACING_CLIENT);
        let sink = dial(&place.server, ROUTER_FACING_SERVER);
        Self { source, sink, router, payload: vec![7; payload] }
    }
}

impl Ends for LinkEnds {
    fn send(&mut self) {
        let now = Instant::now();
        let Link { endpoint, carrier, batch, .. } = &mut self.source;
        let session = endpoint.session_of(&self.router).unwrap();
        let to = endpoint.peer(session).unwrap().address;
        batch.clear();
        for _ in 0..BATCH {
            let buffer = batch.push_with(to, self.payload.len() + RECORD_OVERHEAD);
            buffer[RecordHeader::LEN..][..self.payload.len()].copy_from_slice(&self.payload);
            assert_eq!(endpoint.seal(session, buffer, now), Ok(to));
        }
        carrier.send(batch).unwrap();
    }

    fn receive(&mut self) -> u64 {
        let before = self.sink.arrived;
        self.sink.receive(None, Instant::now());
        self.sink.arrived - before
    }
}

const ROUTER_FACING_CLIENT: [u8; 4] = [10, 9, 1, 2];
const ROUTER_FACING_SERVER: [u8; 4] = [10, 9, 2, 2];
const PORT: u16 = 7461;
/// What a stream has in front of a PDU.
const FRAME_OVERHEAD: usize = 3;
/// As the production carrier reads.
const READ_LEN: usize = 64 << 10;
/// Frames under way, and sent at once: as in the bench of peers.
const WINDOW: u64 = 256;
const BATCH: u64 = 64;
const PAYLOADS: [usize; 2] = [64, 1000];
const ROUNDS: usize = 5;
const WARM_UP: Duration = Duration::from_millis(100);
const SLICE: Duration = Duration::from_millis(800);
/// UDP is tried for two seconds first.
const PATIENCE: Duration = Duration::from_secs(20);

/// System calls. Source: getrusage(2).
#[allow(unsafe_code)]
mod sys {
    /// Microseconds of user and of system time of this thread.
    pub(super) fn thread_times() -> [u64; 2] {
        // SAFETY: a rusage is integers, for which zero is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is valid for writes for the whole call.
        let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
        assert_eq!(result, 0, "every Linux since 2.6.26 tells it of a thread");
        [usage.ru_utime, usage.ru_stime]
            .map(|time| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64)
    }
}
