//! Rules for crates: names, what manifests inherit, where
//! unsafe code may be, which clippy bans hold where.

use toml::{Table, Value};

use super::Findings;
use super::tree::Tree;

pub(crate) fn check(tree: &Tree, findings: &mut Findings) {
    for folder in tree.crate_folders() {
        check_name(&folder, findings);
        check_clippy(tree, &folder, findings);
        check_manifest(tree, &folder, findings);
        check_unsafe(tree, &folder, findings);
    }
    check_manifest(tree, "xtask", findings);
    check_unsafe(tree, "xtask", findings);
}

fn check_name(folder: &str, findings: &mut Findings) {
    let name = folder.trim_start_matches("crates/");
    let bare = name.trim_start_matches("rhumb-");
    if EMPTY_NAMES.contains(&bare) {
        findings.refuse(folder, format!("`{bare}` says nothing: name the crate by what it does"));
    }
    if name != "rhumb" && bare == name {
        findings.refuse(folder, "a crate is `rhumb` or `rhumb-` and a noun");
    }
}

fn check_manifest(tree: &Tree, folder: &str, findings: &mut Findings) {
    let path = format!("{folder}/Cargo.toml");
    let Some(text) = tree.text(&path) else {
        findings.refuse(folder, "has no Cargo.toml");
        return;
    };
    let manifest: Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return findings.refuse(&path, error),
    };
    let package = manifest.get("package");
    let name = package.and_then(|package| package.get("name")).and_then(Value::as_str);
    if name != folder.rsplit('/').next() {
        findings.refuse(&path, "the package is named as its folder");
    }
    if package.and_then(|package| package.get("description")).is_none() {
        findings.refuse(&path, "has no description");
    }
    for key in INHERITED {
        if !package.is_some_and(|package| is_inherited(package.get(key))) {
            findings.refuse(&path, format!("says `{key}.workspace = true`"));
        }
    }
    if !is_inherited(manifest.get("lints")) {
        findings.refuse(&path, "inherits the workspace's lints");
    }
    check_tests(tree, folder, &manifest, findings);
}

/// A crate's tests are one program, `tests/all.rs`, or few named in the manifest: each one more has
/// to be linked. Cargo then looks for none by itself, so a file that nobody names would never run.
fn check_tests(tree: &Tree, folder: &str, manifest: &Table, findings: &mut Findings) {
    let tests = format!("{folder}/tests/");
    let in_tests = |path: &str| path.strip_prefix(&tests)?.strip_suffix(".rs").map(str::to_owned);
    let names = tree.rust_files().filter_map(|(path, _)| in_tests(path));
    let (programs, parts): (Vec<_>, Vec<_>) = names.partition(|name| !name.contains('/'));
    for part in parts.iter().filter(|part| part.ends_with("/main")) {
        findings.refuse(&format!("{tests}{part}.rs"), "is a part of tests/all.rs: call it mod.rs");
    }
    if programs.len() < 2 {
        return;
    }
    let path = format!("{folder}/Cargo.toml");
    let looks = manifest.get("package").and_then(|package| package.get("autotests"));
    if looks.and_then(Value::as_bool) != Some(false) {
        findings
            .refuse(&path, "several files of tests: says `autotests = false`, has tests/all.rs");
    }
    let targets = manifest.get("test").and_then(Value::as_array).into_iter().flatten();
    let targets: Vec<_> = targets.filter_map(|it| it.get("path")?.as_str()).collect();
    let is_target = |name: &str| targets.contains(&format!("tests/{name}.rs").as_str());
    let texts = programs.iter().filter(|name| is_target(name) || *name == "all");
    let texts = texts.filter_map(|name| tree.text(&format!("{tests}{name}.rs")));
    let named: Vec<_> = texts.flat_map(str::lines).collect();
    for name in programs.iter().filter(|name| *name != "all" && !is_target(name)) {
        if !named.contains(&format!("mod {name};").as_str()) {
            findings.refuse(
                &format!("{tests}{name}.rs"),
                "is never run: name it in a program of tests",
            );
        }
    }
}

fn is_inherited(value: Option<&Value>) -> bool {
    value.and_then(|value| value.get("workspace")).and_then(Value::as_bool) == Some(true)
}

fn check_unsafe(tree: &Tree, folder: &str, findings: &mut Findings) {
    if UNSAFE_ALLOWED.contains(&folder) {
        return;
    }
    for root in ["src/lib.rs", "src/main.rs"] {
        let path = format!("{folder}/{root}");
        if tree.text(&path).is_some_and(|text| !text.lines().any(|line| line == FORBID_UNSAFE)) {
            findings.refuse(&path, format!("has no `{FORBID_UNSAFE}`"));
        }
    }
}

fn check_clippy(tree: &Tree, folder: &str, findings: &mut Findings) {
    let path = format!("{folder}/clippy.toml");
    let Some(text) = tree.text(&path) else {
        return findings
            .refuse(folder, "has no clippy.toml; the nearest file replaces the root one");
    };
    let settings: Table = match text.parse() {
        Ok(settings) => settings,
        Err(error) => return findings.refuse(&path, error),
    };
    let bans = settings.get("disallowed-methods").and_then(Value::as_array);
    let mut banned = Vec::new();
    for ban in bans.into_iter().flatten() {
        banned.extend(ban.get("path").and_then(Value::as_str));
        if ban.get("reason").is_none() {
            findings.refuse(&path, format!("a ban has no reason: {ban}"));
        }
    }
    let core_bans = if CORES.contains(&folder) { &CORE_BANS[..] } else { &[] };
    for method in COMMON_BANS.iter().chain(core_bans) {
        if !banned.contains(method) {
            findings.refuse(&path, format!("does not ban `{method}`"));
        }
    }
}

const EMPTY_NAMES: [&str; 8] =
    ["common", "types", "error", "errors", "utils", "util", "helpers", "core"];
const INHERITED: [&str; 5] = ["version", "edition", "rust-version", "license", "publish"];
const FORBID_UNSAFE: &str = "#![forbid(unsafe_code)]";
const UNSAFE_ALLOWED: [&str; 5] = [
    "crates/rhumb-aead",
    "crates/rhumb-c",
    "crates/rhumb-capability",
    "crates/rhumb-io",
    "crates/rhumb-mpc",
];
/// Crates that take time, randomness and bytes as arguments.
const CORES: [&str; 15] = [
    "crates/rhumb-aead",
    "crates/rhumb-bgp",
    "crates/rhumb-capability",
    "crates/rhumb-directory",
    "crates/rhumb-end",
    "crates/rhumb-exchange",
    "crates/rhumb-wire",
    "crates/rhumb-trust",
    "crates/rhumb-keyserver",
    "crates/rhumb-link",
    "crates/rhumb-member",
    "crates/rhumb-mpc",
    "crates/rhumb-switch",
    "crates/rhumb-rib",
    "crates/rhumb-waypoint",
];
const CORE_BANS: [&str; 3] =
    ["std::time::Instant::now", "std::time::SystemTime::now", "std::thread::spawn"];
const COMMON_BANS: [&str; 1] = ["std::env::set_var"];

#[cfg(test)]
mod tests {
    use super::super::problems_of;
    use super::*;

    const MANIFEST: &str = "\
[package]
name = \"rhumb-wire\"
description = \"x\"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license.workspace = true
publish.workspace = true
[lints]
workspace = true
";
    const CLIPPY: &str = "\
disallowed-methods = [
  { path = \"std::env::set_var\", reason = \"r\" },
  { path = \"std::time::Instant::now\", reason = \"r\" },
  { path = \"std::time::SystemTime::now\", reason = \"r\" },
  { path = \"std::thread::spawn\", reason = \"r\" },
]
";
    const LIB: &str = "//! A.\n#![forbid(unsafe_code)]\n";

    fn problems(folder: &str, manifest: &str, clippy: &str, lib: &str) -> Vec<String> {
        let xtask = MANIFEST.replace("rhumb-wire", "xtask");
        problems_of(
            check,
            &[
                (&format!("{folder}/Cargo.toml"), manifest),
                (&format!("{folder}/clippy.toml"), clippy),
                (&format!("{folder}/src/lib.rs"), lib),
                ("xtask/Cargo.toml", &xtask),
                ("xtask/src/main.rs", LIB),
            ],
        )
    }

    #[test]
    fn a_crate_as_it_should_be_passes() {
        assert_eq!(problems("crates/rhumb-wire", MANIFEST, CLIPPY, LIB), [""; 0]);
    }

    #[test]
    fn empty_names_are_refused() {
        for (name, count) in [("rhumb-utils", 1), ("rhumb-types", 1), ("common", 2), ("wire", 1)] {
            let manifest = MANIFEST.replace("rhumb-wire", name);
            let found = problems(&format!("crates/{name}"), &manifest, CLIPPY, LIB);
            assert_eq!(found.len(), count, "{found:?}");
        }
    }

    #[test]
    fn each_line_of_the_manifest_is_needed() {
        for line in MANIFEST.lines().filter(|line| line.contains('=')) {
            let kept: Vec<&str> = MANIFEST.lines().filter(|other| *other != line).collect();
            let manifest = kept.join("\n");
            let found = problems("crates/rhumb-wire", &manifest, CLIPPY, LIB);
            assert_eq!(found.len(), 1, "without {line}: {found:?}");
        }
        let own_licence = MANIFEST.replace("license.workspace = true", "license = \"MIT\"");
        assert_eq!(problems("crates/rhumb-wire", &own_licence, CLIPPY, LIB).len(), 1);
    }

    #[test]
    fn each_ban_of_a_core_is_needed_with_its_reason() {
        for line in CLIPPY.lines().filter(|line| line.contains("path")) {
            let clippy = CLIPPY.replace(line, "");
            assert_eq!(problems("crates/rhumb-wire", MANIFEST, &clippy, LIB).len(), 1, "{line}");
            let unreasoned = CLIPPY.replace(line, &line.replace(", reason = \"r\"", ""));
            assert_eq!(problems("crates/rhumb-wire", MANIFEST, &unreasoned, LIB).len(), 1);
        }
        let found = problems_of(check, &[("crates/rhumb-a/Cargo.toml", MANIFEST)]);
        assert!(found.iter().any(|problem| problem.contains("clippy.toml")), "{found:?}");
    }

    #[test]
    fn tests_are_one_program_and_each_file_is_in_it() {
        let problems = |manifest: &str, tests: &[(&str, &str)]| {
            let mut tree = vec![
                ("crates/rhumb-wire/Cargo.toml".to_owned(), manifest),
                ("crates/rhumb-wire/clippy.toml".to_owned(), CLIPPY),
                ("crates/rhumb-wire/src/lib.rs".to_owned(), LIB),
            ];
            for (name, text) in tests {
                tree.push((format!("crates/rhumb-wire/tests/{name}.rs"), text));
            }
            let tree: Vec<_> = tree.iter().map(|(path, text)| (path.as_str(), *text)).collect();
            let found = problems_of(check, &tree);
            found.into_iter().filter(|it| !it.starts_with("xtask")).collect::<Vec<_>>()
        };
        let manifest = MANIFEST.replace("[package]", "[package]\nautotests = false");
        let all = ("all", "mod one;\nmod two;\n");
        let parts = [("one", ""), ("two", ""), ("world/mod", "")];
        assert_eq!(problems(MANIFEST, &parts[..1]), [""; 0]);
        assert_eq!(problems(&manifest, &[&parts[..], &[all]].concat()), [""; 0]);
        assert_eq!(problems(MANIFEST, &[&parts[..], &[all]].concat()).len(), 1);
        let never = problems(&manifest, &[&parts[..], &[("three", ""), all]].concat());
        assert_eq!(never.len(), 1, "{never:?}");
        let own = format!("{manifest}\n[[test]]\nname = \"three\"\npath = \"tests/three.rs\"\n");
        assert_eq!(problems(&own, &[&parts[..], &[("three", ""), all]].concat()), [""; 0]);
        assert_eq!(problems(MANIFEST, &[("one/main", "")]).len(), 1);
    }

    #[test]
    fn unsafe_code_is_forbidden_outside_rhumb_io() {
        let allowed = "//! A.\n#![deny(unsafe_op_in_unsafe_fn)]\n";
        assert_eq!(problems("crates/rhumb-wire", MANIFEST, CLIPPY, allowed).len(), 1);
        let manifest = MANIFEST.replace("rhumb-wire", "rhumb-io");
        assert_eq!(problems("crates/rhumb-io", &manifest, CLIPPY, allowed), [""; 0]);
    }
}
