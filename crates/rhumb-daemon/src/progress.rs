//! Progress bars: on standard error, and only where that is a terminal.

use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that may be told the length of its file later.
#[derive(Debug, Clone)]
pub struct Bar {
    shown: bool,
    bar: Arc<Mutex<Option<ProgressBar>>>,
}

impl Bar {
    /// A bar that shows nothing yet, and never will when `quiet`.
    pub fn new(quiet: bool) -> Self {
        Self { shown: !quiet, bar: Arc::default() }
    }

    /// Begins to show a file.
    pub fn begin(&self, file_name: &str, length: u64) {
        if !self.shown {
            return;
        }
        // indicatif draws nothing where standard error is no terminal.
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr())
            .with_style(style())
            .with_message(file_name.to_owned());
        *self.lock() = Some(bar);
    }

    /// Shows how many bytes have arrived.
    pub fn advance(&self, bytes: u64) {
        if let Some(bar) = &*self.lock() {
            bar.set_position(bytes);
        }
    }

    /// Leaves the bar as it stands: full when the file has arrived, and otherwise where it stopped.
    pub fn end(&self) {
        if let Some(bar) = self.lock().take() {
            bar.abandon();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<ProgressBar>> {
        // Nothing that holds the lock leaves a bar half-made.
        self.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template(TEMPLATE)
        .expect("invariant: the template below is valid")
        .progress_chars("=> ")
}

const TEMPLATE: &str =
    "{msg} [{bar:30}] {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_bar_never_begins_and_any_other_ends() {
        let quiet = Bar::new(true);
        quiet.begin("file", 10);
        assert!(quiet.lock().is_none());
        let bar = Bar::new(false);
        bar.advance(3);
        bar.begin("file", 10);
        bar.advance(5);
        assert_eq!(bar.lock().as_ref().map(ProgressBar::position), Some(5));
        bar.end();
        assert!(bar.lock().is_none());
    }
}
