//! Names that an owner publishes under its own, believed or not: as one statement, by the rules of
//! all statements.

use std::collections::BTreeMap;

use aws_lc_rs::rand::SystemRandom;
use rhumb_wire::certificate::SIGNATURE_LEN;
use rhumb_wire::{Metadata, Name, PublishedLabel, PublishedNames};

use crate::verify::{Verified, check_signed, check_times, name_of};
use crate::{Identity, MAX_SERVICE_LIFETIME_S, StatementError, TrustError, Window};

/// The longest that a list of names may last, thirty days: owners sign by hand, as those of
/// capsules do. For as long a directory that kept an older one can show it to who never saw the
/// newer.
pub const MAX_NAMES_LIFETIME_S: u64 = MAX_SERVICE_LIFETIME_S;

impl Identity {
    /// Says what names are called under this one, and that nothing else is.
    ///
    /// # Errors
    /// When these are more than a list holds, or the library cannot sign.
    pub fn publish(
        &self,
        names: BTreeMap<PublishedLabel, Name>,
        sequence: u64,
        window: Window,
    ) -> Result<PublishedNames, TrustError> {
        let mut published = PublishedNames {
            sequence,
            not_before_s: window.not_before_s,
            not_after_s: window.not_after_s,
            owner: self.name(),
            names,
            signature: [0; SIGNATURE_LEN],
        };
        if published.is_too_long() {
            return Err(TrustError::TooManyNames);
        }
        published.signature = self.sign(&SystemRandom::new(), &published.signed_bytes())?;
        Ok(published)
    }

    /// Whether this name's holder signed a list, be it in force or not.
    pub fn has_published(&self, published: &PublishedNames) -> bool {
        published.owner == self.name()
            && check_signed(&published.signed_bytes(), &published.signature, &self.metadata().key)
                .is_ok()
    }
}

/// Whether a list holds at `now_s`, give or take [`CLOCK_SKEW_S`](crate::CLOCK_SKEW_S), and no
/// longer than lists may.
///
/// # Errors
/// When it does not.
pub fn check_names_window(published: &PublishedNames, now_s: u64) -> Result<(), StatementError> {
    let PublishedNames { not_before_s, not_after_s, .. } = *published;
    if not_after_s.saturating_sub(not_before_s) > MAX_NAMES_LIFETIME_S {
        return Err(StatementError::TooLong);
    }
    check_times(not_before_s, not_after_s, now_s)
}

/// Believes a list of names, or says why not.
///
/// # Errors
/// When it does not hold at `now_s`, `owner` are not its owner's metadata, or the signature is not
/// that key's.
pub fn verify_names(
    published: PublishedNames,
    owner: &Metadata,
    now_s: u64,
) -> Result<Verified<PublishedNames>, StatementError> {
    check_names_window(&published, now_s)?;
    if name_of(owner) != published.owner {
        return Err(StatementError::WrongMetadata);
    }
    check_signed(&published.signed_bytes(), &published.signature, &owner.key)?;
    Ok(Verified::vouch(published))
}
