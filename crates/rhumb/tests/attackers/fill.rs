//! Who fills a RIB with names of its own making.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use rhumb_trust::{Identity, Window};
use rhumb_wire::rib::{
    Refusal, RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody,
};
use rhumb_wire::{Action, Certificate, Name, PduHeader, Role, Scope, Statement};

use super::{AtRate, PATIENCE, Stranger, now};

/// A session with a RIB over which names are published, several at a time.
pub(crate) struct Publisher {
    /// What was stored.
    pub(crate) stored: Vec<Name>,
    /// Orders that were refused because there is no room.
    pub(crate) refused: u64,
    stranger: Stranger,
    next: u32,
    /// Orders that are not answered: name, data, when they were sent.
    waiting: BTreeMap<u32, (Name, Vec<u8>, Instant)>,
}

impl Publisher {
    pub(crate) fn connect(at: Ipv4Addr, rib: SocketAddr) -> Self {
        let stranger = Stranger::connect(at, rib, Role::Router);
        Self { stored: Vec::new(), refused: 0, stranger, next: 0, waiting: BTreeMap::new() }
    }

    /// Orders to store a statement, which is repeated until it is answered.
    pub(crate) fn publish(&mut self, issuer: &Identity, certificate: Certificate) {
        self.next += 1;
        let metadata = vec![(**issuer.metadata()).clone()];
        let body = RibRequestBody::Publish { metadata, certificates: vec![certificate] };
        let mut data = Vec::new();
        RibRequest { id: RequestId(self.next), body }.emit(&mut data);
        self.order(&data);
        self.waiting.insert(self.next, (issuer.name(), data, Instant::now()));
    }

    /// Publishes a name that nobody has seen before.
    pub(crate) fn publish_any(&mut self) {
        let now = now();
        let issuer = Identity::generate(Role::Node, now.unix_s()).unwrap();
        let statement = Statement::Route { via: self.stranger.name(), scope: Scope::Any };
        let window = Window::starting(now.unix_s(), 600);
        let certificate = issuer.certify(statement, now.unix_ms, window).unwrap();
        self.publish(&issuer, certificate);
    }

    fn order(&mut self, data: &[u8]) {
        let (from, to) = (self.stranger.name(), self.stranger.peer());
        self.stranger.send(PduHeader::new(Action::RibRequest, from, to), data, &[]);
    }

    /// Takes answers, and repeats what is not answered.
    pub(crate) fn pump(&mut self) {
        self.stranger.pump();
        while let Some(data) = self.stranger.take(|header| header.action == Action::RibResponse) {
            let RibResponse { id, body } = RibResponse::parse(&data).unwrap();
            let Some((name, ..)) = self.waiting.remove(&id.0) else { continue };
            match body {
                RibResponseBody::Stored => self.stored.push(name),
                RibResponseBody::Refused(Refusal::QuotaExceeded) => self.refused += 1,
                other => panic!("{other:?}"),
            }
        }
        self.stranger.inbox.clear();
        let late: Vec<u32> = self
            .waiting
            .iter()
            .filter(|(_, (_, _, sent))| sent.elapsed() > REPEAT)
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            let (_, data, sent) = self.waiting.get_mut(&id).unwrap();
            *sent = Instant::now();
            let data = data.clone();
            self.order(&data);
        }
    }

    /// How many of these names it is told a way to.
    pub(crate) fn found(&mut self, names: &[Name]) -> usize {
        let mut found = 0;
        for name in names {
            self.next += 1;
            let (id, body) = (RequestId(self.next), RibRequestBody::LookUpRoute(*name));
            let mut data = Vec::new();
            RibRequest { id, body }.emit(&mut data);
            let (begun, mut asked) = (Instant::now(), None::<Instant>);
            let answer = loop {
                if asked.is_none_or(|at| at.elapsed() > REPEAT) {
                    assert!(begun.elapsed() < PATIENCE, "the RIB does not answer");
                    asked = Some(Instant::now());
                    self.order(&data);
                }
                self.stranger.pump();
                let Some(data) = self.stranger.take(|header| header.action == Action::RibResponse)
                else {
                    std::thread::sleep(Duration::from_micros(100));
                    continue;
                };
                let answer = RibResponse::parse(&data).unwrap();
                if answer.id == id {
                    break answer.body;
                }
            };
            found += usize::from(matches!(answer, RibResponseBody::Found { .. }));
        }
        found
    }

    /// Waits until all orders are answered.
    pub(crate) fn finish(&mut self) {
        let begun = Instant::now();
        while !self.waiting.is_empty() {
            assert!(begun.elapsed() < PATIENCE, "the RIB does not answer");
            self.pump();
            std::thread::sleep(Duration::from_micros(300));
        }
    }
}

/// Has so many self-made identities, each at an address of its own, publish until the RIB takes
/// nothing more of any of them. Returns them all: they go on as long as they are pumped.
pub(crate) fn fill(rib: SocketAddr, identities: u8) -> Vec<Publisher> {
    let address = |number| Ipv4Addr::new(127, 1, number, 1);
    let mut publishers: Vec<Publisher> =
        (0..identities).map(|number| Publisher::connect(address(number), rib)).collect();
    let mut last = (0, Instant::now());
    while publishers.iter().any(|publisher| publisher.refused == 0) {
        for publisher in &mut publishers {
            while publisher.refused == 0 && publisher.waiting.len() < WINDOW {
                publisher.publish_any();
            }
            publisher.pump();
        }
        let stored = publishers.iter().map(|publisher| publisher.stored.len()).sum();
        if stored > last.0 {
            last = (stored, Instant::now());
        }
        assert!(last.1.elapsed() < PATIENCE, "the RIB neither takes nor refuses");
        std::thread::sleep(Duration::from_micros(300));
    }
    publishers.iter_mut().for_each(Publisher::finish);
    publishers
}

/// Has them go on in turns, at a rate, whatever the RIB answers.
pub(crate) fn keep_filling(mut publishers: Vec<Publisher>, per_s: u64) -> AtRate {
    AtRate::start(per_s, move |number| {
        let publisher = number as usize % publishers.len();
        publishers[publisher].publish_any();
        publishers[publisher].pump();
    })
}

/// Orders under way of one publisher.
const WINDOW: usize = 16;
const REPEAT: Duration = Duration::from_millis(500);
