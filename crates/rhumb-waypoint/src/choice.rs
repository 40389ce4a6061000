//! Which of several ways of one family packets take: sans-IO. Ways stand in the order in which they
//! are preferred, and each is asked by stamped probes whether it works (`rhumb stamp` sends them).
//!
//! 1. The way in use is asked every [`PACE`] while packets go over it, and a preferred one that is
//!    well before it is used again; the others, and all when nothing goes, every [`LEISURE`].
//! 2. A way that leaves `MOST_MISSED` probes in a row unanswered is silent; one
//!    whose waypoint says of a probe that its capability was revoked is refused.
//!    Neither is used while another one is well.
//! 3. Back to a preferred way goes who has seen it well for [`STEADY`].
//!
//! Invariant: a way that may work is not left for another one; where nobody answers, since probes
//! or their answers are filtered, the preferred way is used.

use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How a way stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nothing has been heard yet.
    Untried,
    /// It answers.
    Well,
    /// It does not answer.
    Silent,
    /// One of its waypoints says that its capability was revoked.
    Refused,
    /// There is no valid key for it, or no route to its first waypoint.
    Closed,
    /// Its capabilities are for other destinations than its last
    /// waypoint, which can therefore not be asked.
    NotAsked,
}

/// One way, as far as it is known.
#[derive(Debug, Clone)]
pub struct Health {
    standing: Standing,
    /// Probes under way: what they are known by, and when they were sent. The oldest first.
    flying: Vec<(u64, Instant)>,
    missed: u32,
    well_since: Option<Instant>,
    next: Instant,
    round_trip: Option<Duration>,
}

/// The ways of one family, and the one in use.
#[derive(Debug, Clone)]
pub struct Choice {
    ways: Vec<Health>,
    current: usize,
}

/// What is said of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// The last waypoint has answered.
    Here,
    /// This waypoint says that the capability was revoked.
    Prohibited(IpAddr),
}

impl Standing {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Untried => "untried",
            Self::Well => "well",
            Self::Silent => "silent",
            Self::Refused => "refused",
            Self::Closed => "closed",
            Self::NotAsked => "not asked",
        }
    }

    /// How much is to be said for it: of two that are equal the preferred one is taken.
    fn rank(self) -> u8 {
        match self {
            Self::Well => 3,
            Self::Untried | Self::NotAsked => 2,
            Self::Silent => 1,
            Self::Refused | Self::Closed => 0,
        }
    }
}

impl Health {
    fn new(now: Instant) -> Self {
        Self {
            standing: Standing::Untried,
            flying: Vec::new(),
            missed: 0,
            well_since: None,
            next: now,
            round_trip: None,
        }
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// How long an answer takes, smoothed, while it is well.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip.filter(|_| self.standing == Standing::Well)
    }

    fn set(&mut self, standing: Standing, now: Instant) {
        self.standing = standing;
        match standing {
            Standing::Well => self.well_since = self.well_since.or(Some(now)),
            _ => self.well_since = None,
        }
    }
}

impl Choice {
    /// Ways of which nothing is known.
    pub fn new(ways: usize, now: Instant) -> Self {
        Self { ways: vec![Health::new(now); ways], current: 0 }
    }

    /// The one in use.
    pub fn current(&self) -> usize {
        self.current
    }

    /// All of them, in their order.
    pub fn ways(&self) -> &[Health] {
        &self.ways
    }

    /// When to look again.
    pub fn next(&self) -> Option<Instant> {
        self.ways.iter().map(|way| way.next).min()
    }

    /// Whether a way is to be asked now. If so, its next turn is set;
    /// `is_busy` says that packets go over the way in use.
    pub fn is_due(&mut self, way: usize, is_busy: bool, now: Instant) -> bool {
        let is_current = way == self.current;
        let Some(health) = self.ways.get_mut(way) else { return false };
        if is_current && is_busy {
            health.next = health.next.min(now + PACE);
        }
        if health.next > now {
            return false;
        }
        // One that has begun not to answer is asked soon, until it is known whether that is so.
        let is_unsure = health.missed > 0 && health.standing != Standing::Silent;
        let is_unsure = is_unsure || health.standing == Standing::Untried;
        let is_to_return = way < self.current && health.standing == Standing::Well;
        let soon = is_unsure || is_to_return || is_current && is_busy;
        health.next = now + if soon { PACE } else { LEISURE };
        true
    }

    /// A probe was sent, known by `nonce`. Those before it that nobody answered are missed.
    pub fn sent(&mut self, way: usize, nonce: u64, now: Instant) {
        let Some(health) = self.ways.get_mut(way) else { return };
        health.missed = health.flying.len() as u32;
        if health.missed >= MOST_MISSED {
            if health.standing != Standing::Refused {
                health.set(Standing::Silent, now);
            }
            health.flying.remove(0);
        } else if health.missed > 0 && health.standing == Standing::Well {
            // An answer that is late is asked for again at once.
            health.next = health.next.min(now + PACE);
        }
        health.flying.push((nonce, now));
        self.choose(now);
    }

    /// A way cannot be asked: it is closed, or its capabilities are for others.
    pub fn set_unasked(&mut self, way: usize, standing: Standing, now: Instant) {
        let Some(health) = self.ways.get_mut(way) else { return };
        health.flying.clear();
        health.missed = 0;
        health.set(standing, now);
        self.choose(now);
    }

    /// A way that was closed can be asked now.
    pub fn open(&mut self, way: usize, now: Instant) {
        if let Some(health) = self.ways.get_mut(way) {
            health.set(Standing::Untried, now);
            health.next = now;
        }
        self.choose(now);
    }

    /// Something was said of a probe. Whether it was one of ours.
    pub fn heard(&mut self, nonce: u64, said: Said, now: Instant) -> bool {
        let found = self.ways.iter_mut().enumerate().find_map(|(number, way)| {
            let at = way.flying.iter().position(|(flying, _)| *flying == nonce)?;
            Some((number, way, at))
        });
        let Some((number, health, at)) = found else { return false };
        let (_, sent) = health.flying[at];
        // What was asked before is answered by this, too.
        health.flying.drain(..=at);
        health.missed = 0;
        match said {
            Said::Prohibited(_) => health.set(Standing::Refused, now),
            Said::Here => {
                let round_trip = now.saturating_duration_since(sent);
                let smooth = |before: Duration| (before * 7 + round_trip) / 8;
                health.round_trip = Some(health.round_trip.map_or(round_trip, smooth));
                health.set(Standing::Well, now);
                if number < self.current {
                    // It is watched from now on, before it is used again.
                    health.next = health.next.min(now + PACE);
                }
            }
        }
        self.choose(now);
        true
    }

    /// What probes are known by that may still be answered.
    pub fn flying(&self) -> impl Iterator<Item = u64> {
        self.ways.iter().flat_map(|way| way.flying.iter().map(|(nonce, _)| *nonce))
    }

    /// Looks whether another way is to be used, which may be so for
    /// no other reason than that time has passed.
    pub fn choose(&mut self, now: Instant) {
        let rank = |way: usize| self.ways[way].standing.rank();
        // Of those that are equal the preferred one.
        let best = (0..self.ways.len()).max_by_key(|way| (rank(*way), usize::MAX - way));
        let is_steady =
            |way: &usize| self.ways[*way].well_since.is_some_and(|since| now - since >= STEADY);
        if rank(self.current) < Standing::Untried.rank() {
            self.current = best.unwrap_or(self.current);
        } else if let Some(preferred) = (0..self.current).find(is_steady) {
            self.current = preferred;
        }
    }
}

/// How often the way in use is asked while packets go over it.
pub const PACE: Duration = Duration::from_millis(400);
/// How often any other is.
pub const LEISURE: Duration = Duration::from_secs(5);
/// Probes in a row: with [`PACE`], silence is noticed after 1.2 to 1.6 s.
const MOST_MISSED: u32 = 3;
/// How long a preferred way has to be well before it is used again, so that one which comes and
/// goes does not take the packets with it.
pub const STEADY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn begin() -> Instant {
        #[allow(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
        Instant::now()
    }

    /// Two ways in virtual time, of which `answers` says at each moment
    /// whether they do; what was in use at each 100 ms.
    fn live(
        seconds: u64,
        is_busy: bool,
        answers: impl Fn(u64, usize) -> Option<Said>,
    ) -> (Vec<usize>, Choice, u64) {
        let begin = begin();
        let mut choice = Choice::new(2, begin);
        let (mut used, mut nonce) = (Vec::new(), 0);
        for ms in (0..seconds * 1000).step_by(100) {
            let now = begin + Duration::from_millis(ms);
            for way in 0..2 {
                if choice.is_due(way, is_busy, now) {
                    nonce += 1;
                    choice.sent(way, nonce, now);
                    if let Some(said) = answers(ms, way) {
                        assert!(choice.heard(nonce, said, now + Duration::from_millis(20)));
                    }
                }
            }
            choice.choose(now);
            used.push(choice.current());
        }
        (used, choice, nonce)
    }

    /// The first tenth of a second from `from` on in which `way` is used.
    fn first(used: &[usize], from: usize, way: usize) -> Option<usize> {
        (from..used.len()).find(|at| used[*at] == way)
    }

    #[test]
    fn a_way_that_falls_silent_is_left_within_two_seconds_and_taken_again_when_it_is_steady() {
        let is_well = |ms: u64, way: usize| {
            let is_away = way == 0 && (20_000..40_000).contains(&ms);
            (!is_away).then_some(Said::Here)
        };
        let (used, choice, _) = live(80, true, is_well);
        assert!(used[..200].iter().all(|way| *way == 0));
        let left = first(&used, 200, 1).unwrap();
        assert!((200..=220).contains(&left), "{left}");
        let back = first(&used, left, 0).unwrap();
        assert!((500..=560).contains(&back), "{back}");
        assert!(used[back..].iter().all(|way| *way == 0));
        assert_eq!(choice.ways()[1].standing(), Standing::Well);
        assert_eq!(choice.ways()[1].round_trip(), Some(Duration::from_millis(20)));
    }

    #[test]
    fn a_way_that_is_refused_is_left_with_the_next_probe() {
        let refused = Said::Prohibited([192, 0, 2, 1].into());
        let said =
            |ms: u64, way: usize| Some(if way == 0 && ms >= 20_000 { refused } else { Said::Here });
        let (used, choice, _) = live(60, true, said);
        let left = first(&used, 200, 1).unwrap();
        assert!((200..=206).contains(&left), "{left}");
        assert!(used[left..].iter().all(|way| *way == 1));
        assert_eq!(choice.ways()[0].standing(), Standing::Refused);
        assert_eq!(choice.ways()[0].round_trip(), None);
    }

    #[test]
    fn where_nobody_answers_the_preferred_way_stays() {
        let (used, choice, _) = live(60, true, |_, _| None);
        assert!(used.iter().all(|way| *way == 0));
        assert!(choice.ways().iter().all(|way| way.standing() == Standing::Silent));
    }

    #[test]
    fn a_way_that_comes_and_goes_is_not_followed() {
        let flaps = |ms: u64, way: usize| (way == 1 || ms / 4_000 % 2 == 1).then_some(Said::Here);
        let (used, ..) = live(120, true, flaps);
        let changes = used.windows(2).filter(|two| two[0] != two[1]).count();
        assert_eq!(changes, 1);
        assert_eq!(used.last(), Some(&1));
    }

    #[test]
    fn what_is_not_used_is_asked_at_leisure() {
        let (_, _, sent) = live(100, false, |_, _| Some(Said::Here));
        assert!((38..=46).contains(&sent), "{sent}");
        let (_, _, sent) = live(100, true, |_, _| Some(Said::Here));
        assert!((260..=275).contains(&sent), "{sent}");
    }

    #[test]
    fn whoever_answers_first_at_the_start_is_not_taken_for_the_better_one() {
        let now = begin();
        let mut choice = Choice::new(2, now);
        for way in 0..2 {
            choice.set_unasked(way, Standing::Closed, now);
        }
        assert_eq!(choice.current(), 0);
        for way in 0..2 {
            choice.open(way, now);
            assert!(choice.is_due(way, true, now));
            choice.sent(way, way as u64, now);
        }
        assert!(choice.heard(1, Said::Here, now));
        assert_eq!(choice.current(), 0);
        assert!(choice.heard(0, Said::Here, now));
        assert_eq!(choice.current(), 0);
    }

    #[test]
    fn closed_ways_are_left_at_once_and_strangers_words_count_for_nothing() {
        let now = begin();
        let mut choice = Choice::new(3, now);
        choice.set_unasked(0, Standing::Closed, now);
        assert_eq!(choice.current(), 1);
        choice.sent(1, 7, now);
        assert!(!choice.heard(8, Said::Here, now));
        assert_eq!(choice.flying().collect::<Vec<_>>(), [7]);
        choice.set_unasked(1, Standing::NotAsked, now);
        assert_eq!(choice.current(), 1);
        assert!(!choice.heard(7, Said::Prohibited([1, 2, 3, 4].into()), now));
    }
}
