//! Chains of routes: A lets R1 carry, R1 lets R2 carry, and so on,
//! perhaps to an address (GDP paper, section 3.1).
//!
//! A chain begins at its origin and each certificate is issued by whom the one before
//! named. It is read both ways: as evidence that a PDU from the origin may come from its
//! last router, and as the path along which PDUs reach the origin. A locator alone is the
//! path to a router itself, and evidence of nothing.
//!
//! The checks go from cheap to dear: structure, windows,
//! whether all keys are at hand, and signatures last.

use rhumb_wire::certificate::{Locator, MAX_CHAIN};
use rhumb_wire::{Certificate, Name, PublicKey, Scope, Statement};

use crate::verify::{StatementError, Verified, check_signature, check_window};

/// Certificates that lead from an origin outward. Only [`verify_chain`] makes a verified one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    certificates: Vec<Certificate>,
    scope: Scope,
    not_after_s: u64,
}

impl Chain {
    /// Whose traffic may be carried.
    pub fn origin(&self) -> Name {
        self.certificates[0].issuer
    }

    /// The routers that may carry, nearest to the origin first.
    pub fn routers(&self) -> impl DoubleEndedIterator<Item = Name> {
        self.certificates.iter().filter_map(|certificate| match certificate.statement {
            Statement::Route { via, .. } => Some(via),
            _ => None,
        })
    }

    /// Who answers for the origin, when it is not the origin itself.
    pub fn server(&self) -> Option<Name> {
        match self.certificates[0].statement {
            Statement::Service { server, .. } => Some(server),
            _ => None,
        }
    }

    /// Who is attached to the first router of the chain: the server, or the origin itself.
    pub fn holder(&self) -> Name {
        self.server().unwrap_or(self.origin())
    }

    /// The router furthest from the origin.
    pub fn last_router(&self) -> Option<Name> {
        self.routers().next_back()
    }

    /// Who named `router` in this chain: the next hop from `router` towards the origin.
    pub fn toward_origin(&self, router: Name) -> Option<Name> {
        self.certificates.iter().find_map(|certificate| match certificate.statement {
            Statement::Route { via, .. } if via == router => Some(certificate.issuer),
            _ => None,
        })
    }

    /// Where the end of the chain is, when it ends in an address.
    pub fn locator(&self) -> Option<Locator> {
        match self.certificates.last()?.statement {
            Statement::Locator(locator) => Some(locator),
            _ => None,
        }
    }

    /// Whether traffic between the origin and `peer` is within the scope of every certificate.
    pub fn permits(&self, peer: Name) -> bool {
        match self.scope {
            Scope::Any | Scope::Several => true,
            Scope::Destination(destination) => destination == peer,
            // How far outside is for who is there to judge: `bounds`.
            Scope::ByDomain { .. } | Scope::ByNeighbour { .. } => true,
        }
    }

    /// The domains in each of which the chain may be known and used: by exports that go no further.
    pub fn bounds(&self) -> impl Iterator<Item = Name> {
        self.certificates.iter().filter_map(|certificate| match certificate.statement {
            Statement::Route {
                scope: Scope::ByDomain { up_to } | Scope::ByNeighbour { up_to },
                ..
            } => up_to,
            _ => None,
        })
    }

    /// How many certificates at the chain's beginning may show
    /// outside of a domain: exports, and a service before them.
    pub fn exported_len(&self) -> usize {
        let is_export = |it: &Certificate| it.statement.exports_by().is_some();
        match self.certificates.iter().rposition(is_export) {
            Some(last) => last + 1,
            None => 0,
        }
    }

    /// The narrowest scope in the chain.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The last second in which every certificate holds.
    pub fn not_after_s(&self) -> u64 {
        self.not_after_s
    }

    /// The certificates, from the origin outward.
    pub fn certificates(&self) -> &[Certificate] {
        &self.certificates
    }
}

impl Verified<Chain> {
    /// As [`Chain::certificates`], each of which is verified.
    pub fn statements(&self) -> impl Iterator<Item = Verified<&Certificate>> {
        self.certificates.iter().map(Verified::vouch)
    }

    /// The first of them: the origin's.
    pub fn first(&self) -> Verified<&Certificate> {
        Verified::vouch(&self.certificates[0])
    }
}

/// Why a chain is not believed. `at` counts certificates from the origin, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainError {
    /// There is no certificate.
    #[error("the chain is empty")]
    Empty,
    /// There are more certificates than [`MAX_CHAIN`].
    #[error("the chain has {len} certificates, more than {MAX_CHAIN}")]
    TooLong {
        /// How many there are.
        len: usize,
    },
    /// The first certificate is not issued by the origin.
    #[error("the first certificate is not issued by the origin")]
    WrongOrigin {
        /// Who issued it.
        issuer: Name,
    },
    /// A certificate is not issued by whom the one before named.
    #[error("certificate {} is not issued by whom the one before names", .at + 1)]
    Broken {
        /// Which one.
        at: usize,
    },
    /// A name occurs twice.
    #[error("certificate {} leads back into the chain", .at + 1)]
    Loop {
        /// Where it occurs again.
        at: usize,
    },
    /// A statement that grants no right to carry, or an address before the end.
    #[error("certificate {} grants no right to carry", .at + 1)]
    NotARoute {
        /// Which one.
        at: usize,
    },
    /// A name is exported behind a router that is inside.
    #[error("certificate {} exports what one before it shows the inside of", .at + 1)]
    InsideShown {
        /// Which one.
        at: usize,
    },
    /// Two certificates are for different destinations, so together they permit nothing.
    #[error("certificate {} is for another destination than one before it", .at + 1)]
    ScopesExclude {
        /// The second of them.
        at: usize,
    },
    /// The key of an issuer is not known yet.
    #[error("the metadata of an issuer are not known")]
    UnknownIssuer {
        /// Whose.
        name: Name,
    },
    /// A certificate does not hold or is not the issuer's.
    #[error("certificate {}: {error}", .at + 1)]
    Statement {
        /// Which one.
        at: usize,
        /// Why.
        error: StatementError,
    },
}

/// Believes a chain that begins at `origin`, or says why not. `key_of`
/// gives the keys of names whose metadata are known.
///
/// # Errors
/// Every way in which a chain fails is its own [`ChainError`].
pub fn verify_chain(
    origin: Name,
    certificates: Vec<Certificate>,
    key_of: impl Fn(&Name) -> Option<PublicKey>,
    now_s: u64,
) -> Result<Verified<Chain>, ChainError> {
    verify_chain_beside(origin, certificates, &[], key_of, now_s)
}

/// As [`verify_chain`], beside statements that were verified before: the signature of a certificate
/// that is one of these, to the last bit, is not checked again. Routers stand in the chains of all
/// that is behind them.
///
/// # Errors
/// As there.
pub fn verify_chain_beside(
    origin: Name,
    certificates: Vec<Certificate>,
    believed: &[Verified<Certificate>],
    key_of: impl Fn(&Name) -> Option<PublicKey>,
    now_s: u64,
) -> Result<Verified<Chain>, ChainError> {
    let scope = check_structure(origin, &certificates)?;
    for (at, certificate) in certificates.iter().enumerate() {
        check_window(certificate, now_s).map_err(|error| ChainError::Statement { at, error })?;
    }
    let keys: Vec<PublicKey> = certificates
        .iter()
        .map(|c| key_of(&c.issuer).ok_or(ChainError::UnknownIssuer { name: c.issuer }))
        .collect::<Result<_, _>>()?;
    for (at, (certificate, key)) in certificates.iter().zip(&keys).enumerate() {
        if believed.iter().any(|it| **it == *certificate) {
            continue;
        }
        check_signature(certificate, key).map_err(|error| ChainError::Statement { at, error })?;
    }
    let not_after_s = certificates.iter().map(|c| c.not_after_s).min().ok_or(ChainError::Empty)?;
    Ok(Verified::vouch(Chain { certificates, scope, not_after_s }))
}

/// The order of delegation; returns the narrowest scope.
fn check_structure(origin: Name, certificates: &[Certificate]) -> Result<Scope, ChainError> {
    let first = certificates.first().ok_or(ChainError::Empty)?;
    if certificates.len() > MAX_CHAIN {
        return Err(ChainError::TooLong { len: certificates.len() });
    }
    if first.issuer != origin {
        return Err(ChainError::WrongOrigin { issuer: first.issuer });
    }
    let mut narrowest = Scope::Any;
    let mut is_inside = false;
    let mut expected = origin;
    for (at, certificate) in certificates.iter().enumerate() {
        if certificate.issuer != expected {
            return Err(ChainError::Broken { at });
        }
        // Who serves without saying who carries for it is nowhere to be found.
        let follows_service = at == 1 && matches!(first.statement, Statement::Service { .. });
        let next = match certificate.statement {
            Statement::Route { via, .. } => via,
            // A service begins a chain and grants nothing by itself: the server says who carries.
            Statement::Service { server, .. } if at == 0 && certificates.len() > 1 => server,
            Statement::Locator(_) if at + 1 == certificates.len() && !follows_service => continue,
            _ => return Err(ChainError::NotARoute { at }),
        };
        // Eight at most, so comparing all pairs is cheaper than a set.
        if certificates[..=at].iter().any(|earlier| earlier.issuer == next) {
            return Err(ChainError::Loop { at });
        }
        let is_export = certificate.statement.exports_by().is_some();
        let is_route = matches!(certificate.statement, Statement::Route { .. });
        if is_export && is_inside {
            return Err(ChainError::InsideShown { at });
        }
        is_inside |= is_route && !is_export;
        narrowest = match (narrowest, certificate.statement.scope()) {
            (
                narrow,
                Scope::Any | Scope::ByDomain { .. } | Scope::ByNeighbour { .. } | Scope::Several,
            ) => narrow,
            (Scope::Any, scope) => scope,
            (a, b) if a == b => a,
            _ => return Err(ChainError::ScopesExclude { at }),
        };
        expected = next;
    }
    Ok(narrowest)
}
