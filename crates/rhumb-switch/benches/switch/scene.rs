//! Who forwards in memory: the switch with its members, and the bare loop. Each seals batches of
//! datagrams, forwards them, and knows whether what arrives is right; others measure that.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rhumb_switch::{Remote, Switch};
use rhumb_trust::Now;
use rhumb_wire::datagram::RecordHeader;
use rhumb_wire::{Batch, Name};

use crate::bare::{Ends, Resealer, Table};
use crate::chance::Chance;
use crate::member::{self, Form, Member};

/// In each batch.
pub(crate) const BATCH_DATAGRAMS: usize = 64;

pub(crate) trait Contestant {
    /// Appends a batch of fresh datagrams.
    fn seal(&mut self, batch: &mut Batch, payload: usize);

    /// What is timed.
    fn forward(&mut self, batch: &mut Batch);

    /// Whether a forwarded datagram is as the receiver wants it.
    fn arrives(&mut self, peer: SocketAddr, datagram: &mut [u8]) -> bool;
}

/// The bare loop over a table.
pub(crate) struct Bare {
    resealer: Resealer,
    table: Table,
    asked: usize,
    sessions: usize,
    ends: Ends,
    next_hops: [SocketAddr; 2],
    chance: Chance,
    /// How many datagrams of a thousand are for a name that is not in the table.
    pub(crate) missed_per_mille: usize,
}

impl Bare {
    /// With `entries` in its table, of which the first `asked` are asked for.
    pub(crate) fn new(form: Form, entries: usize, asked: usize, sessions: usize) -> Self {
        let mut chance = Chance::new(1);
        let table = Table::new(form, entries, &mut chance);
        let next_hops = [member_address(0), member_address(1)];
        let (resealer, ends) = (Resealer::new(sessions), Ends::new(sessions));
        let missed_per_mille = 0;
        Self { resealer, table, asked, sessions, ends, next_hops, chance, missed_per_mille }
    }
}

impl Contestant for Bare {
    fn seal(&mut self, batch: &mut Batch, payload: usize) {
        let len = self.table.form().header_len() + payload;
        for _ in 0..BATCH_DATAGRAMS {
            let entry = self.chance.below(self.asked);
            let session = self.chance.below(self.sessions);
            let missed = self.missed_per_mille > self.chance.below(1000);
            let unknown = missed.then(|| self.chance.name());
            let address = |pdu: &mut [u8]| match unknown {
                Some(name) => self.table.address_nowhere(&name, pdu),
                None => self.table.address(entry, pdu),
            };
            self.ends.push(batch, self.next_hops[0], (session, len), address);
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
            *next = self.table.next_hop(&batch.datagram_mut(slot).1[RecordHeader::LEN..]);
        }
        for (slot, next) in next_hops.into_iter().enumerate() {
            match next {
                Some(next) => {
                    self.resealer.seal(next, batch.datagram_mut(slot).1);
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

/// A switch and its members, who have joined and between each two of whose names a flow is known.
pub(crate) struct Scene {
    pub(crate) switch: Switch,
    pub(crate) members: Vec<Member>,
    /// Who sends and receives: a name, and the member whose it is.
    ends: Vec<(usize, Name)>,
    pub(crate) now: Now,
    chance: Chance,
    /// How PDUs travel.
    pub(crate) form: Form,
    /// What all PDUs of a batch bring.
    data: Vec<u8>,
}

impl Scene {
    pub(crate) fn new(members: usize) -> Self {
        Self::with_ribs(members, 1, Vec::new())
    }

    /// With so many names for each member.
    pub(crate) fn with_names(members: usize, names: usize) -> Self {
        Self::with_ribs(members, names, Vec::new())
    }

    /// With a switch that was told of these RIBs, and has not connected to them yet.
    pub(crate) fn with_ribs(members: usize, names: usize, ribs: Vec<Remote>) -> Self {
        let now = member::now();
        let ends = members * names;
        let pairs = ends * (ends - 1);
        let mut scene = Self {
            switch: member::switch(pairs, ribs, now),
            members: Vec::with_capacity(members),
            ends: Vec::with_capacity(ends),
            now,
            chance: Chance::new(2),
            form: Form::Names,
            data: Vec::new(),
        };
        for index in 0..members {
            scene.join(index);
            for _ in 1..names {
                scene.serve(index);
            }
        }
        scene.open_flows();
        assert_eq!(scene.switch.status(now).flows, pairs);
        scene
    }

    /// Lets a member join for one more name.
    fn serve(&mut self, index: usize) {
        self.now = self.now.plus(JOINING_TAKES);
        let name = self.members[index].serve(self.now);
        self.ends.push((index, name));
        let mut batch = Batch::new();
        let member = &mut self.members[index];
        member.transmit(&mut batch, self.now);
        (0..batch.len()).for_each(|slot| batch.redirect(slot, member.address));
        self.switch.handle_batch(&mut batch, self.now);
        while let Some(job) = self.switch.poll_job() {
            let done = job.run();
            self.switch.handle_done(done, self.now);
        }
        // What it is told is that it may.
        self.switch.poll_transmit(&mut batch);
    }

    /// Lets one more member connect and join. Nothing is lost, so no timer is needed.
    fn join(&mut self, index: usize) {
        self.now = self.now.plus(JOINING_TAKES);
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
                self.ends.push((index, member.name()));
                self.members.push(member);
                return;
            }
        }
        panic!("member {index} has not joined");
    }

    /// Sends the first PDU of every flow, and lets both of its hops give their labels.
    fn open_flows(&mut self) {
        let mut batch = Batch::new();
        self.data = member::data(FIRST_PAYLOAD, &mut self.chance);
        for source in 0..self.ends.len() {
            // No session opens more flows at once than a switch looks into.
            self.now = self.now.plus(OPENING_TAKES);
            self.push_to_all(&mut batch, source);
            // The first pass brings PDUs to their destinations and labels to the
            // source, the second labels to the switch.
            for _ in 0..2 {
                self.switch.handle_batch(&mut batch, self.now);
                for slot in 0..batch.len() {
                    let (peer, datagram) = batch.datagram_mut(slot);
                    if !datagram.is_empty() {
                        self.members[member_index(peer)].handle(datagram, self.now);
                    }
                }
                batch.clear();
                for member in &mut self.members {
                    let first = batch.len();
                    member.transmit(&mut batch, self.now);
                    (first..batch.len()).for_each(|slot| batch.redirect(slot, member.address));
                }
            }
        }
        // Once more at one time, so that all labels were told lately.
        for source in 0..self.ends.len() {
            self.push_to_all(&mut batch, source);
            self.switch.handle_batch(&mut batch, self.now);
        }
    }

    /// How many names send and receive.
    pub(crate) fn names(&self) -> usize {
        self.ends.len()
    }

    /// A batch of one PDU to each other name.
    pub(crate) fn push_to_all(&mut self, batch: &mut Batch, source: usize) {
        batch.clear();
        for destination in (0..self.ends.len()).filter(|other| *other != source) {
            self.push(batch, source, destination);
        }
    }

    fn push(&mut self, batch: &mut Batch, source: usize, destination: usize) {
        let (index, name) = self.ends[source];
        let to = (self.ends[destination].1, self.form);
        let member = &mut self.members[index];
        member.push_data_as(name, batch, member.address, to, &self.data, self.now);
    }

    /// A flow drawn from all of them; of two names, always the same one.
    fn draw_flow(&mut self) -> (usize, usize) {
        let count = self.ends.len();
        if count == 2 {
            return (0, 1);
        }
        let source = self.chance.below(count);
        (source, (source + 1 + self.chance.below(count - 1)) % count)
    }
}

impl Contestant for Scene {
    fn seal(&mut self, batch: &mut Batch, payload: usize) {
        if self.data.len() != payload {
            self.data = member::data(payload, &mut self.chance);
        }
        // A moment later than the last batch. The clock stays within
        // the time after which labels are told again.
        self.now = self.now.plus(Duration::from_micros(1));
        for _ in 0..BATCH_DATAGRAMS {
            let (source, destination) = self.draw_flow();
            self.push(batch, source, destination);
        }
    }

    fn forward(&mut self, batch: &mut Batch) {
        self.switch.handle_batch(batch, self.now);
    }

    fn arrives(&mut self, peer: SocketAddr, datagram: &mut [u8]) -> bool {
        self.members[member_index(peer)].arrives(datagram, self.form, &self.data, self.now)
    }
}

pub(crate) fn member_address(index: usize) -> SocketAddr {
    let [high, low] = u16::try_from(index).expect("few members").to_be_bytes();
    SocketAddr::from(([10, 1, high, low], 4000))
}

pub(crate) fn member_index(address: SocketAddr) -> usize {
    match address.ip() {
        IpAddr::V4(ip) => usize::from(u16::from_be_bytes([ip.octets()[2], ip.octets()[3]])),
        IpAddr::V6(ip) => panic!("{ip} is no member"),
    }
}

pub(crate) const ROUTER: SocketAddr =
    SocketAddr::V4(std::net::SocketAddrV4::new(std::net::Ipv4Addr::new(10, 0, 0, 1), 4000));
/// Sessions that a thousand flows are between, and a million.
pub(crate) const SESSIONS: usize = 32;
/// Of each of them, for a million flows.
pub(crate) const NAMES_A_SESSION: usize = 32;
/// So much later, a session may open as many flows again.
pub(crate) const OPENING_TAKES: Duration = Duration::from_millis(100);
/// So much later, a switch has one more handshake or certificate verified, whoever comes.
const JOINING_TAKES: Duration = Duration::from_millis(10);
/// Enough to be told a label about.
pub(crate) const FIRST_PAYLOAD: usize = 16;
/// A handshake takes five turns, the certificate one.
pub(crate) const TURNS_TO_JOIN: usize = 20;
