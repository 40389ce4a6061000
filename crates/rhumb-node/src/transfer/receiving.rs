//! The receiving end: takes what an offer says, by as many streams as it takes.

use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use rhumb_end::{EndError, StreamError};
use rhumb_wire::Name;
use rhumb_wire::transfer::{CancelReason, Offer, Verdict};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{timeout, timeout_at};

use super::arrivals::{AnySink, Arrival, Seat};
use super::{GIVES_UP_AFTER, PART_LEN, SAYS_EVERY, TransferError, WriteAt, storage};
use crate::clock::now;
use crate::connections::Stream;
use crate::node::Handle;

/// What is told of a file that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiveReport {
    /// Who sent it.
    pub from: Name,
    /// Who it was for: the node, or a name that it serves.
    pub to: Name,
    /// What they call it: one plain file name.
    pub file_name: String,
    /// Its bytes.
    pub bytes: u64,
    /// The SHA-256 of what was received, which is what was offered.
    pub sha256: [u8; 32],
    /// From the offer to the last byte.
    pub elapsed: Duration,
}

/// A file on its way in.
struct Incoming<P> {
    offer: Offer,
    /// Away while it is written to.
    content: Option<Content>,
    arrived: u64,
    moved_at: Instant,
    progress: P,
}

/// What has arrived, and a buffer for what comes next.
struct Content {
    sink: AnySink,
    hash: digest::Context,
    part: Vec<u8>,
}

/// How a stream ended.
enum End {
    /// All is there, and it is what was offered, or is not.
    Judged(Verdict),
    /// Its sender goes on by another one.
    Replaced(Box<Stream>),
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
    Other(Box<Stream>),
}

pub(crate) async fn receive<W: WriteAt + Send + 'static>(
    handle: &Handle,
    mut open: impl FnMut(Name, &Offer) -> Result<W, CancelReason> + Send + 'static,
    progress: impl FnMut(u64) + Send + 'static,
) -> Result<ReceiveReport, TransferError> {
    // Others may receive at the same time: it lasts as long as any of them.
    let reception = handle.arrivals().open(handle)?;
    let (given, arrived) = oneshot::channel();
    let open = Box::new(move |from: Name, offer: &Offer| -> Result<AnySink, CancelReason> {
        open(from, offer).map(|sink| Box::new(sink) as AnySink)
    });
    reception.wait(Seat { open, given });
    let arrival = arrived.await.map_err(|_| TransferError::Stopped)?;
    take(arrival, progress).await
}

async fn take(
    arrival: Arrival,
    progress: impl FnMut(u64) + Send,
) -> Result<ReceiveReport, TransferError> {
    let Arrival { mut stream, sink, offer, mut again, place } = arrival;
    let begin = now().instant;
    let hash = digest::Context::new(&digest::SHA256);
    let content = Some(Content { sink, hash, part: vec![0; PART_LEN] });
    let mut incoming = Incoming { offer, content, arrived: 0, moved_at: begin, progress };
    loop {
        match incoming.take_over(&mut stream, &mut again).await {
            End::Replaced(other) => stream = *other,
            End::Broken(error) => {
                let left = GIVES_UP_AFTER.saturating_sub(incoming.idle());
                match timeout(left, again.recv()).await {
                    Ok(Some(other)) => stream = other,
                    _ => return Err(error),
                }
            }
            End::Failed(error) => return Err(error),
            End::Judged(Verdict::Corrupt) => return Err(TransferError::Corrupt),
            End::Judged(Verdict::Intact) => break,
        }
    }
    let Incoming { offer, .. } = incoming;
    Ok(ReceiveReport {
        from: place.key.peer,
        to: place.key.local,
        file_name: offer.name.as_str().to_owned(),
        bytes: offer.length,
        sha256: offer.sha256,
        elapsed: now().instant.saturating_duration_since(begin),
    })
}

impl<P: FnMut(u64)> Incoming<P> {
    fn idle(&self) -> Duration {
        now().instant.saturating_duration_since(self.moved_at)
    }

    /// Takes what a stream brings, from where this one has come.
    async fn take_over(&mut self, stream: &mut Stream, again: &mut mpsc::Receiver<Stream>) -> End {
        let end = match self.take_all(stream, again).await {
            Ok(None) => self.judge(stream, again).await,
            Ok(Some(other)) => Ok(End::Replaced(other)),
            Err(error) => Err(error),
        };
        let error = match end {
            Ok(end) => return end,
            Err(error) => error,
        };
        let said = match &error {
            // Its sender has left.
            TransferError::Connection(EndError::ClosedByPeer { .. }) => {
                return End::Failed(TransferError::EndedByPeer(CancelReason::Stopped));
            }
            TransferError::Connection(EndError::Closed) => {
                return End::Failed(TransferError::Stopped);
            }
            TransferError::Connection(_) => return End::Broken(error),
            TransferError::Write(_) => CancelReason::WriteFailed,
            TransferError::NoProgress => CancelReason::TimedOut,
            TransferError::EndedByPeer(CancelReason::Nonsense) => CancelReason::Nonsense,
            _ => return End::Failed(error),
        };
        stream.reset(said.code());
        End::Failed(error)
    }

    /// All that is missing; or another stream, by which it goes on.
    async fn take_all(
        &mut self,
        stream: &mut Stream,
        again: &mut mpsc::Receiver<Stream>,
    ) -> Result<Option<Box<Stream>>, TransferError> {
        let mut said_at = self.say(stream).await?;
        while self.arrived < self.offer.length {
            let Some(content) = &mut self.content else { return Err(TransferError::Stopped) };
            let len = match gather(&mut content.part, stream, again).await? {
                Gathered::Bytes(len) => len,
                Gathered::Other(other) => return Ok(Some(other)),
            };
            self.keep(len).await?;
            if self.idle() >= GIVES_UP_AFTER {
                return Err(TransferError::NoProgress);
            }
            if now().instant.saturating_duration_since(said_at) >= TELLS_EVERY {
                said_at = self.say(stream).await?;
            }
        }
        Ok(None)
    }

    /// Tells the sender how much there is.
    async fn say(&mut self, stream: &mut Stream) -> Result<Instant, TransferError> {
        if self.arrived < self.offer.length {
            let said = timeout(GIVES_UP_AFTER, stream.write_u64(self.arrived)).await;
            said.map_err(|_| TransferError::NoProgress)??;
        }
        Ok(now().instant)
    }

    /// Writes what has come, where that holds up nobody.
    async fn keep(&mut self, len: usize) -> Result<(), TransferError> {
        let at = self.arrived;
        if len == 0 {
            return Ok(());
        }
        if len as u64 > self.offer.length - at {
            return Err(NONSENSE);
        }
        let Some(mut content) = self.content.take() else { return Err(TransferError::Stopped) };
        let write = move || {
            let part = &content.part[..len];
            content.hash.update(part);
            let written = content.sink.write_all_at(at, part);
            (content, written)
        };
        let written = tokio::task::spawn_blocking(write).await;
        let (content, written) = written.map_err(|_| TransferError::Stopped)?;
        self.content = Some(content);
        written.map_err(|error| TransferError::Write(error.kind()))?;
        self.arrived += len as u64;
        self.moved_at = now().instant;
        (self.progress)(self.arrived);
        Ok(())
    }

    /// Tells the sender what all of it amounts to, and waits until he knows; or another stream, on
    /// which he asks again.
    async fn judge(
        &mut self,
        stream: &mut Stream,
        again: &mut mpsc::Receiver<Stream>,
    ) -> Result<End, TransferError> {
        let Some(content) = &self.content else { return Err(TransferError::Stopped) };
        let found = storage::finish(content.hash.clone());
        let verdict = if found == self.offer.sha256 { Verdict::Intact } else { Verdict::Corrupt };
        let mut last = self.offer.length.to_be_bytes().to_vec();
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
}

/// Fills a buffer, as far as bytes come soon: many are written at once, and few do not wait long.
async fn gather(
    part: &mut [u8],
    stream: &mut Stream,
    again: &mut mpsc::Receiver<Stream>,
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

fn is_departure(error: &EndError) -> bool {
    matches!(error, EndError::ClosedByPeer { .. } | EndError::Closed)
}

const NONSENSE: TransferError = TransferError::EndedByPeer(CancelReason::Nonsense);
/// So many milliseconds at 100 MB/s are a whole part.
const GATHERS_FOR: Duration = Duration::from_millis(2);
/// How often a sender is told while bytes come.
const TELLS_EVERY: Duration = Duration::from_millis(100);
