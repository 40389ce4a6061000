//! The Unix socket at which processes hand over sockets to be stamped.
//!
//! A request is one line of JSON, with one descriptor beside it (SCM_RIGHTS): `{"via":
//! ["192.0.2.1", "198.51.100.1"]}`. The answer is one line: `{"stamped": true, "mtu": 1416}`, or
//! `{"error": "..."}`. An empty list takes the stamp away. The daemon marks the socket and forgets
//! its descriptor, so it is closed when its owner closes it. What was asked for on a connection
//! holds as long as the connection: then the way is given up, and where nobody else has it, packets
//! of sockets that still carry its mark are refused.
//!
//! Invariant: who may ask is decided by the credentials that the kernel tells of the peer
//! (SO_PEERCRED), before anything is read.

use std::fs;
use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::privileges::User;
use rhumb_io::marks::{is_internet_socket, mark_socket, share_namespace};
use rhumb_waypoint::via::{Via, split};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::Deserialize;
use serde_json::json;

use super::Event;

/// What the thread of a connection asks of the one that has the ways.
#[derive(Debug)]
pub(crate) enum Asked {
    /// A mark for packets to these waypoints, as long as the connection holds.
    Mark { connection: u64, via: Via, reply: SyncSender<Result<Granted, String>> },
    /// The connection is over.
    Over { connection: u64 },
}

/// The answer to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Granted {
    pub(crate) mark: u32,
    pub(crate) mtu: u32,
}

/// Who is let in.
#[derive(Debug, Clone)]
pub(crate) struct Allowed {
    users: Vec<u32>,
    own: u32,
}

/// The door, open. Its file goes with the value.
#[derive(Debug)]
pub(crate) struct Door {
    path: PathBuf,
}

/// The door, still closed: who knocks waits.
#[derive(Debug)]
pub(crate) struct ClosedDoor {
    door: Door,
    listener: UnixListener,
    allowed: Allowed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    via: Vec<IpAddr>,
}

impl Allowed {
    /// Root, the user that this process is to run as, or runs as, and `others`.
    pub(crate) fn new(others: &[u32], run_as: Option<User>) -> Self {
        let own = run_as.map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.id);
        let mut users = others.to_vec();
        users.extend([0, own]);
        Self { users, own }
    }

    fn is_closed_to_others(&self) -> bool {
        self.users.iter().all(|user| *user == 0 || *user == self.own)
    }
}

impl Door {
    /// Makes its file, which belongs to `owner` if given.
    pub(crate) fn bind(path: &Path, allowed: Allowed, owner: Option<User>) -> Outcome<ClosedDoor> {
        let failed =
            |error: io::Error| Failure::setup_text(format!("socket {}: {error}", path.display()));
        if is_abandoned(path) {
            fs::remove_file(path).map_err(failed)?;
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let door = Self { path: path.to_owned() };
        // Where others are allowed, all may knock, so that who is not is told why.
        let mode = if allowed.is_closed_to_others() { 0o600 } else { 0o666 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)?;
        if let Some(owner) = owner {
            std::os::unix::fs::chown(path, Some(owner.id), Some(owner.group)).map_err(failed)?;
        }
        Ok(ClosedDoor { door, listener, allowed })
    }
}

impl ClosedDoor {
    /// Opens it.
    pub(crate) fn open(self, events: SyncSender<Event>) -> Outcome<Door> {
        let Self { door, listener, allowed } = self;
        // It says in which network namespace we are.
        let here = UdpSocket::bind("0.0.0.0:0").map_err(Failure::operation)?;
        let visitors =
            Visitors { allowed, events, here: Arc::new(here.into()), inside: Arc::default() };
        let accept = move || {
            for (connection, stream) in (0_u64..).zip(listener.incoming()) {
                match stream {
                    Ok(stream) => visitors.admit(connection, stream),
                    // Out of descriptors: trying again at once would spin.
                    Err(_) => std::thread::sleep(ACCEPT_PAUSE),
                }
            }
        };
        std::thread::Builder::new()
            .name("door".to_owned())
            .spawn(accept)
            .map_err(Failure::operation)?;
        Ok(door)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

struct Visitors {
    allowed: Allowed,
    events: SyncSender<Event>,
    here: Arc<OwnedFd>,
    /// The users of the connections there are.
    inside: Arc<Mutex<Vec<u32>>>,
}

impl Visitors {
    fn admit(&self, connection: u64, mut stream: UnixStream) {
        let Ok(peer) = rustix::net::sockopt::socket_peercred(&stream) else { return };
        let user = peer.uid.as_raw();
        let refused = {
            let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
            let own = inside.iter().filter(|other| **other == user).count();
            if !self.allowed.users.contains(&user) {
                Some(format!(
                    "user {user} may not have sockets stamped; start the daemon with --allow {user}"
                ))
            } else if own >= MOST_OF_A_USER || inside.len() >= MOST_CONNECTIONS {
                Some(format!(
                    "user {user} has {own} of {MOST_OF_A_USER} connections, all users {} of \
                     {MOST_CONNECTIONS}; close one first",
                    inside.len()
                ))
            } else {
                inside.push(user);
                None
            }
        };
        if let Some(why) = refused {
            tracing::warn!(
                user,
                pid = peer.pid.as_raw_nonzero().get(),
                "refused to stamp a socket"
            );
            // Who does not listen does not hear it.
            let _ = stream.set_write_timeout(Some(WRITE_PATIENCE));
            let _ = write_line(&mut stream, &json!({ "error": why }));
            return;
        }
        let (events, here, inside) =
            (self.events.clone(), Arc::clone(&self.here), Arc::clone(&self.inside));
        let serve = move || {
            // The peer's errors are the peer's.
            let _ = serve(connection, &mut stream, &events, &here);
            let _ = events.send(Event::Asked(Asked::Over { connection }));
            let mut inside = inside.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = inside.iter().position(|other| *other == user) {
                inside.swap_remove(at);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("visitor".to_owned()).spawn(serve) {
            tracing::error!(%error, "no thread for a connection");
        }
    }
}

/// Answers requests until the connection is closed.
fn serve(
    connection: u64,
    stream: &mut UnixStream,
    events: &SyncSender<Event>,
    here: &OwnedFd,
) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITE_PATIENCE))?;
    while let Some((line, sockets)) = read_request(stream)? {
        let answer = match handle(connection, &line, sockets, events, here) {
            Ok(answer) => answer,
            Err(why) => json!({ "error": why }),
        };
        write_line(stream, &answer)?;
    }
    Ok(())
}

fn handle(
    connection: u64,
    line: &[u8],
    mut sockets: Vec<OwnedFd>,
    events: &SyncSender<Event>,
    here: &OwnedFd,
) -> Result<serde_json::Value, String> {
    let request: Request = serde_json::from_slice(line).map_err(|error| {
        format!("not a request ({error}); send one line like {{\"via\": [\"192.0.2.1\"]}}")
    })?;
    let (Some(socket), true) = (sockets.pop(), sockets.is_empty()) else {
        return Err("send one socket with the request (SCM_RIGHTS)".to_owned());
    };
    if !is_internet_socket(socket.as_fd()) {
        return Err("the descriptor is no socket of IPv4 or IPv6".to_owned());
    }
    if !share_namespace(socket.as_fd(), here.as_fd()) {
        return Err("the socket is of another network namespace than the daemon".to_owned());
    }
    let mark = |mark| {
        mark_socket(socket.as_fd(), mark)
            .map_err(|error| format!("the socket cannot be marked: {error}"))
    };
    if request.via.is_empty() {
        mark(0)?;
        return Ok(json!({ "stamped": false }));
    }
    let via = split(&request.via)?;
    let (reply, answer) = sync_channel(1);
    let gone = "the daemon is ending";
    events.send(Event::Asked(Asked::Mark { connection, via, reply })).map_err(|_| gone)?;
    let granted = answer.recv().map_err(|_| gone)??;
    mark(granted.mark)?;
    Ok(json!({ "stamped": true, "mtu": granted.mtu }))
}

/// One line, and the descriptors that came with it; `None` at the end.
fn read_request(stream: &UnixStream) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let (mut line, mut sockets) = (Vec::new(), Vec::new());
    loop {
        let mut buffer = [0; LONGEST_REQUEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(stream, &mut [IoSliceMut::new(&mut buffer)], &mut control, flags)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                sockets.extend(descriptors);
            }
        }
        if received.bytes == 0 {
            return Ok(None);
        }
        line.extend_from_slice(&buffer[..received.bytes]);
        if line.ends_with(b"\n") {
            return Ok(Some((line, sockets)));
        }
        if line.len() > LONGEST_REQUEST || sockets.len() > MOST_DESCRIPTORS {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

fn write_line(stream: &mut UnixStream, answer: &serde_json::Value) -> io::Result<()> {
    stream.write_all(format!("{answer}\n").as_bytes())
}

/// Whether a socket is there that nobody listens on.
fn is_abandoned(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    is_socket
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// A list of addresses is much shorter.
const LONGEST_REQUEST: usize = 1024;
/// One is right; room for a few more lets us say that they are too many.
const MOST_DESCRIPTORS: usize = 4;
/// A thread each.
const MOST_CONNECTIONS: usize = 64;
/// So that one user leaves room for others.
const MOST_OF_A_USER: usize = 16;
/// Answers are shorter than any buffer: who lets one wait longer is stuck.
const WRITE_PATIENCE: Duration = Duration::from_secs(2);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
