//! An owner says what is called under its name: once, or, while a node runs, again before that has
//! expired.
//!
//! 1. RIBs are asked for the owner's newest list, so that the new one comes behind it, whatever
//!    this machine's clock says; side by side, so that one that is away holds up nobody.
//! 2. One list is signed, of what the owner says and nothing else: no RIB's word is signed again.
//! 3. All RIBs are told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rhumb_trust::{Identity, MAX_NAMES_LIFETIME_S, Window};
use rhumb_wire::rib::{RibRequestBody, RibResponseBody};
use rhumb_wire::{Name, PublishedLabel, PublishedNames};
use serde_json::json;

use super::NotFound;
use super::renewal::Renewal;
use crate::clock;
use crate::daemon::Snapshot;
use crate::failure::{Failure, Outcome};
use crate::inquiry::{Directory, SaidOfNames, Session};
use crate::remote::Remote;

/// What an owner says, all of it.
pub type Names = BTreeMap<PublishedLabel, Name>;
/// What became of it at one RIB: stored, or why not.
pub type Told = (Remote, Option<String>);

/// What was said.
#[derive(Debug)]
pub struct Publication {
    /// The list.
    pub list: PublishedNames,
    /// The newest one that a RIB had.
    pub before: Option<PublishedNames>,
    /// By each RIB.
    pub told: Vec<Told>,
}

impl Publication {
    /// How many RIBs have not stored it.
    pub fn missing(&self) -> usize {
        self.told.iter().filter(|(_, why_not)| why_not.is_some()).count()
    }
}

/// Says `names`, and no others, of `owner`, for so long, to RIBs that are asked as `asks`.
///
/// # Errors
///
/// When they are too many, or no list can come behind the one that there is.
pub fn publish(
    owner: &Identity,
    asks: &Arc<Identity>,
    ribs: &[Remote],
    (names, lasts_s): (Names, u64),
) -> Outcome<Publication> {
    let counters = beside(ribs.to_vec(), |rib| Counter::open(owner, asks, rib));
    let before = counters.iter().filter_map(|it| it.before.as_ref());
    let before = before.max_by_key(|it| it.sequence).cloned();
    let now = clock::now();
    let behind = before.as_ref().map_or(Some(0), |it| it.sequence.checked_add(1));
    let behind = behind
        .ok_or_else(|| Failure::operation_text("no list can come behind the one that there is"))?;
    let window = Window::starting(now.unix_s(), lasts_s);
    let list = owner.publish(names, now.unix_ms.max(behind), window).map_err(Failure::setup)?;
    let told = beside(counters, |it| it.tell(owner, asks.name(), &list));
    let told = ribs.iter().copied().zip(told).collect();
    Ok(Publication { list, before, told })
}

/// A RIB, and what it knows.
struct Counter {
    session: Result<Session, String>,
    before: Option<PublishedNames>,
}

impl Counter {
    fn open(owner: &Identity, asks: &Arc<Identity>, rib: Remote) -> Self {
        let opened = (|| -> Outcome<_> {
            let mut session = Session::connect(Arc::clone(asks), rib, PATIENCE)?;
            let said = Directory::new(&mut session, asks.name()).look_up_names(owner.name())?;
            Ok((session, said))
        })();
        let refused = |problem: String| Self { session: Err(problem), before: None };
        match opened {
            // Nobody else can push the owner's numbers.
            Ok((session, SaidOfNames::List(said))) if owner.has_published(&said.0) => {
                Self { session: Ok(session), before: Some(said.0) }
            }
            Ok((_, SaidOfNames::List(..) | SaidOfNames::Unfit)) => {
                refused(NotFound::Forged(owner.name()).to_string())
            }
            Ok((_, SaidOfNames::Refused(refusal))) => {
                refused(NotFound::Refused(refusal).to_string())
            }
            Ok((session, SaidOfNames::Nothing | SaidOfNames::UnknownOwner)) => {
                Self { session: Ok(session), before: None }
            }
            Err(failure) => refused(failure.to_string()),
        }
    }

    /// Why it is not stored, if so.
    fn tell(self, owner: &Identity, asks: Name, list: &PublishedNames) -> Option<String> {
        let mut session = match self.session {
            Ok(session) => session,
            Err(why_not) => return Some(why_not),
        };
        let metadata = vec![(**owner.metadata()).clone()];
        let order = RibRequestBody::PublishNames { metadata, published: list.clone() };
        match Directory::new(&mut session, asks).request(order) {
            Ok(RibResponseBody::Stored) => None,
            Ok(RibResponseBody::Refused(refusal)) => Some(format!("it refuses: {refusal}")),
            Ok(_) => Some("it gave an answer that does not fit".to_owned()),
            Err(failure) => Some(failure.to_string()),
        }
    }
}

/// Does so for all at once.
fn beside<T: Send, R: Send>(all: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = all.into_iter().map(|one| scope.spawn(move || work(one))).collect();
        running
            .into_iter()
            .map(|it| it.join().unwrap_or_else(|it| std::panic::resume_unwind(it)))
            .collect()
    })
}

/// Says the same again before it has expired, until the process ends.
#[derive(Debug, Clone)]
pub struct Publisher(Arc<Mutex<Standing>>);

/// How what is said stands.
#[derive(Debug, Default)]
struct Standing {
    labels: usize,
    /// Of the list that all RIBs stored last.
    until_s: Option<u64>,
    /// RIBs that have not stored the last one.
    missing: usize,
}

impl Publisher {
    /// Begins to say `names` of `owner` to `ribs`, which are asked as `asks`.
    ///
    /// # Errors
    ///
    /// When they are too many for a list, or there are no threads.
    pub fn begin(
        owner: Arc<Identity>,
        asks: Arc<Identity>,
        ribs: Vec<Remote>,
        names: Names,
    ) -> Outcome<Self> {
        let window = Window::starting(clock::now().unix_s(), MAX_NAMES_LIFETIME_S);
        owner.publish(names.clone(), 0, window).map_err(Failure::setup)?;
        let standing = Standing { labels: names.len(), missing: ribs.len(), until_s: None };
        let publisher = Self(Arc::new(Mutex::new(standing)));
        let told = publisher.clone();
        let run = move || {
            let mut renewal = Renewal::at(clock::now().unix_ms);
            loop {
                let rest = renewal.rest(clock::now().unix_ms);
                if !rest.is_zero() {
                    std::thread::sleep(rest);
                    continue;
                }
                let what = (names.clone(), MAX_NAMES_LIFETIME_S);
                let said = publish(&owner, &asks, &ribs, what);
                let is_stored = said.as_ref().is_ok_and(|it| it.missing() == 0);
                told.note(said);
                renewal.said(is_stored, clock::now().unix_ms);
            }
        };
        let thread = std::thread::Builder::new().name("publisher".to_owned());
        thread.spawn(run).map_err(Failure::operation)?;
        Ok(publisher)
    }

    /// Adds how it stands to what a daemon tells.
    pub fn report(&self, snapshot: &mut Snapshot) {
        let standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now_s = clock::now().unix_s();
        snapshot.status["published_names"] = json!({
            "labels": standing.labels,
            "expires_in_s": standing.until_s.map(|until_s| until_s.saturating_sub(now_s)),
            "ribs_missing": standing.missing,
        });
    }

    fn note(&self, said: Outcome<Publication>) {
        let mut standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match said {
            Ok(said) => {
                standing.missing = said.missing();
                if standing.missing == 0 {
                    standing.until_s = Some(said.list.not_after_s);
                }
                for (rib, why_not) in said.told {
                    if let Some(why_not) = why_not {
                        let rib = rib.address;
                        tracing::warn!(%rib, %why_not, "it does not publish this node's names");
                    }
                }
            }
            Err(failure) => tracing::warn!(%failure, "names are not published"),
        }
    }
}

/// A RIB answers within milliseconds; this is for handshakes of which datagrams are lost.
const PATIENCE: Duration = Duration::from_secs(5);
