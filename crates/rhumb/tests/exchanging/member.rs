//! A member as the tests play it: the core's `Member` over channels, on a thread of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rhumb_channel::{Credentials, Outbox, Protocol, connect};
use rhumb_exchange::{
    Candidate, Common, Connection, Destination, Event, Lane, LaneSet, MAX_MEMBER_MESSAGE, Member,
    Party, Roster, Route, RouteId, Site,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Exchange, PATIENCE, Server};

/// What members speak.
pub(crate) const SERVER: Protocol = Protocol {
    name: "rhumb-exchange-member/1",
    max_received: MAX_MEMBER_MESSAGE,
    max_sent: MAX_MEMBER_MESSAGE,
    max_queue: 16 << 20,
};

/// What a member has learned.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    /// By destination and announcer.
    pub(crate) routes: BTreeMap<(String, u16), (RouteId, String)>,
    /// Destinations with a selection, and whose route it is.
    pub(crate) selected: BTreeMap<String, Option<u16>>,
    pub(crate) retracted: usize,
    pub(crate) is_synced: bool,
    /// Rounds that went on without it.
    pub(crate) missed: usize,
    /// Rounds that it was asked in.
    pub(crate) asked: usize,
    /// Errors of its connections.
    pub(crate) errors: Vec<String>,
}

/// A member that runs. It ends when dropped, without a goodbye.
pub(crate) struct Playing {
    pub(crate) lane: u16,
    roster: Arc<Roster>,
    commands: UnboundedSender<Command>,
    seen: Arc<Mutex<Seen>>,
}

type Act = Box<dyn FnOnce(&mut Member) + Send>;

enum Command {
    Act(Act),
    Up(Connection, Outbox),
    Said(Connection, Vec<u8>),
    Down(Connection, String),
}

/// How a member ranks: its class for each candidate, 15 the best.
pub(crate) type Taste = fn(&[Candidate]) -> Vec<u8>;

/// Likes all alike.
pub(crate) fn indifferent(candidates: &[Candidate]) -> Vec<u8> {
    vec![15; candidates.len()]
}

/// Likes those of the last lane best.
pub(crate) fn last(candidates: &[Candidate]) -> Vec<u8> {
    let most = candidates.iter().map(|candidate| candidate.from).max();
    candidates.iter().map(|it| if Some(it.from) == most { 15 } else { 3 }).collect()
}

/// Does not answer at all.
pub(crate) fn silent(_: &[Candidate]) -> Vec<u8> {
    Vec::new()
}

impl Playing {
    /// A member of an exchange with so many members,
    /// connected to these servers for as long as it lives.
    pub(crate) fn start(
        exchange: &Exchange,
        lane: u16,
        members: usize,
        servers: &[&Server],
        taste: Taste,
    ) -> Self {
        let roster = Arc::new(roster_of(exchange, members));
        let common = Common { shards: 2, ..Common::new(Arc::clone(&roster)) };
        let identity = exchange.identity(&format!("member-{lane}"));
        let seed: [u8; 32] = std::array::from_fn(|_| rand_byte());
        // Greater with each process, as the time is.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let incarnation = now.as_micros() as u64;
        let member = Member::new(common, Lane(lane), true, incarnation, seed).unwrap();
        let (commands, inputs) = unbounded_channel();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let ways: Vec<Way> = servers
            .iter()
            .enumerate()
            .map(|(number, server)| Way {
                connection: Connection(number as u32),
                address: server.address,
                name: server.name,
                credentials: Credentials::new(&identity).unwrap(),
                commands: commands.downgrade(),
            })
            .collect();
        let parties: Vec<Party> = servers.iter().map(|server| server.party).collect();
        let player =
            Player { member, parties, outboxes: BTreeMap::new(), seen: Arc::clone(&seen), taste };
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                for way in ways {
                    tokio::spawn(way.keep());
                }
                player.play(inputs).await;
            });
        });
        Self { lane, roster, commands, seen }
    }

    /// Has the roster of so many members from now on.
    pub(crate) fn take_roster(&mut self, exchange: &Exchange, members: usize) {
        self.roster = Arc::new(roster_of(exchange, members));
        let roster = Arc::clone(&self.roster);
        self.act(move |member| member.set_roster(roster).unwrap());
    }

    pub(crate) fn act(&self, act: impl FnOnce(&mut Member) + Send + 'static) {
        let _ = self.commands.send(Command::Act(Box::new(act)));
    }

    /// Announces a route to these lanes.
    pub(crate) fn announce(&self, destination: &str, to: &[u16], route: &str) {
        let (destination, to) = (self::destination(destination), to.to_vec());
        let route = Route::new(route.as_bytes()).unwrap();
        let roster = Arc::clone(&self.roster);
        self.act(move |member| {
            let policy = LaneSet::of(&roster, to.into_iter().map(Lane)).unwrap();
            member.announce(&destination, &policy, &route).unwrap();
        });
    }

    pub(crate) fn withdraw(&self, destination: &str) {
        let destination = self::destination(destination);
        self.act(move |member| {
            member.withdraw(&destination);
        });
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until what it has learned is as wanted.
    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, mut is_so: impl FnMut(&Seen) -> bool) -> Seen {
        let start = Instant::now();
        loop {
            let seen = self.seen();
            if is_so(&seen) {
                return seen;
            }
            assert!(start.elapsed() < PATIENCE, "member {}: no {what}: {seen:#?}", self.lane);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until it has exactly these routes: destination, announcer, text.
    #[track_caller]
    pub(crate) fn wait_for_routes(&self, routes: &[(&str, u16, &str)]) {
        self.wait_for(&format!("table {routes:?}"), |seen| {
            let has = seen
                .routes
                .iter()
                .map(|((to, from), (_, text))| (to.as_str(), *from, text.as_str()));
            has.eq(routes.iter().copied())
        });
    }
}

pub(crate) fn destination(text: &str) -> Destination {
    Destination::new(text.as_bytes()).unwrap()
}

/// A connection that is made again whenever it ends.
struct Way {
    connection: Connection,
    address: std::net::SocketAddr,
    name: rhumb_wire::Name,
    credentials: Credentials,
    commands: tokio::sync::mpsc::WeakUnboundedSender<Command>,
}

impl Way {
    async fn keep(self) {
        loop {
            if let Ok(mut channel) =
                connect(&self.credentials, self.address, self.name, &SERVER).await
            {
                self.tell(Command::Up(self.connection, channel.outbox));
                let end = loop {
                    match channel.inbox.next().await {
                        Ok(message) => self.tell(Command::Said(self.connection, message)),
                        Err(error) => break error.to_string(),
                    }
                };
                self.tell(Command::Down(self.connection, end));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn tell(&self, command: Command) {
        if let Some(commands) = self.commands.upgrade() {
            let _ = commands.send(command);
        }
    }
}

struct Player {
    member: Member,
    parties: Vec<Party>,
    outboxes: BTreeMap<Connection, Outbox>,
    seen: Arc<Mutex<Seen>>,
    taste: Taste,
}

impl Player {
    /// Until whoever plays is dropped.
    async fn play(mut self, mut inputs: UnboundedReceiver<Command>) {
        while let Some(command) = inputs.recv().await {
            match command {
                Command::Act(act) => act(&mut self.member),
                Command::Up(connection, outbox) => {
                    self.outboxes.insert(connection, outbox);
                    self.member.connected(connection, self.parties[connection.0 as usize]);
                }
                Command::Said(connection, message) => {
                    if let Err(error) = self.member.handle(connection, &message) {
                        self.seen.lock().unwrap().errors.push(error.to_string());
                        self.outboxes.remove(&connection);
                        self.member.disconnected(connection);
                    }
                }
                Command::Down(connection, error) => {
                    self.seen.lock().unwrap().errors.push(error);
                    self.outboxes.remove(&connection);
                    self.member.disconnected(connection);
                }
            }
            self.go_on();
        }
    }

    fn go_on(&mut self) {
        while let Some(event) = self.member.poll_event() {
            self.learn(event);
        }
        for (connection, outbox) in &self.outboxes {
            while let Some(message) = self.member.poll_message(*connection) {
                let _ = outbox.try_send(message);
            }
        }
    }

    fn learn(&mut self, event: Event) {
        let text =
            |destination: &Destination| String::from_utf8(destination.as_bytes().to_vec()).unwrap();
        let mut seen = self.seen.lock().unwrap();
        match event {
            Event::Offered { destination, from, id, route, .. } => {
                let route = String::from_utf8(route.as_bytes().to_vec()).unwrap();
                seen.routes.insert((text(&destination), from.0), (id, route));
            }
            Event::Retracted { destination, from, id } => {
                seen.retracted += 1;
                let key = (text(&destination), from.0);
                if seen.routes.get(&key).is_some_and(|(held, _)| *held == id) {
                    seen.routes.remove(&key);
                }
            }
            Event::Rank { round, candidates, .. } => {
                seen.asked += 1;
                let classes = (self.taste)(&candidates);
                if classes.len() == candidates.len() {
                    let ranking: Vec<(RouteId, u8)> =
                        candidates.iter().map(|it| it.id).zip(classes).collect();
                    self.member.rank(round, &ranking);
                }
            }
            Event::Selected { destination, id } => {
                let to = text(&destination);
                let whose = seen.routes.iter().find(|((_, _), (held, _))| Some(*held) == id);
                let whose = whose.map(|((_, from), _)| *from);
                seen.selected.insert(to, whose);
            }
            Event::Missed { .. } => seen.missed += 1,
            Event::Synced => seen.is_synced = true,
        }
    }
}

/// The roster as the exchange has it, of the first so many members.
pub(crate) fn roster_of(exchange: &Exchange, members: usize) -> Roster {
    let site = |number: usize| Site {
        id: format!("m{number}/a"),
        member: format!("m{number}"),
        asn: 64500 + number as u32,
        key: exchange.identity(&format!("member-{number}")).name().0,
    };
    Roster::new((0..members).map(site).collect()).unwrap()
}

/// Runs a future to its end.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await }).unwrap()
}

fn rand_byte() -> u8 {
    let mut byte = [0];
    aws_lc_rs::rand::fill(&mut byte).unwrap();
    byte[0]
}
