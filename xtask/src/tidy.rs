//! `cargo xtask tidy`: what the house style says and a program can check.
//!
//! Every rule is a function over a [`Tree`] (and, for some, over cargo's
//! metadata) that adds to [`Findings`]; each has a test of what it refuses. A
//! finding names the place and what to do about it.

mod architecture;
mod circles;
mod commands;
mod crates;
mod drop_reasons;
mod fuzz_targets;
mod licences;
mod links;
mod modules;
mod products;
mod rust_files;
mod source;
mod text;
mod threats;
mod tree;

use std::path::Path;

use crate::metadata::Metadata;
use crate::report::Outcome;
use licences::Policy;
pub(crate) use links::resolve;
use tree::Tree;

/// What the rules found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Breaches: `place: what is wrong`.
    problems: Vec<String>,
    /// Worth a look, no breach.
    notes: Vec<String>,
}

impl Findings {
    fn refuse(&mut self, path: &str, why: impl std::fmt::Display) {
        self.problems.push(format!("{path}: {why}"));
    }

    fn refuse_line(&mut self, path: &str, line: usize, why: impl std::fmt::Display) {
        self.problems.push(format!("{path}:{line}: {why}"));
    }

    fn note(&mut self, path: &str, what: impl std::fmt::Display) {
        self.notes.push(format!("{path}: {what}"));
    }
}

/// Prints all findings; true when there is no breach.
pub(crate) fn print(root: &Path) -> bool {
    let findings = check(root);
    for note in &findings.notes {
        println!("note: {note}");
    }
    for problem in &findings.problems {
        println!("{problem}");
    }
    let (problems, notes) = (findings.problems.len(), findings.notes.len());
    println!("tidy: {problems} problems, {notes} notes");
    problems == 0
}

/// Tidy as one step of the test command.
pub(crate) fn step(root: &Path) -> Outcome {
    match print(root) {
        true => Outcome::passed(1),
        false => Outcome::failed("tidy: see its step above, or run `cargo xtask tidy`"),
    }
}

fn check(root: &Path) -> Findings {
    let mut findings = Findings::default();
    let tree = match Tree::load(root) {
        Ok(tree) => tree,
        Err(problem) => {
            findings.refuse(".", problem);
            return findings;
        }
    };
    rust_files::check(&tree, &mut findings);
    text::check(&tree, &mut findings);
    links::check(&tree, &mut findings);
    crates::check(&tree, &mut findings);
    fuzz_targets::check(&tree, &mut findings);
    commands::check(&tree, &mut findings);
    products::check(&tree, &mut findings);
    circles::check(&tree, &mut findings);
    drop_reasons::check(&tree, &mut findings);
    threats::check(&tree, &mut findings);

    let policy = match Policy::read(&tree) {
        Ok(policy) => policy,
        Err(problem) => {
            findings.refuse(licences::POLICY_FILE, problem);
            return findings;
        }
    };
    match Metadata::load(root, &policy.platforms) {
        Ok(metadata) => {
            architecture::check(&tree, &metadata, &mut findings);
            licences::check(&policy, &metadata, &mut findings);
        }
        Err(problem) => findings.refuse("Cargo.toml", problem),
    }
    findings
}

/// What a rule finds in a tree: for the rules' tests.
#[cfg(test)]
fn problems_of(rule: fn(&Tree, &mut Findings), files: &[(&str, &str)]) -> Vec<String> {
    let mut findings = Findings::default();
    rule(&Tree::of(files), &mut findings);
    findings.problems
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules hold for the project itself, so a breach shows in plain `cargo
    /// test` too. Rules that need cargo's metadata are left to the tidy step: cargo
    /// holds its lock while tests are being built.
    #[test]
    fn the_tidy_program_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let tree = Tree::load(root).unwrap();
        let mut findings = Findings::default();
        rust_files::check(&tree, &mut findings);
        text::check(&tree, &mut findings);
        assert_eq!(findings.problems, [""; 0]);
    }
}
