//! Who gets a stream on which a file is offered: whoever waits for a file, or whoever has a part of
//! this one already.
//!
//! Names cost nothing: offers that are not said in time, files under way, and of both those of
//! strangers are bounded in all, and strangers leave a quarter of the places to others.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rhumb_end::Admits;
use rhumb_wire::Name;
use rhumb_wire::transfer::{CancelReason, Offer, TransferId};
use tokio::io::AsyncReadExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{PORT, TransferError, WriteAt};
use crate::connections::{Listener, Stream};
use crate::node::Handle;

/// The files that arrive at a node, as long as somebody receives.
#[derive(Default)]
pub(crate) struct Arrivals(Mutex<Weak<Reception>>);

/// Listens for offers until it is dropped.
pub(super) struct Reception {
    desk: Arc<Desk>,
    /// Ends when it is dropped.
    _listening: JoinSet<()>,
}

/// Who waits, and who has begun.
#[derive(Default)]
pub(super) struct Desk(Mutex<Book>);

#[derive(Default)]
struct Book {
    seats: VecDeque<Seat>,
    under_way: HashMap<Key, UnderWay>,
    /// The node has ended: nothing arrives any more.
    is_over: bool,
}

/// One who waits for a file.
pub(super) struct Seat {
    pub(super) open: Open,
    pub(super) given: oneshot::Sender<Arrival>,
}

/// Decides about an offer of a name.
pub(super) type Open = Box<dyn FnMut(Name, &Offer) -> Result<AnySink, CancelReason> + Send>;
/// Any place for a file.
pub(super) type AnySink = Box<dyn WriteAt + Send>;

/// A file that was offered and taken.
pub(super) struct Arrival {
    pub(super) stream: Stream,
    pub(super) sink: AnySink,
    pub(super) offer: Offer,
    /// More streams of the same transfer.
    pub(super) again: mpsc::Receiver<Stream>,
    /// Its place, until this is dropped.
    pub(super) place: Place,
}

/// Tells transfers apart: the identifier alone is the sender's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) peer: Name,
    /// The node, or a name that it serves.
    pub(super) local: Name,
    id: TransferId,
}

struct UnderWay {
    again: mpsc::Sender<Stream>,
    is_strangers: bool,
}

/// A file's place among those under way.
pub(super) struct Place {
    pub(super) key: Key,
    desk: Arc<Desk>,
}

impl Arrivals {
    /// The reception that there is, or a new one.
    pub(super) fn open(&self, handle: &Handle) -> Result<Arc<Reception>, TransferError> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reception) = open.upgrade() {
            return Ok(reception);
        }
        let listener = Listener::open(handle, PORT, Admits::Everybody);
        let listener = listener.map_err(|_| TransferError::Stopped)?;
        let desk = Arc::new(Desk::default());
        let mut listening = JoinSet::new();
        listening.spawn(listen(listener, Arc::clone(&desk)));
        let reception = Arc::new(Reception { desk, _listening: listening });
        *open = Arc::downgrade(&reception);
        Ok(reception)
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
        Ok(Ok((id, offer))) => desk.give(stream, id, offer, is_strangers),
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
    fn give(
        self: &Arc<Self>,
        stream: Stream,
        id: TransferId,
        offer: Offer,
        is_strangers: bool,
    ) -> Option<(Stream, CancelReason)> {
        let key = Key { peer: stream.peer(), local: stream.local(), id };
        let mut book = self.book();
        if let Some(under_way) = book.under_way.get(&key) {
            let again = under_way.again.try_send(stream);
            return again.err().map(|error| (error.into_inner(), CancelReason::Busy));
        }
        let Some(mut seat) = book.seat(is_strangers) else {
            return Some((stream, CancelReason::Busy));
        };
        let sink = match (seat.open)(key.peer, &offer) {
            Ok(sink) => sink,
            Err(reason) => {
                book.seats.push_front(seat);
                return Some((stream, reason));
            }
        };
        let (sender, again) = mpsc::channel(1);
        book.under_way.insert(key, UnderWay { again: sender, is_strangers });
        drop(book);
        let place = Place { key, desk: Arc::clone(self) };
        let arrival = Arrival { stream, sink, offer, again, place };
        let given = seat.given.send(arrival);
        // Nobody waits any more.
        given.err().map(|arrival| (arrival.stream, CancelReason::Busy))
    }
}

impl Book {
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

impl Drop for Place {
    fn drop(&mut self) {
        self.desk.book().under_way.remove(&self.key);
    }
}

/// It is in the first packet, or the next one.
const OFFERED_WITHIN: Duration = Duration::from_secs(5);
/// Offers that are being heard at once, of strangers and of others.
const STRANGERS_OFFERS: usize = 48;
const OFFERS: usize = 64;
