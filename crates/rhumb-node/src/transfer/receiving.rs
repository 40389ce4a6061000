//! The receiving end: takes what an offer says, by as many streams as it takes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use rhumb_end::{Admits, EndError, StreamError};
use rhumb_wire::Name;
use rhumb_wire::transfer::{CancelReason, ENDED, Kind, LENGTHS, LOOKING, Offer, Unframer, Verdict};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout, timeout_at};

use super::arrivals::{Again, AnySink, Arrival, Pulse, Seat};
use super::by_file::{self, Files};
use super::{GIVES_UP_AFTER, PART_LEN, SAYS_EVERY, TransferError, WriteAt, storage};
use crate::clock::now;
use crate::connections::Stream;
use crate::node::Handle;

/// A file that somebody offers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Offered {
    /// Who sends it.
    pub from: Name,
    /// Who it is for: the node, or a name that it serves.
    pub to: Name,
    /// What it is.
    pub offer: Offer,
}

/// What is told of a file that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiveReport {
    /// Who sent it.
    pub from: Name,
    /// Who it was for: the node, or a name that it serves.
    pub to: Name,
    /// A file or a folder.
    pub kind: Kind,
    /// What they call it: one plain file name.
    pub file_name: String,
    /// Its bytes.
    pub bytes: u64,
    /// How many of them were there from an earlier process.
    pub resumed_from: u64,
    /// The SHA-256 that was offered, and that what was received has.
    pub sha256: [u8; 32],
    /// From the offer to the last byte.
    pub elapsed: Duration,
}

/// A file on its way in.
struct Incoming<P> {
    offer: Offer,
    /// Away while it is worked on.
    content: Option<Content>,
    arrived: u64,
    /// Whether the offer says how much there is, or its end has come.
    has_end: bool,
    /// Whether a file of a folder is another one than its list says.
    is_wrong: bool,
    resumed_from: u64,
    moved_at: Instant,
    /// When what has arrived is to be written down next.
    settles_at: Instant,
    is_finished: bool,
    pulse: Arc<Pulse>,
    progress: P,
}

/// What has arrived, and a buffer for what comes next.
struct Content {
    sink: AnySink,
    /// Of all of it, or of the file that arrives.
    hash: digest::Context,
    part: Vec<u8>,
    /// Of a folder that goes file by file, once its list is there.
    files: Option<Files>,
}

/// How a stream ended.
enum End {
    /// All is there, and it is what was offered, or is not.
    Judged(Verdict),
    /// Its sender goes on by another one.
    Replaced(Box<Again>),
    /// Its sender may go on by another one.
    Broken(TransferError),
    /// Nothing more comes.
    Failed(TransferError),
}

/// What came next.
enum Gathered {
    /// So many bytes; none if none came.
    Bytes(usize),
    /// Another stream.
    Other(Box<Again>),
}

pub(crate) async fn receive<W: WriteAt + Send + 'static>(
    handle: &Handle,
    admits: Admits,
    mut open: impl FnMut(&Offered) -> Result<W, CancelReason> + Send + 'static,
    progress: impl FnMut(u64) + Send + 'static,
) -> Result<ReceiveReport, TransferError> {
    // Others may receive at the same time: it lasts as long as any of them.
    let reception = handle.arrivals().open(handle, admits).await?;
    let (given, arrived) = oneshot::channel();
    let open = Box::new(move |offered: &Offered| -> Result<AnySink, CancelReason> {
        open(offered).map(|sink| Box::new(sink) as AnySink)
    });
    reception.wait(Seat { open, given });
    let arrival = arrived.await.map_err(|_| TransferError::Stopped)?;
    take(arrival, progress).await
}

async fn take(
    arrival: Arrival,
    progress: impl FnMut(u64) + Send,
) -> Result<ReceiveReport, TransferError> {
    let Arrival { mut stream, sink, offered, mut again, pulse, place: _place } = arrival;
    let Offered { from, to, offer } = offered;
    let begin = now().instant;
    let hash = digest::Context::new(&digest::SHA256);
    let mut incoming = Incoming {
        has_end: offer.kind != Kind::Endless,
        offer,
        content: Some(Content { sink, hash, part: vec![0; PART_LEN], files: None }),
        arrived: 0,
        is_wrong: false,
        resumed_from: 0,
        moved_at: begin,
        settles_at: begin + SETTLES_FIRST,
        is_finished: false,
        pulse,
        progress,
    };
    incoming.recall(&mut stream, &mut again).await?;
    loop {
        let error = match incoming.take_over(&mut stream, &mut again).await {
            End::Replaced(other) => {
                stream = incoming.go_on_by(*other);
                continue;
            }
            End::Broken(error) => {
                incoming.settle().await;
                incoming.pulse.rest();
                let left = GIVES_UP_AFTER.saturating_sub(incoming.idle());
                if let Ok(Some(other)) = timeout(left, again.recv()).await {
                    stream = incoming.go_on_by(other);
                    continue;
                }
                error
            }
            End::Failed(error) => {
                incoming.settle().await;
                error
            }
            End::Judged(Verdict::Corrupt) => {
                // Of a folder the other files are good.
                if incoming.has_list() {
                    incoming.settle().await;
                }
                TransferError::Corrupt
            }
            End::Judged(Verdict::Intact) => break,
        };
        return Err(error);
    }
    let Incoming { offer, resumed_from, .. } = incoming;
    Ok(ReceiveReport {
        from,
        to,
        kind: offer.kind,
        file_name: offer.name.as_str().to_owned(),
        bytes: offer.length,
        resumed_from,
        sha256: offer.sha256,
        elapsed: now().instant.saturating_duration_since(begin),
    })
}

impl Offered {
    /// What `from` offers to `to`.
    pub fn new(from: Name, to: Name, offer: Offer) -> Self {
        Self { from, to, offer }
    }

    /// Whether it is the same content, of the same sender, for the same name.
    pub(super) fn is_content_of(&self, other: &Self) -> bool {
        let content = |it: &Offer| (it.kind, it.length, it.sha256);
        (self.from, self.to, content(&self.offer)) == (other.from, other.to, content(&other.offer))
    }
}

impl Content {
    /// What is there from before, hashed again; nothing if it is no good. Of a folder that goes
    /// file by file nothing is known before its list.
    fn recall(&mut self, kind: Kind, length: u64, looked_at: &AtomicU64) -> io::Result<u64> {
        let (mut seen, mut hash) = (0, digest::Context::new(&digest::SHA256));
        let found = self.sink.recall(&mut |bytes| {
            hash.update(bytes);
            seen += bytes.len() as u64;
            looked_at.store(seen, Ordering::Relaxed);
        })?;
        if kind == Kind::FileByFile {
            return Ok(0);
        }
        if found == 0 || found != seen || found > length {
            self.clear()?;
            return Ok(0);
        }
        self.hash = hash;
        Ok(found)
    }

    /// Takes the list of a folder, and looks which of its files are there from before. Says how
    /// much that is, with the list.
    fn take_list(&mut self, head: &[u8], offer: &Offer, looked_at: &AtomicU64) -> io::Result<u64> {
        let mut files = Files::of(head, offer)?;
        self.sink.write_all_at(0, head)?;
        self.hash = files.recall(&mut self.sink, |len| {
            looked_at.fetch_add(len as u64, Ordering::Relaxed);
        })?;
        let arrived = files.arrived();
        self.files = Some(files);
        Ok(arrived)
    }

    /// Writes what comes behind the first `at` bytes. Says how much there is then, and whether that
    /// may be what was offered.
    fn write(&mut self, at: u64, len: usize) -> io::Result<(u64, bool)> {
        let part = &self.part[..len];
        match &mut self.files {
            Some(files) => {
                let is_right = files.write(&mut self.sink, &mut self.hash, part)?;
                Ok((files.arrived(), is_right))
            }
            None => {
                self.sink.write_all_at(at, part)?;
                self.hash.update(part);
                Ok((at + len as u64, true))
            }
        }
    }

    fn settle(&mut self, arrived: u64) -> io::Result<()> {
        let sha256 = self.sha256();
        match &self.files {
            Some(files) => {
                // A list alone is nothing to keep.
                let counts = if files.bytes() == 0 { 0 } else { arrived };
                self.sink.settle_files(counts, files.held(), &sha256)
            }
            None => self.sink.settle(arrived, &sha256),
        }
    }

    fn clear(&mut self) -> io::Result<()> {
        self.hash = digest::Context::new(&digest::SHA256);
        self.sink.clear()
    }

    fn sha256(&self) -> [u8; 32] {
        storage::finish(self.hash.clone())
    }
}

impl<P: FnMut(u64)> Incoming<P> {
    fn idle(&self) -> Duration {
        now().instant.saturating_duration_since(self.moved_at)
    }

    /// The file goes on by another stream, and by the name that its sender has for it now.
    fn go_on_by(&mut self, Again { stream, name }: Again) -> Stream {
        self.offer.name = name;
        self.pulse.beat();
        stream
    }

    /// Looks at what is there from before, and tells the sender meanwhile that it does.
    async fn recall(
        &mut self,
        stream: &mut Stream,
        again: &mut mpsc::Receiver<Again>,
    ) -> Result<(), TransferError> {
        let looked_at = Arc::new(AtomicU64::new(0));
        let (kind, length, looks) = (self.offer.kind, self.offer.length, Arc::clone(&looked_at));
        let looking = self.work(move |content| content.recall(kind, length, &looks));
        let (found, other) = attended(looking, stream, again, &looked_at).await;
        if let Some(other) = other {
            *stream = self.go_on_by(other);
        }
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                stream.reset(why(&error).unwrap_or(CancelReason::WriteFailed).code());
                return Err(error);
            }
        };
        (self.arrived, self.resumed_from) = (found, found);
        self.moved_at = now().instant;
        self.pulse.beat();
        (self.progress)(found);
        Ok(())
    }

    /// Does something with what has arrived, where that holds up nobody.
    fn work<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Content) -> io::Result<T> + Send + 'static,
    ) -> impl Future<Output = Result<T, TransferError>> {
        let place = &mut self.content;
        async move {
            let Some(mut content) = place.take() else { return Err(TransferError::Stopped) };
            let work = move || {
                let done = work(&mut content);
                (content, done)
            };
            let done = tokio::task::spawn_blocking(work).await;
            let (content, done) = done.map_err(|_| TransferError::Stopped)?;
            *place = Some(content);
            done.map_err(|error| TransferError::Write(error.kind()))
        }
    }

    /// Has what has arrived outlive this process, as far as its place does that.
    async fn settle(&mut self) {
        self.settles_at = now().instant + SETTLES_EVERY;
        let arrived = self.arrived;
        if self.offer.kind == Kind::FileByFile && !self.has_list() {
            return;
        }
        let settled = self.work(move |content| content.settle(arrived));
        if let Err(error) = settled.await {
            tracing::debug!(%error, "what has arrived will not outlive this process");
        }
    }

    /// Takes what a stream brings, from where this one has come.
    async fn take_over(&mut self, stream: &mut Stream, again: &mut mpsc::Receiver<Again>) -> End {
        let end = match self.take_all(stream, again).await {
            Ok(None) => self.judge(stream, again).await,
            Ok(Some(other)) => Ok(End::Replaced(other)),
            Err(error) => Err(error),
        };
        let error = match end {
            Ok(end) => return end,
            Err(error) => error,
        };
        match &error {
            // Its sender has left.
            TransferError::Connection(EndError::ClosedByPeer { .. }) => {
                return End::Failed(TransferError::EndedByPeer(CancelReason::Stopped));
            }
            TransferError::Connection(EndError::Closed) => {
                return End::Failed(TransferError::Stopped);
            }
            TransferError::Connection(_) => return End::Broken(error),
            _ => {}
        }
        if let Some(said) = why(&error) {
            stream.reset(said.code());
        }
        End::Failed(error)
    }

    /// All that is missing; or another stream, by which it goes on.
    async fn take_all(
        &mut self,
        stream: &mut Stream,
        again: &mut mpsc::Receiver<Again>,
    ) -> Result<Option<Box<Again>>, TransferError> {
        if let Some(other) = self.take_list(stream, again).await? {
            return Ok(Some(other));
        }
        let mut said_at = self.say_first(stream).await?;
        let mut unframer = (self.offer.kind == Kind::Endless).then(Unframer::default);
        while !self.is_whole() && !self.is_wrong {
            let Some(content) = &mut self.content else { return Err(TransferError::Stopped) };
            let len = match gather(&mut content.part, stream, again).await? {
                Gathered::Bytes(len) => len,
                Gathered::Other(other) => return Ok(Some(other)),
            };
            let len = match &mut unframer {
                Some(unframer) => unframer.strip(&mut content.part[..len]).map_err(|_| NONSENSE)?,
                None => len,
            };
            let other = self.keep(len, stream, again).await?;
            if let Some(unframer) = &unframer {
                // Whoever writes into a pipe may take his time, unless he is a stranger, who would
                // hold a place for nothing.
                if !stream.is_strangers() {
                    self.moved_at = now().instant;
                }
                if let Some(sha256) = unframer.end() {
                    (self.offer.length, self.offer.sha256) = (self.arrived, sha256);
                    self.has_end = true;
                }
            }
            if let Some(other) = other {
                return Ok(Some(Box::new(other)));
            }
            if self.idle() >= GIVES_UP_AFTER {
                return Err(TransferError::NoProgress);
            }
            if now().instant >= self.settles_at {
                self.settle().await;
            }
            if now().instant.saturating_duration_since(said_at) >= TELLS_EVERY {
                said_at = self.say(stream).await?;
            }
        }
        Ok(None)
    }

    /// The list of a folder that goes file by file, if it is not there yet; or another stream, by
    /// which it comes.
    async fn take_list(
        &mut self,
        stream: &mut Stream,
        again: &mut mpsc::Receiver<Again>,
    ) -> Result<Option<Box<Again>>, TransferError> {
        if self.offer.kind != Kind::FileByFile || self.has_list() {
            return Ok(None);
        }
        stream.write_u64(0).await?;
        let (mut head, mut said_at, mut whole) = (Vec::new(), now().instant, None);
        while whole.is_none_or(|whole| head.len() < whole) {
            let Some(content) = &mut self.content else { return Err(TransferError::Stopped) };
            let len = match gather(&mut content.part, stream, again).await? {
                Gathered::Bytes(len) => len,
                Gathered::Other(other) => return Ok(Some(other)),
            };
            head.extend_from_slice(&content.part[..len]);
            whole = by_file::head_len(&head, &self.offer)?;
            if len > 0 {
                self.moved_at = now().instant;
                self.pulse.beat();
            } else if self.idle() >= GIVES_UP_AFTER {
                return Err(TransferError::NoProgress);
            }
            if now().instant.saturating_duration_since(said_at) >= SAYS_EVERY {
                tell_looking(stream, &AtomicU64::new(head.len() as u64)).await;
                said_at = now().instant;
            }
        }
        if Some(head.len()) != whole {
            return Err(NONSENSE);
        }
        let looked_at = Arc::new(AtomicU64::new(head.len() as u64));
        let (offer, looks, head_len) = (self.offer.clone(), Arc::clone(&looked_at), head.len());
        let looking = self.work(move |content| content.take_list(&head, &offer, &looks));
        let (found, other) = attended(looking, stream, again, &looked_at).await;
        self.arrived = found?;
        self.resumed_from = self.arrived - head_len as u64;
        self.moved_at = now().instant;
        self.pulse.beat();
        (self.progress)(self.arrived);
        Ok(other.map(Box::new))
    }

    fn has_list(&self) -> bool {
        self.content.as_ref().is_some_and(|content| content.files.is_some())
    }

    fn is_whole(&self) -> bool {
        self.has_end && self.arrived == self.offer.length
    }

    /// Tells the sender where to go on.
    async fn say_first(&mut self, stream: &mut Stream) -> Result<Instant, TransferError> {
        let files = self.content.as_ref().and_then(|content| content.files.as_ref());
        let Some(files) = files else { return self.say(stream).await };
        let mut word = self.arrived.to_be_bytes().to_vec();
        files.held().emit(&mut word);
        let said = timeout(GIVES_UP_AFTER, stream.write_all(&word)).await;
        said.map_err(|_| TransferError::NoProgress)??;
        Ok(now().instant)
    }

    /// Tells the sender how much there is.
    async fn say(&mut self, stream: &mut Stream) -> Result<Instant, TransferError> {
        if self.offer.kind == Kind::Endless || !self.is_whole() {
            let said = timeout(GIVES_UP_AFTER, stream.write_u64(self.arrived)).await;
            said.map_err(|_| TransferError::NoProgress)??;
        }
        Ok(now().instant)
    }

    /// Writes what has come, where that holds up nobody; whoever reads at the other end of a pipe
    /// may take his time. Returns another stream, if the sender comes with one meanwhile.
    async fn keep(
        &mut self,
        len: usize,
        stream: &mut Stream,
        again: &mut mpsc::Receiver<Again>,
    ) -> Result<Option<Again>, TransferError> {
        let at = self.arrived;
        if len == 0 {
            return Ok(None);
        }
        let most = if self.has_end { self.offer.length } else { LENGTHS - 1 };
        if len as u64 > most - at {
            return Err(NONSENSE);
        }
        let written = self.work(move |content| content.write(at, len));
        let (written, other) = attended(written, stream, again, &AtomicU64::new(at)).await;
        let is_right;
        (self.arrived, is_right) = written?;
        self.is_wrong = !is_right;
        self.moved_at = now().instant;
        self.pulse.beat();
        (self.progress)(self.arrived);
        Ok(other)
    }

    /// Tells the sender what all of it amounts to, and waits until he knows; or another stream, on
    /// which he asks again.
    async fn judge(
        &mut self,
        stream: &mut Stream,
        again: &mut mpsc::Receiver<Again>,
    ) -> Result<End, TransferError> {
        let Some(content) = &self.content else { return Err(TransferError::Stopped) };
        let is_intact = match self.offer.kind {
            // Each file was compared as it came.
            Kind::FileByFile => !self.is_wrong,
            _ => content.sha256() == self.offer.sha256,
        };
        let verdict = if is_intact { Verdict::Intact } else { Verdict::Corrupt };
        if !is_intact {
            if self.throw_away().await? {
                stream.reset(CancelReason::Busy.code());
                return Ok(End::Broken(TransferError::Corrupt));
            }
        } else if !self.is_finished {
            let (name, looked_at) = (self.offer.name.clone(), AtomicU64::new(self.offer.length));
            let finishing = self.work(move |content| content.sink.finish(&name));
            let (finished, other) = attended(finishing, stream, again, &looked_at).await;
            finished?;
            self.is_finished = true;
            if let Some(other) = other {
                return Ok(End::Replaced(Box::new(other)));
            }
        }
        let mark = if self.offer.kind == Kind::Endless { ENDED } else { 0 };
        let mut last = (self.offer.length + mark).to_be_bytes().to_vec();
        last.push(verdict as u8);
        stream.write_all(&last).await?;
        let told = tokio::select! {
            biased;
            Some(other) = again.recv() => return Ok(End::Replaced(Box::new(other))),
            told = timeout(GIVES_UP_AFTER, stream.deliver()) => told,
        };
        match told {
            // He may ask again by another stream, unless he has left, and so has heard it.
            Ok(Err(StreamError::Connection(error))) if !is_departure(&error) => Err(error.into()),
            _ => Ok(End::Judged(verdict)),
        }
    }

    /// Throws away what is wrong: all, or the file that is. Says whether that may come again, once,
    /// since some of it was there from before and may be what is wrong.
    async fn throw_away(&mut self) -> Result<bool, TransferError> {
        let resumed_from = self.resumed_from;
        let thrown_away = self.work(move |content| match &mut content.files {
            Some(files) => {
                let may_come = files.has_recalled();
                files.forget();
                Ok((may_come, files.arrived(), files.bytes().min(resumed_from)))
            }
            None => content.clear().map(|()| (resumed_from > 0, 0, 0)),
        });
        let may_come;
        (may_come, self.arrived, self.resumed_from) = thrown_away.await?;
        self.is_wrong = false;
        self.moved_at = now().instant;
        Ok(may_come)
    }
}

/// Fills a buffer, as far as bytes come soon: many are written at once, and few do not wait long.
async fn gather(
    part: &mut [u8],
    stream: &mut Stream,
    again: &mut mpsc::Receiver<Again>,
) -> Result<Gathered, TransferError> {
    let mut filled = 0;
    let until = tokio::time::Instant::now() + GATHERS_FOR;
    while filled < part.len() / 2 {
        let wait = if filled == 0 { until + SAYS_EVERY } else { until };
        let read = tokio::select! {
            biased;
            Some(other) = again.recv() => return Ok(Gathered::Other(Box::new(other))),
            read = timeout_at(wait, stream.read(&mut part[filled..])) => read,
        };
        match read {
            Ok(Ok(0)) if filled == 0 => return Err(NONSENSE),
            Ok(Ok(0)) | Err(_) => break,
            Ok(Ok(len)) => filled += len,
            Ok(Err(error)) => return Err(error.into()),
        }
    }
    Ok(Gathered::Bytes(filled))
}

/// Does something that takes its time, and tells the sender so; by another stream, if he comes with
/// one meanwhile, which is returned.
async fn attended<T>(
    work: impl Future<Output = T>,
    stream: &mut Stream,
    again: &mut mpsc::Receiver<Again>,
    looked_at: &AtomicU64,
) -> (T, Option<Again>) {
    tokio::pin!(work);
    let (mut other, mut is_heard) = (None::<Again>, true);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return (done, other),
            Some(newer) = again.recv() => {
                is_heard = tell_looking(&mut other.insert(newer).stream, looked_at).await;
            }
            () = sleep(SAYS_EVERY), if is_heard => {
                let stream = other.as_mut().map_or(&mut *stream, |it| &mut it.stream);
                is_heard = tell_looking(stream, looked_at).await;
            }
        }
    }
}

/// Tells a sender that what is there from before is looked at; `false` when he cannot be told.
async fn tell_looking(stream: &mut Stream, looked_at: &AtomicU64) -> bool {
    let said = LOOKING + looked_at.load(Ordering::Relaxed);
    matches!(timeout(SAYS_EVERY, stream.write_u64(said)).await, Ok(Ok(())))
}

/// What a sender is told of what fails here.
fn why(error: &TransferError) -> Option<CancelReason> {
    Some(match error {
        TransferError::Write(io::ErrorKind::FileTooLarge) => CancelReason::TooLarge,
        TransferError::Write(io::ErrorKind::Unsupported) => CancelReason::Declined,
        TransferError::Write(io::ErrorKind::InvalidData) => CancelReason::Nonsense,
        TransferError::Write(_) => CancelReason::WriteFailed,
        TransferError::NoProgress => CancelReason::TimedOut,
        TransferError::EndedByPeer(CancelReason::Nonsense) => CancelReason::Nonsense,
        _ => return None,
    })
}

fn is_departure(error: &EndError) -> bool {
    matches!(error, EndError::ClosedByPeer { .. } | EndError::Closed)
}

const NONSENSE: TransferError = TransferError::EndedByPeer(CancelReason::Nonsense);
/// So many milliseconds at 100 MB/s are a whole part.
const GATHERS_FOR: Duration = Duration::from_millis(2);
/// What a crash of the machine costs at most. Disks take milliseconds to write so much down.
const SETTLES_EVERY: Duration = Duration::from_secs(1);
/// A file that is fast has something to go on with, too.
const SETTLES_FIRST: Duration = Duration::from_millis(50);
/// How often a sender is told while bytes come.
const TELLS_EVERY: Duration = Duration::from_millis(100);
