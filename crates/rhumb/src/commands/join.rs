//! `rhumb join`: this host becomes a member of a network, by a code that its keeper gave.

use std::fmt;
use std::io::Read;

use rhumb_daemon::cli::JoinArguments;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::network::joining::join;
use rhumb_daemon::network::{Joined, Rank};
use rhumb_daemon::output::Form;
use rhumb_trust::invitation::Invitation;
use serde::Serialize;
use serde_json::json;
use zeroize::Zeroizing;

/// Runs the command.
pub(crate) fn run(arguments: &JoinArguments, form: Form) -> Outcome {
    // Typed with spaces, a code is several arguments.
    let mut code = Zeroizing::new(arguments.code.join(" "));
    if *code == "-" {
        code.clear();
        let read = std::io::stdin().take(MOST_READ).read_to_string(&mut code);
        read.map_err(Failure::setup)?;
    }
    let invitation: Invitation = code.parse().map_err(|error| {
        Failure::setup_text(format!("this is no code: {error}; nothing was sent"))
    })?;
    let joined = join(&invitation, arguments.router, arguments.called.as_ref())?;
    form.print(&Report(joined));
    Ok(())
}

struct Report(Joined);

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Joined { folder, label, rank, domain, host, .. } = &self.0;
        json!({
            "network": folder.label().as_str(),
            "label": label.as_str(),
            "role": rank.as_str(),
            "domain": domain.to_string(),
            "host": host.to_string(),
            "folder": folder.path(),
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Joined { folder, label, rank, .. } = &self.0;
        let network = folder.label();
        writeln!(f, "this host is {label} in {network}, as a {}", rank.as_str())?;
        writeln!(
            f,
            "members by their labels: rhumb name; key and settings: {}\n",
            folder.path().display()
        )?;
        match rank {
            Rank::Router => write!(f, "next:\n  rhumb network run {network}"),
            Rank::Member | Rank::Keeper => write!(
                f,
                "next:\n  rhumb up                                  # this host's node, for as long as it is to be reached\n  \
                 rhumb serve 8080 --allow-domain {network}   # offer a port to all members"
            ),
        }
    }
}

/// More than the longest code.
const MOST_READ: u64 = 4096;
