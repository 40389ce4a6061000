//! Which name this process speaks for: from a key file, or one made for this run only. What a trust
//! domain says of the name lies beside its key: `NAME.membership` beside `NAME.key`.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rhumb_trust::{Identity, LABEL, Membership, Passphrase, TrustError, load_key, save_key};
use rhumb_wire::{Metadata, Role};
use zeroize::Zeroizing;

use crate::clock;
use crate::failure::{Failure, Outcome};

/// Opens sealed key files.
const PASSPHRASE_VARIABLE: &str = "RHUMB_PASSPHRASE";

/// The passphrase of a file, or else of the environment.
pub fn passphrase(file: Option<&Path>) -> Outcome<Option<Passphrase>> {
    let Some(path) = file else {
        return Ok(std::env::var(PASSPHRASE_VARIABLE).ok().map(Passphrase::new));
    };
    let text = std::fs::read_to_string(path).map(Zeroizing::new).map_err(|error| {
        Failure::setup_text(format!("passphrase file {}: {error}", path.display()))
    })?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(Some(Passphrase::new(line.to_owned()))),
        _ => Err(Failure::setup_text(format!(
            "passphrase file {} is empty; write the passphrase in its first line",
            path.display()
        ))),
    }
}

/// The identity in `path`, which must be of the role given, with the membership beside it.
pub fn load(path: &Path, role: Role) -> Outcome<Arc<Identity>> {
    let identity = load_with_role(path, role.as_str())?;
    let found = identity.metadata().role;
    if found != role {
        return Err(Failure::setup_text(format!(
            "key file {} names a {}, not a {}; make another: rhumb keygen --role {} --out FILE",
            path.display(),
            found.as_str(),
            role.as_str(),
            role.as_str()
        )));
    }
    Ok(Arc::new(identity))
}

/// The role of the key in `path`, if it can be read without more than the file.
pub fn role_of(path: &Path) -> Option<Role> {
    let passphrase = passphrase(None).ok()?;
    load_key(path, passphrase.as_ref()).ok().map(|identity| identity.metadata().role)
}

/// The identity in `path`, of whatever role, with the membership beside it.
pub fn load_any(path: &Path) -> Outcome<Identity> {
    load_with_role(path, "domain")
}

/// The identity in `path`, of whatever role, who says something of its own.
pub fn load_owner(path: &Path) -> Outcome<Identity> {
    load_with_role(path, "node")
}

/// `role`: of a key that could be made instead, if there is none.
fn load_with_role(path: &Path, role: &str) -> Outcome<Identity> {
    let identity = load_key(path, passphrase(None)?.as_ref()).map_err(|error| match error {
        TrustError::KeyFile { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            Failure::setup_text(format!(
                "no key file {path}; make one: rhumb keygen --role {role} --out {path}",
                path = path.display(),
            ))
        }
        TrustError::PassphraseNeeded { .. } => Failure::setup_text(format!(
            "key file {} is sealed; give its passphrase in {PASSPHRASE_VARIABLE}",
            path.display()
        )),
        error => Failure::setup(error),
    })?;
    let beside = path.with_extension("membership");
    if !beside.exists() {
        return Ok(identity);
    }
    let membership = Membership::load(&beside);
    membership.and_then(|membership| identity.with_membership(membership)).map_err(|error| {
        Failure::setup_text(format!(
            "{}: {error}; it lies beside the key {}: get it from the domain once more, or move it away",
            beside.display(),
            path.display()
        ))
    })
}

/// The identity in `path`, or a fresh one that is forgotten when the process ends.
pub fn load_or_ephemeral(path: Option<&Path>) -> Outcome<Arc<Identity>> {
    match path {
        Some(path) => load(path, Role::Node),
        None => Identity::generate(Role::Node, clock::now().unix_s())
            .map(Arc::new)
            .map_err(Failure::operation),
    }
}

/// A fresh identity, with a few words in its metadata if there are any.
pub fn make(role: Role, label: Option<&str>) -> Outcome<Identity> {
    let created_s = clock::now().unix_s();
    let Some(label) = label else {
        return Identity::generate(role, created_s).map_err(Failure::operation);
    };
    let mut refused = None;
    let identity = Identity::generate_with(|key| {
        let plain = Metadata::new(role, key, created_s);
        plain.clone().with_attribute(LABEL, label).unwrap_or_else(|error| {
            refused = Some(error);
            plain
        })
    })
    .map_err(Failure::operation)?;
    match refused {
        Some(error) => Err(Failure::setup_text(format!("the label cannot be used: {error}"))),
        None => Ok(identity),
    }
}

/// Writes a new key file, sealed if there is a passphrase.
pub fn save(path: &Path, identity: &Identity, passphrase: Option<&Passphrase>) -> Outcome {
    save_key(path, identity, passphrase).map_err(|error| match error {
        TrustError::KeyFile { source, .. }
            if source.kind() == std::io::ErrorKind::AlreadyExists =>
        {
            Failure::setup_text(format!(
                "key file {} exists and is never overwritten; give another with --out",
                path.display()
            ))
        }
        error => Failure::setup(error),
    })
}

/// A fresh secret from the system's generator.
pub fn fresh_secret() -> Outcome<[u8; 32]> {
    let mut secret = [0; 32];
    aws_lc_rs::rand::fill(&mut secret)
        .map_err(|_| Failure::operation_text("the system's random number generator failed"))?;
    Ok(secret)
}
