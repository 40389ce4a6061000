//! Rules of `deny.toml` that matter on every commit: licences,
//! sources, and who may use which outside crate.
//!
//! The file is cargo-deny's own, so that the full tool can be run over it; what
//! is read here is read as cargo-deny reads it. Source of the expressions:
//! SPDX 2.3, annex D, plus the old `/` for `OR`.

use toml::{Table, Value};

use super::Findings;
use super::tree::Tree;
use crate::metadata::{Metadata, Package};

pub(crate) const POLICY_FILE: &str = "deny.toml";

/// What `deny.toml` says.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) platforms: Vec<String>,
    allowed_licences: Vec<String>,
    allowed_registries: Vec<String>,
    bans: Vec<Ban>,
}

/// A crate that only its wrappers may depend on directly; none may where there are none.
#[derive(Debug)]
struct Ban {
    name: String,
    wrappers: Vec<String>,
}

impl Policy {
    /// # Errors
    /// When the file is missing or does not say what is asked of it.
    pub(crate) fn read(tree: &Tree) -> Result<Self, String> {
        let text = tree.text(POLICY_FILE).ok_or("is missing")?;
        let table: Table = text.parse().map_err(|error| format!("{error}"))?;
        let section = |name: &str| table.get(name).ok_or(format!("has no [{name}]"));
        let bans = section("bans")?.get("deny").and_then(Value::as_array);
        Ok(Self {
            platforms: strings(section("graph")?.get("targets")),
            allowed_licences: strings(section("licenses")?.get("allow")),
            allowed_registries: strings(section("sources")?.get("allow-registry")),
            bans: bans.into_iter().flatten().map(Ban::read).collect::<Result<_, _>>()?,
        })
    }
}

impl Ban {
    fn read(entry: &Value) -> Result<Self, String> {
        let name = entry.get("crate").and_then(Value::as_str).ok_or("a ban names no `crate`")?;
        Ok(Self { name: name.to_owned(), wrappers: strings(entry.get("wrappers")) })
    }
}

pub(crate) fn check(policy: &Policy, metadata: &Metadata, findings: &mut Findings) {
    for package in &metadata.packages {
        let label = format!("{} {}", package.name, package.version);
        if let Err(why) = check_licence(policy, package) {
            findings.refuse(&label, why);
        }
        let is_known = |source: &String| {
            let address = source.trim_start_matches("registry+");
            policy.allowed_registries.iter().any(|allowed| allowed == address)
        };
        if let Some(source) = package.source.as_ref().filter(|source| !is_known(source)) {
            findings.refuse(&label, format!("comes from {source}, which is not allowed"));
        }
        for dependency in &package.dependencies {
            let ban = policy.bans.iter().find(|ban| ban.name == dependency.name);
            if ban.is_some_and(|ban| !ban.wrappers.contains(&package.name)) {
                findings.refuse(&label, format!("may not depend on `{}`", dependency.name));
            }
        }
    }
}

fn check_licence(policy: &Policy, package: &Package) -> Result<(), String> {
    let expression = package.licence.as_deref().ok_or("states no licence")?;
    let is_allowed = |licence: &str| policy.allowed_licences.iter().any(|known| known == licence);
    match satisfies(expression, &is_allowed) {
        Some(true) => Ok(()),
        Some(false) => Err(format!("licence `{expression}` is not allowed")),
        None => Err(format!("licence `{expression}` is no SPDX expression")),
    }
}

/// Whether an SPDX expression can be met with allowed licences; `None` when it cannot be read.
fn satisfies(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &tokens[..];
    let value = any_of(&mut rest, is_allowed)?;
    rest.is_empty().then_some(value)
}

fn any_of(tokens: &mut &[&str], is_allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut value = all_of(tokens, is_allowed)?;
    while let ["OR", rest @ ..] = tokens {
        *tokens = rest;
        value |= all_of(tokens, is_allowed)?;
    }
    Some(value)
}

fn all_of(tokens: &mut &[&str], is_allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut value = one(tokens, is_allowed)?;
    while let ["AND", rest @ ..] = tokens {
        *tokens = rest;
        value &= one(tokens, is_allowed)?;
    }
    Some(value)
}

fn one(tokens: &mut &[&str], is_allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    match **tokens {
        ["(", ref rest @ ..] => {
            *tokens = rest;
            let value = any_of(tokens, is_allowed)?;
            *tokens = tokens.strip_prefix(&[")"])?;
            Some(value)
        }
        [licence, "WITH", exception, ref rest @ ..] => {
            *tokens = rest;
            Some(is_allowed(&format!("{licence} WITH {exception}")))
        }
        [licence, ref rest @ ..] if !["OR", "AND", "WITH", ")"].contains(&licence) => {
            *tokens = rest;
            Some(is_allowed(licence))
        }
        _ => None,
    }
}

fn strings(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata;

    /// Just enough for the example workspace, whose one outside crate is odd in every respect.
    const POLICY: &str = "\
[graph]
targets = [\"x86_64-unknown-linux-gnu\"]
[licenses]
allow = [\"MIT\", \"GPL-3.0\"]
[sources]
allow-registry = [\"https://example.org/index\"]
[bans]
deny = [{ crate = \"outside\", wrappers = [\"rhumb-b\"] }]
";

    fn problems(policy: &str) -> Vec<String> {
        let policy = Policy::read(&Tree::of(&[(POLICY_FILE, policy)])).unwrap();
        let mut findings = Findings::default();
        check(&policy, &metadata::tests::example(), &mut findings);
        findings.problems
    }

    #[test]
    fn what_the_policy_allows_passes() {
        assert_eq!(problems(POLICY), [""; 0]);
    }

    #[test]
    fn a_licence_a_source_and_a_user_that_are_not_allowed_are_refused() {
        let found = problems(&POLICY.replace("GPL-3.0", "ISC"));
        assert_eq!(found, ["outside 2.0.0: licence `GPL-3.0` is not allowed"]);
        let found = problems(&POLICY.replace("example.org", "elsewhere.org"));
        assert_eq!(
            found,
            ["outside 2.0.0: comes from registry+https://example.org/index, which is not allowed"]
        );
        let found = problems(&POLICY.replace("rhumb-b", "rhumb-a"));
        assert_eq!(found, ["rhumb-b 0.1.0: may not depend on `outside`"]);
    }

    #[test]
    fn a_policy_that_is_missing_or_incomplete_is_refused() {
        assert!(Policy::read(&Tree::of(&[])).is_err());
        for section in ["[graph]", "[licenses]", "[sources]", "[bans]"] {
            let policy = POLICY.replace(section, "[other]");
            assert!(Policy::read(&Tree::of(&[(POLICY_FILE, &policy)])).is_err(), "{section}");
        }
    }

    #[test]
    fn expressions_are_read_as_spdx_says() {
        let is_allowed = |licence: &str| ["MIT", "ISC", "A WITH B"].contains(&licence);
        for (expression, expected) in [
            ("MIT", Some(true)),
            ("GPL-3.0", Some(false)),
            ("GPL-3.0 OR MIT", Some(true)),
            ("GPL-3.0/MIT", Some(true)),
            ("GPL-3.0 AND MIT", Some(false)),
            ("MIT AND (GPL-3.0 OR ISC)", Some(true)),
            // AND binds closer than OR.
            ("MIT OR ISC AND GPL-3.0", Some(true)),
            ("(MIT OR ISC) AND GPL-3.0", Some(false)),
            ("A WITH B", Some(true)),
            ("A", Some(false)),
            ("", None),
            ("MIT OR", None),
            ("(MIT", None),
            ("MIT ISC", None),
        ] {
            assert_eq!(satisfies(expression, &is_allowed), expected, "{expression}");
        }
    }
}
