//! Datagrams that wait at a port for their program: a bounded queue from the node's thread to who
//! receives, which is woken once for all that a turn brought, and not by the first of them.
//!
//! 1. [`Deliver::put`] queues a datagram, and wakes nobody.
//! 2. [`Deliver::wake`] has the receiver look. Whoever puts calls it before it does anything else
//!    that may take long, and without a lock that the receiver may want.
//!
//! Buffers go back the other way: what a program has done with, the next packets are put into.
//!
//! INVARIANT: who waits here has seen the queue empty, and is woken after anything was put.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::Message;

/// A queue for so many.
pub(crate) fn mailbox(most: usize) -> (Deliver, Mailbox) {
    let queue = Arc::new(Queue { state: Mutex::default(), most, is_filled: Condvar::new() });
    (Deliver(Arc::clone(&queue)), Mailbox(queue))
}

/// The node's end.
#[derive(Debug)]
pub(crate) struct Deliver(Arc<Queue>);

/// The program's end.
#[derive(Debug)]
pub(crate) struct Mailbox(Arc<Queue>);

/// Has the receiver of a queue look, once the queue's lock and others' are free.
#[derive(Debug)]
pub(crate) struct Alarm(Arc<Queue>);

#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    most: usize,
    /// For a thread that waits, and no task.
    is_filled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Message>,
    /// Buffers that the program gave back.
    spare: Vec<Vec<u8>>,
    task: Option<Waker>,
    thread_waits: bool,
    node_is_gone: bool,
    program_is_gone: bool,
}

impl Deliver {
    /// Whether nobody receives any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.lock().program_is_gone
    }

    /// Queues a datagram; says whether there was room, and somebody to receive it.
    pub(crate) fn put(&self, message: Message) -> bool {
        let mut state = self.0.lock();
        let is_taken = !state.program_is_gone && state.messages.len() < self.0.most;
        if is_taken {
            state.messages.push_back(message);
        }
        is_taken
    }

    /// What to ring after something was put, unless it is among the alarms: then says no.
    pub(crate) fn ring(&self, alarms: &mut Vec<Alarm>) -> bool {
        let is_new = !alarms.iter().any(|it| Arc::ptr_eq(&it.0, &self.0));
        if is_new {
            alarms.push(Alarm(Arc::clone(&self.0)));
        }
        is_new
    }

    /// The buffers that the program gave back.
    pub(crate) fn take_spare(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.0.lock().spare)
    }
}

impl Drop for Deliver {
    fn drop(&mut self) {
        self.0.lock().node_is_gone = true;
        self.0.wake();
    }
}

impl Alarm {
    /// Wakes who waits. Where much waits, whoever is woken gets this processor if there is no
    /// other: what came next would find no room.
    pub(crate) fn wake(&self) {
        self.0.wake();
        if self.0.lock().messages.len() > self.0.most / 4 {
            std::thread::yield_now();
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
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

impl Mailbox {
    /// The next datagram; `None` when the node has left.
    pub(crate) fn poll_receive(&mut self, context: &Context<'_>) -> Poll<Option<Message>> {
        let mut state = self.0.lock();
        if let Some(message) = state.messages.pop_front() {
            return Poll::Ready(Some(message));
        }
        if state.node_is_gone {
            return Poll::Ready(None);
        }
        state.task = Some(context.waker().clone());
        Poll::Pending
    }

    /// Waits for datagrams and appends them, `most` at most. Returns how many; 0 when the node has
    /// left, or none are wanted.
    pub(crate) fn blocking_receive(&mut self, messages: &mut Vec<Message>, most: usize) -> usize {
        let mut state = self.0.lock();
        while state.messages.is_empty() && !state.node_is_gone && most > 0 {
            state.thread_waits = true;
            state = self.0.is_filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let taken = state.messages.len().min(most);
        messages.extend(state.messages.drain(..taken));
        taken
    }
}

impl Mailbox {
    /// Gives the buffers of datagrams back to the node, as many as it may want.
    pub(crate) fn give_back(&mut self, messages: &mut Vec<Message>) {
        let mut state = self.0.lock();
        let room = MOST_SPARE.saturating_sub(state.spare.len());
        state.spare.extend(messages.drain(..).map(|it| it.body).take(room));
        drop(state);
        messages.clear();
    }

    /// Takes nothing any more.
    pub(crate) fn close(&mut self) {
        let mut state = self.0.lock();
        state.program_is_gone = true;
        state.messages.clear();
        state.spare.clear();
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.close();
    }
}

/// Buffers that wait to be used again: for a batch of the device, some 400 KB.
const MOST_SPARE: usize = 256;

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

    fn ring(deliver: &Deliver) {
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
                messages.drain(..).for_each(|it| tell.send(it.body[0]).unwrap());
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
    fn buffers_come_back_as_far_as_they_are_of_use() {
        let (deliver, mut mailbox) = mailbox(1);
        let mut messages: Vec<Message> =
            (0..=MOST_SPARE).map(|number| message(number as u8)).collect();
        mailbox.give_back(&mut messages);
        assert!(messages.is_empty());
        let spare = deliver.take_spare();
        assert_eq!(spare.len(), MOST_SPARE);
        assert!(deliver.take_spare().is_empty());
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
