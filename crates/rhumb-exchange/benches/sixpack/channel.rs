//! What stands between the two servers in the bench: a connection over loopback TCP, with records sealed as those of TLS 1.3 are
//! (AES-128-GCM, at most 16 KiB, 5 bytes before and 16 behind), no handshake, and delay.
//!
//! Delay is added by the receiver: a message begins with the time at which it was sent, which both ends read from one clock, and
//! is not given out before that and the delay. The receiver spins meanwhile: a sleep would be late by half of the delay.

use std::io::{Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// One end.
pub(crate) struct Channel {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
}

pub(crate) struct Sender {
    stream: TcpStream,
    seal: Direction,
    clock: Instant,
    out: Vec<u8>,
    /// Bytes of messages, framing left out.
    pub(crate) bytes: u64,
}

pub(crate) struct Receiver {
    stream: TcpStream,
    open: Direction,
    clock: Instant,
    delay: Duration,
    record: Vec<u8>,
    /// Opened, not given out yet.
    read: Vec<u8>,
    given: usize,
}

struct Direction {
    key: LessSafeKey,
    number: u64,
}

/// Both ends.
pub(crate) fn pair(delay: Duration, clock: Instant) -> Result<[Channel; 2]> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    let end = |stream: TcpStream, seal: u8, open: u8| -> Result<Channel> {
        stream.set_nodelay(true)?;
        let direction = |key: u8| {
            let key = UnboundKey::new(&AES_128_GCM, &[key; 16]).expect("invariant: 16 bytes");
            Direction { key: LessSafeKey::new(key), number: 0 }
        };
        let (seal, open) = (direction(seal), direction(open));
        let other = stream.try_clone()?;
        let sender = Sender { stream, seal, clock, out: Vec::new(), bytes: 0 };
        let (record, read) = (Vec::new(), Vec::new());
        let receiver = Receiver { stream: other, open, clock, delay, record, read, given: 0 };
        Ok(Channel { sender, receiver })
    };
    Ok([end(near, 1, 2)?, end(far, 2, 1)?])
}

impl Direction {
    fn nonce(&mut self) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.number.to_be_bytes());
        self.number += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

impl Sender {
    /// Sends a message.
    pub(crate) fn send(&mut self, message: &[u8]) -> Result<()> {
        self.bytes += message.len() as u64;
        let mut head = (message.len() as u32 + 8).to_le_bytes().to_vec();
        head.extend((self.clock.elapsed().as_nanos() as u64).to_le_bytes());
        self.out.clear();
        let mut rest = message;
        // The first record has the head, too.
        let (mut before, mut first) = (&head[..], true);
        while first || !rest.is_empty() {
            let (part, others) = rest.split_at(rest.len().min(RECORD - before.len()));
            let start = self.out.len();
            self.out.extend([23, 3, 3]);
            self.out.extend(((before.len() + part.len() + TAG) as u16).to_be_bytes());
            self.out.extend_from_slice(before);
            self.out.extend_from_slice(part);
            let (header, body) = self.out[start..].split_at_mut(5);
            let nonce = self.seal.nonce();
            let key = &self.seal.key;
            let tag = key
                .seal_in_place_separate_tag(nonce, Aad::from(&*header), body)
                .expect("invariant: a record is short");
            self.out.extend_from_slice(tag.as_ref());
            (rest, before, first) = (others, &[], false);
        }
        self.stream.write_all(&self.out)
    }

    /// Ends the connection in both directions, if the other end has not.
    pub(crate) fn close(&self) {
        drop(self.stream.shutdown(std::net::Shutdown::Both));
    }
}

impl Receiver {
    /// The next message, in the place of `message`.
    pub(crate) fn receive(&mut self, message: &mut Vec<u8>) -> Result<()> {
        self.fill(12)?;
        let at = self.given;
        let len = u32::from_le_bytes(four(&self.read[at..])) as usize;
        let [low, high] = [four(&self.read[at + 4..]), four(&self.read[at + 8..])];
        let sent = u64::from(u32::from_le_bytes(high)) << 32 | u64::from(u32::from_le_bytes(low));
        self.fill(4 + len)?;
        message.clear();
        message.extend_from_slice(&self.read[self.given + 12..self.given + 4 + len]);
        self.given += 4 + len;
        if self.given == self.read.len() {
            self.read.clear();
            self.given = 0;
        }
        let due = Duration::from_nanos(sent) + self.delay;
        while self.clock.elapsed() < due {
            std::hint::spin_loop();
        }
        Ok(())
    }

    /// Opens records until there are so many bytes.
    fn fill(&mut self, len: usize) -> Result<()> {
        while self.read.len() - self.given < len {
            let mut header = [0; 5];
            self.stream.read_exact(&mut header)?;
            let body = usize::from(u16::from_be_bytes([header[3], header[4]]));
            self.record.resize(body, 0);
            self.stream.read_exact(&mut self.record)?;
            let nonce = self.open.nonce();
            let opened = self.open.key.open_in_place(nonce, Aad::from(&header), &mut self.record);
            self.read.extend_from_slice(opened.expect("invariant: nobody is between"));
        }
        Ok(())
    }
}

fn four(bytes: &[u8]) -> [u8; 4] {
    *bytes.first_chunk().expect("invariant: filled")
}

/// Plaintext of a record.
const RECORD: usize = 1 << 14;
const TAG: usize = 16;
