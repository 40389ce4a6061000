//! `rhumb member`: the proxy beside a member's router. To the router it is the exchange's route
//! server; to the exchange's two servers it is the member, whose policies they never see.
//!
//! 1. Look at configuration, key, roster and policies; with `--check` that is all.
//! 2. Keep a BGP session with the router (`daemon/bgp.rs`), and a connection
//!    to each server of both parties (`rhumb_daemon::exchange_links`).
//! 3. What the router announces goes to the exchange with the set of those
//!    who may have it; what comes from there is judged, and the best of it
//!    goes to the router (`rhumb_member`).
//! 4. On SIGHUP configuration and roster are read anew, and what differs
//!    then is told. On SIGTERM the member leaves.
//!
//! Invariant: inputs are taken a bounded number at a time, and each turn ends
//! with everything told that follows from them.

mod control;
mod judge;
mod proxy;
mod routes;
mod rtr;

use std::fmt;
use std::sync::Arc;

use rhumb_bgp::policy::Member as Index;
use rhumb_channel::Credentials;
use rhumb_daemon::cli::{MemberArguments, MemberCommand};
use rhumb_daemon::config::{ConfigFile, MemberSettings, SiteName};
use rhumb_daemon::daemon::{self, Hangup};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::output::Form;
use rhumb_daemon::roster::{self, Site};
use rhumb_exchange::{Lane, Roster};
use rhumb_member::Policies;
use rhumb_wire::{Name, Role};
use serde::Serialize;

use proxy::Proxy;

/// Runs the command.
pub(crate) fn run(
    arguments: &MemberArguments,
    file: ConfigFile,
    with_parent: bool,
    form: Form,
) -> Outcome {
    match &arguments.command {
        Some(MemberCommand::Routes(asked)) => {
            return routes::run(asked.control.as_deref(), asked.prefix, &file, form);
        }
        Some(MemberCommand::Status(asked)) => {
            return routes::status(asked.control.as_deref(), &file, form);
        }
        None => {}
    }
    let settings = file.member()?;
    let identity = key::load(&settings.key, Role::Node)?;
    let credentials = Credentials::new(&identity).map_err(Failure::setup)?;
    let standing = Standing::read(&settings, credentials.name())?;
    if arguments.check {
        proxy::password(&settings.bgp)?;
        form.print(&Checked::of(&settings, &standing, credentials.name()));
        return Ok(());
    }
    let control = daemon::take_control(settings.admin.as_ref(), "member", with_parent)?;
    let hangup = Hangup::catch(control.wake().clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::operation)?;
    runtime.block_on(async {
        let proxy = Proxy::start(file, settings, credentials, standing, control, hangup)?;
        proxy.run(form).await
    })
}

/// What follows from configuration and roster, and changes with them.
struct Standing {
    sites: Vec<Site>,
    roster: Arc<Roster>,
    lane: Lane,
    policies: Policies,
}

impl Standing {
    /// Reads the roster, and has the policies made for it.
    fn read(settings: &MemberSettings, name: Name) -> Outcome<Self> {
        let sites = roster::load(&settings.roster)?;
        let lane = roster::lane_of(&sites, name, &settings.roster)?;
        let site = &sites[usize::from(lane.0)];
        let asn = settings.bgp.config.remote_as;
        if site.asn != asn {
            return Err(Failure::setup_text(format!(
                "the roster has our key for AS {}, and asn in [member] is {asn}",
                site.asn
            )));
        }
        let roster = roster::for_exchange(&sites)?;
        let names: Vec<SiteName<'_>> = sites
            .iter()
            .map(|site| SiteName { member: &site.member, site: &site.site, asn: site.asn })
            .collect();
        let compiled = settings.policy.compile(&names, Index(lane.0))?;
        for who in &compiled.unknown {
            tracing::warn!(%who, "a policy names somebody who is not in the roster");
        }
        let policies =
            Policies { export: compiled.export, import: compiled.import, roster: compiled.roster };
        Ok(Self { sites, roster, lane, policies })
    }

    /// `member/site` of a member.
    fn label(&self, member: Index) -> String {
        let site = self.sites.get(usize::from(member.0));
        site.map_or_else(|| format!("lane {}", member.0), Site::label)
    }
}

/// What `--check` found in order.
#[derive(Serialize)]
struct Checked {
    checked: bool,
    site: String,
    name: String,
    members: usize,
    servers: usize,
}

impl Checked {
    fn of(settings: &MemberSettings, standing: &Standing, name: Name) -> Self {
        Self {
            checked: true,
            site: standing.label(Index(standing.lane.0)),
            name: name.to_string(),
            members: standing.sites.len(),
            servers: settings.exchange.len() + settings.neutral.len(),
        }
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { site, members, servers, .. } = self;
        write!(f, "in order: {site} among {members} sites, {servers} servers")
    }
}
