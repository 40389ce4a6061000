//! `rhumb network remove`: a member is one no longer, and every router and RIB hears of it.

use std::fmt;

use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::network::{Member, removing};
use rhumb_daemon::output::Form;
use rhumb_wire::PublishedLabel;
use serde::Serialize;
use serde_json::json;

pub(super) fn run(
    member: &PublishedLabel,
    network: Option<&PublishedLabel>,
    form: Form,
) -> Outcome {
    let created = super::kept_here(network)?;
    let (member, untold) = removing::remove(&created, member)?;
    form.print(&Report { member, is_told: untold.is_none() });
    match untold {
        None => Ok(()),
        Some(failure) => Err(Failure::operation_text(format!(
            "the RIB does not know it yet ({failure}): it is told as soon as rhumb network run {} goes on; until then \
             routers let it in, for two weeks at most",
            created.folder.label()
        ))),
    }
}

struct Report {
    member: Member,
    is_told: bool,
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "removed": self.member.label.as_str(),
            "name": self.member.name.to_string(),
            "told": self.is_told,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Member { label, name, .. } = &self.member;
        write!(
            f,
            "{label} is no member any more: {name}\nits label stays in other members' books of names, until there: rhumb name remove {label}"
        )
    }
}
