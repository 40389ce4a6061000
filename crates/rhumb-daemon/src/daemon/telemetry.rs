//! What a daemon counts, pushed to a collector of OpenTelemetry, if the operator names one. By
//! default nobody is told anything.
//!
//! 1. The command line and the file say where ([`name_collector`]), before a daemon starts.
//! 2. The thread that answers for status opens it, and pushes every so often ([`Pushing`]).
//!
//! Invariant: one push at a time, of what is counted at that moment: whatever the collector does,
//! nothing waits for it and nothing is kept for it. What is told names nobody: it is what
//! Prometheus is given, and that it is a router, say, but neither its name nor its host.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use data_encoding::HEXLOWER;
use rhumb_collector::Collector;
use tokio::time::{MissedTickBehavior, interval};

use super::http::Enquirer;
use super::otlp::{self, Source};
use super::snapshot::{Metric, Reading, VERSION};
use crate::config::TelemetrySettings;
use crate::failure::{Failure, Outcome};
use crate::{clock, key, secret_file};

/// Names the collector for every daemon that this process is.
pub fn name_collector(settings: TelemetrySettings) {
    // Said once, when the process starts.
    let _ = NAMED.set(settings);
}

/// Whether there is one.
pub(super) fn has_collector() -> bool {
    NAMED.get().is_some()
}

/// How pushes went.
pub(super) fn metrics() -> Option<Reading> {
    has_collector().then(|| {
        let counts = [("taken", &TAKEN), ("failed", &FAILED)];
        PUSHES.by("result", counts.map(|(label, count)| (label, count.load(Ordering::Relaxed))))
    })
}

/// What pushes.
#[derive(Debug)]
pub(super) struct Pushing {
    collector: Collector,
    every: Duration,
    source: Source,
}

impl Pushing {
    /// As was said, of a daemon that is called `label`; nothing if no collector is named.
    pub(super) fn open(label: &str) -> Outcome<Option<Self>> {
        let Some(settings) = NAMED.get() else { return Ok(None) };
        let headers = settings.headers.as_deref();
        let headers = headers.map(|path| secret_file::read(path, HEADERS_MAKER)).transpose()?;
        let anchors = settings.ca.as_deref().map(|path| {
            std::fs::read(path).map_err(|error| {
                Failure::setup_text(format!("ca, file {}: {error}", path.display()))
            })
        });
        let agent = format!("rhumb/{VERSION}");
        let text = headers.as_ref().map_or("", |it| it.as_str());
        let endpoint = settings.endpoint.clone();
        let collector = Collector::new(endpoint, &agent, text, anchors.transpose()?.as_deref());
        let collector = collector.map_err(|error| {
            Failure::setup_text(format!("[otlp] {}: {error}", settings.endpoint))
        })?;
        if settings.endpoint.is_open_to_others() {
            tracing::warn!(
                endpoint = %settings.endpoint,
                "what is counted goes to the collector in plain text; give an https address"
            );
        }
        // Labels of daemons have names in them, which are nobody else's business.
        let role = label.split('-').next().unwrap_or_default();
        let instance = match &settings.instance {
            Some(instance) => instance.clone(),
            None => HEXLOWER.encode(&key::fresh_secret()?[..INSTANCE_LEN]),
        };
        let source = Source { service: format!("rhumb-{role}"), instance, start_ns: now_ns() };
        Ok(Some(Self { collector, every: settings.every, source }))
    }

    /// Pushes what the worker counts, every so often, for as long as there is one.
    pub(super) async fn run(self, enquirer: Enquirer) {
        let mut turns = interval(self.every);
        // Who was slow once is not told twice at once.
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one is at once, before there is anything to tell.
        turns.tick().await;
        let mut was_taken = true;
        loop {
            turns.tick().await;
            let Some(snapshot) = enquirer.ask().await else { continue };
            let request = otlp::request(&self.source, &snapshot, now_ns()).to_string();
            let pushed = self.collector.push(request.as_bytes()).await;
            let count = if pushed.is_ok() { &TAKEN } else { &FAILED };
            count.fetch_add(1, Ordering::Relaxed);
            // Said once, however long it lasts.
            let endpoint = self.collector.endpoint();
            match &pushed {
                Err(error) if was_taken => {
                    tracing::warn!(%endpoint, %error, "the collector takes nothing; trying on");
                }
                Ok(()) if !was_taken => tracing::info!(%endpoint, "the collector takes it again"),
                _ => {}
            }
            was_taken = pushed.is_ok();
        }
    }
}

fn now_ns() -> u64 {
    clock::unix_us().saturating_mul(1000)
}

static NAMED: OnceLock<TelemetrySettings> = OnceLock::new();
static TAKEN: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);
const HEADERS_MAKER: &str = "lines like `Authorization: Bearer TOKEN`";
/// Two daemons of one kind do not meet in it.
const INSTANCE_LEN: usize = 16;
/// `failed` grows while a collector is away or refuses; nothing is lost by it but points of graphs.
const PUSHES: Metric =
    Metric::counter("rhumb_otlp_pushes_total", "Pushes of metrics to a collector, by result.");
