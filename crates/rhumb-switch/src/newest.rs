//! What one issuer said last, by which older statements are known for what they are.
//!
//! Whatever was learnt from an older statement is not searched for when a newer one comes: each
//! chain is checked against these registers when it is used, eight look-ups at most. So a change
//! costs the same however many chains it ends.
//!
//! Nothing enters that was not verified: what comes with another chain, as a router's word for
//! where it is does, is not verified again. The table of them is bounded; what it had to forget can
//! come back only until its certificate ends. They do not expire: what a withdrawal covers may hold
//! for longer than the withdrawal.

use rhumb_trust::Verified;
use rhumb_wire::{Certificate, Statement};

/// A verified statement, if there is one.
type Said = Option<Box<Verified<Certificate>>>;

/// What one issuer said last.
///
/// Whole certificates, so that whoever comes with an older one can be shown why it does not count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Newest {
    /// Or the word for a server: of those by which alone a name is found.
    route: Said,
    /// Of those that are each one of several, the newest: they do not end each other.
    several: Said,
    locator: Said,
    /// By which domain it is known outside: apart from where it is inside.
    export: Said,
    /// Statements up to its sequence are withdrawn.
    withdrawal: Said,
}

impl Newest {
    /// Takes over a verified statement, if it is the newest of its kind. Whether it ends what was
    /// learnt before: a renewal says the same again and ends nothing.
    pub(crate) fn take(&mut self, certificate: Verified<&Certificate>) -> bool {
        if self.withdraws(&certificate) {
            return false;
        }
        let is_export = certificate.statement.exports_by().is_some();
        let register = match certificate.statement {
            // By one neighbour of several: it ends nothing, and only a withdrawal ends it.
            _ if is_export && certificate.statement.is_one_of_several() => return false,
            Statement::Route { .. } if is_export => &mut self.export,
            Statement::Route { .. } | Statement::Service { .. } => {
                return self.take_way(certificate);
            }
            Statement::Locator(_) => &mut self.locator,
            Statement::Withdrawal => {
                let Self { route, several, locator, export, .. } = self;
                for register in [route, several, locator, export] {
                    register.take_if(|said| said.sequence <= certificate.sequence);
                }
                self.withdrawal = Some(Box::new(certificate.cloned()));
                return true;
            }
            Statement::Absence { .. } | Statement::Member { .. } | Statement::Removal { .. } => {
                return false;
            }
        };
        if register.as_ref().is_some_and(|said| said.sequence >= certificate.sequence) {
            return false;
        }
        let before = register.replace(Box::new(certificate.cloned()));
        before.is_some_and(|before| before.statement != certificate.statement)
    }

    /// The same of a route or a word for a server, which ends those of the other kind before it.
    fn take_way(&mut self, certificate: Verified<&Certificate>) -> bool {
        let (own, other) = match certificate.statement.is_one_of_several() {
            true => (&mut self.several, &mut self.route),
            false => (&mut self.route, &mut self.several),
        };
        let is_newer = |said: &Certificate| said.sequence >= certificate.sequence;
        if held(own).is_some_and(is_newer) {
            return false;
        }
        let before = own.replace(Box::new(certificate.cloned()));
        let ends_other = held(other).is_some_and(|said| !is_newer(said));
        ends_other || before.is_some_and(|before| outdates(&certificate, &before))
    }

    /// An older word for a server counts again, because the newer one's server is not there.
    /// Whether it did not count before, and is not withdrawn.
    pub(crate) fn step_back(&mut self, older: Verified<&Certificate>) -> bool {
        let may = !self.withdraws(&older)
            && self.route.as_ref().is_some_and(|said| names_other_server(said, &older));
        if may {
            self.route = Some(Box::new(older.cloned()));
        }
        may
    }

    /// The statement that supersedes or withdraws this one.
    pub(crate) fn newer_than(&self, certificate: &Certificate) -> Option<&Certificate> {
        let several = held(&self.several).filter(|_| certificate.statement.is_way());
        let said = [self.said(certificate), several, held(&self.withdrawal)];
        said.into_iter().flatten().find(|said| outdates(said, certificate))
    }

    /// The withdrawal that covers this statement.
    pub(crate) fn withdrawal_of(&self, certificate: &Certificate) -> Option<&Certificate> {
        held(&self.withdrawal).filter(|said| outdates(said, certificate))
    }

    /// The highest sequence of those that are each one of several.
    pub(crate) fn several_to(&self) -> u64 {
        self.several.as_ref().map_or(0, |said| said.sequence)
    }

    /// Whether this very statement, or a newer one, has been taken over.
    pub(crate) fn knows(&self, certificate: &Certificate) -> bool {
        // Of several, one may be new though a later one is known.
        self.withdraws(certificate)
            || !certificate.statement.is_one_of_several()
                && self.said(certificate).is_some_and(|said| said.sequence >= certificate.sequence)
    }

    /// This very statement, if it is one of the last.
    pub(crate) fn same(&self, certificate: &Certificate) -> Option<&Verified<Certificate>> {
        let Self { route, several, locator, export, withdrawal } = self;
        let all = [route, several, locator, export, withdrawal];
        all.into_iter().filter_map(|said| said.as_deref()).find(|said| ***said == *certificate)
    }

    fn said(&self, certificate: &Certificate) -> Option<&Certificate> {
        match certificate.statement {
            _ if certificate.statement.exports_by().is_some() => held(&self.export),
            Statement::Route { .. } | Statement::Service { .. } => held(&self.route),
            Statement::Locator(_) => held(&self.locator),
            _ => None,
        }
    }

    fn withdraws(&self, certificate: &Certificate) -> bool {
        self.withdrawal.as_ref().is_some_and(|said| said.sequence >= certificate.sequence)
    }
}

fn held(said: &Said) -> Option<&Certificate> {
    said.as_deref().map(|said| &**said)
}

/// Whether one issuer has named another server since.
pub(crate) fn names_other_server(newer: &Certificate, older: &Certificate) -> bool {
    match (newer.statement, older.statement) {
        (
            Statement::Service { server, several: false },
            Statement::Service { server: other, several: false },
        ) => server != other && newer.issuer == older.issuer && newer.sequence > older.sequence,
        _ => false,
    }
}

/// Whether a statement ends another one: it withdraws it, or
/// says otherwise of the same kind, no earlier.
pub(crate) fn outdates(newer: &Certificate, older: &Certificate) -> bool {
    let of_one_kind = match (newer.statement, older.statement) {
        (Statement::Withdrawal, _) => true,
        (Statement::Locator(_), Statement::Locator(_)) => newer.statement != older.statement,
        (newer, older) => {
            let both_hand_on = newer.hands_on_to().is_some() && older.hands_on_to().is_some();
            let both_in_or_out = newer.exports_by().is_some() == older.exports_by().is_some();
            let beside = newer.is_one_of_several() && older.is_one_of_several();
            let by_neighbours = both_in_or_out
                && newer.exports_by().is_some()
                && (newer.is_one_of_several() || older.is_one_of_several());
            newer != older && both_hand_on && both_in_or_out && !beside && !by_neighbours
        }
    };
    of_one_kind && newer.issuer == older.issuer && newer.sequence >= older.sequence
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use rhumb_trust::{Identity, Window, verify_statement};
    use rhumb_wire::certificate::Locator;
    use rhumb_wire::{Name, Role, Scope};

    use super::*;

    static ISSUER: LazyLock<Identity> =
        LazyLock::new(|| Identity::generate(Role::Router, 0).unwrap());

    fn says(statement: Statement, sequence: u64) -> Verified<Certificate> {
        let said = ISSUER.certify(statement, sequence, Window::starting(0, 9)).unwrap();
        verify_statement(&said, ISSUER.metadata(), 0).unwrap()
    }

    /// What is said: signatures differ each time.
    fn words(said: Option<&Certificate>) -> Option<(Statement, u64)> {
        said.map(|said| (said.statement, said.sequence))
    }

    fn route(via: u8, sequence: u64) -> Verified<Certificate> {
        says(Statement::Route { via: Name([via; 32]), scope: Scope::Any }, sequence)
    }

    fn export(domain: u8, sequence: u64) -> Verified<Certificate> {
        let scope = Scope::ByDomain { up_to: None };
        says(Statement::Route { via: Name([domain; 32]), scope }, sequence)
    }

    fn locator(sequence: u64) -> Verified<Certificate> {
        let locator = Locator::new("192.0.2.1:9".parse().unwrap()).unwrap();
        says(Statement::Locator(locator), sequence)
    }

    #[test]
    fn a_renewal_ends_nothing_and_a_move_ends_what_is_older() {
        let mut newest = Newest::default();
        assert!(!newest.take(route(1, 5).as_ref()));
        assert!(!newest.take(route(1, 6).as_ref()));
        assert!(newest.newer_than(&route(1, 5)).is_none(), "it says the same");
        assert!(newest.take(route(2, 7).as_ref()));
        assert_eq!(words(newest.newer_than(&route(1, 6))), words(Some(&route(2, 7))));
        assert!(
            newest.newer_than(&route(1, 7)).is_some(),
            "of two of one sequence the first stays"
        );
        assert!(newest.newer_than(&route(1, 8)).is_none());
        assert!(!newest.take(route(1, 6).as_ref()), "nothing older comes back");
        assert!(newest.newer_than(&route(2, 7)).is_none());
        assert!(newest.newer_than(&locator(1)).is_none(), "each kind for itself");
    }

    #[test]
    fn by_which_domain_a_name_is_known_says_nothing_of_where_it_is() {
        let mut newest = Newest::default();
        newest.take(route(1, 5).as_ref());
        assert!(!newest.take(export(8, 6).as_ref()));
        assert!(newest.newer_than(&route(1, 5)).is_none());
        assert!(newest.take(route(2, 7).as_ref()), "it has moved inside");
        assert!(newest.newer_than(&export(8, 6)).is_none());
        assert!(newest.take(export(9, 8).as_ref()), "another domain");
        assert_eq!(words(newest.newer_than(&export(8, 6))), words(Some(&export(9, 8))));
        assert!(newest.take(says(Statement::Withdrawal, 8).as_ref()));
        assert!(newest.newer_than(&export(9, 8)).is_some());
    }

    #[test]
    fn ways_that_are_each_one_of_several_do_not_end_each_other() {
        let by = |via: u8, sequence| {
            says(Statement::Route { via: Name([via; 32]), scope: Scope::Several }, sequence)
        };
        let mut newest = Newest::default();
        assert!(!newest.take(by(1, 5).as_ref()) && !newest.take(by(2, 7).as_ref()));
        assert!(newest.newer_than(&by(1, 5)).is_none());
        assert!(!newest.take(by(3, 6).as_ref()), "it came later, and ends nothing");
        assert!(newest.newer_than(&by(3, 6)).is_none());
        assert_eq!(
            words(newest.newer_than(&route(1, 6))),
            words(Some(&by(2, 7))),
            "not the only one any more"
        );
        assert!(newest.take(route(1, 8).as_ref()), "the only one from now on");
        assert_eq!(words(newest.newer_than(&by(2, 7))), words(Some(&route(1, 8))));
        assert!(newest.take(by(2, 9).as_ref()), "and no more");
        assert!(
            newest.newer_than(&route(1, 8)).is_some() && newest.newer_than(&by(2, 9)).is_none()
        );
        assert!(newest.take(says(Statement::Withdrawal, 9).as_ref()));
        assert!(newest.newer_than(&by(2, 9)).is_some() && newest.newer_than(&by(2, 10)).is_none());
    }

    #[test]
    fn a_withdrawal_covers_its_own_sequence_and_below_of_every_kind() {
        let mut newest = Newest::default();
        newest.take(route(1, 5).as_ref());
        newest.take(locator(6).as_ref());
        assert!(newest.take(says(Statement::Withdrawal, 5).as_ref()));
        let withdrawal = says(Statement::Withdrawal, 5);
        assert_eq!(words(newest.newer_than(&route(1, 5))), words(Some(&withdrawal)));
        assert_eq!(words(newest.withdrawal_of(&route(1, 5))), words(Some(&withdrawal)));
        assert!(newest.newer_than(&locator(6)).or(newest.withdrawal_of(&locator(6))).is_none());
        assert!(!newest.take(says(Statement::Withdrawal, 5).as_ref()), "the same again");
        assert!(!newest.take(route(1, 5).as_ref()));
        assert!(!newest.take(route(3, 6).as_ref()) && newest.newer_than(&route(3, 6)).is_none());
    }
}
