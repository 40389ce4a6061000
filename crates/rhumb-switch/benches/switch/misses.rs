//! Traffic for names that are not there (GDP paper, section 5.3 and Figure 6):
//! what is left for known names when a share of all datagrams goes to names of
//! which the RIB says, signed, that they are absent.
//!
//! Four parties, each as if on a core of its own, on a clock that is the worker's measured CPU
//! time: the load, which takes none; the worker, which is the switch; its verifier, which checks
//! what the RIB signed; and the RIB, the production one over a store in memory. The verifier and
//! the RIB take as long for each piece of work as it took them here, and what comes meanwhile
//! waits. So the worker is saturated all the time, and pays for all that a miss makes it do: the
//! NACK, the question, the answer, the entry in its tables.
//!
//! Per batch: 1. sealed by a member, not counted; 2. the worker handles it; 3. RIB and
//! verifier do what they have come to by now; 4. the worker handles their answers.
//! What is shown is known PDUs forwarded per second of the worker, in terms of their
//! share times what it forwards without misses.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

use rhumb_rib::Server;
use rhumb_rib::store::Memory;
use rhumb_switch::Remote;
use rhumb_wire::{Batch, Name, Role};
use serde_json::{Value, json};

use crate::chance::Chance;
use crate::figures::rounded;
use crate::machine::{median, thread_cpu};
use crate::member::{self, Form};
use crate::memory::ENTRIES;
use crate::scene::{BATCH_DATAGRAMS, Bare, Contestant, ROUTER, Scene};
use crate::worker::{TURNS_TO_CONNECT, Worker, timed};

/// Which names are asked for in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// Another one each time.
    Fresh,
    /// A few, over and over: all but the first of each is answered from the table of absences.
    Few,
}

/// What one share of misses leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) payload: usize,
    /// Misses of a thousand datagrams.
    pub(crate) per_mille: usize,
    pub(crate) switch: [Kept; 2],
    pub(crate) bare: Kept,
}

impl Row {
    pub(crate) fn json(&self) -> Value {
        let [fresh, few] = self.switch;
        json!({
            "payload": self.payload,
            "share": self.per_mille as f64 / 1e3,
            "fresh_mpps": rounded(fresh.mpps),
            "few_mpps": rounded(few.mpps),
            "bare_mpps": rounded(self.bare.mpps),
            "fresh_of_share": rounded(fresh.of_share),
            "few_of_share": rounded(few.of_share),
            "bare_of_share": rounded(self.bare.of_share),
        })
    }
}

/// What is left for known names.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Kept {
    /// Known PDUs forwarded, in millions for each second of the worker.
    pub(crate) mpps: f64,
    /// That in terms of their share times the rate without misses that was measured just before.
    pub(crate) of_share: f64,
}

/// The kinds, in the order of [`Row::switch`].
pub(crate) const KINDS: [Absent; 2] = [Absent::Fresh, Absent::Few];

/// All shares, and the rate without misses first.
pub(crate) fn measure(payload: usize) -> Vec<Row> {
    let mut switches: Vec<[Misses; 2]> =
        SHARES.iter().map(|share| KINDS.map(|kind| Misses::new(kind, *share))).collect();
    let mut bare = Bare::new(Form::Names, ENTRIES, 1, 1);
    // Of each share, the rates and the full ones measured just before. One slice does not count:
    // tables fill, questions are under way.
    let mut rounds: Vec<Vec<[(f64, f64); 3]>> = vec![Vec::new(); SHARES.len()];
    for round in 0..=ROUNDS {
        for (index, share) in SHARES.into_iter().enumerate() {
            let full = switches[0][0].slice(payload);
            let [fresh, few] = switches[index].each_mut().map(|scene| scene.slice(payload));
            bare.missed_per_mille = 0;
            let bare_full = bare_slice(&mut bare, payload);
            bare.missed_per_mille = share;
            let bare = bare_slice(&mut bare, payload);
            if round > 0 {
                rounds[index].push([(fresh, full), (few, full), (bare, bare_full)]);
            }
        }
    }
    let kept = |index: usize, kind: usize| {
        let share = 1.0 - SHARES[index] as f64 / 1000.0;
        let rates = rounds[index].iter().map(|kinds| kinds[kind]);
        let of_share = median(rates.clone().map(|(rate, full)| rate / (share * full)));
        Kept { mpps: median(rates.map(|(rate, _)| rate)), of_share }
    };
    let row = |index: usize| Row {
        payload,
        per_mille: SHARES[index],
        switch: [kept(index, 0), kept(index, 1)],
        bare: kept(index, 2),
    };
    (0..SHARES.len()).map(row).collect()
}

/// Hits in millions per second. A miss of the bare loop is dropped, and costs it the opening.
fn bare_slice(bare: &mut Bare, payload: usize) -> f64 {
    let mut batch = Batch::new();
    let (mut hits, mut took) = (0, Duration::ZERO);
    while took < SLICE {
        batch.clear();
        bare.seal(&mut batch, payload);
        let begin = thread_cpu();
        bare.forward(&mut batch);
        took += thread_cpu() - begin;
        hits += batch.slots().iter().filter(|slot| !slot.is_empty()).count();
    }
    hits as f64 / took.as_secs_f64() / 1e6
}

/// The switch, and who else has to do with a miss.
struct Misses {
    worker: Worker,
    kind: Absent,
    per_mille: usize,
    few: Vec<Name>,
    chance: Chance,
    rib: Server<Memory>,
    /// What the RIB has yet to read.
    questions: VecDeque<Vec<u8>>,
    rib_free_at: Instant,
}

impl Misses {
    fn new(kind: Absent, per_mille: usize) -> Self {
        let now = member::now();
        let identity = member::identity(Role::Rib, now);
        let remote = Remote { address: RIB, name: Some(identity.name()) };
        let config = rhumb_rib::Config::default();
        let link = rhumb_link::Config::default();
        let rib = Server::new(identity, Memory::default(), config, link, [5; 32], now);
        let mut chance = Chance::new(3);
        let scene = Scene::with_ribs(2, 1, vec![remote]);
        let rib_free_at = scene.now.instant;
        let mut misses = Self {
            worker: Worker::new(scene),
            kind,
            per_mille,
            few: (0..FEW).map(|_| Name(chance.name())).collect(),
            chance,
            rib: rib.expect("a RIB"),
            questions: VecDeque::new(),
            rib_free_at,
        };
        misses.connect();
        misses
    }

    /// Lets the switch find its RIB.
    fn connect(&mut self) {
        for _ in 0..TURNS_TO_CONNECT {
            self.worker.scene.now = self.worker.scene.now.plus(Duration::from_millis(10));
            self.worker.advance();
            self.serve();
            if self.worker.has_ribs() {
                return;
            }
        }
        panic!("the switch has not connected to its RIB");
    }

    /// Hits in millions per second of the worker.
    fn slice(&mut self, payload: usize) -> f64 {
        self.worker.scene.form = Form::Labels;
        let data = member::data(payload, &mut self.chance);
        let (mut hits, mut arrived, mut took) = (0, 0, Duration::ZERO);
        let mut batch = Batch::new();
        self.worker.keep_alive(&mut batch);
        while took < SLICE {
            batch.clear();
            let known = self.seal(&mut batch, &data);
            let mut busy = self.worker.handle(&mut batch);
            // A PDU whose flow has to be made anew goes on in a slot of its own.
            arrived += self.collect(&batch);
            self.worker.scene.now = self.worker.scene.now.plus(busy);
            let answers = self.serve();
            self.worker.scene.now = self.worker.scene.now.plus(answers);
            busy += answers;
            took += busy;
            hits += known;
        }
        // Keep-alives arrive too.
        assert!(arrived >= hits, "of {hits} known PDUs, {arrived} were passed on");
        hits as f64 / took.as_secs_f64() / 1e6
    }

    /// A batch for the destination and for nowhere. How many are for the destination.
    fn seal(&mut self, batch: &mut Batch, data: &[u8]) -> usize {
        let scene = &mut self.worker.scene;
        let known = scene.members[1].name();
        let mut hits = 0;
        for _ in 0..BATCH_DATAGRAMS {
            let to = match (self.per_mille > self.chance.below(1000), self.kind) {
                (false, _) => {
                    hits += 1;
                    (known, Form::Labels)
                }
                (true, Absent::Fresh) => (Name(self.chance.name()), Form::Names),
                (true, Absent::Few) => (self.few[self.chance.below(FEW)], Form::Names),
            };
            let source = &mut scene.members[0];
            source.push_data(batch, source.address, to, data, scene.now);
        }
        hits
    }

    /// Takes what goes to the RIB, as far as its socket has room. How much goes to the sink.
    fn collect(&mut self, batch: &Batch) -> usize {
        let sink = self.worker.scene.members[1].address;
        let mut arrived = 0;
        let Self { worker, questions, .. } = self;
        worker.collect(batch, |peer, datagram| {
            arrived += usize::from(peer == sink);
            if peer == RIB && questions.len() < SOCKET_DATAGRAMS {
                questions.push_back(datagram.to_vec());
            }
        });
        arrived
    }

    /// RIB and verifier work until they have caught up with the
    /// clock. What their answers cost the worker.
    fn serve(&mut self) -> Duration {
        let now = self.worker.scene.now;
        let mut busy = Duration::ZERO;
        let mut batch = Batch::new();
        self.collect(&batch);
        while self.rib_free_at <= now.instant && !self.questions.is_empty() {
            batch.clear();
            let most = self.questions.len().min(BATCH_DATAGRAMS);
            for datagram in self.questions.drain(..most) {
                batch.push(ROUTER, &datagram);
            }
            let took = timed(|| self.rib.handle_batch(&mut batch, now));
            self.rib_free_at = now.instant + took;
            let mut answers = Batch::new();
            batch.iter().for_each(|(_, datagram)| answers.push(RIB, datagram));
            busy += self.worker.handle(&mut answers);
            self.collect(&answers);
        }
        busy + self.worker.verify()
    }
}

/// The smallest, where a miss costs most in terms of a
/// hit, and the size that most targets are about.
pub(crate) const PAYLOADS: [usize; 2] = [64, 1000];
const RIB: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 4000));
/// Misses of a thousand datagrams. The first is none, the measure of all others.
const SHARES: [usize; 10] = [0, 100, 200, 300, 400, 500, 600, 700, 800, 900];
/// Names that are asked for over and over.
const FEW: usize = 256;
/// Of the worker's time, for each round of each share.
const SLICE: Duration = Duration::from_millis(8);
const ROUNDS: usize = 15;
/// What waits in the RIB's socket at most.
const SOCKET_DATAGRAMS: usize = 1024;
