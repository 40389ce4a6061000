//! What two speakers agree on by their OPEN messages (RFC 4271, section 4.2; RFC 5492).

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use rustbgpd_wire::constants::{
    AS_TRANS, BGP_VERSION, EXTENDED_MAX_MESSAGE_LEN, MAX_MESSAGE_LEN, MIN_HOLD_TIME,
};
use rustbgpd_wire::notification::open_subcode;
use rustbgpd_wire::{
    AddPathFamily, AddPathMode, BgpRole, Capability, GracefulRestartFamily, NotificationCode,
    NotificationMessage, OpenMessage,
};

use crate::config::{Config, FamilyConfig};
use crate::family::{Family, PerFamily};
use crate::otc;

/// What both sides of a session hold to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiated {
    /// The neighbour's BGP identifier.
    pub remote_id: Ipv4Addr,
    /// The neighbour's autonomous system.
    pub remote_as: u32,
    /// The session ends after this time of silence; zero: never.
    pub hold_time: Duration,
    /// Numbers of autonomous systems have four octets (RFC 6793).
    pub four_octet_as: bool,
    /// The neighbour answers requests to send all again (RFC 2918).
    pub route_refresh: bool,
    /// Both sides mark where a refresh begins and ends (RFC 7313).
    pub enhanced_route_refresh: bool,
    /// Messages may have 65,535 bytes (RFC 8654).
    pub extended_messages: bool,
    /// The role that the neighbour told (RFC 9234).
    pub remote_role: Option<BgpRole>,
    /// How the neighbour restarts, when both sides offered graceful restart (RFC 4724).
    pub graceful_restart: Option<RemoteRestart>,
    families: PerFamily<Option<FamilyTerms>>,
}

/// What was agreed of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FamilyTerms {
    /// The neighbour may send several routes to a prefix.
    pub add_path_receive: bool,
    /// We may send several routes to a prefix.
    pub add_path_send: bool,
}

/// How a neighbour restarts (RFC 4724, section 3; RFC 8538).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteRestart {
    /// For how long its routes shall be kept.
    pub time: Duration,
    /// It has restarted.
    pub is_restarting: bool,
    /// A NOTIFICATION, too, leaves routes in place, unless it is a hard reset (RFC 8538).
    pub by_notification: bool,
    families: PerFamily<Option<bool>>,
}

impl Negotiated {
    /// What was agreed of a family; nothing if it is not carried.
    #[must_use]
    pub fn family(&self, family: Family) -> Option<FamilyTerms> {
        self.families[family]
    }

    /// The families that the session carries.
    pub fn families(&self) -> impl Iterator<Item = Family> {
        Family::ALL.into_iter().filter(|family| self.families[*family].is_some())
    }

    pub(crate) fn max_message(&self) -> u16 {
        if self.extended_messages { EXTENDED_MAX_MESSAGE_LEN } else { MAX_MESSAGE_LEN }
    }

    pub(crate) fn sends_paths(&self, family: Family) -> bool {
        self.families[family].is_some_and(|terms| terms.add_path_send)
    }

    pub(crate) fn receives_paths(&self, family: Family) -> bool {
        self.families[family].is_some_and(|terms| terms.add_path_receive)
    }
}

impl RemoteRestart {
    /// Whether routes of a family may be kept while the neighbour restarts.
    #[must_use]
    pub fn keeps(&self, family: Family) -> bool {
        self.families[family].is_some()
    }

    /// Whether the neighbour, back again, says that it has forwarded on meanwhile.
    #[must_use]
    pub fn has_preserved(&self, family: Family) -> bool {
        self.families[family] == Some(true)
    }
}

/// Our OPEN message. `is_restarting` says that this process began anew,
/// and nothing has been said to the neighbour yet.
pub(crate) fn open(config: &Config, is_restarting: bool) -> OpenMessage {
    let mut capabilities = Vec::new();
    for family in spoken(config) {
        let (afi, safi) = family.wire();
        capabilities.push(Capability::MultiProtocol { afi, safi });
    }
    capabilities.extend([Capability::RouteRefresh, Capability::EnhancedRouteRefresh]);
    if config.extended_messages {
        capabilities.push(Capability::ExtendedMessage);
    }
    capabilities.push(Capability::FourOctetAs { asn: config.local_as });
    let paths: Vec<_> =
        spoken(config).filter_map(|family| add_path(family, config.family(family)?)).collect();
    if !paths.is_empty() {
        capabilities.push(Capability::AddPath(paths));
    }
    if let Some(restart) = config.graceful_restart {
        let preserved = restart.restarting && is_restarting;
        let family = |family: Family| {
            let (afi, safi) = family.wire();
            GracefulRestartFamily { afi, safi, forwarding_preserved: preserved }
        };
        capabilities.push(Capability::GracefulRestart {
            restart_state: preserved,
            notification: true,
            restart_time: u16::try_from(restart.restart_time.as_secs()).unwrap_or(u16::MAX),
            families: spoken(config).map(family).collect(),
        });
    }
    if let Some(role) = config.role {
        capabilities.push(Capability::Role { role });
    }
    OpenMessage {
        version: BGP_VERSION,
        my_as: u16::try_from(config.local_as).unwrap_or(AS_TRANS),
        hold_time: u16::try_from(config.timers.hold.as_secs()).unwrap_or(u16::MAX),
        bgp_identifier: config.local_id,
        capabilities,
    }
}

/// What follows from the neighbour's OPEN message and ours.
///
/// # Errors
///
/// The NOTIFICATION that it is answered with (RFC 4271,
/// section 6.2; RFC 5492; RFC 9234, section 4.2).
pub(crate) fn agree(
    config: &Config,
    open: &OpenMessage,
) -> Result<Negotiated, NotificationMessage> {
    if open.four_byte_as() != config.remote_as {
        return Err(refusal(open_subcode::BAD_PEER_AS, Bytes::new()));
    }
    if open.bgp_identifier.is_unspecified() {
        return Err(refusal(open_subcode::BAD_BGP_IDENTIFIER, Bytes::new()));
    }
    if open.hold_time != 0 && open.hold_time < MIN_HOLD_TIME {
        return Err(refusal(open_subcode::UNACCEPTABLE_HOLD_TIME, Bytes::new()));
    }
    let families = common_families(config, open);
    if Family::ALL.into_iter().all(|family| families[family].is_none()) {
        return Err(refusal(open_subcode::UNSUPPORTED_CAPABILITY, wanted_families(config)));
    }
    let has = |wanted: fn(&Capability) -> bool| open.capabilities.iter().any(wanted);
    Ok(Negotiated {
        remote_id: open.bgp_identifier,
        remote_as: config.remote_as,
        hold_time: config.timers.hold.min(Duration::from_secs(open.hold_time.into())),
        four_octet_as: has(|capability| matches!(capability, Capability::FourOctetAs { .. })),
        route_refresh: has(|capability| matches!(capability, Capability::RouteRefresh)),
        enhanced_route_refresh: has(|capability| {
            matches!(capability, Capability::EnhancedRouteRefresh)
        }),
        extended_messages: config.extended_messages
            && has(|capability| matches!(capability, Capability::ExtendedMessage)),
        remote_role: agree_on_role(config, open)?,
        graceful_restart: config.graceful_restart.and_then(|_| remote_restart(open)),
        families,
    })
}

fn spoken(config: &Config) -> impl Iterator<Item = Family> {
    Family::ALL.into_iter().filter(|family| config.speaks(*family))
}

fn add_path(family: Family, config: FamilyConfig) -> Option<AddPathFamily> {
    let send_receive = match (config.add_path_receive, config.add_path_send) {
        (false, false) => return None,
        (true, false) => AddPathMode::Receive,
        (false, true) => AddPathMode::Send,
        (true, true) => AddPathMode::Both,
    };
    let (afi, safi) = family.wire();
    Some(AddPathFamily { afi, safi, send_receive })
}

fn common_families(config: &Config, open: &OpenMessage) -> PerFamily<Option<FamilyTerms>> {
    let mut offered: PerFamily<bool> = PerFamily::default();
    let mut is_plain = true;
    let mut modes: PerFamily<Option<AddPathMode>> = PerFamily::default();
    for capability in &open.capabilities {
        match capability {
            Capability::MultiProtocol { afi, safi } => {
                is_plain = false;
                if let Some(family) = Family::from_wire(*afi, *safi) {
                    offered[family] = true;
                }
            }
            Capability::AddPath(families) => {
                for entry in families {
                    if let Some(family) = Family::from_wire(entry.afi, entry.safi) {
                        modes[family] = Some(entry.send_receive);
                    }
                }
            }
            _ => {}
        }
    }
    // Who speaks of no family speaks IPv4 (RFC 4760, section 8).
    offered[Family::Ipv4] |= is_plain;
    PerFamily::from_fn(|family| {
        let ours = config.family(family).filter(|_| offered[family])?;
        let theirs = modes[family];
        Some(FamilyTerms {
            add_path_receive: ours.add_path_receive
                && matches!(theirs, Some(AddPathMode::Send | AddPathMode::Both)),
            add_path_send: ours.add_path_send
                && matches!(theirs, Some(AddPathMode::Receive | AddPathMode::Both)),
        })
    })
}

/// The data of "Unsupported Capability": the capabilities without which there is no session.
fn wanted_families(config: &Config) -> Bytes {
    let mut data = BytesMut::new();
    for family in spoken(config) {
        data.put_slice(&[1, 4, 0, family.afi() as u8, 0, 1]);
    }
    data.freeze()
}

fn agree_on_role(
    config: &Config,
    open: &OpenMessage,
) -> Result<Option<BgpRole>, NotificationMessage> {
    let mismatch = || refusal(open_subcode::ROLE_MISMATCH, Bytes::new());
    let mut theirs = None;
    for capability in &open.capabilities {
        if let Capability::Role { role } = capability
            && theirs.replace(*role).is_some_and(|before| before != *role)
        {
            return Err(mismatch());
        }
    }
    match (config.role, theirs) {
        (Some(ours), Some(role)) if !otc::fit(ours, role) => Err(mismatch()),
        (Some(_), None) if config.strict_role => Err(mismatch()),
        _ => Ok(theirs),
    }
}

fn remote_restart(open: &OpenMessage) -> Option<RemoteRestart> {
    open.capabilities.iter().find_map(|capability| {
        let Capability::GracefulRestart { restart_state, notification, restart_time, families } =
            capability
        else {
            return None;
        };
        let mut kept = PerFamily::default();
        for entry in families {
            if let Some(family) = Family::from_wire(entry.afi, entry.safi) {
                kept[family] = Some(entry.forwarding_preserved);
            }
        }
        Some(RemoteRestart {
            time: Duration::from_secs((*restart_time).into()),
            is_restarting: *restart_state,
            by_notification: *notification,
            families: kept,
        })
    })
}

fn refusal(subcode: u8, data: Bytes) -> NotificationMessage {
    NotificationMessage::new(NotificationCode::OpenMessage, subcode, data)
}
