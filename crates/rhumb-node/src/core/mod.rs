//! The node without I/O: a member of one router that sends and receives PDUs
//! by name. Time, randomness and datagrams are arguments; see
//! [`crate::Node`] for the same with a socket and a thread.
//!
//! 1. [`Core::handle_batch`] takes received datagrams; what arrived for programs is then in
//!    [`Core::arrivals`], in place.
//! 2. [`Core::handle_timeout`] does what is due: connect, renew, give up.
//! 3. [`Core::send`], [`Core::ping`] and [`Core::send_unkept`] take what programs want sent.
//! 4. [`Core::poll_transmit`] appends datagrams to send, until it appends
//!    nothing more. [`Core::poll_query`] has what is to be sent to all of the
//!    local network, while a router is sought there.
//! 5. [`Core::poll_event`] tells what happened; [`Core::poll_timeout`] when to call again.
//!
//! Invariant: data leave only over the session with a router that has accepted the name, and NACKs
//! are believed only from that session and about PDUs that are accounted for.

mod advertisement;
mod discovery;
mod drop_reason;
mod event;
mod groups;
mod jitter;
mod labels;
mod lease;
mod membership;
mod outbox;
mod path_limits;
mod pending;
mod receive;
mod search;
mod seeking;
mod send;
mod services;
mod standby;
mod streams;
mod turn;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rhumb_link::{Endpoint, LinkError, StreamNews, StreamOrder, Transport, WatchPeers};
use rhumb_trust::{Access, AdCert, Identity, Now};
use rhumb_wire::datagram::{LANES, RECORD_OVERHEAD};
use rhumb_wire::discovery::Discovery;
use rhumb_wire::group::Part;
use rhumb_wire::nack::Reason;
use rhumb_wire::pdu::LabelledHeader;
use rhumb_wire::{Batch, Name, Pdu, PduHeader};

pub use drop_reason::{DropReason, Drops};
pub use event::{Disconnection, Event, Evidence, SendFailure, ServiceEnd};
pub use lease::LeaseStatus;
pub(crate) use path_limits::PathLimits;
pub use receive::Arrival;
pub use services::{MAX_SERVED, ServiceStatus};

use crate::senders::Senders;
use crate::{Config, GroupError, ServeError};
use groups::Groups;
use jitter::Jitter;
use labels::{Flow, Labels};
use membership::Membership;
use outbox::Outbox;
use pending::{PendingPdus, Settled};
use receive::ArrivedAt;
use services::Services;
use streams::Streams;
use turn::{Tags, Turn};

/// A member of one router, without I/O.
#[derive(Debug)]
pub struct Core {
    name: Name,
    endpoint: Endpoint,
    membership: Membership,
    services: Services,
    groups: Groups,
    senders: Senders,
    pending: PendingPdus,
    streams: Streams,
    labels: Labels,
    path_limits: PathLimits,
    tags: Tags,
    jitter: Jitter,
    max_datagram_len: u16,
    /// Pongs, and answers about labels, that wait to be sent.
    answers: VecDeque<Vec<u8>>,
    arrivals: Vec<ArrivedAt>,
    events: VecDeque<Event>,
    drops: Drops,
    outbox: Outbox,
    traffic: Traffic,
    /// Where PDUs without a copy are put together.
    scratch: Vec<u8>,
}

/// What went in and out, in PDUs of programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Traffic {
    /// Sent for the first time, transfers included.
    pub sent: u64,
    /// Sent again because of a NACK.
    #[serde(skip)]
    pub resent: u64,
    /// Received.
    pub received: u64,
    /// NACKs that were believed.
    #[serde(skip)]
    pub nacks: u64,
    /// Given up.
    #[serde(skip)]
    pub given_up: u64,
}

impl Core {
    /// A node that will join a router as `config` says. `seed` is random: of it come the link's
    /// secrets, nonces, the first tag and the spread of waits.
    ///
    /// # Errors
    /// When the identity cannot make a certificate, or `max_datagram_len` is too small.
    pub fn new(
        identity: Arc<Identity>,
        config: &Config,
        seed: &Seed,
        now: Now,
    ) -> Result<Self, LinkError> {
        Self::with_streams(identity, config, seed, false, now)
    }

    /// As [`Core::new`]; `streams`: whoever drives it carries streams, by [`Core::handle_stream`]
    /// and [`Core::poll_stream_order`].
    ///
    /// # Errors
    /// When the identity cannot make a certificate, or `max_datagram_len` is too small.
    pub fn with_streams(
        identity: Arc<Identity>,
        config: &Config,
        seed: &Seed,
        streams: bool,
        now: Now,
    ) -> Result<Self, LinkError> {
        let mut link = rhumb_link::Config::default();
        link.streams = streams;
        link.max_datagram_len = config.max_datagram_len;
        link.accept = false;
        link.bundles = true;
        if config.watch_router {
            link.watch_peers = WatchPeers::Everybody;
        }
        #[cfg(feature = "repeatable-handshakes")]
        {
            link.repeatable_handshakes = config.repeatable_handshakes;
        }
        // Names are as good as random: a router's workers have equal shares of its nodes.
        link.send_lane = identity.name().0[0] % LANES;
        let endpoint = Endpoint::new(identity.clone(), link, seed.link, now.instant)?;
        let mut jitter = Jitter::new(seed.spread);
        Ok(Self {
            name: identity.name(),
            endpoint,
            membership: Membership::new(identity, config, &seed.link, now),
            services: Services::default(),
            groups: Groups::default(),
            senders: Senders::new(&config.access),
            pending: PendingPdus::new(config.give_up_after),
            streams: Streams::default(),
            labels: Labels::default(),
            path_limits: PathLimits::default(),
            tags: Tags::starting_at(jitter.next_u32()),
            jitter,
            max_datagram_len: config.max_datagram_len,
            answers: VecDeque::new(),
            arrivals: Vec::new(),
            events: VecDeque::new(),
            drops: Drops::default(),
            outbox: Outbox::default(),
            traffic: Traffic::default(),
            scratch: Vec::new(),
        })
    }

    /// Does what is due: bounded by the PDUs held.
    pub fn handle_timeout(&mut self, now: Now) {
        self.endpoint.handle_timeout(now.instant);
        self.handle_link_events(now);
        self.with_membership(now, Membership::handle_timeout);
        // An attempt may have come to its end where it began.
        self.handle_link_events(now);
        let mut turn = Turn {
            endpoint: &mut self.endpoint,
            tags: &mut self.tags,
            jitter: &mut self.jitter,
            now,
        };
        self.services.handle_timeout(self.membership.standing(), &mut turn, &mut self.events);
        self.groups.handle_timeout(self.membership.joined(), now);
        while let Some(settled) = self.pending.poll_given_up(now.instant) {
            self.give_up(settled, None, None, now.instant);
        }
    }

    /// When to call [`Core::handle_timeout`], or [`Core::poll_transmit`], at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        // While not joined nothing can be resent; only giving up remains.
        let resend = self.membership.joined().and_then(|_| self.pending.next_resend());
        [
            self.endpoint.poll_timeout(),
            self.membership.poll_timeout(),
            self.services.poll_timeout(self.membership.joined()),
            self.groups.poll_timeout(self.membership.joined()),
            self.pending.next_given_up(),
            resend,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Appends datagrams to send: what the link has, and at most [`MAX_TRANSMIT`] PDUs.
    pub fn poll_transmit(&mut self, out: &mut Batch, now: Now) {
        self.endpoint.poll_transmit(out);
        self.inquire(out, now);
        let Some(session) = self.membership.session() else { return };
        while let Some((session, pdu)) = self.membership.poll_transmit(now.instant) {
            let link = (&mut self.endpoint, &mut self.drops);
            self.outbox.push(link, session, [&[], pdu], out, now.instant);
        }
        if self.membership.joined().is_none() {
            return self.flush(out, now);
        }
        while let Some(pdu) = self.services.poll_transmit(session, now.instant) {
            let link = (&mut self.endpoint, &mut self.drops);
            self.outbox.push(link, session, [&[], pdu], out, now.instant);
        }
        let Self { groups, endpoint, tags, jitter, .. } = self;
        let mut turn = Turn { endpoint, tags, jitter, now };
        while let Some(request) = groups.poll_transmit(self.name, &mut turn) {
            let link = (&mut *turn.endpoint, &mut self.drops);
            self.outbox.push(link, session, [&[], &request], out, now.instant);
        }
        while let Some(answer) = self.answers.pop_front() {
            let link = (&mut self.endpoint, &mut self.drops);
            self.outbox.push(link, session, [&[], &answer], out, now.instant);
        }
        let Self { endpoint, drops, labels, outbox, .. } = self;
        let transmitted = self.pending.transmit(now.instant, MAX_TRANSMIT, |pdu| {
            let link = (&mut *endpoint, &mut *drops);
            match labelled(labels, pdu) {
                Some((header, data)) => {
                    outbox.push(link, session, [&header, data], out, now.instant)
                }
                None => outbox.push(link, session, [&[], pdu], out, now.instant),
            };
        });
        self.traffic.sent += transmitted.first as u64;
        self.traffic.resent += transmitted.resent as u64;
        self.flush(out, now);
    }

    /// Appends what waits for others to share its datagram: to be called when nothing more is
    /// coming, before `out` is sent.
    pub fn flush(&mut self, out: &mut Batch, now: Now) {
        self.outbox.flush((&mut self.endpoint, &mut self.drops), out, now.instant);
    }

    /// A query to send to every link of this host ([`crate::discovery::Links`]), when it is time
    /// to ask for routers there. Answers come in as all datagrams do.
    pub fn poll_query(&mut self, now: Now) -> Option<Vec<u8>> {
        let nonce = self.membership.poll_query(now.instant)?;
        let mut query = Vec::with_capacity(Discovery::QUERY_LEN);
        Discovery::Query(nonce).emit(&mut query);
        Some(query)
    }

    /// What happened next.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Withdraws the name and closes the session; [`Event::Left`] follows.
    pub fn leave(&mut self, now: Now) {
        self.with_membership(now, Membership::leave);
    }

    /// Answers for the owner of an AdCert, until that ends or [`Core::stop_serving`]: what is for
    /// the owner arrives here, and [`Core::send_as`] sends in its name. [`Event::Serving`] follows
    /// when the router has accepted it, and [`Event::NotServing`] if it is over.
    ///
    /// # Errors
    /// When the AdCert is for another server, does not hold now, is older than the
    /// one there is, or there are [`MAX_SERVED`].
    pub fn serve(&mut self, ad_cert: AdCert, now: Now) -> Result<(), ServeError> {
        self.services.serve(ad_cert, self.name, now)
    }

    /// Answers for `name` no more. Whoever sends to it is told that it is unreachable here; where
    /// it is served is for its owner to say. Whether it was served.
    pub fn stop_serving(&mut self, name: Name) -> bool {
        self.services.stop(name)
    }

    /// Shows what `identity`, which is of the same name, shows of a trust domain: the session goes
    /// on, and is renewed.
    ///
    /// # Errors
    /// When it is another name, or no certificate can be made of it.
    pub fn show(&mut self, identity: &Identity, now: Now) -> Result<(), LinkError> {
        self.endpoint.show(identity, now.instant)
    }

    /// Is a part of a group from now on: what is sent to it arrives here, or [`Core::send`] sends
    /// to it, by a membership of the group itself or of a domain that it admitted.
    /// [`Event::InGroup`] follows when the router has taken it.
    ///
    /// # Errors
    /// When the membership does not hold, is of another group, or has not the right *join* to
    /// receive, *publish* to send; or there are too many groups.
    pub fn join_group(
        &mut self,
        group: Name,
        part: Part,
        membership: rhumb_trust::Membership,
        now: Now,
    ) -> Result<(), GroupError> {
        self.groups.join((group, part), membership, self.name, now)
    }

    /// Tells the router, and it the others of a group, that somebody is a member no longer.
    /// [`Event::GroupTold`] follows.
    pub fn remove_from_group(&mut self, group: Name, removal: &rhumb_trust::Removal, now: Now) {
        self.groups.remove(group, removal, now);
    }

    /// Is no part of a group any longer.
    pub fn leave_group(&mut self, group: Name, now: Now) {
        self.groups.leave(group, now);
    }

    /// Changes who may send to this node. What it has taken already, it keeps.
    pub fn set_access(&mut self, access: &Access) {
        self.senders = Senders::new(access);
    }

    /// Who may send to this node.
    pub(crate) fn senders(&self) -> &Senders {
        &self.senders
    }

    /// The names served besides the node's own.
    pub fn served(&self) -> impl Iterator<Item = ServiceStatus> + '_ {
        self.services.status()
    }

    /// This node's name.
    pub fn name(&self) -> Name {
        self.name
    }

    /// The router connected, perhaps before it has accepted the name.
    pub fn router(&self) -> Option<Name> {
        self.membership.router()
    }

    /// Where the router connected is.
    pub fn router_address(&self) -> Option<SocketAddr> {
        let peer = self.endpoint.peer(self.membership.session()?)?;
        Some(peer.at)
    }

    /// What the session with it goes over.
    pub fn router_transport(&self) -> Option<Transport> {
        let peer = self.endpoint.peer(self.membership.session()?)?;
        Some(peer.transport())
    }

    /// As [`Endpoint::handle_stream`].
    pub fn handle_stream(&mut self, news: StreamNews, now: Now) -> Option<SocketAddr> {
        let address = self.endpoint.handle_stream(news, now.instant);
        self.handle_link_events(now);
        address
    }

    /// As [`Endpoint::poll_stream_order`].
    pub fn poll_stream_order(&mut self) -> Option<StreamOrder> {
        self.endpoint.poll_stream_order()
    }

    /// Whether a router takes this node's traffic.
    pub fn is_joined(&self) -> bool {
        self.membership.joined().is_some()
    }

    /// Whether the node has left or was refused, and nothing more will happen.
    pub fn is_over(&self) -> bool {
        self.membership.is_over()
    }

    /// The lease held.
    pub fn lease(&self) -> Option<LeaseStatus> {
        self.membership.lease()
    }

    /// What went in and out.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// What was dropped by the node, by reason.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Counts what the owner of the core dropped of its arrivals.
    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        self.drops.count(reason);
    }

    /// What was dropped by the link, by reason.
    pub fn link_drops(&self) -> &rhumb_link::Drops {
        self.endpoint.drops()
    }

    /// Lets the membership act, and tells what came of it.
    fn with_membership(
        &mut self,
        now: Now,
        act: impl FnOnce(&mut Membership, &mut Turn<'_>) -> Option<Event>,
    ) {
        let mut turn = Turn {
            endpoint: &mut self.endpoint,
            tags: &mut self.tags,
            jitter: &mut self.jitter,
            now,
        };
        let event = act(&mut self.membership, &mut turn);
        self.events.extend(event);
    }

    fn handle_link_events(&mut self, now: Now) {
        use rhumb_link::Event as LinkEvent;
        while let Some(event) = self.endpoint.poll_event() {
            if matches!(event, LinkEvent::Established { renewed: true, .. }) {
                self.labels.forget_all();
            }
            if let LinkEvent::Resized { session, now: size, .. } = event
                && self.membership.session() == Some(session)
            {
                self.give_up_longer_than(size, now.instant);
                continue;
            }
            let doubtful_from = match event {
                LinkEvent::Closed { session, doubtful_from, .. }
                    if self.membership.session() == Some(session) =>
                {
                    doubtful_from
                }
                _ => None,
            };
            self.with_membership(now, |membership, turn| match event {
                LinkEvent::Doubtful { session } => {
                    membership.handle_doubtful(session, turn.now.instant);
                    None
                }
                LinkEvent::Established { session, peer, .. } => {
                    membership.handle_established(session, peer, turn)
                }
                LinkEvent::Failed { attempt, address, error } => {
                    membership.handle_failed(attempt, address, error, turn)
                }
                LinkEvent::Closed { session, reason, .. } => {
                    membership.handle_closed(session, reason, turn)
                }
                _ => None,
            });
            if let Some(from) = doubtful_from {
                self.doubt(from);
            }
        }
    }

    /// The way to the router takes no larger datagrams any more:
    /// what waits and is longer will never be sent.
    fn give_up_longer_than(&mut self, datagram_len: u16, now: Instant) {
        let longest = usize::from(datagram_len).saturating_sub(RECORD_OVERHEAD);
        let max_data_len = longest.saturating_sub(PduHeader::LEN);
        let reason = Some(Reason::TooBig(u16::try_from(max_data_len).unwrap_or(u16::MAX)));
        while let Some(settled) = self.pending.take_longer_than(longest) {
            self.give_up(Settled { reason, ..settled }, None, None, now);
        }
    }

    /// The router fell silent: whatever was sent to it lately may have been in vain, and nobody
    /// else will say so. Sending it again might deliver it twice.
    fn doubt(&mut self, from: Instant) {
        for Settled { tag, to, .. } in self.pending.take_data_sent_since(from) {
            self.traffic.given_up += 1;
            let reason = SendFailure::RouterLost;
            self.events.push_back(Event::SendFailed { tag, to, reason });
        }
    }
}

/// Randomness for one node.
pub struct Seed {
    /// For the link, and for nonces: secret.
    pub link: [u8; 32],
    /// For tags and waits: no secret, but not to be guessed from outside.
    pub spread: u64,
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seed").finish_non_exhaustive()
    }
}

/// A kept PDU in labelled form, where the router gave its flow a label: header and data.
fn labelled<'a>(labels: &Labels, pdu: &'a [u8]) -> Option<([u8; LabelledHeader::LEN], &'a [u8])> {
    let pdu = Pdu::parse(pdu).ok()?;
    let label = labels.of(&Flow { from: pdu.source(), to: pdu.destination() })?;
    let header = LabelledHeader { action: pdu.action(), ttl: pdu.ttl(), tag: pdu.tag(), label };
    Some((header.emit_before(pdu.data()).ok()?, pdu.data()))
}

/// PDUs that one [`Core::poll_transmit`] appends at most.
pub const MAX_TRANSMIT: usize = 64;
