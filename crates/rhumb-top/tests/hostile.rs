//! What strangers say - labels, reasons, addresses, and a whole status of a daemon that lies - does
//! nothing to the terminal, and is bounded.

use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Cell;
use rhumb_top::{Key, Screen, Top};
use serde_json::{Value, json};

use crate::samples::{look, router, silent, top};

/// Clears the screen, sets the title, turns the line and writes beyond it.
const ATTACK: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\n\u{202e}\u{200b}\u{8}";

/// All that a view gives a terminal, cell by cell, and as a plain table.
fn all_shown(top: &mut Top) -> String {
    let mut all = String::new();
    for screen in Screen::ALL {
        top.show(screen);
        for key in [Key::Escape, Key::Enter] {
            top.press(key);
            let mut terminal = Terminal::new(TestBackend::new(120, 60)).unwrap();
            terminal.draw(|frame| top.draw(frame)).unwrap();
            let cells = terminal.backend().buffer().content.iter();
            all.extend(cells.map(|cell| cell.symbol().to_owned()));
        }
        all.push_str(&top.plain(200).replace('\n', ""));
    }
    all
}

fn is_harmless(text: &str) -> bool {
    let hides_or_turns = |it| matches!(it, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}');
    !text.chars().any(|it| it.is_control() || hides_or_turns(it))
}

#[test]
fn a_peers_label_and_a_daemons_words_are_not_obeyed() {
    let mut status = router(12);
    status["sessions"][0]["calls_itself"] = json!(ATTACK);
    status["sessions"][0]["address"] = json!(ATTACK);
    status["sessions"][0]["peer"] = json!(ATTACK);
    status["sessions"][0]["transport"] = json!(ATTACK);
    status["newest_flows"][0]["source"] = json!(ATTACK);
    status["attached"][0]["name"] = json!(ATTACK);
    status["own_statement"]["says"] = json!(ATTACK);
    status["dropped_pdus"][ATTACK] = json!(7);
    status["counters"][ATTACK] = json!(7);
    status["role"] = json!(format!("router{ATTACK}"));
    status[ATTACK] = json!({ATTACK: ATTACK});
    let mut top = top();
    for at_s in [10, 12] {
        top.take(look("/run/a\u{1b}[2J.sock", at_s, status.clone()));
    }
    top.take(silent("/run/b.sock", 12, ATTACK));
    let shown = all_shown(&mut top);
    assert!(is_harmless(&shown), "{shown:?}");
    // It is not hidden either: whoever looks sees what was tried.
    assert!(shown.contains("\\u{1b}[2J"), "{shown}");
    assert!(!shown.contains("\u{1b}"));
}

#[test]
fn what_a_peer_calls_itself_is_never_taken_for_a_name_of_ours() {
    let mut status = router(12);
    status["sessions"][1]["calls_itself"] = json!("alice");
    let mut top = top();
    top.take(look("/run/a.sock", 12, status));
    top.show(Screen::Sessions);
    // The book's alice is there once; the other one is not called so.
    let table = top.plain(200);
    assert_eq!(table.matches("alice").count(), 1, "{table}");
    top.press(Key::End);
    top.press(Key::Enter);
    let mut terminal = Terminal::new(TestBackend::new(120, 30)).unwrap();
    terminal.draw(|frame| top.draw(frame)).unwrap();
    let text: String = terminal.backend().buffer().content.iter().map(Cell::symbol).collect();
    assert!(text.contains("\"alice\" (its own word)"), "{text}");
}

#[test]
fn a_status_of_any_shape_and_size_is_shown_or_left_out() {
    let mut top = top();
    let many: Vec<Value> =
        (0..20_000).map(|it| json!({"peer": it, "local": "x", "address": ["y"]})).collect();
    let deep = (0..100).fold(json!(1), |inside, _| json!({ "x": [inside] }));
    for (number, status) in [
        json!(null),
        json!([1, 2]),
        json!("text"),
        json!({"sessions": "none", "connections": 3, "members": many.clone(), "role": 5}),
        json!({"role": "exchange", "sessions": many.clone(), "ways": [[], {}, 3]}),
        json!({"role": "router", "tables": {"flows": {"used": -1, "bound": 0}}, "deep": deep}),
        json!({"role": "router", "tables": {"flows": {"used": 5, "bound": 0}}, "uptime_s": -4.5}),
    ]
    .into_iter()
    .enumerate()
    {
        top.take(look(&format!("/run/{number}.sock"), 10, status.clone()));
        top.take(look(&format!("/run/{number}.sock"), 12, status));
    }
    assert!(is_harmless(&all_shown(&mut top)));
}

#[test]
fn daemons_without_end_are_not_all_taken() {
    let mut top = top();
    for number in 0..1_000 {
        top.take(silent(&format!("/run/{number:04}.sock"), 1, "busy"));
    }
    assert!(top.plain(100).contains("256 daemons"));
}

/// Any JSON, a little deep.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|it| json!(it)),
        ".{0,12}".prop_map(Value::from),
    ];
    let keys = prop_oneof![
        Just("sessions"),
        Just("role"),
        Just("counters"),
        Just("connections"),
        Just("accounts"),
        Just("dropped_pdus"),
        Just("expires_in_s"),
        Just("membership"),
        Just("own_statement"),
        Just("peer"),
        Just("newest_flows"),
        Just("tables"),
        Just("used"),
        Just("bound"),
    ];
    leaf.prop_recursive(4, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(keys.clone().prop_map(str::to_owned), inner, 0..8)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_status_breaks_it_or_is_obeyed(first in any_json(), second in any_json()) {
        let mut top = top();
        top.take(look("/run/a.sock", 1, first));
        top.take(look("/run/a.sock", 3, second));
        prop_assert!(is_harmless(&all_shown(&mut top)));
    }
}
