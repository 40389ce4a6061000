//! A RIB: whether it is reached and answers, what time it is there, and whether it knows a way to
//! this host's name.
//!
//! It is asked under a key of the moment. One that refuses strangers is asked in this host's own
//! name, if no node with it is known to run: a RIB has one session with a name.

use std::sync::Arc;
use std::time::Duration;

use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::inquiry::{Directory, Session, Ways};
use rhumb_daemon::remote::Remote;
use rhumb_link::Transport;
use rhumb_trust::Identity;
use rhumb_wire::rib::{Refusal, RibRequestBody, RibResponseBody};
use rhumb_wire::{Name, Role, Statement};

use super::findings::{Findings, Look};
use super::keeper::Told;
use super::router::reach;
use super::subjects::Subject;

/// What was heard.
#[derive(Default)]
pub(super) struct Heard {
    /// What it told of its time.
    pub(super) told: Option<Told>,
    /// Whether a way to this host's name is known, if it said that.
    pub(super) knows: Option<bool>,
}

/// Looks at each RIB.
pub(super) fn look(
    subject: &Subject,
    stranger: &Arc<Identity>,
    is_running: bool,
    findings: &mut Findings,
) -> Heard {
    let mut all = Heard::default();
    let (rib, look_up) = (Look::of("RIB", &subject.of), Look::of("look-up", &subject.of));
    if subject.ribs.is_empty() {
        findings.not_tried(&rib, "none is named; --rib NAME@ADDR looks at one");
    }
    for remote in &subject.ribs {
        let Some(reached) = reach(&rib, (*remote, Role::Rib), stranger, findings) else { continue };
        if !reached.is_right {
            reached.by.close();
            continue;
        }
        let heard = ask(&look_up, (subject, *remote), reached.by, (stranger, is_running), findings);
        all.told = all.told.or(heard.told);
        all.knows = match (all.knows, heard.knows) {
            (Some(a), Some(b)) => Some(a || b),
            (a, b) => a.or(b),
        };
    }
    all
}

fn ask(
    look_up: &Look,
    (subject, remote): (&Subject, Remote),
    mut session: Session,
    (stranger, is_running): (&Arc<Identity>, bool),
    findings: &mut Findings,
) -> Heard {
    let own = subject.identity.as_ref().map(|it| it.name());
    let ways = match session.transport() {
        Some(Transport::Tls) => Ways::UdpAndTls,
        _ => Ways::Udp,
    };
    let nobody = stranger.name();
    let asked = questions(&mut session, nobody, (own, nobody));
    session.close();
    let refused = matches!(asked.1, Ok(RibResponseBody::Refused(Refusal::NotAuthorised)));
    let Some(identity) = subject.identity.as_ref().filter(|_| refused && subject.is_node()) else {
        if refused {
            findings.ok(look_up, "it answers, and refuses strangers by its rules");
            return Heard::default();
        }
        return tell(look_up, own, asked, findings);
    };
    if is_running {
        findings
            .ok(look_up, "it answers, and refuses strangers by its rules; this name's node runs");
        return Heard::default();
    }
    let asked = Session::reach(Arc::clone(identity), remote, ways, PATIENCE);
    let asked = asked.and_then(|reached| {
        let mut session = reached.map_err(Failure::operation)?;
        let asked = questions(&mut session, identity.name(), (own, nobody));
        session.close();
        Ok(asked)
    });
    tell(look_up, own, asked.unwrap_or_else(|failure| (None, Err(failure))), findings)
}

/// Asks about a name that nobody has, which tells what time it is there, and then about this
/// host's, if that was answered.
fn questions(session: &mut Session, source: Name, (own, nobody): (Option<Name>, Name)) -> Answers {
    let mut directory = Directory::new(session, source);
    let mut ask = |name| directory.request(RibRequestBody::LookUpRoute(name));
    match (ask(nobody), own) {
        (Ok(RibResponseBody::Absent(absence)), own) => {
            // It signs that for two seconds from now on.
            let told = Told::now(absence.not_before_s);
            let answer = own.map_or(Ok(RibResponseBody::Absent(absence)), ask);
            (Some(told), answer)
        }
        (other, _) => (None, other),
    }
}

/// What it told of its time, and of a name.
type Answers = (Option<Told>, Outcome<RibResponseBody>);

/// Says what it answered about `own`, or about a name that nobody has.
fn tell(
    look_up: &Look,
    own: Option<Name>,
    (told, asked): Answers,
    findings: &mut Findings,
) -> Heard {
    let mut heard = Heard { told, knows: None };
    match asked {
        Ok(RibResponseBody::Absent(_)) => {
            heard.knows = own.map(|_| false);
            match own {
                Some(_) => findings.ok(look_up, "it answers; it knows no way to this host's name, so no node of it has joined"),
                None => findings.ok(look_up, "it answers"),
            }
        }
        Ok(RibResponseBody::Found { name, certificates, .. }) if Some(name) == own => {
            heard.knows = Some(true);
            let via = certificates.iter().find_map(|it| match it.statement {
                Statement::Route { via, .. } if it.issuer == name => Some(via),
                _ => None,
            });
            let by = via.map_or_else(String::new, |via| format!(", by {via}"));
            findings.ok(look_up, format_args!("it answers, and knows the way to this host's name{by}"));
        }
        Ok(RibResponseBody::Refused(refusal)) => findings.problem(
            look_up,
            format_args!("it answers, and refuses this name: {refusal}"),
            "is this host's membership in force (see above)? Else its operator admits this name: rhumb domain admit, or its rules of access",
        ),
        Ok(_) => findings.problem(
            look_up,
            "its answer does not fit the question",
            "do not trust it before whoever runs it has looked",
        ),
        Err(failure) => findings.problem(
            look_up,
            failure,
            "it shakes hands and does not answer: what do `rhumb status` and its log say there, is its disk full?",
        ),
    }
    heard
}

/// It was reached a moment ago; TLS is dialled after two seconds.
const PATIENCE: Duration = Duration::from_secs(6);
