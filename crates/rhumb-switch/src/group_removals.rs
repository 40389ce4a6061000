//! Who was removed from a group, which next routers were told so, and on whose account it is kept.
//!
//! INVARIANT: no more than [`MAX_REMOVALS`] of a group, half of them for its owner alone, so
//! nobody whom the owner let admit others keeps the owner from removing somebody.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_link::{SessionId, Source};
use rhumb_trust::{Membership, Noted, Removal, Removals, Verified};

pub(crate) struct GroupRemovals {
    register: Removals,
    /// By the numbers under which others are told of them.
    removed: BTreeMap<u32, Removed>,
    /// That of the newest: none is given twice, so that no late answer is taken for another one.
    last: u32,
    /// Which of these each next router was told, or is to be told then.
    passed_on: BTreeMap<(u32, SessionId), Passing>,
}

struct Removed {
    removal: Arc<Verified<Removal>>,
    charged: Charged,
}

/// The source of strangers among whose names a removal counts; none for who is admitted.
pub(crate) type Charged = Option<Source>;

/// A removal on its way to a next router.
#[derive(Debug, Clone, Copy)]
struct Passing {
    is_known: bool,
    again_at: Instant,
    tries: u32,
}

/// A removal that a next router is to be told of, under this number.
pub(crate) type ToTell = (SessionId, u32, Arc<Verified<Removal>>);

impl Default for GroupRemovals {
    fn default() -> Self {
        let register = Removals::of_at_most(MAX_REMOVALS);
        Self { register, removed: BTreeMap::new(), last: 0, passed_on: BTreeMap::new() }
    }
}

impl GroupRemovals {
    /// Whether one counts against a membership.
    pub(crate) fn are_against(&self, membership: &Membership) -> bool {
        self.register.against(membership).is_some()
    }

    /// What would become of one.
    pub(crate) fn would(&self, removal: &Removal) -> Noted {
        self.register.would(removal)
    }

    /// Takes one that `from` knows of: these routers are to be told. Who is charged with what it
    /// takes the place of; none if it is not taken.
    pub(crate) fn note(
        &mut self,
        removal: Verified<Removal>,
        (from, charged): (SessionId, Charged),
        routers: &[SessionId],
        now: Instant,
    ) -> Option<Vec<Charged>> {
        if self.register.note(removal.clone()) != Noted::New {
            return None;
        }
        let about = (removal.issuer(), removal.removed());
        let replaced = self.forget(|it| (it.issuer(), it.removed()) == about);
        self.last = self.last.wrapping_add(1).max(1);
        let number = self.last;
        self.removed.insert(number, Removed { removal: Arc::new(removal), charged });
        // Those, too, that are no neighbours any more without whom it removes.
        let fresh = Passing { is_known: false, again_at: now, tries: 0 };
        for to in routers {
            self.passed_on.insert((number, *to), fresh);
        }
        self.passed_on.insert((number, from), Passing { is_known: true, ..fresh });
        Some(replaced)
    }

    /// Forgets those that have ended, with which has ended whatever they could count against. Who
    /// was charged with them.
    pub(crate) fn sweep(&mut self, now_s: u64) -> Vec<Charged> {
        let ended = self.register.sweep(now_s);
        match ended.is_empty() {
            true => Vec::new(),
            false => self.forget(|removal| ended.iter().any(|it| **it == *removal)),
        }
    }

    pub(crate) fn are_none(&self) -> bool {
        self.removed.is_empty()
    }

    pub(crate) fn forget_session(&mut self, session: SessionId) {
        self.passed_on.retain(|(_, to), _| *to != session);
    }

    /// A next router knows of one. Whether it was told.
    pub(crate) fn note_known(&mut self, number: u32, by: SessionId) -> bool {
        let passing = self.passed_on.get_mut(&(number, by));
        passing.map(|passing| passing.is_known = true).is_some()
    }

    /// What next routers are to be told now, but for what is not for them; `due` is no later than
    /// when one is to be told next.
    pub(crate) fn due_to_tell(
        &mut self,
        routers: &[SessionId],
        is_kept_from: impl Fn(SessionId, &Removal) -> bool,
        now: Instant,
        due: &mut Instant,
    ) -> Vec<ToTell> {
        for to in routers {
            for number in self.removed.keys() {
                let fresh = Passing { is_known: false, again_at: now, tries: 0 };
                self.passed_on.entry((*number, *to)).or_insert(fresh);
            }
        }
        let mut told = Vec::new();
        for ((number, to), passing) in &mut self.passed_on {
            let Some(it) = self.removed.get(number) else { continue };
            let is_over = passing.is_known || passing.tries >= MAX_TRIES;
            if is_over || is_kept_from(*to, &it.removal) {
                continue;
            }
            if passing.again_at <= now {
                passing.again_at = now + retry_after(passing.tries);
                passing.tries += 1;
                told.push((*to, *number, it.removal.clone()));
            }
            *due = (*due).min(passing.again_at);
        }
        told
    }

    fn forget(&mut self, is_over: impl Fn(&Verified<Removal>) -> bool) -> Vec<Charged> {
        let over = self.removed.extract_if(.., |_, it| is_over(&it.removal));
        let charged = over.map(|(_, it)| it.charged).collect();
        self.passed_on.retain(|(number, _), _| self.removed.contains_key(number));
        charged
    }
}

/// How long a next router is waited for that was told so often.
pub(crate) fn retry_after(tries: u32) -> Duration {
    FIRST_RETRY * (1 << tries.min(MAX_DOUBLINGS))
}

/// Of a group at once; each is told to each next router.
const MAX_REMOVALS: usize = 256;
/// A round trip to the next router, and its verification.
const FIRST_RETRY: Duration = Duration::from_millis(200);
/// So the longest wait is 6.4 s.
const MAX_DOUBLINGS: u32 = 5;
/// What a router that does not answer remembers ends with its time.
pub(crate) const MAX_TRIES: u32 = 6;
