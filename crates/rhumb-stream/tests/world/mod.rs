//! Two ends on loopback: a dialler and a listener whose UDP address swallows what comes, or passes
//! it on, as the test says. Real sockets and the real thread of handshakes; the endpoints' clock is
//! the real one and what the test adds to it.

#![allow(clippy::unwrap_used, unreachable_pub)] // Tests may.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket as StdUdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_io::Wake;
use rhumb_io::udp::{Options, UdpSocket};
use rhumb_link::{AttemptId, Config, Endpoint, Event, Limits, SessionId, Transport};
use rhumb_stream::{Carrier, Listening, Settings, StreamCounters, listen};
use rhumb_trust::{Identity, Now};
use rhumb_wire::datagram::{Datagram, RECORD_OVERHEAD, RecordHeader};
use rhumb_wire::{Batch, Name, Role};

/// One end.
pub struct End {
    pub identity: Arc<Identity>,
    pub endpoint: Endpoint,
    pub carrier: Carrier,
    pub events: Vec<Event>,
    pub received: Vec<Vec<u8>>,
    pub wake: Wake,
    batch: Batch,
}

/// The dialler is 0, the listener 1.
pub struct World {
    pub ends: [End; 2],
    /// Where the listener takes connections, and where its UDP address is for the dialler.
    pub listens: SocketAddr,
    /// The UDP side of that address, while UDP is blocked.
    pub swallows: Option<StdUdpSocket>,
    /// How far the endpoints' clock is ahead.
    pub ahead: Duration,
}

impl End {
    pub fn new(listening: Option<Listening>, limits: Limits) -> Self {
        let identity = Arc::new(Identity::generate(Role::Node, 1).unwrap());
        let mut config = Config::default();
        config.streams = true;
        let endpoint = Endpoint::new(identity.clone(), config, [7; 32], Instant::now()).unwrap();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut carrier = Carrier::new(UdpSocket::bind(any, Options::default()).unwrap());
        let wake = Wake::new().unwrap();
        let settings = Settings { listening, max_datagram_len: config.max_datagram_len, limits };
        carrier.carry_streams(identity.clone(), settings, wake.clone()).unwrap();
        let (events, received) = (Vec::new(), Vec::new());
        Self { identity, endpoint, carrier, events, received, wake, batch: Batch::new() }
    }

    pub fn name(&self) -> Name {
        self.endpoint.name()
    }

    pub fn counters(&self) -> StreamCounters {
        self.carrier.stream_counters()
    }

    /// A turn as daemons have them.
    pub fn turn(&mut self, now: Instant) {
        let civil = Now { instant: now, unix_ms: 1_700_000_000_000 };
        self.endpoint.handle_timeout(now);
        self.transmit();
        if self.carrier.meet(&mut self.endpoint, civil) {
            self.transmit();
        }
        self.carrier.wait(Some(Duration::from_micros(200)), Some(&self.wake)).unwrap();
        for _ in 0..8 {
            if self.carrier.receive(&mut self.batch).unwrap() == 0 {
                break;
            }
            for slot in 0..self.batch.len() {
                let (from, datagram) = self.batch.datagram_mut(slot);
                match Datagram::parse(datagram) {
                    Ok(Datagram::Record(_)) => {
                        let opened = self.endpoint.open(from, datagram, now);
                        if let Ok(opened) = opened
                            && !opened.plaintext.is_empty()
                        {
                            self.received.push(datagram[opened.plaintext].to_vec());
                        }
                    }
                    Ok(datagram) => drop(self.endpoint.handle_handshake(from, datagram, now)),
                    Err(_) => {}
                }
            }
            if self.carrier.is_drained() {
                break;
            }
        }
        self.transmit();
        self.events.extend(std::iter::from_fn(|| self.endpoint.poll_event()));
    }

    fn transmit(&mut self) {
        self.batch.clear();
        self.endpoint.poll_transmit(&mut self.batch);
        if !self.batch.is_empty() {
            self.carrier.send(&mut self.batch).unwrap();
        }
    }

    /// Sends these in one batch on the session with `to`.
    pub fn send<'a>(
        &mut self,
        to: Name,
        plaintexts: impl IntoIterator<Item = &'a [u8]>,
        now: Instant,
    ) {
        let session = self.endpoint.session_of(&to).expect("a session");
        self.batch.clear();
        for plaintext in plaintexts {
            let address = self.endpoint.peer(session).unwrap().address;
            let buffer = self.batch.push_with(address, plaintext.len() + RECORD_OVERHEAD);
            buffer[RecordHeader::LEN..][..plaintext.len()].copy_from_slice(plaintext);
            assert_eq!(self.endpoint.seal(session, buffer, now), Ok(address));
        }
        self.carrier.send(&mut self.batch).unwrap();
    }
}

impl World {
    /// UDP is blocked.
    pub fn new() -> Self {
        Self::with(Limits::default())
    }

    pub fn with(limits: Limits) -> Self {
        let swallows = StdUdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let listens = swallows.local_addr().unwrap();
        let listening = listen(listens).unwrap();
        let ends = [End::new(None, Limits::default()), End::new(Some(listening), limits)];
        Self { ends, listens, swallows: Some(swallows), ahead: Duration::ZERO }
    }

    pub fn now(&self) -> Instant {
        Instant::now() + self.ahead
    }

    pub fn turn(&mut self) {
        let now = self.now();
        for end in &mut self.ends {
            end.turn(now);
        }
    }

    /// Goes on until something is so; fails after a while in which it is not.
    pub fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(
                Instant::now() < end,
                "{what}: {:?}",
                self.ends.each_ref().map(|it| &it.events)
            );
            self.turn();
        }
    }

    /// Goes on for this long, on the endpoints' clock, of which all but a moment is skipped.
    pub fn skip(&mut self, span: Duration) {
        for _ in 0..(span.as_millis() / STEP.as_millis()) {
            self.ahead += STEP;
            self.turn();
        }
    }

    /// Has the dialler connect to whoever has this address, as far as that a stream is dialled.
    pub fn dial(&mut self, address: SocketAddr, expected: Option<Name>) -> AttemptId {
        let now = self.now();
        let attempt = self.ends[0].endpoint.connect(address, expected, now);
        self.skip(Duration::from_millis(2_200));
        attempt
    }

    /// Has the dialler connect by `address`, and waits until both ends have a session.
    pub fn establish_by(&mut self, address: SocketAddr) -> SessionId {
        let expected = self.ends[1].name();
        self.dial(address, Some(expected));
        self.until("a session at both ends", |it| it.sessions() == [true; 2]);
        assert_eq!(self.transports(), [Some(Transport::Tls); 2]);
        self.ends[0].endpoint.session_of(&expected).unwrap()
    }

    pub fn establish(&mut self) -> SessionId {
        self.establish_by(self.listens)
    }

    pub fn sessions(&self) -> [bool; 2] {
        self.transports().map(|it| it.is_some())
    }

    /// What the session of each end goes over.
    pub fn transports(&self) -> [Option<Transport>; 2] {
        let names = [self.ends[1].name(), self.ends[0].name()];
        std::array::from_fn(|end| {
            let endpoint = &self.ends[end].endpoint;
            let session = endpoint.session_of(&names[end])?;
            endpoint.peer(session).map(rhumb_link::Peer::transport)
        })
    }

    /// Sends from one end to the other.
    pub fn send<'a>(&mut self, from: usize, plaintexts: impl IntoIterator<Item = &'a [u8]>) {
        let (now, to) = (self.now(), self.ends[1 - from].name());
        self.ends[from].send(to, plaintexts, now);
    }

    /// Sends both ways, and waits for it.
    pub fn assert_carries(&mut self) {
        for from in 0..2 {
            self.ends[1 - from].received.clear();
            self.send(from, [&b"carried"[..]]);
            self.until("carried", |it| it.ends[1 - from].received == [b"carried"]);
        }
    }

    /// UDP goes both ways from now on.
    pub fn let_udp_through(&mut self) -> Relay {
        let outside = self.swallows.take().unwrap();
        Relay::start(outside, self.ends[1].carrier.local_address())
    }
}

/// Passes datagrams on until it is dropped.
pub struct Relay {
    stops: Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Relay {
    fn start(outside: StdUdpSocket, to: SocketAddr) -> Self {
        let stops = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let inside = StdUdpSocket::bind((IpAddr::from(Ipv4Addr::LOCALHOST), 0)).unwrap();
        inside.connect(to).unwrap();
        for socket in [&outside, &inside] {
            socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        }
        let is_over = Arc::clone(&stops);
        let thread = std::thread::spawn(move || {
            let (mut buffer, mut back) = ([0; 2048], None);
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                if let Ok((len, from)) = outside.recv_from(&mut buffer) {
                    back = Some(from);
                    let _ = inside.send(&buffer[..len]);
                }
                if let (Ok(len), Some(back)) = (inside.recv(&mut buffer), back) {
                    let _ = outside.send_to(&buffer[..len], back);
                }
            }
        });
        Self { stops, thread: Some(thread) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stops.store(true, std::sync::atomic::Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Of the endpoints' clock, at once.
const STEP: Duration = Duration::from_millis(100);
/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
