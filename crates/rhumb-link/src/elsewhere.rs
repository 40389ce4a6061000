//! Public-key work of handshakes that others begin, done on another thread.
//!
//! 1. When something comes for a handshake, the handshake itself goes out in a [`HandshakeJob`],
//!    and [`Absent`] sits in its place.
//! 2. What comes meanwhile waits in [`Elsewhere`], a few datagrams; the rest is lost, as the
//!    network loses some, and is sent again by the peer.
//! 3. [`HandshakeDone`] brings the handshake back, and what it said: the endpoint takes that as if
//!    it were said now.
//!
//! Invariant: a handshake is in one place. If its exchange ends while it is out, nobody asks for
//! it any more when it is back.

use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

use rhumb_trust::x509::{Claim, IdentityError};

use crate::HandshakeError;
use crate::handshake::{Handshake, MAX_OUTPUT, Output};
use crate::keys::ExportedKeys;
use crate::peek;
use crate::slots::Key;

/// A step of a handshake that others began, with its public-key work. Whoever runs it gives the
/// [`HandshakeDone`] back to the endpoint that it came from.
pub struct HandshakeJob {
    pub(crate) exchange: Key,
    pub(crate) subject: Subject,
    pub(crate) datagram: Vec<u8>,
    pub(crate) now: Instant,
}

/// What came of a [`HandshakeJob`].
pub struct HandshakeDone {
    pub(crate) exchange: Key,
    /// None when it could not be begun.
    pub(crate) handshake: Option<Box<dyn Handshake>>,
    pub(crate) said: VecDeque<Said>,
    pub(crate) result: Result<(), HandshakeError>,
}

/// The handshake that a job is about.
pub(crate) enum Subject {
    /// It has to be made first.
    New(Make),
    Begun(Box<dyn Handshake>),
}

pub(crate) type Make = Box<dyn FnOnce() -> Result<Box<dyn Handshake>, HandshakeError> + Send>;

/// An [`Output`] that is kept.
pub(crate) enum Said {
    Datagram(Vec<u8>),
    Claim(Result<Claim, IdentityError>),
    Keys(Option<ExportedKeys>),
    Connected,
    Message(Vec<u8>),
    Closed,
}

/// What an exchange keeps while its handshake is elsewhere, and what that said there.
#[derive(Default)]
pub(crate) struct Elsewhere {
    /// What has come meanwhile; none while the handshake is here.
    waiting: Option<Vec<Vec<u8>>>,
    said: VecDeque<Said>,
}

/// In the place of a handshake that is elsewhere: does nothing until then.
pub(crate) struct Absent(pub(crate) Instant);

impl HandshakeJob {
    /// Does the work: up to half a millisecond of public-key operations.
    pub fn run(self) -> HandshakeDone {
        let Self { exchange, subject, datagram, now } = self;
        let mut said = VecDeque::new();
        let made = match subject {
            Subject::New(make) => make(),
            Subject::Begun(handshake) => Ok(handshake),
        };
        let (handshake, result) = match made {
            Ok(mut handshake) => {
                let result = take_steps(&mut *handshake, &datagram, &mut said, now);
                (Some(handshake), result)
            }
            Err(error) => (None, Err(error)),
        };
        HandshakeDone { exchange, handshake, said, result }
    }
}

impl Said {
    /// As it was said, in a buffer as large as the one that it was said in.
    pub(crate) fn into_output(self, buffer: &mut [u8]) -> Output<'_> {
        match self {
            Self::Datagram(bytes) => Output::Datagram(put(&bytes, buffer)),
            Self::Claim(claim) => Output::Claim(claim),
            Self::Keys(keys) => Output::Keys(keys),
            Self::Connected => Output::Connected,
            Self::Message(message) => Output::Message(put(&message, buffer)),
            Self::Closed => Output::Closed,
        }
    }
}

impl Elsewhere {
    /// Whether the handshake is out.
    pub(crate) fn is_out(&self) -> bool {
        self.waiting.is_some()
    }

    /// The handshake goes out.
    pub(crate) fn leave(&mut self) {
        self.waiting = Some(Vec::new());
    }

    /// Keeps what has come while the handshake is out, if there is room.
    pub(crate) fn keep(&mut self, datagram: &[u8]) {
        if let Some(waiting) = self.waiting.as_mut().filter(|it| it.len() < MAX_WAITING) {
            waiting.push(datagram.to_vec());
        }
    }

    /// The handshake is back. Returns what has come meanwhile.
    pub(crate) fn come_back(&mut self, said: VecDeque<Said>) -> Vec<Vec<u8>> {
        self.said = said;
        self.waiting.take().unwrap_or_default()
    }

    /// The first of what was said elsewhere and has not been taken yet.
    pub(crate) fn next(&mut self) -> Option<Said> {
        self.said.pop_front()
    }
}

impl Handshake for Absent {
    fn handle(&mut self, _: &[u8], _: Instant) -> Result<(), HandshakeError> {
        Ok(())
    }

    fn handle_timeout(&mut self, _: Instant) -> Result<(), HandshakeError> {
        Ok(())
    }

    fn send(&mut self, _: &[u8]) -> Result<(), HandshakeError> {
        Ok(())
    }

    fn poll<'a>(&mut self, _: &'a mut [u8]) -> Result<Output<'a>, HandshakeError> {
        Ok(Output::Wait(self.0))
    }
}

impl fmt::Debug for HandshakeJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandshakeJob").field("exchange", &self.exchange).finish_non_exhaustive()
    }
}

impl fmt::Debug for HandshakeDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandshakeDone").field("exchange", &self.exchange).finish_non_exhaustive()
    }
}

/// Gives a handshake a datagram, record by record, and writes down what it says to each.
fn take_steps(
    handshake: &mut dyn Handshake,
    datagram: &[u8],
    said: &mut VecDeque<Said>,
    now: Instant,
) -> Result<(), HandshakeError> {
    let mut buffer = vec![0; MAX_OUTPUT];
    for record in peek::records(datagram) {
        handshake.handle(record, now)?;
        loop {
            said.push_back(match handshake.poll(&mut buffer)? {
                Output::Datagram(bytes) => Said::Datagram(bytes.to_vec()),
                Output::Claim(claim) => {
                    // What it shows of a domain costs signatures, too: not where PDUs wait.
                    if let Ok(Claim { membership: Some(membership), .. }) = &claim {
                        membership.is_signed();
                    }
                    Said::Claim(claim)
                }
                Output::Keys(keys) => Said::Keys(keys),
                Output::Connected => Said::Connected,
                Output::Message(message) => Said::Message(message.to_vec()),
                Output::Closed => Said::Closed,
                Output::Wait(_) => break,
            });
            if matches!(said.back(), Some(Said::Closed)) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Bytes that were said in a buffer of [`MAX_OUTPUT`] bytes, in another one.
fn put<'a>(bytes: &[u8], buffer: &'a mut [u8]) -> &'a [u8] {
    let len = bytes.len().min(buffer.len());
    buffer[..len].copy_from_slice(&bytes[..len]);
    &buffer[..len]
}

/// A flight of the peer's is one or two datagrams, and comes twice at most while the work is done.
const MAX_WAITING: usize = 4;
