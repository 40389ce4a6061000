//! Whose routers, RIBs and keepers are looked at: of each network that this host is in, of the file
//! of settings, or those that options name.

use std::sync::Arc;

use rhumb_daemon::cli::{DoctorArguments, NodeArguments};
use rhumb_daemon::config::{ConfigFile, Listens, NodeSettings, Survey};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::names::book;
use rhumb_daemon::network::{Created, Folder, Joined, Part, Rank};
use rhumb_daemon::remote::Remote;
use rhumb_trust::Identity;
use rhumb_wire::Role;

use super::findings::{Findings, Look};
use super::{files, link, within};

/// What belongs together.
pub(super) struct Subject {
    /// What it is called in what is printed.
    pub(super) of: String,
    /// What this host is there.
    pub(super) role: Role,
    /// Its key, if there is one that can be used.
    pub(super) identity: Option<Arc<Identity>>,
    /// Whether there is a key that cannot be used.
    pub(super) lacks_key: bool,
    pub(super) routers: Vec<Remote>,
    pub(super) ribs: Vec<Remote>,
    /// The network that it is, if it was joined by an invitation.
    pub(super) joined: Option<Joined>,
    /// What a node joins by.
    pub(super) settings: NodeSettings,
    /// Where what this host does for it listens.
    pub(super) listens: Vec<Listens>,
}

impl Subject {
    /// Whether this host is a node there.
    pub(super) fn is_node(&self) -> bool {
        self.role == Role::Node
    }
}

/// All that is to be looked at. Keys are looked at here.
pub(super) fn gather(
    arguments: &DoctorArguments,
    survey: &Survey,
    findings: &mut Findings,
) -> Outcome<Vec<Subject>> {
    let settings = survey.node.clone().map_or_else(plain, Ok)?;
    let mut subjects = Vec::new();
    if arguments.router.is_some() || arguments.rib.is_some() {
        let mut subject = of_file("options", &settings, findings);
        subject.routers = arguments.router.into_iter().collect();
        subject.ribs = arguments.rib.into_iter().collect();
        return Ok(vec![subject]);
    }
    let folders = match &arguments.network {
        Some(label) => vec![there(label)?],
        None => Folder::all()?,
    };
    for folder in &folders {
        subjects.extend(of_network(folder, &settings, findings));
    }
    if arguments.network.is_some() {
        return Ok(subjects);
    }
    subjects.extend(of_daemons(survey, &settings, findings));
    // The one that `rhumb up` has made, where nothing says another.
    let made = book::folder().map(|folder| folder.join("node.key")).filter(|it| it.exists());
    if let Some(path) = made {
        files::key("rhumb up", (&path, Role::Node), false, findings);
    }
    if survey.node.is_some() {
        subjects.push(of_file("[node]", &settings, findings));
    }
    if subjects.is_empty() {
        findings.not_tried(
            &Look::at("router"),
            "neither a network nor the file names one: rhumb up finds or makes a network on this LAN, rhumb join CODE joins one elsewhere; rhumb doctor --router ADDR looks at a router",
        );
    }
    Ok(subjects)
}

/// Where all that this host does listens.
pub(super) fn listens(subjects: &[Subject], of_file: Vec<Listens>) -> Vec<Listens> {
    let mut all = of_file;
    for listens in subjects.iter().flat_map(|it| &it.listens) {
        if !all.contains(listens) {
            all.push(listens.clone());
        }
    }
    all
}

/// What a node joins by where nothing is said.
fn plain() -> Outcome<NodeSettings> {
    ConfigFile::default().node(&NodeArguments::default())
}

fn there(label: &rhumb_wire::PublishedLabel) -> Outcome<Folder> {
    let folder = Folder::of(label)?;
    match folder.path().exists() {
        true => Ok(folder),
        false => Err(Failure::setup_text(format!(
            "this host is in no network that is called {label}: `rhumb network` lists what there is"
        ))),
    }
}

/// Keys of the daemons that the file sets up; and its router, if it does one.
fn of_daemons(
    survey: &Survey,
    settings: &NodeSettings,
    findings: &mut Findings,
) -> Option<Subject> {
    let mut router = None;
    for (path, role) in &survey.keys {
        let of = format!("[{}]", role.as_str());
        let identity = files::key(&of, (path, *role), false, findings);
        if *role == Role::Router {
            router = Some(Subject {
                of,
                role: *role,
                lacks_key: identity.is_none(),
                identity,
                routers: survey.upstreams.clone(),
                ribs: survey.router_ribs.clone(),
                joined: None,
                settings: settings.clone(),
                listens: Vec::new(),
            });
        }
    }
    router
}

fn of_file(of: &str, settings: &NodeSettings, findings: &mut Findings) -> Subject {
    let key = settings.key.as_ref();
    let identity = key.and_then(|path| files::key(of, (path, Role::Node), false, findings));
    let routers = settings.routers();
    if routers.is_empty() && of == "[node]" {
        findings.not_tried(
            &Look::of("router", of),
            "none is named, so one is looked for nearby when a command joins; rhumb doctor --router ADDR looks at one",
        );
    }
    Subject {
        of: of.to_owned(),
        role: Role::Node,
        lacks_key: key.is_some() && identity.is_none(),
        identity,
        routers,
        ribs: settings.ribs.clone(),
        joined: None,
        settings: settings.clone(),
        listens: Vec::new(),
    }
}

/// A network, if its settings can be read.
fn of_network(
    folder: &Folder,
    settings: &NodeSettings,
    findings: &mut Findings,
) -> Option<Subject> {
    let network = Look::of("network", folder.label());
    let listens = Listens::of_network(folder).unwrap_or_else(|failure| {
        findings.problem(&network, failure, "");
        Vec::new()
    });
    if let Ok(Some(created)) = Created::find(folder) {
        parts_of(&created, findings);
    }
    let mut joined = match Joined::find(folder) {
        Ok(joined) => joined?,
        Err(failure) => {
            findings.problem(&network, failure, "");
            return None;
        }
    };
    findings.ok(&network, format_args!("this host is {joined}, as a {}", joined.rank.as_str()));
    let role = if joined.rank == Rank::Router { Role::Router } else { Role::Node };
    let of = folder.label().to_string();
    let identity = files::key(&of, (&joined.key(), role), true, findings);
    let mut settings = settings.clone();
    settings.key = Some(joined.key());
    if let Some(identity) = identity.as_ref().filter(|_| joined.is_lan) {
        link::look(&mut joined, identity, findings);
    }
    let (routers, ribs) = remotes(&joined, findings);
    let lacks_key = identity.is_none();
    let joined = Some(joined);
    Some(Subject { of, role, identity, lacks_key, routers, ribs, joined, settings, listens })
}

/// Keys of what this host runs for a network that it keeps.
fn parts_of(created: &Created, findings: &mut Findings) {
    for (part, role, what) in [
        (Part::Router, Role::Router, "router"),
        (Part::Rib, Role::Rib, "RIB"),
        (Part::Keeper, Role::Node, "keeper"),
    ] {
        let of = format!("{}'s {what}", created.folder.label());
        files::key(&of, (&created.key(part), role), true, findings);
    }
}

/// Where router and RIB are now.
fn remotes(joined: &Joined, findings: &mut Findings) -> (Vec<Remote>, Vec<Remote>) {
    let asked = joined.clone();
    match within(move || Ok((asked.router()?, asked.rib()?))) {
        Ok((router, rib)) => (vec![router], vec![rib]),
        Err(failure) => {
            findings.problem(
                &Look::of("address", joined.folder.label()),
                failure,
                "is this host on line, and is the keeper's host still called so? Its keeper can invite this host again with another",
            );
            (Vec::new(), Vec::new())
        }
    }
}
