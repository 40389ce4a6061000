//! What `cargo xtask test` tries of the image, made of the binary that tests use: whether programs
//! of others understand it, and whether the program runs in a container of it.
//!
//! Flow: 1. make it; 2. `skopeo` reads it; 3. `umoci` unpacks it to what `runc` runs; 4. the
//! program says its version there, and plays the demo as the image's user, without privileges and
//! with a file system that nobody can write to, but for its own folders.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{Image, USER};
use crate::deb::Packing;
use crate::files::{read, said, told};
use crate::packages::is_root;
use crate::process;
use crate::report::Outcome;

/// Makes the image and tries it.
pub(crate) fn step(root: &Path, target_directory: &Path) -> Outcome {
    for program in ["strip", "ldd", "tar", "gzip", "skopeo", "umoci", "runc"] {
        if !process::is_installed(program) {
            return Outcome::skipped(format!("image: without `{program}`, of Debian"));
        }
    }
    let folder = target_directory.join("image/test");
    let program = target_directory.join("debug/rhumb");
    let image = Image::new(root, &folder)
        .and_then(|image| Ok((image.pack(&program, Packing::Fast)?, image)));
    let (archive, image) = match image {
        Ok(made) => made,
        Err(problem) => return Outcome::failed(format!("image: {problem}")),
    };
    let mut outcome = of("as others read it", is_understood(&archive, &image));
    if !is_root() {
        outcome.add(Outcome::skipped("image: running it needs root"));
        return outcome;
    }
    match Container::unpack(&folder, &image) {
        Ok(container) => outcome.add(container.try_out()),
        Err(problem) => outcome.add(Outcome::failed(format!("image: unpacking: {problem}"))),
    }
    outcome
}

/// What a program of others says of it.
fn is_understood(archive: &Path, image: &Image) -> Result<(), String> {
    let place = format!("oci-archive:{}:{}", archive.display(), image.version);
    let answer = said(Command::new("skopeo").args(["inspect", "--config"]).arg(place))?;
    let config: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
    let user = &config["config"]["User"];
    match user == &json!(format!("{USER}:{USER}")) && config["architecture"] == image.architecture {
        true => Ok(()),
        false => Err(format!("its description is {config}")),
    }
}

/// A container that is made anew for each run.
struct Container {
    bundle: std::path::PathBuf,
}

impl Container {
    fn unpack(folder: &Path, image: &Image) -> Result<Self, String> {
        let bundle = folder.join("bundle");
        let mut unpack = Command::new("umoci");
        unpack.arg("unpack").arg("--image");
        unpack.arg(format!("{}:{}", folder.display(), image.version));
        said(unpack.arg(&bundle))?;
        Ok(Self { bundle })
    }

    fn try_out(&self) -> Outcome {
        let version = match self.run(&["--version"]) {
            Ok(version) => version,
            // A machine may let nobody make containers: then it says so of one that does nothing.
            Err(problem) => return Outcome::skipped(format!("image: no containers: {problem}")),
        };
        let is_ours = version.starts_with("rhumb ").then_some(()).ok_or(version);
        let mut outcome = of("its program", is_ours);
        outcome.add(of("the demo in it", self.demo()));
        outcome
    }

    fn demo(&self) -> Result<(), String> {
        let answer = self.run(&["demo", "--json"])?;
        let facts: Value = serde_json::from_str(&answer)
            .map_err(|error| format!("what it says is not one JSON object: {error}: {answer}"))?;
        let is_whole = facts.as_object().is_some_and(|facts| !facts.is_empty());
        is_whole.then_some(()).ok_or(answer)
    }

    /// Runs the program with these words; what it says.
    fn run(&self, words: &[&str]) -> Result<String, String> {
        let file = self.bundle.join("config.json");
        let mut config: Value =
            serde_json::from_str(&read(&file)?).map_err(|error| error.to_string())?;
        let words = [&["/usr/bin/rhumb"], words].concat();
        config["process"]["args"] = json!(words);
        config["process"]["terminal"] = json!(false);
        config["process"]["noNewPrivileges"] = json!(true);
        config["process"]["capabilities"] = json!({});
        config["root"]["readonly"] = json!(true);
        // Loopback of the host: a network of its own has none that is up.
        if let Some(namespaces) = config["linux"]["namespaces"].as_array_mut() {
            namespaces.retain(|it| it["type"] != "network");
        }
        let options = format!("uid={USER},gid={USER},mode=0700");
        if let Some(mounts) = config["mounts"].as_array_mut() {
            mounts.retain(|it| !OWN.contains(&it["destination"].as_str().unwrap_or_default()));
            mounts.extend(OWN.map(|place| {
                let options = ["nosuid", "nodev", options.as_str()];
                json!({
                    "destination": place, "type": "tmpfs", "source": "tmpfs", "options": options,
                })
            }));
        }
        fs::write(&file, config.to_string()).map_err(|error| told(&file, &error))?;
        let mut run = Command::new("runc");
        run.args(["run", "--bundle"]).arg(&self.bundle);
        said(run.arg(format!("rhumb-image-test-{}", std::process::id())))
    }
}

fn of(what: &str, result: Result<(), String>) -> Outcome {
    match result {
        Ok(()) => Outcome::passed(1),
        Err(problem) => Outcome::failed(format!("image: {what}: {problem}")),
    }
}

/// What the program may write to.
const OWN: [&str; 3] = ["/var/lib/rhumb", "/run/rhumb", "/tmp"];
