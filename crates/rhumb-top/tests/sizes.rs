//! Terminals of all sizes, with colours and without.

use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use rhumb_top::{Key, LEAST_HEIGHT, LEAST_WIDTH, Labels, Screen, Top};

use crate::samples::{drawn, look, rib, router, top};

fn fill(top: &mut Top) {
    for at_s in [10, 12] {
        top.take(look("/run/a.sock", at_s, router(at_s)));
        top.take(look("/run/b.sock", at_s, rib(at_s)));
    }
}

#[test]
fn eighty_columns_show_what_matters_and_the_rest_is_left_out() {
    let mut top = top();
    fill(&mut top);
    let text = drawn(&mut top, 80, 24);
    assert!(text.lines().nth(1).unwrap().ends_with("7 Warnings"), "{text}");
    assert!(text.contains("router  routerabcd  12s      2      100 PDU/s  800.0k     4.0"));
    let narrow = drawn(&mut top, LEAST_WIDTH, LEAST_HEIGHT);
    assert!(narrow.contains(" 1 Overview  2  3  4  5  6  7"), "{narrow}");
    assert!(narrow.contains("100 PDU/s") && !narrow.contains("WARNINGS"), "{narrow}");
}

#[test]
fn a_terminal_without_room_is_told_how_much_it_needs() {
    let mut top = top();
    fill(&mut top);
    let text = drawn(&mut top, 30, 8);
    assert_eq!(
        text.trim_end(),
        "This terminal is 30x8: rhumb\ntop needs 40x10. Make it\nlarger, or leave (q) and try\nrhumb top --batch."
    );
    assert!(drawn(&mut top, 100, 9).contains("rhumb top needs 40x10"));
    // Once there is room, all is there.
    assert!(drawn(&mut top, 40, 10).contains("routerabcd"));
}

#[test]
fn without_colours_nothing_is_coloured() {
    for (is_coloured, expected) in [(true, true), (false, false)] {
        let mut top = Top::new(Labels::none(), 2_000, is_coloured);
        fill(&mut top);
        let mut has_colour = false;
        for screen in Screen::ALL {
            top.show(screen);
            let mut terminal = Terminal::new(TestBackend::new(100, 30)).unwrap();
            terminal.draw(|frame| top.draw(frame)).unwrap();
            let cells = &terminal.backend().buffer().content;
            has_colour |= cells.iter().any(|it| it.fg != Color::Reset || it.bg != Color::Reset);
        }
        assert_eq!(has_colour, expected);
    }
}

#[test]
fn with_nobody_there_it_says_what_to_do() {
    let mut top = top();
    let text = drawn(&mut top, 80, 24);
    assert!(text.contains("No daemon of this user answers. Start one with --admin"), "{text}");
    assert!(!top.has_heard());
    assert!(top.plain(80).contains("no daemon"));
}

/// A key, by a number.
fn key(number: u8) -> Key {
    const KEYS: [Key; 14] = [
        Key::Enter,
        Key::Escape,
        Key::Backspace,
        Key::Tab,
        Key::BackTab,
        Key::Up,
        Key::Down,
        Key::Left,
        Key::Right,
        Key::PageUp,
        Key::PageDown,
        Key::Home,
        Key::End,
        Key::F1,
    ];
    match KEYS.get(usize::from(number)) {
        Some(key) => *key,
        None => Key::Letter(char::from(number % 95 + 32)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_size_and_no_keys_break_it(
        sizes in prop::collection::vec((0_u16..130, 0_u16..40), 1..8),
        keys in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut top = top();
        fill(&mut top);
        for (number, pressed) in keys.iter().enumerate() {
            top.press(key(*pressed));
            let (width, height) = sizes[number % sizes.len()];
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| top.draw(frame)).unwrap();
        }
    }
}
