//! Which networks are on the links of this host, and to ask one of them to let this host in; and
//! where the network of a link is now that this host is in already.
//!
//! 1. [`Asker::look`] asks the links for routers, and beside each, two ports above, for a keeper,
//!    which offers a network and commits to a nonce. Nobody has to look at that yet.
//! 2. [`Found::reveal`] asks: both ends have the number from then on.
//! 3. [`Found::agree`] says that the people here agree, and waits for those there.
//! 4. [`Admitted::settle`] writes it down.
//!
//! INVARIANT: nothing that a keeper says is believed, and nothing is written, before people have
//! compared the number, or have said that they trust whoever is on the link.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rhumb_channel::{Channel, Credentials, connect, connect_to_anybody};
use rhumb_node::discovery::{Answers, ask_around, own_addresses};
use rhumb_node::joined::Site;
use rhumb_trust::Identity;
use rhumb_trust::comparison::{Comparison, Number, Opening, opens};
use rhumb_trust::invitation::Meeting;
use rhumb_wire::admission::{Admission, Offer, Refusal, Welcome};
use rhumb_wire::{Name, PublishedLabel, Role};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use super::created::{Created, Part};
use super::joining::{Place, check, explain, hear, no_sense, say, settle, waiting_key_of};
use super::{ASK_WITHIN, AT_MEMBER, Joined, labels};
use crate::failure::{Failure, Outcome};

/// This host, as it asks.
#[derive(Clone)]
pub struct Asker {
    identity: Arc<Identity>,
    waiting: PathBuf,
    label: PublishedLabel,
}

/// What is on the links.
#[derive(Debug, Default)]
pub struct Around {
    /// Networks that take requests, each once, by their keepers' names.
    pub networks: Vec<Found>,
    /// Where networks are that take members by invitation.
    pub closed: Vec<Site>,
    /// Routers of no such network.
    pub routers: Vec<SocketAddr>,
    /// To how many groups and broadcast addresses the question went.
    pub links: usize,
    /// Why nothing could be asked, if nothing could.
    pub unsent: Option<io::Error>,
}

/// A network that was found.
#[derive(Debug)]
pub struct Found {
    /// What it says of itself.
    pub offer: Offer,
    /// Its keeper, which has proven its name.
    pub keeper: Name,
    /// Where that is.
    pub host: Site,
    port: u16,
    channel: Channel,
}

/// A network that has let this host in.
pub struct Admitted {
    asker: Asker,
    keeper: Name,
    place: Place,
    welcome: Box<Welcome>,
}

enum Probed {
    Network(Box<Found>),
    Closed,
    Other,
}

impl Asker {
    /// This host, which would like to be called `label`. It asks under one name until it is let in.
    ///
    /// # Errors
    /// When there is no place for its key.
    pub fn new(label: PublishedLabel) -> Outcome<Self> {
        let (waiting, identity) = waiting_key_of("lan", Role::Node)?;
        Ok(Self { identity: Arc::new(identity), waiting, label })
    }

    /// What is on the links, but for what this host runs itself.
    ///
    /// # Errors
    /// When the system does not let it ask.
    pub async fn look(&self, own: Option<&Created>) -> Outcome<Around> {
        let Answers { routers, links, unsent } = ask_the_links().await?;
        let mut around = Around { links, unsent, ..Around::default() };
        let mut probes = JoinSet::new();
        for router in others(routers, own) {
            let asker = self.clone();
            probes.spawn(async move {
                let probed = timeout(PROBE_WITHIN, asker.probe(router)).await;
                (router, probed.unwrap_or(Probed::Other))
            });
        }
        while let Some(probed) = probes.join_next().await {
            match probed.map_err(Failure::operation)? {
                (_, Probed::Network(found)) => around.networks.push(*found),
                (router, Probed::Closed) => around.closed.extend(Site::of(router)),
                (router, Probed::Other) => around.routers.push(router),
            }
        }
        // One that is on two links of this host, or there by IPv4 and IPv6, is one.
        around.networks.sort_by_key(|it| (it.keeper, it.channel.address));
        around.networks.dedup_by_key(|it| it.keeper);
        let is_own = |it: &Found| own.is_some_and(|own| own.keeper == it.keeper);
        around.networks.retain(|it| !is_own(it));
        Ok(around)
    }

    /// What is beside a router. Whoever is there speaks TCP from his address.
    async fn probe(&self, router: SocketAddr) -> Probed {
        let Some(port) = router.port().checked_add(KEEPER_FROM_ROUTER) else {
            return Probed::Other;
        };
        let mut keeper = router;
        keeper.set_port(port);
        self.ask(keeper).await.unwrap_or(Probed::Other)
    }

    async fn ask(&self, keeper: SocketAddr) -> Outcome<Probed> {
        let (host, port) = (Site::of(keeper).map_err(Failure::operation)?, keeper.port());
        let credentials = Credentials::new(&self.identity).map_err(Failure::operation)?;
        let channel = connect_to_anybody(&credentials, keeper, &AT_MEMBER).await;
        let mut channel = channel.map_err(Failure::operation)?;
        say(&channel, Admission::Ask(self.label.clone())).await?;
        Ok(match hear(&mut channel).await? {
            Admission::Offer(offer) => {
                let found = Found { offer, keeper: channel.peer, host, port, channel };
                Probed::Network(Box::new(found))
            }
            Admission::Refusal(Refusal::Closed) => Probed::Closed,
            _ => Probed::Other,
        })
    }
}

impl Found {
    /// By what people know it who see two: the beginning of its keeper's name.
    pub fn fingerprint(&self) -> String {
        self.keeper.short()
    }

    /// Asks: the number that people there see from now on.
    ///
    /// # Errors
    /// When the keeper is gone, has too many who ask, or does not show what it committed to.
    pub async fn reveal(&mut self, asker: &Asker) -> Outcome<Number> {
        let joiners = Opening::generate().map_err(Failure::operation)?.nonce();
        say(&self.channel, Admission::Reveal(joiners)).await?;
        let keepers = match timeout(TELLS_WITHIN, hear(&mut self.channel)).await {
            Ok(Ok(Admission::Reveal(nonce)))
                if opens(&self.offer.commitment, self.keeper, &nonce) =>
            {
                nonce
            }
            Ok(Ok(Admission::Reveal(_))) => {
                return Err(Failure::operation_text(
                    "who offers the network does not show what it has committed to: somebody may be in between; \
                     nothing was joined, and nothing was written",
                ));
            }
            Ok(Ok(Admission::Refusal(refusal))) => return Err(explain(refusal)),
            Ok(Err(failure)) => return Err(failure),
            Ok(Ok(_)) | Err(_) => return Err(no_sense()),
        };
        let (keeper, binding) = (self.keeper, self.channel.binding);
        let comparison = Comparison {
            meeting: &Meeting { keeper, joiner: asker.identity.name(), binding },
            network: &self.offer.network,
            domain: self.offer.domain,
            label: &asker.label,
            keepers: &keepers,
            joiners: &joiners,
        };
        Ok(comparison.number())
    }

    /// Why this host is not let in, if that is said before the people here have agreed. May be
    /// dropped and called again.
    pub async fn refusal(&mut self) -> Failure {
        match hear(&mut self.channel).await {
            Ok(Admission::Refusal(refusal)) => explain(refusal),
            Ok(_) => no_sense(),
            Err(failure) => failure,
        }
    }

    /// The people here agree: waits for those there.
    ///
    /// # Errors
    /// Why this host is not let in.
    pub async fn agree(mut self, asker: &Asker) -> Outcome<Admitted> {
        say(&self.channel, Admission::Agree).await?;
        let heard = timeout(ASK_WITHIN + TELLS_WITHIN, hear(&mut self.channel)).await;
        let welcome = match heard.unwrap_or(Ok(Admission::Refusal(Refusal::NotLetIn)))? {
            Admission::Welcome(welcome) => welcome,
            Admission::Refusal(refusal) => return Err(explain(refusal)),
            _ => return Err(no_sense()),
        };
        let membership = check(&welcome, asker.identity.name())?;
        if membership.domain() != self.offer.domain {
            return Err(Failure::setup_text(
                "the keeper has offered another network than it lets this host into; nothing was \
                 written",
            ));
        }
        let place = Place { host: self.host, port: self.port, is_lan: true };
        Ok(Admitted { asker: asker.clone(), keeper: self.keeper, place, welcome })
    }
}

impl Admitted {
    /// Writes down that this host is a member.
    ///
    /// # Errors
    /// When it cannot be written; then the same host can ask again.
    pub fn settle(self) -> Outcome<Joined> {
        let Self { asker: Asker { identity, waiting, .. }, keeper, place, welcome } = self;
        let domain = check(&welcome, identity.name())?.domain();
        let called = labels::free_network(&welcome.network, Some(domain))?;
        settle(place, (&waiting, &identity), keeper, &welcome, Some(&called))
    }
}

/// Finds the host of a link's network that this host is a member of, wherever it is now, and writes
/// that down: whether it is there.
///
/// # Errors
/// When the links cannot be asked, or what is found cannot be written down.
pub async fn find_again(identity: &Identity, joined: &mut Joined) -> Outcome<bool> {
    match look_for(identity, joined).await? {
        Some(host) => joined.move_to(host).map(|()| true),
        None => Ok(false),
    }
}

/// Where the host of a link's network is now, if it is there: only the keeper's own name is taken
/// for it.
///
/// # Errors
/// When the links cannot be asked.
pub async fn look_for(identity: &Identity, joined: &Joined) -> Outcome<Option<Site>> {
    let credentials = Credentials::new(identity).map_err(Failure::operation)?;
    let (keeper, port) = joined.keeper;
    let is_there = async |mut address: SocketAddr| {
        address.set_port(port);
        let connected = connect(&credentials, address, keeper, &AT_MEMBER);
        matches!(timeout(PROBE_WITHIN, connected).await, Ok(Ok(_)))
    };
    // The interface of a link may be gone, or called otherwise now.
    if let Ok(Some(address)) = joined.host.address(port)
        && is_there(address).await
    {
        return Ok(Some(joined.host.clone()));
    }
    let mut around = ask_the_links().await?;
    around.routers.sort();
    for router in others(around.routers, None) {
        if is_there(router).await
            && let Ok(host) = Site::of(router)
        {
            return Ok(Some(host));
        }
    }
    Ok(None)
}

async fn ask_the_links() -> Outcome<Answers> {
    let asked = spawn_blocking(|| ask_around(LOOK_FOR)).await.map_err(Failure::operation)?;
    asked.map_err(Failure::operation)
}

/// Those that are not what this host runs itself.
fn others(routers: Vec<SocketAddr>, own: Option<&Created>) -> Vec<SocketAddr> {
    let port = own.map(|own| own.port(Part::Router));
    let addresses = own_addresses().unwrap_or_default();
    let is_own = |it: &SocketAddr| {
        let mut address = *it;
        address.set_port(0);
        addresses.contains(&address) && port == Some(it.port())
    };
    routers.into_iter().filter(|it| !is_own(it)).collect()
}

/// Where a keeper is beside its network's router: see [`Created::port`].
const KEEPER_FROM_ROUTER: u16 = 2;
/// On a link answers take milliseconds; a machine that is busy gets its time.
const LOOK_FOR: Duration = Duration::from_millis(1500);
/// For whom a firewall drops connections, of eight who are asked at once.
const PROBE_WITHIN: Duration = Duration::from_secs(3);
/// Until what was decided there is told here.
const TELLS_WITHIN: Duration = Duration::from_secs(5);
