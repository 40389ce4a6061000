//! A unit of systemd's, as far as services of the package are tried: what is set, here, by the file
//! that holds for all of them, and by the one that lets this one do more.

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
}
