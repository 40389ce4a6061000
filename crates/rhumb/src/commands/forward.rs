//! `rhumb forward`: a port that somebody offers under a name, brought to this host.

use rhumb_daemon::cli::{CalledPort, ForwardArguments};
use rhumb_daemon::config::NodeSettings;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::membership::joined;
use rhumb_daemon::output::Form;
use rhumb_daemon::ports::door::{Door, Ready, reach};
use rhumb_daemon::published::{find_by, find_once};
use rhumb_daemon::running::{Request, by_running};

/// Runs the command.
pub(crate) fn run(
    arguments: &ForwardArguments,
    settings: &NodeSettings,
    with_parent: bool,
    form: Form,
) -> Outcome {
    let CalledPort { called, port } = &arguments.service;
    let port = *port;
    let by_it = by_running(&arguments.node, with_parent, Ok(()), |running| async move {
        let (local, udp) = (arguments.local.0, arguments.udp);
        let name = find_by(&running, called, &arguments.asks, settings).await?;
        let request = Request::Forward { local, name: name.to_string(), port, udp };
        let (answer, asked) = running.ask(&request).await.map_err(Failure::operation)?;
        let local = answer.done()?.local.unwrap_or(local);
        form.print(&Ready { own: running.name, local, name, port });
        asked.ended().await
    });
    if let Some(outcome) = by_it {
        return outcome;
    }
    let name = find_once(called, &arguments.asks, settings)?;
    joined(settings, with_parent, Ok(()), |node| async move {
        let door = Door::open(arguments.local.0, arguments.udp)?;
        reach(&node, name).await?;
        door.lead(node, (name, port), form).await
    })
}
