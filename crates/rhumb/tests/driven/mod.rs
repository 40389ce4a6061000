//! A real browser, driven over WebDriver: chromium by its chromedriver, on loopback, with a profile
//! of its own that is gone afterwards.
//!
//! WebDriver is JSON over HTTP on loopback: one request a connection is all that it takes.

#![allow(dead_code, clippy::unwrap_used)] // Each user takes a part of this; a test may panic.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::harness::{Place, Running};

/// A browser with one window. Ended by id when dropped, with what it has started.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts one with a fresh profile in `folder`; `None`, and why, where there is none.
    pub(crate) fn start(folder: &Path) -> Option<Self> {
        for program in ["chromium", "chromedriver"] {
            if Command::new(program).arg("--version").stdout(Stdio::null()).status().is_err() {
                println!(
                    "skipped: it needs {program} (Debian packages chromium and chromium-driver)"
                );
                return None;
            }
        }
        let mut driver = Command::new("chromedriver")
            .args(["--port=0", "--allowed-ips=127.0.0.1"])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines().map_while(Result::ok);
        let said = lines.find_map(|line| {
            line.split("successfully on port ").nth(1)?.trim_end_matches('.').parse().ok()
        });
        let port = said.expect("chromedriver says at which port it is");
        // Whatever it says from now on is read, so that it is never held up.
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser = Self { driver, port, session: String::new() };
        let profile = folder.join("profile");
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            &format!("--user-data-dir={}", profile.display()),
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let session = browser.call("POST", "/session", &wanted);
        browser.session = format!("/session/{}", session["sessionId"].as_str().unwrap());
        Some(browser)
    }

    /// One that shows a dashboard of these daemons, once all of them have told how they are.
    pub(crate) fn of_daemons(place: &Place, admins: &[&str]) -> Option<(Self, Running)> {
        let browser = Self::start(place.folder())?;
        let arguments = ["dashboard", "--listen", "127.0.0.1:0", "--only"].into_iter();
        let admins: Vec<&str> = admins.iter().flat_map(|it| ["--admin", it]).collect();
        let mut dashboard =
            place.start(&arguments.chain(admins.iter().copied()).collect::<Vec<_>>());
        browser.open(dashboard.next_object()["url"].as_str().unwrap());
        let count = admins.len() / 2;
        browser.wait_for(&format!("document.querySelectorAll('.card .dot.up').length === {count}"));
        Some((browser, dashboard))
    }

    /// Waits until a table, by its caption, has a row with these texts below these titles.
    #[track_caller]
    pub(crate) fn wait_for_row(&self, table: &str, cells: &[(&str, &str)]) {
        let (table, cells) = (json!(table), json!(cells));
        self.wait_for(&format!(
            "[...document.querySelectorAll(`section[aria-label=\"${{{table}}}\"] tbody tr`)].some((row) => \
             {cells}.every(([title, text]) => \
             row.querySelector(`[data-label=\"${{title}}\"]`)?.textContent === text))"
        ));
    }

    /// Waits until a figure of a section, by how its head begins, matches a pattern.
    #[track_caller]
    pub(crate) fn wait_for_figure(&self, section: &str, title: &str, pattern: &str) {
        let [section, title, pattern] = [section, title, pattern].map(|it| json!(it));
        self.wait_for(&format!(
            "[...document.querySelectorAll('main section')].some((it) => \
             it.querySelector('h2')?.textContent.startsWith({section}) && \
             [...it.querySelectorAll('.figures div')].some((it) => \
             it.querySelector('dt').textContent === {title} && new RegExp('^(?:' + {pattern} + ')$').test(it.querySelector('dd').textContent)))"
        ));
    }

    /// Opens an address.
    pub(crate) fn open(&self, url: &str) {
        self.ask("/url", &json!({ "url": url }));
    }

    /// What a piece of JavaScript returns, of the page, with these arguments.
    pub(crate) fn run(&self, script: &str, arguments: &Value) -> Value {
        self.ask("/execute/sync", &json!({ "script": script, "args": arguments }))
    }

    /// What an expression is.
    pub(crate) fn look(&self, expression: &str) -> Value {
        self.run(&format!("return {expression}"), &json!([]))
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(crate) fn wait_for(&self, expression: &str) {
        let begun = Instant::now();
        while self.look(&format!("Boolean({expression})")) != true {
            if begun.elapsed() > PATIENCE {
                panic!("never: {expression}\n{}", self.look("document.body.innerText"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Types into whatever has the focus. `\u{e004}` is the Tab key, `\u{e007}` Enter.
    pub(crate) fn type_keys(&self, keys: &str) {
        let steps = keys.chars().flat_map(|key| {
            ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }))
        });
        let steps: Vec<Value> = steps.collect();
        self.ask(
            "/actions",
            &json!({"actions": [{"type": "key", "id": "keys", "actions": steps}]}),
        );
    }

    /// A window of that many points, as of a phone or not.
    pub(crate) fn resize(&self, width: u32, height: u32, is_phone: bool) {
        let scale = if is_phone { 2 } else { 1 };
        let size = json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": is_phone});
        self.command("Emulation.setDeviceMetricsOverride", &size);
    }

    /// What the system of the reader prefers.
    pub(crate) fn prefer(&self, feature: &str, value: &str) {
        let features = json!({"features": [{"name": feature, "value": value}]});
        self.command("Emulation.setEmulatedMedia", &features);
    }

    /// A picture of the window, as PNG.
    pub(crate) fn picture(&self) -> Vec<u8> {
        let text = self.call("GET", &format!("{}/screenshot", self.session), &Value::Null);
        BASE64.decode(text.as_str().unwrap().as_bytes()).unwrap()
    }

    /// What the page has said in its console since this was asked last, errors among it.
    pub(crate) fn console(&self) -> Vec<String> {
        let lines = self.ask("/se/log", &json!({"type": "browser"}));
        let lines = lines.as_array().unwrap().iter();
        lines.map(|line| line["message"].as_str().unwrap().to_owned()).collect()
    }

    /// The addresses that were asked for since this was asked last. What a browser has in itself,
    /// as its own first page, is asked of nobody.
    pub(crate) fn requests(&self) -> Vec<String> {
        let lines = self.ask("/se/log", &json!({"type": "performance"}));
        let lines = lines.as_array().unwrap().iter();
        let events = lines.filter_map(|line| {
            let event: Value = serde_json::from_str(line["message"].as_str()?).ok()?;
            let message = &event["message"];
            let is_request = message["method"] == "Network.requestWillBeSent";
            let url = message["params"]["request"]["url"].as_str()?.to_owned();
            is_request.then_some(url)
        });
        let is_of_itself = |url: &String| url.starts_with("chrome:") || url.starts_with("data:");
        events.filter(|url| !is_of_itself(url)).collect()
    }

    fn command(&self, command: &str, parameters: &Value) {
        self.ask("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }));
    }

    fn ask(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("{}{path}", self.session), body)
    }

    #[track_caller]
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        )
        .unwrap();
        let (head, body) = answer_of(stream);
        let told: Value = serde_json::from_slice(&body).unwrap();
        assert!(head.starts_with("http/1.1 200"), "{path}: {}", told["value"]["message"]);
        told["value"].clone()
    }
}

/// The first line of an answer, and its body: a driver may leave the connection open behind it.
fn answer_of(stream: TcpStream) -> (String, Vec<u8>) {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 || line == "\r\n" {
            break;
        }
        lines.push(line.trim_end().to_ascii_lowercase());
    }
    let len =
        lines.iter().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; len.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    (lines.swap_remove(0), body)
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its session; a test that panics asks for that, too.
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let _ = stream.set_read_timeout(Some(PATIENCE));
            let (session, port) = (&self.session, self.port);
            let head = format!("DELETE {session} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n");
            let _ = write!(stream, "{head}Connection: close\r\nContent-Length: 0\r\n\r\n");
            let _ = stream.read(&mut [0; 1024]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// For a machine that is busy with everything else.
const PATIENCE: Duration = Duration::from_secs(40);
