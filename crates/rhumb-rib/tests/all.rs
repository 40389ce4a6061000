//! All tests of this crate that see it from outside, as one program: it is linked once, and its
//! files run side by side.

// What tests share.
mod world;

/// What directories are over, unless a test says otherwise: a store that answers at once.
type Usual = rhumb_rib::store::Memory;

/// Whether it is not, and sweeps itself.
const ELSEWHERE: bool = false;

fn usual(memory: rhumb_rib::store::Memory) -> Usual {
    memory
}

mod absence;
mod access;
mod awaited;
mod backup;
mod beyond;
mod change;
mod deferred;
mod durability;
mod exchange;
mod expiry;
mod exports;
mod file;
mod floods;
mod forged;
mod limits;
mod look_up;
mod model;
mod neighbours;
mod pass_up;
mod published;
mod quota;
mod reach;
mod removal;
mod sequence;
mod server;
mod several;
mod standing_by;
mod strangers;
