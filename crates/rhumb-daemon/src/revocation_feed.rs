//! Drives a [`RevocationFeed`] over TCP on the calling
//! thread: for a waypoint, on a thread of its own.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rhumb_keyserver::feed::{EXCHANGE_MS, FeedError, RevocationFeed};

use crate::clock;
use crate::failure::Outcome;
use crate::key_fetch::random;

/// What came of an exchange, for whoever follows.
#[derive(Debug)]
pub enum Heard<'a> {
    /// The server answers: everything up to the feed's serial is known.
    /// Said for the first answer and for each change.
    Current(&'a RevocationFeed),
    /// The server answers that nothing has changed.
    Unchanged(&'a RevocationFeed),
    /// The server is lost, or refuses; it is tried again. Said once until it answers again.
    Lost(&'a FeedError),
}

/// Follows the server at `address` for as long as `hear` says to go on.
pub fn follow(
    feed: &mut RevocationFeed,
    address: SocketAddr,
    mut hear: impl FnMut(Heard<'_>) -> bool,
) -> Outcome {
    let mut pause = FIRST_PAUSE;
    let mut is_lost = false;
    let mut is_new = true;
    loop {
        let lost = match connect(address) {
            Ok(mut stream) => loop {
                match feed.exchange(&mut stream, random()? as u16, || clock::now().unix_ms) {
                    Ok(changed) => {
                        pause = FIRST_PAUSE;
                        let goes_on = hear(if changed || is_lost || is_new {
                            Heard::Current(feed)
                        } else {
                            Heard::Unchanged(feed)
                        });
                        (is_lost, is_new) = (false, false);
                        if !goes_on {
                            return Ok(());
                        }
                    }
                    Err(error) => break error,
                }
            },
            Err(error) => FeedError::Connection(error),
        };
        if !is_lost && !hear(Heard::Lost(&lost)) {
            return Ok(());
        }
        is_lost = true;
        // Between a half and all of it, so that waypoints do not come back together.
        let half_ms = pause.as_millis() as u64 / 2;
        std::thread::sleep(Duration::from_millis(half_ms + random()? % (half_ms + 1)));
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_millis(EXCHANGE_MS)))?;
    stream.set_write_timeout(Some(CONNECT_PATIENCE))?;
    Ok(stream)
}

/// A server that restarts is back soon.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Revocations that wait for a server which comes back wait no longer than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
