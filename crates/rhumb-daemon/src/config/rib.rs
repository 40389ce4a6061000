//! Where a RIB has its store, what it may take of disk and memory, and how much of that strangers
//! may.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use rhumb_cql::{Credentials, TrustAnchors};
use toml::Spanned;

use super::{ConfigFile, DEFAULT_STORE};
use crate::cli::RibArguments;
use crate::failure::{Failure, Outcome};
use crate::secret_file;
use crate::store::{StoreAt, parse_store};

/// How a cluster is spoken to.
#[derive(Debug)]
pub struct ClusterSettings {
    /// As whom, if the cluster asks for that.
    pub credentials: Option<Credentials>,
    /// Who signs the certificates of its nodes; they are spoken to in plain text where nobody does.
    pub trust_anchors: Option<TrustAnchors>,
    /// Whose nodes have to agree; those of all where there is none.
    pub data_centre: Option<String>,
    /// At how many nodes each row is to be, if tables that are missing are to be made.
    pub create_schema: Option<u8>,
}

/// What a RIB may take.
#[derive(Debug, Clone, Copy)]
pub struct RibLimits {
    disk_mib: u64,
    memory_mib: u64,
    strangers_percent: u8,
    keeps_log: bool,
}

impl RibLimits {
    /// The bounds of the directory.
    pub fn config(&self) -> rhumb_rib::Config {
        let (disk, memory) = (self.disk_mib << 20, self.memory_mib << 20);
        let mut config = rhumb_rib::Config::sized(disk, memory, self.strangers_percent);
        config.keeps_log = self.keeps_log;
        config
    }

    /// Bytes of memory for the pages of a store in a file.
    pub fn page_bytes(&self) -> usize {
        rhumb_rib::Config::page_bytes(self.memory_mib << 20)
    }
}

impl ConfigFile {
    pub(super) fn store(&self, flags: &RibArguments) -> Outcome<StoreAt> {
        let store = match flags.store.clone() {
            Some(store) => Some(store),
            None => self.parsed(self.raw.rib.store.as_ref(), parse_store)?,
        };
        Ok(store.unwrap_or_else(|| StoreAt::File(PathBuf::from(DEFAULT_STORE))))
    }

    pub(super) fn cluster(&self, flags: &RibArguments) -> Outcome<ClusterSettings> {
        let raw = &self.raw.rib;
        let is_cluster = matches!(self.store(flags)?, StoreAt::Cluster(_));
        let (file, centre) = (raw.store_credentials.as_ref(), raw.store_data_centre.clone());
        let is_told = file.is_some() || raw.store_ca.is_some() || centre.is_some();
        if !is_cluster && (is_told || flags.create_schema.is_some()) {
            return Err(Failure::setup_text(
                "a store in a file has neither tables to make, nor credentials, nor certificates, \
                 nor a data centre; name a cluster with --store cql://HOST/KEYSPACE",
            ));
        }
        let read = |path: &PathBuf| {
            let text = secret_file::read(path, "an editor: one line, USER:PASSWORD")?;
            Credentials::parse(&text).ok_or_else(|| {
                let path = path.display();
                Failure::setup_text(format!("{path}: write one line in it, USER:PASSWORD"))
            })
        };
        Ok(ClusterSettings {
            credentials: file.map(read).transpose()?,
            trust_anchors: raw.store_ca.as_deref().map(trust_anchors).transpose()?,
            data_centre: centre,
            create_schema: flags.create_schema,
        })
    }

    pub(super) fn rib_limits(&self, flags: &RibArguments) -> Outcome<RibLimits> {
        let raw = &self.raw.rib;
        let is_file = matches!(self.store(flags)?, StoreAt::File(_));
        if raw.log == Some(true) && !is_file {
            return Err(Failure::setup_text(
                "a log is of a store that one RIB writes; take `log = true` out of [rib], or keep \
                 names in a file",
            ));
        }
        let within =
            |name: &str, value: Option<&Spanned<u64>>, default: u64, from: u64, to: u64| {
                let value = value.map_or(default, |value| *value.get_ref());
                match (from..=to).contains(&value) {
                    true => Ok(value),
                    false => Err(Failure::setup_text(format!(
                        "[rib] {name} = {value}: give {from} to {to}"
                    ))),
                }
            };
        let percent = raw.strangers_percent.as_ref();
        Ok(RibLimits {
            disk_mib: within("disk_mib", raw.disk_mib.as_ref(), DISK_MIB, 16, 1 << 24)?,
            memory_mib: within("memory_mib", raw.memory_mib.as_ref(), MEMORY_MIB, 128, 1 << 20)?,
            strangers_percent: within("strangers_percent", percent, STRANGERS_PERCENT, 0, 100)?
                as u8,
            keeps_log: raw.log.unwrap_or(is_file),
        })
    }
}

fn trust_anchors(path: &Path) -> Outcome<TrustAnchors> {
    let refused = |error: &dyn Display| {
        Failure::setup_text(format!("store_ca, file {}: {error}", path.display()))
    };
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_CA_LEN).read_to_end(&mut text));
    match read.map_err(|error| refused(&error))? as u64 {
        MAX_CA_LEN => Err(refused(&"longer than any of its kind")),
        _ => TrustAnchors::parse(&text).map_err(|error| refused(&error)),
    }
}

/// Thousands of certificates.
const MAX_CA_LEN: u64 = 4 << 20;
/// A million names take 750 MB.
const DISK_MIB: u64 = 1024;
/// Half a million subscriptions, records of 330,000 names, and the pages of the store.
const MEMORY_MIB: u64 = 512;
/// Half: who is admitted finds as much again, whatever strangers do.
const STRANGERS_PERCENT: u64 = 50;
