//! The store in a cluster of three real nodes, whatever happens to them; and beside it the stores
//! of one machine, which must do the same.

mod cassandra;
mod changes;
mod faults;
mod races;
mod schema;
mod suite;
mod world;
