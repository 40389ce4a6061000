//! `rhumb name publish`, `published` and `withdraw`: names that an owner publishes under its own.
//!
//! 1. RIBs are asked for the owner's newest list, so that the new one comes behind it, whatever
//!    this machine's clock says; side by side, so that one that is away holds up nobody.
//! 2. One list is signed, of what the command says and nothing else: no RIB's word is signed again.
//! 3. All RIBs are told.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rhumb_daemon::cli::OwnerArguments;
use rhumb_daemon::clock::{self, date_and_time};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::inquiry::{Directory, SaidOfNames, Session};
use rhumb_daemon::key;
use rhumb_daemon::names;
use rhumb_daemon::output::Form;
use rhumb_daemon::published::{Inquirer, NotFound};
use rhumb_daemon::remote::Remote;
use rhumb_trust::{Identity, MAX_NAMES_LIFETIME_S, Window, check_names_window};
use rhumb_wire::rib::{RibRequestBody, RibResponseBody};
use rhumb_wire::{Name, PublishedLabel, PublishedNames, Role};
use serde::Serialize;
use serde_json::json;

type Names = BTreeMap<PublishedLabel, Name>;

/// Says that these, and no others, are called so under the owner's name.
pub(super) fn publish(
    given: &[(PublishedLabel, Name)],
    days: u32,
    owner: &OwnerArguments,
    form: Form,
) -> Outcome {
    let mut names = Names::new();
    for (label, name) in given {
        if names.insert(label.clone(), *name).is_some_and(|other| other != *name) {
            return Err(Failure::setup_text(format!("{label} is given twice; it is one name's")));
        }
    }
    say(names, u64::from(days) * SECONDS_A_DAY, owner, form)
}

/// Takes all of them back.
pub(super) fn withdraw(owner: &OwnerArguments, form: Form) -> Outcome {
    // It lasts as long as anything that it takes back could.
    say(Names::new(), MAX_NAMES_LIFETIME_S, owner, form)
}

/// Shows what somebody publishes.
pub(super) fn show(owner: Name, ribs: &[Remote], key: Option<&Path>, form: Form) -> Outcome {
    let own = key.map(|path| key::load(path, Role::Node)).transpose()?;
    let list = Inquirer::new(own, ribs)?.ask(owner).map_err(Failure::setup)?;
    if list.names.is_empty() {
        return Err(Failure::setup(NotFound::Nothing(owner)));
    }
    let holds = check_names_window(&list, clock::now().unix_s());
    form.print(&Report { list: (**list).clone(), gone: Vec::new(), told: Vec::new() });
    holds.map_err(|error| {
        Failure::operation_text(format!("it does not hold: {error}; its owner publishes anew"))
    })
}

fn say(names: Names, lasts_s: u64, owner: &OwnerArguments, form: Form) -> Outcome {
    let identity = Arc::new(key::load_owner(&owner.key)?);
    let counters = beside(owner.rib.clone(), |rib| Counter::open(&identity, rib));
    let before = counters.iter().filter_map(|it| it.before.as_ref());
    let before = before.max_by_key(|it| it.sequence).cloned();
    let now = clock::now();
    let behind = before.as_ref().map_or(Some(0), |it| it.sequence.checked_add(1));
    let behind = behind
        .ok_or_else(|| Failure::operation_text("no list can come behind the one that there is"))?;
    let window = Window::starting(now.unix_s(), lasts_s);
    let list = identity.publish(names, now.unix_ms.max(behind), window).map_err(Failure::setup)?;
    let told = beside(counters, |mut it| it.tell(&identity, &list));
    let gone = before.into_iter().flat_map(|it| it.names.into_keys());
    let gone = gone.filter(|label| !list.names.contains_key(label)).collect();
    let told: Vec<Told> = owner.rib.iter().copied().zip(told).collect();
    let missing = told.iter().filter(|(_, why_not)| why_not.is_some()).count();
    form.print(&Report { list, gone, told });
    match missing {
        0 => Ok(()),
        _ => Err(Failure::operation_text(format!(
            "{missing} of {} RIBs did not store it, and go on to tell what they know: try again",
            owner.rib.len()
        ))),
    }
}

/// What became of it at one RIB: stored, or why not.
type Told = (Remote, Option<String>);

/// A RIB, and what it knows.
struct Counter {
    session: Result<Session, String>,
    before: Option<PublishedNames>,
}

impl Counter {
    fn open(identity: &Arc<Identity>, rib: Remote) -> Self {
        let opened = (|| {
            let mut session = Session::connect(Arc::clone(identity), rib, PATIENCE)?;
            let said =
                Directory::new(&mut session, identity.name()).look_up_names(identity.name())?;
            Ok((session, said))
        })();
        match opened {
            // Nobody else can push the owner's numbers.
            Ok((session, SaidOfNames::List(said))) if identity.has_published(&said.0) => {
                Self { session: Ok(session), before: Some(said.0) }
            }
            Ok((_, SaidOfNames::List(..) | SaidOfNames::Unfit)) => {
                let problem = NotFound::Forged(identity.name());
                Self { session: Err(problem.to_string()), before: None }
            }
            Ok((_, SaidOfNames::Refused(refusal))) => {
                Self { session: Err(NotFound::Refused(refusal).to_string()), before: None }
            }
            Ok((session, SaidOfNames::Nothing | SaidOfNames::UnknownOwner)) => {
                Self { session: Ok(session), before: None }
            }
            Err(failure) => {
                let failure: Failure = failure;
                Self { session: Err(failure.to_string()), before: None }
            }
        }
    }

    /// Why it is not stored, if so.
    fn tell(&mut self, identity: &Identity, list: &PublishedNames) -> Option<String> {
        let session = match &mut self.session {
            Ok(session) => session,
            Err(why_not) => return Some(why_not.clone()),
        };
        let metadata = vec![(**identity.metadata()).clone()];
        let order = RibRequestBody::PublishNames { metadata, published: list.clone() };
        match Directory::new(session, identity.name()).request(order) {
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

struct Report {
    list: PublishedNames,
    gone: Vec<PublishedLabel>,
    told: Vec<Told>,
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let PublishedNames { owner, sequence, not_before_s, not_after_s, names, .. } = &self.list;
        let names: BTreeMap<&str, &Name> =
            names.iter().map(|(it, name)| (it.as_str(), name)).collect();
        let told = |(rib, why_not): &Told| {
            json!({
                "rib": rib.name,
                "address": rib.address,
                "stored": why_not.is_none(),
                "why_not": why_not,
            })
        };
        json!({
            "owner": owner,
            "sequence": sequence,
            "not_before_s": not_before_s,
            "not_after_s": not_after_s,
            "names": names,
            "gone": self.gone.iter().map(PublishedLabel::as_str).collect::<Vec<_>>(),
            "ribs": self.told.iter().map(told).collect::<Vec<_>>(),
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PublishedNames { owner, not_after_s, names, .. } = &self.list;
        let owner = names::with_labels(&owner.to_string());
        match names.is_empty() {
            true => write!(f, "{owner} calls nobody anything any more")?,
            false => write!(f, "{owner} says until {} UTC:", date_and_time(*not_after_s))?,
        }
        for (label, name) in names {
            write!(
                f,
                "\n  {label:12} {}",
                names::with_labels(&name.to_string()),
                label = label.as_str()
            )?;
        }
        for label in &self.gone {
            write!(f, "\n  {label} is no more")?;
        }
        for (rib, why_not) in &self.told {
            match why_not {
                None => write!(f, "\nstored by {rib}")?,
                Some(why) => write!(f, "\nnot stored by {rib}: {why}")?,
            }
        }
        Ok(())
    }
}

const SECONDS_A_DAY: u64 = 24 * 60 * 60;
/// A RIB answers within milliseconds; this is for handshakes of which datagrams are lost.
const PATIENCE: Duration = Duration::from_secs(5);
