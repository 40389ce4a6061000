//! How large a datagram to the peer may be: what one end knows of the path
//! (RFC 8899, for one session and one direction).
//!
//! 1. A session begins with [`MIN_DATAGRAM_LEN`], which every path has to carry, and asks at once
//!    whether the largest datagram that the peer takes does. A probe is a challenge with padding,
//!    and is answered as any challenge.
//! 2. A size that is answered is used from then on. One that is left unanswered
//!    [`PROBES`] times is too big, and one between is asked about, until little is left
//!    between what gets through and what does not.
//! 3. While there is traffic the present size is confirmed every [`CONFIRM_INTERVAL`]. If it does
//!    not get through any more, the session is back at the least size, and the search begins anew.
//! 4. A search that found less than the peer takes begins
//!    anew after [`RAISE_INTERVAL`]: paths grow.
//!
//! A question counts as unanswered only when the peer was heard after it: a path that is
//! cut says nothing of sizes. So that a peer with nothing to say is heard, each
//! repetition has a challenge without padding beside it.
//!
//! Nothing but sealed answers is believed, so nobody off the path makes a session's datagrams
//! smaller or larger. Probes go where the session sends to and nowhere else, one at a time.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use crate::MIN_DATAGRAM_LEN;
use crate::path::Challenges;

/// What one end knows of the path to the other.
#[derive(Debug)]
pub(crate) struct PathSize {
    /// No larger datagram is sent, whatever the path takes.
    limit: u16,
    /// The largest that is known to get through.
    present: u16,
    /// The least that is known not to, if any.
    too_big: Option<u16>,
    /// Of answered probes, smoothed.
    round_trip: Option<Duration>,
    phase: Phase,
    probe: Option<Probe>,
    /// How much traffic there had been when the present size was confirmed last.
    confirmed_traffic: Option<u64>,
}

#[derive(Debug)]
enum Phase {
    /// There is no path to ask: a stream takes what the peer does.
    Known,
    Searching,
    Resting {
        raise_at: Option<Instant>,
        confirm_at: Option<Instant>,
    },
}

/// A size that is being asked about.
#[derive(Debug)]
struct Probe {
    len: u16,
    challenge: NonZeroU64,
    /// Of the newest repetition: the challenge without padding.
    companion: Option<NonZeroU64>,
    sent_at: Instant,
    /// How often it was left unanswered by a peer that was heard.
    failures: u8,
    /// How often nothing was heard at all.
    silences: u8,
}

/// What to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Question {
    /// Bytes of the datagram.
    pub(crate) len: u16,
    pub(crate) challenge: NonZeroU64,
    /// A challenge to send beside it, without padding.
    pub(crate) companion: Option<NonZeroU64>,
}

impl PathSize {
    /// Nothing is known but that the least size gets through.
    pub(crate) fn new(limit: u16) -> Self {
        Self {
            limit,
            present: MIN_DATAGRAM_LEN.min(limit),
            too_big: None,
            round_trip: None,
            phase: Phase::Searching,
            probe: None,
            confirmed_traffic: None,
        }
    }

    /// A stream carries whatever the peer takes.
    pub(crate) fn of_stream(limit: u16) -> Self {
        Self { present: limit, phase: Phase::Known, ..Self::new(limit) }
    }

    /// How long answers took of late, if there were any.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// The largest datagram to send.
    pub(crate) fn present(&self) -> u16 {
        self.present
    }

    /// No larger datagram is sent.
    pub(crate) fn limit(&self) -> u16 {
        self.limit
    }

    /// The peer is elsewhere: nothing is known of the path there.
    pub(crate) fn moved(&mut self) {
        *self = Self::new(self.limit);
    }

    /// There has been a handshake, or the peer has another port: the path is likely to be the same.
    /// What is known of it is confirmed soon.
    pub(crate) fn renewed(&mut self, limit: u16, now: Instant) {
        if limit != self.limit || matches!(self.phase, Phase::Searching) {
            let present = self.present.min(limit);
            *self = Self { present, round_trip: self.round_trip, ..Self::new(limit) };
            return;
        }
        self.probe = None;
        self.confirmed_traffic = None;
        if let Phase::Resting { confirm_at, .. } = &mut self.phase {
            *confirm_at = Some(now);
        }
    }

    /// Finds out what to ask now, if anything. `heard`: when a record was opened last; `traffic`
    /// differs when anything was sealed that is not the link's own.
    pub(crate) fn look(
        &mut self,
        heard: Instant,
        traffic: u64,
        challenges: &mut Challenges,
        now: Instant,
    ) -> Option<Question> {
        let patience = self.patience();
        if let Some(probe) = &mut self.probe {
            if now < probe.sent_at + patience {
                return None;
            }
            match (heard > probe.sent_at, probe.companion) {
                (true, _) => probe.failures += 1,
                // Whoever had nothing to say was not asked for anything that surely gets through.
                (false, None) => {}
                (false, Some(_)) => probe.silences = probe.silences.saturating_add(1),
            }
            if probe.failures < PROBES {
                let companion = challenges.next();
                probe.companion = Some(companion);
                probe.sent_at = now;
                let (len, challenge) = (probe.len, probe.challenge);
                return Some(Question { len, challenge, companion: Some(companion) });
            }
            let len = probe.len;
            self.probe = None;
            self.failed(len);
        }
        let len = self.next_size(traffic, now)?;
        let challenge = challenges.next();
        self.probe =
            Some(Probe { len, challenge, companion: None, sent_at: now, failures: 0, silences: 0 });
        Some(Question { len, challenge, companion: None })
    }

    /// Whether it will soon be known that datagrams of `len` bytes get through: that is asked
    /// about, and no answer is overdue.
    pub(crate) fn hopes_for(&self, len: usize) -> bool {
        let asked = |probe: &Probe| probe.companion.is_none() && usize::from(probe.len) >= len;
        len > usize::from(self.present) && self.probe.as_ref().is_some_and(asked)
    }

    /// Takes the answer to a challenge. Whether it is worth while to look at once.
    pub(crate) fn answered(&mut self, answer: NonZeroU64, now: Instant) -> bool {
        let Some(probe) = &self.probe else { return false };
        let is_first = probe.companion.is_none();
        if probe.companion == Some(answer) || (probe.challenge == answer && is_first) {
            let sample = now.saturating_duration_since(probe.sent_at);
            // RFC 6298, section 2.
            self.round_trip = Some(match self.round_trip {
                Some(smoothed) => (smoothed * 7 + sample) / 8,
                None => sample,
            });
        }
        if probe.challenge != answer {
            return false;
        }
        self.present = self.present.max(probe.len);
        self.probe = None;
        if let Phase::Resting { confirm_at, .. } = &mut self.phase {
            *confirm_at = Some(now + CONFIRM_INTERVAL);
        }
        true
    }

    /// When to look again, whatever happens until then.
    pub(crate) fn due(&self) -> Option<Instant> {
        match (&self.probe, &self.phase) {
            (Some(probe), _) => Some(probe.sent_at + self.patience()),
            (None, Phase::Searching | Phase::Known) => None,
            (None, Phase::Resting { raise_at, confirm_at }) => {
                raise_at.iter().chain(confirm_at).min().copied()
            }
        }
    }

    /// A size was left unanswered.
    fn failed(&mut self, len: u16) {
        if len > self.present {
            self.too_big = Some(len);
            return;
        }
        // It got through before. Perhaps it does again in a
        // moment, so the search is about all sizes.
        self.present = MIN_DATAGRAM_LEN.min(self.limit);
        self.too_big = None;
        self.phase = Phase::Searching;
    }

    /// The size to ask about now.
    fn next_size(&mut self, traffic: u64, now: Instant) -> Option<u16> {
        if let Phase::Resting { raise_at: Some(at), .. } = self.phase
            && at <= now
        {
            self.too_big = None;
            self.phase = Phase::Searching;
        }
        if matches!(self.phase, Phase::Searching) {
            if let Some(candidate) = self.candidate() {
                return Some(candidate);
            }
            let raise_at = (self.present < self.limit).then(|| now + RAISE_INTERVAL);
            self.phase = Phase::Resting { raise_at, confirm_at: Some(now + CONFIRM_INTERVAL) };
            self.confirmed_traffic = Some(traffic);
            return None;
        }
        let Phase::Resting { confirm_at, .. } = &mut self.phase else { return None };
        if confirm_at.is_some_and(|at| now < at) {
            return None;
        }
        let is_used = self.confirmed_traffic != Some(traffic);
        if !is_used || self.present <= MIN_DATAGRAM_LEN {
            *confirm_at = None;
            return None;
        }
        self.confirmed_traffic = Some(traffic);
        Some(self.present)
    }

    /// Between what gets through and what does not: first a size
    /// that fills usual packets, then the middle.
    fn candidate(&self) -> Option<u16> {
        if self.present >= self.limit {
            return None;
        }
        let Some(too_big) = self.too_big else { return Some(self.limit) };
        let first = USUAL.partition_point(|size| *size <= self.present);
        let end = USUAL.partition_point(|size| *size < too_big);
        if first < end {
            return Some(USUAL[first + (end - first) / 2]);
        }
        let between = too_big - self.present;
        (between > GRAIN.max(self.present / GRAIN)).then_some(self.present + between / 2)
    }

    fn patience(&self) -> Duration {
        let (failures, silences) =
            self.probe.as_ref().map_or((0, 0), |probe| (probe.failures, probe.silences));
        let (base, doublings) = match self.round_trip {
            Some(round_trip) => (LEAST_PATIENCE.max(round_trip * 3), silences),
            None => (LEAST_PATIENCE, silences + failures),
        };
        (base * (1 << doublings.min(5))).min(MOST_PATIENCE).max(base)
    }
}

/// Questions that have to be left unanswered before a size counts as too big: RFC
/// 8899, section 5.1.2. By chance that happens once in a thousand times where a
/// tenth is lost, and the next search mends it.
pub(crate) const PROBES: u8 = 3;
/// How often the present size is confirmed while it is used: with the time of three questions, a
/// path that became smaller is noticed within two seconds.
pub const CONFIRM_INTERVAL: Duration = Duration::from_secs(1);
/// How long after a search another one begins, if there is
/// anything to be found: RFC 8899, section 5.1.1.
pub const RAISE_INTERVAL: Duration = Duration::from_secs(600);
/// How long to wait for an answer, if three round trips are not longer: a busy peer answers later.
/// Also the least time between two probes that are not answered.
const LEAST_PATIENCE: Duration = Duration::from_millis(200);
const MOST_PATIENCE: Duration = Duration::from_secs(5);
/// A search ends when no more bytes than this lie between what gets through and
/// what does not, or a share of one in as many.
const GRAIN: u16 = 32;
/// UDP payloads that fill packets of usual sizes, from 1,280 to 1,500 bytes,
/// less 28 bytes of IPv4 and UDP or 48 of IPv6.
const USUAL: [u16; 15] =
    [1252, 1272, 1292, 1312, 1332, 1352, 1372, 1392, 1402, 1412, 1422, 1432, 1444, 1452, 1472];

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(30);

    /// A path to a peer that answers at once, and how many probes it took.
    struct Path {
        size: PathSize,
        challenges: Challenges,
        now: Instant,
        carries: u16,
        traffic: u64,
        heard: Instant,
        asked: Vec<u16>,
    }

    impl Path {
        #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
        fn new(limit: u16, carries: u16) -> Self {
            let now = Instant::now();
            let (size, challenges) = (PathSize::new(limit), Challenges::new(&[7; 32]));
            Self { size, challenges, now, carries, traffic: 0, heard: now, asked: Vec::new() }
        }

        /// Lets time pass. Whoever is asked is heard, and answers what gets through.
        fn run(&mut self, span: Duration) {
            let end = self.now + span;
            loop {
                let question =
                    self.size.look(self.heard, self.traffic, &mut self.challenges, self.now);
                let Some(Question { len, challenge, companion }) = question else {
                    let Some(due) = self.size.due().filter(|due| *due <= end) else { break };
                    self.now = self.now.max(due);
                    continue;
                };
                self.asked.push(len);
                let at = self.now + ROUND_TRIP;
                if len <= self.carries {
                    (self.now, self.heard) = (at, at);
                    assert!(self.size.answered(challenge, at));
                } else if let Some(companion) = companion.filter(|_| self.carries > 0) {
                    self.heard = at;
                    assert!(!self.size.answered(companion, at));
                } else if self.carries > 0 {
                    self.heard = at;
                }
            }
            self.now = self.now.max(end);
        }
    }

    #[test]
    fn a_path_that_takes_all_is_known_after_one_round_trip() {
        for limit in [MIN_DATAGRAM_LEN, 1452, 8952, u16::MAX] {
            let mut path = Path::new(limit, u16::MAX);
            assert_eq!(path.size.present(), MIN_DATAGRAM_LEN);
            assert!(!path.size.hopes_for(limit.into()), "it is not asked yet");
            let asked = path.size.look(path.heard, 0, &mut path.challenges, path.now);
            assert_eq!(path.size.hopes_for(limit.into()), limit > MIN_DATAGRAM_LEN);
            assert!(!path.size.hopes_for(usize::from(limit) + 1));
            asked.map(|asked| path.size.answered(asked.challenge, path.now));
            path.run(ROUND_TRIP);
            assert_eq!(path.size.present(), limit);
            path.run(RAISE_INTERVAL * 3);
            assert!(path.asked.len() <= 1, "an idle session asks nothing more: {:?}", path.asked);
        }
    }

    #[test]
    fn every_size_is_found_to_the_grain_with_few_probes() {
        for limit in [1452, 1472, 8952, u16::MAX] {
            for carries in (MIN_DATAGRAM_LEN..limit).step_by(7) {
                let mut path = Path::new(limit, carries);
                path.run(Duration::from_secs(60));
                let found = path.size.present();
                assert!(found <= carries, "{found} of {carries}");
                assert!(carries - found <= GRAIN.max(found / GRAIN), "{found} of {carries}");
                assert!(path.asked.len() <= 40, "{carries}: {:?}", path.asked);
                assert!(matches!(path.size.phase, Phase::Resting { .. }));
            }
        }
    }

    #[test]
    fn usual_sizes_are_found_exactly() {
        for size in USUAL {
            let mut path = Path::new(1472, size);
            path.run(Duration::from_secs(10));
            assert_eq!(path.size.present(), size, "{:?}", path.asked);
        }
    }

    #[test]
    fn a_path_that_shrinks_is_noticed_while_it_is_used_and_found_again() {
        let mut path = Path::new(1452, 1452);
        path.run(Duration::from_secs(1));
        path.carries = 1300;
        path.run(Duration::from_secs(100));
        assert_eq!(path.size.present(), 1452, "nobody uses it");
        path.traffic += 1;
        let patience = LEAST_PATIENCE * u32::from(PROBES);
        path.run(patience);
        assert_eq!(path.size.present(), MIN_DATAGRAM_LEN);
        path.run(Duration::from_secs(5));
        assert_eq!(path.size.present(), 1292);
        path.carries = 1452;
        path.run(RAISE_INTERVAL);
        assert_eq!(path.size.present(), 1452, "it has grown again");
    }

    #[test]
    fn a_path_that_is_cut_for_a_while_keeps_its_size() {
        let mut path = Path::new(1452, 1452);
        path.run(Duration::from_secs(1));
        (path.carries, path.traffic) = (0, 1);
        let before = path.asked.len();
        path.run(Duration::from_secs(10));
        assert_eq!(path.size.present(), 1452);
        assert!(path.asked.len() - before <= 8, "asked less and less often: {:?}", path.asked);
        path.carries = 1452;
        path.run(MOST_PATIENCE);
        assert_eq!(path.size.present(), 1452);
        assert!(path.size.probe.is_none());
    }

    #[test]
    fn a_used_session_confirms_once_a_second_and_no_more() {
        let mut path = Path::new(1452, 1452);
        path.run(Duration::from_secs(1));
        let before = path.asked.len();
        for _ in 0..100 {
            path.traffic += 1;
            path.run(Duration::from_millis(100));
        }
        let asked = path.asked.len() - before;
        assert!((8..=11).contains(&asked), "{asked}");
    }

    #[test]
    fn answers_that_nobody_asked_for_say_nothing() {
        let mut path = Path::new(1452, 1452);
        let stranger = NonZeroU64::new(7).unwrap();
        assert!(!path.size.answered(stranger, path.now));
        let asked = path.size.look(path.heard, 0, &mut path.challenges, path.now).unwrap();
        assert!(!path.size.answered(stranger, path.now));
        assert!(path.size.answered(asked.challenge, path.now));
        assert!(!path.size.answered(asked.challenge, path.now));
    }

    #[test]
    fn elsewhere_nothing_is_known_and_after_a_handshake_all_is_confirmed() {
        let mut path = Path::new(1452, 1452);
        path.run(Duration::from_secs(1));
        path.size.renewed(1452, path.now);
        assert_eq!(path.size.present(), 1452);
        let before = path.asked.len();
        path.run(Duration::from_millis(1));
        assert_eq!(path.asked[before..], [1452], "at once");
        path.size.renewed(1300, path.now);
        assert_eq!(path.size.present(), 1300);
        path.size.moved();
        assert_eq!(path.size.present(), MIN_DATAGRAM_LEN);
        path.run(Duration::from_millis(100));
        assert_eq!(path.size.present(), 1300);
    }
}
