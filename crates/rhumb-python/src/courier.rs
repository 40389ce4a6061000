//! How what tasks come to reaches an event loop: a queue, and a socket that wakes the loop.
//!
//! Each loop has one courier, and a reader on the courier's socket that takes what there is and
//! fulfils futures with it. A task that is done puts its outcome into the queue and rings; if the
//! loop is gone, nobody comes, and the outcome goes with the queue.
//!
//! INVARIANT: nothing here runs code of Python's. A daemon thread that finds the interpreter ended
//! is ended by it on the spot, and must not be so with a function of Rust below it.

use std::collections::HashMap;
use std::future::Future;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use rhumb_node::foreign::{Fault, FaultKind, Here, runtime};
use tokio::task::AbortHandle;

use crate::error::{OrRaise, class_of};

/// Keeps for one event loop what tasks came to.
#[pyclass(frozen, module = "rhumb._native")]
pub(crate) struct Courier {
    rounds: Here<Rounds>,
}

/// What a courier goes by.
struct Rounds {
    bell: UnixStream,
    post: Arc<Post>,
    waiting: Arc<Mutex<Waiting>>,
}

/// Where outcomes arrive. Knows nothing of Python.
struct Post {
    ringer: UnixStream,
    outcomes: Mutex<Vec<(u64, Outcome)>>,
}

/// Becomes an object where the interpreter is.
type Outcome = Result<IntoObject, Fault>;
type IntoObject = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// Who waits, by tickets. Touched by threads of Python alone.
#[derive(Default)]
struct Waiting {
    last_ticket: u64,
    futures: HashMap<u64, (Py<PyAny>, AbortHandle)>,
}

/// A task's place in the queue: it is told of, even if it panics.
struct Place {
    ticket: u64,
    post: Arc<Post>,
    outcome: Option<Outcome>,
}

#[pymethods]
impl Courier {
    #[new]
    fn new() -> PyResult<Self> {
        let (bell, ringer) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        ringer.set_nonblocking(true)?;
        let post = Arc::new(Post { ringer, outcomes: Mutex::default() });
        Ok(Self { rounds: Here::new(Rounds { bell, post, waiting: Arc::default() }) })
    }

    /// What the loop is to watch.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        Ok(self.rounds.value().or_raise(py)?.bell.as_raw_fd())
    }

    /// Whether it was made in the process that asks.
    fn is_ours(&self) -> bool {
        self.rounds.is_ours()
    }

    /// What is done: each with the future that waits for it, and what it came to, or the class of
    /// an error and its text.
    fn take(&self, py: Python<'_>) -> PyResult<Vec<Delivery>> {
        let rounds = self.rounds.value().or_raise(py)?;
        rounds.quiet();
        let outcomes = std::mem::take(&mut *lock(&rounds.post.outcomes));
        let mut deliveries = Vec::with_capacity(outcomes.len());
        for (ticket, outcome) in outcomes {
            // Of who has given up waiting, nothing is left to tell.
            let waited = lock(&rounds.waiting).futures.remove(&ticket);
            let Some((future, _)) = waited else { continue };
            deliveries.push(match outcome {
                Ok(into_object) => (future, Some(into_object(py)?), None),
                Err(fault) => (future, None, Some((class_of(fault.kind), fault.text))),
            });
        }
        Ok(deliveries)
    }

    /// Nobody waits for this any more: its task ends, unless it has been told of.
    fn forget(&self, py: Python<'_>, ticket: u64) -> PyResult<()> {
        let waited = lock(&self.rounds.value().or_raise(py)?.waiting).futures.remove(&ticket);
        if let Some((_, task)) = waited {
            task.abort();
        }
        Ok(())
    }
}

/// A future, and what it is to be fulfilled with.
type Delivery = (Py<PyAny>, Option<Py<PyAny>>, Option<(&'static str, String)>);

impl Courier {
    /// Has a task fulfil `future`, which is of this courier's loop: the ticket.
    pub(crate) fn send<T, E>(
        &self,
        future: &Bound<'_, PyAny>,
        task: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> PyResult<u64>
    where
        T: for<'py> IntoPyObject<'py> + Send + 'static,
        E: Into<Fault>,
    {
        let py = future.py();
        let rounds = self.rounds.value().or_raise(py)?;
        let ticket = {
            let mut waiting = lock(&rounds.waiting);
            waiting.last_ticket += 1;
            waiting.last_ticket
        };
        let place = Place { ticket, post: Arc::clone(&rounds.post), outcome: None };
        let work = async move {
            let outcome = task.await.map_err(Into::into);
            let into_object =
                |value: T| -> IntoObject { Box::new(|py: Python<'_>| value.into_py_any(py)) };
            place.fill(outcome.map(into_object));
        };
        let task = runtime().or_raise(py)?.spawn(work).abort_handle();
        // Nobody takes it meanwhile: that is done by this thread.
        lock(&rounds.waiting).futures.insert(ticket, (future.clone().unbind(), task));
        Ok(ticket)
    }
}

impl Rounds {
    /// Empties the bell, before the queue: whoever puts something there later rings again.
    fn quiet(&self) {
        let mut rung = [0; 64];
        while matches!((&self.bell).read(&mut rung), Ok(len) if len == rung.len()) {}
    }
}

impl Drop for Rounds {
    /// The loop is gone: nobody waits for what is still done.
    fn drop(&mut self) {
        for (_, task) in lock(&self.waiting).futures.values() {
            task.abort();
        }
    }
}

impl Place {
    fn fill(mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let failed = || Err(Fault::new(FaultKind::System, "rhumb failed; please report this"));
        let outcome = self.outcome.take().unwrap_or_else(failed);
        let mut outcomes = lock(&self.post.outcomes);
        let was_empty = outcomes.is_empty();
        outcomes.push((self.ticket, outcome));
        drop(outcomes);
        if was_empty {
            // If there is no room, it has been rung often enough.
            let _ = (&self.post.ringer).write(&[1]);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
