//! One TLS connection of either side, without a socket: bytes in, bytes out.
//!
//! rustls is asked in its unbuffered form, so that a connection without traffic holds no buffers,
//! and what is sealed is written where it is sent from.
//!
//! INVARIANT: rustls is asked with the bytes that it has not let go of, since it looks up in them
//! what it has not done with. An open connection keeps none but the beginning of a record: who
//! cuts a message of the handshake in two once that is over is not gone on with. So data can be
//! sealed without them.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
};
use rustls::{ClientConfig, CommonState, Error, PeerMisbehaved, ServerConfig};

/// A connection of ours, or of somebody else's.
pub(crate) enum Tls {
    Client(Box<UnbufferedClientConnection>),
    Server(Box<UnbufferedServerConnection>),
}

/// How far a connection is when all that came has been looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The handshake waits for more.
    Shaking,
    /// It carries data both ways.
    Open,
    /// The peer has said that nothing more comes.
    Closed,
}

impl Tls {
    pub(crate) fn client(config: Arc<ClientConfig>, peer: IpAddr) -> Result<Self, Error> {
        // Not sent, since there is no SNI, and not looked at: names are proven otherwise.
        let connection = UnbufferedClientConnection::new(config, ServerName::from(peer))?;
        Ok(Self::Client(Box::new(connection)))
    }

    pub(crate) fn server(config: Arc<ServerConfig>) -> Result<Self, Error> {
        Ok(Self::Server(Box::new(UnbufferedServerConnection::new(config)?)))
    }

    /// What is known of the connection once the handshake is over.
    pub(crate) fn common(&self) -> &CommonState {
        match self {
            Self::Client(connection) => connection,
            Self::Server(connection) => connection,
        }
    }

    /// Takes whole records off the front of `incoming`, hands what they carry to `data`, and
    /// appends what is to be sent for it to `out`. Returns how many bytes were taken.
    ///
    /// # Errors
    /// When the peer is not to be gone on with; `out` may hold an alert for it.
    pub(crate) fn advance(
        &mut self,
        incoming: &mut [u8],
        out: &mut Vec<u8>,
        data: &mut dyn FnMut(&[u8]),
    ) -> (usize, Result<State, Error>) {
        let mut taken = 0;
        loop {
            let rest = &mut incoming[taken..];
            let (discard, step) = match self {
                Self::Client(connection) => {
                    let UnbufferedStatus { discard, state } = connection.process_tls_records(rest);
                    take_step::<ClientConnectionData>(discard, state, out, data)
                }
                Self::Server(connection) => {
                    let UnbufferedStatus { discard, state } = connection.process_tls_records(rest);
                    take_step::<ServerConnectionData>(discard, state, out, data)
                }
            };
            taken += discard;
            match step {
                Step::GoOn => {}
                Step::Is(State::Open) if holds_a_record(&incoming[taken..]) => {
                    return (
                        taken,
                        Err(PeerMisbehaved::MessageInterleavedWithHandshakeMessage.into()),
                    );
                }
                Step::Is(state) => return (taken, Ok(state)),
                Step::Failed(error) => {
                    self.say_why(&mut incoming[taken..], out);
                    return (taken, Err(error));
                }
            }
        }
    }

    /// Appends records that carry `data` to `out`.
    ///
    /// # Errors
    /// When the connection cannot carry any, or not any more.
    pub(crate) fn seal(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), NotOpen> {
        let mut sealed = false;
        let mut nothing = [];
        while !sealed {
            sealed = match self {
                Self::Client(connection) => {
                    let state = connection.process_tls_records(&mut nothing).state;
                    seal_in::<ClientConnectionData>(state, data, out)?
                }
                Self::Server(connection) => {
                    let state = connection.process_tls_records(&mut nothing).state;
                    seal_in::<ServerConnectionData>(state, data, out)?
                }
            };
        }
        Ok(())
    }

    /// Appends the last words to `out`, if there is a connection to say them on.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        let mut nothing = [];
        let write = |buffer: &mut [u8]| match self {
            Self::Client(connection) => match connection.process_tls_records(&mut nothing).state {
                Ok(ConnectionState::WriteTraffic(mut it)) => it.queue_close_notify(buffer),
                _ => Ok(0),
            },
            Self::Server(connection) => match connection.process_tls_records(&mut nothing).state {
                Ok(ConnectionState::WriteTraffic(mut it)) => it.queue_close_notify(buffer),
                _ => Ok(0),
            },
        };
        let mut write = write;
        let before = out.len();
        out.resize(before + LAST_WORDS_LEN, 0);
        let written = write(&mut out[before..]).unwrap_or(0);
        out.truncate(before + written);
    }

    /// Appends the alert about what the peer did wrong, if rustls holds one ready: it is said
    /// before anything else.
    fn say_why(&mut self, incoming: &mut [u8], out: &mut Vec<u8>) {
        match self {
            Self::Client(connection) => {
                let state = connection.process_tls_records(incoming).state;
                take_step::<ClientConnectionData>(0, state, out, &mut |_| ());
            }
            Self::Server(connection) => {
                let state = connection.process_tls_records(incoming).state;
                take_step::<ServerConnectionData>(0, state, out, &mut |_| ());
            }
        }
    }
}

/// Whether `bytes` begin with a whole record (RFC 8446, section 5.1).
fn holds_a_record(bytes: &[u8]) -> bool {
    match bytes.split_first_chunk() {
        Some(([_, _, _, high, low], rest)) => {
            rest.len() >= usize::from(u16::from_be_bytes([*high, *low]))
        }
        None => false,
    }
}

/// The connection carries no data, or no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotOpen;

enum Step {
    GoOn,
    Is(State),
    Failed(Error),
}

fn take_step<Data>(
    discard: usize,
    state: Result<ConnectionState<'_, '_, Data>, Error>,
    out: &mut Vec<u8>,
    data: &mut dyn FnMut(&[u8]),
) -> (usize, Step) {
    let mut discard = discard;
    let step = match state {
        Err(error) => Step::Failed(error),
        Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
            match traffic.next_record() {
                None => break Step::GoOn,
                Some(Ok(record)) => {
                    discard += record.discard;
                    data(record.payload);
                }
                Some(Err(error)) => break Step::Failed(error),
            }
        },
        Ok(ConnectionState::EncodeTlsData(mut encoding)) => {
            match grown(out, |buffer| encoding.encode(buffer).map_err(|it| size_to_encode(&it))) {
                Ok(()) => Step::GoOn,
                Err(NotOpen) => Step::Failed(Error::HandshakeNotComplete),
            }
        }
        Ok(ConnectionState::TransmitTlsData(sent)) => {
            sent.done();
            Step::GoOn
        }
        Ok(ConnectionState::WriteTraffic(_)) => Step::Is(State::Open),
        Ok(ConnectionState::BlockedHandshake) => Step::Is(State::Shaking),
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Step::Is(State::Closed),
        // There is no early data, since there are no tickets.
        Ok(_) => Step::Failed(Error::HandshakeNotComplete),
    };
    (discard, step)
}

/// Whether `data` was sealed; otherwise there was something else to be said first.
fn seal_in<Data>(
    state: Result<ConnectionState<'_, '_, Data>, Error>,
    data: &[u8],
    out: &mut Vec<u8>,
) -> Result<bool, NotOpen> {
    match state {
        Ok(ConnectionState::WriteTraffic(mut traffic)) => {
            grown(out, |buffer| traffic.encrypt(data, buffer).map_err(|it| size_to_encrypt(&it)))?;
            Ok(true)
        }
        Ok(ConnectionState::EncodeTlsData(mut encoding)) => {
            grown(out, |buffer| encoding.encode(buffer).map_err(|it| size_to_encode(&it)))?;
            Ok(false)
        }
        Ok(ConnectionState::TransmitTlsData(sent)) => {
            sent.done();
            Ok(false)
        }
        _ => Err(NotOpen),
    }
}

/// Has `write` append to `out`, with as much room as it says that it needs.
fn grown(
    out: &mut Vec<u8>,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> Result<(), NotOpen> {
    let before = out.len();
    let mut room = 0;
    loop {
        out.resize(before + room, 0);
        match write(&mut out[before..]) {
            Ok(written) => {
                out.truncate(before + written);
                return Ok(());
            }
            Err(Some(needed)) if needed > room => room = needed,
            Err(_) => {
                out.truncate(before);
                return Err(NotOpen);
            }
        }
    }
}

fn size_to_encode(error: &EncodeError) -> Option<usize> {
    match error {
        EncodeError::InsufficientSize(InsufficientSizeError { required_size, .. }) => {
            Some(*required_size)
        }
        EncodeError::AlreadyEncoded => None,
    }
}

fn size_to_encrypt(error: &EncryptError) -> Option<usize> {
    match error {
        EncryptError::InsufficientSize(InsufficientSizeError { required_size, .. }) => {
            Some(*required_size)
        }
        EncryptError::EncryptExhausted => None,
    }
}

/// An alert and what protects it, generously.
const LAST_WORDS_LEN: usize = 128;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
    use rhumb_trust::{Identity, x509};
    use rhumb_wire::Role;
    use rustls::ConnectionTrafficSecrets;

    use super::*;
    use crate::credentials::Credentials;

    fn credentials() -> Credentials {
        let identity = Identity::generate(Role::Node, 1).unwrap();
        let certificate = x509::make(&identity).unwrap();
        Credentials::new(identity.name(), identity.pkcs8_der(), certificate).unwrap()
    }

    /// Both ends of a connection, open; the client's secrets can be had.
    fn open() -> [Tls; 2] {
        let mut config = (*credentials().client(None).unwrap()).clone();
        config.enable_secret_extraction = true;
        let client = Tls::client(Arc::new(config), Ipv4Addr::LOCALHOST.into()).unwrap();
        let mut ends = [client, Tls::server(credentials().server()).unwrap()];
        let mut flight = Vec::new();
        for turn in 0..6 {
            let mut incoming = std::mem::take(&mut flight);
            let (taken, state) = ends[turn % 2].advance(&mut incoming, &mut flight, &mut |_| ());
            assert_eq!(taken, incoming.len());
            if turn == 5 {
                assert_eq!(state, Ok(State::Open));
            }
        }
        ends
    }

    fn opened(by: &mut Tls, incoming: &mut [u8]) -> (Vec<u8>, Result<State, Error>) {
        let mut data = Vec::new();
        let (_, state) = by.advance(incoming, &mut Vec::new(), &mut |it| data.extend(it));
        (data, state)
    }

    #[test]
    fn what_is_sealed_is_opened_in_one_piece_or_in_many() {
        let mut ends = open();
        let sent: Vec<u8> = (0..40_000_u32).map(|at| at as u8).collect();
        for _ in 0..2 {
            let mut sealed = Vec::new();
            ends[0].seal(&sent, &mut sealed).unwrap();
            assert_eq!(sealed.len(), sent.len() + 3 * 22, "three records");
            let (mut kept, mut got) = (Vec::new(), Vec::new());
            for part in sealed.chunks(7_001) {
                kept.extend_from_slice(part);
                let (taken, state) =
                    ends[1].advance(&mut kept, &mut Vec::new(), &mut |it| got.extend(it));
                assert_eq!(state, Ok(State::Open));
                kept.drain(..taken);
            }
            assert_eq!((kept.len(), &got), (0, &sent));
            ends.swap(0, 1);
        }
    }

    #[test]
    fn the_last_words_are_understood() {
        let mut ends = open();
        let mut words = Vec::new();
        ends[0].close(&mut words);
        assert_eq!(opened(&mut ends[1], &mut words), (vec![], Ok(State::Closed)));
    }

    /// rustls keeps places in the bytes that it was last given, and panics when it is given fewer:
    /// half a message of the handshake, and then something to seal, would end our thread.
    #[test]
    fn half_a_message_of_the_handshake_is_not_waited_for() {
        let [client, mut server] = open();
        let Tls::Client(client) = client else { panic!("the first is the client") };
        let (secrets, _) = client.dangerous_into_kernel_connection().unwrap();
        let (sequence, ConnectionTrafficSecrets::Aes256Gcm { key, iv }) = secrets.tx else {
            panic!("AES-256 is what we like best");
        };
        // A KeyUpdate (24) of one byte, of which the byte is left out, in a record of its own.
        let mut inner = vec![24, 0, 0, 1, 22];
        let header = [23, 3, 3, 0, inner.len() as u8 + 16];
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&sequence.to_be_bytes());
        nonce.iter_mut().zip(iv.as_ref()).for_each(|(byte, iv)| *byte ^= iv);
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.as_ref()).unwrap());
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce, Aad::from(header), &mut inner).unwrap();
        let mut record = [&header[..], &inner].concat();
        let (data, state) = opened(&mut server, &mut record);
        assert!(data.is_empty() && state.is_err(), "{state:?}");
    }
}
