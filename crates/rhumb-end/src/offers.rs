//! What an end offers, and to whom. Nothing is offered by default, so nobody can begin a
//! connection.

use std::collections::{HashMap, HashSet};

use rhumb_wire::Name;

/// Who may use a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admits {
    /// Anybody who knows the name of this end, up to the bounds for strangers.
    Everybody,
    /// These, who have places that strangers cannot take.
    Chosen {
        /// By name.
        names: HashSet<Name>,
        /// Members of these trust domains who may *join* there.
        domains: HashSet<Name>,
    },
}

/// What a port carries. The ports of the one are not those of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Carries {
    /// Streams.
    Streams,
    /// Datagrams.
    Datagrams,
}

/// The answer to who wants to use a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is there for him, by his name, or as a member of a domain.
    Chosen {
        as_member: bool,
    },
    /// It is there for everybody.
    Open,
    Closed,
    NotAllowed,
}

/// All that is offered.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    ports: HashMap<(Carries, u16), Admits>,
}

impl Admits {
    /// These names, and nobody else.
    pub fn names(names: impl IntoIterator<Item = Name>) -> Self {
        Self::Chosen { names: names.into_iter().collect(), domains: HashSet::new() }
    }

    /// Whether somebody is chosen, of whom `is_member` says what he has shown of a domain.
    pub fn chooses(&self, name: &Name, is_member: impl Fn(&Name) -> bool) -> bool {
        match self {
            Self::Everybody => false,
            Self::Chosen { names, domains } => {
                names.contains(name) || domains.iter().any(is_member)
            }
        }
    }
}

impl Offers {
    pub(crate) fn offer(&mut self, carries: Carries, port: u16, admits: Admits) {
        self.ports.insert((carries, port), admits);
    }

    pub(crate) fn withdraw(&mut self, carries: Carries, port: u16) {
        self.ports.remove(&(carries, port));
    }

    pub(crate) fn verdict(
        &self,
        (carries, port): (Carries, u16),
        name: &Name,
        is_member: impl Fn(&Name) -> bool,
    ) -> Verdict {
        match self.ports.get(&(carries, port)) {
            None => Verdict::Closed,
            Some(Admits::Everybody) => Verdict::Open,
            Some(Admits::Chosen { names, domains }) => match domains.iter().any(is_member) {
                as_member if as_member || names.contains(name) => Verdict::Chosen { as_member },
                _ => Verdict::NotAllowed,
            },
        }
    }

    /// Whether something is there for everybody.
    pub(crate) fn are_open(&self) -> bool {
        self.ports.values().any(|admits| *admits == Admits::Everybody)
    }

    /// Whether somebody is chosen anywhere, and not merely everybody.
    pub(crate) fn choose(&self, name: &Name, is_member: impl Fn(&Name) -> bool) -> bool {
        self.ports.values().any(|admits| admits.chooses(name, &is_member))
    }

    /// The domains whose members are chosen somewhere.
    pub(crate) fn domains(&self) -> impl Iterator<Item = &Name> {
        self.ports
            .values()
            .flat_map(|admits| match admits {
                Admits::Everybody => None,
                Admits::Chosen { domains, .. } => Some(domains),
            })
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_offered_until_it_is_and_to_nobody_else() {
        let (a, b) = (Name([1; 32]), Name([2; 32]));
        let mut offers = Offers::default();
        let verdict =
            |offers: &Offers, carries, name: &Name| offers.verdict((carries, 7), name, |_| false);
        assert!(!offers.are_open() && !offers.choose(&a, |_| false));
        assert_eq!(verdict(&offers, Carries::Streams, &a), Verdict::Closed);
        offers.offer(Carries::Streams, 7, Admits::names([a]));
        let by_name = Verdict::Chosen { as_member: false };
        assert_eq!(verdict(&offers, Carries::Streams, &a), by_name);
        assert_eq!(verdict(&offers, Carries::Streams, &b), Verdict::NotAllowed);
        assert_eq!(verdict(&offers, Carries::Datagrams, &a), Verdict::Closed);
        assert!(offers.choose(&a, |_| false) && !offers.choose(&b, |_| false));
        assert!(!offers.are_open());
        offers.offer(Carries::Datagrams, 7, Admits::Everybody);
        assert_eq!(verdict(&offers, Carries::Datagrams, &b), Verdict::Open);
        assert!(offers.are_open() && !offers.choose(&b, |_| false));
        offers.withdraw(Carries::Streams, 7);
        assert_eq!(verdict(&offers, Carries::Streams, &a), Verdict::Closed);
    }

    #[test]
    fn members_of_a_domain_are_chosen_and_no_others() {
        let (domain, other, name) = (Name([3; 32]), Name([4; 32]), Name([1; 32]));
        let mut offers = Offers::default();
        let admits = Admits::Chosen { names: HashSet::new(), domains: [domain].into() };
        offers.offer(Carries::Streams, 7, admits);
        assert_eq!(offers.domains().collect::<Vec<_>>(), [&domain]);
        let port = (Carries::Streams, 7);
        let of = |shown: Name| offers.verdict(port, &name, move |asked| *asked == shown);
        let as_member = Verdict::Chosen { as_member: true };
        assert_eq!((of(domain), of(other)), (as_member, Verdict::NotAllowed));
    }
}
