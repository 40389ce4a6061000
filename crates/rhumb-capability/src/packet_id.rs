//! Packet ids: 44 bits of microseconds, 20 bits that tell packets of one microsecond apart.
//! `docs/platypus.md`, section 2.2.

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
}

/// The packets that are in time at a moment, by the time of their ids.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InTime {
    first_us: u64,
    /// From the first microsecond to the last one.
    span_us: u64,
}

impl InTime {
    /// At `now_us`: what is neither older than three seconds nor from the future, nor of a time of
    /// which a verifier that started at `start_us` does not know what was taken. Before it, packets
    /// were taken that were dated up to [`MAX_AHEAD_US`] ahead.
    #[inline]
    pub(crate) fn at(now_us: u64, start_us: u64) -> Self {
        let last_us = now_us.saturating_add(MAX_AHEAD_US);
        let unknown_until_us = start_us.saturating_add(MAX_AHEAD_US);
        let first_us = now_us.saturating_sub(MAX_AGE_US).max(unknown_until_us).min(last_us);
        Self { first_us, span_us: last_us - first_us }
    }

    /// Whether a packet is among them.
    #[inline]
    pub(crate) fn check(self, id: PacketId) -> Result<(), DropReason> {
        let after_us = id.time_us().wrapping_sub(self.first_us) & TIME_MASK;
        if after_us <= self.span_us {
            return Ok(());
        }
        let is_old = after_us > TIME_MASK / 2;
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
    /// Ids of one of up to 64 cores. `random` makes it unlikely that another program, or the same
    /// one after a restart with its clock set back, gives the same ones.
    pub fn new(core: u8, random: u32) -> Self {
        let core = u64::from(core % CORES) << CORE_SHIFT;
        Self { core, counter: u64::from(random) % PER_MICROSECOND, last_us: 0 }
    }

    /// The next id, at `now_us`, microseconds of Unix time.
    ///
    /// Beyond 16,384 ids in a microsecond, and while the clock is back
    /// by less than a second, its time runs ahead.
    pub fn next(&mut self, now_us: u64) -> PacketId {
        self.counter = (self.counter + 1) % PER_MICROSECOND;
        if now_us > self.last_us || self.last_us - now_us > MAX_LEAD_US {
            self.last_us = now_us;
        } else {
            // Time stands still: each id takes the next counter, and
            // each round of them the next microsecond.
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
            let at = |us: u64| InTime::at(now, 0).check(id(us));
            assert_eq!(at(now), Ok(()));
            assert_eq!(at(now - MAX_AGE_US), Ok(()));
            assert_eq!(at(now - MAX_AGE_US - 1), Err(DropReason::Stale));
            assert_eq!(at(now + MAX_AHEAD_US), Ok(()));
            assert_eq!(at(now + MAX_AHEAD_US + 1), Err(DropReason::Early));
        }
    }

    #[test]
    fn nothing_is_taken_that_could_have_been_taken_before_the_start() {
        for start in [NOW, TIME_MASK - 100] {
            for passed in [0, 1, 400_000, MAX_AGE_US + MAX_AHEAD_US, MAX_AGE_US + MAX_AHEAD_US + 1]
            {
                let at = |us: u64| InTime::at(start + passed, start).check(id(us));
                let first = (start + MAX_AHEAD_US).max(start + passed - passed.min(MAX_AGE_US));
                assert_eq!(at(first), Ok(()), "{passed}");
                assert_eq!(at(first - 1), Err(DropReason::Stale), "{passed}");
                assert_eq!(at(start + passed + MAX_AHEAD_US), Ok(()), "{passed}");
            }
        }
    }

    fn id(us: u64) -> PacketId {
        PacketId((us & TIME_MASK) << COUNTER_BITS)
    }
}
