//! `rhumb domain renew`: memberships given again, for longer, or by another key when one is rolled
//! over. Who may what stays as it is.
//!
//! Invariant: a file is replaced as a whole or not at all, and nobody is admitted again whom a
//! removal that lies among the files took back.

use std::fmt;
use std::path::{Path, PathBuf};

use rhumb_daemon::cli::RenewArguments;
use rhumb_daemon::clock::{self, date_and_time};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::names;
use rhumb_daemon::output::Form;
use rhumb_trust::{Identity, Membership, Now, Removal, Window};
use rhumb_wire::Name;
use serde::Serialize;
use serde_json::{Value, json};

use super::list::files_that_begin;
use super::{SECONDS_A_DAY, explain, unreadable};

pub(super) fn run(arguments: &RenewArguments, form: Form) -> Outcome {
    let issuer = key::load_any(&arguments.key)?;
    let given_by = arguments.given_by.unwrap_or(issuer.name());
    let Files { memberships, removals } = read(&arguments.paths)?;
    let now = clock::now();
    let renewed = memberships
        .into_iter()
        .filter(|(_, it)| it.certificates().last().is_some_and(|last| last.issuer == given_by))
        .map(|(file, membership)| {
            let fate = match removals.iter().any(|it| it.counts_against(&membership)) {
                true => Err("it was taken back".to_owned()),
                false => again(arguments, &issuer, &file, &membership, now)
                    .map_err(|failure| failure.to_string()),
            };
            Renewed { file, member: membership.member(), fate }
        });
    let report = Report { given_by, renewed: renewed.collect() };
    let failed = report.renewed.iter().filter(|it| it.fate.is_err()).count();
    let all = report.renewed.len();
    form.print(&report);
    match failed {
        0 => Ok(()),
        _ => {
            Err(Failure::operation_text(format!("{failed} of {all} memberships were not renewed")))
        }
    }
}

/// What lies there.
#[derive(Default)]
struct Files {
    /// By the names of their files.
    memberships: Vec<(PathBuf, Membership)>,
    removals: Vec<Removal>,
}

/// The memberships and the removals there are.
fn read(paths: &[PathBuf]) -> Outcome<Files> {
    let Files { mut memberships, mut removals } = Files::default();
    for (file, is_named) in files_that_begin(paths, &BEGINNINGS)? {
        match Removal::load(&file) {
            Ok(removal) => removals.push(removal),
            Err(_) => match Membership::load(&file) {
                Ok(membership) => memberships.push((file, membership)),
                Err(error) if is_named => return Err(unreadable(&file, error)),
                // Perhaps it took somebody back: nothing is given before that is clear.
                Err(error) => {
                    let file = file.display();
                    return Err(Failure::setup_text(format!(
                        "{file} is damaged ({error}); put it right or move it away"
                    )));
                }
            },
        }
    }
    memberships.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(Files { memberships, removals })
}

/// Gives a membership again: until when.
fn again(
    arguments: &RenewArguments,
    issuer: &Identity,
    file: &Path,
    membership: &Membership,
    now: Now,
) -> Outcome<u64> {
    let (by, member) = ((issuer, issuer.membership()), membership.member());
    let window = Window::starting(now.unix_s(), u64::from(arguments.days) * SECONDS_A_DAY);
    let (rights, limits) = (membership.rights(), membership.limits());
    let given = Membership::sign_within(limits, by, member, rights, now.unix_ms, window)
        .map_err(|error| explain(&arguments.key, error))?;
    match (&arguments.out, file.file_name()) {
        (Some(folder), Some(name)) => {
            let out = folder.join(name);
            given.save(&out).map_err(|error| explain(&out, error))?;
        }
        _ => replace(file, &given)?,
    }
    Ok(given.not_after_s())
}

/// Puts a membership in the place of another: whoever looks sees the one or the other.
fn replace(file: &Path, given: &Membership) -> Outcome {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    let beside = Path::new(&beside);
    let _ = std::fs::remove_file(beside);
    given.save(beside).map_err(|error| explain(beside, error))?;
    std::fs::rename(beside, file)
        .map_err(|error| Failure::operation_text(format!("{}: {error}", file.display())))
}

struct Report {
    given_by: Name,
    renewed: Vec<Renewed>,
}

struct Renewed {
    file: PathBuf,
    member: Name,
    /// Until when, or why not.
    fate: Result<u64, String>,
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = |it: &Renewed| -> Value {
            json!({
                "file": it.file,
                "member": it.member.to_string(),
                "not_after_s": it.fate.as_ref().ok(),
                "why_not": it.fate.as_ref().err(),
            })
        };
        let entries: Vec<Value> = self.renewed.iter().map(entry).collect();
        json!({ "given_by": self.given_by.to_string(), "entries": entries }).serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let called = |name: Name| names::label_of(name).unwrap_or_else(|| name.short());
        if self.renewed.is_empty() {
            let giver = called(self.given_by);
            return write!(f, "nothing here was given by {giver}; another giver: --given-by NAME");
        }
        for (line, it) in self.renewed.iter().enumerate() {
            let end = if line == 0 { "" } else { "\n" };
            let (file, member) = (it.file.display(), called(it.member));
            match &it.fate {
                Ok(until_s) => {
                    write!(f, "{end}{file}: {member}, until {} UTC", date_and_time(*until_s))?;
                }
                Err(why) => write!(f, "{end}{file}: {member} NOT renewed: {why}")?,
            }
        }
        Ok(())
    }
}

/// Of memberships and of removals.
const BEGINNINGS: [&[u8]; 2] = [b"rhumb-membership ", b"rhumb-removal "];
