//! Both servers on a thread each, joined by a [`channel`](crate::channel), and members on the
//! bench's own thread, joined to them by queues in memory. The roster has 750 sites, of which a few
//! are connected: what more of them cost the servers is a copy of each message and its encryption,
//! which is left out, and what they cost themselves is their own machines'.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rhumb_exchange::{
    Common, Connection, Destination, Event, Hello, Lane, LaneSet, Member, Output, Party, Roster,
    Route, RouteId, Server, ServerConfig, Site,
};
use rhumb_mpc::Seed;
use rustix::event::{EventfdFlags, eventfd};

use crate::channel::{self, Channel};
use crate::table::MEMBERS;

enum Incoming {
    Joined { lane: Lane, participates: bool },
    Member { lane: Lane, message: Vec<u8> },
    Stop,
}

/// The way to a server that waits for its socket: it is woken if it sleeps.
struct Inbox {
    sender: mpsc::Sender<Incoming>,
    bell: Arc<Bell>,
}

struct Bell {
    is_asleep: AtomicBool,
    event: OwnedFd,
}

impl Inbox {
    fn send(&self, incoming: Incoming) {
        // Also a server that has ended is told to stop.
        drop(self.sender.send(incoming));
        if self.bell.is_asleep.swap(false, Ordering::SeqCst) {
            rustix::io::write(&self.bell.event, &1_u64.to_ne_bytes()).expect("a counter has room");
        }
    }
}

/// What a server says to members, in pieces as they come.
type Said = (u32, Vec<(Lane, Vec<u8>)>);

/// A running exchange.
pub(crate) struct Exchange {
    config: Arc<ServerConfig>,
    /// Party one's first.
    servers: Vec<Inbox>,
    said: mpsc::Receiver<Said>,
    threads: Vec<JoinHandle<()>>,
    members: BTreeMap<Lane, Member>,
    /// Members that may have something to say.
    talking: BTreeSet<Lane>,
    /// Which members' hellos came.
    met: BTreeSet<(Lane, u32)>,
    classes: BTreeMap<RouteId, u8>,
    incarnation: u64,
}

/// An event at a member.
pub(crate) struct Seen {
    pub(crate) lane: Lane,
    pub(crate) event: Event,
    pub(crate) at: Instant,
}

#[expect(clippy::disallowed_methods, reason = "a bench owns its clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

impl Exchange {
    /// Both servers are a pair; nobody is connected.
    pub(crate) fn start(shards: u16) -> Self {
        let sites = (0..MEMBERS as u32).map(|lane| {
            let mut key = [0; 32];
            key[..4].copy_from_slice(&lane.to_le_bytes());
            let (id, member) = (format!("site-{lane}"), format!("member {lane}"));
            Site { id, member, asn: 64512 + lane, key }
        });
        let roster = Roster::new(sites.collect()).expect("a roster");
        let mut common = Common::new(Arc::new(roster));
        common.shards = shards;
        let mut config = ServerConfig::new(common);
        // Most sites never come: nobody waits for them.
        config.settle = Duration::from_millis(100);
        let config = Arc::new(config);
        let channels = channel::pair(Duration::ZERO, now()).expect("loopback");
        let hello = |party| config.hello(party, [party as u8; 32]);
        let (one, two) = (hello(Party::One), hello(Party::Two));
        let epoch = config.check_party(&one, &two).expect("alike");
        let (said, heard) = mpsc::channel();
        let mut threads = Vec::new();
        let servers = channels.into_iter().zip([Party::One, Party::Two]).map(|(channel, party)| {
            let (sender, inbox) = mpsc::channel();
            let (config, said) = (Arc::clone(&config), said.clone());
            let event = eventfd(0, EventfdFlags::NONBLOCK).expect("a descriptor");
            let bell = Arc::new(Bell { is_asleep: AtomicBool::new(false), event });
            let ears = Ears { inbox, bell: Arc::clone(&bell), peer: channel };
            threads.push(spawn(move || serve(party, &config, epoch, ears, &said)));
            Inbox { sender, bell }
        });
        let servers = servers.collect();
        Self {
            servers,
            config,
            said: heard,
            threads,
            members: BTreeMap::new(),
            talking: BTreeSet::new(),
            met: BTreeSet::new(),
            classes: BTreeMap::new(),
            incarnation: 1,
        }
    }

    /// A member comes, and has said all that it announces at first: nothing.
    pub(crate) fn connect(&mut self, lane: Lane) {
        self.incarnation += 1;
        let mut seed = [3; 32];
        seed[..8].copy_from_slice(&self.incarnation.to_le_bytes());
        let common = self.config.common.clone();
        let mut member =
            Member::new(common, lane, true, self.incarnation, seed).expect("of the roster");
        for (number, party) in PARTIES {
            member.connected(Connection(number), party);
            let hello = self.config.hello(party, [party as u8; 32]).emit();
            member.handle(Connection(number), &hello).expect("alike");
        }
        member.end_of_table();
        self.members.insert(lane, member);
        self.talking.insert(lane);
    }

    pub(crate) fn connected(&self) -> usize {
        self.members.len()
    }

    /// Announces to all; members give it this class.
    pub(crate) fn announce(&mut self, lane: Lane, to: &Destination, class: u8) -> RouteId {
        let policy = LaneSet::all_but(&self.config.common.roster, lane);
        // As long as attributes of BGP usually are.
        let route = Route::new(&[class; 60]).expect("short");
        let member = self.members.get_mut(&lane).expect("connected");
        let id = member.announce(to, &policy, &route).expect("within its bounds");
        self.classes.insert(id, class);
        self.talking.insert(lane);
        id
    }

    pub(crate) fn withdraw(&mut self, lane: Lane, to: &Destination) {
        self.members.get_mut(&lane).expect("connected").withdraw(to);
        self.talking.insert(lane);
    }

    /// Carries what there is to carry, and waits for more until `until`; gives what members saw.
    pub(crate) fn step(&mut self, until: Instant, seen: &mut Vec<Seen>) {
        self.listen();
        let wait = until.saturating_duration_since(now());
        let mut said = match self.said.recv_timeout(wait) {
            Ok(said) => Some(said),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("a server has ended"),
        };
        while let Some((server, messages)) = said {
            for (lane, message) in messages {
                let Some(member) = self.members.get_mut(&lane) else { continue };
                member.handle(Connection(server), &message).expect("servers keep the protocol");
                self.talking.insert(lane);
                let at = now();
                while let Some(event) = member.poll_event() {
                    if let Event::Rank { round, candidates, .. } = &event {
                        let class = |id| self.classes.get(id).copied().unwrap_or(1);
                        let classes: Vec<(RouteId, u8)> =
                            candidates.iter().map(|route| (route.id, class(&route.id))).collect();
                        member.rank(*round, &classes);
                    }
                    seen.push(Seen { lane, event, at });
                }
            }
            said = self.said.try_recv().ok();
        }
        self.listen();
    }

    /// Carries what members say.
    fn listen(&mut self) {
        for lane in std::mem::take(&mut self.talking) {
            let Some(member) = self.members.get_mut(&lane) else { continue };
            for (number, _) in PARTIES {
                let server = &self.servers[number as usize];
                while let Some(message) = member.poll_message(Connection(number)) {
                    let incoming = if self.met.insert((lane, number)) {
                        let hello = Hello::parse(&message).expect("a hello");
                        let participates = self.config.check_member(&hello, lane).expect("alike");
                        Incoming::Joined { lane, participates }
                    } else {
                        Incoming::Member { lane, message }
                    };
                    server.send(incoming);
                }
            }
        }
    }

    pub(crate) fn stop(self) {
        for server in &self.servers {
            server.send(Incoming::Stop);
        }
        drop(self.said);
        self.threads.into_iter().for_each(|thread| thread.join().expect("it ends well"));
    }
}

/// What a server listens to.
struct Ears {
    inbox: mpsc::Receiver<Incoming>,
    bell: Arc<Bell>,
    peer: Channel,
}

impl Ears {
    /// Takes what is there, of each a bounded number, so that what comes of it goes
    /// out: a run serves several announcements. Gives how much it was, and nothing
    /// when this server is to stop, or the other has.
    fn hear(&mut self, server: &mut Server) -> Option<usize> {
        let (mut heard, mut message) = (0, Vec::new());
        self.peer.read().ok()?;
        while heard < AT_ONCE && self.peer.receive(&mut message) {
            server.peer_message(&message, now()).expect("a shard that is there");
            heard += 1;
        }
        for incoming in self.inbox.try_iter().take(AT_ONCE) {
            heard += 1;
            if !take(server, incoming) {
                return None;
            }
        }
        Some(heard)
    }

    /// Waits for anything; nothing when the other server has ended.
    fn wait(&mut self, server: &mut Server) -> Option<()> {
        self.bell.is_asleep.store(true, Ordering::SeqCst);
        // What came before it was known to sleep rings no bell.
        let Ok(incoming) = self.inbox.try_recv() else {
            let waited = self.peer.wait(Some(self.bell.event.as_fd()), TICK);
            self.bell.is_asleep.store(false, Ordering::SeqCst);
            let _ = rustix::io::read(&self.bell.event, &mut [0; 8]);
            return waited.ok();
        };
        self.bell.is_asleep.store(false, Ordering::SeqCst);
        take(server, incoming).then_some(())
    }
}

/// A server's thread: what came, then what is to be done; triples while nothing comes.
fn serve(
    party: Party,
    config: &Arc<ServerConfig>,
    epoch: u64,
    mut ears: Ears,
    said: &mpsc::Sender<Said>,
) {
    let mut server = Server::new(party, config).expect("a configuration");
    // No secret is in a bench.
    let mut number = 0;
    let seed = || {
        number += 1;
        Seed::new([party as u8 + 2 * number; 32])
    };
    server.pair_begun(epoch, seed, now()).expect("the first pair");
    if party == Party::One {
        let preferences: Vec<u8> = (0..MEMBERS).map(|lane| (lane * 7 % 16) as u8).collect();
        server.set_preferences(&preferences).expect("one for each lane");
    }
    let number = party as u32 - 1;
    let mut tick = now() + TICK;
    loop {
        let mut messages = Vec::new();
        while let Some(output) = server.poll_output() {
            match output {
                Output::Member { lane, message } => messages.push((lane, message)),
                // The other party is stopped first, or second.
                Output::Peer(message) => drop(ears.peer.send(&message)),
                Output::PairFailed(error) | Output::MemberFailed { error, .. } => panic!("{error}"),
            }
        }
        if !messages.is_empty() && said.send((number, messages)).is_err() {
            break;
        }
        match ears.hear(&mut server) {
            None => break,
            Some(0) if server.refill() => {}
            Some(0) if ears.wait(&mut server).is_none() => break,
            Some(_) => {}
        }
        if tick <= now() {
            server.handle_timeout(now());
            tick = now() + TICK;
        }
    }
    ears.peer.close();
}

/// False when it is to stop.
fn take(server: &mut Server, incoming: Incoming) -> bool {
    match incoming {
        Incoming::Joined { lane, participates } => server.member_joined(lane, participates, now()),
        Incoming::Member { lane, message } => {
            server.member_message(lane, &message, now()).expect("members keep the protocol");
        }
        Incoming::Stop => return false,
    }
    true
}

#[expect(clippy::disallowed_methods, reason = "a bench owns its threads")]
fn spawn(work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    std::thread::spawn(work)
}

/// Resident memory of this process, MB.
pub(crate) fn resident_mb() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|line| line.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()));
    pages.unwrap_or(0.0) * 4096.0 / 1e6
}

const PARTIES: [(u32, Party); 2] = [(0, Party::One), (1, Party::Two)];
/// Of a server's clock, while nothing comes.
const TICK: Duration = Duration::from_millis(5);
/// Messages between two looks at what is to be sent.
const AT_ONCE: usize = 64;
