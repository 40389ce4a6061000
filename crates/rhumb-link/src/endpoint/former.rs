//! Two processes that hold one key, seen by the end that both shake hands with: the newer handshake
//! has taken the session over, and the former process still sends under the keys from before.
//!
//! It cannot open what is sealed for the other one. So that it need not find out by silence, shake
//! hands again and take the session back, and so on for ever, whoever drives the endpoint is told
//! ([`Event::Former`]) and may say a word under the former keys ([`Endpoint::seal_former`]).
//!
//! INVARIANT: the lane that the word is sealed on is the one that was
//! sent on before, so no packet number repeats.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_wire::datagram::{RecordKind, SessionIndex};

use super::{Endpoint, Event};
use crate::{DropReason, SessionId};

impl Endpoint {
    /// Seals a datagram, as [`Endpoint::seal`] does, for whoever still uses
    /// the keys from before the newest handshake.
    ///
    /// # Errors
    /// With the reason, which is counted, when there is nobody any more.
    pub fn seal_former(
        &mut self,
        session: SessionId,
        buffer: &mut [u8],
        now: Instant,
    ) -> Result<SocketAddr, DropReason> {
        let former = self.sessions.get_mut(session.0).and_then(|it| it.former.as_mut());
        let sealed = match former {
            Some(former) => former.send.seal(RecordKind::Pdu, buffer, now).map(|()| former.address),
            None => Err(DropReason::UnknownSession),
        };
        sealed.map_err(|reason| self.drops.count(reason))
    }

    /// Whether a record that was opened is from whoever used the session before its newest
    /// handshake: then that is told, and the record does not count. Not at once, since what the
    /// same process sent before it heard that its own handshake is over may still be under way.
    pub(super) fn is_from_former(
        &mut self,
        id: SessionId,
        index: SessionIndex,
        from: SocketAddr,
        now: Instant,
    ) -> bool {
        let Some(session) = self.sessions.get_mut(id.0) else { return false };
        let is_newest = index.base() == session.receive.newest;
        let Some(former) = session.former.as_mut() else { return false };
        if is_newest || former.address != from || now < former.counts_until {
            return false;
        }
        if now >= former.told_from {
            former.told_from = now + TELL_FORMER_AFTER;
            self.events.push_back(Event::Former { session: id });
        }
        true
    }
}

/// Longer than datagrams are under way, shorter than a node takes to find its router silent.
pub(crate) const TELL_FORMER_AFTER: Duration = Duration::from_millis(500);
/// As much for what waits in the buffers of a stream, at a megabit a second.
pub(crate) const TELL_FORMER_STREAM_AFTER: Duration = Duration::from_secs(5);
