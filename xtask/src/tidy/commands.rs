//! Rule for the binary: it holds commands only, and none of them names another one. What two
//! commands share, settings and the frame of daemons are in a crate below.

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
            ["commands", own, ..] => own,
            _ => {
                findings.refuse(path, WRONG_CRATE);
                continue;
            }
        };
        for it in named(&Source::read(text), &module) {
            let [folder, other, ..] = &it.path[..] else { continue };
            let is_command = tree.has(&format!("{SOURCE}commands/{other}.rs"));
            if folder == "commands" && is_command && own != other {
                let why = format!("the command `{own}` names the command `{other}`");
                findings.refuse_line(path, it.line, format!("{why}: what they share goes below"));
            }
        }
    }
}

const SOURCE: &str = "crates/rhumb/src/";
const WRONG_CRATE: &str =
    "the binary holds commands only: what they share, settings and frame go to `rhumb-daemon`";

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
        let text = "use crate::commands::ping::pace;\nuse super::pace;\nuse rhumb_daemon::clock;\n";
        assert_eq!(problems("commands/ping/loss.rs", text), [""; 0]);
    }

    #[test]
    fn what_is_no_command_is_refused() {
        let found = problems("session.rs", "use rhumb_daemon::clock;");
        assert_eq!(found, [format!("crates/rhumb/src/session.rs: {WRONG_CRATE}")]);
        assert_eq!(problems("session/pdu.rs", "").len(), 1);
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
    }
}
