//! `rhumb demo`: the whole system on one machine, with nothing faked.
//!
//! 1. Start one RIB, three routers and a receiving node as
//!    processes of their own, on free loopback ports.
//! 2. Move a file by name from A to B, and compare what arrived.
//! 3. Measure the round trip; trace the way.
//! 4. Ask the RIB why each hop may carry B's traffic, verify the answer, and say it in words.
//! 5. Carry out three attacks, and report what the attacked said.
//!
//! With `--domains`, [`domains`] shows trust domains instead.
//!
//! Invariant: processes and folder are gone when this returns,
//! however it returns: they belong to values here.

mod attacks;
mod children;
mod domains;
mod facts;
mod file;
mod network;
mod patience;
mod relay;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rhumb_daemon::clock;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::inquiry::{Directory, Session};
use rhumb_daemon::output::Form;
use rhumb_trust::{Chain, Verified};
use rhumb_wire::Name;
use serde_json::Value;

use attacks::Attack;
use children::Process;
use facts::{CertificateFact, Facts, Transfer};
use file::DemoFile;
use network::Network;
use patience::Patience;

pub(crate) use domains::run as run_domains;

/// Runs the command.
pub(crate) fn run(given: Option<&Path>, with_parent: bool, quiet: bool, form: Form) -> Outcome {
    let patience = Patience::begin(DEADLINE, with_parent)?;
    let folder = tempfile::Builder::new()
        .prefix("rhumb-demo-")
        .tempdir()
        .map_err(|error| Failure::setup_text(format!("no temporary folder: {error}")))?;
    let file = DemoFile::choose(given, folder.path(), EXCERPT_BYTES)?;
    let inbox = folder.path().join("inbox");
    std::fs::create_dir(&inbox).map_err(Failure::operation)?;

    let mut network = Network::start(folder.path(), &inbox, &patience)?;
    facts::introduce(&network, form);

    let transfer = move_file(&mut network, &file, quiet, &patience)?;
    transfer.tell(form);
    let (rtt_us, path) = measure(&network, &patience)?;
    facts::tell_path(&path, rtt_us, form);
    let chains = certificates(&network)?;
    facts::tell_chains(&chains, form);
    let attacks = attack(&mut network, folder.path(), &patience)?;
    facts::tell_attacks(&attacks, form);

    let facts = Facts::new(transfer, path, rtt_us, chains, attacks);
    let verdict = facts.verdict();
    drop(network);
    form.print(&facts);
    verdict
}

/// Sends the file from A at R1 to B at R3, knowing nothing of B but the name.
fn move_file(
    network: &mut Network,
    file: &DemoFile,
    quiet: bool,
    patience: &Patience,
) -> Outcome<Transfer> {
    let to = network.b.name().to_string();
    let mut arguments = vec!["send".as_ref(), file.path.as_os_str(), "--to".as_ref(), to.as_ref()];
    if quiet {
        arguments.push("--quiet".as_ref());
    }
    let mut sender = network.a.run(&arguments, network.r1.remote)?;
    let sent = sender.next_object(patience)?;
    let received = network.receiver.next_object(patience)?;
    let path = received["received"].as_str().ok_or_else(|| misses("received"))?;
    let sha256_received = file::sha256_text(path.as_ref()).map_err(Failure::operation)?;
    Ok(Transfer {
        file: file.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        bytes: file.bytes,
        seconds: number(&sent, "seconds")?,
        sha256_ok: sha256_received == file.sha256,
        sha256_sent: file.sha256.clone(),
        sha256_received,
    })
}

/// The median round trip in microseconds, and the labels of all on the way.
fn measure(network: &Network, patience: &Patience) -> Outcome<(f64, Vec<String>)> {
    let to = network.b.name().to_string();
    let ask = |arguments: &[&std::ffi::OsStr]| -> Outcome<Value> {
        let mut process: Process = network.a.run(arguments, network.r1.remote)?;
        process.next_object(patience)
    };
    let ping = ask(&["ping".as_ref(), to.as_ref(), "--count".as_ref(), PINGS.as_ref()])?;
    let trace = ask(&["trace".as_ref(), to.as_ref()])?;
    let hops = trace["hops"].as_array().ok_or_else(|| misses("hops"))?;
    let label = |name: &str| name.parse::<Name>().ok().map(|name| network.labels.of(name));
    let mut path = vec![network.a.label.to_owned()];
    path.extend(hops.iter().map(|hop| {
        hop["name"].as_str().and_then(label).unwrap_or_else(|| "(no answer)".to_owned())
    }));
    Ok((number(&ping, "median_us")?, path))
}

/// The chains that lead to B, and back to A's router, as the RIB gives them and as they verify.
fn certificates(network: &Network) -> Outcome<[Vec<CertificateFact>; 2]> {
    let asker = Arc::clone(&network.a.identity);
    let source = asker.name();
    let mut session = Session::connect(asker, network.rib.remote, PATIENCE)?;
    let mut rib = Directory::new(&mut session, source);
    let there = rib.look_up(network.b.name())?;
    let back = network.r1.remote.name.map(|name| rib.look_up(name)).transpose()?.flatten();
    session.close();
    let (Some(there), Some(back)) = (there, back) else {
        return Err(Failure::operation_text("the RIB knows no way to B, or none to R1"));
    };
    let now_s = clock::now().unix_s();
    let facts = |chain: &Verified<Chain>| -> Vec<CertificateFact> {
        let certificates = chain.certificates().iter();
        certificates.map(|one| CertificateFact::new(one, &network.labels, now_s)).collect()
    };
    Ok([facts(&there), facts(&back)])
}

fn attack(network: &mut Network, folder: &Path, patience: &Patience) -> Outcome<Vec<Attack>> {
    let note = folder.join("note.txt");
    std::fs::write(&note, NOTE).map_err(Failure::operation)?;
    Ok(vec![
        attacks::forged_certificate(network)?,
        attacks::replayed_datagram(network, &note, patience)?,
        attacks::claimed_name(network)?,
    ])
}

fn number(object: &Value, key: &str) -> Outcome<f64> {
    object[key].as_f64().ok_or_else(|| misses(key))
}

fn misses(key: &str) -> Failure {
    Failure::operation_text(format!("a process of the demo did not report `{key}`"))
}

/// The promise is 30 s with everything; a step under way and
/// cleaning up take some seconds more at the worst.
const DEADLINE: Duration = Duration::from_secs(22);
/// Enough to see a steady rate, and over in a second or two.
const EXCERPT_BYTES: u64 = 64 << 20;
/// Everything is on this machine.
const PATIENCE: Duration = Duration::from_secs(3);
/// Enough for a median.
const PINGS: &str = "21";
const NOTE: &str = "Pay the bearer once.\n";
