//! Where a daemon tells how it is: a Unix socket, which its own user and root alone may ask; one
//! for readers, whom the group of its folder may ask, too; or a loopback address, which answers
//! every program on this machine.
//!
//! The usual place of sockets is a folder that only its owner can enter: `$XDG_RUNTIME_DIR/rhumb`,
//! `/run/rhumb` of root, or else one of the user's own among temporary files. Those for readers are
//! in folders below `/run/rhumb-status`, if this host has any.
//!
//! Whoever asks waits no longer than it said, and takes no more than a bound, whatever answers: one
//! that hangs, drips its answer or never ends it.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::{Errno, FdFlags, fcntl_setfd, ioctl_fionbio};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
use serde::{Serialize, Serializer};

use crate::failure::{Failure, Outcome};
use crate::remote::parse_address;

/// An admin endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admin {
    /// A loopback address.
    Address(SocketAddr),
    /// A Unix socket.
    Socket(PathBuf),
    /// A Unix socket in a folder that a group may enter, all of which may ask how the daemon is.
    ForReaders(PathBuf),
    /// A Unix socket at the usual place, with a name of the daemon's.
    Usual,
}

impl Admin {
    /// `socket`, a path, `readers:` and a path, or a loopback address.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == USUAL {
            return Ok(Self::Usual);
        }
        if let Some(path) = text.strip_prefix(READERS) {
            return match path.contains('/') {
                true => Ok(Self::ForReaders(path.into())),
                false => Err(format!("`{text}`: give the path of a socket behind `{READERS}`")),
            };
        }
        if text.contains('/') {
            return Ok(Self::Socket(text.into()));
        }
        let address = parse_address(text)
            .map_err(|problem| format!("{problem}, a path with a `/`, or `{USUAL}`"))?;
        Ok(Self::Address(address))
    }

    /// Refuses an address that others can reach: status names peers.
    pub(crate) fn check(self) -> Outcome<Self> {
        match self {
            Self::Address(address) if !address.ip().is_loopback() => {
                Err(Failure::setup_text(format!(
                    "admin address {address} is open to others; give a loopback address like 127.0.0.1:0, or a socket"
                )))
            }
            admin => Ok(admin),
        }
    }

    /// The endpoint with its path, for a daemon that calls itself `label`.
    pub(crate) fn settled(&self, label: &str) -> Outcome<Self> {
        match self {
            Self::Usual => Ok(Self::Socket(make_folder()?.join(format!("{label}.{EXTENSION}")))),
            other => Ok(other.clone()),
        }
    }

    /// Who is to be asked when nothing was said: the one daemon that has a socket at the usual
    /// place, or else the one that this user may ask as a reader.
    pub(crate) fn find() -> Outcome<Self> {
        let advice = "give --admin, as the RIB or router was started with it";
        let mut found = sockets(&usual_folder());
        if found.is_empty() {
            found = folders_for_readers().iter().flat_map(|it| sockets(it)).collect();
        }
        match &found[..] {
            [one] => Ok(Self::Socket(one.clone())),
            [] => Err(Failure::setup_text(format!(
                "no daemon of this user has a socket for status; {advice}"
            ))),
            several => {
                let paths: Vec<String> =
                    several.iter().map(|path| format!("--admin {}", path.display())).collect();
                Err(Failure::setup_text(format!(
                    "several daemons run here; give one of: {}",
                    paths.join(", ")
                )))
            }
        }
    }

    /// The sockets at the usual place, and for readers, at which a daemon answers this user.
    pub fn all() -> Vec<Self> {
        folders().iter().flat_map(|it| sockets(it)).map(Self::Socket).collect()
    }

    /// The sockets that lie at the usual place, and for readers, whether or not anybody listens:
    /// nothing is asked.
    pub fn listed() -> Vec<Self> {
        folders().iter().flat_map(|it| listed(it)).map(Self::Socket).collect()
    }

    /// The endpoint as whoever asks it calls it.
    pub fn asked(self) -> Self {
        match self {
            Self::ForReaders(path) => Self::Socket(path),
            other => other,
        }
    }

    /// Sends a request and returns all of the answer, if it is there within `deadline`.
    pub(crate) fn ask(&self, path: &str, deadline: Duration) -> io::Result<String> {
        let until = Instant::now() + deadline;
        match self {
            Self::Address(address) => {
                let stream = TcpStream::connect_timeout(address, deadline)?;
                stream.set_write_timeout(Some(deadline))?;
                all_of(request(stream, path, &address.to_string())?, until)
            }
            Self::Socket(socket) | Self::ForReaders(socket) => {
                all_of(request_of_socket(socket, path, deadline)?, until)
            }
            Self::Usual => match Self::find() {
                Ok(found) => found.ask(path, deadline),
                Err(failure) => Err(io::Error::other(failure.to_string())),
            },
        }
    }
}

/// What a socket gives for `path`, as a stream: the status line and what comes behind the head.
/// Each read waits no longer than `deadline`.
///
/// # Errors
/// When nothing answers there, or something else than a daemon.
pub fn open(socket: &Path, path: &str, deadline: Duration) -> io::Result<(String, impl Read)> {
    let stream = request_of_socket(socket, path, deadline)?;
    let mut stream = BufReader::with_capacity(1 << 20, stream);
    let (mut head, mut line) = (String::new(), String::new());
    loop {
        line.clear();
        let read = stream.by_ref().take(MAX_HEAD_LEN).read_line(&mut line)?;
        if line == "\r\n" {
            return Ok((head.lines().next().unwrap_or_default().to_owned(), stream));
        }
        head.push_str(&line);
        if read == 0 || head.len() as u64 > MAX_HEAD_LEN {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it does not speak to us"));
        }
    }
}

fn request_of_socket(socket: &Path, path: &str, deadline: Duration) -> io::Result<UnixStream> {
    let stream = connect_within(socket, deadline)?;
    stream.set_read_timeout(Some(deadline))?;
    stream.set_write_timeout(Some(deadline))?;
    request(stream, path, "localhost")
}

/// Asks for `path`; what comes back is the answer.
fn request<S: Write>(mut stream: S, path: &str, host: &str) -> io::Result<S> {
    stream.write_all(question(path, host).as_bytes())?;
    Ok(stream)
}

/// How a daemon is asked for `path`, by whoever has connected to it as `host`.
pub fn question(path: &str, host: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
}

/// Connects to a socket. One whose daemon hangs has a full queue, and would be waited for without
/// end.
fn connect_within(path: &Path, deadline: Duration) -> io::Result<UnixStream> {
    let until = Instant::now() + deadline;
    let stream = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    fcntl_setfd(&stream, FdFlags::CLOEXEC)?;
    ioctl_fionbio(&stream, true)?;
    let address = SocketAddrUnix::new(path)?;
    loop {
        match connect(&stream, &address) {
            Ok(()) => break,
            Err(Errno::AGAIN | Errno::INTR) if Instant::now() < until => {
                std::thread::sleep(CONNECT_PAUSE);
            }
            Err(Errno::AGAIN) => return Err(too_slow()),
            Err(error) => return Err(error.into()),
        }
    }
    ioctl_fionbio(&stream, false)?;
    Ok(UnixStream::from(stream))
}

fn all_of(stream: impl Patient, until: Instant) -> io::Result<String> {
    let mut answer = String::new();
    Until { stream, until }.take(MAX_ANSWER_LEN).read_to_string(&mut answer)?;
    Ok(answer)
}

/// A stream whose reads can be made to end.
trait Patient: Read {
    fn wait_for(&self, patience: Duration) -> io::Result<()>;
}

impl Patient for UnixStream {
    fn wait_for(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))
    }
}

impl Patient for TcpStream {
    fn wait_for(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))
    }
}

/// Reads until that moment, and not a byte later.
struct Until<S> {
    stream: S,
    until: Instant,
}

impl<S: Patient> Read for Until<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(too_slow());
        }
        self.stream.wait_for(left)?;
        self.stream.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => too_slow(),
            _ => error,
        })
    }
}

fn too_slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it does not answer in time")
}

impl fmt::Display for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Socket(path) => path.display().fmt(f),
            Self::ForReaders(path) => write!(f, "{READERS}{}", path.display()),
            Self::Usual => f.write_str(USUAL),
        }
    }
}

impl Serialize for Admin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A socket of that name at the usual place, for what is no status.
pub(crate) fn usual_socket(file: &str) -> Outcome<PathBuf> {
    Ok(make_folder()?.join(file))
}

/// Whether at the other end is the user of this process, or root.
pub(crate) fn is_own(stream: &tokio::net::UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| [own_user(), ROOT].contains(&peer.uid()))
}

/// The user that this process runs as.
pub(crate) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether a folder is one for readers: made by its owner, who is this process's user or root, for
/// a group that may look into it and change nothing there; others are shut out.
pub(crate) fn is_for_readers(folder: &Path) -> bool {
    std::fs::symlink_metadata(folder).is_ok_and(|found| {
        let is_owned = [own_user(), ROOT].contains(&found.uid());
        found.is_dir() && is_owned && found.mode() & 0o027 == 0
    })
}

/// Where daemons have their sockets whom this user may ask.
fn folders() -> Vec<PathBuf> {
    let mut folders = vec![usual_folder()];
    folders.extend(folders_for_readers());
    folders
}

/// Those for readers, whether or not this user is one.
fn folders_for_readers() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(FOR_READERS).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.sort_unstable();
    folders
}

fn usual_folder() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    if let Some(runtime) = runtime.filter(|path| path.is_absolute()) {
        return runtime.join(FOLDER);
    }
    match own_user() {
        ROOT => Path::new("/run").join(FOLDER),
        user => std::env::temp_dir().join(format!("{FOLDER}-{user}")),
    }
}

/// The usual folder, made if it is not there. One that others can
/// enter, or that is another user's, is not used.
fn make_folder() -> Outcome<PathBuf> {
    let folder = usual_folder();
    let shown = folder.display();
    let failed = |error: io::Error| {
        Failure::setup_text(format!(
            "folder {shown} for the admin socket: {error}; give a path with --admin"
        ))
    };
    match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    let found = std::fs::symlink_metadata(&folder).map_err(failed)?;
    if !found.is_dir() || found.uid() != own_user() || found.mode() & 0o077 != 0 {
        return Err(Failure::setup_text(format!(
            "folder {shown} for the admin socket is not this user's alone; remove it, or give a path with --admin"
        )));
    }
    Ok(folder)
}

fn sockets(folder: &Path) -> Vec<PathBuf> {
    // One that a killed daemon left behind answers nobody; one that is too busy is there.
    let has_daemon = |path: &PathBuf| match connect_within(path, Duration::ZERO) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::TimedOut,
    };
    listed(folder).into_iter().filter(has_daemon).collect()
}

fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_socket = |path: &PathBuf| {
        std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
    };
    let tells_status = |path: &PathBuf| path.extension().is_some_and(|it| it == EXTENSION);
    let paths = entries.map(|entry| entry.path()).filter(tells_status);
    let mut sockets: Vec<PathBuf> = paths.filter(is_socket).collect();
    sockets.sort_unstable();
    sockets
}

/// What stands for the usual place, in options and files.
pub(crate) const USUAL: &str = "socket";
/// Behind it is the path of a socket for readers, in options and files.
const READERS: &str = "readers:";
/// Folders for readers, which root alone makes there.
const FOR_READERS: &str = "/run/rhumb-status";
/// Its user.
const ROOT: u32 = 0;
const FOLDER: &str = "rhumb";
const EXTENSION: &str = "sock";
/// Of the few lines before a body.
const MAX_HEAD_LEN: u64 = 8 << 10;
/// Between two tries to connect to a daemon that is busy.
const CONNECT_PAUSE: Duration = Duration::from_millis(10);
/// A router with very many sessions lists them all.
const MAX_ANSWER_LEN: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn one_that_drips_its_answer_or_takes_nobody_is_waited_for_only_so_long() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let drip = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Each byte comes in time; the end never would.
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
            listener
        });
        let admin = Admin::Socket(path.clone());
        let kind = |deadline_ms| {
            admin.ask("/status", Duration::from_millis(deadline_ms)).unwrap_err().kind()
        };
        assert_eq!(kind(200), io::ErrorKind::TimedOut);
        let listener = drip.join().unwrap();
        // Nobody accepts: the queue of the system fills up.
        let mut waiting = Vec::new();
        while let Ok(stream) = connect_within(&path, Duration::ZERO) {
            waiting.push(stream);
            assert!(waiting.len() < 100_000, "the queue has no end");
        }
        assert_eq!(kind(50), io::ErrorKind::TimedOut);
        // It is there all the same, until it is gone.
        assert_eq!(sockets(folder.path()), std::slice::from_ref(&path));
        drop((listener, waiting));
        assert!(sockets(folder.path()).is_empty());
        assert_eq!(listed(folder.path()), [path]);
    }

    #[test]
    fn a_folder_for_readers_is_closed_to_others_and_changed_by_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let is_one = |mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(folder.path(), mode).unwrap();
            is_for_readers(folder.path())
        };
        assert!(is_one(0o750) && is_one(0o710) && is_one(0o700));
        assert!(!is_one(0o755) && !is_one(0o770) && !is_one(0o751));
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert!(!is_for_readers(&folder.path().join("file")));
        assert!(!is_for_readers(&folder.path().join("gone")));
    }

    #[test]
    fn an_endpoint_is_a_word_a_path_or_a_loopback_address() {
        assert_eq!(Admin::parse("socket"), Ok(Admin::Usual));
        assert_eq!(Admin::parse("./x"), Ok(Admin::Socket("./x".into())));
        let address = "127.0.0.1:0".parse().unwrap();
        assert_eq!(Admin::parse("127.0.0.1:0"), Ok(Admin::Address(address)));
        let open = Admin::parse("192.0.2.1:9").unwrap();
        assert!(open.check().unwrap_err().to_string().contains("loopback"));
        assert!(Admin::parse("here").unwrap_err().contains("a path with a `/`"));
        assert!(Admin::parse("readers:x").unwrap_err().contains("the path of a socket"));
        let readers = Admin::parse("readers:/run/r/x.sock").unwrap();
        assert_eq!(readers.asked(), Admin::Socket("/run/r/x.sock".into()));
        for text in ["socket", "/run/x.sock", "[::1]:9", "readers:/run/r/x.sock"] {
            assert_eq!(Admin::parse(text).unwrap().to_string(), text);
        }
    }
}
