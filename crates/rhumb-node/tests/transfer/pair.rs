//! `Pair`: a sender and a receiver with a path between them, in
//! virtual time. The same seed gives the same run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use rhumb_node::transfer::{
    Event, MIN_BODY_LEN, ReadAt, Receiver, ReceiverConfig, Sender, SenderConfig, TransferError,
    WriteAt, sha256_of,
};
use rhumb_wire::nack::Reason;
use rhumb_wire::transfer::{CancelReason, FileName, Message, MessageBody, Offer, TransferId};

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const ID: TransferId = TransferId(0x1234_5678_9abc_def0);

/// What a path does to datagrams, the same in both directions.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub(crate) seed: u64,
    pub(crate) delay: Duration,
    /// Added to the delay, evenly distributed: reorders.
    pub(crate) jitter: Duration,
    /// Of a thousand datagrams, so many are lost, or delivered twice.
    pub(crate) loss: u64,
    pub(crate) doubling: u64,
    /// Bytes per second, and bytes that wait before more are dropped.
    pub(crate) bottleneck: Option<(u64, u64)>,
}

impl Path {
    pub(crate) fn new(delay: Duration) -> Self {
        Self { seed: 1, delay, jitter: Duration::ZERO, loss: 0, doubling: 0, bottleneck: None }
    }
}

/// What becomes of a datagram before it is on the path.
pub(crate) enum Fate {
    Forward,
    Drop,
    Refuse(Reason),
    /// Another one goes in its stead.
    Replace(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Sender,
    Receiver,
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) sender: Option<Event>,
    pub(crate) receiver: Option<Event>,
    pub(crate) elapsed: Duration,
    /// When the sender knew the outcome.
    pub(crate) told_after: Duration,
    /// Bytes of messages from the sender, and from the receiver.
    pub(crate) sent: u64,
    pub(crate) answered: u64,
}

type Open<W> = Box<dyn FnOnce(&Offer) -> Result<W, CancelReason>>;
type Switch = Box<dyn FnMut(Duration, End, &[u8]) -> Fate>;

pub(crate) struct Pair<R, W> {
    pub(crate) sender: Sender<R>,
    pub(crate) receiver: Option<Receiver<W>>,
    pub(crate) receiver_config: ReceiverConfig,
    pub(crate) path: Path,
    /// Decides over each datagram; sees the time since the start and who sends.
    pub(crate) switch: Switch,
    pub(crate) start: Instant,
    pub(crate) now: Instant,
    open: Option<Open<W>>,
    on_the_way: BinaryHeap<Reverse<Delivery>>,
    order: u64,
    free_at: [Instant; 2],
    random: Random,
    report: Report,
    progress: [u64; 2],
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Delivery {
    at: Instant,
    order: u64,
    to: End,
    content: Content,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Content {
    Message(Vec<u8>),
    Nack(Vec<u8>),
}

impl Pair<Vec<u8>, Vec<u8>> {
    pub(crate) fn in_memory(file: &[u8], path: Path) -> Self {
        Self::new(file.to_vec(), file.len() as u64, path, |_| Ok(Vec::new()))
    }

    /// Runs to the end and asserts that the file is there.
    pub(crate) fn run_and_compare(mut self, file: &[u8]) -> Report {
        let report = self.run();
        assert_eq!(report.sender, Some(Event::Completed), "{:?} {report:?}", self.path);
        assert_eq!(report.receiver, Some(Event::Completed), "{:?} {report:?}", self.path);
        assert_eq!(self.progress, [file.len() as u64; 2], "both were told of all progress");
        let received = self.receiver.and_then(Receiver::into_storage).expect("a file was received");
        assert!(received == file, "the file differs");
        report
    }
}

impl<R: ReadAt, W: WriteAt> Pair<R, W> {
    pub(crate) fn new(
        source: R,
        length: u64,
        path: Path,
        open: impl FnOnce(&Offer) -> Result<W, CancelReason> + 'static,
    ) -> Self
    where
        R: Clone,
    {
        let sha256 = sha256_of(&mut source.clone(), length).expect("the source can be read");
        let offer = Offer { length, sha256, name: FileName::new("file").expect("a good name") };
        let start = Instant::now();
        Self {
            sender: Sender::new(ID, offer, source, &SenderConfig::default(), start),
            receiver: None,
            receiver_config: ReceiverConfig::default(),
            switch: Box::new(|_, _, _| Fate::Forward),
            start,
            now: start,
            open: Some(Box::new(open)),
            on_the_way: BinaryHeap::new(),
            order: 0,
            free_at: [start; 2],
            random: Random(path.seed),
            path,
            report: Report {
                sender: None,
                receiver: None,
                elapsed: Duration::ZERO,
                told_after: Duration::ZERO,
                sent: 0,
                answered: 0,
            },
            progress: [0; 2],
        }
    }

    /// Runs until both ends are closed, or nothing more can
    /// happen, or a minute and a half has passed.
    pub(crate) fn run(&mut self) -> Report {
        self.run_until(|pair| pair.elapsed() > Duration::from_secs(90))
    }

    pub(crate) fn run_until(&mut self, mut stop: impl FnMut(&mut Self) -> bool) -> Report {
        loop {
            self.transmit();
            let receiver_closed = self.receiver.as_ref().is_none_or(Receiver::is_closed);
            if (self.sender.is_closed() && receiver_closed) || stop(self) {
                break;
            }
            let timeouts = [
                self.sender.poll_timeout(),
                self.receiver.as_ref().and_then(Receiver::poll_timeout),
                self.on_the_way.peek().map(|delivery| delivery.0.at),
            ];
            let Some(next) = timeouts.into_iter().flatten().min() else { break };
            self.now = self.now.max(next);
            self.deliver();
        }
        self.report.elapsed = self.elapsed();
        Report { ..self.report }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    /// Bytes, from the start of the file, that the receiver has told of.
    pub(crate) fn received(&self) -> u64 {
        self.progress[End::Receiver as usize]
    }

    fn transmit(&mut self) {
        let mut out = Vec::new();
        while self.sender.poll_transmit(self.now, &mut out) {
            self.report.sent += out.len() as u64;
            self.send(End::Sender, std::mem::take(&mut out));
        }
        while let Some(event) = self.sender.poll_event() {
            self.take_event(End::Sender, event);
        }
        let Some(mut receiver) = self.receiver.take() else { return };
        while receiver.poll_transmit(self.now, &mut out) {
            assert!(out.len() <= MIN_BODY_LEN);
            self.report.answered += out.len() as u64;
            self.send(End::Receiver, std::mem::take(&mut out));
        }
        while let Some(event) = receiver.poll_event() {
            self.take_event(End::Receiver, event);
        }
        self.receiver = Some(receiver);
    }

    fn take_event(&mut self, end: End, event: Event) {
        if let Event::Progress { bytes } = event {
            assert!(bytes > self.progress[end as usize], "progress goes on");
            self.progress[end as usize] = bytes;
            return;
        }
        let told = match end {
            End::Sender => &mut self.report.sender,
            End::Receiver => &mut self.report.receiver,
        };
        assert_eq!(*told, None, "the end is told once");
        *told = Some(event);
        if end == End::Sender {
            self.report.told_after = self.now - self.start;
        }
    }

    fn send(&mut self, from: End, bytes: Vec<u8>) {
        let bytes = match (self.switch)(self.now - self.start, from, &bytes) {
            Fate::Forward => bytes,
            Fate::Replace(other) => other,
            Fate::Drop => return,
            Fate::Refuse(reason) => {
                let mut nack = Vec::new();
                rhumb_wire::nack::Nack { reason, reporter: None }.emit(&mut nack);
                return self.schedule(self.now + self.path.delay, from, Content::Nack(nack));
            }
        };
        let Some(at) = self.pass_bottleneck(from, bytes.len() as u64) else { return };
        if self.random.of_a_thousand(self.path.loss) {
            return;
        }
        let to = if from == End::Sender { End::Receiver } else { End::Sender };
        if self.random.of_a_thousand(self.path.doubling) {
            let again = at + self.delay();
            self.schedule(again, to, Content::Message(bytes.clone()));
        }
        let at = at + self.delay();
        self.schedule(at, to, Content::Message(bytes));
    }

    fn pass_bottleneck(&mut self, from: End, len: u64) -> Option<Instant> {
        let Some((rate, room)) = self.path.bottleneck else { return Some(self.now) };
        let free_at = &mut self.free_at[from as usize];
        let start = (*free_at).max(self.now);
        if (start - self.now).as_secs_f64() * rate as f64 > room as f64 {
            return None;
        }
        *free_at = start + Duration::from_secs_f64(len as f64 / rate as f64);
        Some(*free_at)
    }

    fn delay(&mut self) -> Duration {
        let jitter_us = self.path.jitter.as_micros() as u64;
        self.path.delay + Duration::from_micros(self.random.below(jitter_us + 1))
    }

    fn schedule(&mut self, at: Instant, to: End, content: Content) {
        self.order += 1;
        self.on_the_way.push(Reverse(Delivery { at, order: self.order, to, content }));
    }

    fn deliver(&mut self) {
        while self.on_the_way.peek().is_some_and(|delivery| delivery.0.at <= self.now) {
            let Some(Reverse(Delivery { to, content, .. })) = self.on_the_way.pop() else { return };
            match content {
                Content::Message(bytes) => self.deliver_message(to, &bytes),
                Content::Nack(bytes) => {
                    let reason = rhumb_wire::nack::Nack::parse(&bytes).expect("was emitted").reason;
                    match (to, &mut self.receiver) {
                        (End::Sender, _) => self.sender.handle_nack(reason, self.now),
                        (End::Receiver, Some(receiver)) => receiver.handle_nack(reason, self.now),
                        (End::Receiver, None) => panic!("a NACK about nothing"),
                    }
                }
            }
        }
    }

    fn deliver_message(&mut self, to: End, bytes: &[u8]) {
        let message = Message::parse(bytes).expect("only messages travel");
        match (to, &mut self.receiver) {
            (End::Sender, _) => self.sender.handle_message(&message, self.now),
            (End::Receiver, Some(receiver)) => receiver.handle_message(&message, self.now),
            (End::Receiver, None) => {
                if let (MessageBody::Offer(offer), Some(open)) = (message.body, self.open.take()) {
                    let config = &self.receiver_config;
                    self.receiver = Some(Receiver::new(message.id, offer, config, self.now, open));
                }
            }
        }
    }
}

pub(crate) fn failed(error: TransferError) -> Option<Event> {
    Some(Event::Failed(error))
}

/// Bytes that look like nothing in particular.
pub(crate) fn file(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn of_a_thousand(&mut self, count: u64) -> bool {
        self.below(1000) < count
    }
}
