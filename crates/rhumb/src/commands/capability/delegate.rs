//! `rhumb capability delegate`: restricts a capability for somebody
//! else, and a principal's own key to begin with.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rhumb_capability::{CapabilityError, Credential, Prefix, file};
use rhumb_daemon::cli::DelegateArguments;
use rhumb_daemon::clock::{self, date_and_time};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key_fetch::KeyFetch;
use rhumb_daemon::output::Form;
use rhumb_daemon::secret_file;
use rhumb_keyserver::client::KeyClient;
use rhumb_keyserver::principal::PrincipalFile;
use serde_json::json;

use super::Report;

/// Runs the command.
pub(super) fn run(arguments: &DelegateArguments, form: Form) -> Outcome {
    let prefix = match (arguments.prefix, arguments.reply_to) {
        (Some(prefix), _) => prefix,
        (None, Some(host)) => Prefix::host(host),
        (None, None) => return Err(Failure::setup_text("give --prefix or --reply-to")),
    };
    let text = secret_file::read(&arguments.from, "rhumb capability mint NUMBER")?;
    let delegated = if text.starts_with("rhumb-principal ") {
        let principal =
            PrincipalFile::parse(&text).map_err(|fault| bad(&arguments.from, &fault))?;
        let waypoint = choose_waypoint(&principal, arguments.waypoint)?;
        let mut fetch = KeyFetch::new(KeyClient::new(principal), &arguments.resolver)?;
        let credential = fetch_key(&mut fetch, waypoint, arguments.next)?;
        credential.delegate(prefix, arguments.id)
    } else {
        let credential = file::decode(&text).map_err(|error| bad(&arguments.from, &error))?;
        credential.delegate(prefix, arguments.id)
    };
    let delegated = delegated.map_err(explain)?;
    let capability = delegated.capability();
    let out = arguments.out.clone().unwrap_or_else(|| {
        PathBuf::from(format!("{}-{}.capability", capability.waypoint, arguments.id))
    });
    file::save(&out, &delegated).map_err(|error| match error {
        CapabilityError::File { source, .. }
            if source.kind() == std::io::ErrorKind::AlreadyExists =>
        {
            Failure::setup_text(format!(
                "file {} exists and is never overwritten; give another with --out",
                out.display()
            ))
        }
        error => Failure::setup(error),
    })?;
    let until_s = delegated.not_after_s();
    form.print(&Report {
        text: format!(
            "{prefix} as {} by way of {} for principal {}, until {}\ncapability written to {}",
            arguments.id,
            capability.waypoint,
            capability.principal,
            date_and_time(until_s),
            out.display()
        ),
        object: json!({
            "waypoint": capability.waypoint,
            "principal": capability.principal.0,
            "prefix": prefix.to_string(),
            "id": arguments.id.as_u32(),
            "levels": capability.delegations.len(),
            "window": capability.window.0,
            "not_after_s": until_s,
            "file": out,
        }),
    });
    Ok(())
}

fn choose_waypoint(principal: &PrincipalFile, wanted: Option<IpAddr>) -> Outcome<IpAddr> {
    let known: Vec<IpAddr> = principal.waypoints().iter().map(|known| known.address).collect();
    let listed = || known.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match (wanted, &known[..]) {
        (None, [only]) => Ok(*only),
        (None, _) => Err(Failure::setup_text(format!("give --waypoint, one of {}", listed()))),
        (Some(wanted), known) if known.contains(&wanted) => Ok(wanted),
        (Some(wanted), _) => Err(Failure::setup_text(format!(
            "the principal's file does not name waypoint {wanted}; it names {}",
            listed()
        ))),
    }
}

/// Waits for the key of the present window, or the next.
fn fetch_key(fetch: &mut KeyFetch, waypoint: IpAddr, next: bool) -> Outcome<&Credential> {
    if next {
        fetch.hurry();
    }
    let has_key = |client: &KeyClient, now_ms| match next {
        true => client.next_credential(waypoint, now_ms).is_some(),
        false => client.credential(waypoint, now_ms).is_some(),
    };
    if !fetch.run(PATIENCE, has_key)? {
        let counters = fetch.client().counters();
        let zone = fetch.client().file().zone().text();
        let why = match (counters.absent, counters.ignored, counters.failed) {
            (1.., _, _) => {
                "there is no key: is the principal revoked, or not in the operator's book any more?"
            }
            (_, 1.., _) => "what came does not open: was the principal minted again since?",
            (_, _, 1..) => "the resolver fails: does the zone resolve? try dig",
            _ => "nobody answers; give another with --resolver ADDR",
        };
        return Err(Failure::operation_text(format!("no key from {zone}: {why}")));
    }
    let now_ms = clock::now().unix_ms;
    let client = fetch.client();
    let found = match next {
        true => client.next_credential(waypoint, now_ms),
        false => client.credential(waypoint, now_ms),
    };
    found.ok_or_else(|| Failure::operation_text("the window has just ended; try again"))
}

fn explain(error: CapabilityError) -> Failure {
    match error {
        CapabilityError::NotNested => Failure::setup_text(
            "the prefix is not within what was delegated already; rhumb capability inspect shows it",
        ),
        error => Failure::setup(error),
    }
}

fn bad(path: &Path, fault: &dyn std::fmt::Display) -> Failure {
    Failure::setup_text(format!("file {}: {fault}", path.display()))
}

/// Three tries of a resolver, over UDP and TCP.
const PATIENCE: Duration = Duration::from_secs(10);
