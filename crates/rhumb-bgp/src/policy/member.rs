//! Who is a member of the exchange: indices and sets of them.
//!
//! Invariant: a set has no member beyond the roster it was made for.

use std::collections::HashMap;

/// A member's port at the exchange, by its place in the roster. A
/// network with two ports is two members with one AS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(pub u16);

/// All members, in the order that gives them their indices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roster {
    asns: Vec<u32>,
    by_asn: HashMap<u32, Vec<Member>>,
}

impl Roster {
    /// Most members: as many as there are indices.
    pub const MOST: usize = 1 << 16;

    /// A roster of members with these ASes, or `None` if they are more than [`Self::MOST`].
    pub fn new(asns: Vec<u32>) -> Option<Self> {
        if asns.len() > Self::MOST {
            return None;
        }
        let mut by_asn: HashMap<u32, Vec<Member>> = HashMap::new();
        for (member, asn) in (0..=u16::MAX).map(Member).zip(&asns) {
            by_asn.entry(*asn).or_default().push(member);
        }
        Some(Self { asns, by_asn })
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.asns.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.asns.is_empty()
    }

    /// A member's AS.
    pub fn asn(&self, member: Member) -> Option<u32> {
        self.asns.get(usize::from(member.0)).copied()
    }

    /// All members with their ASes, by index.
    pub fn iter(&self) -> impl Iterator<Item = (Member, u32)> {
        (0..=u16::MAX).map(Member).zip(self.asns.iter().copied())
    }

    /// All ports of a network.
    pub fn of_asn(&self, asn: u32) -> &[Member] {
        self.by_asn.get(&asn).map_or(&[], Vec::as_slice)
    }

    /// Everybody.
    pub fn all(&self) -> MemberSet {
        self.set((0..=u16::MAX).map(Member).take(self.len()))
    }

    /// Nobody, with room for everybody.
    pub fn none(&self) -> MemberSet {
        MemberSet { words: vec![0; self.len().div_ceil(64)].into(), members: self.len() }
    }

    /// These.
    pub fn set(&self, members: impl IntoIterator<Item = Member>) -> MemberSet {
        let mut set = self.none();
        for member in members {
            set.insert(member);
        }
        set
    }
}

/// Members, one bit each: member 0 is the lowest bit of the first word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSet {
    words: Box<[u64]>,
    /// How many there could be.
    members: usize,
}

impl MemberSet {
    /// Adds a member; without effect where it is not of the roster.
    pub fn insert(&mut self, member: Member) {
        if usize::from(member.0) < self.members {
            self.words[usize::from(member.0) / 64] |= 1 << (member.0 % 64);
        }
    }

    /// Takes a member out.
    pub fn remove(&mut self, member: Member) {
        if let Some(word) = self.words.get_mut(usize::from(member.0) / 64) {
            *word &= !(1 << (member.0 % 64));
        }
    }

    /// Whether a member is in it.
    pub fn contains(&self, member: Member) -> bool {
        let word = self.words.get(usize::from(member.0) / 64);
        word.is_some_and(|word| word >> (member.0 % 64) & 1 == 1)
    }

    /// How many are in it.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether nobody is in it.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Its members, by index.
    pub fn iter(&self) -> impl Iterator<Item = Member> {
        (0..=u16::MAX).map(Member).take(self.members).filter(|member| self.contains(*member))
    }

    /// The bits, 64 members a word; bits beyond the roster are zero.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Keeps those that are in `other`, too.
    pub fn intersect(&mut self, other: &Self) {
        for (at, word) in self.words.iter_mut().enumerate() {
            *word &= other.words.get(at).copied().unwrap_or(0);
        }
    }

    /// Adds those of `other`.
    pub fn unite(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
        self.clear_beyond();
    }

    fn clear_beyond(&mut self) {
        if let (Some(last), used @ 1..) = (self.words.last_mut(), self.members % 64) {
            *last &= (1 << used) - 1;
        }
    }

    /// Takes those of `other` out.
    pub fn subtract(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= !other;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster(members: u32) -> Roster {
        Roster::new((0..members).map(|n| 64500 + n / 2).collect()).unwrap()
    }

    #[test]
    fn a_set_holds_what_was_put_in_and_nobody_beyond_the_roster() {
        let roster = roster(130);
        let mut set = roster.set(roster.of_asn(64564).iter().copied());
        assert_eq!(set.iter().collect::<Vec<_>>(), [Member(128), Member(129)]);
        set.insert(Member(130));
        set.insert(Member(u16::MAX));
        assert_eq!((set.len(), set.words().len(), set.words()[2]), (2, 3, 3));
        assert!(!set.contains(Member(130)) && !set.contains(Member(u16::MAX)));
        set.insert(Member(0));
        set.remove(Member(129));
        set.remove(Member(4000));
        assert_eq!(set.iter().collect::<Vec<_>>(), [Member(0), Member(128)]);
        let mut all = roster.all();
        assert_eq!(all.len(), 130);
        all.subtract(&set);
        assert_eq!(all.len(), 128);
        all.intersect(&roster.set([Member(0), Member(1)]));
        assert!(roster.of_asn(1).is_empty());
        assert_eq!(all.iter().collect::<Vec<_>>(), [Member(1)]);
        all.unite(&set);
        assert_eq!(all.len(), 3);
        assert!(roster.none().is_empty() && !all.is_empty());
    }

    #[test]
    fn a_roster_is_no_longer_than_there_are_indices() {
        let full = Roster::new(vec![1; Roster::MOST]).unwrap();
        assert_eq!((full.asn(Member(7)), full.of_asn(1).len()), (Some(1), Roster::MOST));
        assert_eq!(full.all().len(), Roster::MOST);
        assert_eq!(full.iter().last().map(|(member, _)| member), Some(Member(u16::MAX)));
        assert!(Roster::new(vec![1; Roster::MOST + 1]).is_none());
    }
}
