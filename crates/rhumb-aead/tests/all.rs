//! Tests of the crate from outside.

mod beside_the_library;
