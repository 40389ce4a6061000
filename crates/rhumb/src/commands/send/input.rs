//! Standard input, read by a thread of its own, which ends with the process: a read that waits for
//! a terminal cannot be stopped.

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

/// What comes by standard input.
pub(super) struct Input {
    parts: mpsc::Receiver<io::Result<Vec<u8>>>,
    /// The part that came last, and how much of it was taken.
    part: Vec<u8>,
    taken: usize,
}

impl Input {
    /// Begins to read.
    pub(super) fn begin() -> Self {
        let (parts, read) = mpsc::channel(1);
        std::thread::spawn(move || {
            let mut input = io::stdin().lock();
            loop {
                let mut part = vec![0; PART_LEN];
                let part = match input.read(&mut part) {
                    Ok(0) => return,
                    Ok(len) => Ok(part[..len].to_vec()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                if parts.blocking_send(part).is_err() {
                    return;
                }
            }
        });
        Self { parts: read, part: Vec::new(), taken: 0 }
    }
}

impl AsyncRead for Input {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.taken == self.part.len() {
            match ready!(self.parts.poll_recv(context)) {
                Some(part) => (self.part, self.taken) = (part?, 0),
                None => return Poll::Ready(Ok(())),
            }
        }
        let rest = &self.part[self.taken..];
        let len = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..len]);
        self.taken += len;
        Poll::Ready(Ok(()))
    }
}

const PART_LEN: usize = 64 << 10;
