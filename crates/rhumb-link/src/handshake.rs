//! What a handshake library has to do for us, and nothing else, so that another can take its place.
//!
//! Sans-IO: bytes and time go in, outputs are polled until the handshake waits.

use std::time::Instant;

use rhumb_trust::x509::{Claim, IdentityError};

use crate::HandshakeError;
use crate::keys::ExportedKeys;

/// One handshake, of either side. Every error is final.
pub(crate) trait Handshake: Send {
    /// Takes a datagram of the peer.
    fn handle(&mut self, datagram: &[u8], now: Instant) -> Result<(), HandshakeError>;

    /// Does what is due.
    fn handle_timeout(&mut self, now: Instant) -> Result<(), HandshakeError>;

    /// Sends a message inside the completed handshake.
    fn send(&mut self, message: &[u8]) -> Result<(), HandshakeError>;

    /// The next output. Call until [`Output::Wait`], after each of the calls above.
    /// `buffer` has [`MAX_OUTPUT`] bytes.
    fn poll<'a>(&mut self, buffer: &'a mut [u8]) -> Result<Output<'a>, HandshakeError>;
}

/// What a handshake wants.
#[derive(Debug)]
pub(crate) enum Output<'a> {
    /// Send this.
    Datagram(&'a [u8]),
    /// Who the peer claims to be by its certificate; proven with [`Output::Connected`].
    Claim(Result<Claim, IdentityError>),
    /// Keys were exported; `None` when they are not of the kind asked for.
    Keys(Option<ExportedKeys>),
    /// Both sides have proven their keys.
    Connected,
    /// The peer sent a message inside the completed handshake.
    Message(&'a [u8]),
    /// The peer ended the handshake's connection.
    Closed,
    /// Nothing until then, or until a datagram comes.
    Wait(Instant),
}

/// Bytes of the largest output: a certificate chain's first certificate, or a datagram.
pub(crate) const MAX_OUTPUT: usize = 16 * 1024;
