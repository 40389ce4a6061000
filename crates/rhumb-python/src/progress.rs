//! How far a file is: noted by the task that moves it, and looked at by the event loop when it
//! likes. Two numbers and no call, so that no thread of Rust enters the interpreter for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;

/// How far a file is.
#[pyclass(frozen, module = "rhumb._native")]
#[derive(Default)]
pub(crate) struct Progress {
    noted: Arc<Noted>,
}

#[derive(Default)]
struct Noted {
    bytes: AtomicU64,
    /// One more than there are, so that nothing is noted yet while it is zero.
    beyond: AtomicU64,
}

impl Progress {
    /// What a task tells of its way.
    pub(crate) fn noting(
        progress: Option<&Bound<'_, Self>>,
    ) -> impl FnMut(u64, u64) + Send + 'static {
        let noted = progress.map(|it| Arc::clone(&it.get().noted));
        move |bytes, all| {
            if let Some(noted) = &noted {
                noted.bytes.store(bytes, Ordering::Relaxed);
                noted.beyond.store(all.saturating_add(1), Ordering::Release);
            }
        }
    }
}

#[pymethods]
impl Progress {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// How many bytes have arrived, of how many; nothing before that is known.
    fn now(&self) -> Option<(u64, u64)> {
        let all = self.noted.beyond.load(Ordering::Acquire).checked_sub(1)?;
        Some((self.noted.bytes.load(Ordering::Relaxed).min(all), all))
    }
}
