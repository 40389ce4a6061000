//! Regular expressions over AS paths, in the dialect of routers.
//!
//! An expression is matched over the path's *text*, as Cisco's and FRR's routers do, and not over
//! its numbers: expressions are pasted from router to router, and `65[0-9]+`, `(_64496)+` or
//! `^64496 [0-9]+$` mean something only in text. Numbers are ranges in brackets here, too.
//!
//! The text: numbers in decimal (asplain) with a space between; a set (RFC 4271's AS_SET)
//! as `{64496,64497}`. Confederation segments have no text: beyond a confederation they
//! are malformed (RFC 5065, section 5), and the session has treated such a route as
//! withdrawn. The empty path is the empty text: `^$`.
//!
//! | written | matches |
//! |---|---|
//! | `_` | the beginning, the end, a space, a comma, a brace or a parenthesis |
//! | `.` `*` `+` `?` `^` `$` <code>&#124;</code> `(` `)` `{m,n}` | as in POSIX extended expressions |
//! | `[0-9]`, `[^ ]` | one character |
//! | `[65000-65010]` | one whole number of the range; both ends have two digits or more |
//! | `\{` | the character |
//!
//! Time is linear in the path for every expression, since the engine has no backtracking; the
//! program of an expression is bounded by [`MOST_PROGRAM`].

use std::fmt::{self, Write};
use std::str::FromStr;

use regex::bytes::{Regex, RegexBuilder};
use rustbgpd_wire::{AsPath, AsPathSegment};

use super::PolicyError;

/// An expression over paths.
#[derive(Debug, Clone)]
pub struct PathPattern {
    text: String,
    program: Regex,
}

impl PathPattern {
    /// Whether a path is one of those it describes.
    pub fn matches(&self, path: &AsPath) -> bool {
        self.matches_text(&path_text(path))
    }

    /// The same for a path's text: for who asks several expressions.
    pub fn matches_text(&self, text: &str) -> bool {
        self.program.is_match(text.as_bytes())
    }
}

impl FromStr for PathPattern {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        if text.len() > MOST_TEXT {
            return Err(PolicyError::Path { at: MOST_TEXT, problem: Problem::TooLong });
        }
        let program = Translation { text, rest: text.char_indices().collect(), at: 0 }.run()?;
        let program = RegexBuilder::new(&program)
            .unicode(false)
            .size_limit(MOST_PROGRAM)
            .dfa_size_limit(MOST_CACHE)
            .build();
        let program = program.map_err(|error| {
            let problem = match error {
                regex::Error::CompiledTooBig(_) => Problem::TooBig,
                _ => Problem::NoExpression,
            };
            PolicyError::Path { at: 0, problem }
        })?;
        Ok(Self { text: text.to_owned(), program })
    }
}

impl PartialEq for PathPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PathPattern {}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The text that expressions are matched over.
pub fn path_text(path: &AsPath) -> String {
    let mut text = String::with_capacity(8 * path.len());
    for segment in &path.segments {
        let (open, between, close, numbers) = match segment {
            AsPathSegment::AsSequence(numbers) => ("", ' ', "", numbers),
            AsPathSegment::AsSet(numbers) => ("{", ',', "}", numbers),
        };
        if numbers.is_empty() {
            continue;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(open);
        for (at, number) in numbers.iter().enumerate() {
            if at > 0 {
                text.push(between);
            }
            write!(text, "{number}").expect("invariant: a string takes all that is written");
        }
        text.push_str(close);
    }
    text
}

/// What is wrong with an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A character that no path and no expression has.
    Character(char),
    /// A backslash before something that needs none: `\d` and
    /// references to groups are not of this dialect.
    Escape,
    /// A bracket that is not closed, or holds what no path has.
    Bracket,
    /// `[5-35]` is 5, or 3 to 5, for who reads characters, and 5 to 35 for who reads numbers.
    Ambiguous,
    /// A range of numbers of which none is an AS.
    Range,
    /// A brace that is no count like `{2,4}` up to [`MOST_COUNT`]
    /// behind something; of a set, it is written `\{`.
    Brace,
    /// Groups that do not close, or a repetition of nothing or of a repetition.
    NoExpression,
    /// Longer than [`MOST_TEXT`].
    TooLong,
    /// Its program would be bigger than [`MOST_PROGRAM`].
    TooBig,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Character(found) => write!(f, "`{found}` is in no path"),
            Self::Escape => f.write_str("a backslash goes before one of . * + ? | ( ) [ ] { } ^ $"),
            Self::Bracket => f.write_str("brackets hold digits like [0-9], or a range of numbers like [65000-65010]"),
            Self::Ambiguous => f.write_str(
                "a range from one digit to a longer number could mean digits or numbers; write [05-35] \
                 for numbers, [3-55] for digits",
            ),
            Self::Range => f.write_str("a range of numbers goes upwards, to 4294967295 at most"),
            Self::Brace => {
                write!(f, "a brace is a count like {{2,4}}, up to {MOST_COUNT}, behind something; a set's brace \
                 is written \\{{")
            }
            Self::NoExpression => f.write_str("a group does not close, or a mark of repetition is behind nothing or another"),
            Self::TooLong => write!(f, "longer than {MOST_TEXT} bytes"),
            Self::TooBig => f.write_str("it takes too much memory; use smaller counts"),
        }
    }
}

/// From the routers' dialect into the engine's.
struct Translation<'a> {
    text: &'a str,
    rest: Vec<(usize, char)>,
    at: usize,
}

impl Translation<'_> {
    fn run(mut self) -> Result<String, PolicyError> {
        let mut out = String::with_capacity(2 * self.text.len());
        let mut repeatable = false;
        while let Some(&(byte, next)) = self.rest.get(self.at) {
            self.at += 1;
            let refused = |problem| Err(PolicyError::Path { at: byte, problem });
            match next {
                '0'..='9' | ' ' | ',' | '.' | '^' | '$' | '|' | ')' => out.push(next),
                // A question mark behind it would be an extension of the engine.
                '(' if self.peek() == Some('?') => return refused(Problem::NoExpression),
                '(' => out.push('('),
                '*' | '+' | '?' if repeatable => out.push(next),
                '*' | '+' | '?' => return refused(Problem::NoExpression),
                '_' => out.push_str("(?:^|$|[ ,{}()\\[\\]])"),
                '\\' => match self.take() {
                    Some(escaped) if ESCAPABLE.contains(escaped) => {
                        out.push('\\');
                        out.push(escaped);
                    }
                    _ => return refused(Problem::Escape),
                },
                '[' => self.bracket(byte, &mut out)?,
                '{' if repeatable => self.count(byte, &mut out)?,
                '{' | '}' => return refused(Problem::Brace),
                ']' => return refused(Problem::Bracket),
                other => return refused(Problem::Character(other)),
            }
            // A mark behind a mark would mean laziness to the
            // engine, and a second repetition to POSIX.
            repeatable = !matches!(next, '(' | '|' | '^' | '$' | '*' | '+' | '?' | '{');
        }
        Ok(out)
    }

    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).map(|(_, next)| *next)
    }

    fn take(&mut self) -> Option<char> {
        let next = self.peek();
        self.at += 1;
        next
    }

    /// What is between here and `end`, which is passed.
    fn until(&mut self, end: char) -> Option<String> {
        let rest = self.rest.get(self.at..)?;
        let len = rest.iter().position(|(_, next)| *next == end)?;
        self.at += len + 1;
        Some(rest[..len].iter().map(|(_, next)| *next).collect())
    }

    fn bracket(&mut self, byte: usize, out: &mut String) -> Result<(), PolicyError> {
        let refused = |problem| PolicyError::Path { at: byte, problem };
        let inside = self.until(']').ok_or(refused(Problem::Bracket))?;
        if let Some((low, high)) = inside.split_once('-')
            && [low, high]
                .iter()
                .all(|end| !end.is_empty() && end.bytes().all(|b| b.is_ascii_digit()))
        {
            match (low.len(), high.len()) {
                (1, 2..) => return Err(refused(Problem::Ambiguous)),
                (2.., 2..) => {
                    let (Ok(low), Ok(high)) = (low.parse(), high.parse::<u32>()) else {
                        return Err(refused(Problem::Range));
                    };
                    if low > high {
                        return Err(refused(Problem::Range));
                    }
                    out.push_str("(?:\\b(?:");
                    number_range(low, high, out);
                    out.push_str(")\\b)");
                    return Ok(());
                }
                _ => {}
            }
        }
        let (negation, members) = match inside.strip_prefix('^') {
            Some(members) => ("^", members),
            None => ("", &*inside),
        };
        out.push('[');
        out.push_str(negation);
        let mut members = members.chars().peekable();
        if members.peek().is_none() {
            return Err(refused(Problem::Bracket));
        }
        while let Some(member) = members.next() {
            match (member, members.peek()) {
                ('0'..='9', Some('-')) => {
                    members.next();
                    match members.next() {
                        Some(last @ '0'..='9') if member <= last => {
                            out.extend([member, '-', last]);
                        }
                        _ => return Err(refused(Problem::Bracket)),
                    }
                }
                ('0'..='9' | ' ' | ',', _) => out.push(member),
                ('{' | '}' | '(' | ')', _) => out.extend(['\\', member]),
                _ => return Err(refused(Problem::Bracket)),
            }
        }
        out.push(']');
        Ok(())
    }

    /// `{m}`, `{m,}` or `{m,n}`.
    fn count(&mut self, byte: usize, out: &mut String) -> Result<(), PolicyError> {
        let refused = PolicyError::Path { at: byte, problem: Problem::Brace };
        let inside = self.until('}').ok_or(refused.clone())?;
        let (least, most) = inside.split_once(',').unwrap_or((&inside, &inside));
        let parse = |end: &str| end.parse::<u32>().ok().filter(|n| *n <= MOST_COUNT);
        let least = parse(least).ok_or(refused.clone())?;
        if most.is_empty() {
            write!(out, "{{{least},}}").expect("invariant: a string takes all that is written");
        } else {
            let most = parse(most).filter(|most| *most >= least).ok_or(refused)?;
            write!(out, "{{{least},{most}}}")
                .expect("invariant: a string takes all that is written");
        }
        Ok(())
    }
}

/// Alternatives for the numbers from `low` to `high`, length by length.
fn number_range(low: u32, high: u32, out: &mut String) {
    let mut low = u64::from(low);
    let high = u64::from(high);
    while low <= high {
        let digits = low.checked_ilog10().unwrap_or(0);
        let last = high.min(10u64.pow(digits + 1) - 1);
        digit_range(low.to_string().as_bytes(), last.to_string().as_bytes(), out);
        if last < high {
            out.push('|');
        }
        low = last + 1;
    }
}

/// The same for two numbers of equally many digits.
fn digit_range(low: &[u8], high: &[u8], out: &mut String) {
    let (Some((first, low)), Some((last, high))) = (low.split_first(), high.split_first()) else {
        return;
    };
    if first == last {
        out.push(char::from(*first));
        return digit_range(low, high, out);
    }
    out.push_str("(?:");
    // The first digits that any digits may follow.
    let (mut whole_first, mut whole_last) = (*first, *last);
    if low.iter().any(|digit| *digit != b'0') {
        out.push(char::from(*first));
        digit_range(low, &vec![b'9'; low.len()], out);
        out.push('|');
        whole_first += 1;
    }
    if high.iter().any(|digit| *digit != b'9') {
        whole_last -= 1;
    }
    if whole_first <= whole_last {
        let (from, to) = (char::from(whole_first), char::from(whole_last));
        write!(out, "[{from}-{to}][0-9]{{{}}}", low.len())
            .expect("invariant: a string takes all that is written");
        if whole_last != *last {
            out.push('|');
        }
    }
    if whole_last != *last {
        out.push(char::from(*last));
        digit_range(&vec![b'0'; high.len()], high, out);
    }
    out.push(')');
}

/// Longest expression, in bytes: longer ones are lists of numbers,
/// which belong in ranges or in several expressions.
pub const MOST_TEXT: usize = 4096;
/// Largest program of an expression, in bytes: the longest
/// text without counts fits; nested counts do not.
pub const MOST_PROGRAM: usize = 1 << 20;
/// What of it may be remembered at run time, per expression and thread, in bytes.
const MOST_CACHE: usize = 1 << 18;
/// Highest count in braces: POSIX's RE_DUP_MAX, and the longest sequence of a path's segment.
pub const MOST_COUNT: u32 = 255;
const ESCAPABLE: &str = ".*+?|()[]{}^$";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_of_numbers_are_of_numbers() {
        let range = |low, high| {
            let mut text = String::new();
            number_range(low, high, &mut text);
            Regex::new(&format!("(?-u)^(?:{text})$")).unwrap()
        };
        for (low, high) in
            [(0, 9), (10, 10), (65_000, 65_010), (99, 100_001), (0, u32::MAX), (7, 4_199_999_999)]
        {
            let range = range(low, high);
            for near in [
                0,
                9,
                10,
                11,
                99,
                64_999,
                65_000,
                65_005,
                65_010,
                65_011,
                100_001,
                100_002,
                low,
                high,
                u32::MAX,
            ] {
                let within = (low..=high).contains(&near);
                assert_eq!(
                    range.is_match(near.to_string().as_bytes()),
                    within,
                    "{low}-{high}: {near}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn a_range_has_what_is_between_its_ends(ends: [u32; 2], shifts: [u8; 2], tried: [u32; 8]) {
            let [low, high] = [ends[0] >> (shifts[0] % 32), ends[1] >> (shifts[1] % 32)];
            let (low, high) = (low.min(high), low.max(high));
            let mut text = String::new();
            number_range(low, high, &mut text);
            let range = Regex::new(&format!("(?-u)^(?:{text})$")).unwrap();
            let near = [low, low.wrapping_sub(1), high, high.wrapping_add(1), low / 2 + high / 2];
            for number in tried.into_iter().chain(near) {
                prop_assert_eq!(range.is_match(number.to_string().as_bytes()), (low..=high).contains(&number));
            }
        }
    }
}
