//! `rhumb why`: what a name may do at a running router, by which certificate or rule, or what it
//! lacks. It is all in the daemon's status; this finds it and says it in sentences.

use std::fmt;

use rhumb_daemon::cli::WhyArguments;
use rhumb_daemon::config::ConfigFile;
use rhumb_daemon::failure::Outcome;
use rhumb_daemon::output::Form;
use rhumb_daemon::{names, status, words};
use rhumb_wire::Limits;
use serde::Serialize;
use serde_json::Value;

/// Runs the command.
pub(crate) fn run(arguments: &WhyArguments, file: &ConfigFile, form: Form) -> Outcome {
    let status = status::of(arguments.admin.clone(), file)?;
    form.print(&Report::of(&arguments.name.to_string(), &status));
    Ok(())
}

/// What a status says of one name.
#[derive(Debug, Serialize)]
struct Report {
    name: String,
    session: Value,
    attached: Value,
    grant: Value,
    refused: Value,
}

impl Report {
    fn of(name: &str, status: &Value) -> Self {
        let find = |list: &str, key: &str| {
            let entries = status[list].as_array().into_iter().flatten();
            entries.into_iter().find(|it| it[key] == name).cloned().unwrap_or_default()
        };
        Self {
            name: name.to_owned(),
            session: find("sessions", "peer"),
            attached: find("attached", "name"),
            grant: find("some_grants", "name"),
            refused: find("refused", "name"),
        }
    }

    fn sentences(&self) -> Vec<String> {
        let mut said = Vec::new();
        if let Some(standing) = self.session["standing"].as_str() {
            said.push(match standing {
                "admitted" => format!("it is admitted{}", by_rule(&self.session, "")),
                "refused" => format!("it is refused{}", by_rule(&self.session, "")),
                _ => format!(
                    "it is a stranger here{}",
                    by_rule(&self.session, ", as no rule names it")
                ),
            });
        }
        said.extend(self.membership());
        said.extend(self.session["missing"].as_str().map(str::to_owned));
        if let Some(left) = self.attached["expires_in_s"].as_u64() {
            said.push(format!("it is attached here, and reached through here for {left} s more"));
        }
        if let Some(left) = self.grant["expires_in_s"].as_u64() {
            said.push(format!("what it sends is let in for {left} s more"));
        }
        if let Some(times) = self.refused["times"].as_u64() {
            let (wanted, age) = (self.refused["wanted"].as_str(), &self.refused["age_s"]);
            let wanted = match wanted {
                Some("join") => "join",
                Some("send") => "send",
                _ => "be answered",
            };
            let by = match self.refused["limit"].as_str() {
                Some(limit) => format!(", as its domain leaves it no more {limit}"),
                None => by_rule(&self.refused, ", as no rule lets it in"),
            };
            said.push(format!(
                "it was refused {times} times, {age} s ago the last time, when it wanted to {wanted}{by}"
            ));
            said.extend(self.refused["missing"].as_str().map(str::to_owned));
        }
        if said.is_empty() {
            said.push("it has no session here, and was not refused lately".to_owned());
        }
        said
    }

    fn membership(&self) -> Option<String> {
        let membership = &self.session["membership"];
        let listed = |key: &str| {
            let items = membership[key].as_array()?.iter().filter_map(Value::as_str);
            Some(items.collect::<Vec<_>>().join(", "))
        };
        let (domain, left) = (membership["domain"].as_str()?, membership["expires_in_s"].as_u64()?);
        if let Some(by) = membership["removed_by"].as_str() {
            return Some(match by == domain {
                true => format!("it was removed by its domain, {domain}"),
                false => format!("it was removed from {domain} by {by}, who may admit there"),
            });
        }
        let (rights, issuers) = (listed("rights")?, listed("issuers")?);
        let limits = limits(&membership["limits"]);
        let limits = match limits.is_empty() {
            true => String::new(),
            false => format!("; together with all whom it admits: {}", limits.join(", ")),
        };
        Some(format!(
            "it belongs to {domain} and may {rights} there for {left} s more, by the word of {issuers}{limits}"
        ))
    }
}

/// In words, what a status says that a domain leaves a member.
fn limits(status: &Value) -> Vec<String> {
    let number = |key: &str| status[key].as_u64().and_then(|it| u32::try_from(it).ok());
    let limits = Limits {
        names: number("names").unwrap_or(0),
        kbit_per_s: number("kbit_per_s").unwrap_or(0),
        inside_only: status["inside_only"].as_bool().unwrap_or(false),
        only_to: status["only_to"].as_str().and_then(|name| name.parse().ok()),
    };
    words::limits_in_words(&limits, |name| name.to_string())
}

fn by_rule(of: &Value, otherwise: &str) -> String {
    match of["rule"].as_u64() {
        Some(rule) => format!(" by rule {rule} of its access"),
        None => otherwise.to_owned(),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", names::with_labels(&self.name))?;
        self.sentences().iter().try_for_each(|it| write!(f, "\n  {}", names::with_labels(it)))
    }
}
