//! A cluster of three Apache Cassandra nodes on loopback, for the tests of this program.
//!
//! Maven brings the program; the tests skip themselves where Maven or Java is missing. One cluster
//! serves all tests, one test at a time. Each node is the child of a shell that kills it when this
//! program ends, however it does.

mod settings;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rhumb_cql::CqlAddress;
use tempfile::TempDir;

pub(crate) const NODES: usize = 3;

/// Three nodes, or what is left of them.
pub(crate) struct Cassandra {
    folder: TempDir,
    program: PathBuf,
    nodes: [Option<Node>; NODES],
    /// Whether a node has been ended or stopped since all were up.
    is_disturbed: AtomicBool,
    storage_port: u16,
    cql_port: u16,
}

/// A node that runs.
struct Node {
    /// Kills the node when its standard input ends.
    shell: Child,
    process: u32,
}

/// The cluster of this program, or why there is none. Nobody else uses it while this is held.
pub(crate) fn cluster() -> Result<MutexGuard<'static, Option<Cassandra>>, String> {
    static CLUSTER: Mutex<Option<Cassandra>> = Mutex::new(None);
    let mut cluster = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    let program = program()?;
    match &mut *cluster {
        Some(cluster) => cluster.mend(),
        None => *cluster = Some(Cassandra::start(program)),
    }
    Ok(cluster)
}

/// Where the program is; Maven brings it if it is not there yet.
fn program() -> Result<PathBuf, String> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let folder = target.join(format!("cassandra-{VERSION}"));
    let (lib, complete) = (folder.join("lib"), folder.join("complete"));
    is_there("java", "-version")?;
    if complete.exists() {
        return Ok(lib);
    }
    is_there("mvn", "--version")?;
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("pom.xml"), settings::pom(VERSION)).expect("written");
    let brought = Command::new("mvn")
        .args(["--quiet", "--batch-mode", "--file"])
        .arg(folder.join("pom.xml"))
        .arg("org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies")
        .arg(format!("-DoutputDirectory={}", lib.display()))
        .arg("-DincludeScope=runtime")
        .stdin(Stdio::null())
        .output()
        .expect("a process");
    if !brought.status.success() {
        return Err(format!("Maven brings no Cassandra {VERSION}"));
    }
    fs::write(complete, "").expect("written");
    Ok(lib)
}

fn is_there(program: &str, ask: &str) -> Result<(), String> {
    let run = Command::new(program).arg(ask).stdin(Stdio::null()).output();
    run.map(drop).map_err(|_| format!("no `{program}`, which a CQL cluster needs"))
}

impl Cassandra {
    fn start(program: PathBuf) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let [storage_port, cql_port] = free_ports();
        let nodes = Default::default();
        let is_disturbed = AtomicBool::new(true);
        let mut cluster = Self { folder, program, nodes, is_disturbed, storage_port, cql_port };
        for node in 0..NODES {
            cluster.write_settings(node);
            cluster.start_node(node);
        }
        cluster.settle();
        cluster
    }

    /// Where the cluster is, and a keyspace in it.
    pub(crate) fn address(&self, keyspace: &str) -> CqlAddress {
        let nodes = (0..NODES).map(|node| format!("{}:{}", host(node), self.cql_port));
        let nodes = nodes.collect::<Vec<_>>().join(",");
        format!("cql://{nodes}/{keyspace}").parse().expect("an address")
    }

    /// Starts a node that does not run.
    pub(crate) fn start_node(&mut self, node: usize) {
        let folder = self.node_folder(node);
        let mut java = Command::new("sh");
        java.args(["-c", SHELL, "sh"]);
        java.args(settings::java(&folder, &self.program));
        java.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = java.spawn().expect("a process");
        let mut process = String::new();
        let output = shell.stdout.as_mut().expect("its output");
        BufReader::new(output).read_line(&mut process).expect("its number");
        let process = process.trim().parse().expect("a number");
        self.nodes[node] = Some(Node { shell, process });
    }

    /// Ends a node at once, as if its machine had lost power.
    pub(crate) fn kill(&mut self, node: usize) {
        let Some(Node { mut shell, process }) = self.nodes[node].take() else { return };
        self.is_disturbed.store(true, Ordering::Relaxed);
        signal(process, "KILL");
        shell.wait().expect("reaped");
    }

    /// Stops a node where it stands: its connections stay open and nothing comes back.
    pub(crate) fn stop(&self, node: usize) {
        self.is_disturbed.store(true, Ordering::Relaxed);
        signal(self.process(node), "STOP");
    }

    /// Lets a stopped node go on.
    pub(crate) fn go_on(&self, node: usize) {
        signal(self.process(node), "CONT");
    }

    /// Where a node keeps what it stores.
    pub(crate) fn data_folder(&self, node: usize) -> PathBuf {
        self.node_folder(node).join("data")
    }

    /// Whether a node has ended by itself, or takes no connections.
    pub(crate) fn is_silent(&self, node: usize) -> bool {
        TcpStream::connect((host(node), self.cql_port)).is_err()
    }

    /// Waits until all nodes have seen each other and nothing changes any more.
    #[allow(clippy::disallowed_methods, reason = "tests wait, and nothing else is to be done")]
    pub(crate) fn settle(&mut self) {
        let began = Instant::now();
        let (mut last, mut same) = (0, 0);
        while same < SETTLED {
            assert!(began.elapsed() < PATIENCE, "{}", self.last_words());
            sleep(Duration::from_millis(500));
            let logs: Vec<String> = (0..NODES).map(|node| self.log(node)).collect();
            let changes = logs.iter().map(|log| log.matches(" is now ").count()).sum();
            let is_up = |node: usize| !self.is_silent(node) && others_up(&logs[node]) == NODES - 1;
            same = if (0..NODES).all(is_up) && changes == last { same + 1 } else { 0 };
            last = changes;
        }
        self.is_disturbed.store(false, Ordering::Relaxed);
    }

    /// Starts what a test has ended, and lets go on what it has stopped.
    fn mend(&mut self) {
        if !self.is_disturbed.load(Ordering::Relaxed) {
            return;
        }
        for node in 0..NODES {
            match self.nodes[node].as_mut().map(|node| node.shell.try_wait()) {
                Some(Ok(None)) => self.go_on(node),
                _ => self.start_node(node),
            }
        }
        self.settle();
    }

    fn process(&self, node: usize) -> u32 {
        self.nodes[node].as_ref().expect("a node that runs").process
    }

    fn node_folder(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("node{node}"))
    }

    fn log(&self, node: usize) -> String {
        let log = fs::read(self.node_folder(node).join("system.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    fn last_words(&self) -> String {
        let words = (0..NODES).map(|node| {
            let log = self.log(node);
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(10)..].join("\n");
            let output = self.node_folder(node).join("output");
            format!("node {node}:\n{last}\n{}", fs::read_to_string(output).unwrap_or_default())
        });
        words.collect()
    }

    fn write_settings(&self, node: usize) {
        let folder = self.node_folder(node);
        fs::create_dir_all(folder.join("data")).expect("a folder");
        let seeds = (0..NODES).map(host).collect::<Vec<_>>().join(",");
        let ports = (self.storage_port, self.cql_port);
        for (name, text) in settings::files(&folder, node, &host(node), &seeds, ports) {
            fs::write(folder.join(name), text).expect("written");
        }
    }
}

impl Drop for Cassandra {
    fn drop(&mut self) {
        (0..NODES).for_each(|node| self.kill(node));
    }
}

/// Loopback addresses of their own, so that all nodes can have the same ports.
fn host(node: usize) -> String {
    format!("127.0.93.{}", node + 1)
}

/// How many others the node has seen come up, by its log.
fn others_up(log: &str) -> usize {
    let up =
        log.lines().filter_map(|line| line.split_once("InetAddress /")?.1.split_once(" is now UP"));
    up.map(|(other, _)| other).collect::<BTreeSet<_>>().len()
}

fn free_ports() -> [u16; 2] {
    let bound = [(); 2].map(|()| TcpListener::bind((host(0), 0)).expect("a port"));
    bound.map(|listener| listener.local_addr().expect("its address").port())
}

/// By its number, which is that of a child of this process's own shell.
fn signal(process: u32, signal: &str) {
    let mut kill = Command::new("kill");
    kill.arg(format!("-{signal}")).arg(process.to_string());
    // One that has ended by itself needs none.
    let _ = kill.stderr(Stdio::null()).status();
}

const VERSION: &str = "5.0.9";
/// Starts the program, tells its number, and ends it when standard input does.
const SHELL: &str = r#"output="$1"; shift
exec 3<&0
nice -n 5 "$@" >"$output" 2>&1 </dev/null 3<&- &
node=$!
echo $node
( read -r _ <&3; kill -KILL $node ) 2>/dev/null &
waiting=$!
wait $node
kill $waiting 2>/dev/null"#;
/// Half seconds without a change.
const SETTLED: usize = 6;
/// Three virtual machines that start on two busy cores.
const PATIENCE: Duration = Duration::from_secs(240);
