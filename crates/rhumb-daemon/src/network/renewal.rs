//! A member stays one, unattended: while its node runs it asks the keeper every few minutes how the
//! network is, has another membership given in the last half of the one it shows, and learns what
//! new members are called.

use std::sync::Arc;
use std::time::Duration;

use rhumb_trust::Identity;
use rhumb_wire::PublishedLabel;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::created::{is_half_over, put};
use super::joining::{Asked, ask_again};
use super::neighbours::find_again;
use super::{Joined, labels};
use crate::failure::{Failure, Outcome};
use crate::output::remark;

/// Asks before the node joins, if its membership is in its last half: routers let in nobody whose
/// membership is over. What fails is told when it matters, which it need not yet.
///
/// # Errors
/// When this host is a member no longer.
pub fn renew_before(identity: &Arc<Identity>, joined: &Joined) -> Outcome {
    if !is_half_over(&joined.key()) {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let asked = runtime.map_err(Failure::operation)?.block_on(ask(identity, joined));
    match asked {
        Ok(Told::NoMember) => Err(Failure::setup_text(no_member(joined))),
        Ok(Told::Known(_)) => Ok(()),
        Err(failure) => {
            remark(format_args!("rhumb: the membership is not renewed: {failure}"));
            Ok(())
        }
    }
}

/// Asks for as long as this host is a member, and says why if it is one no longer. `lost` is told
/// when no router lets it in: then the keeper is asked at once.
pub async fn renew(identity: Arc<Identity>, mut joined: Joined, lost: Arc<Notify>) -> Failure {
    let mut said: Option<String> = None;
    loop {
        let (problem, pause) = match ask(&identity, &joined).await {
            Ok(Told::Known(unknown)) if unknown.is_empty() => (None, ASK_EVERY),
            Ok(Told::Known(unknown)) => (Some(moved(&joined, &unknown)), ASK_EVERY),
            Ok(Told::NoMember) => return Failure::operation_text(no_member(&joined)),
            Err(failure) => {
                tracing::debug!(%failure, "the keeper does not answer");
                if has_moved(&identity, &mut joined).await {
                    sleep(LEAST_PAUSE).await;
                    continue;
                }
                // Somebody has to look only if it lasts.
                let is_due = is_half_over(&joined.key());
                (is_due.then(|| format!("the membership is not renewed: {failure}")), TRY_AGAIN)
            }
        };
        if let Some(problem) = problem.as_ref().filter(|problem| said.as_ref() != Some(problem)) {
            tracing::warn!("{problem}");
        }
        said = problem;
        tokio::select! {
            () = sleep(pause) => {}
            () = lost.notified() => sleep(LEAST_PAUSE).await,
        }
    }
}

/// Whether the host of a link's network is found at another address than before.
async fn has_moved(identity: &Identity, joined: &mut Joined) -> bool {
    let before = joined.host.clone();
    let is_there = joined.is_lan && find_again(identity, joined).await.is_ok_and(|it| it);
    is_there && joined.host != before
}

enum Told {
    /// Labels that stand for somebody else here.
    Known(Vec<PublishedLabel>),
    NoMember,
}

async fn ask(identity: &Arc<Identity>, joined: &Joined) -> Outcome<Told> {
    let (welcome, membership) = match ask_again(identity, joined).await? {
        Asked::Welcome(welcome, membership) => (welcome, membership),
        Asked::NoMember => return Ok(Told::NoMember),
    };
    let joined = joined.clone();
    let written = tokio::task::spawn_blocking(move || {
        if is_half_over(&joined.key()) {
            put(&joined.key(), &membership)?;
        }
        labels::enter(joined.folder.label(), joined.domain, &welcome.members).map(Told::Known)
    });
    written.await.map_err(Failure::operation)?
}

fn moved(joined: &Joined, labels: &[PublishedLabel]) -> String {
    let labels: Vec<&str> = labels.iter().map(PublishedLabel::as_str).collect();
    let (network, labels) = (joined.folder.label(), labels.join(", "));
    format!(
        "in {network} another name is called {labels} than in the book of names, which is left as \
         it is; to go by the keeper's word: rhumb name remove LABEL"
    )
}

fn no_member(joined: &Joined) -> String {
    let Joined { folder, .. } = joined;
    format!(
        "this host was removed from {}; its keeper can invite it again, after: rm -r {}",
        folder.label(),
        folder.path().display()
    )
}

/// Until a new member's label is known; a handshake costs the keeper a millisecond.
const ASK_EVERY: Duration = Duration::from_secs(300);
/// A router that is started again is back before, and nobody asks twice in it.
const LEAST_PAUSE: Duration = Duration::from_secs(2);
/// Soon enough for who was off for a week.
const TRY_AGAIN: Duration = Duration::from_secs(30);
