//! What handles ask of a node's thread, and how they get its attention.
//!
//! Two queues lead to the thread: orders, which are few, and datagrams, whose queue is bounded, so
//! that a program that sends faster than the network takes waits in
//! [`crate::PlainPort::send_to`].
//!
//! Invariant: the thread never sleeps while something it could do waits. It says that it will sleep
//! and then looks once more; a handle queues and then looks whether the thread sleeps. Both do so
//! in one total order, so at least one of them sees the other.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rhumb_io::Wake;
use rhumb_trust::{Access, AdCert, Identity, Membership, Removal, Verified};
use rhumb_wire::Name;
use rhumb_wire::group::Part;
use tokio::sync::{mpsc, oneshot, watch};

use super::grouping::GroupState;
use super::ledger::Ledger;
use super::serving::ServiceState;
use crate::core::Evidence;
use crate::{GroupError, Message, NodeError, PingError, Refusal, SendError, ServeError, Status};

/// Something a handle asks of the thread.
pub(crate) enum Order {
    /// Deliver datagrams for `port`.
    Bind { port: u16, deliver: mpsc::Sender<Message>, done: oneshot::Sender<Result<(), NodeError>> },
    /// Nobody listens on `port` any more.
    Unbind { port: u16 },
    /// Answer for the owner of an AdCert, and tell how that stands.
    Serve {
        ad_cert: Box<AdCert>,
        state: watch::Sender<ServiceState>,
        done: oneshot::Sender<Result<(), ServeError>>,
    },
    /// Go on answering by a newer AdCert.
    Renew { ad_cert: Box<AdCert>, done: oneshot::Sender<Result<(), ServeError>> },
    /// A handle of a served name is gone.
    StopServing { name: Name },
    /// Be a part of a group, and tell how that stands.
    JoinGroup {
        group: Name,
        part: Part,
        membership: Box<Membership>,
        state: watch::Sender<GroupState>,
        done: oneshot::Sender<Result<(), GroupError>>,
    },
    /// Tell a group's routers that somebody is a member no longer.
    RemoveFromGroup {
        group: Name,
        removal: Box<Removal>,
        done: oneshot::Sender<Result<(), NodeError>>,
    },
    /// A handle of a group is gone.
    LeaveGroup { group: Name },
    /// Ping, and tell what comes back.
    Ping(PingOrder),
    /// Tell how things are.
    Status { done: oneshot::Sender<Status> },
    /// Go by other rules about who may send to this node.
    SetAccess(Access),
    /// These were removed from domains; there is no more to tell for now, if that is all.
    NoteRemovals { removals: Vec<Verified<Removal>>, are_all: bool },
    /// Show what this says of a trust domain.
    Show { identity: Arc<Identity>, done: oneshot::Sender<Result<(), NodeError>> },
    /// Tell what is refused by them.
    WatchRefusals { refusals: mpsc::Sender<Refusal> },
    /// Withdraw the name and end.
    Leave { done: oneshot::Sender<bool> },
}

/// A ping as it is asked for.
pub(crate) struct PingOrder {
    pub(crate) to: Name,
    pub(crate) ttl: u8,
    pub(crate) timeout: Duration,
    pub(crate) done: oneshot::Sender<Result<PingAnswer, PingError>>,
}

/// What came back of a ping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PingAnswer {
    /// Its destination answered.
    Pong { rtt: Duration },
    /// It went as far as its TTL allowed.
    Expired { reporter: Option<Name>, rtt: Option<Duration>, evidence: Option<Box<Evidence>> },
}

/// A datagram of a program.
pub(crate) struct Outgoing {
    pub(crate) from: Name,
    pub(crate) to: Name,
    pub(crate) port: u16,
    pub(crate) body: Vec<u8>,
}

/// What handles and thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) ledger: Ledger,
    /// The longest body as far as the session with the router goes.
    pub(crate) max_body_len: AtomicUsize,
    /// Who carries for the name now, once another process with its key has claimed it.
    pub(crate) displaced: OnceLock<Name>,
    wake: Wake,
    sleeps: AtomicBool,
}

/// The thread's end of the queues.
pub(crate) struct Inbox {
    pub(crate) orders: mpsc::UnboundedReceiver<Order>,
    pub(crate) datagrams: mpsc::Receiver<Outgoing>,
}

impl Shared {
    pub(crate) fn new(wake: Wake) -> Self {
        Self {
            ledger: Ledger::default(),
            max_body_len: AtomicUsize::new(0),
            displaced: OnceLock::new(),
            wake,
            sleeps: AtomicBool::new(false),
        }
    }

    /// For handles whose order nobody took: why the node has ended.
    pub(crate) fn end(&self) -> NodeError {
        match self.displaced.get() {
            Some(via) => NodeError::Displaced { via: *via },
            None => NodeError::Closed,
        }
    }

    /// For handles, after they have queued something.
    pub(crate) fn alert(&self) {
        fence(Ordering::SeqCst);
        if self.sleeps.swap(false, Ordering::SeqCst) {
            self.wake.wake();
        }
    }

    /// For the thread, before it looks for the last time and waits.
    pub(crate) fn falls_asleep(&self) {
        self.sleeps.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// For the thread, when it goes on.
    pub(crate) fn is_awake(&self) {
        self.sleeps.store(false, Ordering::SeqCst);
    }

    pub(crate) fn wake(&self) -> &Wake {
        &self.wake
    }

    /// Why a datagram of `len` bytes to `to` cannot be
    /// taken at all, or what became of one before it.
    pub(crate) fn objection(&self, to: Name, len: usize, now: Instant) -> Option<SendError> {
        let max = self.max_body_len(to, now);
        if len > max {
            return Some(SendError::TooBig { len, max });
        }
        let reason = self.ledger.take_failure(to, now)?;
        Some(SendError::Undelivered { to, reason })
    }

    /// The longest body that fits one datagram to `to`.
    pub(crate) fn max_body_len(&self, to: Name, now: Instant) -> usize {
        let session = self.max_body_len.load(Ordering::Relaxed);
        self.ledger.max_body_len(to, now).map_or(session, |learned| learned.min(session))
    }
}
