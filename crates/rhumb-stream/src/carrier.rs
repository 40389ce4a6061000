//! UDP and streams as one: what a worker or a node moves its batches with.
//!
//! One turn of whoever has it: 1. [`Carrier::wait`]; 2. [`Carrier::receive`], handle, and
//! [`Carrier::send`], a few times; 3. [`Carrier::meet`], which brings the endpoint news and does
//! what it wants.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rhumb_io::udp::{Ready, UdpSocket};
use rhumb_io::{Backend, Counters, PacketIo, SendReport, Wake};
use rhumb_link::{Endpoint, LinkError, StreamNews, StreamOrder};
use rhumb_trust::{Identity, Now};
use rhumb_wire::{Batch, stream};

use crate::streams::{Settings, Streams};
use crate::{StreamCounters, StreamError};

/// What has an endpoint, seen by who carries its streams.
pub trait OnStreams {
    /// As `rhumb_link::Endpoint::handle_stream`.
    fn handle_stream(&mut self, news: StreamNews, now: Now) -> Option<SocketAddr>;
    /// As `rhumb_link::Endpoint::poll_stream_order`.
    fn poll_stream_order(&mut self) -> Option<StreamOrder>;
}

impl OnStreams for Endpoint {
    fn handle_stream(&mut self, news: StreamNews, now: Now) -> Option<SocketAddr> {
        Endpoint::handle_stream(self, news, now.instant)
    }

    fn poll_stream_order(&mut self) -> Option<StreamOrder> {
        Endpoint::poll_stream_order(self)
    }
}

/// Packet I/O with streams beside it, if there are any.
pub struct Carrier {
    io: Backend,
    streams: Option<Box<Streams>>,
    /// To start them with when the first is to be dialled.
    later: Option<Box<Later>>,
    /// Whether the streams have their turn before the socket.
    streams_next: bool,
    /// Whether a wait has just ended with nothing in the socket, so that the next receive need not
    /// ask it: that would be a call to the system for each batch of frames.
    socket_is_empty: bool,
    /// Whether the last receive took all that waited in the socket, and in the streams.
    drained: [bool; 2],
}

impl Carrier {
    /// Datagrams alone.
    pub fn new(io: impl Into<Backend>) -> Self {
        Self {
            io: io.into(),
            streams: None,
            later: None,
            streams_next: false,
            socket_is_empty: false,
            drained: [false; 2],
        }
    }

    /// Carries streams beside from now on, which prove `identity`. `wake` ends [`Carrier::wait`]
    /// when there is news. Where nobody dials in, there is no thread for them before one is to be
    /// dialled.
    ///
    /// # Errors
    /// When the key will not do, or the system gives no thread.
    pub fn carry_streams(
        &mut self,
        identity: Arc<Identity>,
        settings: Settings,
        wake: Wake,
    ) -> Result<(), StreamError> {
        let starts_now = settings.listening.is_some();
        self.later = Some(Box::new(Later { identity, settings, wake, shown: None }));
        if starts_now { self.start() } else { Ok(()) }
    }

    fn start(&mut self) -> Result<(), StreamError> {
        let Some(later) = self.later.take() else { return Ok(()) };
        let Later { identity, settings, wake, shown } = *later;
        let mut streams = Streams::start(&identity, settings, wake)?;
        if let Some(shown) = shown {
            streams.obey(shown);
        }
        self.streams = Some(Box::new(streams));
        Ok(())
    }

    /// What datagrams go by.
    pub fn io(&self) -> &Backend {
        &self.io
    }

    /// Forgets what is in the batch and fills it with what waits: datagrams, or frames of streams;
    /// each in their turn. Returns how many; 0 when none wait.
    ///
    /// # Errors
    /// When it is of no further use.
    pub fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let Some(streams) = &mut self.streams else {
            let received = self.io.receive(batch)?;
            self.drained = [self.io.is_drained(), true];
            return Ok(received);
        };
        let socket_is_empty = std::mem::take(&mut self.socket_is_empty);
        self.drained = [socket_is_empty, false];
        for _ in 0..2 {
            self.streams_next = !self.streams_next;
            let received = if self.streams_next {
                let received = streams.receive(batch)?;
                self.drained[1] = received == 0 || !streams.has_more();
                received
            } else if socket_is_empty {
                0
            } else {
                let received = self.io.receive(batch)?;
                self.drained[0] = received == 0 || self.io.is_drained();
                received
            };
            if received > 0 {
                return Ok(received);
            }
        }
        Ok(0)
    }

    /// Whether the last [`Carrier::receive`] took all that waited.
    pub fn is_drained(&self) -> bool {
        self.drained == [true; 2]
    }

    /// Sends every datagram of the batch that was not dropped: those for streams over them, and
    /// takes these out of the batch.
    ///
    /// # Errors
    /// When it is of no further use.
    pub fn send(&mut self, batch: &mut Batch) -> io::Result<SendReport> {
        if let Some(streams) = &mut self.streams {
            for slot in 0..batch.len() {
                let (to, datagram) = batch.datagram_mut(slot);
                if stream::is_address(&to) {
                    if !datagram.is_empty() {
                        streams.gather(to, datagram);
                    }
                    batch.drop_datagram(slot);
                }
            }
            streams.flush();
        }
        self.io.send(batch)
    }

    /// As `Backend::wait`, also until something comes on a stream.
    ///
    /// # Errors
    /// When it is of no further use.
    pub fn wait(&mut self, timeout: Option<Duration>, also: Option<&Wake>) -> io::Result<Ready> {
        self.socket_is_empty = false;
        match &self.streams {
            None => self.io.wait(timeout, also),
            Some(streams) if streams.has_more() => {
                let woken = also.is_some_and(Wake::take);
                Ok(Ready { readable: true, woken })
            }
            Some(streams) => {
                let ready = self.io.wait_beside(timeout, also, Some(streams.as_fd()))?;
                self.socket_is_empty = !ready.readable;
                Ok(ready)
            }
        }
    }

    /// Tells `links` what happened to streams, and does what it wants; to be called when what it
    /// had to send before was sent. Whether it was told anything, so that it may have more.
    pub fn meet(&mut self, links: &mut impl OnStreams, now: Now) -> bool {
        let mut told = false;
        for _ in 0..NEWS_A_TURN {
            let Some(streams) = &mut self.streams else { break };
            let Some((news, pending)) = streams.poll_news() else { break };
            told = true;
            let address = links.handle_stream(news, now);
            match (pending, address) {
                (Some(pending), Some(address)) => streams.adopt(pending, address),
                (Some(pending), None) => streams.decline(pending),
                (None, _) => {}
            }
        }
        while let Some(order) = links.poll_stream_order() {
            if let Some(news) = self.obey(order) {
                told = true;
                links.handle_stream(news, now);
            }
        }
        told
    }

    /// Does what the endpoint wants. What there is to tell at once, if it cannot.
    fn obey(&mut self, order: StreamOrder) -> Option<StreamNews> {
        if let (Some(later), StreamOrder::Show { .. }) = (&mut self.later, &order) {
            later.shown = Some(order);
            return None;
        }
        if matches!(order, StreamOrder::Dial { .. })
            && let Err(error) = self.start()
        {
            tracing::warn!(%error, "links go over UDP and nothing else");
        }
        match (&mut self.streams, order) {
            (Some(streams), order) => streams.obey(order),
            (None, StreamOrder::Dial { attempt, .. }) => {
                return Some(StreamNews::Failed { attempt, error: LinkError::TimedOut });
            }
            (None, _) => {}
        }
        None
    }

    /// What was done with datagrams.
    pub fn counters(&self) -> Counters {
        self.io.counters()
    }

    /// What was done with streams.
    pub fn stream_counters(&self) -> StreamCounters {
        self.streams.as_ref().map_or_else(StreamCounters::default, |streams| streams.counters())
    }

    /// The address that datagrams come to.
    pub fn local_address(&self) -> SocketAddr {
        self.io.local_address()
    }
}

impl From<UdpSocket> for Carrier {
    fn from(socket: UdpSocket) -> Self {
        Self::new(socket)
    }
}

/// What streams are started with.
struct Later {
    identity: Arc<Identity>,
    settings: Settings,
    wake: Wake,
    /// The last order to show another certificate.
    shown: Option<StreamOrder>,
}

/// News that is told before datagrams have their turn.
const NEWS_A_TURN: usize = 64;
