//! A router at the border of a trust domain: the thread that reads keys and
//! capabilities again when they change, follows what is revoked, and keeps the
//! accounts; and what the worker has to do for it.
//!
//! 1. At the start everything is read, and what is wrong is said; revocations are waited for,
//!    [`FOLLOW_DEADLINE`] at most.
//! 2. From then on the thread looks twice a second, and sends orders
//!    that the worker takes between two batches.
//! 3. The worker lays its counters down twice a second; the thread
//!    makes the accounts of them, and writes them.
//!
//! It is a waypoint's work, and is done by the same pieces ([`rhumb_daemon::waypoint`]).

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use rhumb_capability::{Epoch, EpochKeys, Revocations};
use rhumb_daemon::clock;
use rhumb_daemon::config::{BorderSettings, RouterSettings};
use rhumb_daemon::daemon::{Hangup, Metric, Snapshot};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::waypoint::books::Books;
use rhumb_daemon::waypoint::follow::{self, News};
use rhumb_daemon::waypoint::kept::Found;
use rhumb_daemon::waypoint::masters::MasterFiles;
use rhumb_daemon::waypoint::report::{Followed, accounts, by_principal};
use rhumb_daemon::waypoint::{FOLLOW_DEADLINE, TICK};
use rhumb_io::Wake;
use rhumb_switch::{Border, Stamps, Switch, short_address};
use rhumb_trust::Now;
use rhumb_waypoint::Totals;
use serde_json::json;

use super::stamps::StampFiles;

/// The worker's end.
pub(super) struct BorderThread {
    orders: Receiver<Order>,
    totals: Arc<Mutex<Totals>>,
    shown: Arc<Mutex<Shown>>,
    next_copy: Instant,
    stop: Arc<AtomicBool>,
    wake: Wake,
    thread: Option<JoinHandle<Outcome>>,
}

/// What the worker is to change in the switch.
enum Order {
    Install(Box<EpochKeys>),
    Retire(Epoch),
    /// What is revoked. With the last `done` that is dropped, it is in force.
    Revoke(Arc<Revocations>, Sender<()>),
    Stamp(Box<Stamps>),
}

/// What the thread knows, for status and metrics.
#[derive(Debug, Clone, Copy, Default)]
struct Shown {
    /// `None` when no key server is followed.
    followed: Option<Followed>,
    save_failures: u64,
}

/// The thread's end.
struct Keeper {
    demands: Option<Demands>,
    stamps: StampFiles,
    hangup: Hangup,
    orders: Sender<Order>,
    worker: Wake,
    wake: Wake,
    totals: Arc<Mutex<Totals>>,
    shown: Arc<Mutex<Shown>>,
    stop: Arc<AtomicBool>,
}

/// What there is to do for a router that demands capabilities.
struct Demands {
    masters: MasterFiles,
    books: Books,
    news: Option<Receiver<News>>,
}

impl BorderThread {
    /// Readies the switch, and starts the thread; `None`
    /// where nothing is demanded and nobody demands.
    pub(super) fn start(
        settings: &RouterSettings,
        switch: &mut Switch,
        worker: &Wake,
    ) -> Outcome<Option<Self>> {
        if settings.border.is_none() && settings.stamps.is_empty() {
            return Ok(None);
        }
        let wake = Wake::new().map_err(Failure::setup)?;
        let hangup = Hangup::catch(wake.clone())?;
        let (send, orders) = channel();
        let shown = Arc::default();
        let demands = settings.border.as_ref();
        let demands =
            demands.map(|border| Demands::open(border, switch, &wake, &shown)).transpose()?;
        let mut stamps = StampFiles::open(&settings.stamps, &wake)?;
        if let Some(stamps) = stamps.read_again(true)? {
            switch.set_stamps(Some(stamps));
        }
        let totals = Arc::default();
        let stop = Arc::default();
        let keeper = Keeper {
            demands,
            stamps,
            hangup,
            orders: send,
            worker: worker.clone(),
            wake: wake.clone(),
            totals: Arc::clone(&totals),
            shown: Arc::clone(&shown),
            stop: Arc::clone(&stop),
        };
        let thread = std::thread::Builder::new()
            .name("border".to_owned())
            .spawn(move || keeper.run())
            .map_err(Failure::operation)?;
        let (next_copy, thread) = (Instant::now(), Some(thread));
        Ok(Some(Self { orders, totals, shown, next_copy, stop, wake, thread }))
    }

    /// Does what the thread says, and lays down what was counted when that is due.
    pub(super) fn advance(&mut self, switch: &mut Switch, now: Now) {
        for order in self.orders.try_iter() {
            match order {
                Order::Stamp(stamps) => switch.set_stamps(Some(*stamps)),
                order => {
                    let Some(border) = switch.border_mut() else { continue };
                    match order {
                        Order::Install(keys) => border.verifier_mut().install_epoch(*keys),
                        Order::Retire(epoch) => border.verifier_mut().retire_epoch(epoch),
                        Order::Revoke(revocations, done) => {
                            border.verifier_mut().set_revocations(revocations);
                            drop(done);
                        }
                        Order::Stamp(_) => {}
                    }
                }
            }
        }
        if now.instant >= self.next_copy {
            self.next_copy = now.instant + TICK;
            self.copy(switch);
        }
    }

    /// When to call [`BorderThread::advance`] at the latest.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.next_copy
    }

    fn copy(&self, switch: &Switch) {
        let Some(border) = switch.border() else { return };
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.take_accounts(border.verifier().accounts());
        totals.drops = border.drops();
        totals.epochs.clear();
        totals.epochs.extend(border.verifier().live_epochs());
    }

    /// Ends the thread, which writes the accounts for the last time.
    pub(super) fn finish(mut self, switch: &Switch) -> Outcome {
        self.copy(switch);
        self.stop.store(true, Ordering::Release);
        self.wake.wake();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            _ => Err(Failure::operation_text("the thread of the border ended")),
        }
    }

    /// Adds what there is to say.
    pub(super) fn report(&self, snapshot: &mut Snapshot) {
        let totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        let Shown { followed, save_failures } =
            *self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let epochs: Vec<u8> = totals.epochs.iter().map(|epoch| epoch.0).collect();
        snapshot.status["border"] = json!({
            "epochs": epochs,
            "proven_pdus": totals.total.packets,
            "proven_bytes": totals.total.bytes,
            "accounts": accounts(&totals),
            "accounts_not_written": save_failures,
            "revocations": followed,
        });
        snapshot.metrics.push(REFUSED.by_reason(totals.drops()));
        snapshot.metrics.extend(by_principal(&totals));
        snapshot.metrics.push(SAVE_FAILURES.is(save_failures));
        snapshot.metrics.extend(followed.iter().flat_map(Followed::metrics));
    }
}

impl Demands {
    fn open(
        settings: &BorderSettings,
        switch: &mut Switch,
        wake: &Wake,
        shown: &Mutex<Shown>,
    ) -> Outcome<Self> {
        let own: IpAddr = short_address(&switch.name());
        let masters = MasterFiles::read(&settings.masters, &[own])?;
        let foreign = settings.foreign.iter().copied();
        let mut config = settings.verifier.clone();
        config.start_us = clock::unix_us();
        let mut border = Border::new(&switch.name(), foreign, config).map_err(Failure::setup)?;
        if settings.is_domains {
            border = border.of_domain();
        }
        for master in masters.all() {
            border.verifier_mut().install_epoch(master.keys());
        }
        let now_s = clock::now().unix_s();
        let books = Books::open(settings.accounts.as_deref(), settings.period, 1, now_s)?;
        let news = match &settings.follow {
            None => None,
            Some(follow) => {
                let (news, found) = follow::start(follow, follow::feed(follow)?, wake.clone())?;
                let followed = wait_for_revocations(&news, &found, &mut border)?;
                shown.lock().unwrap_or_else(PoisonError::into_inner).followed = Some(followed);
                Some(news)
            }
        };
        switch.set_border(Some(border));
        Ok(Self { masters, books, news })
    }
}

/// Nothing passes for whom has been revoked, if the key server says so in time, or it was kept.
fn wait_for_revocations(
    news: &Receiver<News>,
    found: &Found,
    border: &mut Border,
) -> Outcome<Followed> {
    let mut followed = Followed::default();
    let until = Instant::now() + FOLLOW_DEADLINE;
    while !followed.is_current {
        let left = until.saturating_duration_since(Instant::now());
        let Ok(piece) = news.recv_timeout(left) else {
            found.without_server()?;
            break;
        };
        followed.take(&piece);
        if let News::Revoked { revocations, .. } = piece {
            border.verifier_mut().set_revocations(revocations);
        }
    }
    Ok(followed)
}

impl Keeper {
    /// Until the router ends.
    fn run(mut self) -> Outcome {
        while !self.stop.load(Ordering::Acquire) {
            let asked = self.hangup.take();
            self.take_news();
            self.read_masters(asked.is_some());
            self.read_stamps(asked.is_some());
            drop(asked);
            self.keep_accounts();
            self.wake.wait(TICK).map_err(Failure::operation)?;
        }
        self.keep_accounts();
        let Some(Demands { mut books, .. }) = self.demands else { return Ok(()) };
        books.save(clock::now().unix_s()).map_err(|error| {
            Failure::operation_text(format!("the accounts cannot be written: {error}"))
        })
    }

    fn order(&self, order: Order) {
        // A worker that is gone has no use for it.
        let _ = self.orders.send(order);
        self.worker.wake();
    }

    fn take_news(&self) {
        let Some(Demands { news: Some(news), .. }) = &self.demands else { return };
        for piece in news.try_iter() {
            let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            let followed = shown.followed.get_or_insert_default();
            followed.take(&piece);
            drop(shown);
            if let News::Revoked { serial, revocations, is_current: _, done } = piece {
                self.order(Order::Revoke(revocations, done));
                tracing::info!(serial, "revocations taken");
            }
        }
    }

    fn read_masters(&mut self, asked: bool) {
        let Some(demands) = &mut self.demands else { return };
        let mut orders = Vec::new();
        match demands.masters.read_again(asked) {
            Ok(None) => return,
            Ok(Some(change)) => {
                let install = change.install.iter();
                orders.extend(install.map(|master| Order::Install(Box::new(master.keys()))));
                orders.extend(change.retire.iter().map(|(_, epoch)| Order::Retire(*epoch)));
                let (keys, retired) = (change.install.len(), change.retire.len());
                tracing::warn!(keys, retired, "master keys read again");
            }
            Err(failure) => {
                tracing::error!("{failure}; going on with the keys that are there");
            }
        }
        orders.into_iter().for_each(|order| self.order(order));
    }

    fn read_stamps(&mut self, asked: bool) {
        match self.stamps.read_again(asked) {
            Ok(None) => {}
            Ok(Some(stamps)) => {
                tracing::info!("capabilities read again");
                self.order(Order::Stamp(Box::new(stamps)));
            }
            Err(failure) => {
                tracing::error!("{failure}; going on with the capabilities that are there");
            }
        }
    }

    fn keep_accounts(&mut self) {
        let Some(Demands { books, .. }) = &mut self.demands else { return };
        let now_s = clock::now().unix_s();
        books.take(0, &self.totals.lock().unwrap_or_else(PoisonError::into_inner), now_s);
        if let Err(error) = books.save_if_due(now_s) {
            let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            if shown.save_failures == 0 {
                tracing::error!(%error, "the accounts cannot be written; trying again");
            }
            shown.save_failures += 1;
        }
    }
}

/// `binding` is forgery, or a capability of another master;
/// `window_expired` and `epoch` a peer that is not renewed.
const REFUSED: Metric = Metric::counter(
    "rhumb_switch_refused_capabilities_total",
    "Stamped PDUs whose capability was refused, by reason.",
);
/// Anything but zero needs a look at disk and log: what is not written is lost with the process.
const SAVE_FAILURES: Metric = Metric::counter(
    "rhumb_switch_accounts_write_failures_total",
    "Attempts to write accounts that failed.",
);
