//! What an operator may set. Every default is a named constant with its reason.

/// Bounds of a RIB. All of them guard memory, disk or time against strangers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Most names with an entry. Names that are known already may be renewed when the store is full.
    pub max_names: u64,
    /// Most names whose entries one publisher was the last to change.
    pub max_names_per_publisher: u64,
    /// Most bytes of data in an answer.
    pub max_answer_len: usize,
    /// Most entries kept in memory in front of the store.
    pub cached_entries: usize,
    /// Most signed absences kept in memory until they expire.
    pub cached_absences: usize,
    /// Most signatures that one asker may cause to be made or verified in a second.
    pub signatures_per_asker_per_s: u32,
    /// Most absences signed in a second, for all askers together.
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
            max_names: MAX_NAMES,
            max_names_per_publisher: MAX_NAMES_PER_PUBLISHER,
            max_answer_len: MAX_ANSWER_LEN,
            cached_entries: CACHED_ENTRIES,
            cached_absences: CACHED_ABSENCES,
            signatures_per_asker_per_s: SIGNATURES_PER_ASKER_PER_S,
            absences_per_s: ABSENCES_PER_S,
            max_orders_waiting: MAX_ORDERS_WAITING,
            max_subscriptions: MAX_SUBSCRIPTIONS,
            max_subscriptions_per_asker: MAX_SUBSCRIPTIONS_PER_ASKER,
            max_absent_subscriptions_per_asker: MAX_ABSENT_SUBSCRIPTIONS_PER_ASKER,
        }
    }
}

/// About 0.6 GB on disk at 575 bytes each.
const MAX_NAMES: u64 = 1_000_000;
/// A tenth of the store, so that no single router fills it.
const MAX_NAMES_PER_PUBLISHER: u64 = MAX_NAMES / 10;
/// With 76 bytes of PDU header and 28 of sealing this is 1,404: it fits the default datagram of 1,452, and so any path of
/// 1,500 bytes. Eight routes for any peer fit without metadata, or six with.
const MAX_ANSWER_LEN: usize = 1300;
/// About 40 MB when full: an entry with a route takes some 600 bytes in memory.
const CACHED_ENTRIES: usize = 1 << 16;
/// About 5 MB when full. More would serve nobody: an absence lives for seconds.
const CACHED_ABSENCES: usize = 1 << 14;
/// A router with 100,000 clients renews 333 leases a second; at about 60 µs each, an asker cannot take more than a
/// sixteenth of a core.
const SIGNATURES_PER_ASKER_PER_S: u32 = 1000;
/// At about 25 µs each, a tenth of a core.
const ABSENCES_PER_S: u32 = 4000;
/// A quarter of a second of verifying on one core; whoever is not answered by then repeats its order anyway.
const MAX_ORDERS_WAITING: usize = 4096;
/// About 130 MB when full, at 250 bytes each.
const MAX_SUBSCRIPTIONS: usize = 1 << 19;
/// A router with 100,000 clients publishes as many names.
const MAX_SUBSCRIPTIONS_PER_ASKER: usize = 1 << 17;
/// As many look-ups as a router has under way at once.
const MAX_ABSENT_SUBSCRIPTIONS_PER_ASKER: usize = 1 << 12;
