//! A TLS 1.3 connection whose handshake is over, without a socket: bytes in, bytes out.
//!
//! rustls has made the keys, and derives the next ones; records are ours (`record`), so that what
//! is sent is sealed where it gathers, and what comes is opened where it was read.
//! `docs/decisions/0123-records-of-tls-by-ourselves.md` says why.
//!
//! What comes: 1. records in order, each opened; 2. data is handed over; 3. a KeyUpdate gives the
//! key of what follows, and may ask for one of ours, which goes before our next data; 4. tickets
//! are passed over, since no session is resumed; 5. an alert ends it, and so does everything else.
//!
//! INVARIANT: after a fault nothing is opened or sealed any more but the alert that tells of it. A
//! message of the handshake stands whole in one record (`tls` holds those of before to the same),
//! so nothing is kept from one record to the next but keys and numbers.

use rhumb_aead::Choice;
use rustls::kernel::KernelConnection;
use rustls::{ConnectionTrafficSecrets, Error};

use crate::record::{self, ALERT, DATA, Fault, HANDSHAKE, Opening, Outgoing, Sealing};

/// Keys, and what the next ones are derived from.
pub(crate) struct Protected {
    opening: Opening,
    sealing: Sealing,
    secrets: Box<dyn Secrets>,
    choice: Choice,
    is_client: bool,
    /// Records with a key of ours before the next one is taken.
    most_sealed: u64,
    /// Whether the peer wants us to take it before we send data again.
    is_update_due: bool,
    /// Records since the last that brought data.
    idle: u32,
    is_over: bool,
}

/// Whether the peer has more to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// Data goes both ways.
    Open,
    /// It has said that nothing more comes, or it was not gone on with.
    Closed,
}

/// What derives the secrets that follow (RFC 8446, section 7.2).
pub(crate) trait Secrets: Send {
    /// Of what we send.
    fn next_sending(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error>;
    /// Of what comes.
    fn next_receiving(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error>;
}

impl<Data: Send> Secrets for KernelConnection<Data> {
    fn next_sending(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        self.update_tx_secret()
    }

    fn next_receiving(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        self.update_rx_secret()
    }
}

/// The secrets of a connection as its handshake leaves them, each with the number of the next
/// record.
pub(crate) struct First {
    pub(crate) sending: (u64, ConnectionTrafficSecrets),
    pub(crate) receiving: (u64, ConnectionTrafficSecrets),
    pub(crate) next: Box<dyn Secrets>,
    /// Whether we have dialled.
    pub(crate) is_client: bool,
}

impl Protected {
    /// # Errors
    /// When the secrets are those of another cipher than we offer.
    pub(crate) fn new(first: First, choice: Choice) -> Result<Self, Error> {
        let First { sending, receiving, next: secrets, is_client } = first;
        Ok(Self {
            opening: Opening::new(receiving, choice)?,
            sealing: Sealing::new(sending, choice)?,
            secrets,
            choice,
            is_client,
            most_sealed: SEALED_BEFORE_UPDATE,
            is_update_due: false,
            idle: 0,
            is_over: false,
        })
    }

    /// The same with another bound on what is sealed with one key.
    #[cfg(any(fuzzing, test))]
    pub(crate) fn with_most_sealed(self, most_sealed: u64) -> Self {
        Self { most_sealed, ..self }
    }

    /// Takes whole records off the front of `incoming`, opens them there, and hands what they carry
    /// to `data`. Returns how many bytes were taken.
    ///
    /// # Errors
    /// When the peer is not to be gone on with; [`Protected::say`] tells it.
    pub(crate) fn open(
        &mut self,
        incoming: &mut [u8],
        data: &mut dyn FnMut(&[u8]),
    ) -> (usize, Result<Life, Fault>) {
        let mut taken = 0;
        while !self.is_over {
            let rest = &mut incoming[taken..];
            let record = match record::len_of(rest) {
                Ok(Some(len)) => rest.get_mut(..len),
                Ok(None) => None,
                Err(fault) => return (taken, self.end(fault)),
            };
            let Some(record) = record else { return (taken, Ok(Life::Open)) };
            taken += record.len();
            if let Err(fault) = self.take(record, data) {
                return (taken, self.end(fault));
            }
        }
        (taken, Ok(Life::Closed))
    }

    fn end(&mut self, fault: Fault) -> Result<Life, Fault> {
        self.is_over = true;
        Err(fault)
    }

    fn take(&mut self, record: &mut [u8], data: &mut dyn FnMut(&[u8])) -> Result<(), Fault> {
        let (kind, content) = self.opening.open(record)?;
        match kind {
            DATA if !content.is_empty() => {
                self.idle = 0;
                data(content);
                return Ok(());
            }
            // Section 5.4 allows it, as a cover for silence.
            DATA => {}
            ALERT => self.is_over = ends_it(content)?,
            HANDSHAKE => self.take_messages(content)?,
            _ => return Err(Fault::UnexpectedMessage),
        }
        self.idle += 1;
        if self.idle > MOST_IDLE { Err(Fault::UnexpectedMessage) } else { Ok(()) }
    }

    /// What a record has of the handshake, which is over: one message or more, all of them whole.
    fn take_messages(&mut self, content: &[u8]) -> Result<(), Fault> {
        let mut rest = content;
        loop {
            let Some((&[kind, a, b, c], behind)) = rest.split_first_chunk() else {
                return Err(Fault::UnexpectedMessage);
            };
            let len = u32::from_be_bytes([0, a, b, c]) as usize;
            let (message, behind) = behind.split_at_checked(len).ok_or(Fault::UnexpectedMessage)?;
            match kind {
                // Whatever follows would be of the former key, under the next one's protection.
                KEY_UPDATE if !behind.is_empty() => return Err(Fault::UnexpectedMessage),
                KEY_UPDATE => return self.take_update(message),
                NEW_SESSION_TICKET if self.is_client => {}
                _ => return Err(Fault::UnexpectedMessage),
            }
            if behind.is_empty() {
                return Ok(());
            }
            rest = behind;
        }
    }

    /// The peer has taken its next key (section 4.6.3).
    fn take_update(&mut self, message: &[u8]) -> Result<(), Fault> {
        match message {
            [UPDATE_NOT_REQUESTED] => {}
            // However often it asks while we are silent, one answer will do.
            [UPDATE_REQUESTED] => self.is_update_due = true,
            [_] => return Err(Fault::IllegalParameter),
            _ => return Err(Fault::Decode),
        }
        let secrets = self.secrets.next_receiving().map_err(|_| Fault::Exhausted)?;
        self.opening = Opening::new(secrets, self.choice).map_err(|_| Fault::Exhausted)?;
        Ok(())
    }

    /// Takes our next key if it is due, and appends what tells the peer so to `before`: it goes
    /// before whatever is sealed from now on.
    ///
    /// # Errors
    /// When the connection carries nothing any more.
    pub(crate) fn renew_if_due(&mut self, before: &mut Vec<u8>) -> Result<(), Fault> {
        if self.is_over {
            return Err(Fault::Exhausted);
        }
        if !self.is_update_due && self.sealing.sealed() < self.most_sealed {
            return Ok(());
        }
        let message = [KEY_UPDATE, 0, 0, 1, UPDATE_NOT_REQUESTED];
        self.sealing.append(HANDSHAKE, &message, before)?;
        let secrets = self.secrets.next_sending().map_err(|_| Fault::Exhausted)?;
        self.sealing = Sealing::new(secrets, self.choice).map_err(|_| Fault::Exhausted)?;
        self.is_update_due = false;
        Ok(())
    }

    /// Seals data that has gathered. [`Protected::renew_if_due`] comes first.
    ///
    /// # Errors
    /// When the connection carries nothing any more.
    pub(crate) fn seal(&mut self, outgoing: Outgoing) -> Result<Vec<u8>, Fault> {
        if self.is_over {
            return Err(Fault::Exhausted);
        }
        outgoing.seal(&mut self.sealing)
    }

    /// Appends records that carry these few bytes to `out`.
    ///
    /// # Errors
    /// As [`Protected::seal`].
    pub(crate) fn append(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        self.renew_if_due(out)?;
        let mut outgoing = Outgoing::default();
        outgoing.append(data);
        out.extend_from_slice(&self.seal(outgoing)?);
        Ok(())
    }

    /// Appends the alert that says what the peer did wrong.
    pub(crate) fn say(&mut self, fault: Fault, out: &mut Vec<u8>) {
        self.is_over = true;
        // A key that may seal no more is the one reason not to.
        let _ = self.sealing.append(ALERT, &[FATAL, fault as u8], out);
    }

    /// Appends the last words: that nothing follows.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        if !self.is_over {
            self.is_over = true;
            let _ = self.sealing.append(ALERT, &[WARNING, CLOSE_NOTIFY], out);
        }
    }
}

/// Whether an alert ends the connection; all but one do (section 6).
fn ends_it(alert: &[u8]) -> Result<bool, Fault> {
    match alert {
        [_, USER_CANCELED] => Ok(false),
        [_, _] => Ok(true),
        [] => Err(Fault::UnexpectedMessage),
        _ => Err(Fault::Decode),
    }
}

/// Of section 4.
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;
const UPDATE_NOT_REQUESTED: u8 = 0;
const UPDATE_REQUESTED: u8 = 1;
/// Of section 6.
const WARNING: u8 = 1;
const FATAL: u8 = 2;
const CLOSE_NOTIFY: u8 = 0;
const USER_CANCELED: u8 = 90;
/// 64 GiB in full records, of which a quarter of the bound of AES-GCM are.
const SEALED_BEFORE_UPDATE: u64 = 1 << 22;
/// As many as other stacks bear of KeyUpdates: each costs us two keys, and its sender next to none.
const MOST_IDLE: u32 = 32;

#[cfg(test)]
mod tests;
