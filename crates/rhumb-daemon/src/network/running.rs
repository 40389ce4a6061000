//! What a host runs for a network: its parts, started one after the other, and kept until the host
//! is told to end. At its keeper's host RIB, router and keeper have to start; this host's own node
//! is started beside them, and tried again if it cannot.

use std::ffi::OsString;

use rhumb_trust::invitation::Host;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::parts::Part;
pub use super::parts::Passed;
use super::{Created, Joined, Openness, plan};
use crate::failure::{Failure, Outcome};
use crate::lifetime::Lifetime;
use crate::supervisor;

/// What is to be started.
pub struct Parts {
    needed: Vec<Part>,
    /// It may fail to start.
    node: Option<Part>,
}

impl Parts {
    /// What its keeper's host runs: with a node of its own, if it is to have one, with these
    /// options.
    ///
    /// # Errors
    /// When nobody knows where the host is.
    pub fn of_keeper(
        created: &Created,
        passed: &Passed<'_>,
        openness: Openness,
        node: Option<Vec<OsString>>,
    ) -> Outcome<Self> {
        let needed = vec![
            plan::rib(created, passed),
            plan::router(created, passed)?,
            plan::keeper(created, passed, openness),
        ];
        Ok(Self { needed, node: node.map(|more| plan::node(created, passed, more)) })
    }

    /// The router that this host has joined as, at `host`, or where it finds itself.
    ///
    /// # Errors
    /// When nobody knows where the network's RIB is.
    pub fn of_router(
        joined: &Joined,
        passed: &Passed<'_>,
        host: Option<&Host>,
        port: u16,
    ) -> Outcome<Self> {
        let needed = vec![plan::joined_router(joined, passed, host, port)?];
        Ok(Self { needed, node: None })
    }

    /// Starts all of them, says whether there is a node, and keeps them until this process is told
    /// to end, which gives nothing, or what is beside them ends. None of them runs any more then.
    ///
    /// # Errors
    /// When one that is needed does not start, or what is beside them fails.
    pub fn run<T>(
        self,
        with_parent: bool,
        beside: impl Future<Output = Outcome<T>>,
        say: impl FnOnce(bool),
    ) -> Outcome<Option<T>> {
        let Self { needed, node } = self;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(Failure::operation)?.block_on(async {
            let mut lifetime = Lifetime::begin(with_parent)?;
            let (stop, stopped) = watch::channel(false);
            let mut parts = JoinSet::new();
            let work = async {
                let has_node = begin(&mut parts, &stopped, needed, node).await?;
                say(has_node);
                tokio::select! {
                    failure = first_failure(&mut parts) => Err(failure),
                    ended = beside => ended.map(Some),
                }
            };
            let outcome = tokio::select! {
                outcome = work => outcome,
                never = supervisor::beat_on() => match never {},
                _ = lifetime.end() => Ok(None),
            };
            // Who listens is told; whoever has ended already need not be.
            let _ = stop.send(true);
            while parts.join_next().await.is_some() {}
            outcome
        })
    }
}

/// Starts what is needed, one after the other, and then the node: whether that can be used.
async fn begin(
    parts: &mut JoinSet<Outcome>,
    stopped: &watch::Receiver<bool>,
    needed: Vec<Part>,
    node: Option<Part>,
) -> Outcome<bool> {
    for part in needed {
        let (ready, is_ready) = oneshot::channel();
        parts.spawn(part.keep(stopped.clone(), ready));
        tokio::select! {
            Ok(()) = is_ready => {}
            failure = first_failure(parts) => return Err(failure),
        }
    }
    let Some(part) = node else { return Ok(false) };
    let (ready, is_ready) = oneshot::channel();
    let stopped = stopped.clone();
    parts.spawn(async move {
        // The others go on without it.
        if let Err(failure) = part.keep(stopped, ready).await {
            tracing::warn!(%failure, "the network is there, and this host is not in it");
        }
        Ok(())
    });
    Ok(is_ready.await.is_ok())
}

/// Why one that is needed cannot be kept running.
async fn first_failure(parts: &mut JoinSet<Outcome>) -> Failure {
    loop {
        match parts.join_next().await {
            Some(Ok(Err(failure))) => return failure,
            Some(Err(error)) => return Failure::operation(error),
            Some(Ok(Ok(()))) => {}
            None => std::future::pending().await,
        }
    }
}
