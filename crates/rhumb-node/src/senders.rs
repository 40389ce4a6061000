//! Who may send to this node: rules by name, looked at for each
//! ping, datagram and connection that comes in.
//!
//! A receiver is told a source's name and nothing else of it, so rules that ask for a role or a
//! label fit nobody here. The router joined vouches for the name: it, and the routers before it,
//! have verified the source's certificates.

use std::collections::HashMap;

use rhumb_trust::{Access, Standing};
use rhumb_wire::Name;

/// Something that a sender wanted and was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Who sent it, as the router says.
    pub from: Name,
    /// Who it was for: this node, or a name that it serves.
    pub to: Name,
    /// What was wanted.
    pub wanted: Wanted,
}

/// What a sender wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wanted {
    /// An answer to a ping. None was given.
    Ping,
    /// To deliver a datagram to a port. It was dropped.
    Datagram {
        /// Which port.
        port: u16,
    },
    /// To begin a connection, or a stream to a port, that is not offered to him. He was told so.
    Connection {
        /// Which port, if it came to that.
        port: Option<u16>,
    },
}

/// The rules, ready to be asked for each PDU.
#[derive(Debug)]
pub(crate) struct Senders {
    by_name: HashMap<Name, Standing>,
    otherwise: Standing,
}

impl Senders {
    pub(crate) fn new(access: &Access) -> Self {
        let mut senders = Self { by_name: HashMap::new(), otherwise: access.otherwise };
        for rule in &access.rules {
            match rule.name {
                // Of those who send from afar only the name is known.
                _ if rule.role.is_some() || rule.label.is_some() || rule.domain.is_some() => {}
                // The first rule that fits counts.
                Some(name) => {
                    senders.by_name.entry(name).or_insert(rule.standing);
                }
                None => {
                    senders.otherwise = rule.standing;
                    break;
                }
            }
        }
        senders
    }

    pub(crate) fn standing(&self, name: &Name) -> Standing {
        self.by_name.get(name).copied().unwrap_or(self.otherwise)
    }

    pub(crate) fn refuses(&self, name: &Name) -> bool {
        self.standing(name) == Standing::Refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_trust::Rule;
    use rhumb_wire::Role;

    #[test]
    fn the_first_rule_for_a_name_counts_and_rules_about_what_is_not_known_fit_nobody() {
        let rule = |name: Option<Name>, standing| Rule {
            name,
            domain: None,
            role: None,
            label: None,
            standing,
        };
        let (a, b, c) = (Name([1; 32]), Name([2; 32]), Name([3; 32]));
        let access = Access {
            rules: vec![
                rule(Some(a), Standing::Admitted),
                rule(Some(a), Standing::Refused),
                Rule { role: Some(Role::Node), ..rule(None, Standing::Admitted) },
                Rule { label: Some("x".to_owned()), ..rule(Some(b), Standing::Admitted) },
                rule(None, Standing::Refused),
                rule(Some(c), Standing::Admitted),
            ],
            otherwise: Standing::Stranger,
            ..Access::default()
        };
        let senders = Senders::new(&access);
        let expected = [Standing::Admitted, Standing::Refused, Standing::Refused];
        assert_eq!([a, b, c].map(|name| senders.standing(&name)), expected);
        assert!(senders.refuses(&b));
        let open = Senders::new(&Access::default());
        assert_eq!(open.standing(&a), Standing::Stranger);
    }
}
