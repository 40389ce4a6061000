//! A file that goes to standard output as it comes, so that it can be read by a program: it counts
//! only when the command says so at its end, by its exit code.
//!
//! What was written cannot be taken back, so nothing is there from before, and nothing is written
//! twice. What is told otherwise goes to standard error.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use rhumb_daemon::output::Form;
use rhumb_node::transfer::WriteAt;
use rhumb_wire::transfer::FileName;
use serde::Serialize;

use super::Door;
use super::room::NoRoom;

/// Where what is not the file is printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Teller {
    pub(super) form: Form,
    /// Standard output is the file's.
    pub(super) is_beside: bool,
}

impl Teller {
    pub(super) fn print(self, report: &(impl Serialize + fmt::Display)) {
        match self.is_beside {
            true => self.form.print_beside(report),
            false => self.form.print(report),
        }
    }
}

/// Standard output, for one file.
pub(super) struct Output {
    pub(super) door: Arc<Door>,
    pub(super) is_strangers: bool,
    /// How much of it was written.
    pub(super) written: u64,
}

impl WriteAt for Output {
    fn write_all_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if offset != self.written {
            return Err(io::ErrorKind::NotSeekable.into());
        }
        let until = offset + bytes.len() as u64;
        if let Err(NoRoom::TooLarge { .. }) = self.door.room.allows(until, self.is_strangers) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut output = io::stdout().lock();
        // Whoever reads it sees at once what has come.
        output.write_all(bytes).and_then(|()| output.flush())?;
        self.written = until;
        Ok(())
    }

    fn finish(&mut self, _: &FileName) -> io::Result<()> {
        io::stdout().lock().flush()
    }
}
