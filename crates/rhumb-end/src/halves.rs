//! QUIC asks for datagrams of 1200 bytes, and a PDU that every path carries leaves 1124: what is
//! longer than the path takes travels in two halves, and is put together here.
//!
//! 1. [`Halves::split`] cuts a datagram into two bodies of one number.
//! 2. [`Halves::join`] takes a half, and gives the datagram when it has both.
//!
//! A half that nobody completes is strangers' to send: there is bounded room, the oldest gives
//! way, and none waits for longer than [`WAITS_FOR`]. A half that was altered, or joined to another
//! one's, makes a datagram that does not open.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rhumb_wire::Name;
use rhumb_wire::payload::Half;

/// The halves that wait for their others, and the number of the next datagram that is cut.
#[derive(Debug)]
pub struct Halves {
    next_number: u16,
    most: usize,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    from: Name,
    to: Name,
    number: u16,
    is_second: bool,
    bytes: Vec<u8>,
    since: Instant,
}

impl Halves {
    /// Room for so many that wait.
    pub fn new(most: usize) -> Self {
        Self { next_number: 0, most, waiting: VecDeque::new() }
    }

    /// The number and the bodies of the two payloads that carry a datagram.
    pub fn split(&mut self, datagram: &[u8]) -> (u16, [Vec<u8>; 2]) {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        let (first, second) = datagram.split_at(datagram.len() / 2);
        let body = |is_second, bytes: &[u8]| {
            let mut body = Vec::with_capacity(Half::HEAD_LEN + bytes.len());
            Half { is_second, bytes }.emit(&mut body);
            body
        };
        (number, [body(false, first), body(true, second)])
    }

    /// The datagram, when this half completes it.
    ///
    /// # Errors
    /// When another half gave way to this one.
    pub fn join(
        &mut self,
        from: Name,
        to: Name,
        number: u16,
        half: Half<'_>,
        now: Instant,
    ) -> Result<Option<Vec<u8>>, GaveWay> {
        self.waiting.retain(|it| now < it.since + WAITS_FOR);
        let is_of_it = |it: &Waiting| it.number == number && it.from == from && it.to == to;
        if let Some(at) = self.waiting.iter().position(is_of_it) {
            if self.waiting[at].is_second == half.is_second {
                return Ok(None);
            }
            let Some(other) = self.waiting.remove(at) else { return Ok(None) };
            return Ok(Some(match half.is_second {
                true => [&other.bytes, half.bytes].concat(),
                false => [half.bytes, &other.bytes].concat(),
            }));
        }
        let gives_way = self.waiting.len() >= self.most;
        if gives_way {
            self.waiting.pop_front();
        }
        let bytes = half.bytes.to_vec();
        let is_second = half.is_second;
        self.waiting.push_back(Waiting { from, to, number, is_second, bytes, since: now });
        if gives_way { Err(GaveWay) } else { Ok(None) }
    }
}

/// A half was given up for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GaveWay;

/// For what anybody may send: about 400 KB of it; they are searched one by one.
pub(crate) const MAX_WAITING: usize = 256;
/// Both halves leave together: a path that holds one back for longer than this has lost it.
const WAITS_FOR: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    const A: Name = Name([1; 32]);
    const B: Name = Name([2; 32]);

    #[expect(clippy::disallowed_methods, reason = "the first instant")]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn halves_make_the_datagram_in_either_order_and_once() {
        let (mut halves, now) = (Halves::new(MAX_WAITING), start());
        for len in [2, 3, 1200] {
            let datagram: Vec<u8> = (0..len).map(|n| n as u8).collect();
            for order in [[0, 1], [1, 0]] {
                let (number, bodies) = halves.split(&datagram);
                let half = |at: usize| Half::parse(&bodies[at]).unwrap();
                assert_eq!(halves.join(A, B, number, half(order[0]), now), Ok(None));
                assert_eq!(halves.join(A, B, number, half(order[0]), now), Ok(None), "repeated");
                let whole = halves.join(A, B, number, half(order[1]), now);
                assert_eq!(whole, Ok(Some(datagram.clone())));
            }
        }
        assert!(halves.waiting.is_empty());
    }

    #[test]
    fn halves_of_others_are_not_joined_and_late_ones_are_forgotten() {
        let (mut halves, now) = (Halves::new(MAX_WAITING), start());
        let first = Half { is_second: false, bytes: b"a" };
        let second = Half { is_second: true, bytes: b"b" };
        assert_eq!(halves.join(A, B, 7, first, now), Ok(None));
        assert_eq!(halves.join(B, A, 7, second, now), Ok(None));
        assert_eq!(halves.join(A, A, 7, second, now), Ok(None));
        assert_eq!(halves.join(A, B, 8, second, now), Ok(None));
        assert_eq!(halves.join(A, B, 7, second, now + WAITS_FOR), Ok(None), "too late");
        assert_eq!(halves.waiting.len(), 1);
    }

    #[test]
    fn what_strangers_leave_unfinished_is_bounded() {
        let (mut halves, now) = (Halves::new(MAX_WAITING), start());
        let half = Half { is_second: false, bytes: &[0; 600] };
        for number in 0..4 * MAX_WAITING as u16 {
            let gave_way = halves.join(A, B, number, half, now).is_err();
            assert_eq!(gave_way, usize::from(number) >= MAX_WAITING);
            assert!(halves.waiting.len() <= MAX_WAITING);
        }
    }
}
