//! What `cargo metadata` says of the workspace: its packages, and
//! who depends on whom once features are resolved.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::process::{self, Echo};

#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) target_directory: PathBuf,
    /// Members and everything they depend on.
    pub(crate) packages: Vec<Package>,
}

#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) is_member: bool,
    /// An SPDX expression.
    pub(crate) licence: Option<String>,
    /// `None` for a package of a local path.
    pub(crate) source: Option<String>,
    pub(crate) benches: Vec<String>,
    pub(crate) dependencies: Vec<Dependency>,
}

/// A resolved edge.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Needed by tests, examples and benches alone.
    pub(crate) is_dev_only: bool,
}

impl Metadata {
    /// Asks cargo, for the given target platforms.
    ///
    /// # Errors
    /// When cargo refuses the manifests, in cargo's own words.
    pub(crate) fn load(root: &Path, platforms: &[String]) -> Result<Self, String> {
        let mut command = Command::new(cargo());
        command.args(["metadata", "--format-version", "1"]).current_dir(root);
        for platform in platforms {
            command.args(["--filter-platform", platform]);
        }
        let finished = process::run(&mut command, METADATA_DEADLINE, Echo::ErrorsShown)?;
        if !finished.succeeded() {
            return Err(format!("cargo metadata {}", finished.end));
        }
        let json = serde_json::from_str(&finished.output).map_err(|error| error.to_string())?;
        Self::from_json(&json).ok_or_else(|| "cargo metadata: not of the known form".to_owned())
    }

    /// Which version of the program this is.
    ///
    /// # Errors
    /// When the workspace has no such package.
    pub(crate) fn version(&self) -> Result<String, String> {
        let program = self.packages.iter().find(|it| it.name == "rhumb");
        let program = program.ok_or("the workspace has no package `rhumb`")?;
        Ok(program.version.clone())
    }

    pub(crate) fn from_json(json: &Value) -> Option<Self> {
        let members: Vec<&str> = strings(&json["workspace_members"]);
        let packages = json["packages"].as_array()?;
        let names: BTreeMap<&str, &str> = packages
            .iter()
            .map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
            .collect::<Option<_>>()?;
        let mut edges = BTreeMap::new();
        for node in json["resolve"]["nodes"].as_array()? {
            let dependencies = node["deps"].as_array()?;
            let dependencies: Option<Vec<Dependency>> =
                dependencies.iter().map(|edge| Dependency::from_json(edge, &names)).collect();
            edges.insert(node["id"].as_str()?, dependencies?);
        }
        let packages = packages.iter().map(|package| {
            let id = package["id"].as_str()?;
            Some(Package {
                name: package["name"].as_str()?.to_owned(),
                version: package["version"].as_str()?.to_owned(),
                is_member: members.contains(&id),
                licence: package["license"].as_str().map(str::to_owned),
                source: package["source"].as_str().map(str::to_owned),
                benches: bench_names(&package["targets"]),
                dependencies: edges.remove(id).unwrap_or_default(),
            })
        });
        Some(Self {
            packages: packages.collect::<Option<_>>()?,
            target_directory: json["target_directory"].as_str()?.into(),
        })
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.is_member)
    }
}

impl Dependency {
    fn from_json(edge: &Value, names: &BTreeMap<&str, &str>) -> Option<Self> {
        let kinds = edge["dep_kinds"].as_array()?;
        Some(Self {
            name: (*names.get(edge["pkg"].as_str()?)?).to_owned(),
            is_dev_only: kinds.iter().all(|kind| kind["kind"] == "dev"),
        })
    }
}

/// The cargo that runs us, or the one in `PATH`.
pub(crate) fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The triple that rustc builds for when not told otherwise.
///
/// # Errors
/// When rustc cannot be asked.
pub(crate) fn host_triple() -> Result<String, String> {
    let mut command = Command::new("rustc");
    let finished = process::run(command.arg("-vV"), METADATA_DEADLINE, Echo::Kept)?;
    let host = finished.output.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}

fn bench_names(targets: &Value) -> Vec<String> {
    let targets = targets.as_array().map(Vec::as_slice).unwrap_or_default();
    let benches = targets.iter().filter(|target| strings(&target["kind"]).contains(&"bench"));
    benches.filter_map(|bench| bench["name"].as_str().map(str::to_owned)).collect()
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Generous: the first call on a fresh machine downloads every dependency.
const METADATA_DEADLINE: Duration = Duration::from_secs(300);

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// A workspace of `rhumb-a` and `rhumb-b`, which needs
    /// `rhumb-a` and, for tests alone, `outside`.
    pub(crate) fn example() -> Metadata {
        let edge = |id: &str, kind: Value| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let json = json!({
            "workspace_members": ["a", "b"],
            "target_directory": "/t",
            "packages": [
                {"id": "a", "name": "rhumb-a", "version": "0.1.0", "license": "MIT OR Apache-2.0",
                 "source": null, "targets": [{"kind": ["lib"], "name": "rhumb_a"}]},
                {"id": "b", "name": "rhumb-b", "version": "0.1.0", "license": "MIT OR Apache-2.0",
                 "source": null, "targets": [{"kind": ["bench"], "name": "speed"},
                    {"kind": ["bench"], "name": "speed-high"}]},
                {"id": "o", "name": "outside", "version": "2.0.0", "license": "GPL-3.0",
                 "source": "registry+https://example.org/index", "targets": []},
            ],
            "resolve": {"nodes": [
                {"id": "a", "deps": []},
                {"id": "b", "deps": [edge("a", Value::Null), edge("o", json!("dev"))]},
                {"id": "o", "deps": []},
            ]},
        });
        Metadata::from_json(&json).unwrap()
    }

    #[test]
    fn members_edges_and_benches_are_read() {
        let metadata = example();
        let members: Vec<&str> = metadata.members().map(|member| member.name.as_str()).collect();
        assert_eq!(members, ["rhumb-a", "rhumb-b"]);
        let b = &metadata.packages[1];
        assert_eq!(b.benches, ["speed", "speed-high"]);
        let expected = [("rhumb-a", false), ("outside", true)];
        let expected =
            expected.map(|(name, is_dev_only)| Dependency { name: name.into(), is_dev_only });
        assert_eq!(b.dependencies, expected);
    }

    #[test]
    fn another_form_is_refused() {
        assert!(Metadata::from_json(&json!({"packages": 3})).is_none());
    }
}
