//! Rules for fuzzing: every property is fuzzed, and every target
//! is one file, one `[[bin]]` and one property.
//!
//! A property is a `pub fn NAME(data: &[u8])` in a crate's `fuzz.rs`, beside the private code it is
//! about, or a `pub fn fuzz_NAME(data: &[u8])` anywhere in a crate.

use std::collections::BTreeSet;

use super::Findings;
use super::tree::Tree;
use crate::fuzz::names_in_manifest;

pub(crate) fn check(tree: &Tree, findings: &mut Findings) {
    let declared = match names_in_manifest(tree.text(MANIFEST).unwrap_or_default()) {
        Ok(names) => names,
        Err(problem) => return findings.refuse(MANIFEST, problem),
    };
    let mut unfuzzed = properties(tree);
    for (path, text) in tree.texts() {
        let Some(name) = path.strip_prefix(TARGETS).and_then(|name| name.strip_suffix(".rs"))
        else {
            continue;
        };
        if !declared.iter().any(|declared| declared == name) {
            findings.refuse(path, format!("{MANIFEST} has no [[bin]] of this name"));
        }
        match called_property(text) {
            Some(property) => {
                unfuzzed.remove(&property);
            }
            None => findings.refuse(path, "hands `data` to one property: `CRATE::..::NAME(data)`"),
        }
    }
    for name in declared {
        if tree.text(&format!("{TARGETS}{name}.rs")).is_none() {
            findings.refuse(MANIFEST, format!("[[bin]] {name} has no file in {TARGETS}"));
        }
    }
    for (crate_name, property) in unfuzzed {
        findings.refuse(TARGETS, format!("no target calls `{property}` of {crate_name}"));
    }
}

/// Crate, as code writes it, and function.
type Property = (String, String);

fn properties(tree: &Tree) -> BTreeSet<Property> {
    let mut found = BTreeSet::new();
    for (path, text) in tree.rust_files() {
        let Some((folder, file)) =
            path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        let is_property_file = file == "fuzz.rs" || file.ends_with("/fuzz.rs");
        for line in text.lines() {
            let Some((name, _)) = line
                .trim_start()
                .strip_prefix("pub fn ")
                .and_then(|rest| rest.split_once("(data: &[u8])"))
            else {
                continue;
            };
            if is_property_file || name.starts_with("fuzz_") {
                found.insert((folder.replace('-', "_"), name.to_owned()));
            }
        }
    }
    found
}

/// What a target hands its input to.
fn called_property(text: &str) -> Option<Property> {
    let (before, _) = text.split_once("(data)")?;
    let is_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let path = &before[before.trim_end_matches(is_path).len()..];
    let (crate_name, _) = path.split_once("::")?;
    let (_, name) = path.rsplit_once("::")?;
    Some((crate_name.to_owned(), name.to_owned()))
}

const MANIFEST: &str = "fuzz/Cargo.toml";
const TARGETS: &str = "fuzz/targets/";

#[cfg(test)]
mod tests {
    use super::super::problems_of;
    use super::*;

    const BIN: &str = "[[bin]]\nname = \"name\"\n";
    const TARGET: &str = "fuzz_target!(|data: &[u8]| rhumb_wire::fuzz::name(data));\n";
    const PROPERTY: &str = "pub fn name(data: &[u8]) {\n";

    fn problems(manifest: &str, target: &str, property: &str) -> Vec<String> {
        let mut files = vec![
            (MANIFEST, manifest),
            ("crates/rhumb-wire/src/fuzz.rs", property),
            ("fuzz/targets/name.rs", target),
        ];
        files.retain(|(_, text)| !text.is_empty());
        problems_of(check, &files)
    }

    #[test]
    fn property_target_and_entry_belong_together() {
        assert_eq!(problems(BIN, TARGET, PROPERTY), [""; 0]);
        assert_eq!(problems("", TARGET, PROPERTY).len(), 1);
        assert_eq!(problems(BIN, "fn main() {}\n", "").len(), 1);
        let two = format!("{BIN}[[bin]]\nname = \"other\"\n");
        assert_eq!(
            problems(&two, TARGET, PROPERTY),
            ["fuzz/Cargo.toml: [[bin]] other has no file in fuzz/targets/"]
        );
    }

    #[test]
    fn a_property_that_nothing_fuzzes_is_refused() {
        let more = format!("{PROPERTY}}}\npub fn pdu(data: &[u8]) {{\n");
        assert_eq!(
            problems(BIN, TARGET, &more),
            ["fuzz/targets/: no target calls `pdu` of rhumb_wire"]
        );
        let elsewhere =
            ("crates/rhumb-link/src/record.rs", "    pub fn fuzz_open(data: &[u8]) {\n");
        let other = ("crates/rhumb-link/src/replay.rs", "pub fn hash(data: &[u8]) {\n");
        assert_eq!(
            problems_of(check, &[elsewhere, other]),
            ["fuzz/targets/: no target calls `fuzz_open` of rhumb_link"]
        );
    }
}
