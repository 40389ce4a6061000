//! All tests of this crate whose RIBs keep names in a cluster. They wait for one another, since one
//! cluster runs at a time, so they are a program of their own: elsewhere those that wait would have
//! the places of tests that could run.

// What tests share.
mod attackers;
#[path = "../../rhumb-cql/tests/cassandra/mod.rs"]
#[allow(dead_code, reason = "each program uses its part of it")]
mod cassandra;
mod harness;
mod namespaces;
mod network;

mod rib_cluster;
mod rib_cluster_tls;
mod upgrade;
