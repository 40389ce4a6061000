//! What becomes of another member's route: its validity, and what the import policy says.

use std::sync::Arc;

use rhumb_bgp::Attributes;
use rhumb_bgp::policy::{Candidate, ImportPolicy, Member, Roster, Route, Unwanted, Vrps};
use rhumb_bgp::wire::{Prefix, RpkiValidation};

use crate::encoding::{Announced, Malformed};

/// By what routes are judged.
#[derive(Debug, Clone)]
pub struct Law {
    /// What this member takes, and how it ranks it.
    pub import: ImportPolicy,
    /// Who the members are.
    pub roster: Roster,
    /// What the RPKI says.
    pub vrps: Arc<Vrps>,
}

/// A route among those to one prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Of its announcer's versions.
    pub variant: u8,
    /// Its announcer.
    pub from: Member,
}

/// A route that is to be judged.
#[derive(Debug, Clone)]
pub struct Case {
    /// Where the route leads.
    pub prefix: Prefix,
    /// Which of the routes to it.
    pub key: Key,
    /// Greater than that of any case before.
    pub number: u64,
    /// The route.
    pub announced: Result<Announced, Malformed>,
    /// By what it is judged.
    pub law: Arc<Law>,
}

/// A case, and what became of its route.
#[derive(Debug)]
pub struct Judged {
    /// What was judged.
    pub case: Case,
    /// What the RPKI says of it.
    pub validity: RpkiValidation,
    /// What became of it.
    pub taken: Result<Taken, Refusal>,
}

/// A route that may be used.
#[derive(Debug)]
pub struct Taken {
    /// As it is ranked.
    pub candidate: Candidate,
    /// As the router gets it.
    pub attributes: Attributes,
}

/// Why a route is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It could not be read.
    Malformed(Malformed),
    /// The announcer is no member.
    Stranger,
    /// The policy refuses it.
    Policy(Unwanted),
}

impl Case {
    /// Asks the RPKI and the import policy: at most some milliseconds.
    pub fn judge(self) -> Judged {
        let from = self.key.from;
        let (validity, taken) = match &self.announced {
            Ok(announced) => {
                let validity = self.law.validity(self.prefix, &announced.attributes, from);
                (validity, self.law.import(self.prefix, from, announced, validity))
            }
            Err(malformed) => (RpkiValidation::NotFound, Err(Refusal::Malformed(*malformed))),
        };
        Judged { case: self, validity, taken }
    }
}

impl Law {
    /// What the RPKI says of a route of this member.
    pub fn validity(
        &self,
        prefix: Prefix,
        attributes: &Attributes,
        from: Member,
    ) -> RpkiValidation {
        let asn = self.roster.asn(from).unwrap_or(0);
        let origin = rhumb_bgp::policy::rpki::origin_of(&attributes.as_path(), asn);
        self.vrps.validate(prefix, origin)
    }

    fn import(
        &self,
        prefix: Prefix,
        from: Member,
        announced: &Announced,
        validity: RpkiValidation,
    ) -> Result<Taken, Refusal> {
        let announcer_asn = self.roster.asn(from).ok_or(Refusal::Stranger)?;
        let (list, next_hop) = (announced.attributes.list(), announced.attributes.next_hop());
        let address = Some(next_hop.address());
        let route = Route {
            prefix,
            attributes: &list,
            next_hop: address,
            announcer: from,
            announcer_asn,
            validity,
        };
        let imported = self.import.import(&route).map_err(Refusal::Policy)?;
        let candidate = Candidate::new(
            &Route { attributes: &imported.attributes, ..route },
            imported.preference,
            announced.router_id,
        );
        let attributes = if imported.attributes == list {
            announced.attributes.clone()
        } else {
            Attributes::new(next_hop, &imported.attributes)
                .map_err(|_| Refusal::Malformed(Malformed::Attributes))?
        };
        Ok(Taken { candidate, attributes })
    }
}
