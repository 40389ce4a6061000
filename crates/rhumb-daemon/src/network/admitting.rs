//! Whoever runs the keeper of a link's network sees who asks, and lets in: by what the keeper tells
//! over its admin endpoint, which its own user alone may ask, and by the ledger, in which the
//! keeper finds whom it may greet.

use std::io;

use rhumb_wire::{Name, PublishedLabel};
use serde_json::{Value, json};

use super::created::Created;
use super::ledger::{Ledger, Member};
use crate::admin::Admin;
use crate::clock;
use crate::failure::Outcome;
use crate::remote::parse_name;
use crate::status;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asking {
    /// Who it is.
    pub name: Name,
    /// What it would be called.
    pub label: PublishedLabel,
    /// What has to stand on its screen, too.
    pub number: String,
    /// Where it asks from.
    pub address: String,
    /// Whether its own people have agreed.
    pub agreed: bool,
}

impl Asking {
    /// As the keeper tells it, and as commands print it.
    pub fn facts(&self) -> Value {
        let Self { name, label, number, address, agreed } = self;
        json!({
            "name": name.to_string(),
            "label": label.as_str(),
            "number": number,
            "address": address,
            "agreed": agreed,
        })
    }

    fn read(told: &Value) -> Option<Self> {
        let text = |field: &str| told[field].as_str();
        Some(Self {
            name: parse_name(text("name")?).ok()?,
            label: text("label")?.parse().ok()?,
            number: text("number")?.to_owned(),
            address: text("address")?.to_owned(),
            agreed: told["agreed"] == true,
        })
    }
}

/// What a keeper that runs tells of who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Who asks, the oldest first.
    pub asking: Vec<Asking>,
    /// Whether it takes requests at all.
    pub takes_requests: bool,
    /// For how many seconds more whoever asks is let in.
    pub open_for_s: Option<u64>,
}

/// Asks the keeper of `created`.
///
/// # Errors
/// When it does not run.
pub fn told_by(created: &Created) -> io::Result<Told> {
    let admin = Admin::Usual.settled(&format!("keeper-{}", created.folder.label()));
    let admin = admin.map_err(|failure| io::Error::other(failure.to_string()))?;
    let told = status::fetch(&admin)?;
    let asking = told["asking"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(Told {
        asking: asking.iter().filter_map(Asking::read).collect(),
        takes_requests: told["takes_requests"] == true,
        open_for_s: told["open_for_s"].as_u64(),
    })
}

/// Lets in who asks; its keeper greets it when its own people have agreed.
///
/// # Errors
/// When the network is full, or the ledger cannot be written.
pub fn let_in(created: &Created, asking: &Asking) -> Outcome<Member> {
    Ledger::change(&created.folder, |ledger| {
        let network = created.folder.label();
        ledger.let_in(asking.name, &asking.label, network, clock::now().unix_s())
    })
}

/// Digits alone, as people type a number.
pub fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}
