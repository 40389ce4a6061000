//! The crate from outside: one program.

mod browser;
mod gather;
mod serve;
