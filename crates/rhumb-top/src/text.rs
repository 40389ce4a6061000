//! Text that a terminal may be given: nothing in it moves the cursor, turns the line or hides.
//!
//! Letters, digits, what ASCII can print and what else is visible stay; all else is spelt out.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// `text` without what a terminal would obey, on one line, and no longer than anybody reads.
pub fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(MOST_BYTES));
    for letter in text.chars() {
        if shown.len() >= MOST_BYTES {
            shown.push(CUT);
            break;
        }
        match letter {
            ' '..='~' => shown.push(letter),
            _ if is_visible(letter) => shown.push(letter),
            '\t' | '\n' | '\r' => shown.extend(letter.escape_default()),
            _ => shown.extend(letter.escape_unicode()),
        }
    }
    shown
}

/// Whether it shows, and takes a place of its own.
fn is_visible(letter: char) -> bool {
    letter.width() > Some(0) && letter.escape_debug().len() == 1
}

/// How many columns it takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Its beginning, if it is wider than `most` columns.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let (mut kept, mut used) = (String::new(), 0);
    for letter in text.chars() {
        let wide = letter.width().unwrap_or(0);
        if used + wide + 1 > most {
            break;
        }
        used += wide;
        kept.push(letter);
    }
    if most > 0 {
        kept.push(CUT);
    }
    kept
}

/// Exactly `columns` wide: cut, or filled up at the side that is not its own.
pub(crate) fn fitted(text: &str, columns: usize, is_right: bool) -> String {
    let text = cut(text, columns);
    let gap = " ".repeat(columns.saturating_sub(width(&text)));
    if is_right { gap + &text } else { text + &gap }
}

/// In lines of at most `columns`, cut between words where there are any.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("invariant: there is a first line");
        if line.is_empty() {
            *line = cut(word, columns);
        } else if width(line) + 1 + width(word) <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(cut(word, columns));
        }
    }
    lines
}

/// Stands for what is left out.
const CUT: char = '…';
/// Reasons and labels are far shorter; a longer one is somebody's game.
const MOST_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_strangers_label_cannot_move_the_cursor_turn_the_line_or_hide() {
        let label = "x\u{1b}[2J\u{1b}]0;title\u{7}\r\n\u{9b}1m\u{202e}y\u{200b}z\u{e000}e\u{301}";
        let safe = shown(label);
        assert_eq!(
            safe,
            "x\\u{1b}[2J\\u{1b}]0;title\\u{7}\\r\\n\\u{9b}1m\\u{202e}y\\u{200b}z\\u{e000}e\\u{301}"
        );
        assert_eq!(shown("münchen 東京 \"1\""), "münchen 東京 \"1\"");
        assert!(shown(&"a".repeat(100_000)).len() < 600);
    }

    #[test]
    fn cells_are_as_wide_as_they_have_to_be() {
        assert_eq!(fitted("abc", 5, true), "  abc");
        assert_eq!(fitted("abcdef", 4, false), "abc…");
        // A wide letter that does not fit leaves a gap rather than a cell too wide.
        assert_eq!(fitted("東京都", 4, false), "東… ");
        assert_eq!(cut("abc", 0), "");
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
    }

    proptest! {
        #[test]
        fn nothing_shown_is_obeyed(text: String, columns in 0_usize..40) {
            let safe = shown(&text);
            prop_assert!(safe.chars().all(|it| !it.is_control() && it.width() > Some(0)));
            prop_assert_eq!(width(&fitted(&safe, columns, false)), columns);
        }
    }
}
