//! What a directory over a file serves by its protocol: look-ups in sealed datagrams over loopback
//! UDP, with a million names and with ten, and orders to publish.
//!
//! One thread is the directory: socket, sessions, store. Another one is whoever asks, by one
//! session, names by their popularity (the one of rank r as often as 1 / r), each a chain of two
//! certificates. Counted are look-ups in a second of the directory's processor, and beside it, in
//! the same rounds, what it cannot do without: reading both entries of the chain from the bare
//! store, and opening and sealing a record. What ten million come to of a million is of one round
//! each.
//!
//! Names are put into the store without being signed, since nobody who asks has the directory
//! verify them again; what is published is signed and verified. Times are medians over rounds in
//! turns; waiting times are those of all look-ups at half the rate of the same run, in as many
//! rounds. Each thread keeps to a core; beside waiting times stands for how long others had
//! the directory's: the slowest hundredth is made of such pauses, on the asker's core, too. So in
//! as many rounds more, in turns, both threads run before all others, where we may do that.
//!
//! Run by `cargo xtask bench rib embedded`; `--json` prints one object, `--names=N` puts another
//! number in the place of ten million, `--memory=N` so many GiB in the place of what holds all
//! records. Takes about twelve minutes, 8 GB of disk, and 16 GB of memory.

#![expect(clippy::disallowed_methods, reason = "a bench owns its clock and its threads")]

#[path = "../../rhumb-io/benches/machine/mod.rs"]
mod machine;
#[path = "../../rhumb-io/benches/machine/pin.rs"]
mod pin;
#[path = "../../rhumb-io/benches/machine/thread_cpu.rs"]
mod thread_cpu;
mod unsigned;

use std::collections::HashMap;
use std::hint::black_box;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use machine::median;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rhumb_io::PacketIo;
use rhumb_io::udp::{Options, UdpSocket};
use rhumb_link::{Endpoint, SessionId};
use rhumb_rib::store::{Change, Embedded, Store};
use rhumb_rib::{Asker, Config, Outcome, Rib, Server};
use rhumb_trust::{Identity, Now, Window, name_of};
use rhumb_wire::certificate::Locator;
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody};
use rhumb_wire::{Action, Batch, Metadata, Name, Pdu, PduHeader, Role, Scope, Statement};
use unsigned::{NAMES_A_ROUTER, metadata};

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MANY: usize = 10_000_000;
/// GiB for each: what docs/router.md says of ten million names that are all in memory.
const MEMORY: u64 = 16;
const ROUNDS: usize = 5;
/// Until caches and tables are as full as they get: memory that is used for the first time is the
/// system's time, and on a virtual machine its host's as well.
const WARM: Duration = Duration::from_secs(25);
const SLICE: Duration = Duration::from_secs(2);
/// A session ends after seconds of silence.
const KEEP_EVERY: Duration = Duration::from_millis(200);
/// Look-ups under way at once when as many as possible are asked.
const WINDOW: usize = 512;
/// And between two looks at what was answered, when they come at a rate.
const AT_A_TIME: u64 = 64;
const PUBLISHED_AT_ONCE: usize = 512;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let json = arguments.iter().any(|it| it == "--json");
    let word = |begins: &str| arguments.iter().find_map(|it| it.strip_prefix(begins));
    let many = word("--names=").map_or(MANY, |it| it.parse().expect("--names=N, a number"));
    let memory = word("--memory=").map_or(MEMORY, |it| it.parse().expect("--memory=N, in GiB"));
    let mut conditions: Vec<(&str, String)> = machine::conditions().into();
    pin::pin_to(0);
    let folder = tempfile::tempdir().expect("a folder for the stores");
    // A tenth of them, as one million is of ten.
    let mut worlds = [many / 10, many].map(|names| World::new(folder.path(), names, memory << 30));
    worlds.iter_mut().for_each(World::connect);
    for at in 0..worlds.len() {
        let (world, other) = with_other(&mut worlds, at);
        world.ask_for_all(other);
        world.ask_for(WARM, other);
    }
    let mut seen: HashMap<(&str, usize), Vec<f64>> = HashMap::new();
    for _ in 0..ROUNDS {
        for at in 0..worlds.len() {
            let (world, other) = with_other(&mut worlds, at);
            for (what, value) in world.round(other) {
                seen.entry((what, world.names.len())).or_default().push(value);
            }
        }
    }
    let half = median(seen[&("per_wall_s", worlds[0].names.len())].iter().copied()) / 2.0;
    let (world, other) = with_other(&mut worlds, 0);
    let (mut rounds, mut first) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        rounds.push(world.waits(half, other));
        if world.go_first(true) {
            first.push(world.waits(half, other));
        }
        world.go_first(false);
    }
    let (waits, first) = (Waits::of(&rounds), (!first.is_empty()).then(|| Waits::of(&first)));
    let published = published_per_cpu_s(folder.path());
    conditions.push(("rounds", ROUNDS.to_string()));
    conditions.push(("memory_gib", memory.to_string()));
    conditions.push(("names", format!("{} and {}", worlds[0].names.len(), many)));
    conditions.push(("half_load_per_s", format!("{half:.0}")));
    let of = |what, names| median(seen[&(what, names)].iter().copied());
    let (few, many) = (worlds[0].names.len(), worlds[1].names.len());
    let [served, served_many] = [few, many].map(|names| of("look_ups", names));
    let of_many_to_few = in_turns(&seen[&("look_ups", many)], &seen[&("look_ups", few)]);
    let [bare, bare_many] = [few, many].map(|names| of("bare", names));
    let least = (200_000.0f64).min(0.5 * bare);
    let targets = [
        Target::at_least("look_ups_per_cpu_s", served, least, "200,000, or half of bare"),
        Target::at_least("look_ups_of_many_to_few", of_many_to_few, 0.85, "0.85"),
        Target::at_most("p99_ms_at_half_load", waits.p99_ms, 1.0, "1"),
        Target::at_least("durable_publishes_per_cpu_s", published, 50_000.0, "50,000"),
    ];
    let mut figures = vec![
        ("bare_per_cpu_s", bare),
        ("bare_of_many_per_cpu_s", bare_many),
        ("look_ups_of_many_per_cpu_s", served_many),
        ("look_ups_per_wall_s", of("per_wall_s", few)),
        ("look_ups_of_many_per_wall_s", of("per_wall_s", many)),
        ("p50_ms_at_half_load", waits.p50_ms),
        ("lost_at_half_load", waits.lost),
        ("turns_over_1_cpu_ms_at_half_load", waits.over_1_ms),
        ("longest_turn_cpu_ms_at_half_load", waits.longest),
        ("kept_from_cpu_at_half_load", waits.kept_waiting),
    ];
    match first {
        Some(first) => figures.push(("p99_ms_when_first_on_cores", first.p99_ms)),
        None => conditions.push(("first_on_cores", "not allowed (CAP_SYS_NICE)".to_owned())),
    }
    print(json, &conditions, &figures, &targets);
}

/// One in terms of the other, of one round each: a processor may have another speed a minute later.
fn in_turns(one: &[f64], other: &[f64]) -> f64 {
    median(one.iter().zip(other).map(|(one, other)| one / other))
}

struct Target {
    name: &'static str,
    value: f64,
    target: String,
    met: bool,
}

impl Target {
    fn at_least(name: &'static str, value: f64, least: f64, target: &str) -> Self {
        Self { name, value, target: format!("at least {target}"), met: value >= least }
    }

    fn at_most(name: &'static str, value: f64, most: f64, target: &str) -> Self {
        Self { name, value, target: format!("at most {target}"), met: value <= most }
    }
}

fn print(json: bool, conditions: &[(&str, String)], figures: &[(&str, f64)], targets: &[Target]) {
    if !json {
        conditions.iter().for_each(|(name, value)| println!("{name}: {value}"));
        figures.iter().for_each(|(name, value)| println!("  {name:<32}{value:>14.2}"));
        for Target { name, value, target, met } in targets {
            let verdict = if *met { "met" } else { "MISSED" };
            println!("  {name:<32}{value:>14.2}  {target}: {verdict}");
        }
        return;
    }
    let conditions: Vec<String> =
        conditions.iter().map(|(name, value)| format!("\"{name}\": \"{value}\"")).collect();
    let figures: Vec<String> =
        figures.iter().map(|(name, value)| format!("\"{name}\": {value:.3}")).collect();
    let one = |it: &Target| {
        let Target { name, value, target, met } = it;
        format!(
            "{{\"name\": \"{name}\", \"value\": {value:.3}, \"target\": \"{target}\", \"met\": {met}}}"
        )
    };
    let targets: Vec<String> = targets.iter().map(one).collect();
    println!(
        "{{\"bench\": \"rib-embedded\", \"conditions\": {{{}}}, \"figures\": {{{}}}, \"targets\": [{}]}}",
        conditions.join(", "),
        figures.join(", "),
        targets.join(", ")
    );
}

/// One of the two, and the other one.
fn with_other(worlds: &mut [World; 2], at: usize) -> (&mut World, &mut World) {
    let [few, many] = worlds;
    if at == 0 { (few, many) } else { (many, few) }
}

/// A store of so many names, the directory over it, and who asks.
struct World {
    names: Vec<Name>,
    store: Embedded,
    serving: Serving,
    client: Client,
    random: StdRng,
    sealing_s: f64,
    kept_at: Instant,
}

impl World {
    fn new(folder: &Path, count: usize, memory: u64) -> Self {
        let path = folder.join(format!("{count}.redb"));
        let mut store = Embedded::open_with(&path, Config::page_bytes(memory)).expect("a store");
        let names = fill(&mut store, count);
        let mut config = Config::sized(64 << 30, memory, 50);
        config.max_names = u64::MAX;
        let identity = Arc::new(Identity::generate(Role::Rib, 0).expect("a key"));
        let name = identity.name();
        let link = rhumb_link::Config::default();
        let server = Server::new(identity, store.share(), config, link, [7; 32], now());
        let serving = Serving::start(server.expect("a server"));
        let client = Client::connect(serving.address, name);
        let sealing_s = sealing_s();
        let (random, kept_at) = (StdRng::seed_from_u64(1), Instant::now());
        Self { names, store, serving, client, random, sealing_s, kept_at }
    }

    /// A name, the one of rank r as often as 1 / r.
    fn popular(&mut self) -> Name {
        self.names[unsigned::popular(&mut self.random, self.names.len())]
    }

    /// Begins a session anew: that of a world ends while the other one is filled.
    fn connect(&mut self) {
        self.client = Client::connect(self.serving.address, self.client.rib);
    }

    /// Asks for something now and then, so that the session stays while the other world has its
    /// turn, with all that a session grows by.
    fn keep(&mut self) {
        if self.kept_at.elapsed() >= KEEP_EVERY {
            self.kept_at = Instant::now();
            let name = self.popular();
            self.client.ask(name);
            self.client.exchange(Duration::ZERO);
        }
    }

    fn round(&mut self, other: &mut Self) -> [(&'static str, f64); 3] {
        self.ask_for(SLICE / 4, other);
        let (cpu_before, begin) = (self.serving.cpu(), Instant::now());
        let answered = self.ask_for(SLICE, other) as f64;
        let (cpu, wall) = (self.serving.cpu() - cpu_before, begin.elapsed().as_secs_f64());
        let read_s = self.bare_read_s();
        let bare = 1.0 / (read_s + self.sealing_s);
        [("look_ups", answered / cpu), ("per_wall_s", answered / wall), ("bare", bare)]
    }

    /// Asks for each name once, as a directory has them all in memory that runs for long.
    fn ask_for_all(&mut self, other: &mut Self) {
        let mut unasked = self.names.iter();
        while unasked.len() > 0 || !self.client.under_way.is_empty() {
            let room = WINDOW - self.client.under_way.len();
            unasked.by_ref().take(room).for_each(|name| self.client.ask(*name));
            other.keep();
            self.client.exchange(Duration::from_millis(20));
            self.client.give_up_after(Duration::from_millis(500));
        }
    }

    /// Asks as fast as it is answered; returns how many were.
    fn ask_for(&mut self, time: Duration, other: &mut Self) -> usize {
        let begin = Instant::now();
        let mut answered = 0;
        while begin.elapsed() < time {
            while self.client.under_way.len() < WINDOW {
                let name = self.popular();
                self.client.ask(name);
            }
            answered += self.client.exchange(Duration::from_millis(20)).len();
            self.client.give_up_after(Duration::from_millis(500));
            other.keep();
        }
        answered
    }

    /// Seconds to read both entries of a chain from the store alone.
    fn bare_read_s(&mut self) -> f64 {
        let names: Vec<Name> = (0..50_000).map(|_| self.popular()).collect();
        let begin = Instant::now();
        for name in &names {
            let entry = self.store.entry(name).expect("a store").expect("an entry");
            let via = entry.route(now_s()).and_then(|it| it.statement.hands_on_to());
            black_box(self.store.entry(&via.expect("a route")).expect("a store"));
        }
        begin.elapsed().as_secs_f64() / names.len() as f64
    }

    /// Has who asks and the directory run before all others on their cores. Whether both may.
    fn go_first(&self, is_first: bool) -> bool {
        [0, self.serving.thread_id].map(|thread| pin::go_first(thread, is_first)) == [true; 2]
    }

    /// How long look-ups take that come at this rate.
    fn waits(&mut self, per_s: f64, other: &mut Self) -> Waits {
        self.ask_for(SLICE, other);
        self.client.under_way.clear();
        let before = self.serving.turns();
        let kept_before = self.serving.kept_waiting();
        let begin = Instant::now();
        let (mut sent, mut waited) = (0u64, Vec::new());
        while begin.elapsed() < 2 * SLICE {
            let due = (begin.elapsed().as_secs_f64() * per_s) as u64;
            // Who asks takes what came before he asks on, also when he was kept from both.
            let now_sent = due.min(sent + AT_A_TIME);
            for _ in sent..now_sent {
                let name = self.popular();
                self.client.ask(name);
            }
            sent = now_sent;
            waited.extend(self.client.exchange(Duration::from_micros(50)));
            other.keep();
        }
        let begin = Instant::now();
        while !self.client.under_way.is_empty() && begin.elapsed() < SLICE {
            waited.extend(self.client.exchange(Duration::from_millis(20)));
        }
        let turns = self.serving.turns_since(before);
        let kept = self.serving.kept_waiting().saturating_sub(kept_before);
        let lost = self.client.under_way.len() as f64;
        self.client.under_way.clear();
        waited.sort();
        let at = |part: f64| waited[(waited.len() as f64 * part) as usize].as_secs_f64() * 1e3;
        let over_1_ms = turns.over_1_ms as f64 / turns.count.max(1) as f64;
        let kept_waiting = kept.as_secs_f64() / (2 * SLICE).as_secs_f64();
        let [p50_ms, p99_ms] = [0.5, 0.99].map(at);
        Waits { p50_ms, p99_ms, lost, over_1_ms, longest: turns.longest_ms, kept_waiting }
    }
}

/// Of all rounds the medians, but of what was lost the sum, and of turns the longest.
struct Waits {
    p50_ms: f64,
    p99_ms: f64,
    lost: f64,
    /// Of the directory's turns, the part that took its processor more than 1 ms.
    over_1_ms: f64,
    /// The longest of them, in milliseconds of its processor.
    longest: f64,
    /// The part of the time that the directory's thread was to run and others had its core.
    kept_waiting: f64,
}

impl Waits {
    fn of(rounds: &[Self]) -> Self {
        let of = |what: fn(&Self) -> f64| median(rounds.iter().map(what));
        Self {
            p50_ms: of(|it| it.p50_ms),
            p99_ms: of(|it| it.p99_ms),
            lost: rounds.iter().map(|it| it.lost).sum(),
            over_1_ms: of(|it| it.over_1_ms),
            longest: rounds.iter().map(|it| it.longest).fold(0.0, f64::max),
            kept_waiting: of(|it| it.kept_waiting),
        }
    }
}

/// Puts so many names into a store, with a route to one of the routers each, which have addresses.
fn fill(store: &mut Embedded, count: usize) -> Vec<Name> {
    let routers: Vec<Metadata> =
        (0..count.div_ceil(NAMES_A_ROUTER)).map(|at| metadata(Role::Router, at)).collect();
    let locator = Locator::new(SocketAddr::from(([192, 0, 2, 1], 4000))).expect("usable");
    let entries = routers.iter().map(|it| entry(it, Statement::Locator(locator)));
    let mut changes: Vec<Change> = entries.collect();
    let mut names = Vec::with_capacity(count);
    for at in 0..count {
        let metadata = metadata(Role::Node, at);
        let via = name_of(&routers[at / NAMES_A_ROUTER]);
        changes.push(entry(&metadata, Statement::Route { via, scope: Scope::Any }));
        names.push(changes[changes.len() - 1].name);
        if changes.len() >= 200_000 {
            write(store, &mut changes);
        }
    }
    write(store, &mut changes);
    names
}

fn write(store: &mut Embedded, changes: &mut Vec<Change>) {
    changes.sort_by_key(|change| change.name);
    store.commit(changes).expect("written");
    changes.clear();
}

fn entry(metadata: &Metadata, statement: Statement) -> Change {
    let name = name_of(metadata);
    let entry = unsigned::entry(metadata, statement, name, now_s());
    Change { name, before: None, after: Some(entry) }
}

/// Turns of the directory, of up to 64 datagrams each, by the time of its own processor: what it
/// makes others wait, whoever else wants the machine.
#[derive(Clone, Copy, Default)]
struct Turns {
    count: u64,
    over_1_ms: u64,
    longest_ms: f64,
}

impl Turns {
    fn note(&mut self, ms: f64) {
        self.count += 1;
        self.over_1_ms += u64::from(ms > 1.0);
        self.longest_ms = self.longest_ms.max(ms);
    }
}

/// A directory on a thread of its own.
struct Serving {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    cpu_ns: Arc<AtomicU64>,
    turns: Arc<Mutex<Turns>>,
    /// Where the system counts what the thread waited for its processor.
    account: PathBuf,
    thread_id: i32,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Serving {
    fn start(mut server: Server<Embedded>) -> Self {
        let mut socket = bind(rhumb_rib::BATCH_DATAGRAMS);
        let address = socket.local_address();
        let (is_over, cpu_ns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (over, cpu) = (is_over.clone(), cpu_ns.clone());
        let turns = Arc::new(Mutex::new(Turns::default()));
        let noted = turns.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let run = move || {
            pin::pin_to(1 % pin::cores());
            tell.send(std::fs::read_link("/proc/thread-self").expect("a thread")).expect("heard");
            let mut batch = Batch::new();
            while !over.load(Ordering::Relaxed) {
                let ready = socket.wait(Some(Duration::from_millis(5)), None).expect("a wait");
                let now = now();
                if ready.readable {
                    batch.clear();
                    socket.receive(&mut batch).expect("received");
                    server.handle_batch(&mut batch, now);
                    socket.send(&batch).expect("sent");
                }
                if server.poll_timeout().is_some_and(|due| due <= now.instant) {
                    server.handle_timeout(now);
                    batch.clear();
                    server.poll_transmit(&mut batch);
                    socket.send(&batch).expect("sent");
                }
                let spent = cpu_ns_of_thread();
                let turn = spent - cpu.swap(spent, Ordering::Relaxed);
                noted.lock().expect("nobody panics").note(turn as f64 / 1e6);
            }
        };
        let thread = Some(std::thread::spawn(run));
        let told: PathBuf = told.recv().expect("told");
        let thread_id = told.file_name().and_then(|it| it.to_str()?.parse().ok());
        let thread_id = thread_id.expect("a thread is a number");
        let account = Path::new("/proc").join(told).join("schedstat");
        Self { address, is_over, cpu_ns, turns, account, thread_id, thread }
    }

    /// How long it was to run and did not, since others had its core. Source: the kernel's
    /// documentation of scheduler statistics.
    fn kept_waiting(&self) -> Duration {
        let account = std::fs::read_to_string(&self.account).unwrap_or_default();
        let waited = account.split_whitespace().nth(1).and_then(|it| it.parse().ok());
        Duration::from_nanos(waited.unwrap_or(0))
    }

    /// Its turns so far; the longest one begins anew.
    fn turns(&self) -> Turns {
        let mut turns = self.turns.lock().expect("nobody panics");
        turns.longest_ms = 0.0;
        *turns
    }

    fn turns_since(&self, before: Turns) -> Turns {
        let Turns { count, over_1_ms, longest_ms } = *self.turns.lock().expect("nobody panics");
        Turns { count: count - before.count, over_1_ms: over_1_ms - before.over_1_ms, longest_ms }
    }

    /// Seconds of the processor so far.
    fn cpu(&self) -> f64 {
        self.cpu_ns.load(Ordering::Relaxed) as f64 / 1e9
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it ends well");
        }
    }
}

/// Who asks.
struct Client {
    endpoint: Endpoint,
    socket: UdpSocket,
    session: SessionId,
    own: Name,
    rib: Name,
    next_id: u32,
    under_way: HashMap<RequestId, Instant>,
    outgoing: Batch,
    incoming: Batch,
}

impl Client {
    fn connect(address: SocketAddr, rib: Name) -> Self {
        let identity = Arc::new(Identity::generate(Role::Router, 0).expect("a key"));
        let own = identity.name();
        let link = rhumb_link::Config::default();
        let mut endpoint =
            Endpoint::new(identity, link, [9; 32], Instant::now()).expect("an endpoint");
        let (mut socket, mut batch) = (bind(rhumb_io::udp::BATCH_DATAGRAMS), Batch::new());
        endpoint.connect(address, Some(rib), Instant::now());
        for _ in 0..1000 {
            batch.clear();
            endpoint.poll_transmit(&mut batch);
            socket.send(&batch).expect("sent");
            if let Some(session) = endpoint.session_of(&rib) {
                let (outgoing, incoming) = (Batch::new(), Batch::new());
                let under_way = HashMap::new();
                return Self {
                    endpoint,
                    socket,
                    session,
                    own,
                    rib,
                    next_id: 0,
                    under_way,
                    outgoing,
                    incoming,
                };
            }
            if socket.wait(Some(Duration::from_millis(10)), None).expect("a wait").readable {
                batch.clear();
                socket.receive(&mut batch).expect("received");
                for at in 0..batch.len() {
                    let (from, datagram) = batch.datagram_mut(at);
                    if let Ok(handshake) = Datagram::parse(datagram) {
                        let _ = endpoint.handle_handshake(from, handshake, Instant::now());
                    }
                }
            }
            endpoint.handle_timeout(Instant::now());
        }
        panic!("no session");
    }

    /// Has a look-up sent with the next exchange.
    fn ask(&mut self, name: Name) {
        self.next_id = self.next_id.wrapping_add(1);
        let id = RequestId(self.next_id);
        let mut data = Vec::new();
        RibRequest { id, body: RibRequestBody::LookUpRoute(name) }.emit(&mut data);
        let mut datagram = vec![0; RecordHeader::LEN];
        let header = PduHeader::new(Action::RibRequest, self.own, self.rib);
        header.emit(&data, &[], &mut datagram).expect("it fits");
        datagram.resize(datagram.len() + RECORD_OVERHEAD - RecordHeader::LEN, 0);
        let to = self.endpoint.seal(self.session, &mut datagram, Instant::now()).expect("sealed");
        self.outgoing.push(to, &datagram);
        self.under_way.insert(id, Instant::now());
        if self.outgoing.len() >= 64 {
            self.send();
        }
    }

    fn send(&mut self) {
        self.socket.send(&self.outgoing).expect("sent");
        self.outgoing.clear();
    }

    /// Sends what is to be sent, and takes what is answered within this time: after how long.
    fn exchange(&mut self, within: Duration) -> Vec<Duration> {
        self.send();
        let mut waited = Vec::new();
        if !self.socket.wait(Some(within), None).expect("a wait").readable {
            return waited;
        }
        self.incoming.clear();
        self.socket.receive(&mut self.incoming).expect("received");
        let now = Instant::now();
        for at in 0..self.incoming.len() {
            let (from, datagram) = self.incoming.datagram_mut(at);
            let Ok(opened) = self.endpoint.open(from, datagram, now) else { continue };
            let Ok(pdu) = Pdu::parse(&datagram[opened.plaintext]) else { continue };
            let response = RibResponse::parse(pdu.data()).expect("a response");
            let RibResponseBody::Found { certificates, .. } = response.body else {
                panic!("{:?} is no way", response.body)
            };
            assert_eq!(certificates.len(), 2);
            waited.extend(self.under_way.remove(&response.id).map(|sent| now - sent));
        }
        waited
    }

    /// Datagrams may be lost: a queue of the kernel was full.
    fn give_up_after(&mut self, time: Duration) {
        if self.under_way.len() >= WINDOW {
            self.under_way.retain(|_, sent| sent.elapsed() < time);
        }
    }
}

/// Seconds to open a record of a question, and to seal one of an answer.
fn sealing_s() -> f64 {
    let [mut a, mut b] = [Role::Router, Role::Rib].map(|role| {
        let identity = Arc::new(Identity::generate(role, 0).expect("a key"));
        let link = rhumb_link::Config::default();
        (
            Endpoint::new(identity.clone(), link, [1; 32], Instant::now()).expect("an endpoint"),
            identity,
        )
    });
    let [at_a, at_b]: [SocketAddr; 2] = [([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 1).into()];
    a.0.connect(at_b, None, Instant::now());
    let mut batch = Batch::new();
    while a.0.session_of(&b.1.name()).is_none() || b.0.session_of(&a.1.name()).is_none() {
        for turn in 0..2 {
            let (from, to, address) =
                if turn == 0 { (&mut a.0, &mut b.0, at_a) } else { (&mut b.0, &mut a.0, at_b) };
            batch.clear();
            from.poll_transmit(&mut batch);
            for at in 0..batch.len() {
                let (_, datagram) = batch.datagram_mut(at);
                if let Ok(handshake) = Datagram::parse(datagram) {
                    let _ = to.handle_handshake(address, handshake, Instant::now());
                }
            }
        }
    }
    let (to_b, to_a) = (a.0.session_of(&b.1.name()), b.0.session_of(&a.1.name()));
    let (to_b, to_a) = (to_b.expect("a session"), to_a.expect("a session"));
    const RECORDS: usize = 50_000;
    let question = RECORD_OVERHEAD + PduHeader::LEN + 5 + Name::LEN;
    let mut questions = vec![vec![0; question]; RECORDS];
    for datagram in &mut questions {
        a.0.seal(to_b, datagram, Instant::now()).expect("sealed");
    }
    let mut answer = vec![0; question + 450];
    let begin = Instant::now();
    for datagram in &mut questions {
        black_box(b.0.open(at_a, datagram, begin).expect("opened"));
        black_box(b.0.seal(to_a, &mut answer, begin).expect("sealed"));
    }
    begin.elapsed().as_secs_f64() / RECORDS as f64
}

/// Orders that are made durable in a second of the processor, signatures left out: they are
/// verified on another thread, and counted there.
fn published_per_cpu_s(folder: &Path) -> f64 {
    const NAMES: usize = 20_000;
    let mut config = Config::default();
    config.signatures_per_admitted_per_s = u32::MAX;
    let store = Embedded::open(&folder.join("published")).expect("a store");
    let identity = Arc::new(Identity::generate(Role::Rib, 0).expect("a key"));
    let mut disk = store.share();
    let mut rib = Rib::new(identity, store, config);
    let holders: Vec<Identity> =
        (0..NAMES).map(|_| Identity::generate(Role::Node, 0).expect("a key")).collect();
    let address = SocketAddr::from(([192, 0, 2, 1], 4000));
    let locator = Statement::Locator(Locator::new(address).expect("usable"));
    let mut rates = Vec::new();
    for round in 0..=ROUNDS as u64 {
        let order = |holder: &Identity| {
            let window = Window::starting(now_s(), 600);
            let said = holder.certify(locator, now_s() * 1000 + round, window).expect("signed");
            let metadata = vec![(**holder.metadata()).clone()];
            let body = RibRequestBody::Publish { metadata, certificates: vec![said] };
            let mut data = Vec::new();
            RibRequest { id: RequestId(1), body }.emit(&mut data);
            data
        };
        let orders: Vec<Vec<u8>> = holders.iter().map(order).collect();
        let mut spent = 0.0;
        for orders in orders.chunks(PUBLISHED_AT_ONCE) {
            let begin = cpu_ns_of_thread();
            for order in orders {
                let asker = Asker::admitted(Name([0xA5; 32]), 1300);
                assert!(matches!(rib.handle_request(asker, order, now_s()), Outcome::Staged(_)));
            }
            spent += (cpu_ns_of_thread() - begin) as f64;
            let tasks = std::iter::from_fn(|| rib.poll_verification());
            let verdicts: Vec<_> = tasks.map(rhumb_rib::Verification::run).collect();
            let begin = cpu_ns_of_thread();
            for verdict in verdicts {
                rib.handle_verified(verdict);
            }
            while let Some(commit) = rib.poll_commit() {
                let committed = commit.run(&mut disk);
                rib.handle_committed(committed);
            }
            let stored = std::iter::from_fn(|| rib.poll_answer())
                .filter(|(_, answer)| answer.body == RibResponseBody::Stored);
            assert_eq!(stored.count(), orders.len());
            spent += (cpu_ns_of_thread() - begin) as f64;
        }
        // The first round makes the names.
        if round > 0 {
            rates.push(NAMES as f64 / (spent / 1e9));
        }
    }
    median(rates.into_iter())
}

fn bind(batch_datagrams: usize) -> UdpSocket {
    let options = Options { batch_datagrams, ..Options::default() };
    UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)), options).expect("a socket")
}

fn cpu_ns_of_thread() -> u64 {
    thread_cpu::now().as_nanos() as u64
}

fn now() -> Now {
    let unix_ms = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_millis() as u64;
    Now { instant: Instant::now(), unix_ms }
}

fn now_s() -> u64 {
    now().unix_s()
}
