//! The pair of one server of each party. Party one leads: it calls, and decides whom.
//!
//! 1. A server of party one calls the other party's first server; when that has been out of reach
//!    for the time of takeover, the second.
//! 2. A standby of party one calls nobody while its primary is there: it keeps a connection to it
//!    to know. When the primary comes back with a pair of its own, the standby ends its pair.
//! 3. A server of party two takes the call of any server of party one, unless it
//!    is in a pair with another: then it hangs up.
//! 4. A pair that works is not given up for a server that comes back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rhumb_channel::{Channel, ChannelError, Credentials, connect};
use rhumb_daemon::exchange_protocols::{GOODBYE, HELLO_TIMEOUT, PAIR, WATCH};
use rhumb_daemon::key::fresh_secret;
use rhumb_daemon::remote::Pinned;
use rhumb_exchange::Hello;
use tokio::sync::Notify;
use tokio::time::{interval, sleep, timeout};

use super::hub::{Hub, Input, Line};

/// Whom a server of party one calls.
pub(super) struct Leader {
    pub(super) hub: Arc<Hub>,
    pub(super) credentials: Credentials,
    pub(super) peers: Vec<Pinned>,
    pub(super) primary: Option<Pinned>,
    pub(super) takeover: Duration,
}

/// How a call ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// Nobody answered, or the wrong one.
    Unreachable(String),
    /// It answered and hung up: it is in another pair.
    Busy,
    /// The two do not fit each other.
    Refused(String),
    /// There was a pair.
    Paired(String),
}

impl Leader {
    /// Calls for as long as the server runs.
    pub(super) async fn lead(self) {
        let mut first_unreachable = Instant::now();
        let mut said = String::new();
        // Who was said not to be reached, until it is.
        let mut missed = Vec::new();
        loop {
            if let Some(primary) = self.primary {
                self.wait_until_gone(primary).await;
            }
            let is_overdue = first_unreachable.elapsed() >= self.takeover;
            let calls = if is_overdue { self.peers.len() } else { 1 };
            for (rank, peer) in self.peers.iter().take(calls).enumerate() {
                let ended = self.call(*peer, &mut missed).await;
                let text = match &ended {
                    Ended::Unreachable(why) => format!("the other party is not reached: {why}"),
                    Ended::Busy => "the other party is in a pair with another server".to_owned(),
                    Ended::Refused(why) => format!("no pair with the other party: {why}"),
                    Ended::Paired(why) => format!("the pair has ended: {why}"),
                };
                if said != text {
                    tracing::warn!(address = %peer.address, "{text}");
                    said = text;
                }
                if matches!(ended, Ended::Unreachable(_)) && !missed.contains(&peer.address) {
                    missed.push(peer.address);
                }
                match ended {
                    Ended::Unreachable(_) => {}
                    // Whoever answers is there: no reason to go to its standby.
                    Ended::Busy | Ended::Refused(_) if rank == 0 => {
                        first_unreachable = Instant::now();
                        break;
                    }
                    Ended::Busy | Ended::Refused(_) => {}
                    Ended::Paired(_) => {
                        first_unreachable = Instant::now();
                        break;
                    }
                }
            }
            sleep(RETRY).await;
        }
    }

    async fn call(&self, peer: Pinned, missed: &mut Vec<SocketAddr>) -> Ended {
        let channel = match connect(&self.credentials, peer.address, peer.name, &PAIR).await {
            Ok(channel) => {
                // Whoever reads the line about its absence reads this one, too.
                if let Some(at) = missed.iter().position(|address| *address == peer.address) {
                    missed.swap_remove(at);
                    tracing::warn!(address = %peer.address, "the other party is reached now");
                }
                channel
            }
            Err(error @ (ChannelError::Refused { .. } | ChannelError::OtherProtocol { .. })) => {
                return Ended::Refused(error.to_string());
            }
            Err(error) => return Ended::Unreachable(error.to_string()),
        };
        match self.primary {
            None => serve(&self.hub, channel).await,
            Some(primary) => tokio::select! {
                ended = serve(&self.hub, channel) => ended,
                () = self.primary_is_paired(primary) => {
                    Ended::Paired("the primary is back, and in a pair".to_owned())
                }
            },
        }
    }

    /// Waits until the primary has been out of reach for the time of takeover.
    async fn wait_until_gone(&self, primary: Pinned) {
        let mut last_seen = Instant::now();
        while last_seen.elapsed() < self.takeover {
            if let Ok(mut channel) =
                connect(&self.credentials, primary.address, primary.name, &WATCH).await
            {
                while channel.inbox.next().await.is_ok() {}
                last_seen = Instant::now();
            }
            sleep(RETRY).await;
        }
        tracing::warn!(address = %primary.address, "the primary is out of reach: taking over");
    }

    /// Waits until the primary says that it is in a pair.
    async fn primary_is_paired(&self, primary: Pinned) {
        loop {
            if let Ok(mut channel) =
                connect(&self.credentials, primary.address, primary.name, &WATCH).await
            {
                while let Ok(word) = channel.inbox.next().await {
                    if word == PAIRED {
                        return;
                    }
                }
            }
            sleep(RETRY).await;
        }
    }
}

/// Party two's end of a call.
pub(super) async fn answer(hub: Arc<Hub>, channel: Channel) {
    if hub.is_paired_with_another(channel.peer) {
        return hang_up(channel).await;
    }
    match serve(&hub, channel).await {
        Ended::Paired(why) => tracing::warn!(why, "the pair has ended"),
        ended => tracing::warn!(?ended, "no pair with the other party"),
    }
}

/// Tells a standby how its primary is, until it hangs up.
pub(super) async fn tell_standby(hub: Arc<Hub>, channel: Channel) {
    let Channel { mut inbox, outbox, .. } = channel;
    let tell = async {
        let mut period = interval(WORD_PERIOD);
        loop {
            period.tick().await;
            let word = if hub.pair().is_some() { PAIRED } else { ALONE };
            if outbox.try_send(word.to_vec()).is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = tell => {}
        _ = inbox.next() => {}
    }
}

/// Ends a channel without a hello.
pub(super) async fn hang_up(channel: Channel) {
    let Channel { inbox, outbox, .. } = channel;
    drop(outbox);
    inbox.finish(HELLO_TIMEOUT).await;
}

/// Hellos, then messages to the shards, until the pair ends.
async fn serve(hub: &Arc<Hub>, channel: Channel) -> Ended {
    let Channel { peer, address, mut inbox, outbox, .. } = channel;
    let line = Line { outbox, cut: Arc::new(Notify::new()) };
    let refused = |why: &dyn std::fmt::Display| Ended::Refused(why.to_string());
    let config = hub.config();
    let mine = match fresh_secret() {
        Ok(nonce) => config.hello(hub.party, nonce),
        Err(failure) => return refused(&failure),
    };
    if let Err(error) = line.outbox.try_send(mine.emit()) {
        return refused(&error);
    }
    let theirs = match timeout(HELLO_TIMEOUT, inbox.next()).await {
        Ok(Ok(theirs)) => theirs,
        Ok(Err(ChannelError::Closed | ChannelError::Cut)) => return Ended::Busy,
        Ok(Err(error)) => return Ended::Unreachable(error.to_string()),
        Err(_) => return Ended::Unreachable("it says no hello".to_owned()),
    };
    let epoch = Hello::parse(&theirs).and_then(|theirs| config.check_party(&mine, &theirs));
    let epoch = match epoch {
        Ok(epoch) => epoch,
        Err(error) => {
            hub.counters.refused.fetch_add(1, Ordering::Relaxed);
            drop(line);
            inbox.finish(HELLO_TIMEOUT).await;
            return refused(&error);
        }
    };
    let Some(connection) = hub.pair_begins(peer, address, (epoch, &config), &line) else {
        drop(line);
        inbox.finish(HELLO_TIMEOUT).await;
        return Ended::Busy;
    };
    tracing::info!(%address, "a pair with the other party begins");
    let ends = AtEnd { hub, connection };
    let listen = async {
        loop {
            let message = match inbox.next().await {
                Ok(message) => message,
                Err(error) => return error.to_string(),
            };
            if !hub.tell(message, |message| Input::PairSaid { connection, message }) {
                return "it wrote to a shard that there is not".to_owned();
            }
        }
    };
    let why = tokio::select! {
        why = listen => why,
        () = line.cut.notified() => "it was cut".to_owned(),
    };
    drop(ends);
    drop(line);
    inbox.finish(GOODBYE).await;
    Ended::Paired(why)
}

/// Ends the pair, also when its task is dropped.
struct AtEnd<'a> {
    hub: &'a Hub,
    connection: u64,
}

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.hub.pair_ends(self.connection);
    }
}

/// What a primary says to its standby.
const PAIRED: &[u8] = &[1];
const ALONE: &[u8] = &[0];
/// Shorter than any takeover.
const WORD_PERIOD: Duration = Duration::from_secs(1);
/// Between calls.
const RETRY: Duration = Duration::from_millis(250);
