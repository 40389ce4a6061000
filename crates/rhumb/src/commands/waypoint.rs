//! `rhumb waypoint`: a Platypus router. Workers move packets; this thread keeps the accounts, reads
//! keys again when they change, passes on what is revoked, and answers the admin endpoint.
//!
//! 1. Look at keys and configuration; with `--check` that is all.
//! 2. Open packet I/O, give up privileges, start workers; ask the key server what is revoked, for
//!    [`FOLLOW_DEADLINE`] at most, and only then give them keys.
//! 3. Say that packets are forwarded, and do what is due twice a second until a signal says stop.
//! 4. End the workers, and write the accounts for the last time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver as Channel, RecvTimeoutError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rhumb_capability::{ErrorRelay, VerifierConfig, Waypoint};
use rhumb_daemon::cli::{WaypointArguments, WaypointCommand};
use rhumb_daemon::clock;
use rhumb_daemon::config::{ConfigFile, WaypointSettings};
use rhumb_daemon::daemon::{self, Control, Hangup};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::output::Form;
use rhumb_daemon::privileges::{self, Keep};
use rhumb_daemon::supervisor::{self, Heart};
use rhumb_daemon::waypoint::books::Books;
use rhumb_daemon::waypoint::follow::{self, News};
use rhumb_daemon::waypoint::kept::Found;
use rhumb_daemon::waypoint::masters::MasterFiles;
use rhumb_daemon::waypoint::report::Followed;
use rhumb_daemon::waypoint::{FOLLOW_DEADLINE, TICK};
use rhumb_io::Wake;
use rhumb_io::ip::Paths;
use rhumb_waypoint::{MasterText, Totals};
use serde::Serialize;

use io::{Inlet, Places, Receiver};
use report::{Facts, Ready};
use worker::{Handle, Order, Worker};

mod accounts;
mod io;
mod report;
mod worker;

/// Runs the command.
pub(crate) fn run(
    arguments: &WaypointArguments,
    file: &ConfigFile,
    with_parent: bool,
    form: Form,
) -> Outcome {
    if let Some(WaypointCommand::Accounts(arguments)) = &arguments.command {
        return accounts::run(arguments, file, form);
    }
    let settings = file.waypoint(arguments)?;
    let mut masters = MasterFiles::read(&settings.masters, &settings.verifier.addresses)?;
    let feed = settings.follow.as_ref().map(follow::feed).transpose()?;
    if arguments.check {
        form.print(&Checked {
            addresses: settings.verifier.addresses,
            masters: masters.all().len(),
        });
        return Ok(());
    }
    let Places { own, others, name } = io::open(&settings)?;
    // Before there are other threads.
    privileges::give_up(settings.run_as, Keep::Nothing)?;
    masters.read_again(true).map_err(|failure| {
        Failure::setup_text(format!(
            "{failure}; keys are read again when they change: give them to the user that the waypoint runs as"
        ))
    })?;
    let control = daemon::take_control(settings.admin.as_ref(), "waypoint", with_parent)?;
    let hangup = Hangup::catch(control.wake().clone())?;
    let now_s = clock::now().unix_s();
    let books =
        Books::open(settings.accounts.as_deref(), settings.period, settings.workers.into(), now_s)?;
    let config = verifier_config(&settings)?;
    let (workers, inlets) = start_workers(&settings, &config, own, control.wake())?;
    let (news, found) = match settings.follow.as_ref().zip(feed) {
        Some((settings, feed)) => {
            let (news, found) = follow::start(settings, feed, control.wake().clone())?;
            (Some(news), found)
        }
        None => (None, Found::Nothing),
    };
    let mut keeper = Keeper {
        addresses: config.addresses,
        io: name,
        workers,
        receivers: Vec::new(),
        masters,
        hangup,
        books,
        followed: news.is_some().then(Followed::default),
        news,
        started: Instant::now(),
        save_failures: 0,
    };
    keeper.wait_for_revocations(&control, &found)?;
    keeper.install_masters()?;
    for (kind, io) in others {
        keeper.receivers.push(Receiver::start(kind, io, inlets.clone(), config.port)?);
    }
    let ready = Ready {
        addresses: keeper.addresses.clone(),
        io: keeper.io.clone(),
        admin: control.admin(),
    };
    supervisor::say_ready(form, &ready);
    keeper.serve(&control)
}

/// What all verifiers have in common.
fn verifier_config(settings: &WaypointSettings) -> Outcome<VerifierConfig> {
    let mut config = settings.verifier.clone();
    config.start_us = clock::unix_us();
    if !settings.deliver_here {
        let mut paths = Paths::new().map_err(Failure::setup)?;
        config.refused_destinations = paths.host_addresses().map_err(Failure::setup)?;
        // Those of a TUN device are not the host's.
        config.refused_destinations.extend(&settings.verifier.addresses);
    }
    Ok(config)
}

type Place = Box<dyn rhumb_io::ip::IpIo + Send>;

/// Starts them without keys: nothing passes yet.
fn start_workers(
    settings: &WaypointSettings,
    config: &VerifierConfig,
    own: Vec<Place>,
    wake: &Wake,
) -> Outcome<(Vec<Handle>, Vec<Inlet>)> {
    let mut inlets = Vec::new();
    let mut queues = Vec::new();
    for _ in 0..own.len() {
        let (packets, handed) = sync_channel(io::QUEUE);
        let wake = Wake::new().map_err(Failure::setup)?;
        inlets.push(Inlet { packets, wake, overflows: Arc::new(AtomicU64::new(0)) });
        queues.push(handed);
    }
    let mut handles = Vec::new();
    for (number, (io, handed)) in own.into_iter().zip(queues).enumerate() {
        let mut core = config.clone();
        core.core = number as u16;
        let (tell, orders) = channel();
        let totals = Arc::new(Mutex::new(Totals::default()));
        let relay =
            if number == 0 { Some(ErrorRelay::new(config).map_err(Failure::setup)?) } else { None };
        let worker = Worker {
            number,
            waypoint: Waypoint::new(core).map_err(Failure::setup)?,
            relay,
            io,
            orders,
            handed,
            inlets: inlets.clone(),
            port: config.port,
            totals: Arc::clone(&totals),
        };
        let (pin, control) = (settings.pin, wake.clone());
        let run = move || {
            if pin && let Err(error) = rhumb_io::pin_thread(number) {
                tracing::warn!(%error, worker = number, "a worker cannot be kept on its core");
            }
            if let Err(error) = worker.run() {
                tracing::error!(%error, worker = number, "a worker has to end");
            }
            control.wake();
        };
        let thread = std::thread::Builder::new()
            .name(format!("worker {number}"))
            .spawn(run)
            .map_err(Failure::operation)?;
        let wake = inlets[number].wake.clone();
        handles.push(Handle { orders: tell, wake, totals, thread: Some(thread) });
    }
    Ok((handles, inlets))
}

fn install(master: &MasterText) -> Order {
    Order::Install(master.waypoint, Box::new((master.keys(), master.keys())))
}

/// What this thread looks after.
struct Keeper {
    addresses: Vec<IpAddr>,
    io: String,
    /// Dropped after the receivers.
    workers: Vec<Handle>,
    receivers: Vec<Receiver>,
    masters: MasterFiles,
    hangup: Hangup,
    books: Books,
    news: Option<Channel<News>>,
    followed: Option<Followed>,
    started: Instant,
    save_failures: u64,
}

impl Keeper {
    /// Packets are not forwarded for whom has been revoked, if the key server says so in time.
    fn wait_for_revocations(&mut self, control: &Control, found: &Found) -> Outcome {
        let until = Instant::now() + FOLLOW_DEADLINE;
        while self.followed.is_some_and(|it| !it.is_current) && !control.is_stopped() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return found.without_server();
            }
            control.wake().wait(left).map_err(Failure::operation)?;
            self.take_news();
        }
        Ok(())
    }

    /// When this returns, packets pass: without a key none does.
    fn install_masters(&self) -> Outcome {
        let (fence, is_done) = channel();
        for worker in &self.workers {
            for master in self.masters.all() {
                worker.tell(install(master));
            }
            worker.tell(Order::Fence(fence.clone()));
        }
        drop(fence);
        match is_done.recv_timeout(follow::FORCE_PATIENCE) {
            Err(RecvTimeoutError::Disconnected) => Ok(()),
            _ => Err(Failure::operation_text("a worker takes no keys; the log says why")),
        }
    }

    /// Until a signal says stop.
    fn serve(mut self, control: &Control) -> Outcome {
        let mut failed = false;
        let mut heart = Heart::new(Instant::now());
        while !control.is_stopped() && !failed {
            let now = clock::now();
            heart.beat(now.instant);
            self.take_news();
            self.read_keys_again();
            self.keep_accounts(now.unix_s());
            control.answer(|| self.snapshot());
            failed = self.workers.iter().any(Handle::has_ended);
            control.wake().wait(TICK).map_err(Failure::operation)?;
        }
        self.finish()?;
        if failed { Err(Failure::operation_text("a worker ended")) } else { Ok(()) }
    }

    fn take_news(&mut self) {
        let Some(news) = &self.news else { return };
        for piece in news.try_iter() {
            let followed = self.followed.get_or_insert_default();
            followed.take(&piece);
            if let News::Revoked { serial, revocations, is_current: _, done } = piece {
                for worker in &self.workers {
                    worker.tell(Order::Revoke(Arc::clone(&revocations), done.clone()));
                }
                tracing::info!(serial, "revocations taken");
            }
        }
    }

    fn read_keys_again(&mut self) {
        let reloading = self.hangup.take();
        let change = match self.masters.read_again(reloading.is_some()) {
            Ok(None) => return,
            Ok(Some(change)) => change,
            Err(failure) => {
                tracing::error!("{failure}; going on with the keys that are there");
                return;
            }
        };
        for worker in &self.workers {
            for master in &change.install {
                worker.tell(install(master));
            }
            for (address, epoch) in &change.retire {
                worker.tell(Order::Retire(*address, *epoch));
            }
        }
        tracing::warn!(
            keys = change.install.len(),
            retired = change.retire.len(),
            "master keys read again"
        );
    }

    fn keep_accounts(&mut self, now_s: u64) {
        for (number, worker) in self.workers.iter().enumerate() {
            let totals = worker.totals.lock().unwrap_or_else(PoisonError::into_inner);
            self.books.take(number, &totals, now_s);
        }
        if let Err(error) = self.books.save_if_due(now_s) {
            if self.save_failures == 0 {
                tracing::error!(%error, "the accounts cannot be written; trying again");
            }
            self.save_failures += 1;
        }
    }

    fn snapshot(&self) -> daemon::Snapshot {
        let mut sum = Totals::default();
        for worker in &self.workers {
            sum.add(&worker.totals.lock().unwrap_or_else(PoisonError::into_inner));
        }
        report::snapshot(&Facts {
            addresses: &self.addresses,
            io: &self.io,
            uptime: self.started.elapsed(),
            workers: self.workers.len(),
            totals: &sum,
            book: &self.books.book(clock::now().unix_s()),
            followed: self.followed,
            save_failures: self.save_failures,
        })
    }

    /// Ends the workers, whose last figures are taken.
    fn finish(mut self) -> Outcome {
        self.receivers.clear();
        for worker in &mut self.workers {
            worker.tell(Order::End);
            if let Some(thread) = worker.thread.take() {
                // If it panicked, it has said so.
                let _ = thread.join();
            }
        }
        let now_s = clock::now().unix_s();
        self.keep_accounts(now_s);
        self.books.save(now_s).map_err(|error| {
            Failure::operation_text(format!("the accounts cannot be written: {error}"))
        })
    }
}

/// What `--check` prints.
struct Checked {
    addresses: Vec<IpAddr>,
    masters: usize,
}

impl std::fmt::Display for Checked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { addresses, masters } = self;
        write!(f, "in order: {} addresses, {masters} master keys", addresses.len())
    }
}

impl Serialize for Checked {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let object = HashMap::from([
            ("checked", serde_json::json!(true)),
            ("addresses", serde_json::json!(self.addresses)),
            ("masters", serde_json::json!(self.masters)),
        ]);
        object.serialize(serializer)
    }
}
