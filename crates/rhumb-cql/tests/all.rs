//! The store in a cluster of three real nodes, whatever happens to them; and beside it the stores
//! of one machine, which must do the same.

mod cassandra;
mod changes;
mod faults;
#[path = "../../rhumb/tests/namespaces/mod.rs"]
mod namespaces;
mod partitions;
mod races;
mod schema;
mod suite;
mod tls;
mod world;
