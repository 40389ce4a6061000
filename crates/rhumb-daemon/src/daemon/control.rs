//! The control thread: waits for the end, serves the admin endpoint, and wakes the worker for both.
//!
//! The worker alone knows the service. A question for its status travels to it with a place for the
//! answer, so nothing is shared and nothing is locked.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

use rhumb_io::Wake;
use serde_json::json;
use tokio::sync::oneshot;

use super::copies::{Copies, WriteCopy};
use super::http::{self, Enquirer};
use super::listing::{ListNames, Listing};
use super::snapshot::{Snapshot, VERSION};
use super::telemetry::{self, Pushing};
use crate::admin::{Admin, is_for_readers};
use crate::failure::{Failure, Outcome};
use crate::lifetime::Lifetime;

/// The worker's end.
#[derive(Debug)]
pub struct Control {
    stopped: Arc<AtomicBool>,
    questions: Receiver<oneshot::Sender<Snapshot>>,
    wake: Wake,
    admin: Option<Admin>,
    copies: Arc<Copies>,
    listing: Arc<Listing>,
}

impl Control {
    /// Catches signals from now on, listens on `admin` if given, and tells a collector if one is
    /// named what the daemon counts, which calls itself `label`.
    pub(super) fn start(
        admin: Option<Admin>,
        label: &str,
        with_parent: bool,
        wake: Wake,
    ) -> Outcome<Self> {
        let pushing = Pushing::open(label)?;
        let listener = admin.map(|admin| Listener::bind(&admin)).transpose()?;
        let (listener, admin) = listener.unzip();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Failure::operation)?;
        let lifetime = {
            let _entered = runtime.enter();
            Lifetime::begin(with_parent)?
        };
        let (sender, questions) = sync_channel(MAX_QUESTIONS);
        let (copies, listing) = (Arc::new(Copies::default()), Arc::new(Listing::default()));
        let enquirer = Enquirer {
            questions: sender,
            wake: wake.clone(),
            copies: Arc::clone(&copies),
            listing: Arc::clone(&listing),
        };
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Stop { stopped: Arc::clone(&stopped), wake: wake.clone() };
        std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || runtime.block_on(run(listener, enquirer, pushing, lifetime, stop)))
            .map_err(Failure::operation)?;
        Ok(Self { stopped, questions, wake, admin, copies, listing })
    }

    /// Whether a signal asked the process to end.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// What wakes the worker.
    pub fn wake(&self) -> &Wake {
        &self.wake
    }

    /// Where the admin endpoint listens.
    pub fn admin(&self) -> Option<Admin> {
        self.admin.clone()
    }

    /// Whoever may ask over a Unix socket is given copies of what is stored, which `write` makes on
    /// a thread of its own.
    pub fn offer_copies(&self, write: WriteCopy) {
        self.copies.offer(write);
    }

    /// Whoever may have a copy may also look through what is stored, page by page, each of which
    /// `list` reads on a thread of its own.
    pub fn offer_names(&self, list: ListNames) {
        self.listing.offer(list);
    }

    /// Answers the questions that wait; costs nothing when there are none. Each answer says which
    /// version runs: the program's file may have been replaced since.
    pub fn answer(&self, mut snapshot: impl FnMut() -> Snapshot) {
        for question in self.questions.try_iter().take(MAX_QUESTIONS) {
            let mut snapshot = snapshot();
            snapshot.status["version"] = json!(VERSION);
            snapshot.metrics.extend(telemetry::metrics());
            // Who asked may have gone; that is their affair.
            let _ = question.send(snapshot);
        }
    }
}

/// Stops the worker when it is dropped, so also if the control thread fails: a daemon that signals
/// do not reach any more would be left.
struct Stop {
    stopped: Arc<AtomicBool>,
    wake: Wake,
}

impl Drop for Stop {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        self.wake.wake();
    }
}

async fn run(
    listener: Option<Listener>,
    enquirer: Enquirer,
    pushing: Option<Pushing>,
    mut lifetime: Lifetime,
    _stop: Stop,
) {
    if let Some(pushing) = pushing {
        drop(tokio::spawn(pushing.run(enquirer.clone())));
    }
    if let Some(listener) = listener {
        let served = match listener {
            Listener::Address(listener) => tokio::net::TcpListener::from_std(listener)
                .map(|listener| drop(tokio::spawn(http::serve_address(listener, enquirer)))),
            Listener::Socket(listener) => tokio::net::UnixListener::from_std(listener)
                .map(|listener| drop(tokio::spawn(http::serve_socket(listener, enquirer, None)))),
            Listener::ForReaders(listener, folder) => tokio::net::UnixListener::from_std(listener)
                .map(|listener| {
                    drop(tokio::spawn(http::serve_socket(listener, enquirer, Some(folder))));
                }),
        };
        if let Err(error) = served {
            tracing::error!(%error, "the admin endpoint cannot be served");
        }
    }
    let cause = lifetime.end().await;
    tracing::info!(cause, "stopping");
}

/// What the admin endpoint listens on.
enum Listener {
    Address(TcpListener),
    Socket(UnixListener),
    /// And the folder that says who reads.
    ForReaders(UnixListener, PathBuf),
}

impl Listener {
    /// Listens, and says where that is in the end.
    fn bind(admin: &Admin) -> Outcome<(Self, Admin)> {
        match admin {
            Admin::Address(address) => {
                let listener = bind_address(*address)?;
                let bound = listener.local_addr().map_err(Failure::setup)?;
                Ok((Self::Address(listener), Admin::Address(bound)))
            }
            Admin::Socket(path) => {
                // Programs are told a path that holds in any folder.
                let path = std::path::absolute(path).map_err(Failure::setup)?;
                let how = "give another path with --admin";
                Ok((Self::Socket(bind_socket(&path, "admin socket", how)?), Admin::Socket(path)))
            }
            Admin::ForReaders(path) => {
                let path = std::path::absolute(path).map_err(Failure::setup)?;
                let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
                if !is_for_readers(&folder) {
                    return Err(Failure::setup_text(format!(
                        "folder {} is none for readers of status: make it for one group, which cannot write there: \
                         install -d -m 0750 -o USER -g GROUP {0}",
                        folder.display()
                    )));
                }
                let how = "give another path with --admin";
                let listener = bind_socket(&path, "admin socket", how)?;
                // Who passes the folder may knock: its group, and nobody else.
                let everybody = std::fs::Permissions::from_mode(0o666);
                std::fs::set_permissions(&path, everybody).map_err(Failure::setup)?;
                Ok((Self::ForReaders(listener, folder), Admin::Socket(path)))
            }
            Admin::Usual => Err(Failure::setup_text("the admin socket has no path")),
        }
    }
}

fn bind_address(address: SocketAddr) -> Outcome<TcpListener> {
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

/// Listens on a socket that its owner alone may open. One that a killed process left behind is
/// replaced; one that answers is not, nor is anything else: `kind` says what it is, `how` what to
/// do.
pub(crate) fn bind_socket(path: &Path, kind: &str, how: &str) -> Outcome<UnixListener> {
    let shown = path.display();
    let failed = |error: std::io::Error| Failure::setup_text(format!("{kind} {shown}: {error}"));
    let found = std::fs::symlink_metadata(path);
    if found.is_ok_and(|found| found.file_type().is_socket()) {
        if UnixStream::connect(path).is_ok() {
            let problem = format!("{kind} {shown} is in use by another process; {how}");
            return Err(Failure::setup_text(problem));
        }
        std::fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

impl Drop for Control {
    /// Takes the socket away, so that nobody asks a process that is gone.
    fn drop(&mut self) {
        if let Some(Admin::Socket(path)) = &self.admin {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// More than the connections that the endpoint serves at once.
const MAX_QUESTIONS: usize = 32;
