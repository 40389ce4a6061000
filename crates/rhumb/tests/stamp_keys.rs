//! Keys of a stamper: windows roll over without loss, and without a valid key
//! nothing is sent, or all of it plain, as asked.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::process::Stdio;

use rhumb_capability::WindowClock;
use stamping::{Daemon, Rig, Started, credential, now_us, status, wait_until, window_clock};

use crate::harness;
use crate::stamping;
use crate::wire::Line;

/// A rig whose window ends in so many seconds.
fn near_the_end_of_a_window(left_s: i64, programs: &[&str]) -> Option<Rig> {
    let window_s = 1024;
    let now_s = (now_us(0) / 1_000_000) as i64;
    Rig::new(window_s - now_s % window_s - left_s, programs)
}

/// Seconds until the present window ends.
fn left_s(rig: &Rig) -> u64 {
    let now_s = now_us(rig.ahead_s) / 1_000_000;
    let clock = window_clock();
    clock.end_s(clock.at(now_us(rig.ahead_s))).saturating_sub(now_s)
}

#[test]
fn a_window_rolls_over_in_the_middle_of_iperf3_without_loss() {
    let Some(rig) = near_the_end_of_a_window(20, &["iperf3"]) else { return };
    let keys = rig.keys(&["w1", "w2", "w1-next", "w2-next"]);
    roll_over(&rig, &keys);
}

#[test]
fn keys_come_from_a_key_server_and_the_next_ones_before_they_are_needed() {
    let Some(rig) = near_the_end_of_a_window(24, &["iperf3"]) else { return };
    let waypoint = |address: &str, name: &str| {
        format!(
            "[[keyserver.waypoint]]\naddress = \"{address}\"\nmaster = \"{name}.master\"\n\
             follower = \"{name}.tsig\"\nwindow_bits = 10\ngrace_ms = 10000\nskew_ms = 5000\n"
        )
    };
    let server = format!("{}:5300", Line::R1);
    rig.place.write(
        "keys.toml",
        &format!(
            "[keyserver]\nzone = \"_k.example.net\"\nlisten = [\"{server}\"]\naddresses = [\"{}\"]\n\
             operators = [\"operator.tsig\"]\nadmin = \"127.0.0.1:0\"\n{}{}",
            Line::R1,
            waypoint(Line::R1, "w1"),
            waypoint(Line::R2, "w2"),
        ),
    );
    let capability = |arguments: &[&str]| {
        let run = rig.place.run(&[&["--config", "keys.toml", "capability"], arguments].concat());
        assert_eq!(run.code, 0, "{arguments:?}: {}", run.errors);
    };
    for (name, file) in
        [("operator", "operator.tsig"), ("w1.example", "w1.tsig"), ("w2.example", "w2.tsig")]
    {
        capability(&["signer", name, "--out", file]);
    }
    capability(&["mint", "42", "--out", "42.principal"]);
    let arguments = ["--config", "keys.toml", "keyserver"];
    let keyserver = Daemon::start(&rig.place, &rig.line.r1, rig.ahead_s, &arguments);
    let via = format!("{},{}", Line::R1, Line::R2);
    let mut keys = rig.keys(&[]);
    let more = ["--principal", "42.principal", "--resolver", &server, "--via", &via];
    keys.extend(more.map(str::to_owned));
    roll_over(&rig, &keys);
    let status = keyserver.status(&rig.place, &rig.line.r1);
    assert_eq!(
        status["counters"]["keys"], 4,
        "two waypoints, two windows, each asked for once: {status}"
    );
}

/// Runs iperf3 with these keys over the end of the window, and no packet is lost.
fn roll_over(rig: &Rig, keys: &[String]) {
    let _server = Started::script(&rig.line.b, "iperf3 -s");
    wait_until("the server", || rig.line.b.run("ss -Hltn").contains(":5201"));
    let first = window_clock().at(now_us(rig.ahead_s)).0;
    let seconds = left_s(rig) + 4;
    assert!(seconds > 5, "the machine was too slow: the window is nearly over before it began");
    let iperf3 = format!("iperf3 -J -u -b 1M -l 800 -c {} -t {seconds}", Line::B);
    let mut options = vec!["--log", "rhumb=info"];
    options.extend(keys.iter().map(String::as_str));
    options.extend(["--", "sh", "-c", &iperf3]);
    let run = harness::Run::of(stamping::output_on(&rig.line.a, &mut rig.stamp(&options)));
    assert_eq!(run.code, 0, "{}{}", run.output, run.errors);
    for window in [first, first + 1] {
        assert!(run.errors.contains(&format!("[{window}, {window}]")), "{}", run.errors);
    }
    let sum = &run.object()["end"]["sum"];
    assert!(sum["packets"].as_u64().unwrap() > 150 * (seconds - 1), "{sum}");
    assert_eq!(sum["lost_packets"], 0, "{sum}");
}

#[test]
fn without_a_valid_key_nothing_is_sent_or_all_of_it_plain() {
    let Some(rig) = near_the_end_of_a_window(12, &["python3"]) else { return };
    // Keys that are over with their window.
    let clock = WindowClock::new(10, 0, 0).unwrap();
    let window = clock.at(now_us(rig.ahead_s));
    for (name, address) in [("w1-short", Line::R1), ("w2-short", Line::R2)] {
        let path = rig.place.path(&format!("{name}.cap"));
        rhumb_capability::file::save(&path, &credential(address, window, clock)).unwrap();
    }
    rig.place.write(
        "send.py",
        &format!(
            "import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
             while True:\n  s.sendto(b'x', ('{}', 9))\n  time.sleep(0.05)\n",
            Line::B
        ),
    );
    for (fallback, admin) in [("drop", "127.0.0.1:7991"), ("plain", "127.0.0.1:7992")] {
        let keys = rig.keys(&["w1-short", "w2-short"]);
        let mut options = vec!["--admin", admin, "--fallback", fallback];
        options.extend(keys.iter().map(String::as_str));
        options.extend(["--", "python3", "send.py"]);
        let mut command = rig.stamp(&options);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut stamped = Started::on(&rig.line.a, &mut command);
        let count = |what: &dyn Fn(&serde_json::Value) -> u64| {
            what(&status(&rig.place, &rig.line.a, admin))
        };
        if fallback == "drop" {
            wait_until("a stamped packet", || {
                count(&|it| it["counters"]["stamped_packets"].as_u64().unwrap_or(0)) > 0
            });
        }
        let plain = || count(&|it| it["counters"]["plain_packets"].as_u64().unwrap_or(0));
        let dropped = || count(&|it| it["drops"]["no_key"].as_u64().unwrap_or(0));
        if fallback == "drop" {
            wait_until("a dropped packet", || dropped() > 3);
            assert_eq!(plain(), 0);
        } else {
            wait_until("a plain packet", || plain() > 3);
            assert_eq!(dropped(), 0);
        }
        let blocked = rig.line.r1.run("nft list table inet plain");
        assert_eq!(blocked.contains("packets 0 "), fallback == "drop", "{blocked}");
        rig.line.a.run(&format!("kill -TERM {}", stamped.0.id()));
        let mut errors = String::new();
        let stderr = stamped.0.stderr.as_mut().unwrap();
        std::io::Read::read_to_string(stderr, &mut errors).unwrap();
        assert!(errors.contains("no valid key"), "{errors}");
    }
}
