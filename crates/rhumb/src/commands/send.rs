//! `rhumb send`: a file to a name. It arrives whole and with the same SHA-256, or this fails. The
//! node that runs for this user sends it, if there is one and nothing says how to join instead.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use data_encoding::HEXLOWER;
use rhumb_daemon::cli::SendArguments;
use rhumb_daemon::config::NodeSettings;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::membership::{check_peer, joined};
use rhumb_daemon::output::{Form, bytes_text, rate_text, resumed_text};
use rhumb_daemon::progress::Bar;
use rhumb_daemon::running::{Request, Running, Sent, by_running};
use rhumb_node::Node;
use rhumb_node::transfer::sha256_of;
use rhumb_wire::Name;
use rhumb_wire::transfer::{FileName, Offer};
use serde::Serialize;

/// Runs the command.
pub(crate) fn run(
    arguments: &SendArguments,
    settings: &NodeSettings,
    with_parent: bool,
    bar: &Bar,
    form: Form,
) -> Outcome {
    check_peer(settings, arguments.to)?;
    let (file, offer) = open(&arguments.file)?;
    let stopped = || Err(Failure::operation_text("stopped before the file had arrived"));
    let lent = file.try_clone().map_err(Failure::operation)?;
    let by_it = by_running(&arguments.node, with_parent, stopped(), |running| {
        send_by(running, arguments.to, lent, &offer, bar)
    });
    let sent = by_it.unwrap_or_else(|| {
        joined(settings, with_parent, stopped(), |node| {
            send(node, arguments.to, file, offer.clone(), bar)
        })
    });
    bar.end();
    let sent = sent?;
    form.print(&Report { to: arguments.to, offer, sent });
    Ok(())
}

async fn send(node: Node, to: Name, file: File, offer: Offer, bar: &Bar) -> Outcome<Sent> {
    bar.begin(offer.name.as_str(), offer.length);
    let progress = bar.clone();
    let sent = node.send_file(to, file, offer, move |bytes| progress.advance(bytes));
    sent.await.map(Sent::from).map_err(Failure::operation)
}

/// As [`send`], by the node that runs.
async fn send_by(
    running: Running,
    to: Name,
    file: File,
    offer: &Offer,
    bar: &Bar,
) -> Outcome<Sent> {
    bar.begin(offer.name.as_str(), offer.length);
    let request = Request::Send {
        to: to.to_string(),
        file: offer.name.to_string(),
        length: offer.length,
        sha256: HEXLOWER.encode(&offer.sha256),
    };
    running.send(&request, file, |bytes| bar.advance(bytes)).await
}

/// The file, and what is said of it before it is sent.
fn open(path: &Path) -> Outcome<(File, Offer)> {
    let refuse = |problem: &dyn fmt::Display| {
        Failure::setup_text(format!("cannot send {}: {problem}", path.display()))
    };
    let mut file = File::open(path).map_err(|error| refuse(&error))?;
    let metadata = file.metadata().map_err(|error| refuse(&error))?;
    if !metadata.is_file() {
        return Err(refuse(&"it is no regular file; give one, or pack it with tar first"));
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = FileName::new(name)
        .map_err(|error| refuse(&format_args!("its name cannot travel ({error}); rename it")))?;
    let length = metadata.len();
    let sha256 = sha256_of(&mut file, length).map_err(|error| refuse(&error))?;
    Ok((file, Offer { length, sha256, name }))
}

struct Report {
    to: Name,
    offer: Offer,
    sent: Sent,
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::json!({
            "sent": self.offer.name.as_str(),
            "to": self.to.to_string(),
            "bytes": self.sent.bytes,
            "sha256": HEXLOWER.encode(&self.offer.sha256),
            "seconds": self.sent.seconds,
            "restarts": self.sent.restarts,
            "resumed_from": self.sent.resumed_from,
            "sent_bytes": self.sent.sent_bytes,
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sent { bytes, seconds, resumed_from, .. } = self.sent;
        write!(
            f,
            "sent {} ({}{}) to {} in {seconds:.2} s, {}",
            self.offer.name,
            bytes_text(bytes),
            resumed_text(resumed_from),
            self.to,
            rate_text(bytes - resumed_from, Duration::from_secs_f64(seconds))
        )
    }
}
