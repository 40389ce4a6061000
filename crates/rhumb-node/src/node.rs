//! The handles: what a program holds of a node. All work is done on the
//! node's own thread; a handle queues and waits.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use rhumb_end::{Admits, ConnectionStatus, Ends};
use rhumb_io::udp::{Options, UdpSocket};
use rhumb_io::{Counters, IoError, Wake};
use rhumb_link::Limits;
use rhumb_stream::{Carrier, Settings, StreamCounters};
use rhumb_trust::{
    Access, AdCert, Identity, LABEL, Membership, Removal, Verified, name_of, verify_statement,
};
use rhumb_wire::group::Part;
use rhumb_wire::transfer::{CancelReason, FileName, Offer};
use rhumb_wire::{Certificate, Metadata, Name, Statement};
use serde::Serialize;
use tokio::io::AsyncRead;
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::now;
use crate::core::{Core, Drops, Seed, ServiceStatus, Traffic};
use crate::driver::{
    Connections, Driver, GroupState, Inbox, Joining, Order, Outgoing, PingAnswer, PingOrder,
    ServiceState, Shared, Standing, StandingNews, StandingWatch,
};
use crate::transfer::{
    self, Arrivals, Offered, ReadAt, ReceiveReport, SendReport, TransferError, WriteAt,
};
use crate::{Config, Group, NodeError, PingError, Refusal, RouterChoice, SendError, Service};

/// A node: a name that is joined to a router. Cheap to clone; the node leaves when the last clone
/// the last [`PlainPort`] and all streams and ports are dropped, or when told to
/// [`leave`](Node::leave).
#[derive(Debug, Clone)]
pub struct Node {
    pub(crate) handle: Handle,
}

/// A port of a node for plain datagrams: receives those for it, and sends. Every router on the way
/// can read and alter them; see [`crate::Port`] for what is private. There is one per number and
/// node at a time.
#[derive(Debug)]
pub struct PlainPort {
    number: u16,
    handle: Handle,
    messages: mpsc::Receiver<Message>,
}

/// A datagram that arrived. Who sent it is proven where it came by a connection, and the routers'
/// word where it is plain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who sent it.
    pub from: Name,
    /// It belongs to a trust domain whose members the port is for
    /// ([`Admits::Chosen`](crate::Admits::Chosen)).
    pub as_member: bool,
    /// The port that it was sent from, where an answer reaches its sender; `None` if he takes none.
    /// A plain one does not say: programs that want an answer agree on a port.
    pub from_port: Option<u16>,
    /// Who it is for: the node, or a name that it serves.
    pub to: Name,
    /// What was sent.
    pub body: Vec<u8>,
}

/// An answered ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PingReply {
    /// From the last sending to the answer.
    pub rtt: Duration,
}

/// One step of the way to a name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hop {
    /// The router there, or at last the destination itself; `None` when nobody answered.
    pub router: Option<Name>,
    /// What its metadata calls it: its own word, and nobody else's.
    pub label: Option<String>,
    /// How long its answer took.
    pub rtt: Option<Duration>,
    /// The word of the one before, this node first, that the router may carry its traffic:
    /// verified, with the keys that the routers before showed. `None` for the destination, and
    /// where a router showed nothing or nothing good.
    pub right: Option<Verified<Certificate>>,
}

/// How a node is. Serialised, it is what `rhumb status` shows of a receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// The node's name.
    pub name: Name,
    /// The router connected.
    pub router: Option<Name>,
    /// Where the router connected is.
    pub router_address: Option<SocketAddr>,
    /// What the session with it goes over: `udp` or `tls`.
    pub router_transport: Option<&'static str>,
    /// The address that the node's socket is bound to.
    #[serde(rename = "address")]
    pub local_address: SocketAddr,
    /// Whether the router takes this node's traffic.
    pub joined: bool,
    /// Whether the RIB holds the route.
    pub published: bool,
    /// The names served besides.
    pub serving: Vec<ServiceStatus>,
    /// How long the lease lasts unless it is renewed.
    #[serde(skip)]
    pub lease_left: Option<Duration>,
    /// What went in and out.
    pub traffic: Traffic,
    /// What the node dropped, by reason.
    pub drops: Drops,
    /// The connections with other names.
    pub connections: Vec<ConnectionStatus>,
    /// What was dropped of connections, by reason.
    pub ends: rhumb_end::Drops,
    /// What the link dropped, by reason.
    #[serde(skip)]
    pub link_drops: rhumb_link::Drops,
    /// What the socket did.
    #[serde(skip)]
    pub io: Counters,
    /// What went over TLS.
    #[serde(skip)]
    pub streams: StreamCounters,
}

impl Node {
    /// Joins a router as `config` says under the name of `identity`, and stays joined: the lease is
    /// renewed, and a lost router is sought again, or another one, until the node leaves.
    ///
    /// # Errors
    /// When that does not succeed within `config.join_timeout`,
    /// or the local address cannot be used.
    pub async fn join(identity: Arc<Identity>, config: Config) -> Result<Self, NodeError> {
        let socket = open_socket(&config)?;
        let (seed, seed_of_ends) = random_seed()?;
        let now = now();
        let core = Core::with_streams(identity.clone(), &config, &seed, config.tls, now)
            .map_err(NodeError::Link)?;
        let shared = Arc::new(Shared::new(Wake::new()?));
        let mut carrier = Carrier::new(socket);
        if config.tls {
            let (max_datagram_len, limits) = (config.max_datagram_len, Limits::default());
            let settings = Settings { listening: None, max_datagram_len, limits };
            carrier
                .carry_streams(identity.clone(), settings, shared.wake().clone())
                .map_err(|error| NodeError::System { source: std::io::Error::other(error) })?;
        }
        let mut ends = Ends::new(identity.clone(), config.ends(), &seed_of_ends, now)?;
        ends.set_access(config.access.clone(), now);
        let connections = Arc::new(Connections::new(ends, shared.clone()));
        let (orders, orders_of_thread) = mpsc::unbounded_channel();
        let (datagrams, datagrams_of_thread) = mpsc::channel(QUEUED_DATAGRAMS);
        let inbox = Inbox { orders: orders_of_thread, datagrams: datagrams_of_thread };
        let (done, joined) = oneshot::channel();
        let joining = Joining::new(&config, now.instant, done);
        let (news, standing) = StandingNews::begin();
        let driver = Driver::new(core, carrier, connections.clone(), inbox, joining, news);
        std::thread::Builder::new()
            .name("rhumb-node".to_owned())
            .spawn(|| driver.run())
            .map_err(|source| NodeError::System { source })?;
        let handle = Handle {
            name: identity.name(),
            metadata: identity.metadata().clone(),
            patience: config.give_up_after,
            publish_within: (!config.require_published).then_some(config.publish_within),
            shared: shared.clone(),
            connections,
            arrivals: Arc::default(),
            standing,
            orders,
            datagrams,
            _alert_on_drop: Arc::new(AlertOnDrop(shared)),
        };
        joined.await.unwrap_or(Err(NodeError::Closed))?;
        Ok(Self { handle })
    }

    /// This node's name.
    pub fn name(&self) -> Name {
        self.handle.name
    }

    /// The router joined; `None` while it is lost.
    pub async fn router(&self) -> Option<Name> {
        self.status().await.ok()?.router
    }

    /// Shows what `identity`, which is of this node's name, shows of a trust domain: the session
    /// goes on, and is renewed at once, so that the router sees it.
    ///
    /// # Errors
    /// When it is another name, or the node has left.
    pub async fn show(&self, identity: Arc<Identity>) -> Result<(), NodeError> {
        let (done, shown) = oneshot::channel();
        self.handle.order(Order::Show { identity, done });
        shown.await.unwrap_or_else(|_| Err(self.handle.shared.end()))
    }

    /// Tells how this node stands with its router, and of each change: of a name that was not
    /// published when it joined, too.
    pub fn watch(&self) -> StandingWatch {
        StandingWatch::new(self.handle.standing.clone())
    }

    /// Begins to receive plain datagrams on a port: those that every router on the way could read
    /// and alter. Programs use [`Node::bind`] unless they know why not.
    ///
    /// # Errors
    /// When the port has a receiver, or the node has left.
    pub async fn bind_plain(&self, port: u16) -> Result<PlainPort, NodeError> {
        let (deliver, messages) = mpsc::channel(QUEUED_MESSAGES);
        let (done, bound) = oneshot::channel();
        self.handle.order(Order::Bind { port, deliver, done });
        bound.await.unwrap_or_else(|_| Err(self.handle.shared.end()))?;
        Ok(PlainPort { number: port, handle: self.handle.clone(), messages })
    }

    /// Answers for the owner of an AdCert that names this node: what is for that name arrives here
    /// as what is for the node's own does, until the [`Service`] is dropped or the AdCert ends.
    /// Returns when everybody can find it; where `Config::require_published` is off, when the
    /// router has accepted it and RIBs had `Config::publish_within` for it.
    ///
    /// # Errors
    /// When the AdCert is not for this node or does not hold now, when its owner has moved the name
    /// to another server since, or it cannot be published within `Config::give_up_after`.
    pub async fn serve(&self, ad_cert: AdCert) -> Result<Service, NodeError> {
        let name = ad_cert.owner();
        let (state, states) = watch::channel(ServiceState::Waiting);
        let (done, taken) = oneshot::channel();
        self.handle.order(Order::Serve { ad_cert: Box::new(ad_cert), state, done });
        taken.await.map_err(|_| self.handle.shared.end())??;
        let mut service = Service::new(name, self.handle.clone(), states);
        let patience = self.handle.patience;
        if let Some(publish_within) = self.handle.publish_within {
            tokio::time::timeout(patience, service.accepted())
                .await
                .map_err(|_| NodeError::ServiceNotPublished { name })??;
            match tokio::time::timeout(publish_within, service.published()).await {
                Ok(published) => published?,
                Err(_) => tracing::debug!(%name, "served, and not published yet"),
            }
            return Ok(service);
        }
        tokio::time::timeout(patience, service.published())
            .await
            .map_err(|_| NodeError::ServiceNotPublished { name })??;
        Ok(service)
    }

    /// Is a part of a group by a membership of it, until the [`Group`] is dropped: what is sent to
    /// its name arrives at this node's ports, or this node may send to it. Returns when the router
    /// says so.
    ///
    /// # Errors
    /// When the membership is not this node's, does not hold, or has not the right that it takes,
    /// or the router does not let the node be a part of the group within
    /// `Config::give_up_after`.
    pub async fn join_group(
        &self,
        group: Name,
        part: Part,
        membership: Membership,
    ) -> Result<Group, NodeError> {
        let (state, states) = watch::channel(GroupState::Waiting);
        let (done, taken) = oneshot::channel();
        let membership = Box::new(membership);
        self.handle.order(Order::JoinGroup { group, part, membership, state, done });
        taken.await.map_err(|_| self.handle.shared.end())??;
        let mut joined = Group::new(group, self.handle.clone(), states);
        tokio::time::timeout(self.handle.patience, joined.joined())
            .await
            .map_err(|_| NodeError::GroupNotReached { group })??;
        Ok(joined)
    }

    /// Has the routers of a group told that somebody is a member no longer, from this node's router
    /// on: where members are known, whoever is removed is out within a second.
    ///
    /// # Errors
    /// When the router knows of nobody in the group, does not believe the removal, or does not
    /// answer within `Config::give_up_after`.
    pub async fn remove_from_group(&self, group: Name, removal: Removal) -> Result<(), NodeError> {
        let (done, told) = oneshot::channel();
        let removal = Box::new(removal);
        self.handle.order(Order::RemoveFromGroup { group, removal, done });
        tokio::time::timeout(self.handle.patience, told)
            .await
            .map_err(|_| NodeError::GroupNotReached { group })?
            .map_err(|_| self.handle.end())?
    }

    /// Sends a plain datagram, as [`PlainPort::send_to`] does.
    ///
    /// # Errors
    /// As [`PlainPort::send_to`].
    pub async fn send_plain(&self, to: Name, to_port: u16, body: &[u8]) -> Result<(), SendError> {
        self.handle.send_to(to, to_port, body).await
    }

    /// The longest body of one plain datagram to `to`, as far as is known.
    pub fn max_body_len(&self, to: Name) -> usize {
        self.handle.shared.max_body_len(to, Instant::now())
    }

    /// Sends a ping to `to`, again every second until an answer comes.
    ///
    /// # Errors
    /// When none comes within `timeout`, or a router says that none will.
    pub async fn ping(&self, to: Name, timeout: Duration) -> Result<PingReply, PingError> {
        match self.handle.ping(to, MAX_TTL, timeout).await? {
            PingAnswer::Pong { rtt } => Ok(PingReply { rtt }),
            PingAnswer::Expired { reporter, .. } => {
                Err(PingError::Refused { reason: rhumb_wire::nack::Reason::TtlExceeded, reporter })
            }
        }
    }

    /// The routers on the way to `to`, nearest first, and `to` itself at the end. A hop that does
    /// not answer within `timeout` is unknown.
    ///
    /// # Errors
    /// When a router says that there is no way.
    pub async fn trace(
        &self,
        to: Name,
        max_hops: u8,
        timeout: Duration,
    ) -> Result<Vec<Hop>, PingError> {
        let mut hops = Vec::new();
        // Whose word the next router has to show; nobody's after
        // a router that kept its metadata to itself.
        let mut before = Some((*self.handle.metadata).clone());
        for ttl in 1..=max_hops {
            match self.handle.ping(to, ttl, timeout).await {
                Ok(PingAnswer::Pong { rtt }) => {
                    hops.push(Hop { router: Some(to), label: None, rtt: Some(rtt), right: None });
                    break;
                }
                Ok(PingAnswer::Expired { reporter, rtt, evidence }) => {
                    let shown = evidence.filter(|e| Some(name_of(&e.metadata)) == reporter);
                    let right = before.take().zip(shown.as_ref()).and_then(|(issuer, shown)| {
                        verified_right(&shown.certificate, &issuer, reporter?)
                    });
                    before = shown.map(|evidence| evidence.metadata);
                    let attributes = before.as_ref().map(Metadata::attributes);
                    let label = attributes.and_then(|it| it.get(LABEL).cloned());
                    hops.push(Hop { router: reporter, label, rtt, right });
                }
                Err(PingError::TimedOut) => {
                    before = None;
                    hops.push(Hop { router: None, label: None, rtt: None, right: None });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(hops)
    }

    /// Sends a file to `to`, encrypted from end to end. It gets there whole and with the SHA-256 of
    /// `offer`, or this fails; it goes on where it was when its connection breaks, or another
    /// server answers for the name. `progress` is told how many bytes have arrived, at first how
    /// many the receiver had before. Dropping the future stops the transfer.
    ///
    /// # Errors
    /// When `to` is not reached, the receiver does not want the file, either end cannot go on, or
    /// nothing arrives for 30 s.
    pub async fn send_file(
        &self,
        to: Name,
        source: impl ReadAt + Send + 'static,
        offer: Offer,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> Result<SendReport, TransferError> {
        transfer::send(self.handle.clone(), to, source, offer, progress).await
    }

    /// Sends what `source` has until it ends, under the name of a file, as [`Node::send_file`]
    /// does. It is read once, and 8 MB ahead of the receiver at most: it goes on when the
    /// connection breaks, and not when either end begins anew.
    ///
    /// # Errors
    /// As there, and when the receiver began anew.
    pub async fn send_endless(
        &self,
        to: Name,
        source: impl AsyncRead + Send + Unpin + 'static,
        name: FileName,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> Result<SendReport, TransferError> {
        transfer::send_endless(self.handle.clone(), to, source, name, progress).await
    }

    /// Receives one file. `open` decides about each offer: it gives the place for the file, or a
    /// reason to decline, and then the next offer is waited for; it should return soon. `progress`
    /// is told how many bytes have arrived, at first how many were there before. Dropping the
    /// future stops the transfer. Strangers' files leave a quarter of what is waited for at once to
    /// names that the rules admit.
    ///
    /// # Errors
    /// When either end cannot go on, or the sender falls silent.
    pub async fn receive_file<W: WriteAt + Send + 'static>(
        &self,
        open: impl FnMut(&Offered) -> Result<W, CancelReason> + Send + 'static,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> Result<ReceiveReport, TransferError> {
        self.receive_file_from(Admits::Everybody, open, progress).await
    }

    /// As [`Node::receive_file`], from those whom `admits` says, besides what the rules say. Of
    /// several that wait at once, the last one's word counts for all.
    ///
    /// # Errors
    /// As there.
    pub async fn receive_file_from<W: WriteAt + Send + 'static>(
        &self,
        admits: Admits,
        open: impl FnMut(&Offered) -> Result<W, CancelReason> + Send + 'static,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> Result<ReceiveReport, TransferError> {
        transfer::receive(&self.handle, admits, open, progress).await
    }

    /// Goes by other rules about who may send to this node ([`Config::access`])
    /// from now on. Connections end of whoever is refused by them. Removals that were noted count
    /// on.
    pub fn set_access(&self, access: Access) {
        self.handle.order(Order::SetAccess(access));
    }

    /// Whether a name is connected to this node as one who was chosen: by its name, or by what it
    /// shows of a domain.
    pub fn has_chosen(&self, peer: Name) -> bool {
        self.handle.connections().with(|state, _| state.ends.has_chosen(peer))
    }

    /// Takes nobody for a member of a domain before [`Node::note_removals`] has told all there is:
    /// who was removed while this node was away is not let in when it is back. To be called before
    /// anything is offered to members.
    pub fn await_removals(&self) {
        self.handle.connections().with(|state, _| state.ends.await_removals());
    }

    /// These were removed from domains: their memberships count no longer, and connections end that
    /// rest on them. `are_all`: there is no more to tell for now, which
    /// [`Node::await_removals`] waits for.
    pub fn note_removals(&self, removals: Vec<Verified<Removal>>, are_all: bool) {
        self.handle.order(Order::NoteRemovals { removals, are_all });
    }

    /// What is refused by the rules about who may send to this node, from now on. There is one
    /// receiver at a time, the last one asked for; of what it does not take in time it learns
    /// nothing. Everything is counted in [`Status::drops`].
    pub fn refusals(&self) -> mpsc::Receiver<Refusal> {
        let (refusals, told) = mpsc::channel(QUEUED_REFUSALS);
        self.handle.order(Order::WatchRefusals { refusals });
        told
    }

    /// How the node is.
    ///
    /// # Errors
    /// When it has ended: it left, its socket failed, or another process has its name.
    pub async fn status(&self) -> Result<Status, NodeError> {
        let (done, status) = oneshot::channel();
        self.handle.order(Order::Status { done });
        status.await.map_err(|_| self.handle.shared.end())
    }

    /// Withdraws the name, ends all transfers, and closes the node for all handles. Says whether
    /// the router confirmed that the withdrawal is published; if not, the name is forgotten when
    /// its lease ends. Takes two seconds at most.
    pub async fn leave(self) -> bool {
        let (done, left) = oneshot::channel();
        self.handle.order(Order::Leave { done });
        left.await.unwrap_or(false)
    }
}

impl PlainPort {
    /// The port's number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Sends a datagram to a port of `to`. Returns once it is queued; it waits for room, and for a
    /// lost router to come back. It may get lost on the way. What the network refuses is sent
    /// again, as long as there is hope; if there is none, the next datagram to the same name is
    /// refused with [`SendError::Undelivered`].
    ///
    /// # Errors
    /// When the body is too long, there is no room for as long as
    /// `Config::give_up_after`, or an earlier one failed.
    pub async fn send_to(&self, to: Name, to_port: u16, body: &[u8]) -> Result<(), SendError> {
        self.handle.send_to(to, to_port, body).await
    }

    /// Sends a datagram to a port of whoever sent `message`, in the name that it was for.
    ///
    /// # Errors
    /// As [`PlainPort::send_to`].
    pub async fn reply(
        &self,
        message: &Message,
        to_port: u16,
        body: &[u8],
    ) -> Result<(), SendError> {
        self.handle.send_as(message.to, message.from, to_port, body).await
    }

    /// The next datagram for this port; `None` when the node has left. What a program does not
    /// receive in time is dropped, oldest kept, and counted in [`Status::drops`].
    pub async fn receive(&mut self) -> Option<Message> {
        self.messages.recv().await
    }
}

impl Drop for PlainPort {
    fn drop(&mut self) {
        self.messages.close();
        self.handle.order(Order::Unbind { port: self.number });
    }
}

/// A way to a node's thread.
#[derive(Clone)]
pub(crate) struct Handle {
    name: Name,
    metadata: Arc<Metadata>,
    patience: Duration,
    /// As [`Config::publish_within`], where publication is not required.
    publish_within: Option<Duration>,
    shared: Arc<Shared>,
    connections: Arc<Connections>,
    /// The files that arrive.
    arrivals: Arc<Arrivals>,
    standing: watch::Receiver<Standing>,
    orders: mpsc::UnboundedSender<Order>,
    datagrams: mpsc::Sender<Outgoing>,
    /// After the senders above, which are dropped first: so the thread learns that they are gone.
    _alert_on_drop: Arc<AlertOnDrop>,
}

/// A certificate, if it is good and says that `router` may carry the issuer's traffic.
fn verified_right(
    certificate: &Certificate,
    issuer: &Metadata,
    router: Name,
) -> Option<Verified<Certificate>> {
    let names_it = matches!(certificate.statement, Statement::Route { via, .. } if via == router);
    verify_statement(certificate, issuer, now().unix_s()).ok().filter(|_| names_it)
}

struct AlertOnDrop(Arc<Shared>);

impl Drop for AlertOnDrop {
    fn drop(&mut self) {
        self.0.alert();
    }
}

impl Handle {
    /// The node's name.
    pub(crate) fn name(&self) -> Name {
        self.name
    }

    /// What it shares with the thread of connections.
    pub(crate) fn connections(&self) -> &Connections {
        &self.connections
    }

    /// The files that arrive.
    pub(crate) fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Why the node has ended, for whoever gets no answer.
    pub(crate) fn end(&self) -> NodeError {
        self.shared.end()
    }

    /// Queues an order. When the thread has ended, the order is
    /// dropped, and with it the channel for the answer.
    pub(crate) fn order(&self, order: Order) {
        let _ = self.orders.send(order);
        self.shared.alert();
    }

    pub(crate) async fn send_to(&self, to: Name, port: u16, body: &[u8]) -> Result<(), SendError> {
        self.send_as(self.name, to, port, body).await
    }

    pub(crate) async fn send_as(
        &self,
        from: Name,
        to: Name,
        port: u16,
        body: &[u8],
    ) -> Result<(), SendError> {
        if let Some(objection) = self.shared.objection(to, body.len(), Instant::now()) {
            return Err(objection);
        }
        let outgoing = Outgoing { from, to, port, body: body.to_vec() };
        match self.datagrams.try_send(outgoing) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(SendError::Closed),
            Err(mpsc::error::TrySendError::Full(outgoing)) => {
                self.shared.alert();
                let queued = self.datagrams.send(outgoing);
                tokio::time::timeout(self.patience, queued)
                    .await
                    .map_err(|_| SendError::NoRoom)?
                    .map_err(|_| SendError::Closed)?;
            }
        }
        self.shared.alert();
        Ok(())
    }

    async fn ping(&self, to: Name, ttl: u8, timeout: Duration) -> Result<PingAnswer, PingError> {
        let (done, answer) = oneshot::channel();
        self.order(Order::Ping(PingOrder { to, ttl, timeout, done }));
        answer.await.unwrap_or(Err(SendError::Closed.into()))
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A socket that reaches the router given, or whatever routers may be found.
fn open_socket(config: &Config) -> Result<UdpSocket, IoError> {
    let any_port = |ip: IpAddr| SocketAddr::new(ip, 0);
    let (v4, v6) = (Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into());
    let broadcast = matches!(config.router, RouterChoice::Discovered { .. });
    let options = Options { broadcast, ..Options::default() };
    match (config.bind, &config.router) {
        (Some(address), _) => UdpSocket::bind(address, options),
        (None, RouterChoice::Fixed(router)) => {
            let any_like_it = if router.address.is_ipv4() { v4 } else { v6 };
            UdpSocket::bind(any_port(any_like_it), options)
        }
        // One of IPv6 serves both, unless this machine has none.
        (None, RouterChoice::Discovered { .. }) => UdpSocket::bind(any_port(v6), options)
            .or_else(|_| UdpSocket::bind(any_port(v4), options)),
    }
}

/// For the core, and for connections.
fn random_seed() -> Result<(Seed, [u8; 32]), NodeError> {
    let (mut link, mut ends, mut spread) = ([0; 32], [0; 32], [0; 8]);
    rand::fill(&mut link)
        .and_then(|()| rand::fill(&mut ends))
        .and_then(|()| rand::fill(&mut spread))
        .map_err(|_| NodeError::System { source: std::io::Error::other("no random numbers") })?;
    Ok((Seed { link, spread: u64::from_be_bytes(spread) }, ends))
}

/// Datagrams that may wait for the thread: a few batches, on top of what the core holds.
const QUEUED_DATAGRAMS: usize = 256;
/// Datagrams that may wait for the program: at 1400 bytes each, 1.4 MB per port.
const QUEUED_MESSAGES: usize = 1024;
/// Refusals that may wait for the program: strangers cause them.
const QUEUED_REFUSALS: usize = 64;
/// What a PDU starts with when nothing is to be learned from its end.
const MAX_TTL: u8 = rhumb_wire::PduHeader::INITIAL_TTL;
