//! Which PDUs without a kept copy a NACK may be about: those that
//! were sent lately to its source, and no others.
//!
//! Who resends by its own lights (a connection) needs no copies here, but must not be steered by
//! forged NACKs.

use std::time::Instant;

use rhumb_wire::Name;

/// The destinations of PDUs without copies.
#[derive(Debug, Default)]
pub(super) struct Streams {
    streams: Vec<Stream>,
}

#[derive(Debug)]
struct Stream {
    to: Name,
    first: u32,
    last: u32,
    used_at: Instant,
}

impl Streams {
    /// Remembers that the PDU of `tag` went to `to`.
    pub(super) fn sent(&mut self, tag: u32, to: Name, now: Instant) {
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.to == to) {
            // The window follows the tags, and stays well below half of their range.
            if tag.wrapping_sub(stream.first) >= WINDOW {
                stream.first = tag.wrapping_sub(WINDOW - 1);
            }
            stream.last = tag;
            stream.used_at = now;
            return;
        }
        if self.streams.len() >= MAX_STREAMS
            && let Some(oldest) = (0..self.streams.len()).min_by_key(|&at| self.streams[at].used_at)
        {
            self.streams.swap_remove(oldest);
        }
        self.streams.push(Stream { to, first: tag, last: tag, used_at: now });
    }

    /// Where PDUs without copies went, the latest first.
    pub(super) fn destinations(&self) -> impl Iterator<Item = Name> {
        let mut streams: Vec<_> = self.streams.iter().map(|it| (it.used_at, it.to)).collect();
        streams.sort_by_key(|(used_at, _)| std::cmp::Reverse(*used_at));
        streams.into_iter().map(|(_, to)| to)
    }

    /// Whether a NACK from `to` about `tag` is to be believed.
    pub(super) fn believes(&self, tag: u32, to: Name) -> bool {
        self.streams.iter().any(|stream| {
            let span = stream.last.wrapping_sub(stream.first);
            stream.to == to && tag.wrapping_sub(stream.first) <= span
        })
    }
}

/// Tags back from the newest: more than a connection has under way, one in 65,536 of all.
const WINDOW: u32 = 1 << 16;
/// Few, because they are searched one by one; a node has far fewer connections that are busy at
/// once.
const MAX_STREAMS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_recent_tags_of_the_destination_are_believed() {
        let now = Instant::now();
        let (a, b) = (Name([1; 32]), Name([2; 32]));
        let mut streams = Streams::default();
        let first = u32::MAX - 5;
        assert!(!streams.believes(first, a));
        for n in 0..WINDOW + 10 {
            streams.sent(first.wrapping_add(n), a, now);
        }
        let last = first.wrapping_add(WINDOW + 9);
        for (back, believed) in [(0, true), (WINDOW - 1, true), (WINDOW, false)] {
            assert_eq!(streams.believes(last.wrapping_sub(back), a), believed, "{back} back");
        }
        assert!(!streams.believes(last.wrapping_add(1), a));
        assert!(!streams.believes(last, b));
    }

    #[test]
    fn the_destination_unused_for_longest_makes_room() {
        let now = Instant::now();
        let mut streams = Streams::default();
        for n in 0..=MAX_STREAMS as u32 {
            let later = now + std::time::Duration::from_secs(n.into());
            streams.sent(n, Name([n as u8; 32]), later);
        }
        assert!(!streams.believes(0, Name([0; 32])));
        assert!((1..=MAX_STREAMS as u32).all(|n| streams.believes(n, Name([n as u8; 32]))));
    }
}
