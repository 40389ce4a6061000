//! What keys do.

use rhumb_top::{Asked, KEYS, Key, Screen, Top};

use crate::samples::{ALICE, drawn, look, rib, seen};

fn press(top: &mut Top, keys: &str) {
    for letter in keys.chars() {
        top.press(Key::Letter(letter));
    }
}

fn screen(top: &mut Top) -> String {
    drawn(top, 100, 14)
}

/// The rows below the titles.
fn rows(top: &mut Top) -> Vec<String> {
    let text = screen(top);
    let rows = text.lines().skip(3).take_while(|line| !line.is_empty());
    rows.map(str::to_owned).collect()
}

#[test]
fn leaving_is_what_people_guess() {
    for key in [Key::Letter('q'), Key::Letter('Q'), Key::Control('c')] {
        assert_eq!(seen().press(key), Asked::Leave, "{key:?}");
    }
    assert_eq!(seen().press(Key::Control('z')), Asked::Suspend);
    assert_eq!(seen().press(Key::Control('l')), Asked::DrawAnew);
    assert_eq!(seen().press(Key::Letter('l')), Asked::LookNow);
}

#[test]
fn screens_are_reached_by_number_by_tab_and_by_arrows() {
    let mut top = seen();
    press(&mut top, "4");
    assert!(screen(&mut top).contains("REASON"));
    top.press(Key::Tab);
    assert!(screen(&mut top).contains("RENEWED"));
    top.press(Key::BackTab);
    top.press(Key::Left);
    assert!(screen(&mut top).contains("BY WAY OF"));
    press(&mut top, "1");
    top.press(Key::Left);
    assert!(screen(&mut top).contains("Nothing to warn of."));
    top.press(Key::Right);
    assert!(screen(&mut top).contains("DOES"));
    // There is no eighth.
    press(&mut top, "8");
    assert!(screen(&mut top).contains("DOES"));
    for screen in Screen::ALL {
        assert_eq!(Screen::called(&screen.title().to_lowercase()), Some(screen));
    }
}

#[test]
fn a_filter_is_written_kept_and_taken_off() {
    let mut top = seen();
    press(&mut top, "/roux");
    assert!(screen(&mut top).contains("/roux▏"));
    top.press(Key::Backspace);
    // Letters that mean something elsewhere are letters here.
    press(&mut top, "ter");
    top.press(Key::Enter);
    assert_eq!(rows(&mut top).len(), 1);
    assert!(screen(&mut top).contains("/router 1/1 of 2"));
    // It stays on other screens, and what is looked for may stand in the details.
    press(&mut top, "2");
    assert_eq!(rows(&mut top).len(), 2);
    press(&mut top, "/");
    top.press(Key::Control('u'));
    press(&mut top, &ALICE[..20]);
    assert_eq!(rows(&mut top).len(), 1);
    press(&mut top, "nobody");
    assert!(screen(&mut top).contains("None of 2 rows has"));
    top.press(Key::Escape);
    assert_eq!(rows(&mut top).len(), 2);
    // Ctrl-C leaves whatever is being written.
    press(&mut top, "/");
    assert_eq!(top.press(Key::Control('c')), Asked::Leave);
}

#[test]
fn rows_are_sorted_by_the_next_column_and_the_other_way_round() {
    let mut top = seen();
    assert!(rows(&mut top)[0].starts_with("rib"));
    press(&mut top, "r");
    assert!(rows(&mut top)[0].starts_with("router"));
    // By name, uptime, peers: the router has more of them.
    press(&mut top, "sss");
    assert!(rows(&mut top)[0].starts_with("router"));
    press(&mut top, "r");
    assert!(rows(&mut top)[0].starts_with("rib"));
    // Each screen has an order of its own.
    press(&mut top, "41");
    assert!(rows(&mut top)[0].starts_with("rib"));
}

#[test]
fn a_view_that_is_held_changes_nothing_and_goes_on() {
    let mut top = seen();
    press(&mut top, "p");
    let before = screen(&mut top);
    assert!(before.contains("held still"), "{before}");
    top.take(look("/run/c.sock", 14, rib(1)));
    top.set_now(std::time::Duration::from_secs(99));
    assert_eq!(screen(&mut top), before);
    press(&mut top, " ");
    top.take(look("/run/c.sock", 16, rib(3)));
    assert_eq!(rows(&mut top).len(), 3);
}

#[test]
fn the_row_that_is_looked_at_stays_while_others_move() {
    let mut top = seen();
    top.press(Key::Down);
    top.press(Key::Enter);
    let details = screen(&mut top);
    assert!(details.contains("/run/a.sock") && details.contains("forwarded pdus"), "{details}");
    top.press(Key::Escape);
    // A row comes before it.
    top.take(look("/run/0.sock", 14, rib(2)));
    assert!(screen(&mut top).contains("3/3"));
    for key in [Key::Up, Key::Letter('k'), Key::Home, Key::Letter('g'), Key::PageUp] {
        top.press(key);
    }
    assert!(screen(&mut top).contains("1/3"));
    for key in [Key::End, Key::Letter('G'), Key::Letter('j'), Key::PageDown] {
        top.press(key);
    }
    assert!(screen(&mut top).contains("3/3"));
}

#[test]
fn details_show_names_in_full_and_scroll_to_their_end() {
    let mut top = seen();
    press(&mut top, "2");
    top.press(Key::Enter);
    let text = screen(&mut top);
    assert!(text.contains(&format!("{ALICE} (alice)")), "{text}");
    press(&mut top, "1");
    top.press(Key::Enter);
    let first = screen(&mut top);
    top.press(Key::End);
    let last = screen(&mut top);
    assert_ne!(first, last);
    top.press(Key::PageDown);
    assert_eq!(screen(&mut top), last);
    top.press(Key::Home);
    assert_eq!(screen(&mut top), first);
}

#[test]
fn help_names_every_key_and_goes_away() {
    let mut top = seen();
    press(&mut top, "?");
    let help = drawn(&mut top, 100, 20);
    for (keys, purpose) in KEYS {
        assert!(help.contains(keys) && help.contains(purpose), "{keys}: {help}");
    }
    top.press(Key::Escape);
    assert!(!screen(&mut top).contains("this help"));
}

#[test]
fn the_pace_is_changed_within_bounds() {
    let mut top = seen();
    assert_eq!(top.press(Key::Letter('+')), Asked::ChangePace);
    assert_eq!(top.pace().as_secs(), 5);
    for _ in 0..20 {
        top.press(Key::Letter('+'));
    }
    assert_eq!(top.pace().as_secs(), 60);
    for _ in 0..20 {
        top.press(Key::Letter('-'));
    }
    assert_eq!(top.pace().as_millis(), 500);
    assert!(screen(&mut top).contains("every 0.5 s"));
}
