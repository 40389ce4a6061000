//! Files under way: the transfer state machines of
//! [`crate::transfer`] between the core and the files.
//!
//! A transfer is told apart by its peer's proven name, the name at this end, and its identifier
//! together; the identifier alone is the sender's choice. Files are read and written here, on the
//! node's own thread, so that a slow disk slows down nobody else.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use rhumb_trust::{Now, Standing};
use rhumb_wire::nack::Reason;
use rhumb_wire::payload::{PayloadHeader, PayloadKind};
use rhumb_wire::transfer::{CancelReason, Message, MessageBody, Offer, TransferId};
use rhumb_wire::{Batch, Name};
use tokio::sync::oneshot;

use crate::core::{Arrival, Core, DropReason};
use crate::senders::{Refusal, Senders, Wanted};
use crate::transfer::{
    Event, ReadAt, Receiver, ReceiverConfig, Sender, SenderConfig, SenderCounts, TransferError,
    WriteAt,
};

/// What is told of a file that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendReport {
    /// Bytes of the file.
    pub bytes: u64,
    /// From the first offer to the receiver's verdict.
    pub elapsed: Duration,
    /// The path's round-trip time as the transfer estimated it.
    pub round_trip: Duration,
    /// What was sent for it, since it was begun for the last time.
    pub counts: SenderCounts,
    /// How often it was begun again, because the receiver knew nothing of it any more.
    pub restarts: u32,
}

/// What is told of a file that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiveReport {
    /// Who sent it.
    pub from: Name,
    /// Who it was for: the node, or a name that it serves.
    pub to: Name,
    /// What they call it: one plain file name.
    pub file_name: String,
    /// Its bytes.
    pub bytes: u64,
    /// The SHA-256 of what was received, which is what was offered.
    pub sha256: [u8; 32],
    /// From the offer to the last byte.
    pub elapsed: Duration,
}

/// A file to send.
pub(crate) struct Shipment {
    pub(crate) to: Name,
    pub(crate) id: TransferId,
    pub(crate) offer: Offer,
    pub(crate) source: AnySource,
    pub(crate) progress: Progress,
    pub(crate) done: oneshot::Sender<Result<SendReport, TransferError>>,
}

/// Readiness for one file.
pub(crate) struct Reception {
    pub(crate) config: ReceiverConfig,
    pub(crate) open: Open,
    pub(crate) progress: Progress,
    pub(crate) done: oneshot::Sender<Result<ReceiveReport, TransferError>>,
}

/// Told how many bytes have arrived.
pub(crate) type Progress = Box<dyn FnMut(u64) + Send>;
/// Decides about an offer of a name.
pub(crate) type Open = Box<dyn FnMut(Name, &Offer) -> Result<AnySink, CancelReason> + Send>;

/// Any file to send.
pub(crate) struct AnySource(pub(crate) Box<dyn ReadAt + Send>);
/// Any place for a file.
pub(crate) struct AnySink(pub(crate) Box<dyn WriteAt + Send>);

/// All transfers of a node.
#[derive(Default)]
pub(super) struct Transfers {
    departures: HashMap<Key, Departure>,
    arrivals: HashMap<Key, Incoming>,
    receptions: VecDeque<Reception>,
    /// What was declined because of who offered it.
    refusals: VecDeque<Refusal>,
    /// Transfers that others go on with, and we know nothing of: they are to be told.
    unknown: Vec<Key>,
    /// One message at a time is put together here, after its payload header.
    payload: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    peer: Name,
    /// This end: the node, or a name that it serves.
    local: Name,
    id: TransferId,
}

struct Departure {
    sender: Sender<AnySource>,
    bytes: u64,
    began_at: Instant,
    progress: Progress,
    restarts: u32,
    /// The receiver knows nothing of it: it is to be begun again.
    is_forgotten: bool,
    done: Option<oneshot::Sender<Result<SendReport, TransferError>>>,
}

struct Incoming {
    receiver: Receiver<AnySink>,
    began_at: Instant,
    progress: Progress,
    is_strangers: bool,
    done: Option<oneshot::Sender<Result<ReceiveReport, TransferError>>>,
}

impl Transfers {
    pub(super) fn ship(&mut self, shipment: Shipment, core: &Core, now: Now) {
        let Shipment { to, id, offer, source, progress, done } = shipment;
        let bytes = offer.length;
        let config =
            SenderConfig { max_body_len: core.max_body_len(to, now), ..SenderConfig::default() };
        let sender = Sender::new(id, offer, source, &config, now.instant);
        let departure = Departure {
            sender,
            bytes,
            began_at: now.instant,
            progress,
            restarts: 0,
            is_forgotten: false,
            done: Some(done),
        };
        let key = Key { peer: to, local: core.name(), id };
        self.departures.insert(key, departure);
    }

    pub(super) fn expect(&mut self, reception: Reception) {
        self.receptions.push_back(reception);
    }

    /// Takes a transfer message.
    pub(super) fn handle(
        &mut self,
        arrival: &Arrival<'_>,
        senders: &Senders,
        now: Now,
    ) -> Result<(), DropReason> {
        let message = Message::parse(arrival.body).map_err(|_| DropReason::Malformed)?;
        let key = Key { peer: arrival.from, local: arrival.to, id: message.id };
        if let Some(incoming) = self.arrivals.get_mut(&key) {
            incoming.receiver.handle_message(&message, now.instant);
            return Ok(());
        }
        if let Some(departure) = self.departures.get_mut(&key) {
            departure.sender.handle_message(&message, now.instant);
            return Ok(());
        }
        match message.body {
            MessageBody::Offer(offer) => self.handle_offer(key, offer, senders, now),
            // Its receiver was another process, or another server of this name.
            MessageBody::Chunk(_) if self.unknown.len() < MAX_UNKNOWN => {
                if !self.unknown.contains(&key) {
                    self.unknown.push(key);
                }
                Err(DropReason::UnknownTransfer)
            }
            _ => Err(DropReason::UnknownTransfer),
        }
    }

    /// Takes an offer, if someone waits for a file. If not, its sender will repeat it.
    fn handle_offer(
        &mut self,
        key: Key,
        offer: Offer,
        senders: &Senders,
        now: Now,
    ) -> Result<(), DropReason> {
        let standing = senders.standing(&key.peer);
        if standing == Standing::Refused {
            return self.decline(key, offer, now);
        }
        while self.receptions.front().is_some_and(|reception| reception.done.is_closed()) {
            self.receptions.pop_front();
        }
        let is_strangers = standing == Standing::Stranger;
        if self.arrivals.len() >= MAX_ARRIVALS || (is_strangers && !self.has_place(senders)) {
            return Err(DropReason::UnknownTransfer);
        }
        let mut reception = self.receptions.pop_front().ok_or(DropReason::UnknownTransfer)?;
        let mut taken = false;
        let receiver = Receiver::new(key.id, offer, &reception.config, now.instant, |offer| {
            let sink = (reception.open)(key.peer, offer);
            taken = sink.is_ok();
            sink
        });
        let (progress, done) = if taken {
            let Reception { progress, done, .. } = reception;
            (progress, Some(done))
        } else {
            // The refusal is still to be said, and whoever waits goes on waiting for another file.
            self.receptions.push_front(reception);
            (Box::new(|_| ()) as Progress, None)
        };
        let began_at = now.instant;
        let incoming = Incoming { receiver, began_at, progress, is_strangers, done };
        self.arrivals.insert(key, incoming);
        Ok(())
    }

    /// Tells who may not send here that the file is declined, if there is room to say so. One who
    /// only hears nothing would go on offering it.
    fn decline(&mut self, key: Key, offer: Offer, now: Now) -> Result<(), DropReason> {
        if self.refusals.len() < MAX_DECLINED {
            let wanted =
                Wanted::File { name: offer.name.as_str().to_owned(), length: offer.length };
            self.refusals.push_back(Refusal { from: key.peer, to: key.local, wanted });
        }
        if self.arrivals.values().filter(|it| it.done.is_none()).count() < MAX_DECLINED {
            let config = ReceiverConfig::default();
            let open = |_: &Offer| Err(CancelReason::Declined);
            let receiver = Receiver::new(key.id, offer, &config, now.instant, open);
            let (progress, began_at) = (Box::new(|_| ()) as Progress, now.instant);
            let incoming =
                Incoming { receiver, began_at, progress, is_strangers: true, done: None };
            self.arrivals.insert(key, incoming);
        }
        Err(DropReason::SenderRefused)
    }

    /// Whether one more stranger may send a file: where somebody is admitted, a quarter of the
    /// places are not for strangers, and they never fill the table.
    fn has_place(&self, senders: &Senders) -> bool {
        if !senders.admits_somebody() {
            return true;
        }
        let under_way = self.arrivals.values().filter(|it| it.done.is_some()).count();
        let by_strangers = self.arrivals.values().filter(|it| it.is_strangers);
        let (all, strangers) = by_strangers
            .fold((0, 0), |(all, going), it| (all + 1, going + usize::from(it.done.is_some())));
        let places = self.receptions.len() + under_way;
        all < MAX_ARRIVALS / 2 && strangers < places - places / 4
    }

    /// What was declined next because of who offered it.
    pub(super) fn poll_refusal(&mut self) -> Option<Refusal> {
        self.refusals.pop_front()
    }

    /// Takes a NACK about something that was sent to `to`.
    pub(super) fn handle_nack(&mut self, to: Name, reason: Reason, now: Now) {
        for (_, departure) in self.departures.iter_mut().filter(|(key, _)| key.peer == to) {
            departure.sender.handle_nack(reason, now.instant);
        }
        for (_, incoming) in self.arrivals.iter_mut().filter(|(key, _)| key.peer == to) {
            incoming.receiver.handle_nack(reason, now.instant);
        }
    }

    /// Appends what the transfers want sent, a bounded number of messages of each;
    /// says whether there may be more. While no router is joined, what they want sent
    /// is lost: they notice, and give up in time.
    pub(super) fn transmit(&mut self, core: &mut Core, out: &mut Batch, now: Now) -> bool {
        let mut more = false;
        for key in std::mem::take(&mut self.unknown) {
            let body = MessageBody::Cancel(CancelReason::Unknown);
            let mut last_word = Some(Message { id: key.id, body });
            pump(&mut self.payload, core, &key, out, now, |payload| {
                last_word.take().is_some_and(|word| {
                    word.emit(payload);
                    true
                })
            });
        }
        for (key, incoming) in &mut self.arrivals {
            more |= pump(&mut self.payload, core, key, out, now, |payload| {
                incoming.receiver.poll_transmit(now.instant, payload)
            });
        }
        for (key, departure) in &mut self.departures {
            if core.is_joined() {
                departure.sender.fit(core.max_body_len(key.peer, now));
            }
            more |= pump(&mut self.payload, core, key, out, now, |payload| {
                departure.sender.poll_transmit(now.instant, payload)
            });
        }
        more
    }

    /// Tells what came of the transfers, stops those nobody
    /// waits for, and forgets those that are closed.
    pub(super) fn settle(&mut self, now: Now) {
        let mut forgotten = Vec::new();
        self.departures.retain(|key, departure| {
            departure.settle(now.instant);
            if departure.is_forgotten {
                forgotten.push(*key);
            }
            departure.is_forgotten || !departure.sender.is_closed()
        });
        for key in forgotten {
            if let Some(departure) = self.departures.remove(&key) {
                self.begin_again(key, departure, now.instant);
            }
        }
        self.arrivals.retain(|key, incoming| {
            incoming.settle(key, now.instant);
            !incoming.receiver.is_closed()
        });
    }

    /// Offers a file once more, under another identifier: what the
    /// former receiver still says is not about this.
    fn begin_again(&mut self, key: Key, departure: Departure, now: Instant) {
        let mut id = [0; 8];
        if rand::fill(&mut id).is_err() {
            departure.end(Err(TransferError::Stopped));
            return;
        }
        let id = TransferId(u64::from_be_bytes(id));
        let sender = departure.sender.begin_again(id, now);
        let restarts = departure.restarts + 1;
        let departure = Departure { sender, restarts, is_forgotten: false, ..departure };
        self.departures.insert(Key { id, ..key }, departure);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let departures = self.departures.values().filter_map(|it| it.sender.poll_timeout());
        let arrivals = self.arrivals.values().filter_map(|it| it.receiver.poll_timeout());
        departures.chain(arrivals).min()
    }

    /// Whether no transfer has anything left to say.
    pub(super) fn is_empty(&self) -> bool {
        self.departures.is_empty() && self.arrivals.is_empty()
    }

    /// Stops everything.
    pub(super) fn cancel(&mut self, now: Now) {
        self.receptions.clear();
        for departure in self.departures.values_mut().filter(|it| it.done.is_some()) {
            departure.sender.cancel(now.instant);
        }
        for incoming in self.arrivals.values_mut().filter(|it| it.done.is_some()) {
            incoming.receiver.cancel(now.instant);
        }
    }
}

impl Departure {
    fn end(self, result: Result<SendReport, TransferError>) {
        if let Some(done) = self.done {
            let _ = done.send(result);
        }
    }

    fn settle(&mut self, now: Instant) {
        if self.done.as_ref().is_some_and(oneshot::Sender::is_closed) {
            self.done = None;
            self.sender.cancel(now);
        }
        while let Some(event) = self.sender.poll_event() {
            let result = match event {
                Event::Progress { bytes } => {
                    (self.progress)(bytes);
                    continue;
                }
                Event::Completed => Ok(SendReport {
                    bytes: self.bytes,
                    elapsed: now.saturating_duration_since(self.began_at),
                    round_trip: self.sender.round_trip(),
                    counts: self.sender.counts(),
                    restarts: self.restarts,
                }),
                Event::Failed(TransferError::EndedByPeer(CancelReason::Unknown))
                    if self.restarts < MAX_RESTARTS && self.done.is_some() =>
                {
                    self.is_forgotten = true;
                    continue;
                }
                Event::Failed(error) => Err(error),
            };
            if let Some(done) = self.done.take() {
                let _ = done.send(result);
            }
        }
    }
}

impl Incoming {
    fn settle(&mut self, key: &Key, now: Instant) {
        if self.done.as_ref().is_some_and(oneshot::Sender::is_closed) {
            self.done = None;
            self.receiver.cancel(now);
        }
        while let Some(event) = self.receiver.poll_event() {
            let offer = self.receiver.offer();
            let result = match event {
                Event::Progress { bytes } => {
                    (self.progress)(bytes);
                    continue;
                }
                Event::Completed => Ok(ReceiveReport {
                    from: key.peer,
                    to: key.local,
                    file_name: offer.name.as_str().to_owned(),
                    bytes: offer.length,
                    sha256: offer.sha256,
                    elapsed: now.saturating_duration_since(self.began_at),
                }),
                Event::Failed(error) => Err(error),
            };
            if let Some(done) = self.done.take() {
                let _ = done.send(result);
            }
        }
    }
}

/// Moves messages of one transfer into `out`; says whether it stopped at the limit.
fn pump(
    payload: &mut Vec<u8>,
    core: &mut Core,
    key: &Key,
    out: &mut Batch,
    now: Now,
    mut next: impl FnMut(&mut Vec<u8>) -> bool,
) -> bool {
    let header = PayloadHeader { kind: PayloadKind::Transfer, port: TRANSFER_PORT }.emit();
    for _ in 0..MESSAGES_PER_TURN {
        payload.clear();
        payload.extend_from_slice(&header);
        if !next(payload) {
            return false;
        }
        // What does not fit, or finds no session, is lost
        // like any datagram: the transfer will notice.
        let _ = core.send_unkept_as(key.local, key.peer, payload, out, now);
    }
    true
}

impl ReadAt for AnySource {
    fn read_exact_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(offset, buffer)
    }
}

impl ReadAt for AnySink {
    fn read_exact_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(offset, buffer)
    }
}

impl WriteAt for AnySink {
    fn write_all_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(offset, bytes)
    }
}

/// Transfers have one port: a node has one place where files arrive.
const TRANSFER_PORT: u16 = 0;
/// Files that arrive at once, those just declined included: what strangers can make a node hold.
const MAX_ARRIVALS: usize = 64;
/// Files at once whose senders are told that they may not send here.
const MAX_DECLINED: usize = 16;
/// Senders that are told in one turn that their transfers
/// are unknown; the others are told in the next.
const MAX_UNKNOWN: usize = 16;
/// A name moves seldom, and a receiver that forgets again and again will never have the file.
const MAX_RESTARTS: u32 = 8;
/// Messages of one transfer between two looks at the socket: two full
/// runs of segments at the default datagram size.
const MESSAGES_PER_TURN: usize = 90;
