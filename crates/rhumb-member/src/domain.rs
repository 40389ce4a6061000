//! A trust domain as a member: what it offers its neighbours, and what they offer it, where they
//! tell each other so through the exchange. Decision 0072 says why it is done like this.
//!
//! 1. [`DomainMember::set_offers`] says what each lane is to be offered.
//! 2. Every [`EVERY`], [`DomainMember::handle_timeout`] announces all of its slots, of which there
//!    are as many as the settings say, whether they hold an offer or not, and whether it is another
//!    one or not.
//! 3. [`DomainMember::take_events`] keeps what lanes that are listened to say in their slots, and
//!    [`DomainMember::heard`] is what of it counts.
//!
//! ```text
//! destination  "d" | lane, 2 | slot, 1
//! route        version, 1 = 1 | seconds since 1970, 8 | domain, 32 | length, 2 | offer
//!              | zeros up to 2023 bytes
//! ```
//!
//! Numbers are big-endian. A length of zero is a slot without an offer, which is for nobody.
//!
//! INVARIANT: what it announces, how long that is, when and in which order is the same for all
//! offers and policies. In which slot an offer is says nothing about others, since that is drawn.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_exchange::{Destination, Event, ExchangeError, Lane, Roster, Route, RouteId};
use rhumb_wire::offer::Offered;
use rhumb_wire::{Name, Offer};

use crate::seat::{AWAY, Seat};

/// A trust domain at the exchange.
pub struct DomainMember {
    /// The core, and its connections.
    pub seat: Seat,
    lane: Lane,
    /// What each lane is to be offered.
    offers: BTreeMap<Lane, Vec<Offered>>,
    /// What each slot holds: an offer about this domain, to this lane and others after it.
    slots: Vec<Option<Key>>,
    /// Numbers of slots, as they are given out.
    drawn: Vec<u8>,
    say_at: Instant,
    /// Whether there was ever a core.
    has_begun: bool,
    /// Whether the core has been told all.
    is_told: bool,
    /// What lanes that are listened to say.
    heard: BTreeMap<Lane, Slots>,
    /// What was counted since the start.
    pub counters: DomainCounters,
}

/// What a lane says, by slot, and when it was heard last, if it ever was.
#[derive(Default)]
struct Slots {
    slots: BTreeMap<u8, Heard>,
    heard_at: Option<Instant>,
}

/// What a lane says in a slot.
struct Heard {
    id: RouteId,
    said_s: u64,
    came_at: Instant,
    offered: Option<Offered>,
    /// It was taken back then.
    gone_at: Option<Instant>,
}

/// An offer about a domain, by the first of the lanes that have it.
type Key = (Name, Lane);
/// Offers as bytes, and all lanes that have each.
type Wanted = BTreeMap<Key, (Vec<u8>, BTreeSet<Lane>)>;

/// What a lane offers, and when it was heard last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedBy {
    /// What it offers, in the order of domains.
    pub offers: Vec<Offered>,
    /// When it last said anything.
    pub heard_at: Instant,
}

/// What was counted. All only grow, but the first three.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct DomainCounters {
    /// Offers that are told: one for several lanes counts once.
    pub told: usize,
    /// Offers for which there is no slot.
    pub untold: usize,
    /// Offers that no slot holds.
    pub too_long: usize,
    /// Announcements of slots.
    pub announced: u64,
    /// Routes of lanes that are listened to.
    pub heard: u64,
    /// Of these, routes that were taken back.
    pub retracted: u64,
    /// What such a lane said long before it came, or after that.
    pub late: u64,
    /// What is no slot of its announcer, or holds no offer.
    pub malformed: u64,
}

impl DomainMember {
    /// Before any server was heard. The secret draws slots; how many there are is public.
    pub fn new(roster: Arc<Roster>, lane: Lane, slots: u8, secret: [u8; 32], now: Instant) -> Self {
        let slots = slots.min(MAX_SLOTS);
        let mut drawn: Vec<u8> = (0..slots).collect();
        drawn.sort_by_cached_key(|slot| {
            let mut hasher = DefaultHasher::new();
            (secret, slot).hash(&mut hasher);
            hasher.finish()
        });
        Self {
            seat: Seat::new(roster, lane, false, now),
            lane,
            offers: BTreeMap::new(),
            slots: vec![None; slots.into()],
            drawn,
            say_at: now,
            has_begun: false,
            is_told: false,
            heard: BTreeMap::new(),
            counters: DomainCounters::default(),
        }
    }

    /// Another roster from now on ([`Seat::set_roster`]). Who is offered something and who is
    /// listened to has to be said anew.
    pub fn set_roster(&mut self, roster: Arc<Roster>, lane: Lane) -> bool {
        self.lane = lane;
        self.offers.clear();
        let extends = self.seat.set_roster(roster, lane);
        if !extends {
            self.heard.clear();
        }
        extends
    }

    /// These lanes are neighbours. What others say is nobody's.
    pub fn listen_to(&mut self, lanes: &BTreeSet<Lane>) {
        self.heard.retain(|lane, _| lanes.contains(lane));
        for lane in lanes {
            self.heard.entry(*lane).or_default();
        }
    }

    /// What each lane is offered from the next time on that it is told.
    pub fn set_offers(&mut self, offers: BTreeMap<Lane, Vec<Offered>>) {
        self.offers = offers;
    }

    /// A core was made, which has to be told all: at once, but by the first one. What was announced
    /// before this process began stays until then, and the process has yet to hear what it offers.
    pub fn core_begins(&mut self, now: Instant) {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        self.say_at = if is_first { now + EVERY } else { now };
        self.is_told = false;
    }

    /// When it is to announce next.
    pub fn poll_timeout(&self) -> Instant {
        self.say_at
    }

    /// Announces what is due.
    ///
    /// # Errors
    ///
    /// A lane is not of the roster, or the exchange cannot have so many routes.
    pub fn handle_timeout(&mut self, now: Instant, now_s: u64) -> Result<(), ExchangeError> {
        if now < self.say_at {
            return Ok(());
        }
        while self.say_at <= now {
            self.say_at += EVERY;
        }
        if self.seat.status().is_none() {
            return Ok(());
        }
        let wanted = self.wanted();
        self.give_slots(&wanted);
        for (number, slot) in (0..).zip(&self.slots) {
            let held = slot.as_ref().and_then(|key| Some((key.0, wanted.get(key)?)));
            let nobody = BTreeSet::new();
            let (route, lanes) = match held {
                Some((domain, (offer, lanes))) => (fill(now_s, Some((domain, offer))), lanes),
                None => (fill(now_s, None), &nobody),
            };
            let destination = destination(self.lane, number)?;
            self.seat.announce(&destination, lanes.iter().copied(), &Route::new(&route)?)?;
            self.counters.announced += 1;
        }
        if !std::mem::replace(&mut self.is_told, true) {
            self.seat.end_of_table();
        }
        Ok(())
    }

    /// What has to be told, each to all lanes that are offered the same.
    fn wanted(&mut self) -> Wanted {
        let mut alike: BTreeMap<(Name, Vec<u8>), BTreeSet<Lane>> = BTreeMap::new();
        for (lane, offers) in &self.offers {
            for (domain, offer) in offers {
                alike.entry((*domain, offer.emit())).or_default().insert(*lane);
            }
        }
        let before = alike.len();
        alike.retain(|(_, offer), _| offer.len() <= MAX_OFFER);
        self.counters.too_long = before - alike.len();
        let first = |lanes: &BTreeSet<Lane>| lanes.first().copied().unwrap_or(Lane(0));
        let all = alike.into_iter();
        all.map(|((domain, offer), lanes)| ((domain, first(&lanes)), (offer, lanes))).collect()
    }

    /// What has a slot keeps it, so that nobody misses an offer for a moment.
    fn give_slots(&mut self, wanted: &Wanted) {
        for slot in &mut self.slots {
            *slot = slot.take().filter(|key| wanted.contains_key(key));
        }
        let has_one: BTreeSet<Key> = self.slots.iter().flatten().copied().collect();
        let mut free = self.drawn.iter().filter(|slot| self.slots[usize::from(**slot)].is_none());
        let new = wanted.keys().filter(|key| !has_one.contains(key));
        let given: Vec<_> = new.zip(&mut free).map(|(key, slot)| (*slot, *key)).collect();
        for (slot, key) in given {
            self.slots[usize::from(slot)] = Some(key);
        }
        let told = self.slots.iter().flatten().count();
        (self.counters.told, self.counters.untold) = (told, wanted.len() - told);
    }

    /// Takes what the core has to say.
    pub fn take_events(&mut self, now: Instant, now_s: u64) {
        while let Some(event) = self.seat.poll_event() {
            match event {
                Event::Offered { destination, from, id, route, .. } => {
                    let slot = slot_of(from, &destination);
                    let Some(lane) = self.heard.get_mut(&from) else { continue };
                    self.counters.heard += 1;
                    let said = slot.and_then(|slot| Some((slot, read(route.as_bytes())?)));
                    match said {
                        None => self.counters.malformed += 1,
                        Some((_, (said_s, _))) if said_s.abs_diff(now_s) > LATE_S => {
                            self.counters.late += 1;
                        }
                        Some((slot, (said_s, offered))) => {
                            let gone_at = None;
                            let heard = Heard { id, said_s, came_at: now, offered, gone_at };
                            lane.slots.insert(slot, heard);
                            lane.heard_at = Some(now);
                        }
                    }
                }
                Event::Retracted { from, id, .. } => {
                    let Some(lane) = self.heard.get_mut(&from) else { continue };
                    for heard in lane.slots.values_mut().filter(|it| it.id == id) {
                        heard.gone_at = Some(now);
                        self.counters.retracted += 1;
                    }
                }
                // It does not take part in the choice of routes.
                Event::Rank { .. }
                | Event::Selected { .. }
                | Event::Missed { .. }
                | Event::Synced => {}
            }
        }
        for Slots { slots, .. } in self.heard.values_mut() {
            let latest = slots.values().map(|it| it.said_s).max().unwrap_or(0);
            slots.retain(|_, it| it.counts(latest, now));
        }
    }

    /// What each lane that was ever heard offers now.
    pub fn heard(&self) -> BTreeMap<Lane, OfferedBy> {
        let all = self.heard.iter();
        all.filter_map(|(lane, slots)| Some((*lane, slots.offered()?))).collect()
    }
}

impl Slots {
    fn offered(&self) -> Option<OfferedBy> {
        let Self { slots, heard_at } = self;
        let heard_at = (*heard_at)?;
        let mut last: BTreeMap<Name, (u64, &Offer)> = BTreeMap::new();
        for it in slots.values() {
            let Some((domain, offer)) = &it.offered else { continue };
            if last.get(domain).is_none_or(|(said_s, _)| *said_s <= it.said_s) {
                last.insert(*domain, (it.said_s, offer));
            }
        }
        let offers = last.into_iter().map(|(domain, (_, offer))| (domain, offer.clone()));
        Some(OfferedBy { offers: offers.collect(), heard_at })
    }
}

impl Heard {
    /// Whether it counts, when its lane has said something else since.
    fn counts(&self, latest_s: u64, now: Instant) -> bool {
        let is_repeated = self.said_s + FORGET_S >= latest_s;
        let is_there = self.gone_at.is_none_or(|at| at + MOVES > now);
        is_repeated && is_there && self.came_at + AWAY > now
    }
}

fn destination(lane: Lane, slot: u8) -> Result<Destination, ExchangeError> {
    let [high, low] = lane.0.to_be_bytes();
    Destination::new(&[KIND, high, low, slot])
}

/// The slot of `from` that a destination is.
fn slot_of(from: Lane, at: &Destination) -> Option<u8> {
    let &[KIND, high, low, slot] = at.as_bytes() else { return None };
    (Lane(u16::from_be_bytes([high, low])) == from && slot < MAX_SLOTS).then_some(slot)
}

pub(crate) fn fill(now_s: u64, held: Option<(Name, &Vec<u8>)>) -> Vec<u8> {
    let mut route = Vec::with_capacity(ROUTE_LEN);
    route.push(VERSION);
    route.extend(now_s.to_be_bytes());
    let (domain, offer) = held.map_or((Name([0; 32]), &[][..]), |(name, offer)| (name, offer));
    route.extend(domain.0);
    route.extend((offer.len() as u16).to_be_bytes());
    route.extend(offer);
    route.resize(ROUTE_LEN, 0);
    route
}

/// When it was said, and what is offered, if anything.
pub(crate) fn read(route: &[u8]) -> Option<(u64, Option<Offered>)> {
    let (&[VERSION], rest) = route.split_first_chunk::<1>()? else { return None };
    let (said_s, rest) = rest.split_first_chunk::<8>()?;
    let (domain, rest) = rest.split_first_chunk::<32>()?;
    let (len, rest) = rest.split_first_chunk::<2>()?;
    let (offer, zeros) = rest.split_at_checked(u16::from_be_bytes(*len).into())?;
    if route.len() != ROUTE_LEN || zeros.iter().any(|byte| *byte != 0) {
        return None;
    }
    let offered = match offer.is_empty() {
        true => None,
        false => Some((Name(*domain), Offer::parse(offer).ok()?)),
    };
    Some((u64::from_be_bytes(*said_s), offered))
}

/// How often all slots are announced: what a domain on the way takes to pass on what it has heard.
pub const EVERY: Duration = Duration::from_secs(5);
/// Slots of a member: as many domains as one neighbour may offer.
pub const MAX_SLOTS: u8 = 64;
/// No prefix: those begin with a variant, of which there are four.
const KIND: u8 = b'd';
const VERSION: u8 = 1;
/// With destination and what is sealed beside them, 2048 bytes: one size class for all.
pub(crate) const ROUTE_LEN: usize = 2048 - 16 - 5 - 4;
/// More than a RIB offers (`rhumb_rib::Neighbours`): what fits a datagram.
const MAX_OFFER: usize = ROUTE_LEN - 1 - 8 - 32 - 2;
/// What is not said again with the rest for so long is no more, also if an exchange withholds that.
const FORGET_S: u64 = 3 * EVERY.as_secs();
/// What comes so much later than it was said, by two clocks, is not taken.
const LATE_S: u64 = 60;
/// An offer that moves to another slot is in neither for a moment.
const MOVES: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(len: usize) -> Offer {
        let names = (0..len as u8).map(|byte| Name([byte; 32]));
        let at = rhumb_wire::certificate::Locator::new(([192, 0, 2, 1], 7).into()).unwrap();
        let ribs = names.map(|name| (name, at)).collect();
        Offer { cost: 3, ribs, metadata: vec![], certificates: vec![] }
    }

    #[test]
    fn a_slot_has_one_length_and_comes_back() {
        let domain = Name([7; 32]);
        for offered in [None, Some((domain, offer(0))), Some((domain, offer(2)))] {
            let bytes = offered.as_ref().map(|(_, offer)| offer.emit());
            let route = fill(9, bytes.as_ref().map(|bytes| (domain, bytes)));
            assert_eq!((route.len(), read(&route)), (ROUTE_LEN, Some((9, offered))));
            for cut in [0, 1, 8, 40, 42, ROUTE_LEN - 1] {
                assert_eq!(read(&route[..cut]), None);
            }
            let mut other = route.clone();
            other[ROUTE_LEN - 1] = 1;
            assert_eq!(read(&other), None, "one form alone");
            other = route.clone();
            other[0] = 2;
            assert_eq!(read(&other), None, "another version");
        }
        let head = [&[1, 0, 0, 0, 0, 0, 0, 1, 2][..], &[7; 32], &[0, 3], b"abc", &[0; 9]].concat();
        assert_eq!(fill(258, Some((domain, &b"abc".to_vec())))[..head.len()], head);
    }

    #[test]
    fn a_slot_is_its_announcers_own() {
        let at = destination(Lane(258), 3).unwrap();
        assert_eq!(at.as_bytes(), [b'd', 1, 2, 3]);
        assert_eq!(slot_of(Lane(258), &at), Some(3));
        assert_eq!(slot_of(Lane(257), &at), None);
        assert_eq!(slot_of(Lane(258), &destination(Lane(258), MAX_SLOTS).unwrap()), None);
        assert!(crate::Place::parse(at.as_bytes()).is_none());
    }
}
