//! What `rhumb up` tells of a network of the LAN: lines for people, objects for programs.

use std::fmt;

use rhumb_daemon::network::admitting::Asking;
use rhumb_daemon::network::neighbours::Found;
use rhumb_daemon::network::{Created, Joined, Part};
use rhumb_trust::comparison::Number;
use rhumb_wire::PublishedLabel;
use serde::Serialize;
use serde_json::{Value, json};

/// Something that has come about.
pub(super) enum Told {
    /// A network was found and is asked; the numbers have to be the same.
    Compare { network: PublishedLabel, fingerprint: String, host: String, number: Number },
    /// The people here agree.
    Waits,
    /// This host is in.
    Joined(Joined),
    /// This host keeps a network, which is there.
    Keeps { created: Created, own: PublishedLabel, has_node: bool, open_min: Option<u64> },
    /// Somebody asks.
    Asks(Asking),
    /// Somebody was chosen, whose own people have not agreed yet.
    NotAgreed(PublishedLabel),
    /// Somebody was told no.
    Declined(PublishedLabel),
    /// Somebody who asked does so no longer.
    Gone(PublishedLabel),
    /// Somebody came in, as one of so many.
    Came(PublishedLabel, usize),
    /// The network is not open any more.
    Closed(usize),
    /// Another network is on the link.
    Another { network: PublishedLabel, fingerprint: String, host: String },
}

impl Told {
    pub(super) fn compare(found: &Found, number: Number) -> Self {
        Self::Compare {
            network: found.offer.network.clone(),
            fingerprint: found.fingerprint(),
            host: found.host.to_string(),
            number,
        }
    }

    pub(super) fn another(found: &Found) -> Self {
        Self::Another {
            network: found.offer.network.clone(),
            fingerprint: found.fingerprint(),
            host: found.host.to_string(),
        }
    }

    fn facts(&self) -> Value {
        match self {
            Self::Compare { network, fingerprint, host, number } => json!({
                "told": "compare",
                "network": network.as_str(),
                "fingerprint": fingerprint,
                "host": host,
                "number": number.to_string(),
            }),
            Self::Waits => json!({ "told": "waits" }),
            Self::Joined(joined) => json!({
                "told": "joined",
                "network": joined.folder.label().as_str(),
                "label": joined.label.as_str(),
                "host": joined.host.to_string(),
                "fingerprint": joined.keeper.0.short(),
            }),
            Self::Keeps { created, own, has_node, open_min } => json!({
                "ready": true,
                "role": "network",
                "network": created.folder.label().as_str(),
                "label": own.as_str(),
                "host": created.host.to_string(),
                "fingerprint": created.keeper.short(),
                "router_port": created.port(Part::Router),
                "rib_port": created.port(Part::Rib),
                "keeper_port": created.port(Part::Keeper),
                "node": has_node,
                "open_min": open_min,
            }),
            Self::Asks(asking) => {
                let mut facts = asking.facts();
                facts["told"] = json!("asks");
                facts
            }
            Self::NotAgreed(label) => json!({ "told": "not_agreed", "label": label.as_str() }),
            Self::Declined(label) => json!({ "told": "declined", "label": label.as_str() }),
            Self::Gone(label) => json!({ "told": "gone", "label": label.as_str() }),
            Self::Came(label, members) => {
                json!({ "told": "came", "label": label.as_str(), "members": members })
            }
            Self::Closed(members) => json!({ "told": "closed", "members": members }),
            Self::Another { network, fingerprint, host } => json!({
                "told": "another",
                "network": network.as_str(),
                "fingerprint": fingerprint,
                "host": host,
            }),
        }
    }
}

impl Serialize for Told {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.facts().serialize(serializer)
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compare { network, fingerprint, host, number } => write!(
                f,
                "network {network} is on this LAN, at {host} (fingerprint {fingerprint})\n\
                 the same number has to stand on the screen of that host:\n\n    {number}\n"
            ),
            Self::Waits => write!(f, "waiting until somebody at that host lets this one in"),
            Self::Joined(joined) => write!(
                f,
                "this host is {joined}, by the network's host at {} (fingerprint {})",
                joined.host,
                joined.keeper.0.short()
            ),
            Self::Keeps { created, own, has_node, open_min } => {
                keeps(f, created, own, *has_node, *open_min)
            }
            Self::Asks(Asking { label, number, address, .. }) => write!(
                f,
                "{label}, at {address}, asks to be let in\n\
                 the same number has to stand on its screen:\n\n    {number}\n\n\
                 is it the same, and is that host yours or a friend's? [y/N, or the number]"
            ),
            Self::NotAgreed(label) => {
                write!(f, "{label} comes in as soon as somebody presses y there, too")
            }
            Self::Declined(label) => write!(f, "{label} is told that it is not let in"),
            Self::Gone(label) => write!(f, "{label} asks no longer"),
            Self::Came(label, members) => {
                write!(f, "{label} is in the network now, which has {members} members")
            }
            Self::Closed(members) => write!(
                f,
                "nobody is let in unseen any more: the network has {members} members (rhumb network show)"
            ),
            Self::Another { network, fingerprint, host } => write!(
                f,
                "another network is on this LAN, too: {network}, at {host} (fingerprint {fingerprint}); hosts of the \
                 two do not see each other. To be in that one: rhumb up --lan {fingerprint}"
            ),
        }
    }
}

fn keeps(
    f: &mut fmt::Formatter<'_>,
    created: &Created,
    own: &PublishedLabel,
    has_node: bool,
    open_min: Option<u64>,
) -> fmt::Result {
    let (network, host) = (created.folder.label(), &created.host);
    let [router, rib, keeper] =
        [Part::Router, Part::Rib, Part::Keeper].map(|part| created.port(part));
    write!(f, "network {network} is on this LAN: its host is this one, {host}")?;
    if has_node {
        write!(f, ", which is {own} in it")?;
    }
    writeln!(f, " (fingerprint {})", created.keeper.short())?;
    match open_min {
        Some(minutes) => {
            writeln!(f, "whoever is on this LAN and asks within {minutes} min is let in unseen")?;
        }
        None => writeln!(f, "nobody comes in before somebody here has let him in")?,
    }
    write!(
        f,
        "on each other host of this LAN:\n\n  rhumb up\n\n\
         if it does not find this one, something keeps broadcasts or UDP {router} and {rib}, TCP {router} and {keeper} \
         from passing:\nfor these, rhumb network invite {network} --as LABEL"
    )
}
