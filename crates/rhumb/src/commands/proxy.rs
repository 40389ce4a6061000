//! `rhumb proxy`: names for programs that can use a proxy, as hosts `NAME.rhumb.internal`.

use std::sync::Arc;

use rhumb_daemon::belonging::Belonging;
use rhumb_daemon::cli::ProxyArguments;
use rhumb_daemon::config::NodeSettings;
use rhumb_daemon::failure::Outcome;
use rhumb_daemon::key;
use rhumb_daemon::membership::joined_as;
use rhumb_daemon::output::Form;
use rhumb_daemon::ports::{listen, proxy};
use rhumb_daemon::published::Finder;

/// Runs the command.
pub(crate) fn run(
    arguments: &ProxyArguments,
    settings: &NodeSettings,
    with_parent: bool,
    form: Form,
) -> Outcome {
    let identity = key::load_or_ephemeral(settings.key.as_deref())?;
    let asks = Arc::clone(&identity);
    let belonging = Belonging::of(identity, settings.key.as_deref());
    joined_as(belonging, settings, with_parent, Ok(()), |node| async move {
        let listening = listen(arguments.local.0)?;
        let finder = Finder::start(Some(&asks), arguments.asks.or(&settings.ribs))?;
        proxy::lead(node, settings.clone(), finder, listening, form).await
    })
}
