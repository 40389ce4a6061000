//! What must hold of any bytes a peer could send.

use crate::message::Message;
use crate::{FrameReader, Parameters, Party, Seed, Session};

/// What parses is emitted as it was; a stream gives messages or an error; a
/// session survives none of it, whatever its phase.
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
    }
}
