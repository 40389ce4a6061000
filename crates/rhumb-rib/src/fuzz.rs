//! Properties for the fuzzer and for tests: whatever is asked of a
//! directory, it answers or drops, and goes on.

use std::sync::{Arc, LazyLock};

use rhumb_trust::Identity;
use rhumb_wire::rib::RibResponse;
use rhumb_wire::{Name, Role};

use crate::store::Memory;
use crate::{Asker, Config, Outcome, Rib};

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

fn check(response: &RibResponse, max_len: usize) {
    let mut out = Vec::new();
    response.emit(&mut out);
    assert!(out.len() <= max_len, "an answer of {} bytes", out.len());
    assert_eq!(RibResponse::parse(&out).as_ref(), Ok(response));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
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
}
