//! Which test programs have passed and are unchanged since, kept in the target folder.
//!
//! A program is unchanged while it, the programs that it may start, and all files of the project
//! that are no Rust code (vectors, pages, settings, recordings) have the size and the time of
//! change that they had. Cargo writes a program anew whenever code that it is made of has changed.
//! What else the machine has, such as another version of a foreign router, is not looked at:
//! `cargo xtask test --again` runs everything.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::process::{self, Echo};
use crate::programs::Program;

/// What is known from earlier runs.
pub(crate) struct Passed {
    file: PathBuf,
    /// By program: its state then, and how many tests it has.
    programs: BTreeMap<String, (String, usize)>,
    /// The state of what is not code; without it nothing is known to be unchanged.
    files: Option<String>,
}

impl Passed {
    /// What was kept; nothing if it cannot be read.
    pub(crate) fn load(root: &Path, target_directory: &Path) -> Self {
        let file = target_directory.join("passed.json");
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let kept: Value = serde_json::from_str(&text).unwrap_or_default();
        let entry = |(name, it): (&String, &Value)| {
            let tests = usize::try_from(it["tests"].as_u64()?).ok()?;
            Some((name.clone(), (it["state"].as_str()?.to_owned(), tests)))
        };
        let programs = kept.as_object().into_iter().flatten().filter_map(entry).collect();
        Self { file, programs, files: files(root) }
    }

    /// How many tests of `program` passed, if nothing has changed since.
    pub(crate) fn tests_of(&self, program: &Program) -> Option<usize> {
        let (state, tests) = self.programs.get(&program.name)?;
        (*state == self.state(program)?).then_some(*tests)
    }

    /// All tests of `program` have passed.
    pub(crate) fn remember(&mut self, program: &Program, tests: usize) {
        if let Some(state) = self.state(program) {
            self.programs.insert(program.name.clone(), (state, tests));
        }
    }

    /// Keeps it for the next run.
    pub(crate) fn save(&self) -> std::io::Result<()> {
        let entry = |(name, (state, tests)): (&String, &(String, usize))| {
            (name.clone(), json!({"state": state, "tests": tests}))
        };
        let kept: serde_json::Map<String, Value> = self.programs.iter().map(entry).collect();
        std::fs::write(&self.file, Value::Object(kept).to_string())
    }

    fn state(&self, program: &Program) -> Option<String> {
        let mut state = self.files.clone()?;
        for path in std::iter::once(&program.executable).chain(&program.starts) {
            state.push_str(&stamp(path)?);
        }
        Some(state)
    }
}

/// Size and time of change of every file of the project that is no Rust code, in short.
fn files(root: &Path) -> Option<String> {
    let mut command = Command::new("git");
    command.current_dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let finished = process::run(&mut command, LIST_DEADLINE, Echo::Kept).ok()?;
    if !finished.succeeded() {
        return None;
    }
    let mut all = String::new();
    for name in finished.output.lines().filter(|name| !name.ends_with(".rs")) {
        // What was deleted and not committed has no stamp, and is a change, too.
        let _ = write!(all, "{name}{:?}", stamp(&root.join(name)));
    }
    Some(format!("{:016x}", fnv(all.as_bytes())))
}

fn stamp(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok()?;
    let changed = metadata.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(format!(" {} {}", metadata.len(), changed.as_nanos()))
}

/// FNV-1a: one number for many; nobody gains by two that are alike.
fn fnv(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

const LIST_DEADLINE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn program(folder: &Path) -> Program {
        let path = |name: &str| {
            let path = folder.join(name);
            std::fs::write(&path, "as it is").expect("a file can be written");
            path
        };
        Program {
            name: "a all".to_owned(),
            folder: folder.to_owned(),
            executable: path("all"),
            starts: vec![path("daemon")],
        }
    }

    #[test]
    fn a_program_is_run_again_when_it_or_what_it_starts_or_reads_has_changed() {
        let folder = std::env::temp_dir().join(format!("rhumb-passed-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let program = program(&folder);
        let mut passed = Passed {
            file: folder.join("passed.json"),
            programs: BTreeMap::new(),
            files: Some("files".to_owned()),
        };
        assert_eq!(passed.tests_of(&program), None);
        passed.remember(&program, 7);
        assert_eq!(passed.tests_of(&program), Some(7));
        passed.save().expect("a file can be written");
        let loaded = Passed::load(Path::new("/nowhere/at/all"), &folder);
        assert_eq!(loaded.programs, passed.programs);
        // Without git nothing is known of the files.
        assert_eq!(loaded.tests_of(&program), None);

        for changed in [&program.executable, &program.starts[0]] {
            passed.remember(&program, 7);
            std::fs::write(changed, "as it was not").expect("a file can be written");
            assert_eq!(passed.tests_of(&program), None, "{}", changed.display());
        }
        passed.remember(&program, 7);
        passed.files = Some("others".to_owned());
        assert_eq!(passed.tests_of(&program), None);
        std::fs::remove_dir_all(&folder).expect("our own folder");
    }
}
