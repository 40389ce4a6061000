//! All tests of this crate that see it from outside, as one program: it is linked once, and its
//! files run side by side.

// What tests share.
mod mrt;
mod pair;
mod peer;

mod bird;
mod exabgp;
mod frr;
mod gobgp;
mod openbgpd;
mod policy;
mod replay;
mod rfc7606;
mod routes;
mod sequences;
mod session;
mod states;
