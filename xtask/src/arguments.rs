//! The command line. Invariant: every word is understood or refused; nothing is ignored.

use std::time::Duration;

pub(crate) const USAGE: &str = "\
usage: cargo xtask TASK

  test [--again] [--fast] [--fuzz-seconds N] [--no-install]
        Runs every test there is and prints `N passed, N failed, N skipped` last.
        --again           also runs test programs that passed and are unchanged since
        --fast            leaves out what is slow: the book, the image, fuzzing, the demo, pictures, counting instructions, aarch64,
                          other systems
        --fuzz-seconds N  seconds per fuzz target, 6 unless told
        --no-install      never installs Debian packages, nor targets by rustup; tests that need one skip themselves
  vectors
        Writes the test vectors of docs/vectors anew, from the code. `test` compares them.
  tidy  Checks the house style and the boundaries between crates.
  bench [NAME [PART]] [--json] [--names=N ..]
        Runs the bench target NAME of whichever crate has it, or a part of it; without NAME, lists them. What a
        bench may be told, like how many names, its first lines say. Ten million names over a cluster of three
        nodes are `rib cluster-scale`: some 25 minutes, 5 GB of disk and 6 GB of memory.
  aarch64 [--again]
        Builds for aarch64 and runs under qemu-user more than `test` does: the tests of rhumb-wire and
        rhumb-link, too, and the program. From nothing that takes half an hour on two cores.
  bindings
        Builds the Python package as a wheel, installs it in an environment of its own in the target folder, and
        tests it, as `test` does. The binary has to be there: cargo build -p rhumb.
  portable
        Checks that a node's library compiles for macOS, Windows, and Linux with musl, as `test` does; builds
        the program with musl, so that it needs no library, and plays the demo by it. From nothing that takes
        ten minutes.
  upgrade REVISION
        Builds `rhumb` of a git revision in the target folder, and runs the tests by which it works beside
        the present one, in which each process is replaced by one of the other version.
  deb [--try]
        Builds a Debian package: target/debian/rhumb_VERSION_ARCHITECTURE.deb. With --try one is made of the
        binary that tests use, installed below a folder and under a systemd in namespaces, and tried, as
        `test` does; services also as where no systemd can run.
  image [--try]
        Builds an image for containers: target/image/rhumb_VERSION_ARCHITECTURE.oci.tar. With --try one is made
        of the binary that tests use, and run, as `test` does.
  book  Makes the documentation a book, with a page of all commands: target/book/book/index.html. The first
        time it builds mdBook.
  figures --date YYYY-MM-DD [switch | platypus]
        Measures and draws the papers' figures anew, into docs/figures: all, or those of one. Takes some minutes.
  screens
        Takes the pictures of the dashboard anew, into docs/pictures: from the test that opens it in a browser.
  pictures
        Draws the pictures of docs/pictures anew, from their texts; needs a Go toolchain. `test` compares them.";

/// What one test run does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestOptions {
    pub(crate) again: bool,
    pub(crate) fast: bool,
    pub(crate) fuzz_time: Duration,
    pub(crate) install: bool,
}

/// Which bench to run, and how it prints.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BenchOptions {
    pub(crate) name: Option<String>,
    /// Of those that the bench has; or a target of its own, named after both.
    pub(crate) part: Option<String>,
    pub(crate) json: bool,
    /// Words like `--names=N`, which are the bench's own.
    pub(crate) own: Vec<String>,
}

/// How the figures are made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FiguresOptions {
    /// What they are dated.
    pub(crate) date: String,
    /// Which; `None` for all.
    pub(crate) of: Option<Figures>,
}

/// Of which paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figures {
    Switch,
    Platypus,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Help,
    Test(TestOptions),
    Tidy,
    Vectors,
    Bench(BenchOptions),
    Aarch64 {
        again: bool,
    },
    Bindings,
    /// The git revision of the earlier version.
    Upgrade(String),
    Deb {
        is_trial: bool,
    },
    Image {
        is_trial: bool,
    },
    Figures(FiguresOptions),
    Pictures,
    Book,
    Portable,
    Screens,
}

pub(crate) fn parse(words: &[String]) -> Result<Task, String> {
    let mut words = words.iter().map(String::as_str);
    match words.next() {
        None => Err("no task given".to_owned()),
        Some("help" | "--help" | "-h") => Ok(Task::Help),
        Some("test") => parse_test(words),
        Some("bench") => parse_bench(words),
        Some("deb") => Ok(Task::Deb { is_trial: is_trial("deb", words)? }),
        Some("image") => Ok(Task::Image { is_trial: is_trial("image", words)? }),
        Some("aarch64") => match (words.next(), words.next()) {
            (None, _) => Ok(Task::Aarch64 { again: false }),
            (Some("--again"), None) => Ok(Task::Aarch64 { again: true }),
            (Some("--again"), Some(word)) | (Some(word), _) => {
                Err(format!("aarch64: `{word}` is not understood"))
            }
        },
        Some("upgrade") => match (words.next(), words.next()) {
            (Some(revision), None) if !revision.starts_with('-') => {
                Ok(Task::Upgrade(revision.to_owned()))
            }
            _ => Err("upgrade: one git revision follows".to_owned()),
        },
        Some("figures") => parse_figures(words),
        Some(word) => match (without_options(word), words.next()) {
            (Some(task), None) => Ok(task),
            (Some(_), Some(further)) => Err(format!("{word}: `{further}` is not understood")),
            (None, _) => Err(format!("`{word}` is not a task")),
        },
    }
}

/// Whether `--try` follows, and nothing else does.
fn is_trial<'a>(task: &str, mut words: impl Iterator<Item = &'a str>) -> Result<bool, String> {
    match (words.next(), words.next()) {
        (None, _) => Ok(false),
        (Some("--try"), None) => Ok(true),
        (Some("--try"), Some(word)) | (Some(word), _) => {
            Err(format!("{task}: `{word}` is not understood"))
        }
    }
}

fn without_options(word: &str) -> Option<Task> {
    let task = match word {
        "tidy" => Task::Tidy,
        "vectors" => Task::Vectors,
        "bindings" => Task::Bindings,
        "portable" => Task::Portable,
        "book" => Task::Book,
        "pictures" => Task::Pictures,
        "screens" => Task::Screens,
        _ => return None,
    };
    Some(task)
}

fn parse_test<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Task, String> {
    let fuzz_time = DEFAULT_FUZZ_TIME;
    let mut options = TestOptions { again: false, fast: false, fuzz_time, install: true };
    while let Some(word) = words.next() {
        match word {
            "--again" => options.again = true,
            "--fast" => options.fast = true,
            "--no-install" => options.install = false,
            "--fuzz-seconds" => {
                let seconds = words.next().and_then(|text| text.parse().ok()).filter(|s| *s > 0);
                let seconds = seconds.ok_or("--fuzz-seconds: a whole number from 1 up follows")?;
                options.fuzz_time = Duration::from_secs(seconds);
            }
            _ => return Err(format!("test: `{word}` is not understood")),
        }
    }
    Ok(Task::Test(options))
}

fn parse_bench<'a>(words: impl Iterator<Item = &'a str>) -> Result<Task, String> {
    let mut options = BenchOptions { name: None, part: None, json: false, own: Vec::new() };
    for word in words {
        match word {
            "--json" => options.json = true,
            _ if is_own(word) => options.own.push(word.to_owned()),
            _ if word.starts_with('-') || options.part.is_some() => {
                return Err(format!("bench: `{word}` is not understood"));
            }
            _ if options.name.is_some() => options.part = Some(word.to_owned()),
            _ => options.name = Some(word.to_owned()),
        }
    }
    Ok(Task::Bench(options))
}

/// Whether a bench is told something by it: `--WHAT=VALUE`.
fn is_own(word: &str) -> bool {
    let parts = word.strip_prefix("--").and_then(|it| it.split_once('='));
    parts.is_some_and(|(what, value)| !what.is_empty() && !value.is_empty())
}

fn parse_figures<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Task, String> {
    let all = (words.next(), words.next(), words.next(), words.next());
    let (Some("--date"), Some(date), of, None) = all else {
        return Err("figures: `--date YYYY-MM-DD` follows, and perhaps of what".to_owned());
    };
    let of = match of {
        None => None,
        Some("switch") => Some(Figures::Switch),
        Some("platypus") => Some(Figures::Platypus),
        Some(word) => return Err(format!("figures: there are none of `{word}`")),
    };
    let is_form = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    match date.len() == 10 && date.bytes().enumerate().all(is_form) {
        true => Ok(Task::Figures(FiguresOptions { date: date.to_owned(), of })),
        false => Err(format!("figures: `{date}` is no date like 2026-01-31")),
    }
}

/// Long enough to get past the seeds into their mutations, short enough for every commit.
const DEFAULT_FUZZ_TIME: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn flags_are_read() {
        let fuzz_time = Duration::from_secs(3);
        let expected = TestOptions { again: true, fast: true, fuzz_time, install: false };
        let line = "test --fuzz-seconds 3 --again --fast --no-install";
        assert_eq!(parsed(line), Ok(Task::Test(expected)));
        for (line, part) in
            [("bench --json switch", None), ("bench switch fast --json", Some("fast"))]
        {
            let part = part.map(str::to_owned);
            let (name, own) = (Some("switch".to_owned()), Vec::new());
            let expected = BenchOptions { name, part, json: true, own };
            assert_eq!(parsed(line), Ok(Task::Bench(expected)));
        }
        let Ok(Task::Bench(told)) = parsed("bench rib embedded --names=1000 --memory=2") else {
            panic!("a bench may be told something")
        };
        assert_eq!(told.own, ["--names=1000", "--memory=2"]);
        assert_eq!(parsed("tidy"), Ok(Task::Tidy));
        for (words, of) in
            [("", None), (" switch", Some(Figures::Switch)), (" platypus", Some(Figures::Platypus))]
        {
            let expected = FiguresOptions { date: "2026-01-31".to_owned(), of };
            let line = format!("figures --date 2026-01-31{words}");
            assert_eq!(parsed(&line), Ok(Task::Figures(expected)));
        }
        assert_eq!(parsed("upgrade v1~2"), Ok(Task::Upgrade("v1~2".to_owned())));
        for (line, again) in [("aarch64", false), ("aarch64 --again", true)] {
            assert_eq!(parsed(line), Ok(Task::Aarch64 { again }));
        }
        assert_eq!(parsed("vectors"), Ok(Task::Vectors));
        assert_eq!(parsed("bindings"), Ok(Task::Bindings));
        for (line, is_trial) in [("deb", false), ("deb --try", true)] {
            assert_eq!(parsed(line), Ok(Task::Deb { is_trial }));
        }
        assert_eq!(parsed("pictures"), Ok(Task::Pictures));
        assert_eq!(parsed("screens"), Ok(Task::Screens));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in [
            "",
            "tset",
            "test --quick",
            "test --fuzz-seconds",
            "test --fuzz-seconds 0",
            "test --fuzz-seconds -1",
            "tidy --fix",
            "vectors names",
            "pictures all",
            "bindings all",
            "deb --release",
            "bench a b c",
            "bench --xml",
            "bench rib --names=",
            "bench rib --=3",
            "aarch64 all",
            "aarch64 --again all",
            "upgrade",
            "upgrade --force",
            "upgrade one two",
            "figures",
            "figures --date",
            "figures --date today",
            "figures --date 2026/01/31",
            "figures --date 2026-01-31 again",
            "figures --date 2026-01-31 switch platypus",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
