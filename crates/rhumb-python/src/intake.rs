//! Ports of a node: datagrams that arrive, and streams that are opened.
//!
//! Waiting is apart from taking, so that whoever gives up waiting loses nothing: what arrived stays
//! for the next one who asks.

use std::collections::VecDeque;
use std::future::{Future, ready};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use rhumb_node::foreign::{Fault, Here, parse_name};
use rhumb_node::{Message, PortSender};
use tokio::sync::{Mutex as Turn, watch};

use crate::courier::Courier;
use crate::error::OrRaise;
use crate::stream::Stream;

/// Where something arrives, one after the other.
pub(crate) trait Source: Send + 'static {
    /// What arrives.
    type Item: Send + 'static;

    /// The next; `None` when the node has left. Who gives up waiting loses nothing.
    fn next(&mut self) -> impl Future<Output = Option<Self::Item>> + Send;
}

impl Source for rhumb_node::Port {
    type Item = Message;

    fn next(&mut self) -> impl Future<Output = Option<Message>> + Send {
        self.receive()
    }
}

impl Source for rhumb_node::Listener {
    type Item = rhumb_node::Stream;

    fn next(&mut self) -> impl Future<Output = Option<rhumb_node::Stream>> + Send {
        self.accept()
    }
}

/// A source, and what has come from it and was not taken yet.
struct Intake<S: Source> {
    /// `None` once it is closed.
    source: Turn<Option<S>>,
    arrived: Mutex<VecDeque<S::Item>>,
    is_closed: watch::Sender<bool>,
}

impl<S: Source> Intake<S> {
    fn new(source: S) -> Here<Arc<Self>> {
        let arrived = Mutex::default();
        let is_closed = watch::Sender::new(false);
        Here::new(Arc::new(Self { source: Turn::new(Some(source)), arrived, is_closed }))
    }

    /// Waits until something is there; `false` once there will be nothing any more.
    async fn ready(self: Arc<Self>) -> Result<bool, Fault> {
        let mut is_closed = self.is_closed.subscribe();
        tokio::select! {
            biased;
            _ = is_closed.wait_for(|is_closed| *is_closed) => Ok(false),
            is_there = self.fill() => Ok(is_there),
        }
    }

    async fn fill(&self) -> bool {
        let mut source = self.source.lock().await;
        let Some(source) = source.as_mut() else { return false };
        if !self.arrived().is_empty() {
            return true;
        }
        let Some(first) = source.next().await else { return false };
        let mut all = vec![first];
        while all.len() < TAKEN_AT_ONCE {
            tokio::select! {
                biased;
                next = source.next() => match next {
                    Some(next) => all.push(next),
                    None => break,
                },
                () = ready(()) => break,
            }
        }
        self.arrived().extend(all);
        true
    }

    /// One alone: whoever else waits sees what is left.
    fn take(&self) -> Option<S::Item> {
        self.arrived().pop_front()
    }

    /// The port is free for others from then on.
    async fn close(self: Arc<Self>) -> Result<(), Fault> {
        // Whoever waits lets go.
        self.is_closed.send_replace(true);
        drop(self.source.lock().await.take());
        self.arrived().clear();
        Ok(())
    }

    fn arrived(&self) -> std::sync::MutexGuard<'_, VecDeque<S::Item>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A port for datagrams.
#[pyclass(frozen, module = "rhumb._native")]
pub(crate) struct Port {
    intake: Here<Arc<Intake<rhumb_node::Port>>>,
    sender: Here<PortSender>,
    #[pyo3(get)]
    number: u16,
}

/// A datagram: from whom, of which of his ports, to which name, whether as a member, and what.
type Arrived = (String, Option<u16>, String, bool, Vec<u8>);

impl Port {
    pub(crate) fn new(port: rhumb_node::Port) -> Self {
        let (sender, number) = (Here::new(port.sender()), port.number());
        Self { intake: Intake::new(port), sender, number }
    }
}

#[pymethods]
impl Port {
    fn ready(&self, courier: &Bound<'_, Courier>, future: &Bound<'_, PyAny>) -> PyResult<u64> {
        let intake = Arc::clone(self.intake.value().or_raise(future.py())?);
        courier.get().send(future, intake.ready())
    }

    fn take(&self, py: Python<'_>) -> PyResult<Option<Arrived>> {
        let taken = self.intake.value().or_raise(py)?.take();
        Ok(taken.map(|it| {
            (it.from.to_string(), it.from_port, it.to.to_string(), it.as_member, it.body)
        }))
    }

    fn send(
        &self,
        courier: &Bound<'_, Courier>,
        future: &Bound<'_, PyAny>,
        to: &str,
        port: u16,
        body: PyBackedBytes,
    ) -> PyResult<u64> {
        let py = future.py();
        let (sender, to) =
            (self.sender.value().or_raise(py)?.clone(), parse_name(to).or_raise(py)?);
        let body = body.to_vec();
        courier.get().send(future, async move { sender.send_to(to, port, &body).await })
    }

    /// Answers a datagram: from whom it was, and from which of his ports, and for which name.
    fn reply(
        &self,
        courier: &Bound<'_, Courier>,
        future: &Bound<'_, PyAny>,
        who: (String, Option<u16>, String),
        body: PyBackedBytes,
    ) -> PyResult<u64> {
        let (py, (from, from_port, to)) = (future.py(), who);
        let sender = self.sender.value().or_raise(py)?.clone();
        let (from, to) = (parse_name(&from).or_raise(py)?, parse_name(&to).or_raise(py)?);
        let message = Message { from, as_member: false, from_port, to, body: Vec::new() };
        let body = body.to_vec();
        courier.get().send(future, async move { sender.reply(&message, &body).await })
    }

    fn close(&self, courier: &Bound<'_, Courier>, future: &Bound<'_, PyAny>) -> PyResult<u64> {
        let intake = Arc::clone(self.intake.value().or_raise(future.py())?);
        courier.get().send(future, intake.close())
    }
}

/// A port to which others open streams.
#[pyclass(frozen, module = "rhumb._native")]
pub(crate) struct Listener {
    intake: Here<Arc<Intake<rhumb_node::Listener>>>,
    #[pyo3(get)]
    number: u16,
}

impl Listener {
    pub(crate) fn new(listener: rhumb_node::Listener) -> Self {
        let number = listener.port();
        Self { intake: Intake::new(listener), number }
    }
}

#[pymethods]
impl Listener {
    fn ready(&self, courier: &Bound<'_, Courier>, future: &Bound<'_, PyAny>) -> PyResult<u64> {
        let intake = Arc::clone(self.intake.value().or_raise(future.py())?);
        courier.get().send(future, intake.ready())
    }

    fn take(&self, py: Python<'_>) -> PyResult<Option<Stream>> {
        Ok(self.intake.value().or_raise(py)?.take().map(Stream::new))
    }

    fn close(&self, courier: &Bound<'_, Courier>, future: &Bound<'_, PyAny>) -> PyResult<u64> {
        let intake = Arc::clone(self.intake.value().or_raise(future.py())?);
        courier.get().send(future, intake.close())
    }
}

/// Of what arrived together, so much is taken at once.
const TAKEN_AT_ONCE: usize = 64;
