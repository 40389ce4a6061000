//! Rule for the page of threats: each test that it names is there.
//!
//! A cell names a file by a link, and behind it, until the next
//! link, functions of that file in back-quotes.

use super::Findings;
use super::tree::Tree;

pub(crate) fn check(tree: &Tree, findings: &mut Findings) {
    let Some(page) = tree.text(PAGE) else {
        return findings.refuse(PAGE, "is missing; it maps attacks to tests");
    };
    for (line, content) in (1..).zip(page.lines()) {
        if !content.starts_with('|') {
            continue;
        }
        for part in content.split("](../").skip(1) {
            let Some((path, rest)) = part.split_once(')') else { continue };
            // Links to what is not there are refused by the rule for links.
            let Some(text) = tree.text(path) else { continue };
            let named = rest.split('[').next().unwrap_or_default();
            for name in named.split('`').skip(1).step_by(2) {
                if !text.contains(&format!("fn {name}(")) {
                    findings.refuse_line(PAGE, line, format!("{path} has no test `{name}`"));
                }
            }
        }
    }
}

const PAGE: &str = "docs/threats.md";

#[cfg(test)]
mod tests {
    use super::super::problems_of;
    use super::*;

    fn problems(row: &str) -> Vec<String> {
        let source = "#[test]\nfn it_holds() {}\n#[test]\nfn it_ends() {}\n";
        problems_of(check, &[(PAGE, row), ("crates/a/tests/b.rs", source)])
    }

    #[test]
    fn tests_that_are_there_pass_and_others_are_refused() {
        let good = "| attack | `bound` | [a/b.rs](../crates/a/tests/b.rs): `it_holds`, `it_ends`; [c](../c): `x` |";
        assert_eq!(problems(good), [""; 0]);
        assert_eq!(problems("prose: [b](../crates/a/tests/b.rs): `nothing`"), [""; 0]);
        let wrong = "|  |  | [c](../c); [b](../crates/a/tests/b.rs): `it_holds`, `it_held` |";
        assert_eq!(
            problems(wrong),
            ["docs/threats.md:1: crates/a/tests/b.rs has no test `it_held`"]
        );
        assert_eq!(problems_of(check, &[]).len(), 1);
    }
}
