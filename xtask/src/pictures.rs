//! `cargo xtask pictures`: draws each `docs/pictures/NAME.d2` as `NAME.svg` beside it, light and
//! dark, recordings as pictures that move, and what `rhumb top` showed as one that does not. Tests
//! draw them again and compare, so that no picture is older than its text.
//!
//! The program that draws, d2, is a Go module; `docs/pictures/go.sum` fixes it to the byte. It is
//! built once, into the target folder.

pub(crate) mod cast;
mod pane;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cast::Cast;
use pane::Pane;

use crate::metadata::{self, Metadata};
use crate::process::{self, Echo};
use crate::report::Outcome;

/// Draws all anew, in place.
pub(crate) fn write(root: &Path) -> bool {
    let written = metadata::host_triple()
        .and_then(|host| Metadata::load(root, &[host]))
        .and_then(|metadata| Easel::new(root, &metadata.target_directory))
        .and_then(|easel| {
            let draw = |source: &PathBuf| easel.draw(source, &drawing_of(source));
            easel.sources()?.iter().try_for_each(draw)
        })
        .and_then(|()| {
            RECORDINGS.into_iter().try_for_each(|path| {
                write_to(&drawing_of(&root.join(path)), &cast(root, path)?.svg())
            })?;
            PANES.into_iter().try_for_each(|path| {
                write_to(&drawing_of(&root.join(path)), &pane(root, path)?.svg())
            })
        });
    if let Err(problem) = &written {
        eprintln!("pictures: {problem}");
    }
    written.is_ok()
}

/// Whether each is what its text says.
pub(crate) fn step(root: &Path, target_directory: &Path) -> Outcome {
    let mut outcome = Outcome::passed(0);
    for path in RECORDINGS {
        outcome.add(outcome_of(path.trim_end_matches(".cast"), recorded_as_drawn(root, path)));
    }
    for path in PANES {
        let is_as_drawn = pane(root, path)
            .and_then(|pane| Ok(pane.svg() == read(&drawing_of(&root.join(path)))?));
        outcome.add(outcome_of(path.trim_end_matches(".cast"), is_as_drawn));
    }
    if !process::is_installed("go") {
        outcome.add(Outcome::skipped("pictures: no Go toolchain to build d2 with"));
        return outcome;
    }
    let easel = Easel::new(root, target_directory);
    match easel.and_then(|easel| Ok((easel.sources()?, easel))) {
        Ok((sources, easel)) => {
            sources.iter().for_each(|source| outcome.add(easel.compare(source)));
        }
        Err(problem) => outcome.add(Outcome::failed(format!("pictures: {problem}"))),
    }
    outcome
}

/// What the demo said when it was recorded.
pub(crate) fn recording(root: &Path) -> Result<Cast, String> {
    cast(root, DEMO)
}

fn cast(root: &Path, path: &str) -> Result<Cast, String> {
    let text = read(&root.join(path))?;
    Cast::parse(&text).map_err(|problem| format!("{path}: {problem}"))
}

/// What a terminal showed.
fn pane(root: &Path, path: &str) -> Result<Pane, String> {
    let text = read(&root.join(path))?;
    Pane::parse(&text).map_err(|problem| format!("{path}: {problem}"))
}

fn recorded_as_drawn(root: &Path, path: &str) -> Result<bool, String> {
    Ok(cast(root, path)?.svg() == read(&drawing_of(&root.join(path)))?)
}

fn write_to(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn outcome_of(name: &str, is_as_drawn: Result<bool, String>) -> Outcome {
    match is_as_drawn {
        Ok(true) => Outcome::passed(1),
        Ok(false) => Outcome::failed(format!(
            "pictures: {name}.svg is not what its text says: `cargo xtask pictures` draws it"
        )),
        Err(problem) => Outcome::failed(format!("pictures: {problem}")),
    }
}

/// Where pictures are, and what draws them.
struct Easel {
    pictures: PathBuf,
    d2: PathBuf,
}

impl Easel {
    fn new(root: &Path, target_directory: &Path) -> Result<Self, String> {
        let easel = Self {
            pictures: root.join("docs/pictures"),
            d2: target_directory.join("pictures").join("d2"),
        };
        let mut build = Command::new("go");
        build.current_dir(&easel.pictures).args(["build", "-mod=readonly", "-o"]);
        build.arg(&easel.d2).arg("oss.terrastruct.com/d2");
        let finished = process::run(&mut build, BUILD_DEADLINE, Echo::Kept)?;
        match finished.succeeded() {
            true => Ok(easel),
            false => Err(format!("building d2 {}\n{}", finished.end, finished.tail(5))),
        }
    }

    fn sources(&self) -> Result<Vec<PathBuf>, String> {
        let entries = std::fs::read_dir(&self.pictures);
        let entries = entries.map_err(|error| format!("docs/pictures: {error}"))?;
        let paths = entries.flatten().map(|entry| entry.path());
        let mut sources: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|end| end == "d2")).collect();
        sources.sort();
        if sources.is_empty() { Err("docs/pictures: no texts".to_owned()) } else { Ok(sources) }
    }

    fn draw(&self, source: &Path, drawing: &Path) -> Result<(), String> {
        let mut draw = Command::new(&self.d2);
        draw.args(["--theme", LIGHT, "--dark-theme", DARK, "--pad", "12", "--scale", "1"]);
        draw.arg(source).arg(drawing);
        let finished = process::run(&mut draw, DRAW_DEADLINE, Echo::Kept)?;
        match finished.succeeded() {
            true => Ok(()),
            false => Err(format!("{}: {}", source.display(), finished.tail(5))),
        }
    }

    fn compare(&self, source: &Path) -> Outcome {
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        let fresh = self.d2.with_file_name(format!("{name}.svg"));
        let drawn = self.draw(source, &fresh);
        outcome_of(&name, drawn.and_then(|()| Ok(read(&fresh)? == read(&drawing_of(source))?)))
    }
}

fn drawing_of(source: &Path) -> PathBuf {
    source.with_extension("svg")
}

/// Made by asciinema 2, or by whatever else writes its format: `asciinema rec -c "rhumb demo"`.
const DEMO: &str = "docs/pictures/demo.cast";
/// Those besides it are written by tests of what they show, with `RHUMB_PICTURES=docs/pictures`.
const RECORDINGS: [&str; 3] = [DEMO, "docs/pictures/lan.cast", "docs/pictures/network.cast"];
/// Written by a test of `rhumb top`, with `RHUMB_PICTURES=docs/pictures`.
const PANES: [&str; 2] = ["docs/pictures/top.cast", "docs/pictures/top-drops.cast"];
/// Numbers of d2's themes: "neutral default", and "dark mauve" where the reader's screen is dark.
const LIGHT: &str = "0";
const DARK: &str = "200";
/// From nothing, on two busy cores.
const BUILD_DEADLINE: Duration = Duration::from_secs(8 * 60);
const DRAW_DEADLINE: Duration = Duration::from_secs(60);
