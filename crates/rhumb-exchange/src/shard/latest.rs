//! A lane's latest word on each destination, where that
//! is a route, and what these take of its quota.

use std::collections::HashMap;

use crate::Quota;
use crate::message::Mark;
use crate::route::Destination;

#[derive(Default)]
pub(super) struct Latest {
    /// With the bytes of each.
    marks: HashMap<Destination, (Mark, u32)>,
    bytes: u64,
}

impl Latest {
    pub(super) fn get(&self, destination: &Destination) -> Option<Mark> {
        self.marks.get(destination).map(|(mark, _)| *mark)
    }

    /// Whether a route of so many bytes fits, in place of an earlier one to the same destination.
    pub(super) fn has_room(&self, destination: &Destination, bytes: usize, quota: Quota) -> bool {
        let former = self.marks.get(destination);
        let routes = self.marks.len() + usize::from(former.is_none());
        let others = self.bytes - former.map_or(0, |(_, bytes)| u64::from(*bytes));
        routes as u64 <= u64::from(quota.routes) && others + bytes as u64 <= quota.bytes
    }

    /// Gives the mark in whose place it comes.
    pub(super) fn insert(
        &mut self,
        destination: Destination,
        mark: Mark,
        bytes: usize,
    ) -> Option<Mark> {
        self.bytes += bytes as u64;
        let former = self.marks.insert(destination, (mark, bytes as u32));
        self.forget_bytes(former)
    }

    pub(super) fn remove(&mut self, destination: &Destination) -> Option<Mark> {
        let former = self.marks.remove(destination);
        self.forget_bytes(former)
    }

    pub(super) fn retain(&mut self, stays: impl Fn(Mark) -> bool) {
        let bytes = &mut self.bytes;
        self.marks.retain(|_, (mark, len)| {
            let stays = stays(*mark);
            *bytes -= if stays { 0 } else { u64::from(*len) };
            stays
        });
    }

    fn forget_bytes(&mut self, former: Option<(Mark, u32)>) -> Option<Mark> {
        former.map(|(mark, bytes)| {
            self.bytes -= u64::from(bytes);
            mark
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(number: u64) -> Mark {
        Mark { incarnation: 1, number }
    }

    #[test]
    fn routes_and_bytes_are_bounded_and_what_is_replaced_counts_no_more() {
        let to = |name: u8| Destination::new(&[name]).unwrap();
        let quota = Quota { routes: 2, bytes: 100 };
        let mut latest = Latest::default();
        assert!(latest.has_room(&to(1), 100, quota) && !latest.has_room(&to(1), 101, quota));
        assert_eq!(latest.insert(to(1), mark(1), 60), None);
        assert!(latest.has_room(&to(2), 40, quota) && !latest.has_room(&to(2), 41, quota));
        assert!(latest.has_room(&to(1), 100, quota) && !latest.has_room(&to(1), 101, quota));
        assert_eq!(latest.insert(to(2), mark(2), 40), None);
        assert!(!latest.has_room(&to(3), 0, quota));
        assert_eq!(latest.insert(to(1), mark(3), 10), Some(mark(1)));
        assert!(latest.has_room(&to(2), 90, quota) && !latest.has_room(&to(2), 91, quota));
        latest.retain(|it| it != mark(3));
        assert_eq!((latest.get(&to(1)), latest.remove(&to(2))), (None, Some(mark(2))));
        assert!(latest.has_room(&to(3), 100, quota));
    }
}
