//! What is to be known of a neighbour before a session with it.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use rustbgpd_wire::BgpRole;

use crate::family::{Family, PerFamily};

/// A neighbour, and how to speak with it. [`Config::new`] gives
/// the usual values; the fields are for the rest.
#[derive(Debug, Clone)]
pub struct Config {
    /// Our autonomous system.
    pub local_as: u32,
    /// Our BGP identifier (RFC 6286): any number but zero, unique within our autonomous system.
    pub local_id: Ipv4Addr,
    /// The neighbour's autonomous system. It differs from ours: internal sessions are not offered.
    pub remote_as: u32,
    /// Waits for the neighbour to connect, and never connects by itself.
    pub passive: bool,
    /// How routes change on their way out.
    pub propagation: Propagation,
    /// Our role towards the neighbour (RFC 9234); with one, routes are guarded against leaks.
    pub role: Option<BgpRole>,
    /// Refuses a neighbour that tells no role.
    pub strict_role: bool,
    /// Refuses routes whose path does not begin with the neighbour.
    /// Off where the neighbour is a route server.
    pub enforce_first_as: bool,
    /// Offers messages of up to 65,535 bytes (RFC 8654).
    pub extended_messages: bool,
    /// Graceful restart (RFC 4724); without it, routes go with the session.
    pub graceful_restart: Option<GracefulRestart>,
    /// When prefixes of a family cannot be read: the session ends, or, if set and another family
    /// remains, that family is ignored until the session's end (RFC 7606, "AFI/SAFI disable").
    pub disable_broken_family: bool,
    /// Sends End-of-RIB by itself, once all that was announced before the session came up is sent.
    /// Otherwise [`Session::end_of_rib`](crate::Session::end_of_rib) says when.
    pub automatic_end_of_rib: bool,
    /// How long things take.
    pub timers: Timers,
    pub(crate) families: PerFamily<Option<FamilyConfig>>,
}

/// How a family is spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FamilyConfig {
    /// Takes several routes to a prefix (RFC 7911).
    pub add_path_receive: bool,
    /// Sends several routes to a prefix (RFC 7911).
    pub add_path_send: bool,
    /// The session ends when the neighbour announces more routes than this.
    pub max_prefixes: Option<u32>,
}

/// How routes change on their way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// As a route server does (RFC 7947): path, next hop and MED stay as they are.
    Transparent,
    /// As a router does: our number goes before the path, the next hop is
    /// ours, MED and local preference are left out.
    External {
        /// Next hop of IPv4 routes; without one they are not sent.
        next_hop: Option<Ipv4Addr>,
        /// Next hop of IPv6 routes; without one they are not sent.
        next_hop_v6: Option<Ipv6Addr>,
    },
}

/// Graceful restart as we offer it (RFC 4724).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GracefulRestart {
    /// For how long the neighbour shall keep our routes: at most 4095
    /// s, and no more than the hold time is usual.
    pub restart_time: Duration,
    /// For how long we keep routes of a neighbour that is back, until it has sent all.
    pub stale_time: Duration,
    /// This process has begun anew, and forwarding went on meanwhile: the first session says so.
    pub restarting: bool,
}

/// How long things take. All but `hold` are jittered (RFC 4271, section 10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timers {
    /// Hold time that we offer: zero (never) or at least 3 s, at most
    /// 65,535 s. The lower of both offers counts.
    pub hold: Duration,
    /// Between attempts to connect, and for how long one may take.
    pub connect_retry: Duration,
    /// After an attempt that failed, if that is less.
    pub connect_again: Duration,
    /// Rest after an error; doubled after each further one.
    pub idle_hold: Duration,
    /// The longest rest after errors.
    pub idle_hold_max: Duration,
    /// Rest after the neighbour has announced too much.
    pub max_prefix_rest: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            hold: HOLD,
            connect_retry: CONNECT_RETRY,
            connect_again: CONNECT_RETRY,
            idle_hold: IDLE_HOLD,
            idle_hold_max: IDLE_HOLD_MAX,
            max_prefix_rest: MAX_PREFIX_REST,
        }
    }
}

impl Config {
    /// A neighbour with both families, usual timers, and routes handed on as they are.
    #[must_use]
    pub fn new(local_as: u32, local_id: Ipv4Addr, remote_as: u32) -> Self {
        Self {
            local_as,
            local_id,
            remote_as,
            passive: false,
            propagation: Propagation::Transparent,
            role: None,
            strict_role: false,
            enforce_first_as: true,
            extended_messages: true,
            graceful_restart: None,
            disable_broken_family: false,
            automatic_end_of_rib: true,
            timers: Timers::default(),
            families: PerFamily::from_fn(|_| Some(FamilyConfig::default())),
        }
    }

    /// How a family is spoken, if at all.
    #[must_use]
    pub fn family(&self, family: Family) -> Option<FamilyConfig> {
        self.families[family]
    }

    /// Sets how a family is spoken; `None` leaves it out.
    pub fn set_family(&mut self, family: Family, config: Option<FamilyConfig>) {
        self.families[family] = config;
    }

    pub(crate) fn speaks(&self, family: Family) -> bool {
        self.families[family].is_some()
    }

    /// Refuses what no session could begin with.
    ///
    /// # Errors
    ///
    /// The first rule that is broken.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.local_as == 0 || self.remote_as == 0 {
            return Err(ConfigError::AsZero);
        }
        if self.local_as == self.remote_as {
            return Err(ConfigError::InternalNeighbour(self.local_as));
        }
        if self.local_id.is_unspecified() {
            return Err(ConfigError::IdentifierZero);
        }
        let hold = self.timers.hold.as_secs();
        if (hold < 3 && !self.timers.hold.is_zero()) || hold > u64::from(u16::MAX) {
            return Err(ConfigError::HoldTime(self.timers.hold));
        }
        if !Family::ALL.into_iter().any(|family| self.speaks(family)) {
            return Err(ConfigError::NoFamily);
        }
        if let Some(restart) = self.graceful_restart
            && restart.restart_time > MAX_RESTART_TIME
        {
            return Err(ConfigError::RestartTime(restart.restart_time));
        }
        let Timers { connect_retry, connect_again, idle_hold, .. } = self.timers;
        if [connect_retry, connect_again, idle_hold].iter().any(Duration::is_zero) {
            return Err(ConfigError::NoRest);
        }
        Ok(())
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// An autonomous system is zero (RFC 7607).
    #[error("0 is no autonomous system")]
    AsZero,
    /// Both sides have this autonomous system: internal sessions are not offered.
    #[error("both sides are AS {0}: internal sessions are not offered")]
    InternalNeighbour(u32),
    /// Our BGP identifier is zero (RFC 6286).
    #[error("0.0.0.0 is no BGP identifier")]
    IdentifierZero,
    /// The hold time is neither zero nor within 3 to 65,535 seconds.
    #[error("a hold time of {0:?}: it is 0 or 3 to 65535 seconds")]
    HoldTime(Duration),
    /// No family is to be spoken.
    #[error("no address family is to be spoken")]
    NoFamily,
    /// The restart time is beyond 4095 seconds.
    #[error("a restart time of {0:?}: it is at most 4095 seconds")]
    RestartTime(Duration),
    /// A timer between attempts is zero: they would never end.
    #[error("a rest of no time between attempts")]
    NoRest,
}

/// RFC 4271, section 10, suggests it.
const HOLD: Duration = Duration::from_secs(90);
/// RFC 4271, section 10, suggests it.
const CONNECT_RETRY: Duration = Duration::from_secs(120);
/// Short enough that an operator's mistake is soon forgotten; doubled for each further error.
const IDLE_HOLD: Duration = Duration::from_secs(5);
/// As long as other speakers rest at most.
const IDLE_HOLD_MAX: Duration = Duration::from_secs(300);
/// A neighbour that leaked a table needs a human first.
const MAX_PREFIX_REST: Duration = Duration::from_secs(30 * 60);
/// Twelve bits in the capability.
const MAX_RESTART_TIME: Duration = Duration::from_secs(4095);
