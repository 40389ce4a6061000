//! Where the flow of some names is: a hash table whose look-ups can be begun before they are made.
//!
//! A bucket is one line of the processor's cache, and says of up to seven flows their hash and
//! their place. So whoever looks many up asks for all their buckets first, and has waited for most
//! of them when it needs one: [`Index::read_ahead`], then [`Index::find`].
//!
//! What finds its bucket full goes to the next one that is not, and each bucket counts what went
//! past it, so a look-up ends where nothing did. A hash is of a key of ours: strangers cannot aim
//! at a bucket.
//!
//! INVARIANT: a bucket that something went past is full, and not all buckets are.

use std::hint::select_unpredictable;

use rhumb_link::read_ahead;

#[derive(Debug)]
pub(crate) struct Index {
    buckets: Vec<Bucket>,
    used: usize,
}

#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Bucket {
    /// As [`kept`], which is odd; 0 where there is none. The last is twice the number of those that
    /// went past, so that it is no hash.
    hashes: [u32; PLACES + 1],
    places: [u32; PLACES],
}

impl Index {
    /// Where it has just grown.
    #[cfg(test)]
    pub(crate) const MAX_BYTES_A_PLACE: usize =
        (size_of::<Bucket>() * FULL.1 * GROWS.0).div_ceil(PLACES * FULL.0 * GROWS.1);

    pub(crate) fn new() -> Self {
        Self { buckets: vec![Bucket::EMPTY; 1], used: 0 }
    }

    /// Asks for the memory that a look-up needs.
    #[inline]
    pub(crate) fn read_ahead(&self, hash: u32) {
        if let Some(bucket) = self.buckets.get(self.home(kept(hash))) {
            read_ahead(bucket);
        }
    }

    /// The place of this hash of which `is_it` says so.
    #[inline(always)] // A call takes 15 instructions.
    pub(crate) fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let hash = kept(hash);
        let bucket = self.buckets.get(self.home(hash))?;
        match bucket.last(hash) {
            Some(place) if is_it(place) => Some(place),
            None if !bucket.is_passed() => None,
            _ => self.find_among_all(hash, is_it),
        }
    }

    #[cold]
    fn find_among_all(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let home = self.home(hash);
        for number in (home..self.buckets.len()).chain(0..home) {
            let bucket = &self.buckets[number];
            let mut alike = bucket.all().filter(|(it, _)| *it == hash).map(|(_, place)| place);
            let found = alike.find(|place| is_it(*place));
            if found.is_some() || !bucket.is_passed() {
                return found;
            }
        }
        None
    }

    /// Enters a place, which is not here yet.
    pub(crate) fn insert(&mut self, hash: u32, place: u32) {
        if self.is_full() {
            self.grow();
        }
        self.used += 1;
        self.put(kept(hash), place);
    }

    fn is_full(&self) -> bool {
        (self.used + 1) * FULL.1 > self.buckets.len() * PLACES * FULL.0
    }

    /// Takes a place out, if it is here. Whoever went past is brought back, so that a table whose
    /// places come and go is as one that was just filled.
    pub(crate) fn remove(&mut self, hash: u32, place: u32) {
        let hash = kept(hash);
        if self.find(hash, |it| it == place).is_none() {
            return;
        }
        self.used -= 1;
        let mut free = self.home(hash);
        while !self.buckets[free].take(hash, place) {
            self.buckets[free].hashes[PASSED] -= 2;
            free = self.behind(free);
        }
        while self.buckets[free].is_passed() {
            free = self.bring_back_to(free);
        }
    }

    /// Moves one of those that went past a bucket, which has room, into it. Where there is room
    /// then.
    fn bring_back_to(&mut self, free: usize) -> usize {
        let mut number = free;
        loop {
            self.buckets[number].hashes[PASSED] -= 2;
            number = self.behind(number);
            let mut all = self.buckets[number].all();
            let past = self.steps(free, number);
            let of_before = all.find(|(hash, _)| self.steps(self.home(*hash), number) >= past);
            if let Some((hash, place)) = of_before {
                self.buckets[number].take(hash, place);
                self.buckets[free].put(hash, place);
                return number;
            }
        }
    }

    fn put(&mut self, hash: u32, place: u32) {
        let mut number = self.home(hash);
        while !self.buckets[number].put(hash, place) {
            self.buckets[number].hashes[PASSED] += 2;
            number = self.behind(number);
        }
    }

    #[cold]
    fn grow(&mut self) {
        let len = (self.buckets.len() * GROWS.0).div_ceil(GROWS.1);
        let before = std::mem::replace(&mut self.buckets, vec![Bucket::EMPTY; len]);
        for (hash, place) in before.iter().flat_map(Bucket::all) {
            self.put(hash, place);
        }
    }

    /// The bucket in which what is kept of a hash is to be.
    #[inline]
    fn home(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.buckets.len() as u64) >> 32) as usize
    }

    fn behind(&self, number: usize) -> usize {
        (number + 1) % self.buckets.len()
    }

    /// How many buckets one is behind another.
    fn steps(&self, from: usize, to: usize) -> usize {
        (to + self.buckets.len() - from) % self.buckets.len()
    }
}

impl Bucket {
    const EMPTY: Self = Self { hashes: [0; PLACES + 1], places: [0; PLACES] };

    /// The last place with this hash. All are compared, since to guess where it is takes longer.
    #[inline]
    fn last(&self, hash: u32) -> Option<u32> {
        let all = self.hashes.iter().zip(&self.places);
        let last =
            all.fold(NOWHERE, |last, (it, place)| select_unpredictable(*it == hash, *place, last));
        (last != NOWHERE).then_some(last)
    }

    #[inline]
    fn is_passed(&self) -> bool {
        self.hashes[PASSED] != 0
    }

    /// Whether there was room.
    fn put(&mut self, hash: u32, place: u32) -> bool {
        let free = self.hashes[..PLACES].iter().position(|it| *it == 0);
        if let Some(at) = free {
            (self.hashes[at], self.places[at]) = (hash, place);
        }
        free.is_some()
    }

    /// Whether it was here.
    fn take(&mut self, hash: u32, place: u32) -> bool {
        let at = (0..PLACES).find(|at| (self.hashes[*at], self.places[*at]) == (hash, place));
        if let Some(at) = at {
            self.hashes[at] = 0;
        }
        at.is_some()
    }

    fn all(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        self.hashes.into_iter().zip(self.places).filter(|(hash, _)| *hash != 0)
    }
}

/// What is kept of a hash.
#[inline]
fn kept(hash: u32) -> u32 {
    hash | 1
}

/// No place.
const NOWHERE: u32 = u32::MAX;
const PLACES: usize = 7;
/// Where in its hashes a bucket counts.
const PASSED: usize = PLACES;
/// The part of all places that is used at most: one in 13 is not in its own bucket then.
const FULL: (usize, usize) = (3, 4);
const GROWS: (usize, usize) = (3, 2);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Numbers that look drawn.
    fn drawn(number: u32) -> u32 {
        number.wrapping_mul(0x9e37_79b9).rotate_left(15).wrapping_mul(0x85eb_ca6b)
    }

    /// An index does what a list of pairs does, whatever the hashes are.
    fn check(hash_of: impl Fn(u32) -> u32, places: u32, turns: u32) {
        let mut index = Index::new();
        let mut known: HashMap<u32, u32> = HashMap::new();
        for turn in 0..turns {
            let place = drawn(turn) % places;
            if known.remove(&place).is_some() {
                index.remove(hash_of(place), place);
            } else {
                known.insert(place, hash_of(place));
                index.insert(hash_of(place), place);
            }
            assert_eq!(index.used, known.len());
            let is_full = |bucket: &Bucket| bucket.all().count() == PLACES;
            assert!(index.buckets.iter().all(|it| !it.is_passed() || is_full(it)), "at {turn}");
            assert!(!index.buckets.iter().all(is_full));
            if turn % 1000 == 0 || turn + 1 == turns {
                for place in 0..places {
                    let found = index.find(hash_of(place), |it| it == place);
                    assert_eq!(found.is_some(), known.contains_key(&place), "{place} at {turn}");
                }
            }
        }
        for (place, hash) in known {
            index.remove(hash, place);
        }
        assert!(index.buckets.iter().all(|bucket| bucket.hashes == [0; PLACES + 1]));
    }

    #[test]
    fn what_was_entered_is_found_and_what_was_taken_out_is_not() {
        check(drawn, 5000, 40_000);
    }

    #[test]
    fn also_where_many_have_one_hash_and_go_around_the_end() {
        for hash in [0, u32::MAX] {
            check(|_| hash, 60, 3000);
        }
        check(|place| u32::MAX - place % 3, 60, 3000);
    }

    #[test]
    fn most_are_where_they_belong_when_it_is_fullest_and_however_many_came_and_went() {
        let mut index = Index::new();
        let mut all = 0..0;
        while index.buckets.len() < 1000 || !index.is_full() {
            index.insert(drawn(all.end), all.end);
            all.end += 1;
        }
        for turn in 0..=3 {
            let is_home = |place: &u32| {
                let hash = kept(drawn(*place));
                index.buckets[index.home(hash)].last(hash).is_some()
            };
            let home = all.clone().filter(is_home).count();
            assert!(home * 100 > all.len() * 91, "{home} of {}, turn {turn}", all.len());
            // The oldest goes, and another one comes.
            for _ in 0..all.len() {
                index.remove(drawn(all.start), all.start);
                index.insert(drawn(all.end), all.end);
                all = all.start + 1..all.end + 1;
            }
        }
    }

    #[test]
    fn a_bucket_is_one_cache_line_and_few_bytes_a_place() {
        assert_eq!(size_of::<Bucket>(), 64);
        assert_eq!(Index::MAX_BYTES_A_PLACE, 19);
    }
}
