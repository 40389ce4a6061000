//! Names that owners publish under their own, looked up at RIBs: `camera.alice` is whoever alice
//! calls so ([decision 0086](../../../docs/decisions/0086-published-names.md)).
//!
//! 1. [`Finder::find`] knows the owner's list, or waits with all others who ask for the same owner.
//! 2. A thread asks the RIBs ([`Inquirer`]), one owner after the other, those of the user's book
//!    first, and believes of the answers what verifies and is not older than what it has seen.
//! 3. What it learned holds for `FRESH`, and no longer than the list says.
//!
//! INVARIANT: whoever is asked for any number of labels asks a RIB once for each owner in that
//! time. Owners that only a question names have a few places, and a few questions a second, and
//! take nothing from those in the book.

mod desk;
mod inquirer;
pub mod publishing;
mod renewal;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rhumb_trust::{Identity, StatementError, Verified, check_names_window};
use rhumb_wire::rib::Refusal;
use rhumb_wire::{Name, PublishedLabel, PublishedNames, Role};

use crate::cli::AskedRibs;
use crate::clock;
use crate::config::NodeSettings;
use crate::failure::{Failure, Outcome};
use crate::key;
use crate::membership::check_peer;
use crate::names::{ByOwner, Called, label_of};
use crate::remote::Remote;
use crate::running::{Request, Running};
use desk::{Desk, Step};
pub use inquirer::Inquirer;

/// The newest list of an owner that RIBs show, which its owner signed; or why there is none.
pub type Answer = Result<Arc<Verified<PublishedNames>>, NotFound>;

/// Why a label under a name is nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotFound {
    /// There is no RIB to ask.
    NoRib,
    /// No RIB knows the owner.
    UnknownOwner(Name),
    /// The owner publishes nothing.
    Nothing(Name),
    /// It publishes others.
    NoLabel(PublishedLabel, Name),
    /// Its list has ended.
    Expired(Name, u64),
    /// Its list has not begun.
    NotYetValid(Name, u64),
    /// A RIB showed what is not the owner's word.
    Forged(Name),
    /// A RIB showed an older list than was seen before.
    Older(Name),
    /// The RIBs refuse to answer.
    Refused(Refusal),
    /// No RIB answers.
    Silent(String),
    /// Too much is asked already.
    Busy,
}

impl NotFound {
    /// Whether it is so, as far as RIBs say the truth; otherwise it is not known.
    pub fn is_certain(&self) -> bool {
        use NotFound::{Expired, NoLabel, NoRib, NotYetValid, Nothing, UnknownOwner};
        matches!(
            self,
            NoRib | UnknownOwner(_) | Nothing(_) | NoLabel(..) | Expired(..) | NotYetValid(..)
        )
    }

    /// In a word, without a name: for the log.
    fn reason(&self) -> &'static str {
        match self {
            Self::NoRib => "no_rib",
            Self::UnknownOwner(_) => "unknown_owner",
            Self::Nothing(_) => "nothing",
            Self::NoLabel(..) => "no_label",
            Self::Expired(..) => "expired",
            Self::NotYetValid(..) => "not_yet_valid",
            Self::Forged(_) => "forged",
            Self::Older(_) => "older",
            Self::Refused(refusal) => refusal.as_str(),
            Self::Silent(_) => "silent",
            Self::Busy => "busy",
        }
    }
}

impl std::error::Error for NotFound {}

impl std::fmt::Display for NotFound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let called = |owner: &Name| label_of(*owner).unwrap_or_else(|| owner.to_string());
        match self {
            Self::NoRib => f.write_str(
                "a label under a name is looked up at a RIB, and none is given: --rib NAME@ADDR, or `rib` in [node] of the file",
            ),
            Self::UnknownOwner(owner) => {
                write!(f, "no RIB that was asked knows {}: it has published nothing there, and has not joined", called(owner))
            }
            Self::Nothing(owner) => {
                let owner = called(owner);
                write!(f, "{owner} publishes no names: its owner does, with rhumb name publish")
            }
            Self::NoLabel(label, owner) => {
                let owner = called(owner);
                write!(f, "{owner} calls nobody {label}: rhumb name published {owner} lists whom it names")
            }
            Self::Expired(owner, ended_ago_s) => {
                let owner = called(owner);
                write!(f, "what {owner} publishes has expired {ended_ago_s} s ago: its owner publishes anew")
            }
            Self::NotYetValid(owner, starts_in_s) => write!(
                f,
                "what {} publishes is not valid for another {starts_in_s} s: look at both clocks",
                called(owner)
            ),
            Self::Forged(owner) => write!(
                f,
                "a RIB showed names that {} has not signed; do not trust that RIB",
                called(owner)
            ),
            Self::Older(owner) => write!(
                f,
                "a RIB showed older names of {} than were seen before; it hides the newer ones, or was restored",
                called(owner)
            ),
            Self::Refused(refusal) => write!(
                f,
                "the RIB refuses to answer: {refusal}; its operator admits this name, or it is of an earlier version"
            ),
            Self::Silent(why) => write!(f, "no RIB answers: {why}"),
            Self::Busy => f.write_str("too many names are being looked up; try again"),
        }
    }
}

/// Who has this label in a list, if that holds now.
///
/// # Errors
/// When nobody has.
pub fn pick(list: &PublishedNames, label: &PublishedLabel, now_s: u64) -> Result<Name, NotFound> {
    let owner = list.owner;
    match check_names_window(list, now_s) {
        Ok(()) => {}
        Err(StatementError::Expired { ended_ago_s }) => {
            return Err(NotFound::Expired(owner, ended_ago_s));
        }
        Err(StatementError::NotYetValid { starts_in_s }) => {
            return Err(NotFound::NotYetValid(owner, starts_in_s));
        }
        Err(_) => return Err(NotFound::Forged(owner)),
    }
    match list.names.get(label) {
        Some(name) => Ok(*name),
        None if list.names.is_empty() => Err(NotFound::Nothing(owner)),
        None => Err(NotFound::NoLabel(label.clone(), owner)),
    }
}

/// Finds whom `called` means, once, for a command that goes there by a node of its own: by the RIBs
/// that it is given, or those of the file.
///
/// # Errors
/// When nobody is called so, no RIB says, or routers would not carry there.
pub fn find_once(called: &Called, asks: &AskedRibs, settings: &NodeSettings) -> Outcome<Name> {
    let name = match called {
        Called::Name(name) => *name,
        Called::Published(it) => ask_once(it, asks.or(&settings.ribs), settings)?,
    };
    check_peer(settings, name).map(|()| name)
}

/// As [`find_once`], for a command that the running node works for: by the RIBs that it is given,
/// or else by those of the node.
///
/// # Errors
/// As there.
pub async fn find_by(
    running: &Running,
    called: &Called,
    asks: &AskedRibs,
    settings: &NodeSettings,
) -> Outcome<Name> {
    let name = match called {
        Called::Published(ByOwner { owner, label, .. }) if asks.rib.is_empty() => {
            let (owner, label) = (owner.to_string(), label.to_string());
            let asked = running.ask(&Request::Find { owner, label }).await;
            let (answer, _) = asked.map_err(Failure::operation)?;
            let name = answer.done()?.name.unwrap_or_default();
            name.parse().map_err(Failure::operation)?
        }
        called => return find_once(called, asks, settings),
    };
    check_peer(settings, name).map(|()| name)
}

fn ask_once(called: &ByOwner, ribs: &[Remote], settings: &NodeSettings) -> Outcome<Name> {
    if ribs.is_empty() {
        return Err(Failure::setup(NotFound::NoRib));
    }
    let own = settings.key.as_deref().map(|path| key::load(path, Role::Node)).transpose()?;
    let list = Inquirer::new(own, ribs)?.ask(called.owner).map_err(Failure::setup)?;
    pick(&list, &called.label, clock::now().unix_s()).map_err(Failure::setup)
}

/// Whoever has one can ask; when nobody has it any more, its thread ends.
#[derive(Clone)]
pub struct Finder(Option<Arc<Handle>>);

struct Handle(Arc<Counter>);

/// Where questions wait for the thread.
struct Counter {
    desk: Mutex<Desk>,
    wake: Condvar,
}

impl Finder {
    /// Begins to ask these RIBs; without any, nothing is found. Those that refuse strangers are
    /// asked as `own`, which then hears nothing else of them: not for who is told of removals.
    ///
    /// # Errors
    /// When there are no threads.
    pub fn start(own: Option<&Arc<Identity>>, ribs: &[Remote]) -> Outcome<Self> {
        if ribs.is_empty() {
            return Ok(Self(None));
        }
        let mut inquirer = Inquirer::new(own.cloned(), ribs)?;
        let counter = Arc::new(Counter { desk: Mutex::default(), wake: Condvar::new() });
        let asked = Arc::clone(&counter);
        let thread = std::thread::Builder::new().name("finder".to_owned());
        let run = move || {
            while let Some(owner) = asked.next() {
                let answer = inquirer.ask(owner);
                if let Some(problem) = answer.as_ref().err().filter(|it| !it.is_certain()) {
                    tracing::warn!(reason = problem.reason(), "published names are not looked up");
                }
                asked.lock().answered(owner, answer, clock::now().instant);
            }
        };
        thread.spawn(run).map_err(Failure::operation)?;
        Ok(Self(Some(Arc::new(Handle(counter)))))
    }

    /// Whom `called` means.
    ///
    /// # Errors
    /// When nobody is called so, or that is not known.
    pub async fn find(&self, called: &Called) -> Result<Name, NotFound> {
        let ByOwner { owner, label, is_chosen } = match called {
            Called::Name(name) => return Ok(*name),
            Called::Published(it) => it,
        };
        let Self(Some(handle)) = self else { return Err(NotFound::NoRib) };
        let step = handle.0.lock().ask(*owner, *is_chosen, clock::now().instant);
        let answer = match step {
            Step::Known(answer) => answer,
            Step::Waits(answer) => {
                handle.0.wake.notify_one();
                answer.await.unwrap_or(Err(NotFound::Busy))
            }
            Step::Busy => Err(NotFound::Busy),
        };
        pick(&*answer?, label, clock::now().unix_s())
    }
}

impl Counter {
    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next owner to ask for, when there is one; `None` at the end.
    fn next(&self) -> Option<Name> {
        let mut desk = self.lock();
        loop {
            if desk.has_ended {
                return None;
            }
            if let Some(owner) = desk.next() {
                return Some(owner);
            }
            desk = self.wake.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.wake.notify_one();
    }
}

impl std::fmt::Debug for Finder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Finder").field("asks", &self.0.is_some()).finish_non_exhaustive()
    }
}

/// How long an answer holds: a change is seen soon, and a page that asks for labels all the time
/// has a RIB asked every now and then.
const FRESH: Duration = Duration::from_secs(5);
