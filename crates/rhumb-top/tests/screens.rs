//! What each screen shows.

use rhumb_top::{Screen, Top};

use crate::samples::{drawn, exchange, look, node, router, seen, silent, top, warned, waypoint};

fn shown(top: &mut Top, screen: Screen) -> String {
    top.show(screen);
    drawn(top, 100, 14)
}

#[test]
fn the_overview_has_a_row_for_each_daemon() {
    let mut top = seen();
    let told = warned("/run/c.sock", 12, node(12), "its name is not published", "look");
    top.take(look("/run/c.sock", 10, node(10)));
    top.take(told);
    assert_eq!(
        drawn(&mut top, 100, 10),
        "\
rhumb top  3 daemons                                                                       every 2 s
 1 Overview  2 Sessions  3 Flows  4 Drops  5 Certificates  6 Work  7 Warnings
WHAT    NAME         UP  PEERS           DOES   BIT/S  DROP/S  WARNINGS
node    alice       12s      1       10 PDU/s       -     2.0  its name is not published
rib     ribabcdefg  12s      0  30 look-ups/s    8.0k     1.0  none
router  routerabcd  12s      2      100 PDU/s  800.0k     4.0  none



? help  / filter  s sort  r reverse  p hold  Enter details  q leave                              1/3"
    );
}

#[test]
fn sessions_tell_who_is_where_over_what_and_how_far() {
    let text = shown(&mut seen(), Screen::Sessions);
    let rows: Vec<&str> = text.lines().skip(3).take(2).collect();
    assert_eq!(
        rows,
        [
            "routerabcd  alice       node  192.0.2.1:5000      udp   0.21 ms  1h 01m  admitted, 1452 B",
            "routerabcd  ribabcdefg  rib   [2001:db8::7]:7461  tls         -     12s  stranger, 1232 B",
        ],
        "{text}"
    );
}

#[test]
fn flows_tell_who_sends_to_whom_by_way_of_whom() {
    let mut top = seen();
    for at_s in [10, 12] {
        top.take(look("/run/w.sock", at_s, waypoint(at_s)));
        top.take(look("/run/n.sock", at_s, node(at_s)));
    }
    let text = shown(&mut top, Screen::Flows);
    let rows: Vec<&str> = text.lines().skip(3).take(5).collect();
    assert_eq!(
        rows,
        [
            // What is counted comes first, the fastest before the others.
            "alice       alice         bobabcdefg  an end            50      -          -",
            "sockets     principal 7   -           this waypoint    8.0  64.0k          -",
            "sockets     principal 11  -           this waypoint    1.0   8.0k          -",
            "routerabcd  alice         bobabcdefg  ribabcdefg         -      -     5m 00s",
            "routerabcd  bobabcdefg    alice       directly           -      -         0s",
        ],
        "{text}"
    );
}

#[test]
fn drops_are_told_by_reason_with_what_it_means() {
    let text = shown(&mut seen(), Screen::Drops);
    let rows: Vec<&str> = text.lines().skip(3).take(4).collect();
    assert_eq!(
        rows,
        [
            "routerabcd  bad_certificate    3.0      36  PDUs       A certificate chain did not verify.",
            "routerabcd  route_pending      1.0      12  PDUs       The route is being looked up, or its next ho…",
            "ribabcdefg  over_budget        1.0      12  requests   Who asks, all strangers of its source, or al…",
            "routerabcd  replayed             0       7  datagrams  A record that was opened before.",
        ],
        "{text}"
    );
}

#[test]
fn certificates_that_end_first_are_on_top() {
    let mut top = seen();
    top.take(look("/run/n.sock", 12, node(12)));
    let text = shown(&mut top, Screen::Certificates);
    let what: Vec<&str> = text.lines().skip(3).take(4).collect();
    for (row, part) in what.iter().zip(["lease", "own statement", "peer's membership", "attached"])
    {
        assert!(row.contains(part), "{part}: {text}");
    }
    assert!(what[0].contains("12s") && what[1].contains("50s"), "{text}");
}

#[test]
fn work_is_all_that_is_counted_and_not_shown_elsewhere() {
    let mut top = seen();
    for at_s in [10, 12] {
        top.take(look("/run/x.sock", at_s, exchange(at_s)));
    }
    top.show(Screen::Work);
    let text = drawn(&mut top, 100, 30);
    for row in [
        "ribabcdefg            stored names     12.3k       -  -",
        "ribabcdefg  counters  store failures       1       -  -",
        "ribabcdefg  counters  lookups found      240      20  -",
        "routerabcd  tables    flows              950       -  95 % of 1000",
        "bobabcdefg  rounds    selected            36     3.0  -",
    ] {
        assert!(text.contains(row), "{row}:\n{text}");
    }
    assert!(!text.contains("uptime") && !text.contains("replayed") && !text.contains("grants"));
}

#[test]
fn members_of_an_exchange_are_among_the_sessions() {
    let mut top = top();
    top.take(look("/run/x.sock", 10, exchange(10)));
    let text = shown(&mut top, Screen::Sessions);
    assert!(text.contains("bobabcdefg  site-1  member  192.0.2.30:999"), "{text}");
    assert!(text.contains("5 B wait, 2 routes refused"), "{text}");
}

#[test]
fn warnings_say_what_to_do_and_a_daemon_that_ended_is_one() {
    let mut top = seen();
    top.take(silent("/run/a.sock", 20, "it has ended"));
    let text = shown(&mut top, Screen::Warnings);
    assert!(text.contains("says nothing for 0s: it has ended"), "{text}");
    top.set_now(std::time::Duration::from_secs(95));
    let text = shown(&mut top, Screen::Overview);
    assert!(text.contains("says nothing for 1m 15s: it has ended"), "{text}");
    // It is known what it was; how long it was up is not told any more.
    assert!(text.contains("router  routerabcd    -      -"), "{text}");
    top.take(look("/run/a.sock", 96, router(1)));
    let text = shown(&mut top, Screen::Overview);
    assert!(text.contains("router  routerabcd   1s"), "{text}");
    top.forget("/run/a.sock");
    assert!(!shown(&mut top, Screen::Overview).contains("routerabcd"));
}

#[test]
fn a_plain_table_has_the_same_rows_and_an_object_numbers() {
    let mut top = seen();
    top.show(Screen::Overview);
    let text = top.plain(200);
    assert!(text.starts_with("Overview, 2 daemons\nWHAT "), "{text}");
    assert!(text.contains("30 look-ups/s"), "{text}");
    let object = top.object();
    assert_eq!(object["screen"], "overview");
    assert_eq!(object["rows"][1]["name"], "routerabcd");
    assert_eq!(object["rows"][1]["does"], 100.0);
    assert_eq!(object["rows"][1]["bit_s"], 100_000.0);
    assert!(top.has_heard());
}
