//! What the demo found out, in words for people and as one object for programs.

use std::fmt;
use std::time::Duration;

use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::output::{Form, bytes_text, rate_text, round_trip_text};
use rhumb_daemon::words::Labels;
use rhumb_wire::{Certificate, Statement};
use serde::Serialize;

use super::attacks::Attack;
use super::network::Network;

/// The file that was moved.
#[derive(Debug, Serialize)]
pub(super) struct Transfer {
    pub(super) file: String,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    pub(super) sha256_ok: bool,
    pub(super) sha256_sent: String,
    pub(super) sha256_received: String,
}

/// A certificate of the chain.
#[derive(Debug, Serialize)]
pub(super) struct CertificateFact {
    issuer: String,
    via: Option<String>,
    locator: Option<String>,
    not_after_s: u64,
    words: String,
}

/// Everything.
#[derive(Debug, Serialize)]
pub(super) struct Facts {
    #[serde(flatten)]
    transfer: Transfer,
    mbit_s: f64,
    rtt_us: f64,
    path: Vec<String>,
    chain: Vec<CertificateFact>,
    chain_back: Vec<CertificateFact>,
    attacks: Vec<Attack>,
}

/// Who takes part.
pub(super) fn introduce(network: &Network, form: Form) {
    let short = |name: Option<rhumb_wire::Name>| name.map_or_else(String::new, |n| n.short());
    let at = |remote: &rhumb_daemon::remote::Remote| {
        format!("{}.. at {}", short(remote.name), remote.address)
    };
    form.say(&format!(
        "One RIB, three routers and two nodes, each a process of its own, talk over UDP on this machine.\n\
         Every name is the hash of its holder's key (the first characters are shown):\n\n  \
         RIB  {}  keeps the directory of verified routes\n  \
         R1   {}  A joins here\n  \
         R2   {}  connects R1 and R3\n  \
         R3   {}  B joins here\n  \
         A    {}..  sends\n  \
         B    {}..  receives",
        at(&network.rib.remote),
        at(&network.r1.remote),
        at(&network.r2.remote),
        at(&network.r3.remote),
        network.a.name().short(),
        network.b.name().short(),
    ));
}

impl Transfer {
    /// How it went.
    pub(super) fn tell(&self, form: Form) {
        let elapsed = Duration::from_secs_f64(self.seconds.max(0.0));
        let verdict = if self.sha256_ok { "is the same at both ends" } else { "DIFFERS" };
        form.say(&format!(
            "\nA sent B the file {} ({}), knowing nothing but B's name.\n  \
             It took {:.2} s: {}. The SHA-256 {verdict}:\n  {}",
            self.file,
            bytes_text(self.bytes),
            self.seconds,
            rate_text(self.bytes, elapsed),
            self.sha256_received,
        ));
    }
}

/// The way and its time.
pub(super) fn tell_path(path: &[String], rtt_us: f64, form: Form) {
    form.say(&format!(
        "\nThe way it took, as each hop says of itself:\n  {}\n  The round trip takes {} (median).",
        path.join(" - "),
        round_trip_text(Duration::from_secs_f64(rtt_us.max(0.0) / 1e6)),
    ));
}

/// Why each hop may carry.
pub(super) fn tell_chains([there, back]: &[Vec<CertificateFact>; 2], form: Form) {
    form.say(
        "\nWhy it may go that way: the certificates that the RIB gave, each signature verified:",
    );
    there.iter().for_each(|certificate| form.say(&format!("  {}.", certificate.words)));
    form.say("And why answers may come back to A's router:");
    back.iter().for_each(|certificate| form.say(&format!("  {}.", certificate.words)));
}

/// What was tried, and what came of it.
pub(super) fn tell_attacks(attacks: &[Attack], form: Form) {
    form.say("\nThree attacks by Mallory, who has a key of her own but nobody else's:");
    for (number, attack) in attacks.iter().enumerate() {
        let verdict = if attack.refused { "Refused" } else { "NOT REFUSED" };
        form.say(&format!(
            "  {}. {}: she {}.\n     {verdict}: {}.",
            number + 1,
            attack.name,
            attack.tried,
            attack.reason
        ));
    }
}

impl CertificateFact {
    /// A certificate, in values and in words.
    pub(super) fn new(certificate: &Certificate, labels: &Labels, now_s: u64) -> Self {
        let (via, locator) = match certificate.statement {
            Statement::Service { server: via, .. } | Statement::Route { via, .. } => {
                (Some(labels.of(via)), None)
            }
            Statement::Locator(locator) => (None, Some(locator.address().to_string())),
            Statement::Withdrawal
            | Statement::Absence { .. }
            | Statement::Member { .. }
            | Statement::Removal { .. } => (None, None),
        };
        Self {
            issuer: labels.of(certificate.issuer),
            via,
            locator,
            not_after_s: certificate.not_after_s,
            words: labels.sentence(certificate, now_s),
        }
    }
}

impl Facts {
    /// Puts all together.
    pub(super) fn new(
        transfer: Transfer,
        path: Vec<String>,
        rtt_us: f64,
        [chain, chain_back]: [Vec<CertificateFact>; 2],
        attacks: Vec<Attack>,
    ) -> Self {
        let mbit_s = transfer.bytes as f64 * 8e-6 / transfer.seconds.max(1e-9);
        Self { transfer, mbit_s, rtt_us, path, chain, chain_back, attacks }
    }

    /// Whether everything was as it should be.
    pub(super) fn verdict(&self) -> Outcome {
        if !self.transfer.sha256_ok {
            return Err(Failure::operation_text("what arrived is not what was sent"));
        }
        if self.path != EXPECTED_PATH {
            let path = self.path.join(" - ");
            return Err(Failure::operation_text(format!("the file went another way: {path}")));
        }
        match self.attacks.iter().find(|attack| !attack.refused) {
            Some(attack) => {
                Err(Failure::operation_text(format!("an attack was not refused: {}", attack.name)))
            }
            None => Ok(()),
        }
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.verdict() {
            Ok(()) => f.write_str(
                "\nAll as it should be; all processes have ended. The README shows how to run your own.",
            ),
            Err(failure) => write!(f, "\nNot as it should be: {failure}."),
        }
    }
}

const EXPECTED_PATH: [&str; 5] = ["A", "R1", "R2", "R3", "B"];
