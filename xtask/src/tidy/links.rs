//! Rule for Markdown: a link to a file of the project leads
//! to one, and a link to a heading to a heading.

use super::Findings;
use super::tree::Tree;

pub(crate) fn check(tree: &Tree, findings: &mut Findings) {
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        for (number, target) in links(text) {
            if let Err(why) = follow(tree, path, target) {
                findings.refuse_line(path, number, format!("link `{target}`: {why}"));
            }
        }
    }
}

/// Line and target of every link that is not code.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose_lines(text) {
        // Every second piece between back-quotes is code.
        let pieces = line.split('`').step_by(2);
        let starts =
            pieces.flat_map(|piece| piece.match_indices("](").map(move |(at, _)| &piece[at + 2..]));
        found.extend(starts.filter_map(|rest| Some((number, rest.split_once(')')?.0))));
    }
    found
}

fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    })
}

fn follow(tree: &Tree, from: &str, target: &str) -> Result<(), &'static str> {
    let target = target.split_whitespace().next().unwrap_or_default();
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (file, heading) = target.split_once('#').map_or((target, None), |(f, h)| (f, Some(h)));
    let path = match file {
        "" => from.to_owned(),
        _ => resolve(from, file).ok_or("leads out of the project")?,
    };
    if !tree.has(&path) {
        return Err("there is no such file");
    }
    match (heading, tree.text(&path)) {
        (Some(heading), Some(text)) if path.ends_with(".md") => {
            let mut headings = prose_lines(text).filter(|(_, line)| line.starts_with('#'));
            let found = headings.any(|(_, line)| anchor(line) == heading);
            found.then_some(()).ok_or("there is no such heading")
        }
        _ => Ok(()),
    }
}

/// The path of `file` as seen from the document `from`; `None` when it leads out of the project.
pub(crate) fn resolve(from: &str, file: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// What a heading is linked by: lower case, hyphens for spaces, punctuation dropped.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::problems_of;
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let other = ("docs/other.md", "# Title\n\n## A `code` heading, here\n");
        problems_of(check, &[("docs/a.md", text), other, ("README.md", "# Rhumb\n")])
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        for text in [
            "[x](other.md) [y](../README.md) [z](https://example.org/a) [f](..)",
            "[x](other.md#a-code-heading-here) [self](#top)\n# Top",
            "`[x](nowhere.md)`\n```\n[x](nowhere.md)\n```",
            "[x](other.md \"a title\")",
        ] {
            assert_eq!(problems(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_refused() {
        for text in [
            "[x](nowhere.md)",
            "[x](../../outside.md)",
            "[x](other.md#no-such-heading)",
            "[x](#nothing)",
            "```\n```\n[x](nowhere.md)",
        ] {
            assert_eq!(problems(text).len(), 1, "{text}");
        }
        assert_eq!(problems("\n[x](no.md)"), ["docs/a.md:2: link `no.md`: there is no such file"]);
    }
}
