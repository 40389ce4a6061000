//! The control thread: waits for the end, serves the admin endpoint, and wakes the worker for both.
//!
//! The worker alone knows the service. A question for its status travels to it with a place for the answer, so nothing is
//! shared and nothing is locked.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use rhumb_io::Wake;
use tokio::sync::oneshot;

use super::http;
use super::snapshot::Snapshot;
use crate::failure::{Failure, Outcome};
use crate::lifetime::Lifetime;

/// The worker's end.
#[derive(Debug)]
pub(crate) struct Control {
    stopped: Arc<AtomicBool>,
    questions: Receiver<oneshot::Sender<Snapshot>>,
    wake: Wake,
    admin: Option<SocketAddr>,
}

/// The end of the admin endpoint: asks the worker for its status.
#[derive(Debug, Clone)]
pub(super) struct Enquirer {
    questions: SyncSender<oneshot::Sender<Snapshot>>,
    wake: Wake,
}

impl Control {
    /// Catches signals from now on, and listens on `admin` if given.
    pub(super) fn start(admin: Option<SocketAddr>, with_parent: bool, wake: Wake) -> Outcome<Self> {
        let listener = admin.map(bind).transpose()?;
        let admin = match &listener {
            Some(listener) => Some(listener.local_addr().map_err(Failure::setup)?),
            None => None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::operation)?;
        let lifetime = {
            let _entered = runtime.enter();
            Lifetime::begin(with_parent)?
        };
        let (sender, questions) = sync_channel(MAX_QUESTIONS);
        let enquirer = Enquirer { questions: sender, wake: wake.clone() };
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Stop { stopped: Arc::clone(&stopped), wake: wake.clone() };
        std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || runtime.block_on(run(listener, enquirer, lifetime, stop)))
            .map_err(Failure::operation)?;
        Ok(Self { stopped, questions, wake, admin })
    }

    /// Whether a signal asked the process to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// What wakes the worker.
    pub(crate) fn wake(&self) -> &Wake {
        &self.wake
    }

    /// Where the admin endpoint listens.
    pub(crate) fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Answers the questions that wait; costs nothing when there are none.
    pub(crate) fn answer(&self, mut snapshot: impl FnMut() -> Snapshot) {
        for question in self.questions.try_iter().take(MAX_QUESTIONS) {
            // Who asked may have gone; that is their affair.
            let _ = question.send(snapshot());
        }
    }
}

impl Enquirer {
    /// The worker's status; `None` when it is too busy or gone.
    pub(super) async fn ask(&self) -> Option<Snapshot> {
        let (sender, answer) = oneshot::channel();
        match self.questions.try_send(sender) {
            Ok(()) => self.wake.wake(),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => return None,
        }
        answer.await.ok()
    }
}

struct Stop {
    stopped: Arc<AtomicBool>,
    wake: Wake,
}

async fn run(
    listener: Option<TcpListener>,
    enquirer: Enquirer,
    mut lifetime: Lifetime,
    stop: Stop,
) {
    if let Some(listener) = listener {
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => drop(tokio::spawn(http::serve(listener, enquirer))),
            Err(error) => tracing::error!(%error, "the admin endpoint cannot be served"),
        }
    }
    let cause = lifetime.end().await;
    tracing::info!(cause, "stopping");
    stop.stopped.store(true, Ordering::Release);
    stop.wake.wake();
}

fn bind(address: SocketAddr) -> Outcome<TcpListener> {
    let bound = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => Failure::setup_text(format!(
            "admin address {address} is in use; choose another port, or 0 for any"
        )),
        _ => Failure::setup_text(format!("admin address {address}: {error}")),
    })
}

/// More than the connections that the endpoint serves at once.
const MAX_QUESTIONS: usize = 32;
