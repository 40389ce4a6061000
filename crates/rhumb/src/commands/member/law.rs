//! What becomes of another member's route: its validity, and what the import policy says.

use std::sync::Arc;

use rhumb_bgp::Attributes;
use rhumb_bgp::policy::{Candidate, ImportPolicy, Member, Roster, Route, Unwanted, Vrps};
use rhumb_bgp::wire::{Prefix, RpkiValidation};

use super::encoding::{Announced, Malformed};
use super::table::Key;

/// By what routes are judged.
#[derive(Debug, Clone)]
pub(super) struct Law {
    pub(super) import: ImportPolicy,
    pub(super) roster: Roster,
    pub(super) vrps: Arc<Vrps>,
}

/// A route that is to be judged.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) prefix: Prefix,
    pub(super) key: Key,
    /// Greater than that of any case before.
    pub(super) number: u64,
    pub(super) announced: Result<Announced, Malformed>,
    pub(super) law: Arc<Law>,
}

/// A case, and what became of its route.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) case: Case,
    pub(super) validity: RpkiValidation,
    pub(super) taken: Result<Taken, Refusal>,
}

/// A route that may be used.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) candidate: Candidate,
    /// As the router gets it.
    pub(super) attributes: Attributes,
}

/// Why a route is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It could not be read.
    Malformed(Malformed),
    /// The announcer is no member.
    Stranger,
    /// The policy refuses it.
    Policy(Unwanted),
}

impl Case {
    pub(super) fn judge(self) -> Judged {
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
    pub(super) fn validity(
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
