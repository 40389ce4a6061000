//! Another certificate to show: the same name and key, with another membership beside them.
//!
//! 1. Handshakes that begin from now on show it.
//! 2. Sessions are renewed by handshakes of ours, a few in a millisecond at most: with RIBs and
//!    routers, which judge by it, before those that are nodes.
//! 3. Handshakes that were under way show the former one: what they make is renewed, too.
//!
//! Nodes accept no handshakes, so to a node that began its session the new certificate is shown
//! when that node renews it.

use std::sync::Arc;
use std::time::Instant;

use rhumb_trust::{Identity, x509};
use rhumb_wire::Role;

use super::Endpoint;
use crate::session::{Session, showing_time};
use crate::stream::StreamOrder;
use crate::{LinkError, SessionId};

impl Endpoint {
    /// Shows what `identity`, which is of the same name, shows of a trust domain. Sessions go on:
    /// they are renewed, a hundred in a second.
    ///
    /// # Errors
    /// When it is another name, or its certificate cannot be made; then nothing changes.
    pub fn show(&mut self, identity: &Identity, now: Instant) -> Result<(), LinkError> {
        if identity.name() != self.name {
            let (expected, actual) = (self.name, identity.name());
            return Err(LinkError::UnexpectedName { expected, actual });
        }
        let certificate = x509::make(identity).map_err(|_| LinkError::Certificate)?;
        self.library = Arc::new(self.library.showing(certificate.clone())?);
        self.shows += 1;
        let number = self.shows;
        if self.config.streams {
            self.stream_orders.push_back(StreamOrder::Show { certificate, number });
        }
        let mut sessions: Vec<(bool, SessionId)> = self
            .sessions
            .iter()
            .filter(|(_, session)| can_be_shown(session))
            .map(|(key, session)| (is_a_nodes(session), SessionId(key)))
            .collect();
        sessions.sort_unstable();
        for (position, (_, session)) in sessions.into_iter().enumerate() {
            self.renew_at(session, showing_time(position, now));
        }
        Ok(())
    }

    /// A handshake that has just ended showed a former certificate.
    pub(super) fn show_to(&mut self, session: SessionId, now: Instant) {
        if self.sessions.get(session.0).is_some_and(can_be_shown) {
            self.renew_at(session, showing_time(1, now));
        }
    }

    fn renew_at(&mut self, id: SessionId, at: Instant) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        session.renew_at = session.renew_at.min(at);
        self.arm_session(id.0);
    }
}

/// Whether a handshake of ours with its peer can be answered.
fn can_be_shown(session: &Session) -> bool {
    session.peer.initiator || !(is_a_nodes(session) || session.send.is_stream())
}

fn is_a_nodes(session: &Session) -> bool {
    session.peer.metadata.role == Role::Node
}
