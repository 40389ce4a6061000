//! `rhumb keyserver`: the sans-IO key server behind UDP and TCP sockets, on one thread, and a
//! thread that writes its journal.
//!
//! 1. Messages come from sockets; most are answered at once.
//! 2. An update goes to the journal's thread. Its results come back in order,
//!    are applied in order, and only then answered.
//! 3. A change wakes the connections on which followers wait.
//! 4. Every second, files that have changed are read again: principals, and masters of a new epoch.

use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rhumb_daemon::admin::Admin;
use rhumb_daemon::clock;
use rhumb_daemon::config::KeyserverSettings;
use rhumb_daemon::daemon::{self, Control};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::output::Form;
use rhumb_daemon::supervisor::{self, Heart};
use rhumb_keyserver::journal::{Journal, JournalError};
use rhumb_keyserver::server::{KeyServer, Staged};
use serde::Serialize;
use serde_json::json;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::LocalSet;

mod files;
mod report;
mod sockets;

use files::Files;

/// Runs the command.
pub(crate) fn run(
    settings: &KeyserverSettings,
    check: bool,
    with_parent: bool,
    form: Form,
) -> Outcome {
    let (files, config) = Files::load(settings)?;
    let now_ms = clock::now().unix_ms;
    if check {
        form.print(&Checked::of(settings, config.principals.len()));
        return Ok(());
    }
    let control = daemon::take_control(settings.admin.as_ref(), "keyserver", with_parent)?;
    let (journal, book) =
        Journal::open(&settings.journal, now_ms / 1000).map_err(Failure::setup)?;
    let sockets = sockets::bind(&settings.listen)?;
    let ready = Ready {
        zone: config.zone.text().to_owned(),
        addresses: sockets.iter().map(|socket| socket.address).collect(),
        admin: control.admin(),
    };
    let server = KeyServer::new(config, book);
    let (jobs, results) = start_writer(journal)?;
    let shared = Rc::new(Shared {
        server: RefCell::new(server),
        jobs,
        changes: watch::Sender::new(()),
        started: Instant::now(),
        addresses: ready.addresses.clone(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::operation)?;
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        for socket in sockets {
            socket.serve(&shared)?;
        }
        tokio::task::spawn_local(apply(Rc::clone(&shared), results));
        tokio::task::spawn_local(look_after(Rc::clone(&shared), files));
        supervisor::say_ready(form, &ready);
        answer_control(&control, &shared).await
    })
}

/// What the tasks of the one thread share.
struct Shared {
    server: RefCell<KeyServer>,
    jobs: SyncSender<Job>,
    /// Sends whenever followers may have something to be told.
    changes: watch::Sender<()>,
    started: Instant,
    addresses: Vec<SocketAddr>,
}

/// An update on its way to the disk and back.
struct Job {
    staged: Staged,
    answer: oneshot::Sender<Vec<u8>>,
}

type Written = (Job, Result<(), JournalError>);

impl Shared {
    /// Hands an update to the journal. To be called in the turn in
    /// which it was staged, so that the order is kept.
    fn store(&self, staged: Staged) -> Result<oneshot::Receiver<Vec<u8>>, Vec<u8>> {
        let (answer, receiver) = oneshot::channel();
        self.jobs.try_send(Job { staged, answer }).map(|()| receiver).map_err(|refused| {
            let (std::sync::mpsc::TrySendError::Full(job)
            | std::sync::mpsc::TrySendError::Disconnected(job)) = refused;
            self.server.borrow_mut().stored(&job.staged, false, clock::now().unix_ms)
        })
    }
}

/// The journal's thread.
fn start_writer(
    mut journal: Journal,
) -> Outcome<(SyncSender<Job>, mpsc::UnboundedReceiver<Written>)> {
    let (jobs, queue) = sync_channel::<Job>(MAX_JOBS);
    let (done, results) = mpsc::unbounded_channel();
    let write = move || {
        for job in queue {
            let written = journal.append(&job.staged.batch);
            if done.send((job, written)).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("journal".to_owned())
        .spawn(write)
        .map_err(Failure::operation)?;
    Ok((jobs, results))
}

/// Applies what the journal has, in order, and answers.
async fn apply(shared: Rc<Shared>, mut results: mpsc::UnboundedReceiver<Written>) {
    while let Some((job, written)) = results.recv().await {
        let batch = &job.staged.batch;
        match &written {
            Ok(()) => {
                tracing::info!(
                    serial = batch.serial,
                    changes = batch.changes.len(),
                    "revocations stored"
                );
            }
            Err(error) => tracing::error!(%error, serial = batch.serial, "revocations not stored"),
        }
        let now_ms = clock::now().unix_ms;
        let answer = shared.server.borrow_mut().stored(&job.staged, written.is_ok(), now_ms);
        shared.changes.send_replace(());
        // Whoever asked may have gone; what is stored is stored.
        let _ = job.answer.send(answer);
    }
}

/// Reads files that have changed, and forgets what is over.
async fn look_after(shared: Rc<Shared>, mut files: Files) {
    let mut pause = tokio::time::interval(FILES_PERIOD);
    let mut heart = Heart::new(Instant::now());
    loop {
        pause.tick().await;
        heart.beat(Instant::now());
        files.reload(&mut shared.server.borrow_mut());
        shared.server.borrow_mut().sweep(clock::now().unix_ms);
    }
}

/// Answers questions for status until the process is to end.
async fn answer_control(control: &Control, shared: &Shared) -> Outcome {
    let woken = Arc::new(Notify::new());
    daemon::notify_by(control.wake().clone(), Arc::clone(&woken))?;
    while !control.is_stopped() {
        control.answer(|| report::snapshot(shared));
        woken.notified().await;
    }
    Ok(())
}

/// The one line a key server prints when others may ask it.
struct Ready {
    zone: String,
    addresses: Vec<SocketAddr>,
    admin: Option<Admin>,
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        write!(f, "keyserver ready: {} at {}", self.zone, addresses.join(", "))?;
        match &self.admin {
            Some(admin) => write!(f, " (status: rhumb status --admin {admin})"),
            None => Ok(()),
        }
    }
}

impl Serialize for Ready {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "ready": true,
            "role": "keyserver",
            "zone": self.zone,
            "addresses": self.addresses,
            "admin": self.admin,
        })
        .serialize(serializer)
    }
}

/// What `--check` found in order.
#[derive(Serialize)]
struct Checked {
    checked: bool,
    zone: String,
    waypoints: usize,
    followers: usize,
    principals: usize,
}

impl Checked {
    fn of(settings: &KeyserverSettings, principals: usize) -> Self {
        let waypoints = &settings.waypoints;
        Self {
            checked: true,
            zone: settings.zone.text().to_owned(),
            waypoints: waypoints.len(),
            followers: waypoints.iter().filter(|waypoint| waypoint.follower.is_some()).count(),
            principals,
        }
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "in order: {}, {} waypoints of which {} follow revocations, {} principals",
            self.zone, self.waypoints, self.followers, self.principals
        )
    }
}

/// Updates that wait for the disk. Operators are few.
const MAX_JOBS: usize = 64;
/// How soon a principal that was just minted gets keys.
const FILES_PERIOD: Duration = Duration::from_secs(1);
