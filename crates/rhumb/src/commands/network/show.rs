//! `rhumb network list` and `show`: which networks this host is in, and who else.

use std::fmt;

use rhumb_daemon::clock::{self, date_and_time, time_left};
use rhumb_daemon::failure::Outcome;
use rhumb_daemon::network::{Created, Folder, Joined, Ledger, Rank};
use rhumb_daemon::output::Form;
use rhumb_trust::Membership;
use rhumb_wire::{Name, PublishedLabel};
use serde::Serialize;
use serde_json::json;

/// The networks that this host is in.
pub(super) fn list(form: Form) -> Outcome {
    let mut shown = 0;
    for folder in Folder::all()? {
        let (created, joined) = (Created::find(&folder)?, Joined::find(&folder)?);
        let membership = joined.as_ref().map(|it| it.key().with_extension("membership"));
        let membership = membership.and_then(|file| Membership::load(&file).ok());
        let not_after_s = membership.map(|it| it.not_after_s());
        form.print(&Line { folder, is_kept: created.is_some(), joined, not_after_s });
        shown += 1;
    }
    if shown == 0 {
        form.say("this host is in no network: rhumb network create LABEL --address HOST makes one, rhumb join CODE joins one");
    }
    Ok(())
}

/// Who is in a network, and who is invited.
pub(super) fn show(label: Option<&PublishedLabel>, form: Form) -> Outcome {
    let created = super::kept_here(label)?;
    let ledger = Ledger::read(&created.folder)?;
    let now_s = clock::now().unix_s();
    let mut members: Vec<_> = ledger.members().iter().collect();
    members.sort_by(|a, b| a.label.cmp(&b.label));
    for member in members {
        let (label, rank) = (member.label.clone(), member.rank);
        form.print(&Entry { label, rank, state: State::Member(member.name, member.since_s) });
    }
    for invited in ledger.open(now_s) {
        let (label, rank) = (invited.label.clone(), invited.rank);
        form.print(&Entry { label, rank, state: State::Invited(invited.not_after_s) });
    }
    Ok(())
}

struct Line {
    folder: Folder,
    is_kept: bool,
    joined: Option<Joined>,
    not_after_s: Option<u64>,
}

impl Serialize for Line {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "network": self.folder.label().as_str(),
            "folder": self.folder.path(),
            "kept_here": self.is_kept,
            "label": self.joined.as_ref().map(|it| it.label.as_str()),
            "role": self.joined.as_ref().map(|it| it.rank.as_str()),
            "host": self.joined.as_ref().map(|it| it.host.to_string()),
            "not_after_s": self.not_after_s,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:12}", self.folder.label().as_str())?;
        if self.is_kept {
            write!(f, " its keeper is this host;")?;
        }
        if let Some(joined) = &self.joined {
            write!(f, " {} {}, by {}", joined.rank.as_str(), joined.label, joined.host)?;
        }
        match self.not_after_s {
            Some(not_after_s) => {
                let now_s = clock::now().unix_s();
                write!(f, "; membership: {}", time_left(now_s, not_after_s))
            }
            None => Ok(()),
        }
    }
}

struct Entry {
    label: PublishedLabel,
    rank: Rank,
    state: State,
}

enum State {
    Member(Name, u64),
    Invited(u64),
}

impl Serialize for Entry {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut facts = json!({ "label": self.label.as_str(), "role": self.rank.as_str() });
        match self.state {
            State::Member(name, since_s) => {
                facts["name"] = json!(name.to_string());
                facts["since_s"] = json!(since_s);
            }
            State::Invited(not_after_s) => facts["invited_until_s"] = json!(not_after_s),
        }
        facts.serialize(serializer)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:12} {:6} ", self.label.as_str(), self.rank.as_str())?;
        match self.state {
            State::Member(name, since_s) => {
                write!(f, "{name}  since {} UTC", date_and_time(since_s))
            }
            State::Invited(not_after_s) => {
                write!(f, "invited, until {} UTC", date_and_time(not_after_s))
            }
        }
    }
}
