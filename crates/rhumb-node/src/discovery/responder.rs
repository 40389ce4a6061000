//! Which queries a router answers. No I/O: time, links and datagrams are arguments.
//!
//! Invariant: whatever comes in, at most [`MAX_BURST`] answers go out at once and [`ANSWERS_PER_S`]
//! per second in the long run, each to a neighbour and smaller than what it answers.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_wire::discovery::Discovery;

use super::Links;

/// What a beacon has done since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BeaconCounters {
    /// Queries answered.
    pub answered: u64,
    dropped: [u64; BeaconDrop::ALL.len()],
}

/// Why something that came to a beacon was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum BeaconDrop {
    /// It is no query.
    Malformed,
    /// Its sender is not on a link of the router.
    OffLink,
    /// There were as many answers as allowed.
    RateLimited,
    /// The system does not send the answer.
    Unsent,
}

impl BeaconDrop {
    /// All reasons.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The label in metrics.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl BeaconCounters {
    /// How often `reason` came up.
    pub fn dropped(&self, reason: BeaconDrop) -> u64 {
        self.dropped[reason as usize]
    }

    /// Each reason and how often it came up.
    pub fn drops(&self) -> impl Iterator<Item = (BeaconDrop, u64)> {
        BeaconDrop::ALL.iter().copied().zip(self.dropped)
    }

    pub(super) fn count_drop(&mut self, reason: BeaconDrop) {
        self.dropped[reason as usize] += 1;
    }
}

/// Decides about queries.
#[derive(Debug)]
pub(super) struct Responder {
    /// When the answers so far would all have been given at the long-run rate.
    caught_up: Instant,
    answer: Vec<u8>,
}

impl Responder {
    pub(super) fn new(now: Instant) -> Self {
        Self { caught_up: now, answer: Vec::with_capacity(Discovery::ANSWER_LEN) }
    }

    /// The answer to a datagram that came from `from`.
    pub(super) fn answer(
        &mut self,
        from: &SocketAddr,
        datagram: &[u8],
        links: &Links,
        now: Instant,
    ) -> Result<&[u8], BeaconDrop> {
        let Ok(Discovery::Query(nonce)) = Discovery::parse(datagram) else {
            return Err(BeaconDrop::Malformed);
        };
        if !links.contains(from) {
            return Err(BeaconDrop::OffLink);
        }
        let ahead = self.caught_up.saturating_duration_since(now);
        if ahead > INTERVAL * (MAX_BURST - 1) {
            return Err(BeaconDrop::RateLimited);
        }
        self.caught_up = now + ahead + INTERVAL;
        self.answer.clear();
        Discovery::Answer(nonce).emit(&mut self.answer);
        Ok(&self.answer)
    }
}

/// Answers in the long run: a nuisance to no link, at 12 bytes each,
/// and a thousand nodes are served in ten seconds.
pub const ANSWERS_PER_S: u32 = 100;
/// Answers at once: a full /24 that comes back from a power cut.
pub const MAX_BURST: u32 = 256;

const INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / ANSWERS_PER_S as u64);

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::discovery::Nonce;

    fn query() -> Vec<u8> {
        let mut query = Vec::new();
        Discovery::Query(Nonce([9; 8])).emit(&mut query);
        query
    }

    fn links() -> Links {
        Links::of_subnet([192, 0, 2, 0].into(), 24)
    }

    fn neighbour() -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 9], 5000))
    }

    #[test]
    fn an_answer_repeats_the_nonce_and_is_smaller_than_the_query() {
        let now = Instant::now();
        let mut responder = Responder::new(now);
        let query = query();
        let answer = responder.answer(&neighbour(), &query, &links(), now).expect("an answer");
        assert!(answer.len() < query.len());
        assert_eq!(Discovery::parse(answer), Ok(Discovery::Answer(Nonce([9; 8]))));
    }

    #[test]
    fn strangers_and_noise_get_no_answer_and_use_nothing_up() {
        let now = Instant::now();
        let mut responder = Responder::new(now);
        let stranger = SocketAddr::from(([203, 0, 113, 1], 5000));
        for _ in 0..2 * MAX_BURST {
            let refused = responder.answer(&stranger, &query(), &links(), now);
            assert_eq!(refused, Err(BeaconDrop::OffLink));
        }
        let mut long = query();
        long.push(0);
        let mut answer = Vec::new();
        Discovery::Answer(Nonce([9; 8])).emit(&mut answer);
        for noise in [&[][..], b"hello", &long, &long[..63], &answer] {
            let refused = responder.answer(&neighbour(), noise, &links(), now);
            assert_eq!(refused, Err(BeaconDrop::Malformed));
        }
        assert_eq!(responder.caught_up, now);
    }

    #[test]
    fn answers_are_limited_at_once_and_in_the_long_run() {
        let mut now = Instant::now();
        let mut responder = Responder::new(now);
        let mut answered = |now, tries: u32| {
            let answers = (0..tries)
                .filter(|_| responder.answer(&neighbour(), &query(), &links(), now).is_ok());
            answers.count() as u32
        };
        assert_eq!(answered(now, 10 * MAX_BURST), MAX_BURST);
        now += INTERVAL - Duration::from_nanos(1);
        assert_eq!(answered(now, 10), 0);
        now += Duration::from_nanos(1);
        assert_eq!(answered(now, 10), 1);
        now += Duration::from_secs(1);
        assert_eq!(answered(now, 10 * MAX_BURST), ANSWERS_PER_S);
        now += Duration::from_secs(3600);
        assert_eq!(answered(now, 10 * MAX_BURST), MAX_BURST);
    }

    #[test]
    fn every_reason_counts_for_itself() {
        let mut counters = BeaconCounters::default();
        for &reason in BeaconDrop::ALL {
            counters.count_drop(reason);
            assert_eq!(counters.dropped(reason), 1);
        }
        assert_eq!(BeaconDrop::OffLink.as_str(), "off_link");
    }
}
