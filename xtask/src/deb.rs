//! `cargo xtask deb`: a Debian package of the program, with its manual pages, completions,
//! services, settings and documents.
//!
//! Flow: 1. the program, built for release; 2. a folder with every file where the package puts it:
//! those of `packaging/debian/root` as they are, and what the program and the project give; 3. what
//! the package says of itself, from `packaging/debian/control`; 4. `dpkg-deb` packs it.
//!
//! Invariant: whatever lies below `/etc` is listed as settings, which no upgrade replaces; and the
//! same commit with the same compiler makes the same package.

mod checks;
mod inside;
mod machine;
mod settings;
mod smoke;
mod trial;
mod unit;

pub(crate) use checks::step;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::files::{copy_tree, files_below, make_folder, read, said, set_mode, told};
use crate::metadata::{self, Metadata, cargo};
use crate::process::{self, Echo};
use crate::report::Report;

/// How a package is packed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Packing {
    /// As small as may be.
    Small,
    /// As fast as may be: for tests.
    Fast,
}

/// Builds it, or tries one around the binary that tests use. Whether all went well.
pub(crate) fn run(root: &Path, is_trial: bool) -> bool {
    if is_trial {
        return Report::of_one(root, "package", checks::step_with_all);
    }
    let built = build(root).and_then(|(target, program)| {
        Stage::new(root, &target, "debian")?.pack(&program, Packing::Small)
    });
    match &built {
        Ok(package) => println!("{}; install it: apt install {0}", package.display()),
        Err(problem) => println!("failed: {problem}"),
    }
    built.is_ok()
}

/// The target folder, and the program in it, built for release.
pub(crate) fn build(root: &Path) -> Result<(PathBuf, PathBuf), String> {
    let target = Metadata::load(root, &[metadata::host_triple()?])?.target_directory;
    let mut command = Command::new(cargo());
    command.current_dir(root);
    command.args(["build", "--locked", "--release", "--package", "rhumb", "--bin", "rhumb"]);
    let finished = process::run(&mut command, BUILD_DEADLINE, Echo::ErrorsShown)?;
    match finished.succeeded() {
        true => Ok((target.clone(), target.join("release/rhumb"))),
        false => Err(format!("cargo build {}", finished.end)),
    }
}

/// Where a package is put together.
struct Stage {
    root: PathBuf,
    /// Of this version of the project.
    version: String,
    /// As Debian calls it: amd64, arm64.
    architecture: String,
    /// Holds the packages.
    folder: PathBuf,
    /// The files of the package, as they will lie on a host.
    files: PathBuf,
}

impl Stage {
    /// An empty one.
    fn new(root: &Path, target_directory: &Path, folder: &str) -> Result<Self, String> {
        let folder = target_directory.join(folder);
        let files = folder.join("rhumb");
        if files.exists() {
            fs::remove_dir_all(&files).map_err(|error| told(&files, &error))?;
        }
        Ok(Self {
            root: root.to_owned(),
            version: Metadata::load(root, &[metadata::host_triple()?])?.version()?,
            architecture: said(Command::new("dpkg").arg("--print-architecture"))?,
            folder,
            files,
        })
    }

    /// Puts all together: the path of the package.
    fn pack(&self, program: &Path, packing: Packing) -> Result<PathBuf, String> {
        copy_tree(&self.root.join("packaging/debian/root"), &self.files)?;
        self.add_root()?;
        self.add_program(program)?;
        self.add_manual(program)?;
        self.add_documents()?;
        self.add_watching()?;
        self.add_control()?;
        let name = format!("rhumb_{}_{}.deb", self.version, self.architecture);
        let package = self.folder.join(name);
        let mut pack = Command::new("dpkg-deb");
        pack.args(match packing {
            Packing::Small => ["-Zxz", "-z6"],
            Packing::Fast => ["-Zgzip", "-z1"],
        });
        // Times of files are those of the commit, so that the package is the same another day.
        let commit = said(Command::new("git").current_dir(&self.root).args(COMMIT_TIME));
        if let Ok(commit) = commit {
            pack.env("SOURCE_DATE_EPOCH", commit);
        }
        said(pack.args(["--root-owner-group", "--build"]).arg(&self.files).arg(&package))?;
        Ok(package)
    }

    fn add_program(&self, program: &Path) -> Result<(), String> {
        let placed = self.place(PROGRAM)?;
        let mut strip = Command::new("strip");
        strip.args(["--strip-unneeded", "-o"]).arg(&placed).arg(program);
        said(&mut strip)?;
        set_mode(&placed, 0o755)
    }

    /// Where a service that sees little of the host has the rest mounted.
    fn add_root(&self) -> Result<(), String> {
        for folder in IN_ROOT {
            make_folder(&self.files.join(ROOT).join(folder))?;
        }
        Ok(())
    }

    /// What the program makes of its own command line.
    fn add_manual(&self, program: &Path) -> Result<(), String> {
        // Nobody's settings have it log anything between the lines of a script.
        let ask = |words: &[&str]| {
            let mut command = Command::new(program);
            command.current_dir(&self.folder).env("HOME", &self.folder).env_remove("RUST_LOG");
            said(command.args(words))
        };
        for (shell, path) in COMPLETIONS {
            let script = ask(&["completions", shell])?;
            self.add(path, &(script + "\n"))?;
        }
        let pages = self.files.join("usr/share/man/man1");
        make_folder(&pages)?;
        ask(&["man", pages.to_str().ok_or("the target folder has a name that is no text")?])?;
        for page in files_below(&pages)? {
            set_mode(&pages.join(&page), 0o644)?;
            said(Command::new("gzip").args(["-9", "-n"]).arg(pages.join(page)))?;
        }
        Ok(())
    }

    /// The project's own documents, in folders as in the project, so that their links lead there.
    fn add_documents(&self) -> Result<(), String> {
        for file in ["README.md", "CHANGELOG.md", "SECURITY.md"] {
            self.add_copy(&self.root.join(file), &format!("{DOCUMENTS}/{file}"))?;
        }
        let docs = self.root.join("docs");
        for file in files_below(&docs)? {
            if file.extension().is_some_and(|end| end == "md") {
                let place = format!("{DOCUMENTS}/docs/{}", file.display());
                self.add_copy(&docs.join(&file), &place)?;
            }
        }
        let copyright = self.root.join("packaging/debian/copyright");
        self.add_copy(&copyright, &format!("{DOCUMENTS}/copyright"))
    }

    /// What Prometheus and Grafana are given.
    fn add_watching(&self) -> Result<(), String> {
        for file in WATCHING {
            let from = self.root.join("packaging").join(file);
            self.add_copy(&from, &format!("usr/share/rhumb/{file}"))?;
        }
        Ok(())
    }

    /// What dpkg is told of the package.
    fn add_control(&self) -> Result<(), String> {
        let files = files_below(&self.files)?;
        let mut bytes = 0;
        for file in &files {
            let file = self.files.join(file);
            bytes += fs::metadata(&file).map_err(|error| told(&file, &error))?.len();
        }
        let from = self.root.join("packaging/debian/control");
        let control = read(&from.join("control"))?
            .replace("{VERSION}", &self.version)
            .replace("{ARCHITECTURE}", &self.architecture)
            .replace("{INSTALLED_SIZE}", &bytes.div_ceil(1024).to_string())
            .replace("{DEPENDS}", &self.libraries()?);
        self.add("DEBIAN/control", &control)?;
        let settings = files.iter().filter(|file| file.starts_with("etc"));
        let settings: String = settings.map(|file| format!("/{}\n", file.display())).collect();
        self.add("DEBIAN/conffiles", &settings)?;
        let mut sums = Command::new("md5sum");
        sums.current_dir(&self.files).args(files.iter().filter(|file| !file.starts_with("etc")));
        self.add("DEBIAN/md5sums", &(said(&mut sums)? + "\n"))?;
        for script in ["postinst", "prerm", "postrm"] {
            let place = format!("DEBIAN/{script}");
            self.add_copy(&from.join(script), &place)?;
            set_mode(&self.files.join(place), 0o755)?;
        }
        Ok(())
    }

    /// The packages of the libraries that the program needs, in which versions.
    fn libraries(&self) -> Result<String, String> {
        // It reads which packages there are of a source package, and goes by none of it.
        let source = self.folder.join("source/debian");
        fs::create_dir_all(&source).map_err(|error| told(&source, &error))?;
        let control = source.join("control");
        fs::write(&control, "Source: rhumb\n\nPackage: rhumb\nArchitecture: any\n")
            .map_err(|error| told(&control, &error))?;
        let mut ask = Command::new("dpkg-shlibdeps");
        ask.current_dir(self.folder.join("source")).arg("-O").arg("-e");
        let answer = said(ask.arg(self.files.join(PROGRAM)))?;
        let found = answer.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
        found.map(str::to_owned).ok_or(format!("dpkg-shlibdeps says: {answer}"))
    }

    fn add_copy(&self, from: &Path, path: &str) -> Result<(), String> {
        self.add(path, &read(from)?)
    }

    fn add(&self, path: &str, text: &str) -> Result<(), String> {
        let file = self.place(path)?;
        fs::write(&file, text).map_err(|error| told(&file, &error))?;
        set_mode(&file, 0o644)
    }

    /// The path, in a folder that is there.
    fn place(&self, path: &str) -> Result<PathBuf, String> {
        let file = self.files.join(path);
        make_folder(file.parent().unwrap_or(&self.files))?;
        Ok(file)
    }
}

const PROGRAM: &str = "usr/bin/rhumb";
/// The root folder of services that name it, of empty folders: all that systemd would make there
/// itself, which nobody would remove with the package.
const ROOT: &str = "usr/lib/rhumb/root";
const IN_ROOT: [&str; 13] = [
    "bin",
    "dev",
    "etc",
    "lib",
    "lib64",
    "proc",
    "root",
    "run",
    "sys",
    "tmp",
    "usr",
    "var/lib/rhumb-router",
    "var/tmp",
];
const DOCUMENTS: &str = "usr/share/doc/rhumb";
/// Where shells look for the scripts of packages.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/rhumb"),
    ("fish", "usr/share/fish/vendor_completions.d/rhumb.fish"),
    ("zsh", "usr/share/zsh/vendor-completions/_rhumb"),
];
/// Rules with their tests, settings to start from, and a dashboard.
const WATCHING: [&str; 4] = [
    "prometheus/alerts.yml",
    "prometheus/tests.yml",
    "prometheus/prometheus.yml",
    "grafana/rhumb.json",
];
const COMMIT_TIME: [&str; 3] = ["log", "-1", "--format=%ct"];
/// From nothing, on two busy cores.
const BUILD_DEADLINE: Duration = Duration::from_secs(45 * 60);
