//! Whom people have said no to: a file beside the ledger, in which the keeper finds which of those
//! who ask it has to tell so. A no comes to the keeper as a yes does, by a file of its own user's:
//! it takes no orders from a socket.
//!
//! INVARIANT: a no is for one request, by its name and the number on its screen; whoever asks again
//! has another number. The last sixteen are there, and none once the keeper starts again.

use std::fs;

use rhumb_wire::Name;

use super::admitting::{Asking, digits};
use super::created::Created;
use super::ledger::Ledger;
use super::{Folder, folder};
use crate::failure::{Failure, Outcome};
use crate::secret_file;

/// Has the keeper tell who asks that it is not let in.
///
/// # Errors
/// When it is a member already, or the file cannot be written.
pub fn decline(created: &Created, asking: &Asking) -> Outcome {
    // Of two commands at a time neither loses the other's word.
    Ledger::while_it_is_so(&created.folder, |ledger| {
        if let Some(member) = ledger.member(asking.name) {
            return Err(Failure::setup_text(format!(
                "{label} is a member already, and asks because its answer was lost; to take it out: rhumb network \
                 remove {label}",
                label = member.label
            )));
        }
        let mut lines = read(&created.folder);
        lines.push(line(asking.name, &asking.number));
        let kept = lines.split_off(lines.len().saturating_sub(MOST));
        folder::replace(&created.folder.file(FILE), &kept.concat())
    })
}

/// Whether people have said no to what `name` asks with this number.
pub(super) fn is_declined(folder: &Folder, name: Name, number: &str) -> bool {
    read(folder).contains(&line(name, number))
}

/// Forgets all of them: nobody who asks now did so before.
pub(super) fn forget(folder: &Folder) {
    // What cannot be removed is about numbers that nobody has again.
    let _ = fs::remove_file(folder.file(FILE));
}

/// The file's lines; none if it cannot be read, as when there is none.
fn read(folder: &Folder) -> Vec<String> {
    let text = secret_file::read(&folder.file(FILE), "rhumb network admit NUMBER --refuse");
    text.map(|it| it.lines().map(|line| format!("{line}\n")).collect()).unwrap_or_default()
}

fn line(name: Name, number: &str) -> String {
    format!("{name} {}\n", digits(number))
}

/// As many as can ask at a time, twice.
const MOST: usize = 16;
const FILE: &str = "declined";
