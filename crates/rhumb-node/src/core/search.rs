//! Which router to try next: the one that was given, or those that discovery finds.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_wire::Name;
use rhumb_wire::discovery::Nonce;

use super::discovery::{Discovery, Nonces};
use crate::{Remote, RouterChoice};

/// The way to routers.
#[derive(Debug)]
pub(super) enum Search {
    /// One router, tried again for ever.
    Fixed { router: Remote, is_tried: bool },
    /// Whoever is found.
    Discovery(Box<Discovery>),
}

impl Search {
    pub(super) fn new(choice: &RouterChoice, secret: &[u8; 32]) -> Self {
        match choice {
            RouterChoice::Fixed(router) => Self::Fixed { router: *router, is_tried: false },
            RouterChoice::Discovered { roots, only } => {
                let nonces = Nonces::new(secret);
                Self::Discovery(Box::new(Discovery::new(roots.clone(), only.clone(), nonces)))
            }
        }
    }

    /// Whether there is one router and no other.
    pub(super) fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed { .. })
    }

    /// Begins to look for a router.
    pub(super) fn begin(&mut self, now: Instant) {
        match self {
            Self::Fixed { is_tried, .. } => *is_tried = false,
            Self::Discovery(discovery) => discovery.begin(now),
        }
    }

    /// Whoever is at `address` is not to be tried in this round.
    pub(super) fn skip(&mut self, address: SocketAddr) {
        if let Self::Discovery(discovery) = self {
            discovery.skip(address);
        }
    }

    /// There is one.
    pub(super) fn end(&mut self) {
        if let Self::Discovery(discovery) = self {
            discovery.end();
        }
    }

    /// The next one to try, if there is one by now.
    pub(super) fn next(&mut self, now: Instant) -> Option<Remote> {
        match self {
            Self::Fixed { router, is_tried } => {
                (!std::mem::replace(is_tried, true)).then_some(*router)
            }
            Self::Discovery(discovery) => discovery.next(now),
        }
    }

    /// Whether nobody is left to try.
    pub(super) fn is_exhausted(&self) -> bool {
        match self {
            Self::Fixed { is_tried, .. } => *is_tried,
            Self::Discovery(discovery) => discovery.is_exhausted(),
        }
    }

    /// When there may be another one to try, or it is time to ask.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Fixed { .. } => None,
            Self::Discovery(discovery) => discovery.poll_timeout(),
        }
    }

    /// The nonce to ask the local network with, when it is time to.
    pub(super) fn poll_query(&mut self, now: Instant) -> Option<Nonce> {
        match self {
            Self::Fixed { .. } => None,
            Self::Discovery(discovery) => discovery.poll_query(now),
        }
    }

    /// Somebody on the local network answers. False when nobody asked.
    pub(super) fn handle_answer(&mut self, from: SocketAddr, nonce: Nonce) -> bool {
        match self {
            Self::Fixed { .. } => false,
            Self::Discovery(discovery) => discovery.handle_answer(from, nonce),
        }
    }

    /// Whether the router of this name may be joined, as far as the handshake has not checked that.
    pub(super) fn allows(&self, router: &Name) -> bool {
        match self {
            Self::Fixed { .. } => true,
            Self::Discovery(discovery) => discovery.allows(router),
        }
    }

    /// Others should be tried before whoever is at `address`.
    pub(super) fn avoid(&mut self, address: SocketAddr, now: Instant) {
        if let Self::Discovery(discovery) = self {
            discovery.avoid(address, now);
        }
    }

    /// How long a router may take to answer the first advertisement.
    pub(super) fn accept_within(&self) -> Duration {
        match self {
            Self::Fixed { .. } => ACCEPT_WITHIN,
            Self::Discovery(_) => ACCEPT_WITHIN_IF_THERE_ARE_OTHERS,
        }
    }
}

/// A router that shook hands and then answers none of six advertisements is not working.
const ACCEPT_WITHIN: Duration = Duration::from_secs(10);
/// Where another one may do better, three advertisements tell.
const ACCEPT_WITHIN_IF_THERE_ARE_OTHERS: Duration = Duration::from_secs(3);
