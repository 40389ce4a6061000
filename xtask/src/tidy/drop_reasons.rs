//! Rule for drop reasons: each that a counter shows is explained
//! on one page, and the page explains no other.
//!
//! A list of reasons is an enum whose name ends in `Drop` or `DropReason` and whose variants
//! have labels: by `Self::Name => "label"` in its `impl`, or their names in snake case, by strum.
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
            match rows.remove(label.as_str()) {
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
fn labels(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let (mut is_snake_case, mut among_names, mut among_labels) = (false, false, false);
    for line in text.lines() {
        let is_list = |rest: &str| {
            let name = rest.trim_end_matches([' ', '{']);
            name.ends_with("DropReason") || name.ends_with("Drop")
        };
        let line = line.strip_prefix("pub ").unwrap_or(line);
        if line == SNAKE_CASE {
            is_snake_case = true;
        } else if let Some(rest) = line.strip_prefix("enum ") {
            among_names = is_snake_case && is_list(rest);
            is_snake_case = false;
        } else if let Some(rest) = line.strip_prefix("impl ") {
            among_labels = is_list(rest);
        } else if line.starts_with('}') {
            (among_names, among_labels) = (false, false);
        }
        let item = line.trim_start().strip_suffix(',').unwrap_or_default();
        if among_names && item.chars().all(char::is_alphanumeric) && !item.is_empty() {
            found.insert(in_snake_case(item));
        }
        if among_labels && let Some((_, label)) = item.split_once(" => \"") {
            found.extend(label.strip_suffix('"').map(str::to_owned));
        }
    }
    found
}

/// As strum writes it.
fn in_snake_case(name: &str) -> String {
    let mut label = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !label.is_empty() {
            label.push('_');
        }
        label.extend(letter.to_lowercase());
    }
    label
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

const SNAKE_CASE: &str = "#[strum(serialize_all = \"snake_case\")]";
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
    const BY_STRUM: &str = "\
#[strum(serialize_all = \"snake_case\")]
#[non_exhaustive]
pub enum BeaconDrop {
    /// Too old,
    TooOld,
}
pub enum Other {
    Not,
}
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

| `too_old` | Old. |
";

    fn problems(page: &str) -> Vec<String> {
        let files = [
            (PAGE, page),
            ("crates/a/src/reason.rs", SOURCE),
            ("crates/b/src/reason.rs", BY_STRUM),
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
