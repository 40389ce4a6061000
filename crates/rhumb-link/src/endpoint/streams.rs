//! Sessions over streams: how they begin, what comes in on them, and how they go back to UDP.
//!
//! 1. An attempt of ours that nobody has answered over UDP for [`DIAL_PHASE`] has a stream dialled
//!    beside it, where the endpoint is to. Whichever handshake is over first counts.
//! 2. A stream on which a handshake is over makes a session, or renews the one with that name:
//!    nothing has to be waited for, since each end knows that the other one is there.
//! 3. While a session is on a stream that we dialled, UDP is tried again from time to time. What
//!    that brings is a renewal like any other; the stream ends when nothing comes on it any more.
//! 4. A stream that is lost ends the session that is on it.

use std::net::SocketAddr;
use std::time::Instant;

use rhumb_trust::x509::IdentityError;
use rhumb_wire::Name;
use rhumb_wire::datagram::{AEAD_TAG_LEN, RecordHeader, RecordKind, SessionIndex};
use rhumb_wire::stream;

use super::{Endpoint, Event, Opened};
use crate::exchange::Exchange;
use crate::lane_group::LaneGroup;
use crate::session::LaneEntry;
use crate::stream::{Back, Dial, NewStream, Sending, StreamLane, StreamNews, StreamOrder};
use crate::{
    AttemptId, CloseReason, DropReason, Incompatibility, LinkError, MIN_DATAGRAM_LEN, Peer,
    SessionId, Source,
};

impl Endpoint {
    /// Takes news of a stream. After [`StreamNews::Opened`], the address that the stream has in
    /// batches from now on; `None` when it is of no use, and to be closed.
    pub fn handle_stream(&mut self, news: StreamNews, now: Instant) -> Option<SocketAddr> {
        match news {
            StreamNews::Opened(new) => self.stream_opened(*new, now),
            StreamNews::Failed { attempt, error } => {
                self.dial_failed(attempt, error);
                None
            }
            StreamNews::Lost { index } => {
                self.stream_lost(index);
                None
            }
        }
    }

    /// What is to be done with streams next. To be done after what [`Endpoint::poll_transmit`] had
    /// before was sent.
    pub fn poll_stream_order(&mut self) -> Option<StreamOrder> {
        self.stream_orders.pop_front()
    }

    /// Opens a frame, which stands in its datagram as a plaintext does, and says where.
    pub(super) fn open_frame(
        &mut self,
        index: SessionIndex,
        from: SocketAddr,
        datagram: &[u8],
        now: Instant,
    ) -> Result<Opened, DropReason> {
        let header = RecordHeader::parse(datagram).map_err(|_| DropReason::Malformed)?;
        let entry = self.lanes.get_mut(index).filter(|entry| entry.group.is_stream());
        let entry = entry.ok_or(DropReason::UnknownSession)?;
        let session = entry.session.ok_or(DropReason::Early)?;
        let plaintext = RecordHeader::LEN..datagram.len() - AEAD_TAG_LEN;
        if header.kind != RecordKind::Close {
            entry.group.note_frame(now);
        }
        let is_newest = from == entry.address;
        if header.kind == RecordKind::Pdu && is_newest {
            return Ok(Opened { session, plaintext, is_bundle: false });
        }
        if self.is_from_former(session, index, from, now) {
            return Err(DropReason::FormerProcess);
        }
        match header.kind {
            RecordKind::Pdu => Ok(Opened { session, plaintext, is_bundle: false }),
            RecordKind::Close if self.sends_on(session, index) => {
                self.end(session, CloseReason::PeerClosed);
                Ok(Opened::nothing(session))
            }
            RecordKind::Close => Err(DropReason::StaleClose),
            RecordKind::Path | RecordKind::Bundle => Err(DropReason::Malformed),
        }
    }

    /// Has a stream dialled beside an attempt over UDP, if that is to be.
    pub(super) fn dial_beside(
        &mut self,
        attempt: AttemptId,
        address: SocketAddr,
        expected: Option<Name>,
    ) {
        if self.config.streams {
            self.dial_stream(attempt, address, expected, true);
        }
    }

    /// Dials a stream anew: the session that is on it gets fresh keys, and shows what we show now.
    pub(super) fn dial_anew(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(id.0).filter(|it| it.peer.initiator) else { return };
        let (address, name) = (session.peer.at, session.peer.name);
        let attempt = self.next_attempt();
        self.dial_stream(attempt, address, Some(name), false);
    }

    fn dial_stream(
        &mut self,
        attempt: AttemptId,
        address: SocketAddr,
        expected: Option<Name>,
        announced: bool,
    ) {
        let dial = Dial { address, expected, announced, udp_failed: None, failed: None };
        self.dials.insert(attempt, dial);
        self.stream_orders.push_back(StreamOrder::Dial { attempt, address, expected });
    }

    /// An attempt over UDP has failed. What to tell of it, unless a stream is still being dialled.
    pub(super) fn udp_failed(&mut self, attempt: AttemptId, error: LinkError) -> Option<LinkError> {
        let is_final = matches!(error, LinkError::UnexpectedName { .. });
        match self.dials.get_mut(&attempt) {
            Some(dial) if !is_final && dial.failed.is_none() => {
                dial.udp_failed = Some(error);
                None
            }
            _ => {
                let of_stream = self.dials.remove(&attempt).and_then(|dial| dial.failed);
                Some(telling(error, of_stream))
            }
        }
    }

    fn dial_failed(&mut self, attempt: AttemptId, error: LinkError) {
        let Some(mut dial) = self.dials.remove(&attempt) else { return };
        match dial.udp_failed.take() {
            Some(of_udp) => {
                let (address, error) = (dial.address, telling(of_udp, Some(error)));
                self.events.push_back(Event::Failed { attempt, address, error });
            }
            None if dial.announced => {
                dial.failed = Some(error);
                self.dials.insert(attempt, dial);
            }
            None => {}
        }
    }

    fn stream_opened(&mut self, new: NewStream, now: Instant) -> Option<SocketAddr> {
        let dial = match new.attempt {
            // Nobody waits for it any more: UDP was faster, or has found somebody else.
            Some(attempt) => {
                let dial = self.dials.remove(&attempt).filter(|dial| dial.failed.is_none());
                Some((attempt, dial?))
            }
            None if self.config.streams && self.config.accept => None,
            None => {
                self.drops.count(DropReason::NotAccepting);
                return None;
            }
        };
        match self.adopt(new, dial.as_ref().map(|(_, dial)| dial), now) {
            Ok((session, address, renewed)) => {
                let peer = self.peer(session)?.name;
                let mut announced = None;
                if let Some((attempt, dial)) = dial {
                    self.give_up_udp(attempt, dial.address);
                    announced = dial.announced.then_some(attempt);
                }
                let attempt = announced;
                self.events.push_back(Event::Established { session, attempt, peer, renewed });
                Some(address)
            }
            Err(error) => {
                match dial {
                    Some((attempt, Dial { address, announced: true, .. })) => {
                        self.give_up_udp(attempt, address);
                        self.events.push_back(Event::Failed { attempt, address, error });
                    }
                    Some(_) => {}
                    None => self.count_refused(&error),
                }
                None
            }
        }
    }

    /// Makes a session of a stream, or renews the one with that name. Returns it, the stream's
    /// address, and whether there was one.
    fn adopt(
        &mut self,
        new: NewStream,
        dial: Option<&Dial>,
        now: Instant,
    ) -> Result<(SessionId, SocketAddr, bool), LinkError> {
        let NewStream { peer: remote, claim, max_datagram_len, attempt: _, shown } = new;
        if claim.name == self.name {
            return Err(LinkError::Identity(IdentityError::OwnName));
        }
        if let Some(expected) = dial.and_then(|dial| dial.expected)
            && expected != claim.name
        {
            return Err(LinkError::UnexpectedName { expected, actual: claim.name });
        }
        if max_datagram_len < MIN_DATAGRAM_LEN {
            return Err(LinkError::Incompatible(Incompatibility::DatagramLimit(max_datagram_len)));
        }
        let initiator = dial.is_some();
        self.has_room_for(&claim.who(self.unix_s(now)), Source::of(remote), initiator)?;
        let entry = LaneEntry {
            group: LaneGroup::of_stream(self.config.cipher, now),
            session: None,
            address: remote,
            confirmed: true,
            dozes: false,
            exchange: None,
        };
        let index = self.lanes.insert(entry).ok_or(LinkError::SessionLimit)?;
        let address = stream::address_of(index, remote);
        let peer = Peer {
            name: claim.name,
            metadata: claim.metadata,
            membership: claim.membership,
            address,
            at: dial.map_or(remote, |dial| dial.address),
            max_datagram_len: max_datagram_len.min(self.config.max_datagram_len),
            takes_bundles: false,
            initiator,
            established_at: now,
            renewed_at: now,
        };
        let send = Sending::Stream(StreamLane::new(index, now));
        let current = self.by_name.get(&peer.name).copied();
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
            entry.address = address;
        }
        // Workers have no part in a stream.
        self.share_session(session, Vec::new());
        if shown != self.shows {
            self.show_to(session, now);
        }
        self.look_back_to_udp(session, now);
        self.arm_session(session.0);
        Ok((session, address, current.is_some()))
    }

    /// What was begun over UDP is not gone on with: both ends would have to find out which of two
    /// handshakes is the newer one.
    fn give_up_udp(&mut self, attempt: AttemptId, address: SocketAddr) {
        let route = self.routes.get(&address).and_then(|route| route.initiator);
        let begun = route.filter(|id| {
            let exchange = self.exchanges.get(*id).filter(|it| !it.is_established());
            exchange.and_then(Exchange::attempt) == Some(attempt)
        });
        if let Some(id) = begun {
            self.discard(id);
        }
    }

    /// Has UDP tried again by and by.
    fn look_back_to_udp(&mut self, id: SessionId, now: Instant) {
        let chance = self.challenges.next().get();
        let interval = self.config.udp_retry;
        let Some(session) = self.sessions.get_mut(id.0).filter(|it| it.peer.initiator) else {
            return;
        };
        if let Some(stream) = &mut session.stream
            && stream.back.is_none()
        {
            stream.back = Some(Back::after(interval, chance, now));
        }
    }

    /// Tries UDP again, if it is time to.
    pub(super) fn try_udp_again(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let Some(back) = session.stream.as_mut().and_then(|stream| stream.back.as_mut()) else {
            return;
        };
        if now < back.at {
            return;
        }
        *back = back.next(self.challenges.next().get(), now);
        let (address, name) = (session.peer.at, session.peer.name);
        self.begin(address, Some(name), false, false, 0, now);
    }

    /// The connection of a stream is gone. Nothing more comes on it, nor goes there.
    fn stream_lost(&mut self, index: SessionIndex) {
        let entry = self.lanes.get(index).filter(|entry| entry.group.is_stream());
        let Some(session) = entry.and_then(|entry| entry.session) else { return };
        let Some(on) = self.sessions.get_mut(session.0) else { return };
        if on.receive.newest == index.base() {
            return self.end(session, CloseReason::Broken);
        }
        for older in &mut on.receive.older {
            older.take_if(|older| *older == index.base());
        }
        self.remove_lanes(index);
    }
}

/// Of why UDP has failed and why a stream has, what to tell: who is there says more than that
/// nobody answers.
fn telling(of_udp: LinkError, of_stream: Option<LinkError>) -> LinkError {
    let is_telling = |error: &LinkError| {
        matches!(error, LinkError::UnexpectedName { .. } | LinkError::Identity(_))
    };
    of_stream.filter(|error| is_telling(error) && !is_telling(&of_udp)).unwrap_or(of_udp)
}

/// The phase of an attempt over UDP in which a stream is dialled beside it: a native hello and a
/// foreign one have each been sent three times by then, over two seconds, so it was no single loss.
pub(super) const DIAL_PHASE: usize = 2;
