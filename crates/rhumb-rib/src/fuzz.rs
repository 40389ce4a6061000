//! Properties for the fuzzer and for tests: whatever is asked of a directory, it answers or drops,
//! and goes on; whatever is in a copy of a store, nothing is made of it or a store.

use std::sync::{Arc, LazyLock};

use rhumb_trust::{Identity, Window};
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody, RibResponse};
use rhumb_wire::{Name, Role, Scope, Statement};

use crate::store::backup::restore_damaged;
use crate::store::{Memory, Store};
use crate::{Asker, Config, Entry, Outcome, Rib};

/// `Rib::handle_request` and `Rib::commit`: `data` is a series of requests, each a length (2 bytes)
/// and its bytes. The clock starts at 1 and ticks once per request; every second tick commits, so
/// that orders also meet in one commit.
pub fn requests(data: &[u8]) {
    static IDENTITY: LazyLock<Arc<Identity>> =
        LazyLock::new(|| Arc::new(Identity::generate(Role::Rib, 0).expect("a key can be made")));
    let mut rib = Rib::new(IDENTITY.clone(), Memory::new(), Config::default());
    let asker = Asker::admitted(Name([1; 32]), 1300);
    let mut staged = 0;
    let mut rest = data;
    let mut now_s = 1;
    while let Some((len, tail)) = rest.split_first_chunk() {
        let (request, tail) = tail.split_at(tail.len().min(usize::from(u16::from_be_bytes(*len))));
        rest = tail;
        now_s += 1;
        match rib.handle_request(asker, request, now_s) {
            Outcome::Answer(response) => check(&response, asker.max_answer_len),
            Outcome::Staged(_) => staged += 1,
            Outcome::Noted | Outcome::Dropped(_) => {}
        }
        if now_s % 2 == 0 || rest.len() < 2 {
            let answers = rib.commit();
            assert_eq!(answers.len(), std::mem::take(&mut staged));
            answers.iter().for_each(|answer| check(answer, asker.max_answer_len));
            rib.sweep(now_s, 16);
        }
    }
}

/// `store::restore`: a copy of two entries, of which so many bytes are left as the first two of
/// `data` say, and in which bytes are replaced: each by its place (2 bytes) and another byte. When
/// a place is beyond the end, what follows it is put there.
pub fn copies(data: &[u8]) {
    static ENTRIES: LazyLock<Vec<(Name, Entry)>> = LazyLock::new(two_entries);
    let Some((len, mut rest)) = data.split_first_chunk() else { return };
    restore_damaged(&ENTRIES, |copy| {
        copy.truncate(usize::from(u16::from_be_bytes(*len)));
        while let Some(([high, low, byte], tail)) = rest.split_first_chunk() {
            match copy.get_mut(usize::from(u16::from_be_bytes([*high, *low]))) {
                Some(place) => *place = *byte,
                None => return copy.extend_from_slice(&rest[2..]),
            }
            rest = tail;
        }
    });
}

/// A node's that has a route, and one's that has said that it left.
fn two_entries() -> Vec<(Name, Entry)> {
    let key = |role| Arc::new(Identity::generate(role, 0).expect("a key can be made"));
    let mut rib = Rib::new(key(Role::Rib), Memory::new(), Config::default());
    let via = Name([1; 32]);
    let route = Statement::Route { via, scope: Scope::Any };
    for (number, statements) in [vec![route, Statement::Withdrawal], vec![route]].iter().enumerate()
    {
        let holder = key(Role::Node);
        for (sequence, statement) in (1..).zip(statements) {
            let certificate = holder.certify(*statement, sequence, Window::starting(1, 600));
            let certificates = vec![certificate.expect("a key in memory signs")];
            let metadata = vec![(**holder.metadata()).clone()];
            let body = RibRequestBody::Publish { metadata, certificates };
            let mut data = Vec::new();
            RibRequest { id: RequestId(number as u32), body }.emit(&mut data);
            rib.handle_request(Asker::admitted(via, 1300), &data, 1);
            rib.commit();
        }
    }
    rib.into_store().entries_after(None, 2).expect("memory can be read")
}

fn check(response: &RibResponse, max_len: usize) {
    let mut out = Vec::new();
    response.emit(&mut out);
    assert!(out.len() <= max_len, "an answer of {} bytes", out.len());
    assert_eq!(RibResponse::parse(&out).as_ref(), Ok(response));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Copied;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn of_a_damaged_copy_a_store_is_made_or_nothing(
            len in 0u16..900, data in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            copies(&[&len.to_be_bytes()[..], &data].concat());
        }

        #[test]
        fn no_series_of_requests_is_too_much(
            series in prop::collection::vec((0u8..14, prop::collection::vec(any::<u8>(), 0..300)), 0..8),
        ) {
            let mut data = Vec::new();
            for (kind, rest) in series {
                data.extend_from_slice(&(rest.len() as u16 + 1).to_be_bytes());
                data.push(kind);
                data.extend_from_slice(&rest);
            }
            requests(&data);
        }
    }

    #[test]
    fn a_whole_copy_is_restored_and_one_that_lacks_a_byte_is_not() {
        let expected = Copied { names: 2, ..Copied::default() };
        assert_eq!(restore_damaged(&two_entries(), |_| ()), Some(expected));
        assert_eq!(restore_damaged(&two_entries(), |copy| _ = copy.pop()), None);
    }
}
