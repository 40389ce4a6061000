//! Who gets a stream on which a file is offered: whoever waits for a file, or whoever has a part of
//! this one already.
//!
//! A file is known by its content, its sender and the name that it is for. A sender that began anew
//! has another number for it, and goes on with what is under way once that is still; two that send
//! the same content beside each other are two transfers.
//!
//! Names cost nothing: offers that are not said in time, files under way, and of both those of
//! strangers are bounded in all, and strangers leave a quarter of the places to others.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rhumb_end::Admits;
use rhumb_wire::transfer::{CancelReason, FileName, Offer, TransferId};
use tokio::io::AsyncReadExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::{Offered, PORT, TransferError, WriteAt};
use crate::clock::now;
use crate::connections::{Listener, Stream};
use crate::node::Handle;

/// The files that arrive at a node, as long as somebody receives.
#[derive(Default)]
pub(crate) struct Arrivals(tokio::sync::Mutex<Latest>);

/// The reception that there is, or was last.
#[derive(Default)]
struct Latest {
    reception: Weak<Reception>,
    /// Has the port until it has ended, which is a little later than its reception.
    listening: Option<JoinHandle<()>>,
}

/// Listens for offers until it is dropped.
pub(super) struct Reception {
    desk: Arc<Desk>,
    listening: AbortHandle,
}

/// Who waits, and who has begun.
#[derive(Default)]
pub(super) struct Desk(Mutex<Book>);

#[derive(Default)]
struct Book {
    seats: VecDeque<Seat>,
    under_way: HashMap<u64, UnderWay>,
    /// The number of the next one under way.
    next: u64,
    /// The node has ended: nothing arrives any more.
    is_over: bool,
}

/// One who waits for a file.
pub(super) struct Seat {
    pub(super) open: Open,
    pub(super) given: oneshot::Sender<Arrival>,
}

/// Decides about an offer.
pub(super) type Open = Box<dyn FnMut(&Offered) -> Result<AnySink, CancelReason> + Send>;
/// Any place for a file.
pub(super) type AnySink = Box<dyn WriteAt + Send>;

/// A file that was offered and taken.
pub(super) struct Arrival {
    pub(super) stream: Stream,
    pub(super) sink: AnySink,
    pub(super) offered: Offered,
    /// More streams of the same file.
    pub(super) again: mpsc::Receiver<Again>,
    pub(super) pulse: Arc<Pulse>,
    /// Its place, until this is dropped.
    pub(super) place: Place,
}

/// Another stream of a file that is under way.
pub(super) struct Again {
    pub(super) stream: Stream,
    /// What its sender calls it now.
    pub(super) name: FileName,
}

struct UnderWay {
    id: TransferId,
    offered: Offered,
    again: mpsc::Sender<Again>,
    pulse: Arc<Pulse>,
    is_strangers: bool,
}

/// When something arrived last; nothing while another stream is welcome.
pub(super) struct Pulse(Mutex<Option<Instant>>);

/// A file's place among those under way.
pub(super) struct Place {
    number: u64,
    desk: Arc<Desk>,
}

impl Arrivals {
    /// The reception that there is, or a new one: for whom `admits` says from now on.
    pub(super) async fn open(
        &self,
        handle: &Handle,
        admits: Admits,
    ) -> Result<Arc<Reception>, TransferError> {
        let mut latest = self.0.lock().await;
        if let Some(reception) = latest.reception.upgrade() {
            handle.connections().admit_streams(PORT, admits);
            return Ok(reception);
        }
        if let Some(listening) = &mut latest.listening {
            // Whoever received last has gone, and what listened for him may not know yet.
            listening.abort();
            let _ = listening.await;
            latest.listening = None;
        }
        let listener = Listener::open(handle, PORT, admits);
        let listener = listener.map_err(|_| TransferError::Stopped)?;
        let desk = Arc::new(Desk::default());
        let listening = tokio::spawn(listen(listener, Arc::clone(&desk)));
        let reception = Arc::new(Reception { desk, listening: listening.abort_handle() });
        let listening = Some(listening);
        *latest = Latest { reception: Arc::downgrade(&reception), listening };
        Ok(reception)
    }
}

impl Drop for Reception {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Reception {
    pub(super) fn wait(&self, seat: Seat) {
        let mut book = self.desk.book();
        // Whoever waits is told by the end of his seat.
        if !book.is_over {
            book.seats.push_back(seat);
        }
    }
}

async fn listen(mut listener: Listener, desk: Arc<Desk>) {
    let (places, of_strangers) = (Semaphore::new(OFFERS), Semaphore::new(STRANGERS_OFFERS));
    let (places, of_strangers) = (Arc::new(places), Arc::new(of_strangers));
    let mut talks = JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Some(stream) => stream,
                None => break,
            },
            Some(_) = talks.join_next() => continue,
        };
        let is_strangers = stream.is_strangers();
        let kind = if is_strangers { &of_strangers } else { &places };
        match Arc::clone(kind).try_acquire_owned() {
            Ok(place) => drop(talks.spawn(hear(stream, is_strangers, Arc::clone(&desk), place))),
            Err(_) => stream.reset(CancelReason::Busy.code()),
        }
    }
    let mut book = desk.book();
    book.is_over = true;
    book.seats.clear();
}

/// Hears an offer, and gives the stream to whom it is for.
async fn hear(
    mut stream: Stream,
    is_strangers: bool,
    desk: Arc<Desk>,
    _place: OwnedSemaphorePermit,
) {
    let heard = timeout(OFFERED_WITHIN, read_offer(&mut stream)).await;
    let not_given = match heard {
        Ok(Ok((id, offer))) => desk.give(stream, id, offer, is_strangers).await,
        Ok(Err(_)) => Some((stream, CancelReason::Nonsense)),
        Err(_) => Some((stream, CancelReason::TimedOut)),
    };
    if let Some((stream, reason)) = not_given {
        stream.reset(reason.code());
    }
}

async fn read_offer(stream: &mut Stream) -> Result<(TransferId, Offer), TransferError> {
    let mut head = vec![0; Offer::HEAD_LEN];
    stream.read_exact(&mut head).await?;
    let name_len = usize::from(head[Offer::HEAD_LEN - 1]);
    head.resize(Offer::HEAD_LEN + name_len, 0);
    stream.read_exact(&mut head[Offer::HEAD_LEN..]).await?;
    Offer::parse(&head).map_err(|_| TransferError::EndedByPeer(CancelReason::Nonsense))
}

impl Desk {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a stream to whoever has begun with its file, or to one who waits; or back, with why.
    async fn give(
        self: &Arc<Self>,
        stream: Stream,
        id: TransferId,
        offer: Offer,
        is_strangers: bool,
    ) -> Option<(Stream, CancelReason)> {
        let offered = Offered { from: stream.peer(), to: stream.local(), offer };
        let until = now().instant + WAITS_FOR_OTHER;
        while self.book().is_on_another_stream(id, &offered) && now().instant < until {
            sleep(LOOKS_EVERY).await;
        }
        let mut book = self.book();
        if let Some(under_way) = book.begun(id, &offered) {
            under_way.id = id;
            let again = Again { stream, name: offered.offer.name };
            let sent = under_way.again.try_send(again);
            return sent.err().map(|error| (error.into_inner().stream, CancelReason::Busy));
        }
        let Some(mut seat) = book.seat(is_strangers) else {
            return Some((stream, CancelReason::Busy));
        };
        let sink = match (seat.open)(&offered) {
            Ok(sink) => sink,
            Err(reason) => {
                book.seats.push_front(seat);
                return Some((stream, reason));
            }
        };
        let (sender, again) = mpsc::channel(1);
        let (pulse, number) = (Arc::new(Pulse(Mutex::new(None))), book.next);
        book.next += 1;
        let under_way = UnderWay {
            id,
            offered: offered.clone(),
            again: sender,
            pulse: Arc::clone(&pulse),
            is_strangers,
        };
        book.under_way.insert(number, under_way);
        drop(book);
        let place = Place { number, desk: Arc::clone(self) };
        let arrival = Arrival { stream, sink, offered, again, pulse, place };
        let given = seat.given.send(arrival);
        // Nobody waits any more.
        given.err().map(|arrival| (arrival.stream, CancelReason::Busy))
    }
}

impl Book {
    /// The transfer that this stream goes on with: of its own number, or one of the same content
    /// that is still.
    fn begun(&mut self, id: TransferId, offered: &Offered) -> Option<&mut UnderWay> {
        let of_same = |it: &UnderWay| it.offered.is_content_of(offered);
        let own = self.under_way.iter().find(|(_, it)| of_same(it) && it.id == id);
        let still = || self.under_way.iter().find(|(_, it)| of_same(it) && it.pulse.is_still());
        let number = *own.or_else(still)?.0;
        self.under_way.get_mut(&number)
    }

    /// Whether the same content arrives under another number.
    fn is_on_another_stream(&mut self, id: TransferId, offered: &Offered) -> bool {
        self.begun(id, offered).is_none()
            && self.under_way.values().any(|it| it.offered.is_content_of(offered))
    }

    /// One who waits, if this sender may have the place.
    fn seat(&mut self, is_strangers: bool) -> Option<Seat> {
        self.seats.retain(|seat| !seat.given.is_closed());
        let places = self.seats.len() + self.under_way.len();
        let strangers = self.under_way.values().filter(|it| it.is_strangers).count();
        if is_strangers && strangers >= places - places / 4 {
            return None;
        }
        self.seats.pop_front()
    }
}

impl Pulse {
    /// Something has arrived.
    pub(super) fn beat(&self) {
        *self.moved_at() = Some(now().instant);
    }

    /// Another stream is welcome.
    pub(super) fn rest(&self) {
        *self.moved_at() = None;
    }

    fn is_still(&self) -> bool {
        let moved_at = *self.moved_at();
        moved_at.is_none_or(|at| now().instant.saturating_duration_since(at) >= STILL_AFTER)
    }

    fn moved_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.desk.book().under_way.remove(&self.number);
    }
}

/// It is in the first packet, or the next one.
const OFFERED_WITHIN: Duration = Duration::from_secs(5);
/// A sender that was killed sends no more, which shows after this ..
const STILL_AFTER: Duration = Duration::from_secs(1);
/// .. and who offers the same content meanwhile waits to see, less long than a sender waits for an
/// answer.
const WAITS_FOR_OTHER: Duration = Duration::from_secs(2);
const LOOKS_EVERY: Duration = Duration::from_millis(100);
/// Offers that are being heard at once, of strangers and of others.
const STRANGERS_OFFERS: usize = 48;
const OFFERS: usize = 64;
