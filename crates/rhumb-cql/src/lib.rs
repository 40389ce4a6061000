//! The store of a RIB over a cluster that speaks CQL: Apache Cassandra, ScyllaDB (decision 0093).
//!
//! Any number of RIB servers work on one cluster, and none holds anything that another lacks. Each
//! register of an entry is a cell whose timestamp is made from the sequence of its statement
//! ([`rhumb_rib::cells`]), so servers write at once and without locks, and the newest statement is
//! in force in the end. All reads and writes are those of a quorum: what was acknowledged is seen
//! by whoever asks next, through any server, while more than half of the replicas are up.
//!
//! | module | what it holds |
//! |---|---|
//! | [`Cluster`] | the handle: read, commit, count, page through |
//! | [`Feed`] | what other servers have changed |
//! | [`CqlAddress`], [`Credentials`] | where the cluster is, and as whom to speak to it |
//! | [`TrustAnchors`], [`TlsFault`] | whom to believe of its nodes, and why one is not believed |
//! | `greeting` | which nodes answer, before the driver speaks to any |
//! | `schema` | the tables, made and checked |
//! | `clocks` | whether the nodes agree what time it is |
//! | [`Counts`] | what happened, for metrics |

#![forbid(unsafe_code)]

mod accounts;
mod address;
mod changes;
mod clocks;
mod cluster;
mod counted;
mod entries;
mod failure;
mod feed;
mod greeting;
mod metrics;
mod removals;
mod rows;
mod schema;
mod statements;
mod tls;

pub use address::{CqlAddress, CqlAddressError, Credentials};
pub use cluster::{Cluster, Options};
pub use feed::{Feed, Heard};
pub use metrics::{Counts, Kind};
pub use schema::Replication;
pub use tls::{TlsFault, TrustAnchors, TrustAnchorsError};
