//! A stream that one reads while another one writes: each looks for no longer than it takes, and
//! neither waits for the other.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use rhumb_end::{CANCELLED, StreamError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Fault;
use crate::Stream;

/// A stream, for whoever shares it. Of those who read at once one is told, and so of those who
/// write.
#[derive(Debug)]
pub struct BothWays(Mutex<Stream>);

impl BothWays {
    /// That of a stream.
    pub fn new(stream: Stream) -> Self {
        Self(Mutex::new(stream))
    }

    /// Up to as much as there is place for, as soon as there is something; nothing at the end. Who
    /// gives up waiting loses nothing.
    ///
    /// # Errors
    /// When the stream or its connection is over before.
    pub async fn read(&self, place: &mut [u8]) -> Result<usize, Fault> {
        poll_fn(|context| self.poll_read(place, context)).await
    }

    /// Writes as much as there is room for, once there is some. Who gives up waiting has written
    /// nothing.
    ///
    /// # Errors
    /// When the stream or its connection is over.
    pub async fn write(&self, bytes: &[u8]) -> Result<usize, Fault> {
        let write =
            |context: &mut Context<'_>| Pin::new(&mut *self.lock()).poll_write(context, bytes);
        poll_fn(write).await.map_err(|error| Fault::of_stream(&error))
    }

    /// Says that nothing more is written, and waits until the peer has it all; `false` if it has
    /// let the stream go before, and wants no more.
    ///
    /// # Errors
    /// When the stream is refused or failed, or its connection is over before.
    pub async fn finish(&self) -> Result<bool, Fault> {
        match poll_fn(|context| self.lock().poll_deliver(context)).await {
            Ok(()) => Ok(true),
            Err(StreamError::Ended { code: CANCELLED }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`Stream::reset`].
    pub fn reset(&self, code: u64) {
        self.lock().reset(code);
    }

    fn poll_read(&self, place: &mut [u8], context: &mut Context<'_>) -> Poll<Result<usize, Fault>> {
        let mut place = ReadBuf::new(place);
        let read = ready!(Pin::new(&mut *self.lock()).poll_read(context, &mut place));
        Poll::Ready(read.map(|()| place.filled().len()).map_err(|error| Fault::of_stream(&error)))
    }

    fn lock(&self) -> MutexGuard<'_, Stream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
