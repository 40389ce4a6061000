//! What every command of a node does around its work: join a router, end early when told to, leave.
//!
//! Leaving withdraws the name, so that nobody sends to a process that is gone.

use std::convert::Infallible;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rhumb_node::{Config, Node, NodeError, RouterChoice, Standing, StandingWatch};
use rhumb_wire::Name;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::belonging::Belonging;
use crate::clock;
use crate::config::NodeSettings;
use crate::failure::{Failure, Outcome};
use crate::key;
use crate::lifetime::Lifetime;
use crate::network::Joined;
use crate::output::remark;
use crate::supervisor::Heart;

/// Joins, does `work`, and leaves, whatever came of the work. Ended from outside, the work is
/// dropped where it stands and `interrupted` says what that means.
pub fn joined<T, F: Future<Output = Outcome<T>>>(
    settings: &NodeSettings,
    with_parent: bool,
    interrupted: Outcome<T>,
    work: impl FnOnce(Node) -> F,
) -> Outcome<T> {
    let identity = key::load_or_ephemeral(settings.key.as_deref().map(Path::new))?;
    let belonging = Belonging::of(identity, settings.key.as_deref().map(Path::new));
    joined_as(belonging, settings, with_parent, interrupted, work)
}

/// As [`joined`], under the name of `belonging`, whose membership is looked at from now on. SIGHUP
/// asks for that, too, where the work catches it.
pub fn joined_as<T, F: Future<Output = Outcome<T>>>(
    belonging: Belonging,
    settings: &NodeSettings,
    with_parent: bool,
    interrupted: Outcome<T>,
    work: impl FnOnce(Node) -> F,
) -> Outcome<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::operation)?;
    runtime.block_on(async {
        let mut lifetime = Lifetime::begin(with_parent)?;
        let mut config = Config::new(settings.router.clone());
        config.lease_s = settings.lease_s.into();
        config.require_published = false;
        config.publish_within = PUBLISH_WITHIN;
        config.access = settings.access.clone();
        config.only_peer = settings.only_peer;
        config.export = settings.export;
        config.max_datagram_len = settings.max_datagram_len;
        let node = tokio::select! {
            joined = Node::join(belonging.identity(), config) => joined.map_err(|error| explain(error, settings))?,
            _ = lifetime.end() => return interrupted,
        };
        let standing = node.watch();
        if let Standing { router: Some(router), published: false, .. } = standing.now() {
            remark(format_args!(
                "joined at {router}; not published yet: its RIBs do not answer, so names at other routers have no way here"
            ));
        }
        let outcome = tokio::select! {
            outcome = work(node.clone()) => outcome,
            never = tell_changes(standing) => match never {},
            never = beat(node.clone()) => match never {},
            failure = follow(belonging, node.clone()) => Err(failure),
            cause = lifetime.end() => {
                tracing::info!(cause, "leaving");
                interrupted
            }
        };
        // Whatever the work made of it, this is what its user has to know.
        if let Err(error @ NodeError::Displaced { .. }) = node.status().await {
            return Err(Failure::operation(error));
        }
        node.leave().await;
        outcome
    })
}

/// Shows what the domain says of this name, whenever that is something else. Ends only if nobody
/// can look.
async fn follow(belonging: Belonging, node: Node) -> Failure {
    let woken = Arc::new(Notify::new());
    let alert = Arc::clone(&woken);
    if let Err(failure) = belonging.follow(false, move || alert.notify_one()) {
        return failure;
    }
    loop {
        woken.notified().await;
        if let Some(identity) = belonging.poll()
            && let Err(error) = node.show(identity).await
        {
            tracing::warn!(%error, "the new membership cannot be shown");
        }
    }
}

/// Tells a service manager that watches that the node goes round: its driver answers. Ends never.
async fn beat(node: Node) -> Infallible {
    let mut heart = Heart::new(clock::now().instant);
    while let Some(pause) = heart.pause() {
        sleep(pause).await;
        if node.status().await.is_err() {
            break;
        }
        heart.beat(clock::now().instant);
    }
    std::future::pending().await
}

/// Says when a name that was not published is, and that
/// another process has the same key. Ends never.
async fn tell_changes(mut standing: StandingWatch) -> Infallible {
    let mut is_published = standing.now().published;
    let mut rivals = 0;
    while let Some(now) = standing.changed().await {
        let Some(router) = now.router else { continue };
        if now.published && !is_published {
            remark(format_args!("published: names at other routers have a way here now"));
        }
        is_published = now.published || is_published;
        if now.rivals > rivals {
            remark(format_args!(
                "another process runs with this key, and joined before this one: the later claim counts, so router {router} \
                 tells it to end"
            ));
        }
        rivals = now.rivals;
    }
    std::future::pending().await
}

/// Refuses to look for a name that routers would not carry to.
pub fn check_peer(settings: &NodeSettings, name: Name) -> Outcome {
    match settings.only_peer {
        Some(only) if only != name => Err(Failure::setup_text(format!(
            "with --for, this node talks with {only} alone, and not with {name} (--for, or `for` in [node] of the file)"
        ))),
        _ => Ok(()),
    }
}

/// A node that cannot join has to be told something else; one that was shut out later has not. Who
/// has joined a network, and looked for a router nearby, has forgotten to run its node.
fn explain(error: NodeError, settings: &NodeSettings) -> Failure {
    let looked_nearby = matches!(settings.router, RouterChoice::Discovered { .. });
    match error {
        NodeError::Closed => Failure::operation(error),
        error if looked_nearby => match Joined::all() {
            Ok(all) if !all.is_empty() => Failure::setup_text(format!(
                "{error}; this host is {}: run `rhumb up`, and then the same command",
                all[0]
            )),
            _ => Failure::setup(error),
        },
        error => Failure::setup(error),
    }
}

/// RIBs that are there take milliseconds; who waits for a command that
/// works without them should not wait for long.
const PUBLISH_WITHIN: Duration = Duration::from_secs(2);
