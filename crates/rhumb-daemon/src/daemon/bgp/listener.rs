//! Where neighbours connect to: their connections are handed to the tasks that wait for them, by
//! source address. Others are closed at once, and counted.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::time::sleep;
use zeroize::Zeroizing;

use crate::failure::{Failure, Outcome};
use crate::secret_file;

/// A password of TCP-MD5 (RFC 2385): a secret of two neighbours.
#[derive(Clone)]
pub struct TcpPassword(Arc<Zeroizing<Vec<u8>>>);

impl TcpPassword {
    /// Of these bytes.
    pub(crate) fn new(bytes: Zeroizing<Vec<u8>>) -> Self {
        Self(Arc::new(bytes))
    }

    /// The one in a file, without the end of the line. `other` is who has the same.
    pub fn read(path: &Path, other: &str) -> Outcome<Self> {
        let text = secret_file::read(path, &format!("put the secret that {other} has into it"))?;
        let secret = text.trim_end().as_bytes();
        if !(1..=LONGEST_PASSWORD).contains(&secret.len()) {
            return Err(Failure::setup_text(format!(
                "file {}: a password of TCP-MD5 has 1 to {LONGEST_PASSWORD} bytes, and this one has {}",
                path.display(),
                secret.len()
            )));
        }
        Ok(Self::new(secret.to_vec().into()))
    }
}

impl fmt::Debug for TcpPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TcpPassword(..)")
    }
}

/// A neighbour that may connect.
pub struct Admitted {
    /// Where it connects from.
    pub address: IpAddr,
    /// Of TCP-MD5, if its segments have to be signed.
    pub password: Option<TcpPassword>,
    /// Where its connections go.
    pub door: mpsc::Sender<TcpStream>,
}

/// Listens until dropped.
pub struct Listener {
    /// Where it listens, with the port that the system chose for port 0.
    pub address: SocketAddr,
    task: tokio::task::AbortHandle,
    refused: Arc<AtomicU64>,
}

impl Listener {
    /// Listens on `address` for these neighbours. To be called in a runtime.
    pub fn start(address: SocketAddr, admitted: Vec<Admitted>) -> Outcome<Self> {
        let bound = bind(address, &admitted).map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "; is another BGP speaker running? BIRD takes all addresses of a host without `strict bind yes;`"
                }
                io::ErrorKind::PermissionDenied => {
                    "; ports below 1024 need CAP_NET_BIND_SERVICE, others are given as listen = \"ADDR:PORT\""
                }
                _ => "",
            };
            Failure::setup_text(format!("BGP listen address {address}: {error}{advice}"))
        })?;
        let address = bound.local_addr().map_err(Failure::setup)?;
        let refused = Arc::new(AtomicU64::new(0));
        let doors = admitted.into_iter().map(|it| (it.address, it.door)).collect();
        let task = tokio::spawn(accept(bound, doors, Arc::clone(&refused))).abort_handle();
        Ok(Self { address, task, refused })
    }

    /// Connections of strangers, and of neighbours that have enough.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn bind(address: SocketAddr, admitted: &[Admitted]) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    for neighbour in admitted {
        if let Some(password) = &neighbour.password {
            set_password(&socket, neighbour.address, password)?;
        }
    }
    socket.bind(address)?;
    socket.listen(LISTEN_BACKLOG)
}

async fn accept(
    listener: TcpListener,
    doors: HashMap<IpAddr, mpsc::Sender<TcpStream>>,
    refused: Arc<AtomicU64>,
) {
    loop {
        let Ok((stream, source)) = listener.accept().await else {
            sleep(ERROR_PAUSE).await;
            continue;
        };
        let door = doors.get(&source.ip().to_canonical());
        if door.is_none_or(|door| door.try_send(stream).is_err()) {
            refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Has the kernel sign what goes to a neighbour, and refuse what comes from it without.
pub(super) fn set_password(
    socket: &TcpSocket,
    neighbour: IpAddr,
    password: &TcpPassword,
) -> io::Result<()> {
    rhumb_io::set_tcp_md5_secret(socket.as_fd(), neighbour, &password.0)
}

/// Linux takes no longer ones (`TCP_MD5SIG_MAXKEYLEN`).
const LONGEST_PASSWORD: usize = 80;
/// Connections that wait to be looked at.
const LISTEN_BACKLOG: u32 = 128;
/// So that a socket that fails does not spin.
const ERROR_PAUSE: Duration = Duration::from_millis(100);
