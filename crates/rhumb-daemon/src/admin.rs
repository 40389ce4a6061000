//! Where a daemon tells how it is: a Unix socket, which its own user and root alone may ask; or a
//! loopback address, which answers every program on this machine.
//!
//! The usual place of sockets is a folder that only its owner can enter: `$XDG_RUNTIME_DIR/rhumb`,
//! `/run/rhumb` of root, or else one of the user's own among temporary files.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    /// A Unix socket at the usual place, with a name of the daemon's.
    Usual,
}

impl Admin {
    /// `socket`, a path, or a loopback address.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == USUAL {
            return Ok(Self::Usual);
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

    /// Who is to be asked when nothing was said: the one
    /// daemon that has a socket at the usual place.
    pub(crate) fn find() -> Outcome<Self> {
        let advice = "give --admin, as the RIB or router was started with it";
        let found = sockets(&usual_folder());
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

    /// The sockets at the usual place at which a daemon of this user answers.
    pub fn all() -> Vec<Self> {
        sockets(&usual_folder()).into_iter().map(Self::Socket).collect()
    }

    /// Sends a request and returns all of the answer.
    pub(crate) fn ask(&self, path: &str, deadline: Duration) -> io::Result<String> {
        match self {
            Self::Address(address) => {
                let stream = TcpStream::connect_timeout(address, deadline)?;
                stream.set_read_timeout(Some(deadline))?;
                stream.set_write_timeout(Some(deadline))?;
                all_of(request(stream, path, &address.to_string())?)
            }
            Self::Socket(socket) => all_of(request_of_socket(socket, path, deadline)?),
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
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(deadline))?;
    stream.set_write_timeout(Some(deadline))?;
    request(stream, path, "localhost")
}

/// Asks for `path`; what comes back is the answer.
fn request<S: Write>(mut stream: S, path: &str, host: &str) -> io::Result<S> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
    Ok(stream)
}

fn all_of(stream: impl Read) -> io::Result<String> {
    let mut answer = String::new();
    stream.take(MAX_ANSWER_LEN).read_to_string(&mut answer)?;
    Ok(answer)
}

impl fmt::Display for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Socket(path) => path.display().fmt(f),
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
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_socket = |path: &PathBuf| {
        std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
            // One that a killed daemon left behind answers nobody.
            && UnixStream::connect(path).is_ok()
    };
    let tells_status = |path: &PathBuf| path.extension().is_some_and(|it| it == EXTENSION);
    let paths = entries.map(|entry| entry.path()).filter(tells_status);
    let mut sockets: Vec<PathBuf> = paths.filter(is_socket).collect();
    sockets.sort_unstable();
    sockets
}

/// What stands for the usual place, in options and files.
pub(crate) const USUAL: &str = "socket";
/// Its user.
const ROOT: u32 = 0;
const FOLDER: &str = "rhumb";
const EXTENSION: &str = "sock";
/// Of the few lines before a body.
const MAX_HEAD_LEN: u64 = 8 << 10;
/// A router with very many sessions lists them all.
const MAX_ANSWER_LEN: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_word_a_path_or_a_loopback_address() {
        assert_eq!(Admin::parse("socket"), Ok(Admin::Usual));
        assert_eq!(Admin::parse("./x"), Ok(Admin::Socket("./x".into())));
        let address = "127.0.0.1:0".parse().unwrap();
        assert_eq!(Admin::parse("127.0.0.1:0"), Ok(Admin::Address(address)));
        let open = Admin::parse("192.0.2.1:9").unwrap();
        assert!(open.check().unwrap_err().to_string().contains("loopback"));
        assert!(Admin::parse("here").unwrap_err().contains("a path with a `/`"));
        for text in ["socket", "/run/x.sock", "[::1]:9"] {
            assert_eq!(Admin::parse(text).unwrap().to_string(), text);
        }
    }
}
