//! What must hold of any bytes that a member or a party could send.

use crate::Hello;
use crate::message::member::{FromMember, ToMember};
use crate::message::pair::PairMessage;

/// What parses is emitted as it was.
pub fn message(data: &[u8]) {
    if let Ok((shard, message)) = FromMember::parse(data) {
        assert_eq!(message.emit(shard), data);
    }
    if let Ok((shard, message)) = ToMember::parse(data) {
        assert_eq!(message.emit(shard), data);
    }
    if let Ok((shard, message)) = PairMessage::parse(data) {
        assert_eq!(message.emit(shard), data);
    }
    if let Ok(hello) = Hello::parse(data) {
        assert_eq!(hello.emit(), data);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes(data in proptest::collection::vec(any::<u8>(), 0..300), kind in 0_u8..12) {
            super::message(&data);
            let framed = [&[kind, 0, 0], &data[..]].concat();
            super::message(&framed);
        }
    }
}
