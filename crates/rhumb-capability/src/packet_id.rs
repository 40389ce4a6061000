//! Packet ids: 44 bits of microseconds, 20 bits that tell packets of one microsecond apart. `docs/platypus.md`, section 2.2.

use crate::DropReason;

/// What makes a packet unlike all others of its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PacketId(pub u64);

impl PacketId {
    /// Microseconds of Unix time, modulo 2^44: 203 days.
    pub fn time_us(self) -> u64 {
        self.0 >> COUNTER_BITS
    }

    /// Core and counter of the sender.
    pub fn counter(self) -> u32 {
        (self.0 & COUNTER_MASK) as u32
    }

    /// Sixteen bits of it, for where there is no room for more.
    pub(crate) fn fold(self) -> u16 {
        (self.0 ^ self.0 >> COUNTER_BITS) as u16
    }

    /// Whether the packet is neither older than three seconds nor from the future.
    #[inline]
    pub(crate) fn check_age(self, now_us: u64) -> Result<(), DropReason> {
        let age_us = now_us.wrapping_sub(self.time_us()) & TIME_MASK;
        if age_us <= MAX_AGE_US || age_us > TIME_MASK - MAX_AHEAD_US {
            return Ok(());
        }
        let is_old = age_us <= TIME_MASK / 2;
        Err(if is_old { DropReason::Stale } else { DropReason::Early })
    }
}

/// Gives ids: none twice, over cores, and over restarts as long as the clock goes on.
#[derive(Debug)]
pub struct PacketIds {
    core: u64,
    counter: u64,
    last_us: u64,
}

impl PacketIds {
    /// Ids of one of up to 64 cores. `random` makes it unlikely that another program, or the same one after a restart with
    /// its clock set back, gives the same ones.
    pub fn new(core: u8, random: u32) -> Self {
        let core = u64::from(core % CORES) << CORE_SHIFT;
        Self { core, counter: u64::from(random) % PER_MICROSECOND, last_us: 0 }
    }

    /// The next id, at `now_us`, microseconds of Unix time.
    ///
    /// Beyond 16,384 ids in a microsecond, and while the clock is back by less than a second, its time runs ahead.
    pub fn next(&mut self, now_us: u64) -> PacketId {
        self.counter = (self.counter + 1) % PER_MICROSECOND;
        if now_us > self.last_us || self.last_us - now_us > MAX_LEAD_US {
            self.last_us = now_us;
        } else {
            // Time stands still: each id takes the next counter, and each round of them the next microsecond.
            self.last_us += u64::from(self.counter == 0);
        }
        PacketId((self.last_us & TIME_MASK) << COUNTER_BITS | self.core | self.counter)
    }
}

const COUNTER_BITS: u32 = 20;
const COUNTER_MASK: u64 = (1 << COUNTER_BITS) - 1;
const TIME_MASK: u64 = (1 << 44) - 1;
/// Six bits of core.
const CORES: u8 = 64;
const CORE_SHIFT: u32 = 14;
const PER_MICROSECOND: u64 = 1 << CORE_SHIFT;
/// A clock that is back by more was set.
const MAX_LEAD_US: u64 = 1_000_000;
/// What the replay filter remembers. Ten times the longest way around the world.
pub(crate) const MAX_AGE_US: u64 = 3_000_000;
/// Clocks that follow a time server differ by less.
pub(crate) const MAX_AHEAD_US: u64 = 500_000;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000_000;

    #[test]
    fn ids_differ_within_a_microsecond_and_when_time_stands_or_goes_back() {
        let mut seen = std::collections::HashSet::new();
        let mut first = PacketIds::new(0, 77);
        let mut second = PacketIds::new(1, 77);
        for step in 0..100_000_u64 {
            let now = NOW + [0, 1, 0, 900][(step % 4) as usize];
            assert!(seen.insert(first.next(now)), "{step}");
            assert!(seen.insert(second.next(now)), "{step}");
        }
    }

    #[test]
    fn a_clock_that_was_set_back_is_followed() {
        let mut ids = PacketIds::new(3, 0);
        ids.next(NOW + 2_000_000);
        assert_eq!(ids.next(NOW).time_us(), NOW & TIME_MASK);
        assert_eq!(ids.next(NOW - 999_999).time_us(), NOW & TIME_MASK);
        assert_eq!(ids.next(NOW).counter() >> CORE_SHIFT, 3);
    }

    #[test]
    fn age_is_bounded_on_both_sides_and_across_the_wrap() {
        for now in [NOW, TIME_MASK - 100, TIME_MASK + 1, TIME_MASK + 100] {
            let at = |us: u64| PacketId((us & TIME_MASK) << COUNTER_BITS).check_age(now);
            assert_eq!(at(now), Ok(()));
            assert_eq!(at(now - MAX_AGE_US), Ok(()));
            assert_eq!(at(now - MAX_AGE_US - 1), Err(DropReason::Stale));
            assert_eq!(at(now + MAX_AHEAD_US), Ok(()));
            assert_eq!(at(now + MAX_AHEAD_US + 1), Err(DropReason::Early));
        }
    }
}
