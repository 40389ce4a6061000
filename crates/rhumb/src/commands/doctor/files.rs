//! What lies on this host: settings, keys with the memberships beside them, the book of names.

use std::path::Path;
use std::sync::Arc;

use rhumb_daemon::belonging;
use rhumb_daemon::clock::{self, date_and_time, span};
use rhumb_daemon::config::{ConfigFile, Survey};
use rhumb_daemon::failure::Outcome;
use rhumb_daemon::key;
use rhumb_daemon::names::Book;
use rhumb_trust::{CLOCK_SKEW_S, Identity, Membership};
use rhumb_wire::Role;

use super::findings::{Findings, Look};

/// The file of settings; an empty one in the place of one that cannot be read.
pub(super) fn settings(file: Outcome<ConfigFile>, findings: &mut Findings) -> ConfigFile {
    let settings = Look::at("settings");
    match file {
        Ok(file) => {
            match file.path() {
                Some(path) => findings.ok(&settings, format_args!("file {}", path.display())),
                None => findings.ok(&settings, "no file; none is needed"),
            }
            file
        }
        Err(failure) => {
            findings.problem(
                &settings,
                failure,
                "put that line right; until then nothing that the file says is looked at",
            );
            ConfigFile::default()
        }
    }
}

/// What commands would not start with, and what is not looked at.
pub(super) fn sections(survey: &Survey, findings: &mut Findings) {
    for (command, failure) in &survey.faults {
        findings.warn(
            &Look::of("settings", command),
            failure,
            "it does not start by the file alone: put that right, or give it as an option",
        );
    }
    for section in &survey.others {
        findings.not_tried(
            &Look::of("settings", format_args!("[{section}]")),
            "its daemon is looked at by its status alone",
        );
    }
}

/// The book of names.
pub(super) fn book(findings: &mut Findings) {
    let names = Look::at("book of names");
    match Book::read() {
        Ok(book) => findings.ok(&names, format_args!("{} labels", book.entries().count())),
        Err(failure) => findings.problem(&names, failure, ""),
    }
}

/// The key in `path` with its membership; none if it cannot be used.
pub(super) fn key(
    of: &str,
    (path, role): (&Path, Role),
    is_member: bool,
    findings: &mut Findings,
) -> Option<Arc<Identity>> {
    let looked = Look::of("key", of);
    let identity = match key::load(path, role) {
        Ok(identity) => identity,
        Err(failure) => {
            let text = failure.to_string();
            let advice = match text.to_lowercase().contains("permission denied") {
                true => "look as the user whose it is, or give it to this one: chown",
                false => "",
            };
            findings.problem(&looked, text, advice);
            return None;
        }
    };
    findings.ok(&looked, format_args!("{} of {}", path.display(), identity.name()));
    match identity.membership() {
        Some(membership) => self::membership(of, &identity, membership, findings),
        None if is_member => findings.problem(
            &Look::of("membership", of),
            format_args!("none lies beside the key {}", path.display()),
            "the keeper gives another one to whoever is a member: rhumb up",
        ),
        None => {}
    }
    Some(identity)
}

fn membership(of: &str, identity: &Identity, membership: &Membership, findings: &mut Findings) {
    let looked = Look::of("membership", of);
    let now_s = clock::now().unix_s();
    let begins_s = membership.certificates().iter().map(|it| it.not_before_s).max().unwrap_or(0);
    let (end_s, domain) = (membership.not_after_s(), membership.domain());
    if begins_s > now_s + CLOCK_SKEW_S {
        let found = format!(
            "of {domain} from {} UTC on, and here it is {}: it begins in {}",
            date_and_time(begins_s),
            date_and_time(now_s),
            span(begins_s - now_s)
        );
        let advice = "this machine's clock is behind, or its domain's was ahead: set the clock, by a time service if there is one";
        return findings.problem(&looked, found, advice);
    }
    if membership.has_ended(now_s) {
        let found = format!(
            "of {domain}, over for {} (since {} UTC)",
            span(now_s - end_s),
            date_and_time(end_s)
        );
        let advice = "a node asks its network's keeper for another when it starts: rhumb up; of another domain, ask whoever admits there. If it should not be over, look at this machine's clock";
        return findings.problem(&looked, found, advice);
    }
    if let Err(error) = membership.check(&identity.name(), now_s) {
        return findings.problem(&looked, error, "get it from the domain once more");
    }
    let rights: Vec<&str> = membership.rights().names().collect();
    let found = format!(
        "of {domain}, may {}, until {} UTC: {} left",
        rights.join(", "),
        date_and_time(end_s),
        span(end_s.saturating_sub(now_s))
    );
    match belonging::warning(membership, now_s) {
        Some(warning) => findings.warn(
            &looked,
            format_args!("{found}; {warning}"),
            "a node that runs asks its network's keeper by itself: rhumb up; of another domain, ask whoever admits there",
        ),
        None => findings.ok(&looked, found),
    }
}
