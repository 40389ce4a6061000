//! Both parties as a curious operator of both might watch them: the core's servers in one thread of
//! the test, with members of their own. They write down what real proxies say on each connection,
//! and when; another thread has the connections, so that times are those of arrival.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rhumb_channel::{Channel, Credentials, Listener, Outbox, Protocol};
use rhumb_exchange::{
    Common, Connection, Destination, Event, Hello, Lane, LaneSet, Member, Output, Party, Roster,
    Route, RouteId, Server, ServerConfig,
};
use rhumb_mpc::{FieldBits, Parameters, Seed};

use super::member::{SERVER, roster_of};
use super::{Exchange, PATIENCE};

/// One message between a real proxy and a party.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) at: Instant,
    pub(crate) party: Party,
    pub(crate) lane: u16,
    /// Of the proxy; otherwise of the party.
    pub(crate) is_proxys: bool,
    pub(crate) bytes: Vec<u8>,
}

/// Both parties, until dropped.
pub(crate) struct Parties {
    commands: Sender<Command>,
    addresses: [SocketAddr; 2],
    frames: Arc<Mutex<Vec<Frame>>>,
}

type Act = Box<dyn FnOnce(&mut Core) + Send>;

enum Command {
    Act(Act),
    Up { party: Party, lane: u16, outbox: Outbox },
    Said { at: Instant, party: Party, lane: u16, bytes: Vec<u8> },
    Down { party: Party, lane: u16 },
}

impl Parties {
    /// Of an exchange with so many members in its roster.
    pub(crate) fn start(exchange: &Exchange, members: usize) -> Self {
        let roster = Arc::new(roster_of(exchange, members));
        let (commands, inputs) = channel();
        let (addresses, bound) = channel();
        for (party, whose) in [(Party::One, "one"), (Party::Two, "two")] {
            let (credentials, commands) = (exchange.credentials(whose), commands.clone());
            let (addresses, keys) = (addresses.clone(), keys_of(exchange));
            std::thread::spawn(move || listen(party, &credentials, &keys, &addresses, &commands));
        }
        let mut addresses: Vec<_> = (0..2).map(|_| bound.recv().unwrap()).collect();
        addresses.sort_by_key(|(party, _)| *party as usize);
        let frames = Arc::default();
        let core = Core::new(roster, Arc::clone(&frames));
        std::thread::spawn(move || core.run(&inputs));
        Self { commands, addresses: [addresses[0].1, addresses[1].1], frames }
    }

    /// `exchange` and `neutral` of a proxy's settings.
    pub(crate) fn servers(&self, exchange: &Exchange) -> String {
        let [one, two] = self.addresses;
        let (name_one, name_two) = (exchange.name("one"), exchange.name("two"));
        format!("exchange = [\"{name_one}@{one}\"]\nneutral = [\"{name_two}@{two}\"]\n")
    }

    /// Does something with both parties and their members, and waits until it is done.
    pub(crate) fn act<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Core) -> T + Send + 'static,
    ) -> T {
        let (done, result) = channel();
        let act = move |core: &mut Core| {
            let result = act(core);
            core.go_on();
            done.send(result).unwrap();
        };
        self.commands.send(Command::Act(Box::new(act))).unwrap();
        result.recv_timeout(PATIENCE).unwrap()
    }

    /// Announces a route of one of the test's members, as proxies write it.
    pub(crate) fn announce(&self, from: u16, destination: Vec<u8>, to: &[u16], route: Vec<u8>) {
        let to: Vec<Lane> = to.iter().copied().map(Lane).collect();
        self.act(move |core| {
            let policy = LaneSet::of(&core.config.common.roster, to).unwrap();
            let (destination, route) =
                (Destination::new(&destination).unwrap(), Route::new(&route).unwrap());
            let member = core.members.get_mut(&from).unwrap();
            member.announce(&destination, &policy, &route).unwrap();
        });
    }

    pub(crate) fn frames(&self) -> Vec<Frame> {
        self.frames.lock().unwrap().clone()
    }

    /// Waits until what was said is as wanted.
    #[track_caller]
    pub(crate) fn wait_for<T>(&self, what: &str, mut find: impl FnMut(&[Frame]) -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(found) = find(&self.frames.lock().unwrap()) {
                return found;
            }
            assert!(begin.elapsed() < PATIENCE, "no {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until proxies have said nothing for a while, from
    /// now on, and the parties wait for nobody.
    #[track_caller]
    pub(crate) fn wait_for_quiet(&self) {
        let begin = Instant::now();
        let is_busy = |core: &mut Core| {
            let shards = core.servers.iter().flat_map(Server::status);
            shards.map(|shard| shard.rounds + shard.waiting).sum::<usize>() > 0
        };
        loop {
            self.wait_for("quiet", |frames| {
                let last = frames.iter().rev().find(|it| it.is_proxys).map_or(begin, |it| it.at);
                (last.max(begin).elapsed() > QUIET).then_some(())
            });
            if !self.act(is_busy) {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "never quiet");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn keys_of(exchange: &Exchange) -> Vec<[u8; 32]> {
    let identity = |number| exchange.identity(&format!("member-{number}")).name().0;
    let is_there = |number: &usize| exchange.place.path(&format!("member-{number}.key")).exists();
    (0..).take_while(is_there).map(identity).collect()
}

/// The connections of a party.
fn listen(
    party: Party,
    credentials: &Credentials,
    keys: &[[u8; 32]],
    addresses: &Sender<(Party, SocketAddr)>,
    commands: &Sender<Command>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let any = "127.0.0.1:0".parse().unwrap();
        let protocols = [Protocol { max_queue: 64 << 20, ..SERVER }];
        let mut listener = Listener::bind(any, credentials, &protocols, |_| true).await.unwrap();
        addresses.send((party, listener.local_addr().unwrap())).unwrap();
        loop {
            let Channel { peer, mut inbox, outbox, .. } = listener.accept().await;
            let lane = keys.iter().position(|key| *key == peer.0).unwrap() as u16;
            let commands = commands.clone();
            tokio::spawn(async move {
                let up = Command::Up { party, lane, outbox };
                let _ = commands.send(up);
                while let Ok(bytes) = inbox.next().await {
                    let at = Instant::now();
                    if commands.send(Command::Said { at, party, lane, bytes }).is_err() {
                        return;
                    }
                }
                let _ = commands.send(Command::Down { party, lane });
            });
        }
    });
}

/// Both servers, and members that live here.
pub(crate) struct Core {
    pub(crate) config: Arc<ServerConfig>,
    servers: [Server; 2],
    hellos: [Hello; 2],
    /// Connections of real proxies, and whether their hello was judged.
    lines: BTreeMap<(usize, u16), (Outbox, bool)>,
    pub(crate) members: BTreeMap<u16, Member>,
    frames: Arc<Mutex<Vec<Frame>>>,
    incarnation: u64,
}

const PARTIES: [Party; 2] = [Party::One, Party::Two];

impl Core {
    fn new(roster: Arc<Roster>, frames: Arc<Mutex<Vec<Frame>>>) -> Self {
        let mut config = ServerConfig::new(Common::new(roster));
        config.engine = Parameters { field: FieldBits::Two, bit_words: 4096, vector_words: 1024 };
        // However busy the machine is: nobody is given up, nor asked again because it is time.
        config.settle = PATIENCE;
        config.ranking = PATIENCE;
        config.pass = 60 * PATIENCE;
        let config = Arc::new(config);
        let mut servers = PARTIES.map(|party| Server::new(party, &config).unwrap());
        let hellos = PARTIES.map(|party| config.hello(party, [party as u8; 32]));
        let epoch = config.check_party(&hellos[0], &hellos[1]).unwrap();
        for (seed, server) in (3..).zip(&mut servers) {
            server.pair_begun(epoch, || Seed::new([seed; 32]), Instant::now()).unwrap();
        }
        let (lines, members) = (BTreeMap::new(), BTreeMap::new());
        Self { config, servers, hellos, lines, members, frames, incarnation: 0 }
    }

    fn run(mut self, inputs: &Receiver<Command>) {
        loop {
            match inputs.recv_timeout(Duration::from_millis(20)) {
                Ok(Command::Act(act)) => act(&mut self),
                Ok(Command::Up { party, lane, outbox }) => {
                    let hello = self.hellos[party as usize - 1].emit();
                    outbox.try_send(hello).unwrap();
                    self.lines.insert((party as usize - 1, lane), (outbox, false));
                }
                Ok(Command::Said { at, party, lane, bytes }) => self.said(at, party, lane, bytes),
                Ok(Command::Down { party, lane }) => {
                    self.lines.remove(&(party as usize - 1, lane));
                    self.servers[party as usize - 1].member_left(Lane(lane), Instant::now());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.go_on();
        }
    }

    fn said(&mut self, at: Instant, party: Party, lane: u16, bytes: Vec<u8>) {
        let number = party as usize - 1;
        let Some((_, is_met)) = self.lines.get_mut(&(number, lane)) else { return };
        let now = Instant::now();
        if *is_met {
            self.servers[number].member_message(Lane(lane), &bytes, now).unwrap();
        } else {
            *is_met = true;
            let hello = Hello::parse(&bytes).unwrap();
            let participates = self.config.check_member(&hello, Lane(lane)).unwrap();
            self.servers[number].member_joined(Lane(lane), participates, now);
        }
        self.frames.lock().unwrap().push(Frame { at, party, lane, is_proxys: true, bytes });
    }

    /// A member of the test's own is there, and has announced nothing.
    pub(crate) fn start_member(&mut self, lane: u16) {
        self.incarnation += 1;
        let common = self.config.common.clone();
        let seed = [lane as u8 + 50; 32];
        let mut member = Member::new(common, Lane(lane), true, self.incarnation, seed).unwrap();
        for (number, party) in PARTIES.into_iter().enumerate() {
            let connection = Connection(number as u32);
            member.connected(connection, party);
            let hello = Hello::parse(&member.poll_message(connection).unwrap()).unwrap();
            member.handle(connection, &self.hellos[number].emit()).unwrap();
            let participates = self.config.check_member(&hello, Lane(lane)).unwrap();
            self.servers[number].member_joined(Lane(lane), participates, Instant::now());
        }
        member.end_of_table();
        self.members.insert(lane, member);
    }

    /// Another roster: proxies that have not read it go on.
    pub(crate) fn set_roster(&mut self, roster: Arc<Roster>) {
        let mut config = (*self.config).clone();
        config.common.roster = roster;
        self.config = Arc::new(config);
        for server in &mut self.servers {
            server.set_roster(&self.config, Instant::now()).unwrap();
        }
        self.hellos = PARTIES.map(|party| self.config.hello(party, [party as u8 + 10; 32]));
        let epoch = self.config.check_party(&self.hellos[0], &self.hellos[1]).unwrap();
        for (seed, server) in (7..).zip(&mut self.servers) {
            server.pair_begun(epoch, || Seed::new([seed; 32]), Instant::now()).unwrap();
        }
        for member in self.members.values_mut() {
            member.set_roster(Arc::clone(&self.config.common.roster)).unwrap();
        }
    }

    /// Until nobody here has anything to say.
    fn go_on(&mut self) {
        let now = Instant::now();
        for server in &mut self.servers {
            if server.poll_timeout().is_some_and(|due| due <= now) {
                server.handle_timeout(now);
            }
        }
        let mut is_quiet = false;
        while !std::mem::replace(&mut is_quiet, true) {
            for number in 0..PARTIES.len() {
                let connection = Connection(number as u32);
                for (lane, member) in &mut self.members {
                    while let Some(message) = member.poll_message(connection) {
                        let server = &mut self.servers[number];
                        server.member_message(Lane(*lane), &message, now).unwrap();
                        is_quiet = false;
                    }
                }
                while let Some(output) = self.servers[number].poll_output() {
                    self.put_out(number, output);
                    is_quiet = false;
                }
            }
        }
    }

    fn put_out(&mut self, number: usize, output: Output) {
        match output {
            Output::Peer(bytes) => {
                self.servers[1 - number].peer_message(&bytes, Instant::now()).unwrap();
            }
            Output::Member { lane, message } => match self.members.get_mut(&lane.0) {
                Some(member) => {
                    member.handle(Connection(number as u32), &message).unwrap();
                    rank_alike(member);
                }
                None => self.tell_proxy(number, lane.0, message),
            },
            Output::PairFailed(error) | Output::MemberFailed { error, .. } => panic!("{error}"),
        }
    }

    fn tell_proxy(&mut self, number: usize, lane: u16, bytes: Vec<u8>) {
        let Some((outbox, _)) = self.lines.get(&(number, lane)) else { return };
        let (at, party) = (Instant::now(), PARTIES[number]);
        let _ = outbox.try_send(bytes.clone());
        self.frames.lock().unwrap().push(Frame { at, party, lane, is_proxys: false, bytes });
    }
}

fn rank_alike(member: &mut Member) {
    while let Some(event) = member.poll_event() {
        if let Event::Rank { round, candidates, .. } = event {
            let classes: Vec<(RouteId, u8)> = candidates.iter().map(|it| (it.id, 15)).collect();
            member.rank(round, &classes);
        }
    }
}

/// Longer than a proxy takes to say what follows from what it heard.
const QUIET: Duration = Duration::from_millis(1000);
