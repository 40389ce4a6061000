//! A real proxy, `rhumb member`, with settings that a test varies.

use std::net::SocketAddr;
use std::time::Instant;

use serde_json::Value;

use super::router::EXCHANGE_AS;
use super::{Exchange, PATIENCE};
use crate::harness::Running;

/// What tests vary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings<'a> {
    /// `exchange` and `neutral`.
    pub(crate) servers: &'a str,
    /// Nobody, if there is none.
    pub(crate) router: Option<SocketAddr>,
    pub(crate) roster: &'a str,
    /// Keys of `[member]`.
    pub(crate) member: &'a str,
    /// Keys and rules of `[member.export]`.
    pub(crate) export: &'a str,
    /// Keys and rules of `[member.import]`.
    pub(crate) import: &'a str,
}

impl Default for Settings<'_> {
    fn default() -> Self {
        let roster = "roster.toml";
        Self { servers: "", router: None, roster, member: "", export: "", import: "" }
    }
}

/// A proxy that runs.
pub(crate) struct Proxy<'a> {
    pub(crate) exchange: &'a Exchange,
    pub(crate) lane: u16,
    pub(crate) running: Running,
}

/// Writes a proxy's settings.
pub(crate) fn configure(exchange: &Exchange, lane: u16, settings: &Settings<'_>) {
    let Settings { servers, router, roster, member, export, import } = settings;
    let router = router.map_or_else(|| "127.0.0.1:1".to_owned(), |router| router.to_string());
    exchange.place.write(
        &format!("proxy-{lane}.toml"),
        &format!(
            "log = \"rhumb=info\"\n[member]\nkey = \"member-{lane}.key\"\nroster = \"{roster}\"\nasn = {}\n\
             exchange_asn = {EXCHANGE_AS}\n{servers}{member}\ncontrol = \"proxy-{lane}.sock\"\n\
             [member.bgp]\nrouter = \"{router}\"\nlisten = \"127.0.0.1:0\"\nid = \"192.0.2.{}\"\n\
             [member.export]\notherwise = \"accept\"\n{export}\n\
             [member.import]\notherwise = \"accept\"\n{import}\n",
            64500 + u32::from(lane),
            lane + 1,
        ),
    );
}

/// Writes its settings, and starts it.
pub(crate) fn start<'a>(exchange: &'a Exchange, lane: u16, settings: &Settings<'_>) -> Proxy<'a> {
    configure(exchange, lane, settings);
    start_again(exchange, lane)
}

/// Starts one whose settings are there.
pub(crate) fn start_again(exchange: &Exchange, lane: u16) -> Proxy<'_> {
    let config = format!("proxy-{lane}.toml");
    let mut running = exchange.place.start(&["--config", &config, "member"]);
    assert_eq!(running.next_object()["ready"], true);
    Proxy { exchange, lane, running }
}

impl Proxy<'_> {
    /// What `rhumb member ... --json` says.
    pub(crate) fn ask(&self, question: &[&str]) -> Value {
        let config = format!("proxy-{}.toml", self.lane);
        let arguments = [&["--json", "--config", &config, "member"], question].concat();
        let run = self.exchange.place.run(&arguments);
        assert_eq!(run.code, 0, "{}{}", run.errors, self.running.errors_so_far());
        run.object()
    }

    pub(crate) fn status(&self) -> Value {
        self.ask(&["status"])
    }

    /// Waits until its status is as wanted.
    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let status = self.status();
            if is_so(&status) {
                return status;
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "no {what}: {status:#}\n{}",
                self.running.errors_so_far()
            );
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}
