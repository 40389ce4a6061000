//! Asks the daemons: finds those of this user every two seconds, and asks each by a task of its
//! own, so that one that hangs, or gives its answer byte by byte, holds up no other.
//!
//! Invariant: an answer takes [`ANSWER_WITHIN`] and has [`MOST_ANSWER_LEN`] bytes, or it is none; a
//! daemon with very much to tell is asked less often.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_daemon::admin::{Admin, question};
use rhumb_daemon::clock;
use rhumb_daemon::names::Book;
use rhumb_daemon::status::{self, NoStatus};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};

use crate::board::{Board, Standing, Told};

/// Watches the daemons at `given`, and with `finds` those at the usual place, for as long as the
/// process lives.
pub async fn gather(board: Arc<Board>, given: Vec<Admin>, finds: bool) {
    let mut watched: BTreeMap<String, JoinHandle<()>> = BTreeMap::new();
    loop {
        // The file system may hang, and the book is read whole: neither is for this thread.
        let (found, book) = spawn_blocking(move || {
            (if finds { Admin::listed() } else { Vec::new() }, Book::read())
        })
        .await
        .unwrap_or_else(|_| (Vec::new(), Ok(Book::default())));
        if let Ok(book) = book {
            board.call(&book);
        }
        watched.retain(|_, task| !task.is_finished());
        let mut left_out = 0;
        let all = given.iter().map(|it| (it, true)).chain(found.iter().map(|it| (it, false)));
        for (admin, is_given) in all {
            let place = admin.to_string();
            if watched.contains_key(&place) {
                continue;
            }
            if board.enter_at(admin) {
                let task = tokio::spawn(follow(Arc::clone(&board), admin.clone(), is_given));
                watched.insert(place, task);
            } else {
                left_out += 1;
            }
        }
        board.leave_out(left_out);
        sleep(INTERVAL).await;
    }
}

/// Asks one daemon again and again, until it is gone for long.
async fn follow(board: Arc<Board>, admin: Admin, is_given: bool) {
    let place = admin.to_string();
    loop {
        let begun = Instant::now();
        let told = match timeout(ANSWER_WITHIN, ask(&admin)).await {
            Ok(Ok(status)) => Told::Status(status, begun.elapsed().as_secs_f64() * 1e3),
            Ok(Err(error)) => Told::Nothing(standing(&error), error.to_string()),
            Err(_) => {
                let within_s = ANSWER_WITHIN.as_secs();
                let problem = format!("nothing whole came within {within_s} s");
                Told::Nothing(Standing::Silent, problem)
            }
        };
        // Of what it costs to tell a status and to read it, this makes a tenth at most.
        let pause = match told {
            Told::Status(..) => INTERVAL.max(begun.elapsed() * 9),
            Told::Nothing(..) => INTERVAL,
        };
        let now_ms = clock::now().unix_ms;
        board.tell(&place, told, now_ms);
        if !is_given && board.is_forgotten(&place, now_ms) {
            return board.remove(&place);
        }
        sleep(pause).await;
    }
}

fn standing(error: &io::Error) -> Standing {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Standing::Refused,
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Standing::Gone,
        _ => Standing::Silent,
    }
}

async fn ask(admin: &Admin) -> io::Result<Value> {
    let answer = answer_of(admin, "/status").await?;
    // A long one takes a while to read.
    let read = spawn_blocking(move || status_in(&answer)).await;
    read.unwrap_or_else(|_| Err(not_a_daemon()))
}

/// All that a daemon answers when it is asked for `path`.
pub(crate) async fn answer_of(admin: &Admin, path: &str) -> io::Result<Vec<u8>> {
    match admin {
        Admin::Address(address) => {
            exchange(TcpStream::connect(address).await?, path, &address.to_string()).await
        }
        Admin::Socket(socket) | Admin::ForReaders(socket) => {
            exchange(UnixStream::connect(socket).await?, path, "localhost").await
        }
        Admin::Usual => Err(io::Error::other("it has no path")),
    }
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
    host: &str,
) -> io::Result<Vec<u8>> {
    stream.write_all(question(path, host).as_bytes()).await?;
    let mut answer = Vec::new();
    let read = stream.take(MOST_ANSWER_LEN + 1).read_to_end(&mut answer).await?;
    if read as u64 > MOST_ANSWER_LEN {
        return Err(io::Error::other("its answer has no end"));
    }
    Ok(answer)
}

fn status_in(answer: &[u8]) -> io::Result<Value> {
    match status::read(answer) {
        Ok(status) if status.is_object() => Ok(status),
        Err(NoStatus::Refused) => {
            let problem = "it answers its own user and root only";
            Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
        }
        Err(NoStatus::Busy) => Err(io::Error::other("it is too busy")),
        Ok(_) | Err(NoStatus::Foreign) => Err(not_a_daemon()),
    }
}

fn not_a_daemon() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what answers there is no daemon")
}

/// Figures move visibly, and ten minutes of them are 300 moments.
pub const INTERVAL: Duration = Duration::from_secs(2);
/// Daemons answer within milliseconds.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// A router with 30,000 sessions.
pub const MOST_ANSWER_LEN: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_answers_is_read_or_refused(bytes: Vec<u8>, is_headed: bool) {
            let head = if is_headed { &b"HTTP/1.1 200 OK\r\n\r\n"[..] } else { b"" };
            if let Ok(status) = status_in(&[head, &bytes[..]].concat()) {
                prop_assert!(status.is_object());
            }
        }
    }

    #[test]
    fn what_is_no_status_says_what_it_is() {
        let read = |text: &str| status_in(text.as_bytes()).map_err(|error| standing(&error));
        assert_eq!(read("HTTP/1.1 200 OK\r\n\r\n{\"a\":1}\n").unwrap()["a"], 1);
        assert_eq!(read("HTTP/1.1 403 Forbidden\r\n\r\nno"), Err(Standing::Refused));
        for text in [
            "",
            "SSH-2.0-x\r\n",
            "HTTP/1.1 200 OK\r\n\r\n[1]",
            "HTTP/1.1 404 x\r\n\r\n{}",
            "HTTP/1.1 503 x\r\n\r\n",
        ] {
            assert_eq!(read(text), Err(Standing::Silent), "{text}");
        }
    }
}
