//! One end alone, talked to by hand.

use std::time::Instant;

use rhumb_node::transfer::{Receiver, ReceiverConfig, Sender, SenderConfig, sha256_of};
use rhumb_wire::transfer::{Ack, Chunk, FileName, Message, MessageBody, Offer};

use super::pair::ID;

/// Bytes of the file in a chunk of a sender with the default configuration.
pub(crate) fn chunk_len() -> u64 {
    (SenderConfig::default().max_body_len - Message::CHUNK_OVERHEAD) as u64
}

pub(crate) fn offer_of(content: &[u8]) -> Offer {
    let length = content.len() as u64;
    let sha256 = sha256_of(&mut &content[..], length).expect("memory can be read");
    Offer { length, sha256, name: FileName::new("file").expect("a good name") }
}

pub(crate) fn sender_of(content: &[u8], now: Instant) -> Sender<Vec<u8>> {
    Sender::new(ID, offer_of(content), content.to_vec(), &SenderConfig::default(), now)
}

pub(crate) fn receiver_of(content: &[u8], window: u32, now: Instant) -> Receiver<Vec<u8>> {
    let config = ReceiverConfig { window, ..ReceiverConfig::default() };
    Receiver::new(ID, offer_of(content), &config, now, |_| Ok(Vec::new()))
}

pub(crate) fn accept(window: u32) -> Message<'static> {
    Message { id: ID, body: MessageBody::Accept { window } }
}

pub(crate) fn ack(cumulative: u64, newest: u32) -> Message<'static> {
    let ack = Ack { cumulative, window: 1 << 20, newest, ranges: Vec::new() };
    Message { id: ID, body: MessageBody::Ack(ack) }
}

pub(crate) fn chunk(number: u32, offset: u64, bytes: &[u8]) -> Message<'_> {
    chunk_with(number, 2, offset, bytes)
}

pub(crate) fn chunk_with(number: u32, ack_every: u8, offset: u64, bytes: &[u8]) -> Message<'_> {
    Message { id: ID, body: MessageBody::Chunk(Chunk { number, ack_every, offset, bytes }) }
}

/// What the messages that go out now say.
pub(crate) fn said(mut poll_transmit: impl FnMut(&mut Vec<u8>) -> bool) -> Vec<Said> {
    let (mut said, mut out) = (Vec::new(), Vec::new());
    while poll_transmit(&mut out) {
        said.push(match Message::parse(&out).expect("only messages are sent").body {
            MessageBody::Offer(_) => Said::Offer,
            MessageBody::Accept { .. } => Said::Accept,
            MessageBody::Chunk(chunk) => Said::Chunk(chunk.offset),
            MessageBody::Ack(ack) => Said::Ack(ack.cumulative),
            MessageBody::Finished(_) | MessageBody::Cancel(_) => Said::LastWord,
        });
        out.clear();
    }
    said
}

/// The gist of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Offer,
    Accept,
    Chunk(u64),
    Ack(u64),
    LastWord,
}
