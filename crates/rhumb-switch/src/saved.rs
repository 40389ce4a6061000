//! Routes that outlive the process: what a switch learnt, as the bytes of a file.
//!
//! | size | field |
//! |---|---|
//! | 4 | `RHRS` |
//! | 1 | version: 3; 2 has no removals, 1 has no levels, either |
//! | 4 | number of metadata |
//! | 4 | number of chains |
//! | .. | per metadata: length (2 bytes), encoding |
//! | .. | per chain: level (1 byte), length (2 bytes), certificate list |
//! | 4 | number of removals |
//! | .. | per removal: length (2 bytes), metadata list and certificate list |
//!
//! INVARIANT: nothing that is read back is believed before it is verified again, as if a RIB had
//! said it: routes when there is time, removals at once, since nobody they are about is to get in.

use std::collections::HashMap;
use std::sync::Arc;

use rhumb_trust::{Chain, Now, Removal, Verified};
use rhumb_wire::{Certificate, Metadata, Name};

use crate::Switch;
use crate::job::{Heard, Job, Task};

/// Routes to keep, or routes that were kept.
#[derive(Debug, Clone, Default)]
pub struct SavedRoutes {
    metadata: Vec<Arc<Metadata>>,
    chains: Vec<SavedChain>,
    removals: Vec<Removal>,
}

#[derive(Debug, Clone)]
struct SavedChain {
    kept: Kept,
    /// How many domains further out it was found.
    level: u8,
}

#[derive(Debug, Clone)]
enum Kept {
    /// Shared with the table it is saved from, so that saving costs the worker next to nothing.
    Verified(Arc<Verified<Chain>>),
    Read(Vec<Certificate>),
}

/// A chain that was kept, still to be verified.
#[derive(Debug)]
pub(crate) struct Import {
    certificates: Vec<Certificate>,
    level: u8,
    now_s: u64,
}

/// The bytes are not routes that were saved, or not all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SavedRoutesError {
    /// They do not begin as saved routes do.
    #[error("it holds no saved routes")]
    Foreign,
    /// A newer version wrote them.
    #[error("a newer version wrote it, in format {0}")]
    UnknownVersion(u8),
    /// They do not parse.
    #[error("it is damaged at byte {at}")]
    Damaged {
        /// The byte from which on they do not.
        at: usize,
    },
}

impl SavedRoutes {
    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.chains.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }

    /// The one encoding.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        out.push(VERSION);
        out.extend_from_slice(&(self.metadata.len() as u32).to_be_bytes());
        out.extend_from_slice(&(self.chains.len() as u32).to_be_bytes());
        for metadata in &self.metadata {
            append_counted(&metadata.emit(), &mut out);
        }
        let mut list = Vec::new();
        for chain in &self.chains {
            list.clear();
            Certificate::emit_list(chain.certificates(), &mut list);
            out.push(chain.level);
            append_counted(&list, &mut out);
        }
        out.extend_from_slice(&(self.removals.len() as u32).to_be_bytes());
        for removal in &self.removals {
            append_counted(&removal.emit(), &mut out);
        }
        out
    }

    /// Reads an encoding back.
    ///
    /// # Errors
    /// When `bytes` are not exactly one encoding.
    pub fn parse(bytes: &[u8]) -> Result<Self, SavedRoutesError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(SavedRoutesError::Foreign)?;
        let damaged = |rest: &[u8]| SavedRoutesError::Damaged { at: bytes.len() - rest.len() };
        let version = match rest.first() {
            Some(version @ 1..=VERSION) => *version,
            Some(version) => return Err(SavedRoutesError::UnknownVersion(*version)),
            None => return Err(damaged(rest)),
        };
        let (has_levels, has_removals) = (version > 1, version > 2);
        let mut rest = &rest[1..];
        let count = |rest: &mut &[u8]| {
            let (count, tail) = rest.split_first_chunk().ok_or(damaged(rest))?;
            *rest = tail;
            Ok(u32::from_be_bytes(*count))
        };
        let (metadata_count, chain_count) = (count(&mut rest)?, count(&mut rest)?);
        // Nothing is reserved: the counts are not to be believed before what they count is there.
        let mut saved = Self::default();
        for _ in 0..metadata_count {
            let (item, tail) = split_counted(rest).ok_or(damaged(rest))?;
            saved.metadata.push(Arc::new(Metadata::parse(item).map_err(|_| damaged(rest))?));
            rest = tail;
        }
        for _ in 0..chain_count {
            let mut level = 0;
            if has_levels {
                let (first, tail) = rest.split_first().ok_or(damaged(rest))?;
                level = *first;
                rest = tail;
            }
            let (item, tail) = split_counted(rest).ok_or(damaged(rest))?;
            let certificates = Certificate::parse_list(item).map_err(|_| damaged(rest))?;
            saved.chains.push(SavedChain { kept: Kept::Read(certificates), level });
            rest = tail;
        }
        let removal_count = if has_removals { count(&mut rest)? } else { 0 };
        for _ in 0..removal_count {
            let (item, tail) = split_counted(rest).ok_or(damaged(rest))?;
            saved.removals.push(Removal::parse(item).map_err(|_| damaged(rest))?);
            rest = tail;
        }
        if rest.is_empty() { Ok(saved) } else { Err(damaged(rest)) }
    }
}

impl SavedChain {
    fn certificates(&self) -> &[Certificate] {
        match &self.kept {
            Kept::Verified(chain) => chain.certificates(),
            Kept::Read(certificates) => certificates,
        }
    }
}

impl Switch {
    /// The routes that are in force, to be kept for a next
    /// run. Work: a few dozen nanoseconds for each.
    pub fn export_routes(&mut self, now: Now) -> SavedRoutes {
        let saved = |kept, level| SavedChain { kept, level };
        let verified = self.routes.tables().chains(now.instant).into_iter();
        let verified = verified.map(|(chain, level)| saved(Kept::Verified(chain), level));
        // Those of an earlier run that there was no time for yet are not lost.
        let waiting =
            self.jobs.imports().map(|i| saved(Kept::Read(i.certificates.clone()), i.level));
        let chains: Vec<SavedChain> = verified.chain(waiting).collect();
        let mut metadata: HashMap<Name, Arc<Metadata>> = HashMap::new();
        for certificate in chains.iter().flat_map(SavedChain::certificates) {
            if !metadata.contains_key(&certificate.issuer)
                && let Some(known) = self.metadata_of(&certificate.issuer)
            {
                metadata.insert(certificate.issuer, known);
            }
        }
        let removals = self.removals().all().iter().map(|it| (***it).clone()).collect();
        SavedRoutes { metadata: metadata.into_values().collect(), chains, removals }
    }

    /// Whether routes were learnt or forgotten shows in this number.
    pub fn routes_revision(&self) -> u64 {
        self.routes.tables().revision()
    }

    /// Takes over routes of an earlier run, as far as they still hold: each is verified by a job
    /// when there is time for it, and none takes the place of a newer one.
    pub fn import_routes(&mut self, saved: SavedRoutes, now: Now) {
        let now_s = now.unix_s();
        self.recall_removals(saved.removals, now);
        for metadata in saved.metadata {
            self.routes.tables().learn_metadata(metadata);
        }
        let imports = saved.chains.into_iter().take(self.routes.bound()).map(|chain| {
            let (certificates, level) = (chain.certificates().to_vec(), chain.level);
            Import { certificates, level, now_s }
        });
        self.jobs.import(imports);
    }

    /// A job for one of the routes to take over, if no other work waits.
    pub(crate) fn next_import(&mut self) -> Option<Job> {
        while let Some(Import { certificates, level, now_s }) = self.jobs.take_import() {
            let destination = certificates[0].issuer;
            let keys: Vec<_> = certificates
                .iter()
                .filter_map(|c| Some((c.issuer, self.metadata_of(&c.issuer)?.key)))
                .collect();
            if keys.len() == certificates.len() {
                let (told, issuers) = (Heard::Saved { level }, self.issuers(keys, &certificates));
                let task = Task::Route { told, destination, certificates, issuers };
                return Some(Job { task, now_s, brought_at: None });
            }
        }
        None
    }
}

fn append_counted(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn split_counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}

const MAGIC: &[u8] = b"RHRS";
const VERSION: u8 = 3;
