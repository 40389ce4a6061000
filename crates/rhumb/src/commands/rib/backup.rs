//! `rhumb rib backup`: a copy of what a running RIB stores, in a file of whoever asks.
//!
//! The RIB has its file to itself, so it hands out what is in there over its admin socket, and this
//! command makes a file of that: with the rights of its own user, and never in the place of another
//! one. Until all of it is there and on disk, the file has another name.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rhumb_daemon::admin::{self, Admin};
use rhumb_daemon::config::ConfigFile;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::output::Form;
use rhumb_daemon::progress::Bar;
use rhumb_daemon::status;
use rhumb_rib::store::{Copied, restore};
use serde::Serialize;

/// Runs the command.
pub(crate) fn run(
    to: &Path,
    admin: Option<Admin>,
    file: &ConfigFile,
    bar: &Bar,
    form: Form,
) -> Outcome {
    let admin = status::endpoint(admin, file)?;
    let Admin::Socket(socket) = &admin else {
        return Err(Failure::setup_text(format!(
            "a back-up says who is where, so a RIB gives it by a Unix socket only, and {admin} is none; \
             start the RIB with --admin alone, or with a path"
        )));
    };
    if to.symlink_metadata().is_ok() {
        return Err(exists(to));
    }
    let (head, stream) = admin::open(socket, "/backup", DEADLINE)
        .map_err(|error| status::not_answered(&admin, &error))?;
    if !head.contains(" 200 ") {
        let mut problem = String::new();
        let _ = stream.take(MAX_PROBLEM_LEN).read_to_string(&mut problem);
        let problem = problem.trim_end();
        return Err(Failure::setup_text(format!("no back-up is given at {admin}: {problem}")));
    }
    let part = Part::make(to)?;
    bar.begin_endless(&to.display().to_string());
    bar.advance(0);
    let mut stream = Watched { stream, bytes: 0, bar };
    let copied = restore(&mut stream, part.file.try_clone().map_err(Failure::operation)?);
    bar.end();
    let copied = copied.map_err(Failure::operation)?;
    part.put_in_place(to)?;
    form.print(&Made { file: to.to_owned(), copied });
    Ok(())
}

fn exists(to: &Path) -> Failure {
    let shown = to.display();
    Failure::setup_text(format!(
        "{shown} is there already; a back-up takes no file's place: name another"
    ))
}

/// A stream of which a bar shows how much has come.
struct Watched<'a, S> {
    stream: S,
    bytes: u64,
    bar: &'a Bar,
}

impl<S: Read> Read for Watched<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        self.bytes += read as u64;
        self.bar.advance(self.bytes);
        Ok(read)
    }
}

/// The file before it is whole; removed when it does not come to that.
struct Part {
    file: File,
    path: PathBuf,
}

impl Part {
    fn make(to: &Path) -> Outcome<Self> {
        let mut path = to.as_os_str().to_owned();
        path.push(".part");
        let path = PathBuf::from(path);
        let opened =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
        let file = opened.map_err(|error| {
            let shown = path.display();
            Failure::setup_text(match error.kind() {
                io::ErrorKind::AlreadyExists => format!(
                    "{shown} is there: another back-up is being made to it, or one was cut off; remove it then"
                ),
                _ => format!("{shown}: {error}"),
            })
        })?;
        Ok(Self { file, path })
    }

    /// Gives the file its name, if nothing has come to have it.
    fn put_in_place(self, to: &Path) -> Outcome {
        let shown = to.display();
        let failed = |error: io::Error| Failure::operation_text(format!("{shown}: {error}"));
        self.file.sync_all().map_err(failed)?;
        std::fs::hard_link(&self.path, to).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(to),
            _ => failed(error),
        })?;
        let folder = to.parent().filter(|it| !it.as_os_str().is_empty());
        let folder = File::open(folder.unwrap_or(Path::new("."))).map_err(failed)?;
        folder.sync_all().map_err(failed)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What was made.
#[derive(Debug, Serialize)]
struct Made {
    file: PathBuf,
    #[serde(flatten)]
    copied: Copied,
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Copied { names, removals, damaged } = self.copied;
        write!(f, "{}: {names} names, {removals} removals", self.file.display())?;
        match damaged {
            0 => Ok(()),
            _ => {
                write!(f, "; {damaged} could not be read back and are left out, publish them again")
            }
        }
    }
}

/// A RIB that reads from a busy disk may pause for so long.
const DEADLINE: Duration = Duration::from_secs(60);
/// A sentence or two.
const MAX_PROBLEM_LEN: u64 = 4 << 10;
