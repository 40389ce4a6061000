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

use rhumb_link::Source;
use rhumb_trust::CLOCK_SKEW_S;
use rhumb_wire::{Certificate, Name};

use crate::entry::MAX_LIFETIME_S;
use crate::pieces::Pieces;
use crate::share::Payer;
use crate::spread::Spread;

pub(crate) struct Subscriptions {
    askers_of: Spread<Name, Askers>,
    askers: HashMap<Name, Asker>,
    /// Askers whose sessions ended, with what they are still counted for.
    leaving: VecDeque<(Name, Asker)>,
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
    payer: Payer,
    max_answer_len: usize,
    known: Shelf,
    absent: Shelf,
}

/// Who subscribes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subscriber {
    pub(crate) name: Name,
    pub(crate) payer: Payer,
    /// Most bytes of data that it takes.
    pub(crate) max_answer_len: usize,
}

/// Who is subscribed to a name: most names have one.
enum Askers {
    One(Name),
    Several(Vec<Name>),
}

/// Subscriptions of one kind and their ends. The queue has each name once, with its end when it was
/// entered; one that was renewed since is entered again when its turn comes.
#[derive(Default)]
struct Shelf {
    until_s: Spread<Name, u64>,
    queue: Pieces<(Name, u64)>,
}

impl Subscriptions {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let (strangers, by_source) = (0, HashMap::new());
        let (askers_of, askers) = (Spread::default(), HashMap::new());
        let (leaving, give_up_at) = (VecDeque::new(), None);
        Self { askers_of, askers, leaving, give_up_at, count: 0, strangers, by_source, bounds }
    }

    /// Somebody was told something about `name`.
    pub(crate) fn add(&mut self, subscriber: Subscriber, name: Name, now_s: u64) {
        let until_s = now_s.saturating_add(KNOWN_FOR_S);
        self.enter(subscriber, name, until_s, now_s, Kind::Known);
    }

    /// Somebody was told these statements, and is to hear when any of their issuers says another.
    pub(crate) fn add_issuers(&mut self, subscriber: Subscriber, told: &[Certificate], now_s: u64) {
        told.iter().for_each(|certificate| self.add(subscriber, certificate.issuer, now_s));
    }

    /// Somebody was told that `name` is absent.
    pub(crate) fn add_absent(&mut self, subscriber: Subscriber, name: Name, now_s: u64) {
        let known = self.askers.get(&subscriber.name).map(|asker| &asker.known);
        if known.is_some_and(|known| known.until_s.contains_key(&name)) {
            return;
        }
        let until_s = now_s.saturating_add(ABSENT_FOR_S);
        self.enter(subscriber, name, until_s, now_s, Kind::Absent);
    }

    /// Has what `asker` has of these names come near: it is told something about them next. With
    /// those that are new to it come as many of its oldest, in whose places they may be entered.
    pub(crate) fn read_ahead(&self, asker: &Name, names: &[Name]) {
        let Some(Asker { known, .. }) = self.askers.get(asker) else { return };
        let found = known.until_s.find_all(names);
        let is_new = |(name, end): (&Name, Option<&u64>)| end.is_none().then_some(*name);
        let new: Vec<Name> = names.iter().zip(found).filter_map(is_new).collect();
        let oldest = known.queue.iter().take(new.len());
        let oldest: Vec<Name> = oldest.map(|(name, _)| *name).collect();
        let of = |names: &[Name]| self.askers_of.find_all(names).into_iter().flatten().count();
        let ends = found.into_iter().chain(known.until_s.find_all(&oldest)).flatten();
        black_box((ends.sum::<u64>(), of(&new), of(&oldest)));
    }

    /// Whether anybody is subscribed to `name`.
    pub(crate) fn has_any(&self, name: &Name) -> bool {
        self.askers_of.contains_key(name)
    }

    /// Everybody who is subscribed to `name`; those whose time or session is over may still be
    /// among them.
    pub(crate) fn askers_of(&self, name: &Name) -> &[Name] {
        self.askers_of.get(name).map_or(&[], Askers::all)
    }

    /// Who `asker` is, if it is subscribed to `name`.
    pub(crate) fn subscriber(&self, asker: &Name, name: &Name, now_s: u64) -> Option<Subscriber> {
        let known = self.askers.get(asker)?;
        let ends = [&known.known, &known.absent].map(|shelf| shelf.until_s.get(name));
        let is_subscribed = ends.into_iter().flatten().any(|until| *until >= now_s);
        let Asker { payer, max_answer_len, .. } = *known;
        is_subscribed.then_some(Subscriber { name: *asker, payer, max_answer_len })
    }

    /// Whose budget an asker counts on.
    pub(crate) fn payer(&self, asker: &Name) -> Option<Payer> {
        self.askers.get(asker).map(|asker| asker.payer)
    }

    /// Forgets an asker, whose session ended. What it had is left to [`Subscriptions::give_up`].
    pub(crate) fn forget(&mut self, asker: &Name) {
        let gone = self.askers.remove(asker);
        self.leaving.extend(gone.map(|gone| (*asker, gone)));
    }

    /// Gives up some of what those had who have left.
    pub(crate) fn give_up(&mut self, now: Instant) {
        for _ in 0..GIVEN_UP_AT_ONCE {
            let Some((asker, leaving)) = self.leaving.front_mut() else { break };
            let (asker, payer) = (*asker, leaving.payer);
            let Asker { known, absent, .. } = leaving;
            match known.queue.pop().or_else(|| absent.queue.pop()) {
                Some((name, _)) => {
                    unlink(&mut self.askers_of, &name, &asker);
                    self.count_less(payer, 1);
                }
                None if known.until_s.drop_part() || absent.until_s.drop_part() => break,
                None => _ = self.leaving.pop_front(),
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

    fn count_less(&mut self, payer: Payer, gone: usize) {
        self.count -= gone;
        let Payer::Stranger(source) = payer else { return };
        self.strangers -= gone;
        if let Some(own) = self.by_source.get_mut(&source) {
            *own -= gone;
            if *own == 0 {
                self.by_source.remove(&source);
            }
        }
    }

    fn enter(
        &mut self,
        Subscriber { name: asker, payer, max_answer_len }: Subscriber,
        name: Name,
        until_s: u64,
        now_s: u64,
        kind: Kind,
    ) {
        let bound = match kind {
            Kind::Known => self.bounds.known_per_asker,
            Kind::Absent => self.bounds.absent_per_asker,
        };
        // An asker that was judged otherwise before goes on as it began, until its session ends.
        let payer = self.payer(&asker).unwrap_or(payer);
        let full = self.is_full(payer);
        let entered = self.askers.entry(asker).or_insert_with(|| Asker {
            payer,
            max_answer_len,
            known: Shelf::default(),
            absent: Shelf::default(),
        });
        entered.max_answer_len = max_answer_len;
        let shelf = entered.shelf(kind);
        if let Some(end) = shelf.until_s.get_mut(&name) {
            *end = until_s;
            return;
        }
        let mut taken = shelf.take_past(now_s);
        if taken.is_empty() && (full || shelf.until_s.len() >= bound) {
            taken.extend(shelf.take_oldest());
            if taken.is_empty() {
                return;
            }
        }
        shelf.until_s.insert(name, until_s);
        shelf.queue.push((name, until_s));
        self.count += 1;
        if let Payer::Stranger(source) = payer {
            self.strangers += 1;
            *self.by_source.entry(source).or_default() += 1;
        }
        match self.askers_of.get_mut(&name) {
            Some(askers) => askers.push(asker),
            None => self.askers_of.insert(name, Askers::One(asker)),
        }
        for name in &taken {
            unlink(&mut self.askers_of, name, &asker);
        }
        self.count_less(payer, taken.len());
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Known,
    Absent,
}

impl Asker {
    fn shelf(&mut self, kind: Kind) -> &mut Shelf {
        match kind {
            Kind::Known => &mut self.known,
            Kind::Absent => &mut self.absent,
        }
    }
}

impl Shelf {
    /// Takes out the first few whose time is over.
    fn take_past(&mut self, now_s: u64) -> Vec<Name> {
        let mut past = Vec::new();
        for _ in 0..MAX_STEPS {
            match self.queue.first() {
                Some((_, entered)) if *entered < now_s => past.extend(self.take_unrenewed()),
                _ => break,
            }
        }
        past
    }

    /// Takes out the one that was entered or renewed first, or nearly so.
    fn take_oldest(&mut self) -> Option<Name> {
        let taken = (0..MAX_STEPS).find_map(|_| self.take_unrenewed());
        taken.or_else(|| {
            let (name, _) = self.queue.pop()?;
            self.until_s.remove(&name);
            Some(name)
        })
    }

    /// Takes the first out of the queue, for good unless it was renewed.
    fn take_unrenewed(&mut self) -> Option<Name> {
        let (name, entered) = self.queue.pop()?;
        let until_s = *self.until_s.get(&name)?;
        if until_s > entered {
            self.queue.push((name, until_s));
            return None;
        }
        self.until_s.remove(&name);
        Some(name)
    }
}

impl Askers {
    fn all(&self) -> &[Name] {
        match self {
            Self::One(asker) => slice::from_ref(asker),
            Self::Several(askers) => askers,
        }
    }

    fn push(&mut self, asker: Name) {
        match self {
            Self::One(first) => *self = Self::Several(vec![*first, asker]),
            Self::Several(askers) => askers.push(asker),
        }
    }

    /// Takes one out. Whether none is left.
    fn remove(&mut self, asker: &Name) -> bool {
        match self {
            Self::One(only) => only == asker,
            Self::Several(askers) => {
                // An asker is there once for each shelf that has the name.
                if let Some(at) = askers.iter().position(|other| other == asker) {
                    askers.swap_remove(at);
                }
                askers.is_empty()
            }
        }
    }
}

fn unlink(askers_of: &mut Spread<Name, Askers>, name: &Name, asker: &Name) {
    if askers_of.get_mut(name).is_some_and(|askers| askers.remove(asker)) {
        askers_of.remove(name);
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
/// Each is looked for in two maps.
const GIVEN_UP_AT_ONCE: usize = 512;
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
        assert!(subscriptions.askers_of(&name(0)).contains(&OTHER));
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
        assert_eq!(subscriptions.askers_of(&name(0)), [OTHER]);
        subscriptions.forget(&OTHER);
        give_up(&mut subscriptions);
        assert_eq!(subscriptions.askers_of.len(), 0);
        assert!(subscriptions.askers.is_empty());
    }

    #[test]
    fn who_leaves_with_many_is_given_up_little_by_little_and_may_come_back_meanwhile() {
        #[expect(clippy::disallowed_methods, reason = "any instant is as good")]
        let now = Instant::now();
        let many = 10 * GIVEN_UP_AT_ONCE;
        let bounds = Bounds { known_per_asker: many, absent_per_asker: 4, total: 2 * many };
        let mut subscriptions = Subscriptions::new(bounds);
        let numbered = |number: usize| {
            let mut name = name(0);
            name.0[..8].copy_from_slice(&number.to_be_bytes());
            name
        };
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
        let left: HashSet<&Name> = subscriptions.askers_of(&numbered(many - 1)).iter().collect();
        assert_eq!(left, HashSet::from([&ONE, &OTHER]));
        assert_eq!(subscriptions.askers_of.len(), 1);
    }
}
