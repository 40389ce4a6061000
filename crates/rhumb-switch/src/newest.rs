//! What one issuer said last, by which older statements are known for what they are.
//!
//! Whatever was learnt from an older statement is not searched for when a newer one comes: each chain is checked against
//! these registers when it is used, eight look-ups at most. So a change costs the same however many chains it ends.
//!
//! INVARIANT: nothing enters that was not verified. The table of them is bounded; what it had to forget can come back only
//! until its certificate ends. They do not expire: what a withdrawal covers may hold for longer than the withdrawal.

use rhumb_wire::{Certificate, Statement};

/// What one issuer said last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Newest {
    /// Or the word for a server: a name is found through one of them at a time.
    route: Option<Said>,
    locator: Option<Said>,
    /// Statements up to this sequence are withdrawn.
    withdrawn_to: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Said {
    sequence: u64,
    statement: Statement,
}

impl Newest {
    /// Takes over a verified statement, if it is the newest of its kind. Whether it ends what was learnt before: a
    /// renewal says the same again and ends nothing.
    pub(crate) fn take(&mut self, certificate: &Certificate) -> bool {
        if self.withdraws(certificate) {
            return false;
        }
        let sequence = certificate.sequence;
        let register = match certificate.statement {
            Statement::Route { .. } | Statement::Service { .. } => &mut self.route,
            Statement::Locator(_) => &mut self.locator,
            Statement::Withdrawal => {
                self.withdrawn_to = Some(sequence);
                for register in [&mut self.route, &mut self.locator] {
                    register.take_if(|said| said.sequence <= sequence);
                }
                return true;
            }
            Statement::Absence { .. } => return false,
        };
        if register.is_some_and(|said| said.sequence >= sequence) {
            return false;
        }
        let statement = certificate.statement;
        let before = register.replace(Said { sequence, statement });
        before.is_some_and(|before| before.statement != statement)
    }

    /// Whether a newer statement says otherwise, or withdraws this one.
    pub(crate) fn supersedes(&self, certificate: &Certificate) -> bool {
        self.withdraws(certificate)
            || self.said(certificate).is_some_and(|said| {
                said.sequence >= certificate.sequence && said.statement != certificate.statement
            })
    }

    /// Whether this very statement, or a newer one, has been taken over.
    pub(crate) fn knows(&self, certificate: &Certificate) -> bool {
        self.withdraws(certificate)
            || self.said(certificate).is_some_and(|said| said.sequence >= certificate.sequence)
    }

    /// Whether the issuer has withdrawn this statement.
    pub(crate) fn withdraws(&self, certificate: &Certificate) -> bool {
        self.withdrawn_to.is_some_and(|to| to >= certificate.sequence)
    }

    fn said(&self, certificate: &Certificate) -> Option<Said> {
        match certificate.statement {
            Statement::Route { .. } | Statement::Service { .. } => self.route,
            Statement::Locator(_) => self.locator,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::Name;
    use rhumb_wire::Scope;
    use rhumb_wire::certificate::{Locator, SIGNATURE_LEN};

    fn says(statement: Statement, sequence: u64) -> Certificate {
        let signature = [0; SIGNATURE_LEN];
        let issuer = Name([7; 32]);
        Certificate { sequence, not_before_s: 0, not_after_s: 9, issuer, statement, signature }
    }

    fn route(via: u8, sequence: u64) -> Certificate {
        says(Statement::Route { via: Name([via; 32]), scope: Scope::Any }, sequence)
    }

    fn locator(sequence: u64) -> Certificate {
        let locator = Locator::new("192.0.2.1:9".parse().unwrap()).unwrap();
        says(Statement::Locator(locator), sequence)
    }

    #[test]
    fn a_renewal_ends_nothing_and_a_move_ends_what_is_older() {
        let mut newest = Newest::default();
        assert!(!newest.take(&route(1, 5)));
        assert!(!newest.take(&route(1, 6)));
        assert!(!newest.supersedes(&route(1, 5)), "it says the same");
        assert!(newest.take(&route(2, 7)));
        assert!(newest.supersedes(&route(1, 6)));
        assert!(newest.supersedes(&route(1, 7)), "of two of one sequence the first stays");
        assert!(!newest.supersedes(&route(1, 8)));
        assert!(!newest.take(&route(1, 6)), "nothing older comes back");
        assert!(!newest.supersedes(&route(2, 7)));
        assert!(!newest.supersedes(&locator(1)), "each kind for itself");
    }

    #[test]
    fn a_withdrawal_covers_its_own_sequence_and_below_of_every_kind() {
        let mut newest = Newest::default();
        newest.take(&route(1, 5));
        newest.take(&locator(6));
        assert!(newest.take(&says(Statement::Withdrawal, 5)));
        assert!(newest.supersedes(&route(1, 5)) && newest.withdraws(&route(1, 5)));
        assert!(!newest.supersedes(&locator(6)) && !newest.withdraws(&locator(6)));
        assert!(!newest.take(&says(Statement::Withdrawal, 5)), "the same again");
        assert!(!newest.take(&route(1, 5)));
        assert!(!newest.take(&route(3, 6)) && !newest.supersedes(&route(3, 6)));
    }
}
