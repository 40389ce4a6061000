//! The view as a whole: what is known of daemons, and what somebody looks at.

use std::collections::BTreeMap;
use std::time::Duration;

use ratatui::Frame;
use serde_json::Value;

use crate::daemon::{Daemon, Look};
use crate::draw::{self, Palette};
use crate::keys::Key;
use crate::names::Labels;
use crate::plain;
use crate::screens::{Screen, Seen};
use crate::sheet::Sheet;
use crate::view::{Asked, View};

/// A live view.
#[derive(Debug)]
pub struct Top {
    daemons: BTreeMap<String, Daemon>,
    labels: Labels,
    view: View,
    palette: Palette,
    /// What is shown: made anew when it is looked at, if something has changed.
    sheet: Sheet,
    is_stale: bool,
    now: Duration,
}

impl Top {
    /// A view of nothing yet, which asks every so many milliseconds; in colours, or without.
    pub fn new(labels: Labels, pace_ms: u64, is_coloured: bool) -> Self {
        let seen = Seen { daemons: &[], labels: &labels, now: Duration::ZERO };
        let sheet = Screen::Overview.sheet(&seen);
        Self {
            daemons: BTreeMap::new(),
            labels,
            view: View::new(pace_ms),
            palette: Palette::new(is_coloured),
            sheet,
            is_stale: false,
            now: Duration::ZERO,
        }
    }

    /// Takes what came of asking a daemon; nothing while the view is held.
    pub fn take(&mut self, look: Look) {
        self.now = self.now.max(look.at);
        if self.view.is_held {
            return;
        }
        if self.daemons.len() < MOST_DAEMONS || self.daemons.contains_key(&look.place) {
            let daemon = self.daemons.entry(look.place.clone());
            daemon.or_insert_with_key(|place| Daemon::at(place)).take(look);
            self.is_stale = true;
        }
    }

    /// Forgets a daemon that is asked no more.
    pub fn forget(&mut self, place: &str) {
        self.is_stale |= self.daemons.remove(place).is_some();
    }

    /// Says what time it is, since the view began.
    pub fn set_now(&mut self, now: Duration) {
        if !self.view.is_held {
            self.now = self.now.max(now);
            // For how long one is silent is all that time alone changes.
            self.is_stale |= self.daemons.values().any(|it| it.silent_for(now).is_some());
        }
    }

    /// Shows another screen.
    pub fn show(&mut self, screen: Screen) {
        self.view.show(screen);
        self.is_stale = true;
    }

    /// Takes a key, and says what the caller is to do.
    pub fn press(&mut self, key: Key) -> Asked {
        self.arrange();
        self.is_stale = true;
        self.view.press(key, &self.sheet)
    }

    /// How often daemons are to be asked.
    pub fn pace(&self) -> Duration {
        Duration::from_millis(self.view.pace_ms)
    }

    /// Whether some daemon has said something.
    pub fn has_heard(&self) -> bool {
        self.daemons.values().any(|daemon| !daemon.status().is_null())
    }

    /// Draws all of it.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        self.arrange();
        draw::all(frame, &mut self.view, &self.sheet, self.palette, self.daemons.len());
    }

    /// The screen as a plain table, `columns` wide.
    pub fn plain(&mut self, columns: usize) -> String {
        self.arrange();
        plain::table(&self.sheet, self.view.screen, self.daemons.len(), columns)
    }

    /// The screen for programs.
    pub fn object(&mut self) -> Value {
        self.arrange();
        plain::object(&self.sheet, self.view.screen, self.now)
    }

    fn arrange(&mut self) {
        if !std::mem::take(&mut self.is_stale) {
            return;
        }
        let daemons: Vec<&Daemon> = self.daemons.values().collect();
        let seen = Seen { daemons: &daemons, labels: &self.labels, now: self.now };
        self.sheet = self.view.screen.sheet(&seen);
        self.sheet.filter(&self.view.filter);
        self.sheet.sort(self.view.order());
    }
}

/// More than anybody looks at; a folder may have any number of sockets.
const MOST_DAEMONS: usize = 256;
