//! The steps of the demo of trust domains: each tries something with the running network, and says
//! what it saw, by the word of those concerned.

use std::ffi::OsStr;
use std::time::Duration;

use rhumb_daemon::clock;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::inquiry::{Directory, Session};
use rhumb_daemon::key;
use rhumb_daemon::output::{bytes_text, rate_text};
use rhumb_wire::{Name, Role};
use serde_json::Value;

use super::super::file::{self, DemoFile};
use super::super::network::Daemon;
use super::nest::Nest;
use super::story::Step;

/// What the user gave.
pub(super) struct Given<'a> {
    pub(super) file: &'a DemoFile,
    pub(super) quiet: bool,
}

/// A sends B a file: out of the port and the sea, into the land and the farm.
pub(super) fn move_file(nest: &mut Nest<'_>, given: &Given<'_>) -> Outcome<Step> {
    let DemoFile { path, bytes, sha256 } = given.file;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let tried = format!(
        "A sends B the file {name} ({}), knowing nothing but B's name: up from the port by the sea, down by \
         the land to the farm.",
        bytes_text(*bytes)
    );
    let mut step = Step::begin("file", tried);
    let (to, patience) = (nest.b.name().to_string(), nest.ground.patience);
    let mut arguments = vec!["send".as_ref(), path.as_os_str(), "--to".as_ref(), to.as_ref()];
    if given.quiet {
        arguments.push("--quiet".as_ref());
    }
    let sent = nest.run_as_a(&arguments)?.next_object(patience)?;
    let received = nest.b_receives.next_object(patience)?;
    let misses = |key: &str| Failure::operation_text(format!("a node did not report `{key}`"));
    let seconds = sent["seconds"].as_f64().ok_or_else(|| misses("seconds"))?;
    let at = received["received"].as_str().ok_or_else(|| misses("received"))?;
    let arrived = file::sha256_text(at.as_ref()).map_err(Failure::operation)?;
    let elapsed = Duration::from_secs_f64(seconds.max(0.0));
    let rate = rate_text(*bytes, elapsed);
    let is_whole = arrived == *sha256;
    let verdict = if is_whole { "is the same at both ends" } else { "differs" };
    step.saw(is_whole, format!("It took {seconds:.2} s: {rate}. The SHA-256 {verdict}: {arrived}"));
    step.note("file", name);
    step.note("bytes", *bytes);
    step.note("transfer_seconds", seconds);
    step.note("sha256_ok", is_whole);
    Ok(step.end())
}

/// A traces the way to B, and asks the port's RIB which domains are on it.
pub(super) fn trace(nest: &mut Nest<'_>, _: &Given<'_>) -> Outcome<Step> {
    let tried = "A traces the way to B, and asks its RIB which domains are on it.";
    let mut step = Step::begin("trace", tried.into());
    let (to, rib) = (nest.b.name().to_string(), nest.port.rib.remote.to_string());
    let trace = ["trace".as_ref(), to.as_ref(), "--rib".as_ref(), rib.as_ref()];
    let report = nest.run_as_a(&trace)?.next_object(nest.ground.patience)?;
    let label = |name: &Value| {
        let name = name.as_str().and_then(|name| name.parse().ok());
        name.map(|name: Name| nest.ground.labels.of(name))
    };
    let told = |hop: &Value| match (label(&hop["name"]), label(&hop["inside_of"])) {
        (Some(name), _) => match label(&hop["border_of"]) {
            Some(domain) => format!("{name} (at the border of {domain})"),
            None => name,
        },
        (None, Some(domain)) => format!("(inside of {domain}: hidden)"),
        (None, None) => "(no answer)".to_owned(),
    };
    let way: Vec<String> = report["hops"].as_array().into_iter().flatten().map(told).collect();
    let by = report["exported_by"].as_array().into_iter().flatten().filter_map(label);
    let by: Vec<String> = by.collect();
    step.saw(way == EXPECTED_WAY, way.join(" - ") + ".");
    step.saw(by == ["farm", "land"], format!("B is known outside by: {}.", by.join(", then ")));
    step.note("way", way);
    step.note("exported_by", by);
    Ok(step.end())
}

/// Somebody whom the world admitted asks its RIB for B, and for what is inside of the farm.
pub(super) fn what_the_world_knows(nest: &mut Nest<'_>, _: &Given<'_>) -> Outcome<Step> {
    let tried =
        "A member of the world asks its RIB for the way to B, and verifies the answer.".into();
    let mut step = Step::begin("evidence", tried);
    let asker = nest.ground.member("W", Role::Node, &nest.world, "publish")?;
    let asker = key::load(&asker.key, Role::Node)?;
    let source = asker.name();
    let mut session = Session::connect(asker, nest.world.rib.remote, PATIENCE)?;
    let mut rib = Directory::new(&mut session, source);
    let chain = rib.look_up(nest.b.name())?;
    let mut found = Vec::new();
    for name in &nest.inside {
        found.extend(rib.look_up(*name)?.map(|_| nest.ground.labels.of(*name)));
    }
    session.close();
    let Some(chain) = chain else {
        step.saw(false, "The world's RIB knows no way to B.");
        return Ok(step.end());
    };
    let now_s = clock::now().unix_s();
    let sentences =
        chain.certificates().iter().map(|it| nest.ground.labels.sentence(it, now_s) + ".");
    step.note("chain", sentences.clone().collect::<Vec<_>>());
    sentences.for_each(|sentence| step.saw(true, sentence));
    let by: Vec<_> = chain.certificates().iter().map(|it| it.issuer).collect();
    let expected = [nest.b.name(), nest.farm.holder.name(), nest.land.holder.name()];
    let is_the_way = by.starts_with(&expected) && by.len() == expected.len() + 1;
    let mut shown = by.into_iter().chain(chain.routers());
    let hides = !shown.any(|it| nest.inside.contains(&it));
    step.saw(
        is_the_way && hides,
        match is_the_way && hides {
            true => "So the farm, the land, and the land's border are known, and nothing inside of them.",
            false => "That is another way than expected, or shows something of the inside.",
        },
    );
    let labels: Vec<_> = nest.inside.iter().map(|name| nest.ground.labels.of(*name)).collect();
    let told = format!("Asked for {}, it", labels.join(", "));
    step.saw(
        found.is_empty(),
        match found.is_empty() {
            true => format!("{told} says and signs each time that it knows no such name."),
            false => format!("{told} knows {}.", found.join(", ")),
        },
    );
    step.note("inside_known", found);
    Ok(step.end())
}

/// M, whom no domain admitted, asks the port's router to let it join.
pub(super) fn uninvited(nest: &mut Nest<'_>, _: &Given<'_>) -> Outcome<Step> {
    let tried =
        "M, who has a key and nobody's word for it, wants to join the port's router.".into();
    let mut step = Step::begin("uninvited", tried);
    let uninvited = nest.ground.stranger("M", Role::Node)?;
    let (to, name) = (nest.b.name().to_string(), uninvited.name().to_string());
    let ping = ["ping".as_ref(), to.as_ref(), "--count".as_ref(), "1".as_ref()];
    let mut process = uninvited.run_silent(&ping, nest.port_router.remote)?;
    let got_in = process.succeeds(nest.ground.patience)?;
    let status = nest.port_router.status()?;
    let entries = status["refused"].as_array().into_iter().flatten();
    let entry = entries.into_iter().find(|it| it["name"] == name.as_str());
    let reason = entry.and_then(|it| it["missing"].as_str()).unwrap_or_default();
    let reason = reason.replace(
        &nest.port.holder.name().to_string(),
        &nest.ground.labels.of(nest.port.holder.name()),
    );
    let refused = !got_in && !reason.is_empty();
    step.saw(
        refused,
        match refused {
            true => format!("Refused. The router's reason: {reason}."),
            false => "It got in, or the router gives no reason.".to_owned(),
        },
    );
    step.note("refused", !got_in);
    step.note("reason", reason);
    Ok(step.end())
}

/// A asks for C, who is in the farm as B is, and did not say that it be known outside.
pub(super) fn not_exported(nest: &mut Nest<'_>, _: &Given<'_>) -> Outcome<Step> {
    let tried =
        "A pings C, who lives beside B and is not exported; then D does, from within the farm.";
    let mut step = Step::begin("not exported", tried.into());
    let (to, patience) = (nest.c.name().to_string(), nest.ground.patience);
    let ping = ["ping".as_ref(), to.as_ref(), "--count".as_ref(), "1".as_ref()];
    let from_outside = nest.run_as_a_silent(&ping)?.succeeds(patience)?;
    let neighbour = nest.ground.member("D", Role::Node, &nest.farm, "join")?;
    let from_inside = neighbour.run(&ping, nest.farm_router.remote)?.succeeds(patience)?;
    step.saw(
        !from_outside,
        match from_outside {
            true => "A reached it.",
            false => "A is told that there is no way to that name.",
        },
    );
    step.saw(
        from_inside,
        match from_inside {
            true => "D gets an answer.",
            false => "D gets no answer either.",
        },
    );
    step.note("found_from_outside", from_outside);
    step.note("found_from_inside", from_inside);
    Ok(step.end())
}

/// The land gets a second border; while A sends B a long file, the one that carries it dies.
pub(super) fn a_border_dies(nest: &mut Nest<'_>, _: &Given<'_>) -> Outcome<Step> {
    let file = DemoFile::long(nest.ground.folder, LONG_ENOUGH)?;
    let tried = format!(
        "The land gets a second border. A sends B a long file ({}), and on its way the border that \
         carries it dies, without a word to anybody.",
        bytes_text(file.bytes)
    );
    let mut step = Step::begin("border dies", tried);
    let patience = nest.ground.patience;
    let (other, _) = nest.ground.border(&nest.land, "land's other border")?;
    let to = nest.b.name().to_string();
    let mut arguments = vec!["send".as_ref(), file.path.as_os_str()];
    arguments.extend::<[&OsStr; 3]>(["--to".as_ref(), to.as_ref(), "--quiet".as_ref()]);
    let mut sending = nest.run_as_a(&arguments)?;
    let Some(first) = nest.land_border.take() else { return Ok(step.end()) };
    let carried = |border: &Daemon| -> Outcome<u64> {
        Ok(border.status()?["counters"]["forwarded_pdus"].as_u64().unwrap_or(0))
    };
    let before = [carried(&first)?, carried(&other)?];
    let by = loop {
        patience.check()?;
        let [by_first, by_other] = [carried(&first)? - before[0], carried(&other)? - before[1]];
        if by_first.max(by_other) >= ON_ITS_WAY || sending.has_ended()? {
            break if by_first >= by_other { "land's border" } else { "land's other border" };
        }
    };
    let was_over = sending.has_ended()?;
    let (dies, left) = if by == "land's border" { (first, other) } else { (other, first) };
    dies.die()?;
    let sent = sending.next_object(patience)?;
    // A file that came before may have come twice: it is offered until its end is heard of.
    let is_whole = loop {
        let received = nest.b_receives.next_object(patience)?;
        let at = received["received"].as_str().unwrap_or_default();
        let length = std::fs::metadata(at).map_err(Failure::operation)?.len();
        if length == file.bytes {
            break file::sha256_text(at.as_ref()).map_err(Failure::operation)? == file.sha256;
        }
    };
    let seconds = sent["seconds"].as_f64().unwrap_or_default();
    step.saw(!was_over, format!("{by} carried it, and was ended by force in the middle."));
    let verdict = if is_whole { "is the same at both ends" } else { "differs" };
    step.saw(
        is_whole,
        format!(
            "The file went on by the other one: {seconds:.2} s in all, and its SHA-256 {verdict}."
        ),
    );
    nest.land_border = Some(left);
    step.note("died", by);
    step.note("died_on_its_way", !was_over);
    step.note("second_transfer_seconds", seconds);
    step.note("second_sha256_ok", is_whole);
    Ok(step.end())
}

/// The farm's border and router answer, and their names are taken off where the land ends.
const EXPECTED_WAY: [&str; 7] = [
    "port's router",
    "port's border (at the border of port)",
    "sea's border (at the border of sea)",
    "land's border (at the border of land)",
    "(inside of land: hidden)",
    "(inside of land: hidden)",
    "B",
];
/// A second of a fast machine's time, so that there is a middle.
const LONG_ENOUGH: u64 = 96 << 20;
/// PDUs of the file that a border has carried when it dies: a few in a hundred of them.
const ON_ITS_WAY: u64 = 500;
/// Everything is on this machine.
const PATIENCE: Duration = Duration::from_secs(3);
