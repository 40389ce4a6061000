//! Whom a RIB serves, and who was refused lately.
//!
//! The end of the session is judged by all rules: it is a router or a tool, and its name is proven.
//! Issuers are judged by the rules that fit them and by nothing else: whoever serves only the
//! routers that it names need not name their clients.

use std::collections::{HashMap, VecDeque};

use rhumb_link::Source;
use rhumb_trust::{Access, Standing, Who};
use rhumb_wire::rib::Refusal;
use rhumb_wire::{Metadata, Name};

use crate::Asker;

pub(crate) struct Admission {
    /// For the ends of sessions.
    askers: Access,
    /// For issuers: the same rules, and nothing for those whom none fits.
    issuers: Access,
    refused: HashMap<Source, RefusedAsker>,
    /// Sources in the order in which they were refused first.
    order: VecDeque<Source>,
}

/// Somebody who was refused by the rules, or by what its domain leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedAsker {
    /// Where its session comes from.
    pub source: Source,
    /// Who was refused last from there: the end of the session, or the issuer that is not served.
    pub name: Name,
    /// Why.
    pub why: Refusal,
    /// How often somebody from there was refused.
    pub count: u64,
    /// When last, in seconds since 1970.
    pub last_s: u64,
}

impl Admission {
    pub(crate) fn new(access: Access) -> Self {
        let issuers = issuers_of(&access);
        Self { askers: access, issuers, refused: HashMap::new(), order: VecDeque::new() }
    }

    pub(crate) fn set_access(&mut self, access: Access) {
        self.issuers = issuers_of(&access);
        self.askers = access;
    }

    pub(crate) fn access(&self) -> &Access {
        &self.askers
    }

    /// How the end of a session is treated.
    pub(crate) fn asker(&self, who: &Who<'_>) -> Standing {
        self.askers.standing(who)
    }

    /// How an order of `asker` with statements of these issuers is treated: as its
    /// session's end, or as well as the rules say of every issuer in it, whose signatures
    /// are checked before anything comes of that.
    ///
    /// # Errors
    /// The issuer that a rule refuses.
    pub(crate) fn order<'a>(
        &self,
        asker: &Asker,
        issuers: impl Iterator<Item = (Name, &'a Metadata)>,
    ) -> Result<Standing, Name> {
        let mut all_admitted = true;
        for (name, metadata) in issuers {
            // What issuers belong to is not shown here, but by whom they joined.
            let who = Who { name: &name, metadata, membership: None, now_s: 0 };
            match self.issuers.standing(&who) {
                Standing::Refused => return Err(name),
                Standing::Stranger => all_admitted = false,
                Standing::Admitted => {}
            }
        }
        Ok(if all_admitted { Standing::Admitted } else { asker.standing })
    }

    /// Somebody was refused. A source takes one place here, whatever names it makes; the source
    /// that has been here longest makes room.
    pub(crate) fn note_refused(&mut self, source: Source, name: Name, why: Refusal, now_s: u64) {
        if let Some(known) = self.refused.get_mut(&source) {
            (known.name, known.why, known.last_s) = (name, why, now_s);
            known.count += 1;
            return;
        }
        if self.order.len() >= MAX_REFUSED
            && let Some(oldest) = self.order.pop_front()
        {
            self.refused.remove(&oldest);
        }
        self.order.push_back(source);
        self.refused.insert(source, RefusedAsker { source, name, why, count: 1, last_s: now_s });
    }

    /// Who was refused lately, by source.
    pub(crate) fn refused(&self) -> impl Iterator<Item = RefusedAsker> {
        self.order.iter().filter_map(|source| self.refused.get(source).copied())
    }
}

fn issuers_of(access: &Access) -> Access {
    Access { otherwise: Standing::Stranger, ..access.clone() }
}

/// More than an operator reads in a status.
const MAX_REFUSED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const WHY: Refusal = Refusal::NotAuthorised;

    #[test]
    fn a_source_takes_one_place_and_the_oldest_makes_room() {
        let mut admission = Admission::new(Access::default());
        let source = |n: u32| Source::V4(n.to_be_bytes());
        for n in 0..100 {
            admission.note_refused(source(1), Name([n; 32]), WHY, u64::from(n));
        }
        let RefusedAsker { name, count, last_s, .. } = admission.refused().next().unwrap();
        assert_eq!((name, count, last_s), (Name([99; 32]), 100, 99));
        for n in 2..=MAX_REFUSED as u32 + 1 {
            admission.note_refused(source(n), Name([0; 32]), WHY, 200);
        }
        assert_eq!(admission.refused().count(), MAX_REFUSED);
        assert!(admission.refused().all(|refused| refused.source != source(1)));
    }
}
