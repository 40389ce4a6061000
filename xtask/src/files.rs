//! What packages and images are put together by: files and folders with fixed modes, and programs
//! whose answer is all that is wanted of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::{self, Echo};

/// Copies all files, which all may read.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> Result<(), String> {
    for file in files_below(from)? {
        let placed = to.join(&file);
        make_folder(placed.parent().unwrap_or(to))?;
        fs::copy(from.join(&file), &placed).map_err(|error| told(&placed, &error))?;
        set_mode(&placed, 0o644)?;
    }
    Ok(())
}

/// The files below a folder, in order of their names: a package that is made again is the same.
pub(crate) fn files_below(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(below) = folders.pop() {
        let path = folder.join(&below);
        for entry in fs::read_dir(&path).map_err(|error| told(&path, &error))? {
            let entry = entry.map_err(|error| told(&path, &error))?;
            let kind = entry.file_type().map_err(|error| told(&path, &error))?;
            let list = if kind.is_dir() { &mut folders } else { &mut files };
            list.push(below.join(entry.file_name()));
        }
    }
    files.sort();
    Ok(files)
}

/// Makes a folder and those around it, whatever the umask says.
pub(crate) fn make_folder(folder: &Path) -> Result<(), String> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(around) = folder.parent() {
        make_folder(around)?;
    }
    fs::create_dir(folder).map_err(|error| told(folder, &error))?;
    set_mode(folder, 0o755)
}

/// Says who may do what with a file or folder.
pub(crate) fn set_mode(path: &Path, mode: u32) -> Result<(), String> {
    let mode = fs::Permissions::from_mode(mode);
    fs::set_permissions(path, mode).map_err(|error| told(path, &error))
}

/// All of a text.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| told(path, &error))
}

/// What a command prints, if it ends well.
pub(crate) fn said(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let finished = process::run(command, DEADLINE, Echo::Kept)?;
    match finished.succeeded() {
        true => Ok(finished.output.trim_end().to_owned()),
        false => Err(format!("{program} {}: {}", finished.end, finished.tail(8))),
    }
}

/// What is said of an error, and of which file it is.
pub(crate) fn told(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// To pack a program, on two busy cores.
const DEADLINE: Duration = Duration::from_secs(5 * 60);
