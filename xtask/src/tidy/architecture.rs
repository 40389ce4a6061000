//! Rule for `ARCHITECTURE.md`: its crate table says what cargo says.
//!
//! A row is a crate in back-quotes, one line, the crates of the workspace that it depends on (`-`
//! for none), and its unsafe policy, which begins with `forbid` wherever the crate forbids unsafe
//! code. Dependencies of tests alone are not architecture and are left out.

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use super::tree::Tree;
use crate::metadata::Metadata;

struct Row<'a> {
    line: usize,
    dependencies: BTreeSet<&'a str>,
    forbids_unsafe: bool,
}

pub(crate) fn check(tree: &Tree, metadata: &Metadata, findings: &mut Findings) {
    let Some(text) = tree.text(DOCUMENT) else {
        return findings.refuse(DOCUMENT, "is missing; it holds the crate table");
    };
    let mut rows = rows(text, findings);
    let members: BTreeSet<&str> = metadata.members().map(|member| member.name.as_str()).collect();
    for member in metadata.members() {
        let name = member.name.as_str();
        let Some(row) = rows.remove(name) else {
            findings.refuse(DOCUMENT, format!("the crate table has no row for `{name}`"));
            continue;
        };
        let actual: BTreeSet<&str> = member
            .dependencies
            .iter()
            .filter(|dependency| !dependency.is_dev_only)
            .map(|dependency| dependency.name.as_str())
            .filter(|dependency| members.contains(dependency))
            .collect();
        for extra in actual.difference(&row.dependencies) {
            let why = format!("`{name}` depends on `{extra}`, which its row does not allow");
            findings.refuse_line(DOCUMENT, row.line, why);
        }
        for unused in row.dependencies.difference(&actual) {
            let why = format!("`{name}` does not depend on `{unused}`, which its row lists");
            findings.refuse_line(DOCUMENT, row.line, why);
        }
        if forbids_unsafe(tree, name) != row.forbids_unsafe {
            let why = format!("the unsafe policy of `{name}` is not what its source says");
            findings.refuse_line(DOCUMENT, row.line, why);
        }
    }
    for (name, row) in rows {
        findings.refuse_line(DOCUMENT, row.line, format!("there is no crate `{name}`"));
    }
}

fn rows<'a>(text: &'a str, findings: &mut Findings) -> BTreeMap<&'a str, Row<'a>> {
    let mut rows = BTreeMap::new();
    for (line, content) in (1..).zip(text.lines()) {
        let cells: Vec<&str> = content.split('|').map(str::trim).collect();
        let ["", name, _, dependencies, policy, ""] = cells[..] else { continue };
        let Some(name) = name.strip_prefix('`').and_then(|name| name.strip_suffix('`')) else {
            continue;
        };
        let dependencies = dependencies
            .split(',')
            .map(|name| name.trim().trim_matches('`'))
            .filter(|name| !["", "-"].contains(name))
            .collect();
        let forbids_unsafe = policy.starts_with("forbid");
        if rows.insert(name, Row { line, dependencies, forbids_unsafe }).is_some() {
            findings.refuse_line(DOCUMENT, line, format!("a second row for `{name}`"));
        }
    }
    rows
}

fn forbids_unsafe(tree: &Tree, name: &str) -> bool {
    let folder = match name {
        "xtask" => name.to_owned(),
        "rhumb-fuzz" => "fuzz".to_owned(),
        "rhumb-fuzz-seeds" => "fuzz/seeds".to_owned(),
        "rhumb-switch-instructions" => "crates/rhumb-switch/instructions".to_owned(),
        _ => format!("crates/{name}"),
    };
    let roots = ["src/lib.rs", "src/main.rs"].map(|root| format!("{folder}/{root}"));
    roots.iter().filter_map(|root| tree.text(root)).any(|text| text.contains("forbid(unsafe_code)"))
}

const DOCUMENT: &str = "ARCHITECTURE.md";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata;

    const TABLE: &str = "\
| crate | one line | depends on | unsafe |
|---|---|---|---|
| `rhumb-a` | first | - | forbid |
| `rhumb-b` | second | `rhumb-a` | allowed in `fast` |
";

    fn problems(document: &str) -> Vec<String> {
        let mut findings = Findings::default();
        let files = [
            (DOCUMENT, document),
            ("crates/rhumb-a/src/lib.rs", "#![forbid(unsafe_code)]"),
            ("crates/rhumb-b/src/lib.rs", ""),
        ];
        check(&Tree::of(&files), &metadata::tests::example(), &mut findings);
        findings.problems
    }

    #[test]
    fn a_table_that_agrees_with_cargo_passes() {
        assert_eq!(problems(TABLE), [""; 0]);
        assert_eq!(problems(&TABLE.replace("`rhumb-a` | al", "rhumb-a | al")), [""; 0]);
    }

    #[test]
    fn each_disagreement_is_refused() {
        for (from, to, expected) in [
            ("second | `rhumb-a`", "second | -", "depends on `rhumb-a`, which its row does not"),
            ("first | -", "first | rhumb-b", "does not depend on `rhumb-b`"),
            ("| `rhumb-a` | first", "| `rhumb-z` | first", "no row for `rhumb-a`"),
            ("- | forbid", "- | allowed", "unsafe policy of `rhumb-a`"),
            ("allowed in `fast`", "forbid", "unsafe policy of `rhumb-b`"),
        ] {
            let found = problems(&TABLE.replace(from, to));
            assert!(found.iter().any(|problem| problem.contains(expected)), "{to}: {found:?}");
        }
        let twice = format!("{TABLE}| `rhumb-a` | again | - | forbid |\n");
        assert_eq!(problems(&twice), ["ARCHITECTURE.md:5: a second row for `rhumb-a`"]);
        let stale = format!("{TABLE}| `rhumb-old` | gone | - | forbid |\n");
        assert_eq!(problems(&stale), ["ARCHITECTURE.md:5: there is no crate `rhumb-old`"]);
    }

    #[test]
    fn the_document_must_exist() {
        let mut findings = Findings::default();
        check(&Tree::of(&[]), &metadata::tests::example(), &mut findings);
        assert_eq!(findings.problems.len(), 1);
    }
}
