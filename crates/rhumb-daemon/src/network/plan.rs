//! How each part of a network is started: all that a daemon goes by, as options. RIB and router
//! take members of the network's domain, and nobody else.

use std::ffi::OsString;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use rhumb_node::joined::Site;
use rhumb_trust::invitation::Host;
use rhumb_wire::Name;

use super::parts::{Part, Passed};
use super::{Created, Joined, Openness, Part as Kind, resolve};
use crate::failure::Outcome;

/// The directory of a network that is kept here.
pub(super) fn rib(created: &Created, passed: &Passed<'_>) -> Part {
    let key = created.key(Kind::Rib);
    let mut arguments = daemon("rib", created.listens(Kind::Rib), created.domain, &key);
    arguments.extend(["--store".into(), created.folder.file("rib.redb").into()]);
    alone("RIB", passed, arguments)
}

/// The router of a network that is kept here.
pub(super) fn router(created: &Created, passed: &Passed<'_>) -> Outcome<Part> {
    let rib = SocketAddr::new(created.near(), created.port(Kind::Rib));
    let key = created.key(Kind::Router);
    let carries = Carries {
        listen: created.listens(Kind::Router),
        locator: Some(created.address(Kind::Router)?),
        rib: format!("{}@{rib}", created.rib),
        domain: created.domain,
    };
    Ok(carries.part(passed, &key, &created.folder.file("router.state")))
}

/// The router that this host has joined a network as: at `host`, or where it finds itself.
pub(super) fn joined_router(
    joined: &Joined,
    passed: &Passed<'_>,
    host: Option<&Host>,
    port: u16,
) -> Outcome<Part> {
    let rib = joined.rib()?;
    let locator = host.map(|host| resolve(&Site::from(host.clone()), port)).transpose()?;
    let ip = match locator.map(|it| it.ip()) {
        Some(ip) if ip.is_loopback() => ip,
        _ if rib.address.is_ipv6() => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    };
    let (listen, rib) = (SocketAddr::new(ip, port), rib.to_string());
    let carries = Carries { listen, locator, rib, domain: joined.domain };
    Ok(carries.part(passed, &joined.key(), &joined.folder.file("router.state")))
}

/// Who lets hosts join.
pub(super) fn keeper(created: &Created, passed: &Passed<'_>, openness: Openness) -> Part {
    let arguments = ["network", "keep", created.folder.label().as_str()];
    let mut arguments: Vec<OsString> = arguments.map(OsString::from).into();
    match openness {
        Openness::Invited => {}
        Openness::Asked => arguments.push("--asked".into()),
        Openness::OpenFor(time) => {
            arguments.extend(["--asked", "--open-s"].map(OsString::from));
            arguments.push(time.as_secs().to_string().into());
        }
    }
    alone("keeper", passed, arguments)
}

/// This host's own node, which goes by its user's settings, and by `more`.
pub(super) fn node(created: &Created, passed: &Passed<'_>, more: Vec<OsString>) -> Part {
    let arguments = ["up", "--node-only", "--network", created.folder.label().as_str()];
    let mut arguments: Vec<OsString> = arguments.map(OsString::from).into();
    arguments.extend(more);
    Part::new("node", passed, passed.config, arguments)
}

/// What differs between routers.
struct Carries {
    listen: SocketAddr,
    locator: Option<SocketAddr>,
    rib: String,
    domain: Name,
}

impl Carries {
    fn part(&self, passed: &Passed<'_>, key: &Path, state: &Path) -> Part {
        let mut arguments = daemon("router", self.listen, self.domain, key);
        let listen = self.listen.to_string();
        arguments.extend(["--tls-listen", &listen, "--rib", &self.rib].map(OsString::from));
        if let Some(locator) = self.locator {
            arguments.extend(["--locator".into(), locator.to_string().into()]);
        }
        arguments.extend(["--state".into(), state.into()]);
        alone("router", passed, arguments)
    }
}

fn daemon(command: &str, listen: SocketAddr, domain: Name, key: &Path) -> Vec<OsString> {
    let (listen, domain) = (listen.to_string(), domain.to_string());
    let options = ["--admin", "--admit-domain", &domain, "--strangers", "refused", "--key"];
    let mut arguments: Vec<OsString> = [command, "--listen", &listen].map(OsString::from).into();
    arguments.extend(options.map(OsString::from));
    arguments.push(key.into());
    arguments
}

/// A part that goes by no file: one that happens to lie about must not change it.
fn alone(label: &'static str, passed: &Passed<'_>, arguments: Vec<OsString>) -> Part {
    Part::new(label, passed, Some(Path::new(NO_CONFIG)), arguments)
}

const NO_CONFIG: &str = "/dev/null";
