//! `cargo xtask test`: the one test command.
//!
//! Flow: 1. packages that tests use; 2. tidy; 3. unit, behaviour and doc tests; 4. the Python
//! package; 5. the Debian package; 6. documentation without warnings; 7. the book; 8. the image for
//! containers; 9. every fuzz target; 10. the demo, end to end; 11. pictures; 12. the instructions
//! that forwarding takes; 13. what has code of its own for aarch64; 14. whether a node's library
//! compiles for other systems. A failed step does not keep the later ones from running.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::arguments::TestOptions;
use crate::metadata::{self, Metadata, cargo};
use crate::process::{self, Echo};
use crate::report::{Outcome, Report};
use crate::{
    aarch64, bindings, book, deb, demo, fuzz, image, instructions, packages, pictures, portable,
    programs, tidy,
};

pub(crate) fn run(root: &Path, options: &TestOptions) -> bool {
    let loaded = metadata::host_triple().and_then(|host| Metadata::load(root, &[host]));
    let target_directory = match loaded {
        Ok(metadata) => metadata.target_directory,
        Err(problem) => {
            println!("failed: {problem}\n0 passed, 1 failed, 0 skipped");
            return false;
        }
    };
    packages::prepare(options.install);

    let mut report = Report::default();
    report.step("tidy", || tidy::step(root));
    report.step("tests", || programs::run(root, &target_directory, options.again));
    report.step("bindings", || bindings::step(root, &target_directory));
    report.step("package", || deb::step(root, &target_directory));
    report.step("documentation", || documentation(root));
    if options.fast {
        report.step("book", || Outcome::skipped("book: --fast"));
        report.step("image", || Outcome::skipped("image: --fast"));
        report.step("fuzz", || Outcome::skipped("fuzz: --fast"));
        report.step("demo", || Outcome::skipped("demo: --fast"));
        report.step("pictures", || Outcome::skipped("pictures: --fast"));
        report.step("instructions", || Outcome::skipped("instructions: --fast"));
        report.step("aarch64", || Outcome::skipped("aarch64: --fast"));
        report.step("portable", || Outcome::skipped("portable: --fast"));
    } else {
        report.step("book", || book::step(root, &target_directory));
        report.step("image", || image::step(root, &target_directory));
        report.step("fuzz", || fuzz::run(root, &target_directory, options.fuzz_time));
        report.step("demo", || demo::run(root, &target_directory));
        report.step("pictures", || pictures::step(root, &target_directory));
        report.step("instructions", || instructions::run(root));
        report.step("aarch64", || aarch64::step(root, &target_directory, options));
        report.step("portable", || portable::step(root, &target_directory, options.install));
    }
    println!("{}", report.summary());
    report.succeeded()
}

fn documentation(root: &Path) -> Outcome {
    let mut command = Command::new(cargo());
    command.current_dir(root).args(["doc", "--workspace", "--no-deps"]);
    // With examples dependencies are what clippy has looked at, and not once more without what
    // tests want of them.
    command.args(["--lib", "--bins", "--examples"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    match process::run(&mut command, DOCUMENTATION_DEADLINE, Echo::Shown) {
        Ok(finished) if finished.succeeded() => Outcome::passed(1),
        Ok(finished) => Outcome::failed(format!("documentation: cargo doc {}", finished.end)),
        Err(problem) => Outcome::failed(format!("documentation: {problem}")),
    }
}

const DOCUMENTATION_DEADLINE: Duration = Duration::from_secs(5 * 60);
