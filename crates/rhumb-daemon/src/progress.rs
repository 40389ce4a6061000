//! Progress bars: on standard error, and only where that is a terminal.

use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::bytes_text;

/// A bar that may be told the length of its file later.
#[derive(Debug, Clone)]
pub struct Bar {
    shown: bool,
    bar: Arc<Mutex<Option<Shown>>>,
}

#[derive(Debug)]
struct Shown {
    bar: ProgressBar,
    /// Whether anything was told of what it shows.
    has_begun: bool,
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
        *self.lock() = Some(Shown { bar, has_begun: false });
    }

    /// Begins to show what has no end yet.
    pub fn begin_endless(&self, name: &str) {
        if self.shown {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
                .with_style(endless_style())
                .with_message(name.to_owned());
            *self.lock() = Some(Shown { bar, has_begun: false });
        }
    }

    /// Shows how many bytes have arrived. Those of the first time were there from before: they
    /// count neither for the rate nor for the time that is left.
    pub fn advance(&self, bytes: u64) {
        let mut shown = self.lock();
        let Some(Shown { bar, has_begun }) = &mut *shown else { return };
        let is_resumed = !*has_begun && bytes > 0;
        *has_begun = true;
        bar.set_position(bytes);
        if is_resumed {
            let message = format!("{} (goes on at {})", bar.message(), bytes_text(bytes));
            bar.set_message(message);
            bar.reset_eta();
        }
    }

    /// Leaves the bar as it stands: full when the file has arrived, and otherwise where it stopped.
    pub fn end(&self) {
        if let Some(shown) = self.lock().take() {
            shown.bar.abandon();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Shown>> {
        // Nothing that holds the lock leaves a bar half-made.
        self.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template(TEMPLATE)
        .expect("invariant: the template below is valid")
        .progress_chars("=> ")
}

fn endless_style() -> ProgressStyle {
    ProgressStyle::with_template("{msg} {decimal_bytes} {decimal_bytes_per_sec}")
        .expect("invariant: the template is valid")
}

const TEMPLATE: &str =
    "{msg} [{bar:30}] {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec}, {eta} left";

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
        bar.advance(0);
        bar.advance(5);
        let shows = |bar: &Bar| {
            let shown = bar.lock();
            shown.as_ref().map(|it| (it.bar.position(), it.bar.message()))
        };
        assert_eq!(shows(&bar), Some((5, "file".to_owned())));
        bar.begin("file", 10);
        bar.advance(4);
        assert_eq!(shows(&bar), Some((4, "file (goes on at 4 B)".to_owned())));
        bar.end();
        assert!(bar.lock().is_none());
    }
}
