//! The server's sessions with the RIBs of the domain around: begun and kept by this end, over the
//! endpoint that serves others.

use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use rhumb_directory::{Conduct, Fault};
use rhumb_link::{AttemptId, SessionId};
use rhumb_trust::Now;
use rhumb_wire::{Action, Name, PduHeader};

use super::Server;
use crate::store::Store;

impl<S: Store> Server<S> {
    /// Begins the sessions that are due.
    pub(super) fn connect_parents(&mut self, now: Instant) {
        let Some(beyond) = &mut self.rib.beyond else { return };
        for (index, remote) in beyond.directory.connect_due(now) {
            let attempt = self.endpoint.connect(remote.address, remote.name, now);
            beyond.directory.connecting(index, attempt);
        }
    }

    pub(super) fn parent_established(
        &mut self,
        session: SessionId,
        attempt: Option<AttemptId>,
        now: Instant,
    ) {
        let (Some(beyond), Some(attempt)) = (&mut self.rib.beyond, attempt) else { return };
        if beyond.directory.established(attempt, session, now)
            && let Some(peer) = self.endpoint.peer(session)
        {
            beyond.joined(session, peer.metadata.clone());
            // Those who wait for it wait no longer than they must.
            self.endpoint.watch_closely(session, now);
        }
    }

    pub(super) fn parent_failed(&mut self, attempt: AttemptId, now: Instant) {
        if let Some(beyond) = &mut self.rib.beyond {
            beyond.directory.failed(attempt, now);
        }
    }

    pub(super) fn parent_closed(&mut self, session: SessionId, now: Instant) {
        if let Some(beyond) = &mut self.rib.beyond {
            beyond.left(session);
            beyond.directory.closed(session, now);
        }
    }

    /// Whether the session is with one of them.
    pub(super) fn is_parent(&self, session: SessionId) -> bool {
        self.rib.beyond.as_ref().is_some_and(|beyond| beyond.parent(session).is_some())
    }

    /// Sends what they are asked and told.
    pub(super) fn send_to_parents(&mut self, now: Now) {
        let request = |server: &mut Self| server.rib.beyond.as_mut()?.directory.poll_request();
        while let Some((session, data)) = request(self) {
            let Some(parent) = self.endpoint.peer(session).map(|peer| peer.name) else { continue };
            let header = PduHeader::new(Action::RibRequest, self.rib.name(), parent);
            self.send_pdu(session, header, &data, now);
        }
    }

    /// How each of [`Server::parents`] has behaved, in the same order.
    pub fn parents_conduct(&self) -> &[Conduct] {
        self.rib.beyond.as_ref().map_or(&[], |beyond| beyond.directory.conducts())
    }

    /// The next RIB of the domain around of which a fault was proven, once each time.
    pub fn poll_parent_fault(&mut self) -> Option<(SocketAddr, Fault)> {
        self.rib.beyond.as_mut()?.directory.poll_fault()
    }

    /// The RIBs of the domain around: where each is, who it has proven to be if there is a session,
    /// and for how long it has answered nothing.
    pub fn parents(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = (SocketAddr, Option<Name>, Option<Duration>)> {
        let beyond = self.rib.beyond.iter();
        beyond.flat_map(move |beyond| beyond.directory.ribs(now)).map(
            |(address, session, silent)| {
                let peer = session.and_then(|session| self.endpoint.peer(session));
                (address, peer.map(|peer| peer.name), silent)
            },
        )
    }
}
