//! A unit of systemd's, as far as services of the package are tried: what is set, here, by the file
//! that holds for all of them, and by the one that lets this one do more.

use std::collections::{BTreeMap, BTreeSet};

use super::inside::Inside;
use crate::files::said;

/// A service.
pub(super) struct Unit {
    pub(super) name: String,
    /// In order.
    settings: Vec<(String, String)>,
}

impl Unit {
    /// One of the package, or an instance of one: `rhumb-network@home.service`.
    pub(super) fn read(inside: &Inside, name: &str) -> Result<Self, String> {
        let (file, instance) = match name.split_once('@') {
            Some((kind, rest)) => (format!("{kind}@.service"), rest.trim_end_matches(".service")),
            None => (name.to_owned(), ""),
        };
        let mut text = said(inside.command("cat").args([&file, FOR_ALL].map(below)))?;
        let rights = below(&format!("{file}.d/20-rights.conf"));
        // Most are let do no more.
        if said(inside.command("test").args(["-e", &rights])).is_ok() {
            text += "\n";
            text += &said(inside.command("cat").arg(rights))?;
        }
        Ok(Self { name: name.to_owned(), settings: settings_in(&text, instance) })
    }

    /// What is set last.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.all(key).last()
    }

    /// The words of all of them, as those that add to each other: empty ones take back.
    pub(super) fn all_words(&self, key: &str) -> Vec<String> {
        let mut words = Vec::new();
        for value in self.all(key) {
            match value.is_empty() {
                true => words.clear(),
                false => words.extend(value.split_whitespace().map(str::to_owned)),
            }
        }
        words
    }

    /// The words of it.
    pub(super) fn words(&self, key: &str) -> Vec<String> {
        let words = self.value(key).unwrap_or_default().split_whitespace();
        words.map(str::to_owned).collect()
    }

    /// The system calls that its sandbox lets through.
    pub(super) fn allowed_calls(&self, inside: &Inside) -> Result<BTreeSet<String>, String> {
        let known = said(inside.command("systemd-analyze").arg("syscall-filter"))?;
        let groups = groups_in(&known);
        let mut allowed = calls_of("@default", &groups);
        for words in self.all("SystemCallFilter") {
            let (words, is_refused) = match words.strip_prefix('~') {
                Some(refused) => (refused, true),
                None => (words, false),
            };
            for call in words.split_whitespace().flat_map(|word| calls_of(word, &groups)) {
                if is_refused {
                    allowed.remove(&call)
                } else {
                    allowed.insert(call)
                };
            }
        }
        Ok(allowed)
    }

    fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        let settings = self.settings.iter().filter(move |(its, _)| its == key);
        settings.map(|(_, value)| value.as_str())
    }
}

fn below(path: &str) -> String {
    format!("{UNITS}/{path}")
}

fn settings_in(text: &str, instance: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.replace("%i", instance))).collect()
}

/// The groups of calls, and what is in each, as `systemd-analyze syscall-filter` lists them.
fn groups_in(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut group = "";
    for line in text.lines() {
        let word = line.trim();
        if line.starts_with('@') {
            group = word;
        } else if line.starts_with(' ') && !word.is_empty() && !word.starts_with('#') {
            groups.entry(group).or_default().push(word);
        }
    }
    groups
}

/// A call, or all of a group and of those in it.
fn calls_of(word: &str, groups: &BTreeMap<&str, Vec<&str>>) -> BTreeSet<String> {
    match groups.get(word) {
        Some(words) => words.iter().flat_map(|word| calls_of(word, groups)).collect(),
        None => BTreeSet::from([word.to_owned()]),
    }
}

const UNITS: &str = "/usr/lib/systemd/system";
/// Holds for each of them.
const FOR_ALL: &str = "rhumb-.service.d/10-sandbox.conf";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_with_the_instance_in_them() {
        let text = "# A=1\n[Service]\nUser=rhumb\nExecStart=/bin/x run %i\nUser=other\n";
        let unit = Unit { name: String::new(), settings: settings_in(text, "home") };
        assert_eq!(unit.words("ExecStart"), ["/bin/x", "run", "home"]);
        assert_eq!((unit.value("User"), unit.value("A")), (Some("other"), None));
        let settings = settings_in("K=one\nK=\nK=two three\nK=four\n", "");
        let unit = Unit { name: String::new(), settings };
        assert_eq!(unit.all_words("K"), ["two", "three", "four"]);
    }

    #[test]
    fn groups_of_calls_hold_groups() {
        let text = "@one\n    # What it is\n    read\n    @two\n\n@two\n    # More\n    write\n";
        let calls = calls_of("@one", &groups_in(text));
        assert_eq!(calls.into_iter().collect::<Vec<_>>(), ["read", "write"]);
        assert_eq!(calls_of("capset", &groups_in(text)).len(), 1);
    }
}
