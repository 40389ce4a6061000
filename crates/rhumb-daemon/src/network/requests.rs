//! Who asks the keeper of a link's network to be let in, and has no invitation.
//!
//! INVARIANT: there are at most [`MAX_REQUESTS`] of them, and [`MAX_A_MINUTE`] in a minute, of
//! which [`MAX_A_MINUTE_A_SOURCE`] from one address: each is a try to make two numbers equal. One
//! that is too many takes the place of the oldest of whatever address has most; nothing is stored
//! of any before somebody lets it in.
//! While the network is open, [`MAX_OPEN`] are let in by nobody's word, [`MAX_OPEN_A_SOURCE`] from
//! one address, and then none.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rhumb_trust::comparison::Number;
use rhumb_wire::{Name, PublishedLabel};

/// Whom a keeper lets in besides those who are invited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Openness {
    /// Nobody.
    Invited,
    /// Those on its links whom somebody lets in.
    Asked,
    /// For so long everybody on its links who asks; afterwards those whom somebody lets in.
    OpenFor(Duration),
}

/// One who asks.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) name: Name,
    pub(super) source: IpAddr,
    pub(super) wanted: PublishedLabel,
    pub(super) number: Number,
    /// Whether its people have agreed.
    pub(super) agreed: bool,
}

/// All who ask.
#[derive(Debug)]
pub(super) struct Requests {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next: u64,
    /// The oldest first.
    list: Vec<(u64, Request)>,
    /// Requests of the last minute, the oldest first.
    recent: VecDeque<(Instant, IpAddr)>,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    until: Instant,
    left: usize,
    by_source: HashMap<IpAddr, usize>,
}

/// A request's place, which ends with this.
#[derive(Debug)]
pub(super) struct Ticket {
    requests: Arc<Requests>,
    id: u64,
}

impl Requests {
    /// None if nobody may ask.
    pub(super) fn of(openness: Openness, now: Instant) -> Option<Arc<Self>> {
        let open = match openness {
            Openness::Invited => return None,
            Openness::Asked => None,
            Openness::OpenFor(time) => {
                Some(Open { until: now + time, left: MAX_OPEN, by_source: HashMap::new() })
            }
        };
        let (list, recent) = (Vec::new(), VecDeque::new());
        Some(Arc::new(Self { state: Mutex::new(State { next: 0, list, recent, open }) }))
    }

    /// Takes a request, in the place of an earlier one of the same name; none if too many came.
    pub(super) fn enter(self: &Arc<Self>, request: Request, now: Instant) -> Option<Ticket> {
        let mut state = self.lock();
        if !state.has_pace(request.source, now) {
            return None;
        }
        let id = state.next;
        state.next += 1;
        state.list.retain(|(_, other)| other.name != request.name);
        state.list.push((id, request));
        if state.list.len() > MAX_REQUESTS {
            state.make_room();
        }
        Some(Ticket { requests: Arc::clone(self), id })
    }

    /// All of them, the oldest first.
    pub(super) fn all(&self) -> Vec<Request> {
        self.lock().list.iter().map(|(_, request)| request.clone()).collect()
    }

    /// For how long everybody is let in from now on.
    pub(super) fn open_for(&self, now: Instant) -> Option<Duration> {
        let state = self.lock();
        let open = state.open.as_ref().filter(|it| it.left > 0)?;
        open.until.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    /// Whether somebody from `source` is let in by nobody's word; if so, one less is from now on.
    pub(super) fn lets_in(&self, source: IpAddr, now: Instant) -> bool {
        let mut state = self.lock();
        let Some(open) = state.open.as_mut().filter(|it| now < it.until && it.left > 0) else {
            return false;
        };
        let of_source = open.by_source.entry(source).or_default();
        if *of_source >= MAX_OPEN_A_SOURCE {
            return false;
        }
        *of_source += 1;
        open.left -= 1;
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that holds the lock can panic half-way through.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether one more may come now; if so, it has.
    fn has_pace(&mut self, source: IpAddr, now: Instant) -> bool {
        let is_over = |at: &Instant| now.saturating_duration_since(*at) >= MINUTE;
        while self.recent.front().is_some_and(|(at, _)| is_over(at)) {
            self.recent.pop_front();
        }
        let of_source = self.recent.iter().filter(|(_, other)| *other == source).count();
        let has_pace = self.recent.len() < MAX_A_MINUTE && of_source < MAX_A_MINUTE_A_SOURCE;
        if has_pace {
            self.recent.push_back((now, source));
        }
        has_pace
    }

    fn make_room(&mut self) {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        self.list.iter().for_each(|(_, it)| *counts.entry(it.source).or_default() += 1);
        let most = counts.values().copied().max().unwrap_or_default();
        if let Some(at) = self.list.iter().position(|(_, it)| counts[&it.source] == most) {
            self.list.remove(at);
        }
    }
}

impl Ticket {
    /// Its people have agreed.
    pub(super) fn agrees(&self) {
        let mut state = self.requests.lock();
        if let Some((_, request)) = state.list.iter_mut().find(|(id, _)| *id == self.id) {
            request.agreed = true;
        }
    }

    /// Whether nobody has taken its place.
    pub(super) fn is_there(&self) -> bool {
        self.requests.lock().list.iter().any(|(id, _)| *id == self.id)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.requests.lock().list.retain(|(id, _)| *id != self.id);
    }
}

/// Requests at a time: more than people look through.
const MAX_REQUESTS: usize = 8;
/// In the three minutes that somebody has for the number that he is in between for, 180 tries: one
/// in 5,000 times people would see what they look for. Others of the link can use them up; then
/// nobody comes in, which is better than somebody.
const MAX_A_MINUTE: usize = 60;
/// Who says no, or is interrupted, may ask again.
const MAX_A_MINUTE_A_SOURCE: usize = 6;
const MINUTE: Duration = Duration::from_secs(60);
/// Whom an open network lets in, before somebody has to look: a household, or a small office.
const MAX_OPEN: usize = 32;
/// One, and once more if what was answered was lost.
const MAX_OPEN_A_SOURCE: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_trust::comparison::Comparison;
    use rhumb_trust::invitation::Meeting;

    fn request(name: u8, source: u8) -> Request {
        let label: PublishedLabel = "alice".parse().unwrap();
        let (keeper, joiner) = (Name([1; 32]), Name([name; 32]));
        let comparison = Comparison {
            meeting: &Meeting { keeper, joiner, binding: [3; 32] },
            network: &label,
            domain: keeper,
            label: &label,
            keepers: &[4; 32],
            joiners: &[5; 32],
        };
        let number = comparison.number();
        let source = IpAddr::from([192, 0, 2, source]);
        Request { name: joiner, source, wanted: label, number, agreed: false }
    }

    #[test]
    fn whoever_asks_much_makes_room_for_others_and_goes_with_its_ticket() {
        let now = Instant::now();
        let requests = Requests::of(Openness::Asked, now).unwrap();
        let enter = |name, source, at| requests.enter(request(name, source), now + at).unwrap();
        let honest = enter(1, 1, Duration::ZERO);
        let slowly = |at: u8| u32::from(at) * MINUTE / MAX_A_MINUTE_A_SOURCE as u32;
        let flood: Vec<Ticket> =
            (0..3 * MAX_REQUESTS as u8).map(|at| enter(10 + at, 2, slowly(at))).collect();
        assert_eq!(requests.all().len(), MAX_REQUESTS);
        assert!(honest.is_there() && !flood[0].is_there() && flood.last().unwrap().is_there());
        honest.agrees();
        assert!(requests.all()[0].agreed && !requests.all()[1].agreed);
        // The same name again has one place.
        let again = enter(1, 1, MINUTE * 9);
        assert!(!honest.is_there() && again.is_there());
        drop(flood);
        drop(honest);
        assert_eq!(requests.all().len(), 1);
        drop(again);
        assert!(requests.all().is_empty());
        assert!(Requests::of(Openness::Invited, Instant::now()).is_none());
    }

    #[test]
    fn tries_are_few_in_a_minute_from_one_address_and_in_all() {
        let now = Instant::now();
        let requests = Requests::of(Openness::Asked, now).unwrap();
        let entered = |source, at| {
            let all = (0..20).filter(|name| requests.enter(request(*name, source), at).is_some());
            all.count()
        };
        assert_eq!(entered(1, now), MAX_A_MINUTE_A_SOURCE);
        assert_eq!(entered(2, now), MAX_A_MINUTE_A_SOURCE, "another one has its own");
        let of_all: usize = (3..100).map(|source| entered(source, now)).sum();
        assert_eq!(of_all, MAX_A_MINUTE - 2 * MAX_A_MINUTE_A_SOURCE);
        assert_eq!(entered(200, now + MINUTE - Duration::from_millis(1)), 0);
        assert_eq!(entered(200, now + MINUTE), MAX_A_MINUTE_A_SOURCE);
    }

    #[test]
    fn an_open_network_lets_in_so_many_so_many_from_one_address_and_so_long() {
        let (now, minute) = (Instant::now(), Duration::from_secs(60));
        let asked = Requests::of(Openness::Asked, now).unwrap();
        let source = |last| IpAddr::from([192, 0, 2, last]);
        assert!(!asked.lets_in(source(1), now) && asked.open_for(now).is_none());
        let open = || Requests::of(Openness::OpenFor(minute), now).unwrap();
        let requests = open();
        let of_one = (0..9).filter(|_| requests.lets_in(source(1), now)).count();
        assert_eq!(of_one, MAX_OPEN_A_SOURCE);
        assert_eq!(requests.open_for(now), Some(minute));
        let of_all = (2..200).filter(|last| requests.lets_in(source(*last), now)).count();
        assert_eq!(of_all, MAX_OPEN - MAX_OPEN_A_SOURCE);
        assert_eq!(requests.open_for(now), None, "it is as if the time were over");
        let later = open();
        assert!(later.lets_in(source(1), now + minute - Duration::from_millis(1)));
        assert!(!later.lets_in(source(2), now + minute));
        assert_eq!(later.open_for(now + minute), None);
    }
}
