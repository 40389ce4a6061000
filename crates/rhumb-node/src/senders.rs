//! Who may send to this node: rules by name, looked at for each
//! ping, datagram and connection that comes in.
//!
//! Of whoever sends a ping or a plain datagram a name is known and nothing else, so rules that ask
//! for a domain, a role or a label fit nobody here. The router joined vouches for the name: it, and
//! the routers before it, have verified the source's certificates. Who begins a connection shows
//! the rest in its handshake, and is judged by all rules then (`rhumb_end`).

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
    by_name: HashMap<Name, Known>,
    otherwise: Known,
}

/// What a name alone makes of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    standing: Standing,
    /// An earlier rule, about what is not known of him yet, would give him more than to be refused.
    may_show_more: bool,
}

impl Senders {
    pub(crate) fn new(access: &Access) -> Self {
        let mut may_show_more = false;
        let mut by_name = HashMap::new();
        let mut otherwise = access.otherwise;
        for rule in &access.rules {
            let standing = rule.standing;
            match rule.name {
                _ if rule.role.is_some() || rule.label.is_some() || rule.domain.is_some() => {
                    may_show_more |= standing != Standing::Refused;
                }
                // The first rule that fits counts.
                Some(name) => {
                    by_name.entry(name).or_insert(Known { standing, may_show_more });
                }
                None => {
                    otherwise = standing;
                    break;
                }
            }
        }
        Self { by_name, otherwise: Known { standing: otherwise, may_show_more } }
    }

    /// How a name is treated of which nothing else is known.
    pub(crate) fn standing(&self, name: &Name) -> Standing {
        self.known(name).standing
    }

    /// The best that it can be once it has shown what it is.
    pub(crate) fn standing_to_begin(&self, name: &Name) -> Standing {
        match self.known(name) {
            Known { standing: Standing::Refused, may_show_more: true } => Standing::Stranger,
            known => known.standing,
        }
    }

    pub(crate) fn refuses(&self, name: &Name) -> bool {
        self.standing(name) == Standing::Refused
    }

    fn known(&self, name: &Name) -> Known {
        self.by_name.get(name).copied().unwrap_or(self.otherwise)
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
        // Whom an earlier rule could fit, or everybody, may begin to show that it does.
        assert_eq!(
            [a, b, c].map(|name| senders.standing_to_begin(&name)),
            [Standing::Admitted, Standing::Stranger, Standing::Stranger,]
        );
        let refused = Access { rules: vec![rule(Some(b), Standing::Refused)], ..access.clone() };
        let refused = Access { rules: [refused.rules, access.rules].concat(), ..access };
        assert_eq!(Senders::new(&refused).standing_to_begin(&b), Standing::Refused);
        let open = Senders::new(&Access::default());
        assert_eq!(open.standing(&a), Standing::Stranger);
    }
}
