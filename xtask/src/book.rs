//! `cargo xtask book`: the documentation as a book, in the target folder. The pages are those that
//! people read in the project, each in its place, so that links among them hold; what is made from
//! the code is made here: a page of all commands with their help, and the list of decisions.
//!
//! 1. Pages are copied to where mdBook reads, pictures beside them; links to files that are not in
//!    the book lose the link and keep the words. 2. mdBook, built once into the target folder,
//!    makes the book. 3. Every link of it to itself is followed.

mod commands;
mod links;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::files::{make_folder, read, told};
use crate::metadata::{self, Metadata, cargo};
use crate::process::{self, Echo};
use crate::report::Outcome;
use crate::tidy::resolve;

/// Makes the book with the program as it is now, and says where it is.
pub(crate) fn run(root: &Path) -> bool {
    let made = metadata::host_triple().and_then(|host| Metadata::load(root, &[host])).and_then(
        |metadata| {
            let mut build = Command::new(cargo());
            build.current_dir(root).args(["build", "--package", "rhumb"]);
            finish(&mut build, "building rhumb", Echo::Shown)?;
            make(root, &metadata.target_directory)
        },
    );
    match made {
        Ok(book) => {
            println!("{} pages, {} links: {}", book.pages, book.links, book.index.display());
            true
        }
        Err(problem) => {
            eprintln!("book: {problem}");
            false
        }
    }
}

/// The book as one step of the tests, with the binary that they have built.
pub(crate) fn step(root: &Path, target_directory: &Path) -> Outcome {
    match make(root, target_directory) {
        Ok(book) => {
            println!("{} pages, {} links", book.pages, book.links);
            Outcome::passed(1)
        }
        Err(problem) => Outcome::failed(format!("book: {problem}")),
    }
}

struct Book {
    index: PathBuf,
    pages: usize,
    links: usize,
}

fn make(root: &Path, target_directory: &Path) -> Result<Book, String> {
    let folder = target_directory.join("book");
    let mdbook = mdbook(target_directory)?;
    let pages = lay_out(root, &folder, &target_directory.join("debug/rhumb"))?;
    let mut build = Command::new(mdbook);
    finish(build.arg("build").arg(&folder), "mdbook", Echo::Kept)?;
    let made = folder.join("book");
    let links = links::follow_all(&made)?;
    Ok(Book { index: made.join("index.html"), pages, links })
}

/// Puts what the book is made of into an empty folder. How many pages.
fn lay_out(root: &Path, folder: &Path, rhumb: &Path) -> Result<usize, String> {
    let source = folder.join("src");
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(|error| told(folder, &error))?;
    }
    for name in ["book.toml", "rhumb.css"] {
        copy(&root.join(HOME).join(name), &folder.join(name))?;
    }
    let summary = read(&root.join(HOME).join("SUMMARY.md"))?;
    let decisions = decisions(root)?;
    let summary = summary.replace("{{commands}}", "[Commands](../commands.md)");
    let summary = summary.replace("{{decisions}}", &decisions);
    // As seen from the root, where the pages are.
    let from_root = links::each(&summary, |text, target| {
        let path = resolve(&format!("{HOME}/SUMMARY.md"), target);
        Some(format!("[{text}]({})", path.unwrap_or_else(|| target.to_owned())))
    });
    let pages: BTreeSet<String> = links::targets(&from_root).map(str::to_owned).collect();
    write(&source.join("SUMMARY.md"), &from_root)?;
    for page in pages.iter().filter(|page| *page != COMMANDS) {
        let text = read(&root.join(page))?;
        let text = links::each(&text, |text, target| {
            let file = target.split('#').next().unwrap_or_default();
            let is_elsewhere = file.is_empty() || file.contains("://");
            match resolve(page, file).filter(|_| !is_elsewhere) {
                // As mdBook calls it.
                Some(path) if pages.contains(&path) && file.ends_with(README) => {
                    Some(format!("[{text}]({})", target.replace(README, "index.md")))
                }
                Some(path) if pages.contains(&path) || is_picture(&path) => None,
                Some(_) => Some(text.to_owned()),
                None => None,
            }
        });
        write(&source.join(page), &text)?;
    }
    write(&source.join(COMMANDS), &commands::page(rhumb)?)?;
    for folder in PICTURES {
        copy_pictures(&root.join(folder), &source.join(folder))?;
    }
    Ok(pages.len())
}

/// A line for each decision, by its number.
fn decisions(root: &Path) -> Result<String, String> {
    let folder = root.join(DECISIONS);
    let entries = std::fs::read_dir(&folder).map_err(|error| told(&folder, &error))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(char::is_numeric)).collect();
    names.sort();
    let line = |name: &String| {
        let text = read(&folder.join(name))?;
        let title = text.lines().next().unwrap_or_default().trim_start_matches("# ");
        // Square brackets and quotes of code would end the link's text.
        let title = title.replace(['[', ']', '`'], "");
        Ok(format!("[{title}](../decisions/{name})"))
    };
    let lines: Result<Vec<String>, String> = names.iter().map(line).collect();
    Ok(lines?.join("\n    - "))
}

/// Builds mdBook, once.
fn mdbook(target_directory: &Path) -> Result<PathBuf, String> {
    let tools = target_directory.join("tools");
    let program = tools.join("bin/mdbook");
    if !program.exists() {
        let mut install = Command::new(cargo());
        install.args(["install", "mdbook", "--version", MDBOOK, "--locked", "--debug", "--quiet"]);
        install.args(["--no-default-features", "--features", "search", "--root"]).arg(&tools);
        // Beside the project's own, so that neither is built anew for the other.
        install.env("CARGO_TARGET_DIR", tools.join("build"));
        finish(&mut install, "building mdBook", Echo::Kept)?;
    }
    Ok(program)
}

fn finish(command: &mut Command, what: &str, echo: Echo) -> Result<(), String> {
    let finished = process::run(command, DEADLINE, echo)?;
    match finished.succeeded() {
        true => Ok(()),
        false => Err(format!("{what} {}\n{}", finished.end, finished.tail(10))),
    }
}

fn is_picture(path: &str) -> bool {
    let end = path.rsplit_once('.').map(|(_, end)| end);
    PICTURES.iter().any(|folder| path.starts_with(folder)) && matches!(end, Some("svg" | "png"))
}

fn copy_pictures(from: &Path, to: &Path) -> Result<(), String> {
    let entries = std::fs::read_dir(from).map_err(|error| told(from, &error))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() {
            copy_pictures(&path, &to.join(name))?;
        } else if path.extension().is_some_and(|end| end == "svg" || end == "png") {
            copy(&path, &to.join(name))?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    make_folder(to.parent().unwrap_or(to))?;
    std::fs::copy(from, to).map(drop).map_err(|error| told(from, &error))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    make_folder(path.parent().unwrap_or(path))?;
    std::fs::write(path, text).map_err(|error| told(path, &error))
}

/// Where the book's own files are.
const HOME: &str = "docs/book";
const DECISIONS: &str = "docs/decisions";
const PICTURES: [&str; 2] = ["docs/pictures", "docs/figures"];
/// What a folder's own page is called in the project.
const README: &str = "README.md";
/// The page that is made from the program.
const COMMANDS: &str = "docs/commands.md";
const MDBOOK: &str = "0.5.4";
/// Rhumb from nothing, on two busy cores; mdBook takes a minute and a quarter of one.
const DEADLINE: Duration = Duration::from_secs(20 * 60);
