//! What bindings for other languages share: keys with what lies beside them, routers and rules as
//! text, errors by what a program can do about them, and what it takes to be in a process that is
//! somebody else's.
//!
//! | part | what it holds |
//! |---|---|
//! | `fault` | errors, with numbers that stay |
//! | `files` | a file that is sent or received, by its path |
//! | `here` | values of one process, of which a fork makes copies that are good for nothing |
//! | `network` | joining by the label of a network that this host is a member of |
//! | `runtime` | the one thread on which futures are, for callers that have no runtime |
//! | `both_ways` | a stream that is read and written by two at once |

mod both_ways;
mod fault;
mod files;
mod here;
mod network;
mod runtime;

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rhumb_end::Admits;
use rhumb_trust::{AdCert, Identity, Membership, Passphrase, Window, load_key, max_lifetime_s};
use rhumb_wire::{Name, Role, Statement};

pub use both_ways::BothWays;
pub use fault::{Fault, FaultKind};
pub use files::{receive_file, send_file};
pub use here::Here;
pub use network::{Entrance, check_nobody_is};
pub use runtime::runtime;

use crate::Remote;
use crate::clock::now;

/// A fresh identity.
///
/// # Errors
/// When the library cannot make a key.
pub fn generate(role: Role) -> Result<Identity, Fault> {
    Ok(Identity::generate(role, now().unix_s())?)
}

/// The identity in a key file, with the membership that lies beside it (`NAME.membership` beside
/// `NAME.key`), as all commands have it. Deriving the key of a sealed file takes a moment.
///
/// # Errors
/// When either cannot be read, others may read the key, or the membership is another name's.
pub fn load_identity(path: &Path, passphrase: Option<&Passphrase>) -> Result<Identity, Fault> {
    let identity = load_key(path, passphrase)?;
    let beside = path.with_extension("membership");
    if !beside.exists() {
        return Ok(identity);
    }
    let shown = Membership::load(&beside).and_then(|it| identity.with_membership(it));
    shown.map_err(|error| {
        let Fault { kind, text } = error.into();
        let (beside, path) = (beside.display(), path.display());
        let todo = "get it from the domain once more, or move it away";
        Fault { kind, text: format!("{beside}: {text}; it lies beside the key {path}: {todo}") }
    })
}

/// Who joins: the identity in a key file, or one that is forgotten when the process ends.
///
/// # Errors
/// As [`load_identity`], and when the key is that of a router, a RIB or a domain.
pub fn identity_of_node(
    path: Option<&Path>,
    passphrase: Option<&Passphrase>,
) -> Result<Arc<Identity>, Fault> {
    let identity = match path {
        Some(path) => load_identity(path, passphrase)?,
        None => generate(Role::Node)?,
    };
    check_role(&identity)?;
    Ok(Arc::new(identity))
}

/// Refuses whoever is no node.
///
/// # Errors
/// When the key is that of a router, a RIB, a domain or a capsule.
pub fn check_role(identity: &Identity) -> Result<(), Fault> {
    match identity.metadata().role {
        Role::Node => Ok(()),
        role => Err(Fault::new(
            FaultKind::KeyFile,
            format!("this key names a {}, not a node; make one for a node", role.as_str()),
        )),
    }
}

/// A role by its word.
///
/// # Errors
/// When there is none of this word.
pub fn parse_role(word: &str) -> Result<Role, Fault> {
    let all = [Role::Node, Role::Capsule, Role::Domain, Role::Router, Role::Rib];
    let found = all.into_iter().find(|role| role.as_str() == word);
    found.ok_or_else(|| Fault::invalid(format!("`{word}` is no role; node and capsule are")))
}

/// Lets `server` answer for `owner` from now on, for so many seconds, and nobody else.
///
/// # Errors
/// When that is longer than an AdCert may last, or the owner is the server itself.
pub fn certify(owner: &Identity, server: Name, lifetime_s: u64) -> Result<AdCert, Fault> {
    let unix = now().unix_s();
    let window = Window::starting(unix, lifetime_s);
    let (service, role) = (Statement::Service { server, several: false }, owner.metadata().role);
    let longest_s = max_lifetime_s(&service, role);
    if lifetime_s == 0 || lifetime_s > longest_s {
        return Err(Fault::invalid(format!(
            "an AdCert of a {} lasts from 1 s to {longest_s} s",
            role.as_str()
        )));
    }
    // As `rhumb certify` counts them: milliseconds since 1970.
    let sequence = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let sequence = u64::try_from(sequence).unwrap_or(u64::MAX);
    Ok(AdCert::sign(owner, server, sequence, window)?)
}

/// A name by its text.
///
/// # Errors
/// When it is none.
pub fn parse_name(text: &str) -> Result<Name, Fault> {
    text.parse().map_err(|error| Fault::invalid(format!("`{text}` is not a name: {error}")))
}

/// A router by `NAME@ADDRESS`, or by its address alone, where whoever answers is believed. Asks
/// the system for the address of a host that is given by name.
///
/// # Errors
/// When it is neither, or nobody knows the host.
pub async fn find_router(text: &str) -> Result<Remote, Fault> {
    let (name, address) = match text.split_once('@') {
        Some((name, address)) => (Some(parse_name(name)?), address),
        None => (None, text),
    };
    if let Ok(address) = address.parse() {
        return Ok(Remote { address, name });
    }
    let port = address.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    if !matches!(port, Some(Ok(_))) {
        let example = "NAME@192.0.2.1:7460";
        return Err(Fault::invalid(format!("`{text}` is not a router; give one like {example}")));
    }
    let unknown = |why: &dyn fmt::Display| {
        Fault::new(FaultKind::Unreachable, format!("cannot find the host `{address}`: {why}"))
    };
    let mut found = tokio::net::lookup_host(address).await.map_err(|error| unknown(&error))?;
    let address = found.next().ok_or_else(|| unknown(&"it has no address"))?;
    Ok(Remote { address, name })
}

/// Who may use a port: `everybody` alone, or any number of names, and of `domain:NAME` for the
/// members of a trust domain who may *join* there. None at all lets nobody in.
///
/// # Errors
/// When a word is none of these.
pub fn parse_admits<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Admits, Fault> {
    let (mut names, mut domains, mut everybody) = (HashSet::new(), HashSet::new(), false);
    for word in words {
        match word.strip_prefix(DOMAIN) {
            Some(domain) => {
                domains.insert(parse_name(domain)?);
            }
            None if word == EVERYBODY => everybody = true,
            None => {
                names.insert(parse_name(word)?);
            }
        }
    }
    match everybody {
        false => Ok(Admits::Chosen { names, domains }),
        true if names.is_empty() && domains.is_empty() => Ok(Admits::Everybody),
        true => Err(Fault::invalid("`everybody` stands alone; leave it out, or the names")),
    }
}

/// What lets everybody use a port.
pub const EVERYBODY: &str = "everybody";
/// What stands before a domain whose members may use a port.
const DOMAIN: &str = "domain:";

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Name = Name([7; 32]);

    #[test]
    fn who_may_use_a_port_is_said_in_words() {
        let domain = format!("domain:{NAME}");
        assert_eq!(parse_admits(["everybody"]), Ok(Admits::Everybody));
        let nobody = Admits::Chosen { names: HashSet::new(), domains: HashSet::new() };
        assert_eq!(parse_admits([]), Ok(nobody));
        let both = Admits::Chosen { names: [NAME].into(), domains: [NAME].into() };
        assert_eq!(parse_admits([&*NAME.to_string(), &domain]), Ok(both));
    }

    #[test]
    fn a_rule_that_is_not_understood_lets_nobody_in() {
        for words in [&["everyone"][..], &[""], &["domain:"], &["everybody", "domain:x"]] {
            let refused = parse_admits(words.iter().copied());
            assert_eq!(refused.unwrap_err().kind, FaultKind::Invalid, "{words:?}");
        }
        let name = NAME.to_string();
        assert!(parse_admits(["everybody", &name]).unwrap_err().text.contains("stands alone"));
    }

    #[test]
    fn a_key_of_another_role_does_not_join() {
        let fault = check_role(&generate(Role::Router).unwrap()).unwrap_err();
        assert_eq!(fault.kind, FaultKind::KeyFile);
        assert!(fault.text.contains("names a router"), "{fault}");
        assert!(check_role(&generate(Role::Node).unwrap()).is_ok());
    }
}
