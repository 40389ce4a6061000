//! The load, the same for every contestant: messages of one size, as many under way as a window
//! allows (closed loop) or at a given rate (open loop). Client and server are one thread with two
//! sockets, so that they need one core.
//!
//! The ends do all that ends have to: those of a tunnel are processes of
//! their own, members of ours seal and open here.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rhumb_stream::Carrier;
use rhumb_trust::Now;
use rhumb_wire::Batch;

use crate::member::{self, Form, Member};

/// How messages are offered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pace {
    /// So many under way at a time.
    Closed(u64),
    /// So many a second, whatever arrives.
    Open(f64),
}

/// What came of a slice of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Slice {
    pub(crate) sent: u64,
    pub(crate) arrived: u64,
    /// From the first one sent to the last one received.
    pub(crate) wall: Duration,
    /// From the call that sends a message until the server has it.
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

impl Slice {
    pub(crate) fn per_s(&self) -> f64 {
        self.arrived as f64 / self.wall.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Share of the messages sent that did not arrive.
    pub(crate) fn lost(&self) -> f64 {
        1.0 - self.arrived as f64 / self.sent.max(1) as f64
    }
}

/// Whatever offers messages to a contestant.
pub(crate) trait Load {
    /// Offers messages of `payload` bytes for that `time`.
    fn run(&mut self, payload: usize, pace: Pace, time: Duration) -> Result<Slice, String>;
}

/// Datagrams between two sockets, or frames on their streams.
pub(crate) struct Datagrams {
    pub(crate) source: Carrier,
    pub(crate) sink: Carrier,
    pub(crate) to: SocketAddr,
    pub(crate) ends: Ends,
    /// Which slice a message belongs to: what comes too late is not counted for the next.
    slice: u64,
    begin: Instant,
}

/// What is done to a message at either end.
pub(crate) enum Ends {
    /// Nothing: the tunnel's ends do it, or nobody.
    Plain,
    /// The production link seals and opens, as a node does.
    Members { source: Box<Member>, sink: Box<Member> },
}

impl Datagrams {
    pub(crate) fn new(source: Carrier, sink: Carrier, to: SocketAddr, ends: Ends) -> Self {
        Self { source, sink, to, ends, slice: 0, begin: Instant::now() }
    }

    fn stamp(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn send(&mut self, batch: &mut Batch, data: &mut [u8], count: u64) -> Result<(), String> {
        let now = member::now();
        batch.clear();
        data[..8].copy_from_slice(&self.slice.to_le_bytes());
        data[8..16].copy_from_slice(&self.stamp().to_le_bytes());
        for _ in 0..count {
            match &mut self.ends {
                Ends::Plain => batch.push(self.to, data),
                Ends::Members { source, sink } => {
                    source.push_data(batch, self.to, (sink.name(), Form::Labels), data, now);
                }
            }
        }
        self.source.send(batch).map_err(|error| format!("sending: {error}"))?;
        Ok(())
    }

    /// Takes what has arrived, and appends the time that each
    /// took, in nanoseconds. Whether anything came.
    fn receive(
        &mut self,
        batch: &mut Batch,
        payload: usize,
        took: &mut Vec<u64>,
    ) -> Result<bool, String> {
        let received = self.sink.receive(batch).map_err(|error| format!("receiving: {error}"))?;
        let (stamp, now) = (self.stamp(), member::now());
        for slot in 0..received {
            let datagram = batch.datagram_mut(slot).1;
            let Some(data) = self.ends.open(datagram, now) else { continue };
            if data.len() == payload && u64_at(data, 0) == self.slice {
                took.push(stamp.saturating_sub(u64_at(data, 8)));
            }
        }
        Ok(received > 0)
    }

    /// Lets the ends do what is due by the clock.
    fn maintain(&mut self, batch: &mut Batch) -> Result<(), String> {
        let Ends::Members { source, sink } = &mut self.ends else { return Ok(()) };
        for (member, socket) in [(source, &mut self.source), (sink, &mut self.sink)] {
            let received = socket.receive(batch).map_err(|error| format!("receiving: {error}"))?;
            for slot in 0..received {
                // Late data of a known flow is for nobody any more.
                let datagram = batch.datagram_mut(slot).1;
                member.handle(datagram, member::now());
            }
            batch.clear();
            member.transmit(batch, member::now());
            member.keep_alive(batch, member::now());
            socket.send(batch).map_err(|error| format!("sending: {error}"))?;
        }
        Ok(())
    }
}

impl Load for Datagrams {
    fn run(&mut self, payload: usize, pace: Pace, time: Duration) -> Result<Slice, String> {
        self.slice += 1;
        let (mut out, mut incoming) = (Batch::new(), Batch::new());
        self.maintain(&mut out)?;
        let mut data = vec![0x5A; payload];
        let mut took = Vec::new();
        let (mut sent, mut given_up) = (0_u64, 0_u64);
        let begin = Instant::now();
        let (mut last_arrival, mut patient_since) = (begin, begin);
        loop {
            let elapsed = begin.elapsed();
            let is_over = elapsed >= time;
            let under_way = sent.saturating_sub(took.len() as u64 + given_up);
            if is_over && under_way == 0 {
                break;
            }
            let due = if is_over { 0 } else { pace.due(sent, under_way, elapsed) };
            if due > 0 {
                self.send(&mut out, &mut data, due)?;
                sent += due;
            }
            if self.receive(&mut incoming, payload, &mut took)? {
                last_arrival = Instant::now();
                patient_since = last_arrival;
            } else if patient_since.elapsed() > PATIENCE {
                // What is under way now will not come any more.
                given_up = sent - (took.len() as u64).min(sent);
                patient_since = Instant::now();
            } else if due == 0 {
                let until_due =
                    pace.next(sent).filter(|_| !is_over).unwrap_or(begin.elapsed() + PATIENCE);
                let wait = until_due.saturating_sub(begin.elapsed()).min(PATIENCE);
                self.sink.wait(Some(wait), None).map_err(|error| format!("waiting: {error}"))?;
            }
        }
        let [p50, p99] = percentiles(&mut took);
        Ok(Slice { sent, arrived: took.len() as u64, wall: last_arrival - begin, p50, p99 })
    }
}

impl Pace {
    /// How many messages to send now, at most a batch.
    fn due(self, sent: u64, under_way: u64, elapsed: Duration) -> u64 {
        match self {
            Self::Closed(window) if under_way + BATCH <= window => BATCH,
            Self::Closed(_) => 0,
            Self::Open(per_s) => {
                let by_now = (elapsed.as_secs_f64() * per_s) as u64 + 1;
                by_now.saturating_sub(sent).min(BATCH)
            }
        }
    }

    /// When the next message is due, as far as the clock says.
    fn next(self, sent: u64) -> Option<Duration> {
        match self {
            Self::Closed(_) => None,
            Self::Open(per_s) => Some(Duration::from_secs_f64(sent as f64 / per_s)),
        }
    }
}

impl Ends {
    fn open<'a>(&mut self, datagram: &'a mut [u8], now: Now) -> Option<&'a [u8]> {
        match self {
            Self::Plain => Some(datagram),
            Self::Members { sink, .. } => sink.data_of(datagram, Form::Labels, now),
        }
    }
}

/// The middle of `nanoseconds`, and what 99 of 100 do not exceed; 0 when there are none.
fn percentiles(nanoseconds: &mut [u64]) -> [Duration; 2] {
    nanoseconds.sort_unstable();
    let last = nanoseconds.len().saturating_sub(1);
    [50, 99].map(|percent| {
        Duration::from_nanos(nanoseconds.get(last * percent / 100).copied().unwrap_or(0))
    })
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let field = bytes.get(at..at + 8).and_then(|field| field.try_into().ok());
    field.map_or(0, u64::from_le_bytes)
}

/// Messages under way in a closed loop, unless told otherwise. No queue on any contestant's way is
/// shorter: a tunnel device's holds 500.
pub(crate) const WINDOW: u64 = 256;
/// Messages sent at once.
const BATCH: u64 = 64;
/// After this long without an arrival, what is under way is lost. Longer than
/// others on the machine keep a thread waiting.
const PATIENCE: Duration = Duration::from_millis(200);
