//! Links of Markdown, which are changed, and of the pages made of it, which are followed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::files::{read, told};

/// `text` with each of its links `[words](target)` as `change` has it, where that says something.
/// What is code stays.
pub(super) fn each(text: &str, change: impl Fn(&str, &str) -> Option<String>) -> String {
    let mut changed = String::with_capacity(text.len());
    let mut fenced = false;
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        if fenced || is_fence {
            changed.push_str(line);
            continue;
        }
        let mut rest = line;
        while let Some(link) = Link::first_of(rest) {
            changed.push_str(&rest[..link.begins]);
            match change(link.text, link.target) {
                Some(other) => changed.push_str(&other),
                None => changed.push_str(&rest[link.begins..link.ends]),
            }
            rest = &rest[link.ends..];
        }
        changed.push_str(rest);
    }
    changed
}

/// Where the links of `text` lead.
pub(super) fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| {
        let mut rest = line;
        std::iter::from_fn(move || {
            let link = Link::first_of(rest)?;
            rest = &rest[link.ends..];
            Some(link.target)
        })
    })
}

struct Link<'a> {
    text: &'a str,
    target: &'a str,
    begins: usize,
    ends: usize,
}

impl<'a> Link<'a> {
    /// The first link of a line that is neither code nor a picture.
    fn first_of(line: &'a str) -> Option<Self> {
        let mut from = 0;
        loop {
            let middle = from + line[from..].find("](")?;
            let ends = middle + 2 + line[middle + 2..].find(')')? + 1;
            let begins = opening(&line[..middle]);
            let is_code = |begins: usize| line[..begins].matches('`').count() % 2 == 1;
            match begins.filter(|begins| !is_code(*begins)) {
                Some(begins) if !line[..begins].ends_with('!') => {
                    let (text, target) = (&line[begins + 1..middle], &line[middle + 2..ends - 1]);
                    return Some(Self { text, target, begins, ends });
                }
                _ => from = middle + 2,
            }
        }
    }
}

/// The bracket that the end of `text` is in.
fn opening(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().rev().find_map(|(at, char)| match char {
        ']' => {
            depth += 1;
            None
        }
        '[' if depth == 0 => Some(at),
        '[' => {
            depth -= 1;
            None
        }
        _ => None,
    })
}

/// Follows every link of the pages below `folder` that leads into it. How many there are.
///
/// # Errors
/// Those that lead nowhere.
pub(super) fn follow_all(folder: &Path) -> Result<usize, String> {
    let mut pages = BTreeMap::new();
    read_pages(folder, &mut pages)?;
    let headings: BTreeMap<&PathBuf, BTreeSet<&str>> =
        pages.iter().map(|(path, text)| (path, attributes(text, "id").collect())).collect();
    let (mut followed, mut lost) = (0, BTreeSet::new());
    for (path, text) in &pages {
        // Where nothing is found, there is no telling from where.
        if path.ends_with("404.html") {
            continue;
        }
        let links = ["href", "src"].into_iter().flat_map(|name| attributes(text, name));
        for link in links.filter(|link| !is_elsewhere(link)) {
            followed += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let to = match file {
                "" => path.clone(),
                _ => plain(&path.parent().unwrap_or(path).join(file)),
            };
            let is_there = match headings.get(&to) {
                Some(known) => heading.is_empty() || known.contains(heading),
                None => to.is_file(),
            };
            if !is_there {
                let page = path.strip_prefix(folder).unwrap_or(path).display();
                lost.insert(format!("{page}: {link}"));
            }
        }
    }
    match lost.len() {
        0 => Ok(followed),
        count => {
            let some: Vec<String> = lost.into_iter().take(20).collect();
            Err(format!("{count} links lead nowhere:\n{}", some.join("\n")))
        }
    }
}

fn read_pages(folder: &Path, pages: &mut BTreeMap<PathBuf, String>) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|error| told(folder, &error))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            read_pages(&path, pages)?;
        } else if path.extension().is_some_and(|end| end == "html") {
            let text = read(&path)?;
            pages.insert(path, text);
        }
    }
    Ok(())
}

/// The values of an attribute.
fn attributes<'a>(html: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!(" {name}=\"");
    let len = begin.len();
    let starts: Vec<usize> = html.match_indices(&begin).map(|(at, _)| at + len).collect();
    starts.into_iter().filter_map(|at| html[at..].split('"').next())
}

fn is_elsewhere(link: &str) -> bool {
    link.contains("://") || link.starts_with("mailto:") || link.starts_with("data:")
}

/// Without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_changed_and_code_and_pictures_are_not() {
        let text = "[a](b.md) and `[c](d)` ![p](p.svg) [x [y] z](w#h)\n```\n[e](f)\n```\n";
        let seen = each(text, |text, target| Some(format!("<{text}|{target}>")));
        assert_eq!(seen, "<a|b.md> and `[c](d)` ![p](p.svg) <x [y] z|w#h>\n```\n[e](f)\n```\n");
        assert_eq!(each(text, |_, _| None), text);
        assert_eq!(targets("- [a](b)\n  - [c](d)").collect::<Vec<_>>(), ["b", "d"]);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let folder = std::env::temp_dir().join(format!("book-links-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        write("a.html", r##"<a href="sub/b.html#here">b</a> <a href="https://other/">c</a>"##);
        write("sub/b.html", r##"<h1 id="here">b</h1> <a href="../a.html">a</a>"##);
        assert_eq!(follow_all(&folder), Ok(2));
        write("sub/b.html", r##"<h1 id="there">b</h1> <a href="../c.html">c</a>"##);
        let lost = follow_all(&folder).unwrap_err();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(lost.contains("a.html: sub/b.html#here") && lost.contains("../c.html"), "{lost}");
    }
}
