//! The admin endpoint: `GET /status` (JSON) and `GET /metrics` (Prometheus), read-only, over
//! HTTP/1.1, on a Unix socket or on loopback; and of who keeps a store `GET /backup`, a copy of all
//! that is in it, and `GET /names`, a page of it (`listing`), on a Unix socket alone.
//!
//! The socket answers its own user and root: what the system says of who is at the other end is
//! looked at besides the file's mode. One for readers tells its status to whoever can enter its
//! folder, too, as long as others cannot; of them some are answered at a time, so that they keep
//! nobody else from asking. Whoever asks for a copy is given bytes and names no file:
//! where they go is up to its own rights, not to the daemon's.
//!
//! Small on purpose (`docs/decisions` says why not a framework): one request a connection, a bound
//! on everything. The `Host` header must be an address or `localhost`, so that no web page can
//! reach us under a name that it controls.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use rhumb_io::Wake;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use super::copies::{Copies, PIECES_DEADLINE};
use super::listing::Listing;
use super::snapshot::Snapshot;
use crate::admin::{is_for_readers, is_own};

/// The end of the admin endpoint: asks the worker for its status.
#[derive(Debug, Clone)]
pub(super) struct Enquirer {
    pub(super) questions: SyncSender<oneshot::Sender<Snapshot>>,
    pub(super) wake: Wake,
    pub(super) copies: Arc<Copies>,
    pub(super) listing: Arc<Listing>,
}

impl Enquirer {
    /// The worker's status; `None` when it is too busy or gone.
    pub(super) async fn ask(&self) -> Option<Snapshot> {
        let (sender, answer) = oneshot::channel();
        match self.questions.try_send(sender) {
            Ok(()) => self.wake.wake(),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => return None,
        }
        answer.await.ok()
    }
}

/// Serves a loopback address until the process ends.
pub(super) async fn serve_address(listener: TcpListener, enquirer: Enquirer) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let asker = Asker { may_ask: true, may_copy: false };
                drop(tokio::spawn(answer(stream, enquirer.clone(), asker, slot)));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Serves a Unix socket until the process ends; readers, too, if it is in a folder for them.
pub(super) async fn serve_socket(
    listener: UnixListener,
    enquirer: Enquirer,
    for_readers: Option<PathBuf>,
) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let readers = Arc::new(Semaphore::new(MAX_READERS));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let may_copy = is_own(&stream);
                // Somebody may have opened the folder to others meanwhile.
                let is_reader = !may_copy && for_readers.as_deref().is_some_and(is_for_readers);
                let turn = is_reader.then(|| Arc::clone(&readers).try_acquire_owned());
                let Ok(turn) = turn.transpose() else { continue };
                let asker = Asker { may_ask: may_copy || is_reader, may_copy };
                let answered = answer(stream, enquirer.clone(), asker, slot);
                drop(tokio::spawn(async move {
                    answered.await;
                    drop(turn);
                }));
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// What whoever asks may have.
#[derive(Debug, Clone, Copy)]
struct Asker {
    may_ask: bool,
    /// All that is stored: who is where.
    may_copy: bool,
}

async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    enquirer: Enquirer,
    asker: Asker,
    _slot: OwnedSemaphorePermit,
) {
    // Late, cut or malformed requests cost the requester, nobody else.
    let answered = timeout(DEADLINE, exchange(&mut stream, &enquirer, asker)).await;
    if let Ok(Ok(Asked::ForCopy)) = answered {
        let _ = copy(&mut stream, &enquirer.copies).await;
    }
}

/// What is left to be done.
enum Asked {
    Answered,
    ForCopy,
}

async fn exchange(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    enquirer: &Enquirer,
    asker: Asker,
) -> std::io::Result<Asked> {
    let mut request = Vec::with_capacity(512);
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        if request.len() >= MAX_REQUEST_LEN || stream.read_buf(&mut request).await? == 0 {
            return Ok(Asked::Answered);
        }
    }
    let asked = if asker.may_ask { page(&request) } else { Err(FORBIDDEN) };
    let (status, content_type, body) = match asked {
        Err(status) => (status, TEXT, format!("{status}\n")),
        Ok(Page::Backup) if !asker.may_copy => {
            (FORBIDDEN, TEXT, format!("a back-up is given {OWN_SOCKET}\n"))
        }
        Ok(Page::Backup) => return Ok(Asked::ForCopy),
        Ok(Page::Names(_)) if !asker.may_copy => {
            (FORBIDDEN, TEXT, format!("names are listed {OWN_SOCKET}\n"))
        }
        Ok(Page::Names(query)) => match enquirer.listing.page(query).await {
            Ok(page) => ("200 OK", JSON, format!("{page}\n")),
            Err((status, problem)) => (status, TEXT, problem),
        },
        Ok(page) => match (enquirer.ask().await, page) {
            (None, _) => (BUSY, TEXT, format!("{BUSY}\n")),
            (Some(snapshot), Page::Status) => ("200 OK", JSON, format!("{}\n", snapshot.status)),
            (Some(snapshot), _) => ("200 OK", PROMETHEUS, snapshot.prometheus_text()),
        },
    };
    tell(stream, status, content_type, &body).await?;
    Ok(Asked::Answered)
}

async fn tell(
    stream: &mut (impl AsyncWrite + Unpin),
    status: &str,
    content_type: &str,
    body: &str,
) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// Gives a copy of what is stored, whose end says that it is whole.
async fn copy(stream: &mut (impl AsyncWrite + Unpin), copies: &Copies) -> std::io::Result<()> {
    let mut pieces = match copies.begin() {
        Ok(pieces) => pieces,
        Err((status, problem)) => {
            let told = tell(stream, status, TEXT, problem);
            return timeout(DEADLINE, told).await.unwrap_or(Ok(()));
        }
    };
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\
                Cache-Control: no-store\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    while let Some(piece) = pieces.next().await {
        // Who stopped to read must not hold up what the file may reuse.
        timeout(PIECES_DEADLINE, stream.write_all(&piece)).await??;
    }
    stream.shutdown().await
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Page {
    Status,
    Metrics,
    Backup,
    /// Those that a query is about.
    Names(String),
}

/// What a request asks for, or the status line that refuses it.
fn page(request: &[u8]) -> Result<Page, &'static str> {
    let text = std::str::from_utf8(request).map_err(|_| "400 Bad Request")?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, path, version) = (words.next(), words.next(), words.next());
    if !version.is_some_and(|version| version.starts_with("HTTP/1.")) || words.next().is_some() {
        return Err("400 Bad Request");
    }
    let host = lines
        .filter_map(|line| line.split_once(':'))
        .find_map(|(key, value)| key.eq_ignore_ascii_case("host").then_some(value.trim()));
    if !host.is_some_and(is_local) {
        return Err(FORBIDDEN);
    }
    match (method, path) {
        (Some("GET"), Some("/status")) => Ok(Page::Status),
        (Some("GET"), Some("/metrics")) => Ok(Page::Metrics),
        (Some("GET"), Some("/backup")) => Ok(Page::Backup),
        (Some("GET"), Some("/names")) => Ok(Page::Names(String::new())),
        (Some("GET"), Some(path)) if path.starts_with("/names?") => {
            Ok(Page::Names(path["/names?".len()..].to_owned()))
        }
        (Some("GET"), _) => Err("404 Not Found"),
        _ => Err("405 Method Not Allowed"),
    }
}

fn is_local(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name == "localhost"
        || host.parse::<SocketAddr>().is_ok()
        || name.parse::<std::net::IpAddr>().is_ok()
}

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const FORBIDDEN: &str = "403 Forbidden";
const BUSY: &str = "503 Service Unavailable";
/// Of what says who is where.
const OWN_SOCKET: &str = "by a Unix socket only, and to its own user and root: start the RIB with \
    --admin alone, or with a path, and ask as one of these";
/// A scraper, a dashboard and a few curious people.
const MAX_CONNECTIONS: usize = 16;
/// Of these, those of readers: the others are for the daemon's own user and root.
const MAX_READERS: usize = 8;
/// Browsers send about 1 kB.
const MAX_REQUEST_LEN: usize = 8 * 1024;
/// The worker answers within milliseconds; whoever is slower than this is not on this machine.
const DEADLINE: Duration = Duration::from_secs(2);
/// Accepting fails when descriptors run out; trying again at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_page(path: &str) -> bool {
        matches!(path, "status" | "metrics" | "backup" | "names") || path.starts_with("names?")
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_or_refused(bytes: Vec<u8>, text in "\\PC{0,40}") {
            let _ = page(&bytes);
            // Only the very path is a page, whatever surrounds it.
            let request = format!("GET /{text} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            prop_assert_eq!(page(request.as_bytes()).is_ok(), is_page(&text));
        }
    }

    #[test]
    fn four_pages_exist_and_nothing_else_does() {
        let get = |line: &str| page(format!("{line}\r\nHost: 127.0.0.1:9\r\n\r\n").as_bytes());
        assert_eq!(get("GET /status HTTP/1.1"), Ok(Page::Status));
        assert_eq!(get("GET /metrics HTTP/1.0"), Ok(Page::Metrics));
        assert_eq!(get("GET /backup HTTP/1.1"), Ok(Page::Backup));
        assert_eq!(get("GET /names HTTP/1.1"), Ok(Page::Names(String::new())));
        assert_eq!(get("GET /names?limit=5 HTTP/1.1"), Ok(Page::Names("limit=5".to_owned())));
        assert_eq!(get("GET /namesakes HTTP/1.1"), Err("404 Not Found"));
        assert_eq!(get("GET /backup/etc HTTP/1.1"), Err("404 Not Found"));
        assert_eq!(get("GET / HTTP/1.1"), Err("404 Not Found"));
        assert_eq!(get("POST /status HTTP/1.1"), Err("405 Method Not Allowed"));
        assert_eq!(get("GET /status"), Err("400 Bad Request"));
        assert_eq!(get("GET /status HTTP/1.1 x"), Err("400 Bad Request"));
        assert_eq!(page(b"\xff\xfe\r\n\r\n"), Err("400 Bad Request"));
    }

    #[test]
    fn a_web_page_under_a_foreign_name_is_refused() {
        let from =
            |host: &str| page(format!("GET /status HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes());
        for host in ["localhost", "localhost:80", "127.0.0.1", "127.0.0.1:80", "[::1]:80"] {
            assert_eq!(from(host), Ok(Page::Status), "{host}");
        }
        for host in ["evil.example", "evil.example:80", "localhost.evil.example", ""] {
            assert_eq!(from(host), Err("403 Forbidden"), "{host}");
        }
        assert_eq!(page(b"GET /status HTTP/1.1\r\n\r\n"), Err("403 Forbidden"));
    }
}
