//! A stream: bytes in order between two names, both ways.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use rhumb_node::foreign::{BothWays, Fault, Here};

use crate::courier::Courier;
use crate::error::OrRaise;

/// A stream.
#[pyclass(frozen, module = "rhumb._native")]
pub(crate) struct Stream {
    stream: Here<Arc<BothWays>>,
    #[pyo3(get)]
    peer: String,
    #[pyo3(get)]
    local: String,
    #[pyo3(get)]
    port: u16,
}

impl Stream {
    pub(crate) fn new(stream: rhumb_node::Stream) -> Self {
        let (peer, local) = (stream.peer().to_string(), stream.local().to_string());
        let port = stream.port();
        Self { stream: Here::new(Arc::new(BothWays::new(stream))), peer, local, port }
    }
}

#[pymethods]
impl Stream {
    /// Up to `most` bytes, as soon as there are some; none at the end.
    fn read(
        &self,
        courier: &Bound<'_, Courier>,
        future: &Bound<'_, PyAny>,
        most: usize,
    ) -> PyResult<u64> {
        let stream = Arc::clone(self.stream.value().or_raise(future.py())?);
        courier.get().send(future, async move {
            let mut place = vec![0; most.clamp(1, MOST_AT_ONCE)];
            let len = stream.read(&mut place).await?;
            place.truncate(len);
            Ok::<_, Fault>(place)
        })
    }

    /// Writes all, as the other end takes it.
    fn write(
        &self,
        courier: &Bound<'_, Courier>,
        future: &Bound<'_, PyAny>,
        bytes: PyBackedBytes,
    ) -> PyResult<u64> {
        let stream = Arc::clone(self.stream.value().or_raise(future.py())?);
        let bytes = bytes.to_vec();
        courier.get().send(future, async move {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                rest = &rest[stream.write(rest).await?..];
            }
            Ok::<_, Fault>(())
        })
    }

    /// Says that nothing more is written, and waits until the other end has it all, or wants no
    /// more.
    fn finish(&self, courier: &Bound<'_, Courier>, future: &Bound<'_, PyAny>) -> PyResult<u64> {
        let stream = Arc::clone(self.stream.value().or_raise(future.py())?);
        courier.get().send(future, async move { stream.finish().await })
    }

    /// Gives up what is not sent yet, and wants no more.
    fn reset(&self, py: Python<'_>, code: u64) -> PyResult<()> {
        self.stream.value().or_raise(py)?.reset(code);
        Ok(())
    }
}

/// As much as is read at once.
const MOST_AT_ONCE: usize = 256 << 10;
