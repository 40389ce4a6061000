//! Rule for the binary: no command names another one, and what is below the commands names none of
//! them. What two commands share has a room of its own below both.

use super::Findings;
use super::modules::{module_of, named};
use super::source::Source;
use super::tree::Tree;

pub(crate) fn check(tree: &Tree, findings: &mut Findings) {
    for (path, text) in tree.rust_files() {
        let Some(file) = path.strip_prefix(SOURCE) else { continue };
        let module = module_of(file);
        let own = match module[..] {
            // Both list the commands: as modules, and to run them.
            [] | ["commands"] => continue,
            ["commands", own, ..] => Some(own),
            _ => None,
        };
        for it in named(&Source::read(text), &module) {
            let [folder, other, ..] = &it.path[..] else { continue };
            let is_command = tree.has(&format!("{SOURCE}commands/{other}.rs"));
            if folder != "commands" || !is_command || own == Some(other) {
                continue;
            }
            let why = match own {
                Some(own) => format!("the command `{own}` names the command `{other}`"),
                None => format!("is below the commands, and names the command `{other}`"),
            };
            findings.refuse_line(path, it.line, format!("{why}: what they share goes below both"));
        }
    }
}

const SOURCE: &str = "crates/rhumb/src/";

#[cfg(test)]
mod tests {
    use super::super::problems_of;
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        let all = [
            ("crates/rhumb/src/commands.rs", "pub(crate) mod ping;\npub(crate) mod status;\n"),
            ("crates/rhumb/src/commands/ping.rs", ""),
            ("crates/rhumb/src/commands/status.rs", ""),
            ("crates/rhumb/src/main.rs", "fn main() { crate::commands::ping::run() }"),
            (&format!("crates/rhumb/src/{path}"), text),
        ];
        problems_of(check, &all)
    }

    #[test]
    fn a_command_may_name_its_own_parts_and_what_is_below() {
        let text = "use crate::commands::ping::pace;\nuse super::pace;\nuse crate::daemon;\n";
        assert_eq!(problems("commands/ping/loss.rs", text), [""; 0]);
        assert_eq!(problems("daemon.rs", "use crate::failure;"), [""; 0]);
    }

    #[test]
    fn another_command_is_refused_however_it_is_named() {
        for (path, text) in [
            ("commands/ping/loss.rs", "use crate::commands::status::show;"),
            ("commands/ping/loss.rs", "use crate::commands::{ping, status};"),
            ("commands/ping/loss.rs", "fn f() { super::super::status::show() }"),
            ("commands/ping.rs", "fn f() { super::status::show() }"),
            ("commands/ping.rs", "mod tests { use super::super::status; }"),
        ] {
            let found = problems(path, text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].contains("`ping` names the command `status`"), "{found:?}");
        }
        let below = problems("daemon.rs", "\nuse crate::commands::ping::Pace;");
        assert!(below[0].starts_with("crates/rhumb/src/daemon.rs:2: is below"), "{below:?}");
    }
}
