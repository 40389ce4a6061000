//! How large datagrams may be, session by session: probes out, answers in, and who is told of it.

use std::num::NonZeroU64;
use std::time::Instant;

use rhumb_wire::datagram::{PathMessage, RECORD_OVERHEAD, RecordHeader, RecordKind};

use super::{Endpoint, Event};
use crate::SessionId;
use crate::path_size::Question;

impl Endpoint {
    /// Asks about a size if it is time to, and takes over what was found out.
    pub(super) fn look_at_size(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let heard = session.last_heard(&self.lanes);
        let traffic = session.traffic();
        let question = session.size.look(heard, traffic, &mut self.challenges, now);
        self.resize(id);
        if let Some(Question { len, challenge, companion }) = question {
            self.send_size_probe(id, usize::from(len), challenge, now);
            if let Some(companion) = companion {
                self.send_size_probe(id, 0, companion, now);
            }
        }
    }

    /// An answer to a challenge came in, perhaps one about a size.
    pub(super) fn note_size_answer(&mut self, id: SessionId, answer: NonZeroU64, now: Instant) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        if session.size.answered(answer, now) {
            self.look_at_size(id, now);
            self.arm_session(id.0);
        }
    }

    /// Whether datagrams of `len` bytes may soon be sent on a session, where they cannot now: a
    /// probe of theirs is under way. By then a round trip has passed.
    pub fn may_soon_carry(&self, session: SessionId, len: usize) -> bool {
        self.sessions.get(session.0).is_some_and(|session| session.size.hopes_for(len))
    }

    /// Has a session's datagrams be as large as is known to get through.
    pub(super) fn resize(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let now = session.size.present();
        let before = std::mem::replace(&mut session.peer.max_datagram_len, now);
        if before != now {
            self.sharing.resized(id, now);
            self.events.push_back(Event::Resized { session: id, before, now });
        }
    }

    /// Sends a challenge in a datagram of `len` bytes, or of as many as it needs. With it goes that
    /// we take bundles, since keep-alives are for sessions that are idle.
    fn send_size_probe(&mut self, id: SessionId, len: usize, challenge: NonZeroU64, now: Instant) {
        let message = PathMessage { challenge: Some(challenge), answer: None };
        let mut buffer = vec![0; len.max(RECORD_OVERHEAD + PathMessage::LEN)];
        buffer[RecordHeader::LEN..][..PathMessage::LEN].copy_from_slice(&message.emit());
        match self.seal_record(id, RecordKind::Path, &mut buffer, now) {
            Ok(address) => self.outgoing.push(address, &buffer),
            Err(reason) => {
                self.drops.count(reason);
                return;
            }
        }
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        session.own_records += 1;
        if let Some(watch) = &mut session.watch {
            watch.sealed_one_of_ours();
        }
        self.say_takes_bundles(id, now);
    }
}
