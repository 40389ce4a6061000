//! Copies of what a daemon stores, as bytes for whoever may ask: made on a thread of their own, one
//! at a time, as fast as they are taken.
//!
//! The daemon opens no file for them and is told of none; and whoever takes no more bytes for some
//! seconds gets no more, since what is replaced meanwhile keeps its room in the store.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::mpsc;

/// Writes a copy of what is stored now.
pub type WriteCopy = Box<dyn Fn(&mut dyn Write) -> io::Result<()> + Send + Sync>;

/// What there is to copy, when it is known.
#[derive(Default)]
pub(super) struct Copies {
    write: OnceLock<Arc<WriteCopy>>,
    is_under_way: Arc<AtomicBool>,
}

impl std::fmt::Debug for Copies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copies").field("is_offered", &self.write.get().is_some()).finish()
    }
}

impl Copies {
    /// Copies are made so from now on.
    pub(super) fn offer(&self, write: WriteCopy) {
        // Said once, when a daemon starts.
        let _ = self.write.set(Arc::new(write));
    }

    /// Begins a copy; or the status line and the sentence that refuse it.
    pub(super) fn begin(&self) -> Result<Pieces, (&'static str, &'static str)> {
        let write = self.write.get().ok_or(("404 Not Found", NOTHING))?.clone();
        if self.is_under_way.swap(true, Ordering::AcqRel) {
            return Err(("503 Service Unavailable", ANOTHER));
        }
        let turn = Turn(self.is_under_way.clone());
        let (sender, receiver) = mpsc::channel(WAITING_PIECES);
        let make = move || {
            let _turn = turn;
            let mut out = Outlet { sender, piece: Vec::with_capacity(PIECE_LEN) };
            if let Err(error) = write(&mut out).and_then(|()| out.flush()) {
                tracing::warn!(%error, "a back-up was not made to its end");
            }
        };
        let thread = std::thread::Builder::new().name("back-up".to_owned());
        thread.spawn(make).map_err(|_| ("503 Service Unavailable", NO_THREAD))?;
        Ok(Pieces(receiver))
    }
}

/// The one who makes a copy now.
struct Turn(Arc<AtomicBool>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A copy, piece by piece; none more when it is whole, or broke off.
pub(super) struct Pieces(mpsc::Receiver<Vec<u8>>);

impl Pieces {
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        self.0.recv().await
    }
}

/// The other end: waits while too many pieces are not taken.
struct Outlet {
    sender: mpsc::Sender<Vec<u8>>,
    piece: Vec<u8>,
}

impl Write for Outlet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_LEN {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_LEN));
        let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "who asked takes no more of it");
        self.sender.blocking_send(piece).map_err(gone)
    }
}

const NOTHING: &str = "nothing is stored in a file here, so there is nothing to back up; a cluster is backed up \
                       by its own tools\n";
const ANOTHER: &str = "another back-up is being made; try again when it has ended\n";
const NO_THREAD: &str = "no thread can be started for it; try again later\n";
const PIECE_LEN: usize = 1 << 20;
const WAITING_PIECES: usize = 2;
/// A disk that is slower than 100 KB a second is no place for a copy.
pub(super) const PIECES_DEADLINE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn of_three_pieces() -> Copies {
        let copies = Copies::default();
        copies.offer(Box::new(|out| out.write_all(&vec![7; 3 * PIECE_LEN])));
        copies
    }

    #[tokio::test]
    async fn one_is_made_at_a_time_and_the_next_when_that_has_ended_or_is_wanted_no_more() {
        let copies = Copies::default();
        assert_eq!(copies.begin().err().unwrap().0, "404 Not Found");
        let copies = of_three_pieces();
        for takes_all in [true, false, true] {
            let mut pieces = loop {
                // The thread of the one before ends when it notices.
                match copies.begin() {
                    Ok(pieces) => break pieces,
                    Err((_, problem)) => assert_eq!(problem, ANOTHER),
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            };
            let first = pieces.next().await.unwrap();
            let mut len = first.len();
            if !takes_all {
                continue;
            }
            while let Some(piece) = pieces.next().await {
                len += piece.len();
            }
            assert_eq!(len, 3 * PIECE_LEN);
        }
    }

    #[tokio::test]
    async fn who_asks_while_one_is_made_is_refused() {
        let copies = Copies::default();
        copies.offer(Box::new(|out| (0..8).try_for_each(|_| out.write_all(&vec![7; PIECE_LEN]))));
        let _first = copies.begin().ok().unwrap();
        assert_eq!(copies.begin().err(), Some(("503 Service Unavailable", ANOTHER)));
    }
}
