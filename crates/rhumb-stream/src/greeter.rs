//! The thread on which streams begin: others dial in, and we dial out. It does the public-key work
//! of all of them, gives way to the threads that move datagrams, and hands over what is proven.
//!
//! One turn: 1. wait for sockets, orders, or the next deadline; 2. take orders; 3. take
//! connections, as far as bounds allow; 4. go on with the handshakes whose sockets are ready;
//! 5. end those that have had their time; 6. hand over what is ready.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError};
use std::time::{Duration, Instant};

use rhumb_io::Wake;
use rhumb_link::{Admission, AttemptId, LinkError, Source};
use rhumb_wire::Name;
use rhumb_wire::stream::StreamParameters;
use socket2::{Domain, Protocol, Socket, Type};

use crate::StreamError;
use crate::counters::{GreeterCounters, count};
use crate::credentials::Credentials;
use crate::half_open::{Arrived, HalfOpen, Progress, Proof, Side};
use crate::poller::Poller;
use crate::tls::Tls;

/// A place to take connections at, which may need rights that are given up before they are taken.
#[derive(Debug)]
pub struct Listening(TcpListener);

/// Listens for connections at `address`.
///
/// # Errors
/// When the address cannot be had.
pub fn listen(address: SocketAddr) -> Result<Listening, StreamError> {
    let bind = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if address.is_ipv6() {
            socket.set_only_v6(!address.ip().is_unspecified())?;
        }
        // A router that begins anew takes its port back at once.
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(Listening(socket.into()))
    };
    bind().map_err(|source| StreamError::Bind { address, source })
}

impl Listening {
    /// Where that is.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> Result<SocketAddr, StreamError> {
        Ok(self.0.local_addr()?)
    }
}

/// What the greeter is told.
pub(crate) enum Task {
    Dial {
        attempt: AttemptId,
        address: SocketAddr,
        expected: Option<Name>,
    },
    Show {
        certificate: Vec<u8>,
        number: u32,
    },
    /// Somebody who is admitted is there.
    Know(Source),
}

/// What the greeter says.
pub(crate) enum Said {
    Arrived(Box<Arrived>),
    Failed { attempt: AttemptId, error: LinkError },
}

/// What the greeter and the thread that carries streams both see.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) counters: GreeterCounters,
    /// Streams that are open, or were handed over.
    pub(crate) open: AtomicUsize,
}

/// What the thread has.
pub(crate) struct Greeter {
    pub(crate) credentials: Credentials,
    pub(crate) parameters: StreamParameters,
    pub(crate) listening: Option<Listening>,
    pub(crate) admission: Admission,
    pub(crate) max_streams: usize,
    pub(crate) tasks: Receiver<Task>,
    pub(crate) said: SyncSender<Said>,
    /// Wakes this thread.
    pub(crate) wake: Wake,
    /// Wakes the other one.
    pub(crate) carrier: Wake,
    pub(crate) shared: Arc<Shared>,
}

/// What it works with while it runs.
struct Turns {
    greeter: Greeter,
    poller: Poller,
    half_open: HashMap<u64, HalfOpen>,
    dials: HashMap<AttemptId, Dial>,
    known: HashSet<Source>,
    /// What is to be said and found no room.
    unsaid: VecDeque<Said>,
    last_key: u64,
    /// Until when no connections are taken: the system had no descriptors.
    pause_until: Option<Instant>,
}

/// What is dialled for one attempt.
struct Dial {
    expected: Option<Name>,
    /// Addresses that were not tried yet, and when the next one is.
    next: Vec<SocketAddr>,
    next_at: Instant,
    /// Connections that are under way.
    under_way: usize,
    /// What the last one failed for.
    error: LinkError,
}

impl Greeter {
    /// Runs until whoever carries streams is gone.
    pub(crate) fn run(self) {
        give_way();
        let mut turns = match Turns::new(self) {
            Ok(turns) => turns,
            Err(error) => return tracing::error!(%error, "links over TLS cannot begin"),
        };
        while turns.turn() {}
    }
}

impl Turns {
    fn new(greeter: Greeter) -> std::io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(&greeter.wake, WAKE_KEY, false)?;
        if let Some(Listening(listener)) = &greeter.listening {
            poller.add(listener, LISTENER_KEY, false)?;
        }
        Ok(Self {
            greeter,
            poller,
            half_open: HashMap::new(),
            dials: HashMap::new(),
            known: HashSet::new(),
            unsaid: VecDeque::new(),
            last_key: LISTENER_KEY,
            pause_until: None,
        })
    }

    /// Whether there is another one.
    fn turn(&mut self) -> bool {
        let mut ready = Vec::new();
        if let Err(error) = self.poller.wait(self.patience(), &mut ready) {
            tracing::error!(%error, "links over TLS begin no more");
            return false;
        }
        // Before the tasks: one that comes from now on wakes this thread again.
        self.greeter.wake.take();
        if !self.take_tasks(Instant::now()) {
            return false;
        }
        for key in ready {
            match key {
                WAKE_KEY => {}
                LISTENER_KEY => self.take_connections(Instant::now()),
                _ => self.step(key),
            }
        }
        let now = Instant::now();
        self.end_late(now);
        self.dial_next(now);
        self.say();
        true
    }

    /// How long nothing has to be done if nothing happens.
    fn patience(&self) -> Duration {
        match self.half_open.is_empty() && self.dials.is_empty() && self.unsaid.is_empty() {
            true => IDLE_WAIT,
            false => TICK,
        }
    }

    /// Whether there may be more of them.
    fn take_tasks(&mut self, now: Instant) -> bool {
        loop {
            match self.greeter.tasks.try_recv() {
                Ok(Task::Dial { attempt, address, expected }) => {
                    let mut next = vec![address];
                    if address.port() != TLS_PORT {
                        let mut usual = address;
                        usual.set_port(TLS_PORT);
                        next.insert(0, usual);
                    }
                    let error = LinkError::TimedOut;
                    let dial = Dial { expected, next, next_at: now, under_way: 0, error };
                    self.dials.insert(attempt, dial);
                }
                Ok(Task::Show { certificate, number }) => {
                    if let Err(error) = self.greeter.credentials.show(certificate, number) {
                        tracing::warn!(%error, "links over TLS go on with the former certificate");
                    }
                }
                Ok(Task::Know(source)) => {
                    if self.known.len() < MAX_KNOWN {
                        self.known.insert(source);
                    }
                }
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn take_connections(&mut self, now: Instant) {
        if self.pause_until.is_some_and(|until| now < until) {
            // It stays readable meanwhile: this thread has nothing better to do than to wait.
            std::thread::sleep(PAUSE_STEP);
            return;
        }
        self.pause_until = None;
        for _ in 0..CONNECTIONS_A_TURN {
            let Some(Listening(listener)) = &self.greeter.listening else { return };
            match listener.accept() {
                Ok((socket, peer)) => self.take_connection(socket, peer, now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if is_of_the_peer(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "no connection can be taken for a moment");
                    self.pause_until = Some(now + PAUSE);
                    return;
                }
            }
        }
    }

    fn take_connection(&mut self, socket: TcpStream, peer: SocketAddr, now: Instant) {
        // A peer has one address, whatever family the socket is of.
        let peer = match peer.ip().to_canonical() {
            IpAddr::V4(ip) => SocketAddr::new(ip.into(), peer.port()),
            IpAddr::V6(_) => peer,
        };
        let open = self.greeter.shared.open.load(Ordering::Relaxed);
        let is_full = open + self.half_open.len() >= self.greeter.max_streams;
        let is_known = self.known.contains(&Source::of(peer));
        let admitted = match is_full {
            true => None,
            false => self.greeter.admission.admit(peer, is_known, now).ok(),
        };
        let Some(ticket) = admitted else {
            return count(&self.greeter.shared.counters.refused);
        };
        let begun = prepare(&socket)
            .ok()
            .and_then(|()| Tls::server(self.greeter.credentials.server()).ok());
        let Some(tls) = begun else {
            return self.greeter.admission.release(ticket);
        };
        let parameters = self.greeter.parameters;
        let shown = self.greeter.credentials.number;
        let it = HalfOpen::accepted(socket, peer, ticket, (tls, shown), parameters, now);
        self.begin(it);
        self.count_half_open();
    }

    /// Tries further addresses, those that are due.
    fn dial_next(&mut self, now: Instant) {
        let due = |dial: &Dial| dial.under_way == 0 || dial.next_at <= now;
        let mut begun = Vec::new();
        for (attempt, dial) in &mut self.dials {
            if due(dial)
                && let Some(address) = dial.next.pop()
            {
                dial.next_at = now + NEXT_ADDRESS_AFTER;
                dial.under_way += 1;
                begun.push((*attempt, address, dial.expected));
            }
        }
        for (attempt, address, expected) in begun {
            match self.dial(attempt, address, expected, now) {
                Ok(it) => self.begin(it),
                Err(error) => self.dial_failed(attempt, error),
            }
        }
    }

    fn dial(
        &mut self,
        attempt: AttemptId,
        address: SocketAddr,
        expected: Option<Name>,
        now: Instant,
    ) -> Result<HalfOpen, LinkError> {
        let credentials = &self.greeter.credentials;
        let config = credentials.client(expected).map_err(|_| LinkError::Certificate)?;
        let tls = Tls::client(config, address.ip()).map_err(|_| LinkError::Certificate)?;
        let socket = connect(address).map_err(|_| LinkError::TimedOut)?;
        let (shown, parameters) = (credentials.number, self.greeter.parameters);
        Ok(HalfOpen::dialled(socket, address, attempt, (tls, shown), parameters, now))
    }

    fn begin(&mut self, it: HalfOpen) {
        self.last_key += 1;
        let key = self.last_key;
        if let Err(error) = self.poller.add(&it.socket, key, true) {
            tracing::warn!(%error, "a connection cannot be waited for");
            return self.over(it, LinkError::TimedOut);
        }
        self.half_open.insert(key, it);
    }

    fn step(&mut self, key: u64) {
        let Some(it) = self.half_open.get_mut(&key) else { return };
        let progress = it.step();
        match progress {
            Progress::Waits { also_write } => {
                if let Err(error) = self.poller.change(&it.socket, key, also_write) {
                    tracing::warn!(%error, "a connection cannot be waited for");
                }
            }
            Progress::Ready(proof) => {
                let Some(it) = self.half_open.remove(&key) else { return };
                self.ready(it, *proof);
            }
            Progress::Failed(error) => {
                let Some(it) = self.half_open.remove(&key) else { return };
                self.over(it, error);
            }
        }
    }

    /// A handshake is over, and well.
    fn ready(&mut self, mut it: HalfOpen, proof: Proof) {
        match &mut it.side {
            Side::Accepted(ticket) => {
                if let Some(ticket) = ticket.take() {
                    self.greeter.admission.release(ticket);
                }
                self.count_half_open();
            }
            // The first one counts.
            Side::Dialled(attempt) => {
                let attempt = *attempt;
                if self.dials.remove(&attempt).is_none() {
                    return;
                }
                let is_other =
                    |it: &HalfOpen| matches!(it.side, Side::Dialled(of) if of == attempt);
                self.half_open.retain(|_, it| !is_other(it));
            }
        }
        if self.poller.remove(&it.socket).is_ok() {
            self.greeter.shared.open.fetch_add(1, Ordering::Relaxed);
            self.unsaid.push_back(Said::Arrived(Box::new(it.into_arrived(proof))));
        }
    }

    /// A handshake is over, and came to nothing.
    fn over(&mut self, it: HalfOpen, error: LinkError) {
        match it.side {
            Side::Accepted(ticket) => {
                if let Some(ticket) = ticket {
                    self.greeter.admission.release(ticket);
                }
                count(&self.greeter.shared.counters.handshakes_failed);
                tracing::debug!(peer = %it.peer, %error, "a handshake over TLS failed");
                self.count_half_open();
            }
            Side::Dialled(attempt) => self.dial_failed(attempt, error),
        }
    }

    fn dial_failed(&mut self, attempt: AttemptId, error: LinkError) {
        let Some(dial) = self.dials.get_mut(&attempt) else { return };
        dial.under_way -= 1;
        // Another name than the expected one says more than that nobody is there.
        if !matches!(dial.error, LinkError::UnexpectedName { .. }) {
            dial.error = error;
        }
        if dial.under_way == 0 && dial.next.is_empty() {
            let error = dial.error.clone();
            self.dials.remove(&attempt);
            count(&self.greeter.shared.counters.dials_failed);
            self.unsaid.push_back(Said::Failed { attempt, error });
        }
    }

    /// Ends what has had its time. Work: a look at each.
    fn end_late(&mut self, now: Instant) {
        let is_late = |(key, it): (&u64, &HalfOpen)| (it.deadline <= now).then_some(*key);
        let late: Vec<u64> = self.half_open.iter().filter_map(is_late).collect();
        for key in late {
            if let Some(it) = self.half_open.remove(&key) {
                self.over(it, LinkError::TimedOut);
            }
        }
    }

    /// Hands over what there is room for.
    fn say(&mut self) {
        let mut has_said = false;
        while let Some(said) = self.unsaid.pop_front() {
            match self.greeter.said.try_send(said) {
                Ok(()) => has_said = true,
                Err(TrySendError::Full(said)) => {
                    self.unsaid.push_front(said);
                    break;
                }
                Err(TrySendError::Disconnected(_)) => break,
            }
        }
        if has_said {
            self.greeter.carrier.wake();
        }
    }

    fn count_half_open(&self) {
        let half_open = self.greeter.admission.half_open() as u64;
        self.greeter.shared.counters.half_open.store(half_open, Ordering::Relaxed);
    }
}

/// A socket that is connecting.
fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if is_under_way(&error) => {}
        Err(error) => return Err(error),
    }
    let socket = TcpStream::from(socket);
    prepare(&socket)?;
    Ok(socket)
}

/// Whether a socket goes on connecting.
fn is_under_way(error: &std::io::Error) -> bool {
    #[cfg(unix)]
    let goes_on = error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error());
    #[cfg(not(unix))]
    let goes_on = error.kind() == ErrorKind::WouldBlock;
    goes_on
}

/// Frames are put together by us, so the system need not wait for more of them.
fn prepare(socket: &TcpStream) -> std::io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_nodelay(true)
}

/// Whether it concerns one connection, which is gone already.
fn is_of_the_peer(error: &std::io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

/// Lowers the priority of this thread alone, as that of other public-key work is.
#[cfg(unix)]
fn give_way() {
    if let Err(error) = rustix::process::nice(NICE) {
        tracing::debug!(%error, "the priority stays as it was");
    }
}

/// Threads have no priorities there that this crate knows how to set.
#[cfg(not(unix))]
fn give_way() {}

/// A third of the share of a thread beside it.
#[cfg(unix)]
const NICE: i32 = 5;
/// Where TLS is let through if it is anywhere.
const TLS_PORT: u16 = 443;
/// RFC 8305, section 5: the next address has its turn though the first may yet answer.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);
/// How often deadlines are looked at while there are any.
const TICK: Duration = Duration::from_millis(50);
/// A wake ends it.
const IDLE_WAIT: Duration = Duration::from_secs(60);
/// How long no connection is taken after the system had none to give.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_STEP: Duration = Duration::from_millis(5);
/// Connections that are taken before handshakes have their turn.
const CONNECTIONS_A_TURN: usize = 64;
/// Connections that the system keeps for us: at a thousand a second, a moment's.
const BACKLOG: i32 = 1024;
/// Sources that are known. Only who is admitted adds one.
const MAX_KNOWN: usize = 4096;
const WAKE_KEY: u64 = 0;
const LISTENER_KEY: u64 = 1;
