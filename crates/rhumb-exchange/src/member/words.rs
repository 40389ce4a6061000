//! What a member says to a shard of both parties, in order, and what of it is
//! said again to a party that has not heard it.
//!
//! Invariant: the words that are kept say the same as all that were said: a later word on a
//! destination takes the place of the earlier.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rhumb_mpc::Party;
use zeroize::{Zeroize, Zeroizing};

use crate::coins::Coins;
use crate::message::Mark;
use crate::message::member::{FromMember, Half};
use crate::roster::{Lane, LaneSet};
use crate::route::{self, Destination, Route, RouteId};

/// A member's words for one shard.
pub(super) struct Words {
    incarnation: u64,
    /// The number of the last word.
    last: u64,
    kept: BTreeMap<u64, Word>,
    by_destination: HashMap<Destination, u64>,
    announced: usize,
    /// Numbers of routes that a server refused.
    refused: BTreeSet<u64>,
    end: Option<u64>,
}

enum Word {
    Announce(Own),
    Withdraw(Destination),
    End,
}

/// A route of this member.
struct Own {
    id: RouteId,
    nonce: [u8; 16],
    destination: Destination,
    key: [u8; 16],
    seed: [u8; 16],
    policy: LaneSet,
    /// Of the roster that the policy is of.
    lanes: u16,
    sealed: Box<[u8]>,
}

impl Drop for Own {
    fn drop(&mut self) {
        self.key.zeroize();
        self.seed.zeroize();
    }
}

impl Words {
    pub(super) fn new(incarnation: u64) -> Self {
        Self {
            incarnation,
            last: 0,
            kept: BTreeMap::new(),
            by_destination: HashMap::new(),
            announced: 0,
            refused: BTreeSet::new(),
            end: None,
        }
    }

    pub(super) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub(super) fn announced(&self) -> usize {
        self.announced
    }

    /// Of sixty-four random bytes, sixteen each are nonce,
    /// key and seed. The policy is of so many lanes.
    pub(super) fn announce(
        &mut self,
        lane: Lane,
        destination: &Destination,
        (policy, lanes): (LaneSet, u16),
        route: &Route,
        coins: &mut Coins,
    ) -> RouteId {
        let random = coins.draw();
        let [nonce, key, seed, _] = random.as_chunks().0 else {
            unreachable!("invariant: 64 bytes are four times 16")
        };
        let (nonce, key, seed) = (*nonce, Zeroizing::new(*key), *seed);
        let sealed: Box<[u8]> = route::seal(&nonce, &key, lane, destination, route).into();
        let id = RouteId::new(lane, destination, &nonce, &route::sealed_digest(&sealed));
        let (destination, key) = (destination.clone(), *key);
        self.forget(&destination);
        let own =
            Own { id, nonce, destination: destination.clone(), key, seed, policy, lanes, sealed };
        self.announced += 1;
        self.say(Word::Announce(own), Some(destination));
        id
    }

    pub(super) fn withdraw(&mut self, destination: &Destination) -> bool {
        let number = self.by_destination.get(destination);
        let word = number.and_then(|number| self.kept.get(number));
        if !matches!(word, Some(Word::Announce(_))) {
            return false;
        }
        self.forget(destination);
        self.say(Word::Withdraw(destination.clone()), Some(destination.clone()));
        true
    }

    /// A server has refused a route that is beyond this member's quota.
    pub(super) fn refused(&mut self, mark: Mark) {
        let word = self.kept.get(&mark.number);
        if mark.incarnation == self.incarnation && matches!(word, Some(Word::Announce(_))) {
            self.refused.insert(mark.number);
        }
    }

    pub(super) fn refused_count(&self) -> usize {
        self.refused.len()
    }

    pub(super) fn is_refused(&self, destination: &Destination) -> bool {
        self.by_destination.get(destination).is_some_and(|number| self.refused.contains(number))
    }

    /// A server that has heard no more than this judges the others once more.
    pub(super) fn refused_up_to(&mut self, number: u64) {
        self.refused.retain(|refused| *refused <= number);
    }

    /// There may be room for one that was refused. Under another id: a server
    /// may still hold it, and be about to forget it.
    pub(super) fn say_refused_again(&mut self, lane: Lane, coins: &mut Coins) {
        let Some(Word::Announce(own)) =
            self.refused.first().and_then(|number| self.kept.get(number))
        else {
            return;
        };
        let (destination, policy) = (own.destination.clone(), (own.policy.clone(), own.lanes));
        if let Some(opened) = route::open(own.id, &own.key, &own.sealed) {
            self.announce(lane, &destination, policy, &opened.route, coins);
        }
    }

    pub(super) fn end(&mut self) {
        if let Some(number) = self.end {
            self.kept.remove(&number);
        }
        self.say(Word::End, None);
        self.end = Some(self.last);
    }

    /// Whether most of what is kept are withdrawals, and they are many.
    pub(super) fn is_crowded(&self) -> bool {
        let others = self.kept.len() - self.announced;
        others > MAX_WITHDRAWALS && others > 2 * self.announced
    }

    /// Begins anew, as another process would: what is not announced needs no word then.
    pub(super) fn renew(&mut self, lane: Lane, coins: &mut Coins) {
        let former = std::mem::replace(self, Self::new(self.incarnation + 1));
        for word in former.kept.values() {
            if let Word::Announce(own) = word
                && let Some(opened) = route::open(own.id, &own.key, &own.sealed)
            {
                let policy = (own.policy.clone(), own.lanes);
                self.announce(lane, &own.destination, policy, &opened.route, coins);
            }
        }
        if former.end.is_some() {
            self.end();
        }
    }

    /// The first word after one that a party has, with its number.
    pub(super) fn next(&self, after: u64, party: Party, shard: u16) -> Option<(u64, Vec<u8>)> {
        let (number, word) = self.kept.range(after + 1..).next()?;
        let mark = Mark { incarnation: self.incarnation, number: *number };
        let message = match word {
            Word::Withdraw(destination) => {
                FromMember::Withdraw { mark, destination: destination.as_bytes() }.emit(shard)
            }
            Word::End => FromMember::End { mark }.emit(shard),
            Word::Announce(own) => {
                let half = match party {
                    Party::One => {
                        Half::One { seed: own.seed, lanes: own.lanes, sealed: &own.sealed }
                    }
                    Party::Two => {
                        let (mut policy, mut keys) =
                            route::split(&own.policy, own.lanes, &own.key, &own.seed);
                        let (policy, keys) =
                            (std::mem::take(&mut *policy), std::mem::take(&mut *keys));
                        Half::Two { sealed: route::sealed_digest(&own.sealed), policy, keys }
                    }
                };
                let destination = own.destination.as_bytes();
                FromMember::Announce { mark, nonce: own.nonce, destination, half }.emit(shard)
            }
        };
        Some((*number, message))
    }

    fn forget(&mut self, destination: &Destination) {
        let number = self.by_destination.remove(destination);
        let word = number.and_then(|number| {
            self.refused.remove(&number);
            self.kept.remove(&number)
        });
        if let Some(Word::Announce(_)) = word {
            self.announced -= 1;
        }
    }

    fn say(&mut self, word: Word, destination: Option<Destination>) {
        self.last += 1;
        self.kept.insert(self.last, word);
        if let Some(destination) = destination {
            self.by_destination.insert(destination, self.last);
        }
    }
}

/// Withdrawals that are kept for parties that may not have heard them: 10 MB.
const MAX_WITHDRAWALS: usize = 1 << 16;
