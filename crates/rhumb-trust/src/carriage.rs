//! A trust domain's word for a neighbour that may carry for it, in a form to hand over: the
//! domain's key stays off line, so its RIB is given the word and shows it to that neighbour alone.
//! In a file it is text, and public:
//!
//! ```text
//! rhumb-carriage 1
//! name <52 characters>
//! metadata <hex>
//! certificate <hex>
//! ```
//!
//! INVARIANT: a [`Carriage`] is signed by a domain's key, for another domain. Whether it holds now,
//! and is the one that is wanted, is for [`Carriage::check`] to say.

use std::path::Path;

use rhumb_wire::{Certificate, Name, Role, Scope, Statement};

use crate::verify::check_window;
use crate::words::{self, MAX_FILE_LEN, Words};
use crate::{DelegationError, Identity, TrustError, Window, lasts_too_long};

/// A domain's word that a neighbour may carry for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carriage {
    words: Words,
    neighbour: Name,
    up_to: Option<Name>,
}

impl Carriage {
    /// Lets `neighbour` carry for `domain` in `window`: between it and everybody, or those within
    /// `up_to` alone.
    ///
    /// # Errors
    /// When `domain` is none or names itself, it is for longer than a domain's word lasts, or the
    /// library cannot sign.
    pub fn sign(
        domain: &Identity,
        neighbour: Name,
        up_to: Option<Name>,
        sequence: u64,
        window: Window,
    ) -> Result<Self, DelegationError> {
        let statement = Statement::Route { via: neighbour, scope: Scope::ByNeighbour { up_to } };
        let signed: Result<Certificate, TrustError> = domain.certify(statement, sequence, window);
        let certificate = signed.map_err(|_| DelegationError::Crypto)?;
        let metadata = (**domain.metadata()).clone();
        let words = Words::new(metadata, vec![certificate]);
        Self::new(words.map_err(DelegationError::Statement)?)
    }

    fn new(words: Words) -> Result<Self, DelegationError> {
        if words.metadata().role != Role::Domain {
            return Err(DelegationError::NoDomain);
        }
        let [certificate] = words.certificates() else { return Err(DelegationError::OtherWords) };
        let Statement::Route { via, scope: Scope::ByNeighbour { up_to } } = certificate.statement
        else {
            return Err(DelegationError::OtherWords);
        };
        if via == certificate.issuer || up_to == Some(certificate.issuer) {
            return Err(DelegationError::Itself);
        }
        if lasts_too_long(certificate, Some(Role::Domain)) {
            return Err(DelegationError::TooLong);
        }
        Ok(Self { neighbour: via, up_to, words })
    }

    /// Who lets carry.
    pub fn domain(&self) -> Name {
        self.certificate().issuer
    }

    /// Who may.
    pub fn neighbour(&self) -> Name {
        self.neighbour
    }

    /// The outermost domain in which it may be shown; `None` for everywhere.
    pub fn up_to(&self) -> Option<Name> {
        self.up_to
    }

    /// What the domain signed.
    pub fn certificate(&self) -> &Certificate {
        &self.words.certificates()[0]
    }

    /// Whether it holds at `now_s`, give or take [`CLOCK_SKEW_S`](crate::CLOCK_SKEW_S).
    ///
    /// # Errors
    /// When it does not.
    pub fn check(&self, now_s: u64) -> Result<(), DelegationError> {
        check_window(self.certificate(), now_s).map_err(DelegationError::Statement)
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        self.words.to_text(MAGIC)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// When it is none, or what it says is not signed by whom it says.
    pub fn from_text(text: &str) -> Result<Self, DelegationError> {
        Self::new(Words::from_text(text, MAGIC, 1)?)
    }

    /// Writes a new file, durably.
    ///
    /// # Errors
    /// When the file exists or cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), DelegationError> {
        let io_error = |source| DelegationError::File { path: path.to_owned(), source };
        words::write_new(path, &self.to_text()).map_err(io_error)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, and as [`Carriage::from_text`].
    pub fn load(path: &Path) -> Result<Self, DelegationError> {
        let io_error = |source| DelegationError::File { path: path.to_owned(), source };
        let text = words::read(path, MAX_FILE_LEN).map_err(io_error)?;
        Self::from_text(&text.ok_or(DelegationError::Malformed { line: 1 })?)
    }
}

const MAGIC: &str = "rhumb-carriage 1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_carriage_is_read_back_and_is_a_domains_word_for_another_one_alone() {
        let domain = Identity::generate(Role::Domain, 1).unwrap();
        let window = Window::starting(1000, 600);
        let other = Name([7; 32]);
        for up_to in [None, Some(other)] {
            let signed = Carriage::sign(&domain, other, up_to, 5, window).unwrap();
            assert_eq!((signed.neighbour(), signed.up_to()), (other, up_to));
            assert_eq!(Carriage::from_text(&signed.to_text()).unwrap(), signed);
            assert!(signed.check(1300).is_ok() && signed.check(2000).is_err());
            let at = signed.to_text().len() - 3;
            let mut text = signed.to_text();
            let flipped = if &text[at..=at] == "0" { "1" } else { "0" };
            text.replace_range(at..=at, flipped);
            assert!(Carriage::from_text(&text).is_err());
        }
        let sign = |by: &Identity, to, days: u64| {
            Carriage::sign(by, to, None, 5, Window::starting(1000, days * 86_400))
        };
        let node = Identity::generate(Role::Node, 1).unwrap();
        assert!(matches!(sign(&node, other, 1), Err(DelegationError::NoDomain)));
        assert!(matches!(sign(&domain, domain.name(), 1), Err(DelegationError::Itself)));
        assert!(matches!(sign(&domain, other, 31), Err(DelegationError::TooLong)));
        let border = crate::Delegation::sign(&domain, (other, false), None, 5, window).unwrap();
        let error = Carriage::from_text(&border.to_text());
        assert!(matches!(error, Err(DelegationError::Malformed { line: 1 })));
    }
}
