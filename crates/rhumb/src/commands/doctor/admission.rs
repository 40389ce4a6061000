//! Whether a router lets this host in: by the node that runs with its key, or else by joining for a
//! moment and leaving, as `rhumb ping` does.

use std::sync::Arc;

use rhumb_daemon::belonging::Belonging;
use rhumb_daemon::failure::Failure;
use rhumb_daemon::key;
use rhumb_daemon::membership::joined_as;
use rhumb_daemon::remote::Remote;
use serde_json::Value;

use super::daemons::Running;
use super::directory::Heard;
use super::findings::{Findings, Look};
use super::subjects::Subject;

/// Says whether this host is let in by the routers that were `reached`.
pub(super) fn look(
    subject: &Subject,
    reached: &[Remote],
    (heard, running): (&Heard, &Running),
    findings: &mut Findings,
) {
    let admission = Look::of("admission", &subject.of);
    if let Some(status) = running.node_of(subject) {
        return tell_running(&admission, status, findings);
    }
    if subject.routers.is_empty() {
        return;
    }
    let Some(router) = reached.first() else {
        return findings.not_tried(&admission, "no router is reached that is the right one");
    };
    if subject.lacks_key {
        return findings.not_tried(&admission, "the key of this host cannot be used, see above");
    }
    match (heard.knows, &subject.identity) {
        (Some(true), _) => findings.ok(
            &admission,
            "a node with this key has joined, and joining once more would end it: so it was let in",
        ),
        // Of two nodes with one key the later one counts.
        (None, Some(_)) => findings.not_tried(
            &admission,
            "a node with this key may run, which joining would end; a RIB that answers would tell (--rib NAME@ADDR)",
        ),
        _ => join(&admission, subject, *router, findings),
    }
}

fn tell_running(admission: &Look, status: &Value, findings: &mut Findings) {
    let router = status["router"].as_str().unwrap_or("none");
    match (&status["joined"], &status["published"]) {
        (Value::Bool(true), Value::Bool(true)) => {
            findings.ok(admission, format_args!("the node that runs is joined at {router}, and published"));
        }
        (Value::Bool(true), _) => findings.warn(
            admission,
            format_args!("the node that runs is joined at {router}, and not published"),
            "its router's RIB does not answer it: what does `rhumb status` say at the router?",
        ),
        _ => findings.problem(
            admission,
            "the node that runs is joined nowhere",
            "if its router is reached (above), it does not let it in: `rhumb why NAME` there says why",
        ),
    }
}

fn join(admission: &Look, subject: &Subject, router: Remote, findings: &mut Findings) {
    let identity = match &subject.identity {
        Some(identity) => Ok(Arc::clone(identity)),
        None => key::load_or_ephemeral(None),
    };
    let settings = subject.settings.clone().by(router);
    let stopped = Err(Failure::operation_text("stopped"));
    let joined = identity.and_then(|identity| {
        joined_as(Belonging::of(identity, None), &settings, false, stopped, |node| async move {
            node.status().await.map_err(Failure::operation)
        })
    });
    match joined {
        Ok(status) if status.published => findings.ok(admission, "let in, and published"),
        Ok(_) => findings.warn(
            admission,
            "let in, and not published in time: names at other routers have no way here",
            "is the router's RIB reached from there? `rhumb status` at the router says it",
        ),
        Err(failure) => findings.problem(
            admission,
            failure,
            "`rhumb why NAME` at the router says by which rule; is this host's membership in force?",
        ),
    }
}
