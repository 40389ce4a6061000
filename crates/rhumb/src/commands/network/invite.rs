//! `rhumb network invite`: a code by which one host joins, once. What is written down of it makes
//! no code; whoever loses it asks for another.

use std::fmt;
use std::io::IsTerminal;

use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};
use rhumb_daemon::cli::InviteArguments;
use rhumb_daemon::clock::{self, date_and_time, span};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::network::{Created, Ledger, Part, Rank};
use rhumb_daemon::output::Form;
use rhumb_node::joined::Site;
use rhumb_trust::invitation::{Host, Invitation};
use rhumb_wire::PublishedLabel;
use serde::Serialize;
use serde_json::json;
use zeroize::Zeroizing;

pub(super) fn run(arguments: &InviteArguments, form: Form) -> Outcome {
    let created = super::kept_here(arguments.network.as_ref())?;
    let (label, rank) = (&arguments.label, arguments.role);
    let invitation = Invitation::generate(host_of(&created)?, created.port(Part::Keeper));
    let invitation = invitation.map_err(Failure::operation)?;
    let now_s = clock::now().unix_s();
    let not_after_s = now_s + arguments.expires.as_secs();
    Ledger::change(&created.folder, |ledger| {
        ledger.invite(invitation.key(), label, rank, not_after_s, now_s)
    })?;
    form.print(&Report {
        network: created.folder.label().clone(),
        code: invitation.code(),
        label: label.clone(),
        rank,
        not_after_s,
        left_s: arguments.expires.as_secs(),
        shows_picture: std::io::stdout().is_terminal(),
    });
    Ok(())
}

/// Where whoever has the code finds the keeper.
fn host_of(created: &Created) -> Outcome<Host> {
    match &created.host {
        Site::Host(host) => Ok(host.clone()),
        Site::OnLink { .. } => Err(Failure::setup_text(format!(
            "this host is at {}, which holds on that link alone, and a code is for hosts elsewhere: on hosts of the \
             link, rhumb up; for others give this host an address that they reach, and start rhumb up again",
            created.host
        ))),
    }
}

struct Report {
    network: PublishedLabel,
    code: Zeroizing<String>,
    label: PublishedLabel,
    rank: Rank,
    not_after_s: u64,
    left_s: u64,
    shows_picture: bool,
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "network": self.network.as_str(),
            "code": &*self.code,
            "label": self.label.as_str(),
            "role": self.rank.as_str(),
            "not_after_s": self.not_after_s,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { network, label, code, .. } = self;
        writeln!(
            f,
            "on the host that is to be {label} in {network}, as a {}:\n",
            self.rank.as_str()
        )?;
        let router = if self.rank == Rank::Router { " --router" } else { "" };
        writeln!(f, "  rhumb join {}{router}\n", &**code)?;
        if self.shows_picture
            && let Ok(picture) = picture(code)
        {
            writeln!(f, "{picture}\n")?;
        }
        let until = date_and_time(self.not_after_s);
        write!(
            f,
            "it is good once, for {}, until {until} UTC: whoever has it can join, so give it to nobody else",
            span(self.left_s)
        )
    }
}

/// The code as a QR code.
fn picture(code: &str) -> Result<String, qrcode::types::QrError> {
    let drawn = QrCode::with_error_correction_level(code, EcLevel::L)?;
    let mut picture = drawn.render::<Dense1x2>();
    // What a terminal prints is light mostly, on dark; readers take the reverse, too.
    Ok(picture.dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_trust::invitation::Host;

    #[test]
    fn a_code_fits_into_a_small_picture() {
        let invitation = Invitation::generate(Host::parse("203.0.113.5").unwrap(), 7462).unwrap();
        let picture = picture(&invitation.code()).unwrap();
        let widest = picture.lines().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|it| it <= 40) && picture.lines().count() <= 20, "{picture}");
    }
}
