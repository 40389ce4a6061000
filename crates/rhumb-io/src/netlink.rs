//! What the kernel knows about the way to a peer: interfaces, addresses, routes, neighbours. Asked
//! for over rtnetlink, one question and its answers at a time. And what it is told of an interface
//! of ours: size, addresses, up.
//!
//! Invariant: an answer that is not understood counts as none, and
//! then the kernel carries the datagram itself.
//! Source: rtnetlink(7), Linux
//! `include/uapi/linux/{netlink,rtnetlink,if_link,if_addr,neighbour}.h`.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// A hardware address.
pub(crate) type Mac = [u8; 6];

/// A socket to ask on. It belongs to the network namespace of the thread that made it.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

/// An interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    /// Whether it carries Ethernet frames.
    pub(crate) ethernet: bool,
    /// Whether somebody has brought it up, with a cable or without.
    pub(crate) is_up: bool,
    pub(crate) mac: Mac,
    pub(crate) mtu: u32,
}

/// The way to a destination: all of it the kernel's own decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    /// Index of the interface to leave by.
    pub(crate) interface: u32,
    /// The router to give it to; none when the destination is a neighbour.
    pub(crate) gateway: Option<IpAddr>,
    /// The address to send from.
    pub(crate) source: Option<IpAddr>,
    /// Largest packet, where the way takes less than the interface.
    pub(crate) mtu: Option<u32>,
}

impl Netlink {
    pub(crate) fn new() -> io::Result<Self> {
        // Closed on exec, as all sockets of this library.
        let socket = Socket::new(
            Domain::from(libc::AF_NETLINK),
            Type::DGRAM,
            Some(Protocol::from(libc::NETLINK_ROUTE)),
        )?;
        // The kernel answers before the question's system call
        // is over; this is for the day it does not.
        socket.set_read_timeout(Some(ANSWER_DEADLINE))?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; ANSWER_LEN] })
    }

    /// The interface with this name.
    pub(crate) fn link_by_name(&mut self, name: &str) -> io::Result<Link> {
        let mut text = name.as_bytes().to_vec();
        text.push(0);
        let mut question = Message::new(libc::RTM_GETLINK, &[0; 16]);
        question.attribute(IFLA_IFNAME, &text);
        self.link(question)
    }

    /// The interface with this index.
    pub(crate) fn link_by_index(&mut self, index: u32) -> io::Result<Link> {
        let mut header = [0; 16];
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        self.link(Message::new(libc::RTM_GETLINK, &header))
    }

    fn link(&mut self, question: Message) -> io::Result<Link> {
        let mut found = None;
        self.ask(question, |body| {
            found = found.take().or_else(|| parse_link(body));
        })?;
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The addresses of this host, each with the index of its interface.
    pub(crate) fn addresses(&mut self) -> io::Result<Vec<(u32, IpAddr)>> {
        let mut found = Vec::new();
        let mut question = Message::new(libc::RTM_GETADDR, &[0; 8]);
        question.flags |= libc::NLM_F_DUMP as u16;
        self.ask(question, |body| found.extend(parse_address(body)))?;
        Ok(found)
    }

    /// The way to `destination`, from `source` if that is given, and by interface `through` where
    /// it is on one link only. None where the kernel would not just send a packet to one host: no
    /// route, this host itself, a group, a tunnel.
    pub(crate) fn route(
        &mut self,
        destination: IpAddr,
        source: Option<IpAddr>,
        through: Option<u32>,
    ) -> Option<Route> {
        let bits = if destination.is_ipv4() { 32 } else { 128 };
        let from = source.filter(|source| source.is_ipv4() == destination.is_ipv4());
        let header =
            [family(destination), bits, from.map_or(0, |_| bits), 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut question = Message::new(libc::RTM_GETROUTE, &header);
        question.attribute(libc::RTA_DST, &octets(destination));
        if let Some(source) = from {
            question.attribute(libc::RTA_SRC, &octets(source));
        }
        if let Some(interface) = through {
            question.attribute(libc::RTA_OIF, &interface.to_ne_bytes());
        }
        let mut found = None;
        self.ask(question, |body| found = parse_route(body)).ok()?;
        found
    }

    /// Whether packets to this address are for this host.
    pub(crate) fn is_here(&mut self, address: IpAddr) -> bool {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let header = [family(address), bits, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let mut question = Message::new(libc::RTM_GETROUTE, &header);
        question.attribute(libc::RTA_DST, &octets(address));
        let mut here = false;
        let asked = self.ask(question, |body| here = body.get(7) == Some(&libc::RTN_LOCAL));
        asked.is_ok() && here
    }

    /// The hardware address of a neighbour, if the kernel believes in it.
    pub(crate) fn neighbour(&mut self, interface: u32, address: IpAddr) -> Option<Mac> {
        let mut header = [0; 12];
        header[0] = family(address);
        header[4..8].copy_from_slice(&interface.to_ne_bytes());
        let mut question = Message::new(libc::RTM_GETNEIGH, &header);
        question.attribute(NDA_DST, &octets(address));
        let mut found = None;
        self.ask(question, |body| found = parse_neighbour(body)).ok()?;
        found
    }

    /// Sets the largest packet of an interface and brings it up.
    pub(crate) fn bring_up(&mut self, interface: u32, mtu: u32) -> io::Result<()> {
        let up = (libc::IFF_UP as u32).to_ne_bytes();
        let mut header = [0; 16];
        header[4..8].copy_from_slice(&interface.to_ne_bytes());
        header[8..12].copy_from_slice(&up);
        header[12..].copy_from_slice(&up);
        let mut order = Message::new(libc::RTM_NEWLINK, &header);
        order.attribute(IFLA_MTU, &mtu.to_ne_bytes());
        self.order(order)
    }

    /// Gives an interface an address, and with it the network of the first
    /// `prefix` bits. One that it has already stays.
    pub(crate) fn add_address(
        &mut self,
        interface: u32,
        address: IpAddr,
        prefix: u8,
    ) -> io::Result<()> {
        // Nobody else can have an address on a device of ours:
        // no reason to ask the link about duplicates.
        let mut header = [family(address), prefix, libc::IFA_F_NODAD as u8, 0, 0, 0, 0, 0];
        header[4..].copy_from_slice(&interface.to_ne_bytes());
        let mut order = Message::new(libc::RTM_NEWADDR, &header);
        order.flags |= (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
        order.attribute(IFA_LOCAL, &octets(address));
        order.attribute(IFA_ADDRESS, &octets(address));
        self.order(order)
    }

    /// Leads what goes to `address`, which is not this host's own, out by an
    /// interface. A way to it that is there is replaced.
    pub(crate) fn add_route(&mut self, interface: u32, address: IpAddr) -> io::Result<()> {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        self.route_order(interface, (address, bits), libc::NLM_F_REPLACE)
    }

    /// Leads a network, its first address and how many bits make it, out by an interface. A way to
    /// it that is there is an error: `EEXIST`.
    pub(crate) fn add_network(&mut self, interface: u32, network: (IpAddr, u8)) -> io::Result<()> {
        self.route_order(interface, network, libc::NLM_F_EXCL)
    }

    fn route_order(
        &mut self,
        interface: u32,
        (address, bits): (IpAddr, u8),
        if_there: libc::c_int,
    ) -> io::Result<()> {
        let scope = match address {
            IpAddr::V4(_) => libc::RT_SCOPE_LINK,
            IpAddr::V6(_) => libc::RT_SCOPE_UNIVERSE,
        };
        let (table, by, kind) = (libc::RT_TABLE_MAIN, libc::RTPROT_STATIC, libc::RTN_UNICAST);
        let header = [family(address), bits, 0, 0, table, by, scope, kind, 0, 0, 0, 0];
        let mut order = Message::new(libc::RTM_NEWROUTE, &header);
        order.flags |= (libc::NLM_F_CREATE | if_there) as u16;
        order.attribute(libc::RTA_DST, &octets(address));
        order.attribute(libc::RTA_OIF, &interface.to_ne_bytes());
        self.order(order)
    }

    /// The rules of a family: the priority of each, and who made it.
    pub(crate) fn rules(&mut self, is_v6: bool) -> io::Result<Vec<(u32, u8)>> {
        let family = if is_v6 { libc::AF_INET6 } else { libc::AF_INET } as u8;
        let mut question =
            Message::new(libc::RTM_GETRULE, &[family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        question.flags |= libc::NLM_F_DUMP as u16;
        let mut found = Vec::new();
        self.ask(question, |body| found.extend(parse_rule(body)))?;
        Ok(found)
    }

    /// Has something done, and waits until it is.
    pub(crate) fn order(&mut self, mut order: Message) -> io::Result<()> {
        order.flags |= libc::NLM_F_ACK as u16;
        self.ask(order, |_| ())
    }

    /// Asks, and hands over the body of each message of the answer.
    fn ask(&mut self, question: Message, mut answer: impl FnMut(&[u8])) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let dump = question.flags & libc::NLM_F_DUMP as u16 != 0;
        self.socket.send(&question.finish(self.sequence))?;
        loop {
            let len = (&self.socket).read(&mut self.buffer)?;
            let mut rest = &self.buffer[..len];
            while let Some((header, body, next)) = split_message(rest) {
                rest = next;
                if header.sequence != self.sequence {
                    continue;
                }
                match i32::from(header.kind) {
                    libc::NLMSG_DONE => return Ok(()),
                    libc::NLMSG_ERROR => return error_in(body),
                    _ => answer(body),
                }
                if !dump {
                    return Ok(());
                }
            }
        }
    }
}

impl AsFd for Netlink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A question under construction.
pub(crate) struct Message {
    kind: u16,
    pub(crate) flags: u16,
    bytes: Vec<u8>,
}

impl Message {
    pub(crate) fn new(kind: u16, header: &[u8]) -> Self {
        let mut bytes = vec![0; MESSAGE_HEADER_LEN];
        bytes.extend_from_slice(header);
        Self { kind, flags: libc::NLM_F_REQUEST as u16, bytes }
    }

    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) {
        let len = (ATTRIBUTE_HEADER_LEN + value.len()) as u16;
        self.bytes.extend_from_slice(&len.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(align(self.bytes.len()), 0);
    }

    fn finish(mut self, sequence: u32) -> Vec<u8> {
        let len = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes[4..6].copy_from_slice(&self.kind.to_ne_bytes());
        self.bytes[6..8].copy_from_slice(&self.flags.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

/// Of a message of an answer.
struct Header {
    kind: u16,
    sequence: u32,
}

/// The first message of `bytes`, and what comes behind it.
fn split_message(bytes: &[u8]) -> Option<(Header, &[u8], &[u8])> {
    let len = u32_at(bytes, 0)? as usize;
    let body = bytes.get(MESSAGE_HEADER_LEN..len)?;
    let header = Header { kind: u16_at(bytes, 4)?, sequence: u32_at(bytes, 8)? };
    Some((header, body, bytes.get(align(len)..).unwrap_or_default()))
}

fn error_in(body: &[u8]) -> io::Result<()> {
    match u32_at(body, 0).map(u32::cast_signed) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn parse_link(body: &[u8]) -> Option<Link> {
    let kind = u16_at(body, 2)?;
    let mut link = Link {
        index: u32_at(body, 4)?,
        ethernet: kind == libc::ARPHRD_ETHER,
        is_up: u32_at(body, 8)? & libc::IFF_UP as u32 != 0,
        mac: Mac::default(),
        mtu: 0,
    };
    for (kind, value) in attributes(body.get(16..)?) {
        match kind {
            IFLA_ADDRESS if link.ethernet => link.mac = value.try_into().ok()?,
            IFLA_MTU => link.mtu = u32_at(value, 0)?,
            _ => {}
        }
    }
    Some(link)
}

fn parse_address(body: &[u8]) -> Option<(u32, IpAddr)> {
    let interface = u32_at(body, 4)?;
    let value = |wanted| {
        attributes(body.get(8..)?).find(|(kind, _)| *kind == wanted).and_then(|(_, v)| ip(v))
    };
    // On a wire between two hosts IFA_ADDRESS is the other end.
    value(IFA_LOCAL).or_else(|| value(IFA_ADDRESS)).map(|address| (interface, address))
}

fn parse_route(body: &[u8]) -> Option<Route> {
    if *body.get(7)? != libc::RTN_UNICAST {
        return None;
    }
    let mut interface = None;
    let mut route = Route { interface: 0, gateway: None, source: None, mtu: None };
    for (kind, value) in attributes(body.get(12..)?) {
        match kind {
            libc::RTA_OIF => interface = u32_at(value, 0),
            libc::RTA_GATEWAY => route.gateway = Some(ip(value)?),
            // A family of two bytes, then the address: a gateway of the other family.
            RTA_VIA => route.gateway = Some(ip(value.get(2..)?)?),
            libc::RTA_PREFSRC => route.source = Some(ip(value)?),
            libc::RTA_METRICS => {
                let mut metrics = attributes(value);
                route.mtu =
                    metrics.find(|(kind, _)| *kind == RTAX_MTU).and_then(|(_, v)| u32_at(v, 0));
            }
            RTA_ENCAP => return None,
            _ => {}
        }
    }
    route.interface = interface?;
    Some(route)
}

fn parse_rule(body: &[u8]) -> Option<(u32, u8)> {
    let (mut priority, mut maker) = (0, 0);
    for (kind, value) in attributes(body.get(12..)?) {
        match kind {
            FRA_PRIORITY => priority = u32_at(value, 0)?,
            FRA_PROTOCOL => maker = *value.first()?,
            _ => {}
        }
    }
    Some((priority, maker))
}

fn parse_neighbour(body: &[u8]) -> Option<Mac> {
    let state = u16_at(body, 8)?;
    if state & NEIGHBOUR_VALID == 0 {
        return None;
    }
    let (_, value) = attributes(body.get(12..)?).find(|(kind, _)| *kind == NDA_LLADDR)?;
    value.try_into().ok()
}

/// Kind and value of each attribute.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & KIND_MASK;
        let value = bytes.get(ATTRIBUTE_HEADER_LEN..len)?;
        bytes = bytes.get(align(len)..).unwrap_or_default();
        Some((kind, value))
    })
}

pub(crate) fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Messages and attributes begin at multiples of four.
fn align(len: usize) -> usize {
    len.next_multiple_of(4)
}

const MESSAGE_HEADER_LEN: usize = 16;
const ATTRIBUTE_HEADER_LEN: usize = 4;
/// The upper two bits of an attribute's kind are flags.
const KIND_MASK: u16 = 0x3FFF;
/// The kernel fills a message of an answer up to this size.
const ANSWER_LEN: usize = 32 << 10;
const ANSWER_DEADLINE: Duration = Duration::from_millis(100);

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// The place of a rule.
pub(crate) const FRA_PRIORITY: u16 = 6;
/// Who made it.
pub(crate) const FRA_PROTOCOL: u16 = 21;
const RTA_VIA: u16 = 18;
const RTA_ENCAP: u16 = 22;
const RTAX_MTU: u16 = 2;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// The states in which the kernel itself would send: reachable,
/// stale, delayed, probing, without ARP, permanent.
const NEIGHBOUR_VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_knows_its_loopback() {
        let mut netlink = Netlink::new().expect("rtnetlink needs no privilege");
        let link = netlink.link_by_name("lo").expect("every host has one");
        assert!(!link.ethernet);
        assert_eq!(netlink.link_by_index(link.index).expect("it is still there"), link);
        let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
        let addresses = netlink.addresses().expect("addresses");
        assert!(addresses.contains(&(link.index, loopback)), "{addresses:?}");
        assert_eq!(netlink.route(loopback, None, None), None, "a host's own address is no way");
        assert!(netlink.is_here(loopback));
        assert!(!netlink.is_here([192, 0, 2, 1].into()));
        assert_eq!(netlink.neighbour(link.index, loopback), None);
        let error = netlink.link_by_name("no such").expect_err("no such interface");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_parsing_panic(bytes in proptest::collection::vec(0u8..40, 0..120)) {
            let _ = (parse_link(&bytes), parse_address(&bytes), parse_neighbour(&bytes));
            let _ = (parse_route(&bytes), parse_rule(&bytes));
            let mut rest = &bytes[..];
            while let Some((_, _, next)) = split_message(rest) {
                proptest::prop_assert!(next.len() < rest.len());
                rest = next;
            }
        }
    }
}
