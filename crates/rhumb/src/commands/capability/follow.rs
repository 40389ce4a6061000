//! `rhumb capability follow`: follows revocations as a waypoint does, and prints each change.

use rhumb_capability::Revocation;
use rhumb_daemon::cli::FollowArguments;
use rhumb_daemon::clock;
use rhumb_daemon::config::ConfigFile;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::lifetime::Lifetime;
use rhumb_daemon::output::Form;
use rhumb_daemon::revocation_feed::{Heard, follow};
use rhumb_daemon::signer::load_signer;
use rhumb_keyserver::feed::RevocationFeed;
use serde_json::json;

use super::Report;
use super::revoke::target;

/// Runs the command.
pub(super) fn run(
    arguments: &FollowArguments,
    file: &ConfigFile,
    with_parent: bool,
    form: Form,
) -> Outcome {
    let (address, zone) = target(&arguments.server, file)?;
    let key = load_signer(&arguments.server.key)?;
    let mut feed = RevocationFeed::new(&zone, key).map_err(Failure::setup)?;
    let work = move || {
        let followed = follow(&mut feed, address, |heard| {
            match heard {
                Heard::Current(feed) => form.print(&report(feed)),
                Heard::Unchanged(_) => {}
                Heard::Lost(error) => {
                    tracing::warn!(%error, "the key server is lost; trying again");
                }
            }
            true
        });
        if let Err(failure) = followed {
            tracing::error!(%failure, "following ended");
        }
    };
    std::thread::Builder::new().name("feed".to_owned()).spawn(work).map_err(Failure::operation)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::operation)?;
    runtime.block_on(async {
        let cause = Lifetime::begin(with_parent)?.end().await;
        tracing::info!(cause, "stopping");
        Ok(())
    })
}

fn report(feed: &RevocationFeed) -> Report {
    let now_s = clock::now().unix_s();
    let set = feed.revocations(now_s).unwrap_or_default();
    let mut orders: Vec<Revocation> = set.iter().collect();
    orders.sort_unstable_by_key(|order| (order.principal, order.delegation));
    let mut text = format!("serial {}, {} revoked", feed.serial(), orders.len());
    for order in &orders {
        let left_s = order.until_s.saturating_sub(now_s);
        let id =
            order.delegation.map_or(String::new(), |id| format!(", what it delegated as {id}"));
        text += &format!("\n  principal {}{id}, for {left_s} s", order.principal);
    }
    let orders: Vec<serde_json::Value> = orders
        .iter()
        .map(|order| {
            json!({
                "principal": order.principal.0,
                "id": order.delegation.map(rhumb_capability::DelegationId::as_u32),
                "until_s": order.until_s,
            })
        })
        .collect();
    Report { text, object: json!({"serial": feed.serial(), "revoked": orders}) }
}
