//! The thread that follows what a key server revokes, and tells the waypoint each change.
//!
//! A server that is gone costs a line in the log. What is known stays in force, and what is new there is not known here until
//! the server is back: `rhumb_waypoint_follows_key_server` tells which.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rhumb_capability::Revocations;
use rhumb_io::Wake;
use rhumb_keyserver::feed::RevocationFeed;

use crate::clock;
use crate::commands::keyserver::load_signer;
use crate::config::FollowSettings;
use crate::failure::{Failure, Outcome};
use crate::revocation_feed::{Heard, follow};

/// What the thread has learnt.
pub(super) enum News {
    /// All that is revoked. Who has taken it over drops `done`: with the last one it is in force.
    Current { serial: u32, revocations: Arc<Revocations>, done: Sender<()> },
    /// The server does not answer.
    Lost,
}

/// The feed of these settings, not asked yet.
pub(super) fn feed(settings: &FollowSettings) -> Outcome<RevocationFeed> {
    let key = load_signer(&settings.key)?;
    RevocationFeed::new(&settings.zone, key).map_err(|error| {
        Failure::setup_text(format!("zone {} cannot be followed: {error}", settings.zone))
    })
}

/// Starts the thread. It wakes `wake` for each piece of news, and ends with the process.
pub(super) fn start(
    settings: &FollowSettings,
    mut feed: RevocationFeed,
    wake: Wake,
) -> Outcome<Receiver<News>> {
    let (tell, news) = channel();
    let server = settings.server;
    let run = move || {
        let followed = follow(&mut feed, server, |heard| {
            let (done, in_force) = channel();
            let piece = match heard {
                Heard::Lost(error) => {
                    tracing::warn!(%server, "revocations are not followed: {error}; trying on");
                    News::Lost
                }
                Heard::Current(feed) => match feed.revocations(clock::now().unix_s()) {
                    Ok(revocations) => {
                        let (serial, revocations) = (feed.serial(), Arc::new(revocations));
                        News::Current { serial, revocations, done }
                    }
                    Err(error) => {
                        tracing::error!(%error, "what is revoked cannot be taken");
                        return true;
                    }
                },
            };
            let goes_on = tell.send(piece).is_ok();
            wake.wake();
            // The next question tells the server that this is in force, so it waits until it is.
            let _ = in_force.recv_timeout(FORCE_PATIENCE);
            goes_on
        });
        if let Err(failure) = followed {
            tracing::error!(%failure, "following ended");
        }
    };
    std::thread::Builder::new().name("follow".to_owned()).spawn(run).map_err(Failure::operation)?;
    Ok(news)
}

/// Workers take orders between two batches. One that takes longer than this is about to end the waypoint.
const FORCE_PATIENCE: Duration = Duration::from_secs(5);
