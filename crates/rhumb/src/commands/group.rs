//! `rhumb group`: receive what is sent to a group, send to it, and tell its routers who is a member
//! no longer. A group is a trust domain, so `rhumb domain` makes it and admits its members.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use rhumb_daemon::ad_cert;
use rhumb_daemon::cli::{
    GroupCommand, GroupReceiveArguments, GroupRemoveArguments, GroupSendArguments,
};
use rhumb_daemon::clock;
use rhumb_daemon::config::NodeSettings;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::membership::joined;
use rhumb_daemon::output::Form;
use rhumb_node::{Group, GroupState, Membership, Message, Node, NodeError, Part};
use rhumb_trust::Removal;
use rhumb_wire::Name;
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;

/// Runs the command.
pub(crate) fn run(
    command: &GroupCommand,
    settings: &NodeSettings,
    with_parent: bool,
    form: Form,
) -> Outcome {
    match command {
        GroupCommand::Receive(arguments) => {
            let membership = load(&arguments.membership)?;
            let stopped = Ok(());
            joined(settings, with_parent, stopped, |node| {
                receive(node, membership, arguments, form)
            })
        }
        GroupCommand::Send(arguments) => {
            let membership = load(&arguments.membership)?;
            let stopped = Err(Failure::operation_text("stopped"));
            let sent =
                joined(settings, with_parent, stopped, |node| send(node, membership, arguments))?;
            form.print(&sent);
            Ok(())
        }
        GroupCommand::Remove(arguments) => remove(arguments, settings, with_parent, form),
    }
}

async fn receive(
    node: Node,
    membership: Membership,
    arguments: &GroupReceiveArguments,
    form: Form,
) -> Outcome {
    let mut port = node.bind_plain(arguments.port).await.map_err(Failure::operation)?;
    let _root = match &arguments.serve {
        Some(file) => {
            let ad_cert = ad_cert::load_for(file, node.name(), clock::now().unix_s())?;
            Some(node.serve(ad_cert).await.map_err(Failure::operation)?)
        }
        None => None,
    };
    let mut group = join(&node, Part::Receives, membership).await?;
    form.print(&Ready { group: group.name() });
    let mut left = arguments.count.unwrap_or(u64::MAX);
    while left > 0 {
        tokio::select! {
            message = port.receive() => match message {
                Some(message) if message.to == group.name() => {
                    form.print(&Received(message));
                    left -= 1;
                }
                Some(_) => {}
                None => return Err(Failure::operation_text("the node has left")),
            },
            Some(state) = group.changed() => tell(&group, state),
        }
    }
    Ok(())
}

async fn send(node: Node, membership: Membership, arguments: &GroupSendArguments) -> Outcome<Sent> {
    let group = join(&node, Part::Sends, membership).await?;
    let mut sent = Sent { group: group.name(), messages: 0 };
    if let Some(text) = &arguments.text {
        group.send_to(arguments.port, text.as_bytes()).await.map_err(Failure::operation)?;
        sent.messages = 1;
    } else {
        let mut lines = lines_of_input();
        while let Some(line) = lines.recv().await {
            let line = line.map_err(Failure::operation)?;
            group.send_to(arguments.port, line.as_bytes()).await.map_err(Failure::operation)?;
            sent.messages += 1;
        }
    }
    // What a router refuses it says by then, and it is sent again.
    tokio::time::sleep(LINGER).await;
    Ok(sent)
}

/// The lines of standard input, read by a thread of their own, which ends with the process.
fn lines_of_input() -> mpsc::Receiver<io::Result<String>> {
    let (lines, read) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lines() {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    read
}

fn remove(
    arguments: &GroupRemoveArguments,
    settings: &NodeSettings,
    with_parent: bool,
    form: Form,
) -> Outcome {
    let file = &arguments.removal;
    let unreadable = |error| Failure::setup_text(format!("{}: {error}", file.display()));
    let removal = Removal::load(file).map_err(unreadable)?;
    let group = removal.authority().map_or(removal.issuer(), Membership::domain);
    let told = Told { group, removed: removal.removed() };
    let stopped = Err(Failure::operation_text("stopped"));
    joined(settings, with_parent, stopped, |node| async move {
        node.remove_from_group(group, removal).await.map_err(Failure::operation)
    })?;
    form.print(&told);
    Ok(())
}

async fn join(node: &Node, part: Part, membership: Membership) -> Outcome<Group> {
    let group = membership.domain();
    node.join_group(group, part, membership).await.map_err(|error| match error {
        NodeError::Group(why) => Failure::setup(why),
        error => Failure::operation(error),
    })
}

fn load(file: &Path) -> Outcome<Membership> {
    Membership::load(file).map_err(|error| {
        Failure::setup_text(format!(
            "{}: {error}; the group's owner makes it: rhumb domain admit",
            file.display()
        ))
    })
}

fn tell(group: &Group, state: GroupState) {
    match state {
        GroupState::Joined => tracing::info!(group = %group.name(), "receiving again"),
        GroupState::Refused(reason) => {
            tracing::warn!(group = %group.name(), %reason, "the router refuses; it is asked again");
        }
        _ => tracing::warn!(group = %group.name(), "the router is lost"),
    }
}

/// Longer than a NACK takes, and what it asks for.
const LINGER: Duration = Duration::from_millis(300);

struct Ready {
    group: Name,
}

impl Serialize for Ready {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({"receiving_from": self.group.to_string()}).serialize(serializer)
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "receiving from the group {}", self.group)
    }
}

/// A message as it came.
struct Received(Message);

impl Serialize for Received {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({
            "from": self.0.from.to_string(),
            "text": String::from_utf8_lossy(&self.0.body),
        })
        .serialize(serializer)
    }
}

impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A terminal obeys control characters, and this is somebody else's text.
        let text = String::from_utf8_lossy(&self.0.body);
        write!(f, "{}: ", self.0.from)?;
        text.chars().try_for_each(|it| match it.is_control() {
            true => write!(f, "{}", it.escape_default()),
            false => write!(f, "{it}"),
        })
    }
}

struct Sent {
    group: Name,
    messages: u64,
}

impl Serialize for Sent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({"group": self.group.to_string(), "messages": self.messages}).serialize(serializer)
    }
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.messages == 1 { "" } else { "s" };
        write!(f, "sent {} message{s} to the group {}", self.messages, self.group)
    }
}

struct Told {
    group: Name,
    removed: Name,
}

impl Serialize for Told {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({"group": self.group.to_string(), "removed": self.removed.to_string()})
            .serialize(serializer)
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is a member of the group {} no longer", self.removed, self.group)
    }
}
