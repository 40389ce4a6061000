//! What a RIB may take of disk and memory, and how much of that strangers may.

use toml::Spanned;

use super::ConfigFile;
use crate::failure::{Failure, Outcome};

/// What a RIB may take.
#[derive(Debug, Clone, Copy)]
pub struct RibLimits {
    disk_mib: u64,
    memory_mib: u64,
    strangers_percent: u8,
}

impl RibLimits {
    /// The bounds of the directory.
    pub fn config(&self) -> rhumb_rib::Config {
        let (disk, memory) = (self.disk_mib << 20, self.memory_mib << 20);
        rhumb_rib::Config::sized(disk, memory, self.strangers_percent)
    }
}

impl ConfigFile {
    pub(super) fn rib_limits(&self) -> Outcome<RibLimits> {
        let raw = &self.raw.rib;
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
        })
    }
}

/// A million names take 750 MB.
const DISK_MIB: u64 = 1024;
/// Half a million subscriptions, 65,536 entries, and the pages of the store.
const MEMORY_MIB: u64 = 512;
/// Half: who is admitted finds as much again, whatever strangers do.
const STRANGERS_PERCENT: u64 = 50;
