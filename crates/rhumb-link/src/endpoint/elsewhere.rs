//! Handshakes whose steps are done on another thread: what goes out, and what comes back.
//!
//! Only those that others began, and only until both sides have proven their keys: what follows
//! needs no public-key work. Jobs wait here in the order in which they were made; how many there
//! are in a second, and of which source, `admission` bounds.

use std::sync::Arc;
use std::time::Instant;

use super::Endpoint;
use crate::dtls::Library;
use crate::elsewhere::{Absent, HandshakeDone, HandshakeJob, Subject};
use crate::exchange::{Exchange, HANDSHAKE_TIME, Progress, Side};
use crate::handshake::Handshake;
use crate::slots::Key;
use crate::timers::Owner;
use crate::{DropReason, HandshakeError};

impl Endpoint {
    /// The next step of a handshake, to be run off this thread. There are none unless
    /// [`Config::handshakes_elsewhere`](crate::Config::handshakes_elsewhere) is set. Those whose
    /// handshakes have ended are passed over.
    pub fn poll_handshake_job(&mut self) -> Option<HandshakeJob> {
        loop {
            let job = self.handshake_jobs.pop_front()?;
            if self.exchanges.get(job.exchange).is_some() {
                return Some(job);
            }
        }
    }

    /// Takes back what a [`HandshakeJob`] brought about. What follows from it is polled as after
    /// [`Endpoint::handle_handshake`].
    pub fn handle_handshake_done(&mut self, done: HandshakeDone, now: Instant) {
        let HandshakeDone { exchange: id, handshake, said, result } = done;
        let Some(mut exchange) = self.exchanges.borrow(id) else { return };
        let Some(handshake) = handshake else {
            self.drops.count(DropReason::HelloRefused);
            return self.forget(id, exchange);
        };
        exchange.handshake = handshake;
        let waiting = exchange.elsewhere.come_back(said);
        self.resume(id, exchange, Ok(()), now);
        if let Err(error) = result {
            return self.step(id, now, |_| Err(error));
        }
        for datagram in waiting {
            self.feed(id, &datagram, now);
        }
    }

    /// Readies the handshake of an exchange that somebody else begins: here, or elsewhere.
    pub(super) fn make_handshake(
        &self,
        make: impl FnOnce(&Library) -> Result<Box<dyn Handshake>, HandshakeError> + Send + 'static,
        now: Instant,
    ) -> Result<(Box<dyn Handshake>, Option<Subject>), HandshakeError> {
        if !self.config.handshakes_elsewhere {
            return Ok((make(&self.library)?, None));
        }
        let library = Arc::clone(&self.library);
        let subject = Subject::New(Box::new(move || make(&library)));
        Ok((Box::new(Absent(now + HANDSHAKE_TIME)), Some(subject)))
    }

    /// Sends a new handshake out, with the hello that began it.
    pub(super) fn send_out(&mut self, id: Key, subject: Subject, hello: &[u8], now: Instant) {
        let Some(exchange) = self.exchanges.get_mut(id) else { return };
        exchange.elsewhere.leave();
        let due = exchange.due();
        self.timers.arm(Owner::Exchange(id), &mut exchange.armed, due);
        let datagram = hello.to_vec();
        self.handshake_jobs.push_back(HandshakeJob { exchange: id, subject, datagram, now });
    }

    /// Has a datagram handled elsewhere, if that is where its handshake is, or where its work is
    /// done. Whether it is.
    pub(super) fn feed_elsewhere(&mut self, id: Key, bytes: &[u8], now: Instant) -> bool {
        let handshakes_elsewhere = self.config.handshakes_elsewhere;
        let Some(exchange) = self.exchanges.get_mut(id) else { return false };
        if exchange.elsewhere.is_out() {
            exchange.elsewhere.keep(bytes);
            return true;
        }
        if !handshakes_elsewhere || !has_public_key_work(exchange) {
            return false;
        }
        let absent = Box::new(Absent(exchange.deadline));
        let handshake = std::mem::replace(&mut exchange.handshake, absent);
        self.send_out(id, Subject::Begun(handshake), bytes, now);
        true
    }

    /// Whether there are so many jobs that no handshake is begun any more.
    pub(super) fn has_too_many_jobs(&self) -> bool {
        self.handshake_jobs.len() >= self.config.limits.half_open
    }
}

fn has_public_key_work(exchange: &Exchange) -> bool {
    matches!((&exchange.side, &exchange.progress), (Side::Responder(_), Progress::Handshaking(_)))
}
