//! A channel in memory: two sessions of one process, for tests, simulations and measurements.

use crate::{MpcError, Session};

/// What has gone over a channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages from the first session to the second, and back.
    pub messages: [u64; 2],
    /// Their bytes.
    pub bytes: [u64; 2],
}

/// Carries messages between two sessions until neither has one.
///
/// # Errors
///
/// The first error of either session; that session has failed then.
pub fn exchange(one: &mut Session, two: &mut Session) -> Result<Traffic, MpcError> {
    let mut traffic = Traffic::default();
    loop {
        let mut quiet = true;
        for side in [0, 1] {
            let (from, to) =
                if side == 0 { (&mut *one, &mut *two) } else { (&mut *two, &mut *one) };
            while let Some(message) = from.poll_message() {
                quiet = false;
                traffic.messages[side] += 1;
                traffic.bytes[side] += message.len() as u64;
                to.handle(&message)?;
                from.recycle(message);
            }
        }
        if quiet {
            return Ok(traffic);
        }
    }
}
