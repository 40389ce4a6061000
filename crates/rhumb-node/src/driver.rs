//! A node's own thread: it moves datagrams between the socket and the [`Core`], and serves the
//! handles' orders. It has a thread to itself because it encrypts: work that would hold up the
//! tasks of an executor.
//!
//! One turn, over and over:
//! 1. per batch: receive, [`Core::handle_batch`], deliver what arrived;
//! 2. take orders and datagrams of the handles;
//! 3. do what is due, and tell what happened;
//! 4. per batch: gather what there is to send, and send it;
//! 5. wait until a datagram comes, a handle calls, or a deadline
//!    passes; not at all while there is more to do.
//!
//! It ends when the node has left, which happens by itself when the last
//! handle is dropped, or when the socket fails.

mod connections;
mod grouping;
mod joining;
mod ledger;
mod orders;
mod pings;
mod serving;
mod standing;
mod watched;

use std::collections::HashMap;
use std::io;
use std::iter;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rhumb_link::{StreamNews, StreamOrder, Transport};
use rhumb_stream::{Carrier, OnStreams};
use rhumb_trust::{AdCert, Identity, Now};
use rhumb_wire::nack::Reason;
use rhumb_wire::payload::{PayloadHeader, PayloadKind};
use rhumb_wire::{Batch, Name};
use tokio::sync::mpsc::error::{TryRecvError, TrySendError};
use tokio::sync::{mpsc, oneshot};

pub(crate) use connections::{Arrived, Connections, WaitsFor};
pub use grouping::GroupState;
pub(crate) use joining::Joining;
pub(crate) use orders::{Inbox, Order, Outgoing, PingAnswer, PingOrder, Shared};
pub use serving::ServiceState;
pub(crate) use standing::StandingNews;
pub use standing::{Standing, StandingWatch};

use crate::clock::now;
use crate::core::{Arrival, Core, DropReason, Event, SendFailure};
use crate::discovery::Links;
use crate::{Message, NodeError, Refusal, SendError, ServeError, Status};
use grouping::Grouping;
use pings::{PingNack, Pings};
use watched::Watched;

/// What a node's thread works with.
pub(crate) struct Driver {
    core: Core,
    carrier: Carrier,
    shared: Arc<Shared>,
    connections: Arc<Connections>,
    inbox: Inbox,
    ports: HashMap<u16, mpsc::Sender<Message>>,
    pings: Pings,
    serving: Watched<ServiceState>,
    grouping: Grouping,
    /// Names that are to be served no more, once their connections have been told.
    unserved: Vec<Name>,
    standing: StandingNews,
    /// Who wants to know what is refused.
    refusals: Option<mpsc::Sender<Refusal>>,
    joining: Option<Joining>,
    leaving: Option<Leaving>,
    incoming: Batch,
    outgoing: Batch,
}

/// The way out: connections get a moment to say their last words before the name is withdrawn.
struct Leaving {
    by: Instant,
    withdrawn: bool,
    done: Vec<oneshot::Sender<bool>>,
}

/// Why a turn is the last.
enum End {
    Over,
    Socket(io::Error),
}

impl Driver {
    pub(crate) fn new(
        core: Core,
        carrier: Carrier,
        connections: Arc<Connections>,
        inbox: Inbox,
        joining: Joining,
        standing: StandingNews,
    ) -> Self {
        Self {
            core,
            carrier,
            shared: connections.shared(),
            connections,
            inbox,
            ports: HashMap::new(),
            pings: Pings::default(),
            serving: Watched::default(),
            grouping: Grouping::default(),
            unserved: Vec::new(),
            standing,
            refusals: None,
            joining: Some(joining),
            leaving: None,
            incoming: Batch::new(),
            outgoing: Batch::new(),
        }
    }

    /// Runs until the node is over. Handles then find their queues closed.
    pub(crate) fn run(mut self) {
        let end = loop {
            if let Err(end) = self.turn() {
                break end;
            }
        };
        if let End::Socket(error) = end {
            tracing::error!(%error, "the node ends: its socket failed");
        }
        self.connections.end();
    }

    fn turn(&mut self) -> Result<(), End> {
        let received = self.carrier.receive(&mut self.incoming).map_err(End::Socket)?;
        let now = now();
        if received > 0 {
            self.core.handle_batch(&mut self.incoming, now);
            self.deliver(now);
        }
        self.take_orders(now);
        self.take_datagrams(now);
        self.core.handle_timeout(now);
        self.pings.handle_timeout(&mut self.core, now);
        self.handle_events(now);
        self.turn_connections(now);
        self.go_on_leaving(now);
        self.publish_limits(now);
        self.standing.tell(&self.core);
        let mut more = self.transmit(now)?;
        // What streams brought may be answered at once.
        if self.carrier.meet(&mut self.core, now) {
            self.handle_events(now);
            more = self.transmit(now)?;
        }
        for name in std::mem::take(&mut self.unserved) {
            if !self.serving.has(name) {
                self.core.stop_serving(name);
            }
        }
        self.tell_joined(now);
        if self.core.is_over() {
            return Err(End::Over);
        }
        if received == 0 && !more {
            self.wait(now)?;
        }
        Ok(())
    }

    /// Hands over what the last batch brought.
    fn deliver(&mut self, now: Now) {
        let mut dropped = Vec::new();
        let mut connections = self.connections.lock();
        connections.ends.begin_batch(now);
        let mut since = Instant::now();
        let mut arrivals = self.core.arrivals(&self.incoming).peekable();
        while let Some(arrival) = arrivals.next() {
            let outcome = match arrival.kind {
                PayloadKind::Record => {
                    let names = (arrival.from, arrival.to);
                    let is_next = |it: &Arrival<'_>| {
                        it.kind == PayloadKind::Record && (it.from, it.to) == names
                    };
                    let next = || arrivals.next_if(is_next).map(|it| it.body);
                    let others = iter::from_fn(next).take(RECORDS_AT_ONCE - 1);
                    let bodies = iter::once(arrival.body).chain(others);
                    since = connections.handle_records(names, bodies, since, now);
                    Ok(())
                }
                PayloadKind::Connection | PayloadKind::Half => {
                    let standing = self.core.senders().standing_to_begin(&arrival.from);
                    since = connections.handle(&arrival, standing, since, now);
                    Ok(())
                }
                PayloadKind::Datagram => match self.ports.get(&arrival.port) {
                    None => Err(DropReason::PortUnbound),
                    Some(deliver) => deliver
                        .try_send(Message {
                            from: arrival.from,
                            as_member: false,
                            from_port: None,
                            to: arrival.to,
                            body: arrival.body.to_vec(),
                        })
                        .map_err(|error| match error {
                            TrySendError::Full(_) => DropReason::PortFull,
                            TrySendError::Closed(_) => DropReason::PortUnbound,
                        }),
                },
            };
            dropped.extend(outcome.err());
        }
        drop((arrivals, connections));
        for reason in dropped {
            self.core.count_drop(reason);
        }
    }

    fn take_orders(&mut self, now: Now) {
        loop {
            match self.inbox.orders.try_recv() {
                Ok(order) => self.take_order(order, now),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    // The last handle is gone: nobody can ask for anything any more.
                    self.begin_leaving(None, now);
                    return;
                }
            }
        }
    }

    fn take_order(&mut self, order: Order, now: Now) {
        match order {
            Order::Bind { port, deliver, done } => {
                let taken = self.ports.get(&port).is_some_and(|other| !other.is_closed());
                let result = if taken { Err(NodeError::PortInUse { port }) } else { Ok(()) };
                // Whoever asked may be gone by now, and then nobody would ever unbind the port.
                if done.send(result).is_ok() && !taken {
                    self.ports.insert(port, deliver);
                }
            }
            Order::Unbind { port } => {
                if self.ports.get(&port).is_some_and(mpsc::Sender::is_closed) {
                    self.ports.remove(&port);
                }
            }
            Order::Serve { ad_cert, state, done } => {
                let name = ad_cert.owner();
                let served = self.begin_serving(&ad_cert, now);
                let is_served = served.is_ok();
                // Whoever asked may be gone by now, and then nobody would ever stop serving.
                match done.send(served) {
                    Ok(()) if is_served => self.serving.begin(name, state),
                    Err(Ok(())) => self.stop_serving(name, now),
                    _ => {}
                }
            }
            Order::Renew { ad_cert, done } => {
                // The name's handle is there: it asked. Whether anybody
                // waits for the answer is their affair.
                let _ = done.send(self.begin_serving(&ad_cert, now));
            }
            Order::StopServing { name } => {
                if self.serving.end(name) {
                    self.stop_serving(name, now);
                }
            }
            Order::JoinGroup { group, part, membership, state, done } => {
                let joins = self.core.join_group(group, part, *membership, now);
                let is_part = joins.is_ok();
                // Whoever asked may be gone by now, and then nobody would ever leave.
                match done.send(joins) {
                    Ok(()) if is_part => self.grouping.states.begin(group, state),
                    Err(Ok(())) => self.core.leave_group(group, now),
                    _ => {}
                }
            }
            Order::RemoveFromGroup { group, removal, done } => {
                self.core.remove_from_group(group, &removal, now);
                self.grouping.await_told(group, done);
            }
            Order::LeaveGroup { group } => {
                if self.grouping.states.end(group) {
                    self.core.leave_group(group, now);
                }
            }
            Order::SetAccess(access) => {
                self.core.set_access(&access);
                self.connections.lock().ends.set_access(access, now);
            }
            Order::NoteRemovals { removals, are_all } => {
                self.connections.lock().note_removals(removals, are_all, now);
            }
            // Whether anybody waits for it is their affair.
            Order::Show { identity, done } => drop(done.send(self.show(identity, now))),
            Order::WatchRefusals { refusals } => self.refusals = Some(refusals),
            Order::Ping(ping) => self.pings.begin(ping, &mut self.core, now),
            Order::Status { done } => {
                let _ = done.send(self.status(now));
            }
            Order::Leave { done } => self.begin_leaving(Some(done), now),
        }
    }

    /// Shows what `identity` shows of a domain, to the router and in connections to come.
    fn show(&mut self, identity: Arc<Identity>, now: Now) -> Result<(), NodeError> {
        self.core.show(&identity, now).map_err(NodeError::Link)?;
        Ok(self.connections.lock().ends.show(identity)?)
    }

    /// Answers for the owner of an AdCert, with datagrams and with connections.
    fn begin_serving(&mut self, ad_cert: &AdCert, now: Now) -> Result<(), ServeError> {
        self.core.serve(ad_cert.clone(), now)?;
        self.connections.serve(ad_cert);
        Ok(())
    }

    /// Says so on the connections of a name, and then serves it no more.
    fn stop_serving(&mut self, name: Name, now: Now) {
        self.connections.lock().ends.stop_serving(name, now);
        self.unserved.push(name);
    }

    /// Does what is due with connections, and hands on what happened.
    fn turn_connections(&mut self, now: Now) {
        let mut turned = self.connections.lock().turn(now);
        turned.wake();
        for refusal in turned.refusals {
            self.tell_refusal(refusal);
        }
        for _ in 0..turned.datagrams_dropped {
            self.core.count_drop(DropReason::PortFull);
        }
    }

    /// Takes datagrams while there is room for the longest.
    fn take_datagrams(&mut self, now: Now) {
        let longest = self.shared.max_body_len.load(Ordering::Relaxed);
        while self.core.has_room(longest) {
            let Ok(Outgoing { from, to, port, body }) = self.inbox.datagrams.try_recv() else {
                return;
            };
            let failure = match self.core.send_as(from, to, port, &body, now) {
                // The path may have been found to be narrower after the handle looked.
                Err(SendError::TooBig { max, .. }) => {
                    let max_data_len = u16::try_from(max + PayloadHeader::LEN).unwrap_or(u16::MAX);
                    SendFailure::Nacked(Reason::TooBig(max_data_len))
                }
                Err(SendError::NotServed { .. }) => SendFailure::NotServed,
                _ => continue,
            };
            self.shared.ledger.failed(to, failure, now.instant);
        }
    }

    fn handle_events(&mut self, now: Now) {
        while let Some(event) = self.core.poll_event() {
            log(&event);
            self.serving.observe(&event);
            self.grouping.observe(&event);
            self.standing.observe(&event);
            if let Some(joining) = &mut self.joining {
                joining.observe(&event, now.instant);
            }
            match event {
                Event::Displaced { via } => {
                    let _ = self.shared.displaced.set(via);
                }
                Event::SendFailed { to, reason, .. } => {
                    self.shared.ledger.failed(to, reason, now.instant);
                }
                // QUIC says it again, and it goes in halves then: the path is known now.
                Event::HandshakeFailed {
                    reason: SendFailure::Nacked(Reason::TooBig(_)), ..
                } => {}
                Event::HandshakeFailed { to, .. } => {
                    self.connections.lock().ends.unreachable(to, now);
                }
                Event::Joined { .. } => self.connections.lock().ends.rejoined(now),
                Event::Nacked { to, reason: Reason::TooBig(len) } => {
                    self.shared.ledger.too_big(to, len, now.instant);
                }
                Event::Pong { tag, rtt, .. } => self.pings.handle_pong(tag, rtt),
                Event::PingNacked { tag, reason, reporter, rtt, retried, evidence, .. } => {
                    let nack = PingNack { reason, reporter, rtt, retried, evidence };
                    self.pings.handle_nack(tag, nack);
                }
                Event::Left { published } => self.tell_left(published),
                Event::SenderRefused(refusal) => self.tell_refusal(refusal),
                _ => {}
            }
        }
    }

    /// Tells whoever wants to know. What they do not take in time they do not learn: anybody can be
    /// refused, any number of times.
    fn tell_refusal(&mut self, refusal: Refusal) {
        if let Some(refusals) = &self.refusals
            && matches!(refusals.try_send(refusal), Err(TrySendError::Closed(_)))
        {
            self.refusals = None;
        }
    }

    /// Gathers one batch and sends it; says whether there is more.
    fn transmit(&mut self, now: Now) -> Result<bool, End> {
        self.outgoing.clear();
        self.ask_for_routers(now);
        self.core.poll_transmit(&mut self.outgoing, now);
        let more_payloads =
            self.connections.lock().transmit(&mut self.core, &mut self.outgoing, now);
        self.core.flush(&mut self.outgoing, now);
        if !self.outgoing.is_empty() {
            self.carrier.send(&mut self.outgoing).map_err(End::Socket)?;
        }
        Ok(more_payloads || self.core.has_more_to_send())
    }

    /// Puts a query for every link into the batch, when one is due.
    /// Links come and go, so they are read each time.
    fn ask_for_routers(&mut self, now: Now) {
        let Some(query) = self.core.poll_query(now) else { return };
        match Links::read(self.carrier.local_address().ip()) {
            Ok(links) => {
                for target in links.query_targets() {
                    self.outgoing.push(target, &query);
                }
            }
            Err(error) => tracing::debug!(%error, "the links of this host cannot be read"),
        }
    }

    fn wait(&mut self, now: Now) -> Result<(), End> {
        self.shared.falls_asleep();
        let longest = self.shared.max_body_len.load(Ordering::Relaxed);
        let asked = !self.inbox.orders.is_empty()
            || (self.inbox.orders.is_closed() && self.leaving.is_none())
            || (!self.inbox.datagrams.is_empty() && self.core.has_room(longest));
        let (connections_ask, connections_due) = {
            let connections = self.connections.lock();
            let ends = &connections.ends;
            let asks = ends.has_more_to_send() && self.core.is_joined() || ends.has_events();
            (asks, ends.poll_timeout())
        };
        if !asked && !connections_ask {
            let deadline = [
                connections_due,
                self.core.poll_timeout(),
                self.pings.poll_timeout(),
                self.joining.as_ref().map(Joining::deadline),
                self.leaving.as_ref().filter(|it| !it.withdrawn).map(|it| it.by),
            ];
            let timeout = deadline
                .into_iter()
                .flatten()
                .min()
                .map(|at| at.saturating_duration_since(now.instant));
            self.carrier.wait(timeout, Some(self.shared.wake())).map_err(End::Socket)?;
        }
        self.shared.is_awake();
        Ok(())
    }

    fn begin_leaving(&mut self, done: Option<oneshot::Sender<bool>>, now: Now) {
        if let Some(leaving) = &mut self.leaving {
            leaving.done.extend(done);
            return;
        }
        self.connections.lock().ends.close_all(now);
        let by = now.instant + LAST_WORDS_WITHIN;
        self.leaving = Some(Leaving { by, withdrawn: false, done: done.into_iter().collect() });
    }

    /// Withdraws the name once connections have said their last words.
    fn go_on_leaving(&mut self, now: Now) {
        let Some(leaving) = self.leaving.as_mut().filter(|leaving| !leaving.withdrawn) else {
            return;
        };
        let is_quiet =
            !self.core.has_more_to_send() && !self.connections.lock().ends.has_more_to_send();
        if is_quiet || leaving.by <= now.instant || !self.core.is_joined() {
            leaving.withdrawn = true;
            self.core.leave(now);
            self.handle_events(now);
        }
    }

    fn tell_left(&mut self, published: bool) {
        for done in self.leaving.iter_mut().flat_map(|leaving| leaving.done.drain(..)) {
            let _ = done.send(published);
        }
    }

    /// Answers whoever waits for the node to join. When it cannot,
    /// they drop their handle, and the node ends.
    fn tell_joined(&mut self, now: Now) {
        let outcome = self.joining.as_ref().and_then(|it| it.outcome(&self.core, now.instant));
        let Some(outcome) = outcome else { return };
        if let Some(joining) = self.joining.take() {
            joining.tell(outcome);
        }
    }

    /// What handles need to know before they queue a datagram.
    fn publish_limits(&mut self, now: Now) {
        let max_body_len = self.core.max_body_len(NOBODY, now);
        self.shared.max_body_len.store(max_body_len, Ordering::Relaxed);
    }

    fn status(&self, now: Now) -> Status {
        let lease = self.core.lease();
        Status {
            name: self.core.name(),
            router: self.core.router(),
            router_address: self.core.router_address(),
            router_transport: self.core.router_transport().map(Transport::as_str),
            local_address: self.carrier.local_address(),
            joined: self.core.is_joined(),
            published: lease.is_some_and(|lease| lease.published),
            serving: self.core.served().collect(),
            lease_left: lease
                .map(|lease| Duration::from_secs(lease.until_s.saturating_sub(now.unix_s()))),
            traffic: self.core.traffic(),
            drops: *self.core.drops(),
            connections: self.connections.status(),
            ends: *self.connections.lock().ends.drops(),
            link_drops: self.core.link_drops().clone(),
            io: self.carrier.counters(),
            streams: self.carrier.stream_counters(),
        }
    }
}

impl OnStreams for Core {
    fn handle_stream(&mut self, news: StreamNews, now: Now) -> Option<SocketAddr> {
        Core::handle_stream(self, news, now)
    }

    fn poll_stream_order(&mut self) -> Option<StreamOrder> {
        Core::poll_stream_order(self)
    }
}

/// The membership's changes at debug, what happens per PDU at trace.
fn log(event: &Event) {
    match event {
        Event::Joined { .. }
        | Event::Renewed { .. }
        | Event::Disconnected { .. }
        | Event::PassedOver { .. }
        | Event::Refused { .. }
        | Event::Serving { .. }
        | Event::NotServing { .. }
        | Event::Displaced { .. }
        | Event::Contested { .. }
        | Event::Left { .. } => tracing::debug!(?event),
        Event::NotExported { reason } => tracing::warn!(
            ?reason,
            "the router is not of the domain that this name is exported by: nobody outside reaches it"
        ),
        _ => tracing::trace!(?event),
    }
}

/// How long connections may take for their last words.
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(1);
/// A name of which nothing is ever learned: what is true of it is true of any name.
const NOBODY: Name = Name([0; Name::LEN]);
/// Records that are charged for together: together they take less than one other packet may.
const RECORDS_AT_ONCE: usize = 32;
