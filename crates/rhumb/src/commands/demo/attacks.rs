//! Three attacks, really carried out, each against a running
//! process; what is reported is what that process did.
//!
//! Mallory has a key and a name of her own, and can reach everybody. She holds nobody else's key.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use rhumb_daemon::clock;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::inquiry::{Directory, Session};
use rhumb_daemon::remote::Remote;
use rhumb_trust::{Identity, Window};
use rhumb_wire::nack::{Nack, Reason};
use rhumb_wire::rib::{Refusal, RibRequestBody, RibResponseBody};
use rhumb_wire::{Action, Certificate, Metadata, Name, Role, Scope, Statement};
use serde::Serialize;

use super::network::Network;
use super::patience::Patience;
use super::relay::Relay;

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
    let statement = Statement::Route { via: mallory.name(), scope: Scope::Any };
    let forged = forge(&mallory, victim, statement)?;
    let mut session = Session::connect(Arc::clone(&mallory), network.rib.remote, PATIENCE)?;
    let mut rib = Directory::new(&mut session, mallory.name());
    let metadata = vec![(**network.b.identity.metadata()).clone()];
    let answer = rib.request(RibRequestBody::Publish { metadata, certificates: vec![forged] })?;
    let chain = rib.look_up(victim)?;
    session.close();

    let unharmed = chain.is_some_and(|chain| chain.routers().all(|via| via != mallory.name()));
    let (refused, said) = match answer {
        // For any other reason, the attack would not have got as far as the signature.
        RibResponseBody::Refused(refusal) => {
            (unharmed && refusal == Refusal::BadSignature, refusal.to_string())
        }
        _ => (false, "it was not refused".to_owned()),
    };
    Ok(Attack {
        name: "forged certificate",
        tried: "told the RIB \"B says: Mallory may carry my traffic\", signed with her own key"
            .into(),
        refused,
        reason: format!("the RIB says: {said}"),
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

/// Joins R1 under B's name: R1 would hand B's traffic to Mallory. First with a
/// certificate for R1 as B would bring it, then as a server brings one: B's word that
/// Mallory answers for B, and Mallory's own that R1 may carry. Everything but B's
/// signature is in order, so nothing else can be what stops her.
pub(super) fn claimed_name(network: &Network) -> Outcome<Attack> {
    let mallory = stranger()?;
    let router = network.r1.remote;
    let victim = network.b.name();
    let r1 = router.name.ok_or_else(|| Failure::operation_text("R1 has no name"))?;
    let now = clock::now();
    let window = Window::starting(now.unix_s(), FORGED_LIFETIME_S);
    let route = Statement::Route { via: r1, scope: Scope::Any };
    let genuine = mallory.certify(route, now.unix_ms, window).map_err(Failure::operation)?;
    let service = Statement::Service { server: mallory.name(), several: false };
    let as_b = [forge(&mallory, victim, route)?];
    let as_server = [forge(&mallory, victim, service)?, genuine];
    let mut metadata = Vec::new();
    Metadata::emit_list(&[(**network.b.identity.metadata()).clone()], &mut metadata);

    let refused_before = chains_refused(network)?;
    let mut session = Session::connect(mallory, router, PATIENCE)?;
    let first = advertise(&mut session, victim, &metadata, &as_b)?;
    let second = advertise(&mut session, victim, &metadata, &as_server)?;
    session.close();
    let signature_refused = chains_refused(network)? > refused_before;
    let (refused, said) = match (&first, &second) {
        (Verdict::Refused(first), Verdict::Refused(second)) if signature_refused => (
            true,
            format!(
                "R1 says to the first: {first}, as the session is not B's; to the second: \
                 {second}, as the signature is not B's"
            ),
        ),
        (first, second) => (false, format!("R1's verdicts: {first:?}, {second:?}")),
    };
    Ok(Attack {
        name: "claimed name",
        tried: "asked to join R1 as B, then as a server that B gave its word to, which she forged"
            .into(),
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
    metadata: &[u8],
    certificates: &[Certificate],
) -> Outcome<Verdict> {
    // R1 may first have to fetch B's metadata, and says so; honest
    // nodes come back then, and so does Mallory.
    for _ in 0..MAX_TRIES {
        let answer = session.ask(Action::Advertise, source, metadata, certificates, PATIENCE)?;
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

/// A statement as if by `issuer`, signed by `signer`.
fn forge(signer: &Identity, issuer: Name, statement: Statement) -> Outcome<Certificate> {
    let now = clock::now();
    let window = Window::starting(now.unix_s(), FORGED_LIFETIME_S);
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
