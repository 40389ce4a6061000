//! Which test programs have passed and are unchanged since, kept in the target folder.
//!
//! A program is unchanged while it, the programs that it may start, and all files of the project
//! that are no Rust code (vectors, pages, settings, recordings) have the size and the time of
//! change that they had. Cargo writes a program anew whenever code that it is made of has changed.
//!
//! The one binary of all commands is made of all crates, so for tests of a product the sources of
//! what the product is made of stand in its place ([`Product`]), and of their own program its
//! content: cargo links it anew without need.
//!
//! What else the machine has, such as another version of a foreign router, is not looked at:
//! `cargo xtask test --again` runs everything.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::process::{self, Echo};
use crate::products::Product;
use crate::programs::Program;

/// What is known from earlier runs.
pub(crate) struct Passed {
    file: PathBuf,
    /// By program: its state then, and how many tests it has.
    programs: BTreeMap<String, (String, usize)>,
    /// Each file of the project, with its stamp; without them nothing is known to be unchanged.
    files: Option<Vec<(String, Option<String>)>>,
}

impl Passed {
    /// What was kept; nothing if it cannot be read. Done before cargo builds, so that a source that
    /// changes meanwhile is seen to have changed by the next run.
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
        let product = Product::of(&program.name);
        let mut state = self.stamps(product)?;
        if product.is_some() {
            let content = std::fs::read(&program.executable).ok()?;
            let _ = write!(state, " {:016x}", fnv(&content));
            return Some(state);
        }
        for path in std::iter::once(&program.executable).chain(&program.starts) {
            state.push_str(&stamp(path)?);
        }
        Some(state)
    }

    /// The stamps of all files that are no Rust code, and of what the product is made of, in short.
    fn stamps(&self, product: Option<&Product>) -> Option<String> {
        let counts = |name: &str| {
            !name.ends_with(".rs") || product.is_some_and(|product| product.is_made_of(name))
        };
        let mut all = String::new();
        for (name, stamp) in self.files.as_ref()?.iter().filter(|(name, _)| counts(name)) {
            let _ = write!(all, "{name}{stamp:?}");
        }
        Some(format!("{:016x}", fnv(all.as_bytes())))
    }
}

/// Size and time of change of every file of the project.
fn files(root: &Path) -> Option<Vec<(String, Option<String>)>> {
    let mut command = Command::new("git");
    command.current_dir(root).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let finished = process::run(&mut command, LIST_DEADLINE, Echo::Kept).ok()?;
    // What was deleted and not committed has no stamp, and is a change, too.
    let with_stamp = |name: &str| (name.to_owned(), stamp(&root.join(name)));
    finished.succeeded().then(|| finished.output.lines().map(with_stamp).collect())
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

    /// A program in a folder of its own, with what it starts, and what is known of it.
    struct Case {
        folder: PathBuf,
        program: Program,
        passed: Passed,
    }

    impl Case {
        fn new(name: &str) -> Self {
            let own = format!("rhumb-passed-{}-{}", name.replace(' ', "-"), std::process::id());
            let folder = std::env::temp_dir().join(own);
            std::fs::create_dir_all(&folder).expect("a folder can be made");
            let path = |name: &str| {
                let path = folder.join(name);
                write(&path, "as it is");
                path
            };
            let program = Program {
                name: name.to_owned(),
                folder: folder.clone(),
                executable: path("all"),
                starts: vec![path("daemon")],
            };
            let files = ["README.md", "crates/rhumb-switch/src/lib.rs", "crates/rhumb/src/main.rs"];
            let files = files.map(|name| (name.to_owned(), Some(" 1 2".to_owned())));
            let passed = Passed {
                file: folder.join("passed.json"),
                programs: BTreeMap::new(),
                files: Some(files.to_vec()),
            };
            Self { folder, program, passed }
        }

        /// Whether it is run again after `change`, and has passed before it.
        fn is_run_again_after(&mut self, change: impl FnOnce(&mut Passed, &Program)) -> bool {
            self.passed.remember(&self.program, 7);
            assert_eq!(self.passed.tests_of(&self.program), Some(7));
            change(&mut self.passed, &self.program);
            self.passed.tests_of(&self.program).is_none()
        }
    }

    impl Drop for Case {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    /// Another time of change of the file of that number.
    fn change(passed: &mut Passed, number: usize) {
        passed.files.as_mut().expect("files")[number].1 = Some(" 1 3".to_owned());
    }

    fn write(path: &Path, text: &str) {
        std::fs::write(path, text).expect("a file can be written");
    }

    #[test]
    fn a_program_is_run_again_when_it_or_what_it_starts_or_reads_has_changed() {
        let mut case = Case::new("a all");
        assert_eq!(case.passed.tests_of(&case.program), None);
        assert!(case.is_run_again_after(|_, program| write(&program.executable, "other")));
        assert!(case.is_run_again_after(|_, program| write(&program.starts[0], "other")));
        assert!(case.is_run_again_after(|passed, _| change(passed, 0)));
        // Of code that is not read, what cargo builds of it tells.
        assert!(!case.is_run_again_after(|passed, _| change(passed, 1)));

        case.passed.save().expect("a file can be written");
        let loaded = Passed::load(Path::new("/nowhere/at/all"), &case.folder);
        assert_eq!(loaded.programs, case.passed.programs);
        // Without git nothing is known of the files.
        assert_eq!(loaded.tests_of(&case.program), None);
    }

    #[test]
    fn tests_of_a_product_are_run_again_when_it_or_they_have_changed_and_not_for_the_others() {
        let mut case = Case::new("rhumb sixpack");
        assert!(case.is_run_again_after(|_, program| write(&program.executable, "other")));
        assert!(case.is_run_again_after(|passed, _| change(passed, 0)));
        assert!(case.is_run_again_after(|passed, _| change(passed, 2)));
        // The switch changes, and with it the binary; cargo links the tests anew, as they were.
        assert!(!case.is_run_again_after(|passed, program| {
            change(passed, 1);
            write(&program.starts[0], "with another switch");
            write(&program.executable, "other");
        }));
    }
}
