//! The other end of a keeper: to join by an invitation, and to ask again while it lasts.
//!
//! INVARIANT: nothing that the keeper says is believed, and no proof is given to it, before it has
//! proven to know the invitation's secret on this very channel ([`rhumb_trust::invitation`]). Later
//! its name is known, and nobody else is asked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use rhumb_channel::{Channel, ChannelError, Credentials, connect, connect_to_anybody};
use rhumb_node::joined::Site;
use rhumb_trust::invitation::{Invitation, Meeting, Side};
use rhumb_trust::{Identity, Membership};
use rhumb_wire::admission::{Admission, Refusal, Welcome};
use rhumb_wire::{Name, PublishedLabel, Rights, Role};
use tokio::time::timeout;

use super::created::put;
use super::joined::{Joined, resolve};
use super::ledger::Rank;
use super::{AT_MEMBER, Folder, TALK_WITHIN, folder, labels};
use crate::clock;
use crate::failure::{Failure, Outcome};
use crate::key;

/// Joins by `invitation`, as a router if `as_router`; `called`: what the network is called here,
/// if not as its keeper calls it.
///
/// # Errors
/// In words that say what to do. What was begun is gone on with by the same code.
pub fn join(
    invitation: &Invitation,
    as_router: bool,
    called: Option<&PublishedLabel>,
) -> Outcome<Joined> {
    let role = if as_router { Role::Router } else { Role::Node };
    if let Some(called) = called {
        let place = Folder::of(called)?;
        if place.path().exists() {
            return Err(place.is_there());
        }
    }
    let there = Joined::all()?;
    let host = Site::from(invitation.host.clone());
    let address = resolve(&host, invitation.port)?;
    let (waiting, identity) = waiting_key(invitation, role)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let asked = runtime.map_err(Failure::operation)?.block_on(async {
        let credentials = Credentials::new(&identity).map_err(Failure::operation)?;
        let channel = connect_to_anybody(&credentials, address, &AT_MEMBER).await;
        let channel = channel.map_err(|error| unreachable(invitation, &error))?;
        within(claim(channel, invitation, identity.name(), &there)).await
    });
    let (keeper, answer) = asked?;
    let welcome = match answer {
        Ok(welcome) => welcome,
        Err(refusal) => {
            if refusal != Refusal::Failed {
                // Nobody waits for this key any more.
                let _ = std::fs::remove_file(&waiting);
            }
            return Err(explain(refusal));
        }
    };
    let place = Place { host, port: invitation.port, is_lan: false };
    settle(place, (&waiting, &identity), keeper, &welcome, called)
}

/// Asks the keeper of a network how it is now: another membership is laid beside the key if the one
/// there is in its last half, and labels of new members go into the book.
///
/// # Errors
/// When the keeper does not answer; [`Asked::NoMember`] when it answers that this host is none.
pub(super) async fn ask_again(identity: &Arc<Identity>, joined: &Joined) -> Outcome<Asked> {
    let Some(welcome) = ask_keeper(identity, joined).await? else { return Ok(Asked::NoMember) };
    let membership = check(&welcome, identity.name())?;
    if membership.domain() != joined.domain {
        return Err(Failure::operation_text("the keeper speaks of another network"));
    }
    Ok(Asked::Welcome(welcome, membership))
}

/// What the keeper of a network says to this host; nothing if it is a member no longer. What it
/// gives is unverified.
///
/// # Errors
/// When the keeper does not answer.
pub async fn ask_keeper(
    identity: &Arc<Identity>,
    joined: &Joined,
) -> Outcome<Option<Box<Welcome>>> {
    let (name, port) = joined.keeper;
    let host = joined.host.clone();
    let address = tokio::task::spawn_blocking(move || resolve(&host, port)).await;
    let address = address.map_err(Failure::operation)??;
    let credentials = Credentials::new(identity).map_err(Failure::operation)?;
    let channel = connect(&credentials, address, name, &AT_MEMBER).await;
    let mut channel = channel.map_err(|error| {
        Failure::operation_text(format!("the keeper at {address} is not there: {error}"))
    })?;
    let answer = within(async {
        say(&channel, Admission::Renew).await?;
        hear(&mut channel).await
    });
    match answer.await? {
        Admission::Welcome(welcome) => Ok(Some(welcome)),
        Admission::Refusal(Refusal::NoMember) => Ok(None),
        _ => Err(Failure::operation_text("the keeper cannot answer now")),
    }
}

/// What a keeper says to a member.
pub(super) enum Asked {
    /// So is the network now.
    Welcome(Box<Welcome>, Membership),
    /// You are a member no longer.
    NoMember,
}

/// Both proofs, and what comes of them.
async fn claim(
    mut channel: Channel,
    invitation: &Invitation,
    own: Name,
    there: &[Joined],
) -> Outcome<(Name, Result<Box<Welcome>, Refusal>)> {
    let key = invitation.key();
    let meeting = Meeting { keeper: channel.peer, joiner: own, binding: channel.binding };
    say(&channel, Admission::Claim(key.id())).await?;
    match hear(&mut channel).await? {
        Admission::Proof(proof) if key.is_proven(Side::Keeper, &meeting, &proof) => {}
        _ => {
            return Err(Failure::setup_text(format!(
                "whoever answers at {} does not know this code, and was told nothing of it: it is \
                 of another network, over for months, or replaced by a later one, or somebody is \
                 in between; ask for another: rhumb network invite",
                channel.address
            )));
        }
    }
    if let Some(joined) = there.iter().find(|it| it.keeper.0 == channel.peer) {
        return Err(Failure::setup_text(format!(
            "this host is a member already, as {} of {}; the code was not used",
            joined.label,
            joined.folder.label()
        )));
    }
    say(&channel, Admission::Proof(key.prove(Side::Joiner, &meeting))).await?;
    match hear(&mut channel).await? {
        Admission::Welcome(welcome) => Ok((channel.peer, Ok(welcome))),
        Admission::Refusal(refusal) => Ok((channel.peer, Err(refusal))),
        _ => Err(no_sense()),
    }
}

/// Where a keeper was met.
pub(super) struct Place {
    pub(super) host: Site,
    /// Its TCP port.
    pub(super) port: u16,
    /// Whether it was found there by asking on the link.
    pub(super) is_lan: bool,
}

/// Writes down that this host is a member. The key is moved last, so that until then the same code
/// gets the same answer.
pub(super) fn settle(
    place: Place,
    (waiting, identity): (&Path, &Identity),
    keeper: Name,
    welcome: &Welcome,
    called: Option<&PublishedLabel>,
) -> Outcome<Joined> {
    let membership = check(welcome, identity.name())?;
    let domain = membership.domain();
    let label = called.unwrap_or(&welcome.network);
    let again = |problem: Failure| {
        Failure::setup_text(format!(
            "{problem}; the code is good for the same command with --called LABEL"
        ))
    };
    if Folder::of(label)?.path().exists() {
        return Err(again(Folder::of(label)?.is_there()));
    }
    labels::check_network(label, Some(domain)).map_err(again)?;
    let making = Folder::hidden(label)?;
    making.make()?;
    let role = identity.metadata().role;
    let rank = match role {
        Role::Router => Rank::Router,
        _ if membership.rights().hold(Rights::ADMIT) => Rank::Keeper,
        _ => Rank::Member,
    };
    let mut joined = Joined {
        folder: making.clone(),
        label: welcome.label.clone(),
        rank,
        domain,
        host: place.host,
        router: (welcome.router, welcome.router_port),
        rib: (welcome.rib, welcome.rib_port),
        keeper: (keeper, place.port),
        is_lan: place.is_lan,
    };
    let written = joined.save().and_then(|()| {
        let key = joined.key();
        key::save(&key, identity, None)?;
        put(&key, &membership)
    });
    let revealed = written.and_then(|()| making.clone().reveal());
    joined.folder = revealed.inspect_err(|_| making.discard())?;
    // What is left over is a copy of a key that is in use.
    let _ = std::fs::remove_file(waiting);
    labels::enter(label, domain, &welcome.members)?;
    Ok(joined)
}

/// The key by which this host asks with this code, made at the first time.
fn waiting_key(invitation: &Invitation, role: Role) -> Outcome<(PathBuf, Identity)> {
    waiting_key_of(&HEXLOWER.encode(&invitation.key().id()), role)
}

/// The key by which this host asks for `what`, made at the first time.
pub(super) fn waiting_key_of(what: &str, role: Role) -> Outcome<(PathBuf, Identity)> {
    let path = folder::waiting(&format!("{what}-{}.key", role.as_str()))?;
    if !path.exists() {
        let identity = key::make(role, None)?;
        key::save(&path, &identity, None)?;
    }
    let identity = key::load_any(&path)?;
    Ok((path, identity))
}

/// The membership in what a keeper says, which has to be this name's and to hold now.
pub(super) fn check(welcome: &Welcome, own: Name) -> Outcome<Membership> {
    let membership = Membership::parse(&welcome.membership).map_err(Failure::operation)?;
    let now_s = clock::now().unix_s();
    membership.check(&own, now_s).map_err(|error| match now_s.abs_diff(welcome.now_s) {
        0..=60 => Failure::operation_text(format!("the keeper gives no membership: {error}")),
        off_s => Failure::setup_text(format!(
            "this machine's clock is {} {} the keeper's, so the membership does not hold here \
             ({error}); set the clock, then the same command again",
            clock::span(off_s),
            if now_s > welcome.now_s { "ahead of" } else { "behind" }
        )),
    })?;
    Ok(membership)
}

pub(super) async fn say(channel: &Channel, message: Admission) -> Outcome {
    channel.outbox.send(message.emit()).await.map_err(Failure::operation)
}

pub(super) async fn hear(channel: &mut Channel) -> Outcome<Admission> {
    let message = channel.inbox.next().await.map_err(|error| {
        Failure::operation_text(format!(
            "the keeper at {} ended the talk: {error}",
            channel.address
        ))
    })?;
    Admission::parse(&message).map_err(|_| no_sense())
}

pub(super) async fn within<T>(talk: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let late = || Err(Failure::operation_text("the keeper does not answer; try again"));
    timeout(TALK_WITHIN, talk).await.unwrap_or_else(|_| late())
}

pub(super) fn no_sense() -> Failure {
    Failure::operation_text(
        "the keeper said what makes no sense here; is its rhumb of another version?",
    )
}

fn unreachable(invitation: &Invitation, error: &ChannelError) -> Failure {
    let at = invitation.host.with_port(invitation.port);
    Failure::setup_text(format!(
        "the keeper at {at} is not reached: {error}; does `rhumb network run` go on there, and do \
         firewall and router let TCP port {} in? The code is as good as before",
        invitation.port
    ))
}

pub(super) fn explain(refusal: Refusal) -> Failure {
    Failure::setup_text(match refusal {
        Refusal::Closed => {
            "the network takes members by invitation; its keeper gives a code: rhumb network invite"
                .to_owned()
        }
        Refusal::Busy => {
            "others ask there, too, or this host has asked too often; try again in a minute"
                .to_owned()
        }
        Refusal::NotLetIn => {
            "nobody has let this host in there: somebody has to press y at that host, or run `rhumb \
             network admit` on it; try again"
                .to_owned()
        }
        Refusal::Declined => {
            "somebody at that host has said no: nothing was joined. If it is the right network, ask whoever sits \
             there, and then again: rhumb up"
                .to_owned()
        }
        Refusal::Expired => "this code is over; ask for another: rhumb network invite".to_owned(),
        Refusal::Used => {
            "this code was used, by another host or another key; ask for another: rhumb network \
             invite. If nobody you know has used it, tell whoever gave it to you"
                .to_owned()
        }
        Refusal::NoMember => {
            "this host was removed from the network; its keeper can invite it again".to_owned()
        }
        Refusal::OtherRole(Role::Router) => {
            "this code is for a router; join as one: rhumb join CODE --router".to_owned()
        }
        Refusal::OtherRole(_) => {
            "this code is for a member, and not for a router; leave --router out".to_owned()
        }
        Refusal::Member => "this host is a member already".to_owned(),
        Refusal::Failed => {
            "the keeper could not store it; what is wrong is in its log. Try again".to_owned()
        }
    })
}
