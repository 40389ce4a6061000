//! The load of members' ports, party one's private input: a text file
//! that whoever watches the switches writes anew.
//!
//! A line is a site as in the roster, and how full its port is in percent: `Example Net/fra1 63`.
//! Empty lines and those that begin with `#` say nothing. Who is not there counts as idle.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::roster::Site;
use rhumb_daemon::secret_file::{Look, look};

/// The file, and how it was when it was last read.
#[derive(Debug)]
pub(super) struct PortLoad {
    path: PathBuf,
    seen: Option<Look>,
}

impl PortLoad {
    /// The file at `path`, not read yet.
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), seen: None }
    }

    /// Percent for each site, if the file has changed since the last time.
    ///
    /// # Errors
    /// What is wrong with it; the same file is complained about once.
    pub(super) fn read_if_changed(&mut self, sites: &[Site]) -> Outcome<Option<Vec<u8>>> {
        let failed = |error: std::io::Error| {
            Failure::setup_text(format!("port load {}: {error}", self.path.display()))
        };
        let seen = look(&self.path).map_err(failed)?;
        if self.seen == Some(seen) {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&self.path).map_err(failed)?;
        self.seen = Some(seen);
        let parsed = parse(&text, sites);
        parsed.map(Some).map_err(|(line, problem)| {
            Failure::setup_text(format!(
                "port load {}, line {line}: {problem}",
                self.path.display()
            ))
        })
    }
}

/// How much the exchange prefers each site: a port that is full is the last choice.
pub(super) fn preferences(percents: &[u8]) -> Arc<[u8]> {
    let most = u32::from(MOST_PREFERENCE);
    percents.iter().map(|percent| (most - most * u32::from(*percent) / 100) as u8).collect()
}

fn parse(text: &str, sites: &[Site]) -> Result<Vec<u8>, (usize, String)> {
    let mut percents = vec![0; sites.len()];
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((label, percent)) = line.rsplit_once(char::is_whitespace) else {
            return Err((number, "a line is MEMBER/SITE PERCENT".to_owned()));
        };
        let label = label.trim_end();
        let Some(lane) = sites.iter().position(|site| site.label() == label) else {
            return Err((number, format!("no site `{label}` is in the roster")));
        };
        percents[lane] = match percent.parse() {
            Ok(percent @ 0..=100) => percent,
            _ => return Err((number, format!("`{percent}` is no percentage; give 0 to 100"))),
        };
    }
    Ok(percents)
}

/// The circuits compare numbers of this many bits.
const MOST_PREFERENCE: u8 = (1 << rhumb_exchange::circuits::LOAD_BITS) - 1;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_wire::Name;

    fn sites() -> Vec<Site> {
        let site = |member: &str, number| Site {
            member: member.to_owned(),
            site: "fra 1".to_owned(),
            asn: 64500,
            name: Name([number; 32]),
            is_removed: false,
            quota: rhumb_exchange::Quota::default(),
        };
        vec![site("a net", 1), site("b", 2)]
    }

    #[test]
    fn loads_come_by_site_and_what_is_not_there_is_idle() {
        assert_eq!(parse("# now\n\na net/fra 1   63\n", &sites()), Ok(vec![63, 0]));
        assert_eq!(parse("b/fra 1 100\na net/fra 1 0", &sites()), Ok(vec![0, 100]));
    }

    #[test]
    fn a_full_port_is_the_last_choice_and_an_idle_one_the_first() {
        assert_eq!(preferences(&[0, 1, 50, 99, 100])[..], [15, 15, 8, 1, 0]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line, problem) in [
            ("\nb", 2, "MEMBER/SITE PERCENT"),
            ("c/x 5", 1, "no site `c/x`"),
            ("b/fra 1 101", 1, "`101` is no percentage"),
            ("b/fra 1 -1", 1, "`-1` is no percentage"),
        ] {
            let (found, said) = parse(text, &sites()).unwrap_err();
            assert_eq!(found, line);
            assert!(said.contains(problem), "{said}");
        }
    }

    #[test]
    fn a_file_is_read_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("load");
        let mut load = PortLoad::new(&path);
        assert!(load.read_if_changed(&sites()).unwrap_err().to_string().contains("load"));
        std::fs::write(&path, "b/fra 1 5").unwrap();
        assert_eq!(load.read_if_changed(&sites()).unwrap(), Some(vec![0, 5]));
        assert_eq!(load.read_if_changed(&sites()).unwrap(), None);
        std::fs::write(&path, "b/fra 1 nine").unwrap();
        assert!(load.read_if_changed(&sites()).is_err());
        assert_eq!(load.read_if_changed(&sites()).unwrap(), None, "complained about once");
        std::fs::write(&path, "b/fra 1 99\n").unwrap();
        assert_eq!(load.read_if_changed(&sites()).unwrap(), Some(vec![0, 99]));
    }
}
