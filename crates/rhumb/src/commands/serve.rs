//! `rhumb serve`: a program that listens on TCP or UDP, offered as a port of this node's name, or
//! of one that it serves.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rhumb_daemon::belonging::Belonging;
use rhumb_daemon::cli::ServeArguments;
use rhumb_daemon::config::{Allowed, NodeSettings, OfferedPort};
use rhumb_daemon::daemon::{self, Control};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::membership::joined_as;
use rhumb_daemon::node_status::answer_status;
use rhumb_daemon::output::Form;
use rhumb_daemon::ports::offer::{
    Ready, ad_certs, check_own, offer, serve_capsules, tell_refusals,
};
use rhumb_daemon::removals::Hearing;
use rhumb_daemon::running::{Request, Running, by_running};
use rhumb_daemon::supervisor;
use rhumb_wire::Name;
use tokio::task::JoinSet;

/// Runs the command.
pub(crate) fn run(
    arguments: &ServeArguments,
    settings: &NodeSettings,
    with_parent: bool,
    form: Form,
) -> Outcome {
    let port = arguments.service.port;
    let how = "give who may with --allow NAME or --allow-domain NAME, or --allow-all";
    let (names, domains) = (arguments.allow.clone(), arguments.allow_domain.clone());
    let allow = Allowed::of(arguments.allow_all, names, domains, how);
    let offered = OfferedPort {
        only: arguments.service.name,
        port,
        udp: arguments.udp,
        to: arguments.to.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        allow: allow.map_err(Failure::setup_text)?,
    };
    let is_plain = arguments.admin.is_none() && arguments.ad_cert.is_empty();
    if is_plain && arguments.rib.is_empty() && offered.only.is_none() {
        let by_it = by_running(&arguments.node, with_parent, Ok(()), |running| {
            offer_by(running, &offered, form)
        });
        if let Some(outcome) = by_it {
            return outcome;
        }
    }
    let identity = key::load_or_ephemeral(settings.key.as_deref())?;
    let ad_certs = ad_certs(&arguments.ad_cert, settings, identity.name())?;
    check_own(&offered, identity.name(), &ad_certs)?;
    let asks = Arc::clone(&identity);
    let belonging = Belonging::of(identity, settings.key.as_deref());
    let shown = belonging.clone();
    // Its signals and its parent are looked after beside it.
    let control = daemon::take_control_if_asked(arguments.admin.as_ref(), "serve")?;
    joined_as(belonging, settings, with_parent, Ok(()), |node| async move {
        let mut helpers = JoinSet::new();
        let admin = control.as_ref().and_then(Control::admin);
        if let Some(control) = control {
            helpers.spawn(answer_status(control, node.clone(), shown, |_| {})?);
        }
        let _served = serve_capsules(&node, ad_certs).await?;
        let hearing = Hearing::begin(&node, &asks, &arguments.rib)?;
        hearing.heed(offered.allow.domains().iter().copied());
        helpers.spawn(tell_refusals(node.refusals(), form));
        let offering = offer(&node, offered, admin, form).await?;
        supervisor::ready();
        offering.carry().await
    })
}

async fn offer_by(running: Running, offered: &OfferedPort, form: Form) -> Outcome {
    let OfferedPort { port, udp, to, .. } = *offered;
    let texts = |names: &[Name]| names.iter().map(Name::to_string).collect();
    let (allow, allow_domain) = match &offered.allow {
        Allowed::Everybody => (None, Vec::new()),
        Allowed::Chosen { names, domains } => (Some(texts(names)), texts(domains)),
    };
    let request = Request::Serve { port, udp, to, allow, allow_domain };
    let (answer, asked) = running.ask(&request).await.map_err(Failure::operation)?;
    answer.done()?;
    form.print(&Ready { name: running.name, port, udp, to, router: None, admin: None });
    asked.ended().await
}
