//! A file that a command has the running node send. The node may not be able to read it, and need
//! not: it asks the command for each part, over the socket that the request came by.
//!
//! 1. the command asks, with what an offer says of the file;
//! 2. the node says, a line of JSON each, which bytes it needs and how much has arrived;
//! 3. the command answers the former with their number (4 bytes) and the bytes, or with
//!    [`UNREADABLE`];
//! 4. the last line is what came of it.
//!
//! What has no end yet the command sends by itself, in frames as they go over the network, without
//! the SHA-256: so a command that is killed does not seem to have come to its end.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rhumb_node::SendReport;
use rhumb_node::transfer::{ReadAt, TransferError};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};

use super::{Answer, Asker, OTHER_VERSION, Request, Running, line_of, say};
use crate::failure::{Failure, Outcome};

/// What is told of a file that was sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Its bytes.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// How often it went on by another stream.
    pub restarts: u32,
    /// How many bytes the receiver had from before.
    pub resumed_from: u64,
    /// How many were sent.
    pub sent_bytes: u64,
    /// The SHA-256 of all.
    pub sha256: [u8; 32],
}

/// What a node says to who lends it a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case", deny_unknown_fields)]
enum Word {
    Read { at: u64, len: usize },
    Arrived { bytes: u64 },
    Sent(Sent),
    Failed { error: String },
}

/// A file that whoever asked has.
#[derive(Debug)]
pub struct Lent(mpsc::Sender<Wanted>);

#[derive(Debug)]
struct Wanted {
    at: u64,
    len: usize,
    given: oneshot::Sender<io::Result<Vec<u8>>>,
}

impl From<SendReport> for Sent {
    fn from(report: SendReport) -> Self {
        Self {
            bytes: report.bytes,
            seconds: report.elapsed.as_secs_f64(),
            restarts: report.restarts,
            resumed_from: report.resumed_from,
            sent_bytes: report.sent,
            sha256: report.sha256,
        }
    }
}

impl Running {
    /// Has the node send what `source` has.
    ///
    /// # Errors
    ///
    /// What the node says, or that it is gone.
    pub async fn send<R: ReadAt + Send + 'static>(
        &self,
        request: &Request,
        source: R,
        mut progress: impl FnMut(u64),
    ) -> Outcome<Sent> {
        let source = Arc::new(Mutex::new(source));
        let mut stream = self.begin(request).await.map_err(Failure::operation)?;
        loop {
            let line = line_of(&mut stream).await.map_err(|_| super::ended())?;
            match serde_json::from_str(&line) {
                Ok(Word::Read { at, len }) => {
                    let part = read(&source, at, len).await;
                    give(&mut stream, part).await.map_err(|_| super::ended())?;
                }
                Ok(Word::Arrived { bytes }) => progress(bytes),
                other => return outcome(other, &line),
            }
        }
    }

    /// Has the node send what `input` has until it ends.
    ///
    /// # Errors
    ///
    /// What the node says, that it is gone, or that the input cannot be read.
    pub async fn send_input(
        &self,
        request: &Request,
        input: impl AsyncRead + Unpin,
        mut progress: impl FnMut(u64),
    ) -> Outcome<Sent> {
        let stream = self.begin(request).await.map_err(Failure::operation)?;
        let (reading, mut writing) = tokio::io::split(stream);
        let mut reading = BufReader::new(reading);
        let hear = async {
            loop {
                let line = line_of(&mut reading).await.map_err(|_| super::ended())?;
                match serde_json::from_str(&line) {
                    Ok(Word::Arrived { bytes }) => progress(bytes),
                    other => return outcome(other, &line),
                }
            }
        };
        tokio::select! {
            biased;
            outcome = hear => outcome,
            failure = feed(input, &mut writing) => Err(failure),
        }
    }
}

/// The last word of a node, or what stands in its place.
fn outcome(word: serde_json::Result<Word>, line: &str) -> Outcome<Sent> {
    match word {
        Ok(Word::Sent(sent)) => Ok(sent),
        Ok(Word::Failed { error }) => Err(Failure::operation_text(error)),
        // It is answered as any request that is refused before it begins.
        _ => match serde_json::from_str::<Answer>(line).map(Answer::done) {
            Ok(Err(refused)) => Err(refused),
            _ => Err(Failure::operation_text(OTHER_VERSION)),
        },
    }
}

/// Gives a node all of an input. Ends only when that is not possible; the node has the last word.
async fn feed(
    mut input: impl AsyncRead + Unpin,
    writing: &mut (impl AsyncWrite + Unpin),
) -> Failure {
    let mut part = vec![0; FRAME_LEN];
    loop {
        let len = match input.read(&mut part).await {
            Ok(len) => len,
            Err(error) => return Failure::operation(error),
        };
        let given = async {
            writing.write_u32(len as u32).await?;
            writing.write_all(&part[..len]).await
        };
        // A node that is gone, or has enough, says so in the other direction.
        if given.await.is_err() || len == 0 {
            return std::future::pending().await;
        }
    }
}

/// Takes an input from a command. Ends when that is gone.
async fn take_input(reading: &mut (impl AsyncRead + Unpin), mut input: DuplexStream) {
    loop {
        let Ok(len) = reading.read_u32().await else { return };
        if len == 0 {
            drop(input);
            let _ = reading.read_u8().await;
            return;
        }
        let len = u64::from(len);
        let copied = tokio::io::copy(&mut (&mut *reading).take(len), &mut input).await;
        if !copied.is_ok_and(|copied| copied == len) {
            return;
        }
    }
}

impl Asker {
    /// Does `work` with the file that he lends, until that is done or he is gone; `work` is given
    /// where to tell how much has arrived.
    pub async fn borrow<F: Future<Output = Result<SendReport, TransferError>>>(
        mut self,
        work: impl FnOnce(Lent, watch::Sender<u64>) -> F,
    ) {
        let (wants, mut wanted) = mpsc::channel(1);
        let (told, mut arrived) = watch::channel(0);
        let work = work(Lent(wants), told);
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    let word = match done {
                        Ok(report) => Word::Sent(report.into()),
                        Err(error) => Word::Failed { error: error.to_string() },
                    };
                    let _ = say(&mut self.0, &word).await;
                    return;
                }
                Some(Wanted { at, len, given }) = wanted.recv() => {
                    let part = self.fetch(at, len).await;
                    let is_gone = part.is_err();
                    let part = part.and_then(|part| part.ok_or(io::ErrorKind::Other.into()));
                    let _ = given.send(part);
                    if is_gone {
                        return;
                    }
                }
                Ok(()) = arrived.changed() => {
                    let bytes = *arrived.borrow_and_update();
                    if say(&mut self.0, &Word::Arrived { bytes }).await.is_err() {
                        return;
                    }
                }
                // He says nothing unless he is asked.
                _ = self.0.read_u8() => return,
            }
        }
    }

    /// Does `work` with what he gives until it ends, as [`Asker::borrow`] does.
    pub async fn borrow_input<F: Future<Output = Result<SendReport, TransferError>>>(
        self,
        work: impl FnOnce(DuplexStream, watch::Sender<u64>) -> F,
    ) {
        let (told, mut arrived) = watch::channel(0);
        let (input, output) = tokio::io::duplex(FRAME_LEN);
        let (mut reading, mut writing) = tokio::io::split(self.0);
        let (work, taken) = (work(output, told), take_input(&mut reading, input));
        tokio::pin!(work, taken);
        loop {
            let word = tokio::select! {
                biased;
                done = &mut work => {
                    let word = match done {
                        Ok(report) => Word::Sent(report.into()),
                        Err(error) => Word::Failed { error: error.to_string() },
                    };
                    let _ = say(&mut writing, &word).await;
                    return;
                }
                Ok(()) = arrived.changed() => {
                    Word::Arrived { bytes: *arrived.borrow_and_update() }
                }
                () = &mut taken => return,
            };
            if say(&mut writing, &word).await.is_err() {
                return;
            }
        }
    }

    /// A part of his file; `None` if he cannot read it.
    async fn fetch(&mut self, at: u64, len: usize) -> io::Result<Option<Vec<u8>>> {
        say(&mut self.0, &Word::Read { at, len }).await?;
        let given = self.0.read_u32().await?;
        if given == UNREADABLE {
            return Ok(None);
        }
        if given as usize != len {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut part = vec![0; len];
        self.0.read_exact(&mut part).await?;
        Ok(Some(part))
    }
}

impl ReadAt for Lent {
    /// Called where waiting holds up nobody.
    fn read_exact_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let (given, taken) = oneshot::channel();
        let wanted = Wanted { at: offset, len: buffer.len(), given };
        let is_gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        self.0.blocking_send(wanted).map_err(|_| is_gone())?;
        let part = taken.blocking_recv().map_err(|_| is_gone())??;
        buffer.copy_from_slice(&part);
        Ok(())
    }
}

async fn read<R: ReadAt + Send + 'static>(
    source: &Arc<Mutex<R>>,
    at: u64,
    len: usize,
) -> io::Result<Vec<u8>> {
    let source = Arc::clone(source);
    let read = move || {
        let mut part = vec![0; len.min(LONGEST_PART)];
        let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
        source.read_exact_at(at, &mut part).map(|()| part)
    };
    tokio::task::spawn_blocking(read).await?
}

async fn give(stream: &mut BufReader<UnixStream>, part: io::Result<Vec<u8>>) -> io::Result<()> {
    match part {
        Ok(part) => {
            stream.write_u32(part.len() as u32).await?;
            stream.write_all(&part).await
        }
        Err(_) => stream.write_u32(UNREADABLE).await,
    }
}

/// In the place of a number of bytes.
const UNREADABLE: u32 = u32::MAX;
/// More than a node asks for at once.
const LONGEST_PART: usize = 1 << 20;
/// What is given at once of what has no end yet.
const FRAME_LEN: usize = 64 << 10;
