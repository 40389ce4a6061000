//! Requests under way at one RIB, each with what it is about.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rhumb_wire::rib::{RequestId, RibRequestBody, RibResponseBody};

use crate::client::Client;

pub(crate) struct Talk<T> {
    client: Client,
    under_way: HashMap<RequestId, (Instant, T)>,
}

/// An answer to what was asked then.
pub(crate) struct Answered<T> {
    pub(crate) about: T,
    pub(crate) asked: Instant,
    pub(crate) waited: Duration,
    pub(crate) body: RibResponseBody,
}

impl<T> Talk<T> {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, under_way: HashMap::new() }
    }

    pub(crate) fn ask(&mut self, body: RibRequestBody, about: T) {
        let id = self.client.ask(body);
        self.under_way.insert(id, (Instant::now(), about));
    }

    pub(crate) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// What is answered within this time.
    pub(crate) fn answers(&mut self, within: Duration) -> Vec<Answered<T>> {
        let mut answered = Vec::new();
        for answer in self.client.answers(within) {
            // Its number is the RIB's own.
            if matches!(answer.body, RibResponseBody::Changed { .. }) {
                continue;
            }
            if let Some((asked, about)) = self.under_way.remove(&answer.id) {
                let waited = asked.elapsed();
                answered.push(Answered { about, asked, waited, body: answer.body });
            }
        }
        answered
    }

    /// What was not answered for so long.
    pub(crate) fn given_up(&mut self, after: Duration) -> Vec<T> {
        let lost = self.under_way.extract_if(|_, (asked, _)| asked.elapsed() > after);
        lost.map(|(_, (_, about))| about).collect()
    }
}

/// How long so many of them waited at most, in milliseconds.
pub(crate) fn quantile_ms(waited: &mut [Duration], part: f64) -> f64 {
    waited.sort_unstable();
    let at = (waited.len() as f64 * part) as usize;
    waited.get(at.min(waited.len().saturating_sub(1))).map_or(0.0, |it| it.as_secs_f64() * 1e3)
}
