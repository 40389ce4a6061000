//! The key schedule: from what DTLS exports to the secret of each
//! lane and the keys of each epoch. `docs/spec.md`.
//!
//! ```text
//! export (88 bytes) = client_key 32 | server_key 32 | client_salt 12 | server_salt 12
//! root = HKDF-Extract(salt = "rhumb/1 root", ikm = key | salt), per direction
//! secret_0 = HKDF-Expand(root, "rhumb/1 lane" | u16 lane, 32)
//! key_n = HKDF-Expand(secret_n, "rhumb/1 key")
//! salt_n = HKDF-Expand(secret_n, "rhumb/1 salt", 12)
//! secret_n+1 = HKDF-Expand(secret_n, "rhumb/1 next", 32)
//! ```
//!
//! The export is as RFC 5764 and RFC 7714 have it; all with SHA-256. A secret is wiped when it is
//! replaced, so keys of past epochs cannot be derived again.

use std::fmt;

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use rhumb_wire::datagram::LANES;
use zeroize::Zeroizing;

use crate::Cipher;
use crate::aead::{PacketKey, SALT_LEN};

/// What a DTLS handshake exported, both directions.
pub(crate) struct ExportedKeys(Zeroizing<[u8; EXPORT_LEN]>);

impl ExportedKeys {
    /// `None` when `bytes` are not an export for AES-256-GCM.
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; EXPORT_LEN] = bytes.try_into().ok()?;
        Some(Self(Zeroizing::new(*bytes)))
    }

    /// The secrets of all lanes, to send and to receive with.
    /// Nothing else is made of the export, so it can go.
    pub(crate) fn lane_secrets(&self, client: bool) -> (LaneSecrets, LaneSecrets) {
        (LaneSecret::all(&self.direction(client)), LaneSecret::all(&self.direction(!client)))
    }

    /// Key and salt of what the client, or the server, sends.
    fn direction(&self, client: bool) -> Zeroizing<[u8; KEY_LEN + SALT_LEN]> {
        let (keys, salts) = self.0.split_at(2 * KEY_LEN);
        let (key, salt) = if client {
            (&keys[..KEY_LEN], &salts[..SALT_LEN])
        } else {
            (&keys[KEY_LEN..], &salts[SALT_LEN..])
        };
        let mut out = Zeroizing::new([0; KEY_LEN + SALT_LEN]);
        out[..KEY_LEN].copy_from_slice(key);
        out[KEY_LEN..].copy_from_slice(salt);
        out
    }
}

/// What the keys of one epoch of a lane, and the next epoch's secret, come from.
pub(crate) struct LaneSecret(Zeroizing<[u8; SECRET_LEN]>);

/// Those of each lane of one direction.
pub(crate) type LaneSecrets = [LaneSecret; LANES as usize];

impl LaneSecret {
    fn all(key_and_salt: &[u8; KEY_LEN + SALT_LEN]) -> LaneSecrets {
        let root = Salt::new(HKDF_SHA256, b"rhumb/1 root").extract(key_and_salt);
        std::array::from_fn(|lane| {
            Self(expand(&root, &[b"rhumb/1 lane", &(lane as u16).to_be_bytes()]))
        })
    }

    /// The secret of the next epoch.
    pub(crate) fn next(&self) -> Self {
        Self(expand(&self.prk(), &[b"rhumb/1 next"]))
    }

    /// The keys of this epoch.
    pub(crate) fn packet_key(&self, cipher: Cipher) -> PacketKey {
        let prk = self.prk();
        let salt = expand(&prk, &[b"rhumb/1 salt"]);
        match cipher {
            Cipher::Aes256Gcm => {
                let key: Zeroizing<[u8; 32]> = expand(&prk, &[b"rhumb/1 key"]);
                PacketKey::new(cipher, &*key, *salt)
            }
            Cipher::Aes128Gcm => {
                let key: Zeroizing<[u8; 16]> = expand(&prk, &[b"rhumb/1 key"]);
                PacketKey::new(cipher, &*key, *salt)
            }
        }
    }

    fn prk(&self) -> Prk {
        Prk::new_less_safe(HKDF_SHA256, &*self.0)
    }
}

impl fmt::Debug for ExportedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExportedKeys(..)")
    }
}

impl fmt::Debug for LaneSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LaneSecret(..)")
    }
}

fn expand<const N: usize>(prk: &Prk, info: &[&[u8]]) -> Zeroizing<[u8; N]> {
    let mut out = Zeroizing::new([0; N]);
    prk.expand(info, Bytes(N))
        .and_then(|okm| okm.fill(&mut *out))
        .expect("invariant: HKDF-SHA256 expands to anything below 8,160 bytes");
    out
}

struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

const KEY_LEN: usize = 32;
const SECRET_LEN: usize = 32;
/// RFC 7714, section 12: two master keys and two master salts.
pub(crate) const EXPORT_LEN: usize = 2 * (KEY_LEN + SALT_LEN);

#[cfg(test)]
mod vectors;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_mirror_and_differ() {
        let bytes: Vec<u8> = (0..EXPORT_LEN as u8).collect();
        let keys = ExportedKeys::new(&bytes).unwrap();
        let (client_sends, client_receives) = keys.lane_secrets(true);
        let (server_sends, server_receives) = keys.lane_secrets(false);
        let mut seen = std::collections::HashSet::new();
        for lane in 0..usize::from(LANES) {
            assert_eq!(client_sends[lane].0, server_receives[lane].0);
            assert_eq!(server_sends[lane].0, client_receives[lane].0);
            assert!(seen.insert(*client_sends[lane].0) && seen.insert(*server_sends[lane].0));
            assert!(seen.insert(*client_sends[lane].next().0));
        }
        assert!(ExportedKeys::new(&bytes[1..]).is_none());
    }

    #[test]
    fn debug_shows_no_secret() {
        let keys = ExportedKeys::new(&[0xA5; EXPORT_LEN]).unwrap();
        let [secret, ..] = keys.lane_secrets(true).0;
        assert_eq!(format!("{keys:?} {secret:?}"), "ExportedKeys(..) LaneSecret(..)");
    }
}
