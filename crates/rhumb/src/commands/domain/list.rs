//! `rhumb domain list`: what domains said, as it lies in files: memberships and border files, with
//! what they give, and until when. What is over or soon will be comes first.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use rhumb_daemon::cli::ListArguments;
use rhumb_daemon::clock::{self, date_and_time, time_left};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::names;
use rhumb_daemon::output::Form;
use rhumb_daemon::words;
use rhumb_trust::{Delegation, DelegationError, Membership, MembershipError};
use rhumb_wire::Name;
use serde::Serialize;
use serde_json::{Value, json};

use super::SECONDS_A_DAY;

pub(super) fn run(arguments: &ListArguments, form: Form) -> Outcome {
    let files = files_that_begin(&arguments.paths, &BEGINNINGS)?;
    let read = files.into_iter().map(|(file, is_named)| Found::read(file, is_named));
    let mut found = read.collect::<Outcome<Vec<_>>>()?;
    let now_s = clock::now().unix_s();
    let soon_s = now_s.saturating_add(u64::from(arguments.soon) * SECONDS_A_DAY);
    found.sort_by(|a, b| (a.ends_s(), &a.file).cmp(&(b.ends_s(), &b.file)));
    form.print(&Report { found, now_s, soon_s });
    Ok(())
}

/// A file, and what a domain says in it.
struct Found {
    file: PathBuf,
    said: Said,
}

enum Said {
    Membership(Membership),
    Delegation(Delegation),
    /// It says that it is one of these, and is not.
    Damaged(String),
}

/// Files that are named, and whether they are; and of folders that are, those files that begin in
/// one of these ways. What cannot be read in a folder is somebody else's.
pub(super) fn files_that_begin(
    paths: &[PathBuf],
    beginnings: &[&[u8]],
) -> Outcome<Vec<(PathBuf, bool)>> {
    let mut found = Vec::new();
    for path in paths {
        let problem =
            |error| Failure::setup_text(format!("cannot read {}: {error}", path.display()));
        if !path.metadata().map_err(problem)?.is_dir() {
            found.push((path.clone(), true));
            continue;
        }
        for entry in path.read_dir().map_err(problem)? {
            let file = entry.map_err(problem)?.path();
            if begins(&file, beginnings) {
                found.push((file, false));
            }
        }
    }
    Ok(found)
}

fn begins(file: &Path, beginnings: &[&[u8]]) -> bool {
    let mut begin = Vec::new();
    let longest = beginnings.iter().map(|it| it.len()).max().unwrap_or(0) as u64;
    let is_file = file.metadata().is_ok_and(|it| it.is_file());
    let mut read = || std::fs::File::open(file)?.take(longest).read_to_end(&mut begin);
    is_file && read().is_ok() && beginnings.iter().any(|it| begin.starts_with(it))
}

impl Found {
    /// What a file says. One that somebody names has to be one; in a folder, one that is damaged
    /// does not keep the others from being listed.
    fn read(file: PathBuf, is_named: bool) -> Outcome<Self> {
        let said = match Membership::load(&file) {
            Ok(membership) => Ok(Said::Membership(membership)),
            Err(MembershipError::Malformed { line: 1 }) => match Delegation::load(&file) {
                Ok(delegation) => Ok(Said::Delegation(delegation)),
                Err(DelegationError::Malformed { line: 1 }) => {
                    Err("it is neither a membership nor a border file".to_owned())
                }
                Err(error) => Err(error.to_string()),
            },
            Err(error) => Err(error.to_string()),
        };
        let said = match (said, is_named) {
            (Ok(said), _) => said,
            (Err(problem), false) => Said::Damaged(problem),
            (Err(problem), true) => {
                return Err(Failure::setup_text(format!("{}: {problem}", file.display())));
            }
        };
        Ok(Self { file, said })
    }

    /// The last second of it; none of what says nothing.
    fn ends_s(&self) -> Option<u64> {
        match &self.said {
            Said::Membership(membership) => Some(membership.not_after_s()),
            Said::Delegation(delegation) => Some(delegation.not_after_s()),
            Said::Damaged(_) => None,
        }
    }

    fn begins_s(&self) -> Option<u64> {
        let certificates = match &self.said {
            Said::Membership(membership) => membership.certificates(),
            Said::Delegation(delegation) => delegation.certificates(),
            Said::Damaged(_) => return None,
        };
        certificates.iter().map(|it| it.not_before_s).max()
    }

    fn state(&self, now_s: u64, soon_s: u64) -> State {
        match (self.begins_s(), self.ends_s()) {
            (_, None) => State::Damaged,
            (_, Some(ends_s)) if ends_s < now_s => State::Over,
            (Some(begins_s), _) if begins_s > now_s => State::NotYet,
            (_, Some(ends_s)) if ends_s < soon_s => State::EndsSoon,
            _ => State::Holds,
        }
    }

    /// Who says it, about whom, and what.
    fn facts(&self) -> Value {
        match &self.said {
            Said::Membership(membership) => json!({
                "kind": "membership",
                "domain": membership.domain().to_string(),
                "name": membership.member().to_string(),
                "rights": membership.rights().names().collect::<Vec<_>>(),
                "limits": words::limits_as_json(&membership.limits()),
                "issuers": membership.certificates().iter().map(|it| it.issuer.to_string()).collect::<Vec<_>>(),
            }),
            Said::Delegation(delegation) => {
                let parent = delegation.parent();
                json!({
                    "kind": "border",
                    "domain": delegation.domain().to_string(),
                    "name": delegation.router().to_string(),
                    "parent": parent.map(|it| it.domain.to_string()),
                    "up_to": parent.and_then(|it| it.up_to).map(|it| it.to_string()),
                })
            }
            Said::Damaged(problem) => json!({ "kind": "damaged", "problem": problem }),
        }
    }

    /// The same in the columns of a table: the domain, whom it is about, and what it may.
    fn columns(&self) -> [String; 3] {
        match &self.said {
            Said::Membership(membership) => {
                let mut may = membership.rights().names().collect::<Vec<_>>().join(", ");
                for limit in words::limits_in_words(&membership.limits(), called) {
                    may.extend(["; ", &limit]);
                }
                [called(membership.domain()), called(membership.member()), may]
            }
            Said::Delegation(delegation) => {
                let mut may = "stand at the border".to_owned();
                if let Some(parent) = delegation.parent() {
                    may.extend(["; exported by ", &called(parent.domain)]);
                    parent.up_to.iter().for_each(|it| may.extend([" up to ", &called(*it)]));
                }
                [called(delegation.domain()), called(delegation.router()), may]
            }
            Said::Damaged(problem) => ["-".to_owned(), "-".to_owned(), problem.clone()],
        }
    }
}

/// What a name is called here, or how it begins.
fn called(name: Name) -> String {
    names::label_of(name).unwrap_or_else(|| name.short())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Holds,
    EndsSoon,
    NotYet,
    Over,
    Damaged,
}

struct Report {
    /// What ends first comes first.
    found: Vec<Found>,
    now_s: u64,
    soon_s: u64,
}

impl Report {
    fn count(&self, state: State) -> usize {
        self.found.iter().filter(|it| it.state(self.now_s, self.soon_s) == state).count()
    }

    fn row(&self, found: &Found) -> [String; COLUMNS] {
        let state = found.state(self.now_s, self.soon_s);
        let until = match (state, found.ends_s()) {
            (State::Damaged, _) | (_, None) => "damaged".to_owned(),
            (State::Over, Some(end_s)) => format!("OVER since {}", date_and_time(end_s)),
            (State::NotYet, Some(_)) => {
                format!("from {}", date_and_time(found.begins_s().unwrap_or(0)))
            }
            (State::EndsSoon | State::Holds, Some(end_s)) => {
                let soon = if state == State::EndsSoon { "SOON: " } else { "" };
                format!("{soon}{} ({})", date_and_time(end_s), time_left(self.now_s, end_s))
            }
        };
        let [domain, name, may] = found.columns();
        [domain, name, may, until, found.file.display().to_string()]
    }
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries: Vec<Value> = self
            .found
            .iter()
            .map(|found| {
                let mut facts = found.facts();
                facts["file"] = json!(found.file);
                facts["not_after_s"] = json!(found.ends_s());
                facts["state"] = json!(found.state(self.now_s, self.soon_s));
                facts
            })
            .collect();
        json!({
            "entries": entries,
            "over": self.count(State::Over),
            "end_soon": self.count(State::EndsSoon),
            "damaged": self.count(State::Damaged),
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.found.is_empty() {
            return f.write_str("no memberships and no border files here");
        }
        let head = ["DOMAIN", "WHO", "MAY", "UNTIL (UTC)", "FILE"].map(str::to_owned);
        let rows: Vec<[String; COLUMNS]> =
            std::iter::once(head).chain(self.found.iter().map(|it| self.row(it))).collect();
        let width =
            |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; COLUMNS] = std::array::from_fn(width);
        for row in &rows {
            for (text, width) in row[..COLUMNS - 1].iter().zip(widths) {
                write!(f, "{text:width$}  ")?;
            }
            writeln!(f, "{}", row[COLUMNS - 1])?;
        }
        let (all, over, soon) =
            (self.found.len(), self.count(State::Over), self.count(State::EndsSoon));
        write!(f, "{all} in all; {over} over, {soon} to end soon")
    }
}

const COLUMNS: usize = 5;
/// Of the files that domains make.
const BEGINNINGS: [&[u8]; 2] = [b"rhumb-membership ", b"rhumb-border "];
