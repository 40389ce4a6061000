//! Who is to be told when a name's statements change: whoever was told something about it lately.
//!
//! A look-up subscribes its asker to every issuer in the answer, an absence to the absent name,
//! an order to its issuers. What an answer holds ends within
//! [`MAX_LIFETIME_S`](crate::MAX_LIFETIME_S), as the way to a server does that answers for a
//! name for longer; so a subscription does too; whoever still needs the name has asked again.
//! Names that are absent are remembered for a minute, on a shelf of their own: look-ups of
//! random names push out nothing but each other.
//!
//! An asker may have half a million. So what it had is given up little by little when its session
//! ends ([`Subscriptions::give_up`]), and maps and queues grow in small parts: nothing that one
//! asker does takes so long that the others notice.
//!
//! INVARIANT: no asker holds more than its bounds, and all together no more than theirs;
//! an asker at a bound loses its own oldest subscription, never another's. Strangers have
//! half of all, and a source an eighth of what is left of that. A lost one costs its
//! asker time: it asks again before its leases end.

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::slice;
use std::time::{Duration, Instant};

use foldhash::quality::RandomState;
use rhumb_link::Source;
use rhumb_trust::CLOCK_SKEW_S;
use rhumb_wire::{Certificate, Name};
use slab::Slab;

use crate::entry::MAX_LIFETIME_S;
use crate::pieces::Pieces;
use crate::share::Payer;
use crate::spread::{READ_AHEAD, Spread};

pub(crate) struct Subscriptions {
    /// All of them, by what they are about.
    told: Spread<Name, AllTold>,
    /// Each asker by its number, also those that are leaving.
    askers: Slab<Asker>,
    numbers: HashMap<Name, usize, RandomState>,
    /// Askers whose sessions ended, with what they are still counted for.
    leaving: VecDeque<usize>,
    give_up_at: Option<Instant>,
    count: usize,
    strangers: usize,
    by_source: HashMap<Source, usize>,
    bounds: Bounds,
}

/// The most subscriptions there may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) known_per_asker: usize,
    pub(crate) absent_per_asker: usize,
    pub(crate) total: usize,
}

struct Asker {
    name: Name,
    payer: Payer,
    max_answer_len: usize,
    /// Its subscriptions of each kind, with their ends when they were entered; one that was renewed
    /// since is entered again when its turn comes.
    known: Pieces<(Name, u64)>,
    absent: Pieces<(Name, u64)>,
    is_leaving: bool,
}

/// Who subscribes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subscriber {
    pub(crate) name: Name,
    pub(crate) payer: Payer,
    /// Most bytes of data that it takes.
    pub(crate) max_answer_len: usize,
}

/// A subscription: an asker was told something, by its number. What it is about is said where this
/// stands.
#[derive(Debug, Clone, Copy)]
struct Told {
    asker: u32,
    kind: Kind,
    until_s: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Known,
    Absent,
}

/// The subscriptions to a name: most names have one. In the order of [`Told::key`].
enum AllTold {
    One(Told),
    #[expect(clippy::box_collection, reason = "a place is a sixth smaller where there is one")]
    Several(Box<Vec<Told>>),
}

impl Subscriptions {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            told: Spread::default(),
            askers: Slab::new(),
            numbers: HashMap::default(),
            leaving: VecDeque::new(),
            give_up_at: None,
            count: 0,
            strangers: 0,
            by_source: HashMap::new(),
            bounds,
        }
    }

    /// Somebody was told something about `name`.
    pub(crate) fn add(&mut self, subscriber: Subscriber, name: Name, now_s: u64) {
        let asker = self.number(subscriber);
        self.enter(asker, Kind::Known, name, now_s);
    }

    /// Somebody was told these statements, and is to hear when any of their issuers says another.
    pub(crate) fn add_issuers(&mut self, subscriber: Subscriber, told: &[Certificate], now_s: u64) {
        let asker = self.number(subscriber);
        told.iter().for_each(|it| self.enter(asker, Kind::Known, it.issuer, now_s));
    }

    /// Somebody was told that `name` is absent.
    pub(crate) fn add_absent(&mut self, subscriber: Subscriber, name: Name, now_s: u64) {
        let asker = self.number(subscriber);
        let told = self.told.get(&name);
        if told.is_none_or(|told| told.of(asker, Kind::Known).is_none()) {
            self.enter(asker, Kind::Absent, name, now_s);
        }
    }

    /// Has what `asker` has of these names come near: it is told something about them next. With
    /// those that are new to it come some of its oldest, in whose places they may be entered.
    pub(crate) fn read_ahead(&self, asker: &Name, names: &[Name]) {
        let Some(number) = self.numbers.get(asker).copied() else { return };
        let found = self.told.find_all(names);
        let is_new =
            |told: Option<&AllTold>| told.is_none_or(|told| told.of(number, Kind::Known).is_none());
        let new = found.iter().take(names.len()).filter(|it| is_new(**it)).count();
        let oldest = self.askers[number].known.iter().take((new * MAX_STEPS).min(READ_AHEAD));
        let oldest: Vec<Name> = oldest.map(|(name, _)| *name).collect();
        let oldest = self.told.find_all(&oldest);
        black_box(oldest.into_iter().flatten().map(|told| told.all().len()).sum::<usize>());
    }

    /// Whether anybody is subscribed to `name`.
    pub(crate) fn has_any(&self, name: &Name) -> bool {
        self.told.contains_key(name)
    }

    /// Everybody who is subscribed to `name`, and whose budget it counts on; those whose time is
    /// over may still be among them.
    pub(crate) fn askers_of(&self, name: &Name) -> impl Iterator<Item = (Name, Payer)> {
        let told = self.told.get(name).map_or(&[][..], AllTold::all);
        let askers = told.iter().map(|told| &self.askers[told.asker as usize]);
        askers.filter(|asker| !asker.is_leaving).map(|asker| (asker.name, asker.payer))
    }

    /// Who `asker` is, if it is subscribed to `name`.
    pub(crate) fn subscriber(&self, asker: &Name, name: &Name, now_s: u64) -> Option<Subscriber> {
        let number = *self.numbers.get(asker)?;
        let told = self.told.get(name)?;
        let told = [Kind::Known, Kind::Absent].map(|kind| told.of(number, kind));
        let is_subscribed = told.into_iter().flatten().any(|it| it.until_s >= now_s);
        let Asker { payer, max_answer_len, .. } = self.askers[number];
        is_subscribed.then_some(Subscriber { name: *asker, payer, max_answer_len })
    }

    /// Forgets an asker, whose session ended. What it had is left to [`Subscriptions::give_up`].
    pub(crate) fn forget(&mut self, asker: &Name) {
        let Some(number) = self.numbers.remove(asker) else { return };
        self.askers[number].is_leaving = true;
        self.leaving.push_back(number);
    }

    /// Gives up some of what those had who have left.
    pub(crate) fn give_up(&mut self, now: Instant) {
        let mut work = 0;
        while work < GIVEN_UP_AT_ONCE
            && let Some(&number) = self.leaving.front()
        {
            work += 1;
            let Asker { known, absent, .. } = &mut self.askers[number];
            let first = known.pop().map(|(name, _)| (Kind::Known, name));
            match first.or_else(|| absent.pop().map(|(name, _)| (Kind::Absent, name))) {
                Some((kind, name)) => {
                    work += self.take_out(number, kind, &name) / MOVED_MEANWHILE;
                }
                None => {
                    self.askers.remove(number);
                    self.leaving.pop_front();
                }
            }
        }
        self.give_up_at = (!self.leaving.is_empty()).then_some(now + GIVE_UP_EVERY);
    }

    /// When there is more to be given up.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.give_up_at
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether no more can be had but in place of others.
    fn is_full(&self, payer: Payer) -> bool {
        let left = (self.bounds.total / 2).saturating_sub(self.strangers);
        match payer {
            Payer::Admitted(_) => self.count >= self.bounds.total,
            Payer::Stranger(source) => {
                let own = self.by_source.get(&source).copied().unwrap_or(0);
                left == 0 || own.saturating_mul(PARTS) > left || self.count >= self.bounds.total
            }
        }
    }

    /// The number of an asker. One that was judged otherwise before goes on as it began, until its
    /// session ends.
    fn number(&mut self, subscriber: Subscriber) -> usize {
        let Subscriber { name, payer, max_answer_len } = subscriber;
        let number = *self.numbers.entry(name).or_insert_with(|| {
            let (known, absent) = (Pieces::default(), Pieces::default());
            let is_leaving = false;
            self.askers.insert(Asker { name, payer, max_answer_len, known, absent, is_leaving })
        });
        self.askers[number].max_answer_len = max_answer_len;
        number
    }

    fn enter(&mut self, asker: usize, kind: Kind, name: Name, now_s: u64) {
        let (bound, lasts_s) = match kind {
            Kind::Known => (self.bounds.known_per_asker, KNOWN_FOR_S),
            Kind::Absent => (self.bounds.absent_per_asker, ABSENT_FOR_S),
        };
        let until_s = now_s.saturating_add(lasts_s);
        let told = self.told.get_mut(&name);
        if let Some(told) = told.and_then(|told| told.of_mut(asker, kind)) {
            told.until_s = until_s;
            return;
        }
        let payer = self.askers[asker].payer;
        let is_full = self.is_full(payer) || self.askers[asker].of_kind(kind).len() >= bound;
        if !self.take_past(asker, kind, now_s) && is_full && !self.take_oldest(asker, kind) {
            return;
        }
        self.askers[asker].of_kind(kind).push((name, until_s));
        self.count += 1;
        if let Payer::Stranger(source) = payer {
            self.strangers += 1;
            *self.by_source.entry(source).or_default() += 1;
        }
        let new = Told { asker: asker as u32, kind, until_s };
        match self.told.get_mut(&name) {
            Some(told) => told.put(new),
            None => self.told.insert(name, AllTold::One(new)),
        }
    }

    /// Takes out the first few whose time is over. Whether there was any.
    fn take_past(&mut self, asker: usize, kind: Kind, now_s: u64) -> bool {
        let mut has_taken = false;
        for _ in 0..MAX_STEPS {
            match self.askers[asker].of_kind(kind).first() {
                Some((_, entered)) if *entered < now_s => {
                    has_taken |= self.take_unrenewed(asker, kind);
                }
                _ => break,
            }
        }
        has_taken
    }

    /// Takes out the one that was entered or renewed first, or nearly so. Whether there was any.
    fn take_oldest(&mut self, asker: usize, kind: Kind) -> bool {
        if (0..MAX_STEPS).any(|_| self.take_unrenewed(asker, kind)) {
            return true;
        }
        let first = self.askers[asker].of_kind(kind).pop();
        if let Some((name, _)) = &first {
            self.take_out(asker, kind, name);
        }
        first.is_some()
    }

    /// Takes the first out of its queue, for good unless it was renewed. Whether it is gone.
    fn take_unrenewed(&mut self, asker: usize, kind: Kind) -> bool {
        let queue = self.askers[asker].of_kind(kind);
        let Some((name, entered)) = queue.pop() else { return false };
        let told = self.told.get(&name).and_then(|told| told.of(asker, kind));
        let renewed = told.filter(|told| told.until_s > entered);
        match renewed {
            Some(told) => queue.push((name, told.until_s)),
            None => _ = self.take_out(asker, kind, &name),
        }
        renewed.is_none()
    }

    /// Takes out one that is in no queue any more. How many are left of this name.
    fn take_out(&mut self, asker: usize, kind: Kind, name: &Name) -> usize {
        let left = self.told.get_mut(name).map(|told| told.take(asker, kind));
        if left == Some(0) {
            self.told.remove(name);
        }
        self.count -= 1;
        if let Payer::Stranger(source) = self.askers[asker].payer {
            self.strangers -= 1;
            if let Some(own) = self.by_source.get_mut(&source) {
                *own -= 1;
                if *own == 0 {
                    self.by_source.remove(&source);
                }
            }
        }
        left.unwrap_or(0)
    }
}

impl Asker {
    fn of_kind(&mut self, kind: Kind) -> &mut Pieces<(Name, u64)> {
        match kind {
            Kind::Known => &mut self.known,
            Kind::Absent => &mut self.absent,
        }
    }
}

impl Told {
    fn key(&self) -> (u32, Kind) {
        (self.asker, self.kind)
    }
}

impl AllTold {
    fn all(&self) -> &[Told] {
        match self {
            Self::One(told) => slice::from_ref(told),
            Self::Several(all) => all,
        }
    }

    fn place(&self, asker: usize, kind: Kind) -> Result<usize, usize> {
        self.all().binary_search_by_key(&(asker as u32, kind), Told::key)
    }

    fn of(&self, asker: usize, kind: Kind) -> Option<Told> {
        Some(self.all()[self.place(asker, kind).ok()?])
    }

    fn of_mut(&mut self, asker: usize, kind: Kind) -> Option<&mut Told> {
        let place = self.place(asker, kind).ok()?;
        match self {
            Self::One(told) => Some(told),
            Self::Several(all) => all.get_mut(place),
        }
    }

    /// Puts in one of an asker that has none of its kind.
    fn put(&mut self, told: Told) {
        let place = self.place(told.asker as usize, told.kind).unwrap_or_else(|place| place);
        match self {
            Self::One(other) => {
                let mut all = vec![*other];
                all.insert(place, told);
                *self = Self::Several(Box::new(all));
            }
            Self::Several(all) => all.insert(place, told),
        }
    }

    /// Takes one out that is there. How many are left.
    fn take(&mut self, asker: usize, kind: Kind) -> usize {
        match (self.place(asker, kind), self) {
            (Ok(_), Self::One(_)) => 0,
            (Ok(place), Self::Several(all)) => {
                all.remove(place);
                all.len()
            }
            (Err(_), told) => told.all().len(),
        }
    }
}

/// As long as anything that was answered may hold.
const KNOWN_FOR_S: u64 = MAX_LIFETIME_S + CLOCK_SKEW_S;
/// A client that was told to try again has done so, or given up.
const ABSENT_FOR_S: u64 = 60;
/// Of what is left for strangers, a source may hold one in so many.
const PARTS: usize = 8;
/// Bounds the work of one new subscription.
const MAX_STEPS: usize = 8;
/// Each is looked for in a map.
const GIVEN_UP_AT_ONCE: usize = 512;
/// So many others of a name, 4 kB, are moved while one is looked for.
const MOVED_MEANWHILE: usize = 256;
/// Half a million in a second.
const GIVE_UP_EVERY: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const BOUNDS: Bounds = Bounds { known_per_asker: 10, absent_per_asker: 4, total: 20 };
    const ONE: Name = Name([0x11; 32]);
    const OTHER: Name = Name([0x22; 32]);

    fn name(number: u8) -> Name {
        Name([number; 32])
    }

    /// Where a byte is too few.
    fn numbered(number: usize) -> Name {
        let mut name = name(0);
        name.0[..8].copy_from_slice(&number.to_be_bytes());
        name
    }

    /// Until nobody is left who leaves.
    fn give_up(subscriptions: &mut Subscriptions) {
        #[expect(clippy::disallowed_methods, reason = "any instant is as good")]
        let now = Instant::now();
        subscriptions.give_up(now);
        while subscriptions.due().is_some() {
            subscriptions.give_up(now);
        }
    }

    fn subscriber(name: Name) -> Subscriber {
        Subscriber { name, payer: Payer::Admitted(name), max_answer_len: 1300 }
    }

    #[test]
    fn most_names_take_little_room_and_one_with_many_askers_has_each_once() {
        assert_eq!(size_of::<(Name, AllTold)>(), 48);
        let mut subscriptions =
            Subscriptions::new(Bounds { total: 1000, known_per_asker: 10, absent_per_asker: 4 });
        let mut askers: Vec<Name> = (1..=200).map(name).collect();
        for asker in askers.iter().chain(&askers[50..150]) {
            subscriptions.add_absent(subscriber(*asker), name(0), 0);
            subscriptions.add(subscriber(*asker), name(0), 1);
            subscriptions.add_absent(subscriber(*asker), name(0), 2);
        }
        assert_eq!(subscriptions.len(), 400);
        // Of those who leave nobody is told, and the others are.
        askers.drain(..150).step_by(3).for_each(|asker| subscriptions.forget(&asker));
        let told = |it: &Subscriptions| -> HashSet<Name> {
            it.askers_of(&name(0)).map(|(name, _)| name).collect()
        };
        let before = told(&subscriptions);
        assert_eq!(before.len(), 150);
        give_up(&mut subscriptions);
        assert_eq!((told(&subscriptions), subscriptions.len()), (before, 300));
        // Whose number is used again has nothing of who had it.
        subscriptions.add(subscriber(name(201)), name(1), 3);
        assert!(subscriptions.subscriber(&name(201), &name(0), 3).is_none());
        assert!(subscriptions.subscriber(&name(201), &name(1), 3).is_some());
    }

    #[test]
    fn strangers_leave_half_and_a_source_leaves_some_to_the_next() {
        let mut subscriptions =
            Subscriptions::new(Bounds { total: 200, known_per_asker: 1000, absent_per_asker: 4 });
        let asker = |source: u8, number: u8| {
            let mut name = name(source);
            name.0[1] = number;
            name
        };
        let stranger = |source: u8, number: u8| Subscriber {
            payer: Payer::Stranger(Source::V4([192, 0, 2, source])),
            ..subscriber(asker(source, number))
        };
        // Whoever comes with ever new names has no more for it.
        for number in 0..100 {
            subscriptions.add(stranger(1, number), name(number), 0);
        }
        assert_eq!(subscriptions.len(), 12);
        for source in 2..=255 {
            for number in 0..10 {
                subscriptions.add(stranger(source, number), name(number), 0);
            }
        }
        assert_eq!(subscriptions.len(), 100);
        for number in 0..100 {
            subscriptions.add(subscriber(ONE), name(number), 0);
        }
        assert_eq!(subscriptions.len(), 200);
        for source in 1..=255 {
            (0..100).for_each(|number| subscriptions.forget(&asker(source, number)));
        }
        subscriptions.forget(&ONE);
        give_up(&mut subscriptions);
        assert_eq!((subscriptions.len(), subscriptions.by_source.len()), (0, 0));
    }

    #[test]
    fn each_asker_loses_its_own_oldest_and_those_in_use_stay() {
        let mut subscriptions = Subscriptions::new(BOUNDS);
        subscriptions.add(subscriber(OTHER), name(0), 0);
        for number in 1..=200 {
            subscriptions.add(subscriber(ONE), name(0), u64::from(number));
            subscriptions.add(subscriber(ONE), name(number), u64::from(number));
            assert!(subscriptions.len() <= 11, "{}", subscriptions.len());
            assert!(subscriptions.subscriber(&ONE, &name(0), 200).is_some(), "{number}");
        }
        assert!(subscriptions.askers_of(&name(0)).any(|(name, _)| name == OTHER));
        assert!(!subscriptions.has_any(&name(1)));
        assert!(subscriptions.has_any(&name(200)));
    }

    #[test]
    fn absences_push_out_absences_only() {
        let mut subscriptions = Subscriptions::new(BOUNDS);
        subscriptions.add(subscriber(ONE), name(0), 0);
        for number in 1..=200 {
            subscriptions.add_absent(subscriber(ONE), name(number), 0);
        }
        assert_eq!(subscriptions.len(), 5);
        assert!(subscriptions.has_any(&name(0)));
        // What appeared meanwhile is known from then on.
        subscriptions.add(subscriber(ONE), name(200), 0);
        assert!(subscriptions.subscriber(&ONE, &name(200), ABSENT_FOR_S + 1).is_some());
        assert!(subscriptions.subscriber(&ONE, &name(199), ABSENT_FOR_S).is_some());
        assert!(subscriptions.subscriber(&ONE, &name(199), ABSENT_FOR_S + 1).is_none());
    }

    #[test]
    fn the_bound_of_all_together_takes_from_nobody_else() {
        let mut subscriptions = Subscriptions::new(BOUNDS);
        for number in 0..10 {
            subscriptions.add(subscriber(ONE), name(number), 0);
            subscriptions.add(subscriber(OTHER), name(number), 0);
        }
        assert_eq!(subscriptions.len(), 20);
        subscriptions.add(subscriber(name(0x33)), name(50), 0);
        assert_eq!((subscriptions.len(), subscriptions.has_any(&name(50))), (20, false));
        subscriptions.add(subscriber(ONE), name(51), 0);
        assert_eq!((subscriptions.len(), subscriptions.has_any(&name(51))), (20, true));
    }

    #[test]
    fn time_and_the_end_of_a_session_free_everything() {
        let mut subscriptions = Subscriptions::new(BOUNDS);
        for number in 0..4 {
            subscriptions.add(subscriber(ONE), name(number), 0);
            subscriptions.add_absent(subscriber(ONE), name(100 + number), 0);
        }
        subscriptions.add(subscriber(OTHER), name(0), 0);
        // One that comes after all others have ended takes their place.
        subscriptions.add(subscriber(ONE), name(9), KNOWN_FOR_S + 1);
        assert_eq!(subscriptions.len(), 6);
        subscriptions.forget(&ONE);
        give_up(&mut subscriptions);
        assert_eq!(subscriptions.len(), 1);
        let left: Vec<Name> = subscriptions.askers_of(&name(0)).map(|(name, _)| name).collect();
        assert_eq!(left, [OTHER]);
        subscriptions.forget(&OTHER);
        give_up(&mut subscriptions);
        assert_eq!(subscriptions.told.len(), 0);
        assert!(subscriptions.askers.is_empty() && subscriptions.numbers.is_empty());
    }

    #[test]
    fn many_who_leave_one_name_are_given_up_in_smaller_turns() {
        let many = 16 * MOVED_MEANWHILE;
        let bounds = Bounds { known_per_asker: 10, absent_per_asker: 4, total: many };
        let mut subscriptions = Subscriptions::new(bounds);
        for number in 0..many {
            subscriptions.add(subscriber(numbered(number)), ONE, 0);
        }
        assert_eq!(subscriptions.len(), many);
        (0..many).for_each(|number| subscriptions.forget(&numbered(number)));
        #[expect(clippy::disallowed_methods, reason = "any instant is as good")]
        subscriptions.give_up(Instant::now());
        let given_up = many - subscriptions.len();
        assert!((1..=GIVEN_UP_AT_ONCE / 15).contains(&given_up), "{given_up}");
        give_up(&mut subscriptions);
        assert_eq!((subscriptions.len(), subscriptions.told.len()), (0, 0));
        assert!(subscriptions.askers.is_empty());
    }

    #[test]
    fn who_leaves_with_many_is_given_up_little_by_little_and_may_come_back_meanwhile() {
        #[expect(clippy::disallowed_methods, reason = "any instant is as good")]
        let now = Instant::now();
        let many = 10 * GIVEN_UP_AT_ONCE;
        let bounds = Bounds { known_per_asker: many, absent_per_asker: 4, total: 2 * many };
        let mut subscriptions = Subscriptions::new(bounds);
        for number in 0..many {
            subscriptions.add(subscriber(ONE), numbered(number), 0);
        }
        subscriptions.forget(&ONE);
        subscriptions.give_up(now);
        assert_eq!(subscriptions.len(), many - GIVEN_UP_AT_ONCE);
        assert!(subscriptions.due().is_some());
        // What it had is nothing that it is told of, and what it asks for now is.
        assert!(subscriptions.subscriber(&ONE, &numbered(many - 1), 0).is_none());
        subscriptions.add(subscriber(ONE), numbered(many - 1), 0);
        subscriptions.add(subscriber(OTHER), numbered(many - 1), 0);
        give_up(&mut subscriptions);
        assert_eq!(subscriptions.len(), 2);
        assert!(subscriptions.subscriber(&ONE, &numbered(many - 1), 0).is_some());
        let left = numbered(many - 1);
        let left: HashSet<Name> = subscriptions.askers_of(&left).map(|(name, _)| name).collect();
        assert_eq!(left, HashSet::from([ONE, OTHER]));
        assert_eq!((subscriptions.told.len(), subscriptions.askers.len()), (1, 2));
    }
}
