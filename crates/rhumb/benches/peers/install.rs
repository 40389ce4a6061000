//! Gets the peers' programs, of pinned versions, by the clients of their own ecosystems, into a
//! folder of the build's target. Never into the system or the tree.
//!
//! What is there already stays. What a client leaves besides programs is removed. A peer that
//! cannot be had is remembered with the reason, and the bench goes on without it.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::process;

pub(crate) const WIREGUARD_GO: &str = "wireguard-go 0.0.0-20260522210424-ecfc5a8d5446";
pub(crate) const BORINGTUN: &str = "boringtun 0.7.1";
pub(crate) const YGGDRASIL: &str = "yggdrasil 0.5.14";
pub(crate) const NEBULA: &str = "nebula 1.11.0";
pub(crate) const ZENOH_VERSION: &str = "1.10.2";

/// The programs that are there, and why others are not.
#[derive(Clone)]
pub(crate) struct Tools {
    folder: PathBuf,
    /// By contestant.
    pub(crate) lacking: BTreeMap<&'static str, String>,
}

impl Tools {
    /// Installs what those contestants need and is not there yet. The first time this takes many
    /// minutes, most of them zenoh's; it says what it does on standard error.
    pub(crate) fn install(folder: &Path, wanted: impl Fn(&str) -> bool) -> Self {
        let (mut lacking, mut worked) = (BTreeMap::new(), false);
        for recipe in recipes().filter(|recipe| wanted(recipe.contestant)) {
            if recipe.is_there(folder) {
                continue;
            }
            worked = true;
            if let Err(reason) = recipe.install(folder) {
                eprintln!("without {}: {reason}", recipe.contestant);
                lacking.entry(recipe.contestant).or_insert(reason);
            }
        }
        // They may be those of another run, which is still at it.
        for leftover in [GO, BUILD].into_iter().filter(|_| worked) {
            // Modules, objects: gigabytes. If some remain, nothing is wrong but the space.
            let _ = std::fs::remove_dir_all(folder.join(leftover));
        }
        Self { folder: folder.to_owned(), lacking }
    }

    pub(crate) fn lack(&self, contestant: &str) -> bool {
        self.lacking.contains_key(contestant)
    }

    /// Where a program is.
    pub(crate) fn path(&self, program: &str) -> PathBuf {
        let recipe = recipes().find(|recipe| recipe.programs.contains(&program));
        recipe.map_or_else(|| program.into(), |recipe| recipe.program(&self.folder, program))
    }
}

/// How to get the programs of a contestant.
struct Recipe {
    contestant: &'static str,
    /// Of its kind and version: a folder, so that another version is another folder.
    version: &'static str,
    programs: &'static [&'static str],
    how: How,
}

enum How {
    /// `go install` of these packages.
    Go(&'static [&'static str]),
    /// `go build` in a module of our own, with these files.
    GoModule { files: &'static [(&'static str, &'static str)], package: &'static str },
    /// `cargo install` with these words.
    Cargo(&'static [&'static str]),
    /// `cargo build` of a package of our own, with these files.
    CargoPackage(&'static [(&'static str, &'static str)]),
}

fn recipes() -> impl Iterator<Item = Recipe> {
    let recipe = |contestant, version, programs, how| Recipe { contestant, version, programs, how };
    [
        recipe(
            "wireguard-go",
            WIREGUARD_GO,
            &["wireguard"],
            How::Go(&["golang.zx2c4.com/wireguard@v0.0.0-20260522210424-ecfc5a8d5446"]),
        ),
        recipe(
            "yggdrasil",
            YGGDRASIL,
            &["yggdrasil"],
            How::GoModule {
                files: YGGDRASIL_MODULE,
                package: "github.com/yggdrasil-network/yggdrasil-go/cmd/yggdrasil",
            },
        ),
        recipe(
            "nebula",
            NEBULA,
            &["nebula", "nebula-cert"],
            How::Go(&[
                "github.com/slackhq/nebula/cmd/nebula@v1.11.0",
                "github.com/slackhq/nebula/cmd/nebula-cert@v1.11.0",
            ]),
        ),
        recipe(
            "boringtun",
            BORINGTUN,
            &["boringtun-cli"],
            How::Cargo(&["--locked", "boringtun-cli@0.7.1"]),
        ),
        recipe(
            "zenohd-tls",
            "zenohd 1.10.2",
            &["zenohd"],
            // Of the transports, the two that are used.
            How::Cargo(&[
                "--locked",
                "zenohd@1.10.2",
                "--no-default-features",
                "--features",
                "zenoh/transport_tcp,zenoh/transport_tls",
            ]),
        ),
        recipe("zenohd-tls", "zenoh-load", &["zenoh-load"], How::CargoPackage(ZENOH_LOAD)),
    ]
    .into_iter()
}

impl Recipe {
    fn program(&self, folder: &Path, program: &str) -> PathBuf {
        self.home(folder).join("bin").join(program)
    }

    fn home(&self, folder: &Path) -> PathBuf {
        folder.join(self.version.replace(' ', "-"))
    }

    fn has_all(&self, folder: &Path) -> bool {
        self.programs.iter().all(|name| self.program(folder, name).exists())
    }

    /// Whether there is nothing to install.
    fn is_there(&self, folder: &Path) -> bool {
        self.has_all(folder) && self.is_current(&self.home(folder))
    }

    fn install(&self, folder: &Path) -> Result<(), String> {
        let home = self.home(folder);
        eprintln!("installing {}", self.version);
        let bin = home.join("bin");
        std::fs::create_dir_all(&bin).map_err(|error| format!("{}: {error}", bin.display()))?;
        let log = home.join("log");
        match &self.how {
            How::Go(packages) => packages.iter().try_for_each(|package| {
                let mut command = go(folder, &home);
                command.env("GOBIN", &bin).args(["install", "-p", "1", package]);
                run(command, &log)
            })?,
            How::GoModule { files, package } => {
                write_all(&home, files)?;
                let mut command = go(folder, &home);
                command.args(["build", "-mod=mod", "-p", "1", "-o"]).arg(&bin).arg(package);
                run(command, &log)?;
            }
            How::Cargo(words) => {
                let mut command = cargo(folder, &home);
                command.args(["install", "-j1", "--root"]).arg(&home).args(*words);
                run(command, &log)?;
            }
            How::CargoPackage(files) => {
                write_all(&home, files)?;
                let mut command = cargo(folder, &home);
                run(
                    {
                        command.args(["build", "--release", "-j1"]);
                        command
                    },
                    &log,
                )?;
                for name in self.programs {
                    let built = folder.join(BUILD).join("release").join(name);
                    std::fs::copy(&built, bin.join(name))
                        .map_err(|error| format!("{}: {error}", built.display()))?;
                }
            }
        }
        match self.has_all(folder) {
            true => Ok(()),
            false => Err(format!("no program after its installation: {}", last_line(&log))),
        }
    }

    /// Whether what is there was made of the files that are to make it.
    fn is_current(&self, home: &Path) -> bool {
        let files = match &self.how {
            How::GoModule { .. } | How::Go(_) | How::Cargo(_) => return true,
            How::CargoPackage(files) => files,
        };
        let is_same = |(name, text): &(&str, &str)| {
            std::fs::read_to_string(home.join(name)).is_ok_and(|there| there == *text)
        };
        files.iter().all(is_same)
    }
}

fn write_all(home: &Path, files: &[(&str, &str)]) -> Result<(), String> {
    for (name, text) in files {
        let path = home.join(name);
        let parent = path.parent().unwrap_or(home);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn go(folder: &Path, home: &Path) -> Command {
    let go = folder.join(GO);
    let mut command = Command::new("go");
    // Without this flag, what it downloads could not be removed.
    command.current_dir(home).env("GOFLAGS", "-modcacherw").env("GOMAXPROCS", "1");
    command.env("GOPATH", &go).env("GOMODCACHE", go.join("mod")).env("GOCACHE", go.join("cache"));
    command
}

fn cargo(folder: &Path, home: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(home).env("CARGO_TARGET_DIR", folder.join(BUILD));
    command
}

/// Runs `command` to its end, or to the end of [`PATIENCE`].
fn run(mut command: Command, log: &Path) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let describe = |error: std::io::Error| format!("{name}: {error}");
    let output = File::create(log).map_err(describe)?;
    let errors = output.try_clone().map_err(describe)?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    process::end_with_this_thread(&mut command);
    let mut child = command.spawn().map_err(describe)?;
    let begin = Instant::now();
    loop {
        match child.try_wait().map_err(describe)? {
            Some(status) if status.success() => return Ok(()),
            Some(_) => return Err(format!("{name} failed: {}", last_line(log))),
            None if begin.elapsed() > PATIENCE => {
                child.kill().and_then(|()| child.wait()).map_err(describe)?;
                return Err(format!("{name} was not done after {PATIENCE:?}"));
            }
            None => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no output").to_owned()
}

/// The module `suah.dev/protect` calls the system of OpenBSD, does nothing elsewhere, and cannot be
/// had everywhere: an empty one takes its place.
const YGGDRASIL_MODULE: &[(&str, &str)] = &[
    (
        "go.mod",
        "module bench\ngo 1.24\nrequire github.com/yggdrasil-network/yggdrasil-go v0.5.14\n\
         replace suah.dev/protect => ./protect\n",
    ),
    (
        "tools.go",
        "//go:build tools\npackage bench\nimport _ \"github.com/yggdrasil-network/yggdrasil-go/cmd/yggdrasil\"\n",
    ),
    ("protect/go.mod", "module suah.dev/protect\n"),
    (
        "protect/protect.go",
        "package protect\nfunc Unveil(path, flags string) error { return nil }\n\
         func Pledge(promises string) error { return nil }\n",
    ),
];
const ZENOH_LOAD: &[(&str, &str)] =
    &[("Cargo.toml", include_str!("zenoh/Cargo.toml")), ("main.rs", include_str!("zenoh/main.rs"))];
/// Folders for what is of no use afterwards.
const GO: &str = "go";
const BUILD: &str = "build";
/// For a client that hangs. zenoh takes half an hour on one
/// core that others use too, and each of them may.
const PATIENCE: Duration = Duration::from_secs(7200);
