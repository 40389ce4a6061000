//! An interface that rings are on: what it is called and has,
//! and the addresses at which datagrams are ours.
//!
//! Invariant: what is known of it is at most [`REFRESH_EVERY`] old while somebody waits for
//! datagrams. Until a change is noticed, the kernel stands in: it gets what the program does not
//! take, and drops what is not for this host.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use super::frame::{ETHERNET_LEN, Ends};
use super::queue::{FRAME_LEN, HEADROOM_LEN};
use super::ways::{Asking, Way};
use super::{Refusal, bpf};
use crate::netlink::{Link, Mac, Netlink};

/// The interface, as it was a moment ago.
pub(super) struct Interface {
    name: String,
    link: Link,
    netlink: Netlink,
    addresses: Addresses,
    refresh_at: Instant,
    is_gone: bool,
}

/// Where the sockets beside the rings are bound: each family's address,
/// unspecified for all of them, `None` for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listening {
    pub(crate) ipv4: Option<Ipv4Addr>,
    pub(crate) ipv6: Option<Ipv6Addr>,
    /// Whether packets that arrive here for an address of another interface are ours, too.
    pub(crate) whole_host: bool,
}

impl Listening {
    /// A UDP socket at this address.
    pub(super) fn at(address: IpAddr) -> Self {
        let (ipv4, ipv6) = match address {
            IpAddr::V4(address) => (Some(address), None),
            IpAddr::V6(any) if any.is_unspecified() => (Some(Ipv4Addr::UNSPECIFIED), Some(any)),
            IpAddr::V6(address) => (None, Some(address)),
        };
        Self { ipv4, ipv6, whole_host: false }
    }

    fn has(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(it) => self.ipv4.is_some_and(|bound| bound.is_unspecified() || bound == it),
            IpAddr::V6(it) => self.ipv6.is_some_and(|bound| bound.is_unspecified() || bound == it),
        }
    }
}

/// The addresses at which datagrams are ours, and the program's copy of them.
struct Addresses {
    listening: Listening,
    map: OwnedFd,
    inserted: Vec<IpAddr>,
    /// All addresses of this host, sorted: nobody outside of it has one of them.
    host: Vec<IpAddr>,
}

impl Interface {
    /// The interface called `name`, for a UDP socket at `local`.
    pub(super) fn of_socket(name: &str, local: SocketAddr) -> Result<Self, Refusal> {
        let interface = Self::named(name, Listening::at(local.ip()))?;
        if interface.addresses.inserted.is_empty() && !local.ip().is_unspecified() {
            return Err(Refusal::AddressElsewhere { interface: interface.name, address: local });
        }
        Ok(interface)
    }

    /// The interface called `name`.
    pub(super) fn named(name: &str, listening: Listening) -> Result<Self, Refusal> {
        let name = name.to_owned();
        let mut netlink = Netlink::new().map_err(|error| Refusal::of("socket(NETLINK)", error))?;
        let link = netlink.link_by_name(&name);
        let link = link.map_err(|source| Refusal::Interface { interface: name.clone(), source })?;
        if !link.ethernet {
            return Err(Refusal::NotEthernet { interface: name });
        }
        if link.mtu > MAX_MTU {
            let (mtu, limit) = (link.mtu, MAX_MTU);
            return Err(Refusal::MtuTooLarge { interface: name, mtu, limit });
        }
        let map = bpf::set_of_addresses(MAX_ADDRESSES)
            .map_err(|error| Refusal::of("BPF_MAP_CREATE(HASH)", error))?;
        let addresses = Addresses { listening, map, inserted: Vec::new(), host: Vec::new() };
        let refresh_at = Instant::now();
        let mut interface = Self { name, link, netlink, addresses, refresh_at, is_gone: false };
        let ours = interface.read_addresses();
        let ours = ours.map_err(|error| Refusal::of("RTM_GETADDR", error))?;
        interface.addresses.replace(&ours);
        Ok(interface)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn index(&self) -> u32 {
        self.link.index
    }

    /// The addresses at which datagrams are ours, as the program looks them up.
    pub(super) fn addresses(&self) -> BorrowedFd<'_> {
        self.addresses.map.as_fd()
    }

    /// Its hardware address.
    pub(super) fn mac(&self) -> Mac {
        self.link.mac
    }

    /// Its index, and bytes of its largest packet.
    pub(super) fn index_and_mtu(&self) -> (u32, u32) {
        (self.link.index, self.link.mtu)
    }

    /// Whom to ask for ways that begin at one of `interfaces`, from
    /// address `source` where only that is sent from.
    pub(super) fn kernel<'a>(
        &'a mut self,
        interfaces: &'a [(u32, u32)],
        source: Option<IpAddr>,
    ) -> Asking<'a> {
        Asking { netlink: &mut self.netlink, interfaces, source }
    }

    /// Whether it was removed, as far as is known.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Reads what may have changed, if it is time to.
    pub(super) fn refresh(&mut self, now: Instant) {
        if now < self.refresh_at {
            return;
        }
        self.refresh_at = now + REFRESH_EVERY;
        // What cannot be read stays as it was: the kernel
        // drops what is not for it, and we ask again.
        match self.netlink.link_by_index(self.link.index) {
            Ok(link) => self.link = Link { mtu: link.mtu.min(MAX_MTU), ..link },
            Err(error) => self.is_gone |= error.raw_os_error() == Some(libc::ENODEV),
        }
        if let Ok(ours) = self.read_addresses() {
            self.addresses.replace(&ours);
        }
    }

    /// The addresses at which what arrives here is ours. Notes those of the whole host, too.
    fn read_addresses(&mut self) -> io::Result<Vec<IpAddr>> {
        let (index, listening) = (self.link.index, self.addresses.listening);
        let all = self.netlink.addresses()?;
        self.addresses.host = all.iter().map(|(_, address)| *address).collect();
        self.addresses.host.sort_unstable();
        let here = |(interface, address): &(u32, IpAddr)| {
            *interface == index || (listening.whole_host && !address.is_loopback())
        };
        let ours = all.into_iter().filter(here).map(|(_, address)| address);
        Ok(ours.filter(|it| listening.has(*it)).take(MAX_ADDRESSES as usize).collect())
    }

    /// Whether a sender claims to be this host. The kernel drops such packets; an answer would come
    /// back to ourselves, and so would the answer to that.
    pub(super) fn is_this_host(&self, peer: IpAddr) -> bool {
        self.addresses.host.binary_search(&peer).is_ok()
    }

    pub(super) fn ends(&self, way: &Way, port: u16, peer: SocketAddr) -> Ends {
        let source = SocketAddr::new(way.source, port);
        Ends { source_mac: self.link.mac, next_mac: way.mac, source, destination: peer }
    }
}

impl AsFd for Interface {
    /// Some socket in its network namespace.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netlink.as_fd()
    }
}

impl Addresses {
    /// Tells the program about addresses that came and went.
    fn replace(&mut self, ours: &[IpAddr]) {
        let map = self.map.as_fd();
        let gone = |address: &IpAddr| !ours.contains(address);
        for address in self.inserted.iter().filter(|address| gone(address)) {
            let _ = bpf::remove_address(map, &key(*address));
        }
        self.inserted.retain(|address| !gone(address));
        for address in ours {
            if !self.inserted.contains(address) && bpf::insert_address(map, &key(*address)).is_ok()
            {
                self.inserted.push(*address);
            }
        }
    }
}

/// An address as the program looks it up.
fn key(address: IpAddr) -> [u8; bpf::ADDRESS_LEN] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The Ethernet interfaces that have the address `local`; for all addresses, those that have any.
/// Those that are not up count where none is. One that is up counts without a cable, too: a router
/// may be started before that is in.
pub(crate) fn find_interfaces(local: SocketAddr) -> Vec<String> {
    let (Ok(all), Ok(mut netlink)) = (if_addrs::get_if_addrs(), Netlink::new()) else {
        return Vec::new();
    };
    let fits = |it: &if_addrs::Interface| local.ip().is_unspecified() || it.ip() == local.ip();
    let mut names: Vec<&str> = all.iter().filter(|it| fits(it)).map(|it| &*it.name).collect();
    names.sort_unstable();
    names.dedup();
    let link = |name: &'_ str| netlink.link_by_name(name).ok().map(|link| (name.to_owned(), link));
    let mut found: Vec<(String, Link)> =
        names.into_iter().filter_map(link).filter(|(_, link)| link.ethernet).collect();
    if found.iter().any(|(_, link)| link.is_up) {
        found.retain(|(_, link)| link.is_up);
    }
    found.into_iter().map(|(name, _)| name).collect()
}

/// Largest packet of an interface whose frames fit into ours.
const MAX_MTU: u32 = (FRAME_LEN - HEADROOM_LEN - ETHERNET_LEN) as u32;

/// Addresses of an interface at which we receive by the rings; at more, through the socket.
const MAX_ADDRESSES: u32 = 256;

/// How often the addresses of the interface are read. Until
/// then, a new one is served through the socket.
const REFRESH_EVERY: Duration = Duration::from_secs(1);
