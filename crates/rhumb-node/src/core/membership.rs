//! Being known to one router: connect, advertise, renew, come back, leave (GDP paper, section 3.6).
//!
//! 1. `Waiting`: [`Membership::handle_timeout`] begins to
//!    look for a router when the back-off is over.
//! 2. `Seeking`: one router after the other is tried, as the search finds them.
//!    [`Membership::handle_established`] follows the first finished handshake;
//!    [`Membership::handle_failed`] leads to the next router, or back to `Waiting`.
//! 3. `Connected`: an advertisement is resent until [`Membership::handle_accept`], which
//!    begins a lease; at its half-life the next one goes out. A refusal, silence, or the
//!    end of the lease lead back to `Waiting`; or, when the router was suspected
//!    already, to the one that stands by ([`Standby`]).
//! 4. What is known of the name outside of a trust domain is said in an
//!    advertisement of its own, after each that was accepted.
//! 5. [`Membership::leave`] advertises a withdrawal, waits
//!    briefly for the Accept, and ends in `Over`.
//!
//! Invariant: sequences of certificates only grow, so a late copy of an old statement never
//! supersedes a newer one. Nobody can make them grow but the key's holder: they follow the clock,
//! or a newer statement under this node's own signature.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_link::{AttemptId, CloseReason, LinkError, SessionId};
use rhumb_trust::{Export, Identity, Now, TrustError, Window};
use rhumb_wire::accept::Accept;
use rhumb_wire::discovery::Nonce;
use rhumb_wire::nack::Reason;
use rhumb_wire::{Certificate, Name, Scope, Statement};

use super::advertisement::{self, Advertisement, FIRST_RESEND, LAST_RESEND};
use super::event::{Disconnection, Event};
use super::lease::{Lease, LeaseStatus};
use super::search::Search;
use super::seeking::Seeking;
use super::standby::{Ready, Standby};
use super::turn::Turn;
use crate::Config;

/// The relation to one router.
#[derive(Debug)]
pub(super) struct Membership {
    identity: Arc<Identity>,
    search: Search,
    /// While a router is connected: who takes over when that one is lost.
    standby: Standby,
    lease_s: u64,
    /// Whose traffic the router may carry.
    scope: Scope,
    /// By which domain the name is known outside of it, if it is to be.
    export: Option<Export>,
    /// The word for it that was signed last, unless it was refused.
    export_word: Option<Arc<Certificate>>,
    phase: Phase,
    /// Connections that ended since the last Accept.
    failures: u32,
    last_sequence: u64,
    /// Of this process: what its key signed with lower numbers, an earlier or another process did.
    first_sequence: Option<u64>,
    /// Whether the name was ever published with a statement of this process.
    published_once: bool,
    /// Whether any router ever accepted the name: from then on a refusal is not final.
    accepted_once: bool,
}

#[derive(Debug)]
enum Phase {
    Waiting { until: Instant },
    Seeking(Seeking),
    Connected(Connection),
    Over,
}

#[derive(Debug)]
struct Connection {
    session: SessionId,
    router: Name,
    address: SocketAddr,
    /// What was advertised last, kept for Accepts that come twice.
    advertised: Option<Advertisement>,
    /// By which domain the name is known outside, as it was advertised last.
    exported: Option<Advertisement>,
    lease: Option<Lease>,
    /// What the lease rests on.
    route: Option<Arc<Certificate>>,
    leaving: bool,
}

/// A membership that stands.
#[derive(Debug)]
pub(super) struct Joined<'a> {
    pub(super) session: SessionId,
    pub(super) router: Name,
    /// This node's word for the router, as the router accepted it last.
    pub(super) route: &'a Certificate,
}

impl Membership {
    /// `secret` is what nonces are made of.
    pub(super) fn new(
        identity: Arc<Identity>,
        config: &Config,
        secret: &[u8; 32],
        now: Now,
    ) -> Self {
        Self {
            identity,
            search: Search::new(&config.router, secret),
            standby: Standby::nobody(),
            lease_s: config.lease_s,
            scope: config.only_peer.map_or(Scope::Any, Scope::Destination),
            export: config.export,
            export_word: None,
            phase: Phase::Waiting { until: now.instant },
            failures: 0,
            last_sequence: 0,
            first_sequence: None,
            published_once: false,
            accepted_once: false,
        }
    }

    /// Seeks a router, renews, or gives up on the router, when it is time.
    pub(super) fn handle_timeout(&mut self, turn: &mut Turn<'_>) -> Option<Event> {
        match &mut self.phase {
            Phase::Waiting { until } if *until <= turn.now.instant => {
                self.phase = Phase::Seeking(Seeking::begin(&mut self.search, turn.now.instant));
                self.seek(turn)
            }
            Phase::Seeking(_) => self.seek(turn),
            Phase::Connected(connection) => {
                if let Some(reason) = connection.overdue(turn.now.instant) {
                    return Some(self.give_up(reason, turn));
                }
                let renews = connection.renewal_is_due(turn.now.instant);
                self.standby.handle_timeout(&mut self.search, turn);
                turn.endpoint.hasten(connection.session, self.standby.is_ready());
                if renews { self.advertise(turn) } else { None }
            }
            _ => None,
        }
    }

    /// Tries the next router, or comes back later.
    fn seek(&mut self, turn: &mut Turn<'_>) -> Option<Event> {
        let Phase::Seeking(seeking) = &mut self.phase else { return None };
        match seeking.go_on(&mut self.search, turn) {
            Ok(()) => None,
            Err(last) => Some(self.wait(last, turn)),
        }
    }

    /// The router left a question unanswered: another one is
    /// sought, lest time is lost when this one is gone.
    pub(super) fn handle_doubtful(&mut self, session: SessionId, now: Instant) {
        if let Phase::Connected(connection) = &self.phase
            && connection.session == session
            && connection.lease.is_some()
            && !connection.leaving
        {
            self.standby.suspect(connection.address, &mut self.search, now);
        }
    }

    /// The session with the router that stands by, when it is time to ask it
    /// for the ways to whom this node talks with.
    pub(super) fn poll_inquiry(&mut self, now: Instant) -> Option<SessionId> {
        self.standby.poll_inquiry(now)
    }

    /// The nonce to ask the local network for routers with, when it is time to.
    pub(super) fn poll_query(&mut self, now: Instant) -> Option<Nonce> {
        self.search.poll_query(now)
    }

    /// Somebody on the local network answers, and may be tried at
    /// the next timeout. False when nobody asked.
    pub(super) fn handle_answer(&mut self, from: SocketAddr, nonce: Nonce, now: Instant) -> bool {
        let is_answer = self.search.handle_answer(from, nonce);
        match &mut self.phase {
            Phase::Seeking(seeking) if is_answer => seeking.heard_of_another(now),
            Phase::Connected(_) if is_answer => self.standby.heard_of_another(now),
            _ => {}
        }
        is_answer
    }

    /// A handshake with the router is finished: advertises the name, unless only the keys are new.
    pub(super) fn handle_established(
        &mut self,
        session: SessionId,
        router: Name,
        turn: &mut Turn<'_>,
    ) -> Option<Event> {
        if self.is_over() {
            turn.endpoint.close(session, turn.now.instant);
            return None;
        }
        let (address, now) = (turn.endpoint.peer(session)?.at, turn.now.instant);
        if self.session() == Some(session) {
            // By another address, perhaps: whoever stands by has to be somebody else.
            let same = Disconnection::NotFound;
            self.standby.pass_over(address, same, &mut self.search, now);
            return None;
        }
        if matches!(self.phase, Phase::Connected(_)) {
            if !self.standby.takes(session, router, address, &mut self.search, now) {
                // Several were tried, and this one was not the first.
                turn.endpoint.close(session, now);
            }
            return None;
        }
        if !self.search.allows(&router) {
            turn.endpoint.close(session, turn.now.instant);
            return self.pass_over(address, Disconnection::NotAllowed { address, router }, turn);
        }
        self.search.end();
        self.connected(session, router, address, turn)
    }

    /// There is a session with a router to join.
    fn connected(
        &mut self,
        session: SessionId,
        router: Name,
        address: SocketAddr,
        turn: &mut Turn<'_>,
    ) -> Option<Event> {
        self.phase = Phase::Connected(Connection {
            session,
            router,
            address,
            advertised: None,
            exported: None,
            lease: None,
            route: None,
            leaving: false,
        });
        self.advertise(turn)
    }

    /// The handshake came to nothing.
    pub(super) fn handle_failed(
        &mut self,
        failed: AttemptId,
        address: SocketAddr,
        error: LinkError,
        turn: &mut Turn<'_>,
    ) -> Option<Event> {
        // Also when another one was faster, and the node is a member
        // there: next time that one shall not wait again.
        self.search.avoid(address, turn.now.instant);
        let reason = Disconnection::Connect { address, error };
        let now = turn.now.instant;
        self.standby.handle_failed(failed, address, reason.clone(), &mut self.search, now);
        if !matches!(&self.phase, Phase::Seeking(seeking) if seeking.made(failed)) {
            return None;
        }
        if self.search.is_fixed() {
            return Some(self.wait(reason, turn));
        }
        self.pass_over(address, reason, turn)
    }

    /// Whoever is at `address` will not do: the next one is tried at once.
    fn pass_over(
        &mut self,
        address: SocketAddr,
        reason: Disconnection,
        turn: &mut Turn<'_>,
    ) -> Option<Event> {
        self.search.avoid(address, turn.now.instant);
        if let Phase::Seeking(seeking) = &mut self.phase {
            seeking.pass_over(address, reason.clone(), turn.now.instant);
        }
        Some(Event::PassedOver { reason })
    }

    /// The link ended a session.
    pub(super) fn handle_closed(
        &mut self,
        session: SessionId,
        reason: CloseReason,
        turn: &mut Turn<'_>,
    ) -> Option<Event> {
        match &self.phase {
            Phase::Connected(connection) if connection.session == session => {
                if connection.leaving {
                    self.phase = Phase::Over;
                    return Some(Event::Left { published: false });
                }
                if reason == CloseReason::Silent {
                    // If it comes back, it will have to be found by whoever finds no other.
                    let address = connection.address;
                    self.search.avoid(address, turn.now.instant);
                }
                Some(self.lose(Disconnection::Closed(reason), turn))
            }
            _ => {
                self.standby.handle_closed(session);
                if let Some(present) = self.session() {
                    turn.endpoint.hasten(present, self.standby.is_ready());
                }
                None
            }
        }
    }

    /// The router accepts what was advertised. `None` when the
    /// Accept answers nothing, or says nothing new.
    pub(super) fn handle_accept(
        &mut self,
        tag: u32,
        accept: Accept,
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event>, NotAdvertised> {
        let Phase::Connected(connection) = &mut self.phase else { return Err(NotAdvertised) };
        let exported = connection.exported.as_mut().filter(|it| it.said.tag == tag);
        let is_about_export = exported.is_some();
        if let Some(exported) = exported {
            exported.said.resend_at = None;
            // A router answers the latest word of a name: what is published with the export is the
            // lease as well.
            if !accept.published || connection.leaving {
                return Ok(None);
            }
        }
        let answers = |it: &&mut Advertisement| is_about_export || it.said.tag == tag;
        let Some(advertised) = connection.advertised.as_mut().filter(answers) else {
            return Err(NotAdvertised);
        };
        if accept.name != self.identity.name() {
            return Err(NotAdvertised);
        }
        if connection.leaving {
            // An early Accept says that the router knows; the
            // RIB's word is worth the rest of the wait.
            if !accept.published {
                return Ok(None);
            }
            turn.endpoint.close(connection.session, turn.now.instant);
            self.phase = Phase::Over;
            return Ok(Some(Event::Left { published: true }));
        }
        let answered_before = advertised.said.resend_at.take().is_none();
        if answered_before && connection.lease.is_some_and(|lease| !lease.learns_from(accept)) {
            return Ok(None);
        }
        let renewed = connection.lease.is_some();
        let lease = Lease::begin(accept, self.lease_s, connection.lease, turn.now);
        connection.lease = Some(lease);
        connection.route = Some(advertised.certificate.clone());
        self.failures = 0;
        self.accepted_once = true;
        self.published_once |= accept.published;
        let LeaseStatus { until_s, published } = lease.status();
        let router = connection.router;
        if !answered_before && let Some(refusal) = self.advertise_export(router, turn) {
            return Ok(Some(refusal));
        }
        Ok(Some(match renewed {
            true => Event::Renewed { until_s, published },
            false => Event::Joined { router, until_s, published },
        }))
    }

    /// The router says why it does not accept what was advertised.
    pub(super) fn handle_nack(
        &mut self,
        tag: u32,
        reason: Reason,
        shown: Option<&Certificate>,
        turn: &mut Turn<'_>,
    ) -> Result<Option<Event>, NotAdvertised> {
        if let Some(shown) = shown.filter(|_| reason == Reason::Superseded) {
            match self.judge(shown) {
                Some(Whose::Newer) => return Ok(self.yield_or_go_on(shown, turn)),
                Some(Whose::Rival { via }) => return Ok(Some(Event::Contested { via })),
                None => {}
            }
        }
        let Phase::Connected(connection) = &mut self.phase else { return Err(NotAdvertised) };
        if let Some(exported) = connection.exported.as_mut().filter(|it| it.said.tag == tag) {
            self.export_word = self.export_word.take().filter(|_| reason.retry_after().is_some());
            let newer = shown.filter(|it| it.sequence > self.last_sequence);
            let Some(newer) = newer.filter(|it| self.identity.has_signed(it)) else {
                return Ok(exported.refused(reason, turn));
            };
            // An earlier process's clock was ahead: this one goes on from there.
            let router = connection.router;
            self.last_sequence = newer.sequence;
            return Ok(self.advertise_export(router, turn));
        }
        let Some(advertised) = connection.advertised.as_mut().filter(|it| it.said.tag == tag)
        else {
            return Err(NotAdvertised);
        };
        let Some(resend_at) = advertised.said.resend_at.as_mut() else { return Err(NotAdvertised) };
        match reason {
            Reason::BadCertificate
            | Reason::NotAuthorised
            | Reason::Superseded
            | Reason::Expired
            | Reason::NotYetValid
                if self.accepted_once || !self.search.is_fixed() =>
            {
                Ok(Some(self.give_up(Disconnection::Refused(reason), turn)))
            }
            Reason::BadCertificate
            | Reason::NotAuthorised
            | Reason::Superseded
            | Reason::Expired
            | Reason::NotYetValid => {
                let router = connection.router;
                turn.endpoint.close(connection.session, turn.now.instant);
                self.phase = Phase::Over;
                Ok(Some(Event::Refused { router, reason }))
            }
            _ => {
                let wait = reason.retry_after().unwrap_or(FIRST_RESEND).max(LEAST_WAIT);
                *resend_at = turn.now.instant + turn.jitter.lengthen(wait.min(LAST_RESEND));
                Ok(None)
            }
        }
    }

    /// What a statement that a router shows means, whichever advertisement it is about: it is under
    /// this node's own key, or nothing.
    fn judge(&self, shown: &Certificate) -> Option<Whose> {
        let Phase::Connected(connection) = &self.phase else { return None };
        // By which domain the name is known says nothing of who has it.
        if shown.statement.exports_by().is_some() {
            return None;
        }
        let is_own = connection.advertised.as_ref().is_some_and(|it| *it.certificate == *shown);
        let is_newer = shown.sequence >= self.last_sequence && shown.sequence < u64::MAX;
        let is_older = self.first_sequence.is_some_and(|first| shown.sequence < first);
        if is_own || !(is_newer || is_older) || !self.identity.has_signed(shown) {
            return None;
        }
        match shown.statement.hands_on_to() {
            _ if is_newer => Some(Whose::Newer),
            Some(via) => Some(Whose::Rival { via }),
            None => None,
        }
    }

    /// There is a statement of this name that is newer than any of this process. It is another
    /// process's later claim, if this one's was published, or was accepted and the number is of a
    /// time that has been. Otherwise it is from before, made by a clock that was ahead: this
    /// process goes on from there, and its claim is the newest.
    fn yield_or_go_on(&mut self, newer: &Certificate, turn: &mut Turn<'_>) -> Option<Event> {
        self.last_sequence = newer.sequence;
        let Phase::Connected(connection) = &self.phase else { return None };
        if connection.leaving {
            return self.withdraw_again(turn);
        }
        let is_of_the_past = newer.sequence <= turn.now.unix_ms;
        let is_later = self.published_once || (self.accepted_once && is_of_the_past);
        match newer.statement.hands_on_to().filter(|_| is_later) {
            Some(via) => {
                self.standby.let_go(&mut self.search, turn);
                turn.endpoint.close(connection.session, turn.now.instant);
                self.phase = Phase::Over;
                Some(Event::Displaced { via })
            }
            None => self.advertise(turn),
        }
    }

    /// Withdraws the name. `Some` at once when no router is connected.
    pub(super) fn leave(&mut self, turn: &mut Turn<'_>) -> Option<Event> {
        let router = match &self.phase {
            Phase::Connected(connection) if connection.leaving => return None,
            Phase::Connected(Connection { lease: Some(_), router, .. }) => *router,
            _ => return Some(self.end(turn)),
        };
        self.standby.let_go(&mut self.search, turn);
        self.withdraw(router, turn.now.instant + LEAVE_WITHIN, turn)
    }

    /// As [`Membership::leave`], within the time that it was given.
    fn withdraw_again(&mut self, turn: &mut Turn<'_>) -> Option<Event> {
        let Phase::Connected(Connection { router, advertised: Some(last), .. }) = &self.phase
        else {
            return None;
        };
        let (router, patience_ends) = (*router, last.patience_ends);
        self.withdraw(router, patience_ends, turn)
    }

    fn withdraw(
        &mut self,
        router: Name,
        patience_ends: Instant,
        turn: &mut Turn<'_>,
    ) -> Option<Event> {
        let Ok(withdrawal) = self.certify(Statement::Withdrawal, self.lease_s, turn) else {
            return Some(self.end(turn));
        };
        let patience = patience_ends.saturating_duration_since(turn.now.instant);
        if let Phase::Connected(connection) = &mut self.phase {
            connection.leaving = true;
            let withdrawal = Advertisement::new(withdrawal, router, patience, turn);
            connection.advertised = Some(withdrawal);
        }
        None
    }

    /// Advertises again before it is time: the router does
    /// not, or no longer, know the right to send.
    pub(super) fn advertise_again(&mut self, turn: &mut Turn<'_>) -> Option<Event> {
        match &self.phase {
            Phase::Connected(Connection { leaving: false, advertised: Some(last), .. })
                if last.said.resend_at.is_none() =>
            {
                self.advertise(turn)
            }
            _ => None,
        }
    }

    /// The advertisement, when it is time to send it or to send it again.
    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<(SessionId, &[u8])> {
        let Phase::Connected(connection) = &mut self.phase else { return None };
        let exported = connection.exported.as_mut().filter(|_| !connection.leaving);
        let mut both = connection.advertised.as_mut().into_iter().chain(exported);
        both.find_map(|it| it.said.send(now)).map(|pdu| (connection.session, pdu))
    }

    /// When something has to be done.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Waiting { until } => Some(*until),
            Phase::Seeking(seeking) => seeking.poll_timeout(&self.search),
            Phase::Connected(connection) => {
                let standby = self.standby.poll_timeout(&self.search);
                connection.next_deadline().into_iter().chain(standby).min()
            }
            Phase::Over => None,
        }
    }

    /// The session with the router.
    pub(super) fn session(&self) -> Option<SessionId> {
        match &self.phase {
            Phase::Connected(connection) => Some(connection.session),
            _ => None,
        }
    }

    /// The session with the router, while the router takes this node's traffic.
    pub(super) fn joined(&self) -> Option<SessionId> {
        match &self.phase {
            Phase::Connected(Connection { session, lease: Some(_), leaving: false, .. }) => {
                Some(*session)
            }
            _ => None,
        }
    }

    /// The membership, while the router takes this node's traffic.
    pub(super) fn standing(&self) -> Option<Joined<'_>> {
        match &self.phase {
            Phase::Connected(Connection {
                session,
                router,
                lease: Some(_),
                route: Some(route),
                leaving: false,
                ..
            }) => Some(Joined { session: *session, router: *router, route }),
            _ => None,
        }
    }

    /// The router connected.
    pub(super) fn router(&self) -> Option<Name> {
        match &self.phase {
            Phase::Connected(connection) => Some(connection.router),
            _ => None,
        }
    }

    /// The lease held.
    pub(super) fn lease(&self) -> Option<LeaseStatus> {
        match &self.phase {
            Phase::Connected(Connection { lease: Some(lease), .. }) => Some(lease.status()),
            _ => None,
        }
    }

    /// Whether nothing more will come of it.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    fn advertise(&mut self, turn: &mut Turn<'_>) -> Option<Event> {
        let via = self.router()?;
        let route = Statement::Route { via, scope: self.scope };
        match self.certify(route, self.lease_s, turn) {
            Ok(certificate) => {
                let patience = self.search.accept_within();
                let advertisement = Advertisement::new(certificate, via, patience, turn);
                if let Phase::Connected(connection) = &mut self.phase {
                    connection.advertised = Some(advertisement);
                }
                None
            }
            Err(_) => Some(self.give_up(Disconnection::CannotSign, turn)),
        }
    }

    /// Says to the router by which domain the name is known outside, if it is to be: with each
    /// lease, since the router may have forgotten it, and in the same words until half of their
    /// time is over, so that the domains around store and verify nothing meanwhile.
    fn advertise_export(&mut self, router: Name, turn: &mut Turn<'_>) -> Option<Event> {
        let export = self.export?;
        let known = self.export_word.take().filter(|word| advertisement::is_fresh(word, turn.now));
        let Ok(word) = known.map_or_else(|| self.certify_export(export, turn), Ok) else {
            return Some(self.give_up(Disconnection::CannotSign, turn));
        };
        self.export_word = Some(Arc::clone(&word));
        let patience = self.search.accept_within();
        let advertisement = Advertisement::new(word, router, patience, turn);
        if let Phase::Connected(connection) = &mut self.phase {
            connection.exported = Some(advertisement);
        }
        None
    }

    fn certify_export(
        &mut self,
        export: Export,
        turn: &Turn<'_>,
    ) -> Result<Arc<Certificate>, TrustError> {
        self.certify(export.statement(), self.lease_s.max(EXPORT_S), turn)
    }

    fn certify(
        &mut self,
        statement: Statement,
        lifetime_s: u64,
        turn: &Turn<'_>,
    ) -> Result<Arc<Certificate>, TrustError> {
        let window = Window::starting(turn.now.unix_s(), lifetime_s);
        self.last_sequence = turn.now.unix_ms.max(self.last_sequence.saturating_add(1));
        self.first_sequence.get_or_insert(self.last_sequence);
        self.identity.certify(statement, self.last_sequence, window).map(Arc::new)
    }

    /// Closes the session and comes back later; or, when leaving, is done.
    fn give_up(&mut self, reason: Disconnection, turn: &mut Turn<'_>) -> Event {
        match &self.phase {
            Phase::Connected(connection) if connection.leaving => self.end(turn),
            Phase::Connected(connection) => {
                turn.endpoint.close(connection.session, turn.now.instant);
                // It answers, but does not do its work; another one may.
                self.search.avoid(connection.address, turn.now.instant);
                self.lose(reason, turn)
            }
            _ => self.wait(reason, turn),
        }
    }

    /// The router is of no further use: goes to the one that
    /// stands by, goes on seeking, or comes back later.
    fn lose(&mut self, reason: Disconnection, turn: &mut Turn<'_>) -> Event {
        let at_once = |reason| Event::Disconnected { reason, retry_after: Duration::ZERO };
        match self.standby.take() {
            Standby::Ready(Ready { session, router, address, .. }) => {
                self.connected(session, router, address, turn).unwrap_or_else(|| at_once(reason))
            }
            Standby::Seeking(seeking) => {
                self.phase = Phase::Seeking(seeking);
                at_once(reason)
            }
            Standby::Nobody { .. } => self.wait(reason, turn),
        }
    }

    fn wait(&mut self, reason: Disconnection, turn: &mut Turn<'_>) -> Event {
        let backoff = FIRST_BACKOFF * 2u32.saturating_pow(self.failures.min(16));
        let retry_after = turn.jitter.shorten(backoff.min(LAST_BACKOFF));
        self.failures = self.failures.saturating_add(1);
        self.search.end();
        self.phase = Phase::Waiting { until: turn.now.instant + retry_after };
        Event::Disconnected { reason, retry_after }
    }

    /// Closes the session, with nothing published.
    fn end(&mut self, turn: &mut Turn<'_>) -> Event {
        if let Some(session) = self.session() {
            turn.endpoint.close(session, turn.now.instant);
        }
        self.standby.let_go(&mut self.search, turn);
        self.search.end();
        self.phase = Phase::Over;
        Event::Left { published: false }
    }
}

/// Whose a statement under this node's key is.
enum Whose {
    /// Newer than any of this process.
    Newer,
    /// From before this process's first: another one still uses it.
    Rival { via: Name },
}

/// An answer to nothing that was advertised.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotAdvertised;

impl Connection {
    /// Why this connection is of no further use.
    fn overdue(&self, now: Instant) -> Option<Disconnection> {
        if self.lease.is_some_and(|lease| lease.ends_at() <= now) {
            return Some(Disconnection::LeaseEnded);
        }
        let unanswered = self.advertised.as_ref().filter(|it| it.said.resend_at.is_some());
        let out_of_patience = unanswered.is_some_and(|it| it.patience_ends <= now);
        // While a lease lasts the router does its work; it may be slow to renew.
        (out_of_patience && (self.lease.is_none() || self.leaving))
            .then_some(Disconnection::NoAccept)
    }

    fn renewal_is_due(&self, now: Instant) -> bool {
        let answered = self.advertised.as_ref().is_none_or(|it| it.said.resend_at.is_none());
        answered && !self.leaving && self.lease.is_some_and(|lease| lease.renew_at() <= now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let unanswered = self.advertised.as_ref().filter(|it| it.said.resend_at.is_some());
        let resend = unanswered.and_then(|it| it.said.resend_at);
        let exported = self.exported.as_ref().filter(|_| !self.leaving);
        let export = exported.and_then(|it| it.said.resend_at);
        let patience =
            unanswered.filter(|_| self.lease.is_none() || self.leaving).map(|it| it.patience_ends);
        let renewal =
            self.lease.filter(|_| unanswered.is_none() && !self.leaving).map(|it| it.renew_at());
        let end = self.lease.map(|lease| lease.ends_at());
        [resend, export, patience, renewal, end].into_iter().flatten().min()
    }
}

/// A word about exports lasts an hour, however short leases are: the longest that RIBs take of
/// everybody. What ends the way to a name sooner is the word of its domain for its borders, and in
/// the domain the lease.
const EXPORT_S: u64 = 60 * 60;
/// A router that asks for less would make the node a flood.
const LEAST_WAIT: Duration = Duration::from_millis(20);
/// People wait for a program to end.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LAST_BACKOFF: Duration = Duration::from_secs(5);
