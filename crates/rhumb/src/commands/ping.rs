//! `rhumb ping`: the round trip to a name, a few times.

use std::fmt;
use std::time::Duration;

use rhumb_daemon::cli::PingArguments;
use rhumb_daemon::config::NodeSettings;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::membership::joined;
use rhumb_daemon::output::{Form, round_trip_text};
use rhumb_daemon::published::{find_by, find_once};
use rhumb_daemon::running::{Request, Running, by_running};
use rhumb_node::{Node, PingError};
use rhumb_wire::Name;
use serde::Serialize;

/// Runs the command.
pub(crate) fn run(
    arguments: &PingArguments,
    settings: &NodeSettings,
    with_parent: bool,
    form: Form,
) -> Outcome {
    let count = arguments.count;
    let stopped = || Err(Failure::operation_text("stopped"));
    let by_it = by_running(&arguments.node, with_parent, stopped(), |running| async {
        let name = find_by(&running, &arguments.name, &arguments.asks, settings).await?;
        ping(By::Running(running), name, count, form).await
    });
    let report = by_it.unwrap_or_else(|| {
        let name = find_once(&arguments.name, &arguments.asks, settings)?;
        let by_own = |node| ping(By::Own(node), name, count, form);
        joined(settings, with_parent, stopped(), by_own)
    })?;
    form.print(&report);
    match report.round_trips.is_empty() {
        true => Err(Failure::operation(PingError::TimedOut)),
        false => Ok(()),
    }
}

/// Who asks: this process, or the node that runs for this user.
enum By {
    Own(Node),
    Running(Running),
}

impl By {
    /// The round trip; `None` when nobody answered in time.
    async fn ping(&self, name: Name, within: Duration) -> Outcome<Option<Duration>> {
        match self {
            Self::Own(node) => match node.ping(name, within).await {
                Ok(reply) => Ok(Some(reply.rtt)),
                Err(PingError::TimedOut) => Ok(None),
                Err(error) => Err(Failure::operation(error)),
            },
            Self::Running(running) => {
                let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
                let request = Request::Ping { name: name.to_string(), within_ms };
                let (answer, _) = running.ask(&request).await.map_err(Failure::operation)?;
                match (answer.timed_out, answer.error, answer.round_trip_us) {
                    (true, ..) => Ok(None),
                    (false, Some(problem), _) => Err(Failure::operation_text(problem)),
                    (false, None, us) => {
                        Ok(us.and_then(|us| Duration::try_from_secs_f64(us / 1e6).ok()))
                    }
                }
            }
        }
    }
}

async fn ping(by: By, name: Name, count: u32, form: Form) -> Outcome<Report> {
    // The first finds the way; its time would be that of looking up routes and shaking hands.
    by.ping(name, FIND_WITHIN).await?.ok_or_else(|| Failure::operation(PingError::TimedOut))?;
    let mut round_trips = Vec::new();
    for number in 1..=count {
        match by.ping(name, ANSWER_WITHIN).await? {
            Some(round_trip) => {
                form.say(&format!("{number}: {}", round_trip_text(round_trip)));
                round_trips.push(round_trip);
            }
            None => form.say(&format!("{number}: no answer")),
        }
        if number < count {
            tokio::time::sleep(PAUSE).await;
        }
    }
    round_trips.sort_unstable();
    Ok(Report { name, sent: count, round_trips })
}

struct Report {
    name: Name,
    sent: u32,
    /// Shortest first.
    round_trips: Vec<Duration>,
}

impl Report {
    fn median(&self) -> Option<Duration> {
        self.round_trips.get(self.round_trips.len() / 2).copied()
    }
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let us = |duration: &Duration| duration.as_secs_f64() * 1e6;
        serde_json::json!({
            "name": self.name.to_string(),
            "sent": self.sent,
            "answered": self.round_trips.len(),
            "min_us": self.round_trips.first().map(us),
            "median_us": self.median().as_ref().map(us),
            "max_us": self.round_trips.last().map(us),
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} answered", self.round_trips.len(), self.sent)?;
        if let (Some(least), Some(median), Some(most)) =
            (self.round_trips.first(), self.median(), self.round_trips.last())
        {
            let [least, median, most] = [*least, median, *most].map(round_trip_text);
            write!(f, "; round trip {least} at least, {median} in the median, {most} at most")?;
        }
        Ok(())
    }
}

/// Long enough for routers to look up and connect.
const FIND_WITHIN: Duration = Duration::from_secs(5);
/// Longer than any path on Earth.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Keeps a ping from being a load.
const PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_without_answers_has_no_times() {
        let report = Report { name: Name([1; 32]), sent: 3, round_trips: Vec::new() };
        assert_eq!(report.to_string(), "0 of 3 answered");
        assert!(serde_json::to_value(&report).unwrap()["median_us"].is_null());
    }

    #[test]
    fn the_median_is_the_middle() {
        let round_trips = [1, 2, 30].map(Duration::from_micros).to_vec();
        let report = Report { name: Name([1; 32]), sent: 3, round_trips };
        assert_eq!(report.median(), Some(Duration::from_micros(2)));
    }
}
