//! A page of all commands, each with what it prints for `--help`: asked of the program itself, so
//! that it is never older than that.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::process::{self, Echo};

/// The page, in Markdown.
pub(super) fn page(rhumb: &Path) -> Result<String, String> {
    let mut page =
        "# Commands\n\nWhat each prints for `--help`. `rhumb man DIR` writes the same as \
                    manual pages.\n"
            .to_owned();
    describe(rhumb, &[], &mut page)?;
    Ok(page)
}

/// Appends a command, and those below it.
fn describe(rhumb: &Path, words: &[&str], page: &mut String) -> Result<(), String> {
    let mut help = Command::new(rhumb);
    help.args(words).arg("--help");
    let finished = process::run(&mut help, DEADLINE, Echo::ErrorsShown)?;
    let named = [&["rhumb"], words].concat().join(" ");
    if !finished.succeeded() {
        return Err(format!("{named} --help {}", finished.end));
    }
    let heading = "#".repeat((words.len() + 2).min(4));
    let text = finished.output.trim_end();
    page.push_str(&format!("\n{heading} {named}\n\n```text\n{text}\n```\n"));
    for command in commands(text) {
        describe(rhumb, &[words, &[command]].concat(), page)?;
    }
    Ok(())
}

/// The commands that a help lists.
fn commands(help: &str) -> impl Iterator<Item = &str> {
    let listed = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    let listed = listed.take_while(|line| line.is_empty() || line.starts_with(' '));
    // What goes on on a further line is indented by more.
    let names = listed.filter_map(|line| {
        line.strip_prefix("  ")?.split_whitespace().next().filter(|_| !line.starts_with("   "))
    });
    names.filter(|name| *name != "help")
}

const DEADLINE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_those_that_a_help_lists() {
        let help = "What it is\n\nCommands:\n  keys  Makes keys\n          of all kinds\n  run   Runs\n\
                    \x20 help  Prints this\n\nOptions:\n  -h, --help  Prints help\n";
        assert_eq!(commands(help).collect::<Vec<_>>(), ["keys", "run"]);
        assert_eq!(commands("Options:\n  -v\n").count(), 0);
    }
}
