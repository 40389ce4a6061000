//! Daemons that hang, drip, lie or talk without end, beside one that is well.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rhumb_daemon::admin::Admin;
use rhumb_dashboard::Board;
use rhumb_dashboard::gather::gather;
use serde_json::Value;

use crate::browser::PATIENCE;

/// Somebody at a socket who does `answer` with whoever comes.
fn daemon(
    folder: &Path,
    name: &str,
    answer: impl Fn(UnixStream) + Send + Clone + 'static,
) -> Admin {
    let path = folder.join(name);
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            std::thread::spawn(move || answer(stream));
        }
    });
    Admin::Socket(path)
}

fn told(mut stream: UnixStream, text: &str) {
    let _ = stream.read(&mut [0; 1024]);
    let _ = stream.write_all(text.as_bytes());
}

fn state(board: &Board, place: &Admin) -> Value {
    let all: Value = serde_json::from_slice(&board.state(0)).unwrap();
    let daemons = all["daemons"].as_array().unwrap();
    daemons.iter().find(|it| it["place"] == place.to_string()).cloned().unwrap_or_default()
}

#[test]
fn one_that_hangs_drips_lies_or_never_ends_holds_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let well = daemon(folder.path(), "well.sock", |stream| {
        told(stream, "HTTP/1.1 200 OK\r\n\r\n{\"role\":\"rib\",\"uptime_s\":1}\n");
    });
    let hangs = daemon(folder.path(), "hangs.sock", |stream| {
        std::thread::sleep(Duration::from_secs(30));
        drop(stream);
    });
    let drips = daemon(folder.path(), "drips.sock", |mut stream| {
        // Each byte comes in time; the end never would.
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let lies = daemon(folder.path(), "lies.sock", |stream| {
        told(stream, "HTTP/1.1 200 OK\r\n\r\n[\"no status\"]");
    });
    let talks = daemon(folder.path(), "talks.sock", |mut stream| {
        let piece = vec![b' '; 1 << 20];
        while stream.write_all(&piece).is_ok() {}
    });
    let refuses = daemon(folder.path(), "refuses.sock", |stream| {
        told(stream, "HTTP/1.1 403 Forbidden\r\n\r\n403 Forbidden\n");
    });
    let gone = Admin::Socket(folder.path().join("gone.sock"));
    let all = [&well, &hangs, &drips, &lies, &talks, &refuses, &gone].map(Clone::clone);
    let board = Arc::new(Board::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.spawn(gather(Arc::clone(&board), all.to_vec(), false));
    let begun = Instant::now();
    let wait = |place: &Admin, standing: &str| loop {
        let found = state(&board, place);
        if found["standing"] == standing {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{place}: {found}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(wait(&well, "up")["status"]["role"], "rib");
    for (place, standing, problem) in [
        (&lies, "silent", "no daemon"),
        (&talks, "silent", ""),
        (&refuses, "refused", "its own user"),
        (&hangs, "silent", "nothing whole came"),
        (&drips, "silent", "nothing whole came"),
    ] {
        let found = wait(place, standing);
        assert!(found["problem"].as_str().unwrap().contains(problem), "{found}");
        assert_eq!(found["alarms"].as_array().unwrap().len(), 1, "{found}");
    }
    // Nobody was ever there, so nobody is missed.
    assert_eq!(state(&board, &gone), Value::Null);
    assert_eq!(wait(&well, "up")["alarms"].as_array().unwrap().len(), 0);
    runtime.shutdown_background();
}
