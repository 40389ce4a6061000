//! `rhumb name publish`, `published` and `withdraw`: names that an owner publishes under its own.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rhumb_daemon::cli::OwnerArguments;
use rhumb_daemon::clock::{self, date_and_time};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::names;
use rhumb_daemon::output::Form;
use rhumb_daemon::published::publishing::{self, Names, Publication, Told};
use rhumb_daemon::published::{Inquirer, NotFound};
use rhumb_daemon::remote::Remote;
use rhumb_trust::{MAX_NAMES_LIFETIME_S, check_names_window};
use rhumb_wire::{Name, PublishedLabel, PublishedNames, Role};
use serde::Serialize;
use serde_json::json;

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
    let said = publishing::publish(&identity, &identity, &owner.rib, (names, lasts_s))?;
    let missing = said.missing();
    let Publication { list, before, told } = said;
    let gone = before.into_iter().flat_map(|it| it.names.into_keys());
    let gone = gone.filter(|label| !list.names.contains_key(label)).collect();
    form.print(&Report { list, gone, told });
    match missing {
        0 => Ok(()),
        _ => Err(Failure::operation_text(format!(
            "{missing} of {} RIBs did not store it, and go on to tell what they know: try again",
            owner.rib.len()
        ))),
    }
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
