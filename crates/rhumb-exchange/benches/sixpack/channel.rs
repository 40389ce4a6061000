//! What stands between the two servers in the bench: a connection over loopback TCP,
//! with records sealed as those of TLS 1.3 are (AES-128-GCM, at most 16 KiB, 5 bytes
//! before and 16 behind), no handshake, and delay.
//!
//! Delay is added by the receiver: a message begins with the time at which it was sent, which both
//! ends read from one clock, and is not given out before that and the delay. The receiver spins
//! meanwhile: a sleep would be late by half of the delay.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// One end. Whoever has it waits for it and for what else
/// there is at once, so a message wakes one thread.
pub(crate) struct Channel {
    stream: TcpStream,
    seal: Direction,
    open: Direction,
    clock: Instant,
    delay: Duration,
    /// Sealed, and how much of it the socket has.
    out: Vec<u8>,
    written: usize,
    /// Read, and how much of it: the beginning of a record that is not whole.
    sealed: Vec<u8>,
    filled: usize,
    /// Opened, and how much of it was given out.
    read: Vec<u8>,
    given: usize,
    /// Bytes of messages sent, framing left out.
    pub(crate) bytes: u64,
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
        stream.set_nonblocking(true)?;
        let (out, sealed, read) = (Vec::new(), vec![0; READ], Vec::new());
        let [written, filled, given] = [0; 3];
        let bytes = 0;
        Ok(Channel {
            stream,
            seal,
            open,
            clock,
            delay,
            out,
            written,
            sealed,
            filled,
            read,
            given,
            bytes,
        })
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

impl Channel {
    /// Sends a message; what the socket does not take now is kept for [`Channel::wait`].
    pub(crate) fn send(&mut self, message: &[u8]) -> Result<()> {
        self.bytes += message.len() as u64;
        let mut head = (message.len() as u32 + 8).to_le_bytes().to_vec();
        head.extend((self.clock.elapsed().as_nanos() as u64).to_le_bytes());
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
            let (header, body) = self.out[start..].split_at_mut(HEADER);
            let nonce = self.seal.nonce();
            let key = &self.seal.key;
            let tag = key
                .seal_in_place_separate_tag(nonce, Aad::from(&*header), body)
                .expect("invariant: a record is short");
            self.out.extend_from_slice(tag.as_ref());
            (rest, before, first) = (others, &[], false);
        }
        self.write()
    }

    pub(crate) fn has_unsent(&self) -> bool {
        self.written < self.out.len()
    }

    /// The next message in the place of `message`, of what was read.
    pub(crate) fn receive(&mut self, message: &mut Vec<u8>) -> bool {
        let Some(len) = self.next_len() else { return false };
        let at = self.given;
        let [low, high] = [four(&self.read[at + 4..]), four(&self.read[at + 8..])];
        let sent = u64::from(u32::from_le_bytes(high)) << 32 | u64::from(u32::from_le_bytes(low));
        message.clear();
        message.extend_from_slice(&self.read[at + 12..at + len]);
        self.given += len;
        if self.given == self.read.len() {
            self.read.clear();
            self.given = 0;
        }
        let due = Duration::from_nanos(sent) + self.delay;
        while self.clock.elapsed() < due {
            std::hint::spin_loop();
        }
        true
    }

    /// Waits until something comes or can be sent, or the other descriptor is
    /// ready, or the time is over; and reads and sends.
    pub(crate) fn wait(&mut self, other: Option<BorrowedFd<'_>>, time: Duration) -> Result<()> {
        let output = if self.has_unsent() { PollFlags::OUT } else { PollFlags::empty() };
        let own = PollFd::new(&self.stream, PollFlags::IN | output);
        let other = other.map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN));
        let time = Timespec::try_from(time).expect("a short time");
        let polled = match other {
            Some(other) => poll(&mut [own, other], Some(&time)),
            None => poll(&mut [own], Some(&time)),
        };
        match polled {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Also while this end cannot send: else both could wait for each other.
        self.read()?;
        self.write()
    }

    /// Looks for what comes, for so long, before it waits as [`Channel::wait`] does.
    pub(crate) fn look(&mut self, time: Duration) -> Result<()> {
        let until = self.clock.elapsed() + time;
        while self.clock.elapsed() < until {
            self.read()?;
            self.write()?;
            if self.next_len().is_some() {
                return Ok(());
            }
        }
        self.wait(None, LONG)
    }

    /// Reads what is here, and opens records that are whole.
    pub(crate) fn read(&mut self) -> Result<()> {
        loop {
            match self.stream.read(&mut self.sealed[self.filled..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.filled += count;
                    let is_all = self.filled < self.sealed.len();
                    self.open_records();
                    if is_all {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Ends the connection in both directions, if the other end has not.
    pub(crate) fn close(&self) {
        drop(self.stream.shutdown(Shutdown::Both));
    }

    /// Bytes of the next message with what is before it, if all of it is opened.
    fn next_len(&self) -> Option<usize> {
        let read = &self.read[self.given..];
        let len = 4 + u32::from_le_bytes(*read.first_chunk()?) as usize;
        (read.len() >= len).then_some(len)
    }

    fn write(&mut self) -> Result<()> {
        while self.has_unsent() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    fn open_records(&mut self) {
        let mut at = 0;
        while let Some(header) = self.sealed[at..self.filled].first_chunk::<HEADER>().copied() {
            let end = at + HEADER + usize::from(u16::from_be_bytes([header[3], header[4]]));
            if end > self.filled {
                break;
            }
            let body = &mut self.sealed[at + HEADER..end];
            let nonce = self.open.nonce();
            let opened = self.open.key.open_in_place(nonce, Aad::from(&header), body);
            self.read.extend_from_slice(opened.expect("invariant: nobody is between"));
            at = end;
        }
        self.sealed.copy_within(at..self.filled, 0);
        self.filled -= at;
    }
}

fn four(bytes: &[u8]) -> [u8; 4] {
    *bytes.first_chunk().expect("invariant: filled")
}

/// No wait is this long.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// Of a record, in the clear.
const HEADER: usize = 5;
/// Plaintext of a record.
const RECORD: usize = 1 << 14;
const TAG: usize = 16;
/// Bytes read at a time: more than a record.
const READ: usize = 1 << 17;
