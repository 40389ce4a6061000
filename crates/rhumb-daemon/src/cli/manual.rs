//! What is made of the definition of the command line besides `--help`: scripts by which shells
//! complete commands, and manual pages. So none of it says anything else than the help does.
//!
//! Invariant: the same program makes the same bytes, and what is hidden in the help is nowhere.

use std::path::PathBuf;

use clap::{Args, Command, CommandFactory};
pub use clap_complete::Shell;
use clap_mangen::Man;

use super::CommandLine;

/// `rhumb completions`
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// For which shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// `rhumb man`
#[derive(Debug, Args)]
pub struct ManArguments {
    /// The folder to write them to, made if missing; pages of an earlier version are replaced
    pub dir: PathBuf,
}

/// A manual page.
#[derive(Debug, PartialEq, Eq)]
pub struct Page {
    /// `rhumb-network-create.1`
    pub file: String,
    /// Its text, for troff.
    pub text: Vec<u8>,
}

/// The script by which a shell completes commands of `rhumb`.
pub fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown(&CommandLine::command()), NAME, &mut script);
    script
}

/// A page of the program, and one of each command that the help shows, in order of their names.
pub fn pages() -> Vec<Page> {
    let mut program = CommandLine::command().disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add_pages(&program, &mut pages);
    pages.sort_by(|one, other| one.file.cmp(&other.file));
    pages
}

fn add_pages(command: &Command, pages: &mut Vec<Page>) {
    for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        add_pages(below, pages);
    }
    // A date that is empty would be left out, and the words behind it stand in its place.
    let man = Man::new(command.clone()).manual(MANUAL).source(SOURCE).date(" ");
    let mut text = Vec::new();
    man.render(&mut text).expect("invariant: memory takes what is written");
    pages.push(Page { file: man.get_filename(), text });
}

/// The command without what is hidden, which scripts of completion would show. Of the rest only
/// what these scripts are made of.
fn shown(command: &Command) -> Command {
    let arguments = command.get_arguments().filter(|it| !it.is_hide_set()).cloned();
    let below = command.get_subcommands().filter(|it| !it.is_hide_set()).map(shown);
    let mut shown = Command::new(command.get_name().to_owned())
        .args(arguments)
        .subcommands(below)
        .subcommand_negates_reqs(command.is_subcommand_negates_reqs_set())
        .args_conflicts_with_subcommands(command.is_args_conflicts_with_subcommands_set());
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    match command.get_version() {
        Some(version) => shown.version(version.to_owned()),
        None => shown,
    }
}

const NAME: &str = "rhumb";
/// What stands in the middle of a page's first line.
const MANUAL: &str = "Rhumb";
/// What stands at the left of its last line.
const SOURCE: &str = concat!("rhumb ", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_shell_has_a_script_that_shows_commands_and_hides_what_the_help_hides() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(completions(*shell)).unwrap();
            for word in ["network", "create", "invite", "clock-offset-s", "address", "json"] {
                let is_hidden = word == "clock-offset-s";
                assert_ne!(script.contains(word), is_hidden, "{shell}: {word}");
            }
            assert!(!script.contains("with-parent"), "{shell}");
        }
    }

    #[test]
    fn every_command_that_the_help_shows_has_a_page() {
        let files: Vec<String> = pages().into_iter().map(|page| page.file).collect();
        for file in ["rhumb.1", "rhumb-router.1", "rhumb-rib-backup.1", "rhumb-network-create.1"] {
            assert!(files.iter().any(|it| it == file), "{file}");
        }
        assert!(!files.iter().any(|it| it.contains("keep.1") || it.contains("help")));
        let count = |command: &Command| -> usize {
            fn below(command: &Command) -> usize {
                let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
                1 + shown.map(below).sum::<usize>()
            }
            below(command)
        };
        assert_eq!(files.len(), count(&CommandLine::command()));
    }

    #[test]
    fn pages_say_what_the_help_says_and_nothing_hidden() {
        let pages = pages();
        let page = pages.iter().find(|page| page.file == "rhumb-router.1").unwrap();
        let text = String::from_utf8(page.text.clone()).unwrap();
        assert!(text.contains("Run a router: carries traffic for names that let it"));
        assert!(text.contains("tls\\-listen") || text.contains("tls-listen"));
        assert!(!text.contains("clock"));
        let head = format!("\n.TH rhumb-router 1 \" \" \"{SOURCE}\" Rhumb\n");
        assert!(text.contains(&head), "{text}");
        assert_eq!(pages, super::pages());
    }
}
