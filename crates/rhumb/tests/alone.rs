//! Tests that look at how long something takes, as somebody outside could: nothing else of
//! the suite runs beside them.

mod exchanging;
mod harness;
mod members;
#[path = "../../rhumb-io/tests/wire/mod.rs"]
mod wire;

mod member_timing;
