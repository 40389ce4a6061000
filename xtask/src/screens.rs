//! `cargo xtask screens`: pictures of the dashboard as a browser shows it, for the documentation.
//!
//! They are taken by the tests that open the dashboard of real daemons in a real browser, and of
//! all that they take those that the documentation shows are kept.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::metadata::{self, Metadata, cargo};
use crate::process::{self, Echo};

/// Takes them anew, into `docs/pictures`.
pub(crate) fn take(root: &Path) -> bool {
    let taken = metadata::host_triple()
        .and_then(|host| Metadata::load(root, &[host]))
        .and_then(|metadata| test(root, &metadata.target_directory.join("screens")))
        .and_then(|folder| KEPT.iter().try_for_each(|name| keep(&folder, root, name)));
    if let Err(problem) = &taken {
        eprintln!("screens: {problem}");
    }
    taken.is_ok()
}

fn test(root: &Path, folder: &Path) -> Result<std::path::PathBuf, String> {
    let failed = |error| format!("{}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(failed)?;
    }
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut command = Command::new(cargo());
    command.current_dir(root).env("RHUMB_PICTURES", folder);
    command.args(["test", "--locked", "--package", "rhumb", "--test", "routing"]);
    command.args(["dashboard::a_browser_", "--", "--nocapture"]);
    let finished = process::run(&mut command, TEST_DEADLINE, Echo::ErrorsShown)?;
    if !finished.succeeded() {
        return Err(format!("the test {}\n{}", finished.end, finished.tail(20)));
    }
    match finished.output.lines().find(|line| line.contains("skipped: ")) {
        Some(why) => Err(why.to_owned()),
        None => Ok(folder.to_owned()),
    }
}

/// One that has become too large for a page is refused, and the one before stays.
fn keep(folder: &Path, root: &Path, name: &str) -> Result<(), String> {
    let file = format!("dashboard-{name}.png");
    let (from, to) = (folder.join(&file), root.join("docs/pictures").join(&file));
    let picture = std::fs::read(&from).map_err(|error| format!("{}: {error}", from.display()))?;
    if picture.len() > MOST_LEN {
        return Err(format!("{file} has {} bytes, at most {MOST_LEN}", picture.len()));
    }
    std::fs::write(&to, picture).map_err(|error| format!("{}: {error}", to.display()))?;
    println!("{}", to.display());
    Ok(())
}

/// What the documentation shows.
const KEPT: [&str; 6] =
    ["overview-light", "network-dark", "traffic-light", "traffic-phone", "names-light", "alarms"];
const MOST_LEN: usize = 200_000;
const TEST_DEADLINE: Duration = Duration::from_secs(1800);
