//! The master keys of a waypoint: which texts make a whole set of them, and what changes in the
//! verifiers when one set takes the place of another.

use std::net::IpAddr;

use rhumb_capability::{Epoch, EpochKeys};
use rhumb_keyserver::principal::{LineFault, parse_master};
use zeroize::Zeroizing;

/// The keys of a waypoint, by address and epoch.
#[derive(Default)]
pub struct Masters(Vec<MasterText>);

/// The key of an address and an epoch. Each verifier makes its own from it.
pub struct MasterText {
    /// The address that capabilities name.
    pub waypoint: IpAddr,
    /// The epoch.
    pub epoch: Epoch,
    text: Zeroizing<String>,
}

/// What to change in the verifiers.
pub struct Change<'a> {
    /// Keys to install, those that are there already among them.
    pub install: Vec<&'a MasterText>,
    /// Addresses and epochs that end.
    pub retire: Vec<(IpAddr, Epoch)>,
}

/// Why a text is no key of this waypoint, or keys are no whole set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MasterFault {
    /// No master key.
    #[error("{0}")]
    Text(LineFault),
    /// Of an address that is not this waypoint's.
    #[error("it is the master of {0}, not of this waypoint")]
    Foreign(IpAddr),
    /// There is another one of the same address and epoch.
    #[error("another file is the master of {0}, epoch {epoch}", epoch = .1.0)]
    Twice(IpAddr, Epoch),
    /// An address has none.
    #[error("no master of {0}; make one: rhumb capability master {0}")]
    Missing(IpAddr),
    /// An address has keys of so many epochs, more than verifiers take.
    #[error(
        "masters of {0} for {1} epochs; two are taken, the present one and the one before or \
         after: move others away"
    )]
    Epochs(IpAddr, usize),
}

impl MasterText {
    /// The keys, once more.
    pub fn keys(&self) -> EpochKeys {
        let (_, keys) = parse_master(&self.text).expect("invariant: it was read before");
        keys
    }

    fn is_of(&self, waypoint: IpAddr, epoch: Epoch) -> bool {
        (self.waypoint, self.epoch) == (waypoint, epoch)
    }
}

impl Masters {
    /// All keys.
    pub fn all(&self) -> &[MasterText] {
        &self.0
    }

    /// Adds the key of a text, if it is of one of these addresses.
    ///
    /// # Errors
    ///
    /// It is no such key, or is there already.
    pub fn add(
        &mut self,
        text: Zeroizing<String>,
        addresses: &[IpAddr],
    ) -> Result<(), MasterFault> {
        let (waypoint, keys) = parse_master(&text).map_err(MasterFault::Text)?;
        let epoch = keys.epoch();
        if !addresses.contains(&waypoint) {
            return Err(MasterFault::Foreign(waypoint));
        }
        if self.0.iter().any(|other| other.is_of(waypoint, epoch)) {
            return Err(MasterFault::Twice(waypoint, epoch));
        }
        self.0.push(MasterText { waypoint, epoch, text });
        Ok(())
    }

    /// Looks whether each of these addresses has keys, and of no more epochs than verifiers take.
    ///
    /// # Errors
    ///
    /// One has not.
    pub fn check(&self, addresses: &[IpAddr]) -> Result<(), MasterFault> {
        for address in addresses {
            match self.0.iter().filter(|it| it.waypoint == *address).count() {
                0 => return Err(MasterFault::Missing(*address)),
                1..=MOST_EPOCHS => {}
                count => return Err(MasterFault::Epochs(*address, count)),
            }
        }
        Ok(())
    }

    /// Puts others in the place of these.
    pub fn replace(&mut self, by: Self) -> Change<'_> {
        let before = std::mem::replace(self, by);
        let retire = before.0.iter().map(|old| (old.waypoint, old.epoch));
        let is_gone = |(waypoint, epoch): &(IpAddr, Epoch)| {
            !self.0.iter().any(|new| new.is_of(*waypoint, *epoch))
        };
        let retire = retire.filter(is_gone).collect();
        Change { install: self.0.iter().collect(), retire }
    }
}

/// As many as a verifier takes.
const MOST_EPOCHS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_capability::Master;
    use rhumb_keyserver::principal::master_text;

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn masters(which: &[(u8, u8)]) -> Result<Masters, MasterFault> {
        let addresses = [address(1), address(2)];
        let mut masters = Masters::default();
        for (last, epoch) in which {
            let key = Master::new([7; Master::LEN]);
            masters.add(master_text(address(*last), Epoch(*epoch), &key), &addresses)?;
        }
        masters.check(&addresses).map(|()| masters)
    }

    #[test]
    fn a_set_is_whole_and_of_two_epochs_at_most() {
        assert!(masters(&[(1, 1), (2, 1), (2, 2)]).is_ok());
        for (which, fault) in [
            (&[(1, 1)][..], MasterFault::Missing(address(2))),
            (&[(1, 1), (3, 1)], MasterFault::Foreign(address(3))),
            (&[(1, 1), (2, 1), (1, 1)], MasterFault::Twice(address(1), Epoch(1))),
            (&[(1, 1), (2, 1), (2, 2), (2, 3)], MasterFault::Epochs(address(2), 3)),
        ] {
            assert_eq!(masters(which).err(), Some(fault));
        }
        let none = Masters::default().add("nothing".to_owned().into(), &[address(1)]);
        assert!(matches!(none, Err(MasterFault::Text(_))));
    }

    #[test]
    fn another_set_retires_what_it_lacks_and_nothing_else() {
        let mut present = masters(&[(1, 1), (2, 1)]).unwrap();
        let change = present.replace(masters(&[(1, 1), (1, 2), (2, 2)]).unwrap());
        assert_eq!(change.retire, [(address(2), Epoch(1))]);
        let installed: Vec<(IpAddr, u8)> =
            change.install.iter().map(|it| (it.waypoint, it.epoch.0)).collect();
        assert_eq!(installed, [(address(1), 1), (address(1), 2), (address(2), 2)]);
        assert_eq!(present.all().len(), 3);
    }
}
