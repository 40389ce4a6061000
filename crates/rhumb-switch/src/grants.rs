//! Who may carry for whom: what the peer of a session has proven to us, and what we have shown
//! others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_directory::Expires;
use rhumb_trust::{Chain, Verified};
use rhumb_wire::Name;

/// The proof that a session's peer may carry for a source.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub(crate) chain: Arc<Verified<Chain>>,
    pub(crate) until: Instant,
}

impl Expires for Grant {
    fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }
}

/// What a next hop was shown of a source, and what it said.
#[derive(Debug)]
pub(crate) struct Acceptance {
    /// Until when it takes the source's PDUs without certificates, once it has said so.
    pub(crate) until: Option<Instant>,
    pub(crate) presented_at: Instant,
    /// The routers up to us in the chain that it was shown.
    pub(crate) path: Vec<Name>,
}

impl Expires for Acceptance {
    fn is_over(&self, now: Instant) -> bool {
        self.until.unwrap_or(self.presented_at + ACCEPTED_WITHIN) <= now
    }
}

/// A chain that a next hop did not accept by then got lost, or was
/// refused; it is shown again with the next PDU anyway.
const ACCEPTED_WITHIN: Duration = Duration::from_secs(10);
