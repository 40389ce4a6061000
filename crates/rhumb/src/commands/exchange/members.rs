//! A member's connection: hellos, then its messages to the shards, until it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rhumb_channel::{Channel, ChannelError, Inbox};
use rhumb_daemon::exchange_protocols::{GOODBYE, HELLO_TIMEOUT};
use rhumb_daemon::key::fresh_secret;
use rhumb_exchange::{ExchangeError, Hello, Lane};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::hub::{Connection, Hub, Input, Line, places};

/// Serves a member until it is gone.
pub(super) async fn serve(hub: Arc<Hub>, channel: Channel) {
    let Channel { peer, address, mut inbox, outbox, .. } = channel;
    // The roster may have changed since the handshake.
    let Some(lane) = hub.config().common.roster.lane_of_key(&peer.0) else { return };
    let site = site_of(&hub, lane);
    let line = Line { outbox, cut: Arc::new(Notify::new()) };
    let participates = match greet(&hub, lane, &line, &mut inbox).await {
        Ok(participates) => participates,
        Err(problem) => {
            hub.counters.refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(site, problem, "a member is refused");
            drop(line);
            return inbox.finish(HELLO_TIMEOUT).await;
        }
    };
    let Some(connection) = hub.member_here(lane, participates, address, &line) else { return };
    tracing::info!(site, participates, "a member is here");
    let end = tokio::select! {
        end = listen(&hub, lane, connection, &mut inbox) => end,
        () = line.cut.notified() => "cut".to_owned(),
    };
    hub.member_gone(lane, connection);
    tracing::info!(site, end, "a member is gone");
    drop(line);
    inbox.finish(GOODBYE).await;
}

/// Both say who they are and what they were started with. Whether the member takes part in
/// Select-Best, or what differs.
async fn greet(hub: &Hub, lane: Lane, line: &Line, inbox: &mut Inbox) -> Result<bool, String> {
    let nonce = fresh_secret().map_err(|failure| failure.to_string())?;
    let config = hub.config();
    let mine = config.hello(hub.party, nonce);
    line.outbox.try_send(mine.emit()).map_err(|error| error.to_string())?;
    let hello = timeout(HELLO_TIMEOUT, inbox.next()).await;
    let hello = hello.unwrap_or(Err(ChannelError::TimedOut)).map_err(|error| error.to_string())?;
    let judged = Hello::parse(&hello).and_then(|theirs| config.check_member(&theirs, lane));
    judged.map_err(|error: ExchangeError| error.to_string())
}

/// Passes on what it says; why it ended.
async fn listen(hub: &Hub, lane: Lane, connection: Connection, inbox: &mut Inbox) -> String {
    let places = places();
    loop {
        let message = match inbox.next().await {
            Ok(message) => message,
            Err(error) => return error.to_string(),
        };
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return "the server ends".to_owned();
        };
        let said = |message| Input::MemberSaid { lane, connection, message, _place: place };
        if !hub.tell(message, said) {
            hub.counters.cut.fetch_add(1, Ordering::Relaxed);
            return "it wrote to a shard that there is not".to_owned();
        }
    }
}

/// What logs call a lane.
pub(super) fn site_of(hub: &Hub, lane: Lane) -> String {
    hub.config().common.roster.site(lane).map_or_else(String::new, |site| site.id.clone())
}
