//! Who may use a service: rules by name, role and label, of which the first that fits counts.
//!
//! A name is proven; role and label are what its holder wrote into its metadata, so a rule that
//! admits by them alone admits whoever writes the same. They serve to refuse, or beside a name.

use rhumb_wire::metadata::Role;
use rhumb_wire::{Metadata, Name};

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
    /// This role, by its own word.
    pub role: Option<Role>,
    /// This label, by its own word: the attribute [`LABEL`].
    pub label: Option<String>,
    /// What it gives.
    pub standing: Standing,
}

impl Access {
    /// How somebody is treated. `metadata` are those of `name`.
    pub fn standing(&self, name: &Name, metadata: &Metadata) -> Standing {
        let fitting = self.rules.iter().find(|rule| rule.fits(name, metadata));
        fitting.map_or(self.otherwise, |rule| rule.standing)
    }
}

impl Default for Access {
    /// Everybody is a stranger.
    fn default() -> Self {
        Self { rules: Vec::new(), otherwise: Standing::Stranger }
    }
}

impl Rule {
    fn fits(&self, name: &Name, metadata: &Metadata) -> bool {
        let label = metadata.attributes().get(LABEL);
        self.name.is_none_or(|expected| expected == *name)
            && self.role.is_none_or(|expected| expected == metadata.role)
            && self.label.as_ref().is_none_or(|expected| label == Some(expected))
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
        Rule { name: None, role: None, label: None, standing }
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
        let standing = |metadata: &Metadata| access.standing(&name_of(metadata), metadata);
        assert_eq!(standing(&router), Standing::Admitted);
        assert_eq!(standing(&labelled), Standing::Refused);
        assert_eq!(standing(&node), Standing::Admitted);
        assert_eq!(standing(&metadata(Role::Router, 3)), Standing::Stranger);
        assert_eq!(Access::default().standing(&name_of(&node), &node), Standing::Stranger);
        let closed = Access { rules: vec![rule(Standing::Refused)], ..Access::default() };
        assert_eq!(closed.standing(&name_of(&node), &node), Standing::Refused);
    }
}
