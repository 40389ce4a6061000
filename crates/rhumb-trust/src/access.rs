//! Who may use a service: rules by name, domain, role and label, of which the first that fits
//! counts.
//!
//! A name is proven, and so is a membership in a trust domain; role and label are what their holder
//! wrote into its metadata, so a rule that admits by them alone admits whoever writes the same.
//! They serve to refuse, or beside a name.

use rhumb_wire::metadata::Role;
use rhumb_wire::{Metadata, Name, Rights};

use crate::Membership;

/// Somebody at a moment: what is known of him.
#[derive(Debug, Clone, Copy)]
pub struct Who<'a> {
    /// The name that he has proven.
    pub name: &'a Name,
    /// What it is the hash of.
    pub metadata: &'a Metadata,
    /// What he has shown of a domain, unverified.
    pub membership: Option<&'a Membership>,
    /// The moment, seconds since 1970.
    pub now_s: u64,
}

/// How a service treats somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Is refused.
    Refused,
    /// Shares with all other strangers what is left for them: names cost nothing.
    Stranger,
    /// Has a share that no stranger can touch.
    Admitted,
}

/// Rules, and what counts when none fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The first that fits counts.
    pub rules: Vec<Rule>,
    /// For whom no rule fits.
    pub otherwise: Standing,
}

/// A rule fits who has all that it asks for; one that asks for nothing fits everybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// This name.
    pub name: Option<Name>,
    /// Members of this domain who have these rights.
    pub domain: Option<(Name, Rights)>,
    /// This role, by its own word.
    pub role: Option<Role>,
    /// This label, by its own word: the attribute [`LABEL`].
    pub label: Option<String>,
    /// What it gives.
    pub standing: Standing,
}

impl Access {
    /// How somebody is treated.
    pub fn standing(&self, who: &Who<'_>) -> Standing {
        let fitting = self.rules.iter().find(|rule| rule.fits(who));
        fitting.map_or(self.otherwise, |rule| rule.standing)
    }
}

impl Default for Access {
    /// Everybody is a stranger.
    fn default() -> Self {
        Self { rules: Vec::new(), otherwise: Standing::Stranger }
    }
}

impl Who<'_> {
    /// Whether he belongs to a domain, whatever he may do there.
    pub fn is_member_of(&self, domain: &Name) -> bool {
        self.belongs_to(domain, |_| true)
    }

    fn belongs_to(&self, domain: &Name, has_rights: impl Fn(Rights) -> bool) -> bool {
        self.membership.is_some_and(|membership| {
            membership.is_of(domain)
                && has_rights(membership.rights())
                && membership.check(self.name, self.now_s).is_ok()
        })
    }
}

impl Rule {
    /// A rule about one name.
    pub fn named(name: Name, standing: Standing) -> Self {
        Self { name: Some(name), domain: None, role: None, label: None, standing }
    }

    /// A rule about the members of a domain who have these rights.
    pub fn of_domain(domain: Name, rights: Rights, standing: Standing) -> Self {
        Self { name: None, domain: Some((domain, rights)), role: None, label: None, standing }
    }

    fn fits(&self, who: &Who<'_>) -> bool {
        let label = who.metadata.attributes().get(LABEL);
        // What costs signatures comes last, and only for who claims to belong to that domain.
        self.name.is_none_or(|expected| expected == *who.name)
            && self.role.is_none_or(|expected| expected == who.metadata.role)
            && self.label.as_ref().is_none_or(|expected| label == Some(expected))
            && self
                .domain
                .is_none_or(|(domain, rights)| who.belongs_to(&domain, |has| has.hold(rights)))
    }
}

/// The attribute that holds the label of a name.
pub const LABEL: &str = "label";

#[cfg(test)]
mod tests {
    use rhumb_wire::metadata::PublicKey;

    use super::*;
    use crate::name_of;

    fn metadata(role: Role, created_s: u64) -> Metadata {
        Metadata::new(role, PublicKey::Ed25519([7; 32]), created_s)
    }

    fn rule(standing: Standing) -> Rule {
        Rule { name: None, domain: None, role: None, label: None, standing }
    }

    #[test]
    fn the_first_rule_that_fits_counts() {
        let (node, router) = (metadata(Role::Node, 1), metadata(Role::Router, 2));
        let labelled = node.clone().with_attribute(LABEL, "sea").unwrap();
        let access = Access {
            rules: vec![
                Rule { name: Some(name_of(&router)), ..rule(Standing::Admitted) },
                Rule {
                    role: Some(Role::Node),
                    label: Some("sea".into()),
                    ..rule(Standing::Refused)
                },
                Rule { role: Some(Role::Node), ..rule(Standing::Admitted) },
            ],
            otherwise: Standing::Stranger,
        };
        let treated = |access: &Access, metadata: &Metadata| {
            let name = &name_of(metadata);
            access.standing(&Who { name, metadata, membership: None, now_s: 0 })
        };
        let standing = |metadata: &Metadata| treated(&access, metadata);
        assert_eq!(standing(&router), Standing::Admitted);
        assert_eq!(standing(&labelled), Standing::Refused);
        assert_eq!(standing(&node), Standing::Admitted);
        assert_eq!(standing(&metadata(Role::Router, 3)), Standing::Stranger);
        assert_eq!(treated(&Access::default(), &node), Standing::Stranger);
        let closed = Access { rules: vec![rule(Standing::Refused)], ..Access::default() };
        assert_eq!(treated(&closed, &node), Standing::Refused);
    }
}
