//! The credentials that a stamper has, and which of them is the one for a waypoint now. From
//! capability files, and from a key server by [`KeyClient`].
//!
//! Invariant: a credential is used from the start of its window to the last second in which its
//! waypoint takes it, and of two that would do the newer one.

use std::net::IpAddr;
use std::path::PathBuf;

use rhumb_capability::{CapabilityError, Credential, Encapsulation, Stamper, Window, file};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_keyserver::client::KeyClient;

/// All credentials there are.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    files: Vec<Credential>,
    clients: Vec<KeyClient>,
}

/// Which credentials a stamper was made of: when they are others, it is time for another stamper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chosen(Vec<Choice>);

/// One of them, as status shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) waypoint: IpAddr,
    pub(crate) window: Window,
    pub(crate) epoch: u8,
    pub(crate) not_after_s: u64,
}

impl Chosen {
    /// In the order of the waypoints.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Choice> {
        self.0.iter()
    }
}

impl Keys {
    /// The credentials of capability files.
    pub(crate) fn load(paths: &[PathBuf]) -> Outcome<Self> {
        let load = |path: &PathBuf| {
            file::load(path).map_err(|error| {
                Failure::setup_text(format!("capability file {}: {error}", path.display()))
            })
        };
        let files = paths.iter().map(load).collect::<Outcome<_>>()?;
        Ok(Self { files, clients: Vec::new() })
    }

    /// Adds a principal whose keys come from a key server.
    pub(crate) fn add_client(&mut self, client: KeyClient) {
        self.clients.push(client);
    }

    /// Those who fetch.
    pub(crate) fn clients_mut(&mut self) -> &mut [KeyClient] {
        &mut self.clients
    }

    /// Those who fetch.
    pub(crate) fn clients(&self) -> &[KeyClient] {
        &self.clients
    }

    /// The waypoints of the capability files, each once, in their order.
    pub(crate) fn waypoints_of_files(&self) -> Vec<IpAddr> {
        let mut waypoints = Vec::new();
        for credential in &self.files {
            let waypoint = credential.capability().waypoint;
            if !waypoints.contains(&waypoint) {
                waypoints.push(waypoint);
            }
        }
        waypoints
    }

    /// Whether there is, or may once be, a credential for a waypoint.
    pub(crate) fn know(&self, waypoint: IpAddr) -> bool {
        let in_file = |credential: &Credential| credential.capability().waypoint == waypoint;
        let to_fetch = |client: &KeyClient| {
            client.file().waypoints().iter().any(|known| known.address == waypoint)
        };
        self.files.iter().any(in_file) || self.clients.iter().any(to_fetch)
    }

    /// The credentials for these waypoints at a time; `Err`
    /// with the first one for which there is none.
    pub(crate) fn choose(&self, via: &[IpAddr], now_ms: u64) -> Result<Chosen, IpAddr> {
        let chosen = via.iter().map(|&waypoint| {
            let credential = self.credential(waypoint, now_ms).ok_or(waypoint)?;
            let capability = credential.capability();
            Ok(Choice {
                waypoint,
                window: capability.window,
                epoch: capability.epoch.0,
                not_after_s: credential.not_after_s(),
            })
        });
        chosen.collect::<Result<_, _>>().map(Chosen)
    }

    /// What stamps packets for these waypoints.
    ///
    /// # Errors
    /// When there is no credential for one, or they do not go together.
    pub(crate) fn stamper(
        &self,
        via: &[IpAddr],
        encapsulation: Encapsulation,
        now_ms: u64,
    ) -> Result<Stamper, CapabilityError> {
        let credentials: Vec<&Credential> =
            via.iter().filter_map(|&waypoint| self.credential(waypoint, now_ms)).collect();
        if credentials.len() != via.len() {
            return Err(CapabilityError::CapabilityCount(credentials.len()));
        }
        Stamper::new(&credentials, encapsulation)
    }

    fn credential(&self, waypoint: IpAddr, now_ms: u64) -> Option<&Credential> {
        let now_s = now_ms / 1000;
        let is_good = |credential: &&Credential| {
            credential.capability().waypoint == waypoint
                && start_s(credential) <= now_s
                && now_s <= credential.not_after_s()
        };
        let fetched = self.clients.iter().find_map(|client| client.credential(waypoint, now_ms));
        let in_files = self.files.iter().filter(is_good);
        in_files.chain(fetched).max_by_key(|credential| credential.capability().window)
    }
}

/// The first second of a credential's window. It does not say how long its waypoint's windows are,
/// but its number and its end together do: there is one length at most for which they fit.
fn start_s(credential: &Credential) -> u64 {
    let window = u64::from(credential.capability().window.0);
    let fits = |bits: &u32| {
        let end_s = (window + 1) << bits;
        (end_s..=end_s + (1 << (bits - 1))).contains(&credential.not_after_s())
    };
    (SHORTEST_BITS..=LONGEST_BITS).find(fits).map_or(0, |bits| window << bits)
}

/// Windows last 2^10 to 2^12 seconds.
const SHORTEST_BITS: u32 = 10;
const LONGEST_BITS: u32 = 12;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rhumb_capability::{
        Capability, Delegations, Epoch, EpochKeys, Flags, Master, Principal, Scheme, Suite,
        WindowClock,
    };

    /// A credential of principal 7 for a window.
    pub(crate) fn credential(waypoint: &str, clock: WindowClock, window: Window) -> Credential {
        let keys = EpochKeys::new(Epoch(1), &Master::new([5; Master::LEN]));
        let capability = Capability {
            waypoint: waypoint.parse().unwrap(),
            principal: Principal(7),
            flags: Flags::NONE,
            window,
            epoch: Epoch(1),
            suite: Suite::HeaderAes,
            scheme: Scheme::CaveatChain,
            delegations: Delegations::default(),
        };
        keys.mint(capability, clock.not_after_s(window)).unwrap().into()
    }

    #[test]
    fn the_newest_window_that_has_begun_is_used_until_its_grace_is_over() {
        let clock = WindowClock::new(10, 10_000, 5_000).unwrap();
        let first = clock.at(1_700_000_000_000_000);
        let second = Window(first.0 + 1);
        let files = [second, first].map(|window| credential("192.0.2.1", clock, window));
        let keys = Keys { files: files.into(), clients: Vec::new() };
        let via = ["192.0.2.1".parse().unwrap()];
        let window_at = |now_s: u64| {
            keys.choose(&via, now_s * 1000).ok().and_then(|it| it.iter().next().map(|it| it.window))
        };
        let (start_s, middle_s) = (clock.start_s(first), clock.end_s(first));
        assert_eq!(window_at(start_s - 1), None);
        assert_eq!(window_at(start_s), Some(first));
        assert_eq!(window_at(middle_s - 1), Some(first));
        assert_eq!(window_at(middle_s), Some(second));
        assert_eq!(window_at(clock.not_after_s(second)), Some(second));
        assert_eq!(window_at(clock.not_after_s(second) + 1), None);
        assert!(keys.know(via[0]) && !keys.know("192.0.2.2".parse().unwrap()));
        let source = Encapsulation::Ip { source: Some("192.0.2.9".parse().unwrap()) };
        assert!(keys.stamper(&via, source, middle_s * 1000).is_ok());
        assert!(keys.stamper(&via, source, (start_s - 1) * 1000).is_err());
    }

    #[test]
    fn the_length_of_a_window_follows_from_its_number_and_end() {
        for bits in 10..=12 {
            for grace_ms in [0, 10_000, 1000 << (bits - 1)] {
                let clock = WindowClock::new(bits, grace_ms, 0).unwrap();
                let window = clock.at(1_700_000_000_000_000);
                let credential = credential("192.0.2.1", clock, window);
                assert_eq!(start_s(&credential), clock.start_s(window), "{bits} {grace_ms}");
            }
        }
    }
}
