//! Traffic of known flows while routes of others change: what is left of its rate when a RIB tells
//! of ten thousand changes a second, each signed, each verified before it counts.
//!
//! The worker and its verifier are those of [`Worker`]. The RIB is one that knows a route to each
//! of some thousand names, by one of two routers, and in each change by the other one; what it
//! signs and seals is not counted. So the worker pays for the news, its acknowledgement, the
//! verdict, the tables, and for each flow that asks whether it still stands. Before what is counted
//! without changes each flow is visited.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use rhumb_link::Endpoint;
use rhumb_switch::Remote;
use rhumb_trust::{Identity, Now, Window};
use rhumb_wire::certificate::Locator;
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::rib::{
    RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody, StoreId,
};
use rhumb_wire::{
    Action, Batch, Certificate, Metadata, Name, Pdu, PduHeader, Role, Scope, Statement,
};
use serde_json::{Value, json};

use crate::figures::rounded;
use crate::machine::median;
use crate::member::{self, Form};
use crate::scene::{
    Contestant, FIRST_PAYLOAD, NAMES_A_SESSION, OPENING_TAKES, ROUTER, SESSIONS, Scene,
};
use crate::worker::{TURNS_TO_CONNECT, Worker};

/// What the changes leave to flows that they are not about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) payload: usize,
    /// How many flows the datagrams are drawn from.
    pub(crate) flows: usize,
    /// Millions of PDUs for each second of the worker, without changes and with them.
    still: f64,
    changing: f64,
    /// The latter in terms of the former, of the same round.
    pub(crate) kept: f64,
    /// Changes for each second of the worker that were told, and that came into force.
    told: f64,
    taken: f64,
    /// What a change takes the worker, in microseconds, without what flows ask after it.
    change_us: f64,
}

impl Row {
    pub(crate) fn json(&self) -> Value {
        json!({
            "payload": self.payload,
            "flows": self.flows,
            "still_mpps": rounded(self.still),
            "changing_mpps": rounded(self.changing),
            "kept": rounded(self.kept),
            "told_per_s": self.told.round(),
            "in_force_per_s": self.taken.round(),
            "change_us": rounded(self.change_us),
        })
    }

    pub(crate) fn print_text(&self) {
        println!(
            "{:>7} {:>9} {:>6.2} {:>8.2} {:>5.2} {:>7.0} {:>8.0} {:>9.1}",
            self.payload,
            self.flows,
            self.still,
            self.changing,
            self.kept,
            self.told,
            self.taken,
            self.change_us,
        );
    }
}

pub(crate) fn measure() -> Vec<Row> {
    let mut rows = Vec::new();
    for (members, names) in [(2, 1), (SESSIONS, NAMES_A_SESSION)] {
        let mut changing = Changing::new(members, names);
        rows.extend(PAYLOADS.map(|payload| changing.measure(payload)));
    }
    rows
}

struct Changing {
    worker: Worker,
    rib: Directory,
    /// What the RIB says, with room for what the switch says to it, as that of a daemon has.
    answers: Batch,
    flows: usize,
}

impl Changing {
    fn new(members: usize, names: usize) -> Self {
        let now = member::now();
        let rib = Directory::new(now);
        let remote = Remote { address: RIB, name: Some(rib.identity.name()) };
        let scene = Scene::with_ribs(members, names, vec![remote]);
        let flows = if members == 2 { 1 } else { scene.switch.status(scene.now).flows };
        let answers = Batch::new();
        let mut changing = Self { worker: Worker::new(scene), rib, answers, flows };
        changing.connect();
        changing.learn();
        changing
    }

    /// Lets the switch find its RIB.
    fn connect(&mut self) {
        for _ in 0..TURNS_TO_CONNECT {
            self.idle(Duration::from_millis(10));
            if self.worker.has_ribs() {
                return;
            }
        }
        panic!("the switch has not connected to its RIB");
    }

    /// Sends to each of the RIB's names, so that the switch asks for its route, and keeps it.
    fn learn(&mut self) {
        let names: Vec<Name> = self.rib.movers.iter().map(|mover| mover.identity.name()).collect();
        let before = self.worker.scene.switch.status(self.worker.scene.now).routes;
        let mut batch = Batch::new();
        for (at, name) in names.into_iter().enumerate() {
            if at % 256 == 0 {
                self.worker.keep_alive(&mut batch);
            }
            batch.clear();
            let scene = &mut self.worker.scene;
            let source = &mut scene.members[0];
            let data = [0; FIRST_PAYLOAD];
            source.push_data(&mut batch, source.address, (name, Form::Names), &data, scene.now);
            self.worker.handle(&mut batch);
            self.hand_over(&batch);
            (0..TURNS_TO_LEARN).for_each(|_| self.idle(LEARNING_TAKES / TURNS_TO_LEARN));
        }
        let status = self.worker.scene.switch.status(self.worker.scene.now);
        assert_eq!(status.routes - before, MOVERS, "routes that can change");
    }

    /// A moment in which nothing is sent.
    fn idle(&mut self, moment: Duration) {
        self.worker.scene.now = self.worker.scene.now.plus(moment);
        self.worker.advance();
        self.hand_over(&Batch::new());
        self.worker.verify();
        self.hand_over(&Batch::new());
    }

    /// Gives the RIB what the switch says to it, and the switch the answers. What these cost it.
    fn hand_over(&mut self, batch: &Batch) -> Duration {
        let Self { worker, rib, answers, .. } = self;
        let now = worker.scene.now;
        let mut busy = Duration::ZERO;
        rib.hear_all(worker, batch, now);
        rib.say_all(answers, now);
        while !answers.is_empty() {
            busy += worker.handle(answers);
            rib.hear_all(worker, answers, now);
            rib.say_all(answers, now);
        }
        busy
    }

    /// Sends one PDU of each flow, so that each knows that it stands.
    fn visit_flows(&mut self) {
        let mut batch = Batch::new();
        for source in 0..self.worker.scene.names() {
            if source % 100 == 0 {
                self.worker.keep_alive(&mut batch);
            }
            self.worker.scene.push_to_all(&mut batch, source);
            self.worker.handle(&mut batch);
            self.hand_over(&batch);
            self.idle(OPENING_TAKES);
        }
    }

    fn measure(&mut self, payload: usize) -> Row {
        self.worker.scene.form = Form::Labels;
        let mut rounds = Vec::with_capacity(ROUNDS);
        // One does not count, in which queues and caches fill.
        for round in 0..=ROUNDS {
            // Where nothing changes no flow asks anything, so none may have to ask after what
            // changed before.
            self.visit_flows();
            let [still, changing] = [false, true].map(|changes| self.slice(payload, changes));
            if round > 0 {
                rounds.push((still, changing));
            }
        }
        let figure = |of: fn(&(Slice, Slice)) -> f64| median(rounds.iter().map(of));
        Row {
            payload,
            flows: self.flows,
            still: figure(|(still, _)| still.mpps),
            changing: figure(|(_, changing)| changing.mpps),
            kept: figure(|(still, changing)| changing.mpps / still.mpps),
            told: figure(|(_, changing)| changing.told),
            taken: figure(|(_, changing)| changing.taken),
            change_us: figure(|(_, changing)| changing.change_us),
        }
    }

    fn slice(&mut self, payload: usize, changes: bool) -> Slice {
        let mut batch = Batch::new();
        self.worker.keep_alive(&mut batch);
        let before = self.worker.scene.switch.counters().rib_changes;
        let (mut pdus, mut told) = (0, 0);
        let (mut took, mut took_changes) = (Duration::ZERO, Duration::ZERO);
        // When the next change is told, on the worker's clock.
        let mut due = self.worker.scene.now.instant;
        while took < SLICE {
            batch.clear();
            self.worker.scene.seal(&mut batch, payload);
            let busy = self.worker.handle(&mut batch);
            pdus += batch.slots().iter().filter(|slot| !slot.is_empty()).count();
            self.worker.scene.now = self.worker.scene.now.plus(busy);
            while changes && due <= self.worker.scene.now.instant {
                due += CHANGE_EVERY;
                self.rib.change(self.worker.scene.now);
                told += 1;
            }
            let mut rest = self.hand_over(&batch);
            rest += self.worker.verify();
            rest += self.hand_over(&Batch::new());
            self.worker.scene.now = self.worker.scene.now.plus(rest);
            took_changes += rest;
            took += busy + rest;
        }
        let taken = self.worker.scene.switch.counters().rib_changes - before;
        let per_s = |count: u64| count as f64 / took.as_secs_f64();
        Slice {
            mpps: per_s(pdus as u64) / 1e6,
            told: per_s(told),
            taken: per_s(taken),
            change_us: took_changes.as_secs_f64() * 1e6 / told as f64,
        }
    }
}

#[derive(Clone, Copy)]
struct Slice {
    mpps: f64,
    told: f64,
    taken: f64,
    change_us: f64,
}

/// A RIB that knows what this bench needs.
struct Directory {
    identity: Arc<Identity>,
    endpoint: Endpoint,
    routers: [Arc<Identity>; 2],
    /// Each router's word for where it is.
    locators: [Certificate; 2],
    movers: Vec<Mover>,
    /// Changes so far: each is of the name behind that of the one before.
    told: u32,
    /// For the switch.
    out: Batch,
}

/// A name, and how often it has moved.
struct Mover {
    identity: Arc<Identity>,
    moves: u64,
}

impl Directory {
    fn new(now: Now) -> Self {
        let identity = member::identity(Role::Rib, now);
        let link = rhumb_link::Config::default();
        let endpoint = Endpoint::new(identity.clone(), link, [7; 32], now.instant);
        let routers = [0; 2].map(|_| member::identity(Role::Router, now));
        let window = Window::starting(now.unix_s(), LEASE_S);
        let locators = [0, 1].map(|at| {
            let address = SocketAddr::from(([10, 0, 1, at], 4000));
            let locator = Statement::Locator(Locator::new(address).expect("an address"));
            routers[usize::from(at)].certify(locator, 1, window).expect("a signature")
        });
        let movers = (0..MOVERS)
            .map(|_| Mover { identity: member::identity(Role::Node, now), moves: 0 })
            .collect();
        Self {
            identity,
            endpoint: endpoint.expect("endpoint"),
            routers,
            locators,
            movers,
            told: 0,
            out: Batch::new(),
        }
    }

    /// Takes what the switch has said to it, in `batch` and besides.
    fn hear_all(&mut self, worker: &mut Worker, batch: &Batch, now: Now) {
        worker.collect(batch, |peer, datagram| {
            if peer == RIB {
                self.handle(&mut datagram.to_vec(), now);
            }
        });
    }

    fn handle(&mut self, datagram: &mut [u8], now: Now) {
        match Datagram::parse(datagram) {
            Ok(Datagram::Record(_)) => {
                let Ok(opened) = self.endpoint.open(ROUTER, datagram, now.instant) else { return };
                let Ok(pdu) = Pdu::parse(&datagram[opened.plaintext]) else { return };
                let Ok(request) = RibRequest::parse(pdu.data()) else { return };
                if let Some(body) = self.answer(&request.body, now) {
                    self.say(pdu.source(), &RibResponse { id: request.id, body }, now);
                }
            }
            Ok(handshake) => {
                let _ = self.endpoint.handle_handshake(ROUTER, handshake, now.instant);
            }
            Err(_) => {}
        }
    }

    fn answer(&self, question: &RibRequestBody, now: Now) -> Option<RibResponseBody> {
        match question {
            RibRequestBody::WhichStore => Some(RibResponseBody::Store(StoreId([1; 16]))),
            RibRequestBody::Publish { .. } => Some(RibResponseBody::Stored),
            RibRequestBody::LookUpRoute(name) => {
                let mover = self.movers.iter().find(|mover| mover.identity.name() == *name)?;
                let metadata = self.metadata(mover);
                let certificates = self.certificates(mover, now);
                Some(RibResponseBody::Found { name: *name, level: 0, metadata, certificates })
            }
            _ => None,
        }
    }

    /// The next name moves to the other router, and the switch is told.
    fn change(&mut self, now: Now) {
        let at = self.told as usize % MOVERS;
        self.told += 1;
        self.movers[at].moves += 1;
        let mover = &self.movers[at];
        let certificates = self.certificates(mover, now);
        let name = mover.identity.name();
        let body = RibResponseBody::Changed { name, level: 0, metadata: Vec::new(), certificates };
        let asker = self.endpoint.sessions().next().map(|(_, peer)| peer.name);
        let response = RibResponse { id: RequestId(self.told), body };
        self.say(asker.expect("the switch is connected"), &response, now);
    }

    fn metadata(&self, mover: &Mover) -> Vec<Metadata> {
        let of = |identity: &Identity| (**identity.metadata()).clone();
        let [a, b] = &self.routers;
        vec![of(&mover.identity), of(a), of(b)]
    }

    fn certificates(&self, mover: &Mover, now: Now) -> Vec<Certificate> {
        let at = (mover.moves % 2) as usize;
        let via = self.routers[at].name();
        let window = Window::starting(now.unix_s(), LEASE_S);
        let route = Statement::Route { via, scope: Scope::Any };
        let route = mover.identity.certify(route, 1 + mover.moves, window).expect("a signature");
        vec![route, self.locators[at].clone()]
    }

    fn say(&mut self, to: Name, response: &RibResponse, now: Now) {
        let session = self.endpoint.session_of(&to).expect("a session");
        let (mut data, mut pdu) = (Vec::new(), Vec::new());
        response.emit(&mut data);
        let header = PduHeader::new(Action::RibResponse, self.identity.name(), to);
        header.emit(&data, &[], &mut pdu).expect("two certificates fit");
        let datagram = self.out.push_with(RIB, pdu.len() + RECORD_OVERHEAD);
        datagram[RecordHeader::LEN..][..pdu.len()].copy_from_slice(&pdu);
        self.endpoint.seal(session, datagram, now.instant).expect("the session lives");
    }

    /// Leaves in `batch` what it has said since, as the switch receives it.
    fn say_all(&mut self, batch: &mut Batch, now: Now) {
        if self.endpoint.poll_timeout().is_some_and(|due| due <= now.instant) {
            self.endpoint.handle_timeout(now.instant);
        }
        while self.endpoint.poll_event().is_some() {}
        self.endpoint.poll_transmit(&mut self.out);
        std::mem::swap(batch, &mut self.out);
        self.out.clear();
        (0..batch.len()).for_each(|slot| batch.redirect(slot, RIB));
    }
}

const PAYLOADS: [usize; 2] = [64, 1000];
const RIB: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 4000));
/// Ten thousand a second.
const CHANGE_EVERY: Duration = Duration::from_micros(100);
/// Names that move, one after the other.
const MOVERS: usize = 2000;
/// A question, its answer and the verdict.
const TURNS_TO_LEARN: u32 = 3;
/// No session causes more questions than 250 a second.
const LEARNING_TAKES: Duration = Duration::from_millis(6);
/// Of the worker's time, for each round of either kind: two hundred changes.
const SLICE: Duration = Duration::from_millis(20);
const ROUNDS: usize = 15;
/// Longer than this bench.
const LEASE_S: u64 = 3600;
