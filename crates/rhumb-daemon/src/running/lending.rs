//! A file that a command has the running node send. The node may not be able to read it, and need
//! not: it asks the command for each part, over the socket that the request came by.
//!
//! 1. the command asks, with what an offer says of the file;
//! 2. the node says, a line of JSON each, which bytes it needs and how much has arrived;
//! 3. the command answers the former with their number (4 bytes) and the bytes, or with
//!    [`UNREADABLE`];
//! 4. the last line is what came of it.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rhumb_node::SendReport;
use rhumb_node::transfer::{ReadAt, TransferError};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};

use super::{Answer, Asker, Request, Running, line_of, say};
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
                Ok(Word::Sent(sent)) => return Ok(sent),
                Ok(Word::Failed { error }) => return Err(Failure::operation_text(error)),
                // It is answered as any request that is refused before it begins.
                Err(_) => match serde_json::from_str::<Answer>(&line).map(Answer::done) {
                    Ok(Err(refused)) => return Err(refused),
                    _ => return Err(Failure::operation_text(OTHER_VERSION)),
                },
            }
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

const OTHER_VERSION: &str = "the running node is of another version: restart `rhumb up`";
/// In the place of a number of bytes.
const UNREADABLE: u32 = u32::MAX;
/// More than a node asks for at once.
const LONGEST_PART: usize = 1 << 20;
