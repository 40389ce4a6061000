//! How many messages to ask for at a time: as many as make a batch of good size. Many when single
//! datagrams arrive, few when superpackets do, each of which may be 64 datagrams or 64 KiB.
//!
//! Invariant: the answer is between one and [`MAX_MESSAGES`], whatever was received.

use super::sys::MAX_MESSAGES;

/// What the messages of the last call held, on average.
#[derive(Debug)]
pub(super) struct Load {
    batch_datagrams: usize,
    datagrams_per_message: usize,
    bytes_per_message: usize,
}

impl Load {
    /// So many datagrams make a batch of good size.
    pub(super) fn new(batch_datagrams: usize) -> Self {
        Self { batch_datagrams, datagrams_per_message: 1, bytes_per_message: 1 }
    }

    /// Learns from what a call received.
    pub(super) fn observe(&mut self, messages: usize, datagrams: usize, bytes: usize) {
        if messages > 0 {
            self.datagrams_per_message = datagrams.div_ceil(messages).max(1);
            self.bytes_per_message = bytes.div_ceil(messages).max(1);
        }
    }

    /// How many messages the next call should ask for.
    pub(super) fn messages_to_ask(&self) -> usize {
        // Of the next call's the load is not known.
        let least = (self.batch_datagrams / LARGEST_MESSAGE).clamp(1, MIN_MESSAGES);
        (self.batch_datagrams / self.datagrams_per_message)
            .min(BATCH_BYTES / self.bytes_per_message)
            .clamp(least, MAX_MESSAGES)
    }
}

/// Bytes that make a batch of good size: they stay in the
/// second-level cache from receiving to sending.
const BATCH_BYTES: usize = 512 << 10;

/// Fewest messages to ask for, where that is no more than a batch.
const MIN_MESSAGES: usize = 8;
/// Datagrams in a superpacket, at most.
const LARGEST_MESSAGE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(messages: usize, datagrams: usize, bytes: usize) -> usize {
        let mut load = Load::new(1024);
        load.observe(messages, datagrams, bytes);
        load.messages_to_ask()
    }

    #[test]
    fn few_messages_are_asked_for_when_they_are_large() {
        assert_eq!(Load::new(1024).messages_to_ask(), MAX_MESSAGES);
        assert_eq!(asked(64, 64, 64 * 1400), 64, "single datagrams");
        assert_eq!(asked(1, 1, 65_507), 8, "large datagrams");
        assert_eq!(asked(10, 640, 640 * 64), 16, "superpackets of small datagrams");
        assert_eq!(asked(10, 640, 640 * 1000), 8, "full superpackets");
        assert_eq!(asked(10, 80, 80 * 1400), 46, "short superpackets");
    }

    #[test]
    fn who_works_long_on_each_datagram_is_given_few() {
        let mut load = Load::new(256);
        load.observe(10, 640, 640 * 120);
        assert_eq!(load.messages_to_ask(), 4);
        load.observe(64, 64, 64 * 120);
        assert_eq!(load.messages_to_ask(), MAX_MESSAGES);
        assert_eq!(Load::new(0).messages_to_ask(), 1);
    }

    #[test]
    fn an_empty_call_leaves_the_load_as_it_was() {
        let mut load = Load::new(1024);
        load.observe(1, 1, 65_507);
        load.observe(0, 0, 0);
        assert_eq!(load.messages_to_ask(), MIN_MESSAGES);
    }
}
