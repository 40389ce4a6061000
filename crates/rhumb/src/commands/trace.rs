//! `rhumb trace`: the routers on the way to a name, as each of them says of itself, and the trust
//! domains that they are of, as far as a RIB proves it.

mod domains;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use data_encoding::HEXLOWER;
use rhumb_daemon::belonging::Belonging;
use rhumb_daemon::cli::{AskedRibs, TraceArguments};
use rhumb_daemon::clock::now;
use rhumb_daemon::config::NodeSettings;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::membership::joined_as;
use rhumb_daemon::names;
use rhumb_daemon::output::{Form, round_trip_text};
use rhumb_daemon::published::{find_by, find_once};
use rhumb_daemon::running::{Request, Running, Step, by_running};
use rhumb_daemon::words::Labels;
use rhumb_node::Node;
use rhumb_wire::{Certificate, Name};
use serde::Serialize;

use domains::{Domains, Place};

/// Runs the command.
pub(crate) fn run(
    arguments: &TraceArguments,
    settings: &NodeSettings,
    with_parent: bool,
    form: Form,
) -> Outcome {
    let asks = AskedRibs { rib: arguments.rib.into_iter().collect() };
    let stopped = || Err(Failure::operation_text("stopped"));
    let by_it = by_running(&arguments.node, with_parent, stopped(), async |running| {
        let name = find_by(&running, &arguments.name, &asks, settings).await?;
        trace_by(&running, name).await
    });
    let identity = key::load_or_ephemeral(settings.key.as_deref().map(Path::new))?;
    let Traced { from, name, hops, domains: own } = by_it.unwrap_or_else(|| {
        let name = find_once(&arguments.name, &asks, settings)?;
        let belonging = Belonging::of(identity.clone(), settings.key.as_deref().map(Path::new));
        let own = belonging.domains();
        let work = |node| trace(node, name, own);
        joined_as(belonging, settings, with_parent, stopped(), work)
    })?;
    let domains = arguments.rib.map(|rib| Domains::ask(identity, rib, (name, own)));
    let domains = domains.transpose()?.unwrap_or_default();
    let report = Report { from, name, hops, domains, now_s: now().unix_s() };
    form.print(&report);
    match report.reached() {
        true => Ok(()),
        false => Err(Failure::operation_text(format!("{MAX_HOPS} hops did not lead to {name}"))),
    }
}

/// A way, and who has traced it.
struct Traced {
    from: Name,
    name: Name,
    hops: Vec<Step>,
    /// The trust domains that it belongs to.
    domains: Vec<Name>,
}

async fn trace(node: Node, name: Name, domains: Vec<Name>) -> Outcome<Traced> {
    // The first finds the way, so that the trace shows the way and not the search for it.
    node.ping(name, FIND_WITHIN).await.map_err(Failure::operation)?;
    let hops = node.trace(name, MAX_HOPS, ANSWER_WITHIN).await.map_err(Failure::operation)?;
    let hops = hops.into_iter().map(Step::from).collect();
    Ok(Traced { from: node.name(), name, hops, domains })
}

/// As [`trace`], by the node that runs.
async fn trace_by(running: &Running, name: Name) -> Outcome<Traced> {
    let within_ms = |within: Duration| u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    let ask = async |request: &Request| {
        let (answer, _) = running.ask(request).await.map_err(Failure::operation)?;
        answer.done_or(Failure::operation_text)
    };
    let to = name.to_string();
    ask(&Request::Ping { name: to.clone(), within_ms: within_ms(FIND_WITHIN) }).await?;
    let within_ms = within_ms(ANSWER_WITHIN);
    let answer = ask(&Request::Trace { name: to, max_hops: MAX_HOPS, within_ms }).await?;
    let domains = answer.domains.iter().map(|text| text.parse().map_err(Failure::operation));
    let domains = domains.collect::<Outcome<_>>()?;
    Ok(Traced { from: running.name, name, hops: answer.hops, domains })
}

struct Report {
    from: Name,
    name: Name,
    hops: Vec<Step>,
    domains: Domains,
    now_s: u64,
}

fn encoded(certificate: &Certificate) -> Vec<u8> {
    let mut bytes = Vec::new();
    certificate.emit(&mut bytes);
    bytes
}

impl Report {
    fn reached(&self) -> bool {
        self.hops.last().is_some_and(|hop| hop.router == Some(self.name))
    }
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let evidence = |certificate: &Certificate| {
            serde_json::json!({
                "issuer": certificate.issuer.to_string(),
                "sequence": certificate.sequence,
                "not_after_s": certificate.not_after_s,
                "certificate": HEXLOWER.encode(&encoded(certificate)),
            })
        };
        let hops = self.hops.iter().zip(self.domains.places(&self.hops));
        let hops: Vec<serde_json::Value> = hops
            .map(|(hop, place)| {
                let mut facts = serde_json::json!({
                    "name": hop.router.map(|name| name.to_string()),
                    "label": hop.router.and_then(names::label_of),
                    "calls_itself": hop.label,
                    "rtt_us": hop.rtt.map(|rtt| rtt.as_secs_f64() * 1e6),
                    "right": hop.right.as_ref().map(evidence),
                });
                let word = hop.router.and_then(|router| self.domains.border(router));
                facts["border"] = serde_json::json!(word.map(evidence));
                if let (Some(facts), Some(more)) =
                    (facts.as_object_mut(), place.facts().as_object_mut())
                {
                    facts.append(more);
                }
                facts
            })
            .collect();
        let exports: Vec<_> = self.domains.exports().iter().map(evidence).collect();
        let by = self.domains.exports().iter().filter_map(|it| it.statement.exports_by());
        let by: Vec<String> = by.map(|domain| domain.to_string()).collect();
        serde_json::json!({
            "from": self.from.to_string(),
            "name": self.name.to_string(),
            "reached": self.reached(),
            "hops": hops,
            "exported_by": by,
            "exports": exports,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut labels = Labels::default();
        for name in self.hops.iter().filter_map(|hop| hop.router) {
            names::label_of(name).into_iter().for_each(|label| labels.insert(name, label));
        }
        labels.insert(self.from, "this node");
        write!(f, " 0  {}  (this node)", self.from)?;
        let places = self.domains.places(&self.hops);
        let by = self.domains.exports().iter().filter_map(|it| it.statement.exports_by());
        let borders = places.iter().filter_map(|place| match place {
            Place::Border(domain) => Some(*domain),
            _ => None,
        });
        for domain in by.chain(borders) {
            names::label_of(domain).into_iter().for_each(|label| labels.insert(domain, label));
        }
        for (index, (hop, place)) in self.hops.iter().zip(&places).enumerate() {
            let number = index + 1;
            match (hop.router, place.told(&labels)) {
                (Some(name), _) => write!(f, "\n{number:2}  {name}{}", called(name, hop))?,
                (None, Some(place)) => write!(f, "\n{number:2}  ({place})")?,
                (None, None) => write!(f, "\n{number:2}  (no answer)")?,
            }
            if let Some(rtt) = hop.rtt {
                write!(f, "  {}", round_trip_text(rtt))?;
            }
            if let Some(right) = &hop.right {
                write!(f, "\n    {}", labels.sentence(right, self.now_s))?;
            } else if hop.router.is_some_and(|name| name != self.name) {
                f.write_str("\n    it showed no right to carry")?;
            }
            if let Some(word) = hop.router.and_then(|router| self.domains.border(router)) {
                let domain = labels.of(word.issuer);
                let word = labels.sentence(word, self.now_s);
                write!(f, "\n    at the border of {domain}: {word}")?;
            }
        }
        for word in self.domains.exports() {
            write!(f, "\n    {}", labels.sentence(word, self.now_s))?;
        }
        Ok(())
    }
}

/// What a hop is called here; else what it calls itself, which is no more than its word.
fn called(name: Name, hop: &Step) -> String {
    let claimed = || hop.label.as_deref().map(names::said);
    names::label_of(name).or_else(claimed).map_or_else(String::new, |label| format!("  ({label})"))
}

/// Twice the longest chain of certificates: to the middle and back out.
const MAX_HOPS: u8 = 16;
/// Long enough for routers to look up and connect.
const FIND_WITHIN: Duration = Duration::from_secs(5);
/// Longer than any path on Earth.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
