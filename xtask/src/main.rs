//! The project's own tasks: `cargo xtask test`, `tidy`, `vectors`, `bench`, `aarch64`, `bindings`,
//! `portable`, `upgrade`, `deb`, `image`, `book`, `figures`, `pictures` and `screens`.
//!
//! Invariant: no task but `vectors`, `figures`, `pictures` and `screens`, whose purpose it is,
//! changes the working tree; whatever another makes goes to the target folder. A task that
//! fails says what failed and exits with 1; a command line that makes no sense exits with 2.

#![forbid(unsafe_code)]

mod aarch64;
mod arguments;
mod bench;
mod bindings;
mod book;
mod deb;
mod demo;
mod figures;
mod files;
mod fuzz;
mod image;
mod instructions;
mod metadata;
mod packages;
mod passed;
mod pictures;
mod portable;
mod process;
mod products;
mod programs;
mod report;
mod screens;
mod test;
mod test_output;
mod tidy;
mod upgrade;
mod vectors;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use arguments::{Task, USAGE};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let task = match arguments::parse(&words) {
        Ok(task) => task,
        Err(problem) => {
            eprintln!("{problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let root = project_root();
    let succeeded = match task {
        Task::Help => {
            println!("{USAGE}");
            true
        }
        Task::Test(options) => test::run(&root, &options),
        Task::Tidy => tidy::print(&root),
        Task::Aarch64 { again } => aarch64::run(&root, again),
        Task::Vectors => vectors::write(&root),
        Task::Bench(options) => bench::run(&root, &options),
        Task::Bindings => bindings::run(&root),
        Task::Upgrade(revision) => upgrade::run(&root, &revision),
        Task::Deb { is_trial } => deb::run(&root, is_trial),
        Task::Book => book::run(&root),
        Task::Portable => portable::run(&root),
        Task::Image { is_trial } => image::run(&root, is_trial),
        Task::Figures(options) => figures::run(&root, &options),
        Task::Pictures => pictures::write(&root),
        Task::Screens => screens::take(&root),
    };
    if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The folder of the root manifest: tasks work from anywhere inside it.
fn project_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("invariant: xtask is a folder of the project")
        .to_owned()
}
