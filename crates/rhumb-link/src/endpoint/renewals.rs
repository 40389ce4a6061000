//! How a session begins, and how it is renewed: from the peer's parameters on.
//!
//! A first session begins when the parameters are here. A renewal waits for the first
//! record under the new keys: until then the peer may give the handshake up and forget
//! them, and a session that had switched already would send into the void. What the peer
//! sends under the new keys in the meantime is received.

use std::time::Instant;

use rhumb_wire::datagram::{RECORD_OVERHEAD, RecordKind, SessionIndex, SessionParameters};
use rhumb_wire::metadata::Role;

use super::former::{TELL_FORMER_AFTER, TELL_FORMER_STREAM_AFTER};
use super::{Endpoint, Event};
use crate::exchange::{
    AGREEMENT_TIME, Agreement, Evidence, Exchange, LINGER, Progress, Renewal, Side,
};
use crate::path_size::PathSize;
use crate::session::{Former, ReceiveLanes, SILENCE, SentElsewhere, Session, renewal_time};
use crate::slots::Key;
use crate::stream::{OnStream, Sending};
use crate::timers::{Armed, Owner};
use crate::watch::Watch;
use crate::{LinkError, Peer, SessionId, Source, WatchPeers};

impl Endpoint {
    /// The peer's parameters are here: we can send. A first session begins at once.
    pub(super) fn prepare_session(
        &mut self,
        exchange: &mut Exchange,
        agreement: Agreement,
        parameters: SessionParameters,
        now: Instant,
    ) -> Result<(), LinkError> {
        let Agreement { peer: claim, secrets, index, repeat } = agreement;
        let (send, for_workers) = self.split_lanes(*secrets, &parameters, now);
        let peer = Peer {
            name: claim.name,
            metadata: claim.metadata,
            membership: claim.membership,
            address: exchange.address,
            at: exchange.address,
            max_datagram_len: parameters.max_datagram_len.min(self.config.max_datagram_len),
            initiator: exchange.is_client(),
            takes_bundles: false,
            established_at: now,
            renewed_at: now,
        };
        if let Side::Responder(response) = &mut exchange.side
            && let Some(ticket) = response.ticket.take()
        {
            self.admission.release(ticket);
        }
        let current = self.by_name.get(&peer.name).copied();
        let confirmed = match self.lanes.get_mut(index) {
            Some(entry) => {
                entry.session = current;
                entry.confirmed
            }
            None => false,
        };
        let renewal = Renewal { peer, send, for_workers, index, repeat };
        if current.is_none() || confirmed {
            return self.promote(exchange, renewal, now).map(drop);
        }
        exchange.progress = Progress::Greeting(renewal);
        exchange.wait_until(now + AGREEMENT_TIME);
        Ok(())
    }

    /// The peer has used the new keys: the session takes them over.
    pub(super) fn finish_greeting(&mut self, id: Key, now: Instant) -> Option<SessionId> {
        let mut exchange = self.exchanges.borrow(id)?;
        let nothing = Progress::Handshaking(Evidence::default());
        let session = match std::mem::replace(&mut exchange.progress, nothing) {
            Progress::Greeting(renewal) => self.promote(&mut exchange, renewal, now).ok(),
            other => {
                exchange.progress = other;
                None
            }
        };
        let due = exchange.due();
        self.timers.arm(Owner::Exchange(id), &mut exchange.armed, due);
        self.exchanges.restore(id, exchange);
        session
    }

    /// Makes a session of a greeting, or renews the one with that name.
    fn promote(
        &mut self,
        exchange: &mut Exchange,
        renewal: Renewal,
        now: Instant,
    ) -> Result<SessionId, LinkError> {
        let Renewal { peer, send, for_workers, index, repeat } = renewal;
        let name = peer.name;
        let send = Sending::Sealed(*send);
        let current = self.by_name.get(&name).copied();
        let session = match current {
            Some(session) => {
                self.renew_session(session, peer, send, index, now);
                self.count_session(session, now);
                session
            }
            None => self.make_session(peer, send, index, now)?,
        };
        if let Some(entry) = self.lanes.get_mut(index) {
            entry.session = Some(session);
        }
        self.share_session(session, for_workers);
        self.share_lanes(index);
        exchange.progress = Progress::Established { session, index, repeat };
        exchange.wait_until(now + if repeat.is_some() { SILENCE } else { LINGER });
        // A stream that was dialled beside is not needed any more.
        exchange.attempt().map(|attempt| self.dials.remove(&attempt));
        let attempt = match &exchange.side {
            Side::Initiator(initiation) => initiation.announced.then_some(initiation.attempt),
            Side::Responder(_) => None,
        };
        if exchange.shows != self.shows {
            self.show_to(session, now);
        }
        let renewed = current.is_some();
        self.events.push_back(Event::Established { session, attempt, peer: name, renewed });
        self.look_at_size(session, now);
        self.arm_session(session.0);
        Ok(session)
    }

    /// Sends an empty record under the exchange's keys:
    /// the peer learns that we have its parameters.
    pub(super) fn greet(&mut self, exchange: &mut Exchange, now: Instant) {
        match &mut exchange.progress {
            Progress::Established { session, .. } => self.send_keep_alive(*session, now),
            Progress::Greeting(renewal) => {
                let also = self.config.bundles.then_some(RecordKind::Bundle);
                for kind in [Some(RecordKind::Pdu), also].into_iter().flatten() {
                    let mut buffer = [0; RECORD_OVERHEAD];
                    match renewal.send.seal(kind, &mut buffer, now) {
                        Ok(()) => self.outgoing.push(exchange.address, &buffer),
                        Err(reason) => {
                            self.drops.count(reason);
                        }
                    }
                }
            }
            Progress::Handshaking(_) | Progress::Agreeing(_) => {}
        }
    }

    pub(super) fn make_session(
        &mut self,
        mut peer: Peer,
        send: Sending,
        index: SessionIndex,
        now: Instant,
    ) -> Result<SessionId, LinkError> {
        let source = Source::of(peer.address);
        let who = peer.who(self.unix_s(now));
        if let Err(error) = self.has_room_for(&who, source, peer.initiator) {
            self.remove_lanes(index);
            return Err(error);
        }
        let name = peer.name;
        let renew_at = renewal_time(&name, peer.initiator, now);
        let receive = ReceiveLanes { newest: index, older: [None; 2] };
        let is_watched = match self.config.watch_peers {
            WatchPeers::Nobody => false,
            WatchPeers::Routers => peer.metadata.role == Role::Router,
            WatchPeers::Infrastructure => matches!(peer.metadata.role, Role::Router | Role::Rib),
            WatchPeers::Everybody => true,
        };
        let is_on_stream = send.is_stream();
        let size = match is_on_stream {
            true => PathSize::of_stream(peer.max_datagram_len),
            false => PathSize::new(peer.max_datagram_len),
        };
        peer.max_datagram_len = size.present();
        let watch = is_watched.then(|| Box::new(Watch::new(now)));
        let (watch, stream) = match is_on_stream {
            true => (None, Some(Box::new(OnStream { watch, back: None }))),
            false => (watch, None),
        };
        let session = Session {
            peer,
            send,
            stream,
            sent_elsewhere: SentElsewhere::default(),
            receive,
            former: None,
            renew_at,
            armed: Armed::default(),
            path: None,
            challenged_at: None,
            watch,
            dozes: false,
            size: Box::new(size),
            own_records: 0,
        };
        let key = self.sessions.insert(session);
        self.arm_session(key);
        self.by_name.insert(name, SessionId(key));
        self.count_session(SessionId(key), now);
        Ok(SessionId(key))
    }

    pub(super) fn renew_session(
        &mut self,
        id: SessionId,
        peer: Peer,
        send: Sending,
        index: SessionIndex,
        now: Instant,
    ) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        session.renew_at = renewal_time(&peer.name, peer.initiator, now);
        let before = std::mem::replace(&mut session.send, send);
        let (was_on_stream, is_on_stream) = (before.is_stream(), session.send.is_stream());
        if session.peer.address != peer.address {
            let under_way = match was_on_stream || is_on_stream {
                true => TELL_FORMER_STREAM_AFTER,
                false => TELL_FORMER_AFTER,
            };
            let (address, counts_until) = (session.peer.address, now + under_way);
            let former = Former { send: before, address, counts_until, told_from: counts_until };
            session.former = Some(Box::new(former));
        }
        let Peer { established_at, max_datagram_len, address, .. } = session.peer;
        match (was_on_stream, is_on_stream) {
            (_, true) => *session.size = PathSize::of_stream(peer.max_datagram_len),
            (true, false) => *session.size = PathSize::new(peer.max_datagram_len),
            (false, false) => session.size.renewed(peer.max_datagram_len, now),
        }
        if !is_on_stream && !was_on_stream && peer.address.ip() != address.ip() {
            session.size.moved();
        }
        session.change_transport(is_on_stream, now);
        session.peer = Peer { established_at, max_datagram_len, ..peer };
        session.sent_elsewhere = SentElsewhere::default();
        session.own_records = 0;
        session.path = None;
        if let Some(watch) = &mut session.watch {
            watch.sealed(0);
        }
        let retired = session.receive.push(index, &self.lanes);
        for index in session.receive.iter() {
            if let Some(entry) = self.lanes.get_mut(index) {
                entry.address = session.peer.address;
                entry.dozes = session.dozes;
            }
        }
        let (groups, address) = (session.receive, session.peer.address);
        self.sharing.moved(id, groups, address);
        self.resize(id);
        if let Some(retired) = retired {
            self.remove_lanes(retired);
        }
    }
}
