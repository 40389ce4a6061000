//! Whose sessions these are: who is admitted, and how many strangers may have.

use std::time::Instant;

use rhumb_trust::{Access, Now, Standing, Who};

use super::Endpoint;
use crate::{LinkError, Peer, SessionId, Source, StreamOrder};

impl Endpoint {
    /// Says who is admitted: their sessions count against no bound for
    /// strangers, and where they were, others of theirs begin handshakes that no
    /// stranger can hold up. Nobody is refused by this. Memberships are looked at by the civil
    /// clock of `now`, as it goes on from there.
    pub fn set_access(&mut self, access: Access, now: Now) {
        self.access = access;
        self.clock = Some(now);
        let sessions: Vec<SessionId> = self.sessions().map(|(session, _)| session).collect();
        for session in sessions {
            self.count_session(session, now.instant);
        }
    }

    /// Sessions that strangers began, and how many they may have.
    pub fn strangers(&self) -> (usize, usize) {
        (self.census.strangers(), self.config.limits.sessions_of_strangers())
    }

    /// The most that strangers at one source have, and may have.
    pub fn most_strangers_at_a_source(&self) -> (usize, usize) {
        (self.census.most_at_one(), self.config.limits.sessions_per_source)
    }

    /// Whether a session with this peer may begin, if
    /// there is none. `peer` is who it would be with.
    pub(super) fn has_room_for(
        &self,
        who: &Who<'_>,
        source: Source,
        we_began: bool,
    ) -> Result<(), LinkError> {
        let limits = &self.config.limits;
        if self.by_name.contains_key(who.name) {
            return Ok(());
        }
        if self.sessions.len() >= limits.sessions {
            return Err(LinkError::SessionLimit);
        }
        if we_began || self.is_admitted(who) {
            return Ok(());
        }
        if self.census.strangers() >= limits.sessions_of_strangers() {
            return Err(LinkError::SessionLimit);
        }
        if self.census.strangers_at(source) >= limits.sessions_per_source {
            return Err(LinkError::SourceSessionLimit);
        }
        Ok(())
    }

    /// Looks again at whose session it is: a membership may have ended.
    pub fn count_anew(&mut self, session: SessionId, now: Instant) {
        self.count_session(session, now);
    }

    /// Counts a session as a stranger's, or as none.
    pub(super) fn count_session(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get(id.0) else { return };
        let Peer { address, initiator, renewed_at, .. } = &session.peer;
        let (source, we_began, seen_at) = (Source::of(*address), *initiator, *renewed_at);
        if self.is_admitted(&session.peer.who(self.unix_s(now))) {
            self.census.leave(id);
            if self.config.streams && !self.census.is_known(source) {
                self.stream_orders.push_back(StreamOrder::Know { source });
            }
            self.census.know(source, seen_at);
        } else if !we_began {
            self.census.enter(id, source);
        }
    }

    /// Seconds since 1970, by the clock that came with the rules.
    pub(super) fn unix_s(&self, now: Instant) -> u64 {
        self.clock.map_or(0, |clock| clock.at(now).unix_s())
    }

    fn is_admitted(&self, who: &Who<'_>) -> bool {
        self.access.standing(who) == Standing::Admitted
    }
}
