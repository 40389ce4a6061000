//! The keeper of a network that was joined: whether it is reached and takes this host for a member;
//! and by how much this machine's clock is off, if the keeper's or else the RIB's is right.

use rhumb_daemon::clock::{self, span};
use rhumb_daemon::failure::Failure;
use rhumb_daemon::network::joining::ask_keeper;
use rhumb_trust::CLOCK_SKEW_S;

use super::findings::{Findings, Look};
use super::subjects::Subject;

/// Asks the keeper how this host stands. What it tells of its time.
pub(super) fn look(subject: &Subject, findings: &mut Findings) -> Option<Told> {
    let joined = subject.joined.as_ref()?;
    let keeper = Look::of("keeper", &subject.of);
    let Some(identity) = &subject.identity else {
        findings.not_tried(&keeper, "the key of this host cannot be used, see above");
        return None;
    };
    if subject.routers.is_empty() {
        findings.not_tried(&keeper, "the address of its host is not known, see above");
        return None;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::operation);
    let asked = runtime.and_then(|it| {
        let asked = it.block_on(ask_keeper(identity, joined));
        // Looking up a host cannot be told to end.
        it.shutdown_background();
        asked
    });
    let at = joined.host.with_port(joined.keeper.1);
    match asked {
        Ok(Some(welcome)) => {
            let found = format!("{at}: this host is {} there", welcome.label);
            findings.ok(&keeper, found);
            Some(Told::now(welcome.now_s))
        }
        Ok(None) => {
            findings.problem(
                &keeper,
                format_args!("{at} says that this host is a member no longer"),
                &format!(
                    "its keeper can invite it again: rm -r {}, then rhumb join CODE",
                    joined.folder.path().display()
                ),
            );
            None
        }
        Err(failure) => {
            findings.problem(
                &keeper,
                failure,
                &format!(
                    "does `{}` go on there, of the same version, and is TCP port {} let in? Members go on without it until their memberships end",
                    if joined.is_lan { "rhumb up" } else { "rhumb network run" },
                    joined.keeper.1
                ),
            );
            None
        }
    }
}

/// Says by how much the clock is off. `by_keeper`, `by_rib`: what they have told of their time.
pub(super) fn compare_clocks(
    subject: &Subject,
    by_keeper: Option<Told>,
    by_rib: Option<Told>,
    findings: &mut Findings,
) {
    let looked = Look::of("clock", &subject.of);
    let (whose, told) = match (by_keeper, by_rib) {
        (Some(told), _) => ("the keeper's", told),
        (None, Some(told)) => ("the RIB's", told),
        (None, None) => {
            return findings.not_tried(&looked, "nobody who was reached told the time");
        }
    };
    let off_s = told.own_s.abs_diff(told.s);
    let way = if told.own_s > told.s { "ahead of" } else { "behind" };
    if off_s > CLOCK_SKEW_S {
        findings.problem(
            &looked,
            format_args!(
                "this machine's is {} {way} {whose}; memberships and certificates allow {CLOCK_SKEW_S} s",
                span(off_s)
            ),
            "set the clock, by a time service if there is one; if this one is right, the other has to be set",
        );
    } else if off_s > SLIGHTLY_S {
        findings.warn(
            &looked,
            format_args!("this machine's is {} {way} {whose}", span(off_s)),
            "run a time service: beyond a minute nothing of this host is believed",
        );
    } else {
        findings.ok(&looked, format_args!("within {SLIGHTLY_S} s of {whose}"));
    }
}

/// What somebody told of his time, and what it was here then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) s: u64,
    pub(super) own_s: u64,
}

impl Told {
    pub(super) fn now(s: u64) -> Self {
        Self { s, own_s: clock::now().unix_s() }
    }
}

/// An answer may be some seconds old.
const SLIGHTLY_S: u64 = 10;
