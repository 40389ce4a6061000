//! `cargo xtask image`: an image for containers, as an archive of the Open Container Initiative,
//! which docker, podman, skopeo and what runs clusters read. It is made of the program and the
//! libraries that it needs and of nothing else: no base image, no shell, and no network.
//!
//! Flow: 1. the program, built for release; 2. a folder as the container will see it, and two
//! archives of it: what belongs to root, and the folders that belong to the user that the program
//! runs as; 3. the image's description, by the names of its parts, which are their SHA-256;
//! 4. all of it in one archive. Source: OCI image format specification 1.1.
//!
//! Invariant: the same commit with the same compiler makes the same image.

mod trial;

pub(crate) use trial::step;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::deb::{self, Packing};
use crate::files::{files_below, make_folder, said, set_mode, told};
use crate::metadata::{self, Metadata};
use crate::report::Report;

/// Builds it, or tries one around the binary that tests use. Whether all went well.
pub(crate) fn run(root: &Path, is_trial: bool) -> bool {
    if is_trial {
        return Report::of_one(root, "image", step);
    }
    let built = deb::build(root).and_then(|(target, program)| {
        Image::new(root, &target.join("image"))?.pack(&program, Packing::Small)
    });
    match &built {
        Ok(archive) => {
            let archive = archive.display();
            println!("{archive}; take it: skopeo copy oci-archive:{archive} docker-daemon:rhumb:1");
        }
        Err(problem) => println!("failed: {problem}"),
    }
    built.is_ok()
}

/// Where an image is put together.
struct Image {
    version: String,
    /// As the specification calls it.
    architecture: &'static str,
    /// When the commit was made, in seconds and as the description says it.
    commit: [String; 2],
    folder: PathBuf,
}

impl Image {
    /// An empty one, in an empty folder.
    fn new(root: &Path, folder: &Path) -> Result<Self, String> {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => return Err(format!("what an image calls {other} is not known")),
        };
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(|error| told(folder, &error))?;
        }
        make_folder(&folder.join(BLOBS))?;
        let commit = |format| {
            let mut log = Command::new("git");
            let day = ["log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%SZ", format];
            said(log.current_dir(root).env("TZ", "UTC").args(day))
        };
        Ok(Self {
            version: Metadata::load(root, &[metadata::host_triple()?])?.version()?,
            architecture,
            commit: [commit("--format=%ct")?, commit("--format=%cd")?],
            folder: folder.to_owned(),
        })
    }

    /// The archive.
    fn pack(&self, program: &Path, packing: Packing) -> Result<PathBuf, String> {
        let layer = self.layer(program)?;
        let uncompressed = sum(&layer)?;
        let level = match packing {
            Packing::Small => "-9",
            Packing::Fast => "-1",
        };
        said(Command::new("gzip").args([level, "-n", "-f"]).arg(&layer))?;
        let layer = self.add(&layer.with_added_extension("gz"))?;
        let config = self.add_json("config", &self.config(&uncompressed))?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": described(CONFIG, &config),
            "layers": [described(LAYER, &layer)],
        });
        let mut manifest = described(MANIFEST, &self.add_json("manifest", &manifest)?);
        manifest["annotations"] = json!({"org.opencontainers.image.ref.name": self.version});
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]});
        self.write("index.json", &index)?;
        self.write("oci-layout", &json!({"imageLayoutVersion": "1.0.0"}))?;
        let name = format!("rhumb_{}_{}.oci.tar", self.version, self.architecture);
        let archive = self.folder.join(name);
        let mut tar = self.tar("-cf", &archive, "0");
        said(tar.arg("-C").arg(&self.folder).args(["oci-layout", "index.json", "blobs"]))?;
        Ok(archive)
    }

    /// What a container begins with, as one archive.
    fn layer(&self, program: &Path) -> Result<PathBuf, String> {
        let (files, homes) = (self.folder.join("files"), self.folder.join("homes"));
        let placed = files.join(PROGRAM);
        make_folder(placed.parent().unwrap_or(&files))?;
        let mut strip = Command::new("strip");
        said(strip.args(["--strip-unneeded", "-o"]).arg(&placed).arg(program))?;
        set_mode(&placed, 0o755)?;
        for library in libraries(program)? {
            let place = files.join(library.strip_prefix("/").unwrap_or(&library));
            make_folder(place.parent().unwrap_or(&files))?;
            fs::copy(&library, &place).map_err(|error| told(&library, &error))?;
            set_mode(&place, 0o755)?;
        }
        for (path, text) in [("etc/passwd", PASSWD), ("etc/group", GROUP)] {
            let file = files.join(path);
            make_folder(file.parent().unwrap_or(&files))?;
            fs::write(&file, text).map_err(|error| told(&file, &error))?;
            set_mode(&file, 0o644)?;
        }
        for home in HOMES {
            make_folder(&homes.join(home))?;
            set_mode(&homes.join(home), 0o700)?;
        }
        let archive = self.folder.join("layer.tar");
        let mut tar = self.tar("-cf", &archive, "0");
        tar.arg("-C").arg(&files);
        said(tar.args(files_below(&files)?))?;
        let mut tar = self.tar("-rf", &archive, USER);
        said(tar.arg("-C").arg(&homes).args(HOMES))?;
        Ok(archive)
    }

    /// An archive that does not tell when and by whom it was made.
    fn tar(&self, how: &str, archive: &Path, owner: &str) -> Command {
        let mut tar = Command::new("tar");
        tar.args([how]).arg(archive).args(["--sort=name", "--numeric-owner", "--format=gnu"]);
        tar.args([format!("--owner={owner}"), format!("--group={owner}")]);
        tar.arg(format!("--mtime=@{}", self.commit[0]));
        tar
    }

    fn config(&self, layer: &str) -> Value {
        json!({
            "created": self.commit[1],
            "architecture": self.architecture,
            "os": "linux",
            "config": {
                "User": format!("{USER}:{USER}"),
                "Entrypoint": [format!("/{PROGRAM}")],
                "Cmd": ["--help"],
                "Env": ["HOME=/var/lib/rhumb", "XDG_RUNTIME_DIR=/run/rhumb"],
                "WorkingDir": "/var/lib/rhumb",
                "Volumes": {"/var/lib/rhumb": {}},
                "ExposedPorts": {"7460/udp": {}, "7460/tcp": {}, "7461/udp": {}, "7462/tcp": {}},
                "Labels": {
                    "org.opencontainers.image.title": "Rhumb",
                    "org.opencontainers.image.version": self.version,
                    "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
                },
            },
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        })
    }

    fn add_json(&self, name: &str, value: &Value) -> Result<Blob, String> {
        self.write(name, value)?;
        self.add(&self.folder.join(name))
    }

    fn write(&self, name: &str, value: &Value) -> Result<(), String> {
        let file = self.folder.join(name);
        fs::write(&file, value.to_string()).map_err(|error| told(&file, &error))?;
        set_mode(&file, 0o644)
    }

    /// Moves a file to where it is found by its content.
    fn add(&self, file: &Path) -> Result<Blob, String> {
        let digest = sum(file)?;
        let bytes = fs::metadata(file).map_err(|error| told(file, &error))?.len();
        let place = self.folder.join(BLOBS).join(&digest);
        fs::rename(file, &place).map_err(|error| told(&place, &error))?;
        set_mode(&place, 0o644)?;
        Ok(Blob { digest, bytes })
    }
}

/// A part of the image.
struct Blob {
    /// Its SHA-256, in hexadecimal digits.
    digest: String,
    bytes: u64,
}

fn described(media_type: &str, blob: &Blob) -> Value {
    json!({
        "mediaType": media_type,
        "digest": format!("sha256:{}", blob.digest),
        "size": blob.bytes,
    })
}

fn sum(file: &Path) -> Result<String, String> {
    let answer = said(Command::new("sha256sum").arg(file))?;
    // A file whose name has to be written otherwise is told of by a backslash before.
    let digest = answer.trim_start_matches('\\').split_whitespace().next();
    digest.map(str::to_owned).ok_or_else(|| format!("sha256sum says: {answer}"))
}

/// The libraries that the program is loaded with, and what loads it.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, String> {
    let answer = said(Command::new("ldd").arg(program))?;
    // `libc.so.6 => /lib/libc.so.6 (0x..)`, and the loader by its path alone.
    let words = answer.lines().filter_map(|line| {
        let place = line.split_once("=>").map_or(line, |(_, place)| place);
        place.split_whitespace().next().filter(|word| word.starts_with('/'))
    });
    let found: Vec<PathBuf> = words.map(PathBuf::from).collect();
    if found.is_empty() { Err(format!("ldd says: {answer}")) } else { Ok(found) }
}

const PROGRAM: &str = "usr/bin/rhumb";
/// Nobody's on any host.
const USER: &str = "65532";
const PASSWD: &str = "root:x:0:0:root:/:/sbin/nologin\n\
                      rhumb:x:65532:65532:rhumb:/var/lib/rhumb:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nrhumb:x:65532:\n";
/// The user's folders: what it keeps, what it tells its own, and for a while.
const HOMES: [&str; 3] = ["var/lib/rhumb", "run/rhumb", "tmp"];
const BLOBS: &str = "blobs/sha256";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
