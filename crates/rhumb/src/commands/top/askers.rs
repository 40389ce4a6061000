//! Who asks daemons: a thread for each, and one that finds those that come.
//!
//! Invariant: a daemon that hangs, drips its answer or has gone holds up its own thread, for a
//! bounded time; there are at most [`MOST`] of them.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rhumb_daemon::admin::Admin;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::{status, warnings};
use rhumb_top::{Key, Look, Warning};

/// What comes to the first thread.
pub(super) enum News {
    /// What a daemon said, or that it said nothing.
    Look(Look),
    /// A daemon that is asked no more.
    Gone(String),
    /// A key.
    Key(Key),
    /// The terminal has another size.
    Resized,
    /// To leave.
    End,
    /// To stop for a while, as other programs do.
    Suspend,
    /// That this process goes on, after it was stopped.
    Resumed,
}

/// Who is to be asked.
pub(super) enum Whom {
    /// These, whether they are there or not.
    Given(Vec<Admin>),
    /// Those at the usual place, as they come and go, and one that the settings name.
    Found(Option<Admin>),
}

/// All threads that ask.
pub(super) struct Askers {
    shared: Arc<Shared>,
    news: Receiver<News>,
}

struct Shared {
    began: Instant,
    pace: Mutex<Pace>,
    changed: Condvar,
    asked: Mutex<BTreeSet<String>>,
    news: SyncSender<News>,
}

#[derive(Clone, Copy)]
struct Pace {
    interval: Duration,
    /// How often somebody asked for a look at once, or changed the interval.
    turns: u64,
}

impl Askers {
    /// Starts them. `began` is when the view did.
    pub(super) fn start(whom: Whom, began: Instant, interval: Duration) -> Outcome<Self> {
        let (sender, news) = sync_channel(QUEUE);
        let shared = Arc::new(Shared {
            began,
            pace: Mutex::new(Pace { interval, turns: 0 }),
            changed: Condvar::new(),
            asked: Mutex::default(),
            news: sender,
        });
        match whom {
            Whom::Given(admins) => {
                for admin in admins {
                    let admin = if admin == Admin::Usual { status::found()? } else { admin };
                    shared.ask(admin, Stay::Always)?;
                }
            }
            Whom::Found(named) => {
                let finder = Arc::clone(&shared);
                spawn("find", move || finder.find(named.as_ref()))?;
            }
        }
        Ok(Self { shared, news })
    }

    /// What comes next, if it does within that time.
    pub(super) fn next(&self, within: Duration) -> Option<News> {
        self.news.recv_timeout(within).ok()
    }

    /// Where else news may come from.
    pub(super) fn sender(&self) -> SyncSender<News> {
        self.shared.news.clone()
    }

    /// Asks at once, and this often from now on.
    pub(super) fn set_pace(&self, interval: Duration) {
        let mut pace = self.shared.pace.lock().unwrap_or_else(PoisonError::into_inner);
        *pace = Pace { interval, turns: pace.turns + 1 };
        self.shared.changed.notify_all();
    }

    /// How long the view has been running.
    pub(super) fn now(&self) -> Duration {
        self.shared.began.elapsed()
    }
}

/// Whether a daemon that is gone is asked on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stay {
    /// Somebody gave it.
    Always,
    /// It was found: it is shown as gone for a while.
    WhileSeen,
}

impl Shared {
    /// Looks for daemons that come, until the process ends.
    fn find(self: &Arc<Self>, named: Option<&Admin>) {
        loop {
            for admin in named.into_iter().cloned().chain(Admin::listed()) {
                // What the system refuses now, it may give at the next look.
                let _ = self.ask(admin, Stay::WhileSeen);
            }
            std::thread::sleep(FIND_INTERVAL);
        }
    }

    /// Asks a daemon from now on, unless it is asked already.
    fn ask(self: &Arc<Self>, admin: Admin, stay: Stay) -> Outcome {
        let place = admin.to_string();
        {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            if asked.len() >= MOST || !asked.insert(place.clone()) {
                return Ok(());
            }
        }
        let shared = Arc::clone(self);
        let of = place.clone();
        let started = spawn("ask", move || {
            let was_shown = shared.follow(&admin, &of, stay);
            if was_shown {
                let _ = shared.news.send(News::Gone(of.clone()));
            }
            shared.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&of);
        });
        if started.is_err() {
            self.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&place);
        }
        started
    }

    /// Asks one daemon again and again. Whether it was shown, when it is asked no more.
    fn follow(&self, admin: &Admin, place: &str, stay: Stay) -> bool {
        let (mut was_shown, mut silent_since) = (false, None);
        loop {
            let turn = Instant::now();
            let told = status::fetch(admin);
            let at = self.began.elapsed();
            let is_away = told.as_ref().is_err_and(|error| NOBODY.contains(&error.kind()));
            if is_away && !was_shown && stay == Stay::WhileSeen {
                // A socket that a killed daemon left behind: there is nothing to show of it.
                return false;
            }
            let since = *silent_since.get_or_insert(turn);
            if told.is_ok() {
                silent_since = None;
            } else if stay == Stay::WhileSeen && since.elapsed() > SHOWN_WHEN_GONE {
                return was_shown;
            }
            let warnings = told.as_ref().map(warnings::of).unwrap_or_default();
            let warnings = warnings
                .into_iter()
                .map(|it| Warning { found: it.found, advice: it.advice.to_owned() });
            let look = Look {
                place: place.to_owned(),
                at,
                told: told.map_err(|error| why(&error)),
                warnings: warnings.collect(),
            };
            if self.news.send(News::Look(look)).is_err() {
                return false;
            }
            was_shown = true;
            self.wait_for_turn(turn);
        }
    }

    /// Waits until it is time to look again, or somebody asks for it.
    fn wait_for_turn(&self, last: Instant) {
        let pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        let turns = pace.turns;
        let left = pace.interval.saturating_sub(last.elapsed()).max(LEAST_PAUSE);
        let is_same = |pace: &mut Pace| pace.turns == turns;
        drop(self.changed.wait_timeout_while(pace, left, is_same));
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Outcome {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(run).map(drop).map_err(Failure::operation)
}

/// In a few words.
fn why(error: &std::io::Error) -> String {
    match error.kind() {
        kind if NOBODY.contains(&kind) => "it has ended".to_owned(),
        ErrorKind::PermissionDenied => "it answers its own user and root only".to_owned(),
        _ => error.to_string(),
    }
}

/// Where nobody listens.
const NOBODY: [ErrorKind; 2] = [ErrorKind::NotFound, ErrorKind::ConnectionRefused];
/// Daemons that are asked: a folder may have any number of sockets.
const MOST: usize = 256;
/// Looks that wait to be drawn: whoever asks waits with the next ones.
const QUEUE: usize = 64;
const FIND_INTERVAL: Duration = Duration::from_secs(1);
/// Whatever somebody presses, a daemon has other work to do.
const LEAST_PAUSE: Duration = Duration::from_millis(100);
/// Long enough that nobody misses that one has ended.
const SHOWN_WHEN_GONE: Duration = Duration::from_secs(60);
