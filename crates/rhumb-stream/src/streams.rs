//! The streams of one thread: frames out of all that have some into a batch, and out of a batch to
//! those that it is for.
//!
//! INVARIANT: a stream stands under the index that the endpoint gave it, from when that has taken
//! it until it is closed or lost; so a frame is of the session that its address says.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};
use rhumb_io::Wake;
use rhumb_io::fd::{AsFd, BorrowedFd};
use rhumb_link::{Admission, Limits, LinkError, NewStream, StreamNews, StreamOrder};
use rhumb_trust::{Identity, x509};
use rhumb_wire::Batch;
use rhumb_wire::datagram::{
    AEAD_TAG_LEN, Counter, RECORD_OVERHEAD, RecordHeader, RecordKind, SessionIndex,
};
use rhumb_wire::stream::{self, StreamFrame, StreamParameters};

use crate::StreamError;
use crate::counters::StreamCounters;
use crate::credentials::Credentials;
use crate::greeter::{Greeter, Listening, Said, Shared, Task};
use crate::half_open::Arrived;
use crate::poller::Poller;
use crate::protected::Protected;
use crate::stream::{Lost, Room, Stream};

/// What streams are carried with.
#[derive(Debug)]
pub struct Settings {
    /// Where others dial in, if they may.
    pub listening: Option<Listening>,
    /// The largest datagram that the endpoint receives.
    pub max_datagram_len: u16,
    /// The endpoint's, which handshakes over TLS have for themselves.
    pub limits: Limits,
}

/// All of them, and the thread on which they begin.
pub(crate) struct Streams {
    poller: Poller,
    streams: HashMap<u32, Stream>,
    /// Handshakes that are over and that the endpoint has not seen.
    said: Receiver<Said>,
    /// Gone once the greeter's thread is.
    tasks: Sender<Task>,
    greeter: Wake,
    shared: Arc<Shared>,
    news: VecDeque<StreamNews>,
    /// Streams that are to be read, in turns.
    ready: VecDeque<u64>,
    polled: Vec<u64>,
    /// Streams that frames were gathered for.
    touched: Vec<u32>,
    room: Room,
    counters: StreamCounters,
    /// Frames that came with handshakes, for the next batch.
    early: Vec<(SocketAddr, Vec<u8>)>,
    parameters: StreamParameters,
}

impl Streams {
    /// Starts the thread of handshakes. `wake` wakes the one that this is used on.
    pub(crate) fn start(
        identity: &Identity,
        settings: Settings,
        wake: Wake,
    ) -> Result<Self, StreamError> {
        let Settings { listening, max_datagram_len, limits } = settings;
        let certificate = x509::make(identity).map_err(|_| StreamError::Certificate)?;
        let credentials = Credentials::new(identity.name(), identity.pkcs8_der(), certificate)?;
        let (tell, said) = sync_channel(MAX_SAID);
        let (tasks, taken) = channel();
        let own = Wake::new().map_err(io::Error::other)?;
        let shared = Arc::new(Shared::default());
        let parameters = StreamParameters { max_datagram_len };
        let greeter = Greeter {
            credentials,
            parameters,
            listening,
            admission: Admission::new(limits),
            max_streams: max_streams(&limits),
            tasks: taken,
            said: tell,
            wake: own.clone(),
            carrier: wake,
            shared: Arc::clone(&shared),
        };
        let thread = std::thread::Builder::new().name("tls".to_owned());
        thread.spawn(move || greeter.run())?;
        Ok(Self {
            poller: Poller::new()?,
            streams: HashMap::new(),
            said,
            tasks,
            greeter: own,
            shared,
            news: VecDeque::new(),
            ready: VecDeque::new(),
            polled: Vec::new(),
            touched: Vec::new(),
            room: Room::default(),
            counters: StreamCounters::default(),
            early: Vec::new(),
            parameters,
        })
    }

    /// Readable while a stream waits to be looked at.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }

    /// Whether there is something to read that was asked for already.
    pub(crate) fn has_more(&self) -> bool {
        !self.ready.is_empty() || !self.early.is_empty()
    }

    /// Forgets what is in the batch and fills it with frames that came, each as a datagram from its
    /// stream's address; returns how many. Work: reads until there are [`FRAMES_A_BATCH`], and what
    /// the last of them brings.
    pub(crate) fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        batch.clear();
        for (from, pdu) in self.early.drain(..) {
            push(batch, from, RecordKind::Pdu, &pdu);
        }
        if self.ready.is_empty() && !self.streams.is_empty() {
            self.poller.wait(Duration::ZERO, &mut self.polled)?;
            self.ready.extend(self.polled.drain(..));
        }
        while batch.len() < FRAMES_A_BATCH
            && let Some(key) = self.ready.pop_front()
        {
            self.serve(key, batch);
        }
        Ok(batch.len())
    }

    /// Reads of one stream, and writes what it could not before.
    fn serve(&mut self, key: u64, batch: &mut Batch) {
        let number = key as u32;
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let from = stream.address;
        let mut take = |frame: StreamFrame<'_>| match frame {
            StreamFrame::Pdu(pdu) => push(batch, from, RecordKind::Pdu, pdu),
            StreamFrame::Close => push(batch, from, RecordKind::Close, &[]),
        };
        let read = stream.read(&mut self.room, &mut self.counters, &mut take);
        let lost = match read {
            Ok(true) => {
                self.ready.push_back(key);
                None
            }
            Ok(false) => None,
            Err(lost) => Some(lost),
        };
        match lost {
            Some(lost) => self.lose(number, lost),
            None if stream.has_backlog() => self.write(number),
            None => {}
        }
    }

    /// Whether a slot of a batch is for a stream: then it was taken out, and will be sent by
    /// [`Streams::flush`].
    pub(crate) fn gather(&mut self, to: SocketAddr, datagram: &[u8]) {
        let Some(index) = stream::index_of(&to) else { return };
        let Some(stream) = self.streams.get_mut(&index.as_u32()) else {
            self.counters.dropped_gone += 1;
            return;
        };
        let kind = datagram.first().and_then(|first| RecordKind::of(*first));
        let plaintext = datagram
            .len()
            .checked_sub(AEAD_TAG_LEN)
            .and_then(|end| datagram.get(RecordHeader::LEN..end));
        let frame = match (kind, plaintext) {
            (Some(RecordKind::Pdu), Some(pdu)) => StreamFrame::Pdu(pdu),
            (Some(RecordKind::Close), Some(_)) => StreamFrame::Close,
            _ => return,
        };
        if !stream.gather(frame, &mut self.room) {
            self.counters.dropped_busy += 1;
            return;
        }
        self.counters.sent_frames += 1;
        if self.touched.last() != Some(&index.as_u32()) {
            self.touched.push(index.as_u32());
        }
    }

    /// Sends what was gathered.
    pub(crate) fn flush(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for number in touched.drain(..) {
            self.write(number);
        }
        self.touched = touched;
    }

    fn write(&mut self, number: u32) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let written = match stream.write(&mut self.room, &mut self.counters) {
            Ok(all) => {
                let waits = !all;
                let changed = stream.is_waiting != waits;
                stream.is_waiting = waits;
                match changed {
                    true => self.poller.change(&stream.socket, number.into(), waits).is_ok(),
                    false => true,
                }
            }
            Err(_) => false,
        };
        if !written {
            self.lose(number, Lost::Closed);
        }
    }

    /// A stream is no more.
    fn lose(&mut self, number: u32, lost: Lost) {
        if self.streams.remove(&number).is_none() {
            return;
        }
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
        self.counters.lost += 1;
        if lost == Lost::Malformed {
            self.counters.malformed += 1;
        }
        if let Some(index) = SessionIndex::new(number) {
            self.news.push_back(StreamNews::Lost { index });
        }
    }

    /// What the endpoint has to hear next, and the stream that it is about, if that is a new one.
    pub(crate) fn poll_news(&mut self) -> Option<(StreamNews, Option<Pending>)> {
        if let Some(news) = self.news.pop_front() {
            return Some((news, None));
        }
        match self.said.try_recv() {
            Ok(Said::Failed { attempt, error }) => {
                Some((StreamNews::Failed { attempt, error }, None))
            }
            Ok(Said::Arrived(arrived)) => {
                let Arrived {
                    peer,
                    claim,
                    theirs,
                    attempt,
                    shown,
                    socket,
                    tls,
                    ours,
                    early,
                    unsent,
                } = *arrived;
                let max_datagram_len = theirs.max_datagram_len;
                let new = NewStream { peer, claim, max_datagram_len, attempt, shown };
                let pending = Pending { socket, tls, ours, early, unsent };
                Some((StreamNews::Opened(Box::new(new)), Some(pending)))
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    /// The endpoint has taken a stream, under this address.
    pub(crate) fn adopt(&mut self, pending: Pending, address: SocketAddr) {
        let Some(index) = stream::index_of(&address) else { return self.decline(pending) };
        let Pending { socket, mut tls, ours, early, mut unsent } = pending;
        let number = index.as_u32();
        match ours {
            Some(_) => self.counters.dialled += 1,
            None => self.counters.accepted += 1,
        }
        // Whoever has dialled says its parameters now: the stream is in use at both ends.
        let said = ours.map_or(Ok(()), |ours| tls.append(&ours.emit(), &mut unsent));
        let most = usize::from(self.parameters.max_datagram_len) - RECORD_OVERHEAD;
        let mut stream = Stream::new(socket, address, tls, most, early, unsent);
        let early = &mut self.early;
        let mut take = |frame: StreamFrame<'_>| {
            // A close that came at once is found again by the end of the connection.
            if let StreamFrame::Pdu(pdu) = frame {
                early.push((address, pdu.to_vec()));
            }
        };
        let begun = stream.begin(&mut self.counters, &mut take);
        let added = self.poller.add(&stream.socket, number.into(), false);
        self.streams.insert(number, stream);
        match (said, begun, added) {
            (Ok(()), Ok(()), Ok(())) => self.write(number),
            (_, Err(lost), _) => self.lose(number, lost),
            _ => self.lose(number, Lost::Closed),
        }
    }

    /// The endpoint does not want a stream.
    pub(crate) fn decline(&mut self, pending: Pending) {
        drop(pending);
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn obey(&mut self, order: StreamOrder) {
        let task = match order {
            StreamOrder::Close { index } => {
                if let Some(stream) = self.streams.remove(&index.as_u32()) {
                    self.shared.open.fetch_sub(1, Ordering::Relaxed);
                    stream.close(&mut self.room, &mut self.counters);
                }
                return;
            }
            StreamOrder::Dial { attempt, address, expected } => {
                Task::Dial { attempt, address, expected }
            }
            StreamOrder::Show { certificate, number } => Task::Show { certificate, number },
            StreamOrder::Know { source } => Task::Know(source),
        };
        self.tell(task);
    }

    fn tell(&mut self, task: Task) {
        match self.tasks.send(task) {
            Ok(()) => self.greeter.wake(),
            Err(unsent) => {
                if let Task::Dial { attempt, .. } = unsent.0 {
                    let error = LinkError::TimedOut;
                    self.news.push_back(StreamNews::Failed { attempt, error });
                }
            }
        }
    }

    pub(crate) fn counters(&self) -> StreamCounters {
        let mut counters = StreamCounters { open: self.streams.len() as u64, ..self.counters };
        self.shared.counters.add_to(&mut counters);
        counters
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        // The thread finds that nobody gives it orders any more.
        let (nobody, _) = channel();
        self.tasks = nobody;
        self.greeter.wake();
    }
}

/// A stream that the endpoint has been told of.
pub(crate) struct Pending {
    socket: std::net::TcpStream,
    tls: Box<Protected>,
    ours: Option<StreamParameters>,
    early: (Vec<u8>, Vec<u8>),
    unsent: Vec<u8>,
}

/// Puts a frame into a batch, as a datagram whose plaintext it is.
#[inline]
fn push(batch: &mut Batch, from: SocketAddr, kind: RecordKind, plaintext: &[u8]) {
    let Some(index) = stream::index_of(&from) else { return };
    let buffer = batch.push_with(from, RECORD_OVERHEAD + plaintext.len());
    let header = RecordHeader { kind, index, counter: Counter::new(0, 0) };
    buffer[..RecordHeader::LEN].copy_from_slice(&header.emit());
    buffer[RecordHeader::LEN..][..plaintext.len()].copy_from_slice(plaintext);
}

/// As many connections as leave the process descriptors for everything else.
fn max_streams(limits: &Limits) -> usize {
    limits.sessions.min(most_descriptors() / 2)
}

#[cfg(unix)]
fn most_descriptors() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    files.current.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

/// Memory is what bounds them there.
#[cfg(not(unix))]
fn most_descriptors() -> usize {
    usize::MAX
}

/// As many as a batch of UDP brings.
const FRAMES_A_BATCH: usize = 64;
/// Handshakes that are over and wait for the endpoint; the others wait on the greeter's side.
const MAX_SAID: usize = 64;
