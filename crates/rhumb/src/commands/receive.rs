//! `rhumb receive`: files sent to this node's name, or to a name
//! that it serves by AdCert, put into a folder, or one of them to standard output ([`output`]). The
//! node that runs for this user receives them, if there is one and nothing says how to join instead
//! ([`by_running`]).
//!
//! Rules say who may send, and bounds how much; what is refused is told in a line, as long as that
//! is little. A file or a folder is a part in a hidden folder ([`parts`]), and gets its own name
//! once its SHA-256 is right. Nothing is ever overwritten: a name that is taken gets a number.

use std::fmt;
use std::io;
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
use rhumb_daemon::output::{Form, bytes_text, rate_text, resumed_text};
use rhumb_daemon::progress::Bar;
use rhumb_daemon::removals::Hearing;
use rhumb_daemon::running::{self, Taken};
use rhumb_daemon::supervisor;
use rhumb_node::transfer::{Offered, WriteAt};
use rhumb_node::{Node, Refusal, Service, ServiceState};
use rhumb_trust::AdCert;
use rhumb_wire::Name;
use rhumb_wire::folder::FileSpan;
use rhumb_wire::held::Held;
use rhumb_wire::transfer::{CancelReason, FileName, Kind};
use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

use notices::Notices;
use output::{Output, Teller};
use parts::{Part, Parts};
use room::{NoRoom, Promise, Room, Use};

mod by_running;
mod folders;
mod notices;
mod output;
mod parts;
mod report;
mod reuse;
mod room;

/// Runs the command.
pub(crate) fn run(
    arguments: &ReceiveArguments,
    settings: &ReceiveSettings,
    with_parent: bool,
    quiet: bool,
    form: Form,
) -> Outcome {
    let teller = Teller { form, is_beside: arguments.stdout };
    let place = match arguments.stdout {
        true => Place::Output,
        false => {
            check_folder(&arguments.dir)?;
            Place::Folder(Parts::of(&arguments.dir))
        }
    };
    let room = Room::new(&arguments.dir, settings.max_size);
    let door = Arc::new(Door { place, room, notices: Notices::new(teller) });
    let is_one = arguments.once || arguments.stdout;
    let interrupted = || match is_one {
        true => Err(Failure::operation_text("stopped before a file had arrived")),
        false => Ok(()),
    };
    let by_it = running::by_running(&arguments.node, with_parent, interrupted(), |running| {
        let rules = by_running::Rules::of(arguments, settings);
        by_running::receive(running, rules, Arc::clone(&door), (is_one, quiet), teller)
    });
    if let Some(outcome) = by_it {
        return outcome;
    }
    let identity = key::load_or_ephemeral(settings.node.key.as_deref())?;
    let ad_certs = ad_certs(arguments, &settings.node, identity.name())?;
    let asks = Arc::clone(&identity);
    let belonging = Belonging::of(identity, settings.node.key.as_deref());
    let shown = belonging.clone();
    // Its signals and its parent are looked after beside it.
    let control = daemon::take_control_if_asked(settings.admin.as_ref(), "receive")?;
    joined_as(belonging, &settings.node, with_parent, interrupted(), |node| async move {
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
            services.spawn(look_after(service, path, node.name(), hangup, teller));
        }
        let router = node.router().await;
        teller.print(&Ready { name: node.name(), router, served, admin });
        supervisor::ready();
        if is_one {
            let received = receive(&node, &door, &Bar::new(quiet)).await?;
            teller.print(&received);
            return Ok(());
        }
        tokio::select! {
            outcome = serve(&node, &door, quiet, teller) => outcome,
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
    teller: Teller,
) {
    let name = service.name();
    loop {
        tokio::select! {
            state = service.changed() => match state {
                Some(state) => teller.print(&News { name, state }),
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
async fn serve(node: &Node, door: &Arc<Door>, quiet: bool, teller: Teller) -> Outcome {
    let mut receptions = JoinSet::new();
    loop {
        while receptions.len() < MAX_AT_ONCE {
            let (node, door) = (node.clone(), Arc::clone(door));
            // Several bars on one terminal would overwrite each
            // other, so only the first of them shows one.
            let bar = Bar::new(quiet || !receptions.is_empty());
            receptions.spawn(async move { receive(&node, &door, &bar).await });
        }
        match receptions.join_next().await {
            Some(Ok(Ok(received))) => teller.print(&received),
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
async fn receive(node: &Node, door: &Arc<Door>, bar: &Bar) -> Outcome<Received> {
    let (kept, progress) = (Kept::default(), bar.clone());
    let (door, at, kept_at, bar_of_offer) =
        (Arc::clone(door), node.clone(), kept.clone(), bar.clone());
    let open = move |offered: &Offered| {
        door.open(offered, !at.has_chosen(offered.from), &kept_at, &bar_of_offer)
    };
    let report = node.receive_file(open, move |bytes| progress.advance(bytes)).await;
    bar.end();
    let taken = report.map_err(Failure::operation)?.into();
    Ok(Received { path: kept.path(), own: node.name(), taken })
}

/// Where a file was put, if that was into a folder.
#[derive(Debug, Clone, Default)]
struct Kept(Arc<Mutex<Option<PathBuf>>>);

impl Kept {
    fn note(&self, path: PathBuf) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(path);
    }

    fn path(&self) -> Option<PathBuf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A file on its way in, and the room for it.
struct Inbound {
    part: Part,
    promise: Promise,
    /// How much of what has no end yet that is for.
    promised: u64,
    /// How much has arrived of a folder that comes file by file.
    arrived: u64,
    kind: Kind,
    is_strangers: bool,
    door: Arc<Door>,
    kept: Kept,
}

impl Inbound {
    /// Sees to it that there is room for what has no end yet.
    fn make_room(&mut self, until: u64) -> io::Result<()> {
        let room = &self.door.room;
        let promised = room.allows(until, self.is_strangers).and_then(|()| {
            if until > self.promised {
                let takes = Use { most: until + STEP, there: until };
                self.promise = room.promise(until, takes, self.is_strangers)?;
                self.promised = until + STEP;
            }
            Ok(())
        });
        promised.map_err(|why| match why {
            NoRoom::TooLarge { .. } => io::ErrorKind::FileTooLarge.into(),
            NoRoom::DiskFull => io::ErrorKind::StorageFull.into(),
            NoRoom::IsFolder => io::ErrorKind::Unsupported.into(),
        })
    }
}

impl WriteAt for Inbound {
    fn write_all_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.kind == Kind::Endless {
            self.make_room(offset + bytes.len() as u64)?;
        }
        self.part.write_all_at(offset, bytes)?;
        self.arrived = match self.kind {
            Kind::FileByFile => self.arrived + bytes.len() as u64,
            _ => offset + bytes.len() as u64,
        };
        self.promise.arrived(self.arrived);
        Ok(())
    }

    fn recall(&mut self, see: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
        self.part.recall(see)
    }

    fn settle(&mut self, length: u64, sha256: &[u8; 32]) -> io::Result<()> {
        self.part.settle(length, sha256)
    }

    fn recall_files(
        &mut self,
        files: &[FileSpan],
        see: &mut dyn FnMut(&[u8]),
    ) -> io::Result<Option<Held>> {
        let held = self.part.recall_files(files, see)?;
        self.arrived += held.as_ref().map_or(0, |held| held.bytes(files));
        self.promise.arrived(self.arrived);
        Ok(held)
    }

    fn settle_files(&mut self, length: u64, held: &Held, sha256: &[u8; 32]) -> io::Result<()> {
        self.part.settle_files(length, held, sha256)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.part.clear()?;
        self.arrived = 0;
        self.promise.arrived(0);
        Ok(())
    }

    fn finish(&mut self, name: &FileName) -> io::Result<()> {
        let kept = self.part.keep(name, self.kind);
        if let Err(error) = &kept
            && error.kind() == io::ErrorKind::InvalidData
        {
            // It is what its sender offers, and never a folder.
            self.part.clear()?;
        }
        self.kept.note(kept?);
        Ok(())
    }
}

/// What stands between senders and where files go.
#[derive(Debug)]
struct Door {
    place: Place,
    room: Room,
    notices: Notices,
}

/// Where files go.
#[derive(Debug)]
enum Place {
    Folder(Arc<Parts>),
    /// The only one goes to standard output.
    Output,
}

/// Where a file goes.
type Sink = Box<dyn WriteAt + Send>;

impl Door {
    /// The place for a file, if it is taken. Whether its sender may send at all, the node has
    /// looked at.
    fn open(
        self: &Arc<Self>,
        offered: &Offered,
        is_strangers: bool,
        kept: &Kept,
        bar: &Bar,
    ) -> Result<Sink, CancelReason> {
        let (door, offer) = (Arc::clone(self), &offered.offer);
        let sink: Sink = match &self.place {
            Place::Folder(parts) => {
                let (part, promise) = self.take(parts, offered, !is_strangers)?;
                let (kind, kept, promised, arrived) = (offer.kind, kept.clone(), STEP, 0);
                Box::new(Inbound {
                    part,
                    promise,
                    promised,
                    arrived,
                    kind,
                    is_strangers,
                    door,
                    kept,
                })
            }
            Place::Output => {
                let is_folder = offer.kind.is_folder();
                let allowed = self.room.allows(offer.length, is_strangers);
                let allowed = if is_folder { Err(NoRoom::IsFolder) } else { allowed };
                allowed.map_err(|why| self.refuse(offered, why))?;
                Box::new(Output { door, is_strangers, written: 0 })
            }
        };
        bar.begin(offer.name.as_str(), offer.length);
        Ok(sink)
    }

    /// Says that there is no room for a file.
    fn refuse(&self, offered: &Offered, why: NoRoom) -> CancelReason {
        let (name, length) = (offered.offer.name.as_str(), offered.offer.length);
        self.notices.no_room(offered.from, name, length, why, clock::now().instant);
        match why {
            NoRoom::TooLarge { .. } => CancelReason::TooLarge,
            NoRoom::DiskFull => CancelReason::WriteFailed,
            NoRoom::IsFolder => CancelReason::Declined,
        }
    }

    /// The part of a file in a folder.
    fn take(
        &self,
        parts: &Arc<Parts>,
        offered: &Offered,
        is_chosen: bool,
    ) -> Result<(Part, Promise), CancelReason> {
        let part = parts.open(offered, !is_chosen).map_err(|error| {
            tracing::warn!(%error, "cannot write to the folder");
            CancelReason::WriteFailed
        })?;
        let length = offered.offer.length;
        // A folder is made of its part, beside it.
        let most = match offered.offer.kind {
            Kind::File => length,
            // More is promised as it comes.
            Kind::Endless => STEP,
            Kind::Folder | Kind::FileByFile => length.saturating_mul(2),
        };
        let takes = Use { most, there: part.there() };
        let promise = || self.room.promise(length, takes, !is_chosen);
        let promised = promise().or_else(|why| {
            if !is_chosen || why != NoRoom::DiskFull {
                return Err(why);
            }
            parts.give_up_strangers();
            promise()
        });
        Ok((part, promised.map_err(|why| self.refuse(offered, why))?))
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
    /// None if it went to standard output.
    path: Option<PathBuf>,
    own: Name,
    taken: Taken,
}

impl Serialize for Received {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::json!({
            "received": self.path.as_deref().unwrap_or(Path::new("-")),
            "from": self.taken.from.to_string(),
            "to": self.taken.to.to_string(),
            "bytes": self.taken.bytes,
            "resumed_from": self.taken.resumed_from,
            "is_folder": self.taken.kind.is_folder(),
            "sha256": HEXLOWER.encode(&self.taken.sha256),
            "seconds": self.taken.elapsed.as_secs_f64(),
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Taken { from, to, bytes, resumed_from, elapsed, .. } = self.taken;
        let to = if to == self.own { String::new() } else { format!(" for {to}") };
        match &self.path {
            Some(path) => write!(f, "received {}", path.display())?,
            None => f.write_str("received a file for standard output")?,
        }
        write!(
            f,
            " ({}{}) from {from}{to} in {:.2} s, {}",
            bytes_text(bytes),
            resumed_text(resumed_from),
            elapsed.as_secs_f64(),
            rate_text(bytes - resumed_from, elapsed)
        )
    }
}

/// Room is promised in such steps for what has no end yet, and a part that comes is less.
const STEP: u64 = 16 << 20;
/// More senders than this at once wait for their turn.
const MAX_AT_ONCE: usize = 8;
