//! The sending end: offers a file on a stream, and on another one when that breaks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use rhumb_end::EndError;
use rhumb_wire::Name;
use rhumb_wire::transfer::{
    CancelReason, ENDED, FileName, Kind, LOOKING, Offer, TransferId, Verdict, emit_end,
    emit_frame_head,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::by_file::{self, Files, Outgoing};
use super::tail::{Piece, Tail};
use super::{GIVES_UP_AFTER, PART_LEN, PORT, ReadAt, SAYS_EVERY, TransferError};
use crate::clock::now;
use crate::connections::Stream;
use crate::node::Handle;

/// What is told of a file that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendReport {
    /// Bytes of the file.
    pub bytes: u64,
    /// Their SHA-256.
    pub sha256: [u8; 32],
    /// From the first offer to the receiver's verdict.
    pub elapsed: Duration,
    /// How often it went on by another stream.
    pub restarts: u32,
    /// How many bytes the receiver had from before, and used.
    pub resumed_from: u64,
    /// How many were sent: more than were missing when a stream broke.
    pub sent: u64,
}

/// A file on its way out.
struct Departure<P> {
    handle: Handle,
    to: Name,
    offer: Offer,
    id: TransferId,
    source: Source,
    /// Of a folder that goes file by file.
    folder: Option<Arc<Outgoing>>,
    progress: P,
    /// As the receiver said last.
    arrived: u64,
    /// When it said more than before.
    moved_at: Instant,
    /// What it had at first; nothing before it has answered.
    resumed_from: Option<u64>,
    sent: Arc<AtomicU64>,
}

/// Where the bytes come from.
#[derive(Clone)]
enum Source {
    /// What was offered with its length.
    Known(Arc<Mutex<dyn ReadAt + Send>>),
    /// What has no end yet.
    Endless(Arc<Tail>),
}

/// Why a stream did not bring the file to its end.
struct Broken {
    error: TransferError,
    /// Another one may.
    may_go_on: bool,
}

pub(crate) async fn send<R: ReadAt + Send + 'static>(
    handle: Handle,
    to: Name,
    source: R,
    offer: Offer,
    progress: impl FnMut(u64) + Send + 'static,
) -> Result<SendReport, TransferError> {
    let source = Source::Known(Arc::new(Mutex::new(source)));
    depart(handle, to, source, offer, progress).await
}

/// As [`send`], what `source` has until it ends.
pub(crate) async fn send_endless(
    handle: Handle,
    to: Name,
    source: impl AsyncRead + Send + Unpin + 'static,
    name: FileName,
    progress: impl FnMut(u64) + Send + 'static,
) -> Result<SendReport, TransferError> {
    let mut sha256 = [0; 32];
    rand::fill(&mut sha256).map_err(|_| TransferError::Stopped)?;
    let source = Source::Endless(Arc::new(Tail::new(source)));
    let offer = Offer { kind: Kind::Endless, length: 0, sha256, name };
    depart(handle, to, source, offer, progress).await
}

async fn depart(
    handle: Handle,
    to: Name,
    source: Source,
    offer: Offer,
    progress: impl FnMut(u64) + Send + 'static,
) -> Result<SendReport, TransferError> {
    let mut id = [0; 8];
    rand::fill(&mut id).map_err(|_| TransferError::Stopped)?;
    let begin = now().instant;
    let mut departure = Departure {
        handle,
        to,
        offer,
        id: TransferId(u64::from_be_bytes(id)),
        source,
        folder: None,
        progress,
        arrived: 0,
        moved_at: begin,
        resumed_from: None,
        sent: Arc::default(),
    };
    departure.read_list().await?;
    let (mut restarts, mut pause, mut is_fresh) = (0, FIRST_PAUSE, false);
    loop {
        let Err(Broken { error, may_go_on }) = departure.attempt(is_fresh).await else {
            let offer = &departure.offer;
            let whole = (offer.length, offer.sha256);
            let (bytes, sha256) = departure.source.tail().and_then(Tail::whole).unwrap_or(whole);
            let elapsed = now().instant.saturating_duration_since(begin);
            let resumed_from = departure.resumed_from.unwrap_or_default();
            let sent = departure.sent.load(Ordering::Relaxed);
            return Ok(SendReport { bytes, sha256, elapsed, restarts, resumed_from, sent });
        };
        if error == NONSENSE && departure.resumed_from.is_none() && departure.folder.is_some() {
            departure.send_plain().await?;
            continue;
        }
        let idle = now().instant.saturating_duration_since(departure.moved_at);
        if !may_go_on || idle >= departure.patience(&error) {
            return Err(error);
        }
        tracing::debug!(%error, "the file goes on by another stream");
        // A connection that has brought nothing, not even an answer, may lead to a server that
        // is no more.
        is_fresh |= departure.resumed_from.is_some() || error == TransferError::NoProgress;
        pause = if idle > pause { (2 * pause).min(LONGEST_PAUSE) } else { FIRST_PAUSE };
        tokio::time::sleep(pause).await;
        restarts += u32::from(departure.resumed_from.is_some());
    }
}

impl<P: FnMut(u64)> Departure<P> {
    /// Reads what a folder begins with that goes file by file.
    async fn read_list(&mut self) -> Result<(), TransferError> {
        if let (Kind::FileByFile, Source::Known(source)) = (self.offer.kind, &self.source) {
            let offer = self.offer.clone();
            let read = with(source, move |source| Outgoing::of(source, &offer)).await?;
            self.folder = Some(Arc::new(read?));
        }
        Ok(())
    }

    /// Offers a folder as one file, which is what a receiver of an earlier version takes: it calls
    /// what it does not know nonsense.
    async fn send_plain(&mut self) -> Result<(), TransferError> {
        tracing::debug!("the receiver takes no folder file by file");
        if let Source::Known(source) = &self.source {
            let (source, offer) = (Arc::clone(source), self.offer.clone());
            let plain = move || by_file::plain(&source, &offer);
            let plain = tokio::task::spawn_blocking(plain).await;
            let (source, offer) = plain.map_err(|_| TransferError::Stopped)??;
            (self.source, self.offer) = (Source::Known(Arc::new(Mutex::new(source))), offer);
        }
        self.folder = None;
        self.moved_at = now().instant;
        Ok(())
    }

    /// For how long the same may be tried again.
    fn patience(&self, error: &TransferError) -> Duration {
        match error {
            // Nobody has answered yet, and whoever looked for the name has been patient.
            TransferError::Connection(EndError::NoAnswer(_) | EndError::Unreachable(_))
                if self.resumed_from.is_none() =>
            {
                Duration::ZERO
            }
            TransferError::NoReceiver | TransferError::Connection(EndError::Refused(_)) => {
                NOTHING_OFFERED
            }
            _ => GIVES_UP_AFTER,
        }
    }

    async fn attempt(&mut self, is_fresh: bool) -> Result<(), Broken> {
        let local = self.handle.name();
        let connected = match is_fresh {
            true => self.handle.connect_anew(local, self.to).await,
            false => self.handle.connect(local, self.to).await,
        };
        let connection = connected.map_err(TransferError::from)?;
        let mut stream = connection.open(PORT).await.map_err(TransferError::from)?;
        let outcome = self.send_over(&mut stream).await;
        let said = match outcome.as_ref().map_err(|broken| &broken.error) {
            Err(TransferError::Read(_)) => CancelReason::ReadFailed,
            Err(TransferError::EndedByPeer(CancelReason::Nonsense)) => CancelReason::Nonsense,
            _ => return outcome,
        };
        stream.reset(said.code());
        outcome
    }

    async fn send_over(&mut self, stream: &mut Stream) -> Result<(), Broken> {
        let mut head = Vec::new();
        self.offer.emit(self.id, &mut head);
        stream.write_all(&head).await.map_err(TransferError::from)?;
        let (mut reading, mut writing) = tokio::io::split(stream);
        let mut from = self.first_answer(&mut reading).await?;
        let mut files = None;
        let mut had = from;
        if let Some(folder) = self.folder.clone() {
            from = self.tell_list(&folder, from, &mut reading, &mut writing).await?;
            files = Some(read_word(&folder, from, &mut reading).await?);
            had = from - folder.head_len();
        }
        // Less than before when another receiver has it now, or this one threw away what was wrong.
        self.resumed_from = Some(self.resumed_from.map_or(had, |before| before.min(had)));
        self.note(from);
        let (source, length) = (self.source.clone(), self.offer.length);
        let (written, sent) = (&AtomicU64::new(from), Arc::clone(&self.sent));
        let write = async move {
            let mut at = from;
            loop {
                let framed = source.piece(at, length, files.as_mut()).await?;
                let Framed { head, part, is_last } = framed;
                writing.write_all(&head).await?;
                writing.write_all(&part).await?;
                at += part.len() as u64;
                sent.fetch_add(part.len() as u64, Ordering::Relaxed);
                written.store(at, Ordering::Relaxed);
                if is_last {
                    break;
                }
            }
            writing.shutdown().await?;
            Ok::<_, TransferError>(())
        };
        let read = self.follow(&mut reading, from, written);
        tokio::pin!(write, read);
        tokio::select! {
            biased;
            judged = &mut read => judged,
            written = &mut write => {
                written?;
                read.await
            }
        }
    }

    /// Tells the list of a folder, unless the receiver has it, and hears how much it has then.
    async fn tell_list(
        &mut self,
        folder: &Outgoing,
        has: u64,
        reading: &mut (impl AsyncRead + Unpin),
        writing: &mut (impl AsyncWrite + Unpin),
    ) -> Result<u64, TransferError> {
        if has != 0 {
            return Ok(has);
        }
        self.sent.fetch_add(folder.head_len(), Ordering::Relaxed);
        let tell = async { Ok(writing.write_all(&folder.head).await?) };
        // It says how much of the list it has meanwhile.
        let ((), has) = tokio::try_join!(tell, self.first_answer(reading))?;
        Ok(has)
    }

    /// Hears what the receiver has, until it has all and says what that amounts to.
    async fn follow(
        &mut self,
        reading: &mut (impl AsyncRead + Unpin),
        from: u64,
        written: &AtomicU64,
    ) -> Result<(), Broken> {
        let (tail, length) = (self.source.clone(), self.offer.length);
        let (mut arrived, mut stands_since) = (from, now().instant);
        let is_one = tail.tail().is_none() && self.folder.is_none();
        let (mut looks, mut is_over) = (Looks::default(), is_one && from == length);
        while !is_over {
            let said = answer(reading.read_u64()).await?;
            let before = arrived;
            let is_last = tail.tail().is_some() && said & (LOOKING | ENDED) == ENDED;
            let said = if is_last { said - ENDED } else { said };
            match looks.hear(said, tail.most(length))? {
                Some(said) if said < before => return Err(NONSENSE.into()),
                Some(said) => arrived = said,
                // All is there, and he is busy with it.
                None => {
                    (self.moved_at, stands_since) = (now().instant, now().instant);
                    continue;
                }
            }
            self.note(arrived);
            is_over = match tail.tail() {
                Some(tail) if is_last && tail.whole().map(|(len, _)| len) != Some(arrived) => {
                    return Err(NONSENSE.into());
                }
                Some(_) => is_last,
                None => arrived == length,
            };
            // He may be heard and not hear: another server answers for the name now.
            if arrived > before || arrived == written.load(Ordering::Relaxed) {
                stands_since = now().instant;
            } else if now().instant.saturating_duration_since(stands_since) >= STANDS_FOR {
                return Err(TransferError::NoProgress.into());
            }
        }
        let verdict = answer(reading.read_u8()).await?;
        match Verdict::from_u8(verdict) {
            Ok(Verdict::Intact) => Ok(()),
            Ok(Verdict::Corrupt) => Err(Broken::for_good(TransferError::Corrupt)),
            Err(_) => Err(NONSENSE.into()),
        }
    }

    /// Where to go on from, once the receiver has looked at what it has.
    async fn first_answer(
        &mut self,
        reading: &mut (impl AsyncRead + Unpin),
    ) -> Result<u64, TransferError> {
        let mut looks = Looks::default();
        loop {
            let said = answer(reading.read_u64()).await?;
            match looks.hear(said, self.source.most(self.offer.length))? {
                Some(arrived) => return Ok(arrived),
                None => self.moved_at = now().instant,
            }
        }
    }

    /// What the receiver has, which is less than before when it is another one.
    fn note(&mut self, arrived: u64) {
        let tail = self.source.tail();
        // Whoever writes into a pipe may take his time.
        if arrived > self.arrived || tail.is_some_and(|tail| tail.read() == arrived) {
            self.moved_at = now().instant;
        }
        tail.inspect(|tail| tail.arrived(arrived));
        self.arrived = arrived;
        (self.progress)(arrived);
    }
}

impl Broken {
    fn for_good(error: TransferError) -> Self {
        Self { error, may_go_on: false }
    }
}

impl From<TransferError> for Broken {
    fn from(error: TransferError) -> Self {
        let may_go_on = match &error {
            TransferError::EndedByPeer(CancelReason::Busy)
            | TransferError::NoProgress
            | TransferError::NoReceiver => true,
            TransferError::Connection(error) => matches!(
                error,
                EndError::NoAnswer(_)
                    | EndError::Unreachable(_)
                    | EndError::Refused(_)
                    | EndError::Lost(_)
                    | EndError::Forgotten(_)
                    | EndError::ClosedByPeer { .. }
                    | EndError::ProofEnded(_)
            ),
            _ => false,
        };
        Self { error, may_go_on }
    }
}

/// What a receiver says while it looks at what it has.
#[derive(Default)]
struct Looks(Option<(u64, Instant)>);

impl Looks {
    /// How much the receiver has; `None` while it looks.
    fn hear(&mut self, said: u64, length: u64) -> Result<Option<u64>, TransferError> {
        let looked_at = said.checked_sub(LOOKING);
        if looked_at.unwrap_or(said) > length {
            return Err(NONSENSE);
        }
        let Some(looked_at) = looked_at else { return Ok(Some(said)) };
        let (_, since) = *match &mut self.0 {
            Some(before) if before.0 == looked_at => before,
            before => before.insert((looked_at, now().instant)),
        };
        match now().instant.saturating_duration_since(since) < LOOKS_FOR {
            true => Ok(None),
            false => Err(TransferError::NoProgress),
        }
    }
}

/// What a receiver says in time: it says something each second.
async fn answer<T>(reading: impl Future<Output = std::io::Result<T>>) -> Result<T, TransferError> {
    Ok(timeout(STANDS_FOR, reading).await.map_err(|_| TransferError::NoProgress)??)
}

/// What the receiver says of the files that it has.
async fn read_word(
    folder: &Outgoing,
    arrived: u64,
    reading: &mut (impl AsyncRead + Unpin),
) -> Result<Files, TransferError> {
    let mut word = vec![0; folder.word_len()];
    answer(reading.read_exact(&mut word)).await?;
    folder.rest(&word, arrived)
}

impl Source {
    /// What has no end yet, if it is that.
    fn tail(&self) -> Option<&Tail> {
        match self {
            Self::Known(_) => None,
            Self::Endless(tail) => Some(tail),
        }
    }

    /// How much a receiver can have, of what was offered with this length.
    fn most(&self, length: u64) -> u64 {
        self.tail().map_or(length, Tail::read)
    }

    /// What is written next, once `at` bytes are; of `files`, if it goes file by file.
    async fn piece(
        &self,
        at: u64,
        length: u64,
        files: Option<&mut Files>,
    ) -> Result<Framed, TransferError> {
        let mut head = Vec::new();
        let tail = match self {
            Self::Known(source) => {
                let most = (length - at).min(PART_LEN as u64);
                let next = files.map_or(Some((at, most)), |files| files.next(most));
                let (offset, len) = next.unwrap_or_default();
                let part = read_part(source, offset, len as usize).await?;
                return Ok(Framed { head, part, is_last: at + len == length });
            }
            Self::Endless(tail) => tail,
        };
        match tail.piece(at).await? {
            Piece::Bytes(part) => {
                emit_frame_head(part.len() as u32, &mut head);
                Ok(Framed { head, part, is_last: false })
            }
            Piece::End(sha256) => {
                emit_end(&sha256, &mut head);
                Ok(Framed { head, part: Vec::new(), is_last: true })
            }
        }
    }
}

/// What is written, with its head where it is a frame.
struct Framed {
    head: Vec<u8>,
    part: Vec<u8>,
    is_last: bool,
}

/// Reads a part of the file.
async fn read_part(
    source: &Arc<Mutex<dyn ReadAt + Send>>,
    at: u64,
    len: usize,
) -> Result<Vec<u8>, TransferError> {
    let read = with(source, move |source| {
        let mut part = vec![0; len];
        source.read_exact_at(at, &mut part).map(|()| part)
    });
    read.await?.map_err(|error| TransferError::Read(error.kind()))
}

/// Reads from a source where that holds up nobody.
async fn with<T: Send + 'static>(
    source: &Arc<Mutex<dyn ReadAt + Send>>,
    read: impl FnOnce(&mut (dyn ReadAt + Send)) -> T + Send + 'static,
) -> Result<T, TransferError> {
    let source = Arc::clone(source);
    let read = move || read(&mut *source.lock().unwrap_or_else(PoisonError::into_inner));
    tokio::task::spawn_blocking(read).await.map_err(|_| TransferError::Stopped)
}

const NONSENSE: TransferError = TransferError::EndedByPeer(CancelReason::Nonsense);
/// When nothing has moved for so long another connection is tried: three times the receiver could
/// have said something.
const STANDS_FOR: Duration = SAYS_EVERY.saturating_mul(3);
/// A name that is there and takes nothing may be between two files.
const NOTHING_OFFERED: Duration = Duration::from_secs(5);
/// A receiver that says the same for so long does not look at anything: what takes it longest is to
/// make a large folder.
const LOOKS_FOR: Duration = Duration::from_mins(30);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
