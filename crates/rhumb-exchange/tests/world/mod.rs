//! Two servers of each party and many members in one thread, under a virtual clock and a seeded
//! schedule: which connection delivers next is drawn, messages of one connection stay in order.

#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "test helpers, of which each file uses some"
)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_exchange::{
    Candidate, Common, Connection, Destination, Event, ExchangeError, Form, Hello, Lane, LaneSet,
    Member, Output, Party, Roster, Route, RouteId, Server, ServerConfig, Site, Status,
};
use rhumb_mpc::{FieldBits, Parameters, Seed};

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.word() % bound as u64) as usize
    }

    pub fn bytes(&mut self) -> [u8; 32] {
        let words: Vec<u8> = (0..4).flat_map(|_| self.word().to_le_bytes()).collect();
        words.try_into().unwrap()
    }
}

/// Party one, its standby, party two, its standby.
pub const SERVERS: [Party; 4] = [Party::One, Party::One, Party::Two, Party::Two];

/// Changes a frame on its way.
pub type Alter = Box<dyn Fn(Way, &mut Vec<u8>)>;

pub type Ranking = Box<dyn Fn(&Candidate) -> u8>;

/// A place that messages come to.
#[expect(clippy::enum_variant_names, reason = "they are ways to somewhere")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    ToServer { lane: u16, server: usize },
    ToMember { lane: u16, server: usize },
    ToPeer { server: usize },
}

pub struct World {
    pub config: Arc<ServerConfig>,
    pub now: Instant,
    pub random: Random,
    pub servers: Vec<Option<Server>>,
    pub members: Vec<Option<Member>>,
    rankings: Vec<Ranking>,
    /// Frames under way, each connection in its order.
    pub ways: BTreeMap<Way, VecDeque<Vec<u8>>>,
    /// Whether member and server are connected, and whether the member's hello was judged.
    links: BTreeMap<(u16, usize), bool>,
    pub pair: Option<[usize; 2]>,
    pub events: Vec<Vec<Event>>,
    preferences: Option<Vec<u8>>,
    incarnation: u64,
    /// Whether members answer questions.
    pub mute: Vec<bool>,
    /// A way on which nothing is delivered for now.
    pub stalled: Option<Way>,
    /// Members that were cut for what they told the parties.
    pub failed: Vec<(u16, ExchangeError)>,
    /// Changes what comes on a way, for members that do not follow the protocol.
    pub alter: Option<Alter>,
    /// All frames that were delivered, if asked for: the server's number, the way, the frame.
    pub tap: Option<Vec<(usize, Way, Vec<u8>)>>,
}

pub fn roster(lanes: usize) -> Arc<Roster> {
    let sites = (0..lanes).map(|lane| Site {
        id: format!("site-{lane}"),
        member: format!("member {}", lane / 2),
        asn: 64512 + lane as u32,
        key: [7; 32],
    });
    let mut sites: Vec<Site> = sites.collect();
    for (lane, site) in sites.iter_mut().enumerate() {
        site.key[..8].copy_from_slice(&(lane as u64).to_le_bytes());
    }
    Arc::new(Roster::new(sites).unwrap())
}

pub fn small(lanes: usize, form: Form, shards: u16) -> ServerConfig {
    let mut common = Common::new(roster(lanes));
    (common.form, common.shards) = (form, shards);
    let words = lanes.div_ceil(64) as u32;
    let mut config = ServerConfig::new(common);
    let bits = if form == Form::TopClass { 512 } else { 35 * 64 };
    let vectors = if form == Form::Paper { 16 * 64 } else { 128 };
    config.engine = Parameters {
        field: FieldBits::Two,
        bit_words: bits * words + 512,
        vector_words: vectors * words + 128,
    };
    config.batch = 8;
    config
}

pub fn destination(bytes: &[u8]) -> Destination {
    Destination::new(bytes).unwrap()
}

pub fn route(bytes: &[u8]) -> Route {
    Route::new(bytes).unwrap()
}

impl World {
    /// All connected, the primaries a pair.
    pub fn new(lanes: usize, seed: u64) -> Self {
        Self::with(small(lanes, Form::TopClass, 2), seed)
    }

    pub fn with(config: ServerConfig, seed: u64) -> Self {
        let mut world = Self::empty(config, seed);
        for server in [0, 2] {
            world.start_server(server);
        }
        for lane in 0..world.members.len() as u16 {
            world.start_member(lane, true);
        }
        world.begin_pair(0, 2);
        world
    }

    #[expect(clippy::disallowed_methods, reason = "a virtual clock needs a first instant")]
    pub fn empty(config: ServerConfig, seed: u64) -> Self {
        let lanes = config.common.roster.lanes();
        Self {
            config: Arc::new(config),
            now: Instant::now(),
            random: Random(seed),
            servers: (0..SERVERS.len()).map(|_| None).collect(),
            members: (0..lanes).map(|_| None).collect(),
            rankings: (0..lanes).map(|_| Box::new(|_: &Candidate| 1_u8) as Ranking).collect(),
            ways: BTreeMap::new(),
            links: BTreeMap::new(),
            pair: None,
            events: vec![Vec::new(); lanes],
            preferences: None,
            incarnation: 1000,
            mute: vec![false; lanes],
            stalled: None,
            failed: Vec::new(),
            alter: None,
            tap: None,
        }
    }

    pub fn lanes(&self) -> u16 {
        self.members.len() as u16
    }

    // What happens to servers.

    /// A server starts, or starts again with nothing; all members connect.
    pub fn start_server(&mut self, server: usize) {
        self.stop_server(server);
        let mut started = Server::new(SERVERS[server], &self.config).unwrap();
        if let (Some(preferences), Party::One) = (&self.preferences, SERVERS[server]) {
            started.set_preferences(preferences).unwrap();
        }
        self.servers[server] = Some(started);
        for lane in 0..self.lanes() {
            self.connect(lane, server);
        }
    }

    pub fn stop_server(&mut self, server: usize) {
        if self.pair.is_some_and(|pair| pair.contains(&server)) {
            self.end_pair();
        }
        for lane in 0..self.lanes() {
            self.disconnect(lane, server);
        }
        self.servers[server] = None;
    }

    pub fn begin_pair(&mut self, one: usize, two: usize) {
        self.end_pair();
        let hellos = [one, two].map(|server| {
            let nonce = self.random.bytes();
            self.config.hello(SERVERS[server], nonce)
        });
        let epoch = self.config.check_party(&hellos[0], &hellos[1]).unwrap();
        assert_eq!(self.config.check_party(&hellos[1], &hellos[0]).unwrap(), epoch);
        for server in [one, two] {
            let random = &mut self.random;
            let seed = || Seed::new(random.bytes());
            self.servers[server].as_mut().unwrap().pair_begun(epoch, seed, self.now).unwrap();
        }
        self.pair = Some([one, two]);
    }

    /// What was under way between the two is lost; what they said to members is not.
    pub fn end_pair(&mut self) {
        self.collect();
        for server in self.pair.take().into_iter().flatten() {
            self.ways.remove(&Way::ToPeer { server });
            if let Some(server) = &mut self.servers[server] {
                server.pair_ended(self.now);
            }
        }
    }

    /// A server has another roster from now on; with more lanes its pair ends.
    pub fn set_roster(&mut self, server: usize, config: &Arc<ServerConfig>) {
        let is_longer = config.common.roster.lanes() > self.config.common.roster.lanes();
        if is_longer && self.pair.is_some_and(|pair| pair.contains(&server)) {
            self.end_pair();
        }
        self.servers[server].as_mut().unwrap().set_roster(config, self.now).unwrap();
    }

    /// All servers have it: members that start have it, too, and there is room for more.
    pub fn grow(&mut self, config: Arc<ServerConfig>) {
        let lanes = config.common.roster.lanes();
        self.config = config;
        self.members.resize_with(lanes, || None);
        self.rankings.resize_with(lanes, || Box::new(|_: &Candidate| 1_u8) as Ranking);
        self.events.resize(lanes, Vec::new());
        self.mute.resize(lanes, false);
    }

    pub fn prefer(&mut self, preferences: &[u8]) {
        self.preferences = Some(preferences.to_vec());
        for server in self.servers[..2].iter_mut().flatten() {
            server.set_preferences(preferences).unwrap();
        }
    }

    // What happens to members.

    /// A member's process starts, or starts again with nothing.
    pub fn start_member(&mut self, lane: u16, participates: bool) {
        self.start_member_without_end(lane, participates);
        self.member(lane).end_of_table();
    }

    pub fn start_member_without_end(&mut self, lane: u16, participates: bool) {
        self.stop_member(lane);
        self.incarnation += 1;
        let common = self.config.common.clone();
        let seed = self.random.bytes();
        let member = Member::new(common, Lane(lane), participates, self.incarnation, seed).unwrap();
        self.members[usize::from(lane)] = Some(member);
        self.events[usize::from(lane)].clear();
        for server in 0..SERVERS.len() {
            self.connect(lane, server);
        }
    }

    pub fn stop_member(&mut self, lane: u16) {
        for server in 0..SERVERS.len() {
            self.disconnect(lane, server);
        }
        self.members[usize::from(lane)] = None;
    }

    pub fn connect(&mut self, lane: u16, server: usize) {
        self.disconnect(lane, server);
        let (Some(member), Some(_)) = (&mut self.members[usize::from(lane)], &self.servers[server])
        else {
            return;
        };
        member.connected(Connection(server as u32), SERVERS[server]);
        self.links.insert((lane, server), false);
        let hello = self.config.hello(SERVERS[server], [9; 32]).emit();
        self.ways.entry(Way::ToMember { lane, server }).or_default().push_back(hello);
    }

    /// What was under way is lost.
    pub fn disconnect(&mut self, lane: u16, server: usize) {
        let Some(was_met) = self.links.remove(&(lane, server)) else { return };
        self.ways.remove(&Way::ToMember { lane, server });
        self.ways.remove(&Way::ToServer { lane, server });
        if let Some(member) = &mut self.members[usize::from(lane)] {
            member.disconnected(Connection(server as u32));
        }
        if let (Some(server), true) = (&mut self.servers[server], was_met) {
            server.member_left(Lane(lane), self.now);
        }
    }

    pub fn is_connected(&self, lane: u16, server: usize) -> bool {
        self.links.contains_key(&(lane, server))
    }

    pub fn policy(&self, lanes: &[u16]) -> LaneSet {
        LaneSet::of(&self.config.common.roster, lanes.iter().map(|lane| Lane(*lane))).unwrap()
    }

    pub fn announce(&mut self, from: u16, to: &[u8], lanes: &[u16], bytes: &[u8]) -> RouteId {
        let policy = self.policy(lanes);
        self.member(from).announce(&destination(to), &policy, &route(bytes)).unwrap()
    }

    pub fn withdraw(&mut self, from: u16, to: &[u8]) {
        assert!(self.member(from).withdraw(&destination(to)));
    }

    pub fn member(&mut self, lane: u16) -> &mut Member {
        self.members[usize::from(lane)].as_mut().unwrap()
    }

    pub fn rank_by(&mut self, lane: u16, ranking: impl Fn(&Candidate) -> u8 + 'static) {
        self.rankings[usize::from(lane)] = Box::new(ranking);
    }

    // How it goes on.

    /// Puts on their ways what anybody has to say.
    fn collect(&mut self) {
        for lane in 0..self.lanes() {
            let Some(member) = &mut self.members[usize::from(lane)] else { continue };
            for server in 0..SERVERS.len() {
                while let Some(message) = member.poll_message(Connection(server as u32)) {
                    let way = Way::ToServer { lane, server };
                    self.ways.entry(way).or_default().push_back(message);
                }
            }
        }
        for number in 0..SERVERS.len() {
            while let Some(output) = self.servers[number].as_mut().and_then(Server::poll_output) {
                match output {
                    Output::Member { lane, message } => {
                        if self.links.contains_key(&(lane.0, number)) {
                            let way = Way::ToMember { lane: lane.0, server: number };
                            self.ways.entry(way).or_default().push_back(message);
                        }
                    }
                    Output::Peer(message) => {
                        let pair = self.pair.unwrap();
                        let server = if pair[0] == number { pair[1] } else { pair[0] };
                        self.ways.entry(Way::ToPeer { server }).or_default().push_back(message);
                    }
                    Output::PairFailed(error) => panic!("server {number}: {error}"),
                    Output::MemberFailed { lane, error } => {
                        self.failed.push((lane.0, error));
                        self.disconnect(lane.0, number);
                    }
                }
            }
        }
        self.ways.retain(|_, way| !way.is_empty());
    }

    /// Of a server's first shard.
    pub fn status(&self, server: usize) -> Status {
        self.servers[server].as_ref().unwrap().status()[0]
    }

    /// Delivers one message; false if there is none.
    pub fn step(&mut self) -> bool {
        self.collect();
        let open = self.ways.keys().filter(|way| self.stalled != Some(**way));
        let open: Vec<Way> = open.copied().collect();
        if open.is_empty() {
            return false;
        }
        let way = open[self.random.below(open.len())];
        let mut message = self.ways.get_mut(&way).unwrap().pop_front().unwrap();
        if let Some(alter) = &self.alter {
            alter(way, &mut message);
        }
        self.deliver(way, &message);
        true
    }

    fn deliver(&mut self, way: Way, message: &[u8]) {
        if let Some(tap) = &mut self.tap {
            let (Way::ToServer { server, .. }
            | Way::ToPeer { server }
            | Way::ToMember { server, .. }) = way;
            tap.push((server, way, message.to_vec()));
        }
        match way {
            Way::ToPeer { server } => {
                self.servers[server].as_mut().unwrap().peer_message(message, self.now).unwrap();
            }
            Way::ToServer { lane, server } => {
                let running = self.servers[server].as_mut().unwrap();
                let is_met = self.links.get_mut(&(lane, server)).unwrap();
                if *is_met {
                    running.member_message(Lane(lane), message, self.now).unwrap();
                } else {
                    let hello = Hello::parse(message).unwrap();
                    let participates = self.config.check_member(&hello, Lane(lane)).unwrap();
                    *is_met = true;
                    running.member_joined(Lane(lane), participates, self.now);
                }
            }
            Way::ToMember { lane, server } => {
                let member = self.members[usize::from(lane)].as_mut().unwrap();
                member.handle(Connection(server as u32), message).unwrap();
                self.take_events(lane);
            }
        }
    }

    fn take_events(&mut self, lane: u16) {
        let member = self.members[usize::from(lane)].as_mut().unwrap();
        while let Some(event) = member.poll_event() {
            if let Event::Rank { round, candidates, .. } = &event
                && !self.mute[usize::from(lane)]
            {
                let ranking = &self.rankings[usize::from(lane)];
                let classes: Vec<(RouteId, u8)> =
                    candidates.iter().map(|candidate| (candidate.id, ranking(candidate))).collect();
                member.rank(*round, &classes);
            }
            self.events[usize::from(lane)].push(event);
        }
    }

    /// Goes on until nobody has anything to say, without letting time pass.
    pub fn settle(&mut self) {
        for _ in 0..MAX_STEPS {
            if !self.step() {
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    /// Goes on for so many messages.
    pub fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.step();
        }
    }

    /// Lets time pass, in steps of what anybody waits for, and goes on.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.settle();
        loop {
            let timeouts = self.servers.iter().flatten().filter_map(Server::poll_timeout);
            let Some(next) = timeouts.min().filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            for server in self.servers.iter_mut().flatten() {
                server.handle_timeout(self.now);
            }
            self.settle();
        }
        self.now = end;
    }

    // What members have.

    pub fn events(&self, lane: u16) -> &[Event] {
        &self.events[usize::from(lane)]
    }

    /// Routes that a member holds by its events: destination, announcer, id, route.
    pub fn offered(&self, lane: u16) -> Vec<(Destination, u16, RouteId, Vec<u8>)> {
        let mut held = BTreeMap::new();
        for event in self.events(lane) {
            match event {
                Event::Offered { destination, from, id, route, replaces } => {
                    if let Some(former) = replaces {
                        assert!(held.remove(former).is_some(), "replaces what was there");
                    }
                    let entry = (destination.clone(), from.0, route.as_bytes().to_vec());
                    assert!(held.insert(*id, entry).is_none(), "offered once");
                }
                Event::Retracted { id, .. } => {
                    assert!(held.remove(id).is_some(), "what goes was there");
                }
                _ => {}
            }
        }
        let mut held: Vec<_> =
            held.into_iter().map(|(id, (to, from, route))| (to, from, id, route)).collect();
        held.sort();
        held
    }

    /// The last result for a destination; none if there was
    /// no round in which this member had a route.
    pub fn selected(&self, lane: u16, to: &[u8]) -> Option<Option<RouteId>> {
        let to = destination(to);
        self.events(lane).iter().rev().find_map(|event| match event {
            Event::Selected { destination, id } if *destination == to => Some(*id),
            Event::Missed { destination } if *destination == to => Some(None),
            _ => None,
        })
    }
}

/// No test of these takes as many messages.
const MAX_STEPS: usize = 5_000_000;
