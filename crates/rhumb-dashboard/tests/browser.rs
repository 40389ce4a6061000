//! What a browser does, as little as it takes: a request, and what came back.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rhumb_dashboard::{Board, Dashboard, Door, Token, Trace};
use serde_json::Value;

pub(crate) const TOKEN: &str = "the-token-of-these-tests";

/// A dashboard that runs for as long as this lives.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) board: Arc<Board>,
    _runtime: tokio::runtime::Runtime,
}

impl Served {
    pub(crate) fn start() -> Self {
        Self::start_with(None)
    }

    pub(crate) fn start_with(trace: Option<Trace>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let board = Arc::new(Board::default());
        let door = Door::new(Token::parse(TOKEN).unwrap());
        let hosts = vec!["board.example.org".to_owned()];
        let dashboard = Dashboard { board: Arc::clone(&board), door, hosts, trace };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.spawn(dashboard.serve(listener));
        Self { address, board, _runtime: runtime }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a request with these headers, `Host` among them unless one is given.
    pub(crate) fn ask(&self, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(key, _)| key.eq_ignore_ascii_case("host")) {
            request += &format!("Host: {}\r\n", self.address);
        }
        for (key, value) in headers {
            request += &format!("{key}: {value}\r\n");
        }
        if line.starts_with("POST") {
            request += &format!("Content-Length: {}\r\n", body.len());
        }
        let mut stream = self.connect();
        stream.write_all(format!("{request}\r\n{body}").as_bytes()).unwrap();
        Answer::read(stream)
    }

    pub(crate) fn show(&self, token: &str) -> Answer {
        let body = serde_json::json!({ "token": token }).to_string();
        self.ask("POST /session", &[("Content-Type", "application/json")], &body)
    }

    /// Both halves of a session.
    pub(crate) fn sign_in(&self) -> (String, String) {
        let answer = self.show(TOKEN);
        assert_eq!(answer.status, 200, "{}", answer.body);
        let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        (cookie, answer.json()["key"].as_str().unwrap().to_owned())
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn read(mut stream: TcpStream) -> Self {
        let mut bytes = Vec::new();
        // What came before a reset is what was said.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }
}

/// For a machine that is busy with everything else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
