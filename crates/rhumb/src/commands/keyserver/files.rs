//! The files that a key server reads: masters, the book of principals, keys
//! that sign. The first two also while it runs.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rhumb_capability::{EpochKeys, Principal};
use rhumb_daemon::config::{KeyserverSettings, KeyserverWaypoint};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::secret_file;
use rhumb_daemon::signer::load_signer;
use rhumb_keyserver::principal::{parse_master, parse_principals};
use rhumb_keyserver::record::SharedKey;
use rhumb_keyserver::server::{Config, KeyServer, Waypoint};
use rhumb_keyserver::tsig::{KeyIndex, Keyring};

/// Files that are read again when they change.
pub(super) struct Files {
    principals: Watched,
    masters: Vec<(IpAddr, Watched)>,
}

/// A file and how it was when it was last read.
struct Watched {
    path: PathBuf,
    seen: Option<Stamp>,
}

type Stamp = (u64, i64, i64, u64);

impl Files {
    /// Reads everything that the settings name.
    pub(super) fn load(settings: &KeyserverSettings) -> Outcome<(Self, Config)> {
        let mut keyring = Keyring::default();
        let mut operators = Vec::new();
        for path in &settings.operators {
            operators.push(add_signer(&mut keyring, path)?);
        }
        let files = Self {
            principals: Watched::new(&settings.principals),
            masters: settings
                .waypoints
                .iter()
                .map(|waypoint| (waypoint.known.address, Watched::new(&waypoint.master)))
                .collect(),
        };
        let mut waypoints = Vec::new();
        for waypoint in &settings.waypoints {
            waypoints.push(load_waypoint(waypoint, &mut keyring)?);
        }
        let config = Config {
            zone: settings.zone.clone(),
            waypoints,
            principals: load_principals(&settings.principals)?,
            keyring,
            operators,
            rate_per_s: settings.rate_per_s,
            secret: *rhumb_daemon::key::fresh_secret()?
                .first_chunk()
                .expect("invariant: a secret has 32 bytes"),
        };
        Ok((files, config))
    }

    /// Reads what has changed. What cannot be read stays as it was, and is said so once.
    pub(super) fn reload(&mut self, server: &mut KeyServer) {
        if self.principals.has_changed() {
            match load_principals(&self.principals.path) {
                Ok(principals) => {
                    tracing::info!(principals = principals.len(), "principals read again");
                    server.set_principals(principals);
                }
                Err(failure) => tracing::error!(%failure, "principals stay as they were"),
            }
        }
        for (address, master) in &mut self.masters {
            if !master.has_changed() {
                continue;
            }
            match load_master(&master.path, *address) {
                Ok(keys) => {
                    tracing::info!(waypoint = %address, epoch = keys.epoch().0, "master read again");
                    server.set_epoch(*address, keys);
                }
                Err(failure) => tracing::error!(%failure, "the master stays as it was"),
            }
        }
    }
}

impl Watched {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), seen: stamp(path) }
    }

    fn has_changed(&mut self) -> bool {
        let now = stamp(&self.path);
        std::mem::replace(&mut self.seen, now) != now
    }
}

/// Which file it is, when it was written, and how long it is.
fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.len()))
}

fn load_waypoint(settings: &KeyserverWaypoint, keyring: &mut Keyring) -> Outcome<Waypoint> {
    let follower = match &settings.follower {
        Some(path) => Some(add_signer(keyring, path)?),
        None => None,
    };
    Ok(Waypoint {
        address: settings.known.address,
        clock: settings.known.clock,
        suite: settings.suite,
        keys: load_master(&settings.master, settings.known.address)?,
        follower,
    })
}

fn load_master(path: &Path, address: IpAddr) -> Outcome<EpochKeys> {
    let maker = format!("rhumb capability master {address} --out {}", path.display());
    let text = secret_file::read(path, &maker)?;
    let (waypoint, keys) = parse_master(&text).map_err(|fault| bad(path, &fault))?;
    if waypoint != address {
        return Err(Failure::setup_text(format!(
            "master {} is that of {waypoint}, not of {address}",
            path.display()
        )));
    }
    Ok(keys)
}

fn load_principals(path: &Path) -> Outcome<HashMap<Principal, SharedKey>> {
    let text = secret_file::read(path, "rhumb capability mint NUMBER")?;
    parse_principals(&text).map_err(|fault| bad(path, &fault))
}

fn add_signer(keyring: &mut Keyring, path: &Path) -> Outcome<KeyIndex> {
    keyring.add(load_signer(path)?).map_err(|key| {
        Failure::setup_text(format!(
            "key {}: another key is named {}, too; operators and waypoints each have their own",
            path.display(),
            key.name()
        ))
    })
}

fn bad(path: &Path, fault: &dyn std::fmt::Display) -> Failure {
    Failure::setup_text(format!("file {}: {fault}", path.display()))
}
