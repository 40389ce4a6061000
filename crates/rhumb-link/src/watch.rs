//! Whether the peer is still there: quick notice for those who have another one to go to.
//!
//! 1. While something is opened now and then, nothing is done.
//! 2. When traffic goes one way only, or stops, the peer is asked after [`QUIET`]; on an idle
//!    session, in place of each keep-alive.
//! 3. While nothing is opened it is asked again, [`PROBES`] times in all; then it counts as silent.
//!    That the first was left unanswered is told, for those who would get ready.
//! 4. Once they are, fewer questions do where few were ever lost: as many as it takes to be as
//!    sure. So that this is known, a busy peer is asked now and then, too ([`Loss`]).
//!
//! A question is a challenge to the present address, so any peer answers it and it costs no more
//! than a keep-alive of each. Whoever has many sessions leaves this to the other ends, and finds
//! out by [`SILENCE`](crate::SILENCE).
//!
//! Of lanes that other workers have it is known once a second what was opened and
//! sealed on them. So busy sessions of several workers may be asked needlessly,
//! and the answer, which comes here, settles it.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use crate::KEEP_ALIVE;

/// What one end knows of the other's presence.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Smoothed, of answered probes.
    round_trip: Option<Duration>,
    /// When the probes were sent since which nothing was opened.
    probes: Vec<Instant>,
    /// How many of them were answered.
    answered: usize,
    /// How former ones fared.
    loss: Loss,
    /// When the last was sent.
    asked_at: Instant,
    /// Whether there is somewhere else to go at once.
    pub(crate) hasty: bool,
    /// Whether it has left so many questions unanswered that another one is better, where any will
    /// do.
    pub(crate) suspected: bool,
    /// Whether to ask an idle peer, too, as soon as it was quiet for [`QUIET`].
    pub(crate) closely: bool,
    /// The challenge of the first of them; each further one is greater by one.
    first_challenge: NonZeroU64,
    /// Records sealed when the last probe had been.
    sealed_before: u64,
    /// When an answer was opened last.
    answered_at: Instant,
    /// When the newest probe was sent that was answered.
    reached_at: Option<Instant>,
    /// When to look again.
    pub(crate) look_at: Instant,
}

/// What to do about a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// Nothing; on an idle session, nothing until something is sealed.
    Present { idle: bool },
    /// Ask it. How many questions it has just left unanswered.
    Doubtful { unanswered: usize },
    /// It is not there any more.
    Silent,
}

impl Watch {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            round_trip: None,
            probes: Vec::new(),
            answered: 0,
            loss: Loss::default(),
            asked_at: now,
            hasty: false,
            suspected: false,
            closely: false,
            first_challenge: NonZeroU64::MIN,
            sealed_before: 0,
            answered_at: now,
            reached_at: None,
            look_at: now + QUIET,
        }
    }

    /// One for the same peer that knows of nothing from before.
    pub(crate) fn begin_anew(&self, now: Instant) -> Self {
        Self { hasty: self.hasty, closely: self.closely, ..Self::new(now) }
    }

    /// Finds out what to do. `heard`: when a record was opened last; `sealed`:
    /// how many were sealed with the present keys.
    pub(crate) fn look(&mut self, heard: Instant, sealed: u64, now: Instant) -> Finding {
        if self.probes.first().is_some_and(|first| heard > *first) {
            self.loss.note(self.probes.len(), std::mem::take(&mut self.answered));
            self.probes.clear();
            self.suspected = false;
        }
        if let Some(last) = self.probes.last() {
            // A sample was sent while something came in: until that is
            // in doubt, its answer may take its time.
            self.look_at = (*last + self.interval()).max(heard + self.patience());
            if now < self.look_at {
                return Finding::Present { idle: false };
            }
            return match self.probes.len() {
                asked if asked < self.enough() => {
                    self.suspected |= asked >= SUSPECTED_AFTER;
                    Finding::Doubtful { unanswered: asked }
                }
                _ => Finding::Silent,
            };
        }
        let idle = !self.closely && heard <= self.answered_at && sealed <= self.sealed_before;
        self.look_at = heard + if idle { KEEP_ALIVE } else { self.patience() };
        let is_sample = sealed >= self.sealed_before + SAMPLED_RECORDS
            && now >= self.asked_at + SAMPLE_INTERVAL;
        match now < self.look_at && !is_sample {
            true => Finding::Present { idle },
            false => Finding::Doubtful { unanswered: 0 },
        }
    }

    /// The challenge to send as a probe now. `fresh` is one that was
    /// never used. Call [`Watch::sealed`] after it.
    pub(crate) fn probe(&mut self, fresh: NonZeroU64, now: Instant) -> NonZeroU64 {
        if self.probes.is_empty() {
            self.first_challenge = fresh;
        }
        let challenge = self.first_challenge.saturating_add(self.probes.len() as u64);
        self.probes.push(now);
        self.asked_at = now;
        self.look_at = now + self.interval();
        challenge
    }

    /// So many records were sealed with the present keys,
    /// and what is sealed from now on is traffic.
    pub(crate) fn sealed(&mut self, count: u64) {
        self.sealed_before = count;
    }

    /// A record was sealed that is no traffic.
    pub(crate) fn sealed_one_of_ours(&mut self) {
        self.sealed_before += 1;
    }

    /// How long after something was sealed on an idle session to look.
    pub(crate) fn wake(&mut self, now: Instant) -> Instant {
        self.look_at = now + self.patience();
        self.look_at
    }

    /// The peer answers.
    pub(crate) fn answered(&mut self, answer: NonZeroU64, now: Instant) {
        self.answered_at = now;
        let which = answer.get().wrapping_sub(self.first_challenge.get());
        let sent_at = usize::try_from(which).ok().and_then(|which| self.probes.get(which));
        let Some(&sent_at) = sent_at else { return };
        self.answered = (self.answered + 1).min(self.probes.len());
        self.reached_at = self.reached_at.max(Some(sent_at));
        let sample = now.saturating_duration_since(sent_at);
        // RFC 6298, section 2.
        self.round_trip = Some(match self.round_trip {
            Some(smoothed) => (smoothed * 7 + sample) / 8,
            None => sample,
        });
    }

    /// From when on what was sealed may not have reached the peer, who fell silent
    /// after `heard`: that what was sent before an answered probe has, and what
    /// was sent two round trips before it was heard.
    pub(crate) fn doubtful_from(&self, heard: Instant) -> Option<Instant> {
        heard.checked_sub(self.round_trip() * 2).max(self.reached_at)
    }

    /// How many questions have to be left unanswered.
    fn enough(&self) -> usize {
        if self.hasty { self.loss.questions_needed() } else { PROBES }
    }

    /// Whether the peer was asked and has not answered.
    pub(crate) fn is_asking(&self) -> bool {
        self.probes.len() > self.answered
    }

    /// How long answers took of late, if there were any.
    pub(crate) fn measured(&self) -> Option<Duration> {
        self.round_trip
    }

    fn round_trip(&self) -> Duration {
        self.round_trip.unwrap_or(ASSUMED_ROUND_TRIP)
    }

    fn interval(&self) -> Duration {
        PROBE_INTERVAL.max(self.round_trip() * 2)
    }

    fn patience(&self) -> Duration {
        QUIET.max(self.round_trip() * 2)
    }
}

/// How many questions were asked of late while the peer was
/// there, and how many of them went unanswered.
#[derive(Debug, Clone, Copy, Default)]
struct Loss {
    asked: u32,
    lost: u32,
}

impl Loss {
    fn note(&mut self, asked: usize, answered: usize) {
        self.asked = self.asked.saturating_add(asked as u32);
        self.lost = self.lost.saturating_add(asked.saturating_sub(answered) as u32);
        if self.asked >= LOSS_WINDOW {
            self.asked /= 2;
            self.lost = self.lost.div_ceil(2);
        }
    }

    /// How many in a row go unanswered by chance no more often than [`FALSE_ALARM`] says, by what
    /// was seen. The chance that the next one is lost is (lost + 1) / (asked + 2), and those after
    /// it follow in the same way: Laplace's rule of succession, which takes every share of loss for
    /// as likely as any other beforehand, and so needs many questions while it knows little.
    fn questions_needed(self) -> usize {
        let (asked, lost) = (f64::from(self.asked), f64::from(self.lost));
        let mut chance = 1.0;
        for (n, count) in (0..PROBES).zip(0u32..) {
            chance *= (lost + 1.0 + f64::from(count)) / (asked + 2.0 + f64::from(count));
            if chance <= FALSE_ALARM {
                return (n + 1).max(LEAST_PROBES);
            }
        }
        PROBES
    }
}

/// How long traffic goes unanswered before the peer is asked, if two round trips are not longer. So
/// who only sends adds four probes a second at most, and none while anything comes back.
pub const QUIET: Duration = Duration::from_millis(250);
/// How often a peer is asked before it counts as silent. Where a fifth of the
/// datagrams is lost each way, a probe goes unanswered with probability 1 - 0.8^2
/// = 0.36, and all of them with 0.36^16 = 8e-8: once in 36 days of asking four times a
/// second. With 3 of them it would be every few seconds.
pub const PROBES: usize = 16;
/// What [`PROBES`] come to where a fifth is lost.
const FALSE_ALARM: f64 = 8e-8;
/// After 550 ms of silence: to go elsewhere for a while by mistake costs little, where others
/// answer as well.
pub(crate) const SUSPECTED_AFTER: usize = 3;
/// Where nothing is ever lost: an interruption of half a second, as when a
/// station changes its access point, is sat out.
const LEAST_PROBES: usize = 5;
/// So many questions are remembered, half of them after a while:
/// what a path was like an hour ago tells little.
const LOSS_WINDOW: u32 = 512;
/// A busy peer is asked once in so many records, and [`SAMPLE_INTERVAL`], at most: one percent of
/// the traffic, which makes fifty answers, and six questions instead of sixteen, of a minute.
const SAMPLED_RECORDS: u64 = 100;
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Between probes at least, if two round trips are not longer: an
/// interruption of a second and a half is sat out.
pub const PROBE_INTERVAL: Duration = Duration::from_millis(100);
/// Until one was measured: to most of the world.
const ASSUMED_ROUND_TRIP: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const FRESH: NonZeroU64 = NonZeroU64::MIN;
    const ASKED_FIRST: Finding = Finding::Doubtful { unanswered: 0 };

    #[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
    fn begun() -> (Watch, Instant) {
        let now = Instant::now();
        (Watch::new(now), now)
    }

    #[test]
    fn an_idle_peer_is_asked_in_place_of_keep_alives() {
        let (mut watch, start) = begun();
        assert_eq!(watch.look(start, 0, start + KEEP_ALIVE - MS), Finding::Present { idle: true });
        assert_eq!(watch.look(start, 0, start + KEEP_ALIVE), ASKED_FIRST);
    }

    #[test]
    fn traffic_without_an_answer_is_doubtful_soon() {
        let (mut watch, start) = begun();
        assert_eq!(watch.look(start, 1, start + QUIET - MS), Finding::Present { idle: false });
        assert_eq!(watch.look(start, 1, start + QUIET), ASKED_FIRST);
        // The same when the peer sent something other than answers, and then stopped.
        let heard = start + 3 * MS;
        assert_eq!(watch.look(heard, 0, heard + QUIET - MS), Finding::Present { idle: false });
        assert_eq!(watch.look(heard, 0, heard + QUIET), ASKED_FIRST);
    }

    #[test]
    fn a_peer_that_is_watched_closely_is_asked_though_it_is_idle() {
        let (mut watch, start) = begun();
        watch.closely = true;
        assert_eq!(watch.look(start, 0, start + QUIET - MS), Finding::Present { idle: false });
        assert_eq!(watch.look(start, 0, start + QUIET), ASKED_FIRST);
    }

    #[test]
    fn all_probes_have_to_go_unanswered() {
        let (mut watch, start) = begun();
        let mut now = start + KEEP_ALIVE;
        for asked in 0..PROBES {
            assert_eq!(watch.look(start, 0, now), Finding::Doubtful { unanswered: asked });
            watch.probe(FRESH, now);
            now = watch.look_at;
            assert_eq!(watch.look(start, 0, now - MS), Finding::Present { idle: false });
        }
        assert_eq!(watch.look(start, 0, now), Finding::Silent);
        let heard = now - MS;
        assert_eq!(watch.look(heard, 0, now), Finding::Present { idle: false });
    }

    #[test]
    fn each_answer_is_matched_with_its_probe() {
        let (mut watch, start) = begun();
        let challenges: Vec<_> = (0..3).map(|n| watch.probe(FRESH, start + n * 200 * MS)).collect();
        watch.answered(challenges[2], start + 430 * MS);
        assert_eq!(watch.round_trip, Some(30 * MS));
        assert_eq!(watch.reached_at, Some(start + 400 * MS));
        watch.answered(challenges[0], start + 440 * MS);
        assert_eq!(watch.round_trip, Some((30 * 7 + 440) * MS / 8));
        assert_eq!(watch.reached_at, Some(start + 400 * MS));
    }

    #[test]
    fn few_questions_do_where_few_were_lost_and_haste_helps() {
        let needed = |asked, lost| Loss { asked, lost }.questions_needed();
        assert_eq!((needed(0, 0), needed(20, 0), needed(50, 0)), (PROBES, 9, 6));
        assert_eq!((needed(200, 0), needed(LOSS_WINDOW, 0)), (LEAST_PROBES, LEAST_PROBES));
        // 1 %, 5 %, 20 % each way.
        assert_eq!((needed(250, 5), needed(250, 25), needed(250, 90)), (5, 8, PROBES));
        for (asked, lost) in
            (0..LOSS_WINDOW).flat_map(|n| [(n, 0), (n, n / 10), (n, n / 3), (n, n)])
        {
            assert!((LEAST_PROBES..=PROBES).contains(&needed(asked, lost)), "{lost} of {asked}");
            assert!(needed(asked, lost) <= needed(asked, lost + 1), "{lost} of {asked}");
        }
        let (mut watch, _) = begun();
        watch.loss = Loss { asked: 50, lost: 0 };
        assert_eq!(watch.enough(), PROBES, "nowhere else to go");
        watch.hasty = true;
        assert_eq!(watch.enough(), 6);
    }

    #[test]
    fn what_becomes_of_questions_is_remembered_for_a_while() {
        let (mut watch, start) = begun();
        let mut now = start;
        for round in 0..2000 {
            let challenge = watch.probe(FRESH, now);
            if round % 4 != 0 {
                watch.answered(challenge, now + 20 * MS);
            }
            now += 200 * MS;
            watch.look(now - 100 * MS, 0, now);
            assert!(watch.loss.asked < LOSS_WINDOW);
        }
        let Loss { asked, lost } = watch.loss;
        assert!(
            asked >= LOSS_WINDOW / 2 && (asked / 4..=asked / 4 + 2).contains(&lost),
            "{lost} of {asked}"
        );
    }

    #[test]
    fn a_busy_peer_is_asked_once_in_a_hundred_records_and_a_second() {
        let (mut watch, start) = begun();
        let second = SAMPLE_INTERVAL;
        let present = Finding::Present { idle: false };
        for (sealed, after, expected) in [
            (SAMPLED_RECORDS - 1, second, present),
            (SAMPLED_RECORDS, second - MS, present),
            (SAMPLED_RECORDS, second, ASKED_FIRST),
        ] {
            assert_eq!(watch.look(start + after - MS, sealed, start + after), expected);
        }
        // Nothing comes in from then on: that is a doubt no sooner than without the question.
        let heard = start + second - MS;
        watch.probe(FRESH, start + second);
        assert_eq!(watch.look(heard, SAMPLED_RECORDS, heard + QUIET - MS), present);
        let doubtful = Finding::Doubtful { unanswered: 1 };
        assert_eq!(watch.look(heard, SAMPLED_RECORDS, heard + QUIET), doubtful);
    }

    #[test]
    fn slow_peers_get_more_time() {
        let (mut watch, start) = begun();
        let challenge = watch.probe(FRESH, start);
        watch.answered(challenge, start + 600 * MS);
        assert_eq!((watch.interval(), watch.patience()), (1200 * MS, 1200 * MS));
    }
}
