//! `rhumb network admit`: who asks on this LAN to be let in, and to let one in by the number on its
//! screen, or to tell it no. In a terminal `rhumb up` asks for the same; this is for a host that
//! has none.

use std::fmt;
use std::time::{Duration, Instant};

use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::network::admitting::{Asking, digits, let_in, told_by};
use rhumb_daemon::network::declining::decline;
use rhumb_daemon::network::{Created, Member};
use rhumb_daemon::output::Form;
use rhumb_wire::PublishedLabel;
use serde::Serialize;
use serde_json::json;

pub(super) fn run(
    number: &str,
    refuse: bool,
    network: Option<&PublishedLabel>,
    form: Form,
) -> Outcome {
    let created = super::kept_here(network)?;
    let all = asking(&created)?;
    if number.is_empty() {
        all.iter().for_each(|it| form.print(&Asks(it)));
        if all.is_empty() {
            form.say("nobody asks: on the other host, rhumb up");
        }
        return Ok(());
    }
    let begin = Instant::now();
    loop {
        let found = asking(&created)?.into_iter().find(|it| digits(&it.number) == digits(number));
        match found {
            None => {
                return Err(Failure::setup_text(format!(
                    "nobody asks whose screen shows {number}: `rhumb network admit` shows who asks. If the other \
                     host shows this number, somebody is in between: let nobody in"
                )));
            }
            Some(it) if refuse => {
                decline(&created, &it)?;
                form.print(&Refused(it));
                return Ok(());
            }
            Some(it) if it.agreed => {
                let member = let_in(&created, &it)?;
                form.print(&LetIn(member));
                return Ok(());
            }
            Some(it) if begin.elapsed() > PATIENCE => {
                return Err(Failure::operation_text(format!(
                    "nobody has agreed at {} that the numbers are the same; press y there, then the same command again",
                    it.label
                )));
            }
            Some(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
}

fn asking(created: &Created) -> Outcome<Vec<Asking>> {
    let network = created.folder.label();
    let told = told_by(created).map_err(|_| {
        Failure::setup_text(format!(
            "the keeper of {network} does not run: start it, `rhumb up` if it is a network of a LAN, or else \
             `rhumb network run {network}`"
        ))
    })?;
    match told.takes_requests {
        true => Ok(told.asking),
        false => Err(Failure::setup_text(format!(
            "{network} takes members by invitation: rhumb network invite {network} --as LABEL"
        ))),
    }
}

struct Asks<'a>(&'a Asking);

impl Serialize for Asks<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.facts().serialize(serializer)
    }
}

impl fmt::Display for Asks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Asking { label, number, address, agreed, .. } = self.0;
        write!(f, "{number}  {label} at {address}")?;
        if !agreed {
            write!(f, ", where nobody has agreed yet")?;
        }
        Ok(())
    }
}

struct LetIn(Member);

impl Serialize for LetIn {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Member { label, name, .. } = &self.0;
        json!({ "let_in": label.as_str(), "name": name.to_string() }).serialize(serializer)
    }
}

impl fmt::Display for LetIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is in the network now", self.0.label)
    }
}

struct Refused(Asking);

impl Serialize for Refused {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Asking { label, name, .. } = &self.0;
        json!({ "refused": label.as_str(), "name": name.to_string() }).serialize(serializer)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is told that it is not let in", self.0.label)
    }
}

/// Until somebody has walked over.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(300);
