//! Key windows: time in steps of 2^10 to 2^12 seconds. `docs/platypus.md`, section 5.
//!
//! Invariant: the byte of a capability selects at most one window, whatever
//! the time, so that one key is tried and no more.

use crate::{CapabilityError, DropReason, Window};

/// How a waypoint divides time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowClock {
    bits: u8,
    grace_ms: u32,
    skew_ms: u32,
}

impl WindowClock {
    /// Windows of `2^bits` seconds. A window is taken `grace_ms`
    /// after its end, and `skew_ms` before its start.
    ///
    /// # Errors
    /// When `bits` is not 10, 11 or 12, or `grace_ms` and `skew_ms` together reach half a window.
    pub fn new(bits: u8, grace_ms: u32, skew_ms: u32) -> Result<Self, CapabilityError> {
        if !(MIN_BITS..=MAX_BITS).contains(&bits) {
            return Err(CapabilityError::BadParameter("the length of a window"));
        }
        // Else more than two windows could be live, or secrets live for much longer than they say.
        if u64::from(grace_ms) + u64::from(skew_ms) > 1000 << (bits - 1) {
            return Err(CapabilityError::BadParameter("the grace of a window"));
        }
        Ok(Self { bits, grace_ms, skew_ms })
    }

    /// Seconds in a window, as a power of two.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// The window of a time, in microseconds of Unix time.
    pub fn at(&self, now_us: u64) -> Window {
        Window(((now_us / 1_000_000) >> self.bits) as u32)
    }

    /// The first second of a window.
    pub fn start_s(&self, window: Window) -> u64 {
        u64::from(window.0) << self.bits
    }

    /// The first second after a window.
    pub fn end_s(&self, window: Window) -> u64 {
        (u64::from(window.0) + 1) << self.bits
    }

    /// The last second in which a waypoint may take a
    /// capability of `window`: its end and the grace.
    pub fn not_after_s(&self, window: Window) -> u64 {
        self.end_s(window) + u64::from(self.grace_ms).div_ceil(1000)
    }

    /// The one window that the byte of a capability can mean now.
    ///
    /// # Errors
    /// When that window is over, or has not begun.
    #[inline]
    pub fn select(&self, low_byte: u8, now_us: u64) -> Result<Window, DropReason> {
        let now_ms = now_us / 1000;
        let current = ((now_ms / 1000) >> self.bits) as u32;
        let into_ms = now_ms - ((u64::from(current) << self.bits) * 1000);
        match low_byte.wrapping_sub(current as u8) {
            0 => Ok(Window(current)),
            1 => {
                let left_ms = (1000 << self.bits) - into_ms;
                let near = left_ms <= u64::from(self.skew_ms);
                near.then_some(Window(current.wrapping_add(1))).ok_or(DropReason::WindowEarly)
            }
            0xFF => {
                let near = into_ms < u64::from(self.grace_ms);
                near.then_some(Window(current.wrapping_sub(1))).ok_or(DropReason::WindowExpired)
            }
            // Which of the two it is cannot be told; most are old.
            2..=0x7F => Err(DropReason::WindowEarly),
            _ => Err(DropReason::WindowExpired),
        }
    }
}

impl Default for WindowClock {
    fn default() -> Self {
        Self { bits: DEFAULT_BITS, grace_ms: DEFAULT_GRACE_MS, skew_ms: DEFAULT_SKEW_MS }
    }
}

const MIN_BITS: u8 = 10;
const MAX_BITS: u8 = 12;
/// 34 minutes: the middle of what is allowed.
const DEFAULT_BITS: u8 = 11;
/// As long as a sender may take to notice that a window has ended: its
/// clock may be off, and packets are under way.
const DEFAULT_GRACE_MS: u32 = 10_000;
/// A sender's clock may be ahead by this much.
const DEFAULT_SKEW_MS: u32 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_windows_of_allowed_lengths() {
        for bits in [9, 13, 0, 255] {
            assert!(WindowClock::new(bits, 0, 0).is_err());
        }
        assert!(WindowClock::new(10, 256_000, 256_000).is_ok());
        assert!(WindowClock::new(10, 256_000, 256_001).is_err());
        assert!(WindowClock::new(10, u32::MAX, u32::MAX).is_err());
    }

    #[test]
    fn a_window_knows_its_seconds() {
        let clock = WindowClock::new(10, 1500, 0).unwrap();
        let window = clock.at(1_700_000_000_000_000);
        assert_eq!(window, Window(1_660_156));
        assert_eq!(clock.start_s(window), 1_699_999_744);
        assert_eq!(clock.end_s(window), 1_700_000_768);
        assert_eq!(clock.not_after_s(window), 1_700_000_770);
    }
}
