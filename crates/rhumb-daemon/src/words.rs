//! Certificates in words, for people who want to know who may do what.

use std::collections::HashMap;

use rhumb_wire::{Certificate, Limits, Name, Scope, Statement};

use serde_json::{Value, json};

use crate::clock::{time_left, time_of_day};

/// What names are called in a sentence: a label where there
/// is one, else the first characters of the name.
#[derive(Debug, Default)]
pub struct Labels(HashMap<Name, String>);

impl Labels {
    /// Calls `name` by `label` from now on.
    pub fn insert(&mut self, name: Name, label: impl Into<String>) {
        self.0.insert(name, label.into());
    }

    /// What `name` is called.
    pub fn of(&self, name: Name) -> String {
        self.0.get(&name).map_or_else(|| name.short(), String::clone)
    }

    /// What a certificate says, and for how long.
    pub fn sentence(&self, certificate: &Certificate, now_s: u64) -> String {
        let issuer = self.of(certificate.issuer);
        let statement = match certificate.statement {
            Statement::Route { via, scope: Scope::Any } => {
                format!("{} may carry my traffic to and from anyone", self.of(via))
            }
            Statement::Route { via, scope: Scope::Several } => {
                format!("{} may carry my traffic, as one of several", self.of(via))
            }
            Statement::Route { via, scope: Scope::Destination(peer) } => {
                format!("{} may carry my traffic to and from {} only", self.of(via), self.of(peer))
            }
            Statement::Route { via, scope: Scope::ByDomain { up_to } } => {
                let bound = up_to.map(|domain| format!(", no further than {}", self.of(domain)));
                let bound = bound.unwrap_or_default();
                format!("I am known outside by {}{bound}", self.of(via))
            }
            Statement::Route { via, scope: Scope::ByNeighbour { up_to } } => {
                let bound = up_to.map(|domain| format!(", no further than {}", self.of(domain)));
                let bound = bound.unwrap_or_default();
                format!("I am known by my neighbour {}, as one of several{bound}", self.of(via))
            }
            Statement::Locator(locator) => format!("I am reached at {}", locator.address()),
            Statement::Service { server, several: false } => {
                format!("{} may answer for me", self.of(server))
            }
            Statement::Service { server, several: true } => {
                format!("{} may answer for me, as one of several", self.of(server))
            }
            Statement::Withdrawal => "what I said before no longer holds".to_owned(),
            Statement::Absence { subject } => format!("I know no way to {}", self.of(subject)),
            Statement::Member { member, rights, limits } => {
                let rights: Vec<_> = rights.names().collect();
                let limits = limits_in_words(&limits, |name| self.of(name));
                let limits: String = limits.iter().map(|limit| format!(", {limit}")).collect();
                format!("{} belongs to me, and may {}{limits}", self.of(member), rights.join(", "))
            }
            Statement::Removal { member } => format!("{} belongs to me no longer", self.of(member)),
        };
        let until = time_of_day(certificate.not_after_s);
        let left = time_left(now_s, certificate.not_after_s);
        format!("{issuer} says: {statement}, until {until} UTC ({left})")
    }
}

/// How much a member may have, one thing after the other; nothing where its domain bounds nothing.
pub fn limits_in_words(limits: &Limits, called: impl Fn(Name) -> String) -> Vec<String> {
    let Limits { names, kbit_per_s, inside_only, only_to } = *limits;
    let names = (names > 0).then(|| match names {
        1 => "no name but its own".to_owned(),
        _ => format!("{names} names at most"),
    });
    let rate = (kbit_per_s > 0).then(|| format!("{} at most", rate_in_words(kbit_per_s)));
    let inside = inside_only.then(|| "to send inside of the domain only".to_owned());
    let only = only_to.map(|name| format!("to send to {} only", called(name)));
    [names, rate, inside, only].into_iter().flatten().collect()
}

/// The same for programs.
pub fn limits_as_json(limits: &Limits) -> Value {
    let Limits { names, kbit_per_s, inside_only, only_to } = *limits;
    let only_to = only_to.map(|name| name.to_string());
    json!({ "names": names, "kbit_per_s": kbit_per_s, "inside_only": inside_only, "only_to": only_to })
}

fn rate_in_words(kbit_per_s: u32) -> String {
    match kbit_per_s {
        rate if rate % 1_000_000 == 0 => format!("{} Gbit/s", rate / 1_000_000),
        rate if rate % 1000 == 0 => format!("{} Mbit/s", rate / 1000),
        rate => format!("{rate} kbit/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::certificate::{Locator, SIGNATURE_LEN};

    #[test]
    fn each_statement_is_a_sentence() {
        let (a, b) = (Name([1; 32]), Name([2; 32]));
        let mut labels = Labels::default();
        labels.insert(a, "R1");
        labels.insert(b, "R2");
        let says = |statement| {
            let certificate = Certificate {
                sequence: 1,
                not_before_s: 0,
                not_after_s: 3_723,
                issuer: a,
                statement,
                signature: [0; SIGNATURE_LEN],
            };
            labels.sentence(&certificate, 3_183)
        };
        assert_eq!(
            says(Statement::Route { via: b, scope: Scope::Any }),
            "R1 says: R2 may carry my traffic to and from anyone, until 01:02:03 UTC (9 min left)"
        );
        let scope = Scope::Destination(b);
        assert!(says(Statement::Route { via: b, scope }).contains("to and from R2 only"));
        let locator = Locator::new("192.0.2.1:9".parse().unwrap()).unwrap();
        assert!(says(Statement::Locator(locator)).contains("I am reached at 192.0.2.1:9"));
        assert!(says(Statement::Withdrawal).contains("no longer holds"));
        assert!(says(Statement::Absence { subject: b }).contains("no way to R2"));
        assert_eq!(labels.of(Name([3; 32])), Name([3; 32]).short());
    }
}
