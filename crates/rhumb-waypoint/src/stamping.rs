//! Stamps batches of packets: sans-IO. What may not be stamped is dropped and counted, or passes as
//! it is where that was asked for.
//!
//! Invariant: a packet leaves a batch stamped, or dropped; or as it came, only with
//! [`Fallback::Plain`] and only for want of a key.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use rhumb_capability::{CapabilityError, PacketIds, Stamper};
use rhumb_io::ip::{Fate, IpBatch, ends_of};

/// What becomes of packets when there is no key to stamp them with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fallback {
    /// They are dropped.
    #[default]
    Drop,
    /// They go as if there were no stamper.
    Plain,
}

/// Why a packet was not stamped, or not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum DropReason {
    /// No valid key for one of the waypoints, or no waypoints of this family.
    NoKey,
    /// A capability was delegated for other destinations.
    OutsidePrefix,
    /// The stamped packet would be larger than an IP packet can be.
    TooLarge,
    /// Nothing that can be stamped: for the link alone, or no whole packet.
    NotForWaypoints,
    /// The path takes less than it did: the stack is told, and sends smaller ones.
    PathTooNarrow,
    /// A queue was full.
    Busy,
    /// No way to the first waypoint.
    Unreachable,
}

impl DropReason {
    /// All of them, in the order of their counters.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Its name in metrics.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// What was done, counted by the thread that does it and read by others.
#[derive(Debug, Default)]
pub struct Counts {
    /// Packets that were stamped.
    pub stamped_packets: AtomicU64,
    /// Their bytes, as they were before.
    pub stamped_bytes: AtomicU64,
    /// Sent as they were.
    pub plain_packets: AtomicU64,
    dropped: [AtomicU64; DropReason::ALL.len()],
}

impl Counts {
    fn drop_one(&self, reason: DropReason) {
        self.dropped[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Packets dropped for a reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize].load(Ordering::Relaxed)
    }
}

/// What packets of each family are stamped by.
#[derive(Debug, Default, Clone, Copy)]
pub struct Stampers<'a> {
    /// Of IPv4.
    pub v4: Option<&'a Stamper>,
    /// Of IPv6.
    pub v6: Option<&'a Stamper>,
}

impl<'a> Stampers<'a> {
    fn of(&self, destination: IpAddr, now_s: u64) -> Option<&'a Stamper> {
        let stamper = if destination.is_ipv4() { self.v4 } else { self.v6 };
        stamper.filter(|stamper| now_s <= stamper.not_after_s())
    }
}

/// Stamps all packets of a batch, at `now_us` of Unix time.
pub fn stamp_batch(
    batch: &mut IpBatch,
    stampers: &Stampers<'_>,
    fallback: Fallback,
    ids: &mut PacketIds,
    now_us: u64,
    counts: &Counts,
) {
    // One list for each stamper, since only packets of one are stamped side by side.
    let mut lists: [Vec<usize>; 2] = [const { Vec::new() }; 2];
    for index in 0..batch.len() {
        let packet = batch.packet(index);
        if packet.is_empty() {
            continue;
        }
        let destination = ends_of(packet).map(|(_, destination)| destination);
        let Some(destination) = destination.filter(|it| !is_of_the_link(*it)) else {
            counts.drop_one(DropReason::NotForWaypoints);
            batch.drop_packet(index);
            continue;
        };
        if stampers.of(destination, now_us / 1_000_000).is_some() {
            lists[usize::from(destination.is_ipv6())].push(index);
        } else if fallback == Fallback::Plain {
            counts.plain_packets.fetch_add(1, Ordering::Relaxed);
        } else {
            counts.drop_one(DropReason::NoKey);
            batch.drop_packet(index);
        }
    }
    for (list, stamper) in lists.iter().zip([stampers.v4, stampers.v6]) {
        if let Some(stamper) = stamper {
            stamp_listed(batch, list, stamper, ids, now_us, counts);
        }
    }
}

/// Stamps the packets of these numbers.
fn stamp_listed(
    batch: &mut IpBatch,
    list: &[usize],
    stamper: &Stamper,
    ids: &mut PacketIds,
    now_us: u64,
    counts: &Counts,
) {
    // A stamp that had no room in front of its packet would be in the cell of another.
    let (list, narrow): (Vec<usize>, Vec<usize>) =
        list.iter().partition(|index| batch.headroom(**index) >= stamper.headroom());
    let places: Vec<Range<usize>> = list.iter().map(|index| batch.place_in_arena(*index)).collect();
    let mut results = Vec::with_capacity(list.len() + narrow.len());
    stamper.stamp_batch(batch.arena_mut(), &places, ids, now_us, |number, stamped| {
        results.push((list[number], stamped));
    });
    for index in narrow {
        let begin = batch.place_in_arena(index).start - batch.headroom(index);
        let (room, packet) = batch.room_mut(index);
        let stamped = stamper.stamp(room, packet, ids, now_us);
        results.push((index, stamped.map(|place| begin + place.start..begin + place.end)));
    }
    for (index, stamped) in results {
        match stamped {
            Ok(place) => {
                let len = batch.packet(index).len() as u64;
                batch.place_by_arena(index, place);
                counts.stamped_packets.fetch_add(1, Ordering::Relaxed);
                counts.stamped_bytes.fetch_add(len, Ordering::Relaxed);
            }
            Err(error) => {
                counts.drop_one(match error {
                    CapabilityError::OutsidePrefix => DropReason::OutsidePrefix,
                    CapabilityError::PacketTooLarge => DropReason::TooLarge,
                    _ => DropReason::NotForWaypoints,
                });
                batch.drop_packet(index);
            }
        }
    }
}

/// Counts what was not sent. Whether some packet was too big for the path.
pub fn count_fates(batch: &IpBatch, counts: &Counts) -> bool {
    let mut is_narrow = false;
    for (index, _) in batch.iter() {
        match batch.fate(index) {
            Fate::TooBig => {
                is_narrow = true;
                counts.drop_one(DropReason::PathTooNarrow);
            }
            Fate::Busy => counts.drop_one(DropReason::Busy),
            Fate::Unreachable => counts.drop_one(DropReason::Unreachable),
            _ => {}
        }
    }
    is_narrow
}

/// What never leaves a link: the stack says it into every device that comes up.
fn is_of_the_link(destination: IpAddr) -> bool {
    match destination {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_multicast() || v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_capability::{
        Capability, Credential, Delegations, Encapsulation, Epoch, EpochKeys, Flags, HeaderView,
        Master, Prefix, Principal, Scheme, Suite, Window, WindowClock,
    };

    const NOW_US: u64 = 1_700_000_000_000_000;

    /// Of principal 7 for a window.
    fn credential(waypoint: &str, clock: WindowClock, window: Window) -> Credential {
        let keys = EpochKeys::new(Epoch(1), &Master::new([5; Master::LEN]));
        let capability = Capability {
            waypoint: waypoint.parse().unwrap(),
            principal: Principal(7),
            flags: Flags::NONE,
            window,
            epoch: Epoch(1),
            suite: Suite::HeaderAes,
            scheme: Scheme::CaveatChain,
            delegations: Delegations::default(),
        };
        keys.mint(capability, clock.not_after_s(window)).unwrap().into()
    }

    fn packet(destination: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 9];
        packet.extend_from_slice(&destination);
        packet.extend_from_slice(b"payload!");
        packet
    }

    fn stamper(prefix: Option<&str>) -> Stamper {
        let clock = WindowClock::default();
        let whole = credential("192.0.2.1", clock, clock.at(NOW_US));
        let id = rhumb_capability::DelegationId::new(1).unwrap();
        let prefix: Option<Prefix> = prefix.map(|text| text.parse().unwrap());
        let credential = prefix.map_or(whole, |prefix| {
            credential("192.0.2.1", clock, clock.at(NOW_US)).delegate(prefix, id).unwrap()
        });
        Stamper::new(&[&credential], Encapsulation::IP).unwrap()
    }

    /// Packets left of those to these destinations, and the counts.
    fn stamped(
        stampers: &Stampers<'_>,
        fallback: Fallback,
        now_us: u64,
        to: &[[u8; 4]],
    ) -> (IpBatch, Counts) {
        let mut batch = IpBatch::new(1500);
        for destination in to {
            assert!(batch.push(&packet(*destination)));
        }
        let counts = Counts::default();
        let mut ids = PacketIds::new(0, 1);
        stamp_batch(&mut batch, stampers, fallback, &mut ids, now_us, &counts);
        (batch, counts)
    }

    #[test]
    fn what_is_stamped_says_whence_and_whither() {
        let stamper = stamper(None);
        let stampers = Stampers { v4: Some(&stamper), v6: None };
        let (batch, counts) = stamped(&stampers, Fallback::Drop, NOW_US, &[[198, 51, 100, 1]]);
        let stamped = batch.packet(0);
        assert_eq!((stamped[9], &stamped[16..20]), (253, &[192, 0, 2, 1][..]));
        let view = HeaderView::parse(&stamped[20..]).unwrap();
        assert_eq!(view.destination(), IpAddr::from([198, 51, 100, 1]));
        assert_eq!((view.source(), view.protocol()), (IpAddr::from([192, 0, 2, 9]), 17));
        assert_eq!(view.payload(), b"payload!");
        assert_eq!(counts.stamped_packets.load(Ordering::Relaxed), 1);
        assert_eq!(counts.stamped_bytes.load(Ordering::Relaxed), 28);
    }

    #[test]
    fn without_a_valid_key_packets_are_dropped_or_pass_as_asked() {
        let stamper = stamper(None);
        let stampers = Stampers { v4: Some(&stamper), v6: None };
        let late_us = (stamper.not_after_s() + 1) * 1_000_000;
        for (stampers, now_us) in [(&stampers, late_us), (&Stampers::default(), NOW_US)] {
            let (batch, counts) = stamped(stampers, Fallback::Drop, now_us, &[[198, 51, 100, 1]]);
            assert_eq!((batch.iter().count(), counts.dropped(DropReason::NoKey)), (0, 1));
            let (batch, counts) = stamped(stampers, Fallback::Plain, now_us, &[[198, 51, 100, 1]]);
            assert_eq!(batch.packet(0), packet([198, 51, 100, 1]));
            assert_eq!(counts.plain_packets.load(Ordering::Relaxed), 1);
        }
    }

    #[test]
    fn what_is_not_for_waypoints_is_dropped_by_reason_also_where_plain_is_allowed() {
        let stamper = stamper(Some("198.51.100.0/24"));
        let stampers = Stampers { v4: Some(&stamper), v6: None };
        let to = [[198, 51, 100, 1], [198, 51, 101, 1], [224, 0, 0, 22], [255; 4]];
        let (batch, counts) = stamped(&stampers, Fallback::Plain, NOW_US, &to);
        assert_eq!(batch.iter().map(|(index, _)| index).collect::<Vec<_>>(), [0]);
        assert_eq!(counts.dropped(DropReason::OutsidePrefix), 1);
        assert_eq!(counts.dropped(DropReason::NotForWaypoints), 2);
    }

    #[test]
    fn each_reason_has_a_counter_of_its_own() {
        let counts = Counts::default();
        for &reason in DropReason::ALL {
            counts.drop_one(reason);
        }
        assert!(DropReason::ALL.iter().all(|reason| counts.dropped(*reason) == 1));
    }
}
