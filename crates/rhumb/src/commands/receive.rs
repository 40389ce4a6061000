//! `rhumb receive`: files sent to this node's name, or to a name
//! that it serves by AdCert, put into a folder.
//!
//! Rules say who may send, and bounds how much; what is refused is told in a line, as long as that
//! is little. A file is written under a temporary name in that folder and gets its own once its
//! SHA-256 is right. Nothing is ever overwritten: a name that is taken gets a number.

use std::fmt;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use data_encoding::HEXLOWER;
use rhumb_daemon::ad_cert;
use rhumb_daemon::admin::Admin;
use rhumb_daemon::belonging::Belonging;
use rhumb_daemon::cli::ReceiveArguments;
use rhumb_daemon::clock::{self, date_and_time};
use rhumb_daemon::config::{AccessSettings, NodeSettings, ReceiveSettings};
use rhumb_daemon::daemon::{self, Control, Terminal};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::membership::joined_as;
use rhumb_daemon::output::{Form, bytes_text, rate_text};
use rhumb_daemon::progress::Bar;
use rhumb_daemon::removals::Hearing;
use rhumb_node::{Node, ReceiveReport, Refusal, Service, ServiceState};
use rhumb_trust::AdCert;
use rhumb_wire::Name;
use rhumb_wire::transfer::{CancelReason, Offer};
use serde::Serialize;
use tempfile::NamedTempFile;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

use notices::Notices;
use room::{NoRoom, Promise, Room};

mod notices;
mod report;
mod room;

/// Runs the command.
pub(crate) fn run(
    arguments: &ReceiveArguments,
    settings: &ReceiveSettings,
    with_parent: bool,
    quiet: bool,
    form: Form,
) -> Outcome {
    check_folder(&arguments.dir)?;
    let interrupted = match arguments.once {
        true => Err(Failure::operation_text("stopped before a file had arrived")),
        false => Ok(()),
    };
    let identity = key::load_or_ephemeral(settings.node.key.as_deref())?;
    let ad_certs = ad_certs(arguments, &settings.node, identity.name())?;
    let asks = Arc::clone(&identity);
    let belonging = Belonging::of(identity, settings.node.key.as_deref());
    let shown = belonging.clone();
    let door = Arc::new(Door {
        room: Room::new(&arguments.dir, settings.max_size),
        notices: Notices::new(form),
    });
    // Its signals and its parent are looked after beside it.
    let control = settings.admin.as_ref();
    let control =
        control.map(|admin| daemon::take_control(Some(admin), "receive", false)).transpose()?;
    joined_as(belonging, &settings.node, with_parent, interrupted, |node| async move {
        let hearing = Hearing::begin(&node, &asks, &settings.ribs)?;
        hearing.heed(settings.access.access.domains());
        let mut helpers = JoinSet::new();
        helpers.spawn(tell_refusals(node.refusals(), Arc::clone(&door)));
        let admin = control.as_ref().and_then(Control::admin);
        if let Some(control) = control {
            let woken = Arc::new(Notify::new());
            daemon::notify_by(control.wake().clone(), Arc::clone(&woken))?;
            let door = Arc::clone(&door);
            helpers.spawn(answer_status(control, woken, node.clone(), door, shown));
        }
        let mut served = Vec::new();
        // Ends with this function, and with it end the services.
        let mut services = JoinSet::new();
        for (ad_cert, path) in ad_certs.into_iter().zip(arguments.serve.clone()) {
            let hangup = signal(SignalKind::hangup()).map_err(Failure::operation)?;
            let service = node.serve(ad_cert).await.map_err(Failure::setup)?;
            served.push(service.name());
            services.spawn(look_after(service, path, node.name(), hangup, form));
        }
        let router = node.router().await;
        form.print(&Ready { name: node.name(), router, served, admin });
        if arguments.once {
            let received = receive(&node, &arguments.dir, &door, &Bar::new(quiet)).await?;
            form.print(&received);
            return Ok(());
        }
        tokio::select! {
            outcome = serve(&node, &arguments.dir, &door, quiet, form) => outcome,
            outcome = follow_rules(&node, &settings.access, &hearing) => outcome,
        }
    })
}

/// The AdCerts to serve by, each of which must be for this node and hold now.
fn ad_certs(
    arguments: &ReceiveArguments,
    settings: &NodeSettings,
    server: Name,
) -> Outcome<Vec<AdCert>> {
    if !arguments.serve.is_empty() && settings.key.is_none() {
        return Err(Failure::setup_text(
            "an AdCert is for the name of one server; give that server's key with --key",
        ));
    }
    let now_s = clock::now().unix_s();
    arguments.serve.iter().map(|path| ad_cert::load_for(path, server, now_s)).collect()
}

/// Says how a served name fares, whenever that changes, and reads
/// its AdCert again whenever SIGHUP asks for it.
async fn look_after(
    mut service: Service,
    path: PathBuf,
    server: Name,
    mut hangup: Signal,
    form: Form,
) {
    let name = service.name();
    loop {
        tokio::select! {
            state = service.changed() => match state {
                Some(state) => form.print(&News { name, state }),
                None => return,
            },
            Some(()) = hangup.recv() => {
                if let Err(failure) = read_again(&service, &path, server).await {
                    tracing::warn!(%failure, "going on with the AdCert from before");
                }
            }
        }
    }
}

/// Serves by what is in the file now.
async fn read_again(service: &Service, path: &Path, server: Name) -> Outcome {
    let ad_cert = ad_cert::load_for(path, server, clock::now().unix_s())?;
    let until = date_and_time(ad_cert.certificate().not_after_s);
    service.renew(ad_cert).await.map_err(Failure::operation)?;
    tracing::info!(path = %path.display(), until, "read the AdCert again");
    Ok(())
}

/// Receives for ever, several files at once. What fails is said, and the next is waited for.
async fn serve(node: &Node, folder: &Path, door: &Arc<Door>, quiet: bool, form: Form) -> Outcome {
    let mut receptions = JoinSet::new();
    loop {
        while receptions.len() < MAX_AT_ONCE {
            let (node, folder, door) = (node.clone(), folder.to_owned(), Arc::clone(door));
            // Several bars on one terminal would overwrite each
            // other, so only the first of them shows one.
            let bar = Bar::new(quiet || !receptions.is_empty());
            receptions.spawn(async move { receive(&node, &folder, &door, &bar).await });
        }
        match receptions.join_next().await {
            Some(Ok(Ok(received))) => form.print(&received),
            Some(Ok(Err(failure))) => {
                // A node that is closed fails at once and for ever, and says why.
                node.status().await.map_err(Failure::operation)?;
                // Strangers can cause any number of these as well.
                if door.notices.may_warn(clock::now().instant) {
                    tracing::warn!(%failure, "a file did not arrive");
                }
            }
            Some(Err(panicked)) => return Err(Failure::operation(panicked)),
            None => {}
        }
    }
}

/// Receives one file.
async fn receive(node: &Node, folder: &Path, door: &Arc<Door>, bar: &Bar) -> Outcome<Received> {
    let unfinished: Arc<Mutex<Option<(NamedTempFile, Promise)>>> = Arc::default();
    let (door, at, under_way) = (Arc::clone(door), node.clone(), Arc::clone(&unfinished));
    let (place, folder_of_place, bar_of_offer, progress) =
        (Arc::clone(&unfinished), folder.to_owned(), bar.clone(), bar.clone());
    let report = node
        .receive_file(
            move |from, offer| -> Result<File, CancelReason> {
                let promise = door.take(from, at.has_chosen(from), offer)?;
                let file = new_file(&folder_of_place).map_err(|error| {
                    tracing::warn!(%error, "cannot write to the folder");
                    CancelReason::WriteFailed
                })?;
                let handle = file.as_file().try_clone().map_err(|_| CancelReason::WriteFailed)?;
                bar_of_offer.begin(offer.name.as_str(), offer.length);
                *place.lock().unwrap_or_else(PoisonError::into_inner) = Some((file, promise));
                Ok(handle)
            },
            move |bytes| {
                if let Some((_, promise)) =
                    &*under_way.lock().unwrap_or_else(PoisonError::into_inner)
                {
                    promise.arrived(bytes);
                }
                progress.advance(bytes);
            },
        )
        .await;
    bar.end();
    let report = report.map_err(Failure::operation)?;
    let file = unfinished.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (file, _promise) = file.ok_or_else(|| Failure::operation_text("the file has no place"))?;
    let path = keep(file, folder, &report.file_name)?;
    Ok(Received { path, own: node.name(), report })
}

/// What stands between senders and the folder.
#[derive(Debug)]
struct Door {
    room: Room,
    notices: Notices,
}

impl Door {
    /// Whether a file is taken. Whether its sender may send at all, the node has looked at.
    fn take(&self, from: Name, is_chosen: bool, offer: &Offer) -> Result<Promise, CancelReason> {
        self.room.promise(offer.length, !is_chosen).map_err(|why| {
            let (name, now) = (offer.name.as_str(), clock::now().instant);
            self.notices.no_room(from, name, offer.length, why, now);
            match why {
                NoRoom::TooLarge { .. } => CancelReason::TooLarge,
                NoRoom::DiskFull => CancelReason::WriteFailed,
            }
        })
    }
}

/// Answers `rhumb status` until the node is closed.
async fn answer_status(
    control: Control,
    woken: Arc<Notify>,
    node: Node,
    door: Arc<Door>,
    belonging: Belonging,
) {
    let started = clock::now().instant;
    loop {
        woken.notified().await;
        let Ok(status) = node.status().await else { return };
        let now = clock::now().instant;
        let refused = door.notices.status(now);
        control.answer(|| {
            let mut snapshot = report::snapshot(&status, &refused, now - started);
            belonging.report(&mut snapshot);
            snapshot
        });
    }
}

/// Tells what the node refuses by the rules.
async fn tell_refusals(mut refusals: Receiver<Refusal>, door: Arc<Door>) {
    while let Some(refusal) = refusals.recv().await {
        door.notices.refused(refusal, clock::now().instant);
    }
}

/// Reads the rules again at each SIGHUP. Ends when the terminal that this was
/// started from is gone, which is a SIGHUP, too.
async fn follow_rules(node: &Node, rules: &AccessSettings, hearing: &Hearing) -> Outcome {
    let terminal = Terminal::now();
    let mut hangup = signal(SignalKind::hangup()).map_err(Failure::operation)?;
    while hangup.recv().await.is_some() {
        if terminal.is_gone() {
            return Ok(());
        }
        match rules.again() {
            Ok(access) => {
                hearing.heed(access.domains());
                node.set_access(access);
                tracing::info!("read the rules about senders again");
            }
            Err(failure) => tracing::warn!(%failure, "going on with the rules from before"),
        }
    }
    Ok(())
}

/// A file that disappears unless it is kept. Once it has its name,
/// others may read it as far as the umask lets them.
fn new_file(folder: &Path) -> std::io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(".rhumb-")
        .suffix(".part")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
}

/// Gives a complete file its name, or the first of `name.1`, `name.2` and so on that is free.
fn keep(file: NamedTempFile, folder: &Path, name: &str) -> Outcome<PathBuf> {
    let failed = |error: std::io::Error| {
        Failure::operation_text(format!("cannot keep {name} in {}: {error}", folder.display()))
    };
    file.as_file().sync_all().map_err(failed)?;
    let mut file = file;
    for number in 0..MAX_NUMBER {
        let path = match number {
            0 => folder.join(name),
            number => folder.join(format!("{name}.{number}")),
        };
        match file.persist_noclobber(&path) {
            Ok(_) => return Ok(path),
            Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {
                file = error.file;
            }
            Err(error) => return Err(failed(error.error)),
        }
    }
    Err(Failure::operation_text(format!(
        "{} has {MAX_NUMBER} files called {name} already; move some away",
        folder.display()
    )))
}

fn check_folder(folder: &Path) -> Outcome {
    match std::fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(Failure::setup_text(format!(
            "{} is no folder; give one with --dir",
            folder.display()
        ))),
        Err(error) => Err(Failure::setup_text(format!(
            "folder {}: {error}; make it, or give another with --dir",
            folder.display()
        ))),
    }
}

struct Ready {
    name: Name,
    router: Option<Name>,
    served: Vec<Name>,
    admin: Option<Admin>,
}

impl Serialize for Ready {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::json!({
            "ready": true,
            "role": "node",
            "name": self.name.to_string(),
            "router": self.router.map(|name| name.to_string()),
            "serves": self.served.iter().map(Name::to_string).collect::<Vec<_>>(),
            "admin": self.admin,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ready: others send with `rhumb send FILE --to {}`", self.name)?;
        self.served.iter().try_for_each(|name| write!(f, ", or `--to {name}`"))?;
        match &self.admin {
            Some(admin) => write!(f, " (status: rhumb status --admin {admin})"),
            None => Ok(()),
        }
    }
}

/// How a served name fares now.
struct News {
    name: Name,
    state: ServiceState,
}

impl Serialize for News {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (state, reason) = match self.state {
            ServiceState::Serving { .. } => ("serving", None),
            ServiceState::Ended(reason) => ("ended", Some(reason.to_string())),
            _ => ("waiting", None),
        };
        serde_json::json!({ "service": self.name.to_string(), "state": state, "reason": reason })
            .serialize(serializer)
    }
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match self.state {
            ServiceState::Serving { published: true } => write!(f, "{name} is served here"),
            ServiceState::Ended(reason) => write!(f, "{name} is no longer served here: {reason}"),
            _ => write!(f, "{name} waits until a router lets it be served here"),
        }
    }
}

struct Received {
    path: PathBuf,
    own: Name,
    report: ReceiveReport,
}

impl Serialize for Received {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::json!({
            "received": self.path,
            "from": self.report.from.to_string(),
            "to": self.report.to.to_string(),
            "bytes": self.report.bytes,
            "sha256": HEXLOWER.encode(&self.report.sha256),
            "seconds": self.report.elapsed.as_secs_f64(),
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReceiveReport { from, to, bytes, elapsed, .. } = self.report;
        let to = if to == self.own { String::new() } else { format!(" for {to}") };
        write!(
            f,
            "received {} ({}) from {from}{to} in {:.2} s, {}",
            self.path.display(),
            bytes_text(bytes),
            elapsed.as_secs_f64(),
            rate_text(bytes, elapsed)
        )
    }
}

/// More senders than this at once wait for their turn.
const MAX_AT_ONCE: usize = 8;
/// Beyond this somebody is filling the folder.
const MAX_NUMBER: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let folder = tempfile::tempdir().unwrap();
        for (content, expected) in [("a", "file"), ("b", "file.1"), ("c", "file.2")] {
            let mut file = new_file(folder.path()).unwrap();
            file.write_all(content.as_bytes()).unwrap();
            let path = keep(file, folder.path(), "file").unwrap();
            assert_eq!(path, folder.path().join(expected));
        }
        assert_eq!(std::fs::read_to_string(folder.path().join("file")).unwrap(), "a");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn an_unfinished_file_disappears() {
        let folder = tempfile::tempdir().unwrap();
        drop(new_file(folder.path()).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
