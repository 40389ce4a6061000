//! `[otlp]`: where metrics are pushed to, if anywhere.

use std::path::PathBuf;
use std::time::Duration;

use rhumb_collector::Endpoint;
use serde::Deserialize;
use toml::Spanned;

use super::ConfigFile;
use crate::failure::{Failure, Outcome};

/// Whom to push to, and how.
#[derive(Debug, Clone)]
pub struct TelemetrySettings {
    /// Where the collector is.
    pub endpoint: Endpoint,
    /// How often.
    pub every: Duration,
    /// Certificates of whom to trust instead of whom the system does.
    pub ca: Option<PathBuf>,
    /// A file of headers that the collector wants.
    pub headers: Option<PathBuf>,
    /// What this daemon is called among others of its kind.
    pub instance: Option<String>,
}

/// `[otlp]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawTelemetry {
    endpoint: Option<Spanned<String>>,
    every_s: Option<Spanned<u64>>,
    ca: Option<PathBuf>,
    headers: Option<PathBuf>,
    instance: Option<Spanned<String>>,
}

pub(super) const TELEMETRY_KEYS: &[&str] = &["endpoint", "every_s", "ca", "headers", "instance"];

impl ConfigFile {
    /// Where metrics are pushed to: as the command line says, or else the file.
    pub fn telemetry(&self, flag: Option<&Endpoint>) -> Outcome<Option<TelemetrySettings>> {
        let raw = &self.raw.otlp;
        let parse = |text: &str| Endpoint::parse(text).map_err(|error| error.to_string());
        let endpoint = match flag {
            Some(endpoint) => Some(endpoint.clone()),
            None => self.parsed(raw.endpoint.as_ref(), parse)?,
        };
        let Some(endpoint) = endpoint else {
            let is_empty = raw.every_s.is_none() && raw.instance.is_none();
            return match is_empty && raw.ca.is_none() && raw.headers.is_none() {
                true => Ok(None),
                false => Err(Failure::setup_text(
                    "[otlp] does not say where the collector is; give endpoint = \"https://HOST:PORT\"",
                )),
            };
        };
        let every_s = match &raw.every_s {
            Some(raw) if !EVERY_RANGE_S.contains(raw.get_ref()) => {
                return Err(self.wrong(raw, "every_s is not 1 to 3600".to_owned()));
            }
            Some(raw) => *raw.get_ref(),
            None => DEFAULT_EVERY_S,
        };
        let instance = match &raw.instance {
            Some(raw) if raw.get_ref().is_empty() || raw.get_ref().len() > MAX_INSTANCE_LEN => {
                return Err(self.wrong(raw, "instance has 1 to 64 bytes".to_owned()));
            }
            raw => raw.as_ref().map(|it| it.get_ref().clone()),
        };
        let (ca, headers) = (raw.ca.clone(), raw.headers.clone());
        let every = Duration::from_secs(every_s);
        Ok(Some(TelemetrySettings { endpoint, every, ca, headers, instance }))
    }
}

/// As OpenTelemetry's own libraries have it.
const DEFAULT_EVERY_S: u64 = 60;
/// Counts of an hour say little of what happens; more often than each second nobody looks.
const EVERY_RANGE_S: std::ops::RangeInclusive<u64> = 1..=3600;
const MAX_INSTANCE_LEN: usize = 64;
