//! Datagrams that wait at a port for their program, one by one or in blocks: a bounded queue from
//! the node's thread to who receives, which is woken once for all that a turn brought, and not by
//! the first of them.
//!
//! 1. [`Deliver::put`] queues a letter, and wakes nobody.
//! 2. [`Deliver::wake`] has the receiver look. Whoever puts calls it before it does anything else
//!    that may take long, and without a lock that the receiver may want.
//!
//! Paper goes back the other way: what a program has done with, the next packets are put into.
//!
//! INVARIANT: who waits here has seen the queue empty, and is woken after anything was put.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::Message;

/// What waits in a mailbox.
pub(crate) trait Letter {
    /// How many datagrams it is.
    fn datagrams(&self) -> usize;
}

/// A queue for so many datagrams.
pub(crate) fn mailbox<L: Letter>(most: usize) -> (Deliver<L>, Mailbox<L>) {
    let state = Mutex::new(State::default());
    let queue = Arc::new(Queue { state, most, is_filled: Condvar::new() });
    (Deliver(Arc::clone(&queue)), Mailbox(queue))
}

/// The node's end.
#[derive(Debug)]
pub(crate) struct Deliver<L: Letter>(Arc<Queue<L>>);

/// The program's end.
#[derive(Debug)]
pub(crate) struct Mailbox<L: Letter>(Arc<Queue<L>>);

/// Has the receiver of a queue look, once the queue's lock and others' are free.
#[derive(Debug)]
pub(crate) struct Alarm<L>(Arc<Queue<L>>);

#[derive(Debug)]
struct Queue<L> {
    state: Mutex<State<L>>,
    most: usize,
    /// For a thread that waits, and no task.
    is_filled: Condvar,
}

#[derive(Debug)]
struct State<L> {
    letters: VecDeque<L>,
    /// In all letters.
    datagrams: usize,
    /// What the program gave back.
    paper: Vec<L>,
    task: Option<Waker>,
    thread_waits: bool,
    node_is_gone: bool,
    program_is_gone: bool,
}

impl<L: Letter> Deliver<L> {
    /// Whether nobody receives any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.lock().program_is_gone
    }

    /// Queues a letter; says whether there was room, and somebody to receive it. The one that takes
    /// the last room may be longer than that.
    pub(crate) fn put(&self, letter: L) -> bool {
        let mut state = self.0.lock();
        let is_taken = !state.program_is_gone && state.datagrams < self.0.most;
        if is_taken {
            state.datagrams += letter.datagrams();
            state.letters.push_back(letter);
        }
        is_taken
    }

    /// What to ring after something was put, unless it is among the alarms: then says no.
    pub(crate) fn ring(&self, alarms: &mut Vec<Alarm<L>>) -> bool {
        let is_new = !alarms.iter().any(|it| Arc::ptr_eq(&it.0, &self.0));
        if is_new {
            alarms.push(Alarm(Arc::clone(&self.0)));
        }
        is_new
    }

    /// What the program gave back.
    pub(crate) fn take_paper(&self) -> Vec<L> {
        std::mem::take(&mut self.0.lock().paper)
    }
}

impl<L: Letter> Drop for Deliver<L> {
    fn drop(&mut self) {
        self.0.lock().node_is_gone = true;
        self.0.wake();
    }
}

impl<L> Alarm<L> {
    /// Wakes who waits. Where much waits, whoever is woken gets this processor if there is no
    /// other: what came next would find no room.
    pub(crate) fn wake(&self) {
        self.0.wake();
        if self.0.lock().datagrams > self.0.most / 4 {
            std::thread::yield_now();
        }
    }
}

impl<L> Queue<L> {
    fn lock(&self) -> MutexGuard<'_, State<L>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let (task, thread_waits) = {
            let mut state = self.lock();
            (state.task.take(), std::mem::take(&mut state.thread_waits))
        };
        if thread_waits {
            self.is_filled.notify_all();
        }
        task.into_iter().for_each(Waker::wake);
    }
}

impl<L: Letter> Mailbox<L> {
    /// The next letter; `None` when the node has left.
    pub(crate) fn poll_receive(&mut self, context: &Context<'_>) -> Poll<Option<L>> {
        let mut state = self.0.lock();
        if let Some(letter) = state.letters.pop_front() {
            state.datagrams -= letter.datagrams();
            return Poll::Ready(Some(letter));
        }
        if state.node_is_gone {
            return Poll::Ready(None);
        }
        state.task = Some(context.waker().clone());
        Poll::Pending
    }

    /// Waits for letters and appends them, until those taken have `enough` datagrams. Returns how
    /// many letters; 0 when the node has left, or none are wanted.
    pub(crate) fn blocking_receive(&mut self, letters: &mut Vec<L>, enough: usize) -> usize {
        let mut state = self.0.lock();
        while state.letters.is_empty() && !state.node_is_gone && enough > 0 {
            state.thread_waits = true;
            state = self.0.is_filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let (before, mut taken) = (letters.len(), 0);
        while taken < enough
            && let Some(letter) = state.letters.pop_front()
        {
            taken += letter.datagrams();
            letters.push(letter);
        }
        state.datagrams -= taken;
        letters.len() - before
    }

    /// Gives letters that are done with back to the node, as paper for others, as many as it may
    /// want.
    pub(crate) fn give_back(&mut self, letters: &mut Vec<L>) {
        let mut state = self.0.lock();
        let room = MOST_PAPER.saturating_sub(state.paper.len());
        state.paper.extend(letters.drain(..).take(room));
    }

    /// Takes nothing any more.
    pub(crate) fn close(&mut self) {
        let mut state = self.0.lock();
        state.program_is_gone = true;
        state.datagrams = 0;
        state.letters.clear();
        state.paper.clear();
    }
}

impl<L: Letter> Drop for Mailbox<L> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<L> Default for State<L> {
    fn default() -> Self {
        Self {
            letters: VecDeque::new(),
            datagrams: 0,
            paper: Vec::new(),
            task: None,
            thread_waits: false,
            node_is_gone: false,
            program_is_gone: false,
        }
    }
}

impl Letter for Message {
    fn datagrams(&self) -> usize {
        1
    }
}

/// Letters that wait to be used again: of blocks, what two batches of the socket bring.
const MOST_PAPER: usize = 64;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use rhumb_wire::Name;

    use super::*;

    fn message(number: u8) -> Message {
        let name = Name([number; 32]);
        Message { from: name, as_member: false, from_port: None, to: name, body: vec![number] }
    }

    fn ring<L: Letter>(deliver: &Deliver<L>) {
        let mut alarms = Vec::new();
        assert!(deliver.ring(&mut alarms) && !deliver.ring(&mut alarms));
        assert_eq!(alarms.len(), 1, "one receiver is woken once");
        alarms.iter().for_each(Alarm::wake);
    }

    #[test]
    fn a_full_mailbox_keeps_what_it_has_and_takes_no_more() {
        let (deliver, mut mailbox) = mailbox(2);
        assert!(deliver.put(message(1)) && deliver.put(message(2)));
        assert!(!deliver.put(message(3)));
        let mut taken = Vec::new();
        assert_eq!(mailbox.blocking_receive(&mut taken, 1), 1);
        assert!(deliver.put(message(4)) && !deliver.put(message(5)));
        assert_eq!(mailbox.blocking_receive(&mut taken, 9), 2);
        let numbers: Vec<u8> = taken.iter().map(|it| it.body[0]).collect();
        assert_eq!(numbers, [1, 2, 4]);
        assert!(!deliver.is_closed());
        drop(mailbox);
        assert!(deliver.is_closed() && !deliver.put(message(6)));
    }

    #[test]
    fn a_task_that_waits_is_woken_by_the_ring_and_not_before() {
        let (deliver, mut mailbox) = mailbox(2);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let context = Context::from_waker(&waker);
        assert_eq!(mailbox.poll_receive(&context), Poll::Pending);
        assert!(deliver.put(message(1)));
        assert_eq!(woken.times(), 0);
        ring(&deliver);
        ring(&deliver);
        assert_eq!(woken.times(), 1);
        assert_eq!(mailbox.poll_receive(&context), Poll::Ready(Some(message(1))));
        assert_eq!(mailbox.poll_receive(&context), Poll::Pending);
        drop(deliver);
        assert_eq!(woken.times(), 2);
        assert_eq!(mailbox.poll_receive(&context), Poll::Ready(None));
    }

    #[test]
    fn a_thread_that_waits_gets_everything_and_learns_that_the_node_has_left() {
        let (deliver, mut mailbox) = mailbox(4);
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut messages = Vec::new();
            while mailbox.blocking_receive(&mut messages, 3) > 0 {
                messages.drain(..).for_each(|it: Message| tell.send(it.body[0]).unwrap());
            }
        });
        for number in 0..100 {
            while !deliver.put(message(number)) {
                ring(&deliver);
                thread::yield_now();
            }
            if number % 7 == 0 {
                ring(&deliver);
            }
        }
        ring(&deliver);
        let numbers: Vec<u8> = told.iter().take(100).collect();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
        drop(deliver);
        thread.join().unwrap();
    }

    #[test]
    fn of_blocks_the_datagrams_count() {
        let (deliver, mut mailbox) = mailbox(5);
        assert!(deliver.put(Block(4)) && deliver.put(Block(4)), "one more than there is room for");
        assert!(!deliver.put(Block(1)));
        let mut taken = Vec::new();
        assert_eq!(mailbox.blocking_receive(&mut taken, 4), 1);
        assert!(deliver.put(Block(1)) && !deliver.put(Block(1)));
        assert_eq!(mailbox.blocking_receive(&mut taken, 100), 2);
        assert_eq!(taken, [Block(4), Block(4), Block(1)]);
        assert!(deliver.put(Block(9)));
    }

    #[test]
    fn paper_comes_back_as_far_as_it_is_of_use() {
        let (deliver, mut mailbox) = mailbox(1);
        let mut blocks: Vec<Block> = (0..=MOST_PAPER).map(Block).collect();
        mailbox.give_back(&mut blocks);
        assert!(blocks.is_empty());
        assert_eq!(deliver.take_paper().len(), MOST_PAPER);
        assert!(deliver.take_paper().is_empty());
    }

    #[derive(Debug, PartialEq, Eq)]
    struct Block(usize);

    impl Letter for Block {
        fn datagrams(&self) -> usize {
            self.0
        }
    }

    #[derive(Default)]
    struct Woken(std::sync::atomic::AtomicUsize);

    impl Woken {
        fn times(&self) -> usize {
            self.0.load(std::sync::atomic::Ordering::SeqCst)
        }
    }

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    }
}
