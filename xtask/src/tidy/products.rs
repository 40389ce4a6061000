//! Rule for products: their tests start no command that reaches a crate which the product is said
//! not to reach, since they are not run again when such a crate changes.
//!
//! A command reaches the crates that its files name, those that these depend on, and what those
//! files of `rhumb-daemon` name that it names, by way of others too. Settings are left out, where
//! one file validates what is for all commands. A command is started by its name in a list.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::Findings;
use super::modules::{module_of, named};
use super::source::Source;
use super::tree::Tree;
use crate::products::{PRODUCTS, Product};

pub(crate) fn check(tree: &Tree, findings: &mut Findings) {
    let commands = commands(tree);
    for product in &PRODUCTS {
        let foreign: BTreeMap<&str, &str> = commands
            .iter()
            .filter_map(|(command, reached)| {
                let other = product.unreached.iter().find(|it| reached.contains(**it))?;
                Some((*command, *other))
            })
            .collect();
        for (path, text) in product.programs.iter().flat_map(|program| files(tree, program)) {
            check_file(path, text, product, &foreign, findings);
        }
    }
}

/// Refuses what starts one of the foreign commands.
fn check_file(
    path: &str,
    text: &str,
    product: &Product,
    foreign: &BTreeMap<&str, &str>,
    findings: &mut Findings,
) {
    for (command, name) in foreign {
        for (at, _) in text.match_indices(&format!("\"{command}\"")) {
            if is_in_a_list(&text[..at]) {
                let line = text[..at].lines().count().max(1);
                let program = product.programs[0];
                let why = format!("starts `{command}`, which reaches `{name}`; {program} does not");
                findings.refuse_line(path, line, format!("{why}: see xtask/src/products.rs"));
            }
        }
    }
}

/// Whether what follows is an element of a list, and no index.
fn is_in_a_list(before: &str) -> bool {
    let mut closed = 0;
    for (at, c) in before.char_indices().rev() {
        match c {
            ')' | ']' | '}' => closed += 1,
            '(' | '[' | '{' if closed > 0 => closed -= 1,
            '[' => {
                let last = before[..at].chars().next_back();
                return !last.is_some_and(|c| c.is_alphanumeric() || "_)]?".contains(c));
            }
            '(' | '{' => return before[..=at].ends_with(".arg("),
            _ => {}
        }
    }
    false
}

/// The files that a test program of the binary is made of, but for those of other crates.
fn files<'a>(tree: &'a Tree, program: &str) -> Vec<(&'a str, &'a str)> {
    let root = tree.text(&format!("{TESTS}{program}.rs")).unwrap_or_default();
    let modules = root.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    let modules: Vec<&str> = modules.collect();
    let is_part = |path: &str| {
        let module = path.strip_prefix(TESTS).and_then(|path| path.split(['/', '.']).next());
        module.is_some_and(|module| modules.contains(&module))
    };
    tree.rust_files().filter(|(path, _)| is_part(path)).collect()
}

/// All commands, each with the crates that it reaches.
fn commands(tree: &Tree) -> BTreeMap<&str, BTreeSet<String>> {
    let frame = frame(tree);
    let mut commands: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in tree.rust_files() {
        let Some(file) = path.strip_prefix(COMMANDS) else { continue };
        let Some(command) = file.split(['/', '.']).next() else { continue };
        let reached = commands.entry(command).or_default();
        reached.extend(crates_named(text));
        reached.extend(crates_of_frame(&frame, text));
    }
    for reached in commands.values_mut() {
        add_dependencies(tree, reached);
    }
    commands
}

/// What a file of the frame, `rhumb-daemon`, names.
struct Part {
    crates: BTreeSet<String>,
    paths: Vec<Vec<String>>,
}

/// The frame's files by their modules, but for settings.
fn frame(tree: &Tree) -> BTreeMap<Vec<String>, Part> {
    let mut frame = BTreeMap::new();
    for (path, text) in tree.rust_files() {
        let Some(file) = path.strip_prefix(FRAME) else { continue };
        let module = module_of(file);
        if module.first().is_none_or(|top| SETTINGS.contains(top)) {
            continue;
        }
        let source = Source::read(text).without_tests();
        let own: Vec<String> = module.iter().map(|name| (*name).to_owned()).collect();
        let mut paths: Vec<_> = named(&source, &module).into_iter().map(|it| it.path).collect();
        // Its own parts it names without a word in front.
        paths.extend(parts(source.code()).map(|part| [&own[..], &[part.to_owned()]].concat()));
        frame.insert(own, Part { crates: crates_named(text), paths });
    }
    frame
}

/// The parts of a module that its own code names.
fn parts(code: &str) -> impl Iterator<Item = &str> {
    let declared = code.lines().filter_map(|line| line.trim().strip_suffix(';'));
    let declared = declared.filter_map(|line| Some(line.split_once("mod ")?.1));
    declared.filter(|part| {
        code.match_indices(&format!("{part}::"))
            .any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

/// The crates that a command's file reaches by way of the frame.
fn crates_of_frame(frame: &BTreeMap<Vec<String>, Part>, text: &str) -> BTreeSet<String> {
    let as_seen_there = text.replace("rhumb_daemon::", "crate::");
    let named = named(&Source::read(&as_seen_there), &["commands"]).into_iter();
    let mut open: Vec<Vec<String>> = named.map(|it| it.path).collect();
    let (mut seen, mut crates) = (BTreeSet::new(), BTreeSet::new());
    while let Some(path) = open.pop() {
        let longest = (1..=path.len()).rev().find_map(|len| frame.get_key_value(&path[..len]));
        let Some((module, part)) = longest else { continue };
        if seen.insert(module) {
            crates.extend(part.crates.iter().cloned());
            open.extend(part.paths.iter().cloned());
        }
    }
    crates
}

/// The crates of ours that code names, other than the frame.
fn crates_named(text: &str) -> BTreeSet<String> {
    let source = Source::read(text).without_tests();
    let words = source.code().split(|c: char| !c.is_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with("rhumb_") && *word != "rhumb_daemon");
    ours.map(|word| word.replace('_', "-")).collect()
}

/// Adds what crates depend on, and what these do.
fn add_dependencies(tree: &Tree, crates: &mut BTreeSet<String>) {
    let mut open: Vec<String> = crates.iter().cloned().collect();
    while let Some(name) = open.pop() {
        let manifest = tree.text(&format!("crates/{name}/Cargo.toml")).unwrap_or_default();
        let manifest: Table = manifest.parse().unwrap_or_default();
        let dependencies = manifest.get("dependencies").and_then(Value::as_table);
        for name in dependencies.into_iter().flat_map(Table::keys) {
            if name.starts_with("rhumb-") && crates.insert(name.clone()) {
                open.push(name.clone());
            }
        }
    }
}

const TESTS: &str = "crates/rhumb/tests/";
const COMMANDS: &str = "crates/rhumb/src/commands/";
const FRAME: &str = "crates/rhumb-daemon/src/";
/// Modules of settings of all commands, and of the addresses in them.
const SETTINGS: [&str; 5] = ["lib", "cli", "config", "remote", "values"];

#[cfg(test)]
mod tests {
    use super::super::problems_of;
    use super::*;

    /// What is wrong where the tests of Platypus are `test`, and the
    /// command `stamp` is `stamp`.
    fn problems(test: &str, stamp: &str) -> Vec<String> {
        let all = [
            ("crates/rhumb/tests/platypus.rs", "mod stamp;\nmod stamping;\n"),
            ("crates/rhumb/tests/routing.rs", "mod border;\n"),
            ("crates/rhumb/tests/border.rs", "f(&[\"router\", \"stamp\"])"),
            ("crates/rhumb/tests/stamping/mod.rs", test),
            ("crates/rhumb/src/commands/router.rs", "use rhumb_switch::Switch;"),
            ("crates/rhumb/src/commands/stamp.rs", "mod way;"),
            ("crates/rhumb/src/commands/stamp/way.rs", stamp),
            ("crates/rhumb-waypoint/Cargo.toml", "[dependencies]\nrhumb-new.workspace = true\n"),
            ("crates/rhumb-new/Cargo.toml", "[dependencies]\nrhumb-rib.workspace = true\n"),
            ("crates/rhumb-daemon/src/config.rs", "use rhumb_switch::Network;"),
            ("crates/rhumb-daemon/src/daemon.rs", "use crate::config; use crate::follow::Follow;"),
            ("crates/rhumb-daemon/src/follow.rs", "mod part;\npub use part::Follow;"),
            ("crates/rhumb-daemon/src/follow/part.rs", "use rhumb_node::Node;"),
            ("crates/rhumb-daemon/src/own.rs", "pub mod other;\nuse super::key;"),
            ("crates/rhumb-daemon/src/own/other.rs", "use rhumb_link::Link;"),
            ("crates/rhumb-daemon/src/key.rs", "#[cfg(test)]\nmod tests { use rhumb_rib::R; }"),
        ];
        problems_of(check, &all)
    }

    const STARTS: &str = "fn start() {\n    place.start(&[\"--json\", \"stamp\"]);\n}\n";

    #[test]
    fn a_product_may_start_what_reaches_only_its_own() {
        let stamp = "use rhumb_daemon::{config::C, own}; use rhumb_capability::Key;";
        assert_eq!(problems(STARTS, stamp), [""; 0]);
    }

    #[test]
    fn a_command_that_reaches_more_is_refused_whichever_way_it_does() {
        for (stamp, reached) in [
            ("fn f() { rhumb_switch::go() }", "rhumb-switch"),
            ("use rhumb_daemon::follow;", "rhumb-node"),
            ("use rhumb_daemon::{daemon::D, key};", "rhumb-node"),
            ("use rhumb_daemon::own::other::go;", "rhumb-link"),
            ("use rhumb_waypoint::Via;", "rhumb-rib"),
        ] {
            let place = "crates/rhumb/tests/stamping/mod.rs:2";
            let why = format!("starts `stamp`, which reaches `{reached}`; platypus does not");
            let expected = format!("{place}: {why}: see xtask/src/products.rs");
            assert_eq!(problems(STARTS, stamp), [expected], "{stamp}");
        }
    }

    #[test]
    fn a_command_of_others_is_refused_however_it_is_started() {
        for test in [
            "place.run(&[\"router\"])",
            "f([&[\"--with-parent\"][..], &[&a[1], \"router\"]])",
            "let own = [\n    \"--key\",\n    f(1),\n    \"router\",\n];",
            "command.arg(\"router\")",
        ] {
            assert_eq!(problems(test, "").len(), 1, "{test}");
        }
        for test in [
            "status[\"router\"][\"state\"]",
            "all()[\"router\"]",
            "place.keygen(\"router\", \"router.key\")",
            "// \"router\"",
        ] {
            assert_eq!(problems(test, ""), [""; 0], "{test}");
        }
    }

    #[test]
    fn each_program_of_a_product_has_its_file() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/rhumb/tests");
        for program in PRODUCTS.iter().flat_map(|product| product.programs) {
            assert!(root.join(format!("{program}.rs")).exists(), "{program}");
        }
    }
}
