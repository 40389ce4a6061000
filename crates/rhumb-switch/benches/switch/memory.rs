//! In memory, on one thread: [`Switch::handle_batch`] against the bare loop.
//!
//! Batches of 64 datagrams are sealed by the members' own links, then handled; only the handling is timed. Contestants
//! take turns in slices; a slice's figure is that of its median batch, so a batch during which the machine did something
//! else does not count; ratios are of slices of the same round, and the medians of all rounds are shown.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_switch::Switch;
use rhumb_trust::Now;
use rhumb_wire::datagram::RecordHeader;
use rhumb_wire::{Batch, PduHeader};

use crate::bare::{Ends, Names, Resealer};
use crate::chance::Chance;
use crate::cipher_off::CipherOff;
use crate::machine::median;
use crate::member::{self, Member, data_pdu};

/// Bytes of a PDU's data.
pub(crate) const PAYLOADS: [usize; 6] = [64, 256, 1000, 1400, 1766, 8900];
pub(crate) const BATCH_DATAGRAMS: usize = 64;
pub(crate) const ROUNDS: usize = 25;
pub(crate) const BATCHES_A_SLICE: usize = 48;
/// Names in the bare loop's table.
const NAMES: usize = 1 << 20;

/// What took how long, in nanoseconds per datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) payload: usize,
    /// The bare loop, asking for one name over and over: its entry stays in the cache, as that of one flow does.
    pub(crate) bare_one_name: f64,
    pub(crate) one_flow: f64,
    /// Bare against one flow, like against like: the median of the rounds' ratios.
    pub(crate) ratio_one: f64,
    /// The switch built without a cipher.
    pub(crate) cipher_off: Option<f64>,
    /// The bare loop, each name drawn from the whole table.
    pub(crate) bare_any_name: f64,
    /// Flows drawn from about a thousand, between 32 sessions.
    pub(crate) thousand_flows: f64,
    /// Flows drawn from about a million, between 1,024 sessions.
    pub(crate) million_flows: f64,
    /// Bare with any name against a million flows, like against like but for the sessions.
    pub(crate) ratio_million: f64,
}

pub(crate) fn measure(cipher_off: &mut Option<CipherOff>) -> Vec<Row> {
    let mut contestants = Contestants {
        bare_one_name: Bare::new(1),
        one_flow: Scene::new(2),
        bare_any_name: Bare::new(NAMES),
        thousand_flows: Scene::new(32),
        million_flows: Scene::new(1024),
    };
    PAYLOADS.iter().map(|&payload| contestants.measure(payload, cipher_off)).collect()
}

struct Contestants {
    bare_one_name: Bare,
    one_flow: Scene,
    bare_any_name: Bare,
    thousand_flows: Scene,
    million_flows: Scene,
}

impl Contestants {
    fn measure(&mut self, payload: usize, cipher_off: &mut Option<CipherOff>) -> Row {
        check(&mut self.bare_one_name, payload);
        check(&mut self.one_flow, payload);
        check(&mut self.bare_any_name, payload);
        check(&mut self.thousand_flows, payload);
        check(&mut self.million_flows, payload);
        let rounds: Vec<Row> = (0..ROUNDS).map(|_| self.round(payload, cipher_off)).collect();
        let middle = |figure: fn(&Row) -> f64| median(rounds.iter().map(figure));
        let measured_off = rounds.iter().filter_map(|round| round.cipher_off);
        Row {
            payload,
            bare_one_name: middle(|row| row.bare_one_name),
            one_flow: middle(|row| row.one_flow),
            ratio_one: middle(|row| row.ratio_one),
            cipher_off: cipher_off.is_some().then(|| median(measured_off)),
            bare_any_name: middle(|row| row.bare_any_name),
            thousand_flows: middle(|row| row.thousand_flows),
            million_flows: middle(|row| row.million_flows),
            ratio_million: middle(|row| row.ratio_million),
        }
    }

    fn round(&mut self, payload: usize, cipher_off: &mut Option<CipherOff>) -> Row {
        let bare_one_name = slice(&mut self.bare_one_name, payload);
        let one_flow = slice(&mut self.one_flow, payload);
        let bare_any_name = slice(&mut self.bare_any_name, payload);
        let million_flows = slice(&mut self.million_flows, payload);
        Row {
            payload,
            bare_one_name,
            one_flow,
            ratio_one: bare_one_name / one_flow,
            cipher_off: cipher_off.as_mut().map(|build| build.memory_slice(payload)),
            bare_any_name,
            thousand_flows: slice(&mut self.thousand_flows, payload),
            million_flows,
            ratio_million: bare_any_name / million_flows,
        }
    }
}

/// Nanoseconds per datagram of the median batch.
pub(crate) fn slice(contestant: &mut impl Contestant, payload: usize) -> f64 {
    let mut batch = Batch::new();
    let per_batch = (0..BATCHES_A_SLICE).map(|_| {
        batch.clear();
        contestant.seal(&mut batch, payload);
        let begin = Instant::now();
        contestant.forward(&mut batch);
        let took = begin.elapsed();
        let forwarded = batch.slots().iter().filter(|slot| !slot.is_empty()).count();
        assert_eq!((batch.len(), forwarded), (BATCH_DATAGRAMS, BATCH_DATAGRAMS));
        took.as_nanos() as f64 / BATCH_DATAGRAMS as f64
    });
    median(per_batch.collect::<Vec<_>>().into_iter())
}

/// Forwards one batch and has its receivers open it: what is measured does the work.
fn check(contestant: &mut impl Contestant, payload: usize) {
    let mut batch = Batch::new();
    contestant.seal(&mut batch, payload);
    contestant.forward(&mut batch);
    for slot in 0..batch.len() {
        let (peer, datagram) = batch.datagram_mut(slot);
        assert!(contestant.arrives(peer, datagram), "datagram {slot} of {payload} bytes");
    }
}

pub(crate) trait Contestant {
    /// Appends a batch of fresh datagrams.
    fn seal(&mut self, batch: &mut Batch, payload: usize);

    /// What is timed.
    fn forward(&mut self, batch: &mut Batch);

    /// Whether a forwarded datagram is as the receiver wants it.
    fn arrives(&mut self, peer: SocketAddr, datagram: &mut [u8]) -> bool;
}

/// The bare loop over a table of [`NAMES`] names, of which the first few are asked for.
struct Bare {
    resealer: Resealer,
    names: Names,
    asked: Vec<[u8; 32]>,
    ends: Ends,
    next_hops: [SocketAddr; 2],
    chance: Chance,
}

impl Bare {
    fn new(asked: usize) -> Self {
        let mut chance = Chance::new(1);
        let mut names: Vec<_> = (0..NAMES).map(|_| chance.name()).collect();
        let table = Names::new(&names);
        names.truncate(asked);
        let next_hops = [member_address(0), member_address(1)];
        let (resealer, ends) = (Resealer::new(), Ends::new());
        Self { resealer, names: table, asked: names, ends, next_hops, chance }
    }
}

impl Contestant for Bare {
    fn seal(&mut self, batch: &mut Batch, payload: usize) {
        for _ in 0..BATCH_DATAGRAMS {
            let name = &self.asked[self.chance.below(self.asked.len())];
            self.ends.push(batch, self.next_hops[0], name, payload);
        }
    }

    /// In three passes, so that the look-ups of a batch wait for memory together.
    fn forward(&mut self, batch: &mut Batch) {
        let mut next_hops = [None; BATCH_DATAGRAMS];
        for slot in 0..batch.len() {
            if self.resealer.open(batch.datagram_mut(slot).1).is_none() {
                batch.drop_datagram(slot);
            }
        }
        for (slot, next) in next_hops.iter_mut().enumerate() {
            *next = self.names.next_hop(&batch.datagram_mut(slot).1[RecordHeader::LEN..]);
        }
        for (slot, next) in next_hops.into_iter().enumerate() {
            match next {
                Some(next) => {
                    self.resealer.seal(batch.datagram_mut(slot).1);
                    batch.redirect(slot, self.next_hops[(next & 1) as usize]);
                }
                None => batch.drop_datagram(slot),
            }
        }
    }

    fn arrives(&mut self, peer: SocketAddr, datagram: &mut [u8]) -> bool {
        self.next_hops.contains(&peer) && self.ends.opens(datagram)
    }
}

/// A switch and its members, who have joined and between each two of whom a flow is known.
pub(crate) struct Scene {
    switch: Switch,
    members: Vec<Member>,
    now: Now,
    chance: Chance,
    /// The PDU sent last, and its size: only the names change from one datagram to the next.
    pdu: Vec<u8>,
}

impl Scene {
    pub(crate) fn new(members: usize) -> Self {
        let now = member::now();
        let pairs = members * (members - 1);
        // Room enough for all flows to be in use: what a full table costs is another question.
        let switch = member::switch(4 * pairs, now);
        let mut scene =
            Self { switch, members: Vec::new(), now, chance: Chance::new(2), pdu: Vec::new() };
        for index in 0..members {
            scene.join(index);
        }
        scene.open_flows();
        assert_eq!(scene.switch.status(now).flows, pairs);
        scene
    }

    /// Lets one more member connect and join. No time passes: nothing is lost, so no timer is needed.
    fn join(&mut self, index: usize) {
        let address = member_address(index);
        let mut member = Member::new(address, self.switch.name(), ROUTER, self.now);
        let mut batch = Batch::new();
        for _ in 0..TURNS_TO_JOIN {
            batch.clear();
            member.transmit(&mut batch, self.now);
            for slot in 0..batch.len() {
                batch.redirect(slot, address);
            }
            self.switch.handle_batch(&mut batch, self.now);
            while let Some(job) = self.switch.poll_job() {
                let done = job.run();
                self.switch.handle_done(done, self.now);
            }
            self.switch.poll_transmit(&mut batch);
            for slot in 0..batch.len() {
                let (peer, datagram) = batch.datagram_mut(slot);
                if peer == address && !datagram.is_empty() {
                    member.handle(datagram, self.now);
                }
            }
            if member.is_joined() {
                self.members.push(member);
                return;
            }
        }
        panic!("member {index} has not joined");
    }

    /// Sends the first PDU of every flow.
    fn open_flows(&mut self) {
        let mut batch = Batch::new();
        self.pdu = data_pdu(self.members[0].name(), self.members[1].name(), 0, &mut self.chance);
        for source in 0..self.members.len() {
            batch.clear();
            for destination in (0..self.members.len()).filter(|other| *other != source) {
                self.push(&mut batch, source, destination);
            }
            self.switch.handle_batch(&mut batch, self.now);
        }
    }

    fn push(&mut self, batch: &mut Batch, source: usize, destination: usize) {
        self.pdu[12..44].copy_from_slice(&self.members[source].name().0);
        self.pdu[44..76].copy_from_slice(&self.members[destination].name().0);
        let member = &mut self.members[source];
        member.push(batch, member.address, &self.pdu, self.now);
    }

    /// A flow drawn from all of them; of two members, always the same one.
    fn draw_flow(&mut self) -> (usize, usize) {
        let count = self.members.len();
        if count == 2 {
            return (0, 1);
        }
        let source = self.chance.below(count);
        (source, (source + 1 + self.chance.below(count - 1)) % count)
    }
}

impl Contestant for Scene {
    fn seal(&mut self, batch: &mut Batch, payload: usize) {
        let (source, destination) = (self.members[0].name(), self.members[1].name());
        if self.pdu.len() != PduHeader::LEN + payload {
            self.pdu = data_pdu(source, destination, payload, &mut self.chance);
        }
        // A moment later than the last batch.
        self.now = self.now.plus(Duration::from_micros(20));
        for _ in 0..BATCH_DATAGRAMS {
            let (source, destination) = self.draw_flow();
            self.push(batch, source, destination);
        }
    }

    fn forward(&mut self, batch: &mut Batch) {
        self.switch.handle_batch(batch, self.now);
    }

    fn arrives(&mut self, peer: SocketAddr, datagram: &mut [u8]) -> bool {
        let now = self.now;
        let Some(member) = self.members.iter_mut().find(|member| member.address == peer) else {
            return false;
        };
        let name = member.name();
        // The tail of the PDU sent last is the data of all of them.
        let data = &self.pdu[PduHeader::LEN..];
        member
            .open(datagram, now)
            .is_some_and(|pdu| pdu.destination() == name && pdu.data() == data)
    }
}

fn member_address(index: usize) -> SocketAddr {
    let [high, low] = u16::try_from(index).expect("few members").to_be_bytes();
    SocketAddr::from(([10, 1, high, low], 4000))
}

const ROUTER: SocketAddr =
    SocketAddr::V4(std::net::SocketAddrV4::new(std::net::Ipv4Addr::new(10, 0, 0, 1), 4000));
/// A handshake takes five turns, the certificate one.
const TURNS_TO_JOIN: usize = 20;
