//! Values that options and the configuration file have in common: how they are read, their bounds,
//! and what they are when nobody says.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use rhumb_link::MIN_DATAGRAM_LEN;
use rhumb_wire::datagram::LANES;

use crate::remote::parse_address;

/// The address that a router publishes for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocatorChoice {
    /// The listen address; where that is unspecified, this
    /// host's address on the way to the first RIB.
    Automatic,
    /// None: the router is reached through its upstream only.
    None,
    /// This one.
    At(SocketAddr),
}

/// An address, or `none`.
pub(crate) fn parse_locator(text: &str) -> Result<LocatorChoice, String> {
    match text {
        "none" => Ok(LocatorChoice::None),
        text => parse_address(text).map(LocatorChoice::At),
    }
}

/// A number of workers, or `auto`: as many as there are cores for this process.
pub(crate) fn parse_workers(text: &str) -> Result<u8, String> {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    match text {
        "auto" => Ok(u8::try_from(cores()).unwrap_or(LANES).min(LANES)),
        text => {
            text.parse().ok().filter(|workers| (1..=LANES).contains(workers)).ok_or_else(|| {
                format!("`{text}` is no number of workers; give 1 to {LANES}, or auto")
            })
        }
    }
}

/// From there on it would be noticed by who talks, and receive queues would fill.
pub(crate) const MOST_COALESCE_US: u16 = 1000;
/// Long enough that renewal at half-life is rare, short enough that a
/// lost router is forgotten within a coffee break.
pub(crate) const DEFAULT_LEASE_S: u32 = 600;
/// Shorter than a minute drowns in clock skew; RIBs store a day at most.
pub(crate) const LEASE_RANGE_S: RangeInclusive<u32> = 60..=86_400;
/// What every path carries, to what jumbo frames do.
pub(crate) const MAX_DATAGRAM_RANGE: RangeInclusive<u16> = MIN_DATAGRAM_LEN..=9000;
