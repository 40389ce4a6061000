//! `rhumb proxy`: names for programs that can use a proxy, as hosts `NAME.rhumb.internal`.

use rhumb_daemon::cli::ProxyArguments;
use rhumb_daemon::config::NodeSettings;
use rhumb_daemon::failure::Outcome;
use rhumb_daemon::membership::joined;
use rhumb_daemon::output::Form;
use rhumb_daemon::ports::{listen, proxy};

/// Runs the command.
pub(crate) fn run(
    arguments: &ProxyArguments,
    settings: &NodeSettings,
    with_parent: bool,
    form: Form,
) -> Outcome {
    joined(settings, with_parent, Ok(()), |node| async move {
        let (listener, local) = listen(arguments.local.0)?;
        proxy::lead(node, settings.clone(), (listener, local), form).await
    })
}
