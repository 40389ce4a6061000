//! Rules for every Rust file: its header, its length, its functions, its names.

use super::Findings;
use super::source::Source;
use super::tree::Tree;

pub(crate) fn check(tree: &Tree, findings: &mut Findings) {
    for (path, text) in tree.rust_files() {
        check_header(path, text, findings);
        check_length(path, text, findings);
        check_comments(path, text, findings);
        check_functions(path, text, findings);
        check_file_name(path, findings);
    }
}

fn check_header(path: &str, text: &str, findings: &mut Findings) {
    let has_shebang = text.starts_with("#!/");
    let first = text.lines().nth(usize::from(has_shebang)).unwrap_or_default();
    if !first.starts_with("//! ") {
        findings.refuse_line(path, 1, "begins with `//!`: what it is, its invariant, its source");
    }
}

fn check_length(path: &str, text: &str, findings: &mut Findings) {
    let lines = text.lines().count();
    if lines > MOST_FILE_LINES {
        findings.refuse(path, format!("{lines} lines, at most {MOST_FILE_LINES}: split it"));
    } else if lines > USUAL_FILE_LINES {
        findings.note(path, format!("{lines} lines, usual are up to {USUAL_FILE_LINES}"));
    }
}

/// Rows of tables may be longer: they cannot be broken.
fn check_comments(path: &str, text: &str, findings: &mut Findings) {
    for (number, line) in (1..).zip(text.lines()) {
        let comment =
            line.trim_start().strip_prefix("//").map(|it| it.trim_start_matches(['/', '!']));
        let is_row = comment.is_some_and(|it| it.trim_start().starts_with('|'));
        let columns = line.chars().count();
        if comment.is_some() && !is_row && columns > MOST_COMMENT_COLUMNS {
            let why = format!("a comment of {columns} columns, at most {MOST_COMMENT_COLUMNS}");
            findings.refuse_line(path, number, why);
        }
    }
}

fn check_functions(path: &str, text: &str, findings: &mut Findings) {
    let is_test_file = path.starts_with("tests/") || path.contains("/tests/");
    for function in Source::read(text).functions() {
        let (name, lines) = (&function.name, function.body_lines);
        if lines > MOST_FUNCTION_LINES && !function.is_test_code && !is_test_file {
            let why = format!("`{name}` has {lines} lines, at most {MOST_FUNCTION_LINES}");
            findings.refuse_line(path, function.line, why);
        }
        // `get` and `get_mut` are what the standard library calls access by key.
        if name.starts_with("get_") && name != "get_mut" {
            let why = format!("`{name}`: a getter is named by what it returns, without `get_`");
            findings.refuse_line(path, function.line, why);
        }
    }
}

fn check_file_name(path: &str, findings: &mut Findings) {
    let mut parts = path.trim_end_matches(".rs").split('/');
    if let Some(part) = parts.find(|part| EMPTY_NAMES.contains(part)) {
        findings.refuse(path, format!("`{part}` says nothing: name it by what it holds"));
    }
}

const MOST_FILE_LINES: usize = 800;
const USUAL_FILE_LINES: usize = 400;
const MOST_COMMENT_COLUMNS: usize = 100;
const MOST_FUNCTION_LINES: usize = 70;
const EMPTY_NAMES: [&str; 7] = ["common", "utils", "util", "helpers", "manager", "misc", "shared"];

#[cfg(test)]
mod tests {
    use super::super::problems_of;
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        problems_of(check, &[(path, text)])
    }

    fn function_of(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    x();\n".repeat(lines))
    }

    #[test]
    fn a_file_needs_a_header() {
        assert!(problems("a.rs", "//! What it is.\n").is_empty());
        assert!(problems("a.rs", "#!/usr/bin/env script\n//! What it is.\n").is_empty());
        for text in ["", "fn f() {}\n", "// Not a doc comment.\n", "//!\n", "\n//! Late.\n"] {
            assert_eq!(problems("a.rs", text).len(), 1, "{text:?}");
        }
    }

    #[test]
    fn a_file_has_at_most_800_lines() {
        let file = |lines: usize| format!("//! Long.\n{}", "\n".repeat(lines - 1));
        assert!(problems("a.rs", &file(800)).is_empty());
        assert_eq!(problems("a.rs", &file(801)), ["a.rs: 801 lines, at most 800: split it"]);
        let mut findings = Findings::default();
        check(&Tree::of(&[("a.rs", &file(401)), ("b.rs", &file(400))]), &mut findings);
        assert_eq!(findings.notes.len(), 1);
    }

    #[test]
    fn a_comment_has_at_most_100_columns_unless_it_is_a_row_of_a_table() {
        let comment = |mark: &str, columns: usize| {
            format!("//! A.\n    {mark}{}\n", "x".repeat(columns - 4 - mark.len()))
        };
        for mark in ["// ", "/// ", "//! "] {
            assert!(problems("a.rs", &comment(mark, 100)).is_empty());
            let refused = problems("a.rs", &comment(mark, 101));
            assert_eq!(refused, ["a.rs:2: a comment of 101 columns, at most 100"]);
        }
        assert!(problems("a.rs", &comment("//! | a | ", 200)).is_empty());
        assert!(
            problems("a.rs", &format!("//! A.\nlet a = \"{}\";\n", "x".repeat(120))).is_empty()
        );
    }

    #[test]
    fn a_function_has_at_most_70_lines_unless_it_is_a_test() {
        let (fits, long) = (function_of(70), function_of(71));
        assert!(problems("a.rs", &format!("//! A.\n{fits}")).is_empty());
        assert_eq!(
            problems("a.rs", &format!("//! A.\n{long}")),
            ["a.rs:2: `long` has 71 lines, at most 70"]
        );
        let test = format!("//! A.\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
        assert!(problems("a.rs", &test).is_empty());
        assert!(problems("crates/a/tests/a.rs", &format!("//! A.\n{long}")).is_empty());
    }

    #[test]
    fn getters_and_empty_names_are_refused() {
        assert_eq!(problems("a.rs", "//! A.\nfn get_name() {}\n").len(), 1);
        let fine = "//! A.\nfn get() {}\nfn get_mut() {}\n// fn get_x()\n";
        assert!(problems("a.rs", fine).is_empty());
        assert_eq!(problems("crates/a/src/utils.rs", "//! A.\n").len(), 1);
        assert_eq!(problems("crates/a/tests/common/mod.rs", "//! A.\n").len(), 1);
    }
}
