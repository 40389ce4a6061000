//! Values that are of one process: after a fork the child has copies of them, whose threads are not
//! there, whose locks may be held for ever, and whose sockets are the parent's.

use super::{Fault, FaultKind};

/// A value of the process that made it. INVARIANT: another process neither sees nor drops it.
#[derive(Debug)]
pub struct Here<T> {
    /// `None` only while this is dropped.
    value: Option<T>,
    process: u32,
}

impl<T> Here<T> {
    /// A value of this process.
    pub fn new(value: T) -> Self {
        Self { value: Some(value), process: std::process::id() }
    }

    /// Whether this process made it.
    pub fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    /// The value.
    ///
    /// # Errors
    /// When another process made it.
    pub fn value(&self) -> Result<&T, Fault> {
        self.value.as_ref().filter(|_| self.is_ours()).ok_or_else(forked)
    }
}

impl<T> Drop for Here<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take()
            && !self.is_ours()
        {
            std::mem::forget(value);
        }
    }
}

fn forked() -> Fault {
    let text = "this process was forked from the one that joined, which goes on there alone; join \
                here after the fork, with a key of its own, or start processes without a fork";
    Fault::new(FaultKind::Closed, text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn another_process_neither_sees_nor_drops_it() {
        let counted = Arc::new(());
        let ours = Here::new(Arc::clone(&counted));
        assert!(ours.is_ours() && ours.value().is_ok());
        drop(ours);
        assert_eq!(Arc::strong_count(&counted), 1);
        let theirs = Here { value: Some(Arc::clone(&counted)), process: std::process::id() + 1 };
        assert_eq!(theirs.value().unwrap_err().kind, FaultKind::Closed);
        drop(theirs);
        assert_eq!(Arc::strong_count(&counted), 2);
    }
}
