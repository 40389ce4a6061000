//! Networks that lie behind names, so that two sites are joined: what this host says lies behind
//! it, and what it lets lie behind others.
//!
//! 1. A name says what lies behind it to who asks it over a connection, which proves the name
//!    ([`emit`]); nobody else has to believe it, so it is signed no further.
//! 2. Whoever asks takes of that what its own settings let lie behind this name ([`Sites::hear`]):
//!    no name leads anything to itself that its peer did not mean it to.
//!
//! INVARIANT: a packet is taken from a name with a source that is its own address, or is behind it
//! by its word and by this host's; and nothing of this host's networks is ever behind another.

use std::net::IpAddr;

use ipnet::IpNet;
use rhumb_wire::Name;

/// What lies behind this host, and behind others.
#[derive(Debug, Clone, Default)]
pub struct Sites {
    own: Vec<IpNet>,
    accepted: Vec<(IpNet, Name)>,
    /// What of that the names have said, the longest first.
    said: Vec<(IpNet, Name)>,
}

/// Why networks cannot lie so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SiteError {
    /// It has everything in it.
    #[error("{0} is everything, the way to routers included; give networks")]
    Everything(IpNet),
    /// Names have these addresses.
    #[error("{0} has addresses of names in it, fd00::/8, which are nobody else's")]
    OfNames(IpNet),
    /// They overlap, and are to lie behind this host and another one, or two others.
    #[error("{0} and {1} overlap, and are to lie behind different hosts")]
    Overlap(IpNet, IpNet),
    /// There are more than one message carries.
    #[error("at most {MOST} networks")]
    TooMany,
}

/// Where a packet goes by its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    To(Name),
    /// Nobody has said that it lies behind him.
    Nowhere,
    /// It is in none of the networks.
    Elsewhere,
}

impl Sites {
    /// `own` lies behind this host, and these may lie behind these names.
    ///
    /// # Errors
    /// When they cannot.
    pub fn new(own: &[IpNet], accepted: &[(IpNet, Name)]) -> Result<Self, SiteError> {
        let own: Vec<IpNet> = own.iter().map(IpNet::trunc).collect();
        let accepted: Vec<_> = accepted.iter().map(|(net, name)| (net.trunc(), *name)).collect();
        if own.len() > MOST || accepted.len() > MOST {
            return Err(SiteError::TooMany);
        }
        let owners = own.iter().map(|net| (*net, None));
        let all: Vec<_> =
            owners.chain(accepted.iter().map(|(net, name)| (*net, Some(*name)))).collect();
        for (at, (net, owner)) in all.iter().enumerate() {
            if net.prefix_len() == 0 {
                return Err(SiteError::Everything(*net));
            }
            if is_of_names(net) {
                return Err(SiteError::OfNames(*net));
            }
            let others = all[..at].iter().filter(|(_, other)| other != owner);
            if let Some((other, _)) = others.into_iter().find(|(other, _)| overlap(net, other)) {
                return Err(SiteError::Overlap(*other, *net));
            }
        }
        Ok(Self { own, accepted, said: Vec::new() })
    }

    /// What lies behind this host.
    pub fn own(&self) -> &[IpNet] {
        &self.own
    }

    /// What may lie behind which names.
    pub fn accepted(&self) -> &[(IpNet, Name)] {
        &self.accepted
    }

    /// What does, by their own word, too.
    pub fn said(&self) -> &[(IpNet, Name)] {
        &self.said
    }

    /// `name` says what lies behind it, in place of what it has said before. Returns what of that
    /// this host does not let lie there.
    pub fn hear(&mut self, name: Name, networks: Vec<IpNet>) -> Vec<IpNet> {
        let lets = |net: &IpNet| {
            self.accepted.iter().any(|(outer, of)| *of == name && outer.contains(net))
        };
        let (taken, others): (Vec<_>, Vec<_>) = networks.into_iter().partition(lets);
        self.said.retain(|(_, of)| *of != name);
        self.said.extend(taken.into_iter().map(|net| (net, name)));
        self.said.sort_by_key(|(net, _)| std::cmp::Reverse(net.prefix_len()));
        others
    }

    pub(super) fn way(&self, destination: &IpAddr) -> Way {
        if let Some((_, name)) = self.said.iter().find(|(net, _)| net.contains(destination)) {
            return Way::To(*name);
        }
        match self.accepted.iter().any(|(net, _)| net.contains(destination)) {
            true => Way::Nowhere,
            false => Way::Elsewhere,
        }
    }

    /// Whether an address lies behind a name.
    pub(super) fn is_behind(&self, name: &Name, address: &IpAddr) -> bool {
        self.way(address) == Way::To(*name)
    }

    /// Whether it lies behind this host.
    pub(super) fn is_own(&self, address: &IpAddr) -> bool {
        self.own.iter().any(|net| net.contains(address))
    }
}

/// What is said of networks: a count, and of each the bits of an address, how many of them make it,
/// and the address.
pub fn emit(networks: &[IpNet]) -> Vec<u8> {
    let mut bytes = vec![networks.len() as u8];
    for net in networks {
        let octets = match net.addr() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        bytes.extend_from_slice(&[net.max_prefix_len(), net.prefix_len()]);
        bytes.extend_from_slice(&octets);
    }
    bytes
}

/// What [`emit`] made; `None` when it is nothing of the kind.
pub fn parse(bytes: &[u8]) -> Option<Vec<IpNet>> {
    let (count, mut rest) = bytes.split_first()?;
    let mut networks = Vec::new();
    for _ in 0..*count {
        let &[width, len] = rest.first_chunk()?;
        let address = match width {
            32 => IpAddr::from(*rest.get(2..)?.first_chunk::<4>()?),
            128 => IpAddr::from(*rest.get(2..)?.first_chunk::<16>()?),
            _ => return None,
        };
        let net = IpNet::new(address, len).ok()?;
        (net.trunc() == net).then_some(())?;
        networks.push(net);
        rest = &rest[2 + usize::from(width) / 8..];
    }
    (rest.is_empty() && networks.len() <= MOST).then_some(networks)
}

fn overlap(a: &IpNet, b: &IpNet) -> bool {
    a.contains(b) || b.contains(a)
}

/// `fd00::/8`, or something in it or around it.
fn is_of_names(net: &IpNet) -> bool {
    match net {
        IpNet::V4(_) => false,
        IpNet::V6(net) => {
            let bits = net.prefix_len().min(8);
            (net.addr().octets()[0] ^ 0xfd).leading_zeros() >= u32::from(bits)
        }
    }
}

/// Networks of one host: they are searched one by one.
pub const MOST: usize = 64;
/// The longest message.
pub const LONGEST: usize = 1 + MOST * 18;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: Name = Name([1; 32]);
    const B: Name = Name([2; 32]);

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_lies_behind_a_name_when_both_say_so() {
        let accepted = vec![(net("10.1.0.0/16"), A), (net("10.2.0.0/16"), B)];
        let mut sites = Sites::new(&[net("10.9.0.0/24")], &accepted).unwrap();
        assert_eq!(sites.way(&address("10.1.2.3")), Way::Nowhere);
        let refused = sites.hear(A, vec![net("10.1.2.0/24"), net("10.2.2.0/24"), net("0.0.0.0/0")]);
        assert_eq!(refused, [net("10.2.2.0/24"), net("0.0.0.0/0")]);
        assert_eq!(sites.way(&address("10.1.2.3")), Way::To(A));
        assert_eq!(sites.way(&address("10.1.3.3")), Way::Nowhere);
        assert_eq!(sites.way(&address("10.2.2.3")), Way::Nowhere);
        assert_eq!(sites.way(&address("192.0.2.1")), Way::Elsewhere);
        assert!(
            sites.is_behind(&A, &address("10.1.2.3")) && !sites.is_behind(&B, &address("10.1.2.3"))
        );
        assert!(sites.is_own(&address("10.9.0.7")) && !sites.is_own(&address("10.9.1.7")));
        // The longest counts, and what is said next takes the place of what was said.
        sites.hear(A, vec![net("10.1.0.0/16")]);
        assert_eq!(sites.way(&address("10.1.3.3")), Way::To(A));
        sites.hear(A, vec![]);
        assert_eq!(sites.said(), []);
    }

    #[test]
    fn what_cannot_lie_so_is_refused_with_its_reason() {
        let [own, theirs] = [net("10.0.0.0/8"), net("10.1.0.0/16")];
        let new =
            |own: &[IpNet], accepted: &[(IpNet, Name)]| Sites::new(own, accepted).unwrap_err();
        assert_eq!(new(&[own], &[(theirs, A)]), SiteError::Overlap(own, theirs));
        assert_eq!(new(&[], &[(own, A), (theirs, B)]), SiteError::Overlap(own, theirs));
        assert_eq!(new(&[net("::/0")], &[]), SiteError::Everything(net("::/0")));
        for text in ["fd00::/8", "fd12::/16", "fc00::/7", "8000::/1"] {
            assert_eq!(new(&[net(text)], &[]), SiteError::OfNames(net(text)));
        }
        assert!(Sites::new(&[net("fc00::/8"), net("2001:db8::/32")], &[]).is_ok());
        assert!(Sites::new(&[], &[(own, A), (theirs, A)]).is_ok());
        assert_eq!(new(&[own; 65], &[]), SiteError::TooMany);
    }

    proptest! {
        #[test]
        fn what_is_said_is_read_again_and_bytes_do_no_harm(
            v4 in any::<u32>(), v6 in any::<u128>(), lens in (0u8..=32, 0u8..=128),
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let nets = [
                IpNet::new(IpAddr::V4(v4.into()), lens.0).unwrap().trunc(),
                IpNet::new(IpAddr::V6(v6.into()), lens.1).unwrap().trunc(),
            ];
            let said = emit(&nets);
            prop_assert!(said.len() <= LONGEST);
            prop_assert_eq!(parse(&said), Some(nets.to_vec()));
            prop_assert_eq!(parse(&said[..said.len() - 1]), None);
            if let Some(nets) = parse(&bytes) {
                prop_assert_eq!(emit(&nets), bytes);
            }
        }
    }
}
