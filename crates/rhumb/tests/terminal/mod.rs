//! A real terminal, of any size, with a program in it: tmux, which says what it shows.

#![allow(dead_code, clippy::unwrap_used)] // Each user takes a part of this; a test may panic.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::harness::Place;

/// A terminal with a shell's command in it. It ends with the returned value, or after two minutes.
pub(crate) struct Terminal {
    socket: String,
    folder: std::path::PathBuf,
}

impl Terminal {
    /// Runs a line of a shell in `place`, with the binary as `$RHUMB`. `None` without tmux, and a
    /// line that says so.
    pub(crate) fn open(place: &Place, columns: u16, rows: u16, line: &str) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            println!("skipped: without tmux (Debian package tmux)");
            return None;
        }
        let terminal = Self {
            socket: place.path("tmux").to_str().unwrap().to_owned(),
            folder: place.folder().to_owned(),
        };
        let size = [columns.to_string(), rows.to_string()];
        let inside = place.command(&["-c", line]);
        let mut command = terminal.command(&["-f", "/dev/null", "new-session", "-d"]);
        command.args(["-x", &size[0], "-y", &size[1], "timeout", "--foreground", "120", "sh"]);
        command.args(inside.get_args()).env("HOME", place.folder());
        command.env("XDG_RUNTIME_DIR", place.folder()).env_remove("XDG_DATA_HOME");
        command.env_remove("RUST_LOG").env_remove("NO_COLOR");
        command.env("RHUMB", env!("CARGO_BIN_EXE_rhumb")).env("LC_ALL", "C.UTF-8");
        let opened = command.output().unwrap();
        assert!(opened.status.success(), "{}", String::from_utf8_lossy(&opened.stderr));
        Some(terminal)
    }

    /// What it shows, as plain text.
    pub(crate) fn text(&self) -> String {
        self.said(&["capture-pane", "-p"])
    }

    /// The same with its colours, as a terminal is told them.
    pub(crate) fn coloured(&self) -> String {
        self.said(&["capture-pane", "-p", "-e", "-N"])
    }

    /// Its title, which programs can set.
    pub(crate) fn title(&self) -> String {
        self.said(&["display-message", "-p", "#{pane_title}"])
    }

    /// Whether a program has taken the whole of it, for as long as it runs.
    pub(crate) fn is_on_another_screen(&self) -> bool {
        self.said(&["display-message", "-p", "#{alternate_on}"]).trim() == "1"
    }

    /// How many rows are above the one in which is typed.
    pub(crate) fn rows_above_the_cursor(&self) -> usize {
        self.said(&["display-message", "-p", "#{cursor_y}"]).trim().parse().unwrap()
    }

    /// Whether it shows where one types.
    pub(crate) fn has_cursor(&self) -> bool {
        self.said(&["display-message", "-p", "#{cursor_flag}"]).trim() == "1"
    }

    /// Presses keys, by tmux's names for them.
    pub(crate) fn press(&self, keys: &[&str]) {
        self.said(&[&["send-keys"], keys].concat());
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let size = [columns.to_string(), rows.to_string()];
        self.said(&["resize-window", "-x", &size[0], "-y", &size[1]]);
    }

    /// Waits until it shows something that is so.
    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let text = self.text();
            if is_so(&text) {
                return text;
            }
            assert!(start.elapsed() < PATIENCE, "no {what}:\n{text}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until it shows these words.
    #[track_caller]
    pub(crate) fn wait_for_words(&self, words: &str) -> String {
        self.wait_for(words, |text| text.contains(words))
    }

    /// Waits until what ran in it has ended.
    #[track_caller]
    pub(crate) fn wait_for_end(&self) {
        let start = Instant::now();
        while self.output(&["list-sessions"]).status.success() {
            assert!(start.elapsed() < PATIENCE, "it did not end:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[track_caller]
    fn said(&self, words: &[&str]) -> String {
        let output = self.output(words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tmux {words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-S", &self.socket]).args(words);
        command.current_dir(&self.folder).env_remove("TMUX").stdin(Stdio::null());
        command
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.output(&["kill-server"]);
    }
}

/// For a machine that is busy with everything else.
const PATIENCE: Duration = Duration::from_secs(30);
