//! Which modules a file names: paths that begin with `crate`, `super` or `self`, the braces of
//! `use` spelled out, and `super` resolved from the module that it stands in, inline ones too.

use super::source::Source;

/// A path as seen from the crate's root: `crate::a::b` is `["a", "b"]`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// Where it begins, from 1.
    pub(crate) line: usize,
    pub(crate) path: Vec<String>,
}

/// The module of a file, by its path below `src/`.
pub(crate) fn module_of(file: &str) -> Vec<&str> {
    match file.trim_end_matches(".rs") {
        "lib" | "main" => Vec::new(),
        path => path.split('/').collect(),
    }
}

/// All that a file in `module` names.
pub(crate) fn named(source: &Source, module: &[&str]) -> Vec<Named> {
    let tokens = tokens(source.code());
    let mut reader = Reader { tokens: &tokens, at: 0, found: Vec::new() };
    let mut current: Vec<String> = module.iter().map(|name| (*name).to_owned()).collect();
    // How many braces are open, and behind which of them inline modules begin.
    let (mut depth, mut inline) = (0, Vec::new());
    while let Some((line, token)) = reader.next() {
        match token {
            "{" => depth += 1,
            "}" => {
                if inline.last() == Some(&depth) {
                    inline.pop();
                    current.pop();
                }
                depth -= 1;
            }
            "mod" => {
                let at = reader.at;
                if let (Some((_, name)), Some((_, "{"))) = (reader.next(), reader.next()) {
                    depth += 1;
                    inline.push(depth);
                    current.push(name.to_owned());
                } else {
                    reader.at = at;
                }
            }
            "crate" => reader.path(line, &[]),
            "self" => reader.path(line, &current),
            "super" => {
                let mut above = current.len().saturating_sub(1);
                while reader.follow("::") && reader.follow("super") {
                    above = above.saturating_sub(1);
                }
                // A `::` may be read already; the path goes on behind it.
                reader.at -= usize::from(reader.behind() == Some("::"));
                reader.path(line, &current[..above]);
            }
            _ => {}
        }
    }
    reader.found
}

struct Reader<'a> {
    tokens: &'a [(usize, &'a str)],
    at: usize,
    found: Vec<Named>,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<(usize, &'a str)> {
        let token = self.tokens.get(self.at).copied();
        self.at += 1;
        token
    }

    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).map(|(_, token)| *token)
    }

    fn behind(&self) -> Option<&'a str> {
        self.tokens.get(self.at.checked_sub(1)?).map(|(_, token)| *token)
    }

    fn follow(&mut self, token: &str) -> bool {
        let is_it = self.peek() == Some(token);
        self.at += usize::from(is_it);
        is_it
    }

    /// Reads what follows a prefix: names, and a group at the end.
    fn path(&mut self, line: usize, prefix: &[String]) {
        let mut path = prefix.to_vec();
        while self.follow("::") {
            match self.peek() {
                Some(name) if is_name(name) => path.push(name.to_owned()),
                Some("{") => {
                    self.at += 1;
                    return self.group(&path);
                }
                _ => break,
            }
            self.at += 1;
        }
        self.found.push(Named { line, path });
    }

    fn group(&mut self, prefix: &[String]) {
        while let Some((line, token)) = self.next() {
            match token {
                "}" => return,
                "as" => self.at += 1,
                "self" => self.found.push(Named { line, path: prefix.to_vec() }),
                name if is_name(name) => {
                    let path = [prefix, &[name.to_owned()]].concat();
                    self.path(line, &path);
                }
                _ => {}
            }
        }
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Names, `::`, and single other characters, each with its line.
fn tokens(code: &str) -> Vec<(usize, &str)> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let len = if is_part(first) {
            rest.find(|c| !is_part(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (token, behind) = rest.split_at(len);
        if !first.is_whitespace() {
            tokens.push((line, token));
        }
        line += usize::from(first == '\n');
        rest = behind;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        named(&Source::read(text), &["a", "b"]).into_iter().map(|it| it.path.join("::")).collect()
    }

    #[test]
    fn paths_are_seen_from_the_root() {
        assert_eq!(paths("use crate::x::Y;\nlet a = crate::z::f();"), ["x::Y", "z::f"]);
        assert_eq!(
            paths("use super::c::D; use super::super::e; use self::f;"),
            ["a::c::D", "e", "a::b::f"]
        );
        let grouped = "use crate::{p, q::{self, R as S}, t::*};\nuse super::Z;";
        assert_eq!(paths(grouped), ["p", "q", "q::R", "t", "a::Z"]);
        assert_eq!(named(&Source::read(grouped), &["a"])[4].line, 2);
    }

    #[test]
    fn an_inline_module_is_one_more_to_climb() {
        let text =
            "mod tests { use super::*; use super::super::c; fn f() { if x { } } }\nuse super::d;";
        assert_eq!(paths(text), ["a::b", "a::c", "a::d"]);
    }

    #[test]
    fn comments_strings_and_visibility_name_nothing_else() {
        assert_eq!(paths("// crate::x\nlet a = \"crate::y\"; mod c;"), [""; 0]);
        assert_eq!(paths("pub(crate) fn f() {} pub(super) fn g() {}"), ["", "a"]);
    }
}
