//! `rhumb send`: a file or a folder to a name. It arrives whole and with the same SHA-256, or this
//! fails. The node that runs for this user sends it, if there is one and nothing says how to join
//! instead.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use data_encoding::HEXLOWER;
use input::Input;
use rhumb_daemon::cli::SendArguments;
use rhumb_daemon::config::NodeSettings;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::membership::joined;
use rhumb_daemon::output::{Form, bytes_text, rate_text, resumed_text};
use rhumb_daemon::progress::Bar;
use rhumb_daemon::published::{find_by, find_once};
use rhumb_daemon::running::{Request, Running, Sent, by_running};
use rhumb_node::Node;
use rhumb_node::transfer::{ReadAt, sha256_of};
use rhumb_wire::Name;
use rhumb_wire::transfer::{FileName, Kind, Offer};
use serde::Serialize;
use tree::Tree;

mod input;
mod tree;

/// Runs the command.
pub(crate) fn run(
    arguments: &SendArguments,
    settings: &NodeSettings,
    with_parent: bool,
    bar: &Bar,
    form: Form,
) -> Outcome {
    if arguments.file.as_os_str() == STANDARD_INPUT {
        return send_input(arguments, settings, with_parent, bar, form);
    }
    let Outgoing { content, offer, left_out } =
        Outgoing::open(&arguments.file, arguments.name.as_deref())?;
    // One of the two below takes it.
    let content = Cell::new(Some(content));
    let taken = || content.take().ok_or_else(|| Failure::operation_text("it is sent already"));
    let stopped = || Err(Failure::operation_text("stopped before the file had arrived"));
    let (called, asks) = (&arguments.to, &arguments.asks);
    let by_it = by_running(&arguments.node, with_parent, stopped(), async |running| {
        let to = find_by(&running, called, asks, settings).await?;
        Ok((to, send_by(running, to, taken()?, &offer, bar).await?))
    });
    let sent = by_it.unwrap_or_else(|| {
        let to = find_once(called, asks, settings)?;
        joined(settings, with_parent, stopped(), async |node| {
            Ok((to, send(node, to, taken()?, offer.clone(), bar).await?))
        })
    });
    bar.end();
    let (to, sent) = sent?;
    form.print(&Report { to, offer, left_out, sent });
    Ok(())
}

/// Sends standard input until it ends.
fn send_input(
    arguments: &SendArguments,
    settings: &NodeSettings,
    with_parent: bool,
    bar: &Bar,
    form: Form,
) -> Outcome {
    if with_parent {
        return Err(Failure::setup_text("standard input is the parent's; send a file"));
    }
    let name = arguments.name.as_deref().ok_or_else(|| {
        Failure::setup_text("standard input has no name: give what it is to be called with --name")
    })?;
    let refused = |error| Failure::setup_text(format!("--name {name}: {error}"));
    let name = FileName::new(name).map_err(refused)?;
    let (called, asks) = (&arguments.to, &arguments.asks);
    let stopped = || Err(Failure::operation_text("stopped before standard input had ended"));
    bar.begin_endless(name.as_str());
    let by_it = by_running(&arguments.node, with_parent, stopped(), async |running| {
        let to = find_by(&running, called, asks, settings).await?;
        let request = Request::SendInput { to: to.to_string(), file: name.to_string() };
        let sent = running.send_input(&request, Input::begin(), |bytes| bar.advance(bytes)).await?;
        Ok((to, sent))
    });
    let sent = by_it.unwrap_or_else(|| {
        let to = find_once(called, asks, settings)?;
        joined(settings, with_parent, stopped(), async |node| {
            let progress = bar.clone();
            let progress = move |bytes| progress.advance(bytes);
            let sent = node.send_endless(to, Input::begin(), name.clone(), progress).await;
            Ok((to, sent.map(Sent::from).map_err(Failure::operation)?))
        })
    });
    bar.end();
    let (to, sent) = sent?;
    let (length, sha256) = (sent.bytes, sent.sha256);
    let offer = Offer { kind: Kind::Endless, length, sha256, name };
    form.print(&Report { to, offer, left_out: Vec::new(), sent });
    Ok(())
}

async fn send(node: Node, to: Name, content: Content, offer: Offer, bar: &Bar) -> Outcome<Sent> {
    bar.begin(offer.name.as_str(), offer.length);
    let progress = bar.clone();
    let sent = node.send_file(to, content, offer, move |bytes| progress.advance(bytes));
    sent.await.map(Sent::from).map_err(Failure::operation)
}

/// As [`send`], by the node that runs.
async fn send_by(
    running: Running,
    to: Name,
    content: Content,
    offer: &Offer,
    bar: &Bar,
) -> Outcome<Sent> {
    bar.begin(offer.name.as_str(), offer.length);
    let request = Request::Send {
        to: to.to_string(),
        file: offer.name.to_string(),
        kind: offer.kind as u8,
        length: offer.length,
        sha256: HEXLOWER.encode(&offer.sha256),
    };
    running.send(&request, content, |bytes| bar.advance(bytes)).await
}

/// The bytes of a file or a folder.
type Content = Box<dyn ReadAt + Send>;

/// A file or a folder, and what is said of it before it is sent.
struct Outgoing {
    content: Content,
    offer: Offer,
    /// What in the folder is not sent.
    left_out: Vec<String>,
}

impl Outgoing {
    fn open(path: &Path, called: Option<&str>) -> Outcome<Self> {
        let refuse = |problem: &dyn fmt::Display| {
            Failure::setup_text(format!("cannot send {}: {problem}", path.display()))
        };
        let file = File::open(path).map_err(|error| refuse(&error))?;
        let metadata = file.metadata().map_err(|error| refuse(&error))?;
        // Of `.` and the like as well.
        let whole = path.canonicalize().map_err(|error| refuse(&error))?;
        let name = path.file_name().or(whole.file_name()).and_then(|name| name.to_str());
        let name = FileName::new(called.or(name).unwrap_or_default()).map_err(|error| {
            refuse(&format_args!("its name cannot travel ({error}); give another with --name"))
        })?;
        if metadata.is_dir() {
            let (mut tree, left_out) = Tree::of(path)?;
            let (list_len, length) = (tree.list_len(), tree.length());
            // The list says what the files are.
            let sha256 = sha256_of(&mut tree, list_len).map_err(|error| refuse(&error))?;
            let offer = Offer { kind: Kind::FileByFile, length, sha256, name };
            return Ok(Self { content: Box::new(tree), offer, left_out });
        }
        if !metadata.is_file() {
            return Err(refuse(
                &"it is neither a file nor a folder; what a program writes goes by `rhumb send -`",
            ));
        }
        let (mut file, length) = (file, metadata.len());
        let sha256 = sha256_of(&mut file, length).map_err(|error| refuse(&error))?;
        let offer = Offer { kind: Kind::File, length, sha256, name };
        Ok(Self { content: Box::new(file), offer, left_out: Vec::new() })
    }
}

struct Report {
    to: Name,
    offer: Offer,
    left_out: Vec<String>,
    sent: Sent,
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::json!({
            "sent": self.offer.name.as_str(),
            "to": self.to.to_string(),
            "is_folder": self.offer.kind.is_folder(),
            "left_out": self.left_out,
            "bytes": self.sent.bytes,
            "sha256": HEXLOWER.encode(&self.sent.sha256),
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
        )?;
        match &self.left_out[..] {
            [] => Ok(()),
            [first, others @ ..] => {
                write!(f, "; links and what is no file are left out: {first}")?;
                match others.len() {
                    0 => Ok(()),
                    others => write!(f, ", and {others} more"),
                }
            }
        }
    }
}

/// In the place of a file.
const STANDARD_INPUT: &str = "-";
