//! The same bench built with the cipher off (`--cfg rhumb_null_cipher`), as a process that measures
//! on demand, so that its slices take turns with those of this build.
//!
//! The parent writes a line for each slice, `memory FORM PAYLOAD`, `bare FORM PAYLOAD` or `udp
//! PAYLOAD`; the child answers with a line of numbers. It ends when its input does. It is built at
//! most once, in a target directory of its own.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path as FilePath, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::load::{Rig, Slice, Store};
use crate::machine::{self, Core};
use crate::member::Form;
use crate::memory::{self, ENTRIES};
use crate::path::Path;
use crate::scene::{Bare, Scene};

/// The word that makes a process the child.
pub(crate) const CHILD: &str = "--measure-on-demand";

fn name_of(form: Form) -> &'static str {
    if form == Form::Labels { LABELS } else { NAMES }
}

/// The forms, in orders.
const LABELS: &str = "labels";
const NAMES: &str = "names";

/// Whether this build is the one without a cipher.
pub(crate) const IS_OFF: bool = cfg!(rhumb_null_cipher);

/// The other build, ready to measure.
pub(crate) struct CipherOff {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl CipherOff {
    /// Builds it if need be, and starts it.
    ///
    /// # Errors
    /// With the reason why it cannot be had.
    pub(crate) fn start() -> Result<Self, String> {
        let executable = build()?;
        let mut child = Command::new(executable)
            .arg(CHILD)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("starting the build with the cipher off: {error}"))?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("a pipe was asked for"));
        Ok(Self { child, orders, answers })
    }

    /// Nanoseconds per datagram of one flow in memory.
    pub(crate) fn memory_slice(&mut self, form: Form, payload: usize) -> f64 {
        self.ask(&format!("memory {} {payload}", name_of(form)))[0]
    }

    /// The same of the bare loop, of which nothing is left without the cipher
    /// but the look-up and the copying of headers.
    pub(crate) fn bare_slice(&mut self, form: Form, payload: usize) -> f64 {
        self.ask(&format!("bare {} {payload}", name_of(form)))[0]
    }

    /// One slice of the switch on sockets.
    pub(crate) fn udp_slice(&mut self, payload: usize) -> Slice {
        let answer = self.ask(&format!("udp {payload}"));
        Slice {
            arrived: answer[0] as usize,
            lost: answer[1] as usize,
            wall: Duration::from_nanos(answer[2] as u64),
            cpu: Duration::from_nanos(answer[3] as u64),
        }
    }

    fn ask(&mut self, order: &str) -> Vec<f64> {
        let orders = self.orders.as_mut().expect("open until this is dropped");
        writeln!(orders, "{order}").expect("the child takes orders");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the child answers");
        let numbers = line.split_whitespace().map(|word| word.parse().expect("a number"));
        let numbers: Vec<f64> = numbers.collect();
        assert!(!numbers.is_empty(), "the child has ended");
        numbers
    }
}

impl Drop for CipherOff {
    fn drop(&mut self) {
        self.orders = None;
        // It ends when its input does, and whatever it has to complain of it has said.
        let _ = self.child.wait();
    }
}

/// What the child does.
pub(crate) fn measure_on_demand() {
    let mut scene: Option<Scene> = None;
    let mut bare: HashMap<String, Bare> = HashMap::new();
    let mut udp: Option<(Rig, Store)> = None;
    for line in std::io::stdin().lines() {
        let line = line.expect("orders are text");
        let (kind, payload) = line.rsplit_once(' ').expect("an order ends with a size");
        let payload = payload.parse().expect("bytes");
        if let Some(form) = kind.strip_prefix("memory ") {
            machine::pin(Core::Measured);
            let scene = scene.get_or_insert_with(|| Scene::new(2));
            scene.form = if form == LABELS { Form::Labels } else { Form::Names };
            println!("{}", memory::slice(scene, payload));
        } else if let Some(form) = kind.strip_prefix("bare ") {
            machine::pin(Core::Measured);
            let bare = bare.entry(form.to_owned()).or_insert_with(|| {
                let form = if form == LABELS { Form::Labels } else { Form::Names };
                Bare::new(form, ENTRIES, 1, 1)
            });
            println!("{}", memory::slice(bare, payload));
        } else {
            machine::pin(Core::Load);
            let (rig, store) =
                udp.get_or_insert_with(|| (Rig::switching(&Path::new()), Store::new()));
            let Slice { arrived, lost, wall, cpu } = rig.slice(payload, store, false);
            println!("{arrived} {lost} {} {}", wall.as_nanos(), cpu.as_nanos());
        }
    }
}

/// Has cargo build this bench with the cipher off; where the executable is.
fn build() -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    // target/release/deps/switch-0123456789abcdef
    let target = this.ancestors().nth(3).unwrap_or(FilePath::new("target")).join("cipher-off");
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    eprintln!("building with the cipher off; the first time, this takes minutes");
    let output = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["bench", "--no-run", "--quiet", "--bench", "switch"])
        .args(["--message-format", "json-render-diagnostics", "--target-dir"])
        .arg(target)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", format!("{flags} --cfg rhumb_null_cipher"))
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    let executable = output.stdout.split(|byte| *byte == b'\n').find_map(executable_of);
    match executable {
        Some(executable) if output.status.success() => Ok(executable),
        _ => Err("the build with the cipher off failed".to_owned()),
    }
}

/// The executable that one of cargo's messages tells of, if it is that of this bench.
fn executable_of(message: &[u8]) -> Option<PathBuf> {
    let message: Value = serde_json::from_slice(message).ok()?;
    if message["target"]["name"] != "switch" {
        return None;
    }
    message["executable"].as_str().map(PathBuf::from)
}
