//! Which packets of this host go where, beside where their destination alone would lead them:
//! rules, and tables of routes of our own.
//!
//! All rules made here carry [`RULE_PROTOCOL`], so that they are found
//! again, also by another process after a crash.
//!
//! Invariant: a table holds a default route that says "unreachable" beside the one through a
//! device, so packets for which the device is gone go nowhere rather than by the usual way. Source:
//! ip-rule(8), rtnetlink(7), Linux `include/uapi/linux/fib_rules.h`.

use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use crate::netlink::{FRA_PRIORITY, FRA_PROTOCOL, Message, Netlink, family, octets};

/// Adds and removes rules and routes. It belongs to the
/// network namespace of the thread that made it.
#[derive(Debug)]
pub struct Steering {
    netlink: Netlink,
}

/// A rule: packets that fit all of `selector` are treated by `action`.
/// Rules are asked in the order of their priorities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its place: a lower one is asked before.
    pub priority: u32,
    /// Whether it is for IPv6.
    pub is_v6: bool,
    /// Which packets.
    pub selector: Selector,
    /// What becomes of them.
    pub action: Action,
}

/// Which packets a rule is for: those that fit
/// everything that is said. Nothing said is all packets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    /// From an address in this prefix.
    pub source: Option<(IpAddr, u8)>,
    /// To an address in this prefix.
    pub destination: Option<(IpAddr, u8)>,
    /// With this mark, in the bits of the mask.
    pub mark: Option<(u32, u32)>,
    /// Of this IP protocol.
    pub protocol: Option<u8>,
    /// From one of these ports.
    pub source_ports: Option<RangeInclusive<u16>>,
    /// To one of these ports.
    pub destination_ports: Option<RangeInclusive<u16>>,
    /// By a socket of one of these users.
    pub users: Option<RangeInclusive<u32>>,
    /// Of this host's own, not forwarded.
    pub is_local: bool,
}

/// What becomes of packets that a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The routes of this table are asked; where it has none, the next rule.
    Table(u32),
    /// The rules are gone on with from this priority, where there is one.
    SkipTo(u32),
    /// The next rule.
    Nothing,
    /// Refused: no way to the host.
    Unreachable,
}

impl Steering {
    /// Someone to do it.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub fn new() -> io::Result<Self> {
        Netlink::new().map(|netlink| Self { netlink })
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// When the process may not (CAP_NET_ADMIN), or the same rule is there.
    pub fn add_rule(&mut self, rule: &Rule) -> io::Result<()> {
        let mut order = rule_order(libc::RTM_NEWRULE, rule);
        order.flags |= (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
        self.netlink.order(order)
    }

    /// Removes a rule.
    ///
    /// # Errors
    /// When the process may not, or it is not there.
    pub fn remove_rule(&mut self, rule: &Rule) -> io::Result<()> {
        self.netlink.order(rule_order(libc::RTM_DELRULE, rule))
    }

    /// Priorities of all rules of ours, and whether each is for IPv6. One that
    /// several rules have is there several times.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn rules(&mut self) -> io::Result<Vec<(u32, bool)>> {
        let mut found = Vec::new();
        for is_v6 in [false, true] {
            let rules = match self.netlink.rules(is_v6) {
                // A system without IPv6 has no rules for it.
                Err(error) if is_v6 && error.raw_os_error() == Some(libc::EOPNOTSUPP) => continue,
                rules => rules?,
            };
            let ours = rules.into_iter().filter(|(_, maker)| *maker == RULE_PROTOCOL);
            found.extend(ours.map(|(priority, _)| (priority, is_v6)));
        }
        Ok(found)
    }

    /// Removes a rule of ours at this priority.
    ///
    /// # Errors
    /// When the process may not, or there is none.
    pub fn remove_rule_at(&mut self, priority: u32, is_v6: bool) -> io::Result<()> {
        let mut order = Message::new(libc::RTM_DELRULE, &rule_header(is_v6, 0, 0, 0, 0));
        order.attribute(FRA_PRIORITY, &priority.to_ne_bytes());
        order.attribute(FRA_PROTOCOL, &[RULE_PROTOCOL]);
        self.netlink.order(order)
    }

    /// Lets a table lead everything of a family through a device, from `source` where a packet has
    /// none yet. Without a device, nowhere.
    ///
    /// # Errors
    /// When the process may not, there is no such device, or `source` is not of this host.
    pub fn lead(
        &mut self,
        table: u32,
        is_v6: bool,
        through: Option<(&str, IpAddr)>,
    ) -> io::Result<()> {
        let create = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
        let mut order = default_route(libc::RTM_NEWROUTE, table, is_v6, libc::RTN_UNREACHABLE);
        order.flags |= create;
        order.attribute(libc::RTA_PRIORITY, &LAST_METRIC.to_ne_bytes());
        self.netlink.order(order)?;
        let Some((device, source)) = through else { return Ok(()) };
        let index = self.netlink.link_by_name(device)?.index;
        let mut order = default_route(libc::RTM_NEWROUTE, table, is_v6, libc::RTN_UNICAST);
        order.flags |= create;
        order.attribute(libc::RTA_OIF, &index.to_ne_bytes());
        order.attribute(libc::RTA_PREFSRC, &octets(source));
        order.attribute(libc::RTA_PRIORITY, &FIRST_METRIC.to_ne_bytes());
        self.netlink.order(order)
    }

    /// Empties a table of what [`Steering::lead`] put there. Nothing there is no error.
    pub fn forget(&mut self, table: u32) {
        for is_v6 in [false, true] {
            for (kind, metric) in
                [(libc::RTN_UNICAST, FIRST_METRIC), (libc::RTN_UNREACHABLE, LAST_METRIC)]
            {
                let mut order = default_route(libc::RTM_DELROUTE, table, is_v6, kind);
                order.attribute(libc::RTA_PRIORITY, &metric.to_ne_bytes());
                // What is not there need not be removed; what may not be removed was not ours.
                let _ = self.netlink.order(order);
            }
        }
    }

    /// Sets the largest packet that the stack gives a device, in bytes.
    ///
    /// # Errors
    /// When the process may not, or the device does not take it.
    pub fn set_mtu(&mut self, device: &str, mtu: u32) -> io::Result<()> {
        let index = self.netlink.link_by_name(device)?.index;
        self.netlink.bring_up(index, mtu)
    }

    /// Whether there is an interface of this name.
    pub fn has_device(&mut self, name: &str) -> bool {
        self.netlink.link_by_name(name).is_ok()
    }

    /// The address that this host sends from to `destination`; `None` where it has no way there.
    pub fn source_to(&mut self, destination: IpAddr) -> Option<IpAddr> {
        self.netlink.route(destination, None, None)?.source
    }
}

fn rule_header(is_v6: bool, destination: u8, source: u8, action: u8, table: u8) -> [u8; 12] {
    let family = if is_v6 { libc::AF_INET6 } else { libc::AF_INET } as u8;
    [family, destination, source, 0, table, 0, 0, action, 0, 0, 0, 0]
}

fn rule_order(kind: u16, rule: &Rule) -> Message {
    let Rule { priority, is_v6, selector, action } = rule;
    let bits = |prefix: Option<(IpAddr, u8)>| prefix.map_or(0, |(_, bits)| bits);
    let number = match action {
        Action::Table(_) => FR_ACT_TO_TBL,
        Action::SkipTo(_) => FR_ACT_GOTO,
        Action::Nothing => FR_ACT_NOP,
        Action::Unreachable => FR_ACT_UNREACHABLE,
    };
    let header = rule_header(*is_v6, bits(selector.destination), bits(selector.source), number, 0);
    let mut order = Message::new(kind, &header);
    order.attribute(FRA_PRIORITY, &priority.to_ne_bytes());
    order.attribute(FRA_PROTOCOL, &[RULE_PROTOCOL]);
    match action {
        Action::Table(table) => order.attribute(FRA_TABLE, &table.to_ne_bytes()),
        Action::SkipTo(priority) => order.attribute(FRA_GOTO, &priority.to_ne_bytes()),
        Action::Nothing | Action::Unreachable => {}
    }
    if let Some((prefix, _)) = selector.source {
        order.attribute(FRA_SRC, &octets(prefix));
    }
    if let Some((prefix, _)) = selector.destination {
        order.attribute(FRA_DST, &octets(prefix));
    }
    if let Some((mark, mask)) = selector.mark {
        order.attribute(FRA_FWMARK, &mark.to_ne_bytes());
        order.attribute(FRA_FWMASK, &mask.to_ne_bytes());
    }
    if let Some(protocol) = selector.protocol {
        order.attribute(FRA_IP_PROTO, &[protocol]);
    }
    for (kind, ports) in
        [(FRA_SPORT_RANGE, &selector.source_ports), (FRA_DPORT_RANGE, &selector.destination_ports)]
    {
        if let Some(ports) = ports {
            let ends = [ports.start().to_ne_bytes(), ports.end().to_ne_bytes()];
            order.attribute(kind, &ends.concat());
        }
    }
    if let Some(users) = &selector.users {
        let ends = [users.start().to_ne_bytes(), users.end().to_ne_bytes()];
        order.attribute(FRA_UID_RANGE, &ends.concat());
    }
    if selector.is_local {
        order.attribute(FRA_IIFNAME, b"lo\0");
    }
    order
}

/// The order about the route to everywhere.
fn default_route(order: u16, table: u32, is_v6: bool, kind: u8) -> Message {
    let any: IpAddr = if is_v6 { [0_u16; 8].into() } else { [0_u8; 4].into() };
    let scope = if kind == libc::RTN_UNICAST && !is_v6 { libc::RT_SCOPE_LINK } else { 0 };
    let header = [family(any), 0, 0, 0, 0, RULE_PROTOCOL, scope, kind, 0, 0, 0, 0];
    let mut message = Message::new(order, &header);
    message.attribute(libc::RTA_TABLE, &table.to_ne_bytes());
    message
}

/// Who made a rule or a route, as `ip rule` shows it (`proto
/// 82`): a number that nobody else uses; 82 is an R.
pub const RULE_PROTOCOL: u8 = 82;

/// Behind every other route of a table.
const LAST_METRIC: u32 = u32::MAX;
/// Before it. Said, since IPv6 takes another one for none.
const FIRST_METRIC: u32 = 1024;

const FR_ACT_TO_TBL: u8 = 1;
const FR_ACT_GOTO: u8 = 2;
const FR_ACT_NOP: u8 = 3;
const FR_ACT_UNREACHABLE: u8 = 7;
const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_GOTO: u16 = 4;
const FRA_FWMARK: u16 = 10;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_UID_RANGE: u16 = 20;
const FRA_IP_PROTO: u16 = 22;
const FRA_SPORT_RANGE: u16 = 23;
const FRA_DPORT_RANGE: u16 = 24;
