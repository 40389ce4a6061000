//! Rules for every text file: no stray white space, no path of somebody's own machine.

use super::Findings;
use super::tree::Tree;

pub(crate) fn check(tree: &Tree, findings: &mut Findings) {
    for (path, text) in tree.texts() {
        check_white_space(path, text, findings);
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(folder) = machine_folder(path, line) {
                let why = format!("`/{folder}/..` is a path of one machine");
                findings.refuse_line(path, number, why);
            }
        }
    }
}

fn check_white_space(path: &str, text: &str, findings: &mut Findings) {
    // Not `lines`, which would hide a carriage return.
    for (number, line) in (1..).zip(text.split('\n')) {
        if line.ends_with([' ', '\t', '\r']) {
            findings.refuse_line(path, number, "white space at the end of the line");
        }
        if line.contains('\t') && path.ends_with(".rs") {
            findings.refuse_line(path, number, "a tab; indentation is four spaces");
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        findings.refuse(path, "the last line has no end");
    }
}

/// The machine-specific folder that an absolute path in `line` begins with.
fn machine_folder(path: &str, line: &str) -> Option<&'static str> {
    // A manual may well tell its reader to write to the folder for temporary files.
    let is_prose = path.ends_with(".md");
    MACHINE_FOLDERS.into_iter().filter(|folder| !is_prose || *folder != "tmp").find(|folder| {
        let pattern = format!("/{folder}/");
        line.match_indices(&pattern).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || "._-~/*}".contains(c))
        })
    })
}

const MACHINE_FOLDERS: [&str; 6] = ["work", "home", "root", "Users", "tmp", "workspace"];

#[cfg(test)]
mod tests {
    use super::super::problems_of;
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        problems_of(check, &[(path, text)])
    }

    #[test]
    fn stray_white_space_is_refused() {
        assert!(problems("a.rs", "a\n\n    b\n").is_empty());
        assert!(problems("run", "\ta\n").is_empty());
        for text in ["a \n", "a\t\n", "a\r\n", "\ta\n", "a"] {
            assert_eq!(
                problems("a.rs", text).len(),
                if text == "a\t\n" { 2 } else { 1 },
                "{text:?}"
            );
        }
    }

    #[test]
    fn paths_of_one_machine_are_refused() {
        for folder in ["home", "root", "work", "Users"] {
            for text in [format!("see /{folder}/me/x\n"), format!("\"/{folder}/x\"\n")] {
                assert_eq!(problems("a.md", &text).len(), 1, "{text}");
            }
        }
        let temporary = format!("rhumb receive --into /{}/x\n", "tmp");
        assert!(problems("a.md", &temporary).is_empty());
        assert_eq!(problems("a.rs", &temporary).len(), 1);
        for fine in ["target/work/x\n", "https://example.org/home/x\n", "a /etc/rhumb/x\n"] {
            assert!(problems("a.md", fine).is_empty(), "{fine}");
        }
    }
}
