//! A file that the running node receives for a command, which has the place for it. The node may
//! not be able to write there, and need not: it has the command do each thing, over the socket that
//! the request came by.
//!
//! 1. the command asks, and is answered as soon as the node waits for a file;
//! 2. the node says, a line of JSON each, what is offered, and then what is to be done with it: a
//!    part that is to be written follows its line;
//! 3. the command answers each with a line; an offer, and the files of a folder's list, with what
//!    it has of that before the line, in parts with their number of bytes (4 bytes), of which one
//!    without any is the end;
//! 4. the last line of the node is what came of it.

use std::future::Future;
use std::io;
use std::time::Duration;

use data_encoding::HEXLOWER;
use rhumb_node::ReceiveReport;
use rhumb_node::transfer::{Offered, TransferError, WriteAt};
use rhumb_wire::Name;
use rhumb_wire::folder::{FileSpan, Listing};
use rhumb_wire::held::Held;
use rhumb_wire::transfer::{CancelReason, FileName, Kind, Offer, TransferId};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinSet, spawn_blocking};

use super::{Answer, Asker, OTHER_VERSION, Request, Running, line_of, say};
use crate::failure::{Failure, Outcome};

/// What is told of a file that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Who sent it.
    pub from: Name,
    /// Who it was for.
    pub to: Name,
    /// A file or a folder.
    pub kind: Kind,
    /// Its bytes.
    pub bytes: u64,
    /// How many of them were there before.
    pub resumed_from: u64,
    /// Their SHA-256.
    pub sha256: [u8; 32],
    /// From the offer to the last byte.
    pub elapsed: Duration,
}

/// What came of waiting for a file.
#[derive(Debug)]
pub enum Taking {
    /// It is there.
    Taken(Taken),
    /// The command did not want it.
    Refused,
    /// It is not.
    Failed(Failure),
}

/// Where a node puts a file: into the hands of whoever asked.
#[derive(Debug)]
pub struct Hands {
    wants: mpsc::Sender<Wanted>,
    /// What is not said yet of what is offered.
    offered: Offered,
}

/// Whoever waits for a file, if he still does.
#[derive(Debug)]
pub struct Waiting(mpsc::Sender<Wanted>);

#[derive(Debug)]
struct Wanted {
    word: Word,
    bytes: Vec<u8>,
    /// Where to tell what there is from before.
    parts: Option<mpsc::Sender<Vec<u8>>>,
    done: oneshot::Sender<io::Result<Done>>,
}

/// What a node says to who takes a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case", deny_unknown_fields)]
enum Word {
    /// The offer is in hex, as it goes over the network.
    Offered {
        from: String,
        to: String,
        offer: String,
    },
    Write {
        at: u64,
        len: usize,
    },
    Settle {
        length: u64,
        sha256: [u8; 32],
    },
    /// So many files of a list follow, as [`emit_spans`] has them.
    RecallFiles {
        files: usize,
    },
    /// What of them is there is in hex, as it goes over the network.
    SettleFiles {
        length: u64,
        held: String,
        sha256: [u8; 32],
    },
    Clear,
    Finish {
        file: String,
    },
    Arrived {
        bytes: u64,
    },
    Received {
        bytes: u64,
        resumed_from: u64,
        sha256: [u8; 32],
        seconds: f64,
    },
    Failed {
        error: String,
    },
}

/// What the command answers.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Done {
    problem: Option<Problem>,
    found: u64,
    /// Which files are there, in hex.
    held: Option<String>,
}

/// The place of a file.
struct Taker<W> {
    sink: Lendable<W>,
    offered: Offered,
    /// Of a folder that arrives file by file.
    files: Vec<FileSpan>,
}

/// What went wrong, as far as it matters to the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Problem {
    TooLarge,
    DiskFull,
    Nonsense,
    Declined,
    Failed,
}

impl Running {
    /// Has the node receive a file, and puts it where `open` says, which may refuse it. `ready` is
    /// called when it can come.
    ///
    /// # Errors
    ///
    /// When the node is gone, does not understand, or receives for another command.
    pub async fn receive<W: WriteAt + Send + 'static>(
        &self,
        request: &Request,
        ready: impl FnOnce(),
        open: impl FnOnce(&Offered) -> Result<W, CancelReason>,
        mut progress: impl FnMut(u64),
    ) -> Outcome<Taking> {
        let gone = |_: io::Error| super::ended();
        let mut stream = self.begin(request).await.map_err(gone)?;
        let line = line_of(&mut stream).await.map_err(gone)?;
        serde_json::from_str::<Answer>(&line).map_err(|_| other_version())?.done()?;
        ready();
        let (mut open, mut place) = (Some(open), None);
        loop {
            let line = line_of(&mut stream).await.map_err(gone)?;
            let word = serde_json::from_str(&line).map_err(|_| other_version())?;
            let done: Done = match (word, &mut place) {
                (Word::Offered { from, to, offer }, None) => {
                    let offered = read_offered(&from, &to, &offer).ok_or_else(other_version)?;
                    let open = open.take().ok_or_else(other_version)?;
                    match open(&offered) {
                        Ok(sink) => {
                            let sink = Lendable::new(sink.into());
                            let found = show(&sink, &mut stream, |sink, see| sink.recall(see));
                            let found = found.await.map_err(gone)?;
                            place = Some(Taker { sink, offered, files: Vec::new() });
                            found.into()
                        }
                        Err(reason) => {
                            stream.write_u32(0).await.map_err(gone)?;
                            let problem = Some(reason.into());
                            let refused = Done { problem, ..Done::default() };
                            say(&mut stream, &refused).await.map_err(gone)?;
                            return Ok(Taking::Refused);
                        }
                    }
                }
                (Word::Arrived { bytes }, _) => {
                    progress(bytes);
                    continue;
                }
                (Word::Failed { error }, _) => {
                    return Ok(Taking::Failed(Failure::operation_text(error)));
                }
                (Word::Received { bytes, resumed_from, sha256, seconds }, Some(taker)) => {
                    let Offered { from, to, ref offer, .. } = taker.offered;
                    let elapsed = Duration::try_from_secs_f64(seconds).unwrap_or_default();
                    let kind = offer.kind;
                    let taken = Taken { from, to, kind, bytes, resumed_from, sha256, elapsed };
                    return Ok(Taking::Taken(taken));
                }
                (Word::RecallFiles { files }, Some(taker)) => {
                    taker.files = read_spans(files, &mut stream).await?;
                    taker.recall_files(&mut stream).await.map_err(gone)?
                }
                (word, Some(taker)) => taker.do_it(word, &mut stream).await?,
                _ => return Err(other_version()),
            };
            say(&mut stream, &done).await.map_err(gone)?;
        }
    }
}

/// Something that is worked on elsewhere meanwhile.
type Lendable<W> = std::sync::Arc<std::sync::Mutex<W>>;

/// Shows the node what `look` finds of a file from before; beside it, what that says.
async fn show<W: Send + 'static, T: Send + 'static>(
    sink: &Lendable<W>,
    stream: &mut BufReader<UnixStream>,
    look: impl FnOnce(&mut W, &mut dyn FnMut(&[u8])) -> io::Result<T> + Send + 'static,
) -> io::Result<io::Result<T>> {
    let (see, mut parts) = mpsc::channel::<Vec<u8>>(PARTS_AHEAD);
    let found = work(sink, move |sink| {
        // A node that is gone wants nothing more.
        look(sink, &mut |bytes| drop(see.blocking_send(bytes.to_vec())))
    });
    let tell = async {
        while let Some(part) = parts.recv().await {
            for part in part.chunks(LONGEST_PART).filter(|part| !part.is_empty()) {
                stream.write_u32(part.len() as u32).await?;
                stream.write_all(part).await?;
            }
        }
        stream.write_u32(0).await
    };
    let (found, told) = tokio::join!(found, tell);
    told?;
    Ok(found)
}

impl<W: WriteAt + Send + 'static> Taker<W> {
    /// Tells which files of a folder are there.
    async fn recall_files(&mut self, stream: &mut BufReader<UnixStream>) -> io::Result<Done> {
        let files = self.files.clone();
        let look = move |sink: &mut W, see: &mut dyn FnMut(&[u8])| sink.recall_files(&files, see);
        let held = match show(&self.sink, stream, look).await? {
            Ok(held) => held,
            Err(error) => return Ok(Err(error).into()),
        };
        let text = |held: Held| {
            let mut bytes = Vec::new();
            held.emit(&mut bytes);
            HEXLOWER.encode(&bytes)
        };
        Ok(Done { held: held.map(text), ..Done::default() })
    }

    /// Does what the node says with the place of a file.
    async fn do_it(&mut self, word: Word, stream: &mut BufReader<UnixStream>) -> Outcome<Done> {
        let sink = &self.sink;
        let done = match word {
            Word::Write { at, len } if len <= LONGEST_PART => {
                let mut bytes = vec![0; len];
                stream.read_exact(&mut bytes).await.map_err(|_| super::ended())?;
                work(sink, move |sink| sink.write_all_at(at, &bytes)).await
            }
            Word::Settle { length, sha256 } => {
                work(sink, move |sink| sink.settle(length, &sha256)).await
            }
            Word::SettleFiles { length, held, sha256 } => {
                let held = read_held(&held, &self.files).ok_or_else(other_version)?;
                work(sink, move |sink| sink.settle_files(length, &held, &sha256)).await
            }
            Word::Clear => work(sink, WriteAt::clear).await,
            Word::Finish { file } => {
                let name = FileName::new(&file).map_err(|_| other_version())?;
                work(sink, move |sink| sink.finish(&name)).await
            }
            _ => return Err(other_version()),
        };
        Ok(done.map(|()| 0).into())
    }
}

/// Does something where that holds up nobody.
async fn work<W: Send + 'static, T: Send + 'static>(
    sink: &Lendable<W>,
    work: impl FnOnce(&mut W) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let sink = Lendable::clone(sink);
    let work = move || work(&mut sink.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    spawn_blocking(work).await?
}

impl Asker {
    /// Has `work` receive a file for him, until that is done or he is gone; `work` is given whom
    /// the file is for, and where to tell how much has arrived.
    pub async fn hand_over<F>(mut self, work: impl FnOnce(Waiting, watch::Sender<u64>) -> F)
    where
        F: Future<Output = Result<ReceiveReport, TransferError>> + Send + 'static,
    {
        if say(&mut self.0, &Answer::default()).await.is_err() {
            return;
        }
        let (wants, mut wanted) = mpsc::channel(1);
        let (told, mut arrived) = watch::channel(0);
        // Its sender is told that the place is worked on, however long that takes: the node's side
        // goes on meanwhile.
        let mut receiving = JoinSet::new();
        receiving.spawn(work(Waiting(wants), told));
        let mut has_refused = false;
        loop {
            let said = tokio::select! {
                biased;
                Some(wanted) = wanted.recv() => {
                    self.have_done(wanted).await.map(|refuses| has_refused = refuses)
                }
                Some(done) = receiving.join_next() => {
                    let word = match done {
                        Ok(Ok(report)) => Word::Received {
                            bytes: report.bytes,
                            resumed_from: report.resumed_from,
                            sha256: report.sha256,
                            seconds: report.elapsed.as_secs_f64(),
                        },
                        Ok(Err(error)) => Word::Failed { error: error.to_string() },
                        Err(error) => Word::Failed { error: error.to_string() },
                    };
                    let _ = say(&mut self.0, &word).await;
                    return;
                }
                Ok(()) = arrived.changed() => {
                    let bytes = *arrived.borrow_and_update();
                    say(&mut self.0, &Word::Arrived { bytes }).await
                }
                // He says nothing unless he is asked; what he has refused is told all the same.
                _ = self.0.read_u8() => {
                    if has_refused {
                        let _ = tokio::time::timeout(FAREWELL, receiving.join_next()).await;
                    }
                    return;
                }
            };
            if said.is_err() {
                return;
            }
        }
    }

    /// Has him do something, and says whether he refuses or cannot; fails when he is gone.
    async fn have_done(&mut self, wanted: Wanted) -> io::Result<bool> {
        let Wanted { word, bytes, parts, done } = wanted;
        say(&mut self.0, &word).await?;
        self.0.write_all(&bytes).await?;
        if let Some(parts) = parts {
            loop {
                let len = self.0.read_u32().await? as usize;
                if len == 0 {
                    break;
                }
                if len > LONGEST_PART {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                let mut part = vec![0; len];
                self.0.read_exact(&mut part).await?;
                let _ = parts.send(part).await;
            }
        }
        let answer: Done = serde_json::from_str(&line_of(&mut self.0).await?)?;
        let refuses = answer.problem.is_some();
        let problem = answer.problem.map(Problem::kind);
        let _ = done.send(problem.map_or(Ok(answer), |kind| Err(kind.into())));
        Ok(refuses)
    }
}

impl Waiting {
    /// Where he wants what is offered; `None` if he is gone.
    pub fn take(&self, offered: &Offered) -> Option<Hands> {
        let offered = offered.clone();
        (!self.0.is_closed()).then(|| Hands { wants: self.0.clone(), offered })
    }
}

impl Hands {
    /// Has him do something. Called where waiting holds up nobody.
    fn have(&mut self, word: Word, bytes: &[u8]) -> io::Result<()> {
        self.want(word, bytes, None)?.blocking_recv().map_err(|_| gone())?.map(drop)
    }

    /// Has him look for what is there, and show it.
    fn look(&mut self, word: Word, bytes: &[u8], see: &mut dyn FnMut(&[u8])) -> io::Result<Done> {
        let (told, mut parts) = mpsc::channel(PARTS_AHEAD);
        let found = self.want(word, bytes, Some(told))?;
        while let Some(part) = parts.blocking_recv() {
            see(&part);
        }
        found.blocking_recv().map_err(|_| gone())?
    }

    fn want(
        &mut self,
        word: Word,
        bytes: &[u8],
        parts: Option<mpsc::Sender<Vec<u8>>>,
    ) -> io::Result<oneshot::Receiver<io::Result<Done>>> {
        let (done, outcome) = oneshot::channel();
        let wanted = Wanted { word, bytes: bytes.to_vec(), parts, done };
        self.wants.blocking_send(wanted).map_err(|_| gone())?;
        Ok(outcome)
    }
}

impl WriteAt for Hands {
    fn write_all_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let parts = bytes.chunks(LONGEST_PART).zip((offset..).step_by(LONGEST_PART));
        for (part, at) in parts {
            self.have(Word::Write { at, len: part.len() }, part)?;
        }
        Ok(())
    }

    /// Tells him of the offer as well: it is what comes first.
    fn recall(&mut self, see: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
        let Offered { from, to, ref offer, .. } = self.offered;
        let mut bytes = Vec::new();
        offer.emit(TransferId(0), &mut bytes);
        let offer = HEXLOWER.encode(&bytes);
        let word = Word::Offered { from: from.to_string(), to: to.to_string(), offer };
        self.look(word, &[], see).map(|done| done.found)
    }

    fn recall_files(
        &mut self,
        files: &[FileSpan],
        see: &mut dyn FnMut(&[u8]),
    ) -> io::Result<Option<Held>> {
        let word = Word::RecallFiles { files: files.len() };
        let done = self.look(word, &emit_spans(files), see)?;
        let read = |text: String| {
            read_held(&text, files).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
        };
        done.held.map(read).transpose()
    }

    fn settle_files(&mut self, length: u64, held: &Held, sha256: &[u8; 32]) -> io::Result<()> {
        let mut bytes = Vec::new();
        held.emit(&mut bytes);
        let held = HEXLOWER.encode(&bytes);
        self.have(Word::SettleFiles { length, held, sha256: *sha256 }, &[])
    }

    fn settle(&mut self, length: u64, sha256: &[u8; 32]) -> io::Result<()> {
        self.have(Word::Settle { length, sha256: *sha256 }, &[])
    }

    fn clear(&mut self) -> io::Result<()> {
        self.have(Word::Clear, &[])
    }

    fn finish(&mut self, name: &FileName) -> io::Result<()> {
        self.have(Word::Finish { file: name.to_string() }, &[])
    }
}

impl From<ReceiveReport> for Taken {
    fn from(report: ReceiveReport) -> Self {
        Self {
            from: report.from,
            to: report.to,
            kind: report.kind,
            bytes: report.bytes,
            resumed_from: report.resumed_from,
            sha256: report.sha256,
            elapsed: report.elapsed,
        }
    }
}

impl From<io::Result<u64>> for Done {
    fn from(done: io::Result<u64>) -> Self {
        match done {
            Ok(found) => Self { found, ..Self::default() },
            Err(error) => Self { problem: Some(Problem::of(error.kind())), ..Self::default() },
        }
    }
}

impl From<CancelReason> for Problem {
    fn from(reason: CancelReason) -> Self {
        match reason {
            CancelReason::TooLarge => Self::TooLarge,
            CancelReason::Declined => Self::Declined,
            _ => Self::Failed,
        }
    }
}

impl Problem {
    fn of(kind: io::ErrorKind) -> Self {
        match kind {
            io::ErrorKind::FileTooLarge => Self::TooLarge,
            io::ErrorKind::StorageFull => Self::DiskFull,
            io::ErrorKind::InvalidData => Self::Nonsense,
            io::ErrorKind::Unsupported => Self::Declined,
            _ => Self::Failed,
        }
    }

    fn kind(self) -> io::ErrorKind {
        match self {
            Self::TooLarge => io::ErrorKind::FileTooLarge,
            Self::DiskFull => io::ErrorKind::StorageFull,
            Self::Nonsense => io::ErrorKind::InvalidData,
            Self::Declined => io::ErrorKind::Unsupported,
            Self::Failed => io::ErrorKind::Other,
        }
    }
}

fn read_offered(from: &str, to: &str, offer: &str) -> Option<Offered> {
    let bytes = HEXLOWER.decode(offer.as_bytes()).ok()?;
    let (_, offer) = Offer::parse(&bytes).ok()?;
    Some(Offered::new(from.parse().ok()?, to.parse().ok()?, offer))
}

/// The files of a list: where each begins, its length and its SHA-256.
fn emit_spans(files: &[FileSpan]) -> Vec<u8> {
    let emit = |file: &FileSpan| {
        [&file.at.to_be_bytes()[..], &file.length.to_be_bytes(), &file.sha256].concat()
    };
    files.iter().flat_map(emit).collect()
}

async fn read_spans(files: usize, stream: &mut BufReader<UnixStream>) -> Outcome<Vec<FileSpan>> {
    if files > Listing::MAX_ENTRIES {
        return Err(other_version());
    }
    let mut spans = Vec::with_capacity(files);
    for _ in 0..files {
        let read = async {
            let (at, length) = (stream.read_u64().await?, stream.read_u64().await?);
            let mut sha256 = [0; 32];
            stream.read_exact(&mut sha256).await?;
            Ok::<_, io::Error>(FileSpan { at, length, sha256 })
        };
        spans.push(read.await.map_err(|_| super::ended())?);
    }
    Ok(spans)
}

fn read_held(text: &str, files: &[FileSpan]) -> Option<Held> {
    Held::parse(&HEXLOWER.decode(text.as_bytes()).ok()?, files).ok()
}

fn gone() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

fn other_version() -> Failure {
    Failure::operation_text(OTHER_VERSION)
}

/// More than a node writes at once.
const LONGEST_PART: usize = 1 << 20;
/// How long a sender is told of a refusal by a command that has ended.
const FAREWELL: Duration = Duration::from_secs(2);
/// Of what is there from before, so many parts are read before they are hashed.
const PARTS_AHEAD: usize = 4;
