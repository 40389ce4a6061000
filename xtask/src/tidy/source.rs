//! A light reading of Rust source: enough to find functions,
//! their bodies and the code that only tests see.
//!
//! Invariant: comments, strings and character literals are blanked byte by
//! byte, so a place in the blanked source is the same place in the file, and no
//! brace or word inside them is taken for code.

use std::ops::Range;

/// One file, blanked.
pub(crate) struct Source {
    code: Vec<u8>,
    test_code: Vec<Range<usize>>,
}

/// A function with a body, or one that a trait declares.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Where the name stands, from 1.
    pub(crate) line: usize,
    /// Lines between the braces.
    pub(crate) body_lines: usize,
    pub(crate) is_test_code: bool,
}

impl Source {
    pub(crate) fn read(text: &str) -> Self {
        let code = blank(text.as_bytes());
        let test_code = test_code(&code);
        Self { code, test_code }
    }

    /// The text, blanked.
    pub(crate) fn code(&self) -> &str {
        std::str::from_utf8(&self.code).expect("invariant: whole comments and literals are blanked")
    }

    /// The same without what only tests see.
    pub(crate) fn without_tests(mut self) -> Self {
        for range in std::mem::take(&mut self.test_code) {
            self.code[range].iter_mut().filter(|byte| **byte != b'\n').for_each(|b| *b = b' ');
        }
        self
    }

    pub(crate) fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for start in find_all(&self.code, b"fn") {
            if !is_word(&self.code, start..start + 2) {
                continue;
            }
            let gap = self.code[start + 2..].iter().take_while(|b| b.is_ascii_whitespace()).count();
            let name_start = start + 2 + gap;
            let name_len = self.code[name_start..].iter().take_while(|b| is_ident(**b)).count();
            // `fn(` is a type and `fn $name` a macro's.
            if gap == 0 || name_len == 0 {
                continue;
            }
            let name_end = name_start + name_len;
            let body = block_after(&self.code, name_end);
            functions.push(Function {
                name: String::from_utf8_lossy(&self.code[name_start..name_end]).into_owned(),
                line: line_of(&self.code, name_start),
                body_lines: body.map_or(0, |body| lines_between_braces(&self.code[body])),
                is_test_code: self.test_code.iter().any(|range| range.contains(&start)),
            });
        }
        functions
    }
}

fn blank(text: &[u8]) -> Vec<u8> {
    let mut code = text.to_vec();
    let mut at = 0;
    while at < text.len() {
        let end = literal_or_comment_end(text, at);
        match end {
            Some(end) => {
                let end = end.min(text.len());
                code[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|b| *b = b' ');
                at = end;
            }
            None => at += 1,
        }
    }
    code
}

/// Where the comment, string or character literal that begins at `at` ends; `None` when none does.
fn literal_or_comment_end(text: &[u8], at: usize) -> Option<usize> {
    let rest = &text[at..];
    match rest[0] {
        b'/' if rest.starts_with(b"//") => {
            Some(at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()))
        }
        b'/' if rest.starts_with(b"/*") => Some(at + block_comment_len(rest)),
        b'r' | b'b' | b'c' if at == 0 || !is_ident(text[at - 1]) => {
            raw_string_len(rest).map(|len| at + len)
        }
        b'"' => Some(at + string_len(rest)),
        b'\'' => character_len(rest).map(|len| at + len),
        _ => None,
    }
}

fn block_comment_len(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < text.len() {
        if text[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// `r"..."`, `r#"..."#` and the same after `b` or `c`.
fn raw_string_len(text: &[u8]) -> Option<usize> {
    let prefix = usize::from(matches!(text[0], b'b' | b'c'));
    text.get(prefix).filter(|byte| **byte == b'r')?;
    let hashes = text[prefix + 1..].iter().take_while(|byte| **byte == b'#').count();
    let open = prefix + 1 + hashes;
    text.get(open).filter(|byte| **byte == b'"')?;
    let close = [b"\"".to_vec(), vec![b'#'; hashes]].concat();
    let len = find_all(&text[open + 1..], &close).next();
    Some(len.map_or(text.len(), |len| open + 1 + len + close.len()))
}

fn string_len(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// `None` for a lifetime.
fn character_len(text: &[u8]) -> Option<usize> {
    if text.get(1) == Some(&b'\\') {
        let close = text.iter().skip(3).position(|byte| *byte == b'\'')?;
        return Some(3 + close + 1);
    }
    // One character of UTF-8: its first byte, then bytes that continue it.
    let continuation = text.iter().skip(2).take_while(|byte| **byte & 0xC0 == 0x80).count();
    let close = 2 + continuation;
    (text.get(close) == Some(&b'\'')).then_some(close + 1)
}

/// The blocks that `#[cfg(test)]` stands before.
fn test_code(code: &[u8]) -> Vec<Range<usize>> {
    let markers: [&[u8]; 2] = [b"#[cfg(test)]", b"#[cfg(all(test,"];
    let starts = markers.iter().flat_map(|marker| find_all(code, marker));
    starts.filter_map(|start| block_after(code, start + 2)).collect()
}

/// The next `{ .. }`, unless a `;` ends the item before it.
fn block_after(code: &[u8], from: usize) -> Option<Range<usize>> {
    let mut open = from;
    let mut brackets = 0_isize;
    loop {
        match code.get(open)? {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets -= 1,
            // The end of an attribute that `from` stood in leaves the count below zero.
            b';' if brackets <= 0 => return None,
            b'{' if brackets <= 0 => break,
            _ => {}
        }
        open += 1;
    }
    let mut depth = 0_usize;
    for (at, byte) in code.iter().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some(open..at + 1),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn lines_between_braces(block: &[u8]) -> usize {
    block.iter().filter(|byte| **byte == b'\n').count().saturating_sub(1)
}

fn line_of(code: &[u8], at: usize) -> usize {
    1 + code[..at].iter().filter(|byte| **byte == b'\n').count()
}

fn is_ident(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn is_word(code: &[u8], range: Range<usize>) -> bool {
    let before = range.start.checked_sub(1).map(|at| code[at]);
    let after = code.get(range.end).copied();
    !before.is_some_and(is_ident) && !after.is_some_and(is_ident)
}

fn find_all<'a>(text: &'a [u8], what: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    text.windows(what.len()).enumerate().filter(move |(_, w)| *w == what).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blanked(text: &str) -> String {
        String::from_utf8(Source::read(text).code).unwrap()
    }

    #[test]
    fn comments_strings_and_characters_are_blanked_in_place() {
        for (text, left_over) in [
            ("a // { b\nc", "a c"),
            ("a /* { /* } */ } */ b", "a b"),
            (r#"f("{ \" {", x)"#, "f( , x)"),
            (r##"f(r#"{ " {"#, x)"##, "f( , x)"),
            (r##"f(br"{\", x)"##, "f( , x)"),
            (r#"f(b"{", c"{")"#, "f(b , c )"),
            (r"f('{', '\'', '\\', '\u{7B}', b'{')", "f( , , , , b )"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("r#type { \"}", "r#type {"),
            ("'é' {", "{"),
        ] {
            let code = blanked(text);
            assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), left_over, "{text}");
            assert_eq!(code.len(), text.len());
            assert_eq!(code.lines().count(), text.lines().count());
        }
    }

    #[test]
    fn functions_are_measured() {
        let text = "\
fn one() -> [u8; { 1 }] {
    // }
    \"}\";
}
trait T { fn declared(&self); }
type F = fn(u8);
macro_rules! m { ($n:ident) => { fn $n() {} } }
fn empty() {}
const fn where_clause<T>() where T: Fn(u8) {

}
";
        let functions = Source::read(text).functions();
        let seen: Vec<(&str, usize, usize)> =
            functions.iter().map(|f| (f.name.as_str(), f.line, f.body_lines)).collect();
        assert_eq!(
            seen,
            [("one", 1, 2), ("declared", 5, 0), ("empty", 8, 0), ("where_clause", 9, 1)]
        );
    }

    #[test]
    fn test_code_is_told_apart() {
        let text = "\
fn plain() {}
#[cfg(test)]
use x::y;
fn plain_too() {}
#[cfg(test)]
#[allow(dead_code)]
mod tests {
    fn helper() { {} }
}
#[cfg(not(test))]
fn plain_again() {}
";
        let functions = Source::read(text).functions();
        let tests: Vec<&str> =
            functions.iter().filter(|f| f.is_test_code).map(|f| f.name.as_str()).collect();
        assert_eq!(functions.len(), 4);
        assert_eq!(tests, ["helper"]);
    }
}
