//! Faults as exceptions: the classes are those of `rhumb._errors`, in Python.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use rhumb_node::foreign::{Fault, FaultKind};

/// The exception for a fault.
fn exception(py: Python<'_>, fault: &Fault) -> PyErr {
    static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = ERRORS.get_or_try_init(py, || py.import("rhumb._errors").map(Bound::unbind));
    let made = module.and_then(|module| {
        let class = module.bind(py).getattr(class_of(fault.kind))?;
        class.call1((fault.text.as_str(),))
    });
    made.map_or_else(|error| error, PyErr::from_value)
}

/// The name of the class for a fault.
pub(crate) fn class_of(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Invalid => "InvalidError",
        FaultKind::KeyFile => "KeyFileError",
        FaultKind::Unreachable => "UnreachableError",
        FaultKind::Refused => "RefusedError",
        FaultKind::TimedOut => "TimedOutError",
        FaultKind::Closed => "ClosedError",
        FaultKind::TooBig => "TooBigError",
        FaultKind::Busy => "BusyError",
        _ => "Error",
    }
}

/// A result of ours as one of Python's.
pub(crate) trait OrRaise<T> {
    /// Raises the exception for a fault.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Into<Fault>> OrRaise<T> for Result<T, E> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error.into()))
    }
}
