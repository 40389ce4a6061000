//! Three attacks, really carried out, each against a running process; what is reported is what that process did.
//!
//! Mallory has a key and a name of her own, and can reach everybody. She holds nobody else's key.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use rhumb_trust::{Identity, Window};
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::rib::{RibRequestBody, RibResponseBody};
use rhumb_wire::{Action, Certificate, Name, Role, Scope, Statement};
use serde::Serialize;

use super::network::Network;
use super::patience::Patience;
use super::relay::Relay;
use crate::clock;
use crate::directory::Directory;
use crate::failure::{Failure, Outcome};
use crate::remote::Remote;
use crate::session::Session;

/// An attack and what came of it.
#[derive(Debug, Serialize)]
pub(super) struct Attack {
    /// What was tried, in a few words.
    pub(super) name: &'static str,
    /// What exactly was done.
    pub(super) tried: String,
    /// Whether it came to nothing.
    pub(super) refused: bool,
    /// What the attacked did, by its own account.
    pub(super) reason: String,
}

/// Publishes a certificate in B's name that Mallory signed: all of B's traffic would go to her.
pub(super) fn forged_certificate(network: &Network) -> Outcome<Attack> {
    let mallory = stranger()?;
    let victim = network.b.name();
    let forged = forge(&mallory, victim, mallory.name())?;
    let mut session = Session::connect(Arc::clone(&mallory), network.rib.remote, PATIENCE)?;
    let mut rib = Directory::new(&mut session, mallory.name());
    let metadata = vec![(**network.b.identity.metadata()).clone()];
    let answer = rib.request(RibRequestBody::Publish { metadata, certificates: vec![forged] })?;
    let chain = rib.look_up(victim)?;
    session.close();

    let unharmed = chain.is_some_and(|chain| chain.routers().all(|via| via != mallory.name()));
    let (refused, said) = match answer {
        RibResponseBody::Refused(refusal) => (unharmed, refusal.to_string()),
        _ => (false, "it was not refused".to_owned()),
    };
    Ok(Attack {
        name: "forged certificate",
        tried: "published \"B says: Mallory may carry my traffic\", signed by Mallory's key".into(),
        refused,
        reason: format!("the RIB refused it: {said}"),
    })
}

/// Sends a file of A's again, datagram by datagram, as somebody on the cable between A and R1 can.
pub(super) fn replayed_datagram(
    network: &mut Network,
    note: &Path,
    patience: &Patience,
) -> Outcome<Attack> {
    let before = network.r1.dropped("dropped_datagrams", "replayed")?;
    let relay = Relay::start(network.r1.remote.address)?;
    let tapped = Remote { address: relay.address(), ..network.r1.remote };
    let to = network.b.name().to_string();
    let mut sender = network.a.run(
        &["send".as_ref(), "--quiet".as_ref(), note.as_ref(), "--to".as_ref(), to.as_ref()],
        tapped,
    )?;
    sender.next_object(patience)?;
    let received = network.receiver.next_object(patience)?;

    let (mut replayed, mut dropped) = (0, 0);
    let counted = patience.until(COUNTED_WITHIN, || {
        replayed = relay.replayed();
        dropped = network.r1.dropped("dropped_datagrams", "replayed")? - before;
        Ok(replayed > 0 && dropped >= replayed)
    })?;
    let again = network.receiver.printed();
    let once = received["bytes"].as_u64().is_some() && again.is_none();
    Ok(Attack {
        name: "replayed datagram",
        tried: format!("captured {replayed} sealed datagrams from A to R1 and sent them again"),
        refused: counted && once,
        reason: format!("R1 dropped {dropped} of {replayed} as replayed; B got the file once"),
    })
}

/// Joins R1 under B's name: R1 would hand B's traffic to Mallory. First with a certificate for R1 as B would bring it,
/// then with a whole chain: B lets Mallory carry, and Mallory, who may say so, lets R1.
pub(super) fn claimed_name(network: &Network) -> Outcome<Attack> {
    let mallory = stranger()?;
    let router = network.r1.remote;
    let victim = network.b.name();
    let r1 = router.name.ok_or_else(|| Failure::operation_text("R1 has no name"))?;
    let now = clock::now();
    let window = Window::starting(now.unix_s(), FORGED_LIFETIME_S);
    let genuine = mallory
        .certify(Statement::Route { via: r1, scope: Scope::Any }, now.unix_ms, window)
        .map_err(Failure::operation)?;
    let plain = [forge(&mallory, victim, r1)?];
    let chain = [forge(&mallory, victim, mallory.name())?, genuine];

    let refused_before = chains_refused(network)?;
    let mut session = Session::connect(mallory, router, PATIENCE)?;
    let first = advertise(&mut session, victim, &plain)?;
    let second = advertise(&mut session, victim, &chain)?;
    session.close();
    let signature_refused = chains_refused(network)? > refused_before;
    let (refused, said) = match (&first, &second) {
        (Verdict::Refused(first), Verdict::Refused(second)) => (
            signature_refused,
            format!(
                "R1 refused the first ({first}), as the session is not B's, and the second \
                 ({second}), as the signature is not"
            ),
        ),
        (first, second) => (false, format!("R1's verdicts: {first:?}, {second:?}")),
    };
    Ok(Attack {
        name: "claimed name",
        tried: "joined R1 as B, with a forged certificate for R1, then with one for herself".into(),
        refused,
        reason: said,
    })
}

/// What R1 said to an advertisement.
#[derive(Debug)]
enum Verdict {
    Refused(Reason),
    Accepted,
    Silence,
}

fn advertise(
    session: &mut Session,
    source: Name,
    certificates: &[Certificate],
) -> Outcome<Verdict> {
    // R1 may first have to fetch B's metadata, and says so; honest nodes come back then, and so does Mallory.
    for _ in 0..MAX_TRIES {
        let answer = session.ask(Action::Advertise, source, &NO_DATA, certificates, PATIENCE)?;
        let Some(answer) = answer else { return Ok(Verdict::Silence) };
        if answer.header.action != Action::Nack {
            return Ok(Verdict::Accepted);
        }
        match Nack::parse(&answer.data).map_err(Failure::operation)?.reason {
            Reason::NotYet(ms) | Reason::Overloaded(ms) => {
                std::thread::sleep(Duration::from_millis(ms.into()).min(LONGEST_PAUSE));
            }
            reason => return Ok(Verdict::Refused(reason)),
        }
    }
    Ok(Verdict::Silence)
}

fn chains_refused(network: &Network) -> Outcome<u64> {
    Ok(network.r1.status()?["counters"]["chains_refused"].as_u64().unwrap_or(0))
}

fn stranger() -> Outcome<Arc<Identity>> {
    Identity::generate(Role::Node, clock::now().unix_s()).map(Arc::new).map_err(Failure::operation)
}

/// "`issuer` says: `via` may carry my traffic", as if by the issuer, signed by `signer`.
fn forge(signer: &Identity, issuer: Name, via: Name) -> Outcome<Certificate> {
    let now = clock::now();
    let window = Window::starting(now.unix_s(), FORGED_LIFETIME_S);
    let statement = Statement::Route { via, scope: Scope::Any };
    let sequence = now.unix_ms + SEQUENCE_LEAD;
    let mut certificate =
        signer.certify(statement, sequence, window).map_err(Failure::operation)?;
    certificate.issuer = issuer;
    let bad_key = |_| Failure::operation_text("the attacker's key cannot be used");
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, signer.pkcs8_der())
        .map_err(bad_key)?;
    let signature = pair
        .sign(&SystemRandom::new(), &certificate.signed_bytes())
        .map_err(|_| Failure::operation_text("the attacker cannot sign"))?;
    certificate.signature.copy_from_slice(signature.as_ref());
    Ok(certificate)
}

/// Newer than whatever the victim said, so that only the signature stands in the way.
const SEQUENCE_LEAD: u64 = 10_000;
const FORGED_LIFETIME_S: u64 = 600;
/// Everything is on this machine.
const PATIENCE: Duration = Duration::from_secs(2);
/// Counters are exact at once; this is for a machine that is very busy.
const COUNTED_WITHIN: Duration = Duration::from_secs(2);
const MAX_TRIES: usize = 10;
/// R1 asks its RIB, which is on this machine too.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// As long as a NACK with its reporter, so that the answer may say who refuses.
const NO_DATA: [u8; Nack::MAX_LEN] = [0; Nack::MAX_LEN];
