//! Delegations: a trust domain's word for the router at its border, and for the domain around it,
//! by which it is known further out. The domain's key stays off line, so the words are handed over:
//! the router publishes them for the domain. In a file they are text, and public:
//!
//! ```text
//! rhumb-border 1
//! name <52 characters>
//! metadata <hex>
//! certificate <hex>
//! certificate <hex>
//! ```
//!
//! The first certificate is a route, `domain -> router`; the second one, which a domain within no
//! other has not, is an export, `domain -> parent`.
//!
//! INVARIANT: a [`Delegation`] is signed by a domain's key. Whether it holds now, and for whom, is
//! for [`Delegation::check`] to say.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rhumb_wire::{Certificate, Metadata, Name, Role, Scope, Statement};

use crate::verify::check_window;
use crate::words::{self, Fault, MAX_FILE_LEN, Words};
use crate::{Identity, StatementError, TrustError, Window, lasts_too_long};

/// By which domain a name is known outside of it, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Export {
    /// The domain that carries for the name to and from its outside.
    pub domain: Name,
    /// The outermost domain in which the name may be known; `None` for everywhere.
    pub up_to: Option<Name>,
}

impl Export {
    /// What the holder of the name signs.
    pub fn statement(self) -> Statement {
        Statement::Route { via: self.domain, scope: Scope::ByDomain { up_to: self.up_to } }
    }
}

/// A domain's word for its border router and for its parent, and the domain's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation {
    words: Words,
    router: Name,
    parent: Option<Export>,
}

impl Delegation {
    /// Lets `router` stand at the border of `domain`, which is known outside of its parent as
    /// `parent` says, in `window`: beside other routers, or as the `only` one from now on. The
    /// statements take `sequence` and the number after it.
    ///
    /// # Errors
    /// When `domain` is none, the router or the parent is the domain itself, it is for longer than
    /// RIBs take, or the library cannot sign.
    pub fn sign(
        domain: &Identity,
        (router, only): (Name, bool),
        parent: Option<Export>,
        sequence: u64,
        window: Window,
    ) -> Result<Self, DelegationError> {
        let scope = if only { Scope::Any } else { Scope::Several };
        let route = Statement::Route { via: router, scope };
        let statements = [Some(route), parent.map(Export::statement)].into_iter().flatten();
        let certificates: Result<_, TrustError> = statements
            .zip(sequence..)
            .map(|(statement, sequence)| domain.certify(statement, sequence, window))
            .collect();
        let certificates = certificates.map_err(|_| DelegationError::Crypto)?;
        let metadata = (**domain.metadata()).clone();
        Self::new(Words::new(metadata, certificates).map_err(DelegationError::Statement)?)
    }

    fn new(words: Words) -> Result<Self, DelegationError> {
        if words.metadata().role != Role::Domain {
            return Err(DelegationError::NoDomain);
        }
        let statements: Vec<_> = words.certificates().iter().map(|it| it.statement).collect();
        let (router, parent) = match statements[..] {
            [Statement::Route { via, scope: Scope::Any | Scope::Several }] => (via, None),
            [
                Statement::Route { via, scope: Scope::Any | Scope::Several },
                Statement::Route { via: domain, scope: Scope::ByDomain { up_to } },
            ] => (via, Some(Export { domain, up_to })),
            _ => return Err(DelegationError::OtherWords),
        };
        let own = words.certificates()[0].issuer;
        let around = parent.map(|it| [Some(it.domain), it.up_to]).into_iter().flatten().flatten();
        if router == own || around.into_iter().any(|it| it == own) {
            return Err(DelegationError::Itself);
        }
        if words.certificates().iter().any(|it| lasts_too_long(it, Some(Role::Domain))) {
            return Err(DelegationError::TooLong);
        }
        Ok(Self { words, router, parent })
    }

    /// Whose border it is.
    pub fn domain(&self) -> Name {
        self.words.certificates()[0].issuer
    }

    /// The router that stands there.
    pub fn router(&self) -> Name {
        self.router
    }

    /// By which domain this one is known further out, and how far.
    pub fn parent(&self) -> Option<Export> {
        self.parent
    }

    /// What the domain's name is the hash of.
    pub fn metadata(&self) -> &Arc<Metadata> {
        self.words.metadata()
    }

    /// What the domain signed: for the router, and then for the parent, if there is one.
    pub fn certificates(&self) -> &[Certificate] {
        self.words.certificates()
    }

    /// The last second in which all of it holds.
    pub fn not_after_s(&self) -> u64 {
        self.certificates().iter().map(|it| it.not_after_s).min().unwrap_or(0)
    }

    /// Whether `router` may stand at the border by it at `now_s`, give or take
    /// [`CLOCK_SKEW_S`](crate::CLOCK_SKEW_S).
    ///
    /// # Errors
    /// When it is for another router, or does not hold at that time.
    pub fn check(&self, router: Name, now_s: u64) -> Result<(), DelegationError> {
        if router != self.router {
            let (domain, named) = (self.domain(), self.router);
            return Err(DelegationError::OtherRouter { domain, named, actual: router });
        }
        let mut certificates = self.certificates().iter();
        certificates.try_for_each(|it| check_window(it, now_s)).map_err(DelegationError::Statement)
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
        Self::new(Words::from_text(text, MAGIC, MOST_CERTIFICATES)?)
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
    /// When it cannot be read, and as [`Delegation::from_text`].
    pub fn load(path: &Path) -> Result<Self, DelegationError> {
        let io_error = |source| DelegationError::File { path: path.to_owned(), source };
        let text = words::read(path, MAX_FILE_LEN).map_err(io_error)?;
        Self::from_text(&text.ok_or(DelegationError::Malformed { line: 1 })?)
    }
}

impl From<Fault> for DelegationError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Line(line) => Self::Malformed { line },
            Fault::Statement(error) => Self::Statement(error),
        }
    }
}

/// Why a delegation cannot be had, or does not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DelegationError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is none, or it is damaged.
    #[error("line {line} is not that of a border file")]
    Malformed {
        /// The first line that is wrong or missing, counted from 1.
        line: usize,
    },
    /// The cryptographic library refused to sign.
    #[error("the cryptographic library failed")]
    Crypto,
    /// Its issuer is no trust domain.
    #[error("the issuer is no domain: its key was made for another role")]
    NoDomain,
    /// The certificates say something else than a delegation does.
    #[error("a delegation names a router, and then the domain around, if there is one")]
    OtherWords,
    /// The domain names itself.
    #[error("a domain is neither its own border router nor around itself")]
    Itself,
    /// It lasts for longer than RIBs take.
    #[error("a delegation lasts 30 days at most")]
    TooLong,
    /// It lets another router stand at the border.
    #[error("this delegation of {domain} is for the router {named}, not for {actual}")]
    OtherRouter {
        /// Whose border.
        domain: Name,
        /// Who may stand there.
        named: Name,
        /// Who wanted to.
        actual: Name,
    },
    /// It does not hold, or is not its domain's.
    #[error("this delegation does not hold: {0}")]
    Statement(StatementError),
}

const MAGIC: &str = "rhumb-border 1";
/// For the router, and for the parent.
const MOST_CERTIFICATES: usize = 2;
