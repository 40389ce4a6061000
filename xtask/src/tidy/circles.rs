//! Rule for circles of files: there are none, where one file names another, and that one names
//! it, maybe by way of others. A parent and its own parts are one thing in several files, so what
//! they name of each other does not count, nor does what tests name.

use std::collections::{BTreeMap, BTreeSet};

use super::Findings;
use super::modules::{module_of, named};
use super::source::Source;
use super::tree::Tree;

/// Files by module, and which others each one names.
type Graph<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

pub(crate) fn check(tree: &Tree, findings: &mut Findings) {
    for folder in tree.crate_folders() {
        let circles = circles(&graph(tree, &folder));
        for (number, circle) in (1..).zip(&circles) {
            let names: Vec<&str> = circle.iter().map(|path| &path[folder.len() + 5..]).collect();
            let what = format!("circle {number} of {}: {}", circles.len(), names.join(", "));
            findings.refuse(&folder, what);
        }
    }
}

fn graph<'a>(tree: &'a Tree, folder: &str) -> Graph<'a> {
    let source = format!("{folder}/src/");
    let files: BTreeMap<Vec<&str>, (&str, &str)> = tree
        .rust_files()
        .filter_map(|(path, text)| Some((module_of(path.strip_prefix(&source)?), (path, text))))
        .collect();
    let mut graph = Graph::new();
    for (module, (path, text)) in &files {
        let others = graph.entry(path).or_default();
        for it in named(&Source::read(text).without_tests(), module) {
            let parts: Vec<&str> = it.path.iter().map(String::as_str).collect();
            let longest =
                (0..=parts.len()).rev().find_map(|len| files.get_key_value(&parts[..len]));
            let Some((other, (other_path, _))) = longest else { continue };
            if !other.starts_with(module) && !module.starts_with(other) {
                others.insert(other_path);
            }
        }
    }
    graph
}

/// Sets of files that all reach each other, two or more each.
fn circles<'a>(graph: &Graph<'a>) -> Vec<BTreeSet<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&'a str>> =
        graph.keys().map(|from| (*from, reached_from(graph, from))).collect();
    let mut circles = Vec::new();
    for (from, there) in &reached {
        let both = there.iter().filter(|to| reached[**to].contains(from));
        let circle: BTreeSet<&'a str> = both.copied().collect();
        if circle.len() > 1 && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

fn reached_from<'a>(graph: &Graph<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for other in &graph[at] {
            if reached.insert(*other) {
                open.push(other);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::super::problems_of;
    use super::*;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, &str)> =
            files.iter().map(|(path, text)| (format!("crates/a/src/{path}"), *text)).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), *t)).collect();
        problems_of(check, &files)
    }

    #[test]
    fn a_circle_is_named_with_all_its_files() {
        let found = problems(&[
            ("lib.rs", "use crate::x::X;"),
            ("x.rs", "use crate::y::Y;"),
            ("y.rs", "fn f() { crate::z::g() }"),
            ("z.rs", "use super::x::X;"),
            ("w.rs", "use crate::x::X;"),
            ("v.rs", "use crate::w::W;\n#[cfg(test)]\nmod tests { use crate::u::U; }"),
            ("u.rs", "use crate::v::V;"),
        ]);
        assert_eq!(found, ["crates/a: circle 1 of 1: x.rs, y.rs, z.rs"]);
    }

    #[test]
    fn a_parent_and_its_parts_are_no_circle() {
        let found = problems(&[
            ("lib.rs", "use crate::x::X;"),
            ("x.rs", "use crate::x::part::P; use crate::Z;"),
            ("x/part.rs", "use super::X; use crate::other::O;"),
            ("other.rs", "use crate::Z;"),
        ]);
        assert_eq!(found, [""; 0]);
    }
}
