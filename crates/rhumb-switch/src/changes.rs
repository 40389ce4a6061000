//! What changed, and when: by which a flow knows that it still
//! stands, without asking what it was made from.
//!
//! 1. Whoever changes something that flows may rest on makes the change
//!    first, and notes it after: [`Changes::note`].
//! 2. Changes are numbered. A switch, or a worker, reads the number of the latest
//!    once per batch, and before it makes a flow.
//! 3. A flow keeps that number and its [`Grounds`], which say where a change of
//!    anything it rests on is noted. While nothing has changed at all, the two
//!    numbers are equal, and to compare them is all.
//! 4. When something has changed, the flow looks where its own changes are noted. If
//!    none is later than the number it has, it stands, and takes the new number.
//!    Otherwise it is looked into again, by the slow path.
//!
//! What a flow rests on are names: its destination, the issuers of both chains, and the
//! peer that it goes to. A name is noted in one of many buckets, by a keyed hash, so
//! that strangers cannot aim, and in one of the parts of that bucket. A flow looks at its
//! buckets, which are few enough to stay in the processor's cache, and at its part of one
//! only where the bucket has changed. Whoever shares a part by chance is looked into once
//! more than it needs, and comes out as it was.
//!
//! INVARIANT: whoever sees the number of a change finds
//! this change, and all before, in the buckets and their parts.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use foldhash::quality::RandomState;
use rhumb_wire::Name;

use crate::clock::Moment;

/// When which names last changed, for all switches and workers of a process.
pub(crate) struct Changes {
    latest: AtomicU64,
    /// The number of the latest change of the names in each. As many as a number of one can say,
    /// so that each that is asked for is there.
    buckets: Box<[AtomicU64; BUCKETS]>,
    /// The same of the parts of each, from its first change on.
    parts: Box<[OnceLock<Box<Parted>>]>,
    hasher: RandomState,
    /// Held by whoever notes: a number is shown only when all up to it are in their buckets.
    noting: Mutex<()>,
}

type Parted = [AtomicU64; PARTS];

/// Where a change of a name is noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bucket {
    number: u16,
    part: u8,
}

/// Where a change of anything that a flow rests on is noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grounds {
    buckets: Buckets,
    parts: Parts,
}

/// What of a flow's grounds it looks at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Buckets([u16; MAX_GROUNDS]);

/// Of each bucket, the part, in as few bits as that takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts(u32);

/// The changes as they are seen for one batch.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) changes: &'a Changes,
    /// The number of the latest.
    pub(crate) latest: u64,
    /// The time of the batch.
    pub(crate) at: Moment,
}

impl Changes {
    pub(crate) fn new() -> Self {
        let buckets: Box<[AtomicU64]> = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Self {
            latest: AtomicU64::new(0),
            buckets: buckets.try_into().expect("invariant: as many as there are"),
            parts: (0..BUCKETS).map(|_| OnceLock::new()).collect(),
            hasher: RandomState::default(),
            noting: Mutex::new(()),
        }
    }

    /// The number of the latest change. To be read before what a flow is made from.
    #[inline]
    pub(crate) fn latest(&self) -> u64 {
        self.latest.load(Ordering::Acquire)
    }

    /// Where changes of a name are noted.
    pub(crate) fn of(&self, name: &Name) -> Bucket {
        let among = BUCKETS as u64 - u64::from(FIRST_OF_NAMES);
        let hash = self.hasher.hash_one(name);
        Bucket {
            number: FIRST_OF_NAMES + (hash % among) as u16,
            part: (hash / among % PARTS as u64) as u8,
        }
    }

    /// Something about a name has changed, and is in force. Returns the change's number.
    pub(crate) fn note(&self, name: &Name) -> u64 {
        self.note_in(self.of(name))
    }

    /// Something has changed on which every flow may rest. Returns the change's number.
    pub(crate) fn note_all(&self) -> u64 {
        self.note_in(Bucket::ALL)
    }

    fn note_in(&self, bucket: Bucket) -> u64 {
        // Whoever panicked here left at worst a bucket that
        // is ahead of the number, which costs a look.
        let noting = self.noting.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.latest.load(Ordering::Relaxed) + 1;
        let parts = self.parts[usize::from(bucket.number)].get_or_init(Box::default);
        parts[usize::from(bucket.part)].store(number, Ordering::Relaxed);
        for bucket in [bucket, Bucket::ANY] {
            self.buckets[usize::from(bucket.number)].store(number, Ordering::Relaxed);
        }
        self.latest.store(number, Ordering::Release);
        drop(noting);
        number
    }

    /// Whether nothing on these grounds has changed since the change of this number.
    #[inline]
    pub(crate) fn are_older(&self, grounds: &Grounds, number: u64) -> bool {
        self.buckets_are_older(&grounds.buckets, number) || self.parts_are_older(grounds, number)
    }

    /// Whether nothing in all of these buckets has changed since.
    #[inline]
    fn buckets_are_older(&self, buckets: &Buckets, number: u64) -> bool {
        // All are looked at, for none to be waited for before the next.
        buckets.0.iter().fold(self.latest_in(Bucket::ALL.number) <= number, |are_older, bucket| {
            are_older & (self.latest_in(*bucket) <= number)
        })
    }

    #[cold]
    fn parts_are_older(&self, grounds: &Grounds, number: u64) -> bool {
        let is_older = |bucket: Bucket| {
            self.latest_in(bucket.number) <= number
                || bucket.number >= FIRST_OF_NAMES && self.latest_in_part(bucket) <= number
        };
        is_older(Bucket::ALL) && grounds.all().all(is_older)
    }

    #[inline]
    fn latest_in(&self, bucket: u16) -> u64 {
        self.buckets[usize::from(bucket)].load(Ordering::Relaxed)
    }

    fn latest_in_part(&self, bucket: Bucket) -> u64 {
        let parts = self.parts[usize::from(bucket.number)].get();
        parts.map_or(0, |parts| parts[usize::from(bucket.part)].load(Ordering::Relaxed))
    }
}

impl Seen<'_> {
    /// Whether a flow on these grounds stands that is as of this number, which is then the latest.
    #[inline]
    pub(crate) fn stands(&self, grounds: &Grounds, as_of: &mut u64) -> bool {
        *as_of == self.latest || self.find_out(grounds, as_of)
    }

    /// Notes that a flow on these grounds is as of the latest change, if nothing in their buckets
    /// has changed since. For many flows in a row, so that buckets are waited for together.
    #[inline]
    pub(crate) fn confirm(&self, grounds: &Grounds, as_of: &mut u64) {
        if *as_of != self.latest {
            let are_older = self.changes.buckets_are_older(&grounds.buckets, *as_of);
            *as_of = if are_older { self.latest } else { *as_of };
        }
    }

    #[cold]
    fn find_out(&self, grounds: &Grounds, as_of: &mut u64) -> bool {
        let stands = self.changes.are_older(grounds, *as_of);
        if stands {
            *as_of = self.latest;
        }
        stands
    }
}

impl Bucket {
    /// In which changes are noted that concern every flow.
    const ALL: Self = Self { number: 0, part: 0 };
    /// In which every change is noted.
    const ANY: Self = Self { number: 1, part: 0 };
}

impl Buckets {
    const NONE: Self = Self([Bucket::ALL.number; MAX_GROUNDS]);
}

impl Parts {
    const NONE: Self = Self(0);

    fn get(self, at: usize) -> u8 {
        (self.0 >> (at as u32 * PART_BITS)) as u8 % PARTS as u8
    }

    fn set(&mut self, at: usize, part: u8) {
        let shift = at as u32 * PART_BITS;
        self.0 = self.0 & !((PARTS as u32 - 1) << shift) | u32::from(part) << shift;
    }
}

impl Grounds {
    /// Nothing but what every flow rests on.
    pub(crate) const NONE: Self = Self { buckets: Buckets::NONE, parts: Parts::NONE };

    /// One name.
    pub(crate) fn on(bucket: Bucket) -> Self {
        let mut grounds = Self::NONE;
        grounds.add(bucket);
        grounds
    }

    /// All that others rest on, too.
    pub(crate) fn merge(&mut self, others: Self) {
        others.all().filter(|bucket| *bucket != Bucket::ALL).for_each(|bucket| self.add(bucket));
    }

    /// One more name to rest on. Where they become too many, any change is one of these grounds.
    pub(crate) fn add(&mut self, bucket: Bucket) {
        if self.all().any(|it| it == bucket) {
            return;
        }
        let free = self.buckets.0.iter().position(|it| *it == Bucket::ALL.number);
        let (at, bucket) = match free {
            Some(free) => (free, bucket),
            None => (MAX_GROUNDS - 1, Bucket::ANY),
        };
        self.buckets.0[at] = bucket.number;
        self.parts.set(at, bucket.part);
    }

    /// Each bucket, and its part.
    fn all(&self) -> impl Iterator<Item = Bucket> {
        let (numbers, parts) = (self.buckets.0.into_iter(), self.parts);
        numbers.enumerate().map(move |(at, number)| Bucket { number, part: parts.get(at) })
    }
}

const FIRST_OF_NAMES: u16 = 2;
/// Half a megabyte, which a second-level cache has room for, and one for where their parts are.
const BUCKETS: usize = 1 << u16::BITS;
/// Of a bucket: 256 bytes, 17 megabytes if there was a change in every one. Of ten thousand
/// changes, each of another name, a flow on five grounds meets one in 40 that is not its own.
const PARTS: usize = 1 << PART_BITS;
const PART_BITS: u32 = 5;
/// Source, destination, and two routers on each side.
const MAX_GROUNDS: usize = 6;
const _: () = assert!(MAX_GROUNDS as u32 * PART_BITS <= u32::BITS);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn name(number: u32) -> Name {
        let mut name = [0; 32];
        name[..4].copy_from_slice(&number.to_be_bytes());
        Name(name)
    }

    fn on(changes: &Changes, names: impl IntoIterator<Item = u32>) -> Grounds {
        let mut grounds = Grounds::NONE;
        names.into_iter().for_each(|number| grounds.add(changes.of(&name(number))));
        grounds
    }

    #[test]
    fn a_change_concerns_who_rests_on_its_name_and_hardly_anybody_else() {
        let changes = Changes::new();
        let grounds = on(&changes, [1, 2, 3]);
        for changed in [1, 2, 3] {
            let before = changes.latest();
            assert!(changes.are_older(&grounds, before));
            let number = changes.note(&name(changed));
            assert!(!changes.are_older(&grounds, before) && changes.are_older(&grounds, number));
        }
        let (before, mut hit) = (changes.latest(), 0);
        for stranger in 100..1100 {
            changes.note(&name(stranger));
            hit += usize::from(!changes.are_older(&grounds, before));
        }
        let first = hit.checked_sub(1).map_or(1000, |_| 1000 - hit);
        assert!(first > 0, "three buckets of 65,533 are not hit at once: {hit}");
    }

    #[test]
    fn who_shares_a_bucket_is_concerned_only_if_he_shares_the_part() {
        let changes = Changes::new();
        let same = |is_same: fn(Bucket, Bucket) -> bool| {
            let mut known: Vec<Bucket> = Vec::new();
            (0..).find_map(|number| {
                let bucket = changes.of(&name(number));
                let at = known.iter().position(|it| is_same(*it, bucket));
                known.push(bucket);
                at.map(|at| [at as u32, number])
            })
        };
        let apart = same(|a, b| a.number == b.number && a.part != b.part).unwrap();
        let together = same(|a, b| a == b).unwrap();
        for ([one, other], is_concerned) in [(apart, false), (together, true)] {
            let (grounds, before) = (on(&changes, [other, 1_000_000]), changes.latest());
            for _ in 0..3 {
                let number = changes.note(&name(one));
                assert_eq!(changes.are_older(&grounds, before), !is_concerned);
                assert!(changes.are_older(&grounds, number));
            }
            changes.note(&name(other));
            assert!(!changes.are_older(&grounds, before));
        }
    }

    #[test]
    fn what_concerns_all_concerns_whoever_rests_on_nothing() {
        let changes = Changes::new();
        assert!(changes.are_older(&Grounds::NONE, 0));
        changes.note(&name(1));
        assert!(changes.are_older(&Grounds::NONE, 0));
        let number = changes.note_all();
        assert!(!changes.are_older(&Grounds::NONE, number - 1));
        assert!(changes.are_older(&Grounds::NONE, number));
    }

    #[test]
    fn too_many_grounds_are_any_change() {
        let changes = Changes::new();
        // A name counts once.
        let mut few = on(&changes, 0..MAX_GROUNDS as u32);
        (0..MAX_GROUNDS as u32).for_each(|number| few.add(changes.of(&name(number))));
        let many = on(&changes, 0..=MAX_GROUNDS as u32);
        let is_among = |it: Bucket| few.all().any(|one| one == it);
        let others = (100..).map(name).filter(|it| !is_among(changes.of(it)));
        for other in others.take(100) {
            let before = changes.latest();
            changes.note(&other);
            assert!(changes.are_older(&few, before) && !changes.are_older(&many, before));
        }
        for number in 0..=MAX_GROUNDS as u32 {
            let before = changes.latest();
            changes.note(&name(number));
            assert!(!changes.are_older(&many, before), "{number}");
        }
    }

    #[test]
    fn who_is_confirmed_stands_and_who_is_not_stays_as_he_was() {
        let changes = Changes::new();
        let grounds = on(&changes, [1, 2]);
        let seen = |latest| Seen { changes: &changes, latest, at: Moment::START };
        let confirmed = |mut as_of, latest| {
            seen(latest).confirm(&grounds, &mut as_of);
            as_of
        };
        let of_another = changes.note(&name(3));
        assert_eq!(confirmed(0, of_another), of_another);
        let of_its_own = changes.note(&name(2));
        assert_eq!(confirmed(0, of_its_own), 0);
        assert_eq!(confirmed(of_another, of_its_own), of_another);
        assert!(!seen(of_its_own).stands(&grounds, &mut { of_another }));
        assert_eq!(confirmed(of_its_own, changes.note(&name(4))), of_its_own + 1);
        let of_all = changes.note_all();
        assert_eq!(confirmed(of_its_own, of_all), of_its_own);
    }

    #[test]
    fn no_number_is_seen_before_its_change() {
        let (changes, is_done) = (Changes::new(), AtomicBool::new(false));
        let of_each = [7, 8].map(|number| on(&changes, [number]));
        std::thread::scope(|scope| {
            for number in [7, 8] {
                let (changes, is_done) = (&changes, &is_done);
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        let noted = changes.note(&name(number));
                        assert!(changes.latest() >= noted);
                    }
                    is_done.store(true, Ordering::SeqCst);
                });
            }
            while !is_done.load(Ordering::SeqCst) {
                let latest = changes.latest();
                // The latest was of one of the two, so one of them is as of it at least.
                let is_seen =
                    of_each.iter().any(|it| latest == 0 || !changes.are_older(it, latest - 1));
                assert!(is_seen, "nothing of {latest} is there");
            }
        });
        assert_eq!(changes.latest(), 40_000);
    }
}
