//! Where the names of a RIB are stored, as options and settings say it.

use std::path::PathBuf;

use rhumb_cql::CqlAddress;

/// Where the names of a RIB are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreAt {
    /// In a file of its own.
    File(PathBuf),
    /// In a cluster, which other RIBs may use, too.
    Cluster(CqlAddress),
}

/// Reads where a store is: what does not begin as an address of a cluster is a file.
///
/// # Errors
/// When it begins so and is none.
pub(crate) fn parse_store(text: &str) -> Result<StoreAt, String> {
    match text.starts_with("cql:") {
        true => text.parse().map(StoreAt::Cluster).map_err(|error| format!("{error}")),
        false => Ok(StoreAt::File(PathBuf::from(text))),
    }
}
