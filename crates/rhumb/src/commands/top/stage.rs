//! The terminal, taken and given back.
//!
//! Invariant: however the view ends - by a key, a signal, an error or a panic - the terminal is as
//! it was before: its modes, its cursor and what it showed.

use std::io::{self, Stdout, stdout};
use std::panic;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Rect;
use rhumb_top::Top;

/// A terminal that is drawn to.
pub(super) struct Stage {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Stage {
    /// Takes the terminal.
    pub(super) fn take() -> io::Result<Self> {
        // What a panic says is to be read, so the terminal is given back before it is said.
        let say = panic::take_hook();
        let drawing = std::thread::current().id();
        panic::set_hook(Box::new(move |info| {
            if std::thread::current().id() == drawing {
                give_back();
            }
            say(info);
        }));
        enter()?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout())).inspect_err(|_| give_back());
        Ok(Self { terminal: terminal? })
    }

    /// Draws what has changed.
    pub(super) fn draw(&mut self, top: &mut Top) -> io::Result<()> {
        self.terminal.draw(|frame| top.draw(frame)).map(drop)
    }

    /// Has all of it drawn anew, whatever is there.
    pub(super) fn forget_what_is_shown(&mut self) -> io::Result<()> {
        // `clear` would ask the terminal where its cursor is, while another thread reads keys.
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::new(0, 0, size.width, size.height))
    }

    /// Takes a terminal again that others may have used meanwhile.
    pub(super) fn take_again(&mut self) -> io::Result<()> {
        enter()?;
        self.forget_what_is_shown()
    }

    /// Stops this process until it is told to go on; the terminal is the shell's meanwhile.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)?;
        self.take_again()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, Hide).inspect_err(|_| give_back())
}

/// A terminal that is gone cannot be given back, and need not be.
fn give_back() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}
