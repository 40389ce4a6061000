//! In which order a full table gives its places away: two queues with a second chance, after
//! S3-FIFO (Yang and others, "FIFO queues are all you need for cache eviction", SOSP 2023).
//!
//! 1. What is new enters the fresh queue.
//! 2. When a place is needed, the oldest of the fresh goes; if it was used
//!    since it came, it moves to the settled queue.
//! 3. Only when the fresh have shrunk to their share are the settled looked at: the oldest goes, or
//!    to the end of the queue if it was used since it last stood in front.
//!
//! So a flood of things that are each seen once passes through the fresh queue, however long it
//! lasts, and what was used twice stays. A hit costs its caller one bit and nothing here.
//!
//! INVARIANT: every place is in exactly one queue, but between
//! [`Eviction::evict`] and [`Eviction::enter_again`].

/// Places of a table, from 0 on without gaps, in two queues.
pub struct Eviction {
    links: Vec<Link>,
    queues: [Queue; 2],
    fresh_share: usize,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    older: u32,
    newer: u32,
    queue: u8,
}

#[derive(Debug, Clone, Copy)]
struct Queue {
    oldest: u32,
    newest: u32,
    len: usize,
}

impl Eviction {
    /// Bytes for each place.
    pub const BYTES_A_PLACE: usize = size_of::<Link>();

    /// The order of a table that is full with `bound` places.
    pub fn new(bound: usize) -> Self {
        let empty = Queue { oldest: NOWHERE, newest: NOWHERE, len: 0 };
        Self { links: Vec::new(), queues: [empty; 2], fresh_share: bound / FRESH_SHARE }
    }

    /// One place more, after all others, for something new. While there is room, the oldest
    /// of the fresh are asked one at a time, so that those in use have settled, and been
    /// used again, by the time the table is full.
    pub fn push(&mut self, mut take_used: impl FnMut(u32) -> bool) {
        let place = self.links.len() as u32;
        self.links.push(Link { older: NOWHERE, newer: NOWHERE, queue: FRESH });
        self.append(place, FRESH);
        let fresh = self.queues[usize::from(FRESH)];
        if fresh.len > self.fresh_share {
            self.unlink(fresh.oldest);
            let queue = if take_used(fresh.oldest) { SETTLED } else { FRESH };
            self.append(fresh.oldest, queue);
        }
    }

    /// A place to be given away. `take_used` tells whether what is at a
    /// place was used since it was last asked about.
    pub fn evict(&mut self, mut take_used: impl FnMut(u32) -> bool) -> u32 {
        for step in 0..2 * MAX_STEPS {
            let (fresh, settled) = (self.queues[0], self.queues[1]);
            let place = match step {
                _ if settled.len == 0 => fresh.oldest,
                // All that stands in front is in use, and moves on. What
                // came last is the likeliest not to be.
                MAX_STEPS.. if fresh.len > 0 => fresh.newest,
                _ if fresh.len > self.fresh_share => fresh.oldest,
                _ => settled.oldest,
            };
            self.unlink(place);
            if !take_used(place) {
                return place;
            }
            self.append(place, SETTLED);
        }
        let place = self.queues[usize::from(SETTLED)].oldest;
        self.unlink(place);
        place
    }

    /// Something new is at the place that was given away.
    pub fn enter_again(&mut self, place: u32) {
        self.append(place, FRESH);
    }

    /// Removes a place; the last one takes its number.
    pub fn swap_remove(&mut self, place: u32) {
        self.unlink(place);
        let last = (self.links.len() - 1) as u32;
        if place != last {
            let link = self.links[last as usize];
            self.links[place as usize] = link;
            self.set_newer(link.queue, link.older, place);
            self.set_older(link.queue, link.newer, place);
        }
        self.links.pop();
    }

    fn append(&mut self, place: u32, queue: u8) {
        let older = self.queues[usize::from(queue)].newest;
        self.links[place as usize] = Link { older, newer: NOWHERE, queue };
        self.set_newer(queue, older, place);
        self.queues[usize::from(queue)].newest = place;
        self.queues[usize::from(queue)].len += 1;
    }

    fn unlink(&mut self, place: u32) {
        let Link { older, newer, queue } = self.links[place as usize];
        self.set_newer(queue, older, newer);
        self.set_older(queue, newer, older);
        self.queues[usize::from(queue)].len -= 1;
    }

    fn set_newer(&mut self, queue: u8, of: u32, newer: u32) {
        match of {
            NOWHERE => self.queues[usize::from(queue)].oldest = newer,
            of => self.links[of as usize].newer = newer,
        }
    }

    fn set_older(&mut self, queue: u8, of: u32, older: u32) {
        match of {
            NOWHERE => self.queues[usize::from(queue)].newest = older,
            of => self.links[of as usize].older = older,
        }
    }
}

const FRESH: u8 = 0;
const SETTLED: u8 = 1;
const NOWHERE: u32 = u32::MAX;
/// The fresh keep an eighth of the table, so that what is new lives long enough to be used again.
const FRESH_SHARE: usize = 8;
/// Places looked at from the front for one that was not used, and then as many of the newest:
/// bounds the work of an eviction.
const MAX_STEPS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(order: &Eviction) {
        let mut seen = 0;
        for (number, queue) in order.queues.iter().enumerate() {
            let (mut place, mut older, mut len) = (queue.oldest, NOWHERE, 0);
            while place != NOWHERE {
                let link = order.links[place as usize];
                assert_eq!((link.older, usize::from(link.queue)), (older, number));
                (older, place, len) = (place, link.newer, len + 1);
            }
            assert_eq!((older, len), (queue.newest, queue.len));
            seen += len;
        }
        assert_eq!(seen, order.links.len());
    }

    proptest! {
        #[test]
        fn every_place_is_in_one_queue(steps in prop::collection::vec((0u8..4, any::<u32>()), 0..300)) {
            let mut order = Eviction::new(16);
            for (step, number) in steps {
                let len = order.links.len() as u32;
                match step {
                    0 | 1 => order.push(|place| place & number != 0),
                    _ if len == 0 => {}
                    2 => order.swap_remove(number % len),
                    _ => {
                        let mut bits = number;
                        let place = order.evict(|_| {
                            bits >>= 1;
                            bits & 1 == 1
                        });
                        order.enter_again(place);
                    }
                }
                check(&order);
            }
        }
    }
}
