//! The server's sessions with RIBs of other domains: those of neighbours, and those that know the
//! names of domains that neighbours offer. Either end may begin one, over the endpoint that serves
//! others.

use std::time::Instant;

use rhumb_link::{AttemptId, SessionId};
use rhumb_trust::Now;
use rhumb_wire::offer::Offered;
use rhumb_wire::{Action, Name, PduHeader};

use super::Server;
use crate::neighbours::{Neighbour, Neighbours};
use crate::store::Store;

impl<S: Store> Server<S> {
    /// Begins the sessions that are due.
    pub(super) fn connect_outside(&mut self, now: Instant) {
        let Some(reach) = &mut self.rib.reach else { return };
        let endpoint = &self.endpoint;
        let due = reach.ribs.connect_due(|name| endpoint.session_of(name).is_some(), now);
        for address in due {
            let attempt = self.endpoint.connect(address.1, Some(address.0), now);
            reach.ribs.connecting(&address, attempt);
        }
    }

    pub(super) fn outside_established(
        &mut self,
        session: SessionId,
        attempt: Option<AttemptId>,
        now: Instant,
    ) {
        if let (Some(reach), Some(attempt)) = (&mut self.rib.reach, attempt) {
            reach.ribs.established(attempt, session, now);
        }
    }

    pub(super) fn outside_failed(&mut self, attempt: AttemptId, now: Instant) {
        if let Some(reach) = &mut self.rib.reach {
            reach.ribs.failed(attempt, now);
        }
    }

    pub(super) fn outside_closed(&mut self, session: SessionId, now: Instant) {
        if let Some(reach) = &mut self.rib.reach {
            reach.ribs.closed(session, now);
        }
    }

    /// Sends what they are asked.
    pub(super) fn send_outside(&mut self, now: Now) {
        let request = |server: &mut Self| server.rib.reach.as_mut()?.ribs.poll_request();
        while let Some((rib, data)) = request(self) {
            if let Some(session) = self.endpoint.session_of(&rib) {
                let header = PduHeader::new(Action::RibRequest, self.rib.name(), rib);
                self.send_pdu(session, header, &data, now);
            }
        }
    }

    /// The domains beside this one, and what they offer; none where there are none.
    pub fn neighbours(&self) -> Option<&Neighbours> {
        self.rib.reach.as_ref().map(|reach| &reach.table)
    }

    /// Goes by these rules for neighbours from now on, if it has had any from the start on.
    pub fn set_neighbours(&mut self, neighbours: &[Neighbour], now: Now) {
        let Some(reach) = &mut self.rib.reach else { return };
        reach.set_neighbours(neighbours, &self.rib.config.around, now.instant);
        self.advance(now);
    }

    /// How many RIBs of other domains there are sessions with, of how many.
    pub fn acquaintances(&self) -> (usize, usize) {
        self.rib.reach.as_ref().map_or((0, 0), |reach| reach.ribs.count())
    }

    /// Whether a RIB of a neighbour is there, or it was heard lately otherwise.
    pub fn is_there(&self, neighbour: Name) -> bool {
        self.rib.reach.as_ref().is_some_and(|reach| reach.is_there(neighbour))
    }

    /// What a neighbour is offered that is not told by its RIBs: for who tells it otherwise.
    pub fn offered_to(&mut self, neighbour: Name, now: Now) -> Vec<Offered> {
        self.rib.offered_to(neighbour, now)
    }

    /// Takes all that a neighbour offers which is heard otherwise than from its RIBs, and was heard
    /// last at `heard_at`: what is not among it is offered no longer, and what is not taken is
    /// counted.
    pub fn hear_offers(&mut self, from: Name, offered: &[Offered], heard_at: Instant, now: Now) {
        let Some(reach) = &mut self.rib.reach else { return };
        for (domain, offer) in offered {
            let _ = reach.table.hear(from, *domain, offer, now);
        }
        let domains = offered.iter().map(|(domain, _)| *domain).collect();
        reach.table.retract_all_but(from, &domains);
        reach.table.note_heard(from, heard_at);
        self.advance(now);
    }
}
