//! The tests of this crate once more, over a store that is elsewhere: whatever a directory does, it
//! does the same when it has to wait for what it needs. Left out are those that are about another
//! store, or about what is swept, which such a store does itself.

#[path = "world/mod.rs"]
mod world;

/// What directories are over, unless a test says otherwise.
type Usual = world::later::Later<rhumb_rib::store::Memory>;

const ELSEWHERE: bool = true;

fn usual(memory: rhumb_rib::store::Memory) -> Usual {
    Usual::new(memory)
}

mod absence;
mod access;
mod exports;
mod forged;
mod limits;
mod look_up;
mod model;
mod published;
mod quota;
mod removal;
mod sequence;
mod server;
mod several;
mod standing_by;
mod strangers;
