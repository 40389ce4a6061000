//! `rhumb stamp`: sends packets through waypoints that ask for capabilities, unnoticed by who makes
//! them. A command's, by its control group; a socket's, handed over by its owner; a user's, and
//! those of a network behind this host, by policy.
//!
//! 1. Rules of routing lead packets that are to be stamped into a TUN device: by the mark of their
//!    socket, by user, or by prefix and port ([`instance`]).
//! 2. A thread per way stamps them and sends them to the first waypoint by a raw
//!    socket ([`way`], [`rhumb_waypoint::stamping`]). Answers come to this host, or through it, as
//!    ever: the packets carry its own address. Where there are several ways, probes
//!    tell which of them works ([`probing`], [`rhumb_waypoint::choice`]).
//! 3. The main thread takes care of the keys ([`keys`], [`fetch`]), and of
//!    who asks for what ([`command`], [`door`]).
//!
//! Invariant: what is to be stamped is never sent unstamped, unless `--fallback plain` says so. See
//! `docs/decisions/0020-stamping.md`.

mod command;
mod door;
mod fetch;
mod group;
mod in_use;
mod instance;
mod keys;
mod lane;
mod probing;
mod refusals;
mod report;
mod serve;
mod way;

use std::net::IpAddr;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rhumb_daemon::cli::{StampArguments, StampTask};
use rhumb_daemon::clock;
use rhumb_daemon::config::{ConfigFile, StampSettings};
use rhumb_daemon::daemon::{self, Control};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key_fetch::resolvers_or_system;
use rhumb_daemon::output::{Form, remark};
use rhumb_daemon::secret_file;
use rhumb_daemon::status;
use rhumb_keyserver::client::KeyClient;
use rhumb_keyserver::principal::PrincipalFile;
use rhumb_waypoint::stamping::Fallback;
use rhumb_waypoint::via::{Via, split};

use command::Running;
use fetch::Fetcher;
use group::Group;
use instance::Instance;
use keys::Keys;
use refusals::Refusals;

/// What the main thread waits for.
#[derive(Debug)]
pub(crate) enum Event {
    /// A signal, by its number.
    Signal(i32),
    /// The command has ended.
    Ended(ExitStatus),
    /// Somebody at the door.
    Asked(door::Asked),
}

/// Runs the command.
pub(crate) fn run(
    arguments: &StampArguments,
    file: &ConfigFile,
    with_parent: bool,
    form: Form,
) -> Outcome<ExitCode> {
    match &arguments.task {
        None => run_command(arguments, file),
        Some(StampTask::Daemon(flags)) => {
            serve::run(flags, file, with_parent, form).map(|()| ExitCode::SUCCESS)
        }
        Some(StampTask::Status(flags)) => {
            let admin = match &flags.admin {
                Some(admin) => Some(admin.clone()),
                None => file.stamp_admin()?,
            };
            let admin = admin.ok_or_else(|| {
                Failure::setup_text(
                    "no admin socket or address; give --admin, the one that `rhumb stamp` was started with",
                )
            })?;
            status::ask(Some(admin), false, file, form).map(|()| ExitCode::SUCCESS)
        }
    }
}

/// What both ways to run have: keys, those who fetch them, and what stands in the system.
pub(crate) struct Stamping {
    keys: Keys,
    fetcher: Fetcher,
    instance: Instance,
    refusals: Refusals,
    started: Instant,
    follow_sources_at: Instant,
    /// Requests that were refused for want of a way.
    refused: u64,
}

impl Stamping {
    fn start(settings: &StampSettings) -> Outcome<Self> {
        let mut keys = Keys::load(&settings.capabilities)?;
        for path in &settings.principals {
            keys.add_client(KeyClient::new(load_principal(path)?));
        }
        let resolvers = if settings.principals.is_empty() {
            Vec::new()
        } else {
            resolvers_or_system(&settings.resolvers)?
        };
        let instance =
            Instance::claim(settings.stamp_dns, settings.fallback, settings.udp.clone())?;
        let fetcher = Fetcher::new(resolvers);
        let started = Instant::now();
        let follow_sources_at = started + SOURCE_INTERVAL;
        let refusals = Refusals::listen();
        Ok(Self { keys, fetcher, instance, refusals, started, follow_sources_at, refused: 0 })
    }

    /// What is due: keys fetched, and taken by the ways. An error is a way whose thread has ended.
    fn turn(&mut self, is_waiting: bool) -> Outcome {
        let now_ms = clock::now().unix_ms;
        if self.follow_sources_at <= Instant::now() {
            self.follow_sources_at = Instant::now() + SOURCE_INTERVAL;
            self.instance.follow_sources();
        }
        self.fetcher.turn(self.keys.clients_mut(), now_ms);
        self.instance.refresh(&self.keys, now_ms, is_waiting);
        self.instance.follow_choices();
        self.hear_refusals();
        match self.instance.ways().find(|(_, way)| !way.is_alive()) {
            None => Ok(()),
            Some((_, way)) => Err(Failure::operation_text(format!(
                "stamping through {} ended; the log says why",
                way.via()
            ))),
        }
    }

    fn hear_refusals(&mut self) {
        let waypoints: Vec<IpAddr> =
            self.instance.ways().flat_map(|(_, way)| way.via().iter()).collect();
        self.refusals.turn(&waypoints, Instant::now());
    }

    /// Waits for the next event, for as long as a turn may be late.
    fn next(&self, events: &Receiver<Event>) -> Option<Event> {
        let pause = if self.fetcher.is_waiting() { ANSWER_PAUSE } else { TURN_PAUSE };
        match events.recv_timeout(pause) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            // There is always a sender, but a loop must not spin on that.
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(pause);
                None
            }
        }
    }

    /// Waits until every way has its keys, as long as they
    /// may come. An error says which one is missing.
    fn wait_for_keys(&mut self, events: &Receiver<Event>) -> Outcome {
        let deadline = Instant::now() + KEY_PATIENCE;
        loop {
            self.turn(true)?;
            if self.instance.ways().all(|(_, way)| way.is_ready()) {
                return Ok(());
            }
            if self.keys.clients().is_empty() || Instant::now() > deadline {
                let missing = self.instance.ways().find_map(|(_, way)| {
                    let families = [false, true].into_iter();
                    families.flat_map(|is_v6| way.chosen(is_v6)).find_map(|it| it.as_ref().err())
                });
                let missing = missing.map_or_else(|| "a waypoint".to_owned(), IpAddr::to_string);
                return Err(Failure::setup_text(format!(
                    "no valid key for {missing}; is its window over, the clock off, the principal revoked, or \
                     no resolver there? (`--fallback plain` goes on without)"
                )));
            }
            if let Some(Event::Signal(number)) = self.next(events) {
                return Err(Failure::operation_text(format!("ended by signal {number}")));
            }
        }
    }
}

/// Runs a command whose packets are stamped, and returns its exit code.
fn run_command(arguments: &StampArguments, file: &ConfigFile) -> Outcome<ExitCode> {
    let settings = file.stamp(&arguments.keys, arguments.admin.as_ref())?;
    let control = daemon::take_control(settings.admin.as_ref(), "stamp", false)?;
    let (events, waiting) = events();
    command::catch_signals(events.clone(), true)?;
    let mut stamping = Stamping::start(&settings)?;
    let mut via = settings.via.clone();
    if via == Via::default() {
        via = split(&stamping.keys.waypoints_of_files()).map_err(|_| {
            Failure::setup_text("no waypoints; give --via W1,W2, or capability files")
        })?;
    }
    let way = stamping.instance.way(&via, &stamping.keys, clock::now().unix_ms)?;
    if let Err(missing) = stamping.wait_for_keys(&waiting) {
        if settings.fallback == Fallback::Drop {
            return Err(missing);
        }
        tracing::warn!(%missing, "packets go the usual way, unstamped");
    }
    if let Some(admin) = control.admin() {
        tracing::info!(%admin, "status: rhumb stamp status --admin");
    }
    let group = Group::make(stamping.instance.number(), stamping.instance.mark(way))?;
    match Running::start(&arguments.command, &group, events)? {
        Ok(running) => {
            let code = attend(&mut stamping, &control, &running, &group, &waiting)?;
            Ok(ExitCode::from(code))
        }
        Err(error) => {
            let name = arguments.command.first().map(|it| it.to_string_lossy().into_owned());
            remark(format_args!("rhumb: {} cannot be run: {error}", name.unwrap_or_default()));
            Ok(ExitCode::from(command::exit_code_of_start(&error)))
        }
    }
}

/// Stamps until the last process of the command has ended.
fn attend(
    stamping: &mut Stamping,
    control: &Control,
    running: &Running,
    group: &Group,
    events: &Receiver<Event>,
) -> Outcome<u8> {
    let mut code = None;
    loop {
        stamping.turn(false)?;
        control.answer(|| report::snapshot(stamping, &[]));
        match stamping.next(events) {
            Some(Event::Ended(status)) => {
                code = Some(command::exit_code(status));
                if group.is_populated() {
                    tracing::warn!(
                        "processes of the command still run: stamping goes on until they end"
                    );
                }
            }
            Some(Event::Signal(_)) if code.is_some() => {
                group.kill().map_err(Failure::operation)?;
            }
            Some(Event::Signal(number)) => running.signal(number),
            Some(Event::Asked(_)) | None => {}
        }
        if let Some(code) = code
            && !group.is_populated()
        {
            // What ended the command may have been a refusal that has only just come.
            stamping.hear_refusals();
            return Ok(code);
        }
    }
}

fn events() -> (SyncSender<Event>, Receiver<Event>) {
    sync_channel(MOST_EVENTS)
}

fn load_principal(path: &Path) -> Outcome<PrincipalFile> {
    let text = secret_file::read(path, "rhumb capability mint")?;
    PrincipalFile::parse(&text)
        .map_err(|fault| Failure::setup_text(format!("principal file {}: {fault}", path.display())))
}

/// A random number.
fn random() -> u64 {
    let mut bytes = [0; 8];
    // Ids of packets and queries need not be secret: when
    // there is no randomness, the time has to do.
    match aws_lc_rs::rand::fill(&mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => clock::unix_us(),
    }
}

/// How long a command waits for its first keys: a resolver that
/// has to ask others twice, and again over TCP.
const KEY_PATIENCE: Duration = Duration::from_secs(10);
/// How late a change of window is noticed: far below any grace.
const TURN_PAUSE: Duration = Duration::from_millis(100);
/// The same for an answer of a resolver.
const ANSWER_PAUSE: Duration = Duration::from_millis(10);
/// How late it is noticed that this host has another
/// address: as long as a lease takes to be renewed.
const SOURCE_INTERVAL: Duration = Duration::from_secs(5);
/// Signals, and a question of each connection.
const MOST_EVENTS: usize = 128;
