//! What time brings: retransmissions, keep-alives, renewals, and ends.

use std::time::Instant;

use super::Endpoint;
use crate::session::{Lanes, RENEWAL_RETRY};
use crate::slots::Key;
use crate::timers::Owner;
use crate::{CloseReason, KEEP_ALIVE, LinkError, SILENCE, SessionId};

impl Endpoint {
    /// Does what is due. Work: one step for each deadline that has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, owner)) = self.timers.pop(now) {
            match owner {
                Owner::Exchange(id) => self.exchange_due(id, at, now),
                Owner::Session(key) => self.session_due(key, at, now),
            }
        }
    }

    fn exchange_due(&mut self, id: Key, at: Instant, now: Instant) {
        let Some(exchange) = self.exchanges.get_mut(id) else { return };
        if !exchange.armed.fires(at) {
            return;
        }
        let Some(mut exchange) = self.exchanges.borrow(id) else { return };
        let result = if now >= exchange.deadline {
            Err(LinkError::TimedOut)
        } else {
            exchange.handshake.handle_timeout(now).map_err(LinkError::Handshake)
        };
        let result = result.and_then(|()| match exchange.repeat_mut() {
            Some(Some(repeat)) if now >= repeat.at => {
                *repeat = repeat.next(now);
                self.send_parameters(&mut exchange)
            }
            _ => Ok(()),
        });
        self.resume(id, exchange, result, now);
    }

    fn session_due(&mut self, key: Key, at: Instant, now: Instant) {
        let id = SessionId(key);
        let Some(session) = self.sessions.get_mut(key) else { return };
        if !session.armed.fires(at) {
            return;
        }
        let heard = session.last_heard(&self.lanes);
        let silent = now.saturating_duration_since(heard) >= SILENCE;
        let end = if silent { Some(CloseReason::Silent) } else { self.look_after_path(key, now) };
        if let Some(reason) = end {
            // Perhaps only one direction is cut: then the peer need not wait as long.
            self.send_close(id, now);
            self.end(id, reason);
            return;
        }
        let Some(session) = self.sessions.get_mut(key) else { return };
        let silent_us = now.saturating_duration_since(session.last_sealed()) >= KEEP_ALIVE;
        let renew = now >= session.renew_at
            || (session.nearly_exhausted() && session.renew_at > now + RENEWAL_RETRY);
        if renew {
            session.renew_at = now + RENEWAL_RETRY;
        }
        let (address, name) = (session.peer.address, session.peer.name);
        let is_on_stream = session.send.is_stream();
        let watched = session.watch.is_some();
        self.tidy_lanes(key, now);
        if silent_us && watched {
            self.probe(id, now);
        } else if silent_us {
            self.send_keep_alive(id, now);
        }
        self.look_at_size(id, now);
        self.try_udp_again(id, now);
        if renew && is_on_stream {
            self.dial_anew(id);
        } else if renew {
            self.begin(address, Some(name), false, false, 0, now);
        }
        self.arm_session(key);
    }

    /// Has a session looked at when something will be due.
    pub(super) fn arm_session(&mut self, key: Key) {
        if let Some(session) = self.sessions.get_mut(key) {
            let due = session.due(&self.lanes);
            self.timers.arm(Owner::Session(key), &mut session.armed, due);
        }
    }

    /// Wipes keys of past epochs, and ends older lanes once nothing comes on them any more.
    fn tidy_lanes(&mut self, key: Key, now: Instant) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        for index in session.receive.iter() {
            if let Some(entry) = self.lanes.get_mut(index) {
                entry.group.wipe_previous(now);
            }
        }
        let is_over = |lanes: &Lanes, index| {
            let opened = lanes.get(index).map(|entry| entry.group.last_opened());
            opened.is_none_or(|opened| now.saturating_duration_since(opened) >= SILENCE)
        };
        let mut over = Vec::new();
        for older in &mut session.receive.older {
            over.extend(older.take_if(|index| is_over(&self.lanes, *index)));
        }
        if session.receive.older == [None; 2] {
            session.former = None;
        }
        for index in over {
            self.remove_lanes(index);
        }
    }
}
