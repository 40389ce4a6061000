//! The handshake of one TLS connection of either side, without a socket: bytes in, bytes out. What
//! comes of it is a [`Protected`].
//!
//! rustls is asked in its unbuffered form, which is the one that gives its keys away.
//!
//! INVARIANT: rustls is asked with the bytes that it has not let go of, since it looks up in them
//! what it has not done with. Once it is open it has kept none but the beginning of a record: who
//! cuts a message of the handshake in two behind the handshake's end is not gone on with. So
//! nothing is lost in it when records become ours.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, InsufficientSizeError, UnbufferedStatus};
use rustls::{ClientConfig, CommonState, Error, PeerMisbehaved, ServerConfig};

use crate::protected::{First, Protected};

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

    /// The connection, now that it is open.
    ///
    /// A KeyUpdate that the peer has asked for while rustls had the connection is not sent: it does
    /// not open what we seal then, and ends a connection that was minutes younger than that asks.
    ///
    /// # Errors
    /// When it is not open.
    pub(crate) fn into_protected(self) -> Result<Protected, Error> {
        let first = match self {
            Self::Client(connection) => {
                let (secrets, next) = connection.dangerous_into_kernel_connection()?;
                let (sending, receiving) = (secrets.tx, secrets.rx);
                First { sending, receiving, next: Box::new(next), is_client: true }
            }
            Self::Server(connection) => {
                let (secrets, next) = connection.dangerous_into_kernel_connection()?;
                let (sending, receiving) = (secrets.tx, secrets.rx);
                First { sending, receiving, next: Box::new(next), is_client: false }
            }
        };
        Protected::new(first, rhumb_link::cipher_choice())
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
                Err(NoRoom) => Step::Failed(Error::HandshakeNotComplete),
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

/// What rustls has to say was said already.
struct NoRoom;

/// Has `write` append to `out`, with as much room as it says that it needs.
fn grown(
    out: &mut Vec<u8>,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> Result<(), NoRoom> {
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
                return Err(NoRoom);
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
