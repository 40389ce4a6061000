//! The dashboard beside a waypoint and its key server that run: what a browser shows of them while
//! stamped packets pass, and when somebody is revoked.
#![cfg(target_os = "linux")]

use serde_json::json;

use crate::driven::Browser;
use crate::waypoints::{ENDS, FOLLOW, Rig, Sender, pass, receive, socket, udp};
use crate::wire::Line;

#[test]
fn a_browser_sees_accounts_and_revocations_while_packets_pass() {
    let Some(rig) = Rig::new() else { return };
    let Line { a, r1, b, .. } = &rig.line;
    // Sockets are files, which the dashboard has in common with hosts of their own.
    rig.start_key_server(r1, Line::R1).kill();
    socket_in(&rig, "keys.toml", "[keyserver]\n", "[keyserver]\nadmin = \"./keys.sock\"\n");
    let _keys = rig.start_key_server_again(r1);
    rig.write_config("w1", &[Line::R1], FOLLOW);
    socket_in(&rig, "w1.toml", "admin = \"127.0.0.1:0\"", "admin = \"./w1.sock\"");
    let _w1 = rig.start_again(r1, "w1");
    let admins = ["./w1.sock", "./keys.sock"];
    let Some((browser, _dashboard)) = Browser::of_daemons(&rig.place, &admins) else { return };
    browser.run("location.hash = 'waypoints'", &json!([]));
    browser.wait_for_figure("waypoint", "Revocations", "0current");
    browser.wait_for_figure("Key server _k.example", "Revocations", "0");

    let (b, mut a) = (socket(b, ENDS), Sender::on(a));
    let (own, packet) = (pass(Line::R1), udp(Line::A, Line::B, &[9; 172]));
    for _ in 0..12 {
        a.send_by(&[own], &packet);
        assert_eq!(receive(&b).len(), 172);
    }
    let account = [("Principal", "7"), ("Waypoint", Line::R1), ("Packets", "12")];
    browser.wait_for_row("Accounts", &account);
    browser.wait_for_figure("waypoint", "Epochs", "1");
    browser.wait_for_figure("waypoint", "Dropped", "0packets");

    rig.revoke(r1, &[]);
    browser.wait_for_figure("waypoint", "Revocations", "1current");
    browser.wait_for_figure("Key server _k.example", "Revocations", "1");
    let followers = "Waypoints that follow it";
    browser
        .wait_for(&format!("document.querySelector('main').textContent.includes('{followers}')"));
    browser.wait_for_row(followers, &[("Waypoint", Line::R1)]);
    a.send_by(&[own], &packet);
    browser.wait_for_figure("waypoint", "Dropped", "1packets");
    browser.wait_for_row("Accounts", &account);
    assert_eq!(browser.console(), [""; 0]);
}

/// Has a daemon tell how it is at a socket.
fn socket_in(rig: &Rig, file: &str, from: &str, to: &str) {
    let path = rig.place.path(file);
    let text = std::fs::read_to_string(&path).expect("a configuration");
    assert!(text.contains(from), "{text}");
    std::fs::write(path, text.replace(from, to)).expect("the configuration is written");
}
