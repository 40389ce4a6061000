//! A RIB that nobody need trust, among real processes: it takes what it is told and denies that it
//! has it. Its router names it in log, status and metrics, and everything goes on by the other one.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rhumb_trust::Window;
use rhumb_wire::rib::{RibRequest, RibRequestBody, RibResponse, RibResponseBody, StoreId};
use rhumb_wire::{Action, PduHeader, Role, Statement};
use serde_json::Value;

use crate::attackers::{PATIENCE, Stranger, now};
use crate::harness::{Place, Running, remote};

const ANY: &str = "127.0.0.1:0";

/// Somebody with a RIB's key who stores nothing that he says he stores.
struct Withholder {
    remote: String,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Withholder {
    fn begin() -> Self {
        let mut stranger = Stranger::await_others(Ipv4Addr::LOCALHOST, Role::Rib);
        let remote = format!("{}@{}", stranger.name(), stranger.address());
        let ends = Arc::new(AtomicBool::new(false));
        let has_ended = ends.clone();
        let run = move || {
            while !has_ended.load(Ordering::Relaxed) {
                stranger.pump();
                while let Some((header, data)) = stranger.inbox.pop_front() {
                    answer(&mut stranger, &header, &data);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        Self { remote, ends, thread: Some(std::thread::spawn(run)) }
    }
}

impl Drop for Withholder {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answer(stranger: &mut Stranger, header: &PduHeader, data: &[u8]) {
    let Ok(RibRequest { id, body }) = RibRequest::parse(data) else { return };
    let body = match body {
        RibRequestBody::Publish { .. } => RibResponseBody::Stored,
        RibRequestBody::WhichStore => RibResponseBody::Store(StoreId([7; 16])),
        RibRequestBody::LookUpRoute(subject) => {
            let (now, statement) = (now(), Statement::Absence { subject });
            let window = Window::starting(now.unix_s(), 2);
            let absence = stranger.identity.certify(statement, now.unix_ms, window).unwrap();
            RibResponseBody::Absent(absence)
        }
        _ => return,
    };
    let mut out = Vec::new();
    RibResponse { id, body }.emit(&mut out);
    let (from, to) = (stranger.name(), header.source);
    let answer = PduHeader::new(Action::RibResponse, from, to);
    stranger.send(PduHeader { tag: header.tag, ..answer }, &out, &[]);
}

fn router(place: &Place, key: &str, ribs: &[&str]) -> (Running, Value) {
    place.keygen("router", key);
    let mut words = vec!["--config", "checks.toml", "--log", "warn", "router"];
    words.extend(["--listen", ANY, "--admin", ANY, "--key", key]);
    words.extend(ribs.iter().flat_map(|rib| ["--rib", rib]));
    let mut router = place.start(&words);
    let ready = router.next_object();
    (router, ready)
}

#[test]
fn one_that_withholds_is_named_and_routed_around() {
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let rib = ["rib", "--listen", ANY, "--key", "rib.key", "--store", "rib.redb"];
    let mut rib = place.start(&rib);
    let honest = remote(&rib.next_object());
    let withholder = Withholder::begin();
    place.write("checks.toml", "[router]\ncheck_rib_answers = 1\n");
    let (near, near_ready) = router(&place, "near.key", &[&withholder.remote, &honest]);
    let (_far, far_ready) = router(&place, "far.key", &[&honest]);
    let (near_at, far_at) = (remote(&near_ready), remote(&far_ready));
    let admin = near_ready["admin"].as_str().unwrap();
    let begun = Instant::now();
    let ribs = loop {
        let mut receiver = place.start(&["receive", "--router", &far_at]);
        let name = receiver.next_object()["name"].as_str().unwrap().to_owned();
        let ping = place.run(&["ping", &name, "--count", "2", "--router", &near_at]);
        assert_eq!(ping.code, 0, "what is denied is found: {}", ping.errors);
        let status = place.run(&["--json", "status", "--admin", admin]).object();
        if status["ribs"].as_array().unwrap().iter().any(|rib| !rib["suspected_of"].is_null()) {
            break status["ribs"].clone();
        }
        assert!(begun.elapsed() < PATIENCE, "{}", status["ribs"]);
    };
    let (at_fault, blameless) = (&ribs[0], &ribs[1]);
    assert!(withholder.remote.ends_with(at_fault["address"].as_str().unwrap()), "{ribs}");
    assert_eq!(at_fault["suspected_of"], "withheld");
    assert!(at_fault["faults"]["withheld"].as_u64() > Some(0), "{ribs}");
    assert!(at_fault["suspected_for_s"].as_u64() > Some(60), "{ribs}");
    let faults = blameless["faults"].as_object().unwrap();
    assert!(faults.values().all(|times| *times == 0), "{ribs}");
    assert!(blameless["suspected_of"].is_null(), "{ribs}");
    let told = near.wait_for_error("not to be trusted");
    assert!(told.contains("denied a name whose statement it said it had stored"), "{told}");
    assert!(told.contains("take it out of `rib`"), "{told}");
    let people = place.run(&["status", "--admin", admin]).output;
    assert!(people.contains("suspected of withheld"), "{people}");
}
