//! `rhumb receive`: files sent to this node's name, put into a folder.
//!
//! A file is written under a temporary name in that folder and gets its own once its SHA-256 is right. Nothing is ever
//! overwritten: a name that is taken gets a number.

use std::fmt;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use data_encoding::HEXLOWER;
use rhumb_node::transfer::ReceiverConfig;
use rhumb_node::{Node, ReceiveReport};
use rhumb_wire::Name;
use rhumb_wire::transfer::CancelReason;
use serde::Serialize;
use tempfile::NamedTempFile;
use tokio::task::JoinSet;

use crate::cli::ReceiveArguments;
use crate::config::NodeSettings;
use crate::failure::{Failure, Outcome};
use crate::membership::joined;
use crate::output::{Form, bytes_text, rate_text};
use crate::progress::Bar;

/// Runs the command.
pub(crate) fn run(
    arguments: &ReceiveArguments,
    settings: &NodeSettings,
    with_parent: bool,
    quiet: bool,
    form: Form,
) -> Outcome {
    check_folder(&arguments.dir)?;
    let interrupted = match arguments.once {
        true => Err(Failure::operation_text("stopped before a file had arrived")),
        false => Ok(()),
    };
    joined(settings, with_parent, interrupted, |node| async move {
        let router = node.router().await;
        form.print(&Ready { name: node.name(), router });
        if arguments.once {
            let received = receive(&node, &arguments.dir, &Bar::new(quiet)).await?;
            form.print(&received);
            return Ok(());
        }
        serve(&node, &arguments.dir, quiet, form).await
    })
}

/// Receives for ever, several files at once. What fails is said, and the next is waited for.
async fn serve(node: &Node, folder: &Path, quiet: bool, form: Form) -> Outcome {
    let mut receptions = JoinSet::new();
    loop {
        while receptions.len() < MAX_AT_ONCE {
            let (node, folder) = (node.clone(), folder.to_owned());
            // Several bars on one terminal would overwrite each other, so only the first of them shows one.
            let bar = Bar::new(quiet || !receptions.is_empty());
            receptions.spawn(async move { receive(&node, &folder, &bar).await });
        }
        match receptions.join_next().await {
            Some(Ok(Ok(received))) => form.print(&received),
            Some(Ok(Err(failure))) => {
                tracing::warn!(%failure, "a file did not arrive");
                // A node that is closed fails at once and for ever.
                node.status().await.map_err(Failure::operation)?;
            }
            Some(Err(panicked)) => return Err(Failure::operation(panicked)),
            None => {}
        }
    }
}

/// Receives one file.
async fn receive(node: &Node, folder: &Path, bar: &Bar) -> Outcome<Received> {
    let unfinished: Arc<Mutex<Option<NamedTempFile>>> = Arc::default();
    let (place, folder_of_place, bar_of_offer, progress) =
        (Arc::clone(&unfinished), folder.to_owned(), bar.clone(), bar.clone());
    let report = node
        .receive_file(
            ReceiverConfig::default(),
            move |_, offer| -> Result<File, CancelReason> {
                let file = new_file(&folder_of_place).map_err(|error| {
                    tracing::warn!(%error, "cannot write to the folder");
                    CancelReason::WriteFailed
                })?;
                let handle = file.as_file().try_clone().map_err(|_| CancelReason::WriteFailed)?;
                bar_of_offer.begin(offer.name.as_str(), offer.length);
                *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
                Ok(handle)
            },
            move |bytes| progress.advance(bytes),
        )
        .await;
    bar.end();
    let report = report.map_err(Failure::operation)?;
    let file = unfinished.lock().unwrap_or_else(PoisonError::into_inner).take();
    let file = file.ok_or_else(|| Failure::operation_text("the file has no place"))?;
    let path = keep(file, folder, &report.file_name)?;
    Ok(Received { path, report })
}

/// A file that disappears unless it is kept. Once it has its name, others may read it as far as the umask lets them.
fn new_file(folder: &Path) -> std::io::Result<NamedTempFile> {
    tempfile::Builder::new()
        .prefix(".rhumb-")
        .suffix(".part")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
}

/// Gives a complete file its name, or the first of `name.1`, `name.2` and so on that is free.
fn keep(file: NamedTempFile, folder: &Path, name: &str) -> Outcome<PathBuf> {
    let failed = |error: std::io::Error| {
        Failure::operation_text(format!("cannot keep {name} in {}: {error}", folder.display()))
    };
    file.as_file().sync_all().map_err(failed)?;
    let mut file = file;
    for number in 0..MAX_NUMBER {
        let path = match number {
            0 => folder.join(name),
            number => folder.join(format!("{name}.{number}")),
        };
        match file.persist_noclobber(&path) {
            Ok(_) => return Ok(path),
            Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {
                file = error.file;
            }
            Err(error) => return Err(failed(error.error)),
        }
    }
    Err(Failure::operation_text(format!(
        "{} has {MAX_NUMBER} files called {name} already; move some away",
        folder.display()
    )))
}

fn check_folder(folder: &Path) -> Outcome {
    match std::fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(Failure::setup_text(format!(
            "{} is no folder; give one with --dir",
            folder.display()
        ))),
        Err(error) => Err(Failure::setup_text(format!(
            "folder {}: {error}; make it, or give another with --dir",
            folder.display()
        ))),
    }
}

struct Ready {
    name: Name,
    router: Option<Name>,
}

impl Serialize for Ready {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::json!({
            "ready": true,
            "role": "node",
            "name": self.name.to_string(),
            "router": self.router.map(|name| name.to_string()),
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ready: others send with `rhumb send FILE --to {}`", self.name)
    }
}

struct Received {
    path: PathBuf,
    report: ReceiveReport,
}

impl Serialize for Received {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::json!({
            "received": self.path,
            "from": self.report.from.to_string(),
            "bytes": self.report.bytes,
            "sha256": HEXLOWER.encode(&self.report.sha256),
            "seconds": self.report.elapsed.as_secs_f64(),
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReceiveReport { from, bytes, elapsed, .. } = self.report;
        write!(
            f,
            "received {} ({}) from {from} in {:.2} s, {}",
            self.path.display(),
            bytes_text(bytes),
            elapsed.as_secs_f64(),
            rate_text(bytes, elapsed)
        )
    }
}

/// More senders than this at once wait for their turn.
const MAX_AT_ONCE: usize = 8;
/// Beyond this somebody is filling the folder.
const MAX_NUMBER: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let folder = tempfile::tempdir().unwrap();
        for (content, expected) in [("a", "file"), ("b", "file.1"), ("c", "file.2")] {
            let mut file = new_file(folder.path()).unwrap();
            file.write_all(content.as_bytes()).unwrap();
            let path = keep(file, folder.path(), "file").unwrap();
            assert_eq!(path, folder.path().join(expected));
        }
        assert_eq!(std::fs::read_to_string(folder.path().join("file")).unwrap(), "a");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn an_unfinished_file_disappears() {
        let folder = tempfile::tempdir().unwrap();
        drop(new_file(folder.path()).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
