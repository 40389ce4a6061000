//! Sessions that come and go, and those that this router begins: to its upstreams, to RIBs, and to
//! the routers that routes lead to.
//!
//! A session to an upstream or a RIB is kept whatever happens. A router that a route leads to is
//! dialled when a PDU needs it: once at a time, within what `reach` allows, and ever more seldom
//! while nothing comes of it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_directory::reconnect_delay;
use rhumb_link::{AttemptId, CloseReason, LinkError, SessionId};
use rhumb_trust::{Now, Standing};
use rhumb_wire::Name;

use crate::Switch;
use crate::config::Config;
use crate::event::Event;
use crate::nearest::Nearness;
use crate::reach::{NoWay, Reach, Way};
use crate::upstreams::{UpstreamState, Upstreams};

/// The routers that we have sessions with because we began them.
pub(crate) struct Peering {
    upstreams: Upstreams,
    /// Routers being connected to because a route leads there.
    dialling: HashMap<Name, Dial>,
    reach: Reach,
    /// Which of several is the nearest.
    pub(crate) nearness: Nearness,
}

/// A router that is being connected to, or was in vain.
struct Dial {
    attempt: Option<AttemptId>,
    /// In a row; a session that fell silent counts as one.
    failures: u32,
    /// When the first was begun, or the session ended.
    begun_at: Instant,
    retry_at: Instant,
}

impl Dial {
    /// How long nothing has come of it, once it has failed.
    fn in_vain_for(&self, now: Instant) -> Option<Duration> {
        (self.failures > 0).then(|| now.saturating_duration_since(self.begun_at))
    }

    /// Whether it may be begun, or begun again.
    fn is_idle(&self, now: Instant) -> bool {
        self.attempt.is_none() && self.retry_at <= now
    }
}

impl Peering {
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        Self {
            upstreams: Upstreams::new(&config.upstreams, now),
            dialling: HashMap::new(),
            reach: Reach::new(config, now),
            nearness: Nearness::new(),
        }
    }

    /// The session with the upstream in use.
    pub(crate) fn upstream(&self) -> Option<SessionId> {
        self.upstreams.session()
    }

    /// Whether a session is with an upstream, in use or not.
    pub(crate) fn is_upstream(&self, session: SessionId) -> bool {
        self.upstreams.is_one(session)
    }

    /// How each upstream stands, the preferred one first.
    pub(crate) fn upstreams(&self) -> impl Iterator<Item = UpstreamState> {
        self.upstreams.states()
    }

    /// When something has to be done.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.upstreams.poll_timeout()
    }

    /// How long nothing has come of connecting to a router, once that has failed.
    pub(crate) fn in_vain_for(&self, router: &Name, now: Instant) -> Option<Duration> {
        self.dialling.get(router)?.in_vain_for(now)
    }

    /// How often a router was dialled in vain, if it may be dialled now for somebody of this
    /// standing; `None` when that is under way, or was in vain a moment ago.
    fn failures_before(
        &mut self,
        router: Name,
        standing: Standing,
        now: Instant,
    ) -> Result<Option<u32>, NoWay> {
        self.make_room_to_dial(router, now);
        let most = match standing {
            Standing::Admitted => MAX_DIALS,
            _ => MAX_DIALS - MAX_DIALS / 4,
        };
        match self.dialling.get(&router) {
            None if self.dialling.len() >= most => Err(NoWay::NotNow),
            None => Ok(Some(0)),
            Some(dial) => Ok(dial.is_idle(now).then_some(dial.failures)),
        }
    }

    fn dialled(&mut self, router: Name, attempt: AttemptId, now: Instant) {
        let fresh = Dial { attempt: None, failures: 0, begun_at: now, retry_at: now };
        self.dialling.entry(router).or_insert(fresh).attempt = Some(attempt);
    }

    fn dial_failed(&mut self, attempt: AttemptId, now: Instant) {
        let dial = self.dialling.values_mut().find(|dial| dial.attempt == Some(attempt));
        if let Some(dial) = dial {
            dial.attempt = None;
            dial.failures += 1;
            dial.retry_at = now + reconnect_delay(dial.failures);
        }
    }

    /// A router that routes lead to fell silent: it counts as
    /// unreachable until a handshake says otherwise.
    fn note_silent(&mut self, router: Name, now: Instant) {
        let retry_at = now + reconnect_delay(1);
        self.make_room_to_dial(router, now);
        if self.dialling.len() < MAX_DIALS {
            let dial = Dial { attempt: None, failures: 1, begun_at: now, retry_at };
            self.dialling.insert(router, dial);
        }
    }

    /// Forgets dials that are over, if there are too many.
    fn make_room_to_dial(&mut self, router: Name, now: Instant) {
        if self.dialling.len() >= MAX_DIALS {
            self.dialling.retain(|name, dial| *name == router || !dial.is_idle(now));
        }
    }
}

// Sessions.
impl Switch {
    pub(crate) fn handle_link_events(&mut self, now: Now) {
        while let Some(event) = self.plane.link_mut().poll_event() {
            match event {
                rhumb_link::Event::Established { session, attempt, peer, renewed, .. } => {
                    if renewed {
                        self.end_labels_of(session, &peer, now);
                        // Perhaps it shows another membership, or none any more.
                        self.treat_by_rules(session, now);
                    }
                    self.established(session, attempt, peer, now);
                }
                rhumb_link::Event::Failed { attempt, error, .. } => {
                    self.failed(attempt, error, now);
                }
                rhumb_link::Event::Closed { session, peer, reason, .. } => {
                    if reason == CloseReason::Silent && self.publishing.has_delegated_to(&peer) {
                        self.peering.note_silent(peer, now.instant);
                    }
                    self.closed(session, &peer, now);
                }
                rhumb_link::Event::Former { session } => self.tell_both_processes(session, now),
                // Flows that have larger PDUs are to hear of it. That there
                // is more room each finds out by itself.
                rhumb_link::Event::Resized { session, before, now: size } if size < before => {
                    self.plane.counters_mut().paths_narrowed += 1;
                    if let Some(peer) = self.plane.peer(session).map(|peer| peer.name) {
                        self.routes.changed(&peer);
                    }
                }
                // Where others do as well, flows go there meanwhile.
                rhumb_link::Event::Suspected { session } => self.note_suspected(session),
                // Flows lead to the session, wherever its peer is.
                rhumb_link::Event::Moved { .. } => self.plane.counters_mut().sessions_moved += 1,
                _ => {}
            }
        }
    }

    fn established(
        &mut self,
        session: SessionId,
        attempt: Option<AttemptId>,
        peer: Name,
        now: Now,
    ) {
        self.peering.dialling.remove(&peer);
        self.note_expected(&peer);
        let Some(attempt) = attempt else { return };
        if let Some(peer) = self.plane.peer(session) {
            self.peering.reach.note_answer(peer.at, now.instant);
        }
        if self.directory.established(attempt, session, now.instant) {
            self.plane.tell(Event::RibReady { name: peer });
        }
        if self.peering.upstreams.established(attempt, session, now.instant) {
            self.plane.tell(Event::UpstreamReady { name: peer });
            self.choose_upstream(now);
        }
        self.treat_anew(session, now);
        self.renew_own_statements(now);
    }

    fn failed(&mut self, attempt: AttemptId, error: LinkError, now: Now) {
        if let Some(address) = self.directory.failed(attempt, now.instant) {
            self.plane.tell(Event::RibLost { address, error: Some(error) });
            return;
        }
        if let Some(address) = self.peering.upstreams.failed(attempt, now.instant) {
            self.plane.tell(Event::UpstreamLost { address, error: Some(error) });
            return;
        }
        self.peering.dial_failed(attempt, now.instant);
    }

    /// Perhaps the peer of a renewed session is a new process, which gives its labels to other
    /// flows: those that go there are looked into again, one by one when they are used.
    fn end_labels_of(&mut self, session: SessionId, peer: &Name, now: Now) {
        let carries =
            self.admission.known_neighbour(session).is_some_and(|neighbour| neighbour.carries);
        if carries {
            let number = self.routes.changed(peer);
            self.neighbour(session, now).renewed_as_of = number;
        }
    }

    fn closed(&mut self, session: SessionId, peer: &Name, now: Now) {
        if let Some(address) = self.directory.closed(session, now.instant) {
            self.plane.tell(Event::RibLost { address, error: None });
            self.take_conclusions();
            self.flush_requests(now);
        }
        if let Some(address) = self.peering.upstreams.closed(session, now.instant) {
            self.plane.tell(Event::UpstreamLost { address, error: None });
            self.choose_upstream(now);
        }
        if let Some(neighbour) = self.admission.leave(session, now.instant) {
            self.tell_gone(session, &neighbour.attached);
            self.flush_requests(now);
            self.routes.detach_session(session, &neighbour.attached);
            if neighbour.carries {
                self.routes.changed(peer);
            }
        }
        self.forget_in_groups(session, now);
    }

    /// Uses another upstream if it is time to, and says so to everybody.
    pub(crate) fn choose_upstream(&mut self, now: Now) {
        let is_another = self.peering.upstreams.choose(now.instant);
        for session in self.peering.upstreams.exchangeable() {
            self.plane.link_mut().hasten(session, true);
            self.plane.link_mut().watch_closely(session, now.instant);
        }
        if let Some(session) = self.peering.upstreams.alone() {
            self.plane.link_mut().hasten(session, false);
        }
        let used = self.peering.upstreams.session().and_then(|session| self.plane.peer(session));
        if let Some(name) = used.map(|peer| peer.name).filter(|_| is_another) {
            self.plane.tell(Event::UpstreamUsed { name });
            self.publishing.hasten_own(now.instant);
            self.renew_own_statements(now);
            self.flush_requests(now);
        }
    }

    /// Starts the connections that are due.
    pub(crate) fn connect_due(&mut self, now: Now) {
        for (index, remote) in self.directory.connect_due(now.instant) {
            let attempt = self.plane.link_mut().connect(remote.address, remote.name, now.instant);
            self.directory.connecting(index, attempt);
        }
        for (index, remote) in self.peering.upstreams.connect_due(now.instant) {
            let attempt = self.plane.link_mut().connect(remote.address, remote.name, now.instant);
            self.peering.upstreams.connecting(index, attempt);
        }
    }

    /// Connects to a router that a route leads to, which `for_whom` needs, unless that is under way
    /// or was in vain a moment ago, or there is a reason not to.
    pub(crate) fn dial(
        &mut self,
        router: Name,
        address: SocketAddr,
        for_whom: SessionId,
        now: Now,
    ) -> Result<(), NoWay> {
        let standing = self.neighbour(for_whom, now).standing;
        let failures = self.peering.failures_before(router, standing, now.instant)?;
        let Some(failures) = failures else { return Ok(()) };
        let mut credit = self.neighbour(for_whom, now).credit;
        let way = self.peering.reach.may_connect(address, &mut credit, now.instant);
        self.neighbour(for_whom, now).credit = credit;
        let attempt = match way? {
            Way::Whole => self.plane.link_mut().connect(address, Some(router), now.instant),
            Way::Once => {
                // Every other time as foreign routers understand it.
                let as_foreign = failures % 2 == 1;
                let (attempt, sent) =
                    self.plane.link_mut().connect_once(address, router, as_foreign, now.instant);
                self.peering.reach.note_hello(sent);
                attempt
            }
        };
        self.peering.dialled(router, attempt, now.instant);
        Ok(())
    }
}

/// Routers connected to at once because routes lead there.
const MAX_DIALS: usize = 1024;
