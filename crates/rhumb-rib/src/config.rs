//! What an operator may set. Every default is a named constant with its reason.

use std::net::SocketAddr;

use rhumb_directory::Remote;
use rhumb_trust::Access;
use rhumb_wire::Name;
use rhumb_wire::rib::StoreId;

use crate::Held;
use crate::neighbours::{MAX_DOMAINS, Neighbour};

/// Whom a RIB serves, and its bounds. All of these guard memory, disk or time against strangers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Tells its store from any other. Fresh and random for each start: nobody outside can tell a
    /// store that was there all the time from an older one that took its place meanwhile, and what
    /// is there already costs a look only.
    pub store: StoreId,
    /// The trust domain whose names it knows, if it is of one.
    pub domain: Option<Name>,
    /// The RIBs of the domain around, which know what is outside; nearest first.
    pub parents: Vec<Remote>,
    /// The domains beside its own.
    pub neighbours: Vec<Neighbour>,
    /// The domains around its own, besides those of which it is a customer.
    pub around: Vec<Name>,
    /// Where it is for RIBs of other domains; they find no names here if it does not say so.
    pub address: Option<SocketAddr>,
    /// Most domains that one neighbour may offer.
    pub max_domains: usize,
    /// Most names of which it is remembered what those RIBs said.
    pub max_beyond: usize,
    /// Most look-ups in a second that are handed on to them for one that was admitted.
    pub climbs_per_admitted_per_s: u32,
    /// Most look-ups in a second that are handed on for all strangers of one source.
    pub climbs_per_source_per_s: u32,
    /// Most look-ups in a second that are handed on for all strangers; twice as many for all who
    /// were admitted.
    pub climbs_per_s: u32,
    /// Whom it serves, and who has a share that no stranger can touch.
    pub access: Access,
    /// Most names with an entry. Names that are known
    /// already may be renewed when the store is full.
    pub max_names: u64,
    /// About the most bytes on disk. Renewals may go beyond
    /// it, by what they add to names that are known.
    pub max_bytes: u64,
    /// The part of both that strangers may fill, in hundredths.
    pub strangers_percent: u8,
    /// Most names whose entries one publisher was the last to change.
    pub max_names_per_publisher: u64,
    /// Whether it keeps a log of all that it holds, for those who ask for proofs: 80 bytes of
    /// memory for each name.
    pub keeps_log: bool,
    /// Most bytes of data in an answer.
    pub max_answer_len: usize,
    /// Most entries kept in memory in front of the store: of one in a file, the few that are asked
    /// for most.
    pub cached_entries: usize,
    /// Most bytes of records kept in memory behind those, of a store in a file.
    pub cached_bytes: usize,
    /// Most signed absences kept in memory until they expire.
    pub cached_absences: usize,
    /// Most signatures to be verified in a second for one that was admitted.
    pub signatures_per_admitted_per_s: u32,
    /// Most signatures to be verified in a second for all strangers of one source.
    pub signatures_per_source_per_s: u32,
    /// Most absences signed in a second for one that was
    /// admitted, or for all strangers of one source.
    pub absences_per_asker_per_s: u32,
    /// Most absences signed in a second for all strangers, and as many for all who were admitted.
    pub absences_per_s: u32,
    /// Most orders that wait to be verified or committed.
    pub max_orders_waiting: usize,
    /// Most subscriptions of all askers together.
    pub max_subscriptions: usize,
    /// Most subscriptions of one asker to names that it was told something about.
    pub max_subscriptions_per_asker: usize,
    /// Most subscriptions of one asker to names that are absent.
    pub max_absent_subscriptions_per_asker: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            store: StoreId::default(),
            domain: None,
            parents: Vec::new(),
            neighbours: Vec::new(),
            around: Vec::new(),
            address: None,
            max_domains: MAX_DOMAINS,
            max_beyond: MAX_BEYOND,
            climbs_per_admitted_per_s: CLIMBS_PER_ADMITTED_PER_S,
            climbs_per_source_per_s: CLIMBS_PER_SOURCE_PER_S,
            climbs_per_s: CLIMBS_PER_S,
            access: Access::default(),
            max_names: MAX_NAMES,
            max_bytes: MAX_BYTES,
            strangers_percent: STRANGERS_PERCENT,
            max_names_per_publisher: MAX_NAMES_PER_PUBLISHER,
            keeps_log: false,
            max_answer_len: MAX_ANSWER_LEN,
            cached_entries: CACHED_ENTRIES,
            cached_bytes: CACHED_BYTES,
            cached_absences: CACHED_ABSENCES,
            signatures_per_admitted_per_s: SIGNATURES_PER_ADMITTED_PER_S,
            signatures_per_source_per_s: SIGNATURES_PER_SOURCE_PER_S,
            absences_per_asker_per_s: ABSENCES_PER_ASKER_PER_S,
            absences_per_s: ABSENCES_PER_S,
            max_orders_waiting: MAX_ORDERS_WAITING,
            max_subscriptions: MAX_SUBSCRIPTIONS,
            max_subscriptions_per_asker: MAX_SUBSCRIPTIONS_PER_ASKER,
            max_absent_subscriptions_per_asker: MAX_ABSENT_SUBSCRIPTIONS_PER_ASKER,
        }
    }
}

impl Config {
    /// Bounds that go with so many bytes of disk and of memory, of
    /// which strangers may fill so many hundredths.
    pub fn sized(disk: u64, memory: u64, strangers_percent: u8) -> Self {
        let by_memory = |default: usize| {
            let scaled = default as u64 * (memory >> 20) / (MEMORY >> 20);
            usize::try_from(scaled).unwrap_or(usize::MAX)
        };
        let max_names = disk / (MAX_BYTES / MAX_NAMES);
        Self {
            max_names,
            max_names_per_publisher: max_names / 10,
            max_bytes: disk,
            strangers_percent,
            cached_entries: by_memory(CACHED_ENTRIES),
            cached_bytes: by_memory(CACHED_BYTES),
            cached_absences: by_memory(CACHED_ABSENCES),
            max_beyond: by_memory(MAX_BEYOND),
            max_subscriptions: by_memory(MAX_SUBSCRIPTIONS),
            max_subscriptions_per_asker: by_memory(MAX_SUBSCRIPTIONS_PER_ASKER),
            ..Self::default()
        }
    }

    /// What the pages of a store may take of so many bytes of memory: an eighth.
    pub fn page_bytes(memory: u64) -> usize {
        usize::try_from(memory / 8).unwrap_or(usize::MAX)
    }

    /// What all entries together may take.
    pub fn bound(&self) -> Held {
        Held { names: self.max_names, bytes: self.max_bytes }
    }

    /// What entries of strangers may take.
    pub fn strangers_bound(&self) -> Held {
        self.bound().part(u64::from(self.strangers_percent.min(100)), 100)
    }

    /// What entries of strangers' capsules may take.
    pub(crate) fn strangers_capsules_bound(&self) -> Held {
        self.strangers_bound().part(1, CAPSULES_PART)
    }
}

/// About 60 MB when full: a chain of four with its metadata.
const MAX_BEYOND: usize = 1 << 15;
/// With what strangers have less than the 1,000 absences a second that a RIB signs for one asker,
/// which is what the domain around takes this one for.
const CLIMBS_PER_ADMITTED_PER_S: u32 = 250;
/// Of the strangers' part, for one source.
const CLIMBS_PER_SOURCE_PER_S: u32 = 50;
/// A quarter of what the domain around answers, whatever strangers ask.
const CLIMBS_PER_S: u32 = 250;
/// What the bounds below that are kept in memory are for: two thirds of it, and the rest for the
/// pages of the store and for sessions.
const MEMORY: u64 = 512 << 20;
/// About 0.75 GB on disk at 750 bytes each.
const MAX_NAMES: u64 = 1_000_000;
/// Room for 1.4 million names of 750 bytes.
const MAX_BYTES: u64 = 1 << 30;
/// Half: who is admitted finds as much again, whatever strangers do.
const STRANGERS_PERCENT: u8 = 50;
/// What strangers' capsules hold is held for thirty
/// days, so it is an eighth of what strangers have.
const CAPSULES_PART: u64 = 8;
/// A tenth of the store, so that no single router fills it.
const MAX_NAMES_PER_PUBLISHER: u64 = MAX_NAMES / 10;
/// With 76 bytes of PDU header and 28 of sealing this is 1,404: it fits the
/// default datagram of 1,452, and so any path of 1,500 bytes. Eight routes
/// for any peer fit without metadata, or six with.
const MAX_ANSWER_LEN: usize = 1300;
/// About 45 MB when full: an entry takes some 1,300 bytes in memory. Beside records they are fewer.
const CACHED_ENTRIES: usize = 1 << 15;
/// A quarter of the memory: about 330,000 names with a route each, at 400 bytes.
const CACHED_BYTES: usize = (MEMORY / 4) as usize;
/// About 5 MB when full. More would serve nobody: an absence lives for seconds.
const CACHED_ABSENCES: usize = 1 << 14;
/// A router with 100,000 clients renews 333 leases a second, and publishes all of them anew within
/// 25 s when it has to; at about 60 µs each it cannot take more than a quarter of a core.
const SIGNATURES_PER_ADMITTED_PER_S: u32 = 4000;
/// A sixteenth of a core.
const SIGNATURES_PER_SOURCE_PER_S: u32 = 1000;
/// As many misses as a busy router has.
const ABSENCES_PER_ASKER_PER_S: u32 = 1000;
/// At about 25 µs each, a tenth of a core.
const ABSENCES_PER_S: u32 = 4000;
/// A quarter of a second of verifying on one core; whoever is not answered by then repeats its
/// order anyway. Strangers' orders may be half of them.
const MAX_ORDERS_WAITING: usize = 4096;
/// About 130 MB when full, at 125 bytes each: a place of 49 in a map, and 40 in a queue.
const MAX_SUBSCRIPTIONS: usize = 1 << 20;
/// A router with 100,000 clients publishes as many names, and they ask for others.
const MAX_SUBSCRIPTIONS_PER_ASKER: usize = 1 << 18;
/// As many look-ups as a router has under way at once.
const MAX_ABSENT_SUBSCRIPTIONS_PER_ASKER: usize = 1 << 12;
