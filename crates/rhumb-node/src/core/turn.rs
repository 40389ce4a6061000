//! What one call of the core lends to its parts: the link, the time, the next tag, and spread.

use rhumb_link::Endpoint;
use rhumb_trust::Now;

use super::jitter::Jitter;

/// The surroundings of one call.
pub(super) struct Turn<'a> {
    pub(super) endpoint: &'a mut Endpoint,
    pub(super) tags: &'a mut Tags,
    pub(super) jitter: &'a mut Jitter,
    pub(super) now: Now,
}

impl Turn<'_> {
    pub(super) fn take_tag(&mut self) -> u32 {
        self.tags.take()
    }
}

/// Tags for PDUs, never 0, which routers give to chains that go ahead:
/// consecutive from a random start, so that whoever does not see a PDU cannot
/// tell its tag, and so cannot forge a NACK about it.
#[derive(Debug)]
pub(super) struct Tags(u32);

impl Tags {
    pub(super) fn starting_at(first: u32) -> Self {
        Self(first)
    }

    /// A tag that none of the last four billion PDUs had.
    pub(super) fn take(&mut self) -> u32 {
        let tag = self.0.max(1);
        self.0 = tag.wrapping_add(1);
        tag
    }
}
