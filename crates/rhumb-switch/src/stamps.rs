//! Capabilities for peers that demand them: which one a PDU is stamped with.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use rhumb_capability::{CapabilityError, Credential, Encapsulation, PacketIds, Stamper};
use rhumb_wire::Name;

use crate::border::{short_address, short_addresses};

/// A capability for a peer.
#[derive(Debug)]
pub struct Stamp {
    /// Who demands it: a router.
    pub peer: Name,
    /// For PDUs of whom.
    pub source: NamePrefix,
    /// What it is.
    pub credential: Credential,
}

/// Names that begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NamePrefix {
    first: [u8; Name::LEN],
    /// Bits.
    len: usize,
}

impl NamePrefix {
    /// All names.
    pub const ANY: Self = Self { first: [0; Name::LEN], len: 0 };

    /// The first characters of names' text; `None` when no name begins so.
    pub fn parse(text: &str) -> Option<Self> {
        let len = text.len() * BITS_A_CHARACTER;
        // The last character of a whole name stands for one bit.
        if len >= Name::LEN * 8 || !text.is_ascii() {
            return text.parse::<Name>().ok().map(|name| Self { first: name.0, len: 256 });
        }
        let filled = format!("{text:a<width$}", width = Name::TEXT_LEN);
        filled.parse::<Name>().ok().map(|name| Self { first: name.0, len })
    }

    /// Whether a name begins so.
    pub fn contains(&self, name: &Name) -> bool {
        let (bytes, bits) = (self.len / 8, self.len % 8);
        let rest = |of: &[u8; Name::LEN]| match bits {
            0 => 0,
            bits => of[bytes] >> (8 - bits),
        };
        self.first[..bytes] == name.0[..bytes] && rest(&self.first) == rest(&name.0)
    }
}

/// All capabilities of a router.
pub struct Stamps {
    peers: HashMap<Name, Vec<(NamePrefix, Stamper)>, RandomState>,
    ids: PacketIds,
}

impl Stamps {
    /// Of those that a PDU may be stamped with, the one for the longest beginning of its source's
    /// name is taken; of several, the one that ends first: so that of the next window is used when
    /// the present one's is over. `random` tells the stamps of one run from those of another.
    ///
    /// # Errors
    /// When a capability is for another waypoint than its peer.
    pub fn new(
        stamps: impl IntoIterator<Item = Stamp>,
        random: u32,
    ) -> Result<Self, CapabilityError> {
        let mut peers: HashMap<Name, Vec<_>, RandomState> = HashMap::default();
        for Stamp { peer, source, credential } in stamps {
            if credential.capability().waypoint != short_address(&peer) {
                return Err(CapabilityError::BadParameter("the waypoint of a capability"));
            }
            let stamper = Stamper::new(&[&credential], Encapsulation::Datagram)?;
            peers.entry(peer).or_default().push((source, stamper));
        }
        for stampers in peers.values_mut() {
            stampers
                .sort_by_key(|(source, stamper)| (usize::MAX - source.len, stamper.not_after_s()));
        }
        Ok(Self { peers, ids: PacketIds::new(0, random) })
    }

    /// There will be capabilities for a peer: until then,
    /// nothing that has to be stamped goes there.
    pub fn expect(&mut self, peer: Name) {
        self.peers.entry(peer).or_default();
    }

    /// Each peer, and the last second in which there is a capability for it, as far as is known.
    pub fn peers(&self) -> impl Iterator<Item = (Name, Option<u64>)> {
        self.peers.iter().map(|(peer, stampers)| {
            (*peer, stampers.iter().map(|(_, stamper)| stamper.not_after_s()).max())
        })
    }

    /// Whether there are, or were, capabilities for a peer: then it is sent nothing unstamped.
    pub(crate) fn are_for(&self, peer: &Name) -> bool {
        self.peers.contains_key(peer)
    }

    /// Bytes by which a PDU to `peer` grows, at most.
    pub(crate) fn overhead(&self, peer: &Name) -> usize {
        let stampers = self.peers.get(peer).into_iter().flatten();
        stampers.map(|(_, stamper)| stamper.headroom()).max().unwrap_or(0)
    }

    /// What a PDU of these names to `peer` is stamped with now, and where its id comes from.
    pub(crate) fn choose(
        &mut self,
        peer: &Name,
        names: &[u8; 64],
        now_s: u64,
    ) -> Option<(&Stamper, &mut PacketIds)> {
        let (source, _) = crate::flows::split_names(names);
        let (_, destination) = short_addresses(names);
        let mut all = self.peers.get(peer)?.iter();
        let fits = |(prefix, stamper): &&(NamePrefix, Stamper)| {
            prefix.contains(&source)
                && now_s + MARGIN_S <= stamper.not_after_s()
                && stamper.allows(destination)
        };
        all.find(fits).map(|(_, stamper)| (stamper, &mut self.ids))
    }
}

/// Of the text of a name (base32).
const BITS_A_CHARACTER: usize = 5;
/// What is stamped in the last second of a capability could arrive in the next.
const MARGIN_S: u64 = 1;
