//! `rhumb stamp -- COMMAND`: programs that know nothing of it go through
//! two waypoints, where nothing else gets through.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::process::Stdio;

use crate::harness;
use crate::stamping::{Rig, Started, output_on, traces, wait_until, write_file};
use crate::wire::Line;

#[test]
fn iperf3_goes_through_two_waypoints_and_nothing_else_gets_there() {
    let Some(rig) = Rig::new(0, &["iperf3"]) else { return };
    for (address, keys) in [(Line::B, ["w1", "w2"]), (Line::B6, ["w1v6", "w2v6"])] {
        let _server = Started::script(&rig.line.b, "iperf3 -s");
        wait_until("the server", || rig.line.b.run("ss -Hltn").contains(":5201"));
        let plain = format!("iperf3 -c {address} -n 1K --connect-timeout 500");
        let plain = output_on(&rig.line.a, std::process::Command::new("sh").args(["-c", &plain]));
        assert!(!plain.status.success(), "the plain way is blocked");

        let before = rig.passed();
        let run = rig.run_stamped(&keys, &format!("iperf3 -J -c {address} -n 4M"));
        assert_eq!(run.code, 0, "{}{}", run.output, run.errors);
        let received = run.object()["end"]["sum_received"]["bytes"].as_u64().unwrap();
        assert!(received > 1 << 20, "{received}");
        // All that b has got passed both.
        rig.expect_passed(&before, received / 1500);
        assert_eq!(traces(&rig.line.a), "");
    }
}

/// Says how fast it is, beside the same line without waypoints. What the figures are depends on the
/// machine; that all arrives does not.
#[test]
fn throughput_of_tcp_is_reported() {
    let Some(rig) = Rig::new(0, &["iperf3"]) else { return };
    const BYTES: u64 = 32 << 20;
    for (address, keys) in [(Line::B, ["w1", "w2"]), (Line::B6, ["w1v6", "w2v6"])] {
        let _server = Started::script(&rig.line.b, "iperf3 -s");
        wait_until("the server", || rig.line.b.run("ss -Hltn").contains(":5201"));
        let iperf3 = format!("iperf3 -J -c {address} -n {BYTES}");
        let rate = |run: &harness::Run| {
            let end = run.object()["end"].clone();
            assert_eq!(end["sum_sent"]["bytes"].as_u64().unwrap() / BYTES, 1, "{end}");
            end["sum_received"]["bits_per_second"].as_f64().unwrap() / 1e6
        };
        let stamped = rig.run_stamped(&keys, &iperf3);
        assert_eq!(stamped.code, 0, "{}{}", stamped.output, stamped.errors);
        for router in [&rig.line.r1, &rig.line.r2] {
            router.run("nft insert rule inet plain forward iifname left accept");
        }
        let plain = output_on(&rig.line.a, std::process::Command::new("sh").args(["-c", &iperf3]));
        println!(
            "TCP to {address}: {:.0} Mbit/s through two waypoints by raw sockets, {:.0} Mbit/s forwarded by Linux",
            rate(&stamped),
            rate(&harness::Run::of(plain))
        );
        for router in [&rig.line.r1, &rig.line.r2] {
            router.run(
                "nft flush chain inet plain forward; \
                        nft add rule inet plain forward iifname left oifname right counter drop",
            );
        }
    }
}

#[test]
fn curl_gets_a_page_and_the_rest_of_the_host_is_not_stamped() {
    let Some(rig) = Rig::new(0, &["curl", "python3"]) else { return };
    write_file(&rig.place.path("page"), 300_000);
    let folder = rig.place.folder().display().to_string();
    let serve = format!("python3 -m http.server -d {folder} --bind :: 80");
    let _server = Started::script(&rig.line.b, &serve);
    wait_until("the server", || rig.line.b.run("ss -Hltn").contains(":80 "));
    for (url, keys) in [
        (format!("http://{}/page", Line::B), ["w1", "w2"]),
        (format!("http://[{}]/page", Line::B6), ["w1v6", "w2v6"]),
    ] {
        // Beside it, another process of the host asks for the
        // same: it is not stamped, and gets nothing.
        let script = format!("curl -sS --max-time 20 -o got {url} && cmp got page && rm got");
        let run = rig.run_stamped(&keys, &script);
        assert_eq!((run.code, &*run.errors), (0, ""), "{}", run.output);
        let curl = ["-s", "--max-time", "1", "-o", "other", &url];
        let other = output_on(&rig.line.a, std::process::Command::new("curl").args(curl));
        assert!(!other.status.success());
    }
    let plain = rig.line.r1.run("nft list table inet plain");
    assert!(!plain.contains("packets 0 "), "the other curl tried: {plain}");
}

#[test]
fn ssh_logs_in_and_its_exit_code_is_passed_on() {
    let Some(rig) = Rig::new(0, &["ssh", "ssh-keygen", "/usr/sbin/sshd"]) else { return };
    let folder = rig.place.folder();
    let folder = folder.to_str().unwrap();
    rig.line.b.run(&format!(
        "cd {folder}; ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t ed25519 -N '' -f user; \
         cp user.pub authorized; chmod 600 authorized; mkdir -p /run/sshd"
    ));
    rig.place.write(
        "sshd_config",
        &format!(
            "ListenAddress {}:22\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n\
             StrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none\n",
            Line::B
        ),
    );
    let serve = format!("/usr/sbin/sshd -D -f {folder}/sshd_config");
    let _server = Started::script(&rig.line.b, &serve);
    wait_until("the server", || rig.line.b.run("ss -Hltn").contains(":22 "));
    let ssh = format!(
        "ssh -F none -i {folder}/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
         -o LogLevel=ERROR -o BatchMode=yes -o ConnectTimeout=10 {} 'echo $SSH_CONNECTION; exit 7'",
        Line::B
    );
    let run = rig.run_stamped(&["w1", "w2"], &ssh);
    assert_eq!(run.code, 7, "{}", run.errors);
    assert!(run.output.starts_with(Line::A), "b sees the true source: {}", run.output);
    rig.expect_passed(&[0, 0], 15);
}

#[test]
fn signals_are_handed_on_and_exit_codes_passed_on() {
    let Some(rig) = Rig::new(0, &[]) else { return };
    let run = rig.run_stamped(&["w1", "w2"], "exit 3");
    assert_eq!((run.code, &*run.errors), (3, ""));
    let run = rig.run_stamped(&["w1", "w2"], "kill -9 $$");
    assert_eq!(run.code, 137);
    let keys = rig.keys(&["w1"]);
    let mut options: Vec<&str> = keys.iter().map(String::as_str).collect();
    options.extend(["--", "no-such-command"]);
    let run = harness::Run::of(output_on(&rig.line.a, &mut rig.stamp(&options)));
    assert_eq!(run.code, 127);
    assert!(run.errors.contains("no-such-command"), "{}", run.errors);

    let trap = "trap 'echo got it; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let keys = rig.keys(&["w1"]);
    let mut options: Vec<&str> = keys.iter().map(String::as_str).collect();
    options.extend(["--", "sh", "-c", trap]);
    let mut command = rig.stamp(&options);
    command.stdin(Stdio::null());
    let mut started = Started::on(&rig.line.a, &mut command);
    let mut output = std::io::BufReader::new(started.0.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    rig.line.a.run(&format!("kill -TERM {}", started.0.id()));
    line.clear();
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    assert_eq!(line, "got it\n");
    assert_eq!(started.0.wait().unwrap().code(), Some(5));
    assert_eq!(traces(&rig.line.a), "");
}

#[test]
fn what_a_killed_stamper_leaves_is_cut_off_and_then_removed() {
    let Some(rig) = Rig::new(0, &["python3"]) else { return };
    let folder = rig.place.folder().display().to_string();
    // Control groups of stampers on this host; the hierarchy need not be mounted anywhere.
    let groups = || {
        let find = "mount -t cgroup2 none /mnt; \
                    find /mnt -name \"rhumb-stamp-$(stat -Lc %i /proc/self/ns/net)-*\" | wc -l";
        let count = rig.line.a.run(&format!("unshare --mount sh -ec '{find}'"));
        count.trim().parse::<u32>().unwrap()
    };
    // Once it is told to, the command tries to reach b, and says what came of it.
    rig.place.write(
        "try.py",
        &format!(
            "import os, socket, time\nopen('pid', 'w').write(str(os.getpid()))\n\
             while not os.path.exists('go'): time.sleep(0.02)\n\
             s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
             try: s.sendto(b'x', ('{}', 9)); result = 'sent'\n\
             except OSError as error: result = error.strerror\n\
             open('result.new', 'w').write(result); os.rename('result.new', 'result')\n\
             while True: time.sleep(0.02)\n",
            Line::B
        ),
    );
    let keys = rig.keys(&["w1", "w2"]);
    let mut options: Vec<&str> = keys.iter().map(String::as_str).collect();
    options.extend(["--", "python3", "try.py"]);
    let mut command = rig.stamp(&options);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = Started::on(&rig.line.a, &mut command);
    wait_until("the command", || rig.place.path("pid").exists());
    let pid = std::fs::read_to_string(rig.place.path("pid")).unwrap();
    drop(started);
    assert!(traces(&rig.line.a).contains("fwmark"), "killed: nobody has cleaned up");
    assert_eq!(groups(), 1);

    // The next stamper leaves a command that still runs where it is: it
    // reaches nobody, not by the usual way either.
    let run = rig.run_stamped(&["w1", "w2"], "exit 0");
    assert_eq!(run.code, 0, "{}", run.errors);
    assert!(run.errors.contains("cut off"), "{}", run.errors);
    rig.place.write("go", "");
    wait_until("the result", || rig.place.path("result").exists());
    let result = std::fs::read_to_string(rig.place.path("result")).unwrap();
    assert!(result.contains("unreachable") || result.contains("No route"), "{result}");

    rig.line
        .a
        .run(&format!("kill -9 {pid}; cd {folder}; while [ -e /proc/{pid} ]; do sleep 0.02; done"));
    let run = rig.run_stamped(&["w1", "w2"], "exit 0");
    assert_eq!((run.code, &*run.errors), (0, ""));
    assert_eq!(traces(&rig.line.a), "");
    assert_eq!(groups(), 0);
}

#[test]
fn a_family_without_waypoints_is_refused_and_does_not_leak() {
    let Some(rig) = Rig::new(0, &["curl"]) else { return };
    let run =
        rig.run_stamped(&["w1", "w2"], &format!("curl -sS --max-time 15 http://[{}]/", Line::B6));
    assert_eq!(run.code, 7, "could not connect: {}", run.errors);
    let plain = rig.line.r1.run("nft list table inet plain");
    assert!(plain.contains("packets 0 "), "{plain}");
}

#[test]
fn what_is_missing_is_said_in_one_line() {
    let Some(rig) = Rig::new(0, &[]) else { return };
    let refused = |options: &[&str], what: &[&str]| {
        let all = [options, &["--", "true"]].concat();
        harness::Run::of(output_on(&rig.line.a, &mut rig.stamp(&all))).is_refused_with(what);
    };
    refused(&[], &["--capability", "--principal"]);
    refused(&["--capability", "none.cap"], &["none.cap"]);
    refused(&["--capability", "w1.cap", "--via", "192.0.2.77"], &["192.0.2.77", "no key"]);
    refused(&["--capability", "w1-next.cap"], &["no valid key", Line::R1]);
    rig.line.a.run("ip route del default");
    refused(&["--capability", "w2.cap"], &["no way to waypoint", Line::R2]);
    assert_eq!(traces(&rig.line.a), "");
}
