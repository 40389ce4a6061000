//! Key files: one name and its private key, readable by their
//! owner only, sealed by a passphrase if wished.
//!
//! ```text
//! rhumb-key 1
//! name <52 characters>
//! metadata <hex>
//! seal none                                     or: seal pbkdf2-sha256 <iterations> <salt, hex>
//! key <hex of PKCS #8 DER, or of its AES-256-GCM ciphertext and tag>
//! ```
//!
//! A sealed key's AEAD key comes from PBKDF2 with a fresh salt each time, so the all-zero nonce is
//! used once per key; the three lines above the key are its associated data. A file that others may
//! read is refused, and a file is never overwritten.
//!
//! Who may read a file is known on Unix. On Windows that is said by access lists, which a file
//! inherits of its folder and nobody looks at here: a key lies in a folder of its user's own, as
//! below the profile, or is sealed.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZeroU32;
#[cfg(unix)]
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{pbkdf2, rand};
use data_encoding::HEXLOWER;
use rhumb_wire::Metadata;
use zeroize::Zeroizing;

use crate::verify::name_of;
use crate::{Identity, TrustError};

/// What opens a sealed key file. Not shown, not cloned, wiped when dropped.
pub struct Passphrase(Zeroizing<String>);

impl Passphrase {
    /// Takes the passphrase over.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl std::fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Passphrase(..)")
    }
}

/// Writes a new key file of mode 0600, durably.
///
/// # Errors
/// When the file exists or cannot be written.
pub fn save_key(
    path: &Path,
    identity: &Identity,
    passphrase: Option<&Passphrase>,
) -> Result<(), TrustError> {
    let text = encode(identity, passphrase)?;
    let io_error = |source| TrustError::KeyFile { path: path.to_owned(), source };
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    options.mode(0o600);
    let mut file = options.open(path).map_err(io_error)?;
    file.write_all(text.as_bytes()).map_err(io_error)?;
    file.sync_all().map_err(io_error)
}

/// Reads a key file.
///
/// # Errors
/// When others may read it, it is damaged, or the passphrase is missing or wrong.
pub fn load_key(path: &Path, passphrase: Option<&Passphrase>) -> Result<Identity, TrustError> {
    let io_error = |source| TrustError::KeyFile { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(io_error)?;
    // The open file is asked, not the path: nobody can exchange it in between.
    #[cfg(unix)]
    {
        let mode = file.metadata().map_err(io_error)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(TrustError::KeyFileTooOpen { path: path.to_owned(), mode });
        }
    }
    let mut text = Zeroizing::new(String::new());
    (&mut file).take(MAX_FILE_LEN).read_to_string(&mut text).map_err(io_error)?;
    decode(&text, passphrase).map_err(|fault| match fault {
        Fault::Line(line) => TrustError::KeyFileMalformed { path: path.to_owned(), line },
        Fault::PassphraseNeeded => TrustError::PassphraseNeeded { path: path.to_owned() },
        Fault::WrongPassphrase => TrustError::WrongPassphrase { path: path.to_owned() },
        Fault::Key(source) => {
            TrustError::KeyFileBadKey { path: path.to_owned(), source: Box::new(source) }
        }
    })
}

enum Fault {
    Line(usize),
    PassphraseNeeded,
    WrongPassphrase,
    Key(TrustError),
}

fn encode(
    identity: &Identity,
    passphrase: Option<&Passphrase>,
) -> Result<Zeroizing<String>, TrustError> {
    let metadata = HEXLOWER.encode(&identity.metadata().emit());
    let head = format!("{MAGIC}\nname {}\nmetadata {metadata}\n", identity.name());
    let (seal, key) = match passphrase {
        None => ("none".to_owned(), Zeroizing::new(identity.pkcs8_der().to_vec())),
        Some(passphrase) => {
            let mut salt = [0; SALT_LEN];
            rand::fill(&mut salt).map_err(|_| TrustError::Crypto)?;
            let mut key = Zeroizing::new(identity.pkcs8_der().to_vec());
            sealing_key(passphrase, &salt, PBKDF2_ITERATIONS)
                .and_then(|aead| {
                    aead.seal_in_place_append_tag(nonce(), Aad::from(head.as_bytes()), &mut *key)
                        .ok()
                })
                .ok_or(TrustError::Crypto)?;
            (format!("pbkdf2-sha256 {PBKDF2_ITERATIONS} {}", HEXLOWER.encode(&salt)), key)
        }
    };
    let key = Zeroizing::new(HEXLOWER.encode(&key));
    Ok(Zeroizing::new(format!("{head}seal {seal}\nkey {}\n", *key)))
}

fn decode(text: &str, passphrase: Option<&Passphrase>) -> Result<Identity, Fault> {
    let mut lines = text.lines();
    if lines.next() != Some(MAGIC) {
        return Err(Fault::Line(1));
    }
    let mut field = |label: &str, number: usize| {
        let line = lines.next().ok_or(Fault::Line(0))?;
        line.strip_prefix(label).and_then(|rest| rest.strip_prefix(' ')).ok_or(Fault::Line(number))
    };
    let name = field("name", 2)?;
    let metadata_hex = field("metadata", 3)?;
    let seal = field("seal", 4)?;
    let key = field("key", 5)?;
    let bytes = HEXLOWER.decode(metadata_hex.as_bytes()).map_err(|_| Fault::Line(3))?;
    let metadata = Metadata::parse(&bytes).map_err(|_| Fault::Line(3))?;
    if name.parse() != Ok(name_of(&metadata)) {
        return Err(Fault::Line(2));
    }
    let mut key = Zeroizing::new(HEXLOWER.decode(key.as_bytes()).map_err(|_| Fault::Line(5))?);
    if seal != "none" {
        let passphrase = passphrase.ok_or(Fault::PassphraseNeeded)?;
        let (iterations, salt) = parse_seal(seal).ok_or(Fault::Line(4))?;
        let head = format!("{MAGIC}\nname {name}\nmetadata {metadata_hex}\n");
        let aead = sealing_key(passphrase, &salt, iterations).ok_or(Fault::Line(4))?;
        let len = aead
            .open_in_place(nonce(), Aad::from(head.as_bytes()), &mut key)
            .map_err(|_| Fault::WrongPassphrase)?
            .len();
        key.truncate(len);
    }
    Identity::from_parts(metadata, key).map_err(Fault::Key)
}

fn parse_seal(seal: &str) -> Option<(u32, [u8; SALT_LEN])> {
    let (iterations, salt) = seal.strip_prefix("pbkdf2-sha256 ")?.split_once(' ')?;
    let iterations = iterations.parse().ok().filter(|n| (1..=MAX_PBKDF2_ITERATIONS).contains(n))?;
    Some((iterations, HEXLOWER.decode(salt.as_bytes()).ok()?.try_into().ok()?))
}

fn sealing_key(passphrase: &Passphrase, salt: &[u8], iterations: u32) -> Option<LessSafeKey> {
    let mut key = Zeroizing::new([0; 32]);
    let iterations = NonZeroU32::new(iterations)?;
    pbkdf2::derive(
        pbkdf2::PBKDF2_HMAC_SHA256,
        iterations,
        salt,
        passphrase.0.as_bytes(),
        &mut *key,
    );
    Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*key).ok()?))
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

const MAGIC: &str = "rhumb-key 1";
const SALT_LEN: usize = 16;
/// OWASP's recommendation of 2023 for PBKDF2 with HMAC-SHA-256; about 0.1 s.
const PBKDF2_ITERATIONS: u32 = 600_000;
/// A damaged file must not make us count for hours.
const MAX_PBKDF2_ITERATIONS: u32 = 100_000_000;
/// Several times the largest key file.
const MAX_FILE_LEN: u64 = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::Role;
    use std::fs;

    #[test]
    fn a_key_survives_its_file_sealed_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let identity = Identity::generate(Role::Router, 3).unwrap();
        let passphrase = Passphrase::new("correct horse".to_owned());
        for (file, seal) in [("plain.key", None), ("sealed.key", Some(&passphrase))] {
            let path = folder.path().join(file);
            save_key(&path, &identity, seal).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            let loaded = load_key(&path, seal).unwrap();
            assert_eq!(loaded.name(), identity.name());
            assert_eq!(loaded.pkcs8_der(), identity.pkcs8_der());
            assert!(matches!(save_key(&path, &identity, None), Err(TrustError::KeyFile { .. })));
        }
        let sealed = folder.path().join("sealed.key");
        assert!(matches!(load_key(&sealed, None), Err(TrustError::PassphraseNeeded { .. })));
        let wrong = Passphrase::new("battery staple".to_owned());
        assert!(matches!(load_key(&sealed, Some(&wrong)), Err(TrustError::WrongPassphrase { .. })));
        let text = fs::read_to_string(&sealed).unwrap();
        assert!(!text.contains(&HEXLOWER.encode(&identity.pkcs8_der()[30..60])));
        assert_eq!(format!("{passphrase:?}"), "Passphrase(..)");
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        save_key(&path, &Identity::generate(Role::Node, 3).unwrap(), None).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o666] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = load_key(&path, None).unwrap_err();
            assert!(matches!(error, TrustError::KeyFileTooOpen { mode: seen, .. } if seen == mode));
            assert!(error.to_string().contains("chmod 600"));
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert!(load_key(&path, None).is_ok());
    }

    #[test]
    fn a_file_with_another_key_in_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mixed.key");
        let line_of = |text: &str, number: usize| text.lines().nth(number).unwrap().to_owned();
        let own = encode(&Identity::generate(Role::Node, 3).unwrap(), None).ok().unwrap();
        let other = encode(&Identity::generate(Role::Node, 3).unwrap(), None).ok().unwrap();
        let zeros = format!("key {}", "0".repeat(line_of(&own, 4).len() - 4));
        for key in [line_of(&other, 4), zeros] {
            fs::write(&path, own.replace(&line_of(&own, 4), &key)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let error = load_key(&path, None).unwrap_err();
            assert!(matches!(error, TrustError::KeyFileBadKey { .. }), "{error}");
            assert!(error.to_string().contains("mixed.key"), "{error}");
        }
    }

    #[test]
    fn every_damaged_line_is_named() {
        let text = encode(&Identity::generate(Role::Node, 3).unwrap(), None).ok().unwrap();
        let line_of = |text: &str| match decode(text, None) {
            Err(Fault::Line(line)) => Some(line),
            _ => None,
        };
        assert_eq!(line_of(&text), None);
        for (number, line) in text.lines().enumerate() {
            let damaged = text.replace(line, "x");
            assert_eq!(line_of(&damaged), Some(number + 1));
            let short: String = text.lines().take(number).flat_map(|l| [l, "\n"]).collect();
            assert!(line_of(&short).is_some());
        }
    }
}
