//! What every command of a node does around its work: join a router, end early when told to, leave.
//!
//! Leaving withdraws the name, so that nobody sends to a process that is gone.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use rhumb_node::{Config, Node, NodeError};
use rhumb_trust::Identity;

use crate::config::NodeSettings;
use crate::failure::{Failure, Outcome};
use crate::key;
use crate::lifetime::Lifetime;

/// Joins, does `work`, and leaves, whatever came of the work. Ended from outside, the work is dropped where it stands
/// and `interrupted` says what that means.
pub(crate) fn joined<T, F: Future<Output = Outcome<T>>>(
    settings: &NodeSettings,
    with_parent: bool,
    interrupted: Outcome<T>,
    work: impl FnOnce(Node) -> F,
) -> Outcome<T> {
    let identity = key::load_or_ephemeral(settings.key.as_deref().map(Path::new))?;
    joined_as(identity, settings, with_parent, interrupted, work)
}

/// As [`joined`], under the name of `identity`.
pub(crate) fn joined_as<T, F: Future<Output = Outcome<T>>>(
    identity: Arc<Identity>,
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
        let node = tokio::select! {
            joined = Node::join(identity, config) => joined.map_err(explain)?,
            _ = lifetime.end() => return interrupted,
        };
        let outcome = tokio::select! {
            outcome = work(node.clone()) => outcome,
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

/// A node that cannot join has to be told something else; one that was shut out later has not.
fn explain(error: NodeError) -> Failure {
    match error {
        NodeError::Closed => Failure::operation(error),
        error => Failure::setup(error),
    }
}
