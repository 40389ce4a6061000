//! The control socket: a Unix socket on which `rhumb member routes` and `rhumb member status` ask.
//! A connection is one request, a line of JSON, and its answer, another.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as Client;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rhumb_daemon::failure::{Failure, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// What can be asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Request {
    /// Routes, of one prefix or of all.
    Routes { prefix: Option<String> },
    /// Sessions, queues, latencies.
    Status,
}

/// A request, and where its answer goes.
pub(super) struct Question {
    pub(super) request: Request,
    pub(super) answer: oneshot::Sender<Value>,
}

/// Listens until dropped, and takes the file away then.
pub(super) struct Socket {
    path: PathBuf,
    task: AbortHandle,
}

impl Socket {
    /// Listens at `path`, for this process's user alone. To be called in a runtime.
    pub(super) fn open(path: &Path, questions: mpsc::Sender<Question>) -> Outcome<Self> {
        let failed = |error: io::Error| {
            Failure::setup_text(format!("control socket {}: {error}", path.display()))
        };
        if Client::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        {
            // Whoever made it is gone.
            fs::remove_file(path).map_err(failed)?;
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let task = tokio::spawn(serve(listener, questions)).abort_handle();
        Ok(Self { path: path.to_owned(), task })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.task.abort();
        // Nobody depends on its going.
        let _ = fs::remove_file(&self.path);
    }
}

async fn serve(listener: UnixListener, questions: mpsc::Sender<Question>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ERROR_PAUSE).await;
            continue;
        };
        let questions = questions.clone();
        tokio::spawn(async move {
            let _place = place;
            // A connection that breaks is its peer's affair.
            let _ = timeout(DEADLINE, converse(stream, &questions)).await;
        });
    }
}

async fn converse(stream: UnixStream, questions: &mpsc::Sender<Question>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    (&mut stream).take(MAX_REQUEST_LEN).read_line(&mut line).await?;
    let (answer, answered) = oneshot::channel();
    let told = match serde_json::from_str(&line) {
        Ok(request) => {
            // The proxy lives as long as this.
            let _ = questions.send(Question { request, answer }).await;
            answered.await.unwrap_or_default()
        }
        Err(error) => serde_json::json!({ "error": error.to_string() }),
    };
    let mut bytes = serde_json::to_vec(&told)?;
    bytes.push(b'\n');
    stream.get_mut().write_all(&bytes).await
}

/// Asks the proxy at `path`.
pub(super) fn ask(path: &Path, request: &Request) -> Outcome<Value> {
    let failed = |error: io::Error| {
        Failure::setup_text(format!(
            "nothing answers at control socket {} ({error}); is `rhumb member` running, and with control = \"..\" in [member]?",
            path.display()
        ))
    };
    let mut stream = Client::connect(path).map_err(failed)?;
    stream.set_read_timeout(Some(DEADLINE)).map_err(failed)?;
    let mut line = serde_json::to_vec(request).map_err(Failure::operation)?;
    line.push(b'\n');
    stream.write_all(&line).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    let answer: Value = serde_json::from_str(&answer).map_err(Failure::operation)?;
    match answer["error"].as_str() {
        Some(error) => Err(Failure::operation_text(error.to_owned())),
        None => Ok(answer),
    }
}

/// People and their scripts.
const MAX_CONNECTIONS: usize = 8;
/// A prefix and few words.
const MAX_REQUEST_LEN: u64 = 4096;
/// A full table takes some seconds.
const DEADLINE: Duration = Duration::from_secs(30);
/// So that a socket that fails does not spin.
const ERROR_PAUSE: Duration = Duration::from_millis(100);
