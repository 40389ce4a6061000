//! The directory behind a secure endpoint: batches of datagrams in,
//! batches of datagrams out. No socket, no clock.
//!
//! Per datagram:
//! 1. Tell it apart; handshakes go to the endpoint, records are opened in place.
//! 2. Take the PDU inside only if it is a request, for this directory, by the very peer whose
//!    session it came on: routers ask for themselves.
//! 3. Serve it. Look-ups are answered at once, orders to publish are taken.
//!
//! Per batch:
//! 4. Verify what was taken, commit it, once, and answer it. So the busier the
//!    directory is, the more orders share a commit.
//! 5. Tell subscribers what changed, and append what the endpoint has to send.
//!
//! Step 4 takes milliseconds. Whoever has threads for it calls [`Server::defer_work`] and
//! then runs what [`Server::poll_verification`] and [`Server::poll_commit`] hand out
//! elsewhere, so that look-ups never wait for it. Where the store is elsewhere, so is what
//! [`Server::poll_read`] hands out, and only those wait who need it.
//!
//! What misses here is asked of the RIBs of the domain around, if there is one, over sessions that
//! this end begins (`parents`): whoever waits for that is answered when they have.
//!
//! Whatever else comes in is dropped and counted by [`DropReason`].

mod outside;
mod parents;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_link::{
    Endpoint, Event, LinkError, Opened, Peer, SessionId, Source, StreamNews, StreamOrder,
};
use rhumb_trust::{Access, Identity, Membership, Now, Removal, Standing};
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader, RecordKind};
use rhumb_wire::rib::{RibRequest, RibResponse, RibResponseBody};
use rhumb_wire::{Action, Batch, Name, Pdu, PduHeader};

use crate::civil_clock::CivilClock;
use crate::spread::READ_AHEAD;
use crate::store::{Answer, Read, Store};
use crate::{
    Asker, Commit, Committed, Config, Counters, DropReason, Fill, LogState, NameLimits, OrderId,
    Outcome, Push, RefusedAsker, Rib, RibError, Verdict, Verification,
};

/// A directory that serves requests over secure sessions.
pub struct Server<S> {
    endpoint: Endpoint,
    rib: Rib<S>,
    /// Who waits for what becomes of an order.
    waiting: HashMap<OrderId, ReturnPath>,
    work_is_deferred: bool,
    clock: CivilClock,
    clock_is_wrong: bool,
    sweep_at: Instant,
    /// When the next piece of this second's part of the sweep is due.
    sweep_on_at: Option<Instant>,
    /// Answers to orders, and changes.
    outgoing: Batch,
    /// Room for one answer while it is sealed.
    buffer: Vec<u8>,
    /// Room for what it says, while that is made.
    said: Vec<u8>,
}

/// Where the answer to a request goes.
#[derive(Debug, Clone, Copy)]
struct ReturnPath {
    session: SessionId,
    asker: Name,
    tag: u32,
    /// When it came.
    since: Instant,
}

impl<S: Store> Server<S> {
    /// A server that proves `identity` and signs as it. `secret` must be fresh and random: the
    /// endpoint's cookies are made with it.
    ///
    /// # Errors
    /// When the endpoint cannot be made.
    pub fn new(
        identity: Arc<Identity>,
        store: S,
        config: Config,
        link: rhumb_link::Config,
        secret: [u8; 32],
        now: Now,
    ) -> Result<Self, LinkError> {
        let mut endpoint = Endpoint::new(identity.clone(), link, secret, now.instant)?;
        let mut rib = Rib::new(identity, store, config);
        endpoint.set_access(rib.access().clone(), now);
        rib.look_beyond(now.instant);
        rib.keep_log(now);
        Ok(Self {
            endpoint,
            rib,
            waiting: HashMap::new(),
            work_is_deferred: false,
            clock: CivilClock::new(now),
            clock_is_wrong: false,
            outgoing: Batch::new(),
            sweep_at: now.instant + SWEEP_INTERVAL,
            sweep_on_at: None,
            buffer: Vec::new(),
            said: Vec::new(),
        })
    }

    /// Leaves verifications and commits to the caller from now on.
    pub fn defer_work(&mut self) {
        self.work_is_deferred = true;
    }

    /// Takes the datagrams of a batch out of it and puts those to send into it. Work: for each
    /// datagram a look-up or a step of a handshake; unless work is deferred, a verification for
    /// each order, and one commit for all of them.
    pub fn handle_batch(&mut self, batch: &mut Batch, now: Now) {
        let (mut slot, received) = (0, batch.len());
        while slot < received {
            let end = received.min(slot + READ_AHEAD);
            slot += self.serve_group(batch, slot..end, now);
            if slot < end {
                let (from, datagram) = batch.datagram_mut(slot);
                if !datagram.is_empty() {
                    let served = self.serve(from, datagram, now);
                    batch.drop_datagram(slot);
                    self.tell(served, now);
                }
                slot += 1;
            }
        }
        self.advance(now);
        self.poll_transmit(batch);
    }

    /// Does what is due: the endpoint's timers, changes to tell again, and a piece of the sweep.
    /// Work: [`SWEEP_PIECE`] entries at most.
    pub fn handle_timeout(&mut self, now: Now) {
        self.endpoint.handle_timeout(now.instant);
        if let Some(beyond) = &mut self.rib.beyond {
            beyond.directory.handle_timeout(now.instant);
        }
        if self.sweep_at <= now.instant {
            self.sweep_at = now.instant + SWEEP_INTERVAL;
            self.rib.pass_second();
            self.sweep_on_at = Some(now.instant);
        }
        if self.sweep_on_at.is_some_and(|at| at <= now.instant) {
            self.sweep(now);
        }
        self.advance(now);
    }

    fn sweep(&mut self, now: Now) {
        self.sweep_on_at = None;
        let jumped = self.clock.jumped_ahead_s(now);
        match jumped {
            None => {
                let is_busy = self.rib.is_writing();
                let seen = self.rib.plan_sweep(now.unix_s(), SWEEP_PIECE);
                if is_busy || seen == SWEEP_PIECE {
                    self.sweep_on_at = Some(now.instant + SWEEP_INTERVAL / SWEEP_PIECES);
                }
            }
            Some(ahead_s) => {
                self.rib.counters.sweeps_refused += 1;
                if !self.clock_is_wrong {
                    self.rib.last_error = Some(RibError::ClockJumped { ahead_s });
                }
            }
        }
        self.clock_is_wrong = jumped.is_some();
    }

    /// The next order whose signatures are to be checked, if work is deferred.
    pub fn poll_verification(&mut self) -> Option<Verification> {
        self.rib.poll_verification()
    }

    /// Takes back what became of a verification.
    pub fn handle_verified(&mut self, verdict: Verdict, now: Now) {
        self.rib.handle_verified(verdict);
        self.advance(now);
    }

    /// What is to be read of a store that is elsewhere, if work is deferred; none while as much as
    /// may be is being read.
    pub fn poll_read(&mut self) -> Option<Read> {
        self.rib.poll_read()
    }

    /// Takes back what was read.
    pub fn handle_read(&mut self, read: Read, answer: Result<Answer, RibError>, now: Now) {
        self.rib.handle_read(read, answer);
        self.advance(now);
    }

    /// Others of the same store change what is stored of these names, if any, which is told for the
    /// first time. To be called several times a second: whoever hears nothing for long believes
    /// nothing that he has read earlier.
    pub fn hear_changes(&mut self, names: &[Name], now: Now) {
        self.rib.hear_changes(names, now.unix_s());
        self.advance(now);
    }

    /// The same again, when more of it has been written.
    pub fn hear_changes_again(&mut self, names: &[Name], now: Now) {
        self.rib.hear_changes_again(names, now.unix_s());
        self.advance(now);
    }

    /// Others may have changed anything.
    pub fn miss_changes(&mut self) {
        self.rib.miss_changes();
    }

    /// Removals that others of the same store have stored count here, too.
    pub fn hear_removals(&mut self, removals: Vec<Option<Removal>>, now: Now) {
        self.rib.hear_removals(removals);
        self.advance(now);
    }

    /// The next commit, if work is deferred; none while one is under way.
    pub fn poll_commit(&mut self) -> Option<Commit> {
        self.rib.poll_commit()
    }

    /// Takes back what became of a commit.
    pub fn handle_committed(&mut self, committed: Committed, now: Now) {
        self.rib.handle_committed(committed);
        self.advance(now);
    }

    /// As [`Endpoint::handle_stream`]: what happened to streams, which whoever runs the server
    /// carries if the link's configuration says so.
    pub fn handle_stream(&mut self, news: StreamNews, now: Now) -> Option<SocketAddr> {
        let address = self.endpoint.handle_stream(news, now.instant);
        self.advance(now);
        address
    }

    /// As [`Endpoint::poll_stream_order`].
    pub fn poll_stream_order(&mut self) -> Option<StreamOrder> {
        self.endpoint.poll_stream_order()
    }

    /// Ends all sessions, so that routers ask another RIB at
    /// once; to be sent by [`Server::poll_transmit`].
    pub fn close_all(&mut self, now: Now) {
        self.endpoint.close_all(now.instant);
    }

    /// Appends what is to be sent besides the answers to a batch.
    pub fn poll_transmit(&mut self, out: &mut Batch) {
        for (peer, datagram) in self.outgoing.iter() {
            out.push(peer, datagram);
        }
        self.outgoing.clear();
        self.endpoint.poll_transmit(out);
    }

    /// When to call [`Server::handle_timeout`]; the sweep sees to it that this is never far off.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let beyond = self.rib.beyond.as_ref().and_then(|beyond| beyond.poll_timeout());
        let rib = self.rib.poll_timeout();
        let reach = self.rib.reach.as_ref().and_then(|reach| reach.poll_timeout());
        let sweep = [Some(self.sweep_at), self.sweep_on_at];
        let due = [self.endpoint.poll_timeout(), rib, beyond, reach].into_iter().chain(sweep);
        due.flatten().min()
    }

    /// The last failure of the store or of signing, once: for the log.
    pub fn poll_error(&mut self) -> Option<RibError> {
        self.rib.poll_error()
    }

    /// The directory's name.
    pub fn name(&self) -> Name {
        self.rib.name()
    }

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        self.rib.counters()
    }

    /// How many names have an entry.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn stored_names(&mut self) -> Result<u64, RibError> {
        self.rib.stored_names()
    }

    /// How full the store is, and by whom.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn fill(&mut self) -> Result<Fill, RibError> {
        self.rib.fill()
    }

    /// How its log is, if it keeps one.
    pub fn log_state(&self) -> Option<LogState> {
        self.rib.log_state()
    }

    /// What bounds it.
    pub fn config(&self) -> &Config {
        self.rib.config()
    }

    /// Shows what `identity`, which is of the same name, shows of a trust domain: sessions go on,
    /// and are renewed.
    ///
    /// # Errors
    /// When it is another name, or no certificate can be made of it.
    pub fn show(&mut self, identity: &Identity, now: Now) -> Result<(), LinkError> {
        self.endpoint.show(identity, now.instant)
    }

    /// Whom it serves from now on. Whoever is refused from now on is told nothing any more, either.
    pub fn set_access(&mut self, access: Access, now: Now) {
        self.rib.set_access(access);
        self.endpoint.set_access(self.rib.access().clone(), now);
        let refused = |peer: &Peer| self.rib.standing(&peer.who(now.unix_s())) == Standing::Refused;
        let sessions = self.endpoint.sessions();
        let gone: Vec<Name> =
            sessions.filter(|(_, peer)| refused(peer)).map(|(_, peer)| peer.name).collect();
        for asker in gone {
            self.rib.forget_asker(&asker);
        }
    }

    /// Whom it serves.
    pub fn access(&self) -> &Access {
        self.rib.access()
    }

    /// Who was refused lately, one for each source.
    pub fn refused(&self) -> impl Iterator<Item = RefusedAsker> {
        self.rib.refused()
    }

    /// How many subscriptions to changes there are.
    pub fn subscriptions(&self) -> usize {
        self.rib.subscriptions()
    }

    /// The endpoint: its sessions, its counters.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Whatever is to be done after anything happened.
    fn advance(&mut self, now: Now) {
        self.take_events(now.instant);
        self.connect_parents(now.instant);
        self.connect_outside(now.instant);
        if !self.work_is_deferred {
            self.rib.work();
        }
        self.rib.advance(now);
        self.end_removed(now.instant);
        self.send_to_parents(now);
        self.send_outside(now);
        while let Some(id) = self.rib.poll_abandoned() {
            self.waiting.remove(&id);
        }
        while let Some((id, response)) = self.rib.poll_answer() {
            if let Some(path) = self.waiting.remove(&id) {
                self.note_wait(&path, &response, now);
                self.send(path, &response, now);
            }
        }
        while let Some(Push { asker, response }) = self.rib.poll_change(now) {
            if let Some(session) = self.endpoint.session_of(&asker) {
                let path = ReturnPath { session, asker, tag: 0, since: now.instant };
                self.send(path, &response, now);
            }
        }
    }

    /// Ends the sessions of those whose memberships were taken back: they may come again, as the
    /// strangers that they are. What they are told and what their source may cost begins anew, too.
    fn end_removed(&mut self, now: Instant) {
        if !self.rib.take_new_removals() {
            return;
        }
        let removals = self.rib.access().removals.clone();
        let was_removed =
            |peer: &Peer| peer.membership.as_ref().is_some_and(|it| removals.against(it).is_some());
        let sessions = self.endpoint.sessions().filter(|(_, peer)| was_removed(peer));
        let removed: Vec<SessionId> = sessions.map(|(session, _)| session).collect();
        for session in removed {
            self.rib.counters.members_removed += 1;
            self.endpoint.close(session, now);
        }
        self.take_events(now);
    }

    /// How many removals count here.
    pub fn removals(&self) -> usize {
        self.rib.removals()
    }

    /// Serves what is in these slots, up to the first that is no sealed PDU, since a close ends a
    /// session for what comes behind it alone. How many there were.
    ///
    /// All are opened first, and what their answers are made of is read ahead for all at once: of
    /// ten million names, most is in no cache of the processor, and it would be waited for one by
    /// one.
    fn serve_group(&mut self, batch: &mut Batch, mut slots: Range<usize>, now: Now) -> usize {
        let is_sealed = |slot: &usize| {
            let first = batch.datagram(*slot).first();
            first.and_then(|first| RecordKind::of(*first)) == Some(RecordKind::Pdu)
        };
        slots.end = slots.clone().find(|slot| !is_sealed(slot)).unwrap_or(slots.end);
        let mut decrypted = self.endpoint.decrypt(batch, slots.clone());
        let mut all_opened = [const { None }; READ_AHEAD];
        for (slot, opened) in slots.clone().zip(&mut all_opened) {
            let (from, datagram) = batch.datagram_mut(slot);
            let decryption = decrypted.next();
            let result = self.endpoint.open_decrypted(from, datagram, decryption, now.instant);
            *opened = Some(result);
        }
        let (mut sought, mut of) = ([Name([0; Name::LEN]); READ_AHEAD], None);
        let mut count = 0;
        for (slot, opened) in slots.clone().zip(&all_opened) {
            let Some(Ok(opened)) = opened else { continue };
            let bytes = &batch.datagram_mut(slot).1[opened.plaintext.clone()];
            let Some(name) =
                Pdu::parse(bytes).ok().and_then(|it| RibRequest::name_sought(it.data()))
            else {
                continue;
            };
            if of != Some(opened.session) {
                self.read_ahead(of, &sought[..count]);
                (of, count) = (Some(opened.session), 0);
            }
            sought[count] = name;
            count += 1;
        }
        self.read_ahead(of, &sought[..count]);
        for (slot, opened) in slots.clone().zip(all_opened) {
            let served = match opened {
                Some(Ok(opened)) => self.serve_opened(opened, batch.datagram_mut(slot).1, now),
                _ => Err(DropReason::RefusedByLink),
            };
            batch.drop_datagram(slot);
            self.tell(served, now);
        }
        slots.len()
    }

    fn read_ahead(&self, session: Option<SessionId>, names: &[Name]) {
        // One by one nothing is gained.
        if let Some(peer) = session.and_then(|session| self.endpoint.peer(session))
            && names.len() > 1
        {
            self.rib.read_ahead(&peer.name, names);
        }
    }

    /// Sends what there is to say to a datagram, or counts why there is nothing.
    fn tell(&mut self, served: Result<Option<(ReturnPath, RibResponse)>, DropReason>, now: Now) {
        match served {
            Ok(Some((path, response))) => {
                self.note_wait(&path, &response, now);
                self.send(path, &response, now);
            }
            Ok(None) => {}
            Err(reason) => self.rib.counters.count_drop(reason),
        }
    }

    fn serve(
        &mut self,
        from: SocketAddr,
        datagram: &mut [u8],
        now: Now,
    ) -> Result<Option<(ReturnPath, RibResponse)>, DropReason> {
        match Datagram::parse(datagram) {
            Ok(Datagram::Record(_)) => {}
            Ok(handshake) => {
                let taken = self.endpoint.handle_handshake(from, handshake, now.instant);
                return taken.map(|()| None).map_err(|_| DropReason::RefusedByLink);
            }
            Err(_) => return Err(DropReason::ForeignDatagram),
        }
        let opened = self
            .endpoint
            .open(from, datagram, now.instant)
            .map_err(|_| DropReason::RefusedByLink)?;
        self.serve_opened(opened, datagram, now)
    }

    fn serve_opened(
        &mut self,
        opened: Opened,
        datagram: &[u8],
        now: Now,
    ) -> Result<Option<(ReturnPath, RibResponse)>, DropReason> {
        if opened.plaintext.is_empty() {
            return Ok(None);
        }
        self.serve_pdu(opened.session, &datagram[opened.plaintext], now)
    }

    fn serve_pdu(
        &mut self,
        session: SessionId,
        bytes: &[u8],
        now: Now,
    ) -> Result<Option<(ReturnPath, RibResponse)>, DropReason> {
        let pdu = Pdu::parse(bytes).map_err(|_| DropReason::MalformedPdu)?;
        let is_acquainted =
            self.endpoint.peer(session).is_some_and(|peer| self.rib.is_acquainted(&peer.name));
        let is_answer =
            pdu.action() == Action::RibResponse && (is_acquainted || self.is_parent(session));
        if pdu.action() != Action::RibRequest && !is_answer {
            return Err(DropReason::NotARequest);
        }
        if pdu.destination() != self.rib.name() {
            return Err(DropReason::OtherDestination);
        }
        let peer = self.endpoint.peer(session).ok_or(DropReason::RefusedByLink)?;
        if pdu.source() != peer.name {
            return Err(DropReason::ForeignSource);
        }
        if is_answer {
            let is_heard = is_acquainted && self.rib.hear_outside(peer.name, pdu.data(), now);
            if !is_heard && self.is_parent(session) {
                self.rib.hear(session, pdu.data(), now);
            }
            return Ok(None);
        }
        let overhead = RECORD_OVERHEAD + PduHeader::LEN;
        let max_answer_len = usize::from(peer.max_datagram_len).saturating_sub(overhead);
        let standing = self.rib.standing(&peer.who(now.unix_s()));
        let source = Source::of(peer.address);
        let shown = peer.membership.as_deref();
        let holds = |it: &&Membership| {
            it.member() == peer.name
                && it.is_signed()
                && !it.has_ended(now.unix_s())
                && self.rib.access().removals.against(it).is_none()
        };
        let limits = shown.filter(holds);
        let limits = limits.map_or(NameLimits::NONE, NameLimits::of);
        let asker = Asker { name: peer.name, max_answer_len, source, standing, limits };
        let path = ReturnPath { session, asker: peer.name, tag: pdu.tag(), since: now.instant };
        match self.rib.handle_request(asker, pdu.data(), now.unix_s()) {
            Outcome::Answer(response) => Ok(Some((path, response))),
            Outcome::Staged(id) => {
                self.waiting.insert(id, path);
                Ok(None)
            }
            // The directory has counted it.
            Outcome::Noted | Outcome::Dropped(_) => Ok(None),
        }
    }

    fn note_wait(&mut self, path: &ReturnPath, response: &RibResponse, now: Now) {
        use RibResponseBody::{Absent, Found, Names, Stored};
        let counters = &mut self.rib.counters;
        let waits = match response.body {
            Found { .. } | Absent(_) | Names { .. } => &mut counters.look_ups_waited,
            Stored => &mut counters.orders_waited,
            _ => return,
        };
        waits.note(now.instant.saturating_duration_since(path.since));
    }

    fn send(&mut self, path: ReturnPath, response: &RibResponse, now: Now) {
        let mut said = std::mem::take(&mut self.said);
        said.clear();
        response.emit(&mut said);
        let header = PduHeader {
            tag: path.tag,
            ..PduHeader::new(Action::RibResponse, self.rib.name(), path.asker)
        };
        self.send_pdu(path.session, header, &said, now);
        self.said = said;
    }

    fn send_pdu(&mut self, session: SessionId, header: PduHeader, data: &[u8], now: Now) {
        self.buffer.clear();
        self.buffer.resize(RecordHeader::LEN, 0);
        header.emit(data, &[], &mut self.buffer).expect(
            "invariant: an answer is shorter than 65,535 bytes, by the bounds of its lists",
        );
        self.buffer.resize(self.buffer.len() + RECORD_OVERHEAD - RecordHeader::LEN, 0);
        match self.endpoint.seal(session, &mut self.buffer, now.instant) {
            Ok(to) => self.outgoing.push(to, &self.buffer),
            Err(_) => self.rib.counters.count_drop(DropReason::Unsendable),
        }
    }

    fn take_events(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Established { session, attempt, .. } => {
                    self.rib.counters.sessions_established += 1;
                    self.parent_established(session, attempt, now);
                    self.outside_established(session, attempt, now);
                }
                Event::Failed { attempt, .. } => {
                    self.parent_failed(attempt, now);
                    self.outside_failed(attempt, now);
                }
                Event::Closed { session, peer, .. } => {
                    self.parent_closed(session, now);
                    self.outside_closed(session, now);
                    self.rib.counters.sessions_closed += 1;
                    if self.endpoint.session_of(&peer).is_none() {
                        self.rib.forget_asker(&peer);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Look-ups that make a batch of good size: half a millisecond, for which the first of them waits.
/// Whoever was kept from his processor for a moment finds thousands.
pub const BATCH_DATAGRAMS: usize = 256;
/// How often a part of the store is swept.
pub const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// Entries looked at at once, since look-ups wait for it: each may be read from a page of the file
/// that nobody has read for long, which takes a tenth of a millisecond. With [`SWEEP_PIECES`] of
/// them a second, a million entries take 17 minutes, which is soon enough, because what has expired
/// is not found anyway.
pub const SWEEP_PIECE: usize = 8;
/// In one second.
pub const SWEEP_PIECES: u32 = 128;
