//! A RIB that holds what it is told and tells of changes, but answers as a test likes: the worst
//! that a RIB can do to those who ask it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_io::PacketIo;
use rhumb_io::memory::Endpoint as Wire;
use rhumb_link::Endpoint;
use rhumb_rib::store::Memory;
use rhumb_rib::{Asker, Outcome, Rib};
use rhumb_trust::{Identity, Now, Window};
use rhumb_wire::datagram::{Datagram, RecordHeader};
use rhumb_wire::log::Head;
use rhumb_wire::metadata::Role;
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody};
use rhumb_wire::{Action, Batch, Certificate, Name, Pdu, PduHeader, Scope, Statement};

use super::World;

/// What the liar makes of a question and the truth about it; nothing when it stays silent.
pub type Lie = Box<dyn FnMut(&RibRequestBody, RibResponseBody) -> Option<RibResponseBody>>;

pub struct Liar {
    pub identity: Arc<Identity>,
    pub lie: Lie,
    /// How long it takes to answer.
    pub delay: Duration,
    /// Whether it keeps changes to itself.
    pub is_mute: bool,
    /// Questions it was asked, orders not counted.
    pub asked: usize,
    /// Who is told of another world than all others, and that.
    pub twin: Option<(Name, Rib<Memory>)>,
    endpoint: Endpoint,
    rib: Rib<Memory>,
    wire: Wire,
    address: SocketAddr,
    late: Vec<(Instant, SocketAddr, Vec<u8>)>,
    tick_at: Instant,
}

impl Liar {
    pub fn new(world: &mut World, address: SocketAddr, lie: Lie) -> Self {
        let identity = world.identity(Role::Rib);
        let link = rhumb_link::Config::default();
        let secret = world.secret();
        let endpoint = Endpoint::new(identity.clone(), link, secret, world.now.instant).unwrap();
        let rib = rib_of(&identity, world.now);
        let tick_at = world.now.instant;
        let twin = None;
        let wire = world.network.endpoint(address).unwrap();
        let (delay, late) = (Duration::ZERO, Vec::new());
        let is_mute = false;
        Self {
            identity,
            lie,
            delay,
            is_mute,
            asked: 0,
            twin,
            endpoint,
            rib,
            wire,
            address,
            late,
            tick_at,
        }
    }

    /// Tells one asker of a world of its own, from now on.
    pub fn deceive(&mut self, asker: Name, now: Now) {
        self.twin = Some((asker, rib_of(&self.identity, now)));
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        let late = self.late.iter().map(|(at, ..)| *at);
        let own = [Some(self.tick_at), self.endpoint.poll_timeout(), self.rib.poll_timeout()];
        late.chain(own.into_iter().flatten()).min()
    }

    pub fn handle_timeout(&mut self, now: Now) {
        self.endpoint.handle_timeout(now.instant);
        if self.tick_at <= now.instant {
            self.tick_at = now.instant + Duration::from_secs(1);
        }
        for rib in self.twin.iter_mut().map(|(_, rib)| rib).chain([&mut self.rib]) {
            rib.advance(now);
            assert_eq!(rib.commit(), []);
        }
    }

    pub fn step(&mut self, now: Now) -> usize {
        let mut batch = Batch::new();
        let received = self.wire.receive(&mut batch).unwrap();
        for slot in 0..batch.len() {
            let (from, datagram) = batch.datagram_mut(slot);
            match Datagram::parse(datagram) {
                Ok(Datagram::Record(_)) => {
                    let Ok(opened) = self.endpoint.open(from, datagram, now.instant) else {
                        continue;
                    };
                    let Ok(pdu) = Pdu::parse(&datagram[opened.plaintext]) else { continue };
                    let (header, data) = (pdu.header(), pdu.data().to_vec());
                    if let Some(response) = self.answer(header.source, &data, now) {
                        self.tell(header.source, header.tag, &response, now);
                    }
                }
                Ok(handshake) => {
                    let _ = self.endpoint.handle_handshake(from, handshake, now.instant);
                }
                Err(_) => {}
            }
        }
        while let Some(push) = self.rib.poll_change(now) {
            if !self.is_mute {
                self.tell(push.asker, 0, &push.response, now);
            }
        }
        while self.endpoint.poll_event().is_some() {}
        batch.clear();
        self.endpoint.poll_transmit(&mut batch);
        self.late.retain(|(at, to, datagram)| {
            if *at <= now.instant {
                batch.push(*to, datagram);
            }
            *at > now.instant
        });
        received + self.wire.send(&batch).unwrap().sent
    }

    fn answer(&mut self, name: Name, data: &[u8], now: Now) -> Option<RibResponse> {
        let request = RibRequest::parse(data).ok()?;
        let asker = Asker::admitted(name, 1300);
        let is_order = matches!(request.body, RibRequestBody::Publish { .. });
        let told = match &mut self.twin {
            Some((deceived, twin)) if is_order || *deceived == name => {
                Some(answer_of(twin, asker, data, now))
            }
            _ => None,
        };
        let truth = match told {
            Some(told) if !is_order => told?,
            _ => answer_of(&mut self.rib, asker, data, now)?,
        };
        if !is_order {
            self.asked += 1;
        }
        let body = (self.lie)(&request.body, truth.body)?;
        Some(RibResponse { id: request.id, body })
    }

    /// Hears a statement from somebody else; what it says to that.
    pub fn hear(&mut self, certificates: Vec<Certificate>, now: Now) -> Option<RibResponseBody> {
        let body = RibRequestBody::Publish { metadata: Vec::new(), certificates };
        let mut data = Vec::new();
        RibRequest { id: RequestId(0), body }.emit(&mut data);
        Some(self.answer(Name([0x77; 32]), &data, now)?.body)
    }

    /// In the world of the deceived there is a name that is nowhere else.
    pub fn invent(&mut self, holder: &Identity, now: Now) {
        let statement = Statement::Route { via: Name([0x77; 32]), scope: Scope::Any };
        let window = Window::starting(now.unix_s(), 600);
        let certificates = vec![holder.certify(statement, now.unix_ms, window).unwrap()];
        let metadata = vec![(**holder.metadata()).clone()];
        let mut data = Vec::new();
        let body = RibRequestBody::Publish { metadata, certificates };
        RibRequest { id: RequestId(0), body }.emit(&mut data);
        let asker = Asker::admitted(Name([0x77; 32]), 1300);
        let twin = &mut self.twin.as_mut().expect("somebody is deceived").1;
        let stored = answer_of(twin, asker, &data, now).map(|answer| answer.body);
        assert_eq!(stored, Some(RibResponseBody::Stored));
    }

    /// The newest head of the log that this asker is told of.
    pub fn head_for(&mut self, asker: Name, now: Now) -> Option<Head> {
        let mut data = Vec::new();
        RibRequest { id: RequestId(0), body: RibRequestBody::Prove(asker) }.emit(&mut data);
        match self.answer(asker, &data, now)?.body {
            RibResponseBody::Proof { head, .. } => Some(head),
            _ => None,
        }
    }

    /// Sends a response, asked for or not.
    pub fn tell(&mut self, to: Name, tag: u32, response: &RibResponse, now: Now) {
        let Some(session) = self.endpoint.session_of(&to) else { return };
        let mut data = Vec::new();
        response.emit(&mut data);
        let header = PduHeader::new(Action::RibResponse, self.identity.name(), to);
        let mut datagram = vec![0; RecordHeader::LEN];
        PduHeader { tag, ..header }.emit(&data, &[], &mut datagram).unwrap();
        datagram.extend_from_slice(&[0; 16]);
        let to = self.endpoint.seal(session, &mut datagram, now.instant).unwrap();
        self.late.push((now.instant + self.delay, to, datagram));
    }
}

fn rib_of(identity: &Arc<Identity>, now: Now) -> Rib<Memory> {
    let mut config = rhumb_rib::Config::default();
    config.keeps_log = true;
    let mut rib = Rib::new(identity.clone(), Memory::new(), config);
    rib.keep_log(now);
    rib
}

fn answer_of(rib: &mut Rib<Memory>, asker: Asker, data: &[u8], now: Now) -> Option<RibResponse> {
    match rib.handle_request(asker, data, now.unix_s()) {
        Outcome::Answer(response) => Some(response),
        Outcome::Staged(_) => rib.commit().pop(),
        _ => None,
    }
}
