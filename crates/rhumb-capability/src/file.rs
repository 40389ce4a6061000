//! Capability files: a credential as text, to hand over.
//! A principal's own, and delegated ones alike.
//!
//! ```text
//! rhumb-capability 1
//! waypoint 192.0.2.1
//! principal 7
//! flags 0
//! window 830078
//! epoch 3
//! suite header-aes
//! scheme caveat-chain
//! delegation 10.0.0.0/8 17            none to three of them
//! not-after 1700003600
//! secret <32 digits of hex>           of an XOR delegation two, with a space between
//! ```
//!
//! One text per credential: lines in this order, numbers without leading zeros.
//! Whoever reads it can send at the principal's cost, so a file that others may read
//! is refused, and a file is never overwritten.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::str::FromStr;

use zeroize::Zeroizing;

use crate::credential::Held;
use crate::{
    Capability, CapabilityError, Credential, Delegation, DelegationId, Delegations, Epoch, Flags,
    Principal, Scheme, Secret, Window,
};

/// The text of a credential.
pub fn encode(credential: &Credential) -> Zeroizing<String> {
    let capability = credential.capability();
    let mut text = Zeroizing::new(String::with_capacity(MAX_FILE_LEN as usize));
    let _ = write!(
        text,
        "{MAGIC}\nwaypoint {}\nprincipal {}\nflags {}\nwindow {}\nepoch {}\nsuite {}\nscheme {}\n",
        capability.waypoint,
        capability.principal,
        capability.flags.bits(),
        capability.window.0,
        capability.epoch.0,
        capability.suite,
        capability.scheme,
    );
    for delegation in capability.delegations.iter() {
        let _ = writeln!(text, "delegation {} {}", delegation.prefix, delegation.id);
    }
    let _ = writeln!(text, "not-after {}", credential.not_after_s());
    let _ = match credential.held() {
        Held::One(secret) => writeln!(text, "secret {}", *secret.to_hex()),
        Held::Two(key, tail) => writeln!(text, "secret {} {}", *key.to_hex(), *tail.to_hex()),
    };
    text
}

/// Reads the text of a credential.
///
/// # Errors
/// [`CapabilityError::FileLine`] with the first line that is not as it has to be.
pub fn decode(text: &str) -> Result<Credential, CapabilityError> {
    let mut lines = Lines { rest: text, number: 0 };
    lines.exactly(MAGIC)?;
    let waypoint = lines.field("waypoint")?;
    let principal = Principal(lines.field("principal")?);
    let flags = lines.field("flags").map(Flags::from_bits)?.ok_or(lines.here())?;
    let window = Window(lines.field("window")?);
    let epoch = Epoch(lines.field("epoch")?);
    let suite = lines.field("suite")?;
    let scheme = lines.field("scheme")?;
    let mut capability = Capability {
        waypoint,
        principal,
        flags,
        window,
        epoch,
        suite,
        scheme,
        delegations: Delegations::default(),
    };
    while let Some(line) = lines.next_if("delegation ") {
        let delegation = delegation(line, &capability).ok_or(lines.here())?;
        capability.delegations.push(delegation).map_err(|_| lines.here())?;
    }
    let not_after_s = lines.field("not-after")?;
    let secret = lines.value("secret")?;
    let held = held(secret, &capability).ok_or(lines.here())?;
    let credential = Credential::from_parts(capability, held, not_after_s);
    // What is written otherwise than we would: leading zeros, other
    // spellings of an address, text after the end.
    let again = encode(&credential);
    let differs = again.lines().zip(text.lines()).position(|(ours, theirs)| ours != theirs);
    match differs {
        Some(at) => Err(CapabilityError::FileLine { line: at + 1 }),
        None if again.len() != text.len() => {
            Err(CapabilityError::FileLine { line: lines.number + 1 })
        }
        None => Ok(credential),
    }
}

/// Writes a new file of mode 0600, durably.
///
/// # Errors
/// When the file exists or cannot be written.
pub fn save(path: &Path, credential: &Credential) -> Result<(), CapabilityError> {
    let io_error = |source| CapabilityError::File { path: path.to_owned(), source };
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(io_error)?;
    file.write_all(encode(credential).as_bytes()).map_err(io_error)?;
    file.sync_all().map_err(io_error)
}

/// Reads a file.
///
/// # Errors
/// When others may read it, it cannot be read, or holds no credential.
pub fn load(path: &Path) -> Result<Credential, CapabilityError> {
    let io_error = |source| CapabilityError::File { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(io_error)?;
    // The open file is asked, not the path: nobody can exchange it in between.
    let mode = file.metadata().map_err(io_error)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(CapabilityError::FileTooOpen { path: path.to_owned(), mode });
    }
    let mut text = Zeroizing::new(String::with_capacity(MAX_FILE_LEN as usize));
    (&mut file).take(MAX_FILE_LEN).read_to_string(&mut text).map_err(io_error)?;
    decode(&text)
}

struct Lines<'a> {
    rest: &'a str,
    number: usize,
}

impl<'a> Lines<'a> {
    fn here(&self) -> CapabilityError {
        CapabilityError::FileLine { line: self.number }
    }

    fn next(&mut self) -> Result<&'a str, CapabilityError> {
        let (line, rest) =
            self.rest.split_once('\n').ok_or(CapabilityError::FileLine { line: 0 })?;
        self.rest = rest;
        self.number += 1;
        Ok(line)
    }

    fn next_if(&mut self, label: &str) -> Option<&'a str> {
        self.rest.starts_with(label).then(|| self.next().ok()?.strip_prefix(label)).flatten()
    }

    fn exactly(&mut self, line: &str) -> Result<(), CapabilityError> {
        if self.next()? == line { Ok(()) } else { Err(self.here()) }
    }

    fn value(&mut self, label: &str) -> Result<&'a str, CapabilityError> {
        let line = self.next()?;
        let value = line.strip_prefix(label).and_then(|rest| rest.strip_prefix(' '));
        value.ok_or(self.here())
    }

    fn field<T: FromStr>(&mut self, label: &str) -> Result<T, CapabilityError> {
        let value = self.value(label)?;
        value.parse().map_err(|_| self.here())
    }
}

/// A delegation that `capability` can have.
fn delegation(line: &str, capability: &Capability) -> Option<Delegation> {
    let (prefix, id) = line.split_once(' ')?;
    let prefix: crate::Prefix = prefix.parse().ok()?;
    let id = DelegationId::new(id.parse().ok()?)?;
    let is_reference = capability.scheme != Scheme::CaveatChain;
    let is_other_family = prefix.address().is_ipv4() != capability.waypoint.is_ipv4();
    let is_second = is_reference && !capability.delegations.is_empty();
    let is_xor_reply = capability.scheme == Scheme::Xor && prefix.is_host();
    let fits = !is_other_family && !is_second && !is_xor_reply;
    fits.then_some(Delegation { prefix, id })
}

fn held(text: &str, capability: &Capability) -> Option<Held> {
    let is_reference = capability.scheme != Scheme::CaveatChain;
    if is_reference && !capability.waypoint.is_ipv4() {
        return None;
    }
    if capability.scheme == Scheme::Xor && !capability.delegations.is_empty() {
        let (key, tail) = text.split_once(' ')?;
        return Some(Held::Two(Secret::from_hex(key)?, Secret::from_hex(tail)?));
    }
    Some(Held::One(Secret::from_hex(text)?))
}

const MAGIC: &str = "rhumb-capability 1";
/// Twice the longest file. Buffers of this size are not
/// grown, so no copy of a secret is left behind.
const MAX_FILE_LEN: u64 = 1024;
