//! Who may say what: keys, names, certificates and their
//! verification. Every trust decision of Rhumb is made here.
//!
//! 1. [`Identity`] holds a private key; its
//!    [`Metadata`](rhumb_wire::Metadata) hashes to its name ([`name_of`]).
//! 2. It certifies [`Statement`](rhumb_wire::Statement)s: who may carry its traffic, where it is.
//! 3. [`verify_chain`] turns certificates into a [`Verified<Chain>`]: the only value that
//!    forwarding accepts, and which nothing but the verifier can make. [`verify_statement`] does
//!    the same for one certificate that stands alone.
//! 4. [`AdCert`] is an owner's word for a server in a form to hand
//!    over, and [`save_key`] writes a key to a file.
//! 5. [`Membership`] is a trust domain's word for a member, [`Delegation`] for its border router
//!    and the domain around it, [`Carriage`] for a neighbour, [`Removal`] takes a member's back,
//!    and [`Access`] says how a service treats whom.
//! 6. [`verify_names`] is [`verify_statement`] for what an owner publishes under its own name.
//! 7. [`log`] is how a RIB's log is hashed, and what its heads and the ways through it prove.
//! 8. [`invitation`] has the code by which somebody joins a network, and the proofs that go with
//!    it.
//! 9. [`comparison`] has the number by which people let somebody join whom nobody has invited.
//! 10. [`x509`] has the certificate by which a handshake proves a name.
//!
//! Attacker bytes are parsed in `rhumb-wire`; this crate
//! meets parsed values only. Time is an argument.

#![forbid(unsafe_code)]

mod access;
mod ad_cert;
mod carriage;
mod chain;
pub mod comparison;
mod delegation;
mod error;
#[cfg(any(fuzzing, test))]
pub mod fuzz;
mod identity;
pub mod invitation;
mod key_file;
mod lifetime;
pub mod log;
mod membership;
mod now;
mod published;
mod removal;
mod removals;
mod verify;
mod words;
pub mod x509;

pub use access::{Access, LABEL, Missing, Rule, Standing, Treatment, Who};
pub use ad_cert::{AdCert, AdCertError};
pub use carriage::Carriage;
pub use chain::{Chain, ChainError, verify_chain, verify_chain_beside};
pub use delegation::{Delegation, DelegationError, Export};
pub use error::TrustError;
pub use identity::{Identity, Window};
pub use key_file::{Passphrase, load_key, save_key};
pub use lifetime::{
    MAX_DELEGATION_LIFETIME_S, MAX_LIFETIME_S, MAX_MEMBERSHIP_LIFETIME_S, MAX_SERVICE_LIFETIME_S,
    lasts_too_long, max_lifetime_s,
};
pub use membership::{MAX_DEPTH, Membership, MembershipError};
pub use now::Now;
pub use published::{MAX_NAMES_LIFETIME_S, check_names_window, verify_names};
pub use removal::{Removal, RemovalError};
pub use removals::{Noted, Removals};
pub use verify::{
    CLOCK_SKEW_S, StatementError, Verified, check_window, fingerprint_of, name_of, verify_statement,
};
