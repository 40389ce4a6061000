//! The trust domains on a traced way, by what a RIB can prove: by which domains the destination is
//! known outside, and which routers stand at the borders of those and of the tracer's own. What is
//! inside of a domain stays hidden: its routers answer without a name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rhumb_daemon::failure::Outcome;
use rhumb_daemon::inquiry::{Directory, Session};
use rhumb_daemon::remote::Remote;
use rhumb_daemon::running::Step;
use rhumb_daemon::words::Labels;
use rhumb_trust::{Chain, Identity, Verified};
use rhumb_wire::{Certificate, Name, Scope, Statement};
use serde_json::{Value, json};

/// What is known of domains. Every certificate in it was verified.
#[derive(Debug, Default)]
pub(super) struct Domains {
    /// By which certificates the destination is known outside, from its own on.
    exports: Vec<Certificate>,
    /// Routers at borders, each with its domain's word for it.
    borders: HashMap<Name, Certificate>,
}

/// Where a hop is, as far as can be told from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// At the border of a domain.
    Border(Name),
    /// It answered, and its name was taken off at the border of a domain, if it is known which.
    Hidden(Option<Name>),
    /// Nobody said.
    Unknown,
}

impl Domains {
    /// Asks a RIB, which has to answer `identity`, about the way to a name from inside of domains.
    pub(super) fn ask(
        identity: Arc<Identity>,
        rib: Remote,
        (destination, own): (Name, Vec<Name>),
    ) -> Outcome<Self> {
        let source = identity.name();
        let mut session = Session::connect(identity, rib, PATIENCE)?;
        let mut directory = Directory::new(&mut session, source);
        let mut domains = Self::default();
        if let Some(chain) = directory.look_up(destination)? {
            domains.exports = chain.certificates()[..chain.exported_len()].to_vec();
            domains.note(&chain, None);
        }
        for domain in own {
            if let Some(chain) = directory.look_up(domain)? {
                domains.note(&chain, Some(domain));
            }
        }
        session.close();
        Ok(domains)
    }

    /// Takes over who stands at the borders of the domains that a chain leads through; `of`: its
    /// first name is a domain's.
    fn note(&mut self, chain: &Verified<Chain>, of: Option<Name>) {
        let certificates = chain.certificates().iter();
        let exported = certificates.clone().filter_map(|it| it.statement.exports_by());
        let domains: Vec<Name> = exported.chain(of).collect();
        for certificate in certificates.filter(|it| domains.contains(&it.issuer)) {
            let Statement::Route { via, scope } = certificate.statement else { continue };
            if matches!(scope, Scope::Any | Scope::Several) {
                self.borders.insert(via, certificate.clone());
            }
        }
    }

    /// Where each hop is.
    pub(super) fn places(&self, hops: &[Step]) -> Vec<Place> {
        self.places_of(hops.iter().map(|hop| (hop.router, hop.rtt.is_some())))
    }

    /// The same by who answered, and whether anybody did.
    fn places_of(&self, hops: impl IntoIterator<Item = (Option<Name>, bool)>) -> Vec<Place> {
        let mut entered = None;
        let place = |(router, answered): (Option<Name>, bool)| {
            match (router.and_then(|router| self.borders.get(&router)), router) {
                (Some(word), _) => {
                    entered = Some(word.issuer);
                    Place::Border(word.issuer)
                }
                // What answered and has no name lost it on the answer's way.
                (None, None) if answered => Place::Hidden(entered),
                _ => Place::Unknown,
            }
        };
        hops.into_iter().map(place).collect()
    }

    /// The word of a domain for its border router.
    pub(super) fn border(&self, router: Name) -> Option<&Certificate> {
        self.borders.get(&router)
    }

    /// By which certificates the destination is known outside, from its own on.
    pub(super) fn exports(&self) -> &[Certificate] {
        &self.exports
    }
}

impl Place {
    /// A line for people.
    pub(super) fn told(self, labels: &Labels) -> Option<String> {
        match self {
            Self::Border(_) | Self::Unknown => None,
            Self::Hidden(Some(domain)) => Some(format!("inside of {}: hidden", labels.of(domain))),
            Self::Hidden(None) => Some("inside of a domain: hidden".to_owned()),
        }
    }

    /// The same for programs.
    pub(super) fn facts(self) -> Value {
        let name = |domain: Name| domain.to_string();
        match self {
            Self::Border(domain) => json!({ "border_of": name(domain) }),
            Self::Hidden(domain) => json!({ "hidden": true, "inside_of": domain.map(name) }),
            Self::Unknown => json!({}),
        }
    }
}

/// Far longer than a RIB takes.
const PATIENCE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lost_its_name_is_inside_of_the_domain_entered_last() {
        let name = |byte| Some(Name([byte; 32]));
        let way = [(name(1), true), (None, false), (None, true), (name(2), true)];
        let nothing = Domains::default();
        let hidden =
            |domain| [Place::Unknown, Place::Unknown, Place::Hidden(domain), Place::Unknown];
        assert_eq!(nothing.places_of(way), hidden(None));
        let certificate = Certificate {
            sequence: 1,
            not_before_s: 0,
            not_after_s: 1,
            issuer: Name([9; 32]),
            statement: Statement::Route { via: Name([1; 32]), scope: Scope::Any },
            signature: [0; rhumb_wire::certificate::SIGNATURE_LEN],
        };
        let borders = HashMap::from([(Name([1; 32]), certificate)]);
        let known = Domains { borders, ..Domains::default() };
        let mut expected = hidden(Some(Name([9; 32])));
        expected[0] = Place::Border(Name([9; 32]));
        assert_eq!(known.places_of(way), expected);
        let labels = Labels::default();
        let told = |place: Place| place.told(&labels).unwrap();
        assert_eq!(told(Place::Hidden(None)), "inside of a domain: hidden");
        assert!(told(expected[2]).starts_with("inside of "));
    }
}
