//! The ways to peers: which address to send from, and which hardware address to
//! send to. The kernel decides; this remembers.
//!
//! 1. For a peer not known, or whose way has expired, the kernel is
//!    asked for the route and for the neighbour.
//! 2. The datagrams of that batch go through the socket all the same. So the kernel looks for a
//!    neighbour that it does not know, and confirms one that it does: without any traffic of its
//!    own it would take no notice of a change.
//! 3. From the next batch on the way is used, until it expires.
//!
//! Nothing is learnt from frames received: whoever can send us one with somebody else's address in
//! it would take over that peer's datagrams. Invariants: a way is at most [`WAY_LIFE`] old; at most
//! [`MAX_WAYS`] are remembered; strangers cause at most [`NEW_PER_SECOND`] questions a second.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use crate::netlink::{Mac, Netlink, Route};

/// Whom to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Peer {
    pub(super) ip: IpAddr,
    /// Index of the interface whose link it is on, where its address alone does not tell.
    pub(super) through: Option<u32>,
}

impl Peer {
    /// Who sent from this address; `None` where frames of ours cannot be for it.
    pub(super) fn at(address: SocketAddr) -> Option<Self> {
        let through = match address {
            SocketAddr::V6(it) if it.ip().to_ipv4_mapped().is_some() => return None,
            SocketAddr::V6(it) if it.ip().is_unicast_link_local() => Some(it.scope_id()),
            _ => None,
        };
        Some(Self { ip: address.ip(), through })
    }
}

/// How frames reach a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    /// Index of the interface that it begins at.
    pub(super) interface: u32,
    /// Our address towards the peer.
    pub(super) source: IpAddr,
    /// The next hop.
    pub(super) mac: Mac,
    /// Bytes of the largest packet that it takes.
    pub(super) max_packet: usize,
}

/// Whom the kernel is asked.
pub(super) trait Kernel {
    /// The way to a peer, `None` when frames of ours cannot go it.
    fn way_to(&mut self, peer: Peer) -> Option<Way>;
}

/// The ways that are known.
pub(super) struct Ways {
    entries: HashMap<Peer, Entry>,
    /// Peers that may still be asked about for the first time in the second that ends then.
    new_left: u32,
    new_until: Option<Instant>,
}

struct Entry {
    way: Option<Way>,
    until: Instant,
    /// The batch in which this peer's datagrams go through the socket, from
    /// the first that has to: they keep their order.
    by_socket: u64,
}

impl Ways {
    pub(super) fn new() -> Self {
        Self { entries: HashMap::new(), new_left: 0, new_until: None }
    }

    /// The way for a packet of `len` bytes to `peer` in batch number `batch`;
    /// `None` says that it goes through the socket.
    pub(super) fn find(
        &mut self,
        kernel: &mut impl Kernel,
        peer: Peer,
        len: usize,
        batch: u64,
        now: Instant,
    ) -> Option<Way> {
        if let Some(entry) = self.entries.get_mut(&peer) {
            if entry.until <= now {
                *entry = Entry::new(kernel.way_to(peer), batch, now);
            }
            let fits = entry.way.filter(|way| entry.by_socket != batch && len <= way.max_packet);
            if fits.is_none() {
                entry.by_socket = batch;
            }
            return fits;
        }
        if self.may_ask(now) {
            self.entries.insert(peer, Entry::new(kernel.way_to(peer), batch, now));
        }
        None
    }

    /// Whether there may be one more entry.
    fn may_ask(&mut self, now: Instant) -> bool {
        if self.new_until.is_none_or(|until| until <= now) {
            self.new_until = Some(now + Duration::from_secs(1));
            self.new_left = NEW_PER_SECOND;
            if self.entries.len() >= MAX_WAYS / 2 {
                self.entries.retain(|_, entry| entry.until + FORGOTTEN_AFTER > now);
            }
        }
        if self.new_left == 0 || self.entries.len() >= MAX_WAYS {
            return false;
        }
        self.new_left -= 1;
        true
    }
}

impl Entry {
    fn new(way: Option<Way>, batch: u64, now: Instant) -> Self {
        let life = if way.is_some() { WAY_LIFE } else { NO_WAY_LIFE };
        Self { way, until: now + life, by_socket: batch }
    }
}

/// The kernel, asked over rtnetlink.
pub(super) struct Asking<'a> {
    pub(super) netlink: &'a mut Netlink,
    /// The interfaces that our frames leave by: index, and bytes of the largest packet.
    pub(super) interfaces: &'a [(u32, u32)],
    /// The address that is sent from, where there is only one.
    pub(super) source: Option<IpAddr>,
}

impl Kernel for Asking<'_> {
    fn way_to(&mut self, Peer { ip: peer, through }: Peer) -> Option<Way> {
        let route = self.netlink.route(peer, self.source, through)?;
        let ours = |(index, _): &&(u32, u32)| *index == route.interface;
        let &(interface, interface_mtu) = self.interfaces.iter().find(ours)?;
        let Route { gateway, source, mtu, .. } = route;
        let source = self.source.or(source)?;
        if source.is_ipv4() != peer.is_ipv4() {
            return None;
        }
        let mac = self.netlink.neighbour(interface, gateway.unwrap_or(peer))?;
        let max_packet = mtu.map_or(interface_mtu, |mtu| mtu.min(interface_mtu)) as usize;
        Some(Way { interface, source, mac, max_packet })
    }
}

/// How long a way is believed: a neighbour that moves is lost for as
/// long, and each peer costs a question per life.
const WAY_LIFE: Duration = Duration::from_secs(1);

/// How soon the kernel is asked again where it had no way: the time in which a neighbour answers.
const NO_WAY_LIFE: Duration = Duration::from_millis(20);

/// How long an entry is kept that nobody asks for.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// Peers asked about for the first time per second. An answer takes about 10 us, so strangers with
/// made-up addresses cost at most a hundredth of the worker's time; a router that starts has its
/// first thousand peers at once.
const NEW_PER_SECOND: u32 = 1000;

/// Entries of the table: more peers than fit are served, through the socket.
const MAX_WAYS: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers with what it is told to, and counts.
    struct Told {
        way: Option<Way>,
        questions: usize,
    }

    impl Kernel for Told {
        fn way_to(&mut self, _: Peer) -> Option<Way> {
            self.questions += 1;
            self.way
        }
    }

    const WAY: Way = Way {
        interface: 1,
        source: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        mac: [7; 6],
        max_packet: 1472,
    };

    fn peer(number: u32) -> Peer {
        Peer { ip: std::net::Ipv4Addr::from_bits(0x0A00_0000 + number).into(), through: None }
    }

    #[test]
    fn who_is_on_a_link_is_looked_for_there() {
        let at = |text: &str| Peer::at(text.parse().expect("an address"));
        let through = |text| at(text).map(|peer| peer.through);
        assert_eq!(through("192.0.2.1:7"), Some(None));
        assert_eq!(through("[2001:db8::1]:7"), Some(None));
        assert_eq!(through("[fe80::1%3]:7"), Some(Some(3)));
        assert_ne!(at("[fe80::1%3]:7"), at("[fe80::1%4]:7"));
        assert_eq!(through("[::ffff:192.0.2.1]:7"), None);
    }

    #[test]
    fn a_way_is_used_from_the_second_batch_and_renewed_through_the_socket() {
        let (mut ways, mut kernel) = (Ways::new(), Told { way: Some(WAY), questions: 0 });
        let start = Instant::now();
        let mut find = |batch, len, after| {
            let found = ways.find(&mut kernel, peer(1), len, batch, start + after);
            (found.is_some(), kernel.questions)
        };
        let nearly = WAY_LIFE - Duration::from_millis(1);
        assert_eq!(find(1, 100, Duration::ZERO), (false, 1));
        assert_eq!(find(1, 100, Duration::ZERO), (false, 1), "one batch keeps its order");
        assert_eq!(find(2, 1472, Duration::ZERO), (true, 1));
        assert_eq!(find(2, 1473, nearly), (false, 1), "too large for a frame");
        assert_eq!(find(2, 100, nearly), (false, 1), "behind one that is too large");
        assert_eq!(find(3, 100, nearly), (true, 1));
        assert_eq!(find(4, 100, WAY_LIFE), (false, 2), "renewed");
        assert_eq!(find(5, 100, WAY_LIFE), (true, 2));
    }

    #[test]
    fn where_there_is_no_way_the_kernel_is_asked_again_soon() {
        let (mut ways, mut kernel) = (Ways::new(), Told { way: None, questions: 0 });
        let start = Instant::now();
        for batch in 1..10 {
            assert_eq!(ways.find(&mut kernel, peer(1), 1, batch, start), None);
        }
        assert_eq!(kernel.questions, 1);
        kernel.way = Some(WAY);
        assert_eq!(ways.find(&mut kernel, peer(1), 1, 10, start + NO_WAY_LIFE), None);
        assert_eq!(ways.find(&mut kernel, peer(1), 1, 11, start + NO_WAY_LIFE), Some(WAY));
    }

    #[test]
    fn strangers_cost_a_bounded_number_of_questions_and_entries() {
        let (mut ways, mut kernel) = (Ways::new(), Told { way: Some(WAY), questions: 0 });
        let start = Instant::now();
        let mut number = 0;
        for second in 0..100 {
            let now = start + Duration::from_secs(second);
            for _ in 0..2 * NEW_PER_SECOND {
                number += 1;
                ways.find(&mut kernel, peer(number), 1, u64::from(number), now);
            }
            assert_eq!(kernel.questions, (second as usize + 1) * NEW_PER_SECOND as usize);
            assert!(ways.entries.len() <= MAX_WAYS);
        }
        // Those that were asked for long ago made room.
        assert!(ways.entries.len() < 90 * NEW_PER_SECOND as usize);
    }
}
