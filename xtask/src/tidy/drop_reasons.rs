//! Rule for drop reasons: each that a counter shows is explained
//! on one page, and the page explains no other.
//!
//! A list of reasons is an enum whose name ends in `Drop` or `DropReason` and whose variants
//! have labels: by `Self::Name => "label"` in its `impl`, or by `Name = "label"` in a macro.
//! The page has a section for each such file, which names it, and a row of a table for each
//! label: the label in back-quotes, then words.

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use super::tree::Tree;

pub(crate) fn check(tree: &Tree, findings: &mut Findings) {
    let Some(page) = tree.text(PAGE) else {
        return findings.refuse(PAGE, "is missing; it explains drop reasons");
    };
    let mut explained = explained(page);
    for (path, text) in tree.rust_files() {
        let is_source = path.starts_with("crates/") && path.contains("/src/");
        let labels = if is_source { labels(text) } else { BTreeSet::new() };
        if labels.is_empty() {
            continue;
        }
        let Some(mut rows) = explained.remove(path) else {
            findings.refuse(PAGE, format!("no section names `{path}`, which has drop reasons"));
            continue;
        };
        for label in labels {
            match rows.remove(label) {
                Some(words) if !words.is_empty() => {}
                _ => findings.refuse(PAGE, format!("does not explain `{label}` of {path}")),
            }
        }
        for label in rows.keys() {
            findings.refuse(PAGE, format!("explains `{label}`, which {path} does not have"));
        }
    }
    for path in explained.keys() {
        findings.refuse(PAGE, format!("explains drop reasons of {path}, which has none"));
    }
}

/// The labels of all lists of reasons in a file.
fn labels(text: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut within = None;
    for line in text.lines() {
        let is_list = |name: &str| name.ends_with("DropReason") || name.ends_with("Drop");
        if let Some(rest) = line.strip_prefix("impl ") {
            within = is_list(rest.trim_end_matches([' ', '{'])).then_some((" => \"", "Self::"));
        } else if line.starts_with("drop_reasons! {") {
            within = Some((" = \"", ""));
        } else if line.starts_with('}') {
            within = None;
        }
        let Some((arrow, path)) = within else { continue };
        let label = line.trim_start().strip_prefix(path).and_then(|it| it.split_once(arrow));
        found.extend(label.and_then(|(_, label)| label.strip_suffix("\",")));
    }
    found
}

/// Per file that a section names, its labels and the words for them.
fn explained(page: &str) -> BTreeMap<&str, BTreeMap<&str, &str>> {
    let mut sections = BTreeMap::new();
    for section in page.split("\n## ").skip(1) {
        let path = section.split('`').find(|it| it.starts_with("crates/") && it.ends_with(".rs"));
        let rows = section.lines().filter_map(|line| {
            let (label, words) = line.strip_prefix("| `")?.split_once("` |")?;
            Some((label, words.trim_end_matches('|').trim()))
        });
        if let Some(path) = path {
            sections.insert(path, rows.collect());
        }
    }
    sections
}

const PAGE: &str = "docs/drop-reasons.md";

#[cfg(test)]
mod tests {
    use super::super::problems_of;
    use super::*;

    const SOURCE: &str = "\
pub enum DropReason {
    Old,
}

impl DropReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Old => \"old\",
            Self::TooBig => \"too_big\",
        }
    }
}

impl Other {
    const X: &str = match self {
            Self::No => \"no\",
";
    const MACRO: &str = "\
drop_reasons! {
    /// Too old.
    Old = \"old\",
}
    Not = \"not\",
";
    const PAGE_TEXT: &str = "\
# Reasons

## First

Of `crates/a/src/reason.rs`.

| reason | meaning |
|---|---|
| `old` | It was old. |
| `too_big` | It was big. |

## Second: `crates/b/src/reason.rs`

| `old` | Old. |
";

    fn problems(page: &str) -> Vec<String> {
        let files = [
            (PAGE, page),
            ("crates/a/src/reason.rs", SOURCE),
            ("crates/b/src/reason.rs", MACRO),
            ("crates/b/tests/reason.rs", SOURCE),
        ];
        problems_of(check, &files)
    }

    #[test]
    fn page_and_lists_agree() {
        assert_eq!(problems(PAGE_TEXT), [""; 0]);
    }

    #[test]
    fn each_disagreement_is_refused() {
        for (from, to, expected) in [
            ("| `too_big` | It was big. |\n", "", "does not explain `too_big`"),
            ("| It was big. |", "| |", "does not explain `too_big`"),
            ("`too_big`", "`too_bad`", "explains `too_bad`, which crates/a/src/reason.rs does not"),
            ("b/src/reason.rs", "c/src/reason.rs", "no section names `crates/b/src/reason.rs`"),
            ("b/src/reason.rs", "c/src/reason.rs", "of crates/c/src/reason.rs, which has none"),
        ] {
            let found = problems(&PAGE_TEXT.replace(from, to));
            assert!(found.iter().any(|problem| problem.contains(expected)), "{to}: {found:?}");
        }
        assert_eq!(problems_of(check, &[]).len(), 1);
    }
}
