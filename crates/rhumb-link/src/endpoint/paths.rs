//! Where the peer is, and whether it still is: path messages,
//! and the moves and ends that follow from them.
//!
//! 1. A record from elsewhere, the newest of its lane, begins a check of the address it came from.
//! 2. A challenge is answered to where it came from, with one of ours in the
//!    same message if that address is being checked.
//! 3. The answer of an address that is being checked moves the session there.
//! 4. A session that is watched asks its peer where it is, when it should have been heard of.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use rhumb_wire::datagram::{PathMessage, RecordHeader, RecordKind};

use super::{Endpoint, Event};
use crate::path::{CHALLENGE_INTERVAL, PATH_RECORD_LEN, PathCheck};
use crate::slots::Key;
use crate::timers::Owner;
use crate::watch::{Finding, SUSPECTED_AFTER, Watch};
use crate::{CloseReason, SessionId};

impl Endpoint {
    /// A record of `len` bytes was opened that came from elsewhere than its session sends to.
    /// Returns the challenge to send there, if any.
    #[cold]
    pub(super) fn note_elsewhere(
        &mut self,
        id: SessionId,
        header: RecordHeader,
        from: SocketAddr,
        len: usize,
        now: Instant,
    ) -> Option<NonZeroU64> {
        self.records_from_elsewhere += 1;
        let session = self.sessions.get_mut(id.0)?;
        // A session on a stream goes back to datagrams by a handshake, and in no other way.
        if session.send.is_stream() || !session.receive.contains(header.index) {
            return None;
        }
        let newest = self.lanes.get(header.index)?.group.newest(header.index);
        let number = header.counter.packet_number();
        if !session.path.as_ref().is_some_and(|check| check.is_about(from, header.index)) {
            if newest != Some(number) {
                return None;
            }
            let check = PathCheck::new(from, header.index, self.challenges.next());
            session.path = Some(Box::new(check));
        }
        let check = session.path.as_mut()?;
        check.note(number, len);
        let not_before = session.challenged_at.map(|at| at + CHALLENGE_INTERVAL);
        let challenge = check.ask(newest, not_before, now)?;
        session.challenged_at = Some(now);
        Some(challenge)
    }

    /// Takes a path message that came from `from`; `challenge` is
    /// one of ours that it is time to send there.
    pub(super) fn handle_path_message(
        &mut self,
        id: SessionId,
        header: RecordHeader,
        from: SocketAddr,
        message: PathMessage,
        challenge: Option<NonZeroU64>,
        now: Instant,
    ) {
        let mut challenge = challenge;
        if let Some(answer) = message.answer
            && self.handle_answer(id, header, from, answer, now)
        {
            // It is not elsewhere any more.
            challenge = None;
        }
        if message.challenge.is_some() || challenge.is_some() {
            let answer = message.challenge;
            self.send_path_message(id, from, PathMessage { challenge, answer }, now);
        }
    }

    /// Says whether the answer moved the session.
    fn handle_answer(
        &mut self,
        id: SessionId,
        header: RecordHeader,
        from: SocketAddr,
        answer: NonZeroU64,
        now: Instant,
    ) -> bool {
        let Some(session) = self.sessions.get_mut(id.0) else { return false };
        if let Some(watch) = &mut session.watch {
            watch.answered(answer, now);
        }
        let newest =
            self.lanes.get(header.index).and_then(|entry| entry.group.newest(header.index));
        let passed = session.path.as_ref().is_some_and(|check| {
            check.is_about(from, header.index) && check.is_passed_by(answer, newest)
        });
        if passed {
            self.move_session(id, header, from, now);
        } else {
            self.note_size_answer(id, answer, now);
        }
        passed
    }

    /// The peer is at `to`: sends there from now on, and asks where it sent to until now, in case
    /// somebody else made it look so.
    fn move_session(&mut self, id: SessionId, header: RecordHeader, to: SocketAddr, now: Instant) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        if session.send.is_stream() {
            return;
        }
        session.peer.at = to;
        let from = std::mem::replace(&mut session.peer.address, to);
        for index in session.receive.iter() {
            if let Some(entry) = self.lanes.get_mut(index) {
                entry.address = to;
            }
        }
        let groups = session.receive;
        // A translator that takes another port has not changed the path.
        match from.ip() == to.ip() {
            true => session.size.renewed(session.size.limit(), now),
            false => session.size.moved(),
        }
        self.sharing.moved(id, groups, to);
        self.resize(id);
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let mut check = PathCheck::back(from, header.index, self.challenges.next());
        let challenge = Some(check.begin(now));
        session.path = Some(Box::new(check));
        session.challenged_at = Some(now);
        self.events.push_back(Event::Moved { session: id, from, to });
        self.send_path_message(id, from, PathMessage { challenge, answer: None }, now);
        self.look_at_size(id, now);
        self.arm_session(id.0);
    }

    /// What time brings to the checks of a session: a challenge
    /// repeated, a probe; or its end, which is returned.
    pub(super) fn look_after_path(&mut self, key: Key, now: Instant) -> Option<CloseReason> {
        let id = SessionId(key);
        let session = self.sessions.get_mut(key)?;
        let former =
            session.path.as_mut().and_then(|check| Some((check.address, check.repeat(now)?)));
        if let Some((address, challenge)) = former {
            let message = PathMessage { challenge: Some(challenge), answer: None };
            self.send_path_message(id, address, message, now);
        }
        let session = self.sessions.get_mut(key)?;
        let heard = session.last_heard(&self.lanes);
        let sealed = session.sealed();
        let watch = session.watch.as_mut().filter(|watch| watch.look_at <= now)?;
        match watch.look(heard, sealed, now) {
            Finding::Present { idle } => self.let_doze(id, idle),
            Finding::Doubtful { unanswered } => {
                match unanswered {
                    1 => self.events.push_back(Event::Doubtful { session: id }),
                    SUSPECTED_AFTER => self.events.push_back(Event::Suspected { session: id }),
                    _ => {}
                }
                self.probe(id, now);
            }
            Finding::Silent => return Some(CloseReason::Silent),
        }
        None
    }

    /// How long a session's peer takes to answer, as far as it was asked of late.
    pub fn round_trip(&self, session: SessionId) -> Option<Duration> {
        let session = self.sessions.get(session.0)?;
        let watched = session.watch.as_ref().and_then(|watch| watch.measured());
        watched.or(session.size.round_trip())
    }

    /// Whether a session's peer has left several questions unanswered and was not heard since.
    pub fn is_suspected(&self, session: SessionId) -> bool {
        let watch = self.sessions.get(session.0).and_then(|it| it.watch.as_ref());
        watch.is_some_and(|watch| watch.suspected)
    }

    /// Watches the peer of a session from now on, whatever its role is: for the few whose place
    /// another one takes at once.
    pub fn watch(&mut self, session: SessionId, now: Instant) {
        let Some(watched) = self.sessions.get_mut(session.0) else { return };
        if let Some(stream) = &mut watched.stream {
            stream.watch.get_or_insert_with(|| Box::new(Watch::new(now)));
        } else if watched.watch.is_none() {
            watched.watch = Some(Box::new(Watch::new(now)));
            self.let_doze(session, false);
            self.arm_session(session.0);
        }
    }

    /// Has the peer of a watched session asked now whether it is there, unless it is being asked:
    /// to know how long its answer takes.
    pub fn ask(&mut self, session: SessionId, now: Instant) {
        let watch = self.sessions.get(session.0).and_then(|it| it.watch.as_ref());
        if watch.is_some_and(|watch| !watch.is_asking()) {
            self.probe(session, now);
            self.arm_session(session.0);
        }
    }

    /// Says whether there is somewhere else to go at once if the peer of a watched session falls
    /// silent. Then it counts as silent after fewer questions, where hardly any were lost before.
    pub fn hasten(&mut self, session: SessionId, hasty: bool) {
        if let Some(watch) = self.sessions.get_mut(session.0).and_then(|it| it.watch_mut()) {
            watch.hasty = hasty;
        }
    }

    /// Has the peer of a watched session asked every [`QUIET`](crate::QUIET) that nothing is heard
    /// of it, though there is no traffic: for the few peers whose place another one takes at once.
    /// Eight short datagrams a second, of both ends together.
    pub fn watch_closely(&mut self, session: SessionId, now: Instant) {
        let watch = self.sessions.get_mut(session.0).and_then(|it| it.watch_mut());
        let Some(watch) = watch.filter(|watch| !watch.closely) else { return };
        watch.closely = true;
        watch.wake(now);
        self.let_doze(session, false);
        self.arm_session(session.0);
    }

    /// Has the watch woken by the next traffic, or lets it look by the clock.
    fn let_doze(&mut self, id: SessionId, dozes: bool) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        session.dozes = dozes;
        for index in session.receive.iter() {
            if let Some(entry) = self.lanes.get_mut(index) {
                entry.dozes = dozes;
            }
        }
    }

    /// Asks the peer of a watched session whether it is there.
    pub(super) fn probe(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let Some(watch) = &mut session.watch else { return };
        let address = session.peer.address;
        let challenge = Some(watch.probe(self.challenges.next(), now));
        self.let_doze(id, false);
        self.send_path_message(id, address, PathMessage { challenge, answer: None }, now);
    }

    /// There is traffic on a session that was idle: it will soon be time to look after its peer.
    #[cold]
    pub(super) fn wake_watch(&mut self, id: SessionId, now: Instant) {
        if !self.sessions.get(id.0).is_some_and(|session| session.dozes) {
            return;
        }
        self.let_doze(id, false);
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        if let Some(watch) = &mut session.watch {
            let at = watch.wake(now);
            self.timers.arm(Owner::Session(id.0), &mut session.armed, at);
        }
    }

    pub(super) fn send_path_message(
        &mut self,
        id: SessionId,
        to: SocketAddr,
        message: PathMessage,
        now: Instant,
    ) {
        let mut buffer = [0; PATH_RECORD_LEN];
        buffer[RecordHeader::LEN..][..PathMessage::LEN].copy_from_slice(&message.emit());
        match self.seal_record(id, RecordKind::Path, &mut buffer, now) {
            Ok(_) => self.outgoing.push(to, &buffer),
            Err(reason) => {
                self.drops.count(reason);
                return;
            }
        }
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        session.own_records += 1;
        if let Some(check) = session.path.as_mut().filter(|check| check.address == to) {
            check.spend();
        }
        let sealed = session.sealed();
        match &mut session.watch {
            Some(watch) if message.challenge.is_some() => watch.sealed(sealed),
            // An answer asks for none, so what was sealed before it still waits for one.
            Some(watch) => watch.sealed_one_of_ours(),
            None => {}
        }
    }
}
