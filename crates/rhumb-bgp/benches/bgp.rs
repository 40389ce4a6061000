//! What a BGP speaker costs on real tables: messages per second read and
//! applied, routes per second packed, bytes per route.
//!
//! Kinds take turns within a round, so that a noisy machine disturbs all alike;
//! figures are medians over the rounds. "codec alone" reads the same messages and
//! forgets them: the rest is what sessions and tables cost.
//!
//! `cargo bench -p rhumb-bgp`; `-- --json` prints one object. Takes about half a minute. Without
//! the recordings beside the repository it says so and measures the excerpts.

#![expect(clippy::disallowed_methods, reason = "a bench owns its clock")]

#[path = "../../rhumb-io/benches/machine/mod.rs"]
mod machine;
#[path = "../tests/mrt/mod.rs"]
mod mrt;

use std::collections::BTreeMap;
use std::time::Instant;

use rhumb_bgp::wire::Prefix;
use rhumb_bgp::{Attributes, Family, Session, Transmit};

use machine::median;
use mrt::{Listener, Speaker};

const ROUNDS: usize = 5;

/// A figure's name and unit, and its values of each round.
type Figures = Vec<(String, &'static str, Vec<f64>)>;

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let updates = mrt::recording("bgpdump.updates.20070211.0141.gz")
        .unwrap_or_else(|| mrt::excerpt("linx-2007.mrt"));
    let updates: Vec<(Speaker, &[u8])> =
        mrt::messages(&updates).into_iter().filter(|(_, message)| message[18] == 2).collect();
    let table = mrt::recording("route-views.jinx.ribs.1401487200.bz2")
        .map(|recording| mrt::table(&recording));
    // The speaker with the most routes.
    let table = table.and_then(|tables| tables.into_iter().max_by_key(|(_, routes)| routes.len()));
    let mut figures = Figures::new();
    for _ in 0..ROUNDS {
        churn(&mut figures, &updates);
        if let Some((speaker, routes)) = &table {
            whole_table(&mut figures, *speaker, routes);
        }
    }
    if let Some((speaker, routes)) = &table {
        memory(&mut figures, *speaker, routes);
    }
    if json { print_json(&figures) } else { print_text(&figures) }
}

/// Updates of an exchange, in their order, each to its neighbour's session.
fn churn(figures: &mut Figures, updates: &[(Speaker, &[u8])]) {
    let alone = seconds(|| {
        updates.iter().for_each(|(speaker, message)| codec(speaker.four_octet_as, message));
    });
    let mut sessions: BTreeMap<Speaker, Listener> = BTreeMap::new();
    for (speaker, _) in updates {
        sessions.entry(*speaker).or_insert_with(|| Listener::new(*speaker));
    }
    let applied = seconds(|| {
        for (speaker, message) in updates {
            let listener = sessions.get_mut(speaker).expect("each has one");
            listener.hear(message);
            while listener.session.poll_event().is_some() {}
        }
    });
    let count = updates.len() as f64;
    note(figures, "LINX updates applied", "messages/s", count / applied);
    note(figures, "LINX updates, codec alone", "messages/s", count / alone);
    note(figures, "LINX updates, of codec alone", "ratio", applied / alone);
}

/// A whole table: in, one route to a message; out again, packed.
fn whole_table(figures: &mut Figures, speaker: Speaker, routes: &[Vec<u8>]) {
    let count = routes.len() as f64;
    let alone = seconds(|| routes.iter().for_each(|message| codec(true, message)));
    let mut listener = Listener::new(speaker);
    let applied = seconds(|| apply(&mut listener, routes));
    let kept = kept(&listener.session);
    note(figures, "JINX table applied", "routes/s", count / applied);
    note(figures, "JINX table, codec alone", "routes/s", count / alone);
    note(figures, "JINX table, of codec alone", "ratio", applied / alone);

    let mut out = Listener::new(speaker);
    let now = Instant::now();
    let announced = seconds(|| announce(&mut out, &kept));
    let (mut messages, mut bytes) = (0u64, 0u64);
    let packed = seconds(|| {
        while let Some(transmit) = out.session.poll_transmit(now) {
            if let Transmit::Send(_, message) = transmit {
                messages += 1;
                bytes += message.len() as u64;
            }
        }
    });
    assert_eq!(
        out.session.count_out(Family::Ipv4) + out.session.count_out(Family::Ipv6),
        kept.len()
    );
    note(figures, "JINX table announced", "routes/s", kept.len() as f64 / announced);
    note(figures, "JINX table packed", "routes/s", kept.len() as f64 / packed);
    note(figures, "JINX table packed, messages", "messages", messages as f64);
    note(figures, "JINX table packed, size", "bytes/route", bytes as f64 / kept.len() as f64);
}

/// What the same tables take; counting slows allocation down, so nothing is timed here.
fn memory(figures: &mut Figures, speaker: Speaker, routes: &[Vec<u8>]) {
    let mut listener = Listener::new(speaker);
    let taken = allocation_counter::measure(|| apply(&mut listener, routes));
    let kept = kept(&listener.session);
    let count = kept.len() as f64;
    note(figures, "JINX table, routes", "routes", count);
    note(
        figures,
        "JINX table, distinct attributes",
        "sets",
        listener.session.distinct_attributes() as f64,
    );
    note(figures, "JINX table in, memory", "bytes/route", taken.bytes_current as f64 / count);
    let mut out = Listener::new(speaker);
    let now = Instant::now();
    // The attributes are those of the table before: a second table shares them.
    let queued = allocation_counter::measure(|| announce(&mut out, &kept));
    let sent = allocation_counter::measure(|| while out.session.poll_transmit(now).is_some() {});
    let left = queued.bytes_current + sent.bytes_current;
    note(figures, "JINX table out, memory when sent", "bytes/route", left as f64 / count);
    note(
        figures,
        "JINX table out, memory when queued",
        "bytes/route",
        queued.bytes_current as f64 / count,
    );
}

fn apply(listener: &mut Listener, routes: &[Vec<u8>]) {
    for message in routes {
        listener.hear(message);
        while listener.session.poll_event().is_some() {}
    }
}

fn announce(listener: &mut Listener, routes: &[(Prefix, Attributes)]) {
    let now = Instant::now();
    for (prefix, attributes) in routes {
        // What cannot be announced is missing from the count afterwards.
        let _ = listener.session.announce(*prefix, 0, attributes, now);
    }
}

fn kept(session: &Session) -> Vec<(Prefix, Attributes)> {
    let of = |family| {
        session.routes_in(family).map(|(prefix, _, attributes)| (prefix, attributes.clone()))
    };
    Family::ALL.into_iter().flat_map(of).collect()
}

/// What reading a message costs without doing anything about it.
fn codec(four_octet_as: bool, message: &[u8]) {
    let mut bytes = bytes::Bytes::copy_from_slice(message);
    if let Ok(rustbgpd_wire::Message::Update(update)) =
        rustbgpd_wire::decode_message(&mut bytes, 4096)
    {
        // Some recorded ones are broken: that, too, is read.
        std::hint::black_box(update.parse_revised(four_octet_as, false, false, &[])).ok();
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_secs_f64()
}

fn note(figures: &mut Figures, label: &str, unit: &'static str, value: f64) {
    match figures.iter_mut().find(|(known, ..)| known == label) {
        Some((.., values)) => values.push(value),
        None => figures.push((label.to_owned(), unit, vec![value])),
    }
}

fn print_text(figures: &Figures) {
    for (label, unit, values) in figures {
        println!("{label:<40}{:>14.2} {unit}", median(values.iter().copied()));
    }
}

fn print_json(figures: &Figures) {
    let of = |(label, unit, values): &(String, &str, Vec<f64>)| {
        (
            label.clone(),
            serde_json::json!({ "unit": unit, "median": median(values.iter().copied()), "values": values }),
        )
    };
    let figures = serde_json::Value::Object(figures.iter().map(of).collect());
    println!("{figures}");
}
