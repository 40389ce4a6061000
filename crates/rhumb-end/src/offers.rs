//! What an end offers, and to whom. Nothing is offered by default, so nobody can begin a
//! connection.

use std::collections::{HashMap, HashSet};

use rhumb_wire::Name;

/// Who may use a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admits {
    /// Anybody who knows the name of this end, up to the bounds for strangers.
    Everybody,
    /// These names, who have places that strangers cannot take.
    Names(HashSet<Name>),
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
    Offered,
    Closed,
    NotAllowed,
}

/// All that is offered.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    ports: HashMap<(Carries, u16), Admits>,
}

impl Admits {
    fn admits(&self, name: &Name) -> bool {
        match self {
            Self::Everybody => true,
            Self::Names(names) => names.contains(name),
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

    pub(crate) fn verdict(&self, carries: Carries, port: u16, name: &Name) -> Verdict {
        match self.ports.get(&(carries, port)) {
            None => Verdict::Closed,
            Some(admits) if admits.admits(name) => Verdict::Offered,
            Some(_) => Verdict::NotAllowed,
        }
    }

    /// Whether there is anything for a name here.
    pub(crate) fn has_something_for(&self, name: &Name) -> bool {
        self.ports.values().any(|admits| admits.admits(name))
    }

    /// Whether somebody chose this name, and not merely everybody.
    pub(crate) fn names(&self, name: &Name) -> bool {
        self.ports.values().any(|it| matches!(it, Admits::Names(names) if names.contains(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_offered_until_it_is_and_to_nobody_else() {
        let (a, b) = (Name([1; 32]), Name([2; 32]));
        let mut offers = Offers::default();
        assert!(!offers.has_something_for(&a));
        assert_eq!(offers.verdict(Carries::Streams, 7, &a), Verdict::Closed);
        offers.offer(Carries::Streams, 7, Admits::Names([a].into()));
        assert_eq!(offers.verdict(Carries::Streams, 7, &a), Verdict::Offered);
        assert_eq!(offers.verdict(Carries::Streams, 7, &b), Verdict::NotAllowed);
        assert_eq!(offers.verdict(Carries::Datagrams, 7, &a), Verdict::Closed);
        assert!(offers.has_something_for(&a) && !offers.has_something_for(&b));
        offers.offer(Carries::Datagrams, 1, Admits::Everybody);
        assert!(offers.has_something_for(&b) && !offers.names(&b) && offers.names(&a));
        offers.withdraw(Carries::Streams, 7);
        assert_eq!(offers.verdict(Carries::Streams, 7, &a), Verdict::Closed);
    }
}
