//! What must hold of any bytes a peer could send.

use crate::base_ot::Transfer;
use crate::base_ot::lattice::{self, OFFER_LEN};
use crate::message::Message;
use crate::{FrameReader, Parameters, Party, Seed, Session};

/// What parses is emitted as it was; a stream gives messages or an error; a session survives none
/// of it, whatever its phase; an offer is answered if all its coefficients are below the modulus.
pub fn mpc(data: &[u8]) {
    if let Ok(message) = Message::parse(data) {
        let mut emitted = Vec::new();
        message.emit(&mut emitted);
        assert_eq!(emitted, data);
    }
    let mut reader = FrameReader::new();
    reader.push(data);
    while let Ok(Some(_)) = reader.next_message() {}
    fresh(data);
    // A message of base transfers that is cut after a transfer ends with an offer.
    if let Some(offer) = data.last_chunk() {
        offered(offer);
    }
}

fn offered(offer: &[u8; OFFER_LEN]) {
    let transfer = Transfer { session: &[1; 32], number: 0 };
    let is_answered = lattice::answer(transfer, &Seed::new([7; 32]), offer).is_ok();
    let is_below = offer[32..].as_chunks().0.iter().all(|[a, b, c]| {
        let both = u32::from_le_bytes([*a, *b, *c, 0]);
        both & 0xFFF < 3329 && both >> 12 < 3329
    });
    assert_eq!(is_answered, is_below);
}

/// A new session takes a hello and nothing else.
fn fresh(data: &[u8]) {
    let seed = Seed::new([7; 32]);
    let Ok(mut session) = Session::new(Party::One, Parameters::default(), seed) else { return };
    assert_eq!(session.handle(data).is_err(), session.has_failed());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn bytes(data in proptest::collection::vec(any::<u8>(), 0..300), kind in 1_u8..8) {
            super::mpc(&data);
            let mut framed = vec![crate::VERSION, kind];
            framed.extend([0; 24]);
            framed.extend(&data);
            super::mpc(&framed);
        }

        /// Four of five have all coefficients below the modulus.
        #[test]
        fn offers(values in proptest::collection::vec(0..3330_u32, 768)) {
            let mut bytes = vec![9; 32];
            for pair in [&values[..], &values].concat().as_chunks::<2>().0 {
                let both = pair[0] | pair[1] << 12;
                bytes.extend_from_slice(&both.to_le_bytes()[..3]);
            }
            super::mpc(&bytes);
        }
    }
}
