//! A test that counts what the whole process holds: nothing else of the suite runs beside it.

mod pair;

mod memory;
