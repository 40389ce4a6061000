//! The thread that follows what a key server revokes, and tells the waypoint each change.
//!
//! A server that is gone costs a line in the log. What is known stays in force, over a restart too
//! where it is kept in a file, and what is new there is not known here until the server is back:
//! `rhumb_waypoint_follows_key_server` tells which.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rhumb_capability::Revocations;
use rhumb_io::Wake;
use rhumb_keyserver::feed::RevocationFeed;

use super::kept::{Found, Kept};
use crate::clock;
use crate::config::FollowSettings;
use crate::failure::{Failure, Outcome};
use crate::revocation_feed::{Heard, follow};
use crate::signer::load_signer;

/// What the thread has learnt.
pub enum News {
    /// All that is revoked. Who has taken it over drops `done`: with the last one it is in force.
    /// Not `is_current` is what was kept from before the start.
    Revoked {
        /// The key server's, which grows with each change.
        serial: u32,
        /// All that is in force.
        revocations: Arc<Revocations>,
        /// Whether the key server has said so in this run.
        is_current: bool,
        /// Never sent on; dropped when it is in force.
        done: Sender<()>,
    },
    /// The server does not answer.
    Lost,
    /// Whether all of it is in the file.
    Kept(bool),
}

/// The feed of these settings, not asked yet.
pub fn feed(settings: &FollowSettings) -> Outcome<RevocationFeed> {
    let key = load_signer(&settings.key)?;
    RevocationFeed::new(&settings.zone, key).map_err(|error| {
        Failure::setup_text(format!("zone {} cannot be followed: {error}", settings.zone))
    })
}

/// Starts the thread, with what was kept. It wakes `wake` for
/// each piece of news, and ends with the process.
pub fn start(
    settings: &FollowSettings,
    mut feed: RevocationFeed,
    wake: Wake,
) -> Outcome<(Receiver<News>, Found)> {
    let now_s = clock::now().unix_s();
    let kept = settings.kept.as_ref().map(|path| Kept::open(path, &mut feed, now_s)).transpose()?;
    let found = kept.as_ref().map_or(Found::Nothing, |kept| kept.found().clone());
    let (tell, news) = channel();
    let teller = Teller { tell, wake, kept, is_kept: None };
    if let Found::Book { .. } = found {
        teller.revoked(&feed, false);
    }
    let server = settings.server;
    let run = move || {
        let mut teller = teller;
        let followed = follow(&mut feed, server, |heard| match heard {
            Heard::Lost(error) => {
                tracing::warn!(%server, "revocations are not followed: {error}; trying on");
                teller.tell(News::Lost)
            }
            Heard::Current(feed) => {
                let goes_on = teller.revoked(feed, true);
                teller.keep(feed);
                goes_on
            }
            Heard::Unchanged(feed) => {
                if teller.is_kept == Some(false) {
                    teller.keep(feed);
                }
                true
            }
        });
        if let Err(failure) = followed {
            tracing::error!(%failure, "following ended");
        }
    };
    std::thread::Builder::new().name("follow".to_owned()).spawn(run).map_err(Failure::operation)?;
    Ok((news, found))
}

/// The thread's end of the news, and its file.
struct Teller {
    tell: Sender<News>,
    wake: Wake,
    kept: Option<Kept>,
    /// What was said of it last.
    is_kept: Option<bool>,
}

impl Teller {
    /// Whether somebody listens.
    fn tell(&self, news: News) -> bool {
        let is_heard = self.tell.send(news).is_ok();
        self.wake.wake();
        is_heard
    }

    /// Tells what is revoked. The server's word is waited for until it is
    /// in force: the next question says that it is.
    fn revoked(&self, feed: &RevocationFeed, is_current: bool) -> bool {
        let revocations = match feed.revocations(clock::now().unix_s()) {
            Ok(revocations) => Arc::new(revocations),
            Err(error) => {
                tracing::error!(%error, "what is revoked cannot be taken");
                return true;
            }
        };
        let (done, in_force) = channel();
        let serial = feed.serial();
        let goes_on = self.tell(News::Revoked { serial, revocations, is_current, done });
        if is_current {
            let _ = in_force.recv_timeout(FORCE_PATIENCE);
        }
        goes_on
    }

    /// Writes it down. What fails is in force all the same, and
    /// tried again with the server's next answer.
    fn keep(&mut self, feed: &RevocationFeed) {
        let Some(kept) = &self.kept else { return };
        let saved = kept.save(feed);
        if let Err(error) = &saved
            && self.is_kept != Some(false)
        {
            tracing::error!(%error, "revocations cannot be written down; trying again");
        }
        let is_kept = Some(saved.is_ok());
        if self.is_kept != is_kept {
            self.is_kept = is_kept;
            self.tell(News::Kept(saved.is_ok()));
        }
    }
}

/// Workers take orders between two batches. One that takes
/// longer than this is about to end the waypoint.
pub const FORCE_PATIENCE: Duration = Duration::from_secs(5);
