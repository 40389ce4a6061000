//! Files that the node which runs for this user receives, and hands over. Who may send is told to
//! it with each request; what fits, and where it goes, is looked at here, as always.

use std::sync::{Arc, Once};

use aws_lc_rs::rand;
use rhumb_daemon::cli::ReceiveArguments;
use rhumb_daemon::clock;
use rhumb_daemon::config::{Allowed, ReceiveSettings};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::progress::Bar;
use rhumb_daemon::running::{Request, Running, Taking};
use rhumb_trust::{Access, Rule, Standing};
use rhumb_wire::{Name, Rights};
use tokio::task::JoinSet;

use super::output::Teller;
use super::{Door, Kept, MAX_AT_ONCE, Ready, Received};

/// Who may send, as the running node can be told.
pub(super) struct Rules(Outcome<Allowed>);

/// What each of the tasks that wait for a file has.
#[derive(Clone)]
struct Seat {
    running: Arc<Running>,
    request: Arc<Request>,
    /// Everybody may send, and all are strangers.
    is_open: bool,
    door: Arc<Door>,
    is_ready: Arc<Once>,
    teller: Teller,
}

impl Rules {
    /// What the options and the file say, unless the running node cannot do so.
    pub(super) fn of(arguments: &ReceiveArguments, settings: &ReceiveSettings) -> Self {
        let cannot = |what: &str| {
            Err(Failure::setup_text(format!(
                "`rhumb up` runs and would receive, and {what}; give --key FILE to receive by a node of its own"
            )))
        };
        if !arguments.serve.is_empty() {
            return Self(cannot("answers only for the names of `ad_certs` in its [up]"));
        }
        if settings.admin.is_some() {
            return Self(cannot(
                "tells by its own `rhumb status` how it is, not by another --admin",
            ));
        }
        let Some(allowed) = allowed(&settings.access.access) else {
            return Self(cannot("lets in by name or domain alone, or everybody"));
        };
        if !allowed.domains().is_empty() && !settings.ribs.is_empty() {
            return Self(cannot("hears of removals by `rib` in its [up], not by another --rib"));
        }
        Self(Ok(allowed))
    }
}

/// Rules that say who may send and nothing else.
fn allowed(access: &Access) -> Option<Allowed> {
    let (mut names, mut domains) = (Vec::new(), Vec::new());
    for rule in &access.rules {
        let Rule { name, domain, role: None, label: None, standing: Standing::Admitted } = rule
        else {
            return None;
        };
        match (name, domain) {
            (Some(name), None) => names.push(*name),
            (None, Some((domain, Rights::JOIN))) => domains.push(*domain),
            _ => return None,
        }
    }
    match (access.otherwise, access.rules.is_empty()) {
        (Standing::Stranger, true) => Some(Allowed::Everybody),
        (Standing::Refused, false) => Some(Allowed::Chosen { names, domains }),
        _ => None,
    }
}

/// Receives until it is over: one file, or any number.
pub(super) async fn receive(
    running: Running,
    Rules(allowed): Rules,
    door: Arc<Door>,
    (is_one, quiet): (bool, bool),
    teller: Teller,
) -> Outcome {
    let allowed = allowed?;
    let mut receiver = [0; 8];
    rand::fill(&mut receiver).map_err(|_| Failure::operation_text("no random numbers"))?;
    let texts = |names: &[Name]| names.iter().map(Name::to_string).collect();
    let (allow, allow_domain) = match &allowed {
        Allowed::Everybody => (None, Vec::new()),
        Allowed::Chosen { names, domains } => (Some(texts(names)), texts(domains)),
    };
    let receiver = u64::from_be_bytes(receiver);
    let seat = Seat {
        running: Arc::new(running),
        request: Arc::new(Request::Receive { receiver, allow, allow_domain }),
        is_open: allowed == Allowed::Everybody,
        door,
        is_ready: Arc::new(Once::new()),
        teller,
    };
    match is_one {
        true => seat.receive_one(&Bar::new(quiet)).await?,
        false => seat.serve(quiet).await?,
    }
    Ok(())
}

impl Seat {
    /// One file that arrives, or fails.
    async fn receive_one(&self, bar: &Bar) -> Outcome {
        loop {
            if let Some(received) = self.receive(bar).await? {
                self.teller.print(&received?);
                return Ok(());
            }
        }
    }

    /// As `serve` does by a node of its own: for ever, several at once.
    async fn serve(&self, quiet: bool) -> Outcome {
        let mut receptions = JoinSet::new();
        loop {
            while receptions.len() < MAX_AT_ONCE {
                let seat = self.clone();
                let bar = Bar::new(quiet || !receptions.is_empty());
                receptions.spawn(async move { seat.receive(&bar).await });
            }
            match receptions.join_next().await {
                Some(Ok(Ok(Some(Ok(received))))) => self.teller.print(&received),
                Some(Ok(Ok(Some(Err(failure))))) => {
                    if self.door.notices.may_warn(clock::now().instant) {
                        tracing::warn!(%failure, "a file did not arrive");
                    }
                }
                Some(Ok(Ok(None))) | None => {}
                Some(Ok(Err(failure))) => return Err(failure),
                Some(Err(panicked)) => return Err(Failure::operation(panicked)),
            }
        }
    }

    /// What comes first; `None` if that was refused here, and told. An error in the way to the node
    /// is none of a file.
    async fn receive(&self, bar: &Bar) -> Outcome<Option<Outcome<Received>>> {
        let own = self.running.name;
        let ready = || {
            let ready = Ready { name: own, router: None, served: Vec::new(), admin: None };
            self.is_ready.call_once(|| self.teller.print(&ready));
        };
        let kept = Kept::default();
        let open = |offered: &_| self.door.open(offered, self.is_open, &kept, bar);
        let progress = |bytes| bar.advance(bytes);
        let taking = self.running.receive(&self.request, ready, open, progress).await;
        bar.end();
        Ok(match taking? {
            Taking::Taken(taken) => Some(Ok(Received { path: kept.path(), own, taken })),
            Taking::Refused => None,
            Taking::Failed(failure) => Some(Err(failure)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_running_node_can_be_told_is_asked_of_it() {
        let [name, domain] = [Name([1; 32]), Name([2; 32])];
        let named = Rule::named(name, Standing::Admitted);
        let of_domain = Rule { name: None, domain: Some((domain, Rights::JOIN)), ..named.clone() };
        let by = |rules: &[&Rule], otherwise| {
            let rules = rules.iter().map(|rule| (*rule).clone()).collect();
            allowed(&Access { rules, otherwise, ..Access::default() })
        };
        assert_eq!(by(&[], Standing::Stranger), Some(Allowed::Everybody));
        let both = Allowed::Chosen { names: vec![name], domains: vec![domain] };
        assert_eq!(by(&[&named, &of_domain], Standing::Refused), Some(both));
        // Whom it refuses, whom it prefers, and what somebody calls himself it cannot be told.
        let refused = Rule::named(name, Standing::Refused);
        let labelled = Rule { label: Some("x".to_owned()), ..named.clone() };
        for (rules, otherwise) in [
            (&[&refused][..], Standing::Stranger),
            (&[&named], Standing::Stranger),
            (&[&labelled], Standing::Refused),
            (&[], Standing::Refused),
        ] {
            assert_eq!(by(rules, otherwise), None, "{rules:?}");
        }
    }
}
