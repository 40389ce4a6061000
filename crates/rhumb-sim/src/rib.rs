//! A RIB in the world: the production server, or a directory that lies.
//!
//! The store outlives its process, as a disk does. A liar is a secure endpoint under a RIB's own
//! key with an honest directory behind it, whose answers it alters on their way out: the worst that
//! a RIB can do to those who ask it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use rhumb_link::{Endpoint, LinkError};
use rhumb_rib::store::{Change, Memory, RemovalChange, Store};
use rhumb_rib::{Account, Asker, Entry, Held, Outcome, Rib, RibError, Server};
use rhumb_trust::{Identity, Now, Removal, Window};
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::rib::{RibRequest, RibRequestBody, RibResponse, RibResponseBody, StoreId};
use rhumb_wire::{Action, Batch, Certificate, Name, Pdu, PduHeader, Statement};

use crate::link::link_config;

/// How a RIB treats the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lie {
    /// It tells it.
    None,
    /// Routes lead where the RIB likes, under signatures that are not their issuers'.
    Forge {
        /// Where.
        via: Name,
    },
    /// It answers with the first it ever heard of a name.
    ServeOld,
    /// It answers with another name's statements, as if they were the one's that was asked for.
    ServeAnother,
    /// It denies what it knows, and signs that.
    Deny,
    /// It acknowledges what it does not store.
    Forget,
    /// It does not answer.
    Withhold,
}

/// A store that outlives the process: clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct Disk(Rc<RefCell<Memory>>);

impl Store for Disk {
    fn entry(&mut self, name: &Name) -> Result<Option<Entry>, RibError> {
        self.0.borrow_mut().entry(name)
    }

    fn entries_after(
        &mut self,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, RibError> {
        self.0.borrow_mut().entries_after(after, limit)
    }

    fn names(&mut self) -> Result<u64, RibError> {
        self.0.borrow_mut().names()
    }

    fn held(&mut self, account: &Account) -> Result<Held, RibError> {
        self.0.borrow_mut().held(account)
    }

    fn commit(&mut self, changes: &[Change]) -> Result<Vec<Name>, RibError> {
        self.0.borrow_mut().commit(changes)
    }

    fn removals(&mut self) -> Result<Vec<Option<Removal>>, RibError> {
        self.0.borrow_mut().removals()
    }

    fn commit_removals(&mut self, changes: &[RemovalChange]) -> Result<(), RibError> {
        self.0.borrow_mut().commit_removals(changes)
    }
}

/// A RIB as it runs.
pub(crate) enum RibHost {
    Honest(Box<Server<Disk>>),
    Liar(Box<Liar>),
}

impl RibHost {
    pub(crate) fn honest(
        identity: Arc<Identity>,
        disk: Disk,
        mut config: rhumb_rib::Config,
        secret: [u8; 32],
        now: Now,
    ) -> Result<Self, LinkError> {
        let link = link_config();
        config.store = StoreId(*secret.first_chunk().expect("invariant: 16 of 32 bytes"));
        // Its disk is memory as well.
        config.cached_bytes = 0;
        Server::new(identity, disk, config, link, secret, now).map(Box::new).map(Self::Honest)
    }

    pub(crate) fn liar(
        identity: Arc<Identity>,
        disk: Disk,
        secret: [u8; 32],
        now: Now,
    ) -> Result<Self, LinkError> {
        let link = link_config();
        let endpoint = Endpoint::new(identity.clone(), link, secret, now.instant)?;
        let rib = Rib::new(identity.clone(), disk, rhumb_rib::Config::default());
        let liar = Liar { identity, endpoint, rib, lie: Lie::None, first_heard: Vec::new() };
        Ok(Self::Liar(Box::new(liar)))
    }

    pub(crate) fn handle_batch(&mut self, batch: &mut Batch, now: Now) {
        match self {
            Self::Honest(server) => server.handle_batch(batch, now),
            Self::Liar(liar) => liar.handle_batch(batch, now),
        }
    }

    pub(crate) fn handle_timeout(&mut self, out: &mut Batch, now: Now) {
        match self {
            Self::Honest(server) => {
                server.handle_timeout(now);
                server.poll_transmit(out);
            }
            Self::Liar(liar) => {
                liar.endpoint.handle_timeout(now.instant);
                liar.endpoint.poll_transmit(out);
            }
        }
    }

    /// What it has counted; a liar counts nothing.
    pub(crate) fn counters(&self) -> Option<&rhumb_rib::Counters> {
        match self {
            Self::Honest(server) => Some(server.counters()),
            Self::Liar(_) => None,
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Honest(server) => server.poll_timeout(),
            Self::Liar(liar) => liar.endpoint.poll_timeout(),
        }
    }
}

/// A directory that alters its answers.
pub(crate) struct Liar {
    identity: Arc<Identity>,
    endpoint: Endpoint,
    rib: Rib<Disk>,
    pub(crate) lie: Lie,
    /// The first answer about each name that was found.
    first_heard: Vec<(Name, RibResponseBody)>,
}

impl Liar {
    fn handle_batch(&mut self, batch: &mut Batch, now: Now) {
        let mut answers = Vec::new();
        for index in 0..batch.len() {
            let (from, datagram) = batch.datagram_mut(index);
            match Datagram::parse(datagram) {
                Ok(Datagram::Record(_)) => {
                    let opened = self.endpoint.open(from, datagram, now.instant);
                    if let Ok(opened) = opened
                        && let Ok(pdu) = Pdu::parse(&datagram[opened.plaintext])
                        && pdu.action() == Action::RibRequest
                    {
                        answers.push((opened.session, pdu.header(), pdu.data().to_vec()));
                    }
                }
                Ok(handshake) => {
                    let _ = self.endpoint.handle_handshake(from, handshake, now.instant);
                }
                Err(_) => {}
            }
            batch.drop_datagram(index);
        }
        while self.endpoint.poll_event().is_some() {}
        for (session, header, data) in answers {
            let Some(response) = self.answer(header.source, &data, now) else { continue };
            let mut data = Vec::new();
            response.emit(&mut data);
            let answer = PduHeader::new(Action::RibResponse, self.identity.name(), header.source);
            let answer = PduHeader { tag: header.tag, ..answer };
            let mut datagram = vec![0; RecordHeader::LEN];
            if answer.emit(&data, &[], &mut datagram).is_err() {
                continue;
            }
            datagram.resize(datagram.len() + RECORD_OVERHEAD - RecordHeader::LEN, 0);
            if let Ok(to) = self.endpoint.seal(session, &mut datagram, now.instant) {
                batch.push(to, &datagram);
            }
        }
        self.endpoint.poll_transmit(batch);
    }

    fn answer(&mut self, asker: Name, data: &[u8], now: Now) -> Option<RibResponse> {
        let request = RibRequest::parse(data).ok()?;
        if self.lie == Lie::Withhold {
            return None;
        }
        if let (Lie::Forget, RibRequestBody::Publish { .. }) = (self.lie, &request.body) {
            return Some(RibResponse { id: request.id, body: RibResponseBody::Stored });
        }
        let asker = Asker::admitted(asker, 1300);
        let truth = match self.rib.handle_request(asker, data, now.unix_s()) {
            Outcome::Answer(response) => response,
            Outcome::Staged(_) => self.rib.commit().pop()?,
            Outcome::Noted | Outcome::Dropped(_) => return None,
        };
        let body = match request.body {
            RibRequestBody::LookUpRoute(name) => self.alter(name, truth.body, now),
            _ => truth.body,
        };
        Some(RibResponse { id: truth.id, body })
    }

    fn alter(&mut self, name: Name, truth: RibResponseBody, now: Now) -> RibResponseBody {
        let heard = |of: &dyn Fn(Name) -> bool| self.first_heard.iter().find(|(n, _)| of(*n));
        let altered = match (self.lie, &truth) {
            (Lie::Forge { via }, RibResponseBody::Found { certificates, metadata, .. }) => {
                let metadata = metadata.clone();
                let certificates = forged(certificates, via);
                Some(RibResponseBody::Found { name, level: 0, metadata, certificates })
            }
            (Lie::ServeOld, _) => heard(&|heard| heard == name).map(|(_, body)| body.clone()),
            (Lie::ServeAnother, _) => match heard(&|heard| heard != name) {
                Some((_, RibResponseBody::Found { metadata, certificates, .. })) => {
                    let (metadata, certificates) = (metadata.clone(), certificates.clone());
                    Some(RibResponseBody::Found { name, level: 0, metadata, certificates })
                }
                _ => None,
            },
            (Lie::Deny, _) => {
                let window = Window::starting(now.unix_s(), DENIED_FOR_S);
                let statement = Statement::Absence { subject: name };
                let denial = self.identity.certify(statement, now.unix_ms, window);
                denial.ok().map(RibResponseBody::Absent)
            }
            _ => None,
        };
        let known = self.first_heard.iter().any(|(heard, _)| *heard == name);
        if !known && matches!(truth, RibResponseBody::Found { .. }) {
            self.first_heard.push((name, truth.clone()));
        }
        altered.unwrap_or(truth)
    }
}

/// The first route of a chain, bent to lead to `via`.
fn forged(certificates: &[Certificate], via: Name) -> Vec<Certificate> {
    let first = certificates.first().cloned().map(|mut first| {
        if let Statement::Route { via: of, .. } = &mut first.statement {
            *of = via;
        }
        // Newer than anything its issuer said.
        first.sequence += 1_000_000;
        first
    });
    first.into_iter().collect()
}

/// Longer than the two seconds of an honest RIB.
const DENIED_FOR_S: u64 = 5;
