//! `rhumb network`: a network that is made by one command, run by one, and joined by a code.

mod admit;
mod create;
mod invite;
mod remove;
mod run;
mod show;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use rhumb_daemon::admin::Admin;
use rhumb_daemon::cli::{NetworkArguments, NetworkCommand};
use rhumb_daemon::daemon::{self, Control};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::lifetime::Lifetime;
use rhumb_daemon::network::keeping::{Gauge, Keeper};
use rhumb_daemon::network::running::Passed;
use rhumb_daemon::network::{Created, Folder, Openness};
use rhumb_daemon::output::Form;
use rhumb_daemon::supervisor;
use rhumb_wire::PublishedLabel;
use tokio::sync::Notify;

/// Runs the command. `passed` is what parts are told that are processes of their own.
pub(crate) fn run(
    arguments: &NetworkArguments,
    passed: &Passed<'_>,
    with_parent: bool,
    form: Form,
) -> Outcome {
    match &arguments.command {
        None | Some(NetworkCommand::List) => show::list(form),
        Some(NetworkCommand::Create(arguments)) => create::run(arguments, form),
        Some(NetworkCommand::Run(arguments)) => run::run(arguments, passed, with_parent, form),
        Some(NetworkCommand::Invite(arguments)) => invite::run(arguments, form),
        Some(NetworkCommand::Show { network }) => show::show(network.as_ref(), form),
        Some(NetworkCommand::Remove { member, network }) => {
            remove::run(member, network.as_ref(), form)
        }
        Some(NetworkCommand::Admit { number, refuse, network }) => {
            admit::run(&number.concat(), *refuse, network.as_ref(), form)
        }
        Some(NetworkCommand::Keep { network, asked, open_s }) => {
            let openness = match (asked, open_s) {
                (false, _) => Openness::Invited,
                (true, None) => Openness::Asked,
                (true, Some(time)) => Openness::OpenFor(Duration::from_secs(*time)),
            };
            keep(network, openness, with_parent, form)
        }
    }
}

/// The keeper, until it is told to end.
fn keep(network: &PublishedLabel, openness: Openness, with_parent: bool, form: Form) -> Outcome {
    let created = kept_here(Some(network))?;
    // Its signals and its parent are looked after beside it.
    let control = daemon::take_control(Some(&Admin::Usual), &format!("keeper-{network}"), false)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Failure::operation)?.block_on(async {
        let mut lifetime = Lifetime::begin(with_parent)?;
        let keeper = Keeper::open(&created, openness).await?;
        let told = answer_status(control, keeper.gauge())?;
        supervisor::say_ready(form, &run::Ready::of_keeper(&created));
        tokio::select! {
            ended = keeper.run() => match ended? {},
            never = told => match never {},
            never = supervisor::beat_on() => match never {},
            _ = lifetime.end() => Ok(()),
        }
    })
}

/// Answers `rhumb status`. Ends never.
fn answer_status(control: Control, gauge: Gauge) -> Outcome<impl Future<Output = Infallible>> {
    let woken = Arc::new(Notify::new());
    daemon::notify_by(control.wake().clone(), Arc::clone(&woken))?;
    Ok(async move {
        loop {
            woken.notified().await;
            control.answer(|| gauge.snapshot());
        }
    })
}

/// The network of this label whose keeper is this host, or the only one.
fn kept_here(label: Option<&PublishedLabel>) -> Outcome<Created> {
    let kept = |folder: &Folder| Created::find(folder);
    if let Some(label) = label {
        return kept(&Folder::of(label)?)?.ok_or_else(|| {
            Failure::setup_text(format!(
                "this host keeps no network that is called {label}: `rhumb network` lists what is there, `rhumb \
                 network create {label} --address HOST` makes it"
            ))
        });
    }
    let mut all: Vec<Created> = Vec::new();
    for folder in Folder::all()? {
        all.extend(kept(&folder)?);
    }
    match all.len() {
        1 => Ok(all.remove(0)),
        0 => Err(Failure::setup_text(
            "this host keeps no network; make one: rhumb network create LABEL --address HOST",
        )),
        _ => {
            let labels: Vec<&str> = all.iter().map(|it| it.folder.label().as_str()).collect();
            Err(Failure::setup_text(format!(
                "this host keeps several networks; say which: {}",
                labels.join(", ")
            )))
        }
    }
}
