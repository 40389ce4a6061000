//! Frames on a stream, and the task that writes them.
//!
//! The inbox is read by whoever has it; the outbox is a queue, bounded in bytes, to a task that
//! writes as much as there is with one call. When the last outbox is dropped, the task sends what
//! waits and says goodbye. When the inbox is dropped, the channel ends at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rhumb_wire::{Name, Role};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsStream;

use crate::{ChannelError, KEEP_ALIVE, Protocol, SILENCE, SendError, credentials};

/// A channel to a name.
#[derive(Debug)]
pub struct Channel {
    /// Who is at the other end.
    pub peer: Name,
    /// What that name is for.
    pub peer_role: Role,
    /// A secret of this channel's two ends that is of no other channel (RFC 9266): what is
    /// proven about it is proven about whoever is at the other end, and not passed on to him.
    pub binding: [u8; BINDING_LEN],
    /// Where.
    pub address: SocketAddr,
    /// What is spoken.
    pub protocol: Protocol,
    /// What comes.
    pub inbox: Inbox,
    /// What goes.
    pub outbox: Outbox,
}

impl Channel {
    /// Begins to write. To be called in a runtime. `first` is a frame that goes ahead.
    pub(crate) fn start(
        stream: TlsStream<TcpStream>,
        address: SocketAddr,
        protocol: Protocol,
        first: Option<Vec<u8>>,
    ) -> Result<Self, ChannelError> {
        let (peer, metadata) = credentials::proven(stream.get_ref().1.peer_certificates())?;
        let binding = match &stream {
            TlsStream::Client(it) => it.get_ref().1.export_keying_material(EMPTY, LABEL, None),
            TlsStream::Server(it) => it.get_ref().1.export_keying_material(EMPTY, LABEL, None),
        }?;
        let (reader, writer) = tokio::io::split(stream);
        let (frames, queue) = mpsc::unbounded_channel();
        let (failed, failure) = oneshot::channel();
        let capacity = protocol.max_queue.max(protocol.max_sent + FRAME_HEAD_LEN);
        let task = tokio::spawn(async move {
            if let Err(error) = write(writer, queue, first).await {
                // Whoever reads may be gone.
                let _ = failed.send(error);
            }
        });
        Ok(Self {
            peer,
            peer_role: metadata.role,
            binding,
            address,
            protocol,
            inbox: Inbox {
                reader,
                buffer: Vec::new(),
                start: 0,
                max_received: protocol.max_received,
                failure: Some(failure),
                writer: task.abort_handle(),
            },
            outbox: Outbox {
                frames,
                room: Arc::new(Semaphore::new(capacity)),
                max_sent: protocol.max_sent,
                capacity,
            },
        })
    }
}

/// What comes over a channel. Dropping it ends the channel.
#[derive(Debug)]
pub struct Inbox {
    reader: ReadHalf<TlsStream<TcpStream>>,
    buffer: Vec<u8>,
    /// Where in the buffer the next frame begins.
    start: usize,
    max_received: usize,
    failure: Option<oneshot::Receiver<ChannelError>>,
    writer: AbortHandle,
}

impl Inbox {
    /// The next message. May be dropped before it is done and called again: nothing is lost.
    ///
    /// # Errors
    ///
    /// Why the channel has ended: [`ChannelError::Closed`] is a
    /// goodbye. There are no further messages then.
    pub async fn next(&mut self) -> Result<Vec<u8>, ChannelError> {
        loop {
            match self.take_frame()? {
                Some(frame) if frame.is_empty() => {}
                Some(frame) => return Ok(frame),
                None => self.read().await?,
            }
        }
    }

    /// Waits for the frame that says that we are admitted.
    pub(crate) async fn wait_for_welcome(&mut self) -> Result<(), ChannelError> {
        loop {
            match self.take_frame()? {
                Some(frame) if frame.is_empty() => return Ok(()),
                Some(_) => return Err(ChannelError::Cut),
                None => self.read().await?,
            }
        }
    }

    /// Takes a frame out of the buffer, if it is there whole.
    fn take_frame(&mut self) -> Result<Option<Vec<u8>>, ChannelError> {
        let waiting = &self.buffer[self.start..];
        let Some((head, rest)) = waiting.split_first_chunk::<FRAME_HEAD_LEN>() else {
            return Ok(None);
        };
        let len = u32::from_le_bytes(*head) as usize;
        if len > self.max_received {
            return Err(ChannelError::FrameTooLong { len, most: self.max_received });
        }
        let Some(frame) = rest.get(..len) else { return Ok(None) };
        let frame = frame.to_vec();
        self.start += FRAME_HEAD_LEN + len;
        Ok(Some(frame))
    }

    /// Reads more into the buffer, which grows with what has come, not with what is announced.
    async fn read(&mut self) -> Result<(), ChannelError> {
        self.buffer.drain(..self.start);
        self.start = 0;
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_CAPACITY {
            self.buffer = Vec::new();
        }
        self.buffer.reserve(READ_LEN);
        let read = timeout(SILENCE, self.reader.read_buf(&mut self.buffer));
        let outcome = match &mut self.failure {
            None => read.await,
            Some(failure) => tokio::select! {
                outcome = read => outcome,
                failed = failure => {
                    self.failure = None;
                    // Without a failure it is done writing, and we may still be told something.
                    return failed.map_or(Ok(()), Err);
                }
            },
        };
        match outcome {
            Err(_) => Err(ChannelError::Silent),
            Ok(Ok(0)) if self.buffer.is_empty() => Err(ChannelError::Closed),
            Ok(Ok(0)) => Err(ChannelError::Cut),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.into()),
        }
    }

    /// Waits until the peer has ended the channel, too, for at most `patience`. To be called when
    /// all outboxes are dropped, so that what they still hold arrives.
    pub async fn finish(mut self, patience: Duration) {
        let _ = timeout(patience, async { while self.next().await.is_ok() {} }).await;
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

/// What goes over a channel.
#[derive(Debug, Clone)]
pub struct Outbox {
    frames: mpsc::UnboundedSender<Queued>,
    room: Arc<Semaphore>,
    max_sent: usize,
    capacity: usize,
}

/// A frame that waits, and the room it takes.
type Queued = (Vec<u8>, OwnedSemaphorePermit);

impl Outbox {
    /// Sends a message, if there is room for it to wait. An empty one
    /// arrives nowhere: it only says that we are there.
    ///
    /// # Errors
    ///
    /// [`SendError::Full`] if there is none; then whoever reads at the other end is too slow.
    pub fn try_send(&self, message: Vec<u8>) -> Result<(), SendError> {
        let cost = self.cost(&message)?;
        let permit = Arc::clone(&self.room).try_acquire_many_owned(cost);
        let permit = permit.map_err(|_| {
            if self.frames.is_closed() { SendError::Closed } else { SendError::Full }
        })?;
        self.frames.send((message, permit)).map_err(|_| SendError::Closed)
    }

    /// Sends a message as soon as there is room for it to wait.
    ///
    /// # Errors
    ///
    /// [`SendError::Closed`], [`SendError::TooLong`].
    pub async fn send(&self, message: Vec<u8>) -> Result<(), SendError> {
        let cost = self.cost(&message)?;
        let permit = tokio::select! {
            permit = Arc::clone(&self.room).acquire_many_owned(cost) => permit,
            () = self.frames.closed() => return Err(SendError::Closed),
        };
        let permit = permit.map_err(|_| SendError::Closed)?;
        self.frames.send((message, permit)).map_err(|_| SendError::Closed)
    }

    /// Bytes that wait to be sent.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.capacity - self.room.available_permits()
    }

    fn cost(&self, message: &[u8]) -> Result<u32, SendError> {
        if message.len() > self.max_sent {
            return Err(SendError::TooLong);
        }
        u32::try_from(message.len() + FRAME_HEAD_LEN).map_err(|_| SendError::TooLong)
    }
}

async fn write(
    mut writer: WriteHalf<TlsStream<TcpStream>>,
    mut queue: mpsc::UnboundedReceiver<Queued>,
    first: Option<Vec<u8>>,
) -> Result<(), ChannelError> {
    let mut buffer = Vec::new();
    // Rooms are given back when their frames are written.
    let mut permits = Vec::new();
    let mut next = first.map(|frame| (frame, None));
    loop {
        if next.is_none() {
            next = match timeout(KEEP_ALIVE, queue.recv()).await {
                Ok(Some((frame, permit))) => Some((frame, Some(permit))),
                Ok(None) => break,
                Err(_) => Some((Vec::new(), None)),
            };
        }
        while let Some((frame, permit)) = next.take() {
            // Bounded by the protocol's longest message, which a length of 4 bytes has room for.
            buffer.extend_from_slice(&(frame.len() as u32).to_le_bytes());
            buffer.extend_from_slice(&frame);
            permits.extend(permit);
            if buffer.len() < WRITE_LEN {
                next = queue.try_recv().ok().map(|(frame, permit)| (frame, Some(permit)));
            }
        }
        within_stall(async {
            writer.write_all(&buffer).await?;
            writer.flush().await
        })
        .await?;
        buffer.clear();
        buffer.shrink_to(KEPT_CAPACITY);
        permits.clear();
    }
    within_stall(writer.shutdown()).await
}

async fn within_stall(work: impl Future<Output = std::io::Result<()>>) -> Result<(), ChannelError> {
    match timeout(STALL_TIMEOUT, work).await {
        Ok(outcome) => outcome.map_err(ChannelError::from),
        Err(_) => Err(ChannelError::Stalled),
    }
}

/// Bytes of a channel's binding.
pub const BINDING_LEN: usize = 32;
const EMPTY: [u8; BINDING_LEN] = [0; BINDING_LEN];
/// Source: RFC 9266, section 2.
const LABEL: &[u8] = b"EXPORTER-Channel-Binding";
/// The length before each frame.
pub const FRAME_HEAD_LEN: usize = 4;
/// Who takes nothing for so long has stopped reading.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(15);
/// What one TLS record holds at most.
const READ_LEN: usize = 16 << 10;
/// Frames are gathered up to this many bytes, so that many small ones cost few records and calls.
const WRITE_LEN: usize = 64 << 10;
/// A buffer that a long frame made larger is given back.
const KEPT_CAPACITY: usize = 256 << 10;
