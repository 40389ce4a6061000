//! A host whose files lie below a folder, as its processes see it: its `/etc`, `/usr`, `/var/lib`
//! and `/run` in place of this machine's, so that all paths are those of a real host.
//!
//! Invariant: nothing is reached but the loopback interface of a network namespace, and nothing is
//! written but below the folder. All of it ends with the process that entered it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The namespaces.
pub(super) struct Inside {
    /// Holds them, until its standard input closes.
    holder: Child,
    folder: PathBuf,
}

impl Inside {
    /// Lays the folder over this machine's files.
    ///
    /// # Errors
    /// Where the kernel has no namespaces, or no overlays on the file system of the folder.
    pub(super) fn enter(folder: &Path) -> Result<Self, String> {
        let mut hold = Command::new("unshare");
        hold.args(["--mount", "--net", "sh", "-ec", LAY_OVER, "sh"]).arg(folder);
        hold.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = hold.spawn().map_err(|error| format!("unshare: {error}"))?;
        let mut line = String::new();
        if let Some(out) = holder.stdout.take() {
            let _ = BufReader::new(out).read_line(&mut line);
        }
        let inside = Self { holder, folder: folder.to_owned() };
        match line.trim() {
            "ready" => Ok(inside),
            _ => Err("this kernel has no overlays or namespaces for it".to_owned()),
        }
    }

    /// Where a file below `/run` is for who is not in there.
    pub(super) fn run_file(&self, name: &str) -> PathBuf {
        self.folder.join("run").join(name)
    }

    /// A command to be run there, by root, whose home is there, too.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.holder.id()));
        command.args(["--mount", "--net", "--wd=/", "--", program]);
        command.env("HOME", "/run").env_remove("XDG_DATA_HOME").env_remove("XDG_RUNTIME_DIR");
        command
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Files are written to the folder; `/usr` is only read.
const LAY_OVER: &str = r#"
    mkdir "$1/work"
    mount -t overlay -o "lowerdir=/etc,upperdir=$1/etc,workdir=$1/work" overlay /etc
    mount -t overlay -o "lowerdir=$1/usr:/usr" overlay /usr
    mount --bind "$1/var/lib" /var/lib
    mount --bind "$1/run" /run
    ip link set lo up
    echo ready
    exec cat
"#;
