//! Whoever sits at the terminal, and is asked whether two numbers are the same.
//!
//! INVARIANT: nobody waits for them on a thread of its own: privileges are given up by a process of
//! one thread. A terminal gives whole lines, so what can be read is there.

use std::io::{self, IsTerminal, Stdin};
use std::os::fd::AsFd;
use std::time::Duration;

use rhumb_io::poll::{Interest, poll};
use tokio::time::sleep;

/// The terminal.
pub(super) struct People {
    terminal: Stdin,
    /// What was read of it, and is no whole line.
    typed: Vec<u8>,
    /// Whether it is closed.
    is_gone: bool,
}

impl People {
    /// None where nobody can be asked. `with_parent`: standard input is a program's.
    pub(super) fn at_terminal(with_parent: bool) -> Option<Self> {
        let terminal = io::stdin();
        let is_terminal = terminal.is_terminal() && io::stdout().is_terminal();
        let people = Self { terminal, typed: Vec::new(), is_gone: false };
        (is_terminal && !with_parent).then_some(people)
    }

    /// The next line; never, when there is none any more. May be dropped and called again.
    pub(super) async fn line(&mut self) -> String {
        loop {
            if let Some(at) = self.typed.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.typed.drain(..=at).collect();
                return String::from_utf8_lossy(&line).into_owned();
            }
            match self.has_more() {
                true => self.read(),
                false => sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Whether what is typed next is a yes.
    pub(super) async fn agree(&mut self) -> bool {
        // What was typed before the question was seen is no answer to it.
        while self.has_more() {
            self.read();
        }
        self.typed.clear();
        is_yes(&self.line().await)
    }

    fn has_more(&self) -> bool {
        let readable = [Interest::Readable(self.terminal.as_fd())];
        let polled = poll(&readable, Some(Duration::ZERO));
        !self.is_gone && polled.is_ok_and(|[is_readable]| is_readable)
    }

    /// Reads what is there.
    fn read(&mut self) {
        let mut bytes = [0; MOST_READ];
        match rustix::io::read(self.terminal.as_fd(), &mut bytes) {
            Ok(read) if read > 0 => self.typed.extend_from_slice(&bytes[..read]),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            _ => self.is_gone = true,
        }
        self.typed.truncate(MOST_READ);
    }
}

/// Whether a line is a yes; nothing is none.
pub(super) fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// Whether a line is a no, as one that is left empty: so the question has it.
pub(super) fn is_no(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "" | "n" | "no")
}

/// People do not notice it.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// As long as the longest line that a terminal gives.
const MOST_READ: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_one() {
        assert!(["y", " Y ", "yes", "YES\t", "y\n"].into_iter().all(is_yes));
        assert!(["", " ", "n", "No\n"].into_iter().all(is_no));
        assert!(!["y", "nay", "1", "n 1"].into_iter().any(is_no));
        assert!(!["", "n", "no", "yy", "1", "ja"].into_iter().any(is_yes));
    }
}
