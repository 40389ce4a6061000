//! Whether the peer is where its records come from: the state of one check of one address (RFC
//! 9000, sections 8.2 and 9; RFC 9853 has the same for DTLS 1.3).
//!
//! 1. The newest record of a lane came from another address than
//!    the session sends to: that address is asked.
//! 2. It answers, and nothing newer has come from elsewhere since: the session moves there.
//! 3. Then the address it moved from is asked in its turn: if the peer still sends from there, the
//!    move was somebody's who passes records on, and ends as soon as he stops.
//!
//! Invariant: no more bytes go to an address that was not asked about yet than came from there.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use rhumb_wire::datagram::{PathMessage, RECORD_OVERHEAD, SessionIndex};

/// An address that is being asked whether the peer is there.
#[derive(Debug)]
pub(crate) struct PathCheck {
    pub(crate) address: SocketAddr,
    /// The lane whose records came from there.
    lane: SessionIndex,
    /// The highest packet number on that lane that came from there.
    highest: Option<u64>,
    /// What has to come back.
    challenge: NonZeroU64,
    /// Bytes that may still be sent there.
    allowance: usize,
    /// Challenges that are still to be sent by the clock.
    repeats: u8,
    asked_at: Option<Instant>,
}

impl PathCheck {
    /// Nothing was ever sent there.
    pub(crate) fn new(address: SocketAddr, lane: SessionIndex, challenge: NonZeroU64) -> Self {
        Self { address, lane, highest: None, challenge, allowance: 0, repeats: 0, asked_at: None }
    }

    /// The session was there until now.
    pub(crate) fn back(address: SocketAddr, lane: SessionIndex, challenge: NonZeroU64) -> Self {
        let repeats = CHALLENGES_TO_FORMER;
        let allowance = usize::from(repeats) * PATH_RECORD_LEN;
        Self { allowance, repeats, ..Self::new(address, lane, challenge) }
    }

    /// Whether it is about records of `lane` from `address`.
    pub(crate) fn is_about(&self, address: SocketAddr, lane: SessionIndex) -> bool {
        self.address == address && self.lane == lane
    }

    /// A record of `len` bytes came from there.
    pub(crate) fn note(&mut self, number: u64, len: usize) {
        self.highest = self.highest.max(Some(number));
        self.allowance = self.allowance.saturating_add(len);
    }

    /// A message is sent there, whatever is in it.
    pub(crate) fn spend(&mut self) {
        self.allowance = self.allowance.saturating_sub(PATH_RECORD_LEN);
    }

    /// The challenge, if it is time to send it to an address that has just been heard of;
    /// `not_before` is about the session.
    pub(crate) fn ask(
        &mut self,
        newest: Option<u64>,
        not_before: Option<Instant>,
        now: Instant,
    ) -> Option<NonZeroU64> {
        let due = not_before.is_none_or(|at| at <= now);
        if self.highest < newest || !due || self.allowance < PATH_RECORD_LEN {
            return None;
        }
        self.asked_at = Some(now);
        Some(self.challenge)
    }

    /// The challenge, if it is time to repeat it by the clock.
    pub(crate) fn repeat(&mut self, now: Instant) -> Option<NonZeroU64> {
        if self.due()? > now || self.allowance < PATH_RECORD_LEN {
            return None;
        }
        self.repeats -= 1;
        self.asked_at = Some(now);
        Some(self.challenge)
    }

    /// When to repeat the challenge.
    pub(crate) fn due(&self) -> Option<Instant> {
        if self.repeats == 0 { None } else { Some(self.asked_at? + CHALLENGE_INTERVAL) }
    }

    /// Sets the first repetition.
    pub(crate) fn begin(&mut self, now: Instant) -> NonZeroU64 {
        self.repeats = self.repeats.saturating_sub(1);
        self.asked_at = Some(now);
        self.challenge
    }

    /// Whether `answer` shows that the peer is there, and
    /// not elsewhere since; `newest` is the lane's.
    pub(crate) fn is_passed_by(&self, answer: NonZeroU64, newest: Option<u64>) -> bool {
        self.asked_at.is_some() && answer == self.challenge && self.highest >= newest
    }
}

/// Challenges: nobody can guess one that he was not sent, not even the peer, who might want the
/// session to send to somebody else.
pub(crate) struct Challenges {
    key: hmac::Key,
    count: u64,
}

impl Challenges {
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self { key: hmac::Key::new(HMAC_SHA256, secret), count: 0 }
    }

    pub(crate) fn next(&mut self) -> NonZeroU64 {
        self.count += 1;
        let tag = hmac::sign(&self.key, &self.count.to_be_bytes());
        let bytes = tag.as_ref().first_chunk().copied().unwrap_or_default();
        NonZeroU64::new(u64::from_be_bytes(bytes)).unwrap_or(NonZeroU64::MAX)
    }
}

/// A path message as it travels. No longer than the shortest sealed PDU, so one PDU from a new
/// address pays for a challenge to it; of keep-alives it takes two.
pub(crate) const PATH_RECORD_LEN: usize = RECORD_OVERHEAD + PathMessage::LEN;
/// A session asks new addresses no more often than this: somebody who passes on records in other
/// addresses' names causes ten datagrams a second, each no longer than what he sent. Longer than
/// most round trips, so that one challenge is under way at a time.
pub(crate) const CHALLENGE_INTERVAL: Duration = Duration::from_millis(100);
/// How often the address is asked that a session has just left. Nobody need be
/// there any more; if the peer is, all of them are lost by chance once in a
/// hundred times where a third of round trips fail.
const CHALLENGES_TO_FORMER: u8 = 4;

const _: () = assert!(
    PATH_RECORD_LEN == RECORD_OVERHEAD + rhumb_wire::pdu::LabelledHeader::LEN,
    "the shortest PDU pays for a challenge"
);
