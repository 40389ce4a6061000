//! The roster of a private exchange: a file that both servers and all members have alike.
//!
//! ```toml
//! [[site]]
//! member = "Example Net"
//! site = "fra1"
//! asn = 64500
//! name = "NAME"   # of its key, as `rhumb keygen` prints it
//! removed = true  # of a site that is gone
//! ```
//!
//! Each site of a member is a lane of its own. New sites are added at the end, and those that are gone stay in their place: it is the lane's number, and
//! policies that were shared before stay right.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use rhumb_exchange::{Lane, Roster};
use rhumb_wire::Name;
use serde::Deserialize;
use toml::Spanned;

use crate::config::raw::{Fault, check_item_keys, from_text, line_at};
use crate::failure::{Failure, Outcome};
use crate::remote::parse_name;

/// A site, which is a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) member: String,
    pub(crate) site: String,
    pub(crate) asn: u32,
    pub(crate) name: Name,
    /// It is gone, and its place is nobody's.
    pub(crate) is_removed: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawRoster {
    site: Vec<RawSite>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSite {
    member: Spanned<String>,
    site: Spanned<String>,
    asn: Spanned<u32>,
    name: Spanned<String>,
    #[serde(default)]
    removed: bool,
}

/// Reads the roster in `path`.
pub(crate) fn load(path: &Path) -> Outcome<Vec<Site>> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::setup_text(format!("roster {}: {error}", path.display())))?;
    parse(&text).map_err(|Fault { line, problem }| {
        Failure::setup_text(format!("roster {}, line {line}: {problem}", path.display()))
    })
}

fn parse(text: &str) -> Result<Vec<Site>, Fault> {
    check_item_keys(text, "site", SITE_KEYS)?;
    let raw: RawRoster = from_text(text)?;
    let at =
        |span: std::ops::Range<usize>, problem| Fault { line: line_at(text, Some(&span)), problem };
    let (mut sites, mut names, mut places) = (Vec::new(), HashSet::new(), HashSet::new());
    for raw in raw.site {
        let name =
            parse_name(raw.name.get_ref()).map_err(|problem| at(raw.name.span(), problem))?;
        if !names.insert(name) {
            return Err(at(raw.name.span(), format!("{name} is there twice")));
        }
        let (member, site) = (raw.member.get_ref().clone(), raw.site.get_ref().clone());
        for (word, span) in [(&member, raw.member.span()), (&site, raw.site.span())] {
            if !(1..=MAX_WORD_LEN).contains(&word.len()) || word.contains(char::is_control) {
                let problem =
                    format!("a name of a member or site has 1 to {MAX_WORD_LEN} printable bytes");
                return Err(at(span, problem));
            }
        }
        if !places.insert((member.clone(), site.clone())) {
            return Err(at(raw.site.span(), format!("site {member}/{site} is there twice")));
        }
        if *raw.asn.get_ref() == 0 {
            return Err(at(raw.asn.span(), "0 is no AS number".to_owned()));
        }
        let (asn, is_removed) = (raw.asn.into_inner(), raw.removed);
        sites.push(Site { member, site, asn, name, is_removed });
    }
    if sites.is_empty() {
        let problem = "no site; give [[site]] with member, site, asn and name".to_owned();
        return Err(Fault { line: 1, problem });
    }
    Ok(sites)
}

impl Site {
    /// `member/site`, as port loads and logs have it.
    pub(crate) fn label(&self) -> String {
        format!("{}/{}", self.member, self.site)
    }
}

/// The roster as the exchange has it.
pub(crate) fn for_exchange(sites: &[Site]) -> Outcome<Arc<Roster>> {
    let known = sites.iter().map(|site| {
        let (id, member) = (site.label(), site.member.clone());
        rhumb_exchange::Site { id, member, asn: site.asn, key: site.name.0 }
    });
    let roster = Roster::new(known.collect()).map_err(Failure::setup)?;
    let removed = (0..).map(Lane).zip(sites).filter(|(_, site)| site.is_removed);
    Ok(Arc::new(roster.without(removed.map(|(lane, _)| lane))))
}

const SITE_KEYS: &[&str] = &["member", "site", "asn", "name", "removed"];
/// For people, and in logs. Both together are within what an exchange's roster takes.
const MAX_WORD_LEN: usize = 63;

#[cfg(test)]
mod tests {
    use super::*;

    fn site(member: &str, name: Name) -> String {
        format!("[[site]]\nmember = \"{member}\"\nsite = \"x\"\nasn = 64500\nname = \"{name}\"\n")
    }

    #[test]
    fn sites_are_lanes_in_the_order_of_the_file() {
        let text = site("a", Name([1; 32])) + &site("b", Name([2; 32]));
        let sites = parse(&text).unwrap();
        assert_eq!(sites.iter().map(Site::label).collect::<Vec<_>>(), ["a/x", "b/x"]);
        assert_eq!((sites[1].asn, sites[1].name), (64500, Name([2; 32])));
    }

    #[test]
    fn a_site_that_is_gone_keeps_its_place_and_has_no_key() {
        let gone = site("b", Name([2; 32])) + "removed = true\n";
        let text = site("a", Name([1; 32])) + &gone + &site("c", Name([3; 32]));
        let roster = for_exchange(&parse(&text).unwrap()).unwrap();
        let lanes = [1, 2, 3].map(|key| roster.lane_of_key(&[key; 32]));
        assert_eq!(lanes, [Some(Lane(0)), None, Some(Lane(2))]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let (one, two) = (Name([1; 32]), Name([2; 32]));
        let cases = [
            (String::new(), 1, "no site"),
            (site("a", one) + &site("b", one), 10, "is there twice"),
            (site("a", one) + &site("a", two), 8, "site a/x is there twice"),
            (site("", one), 2, "1 to 63"),
            (site("a", one).replace("64500", "0"), 4, "no AS number"),
            (site("a", one).replace("asn", "as"), 4, "did you mean `asn`?"),
            (site("a", one).replace(&one.to_string(), "me"), 5, "is not a name"),
        ];
        for (text, line, expected) in cases {
            let fault = parse(&text).unwrap_err();
            assert_eq!(fault.line, line, "{text}: {}", fault.problem);
            assert!(fault.problem.contains(expected), "{}", fault.problem);
        }
    }
}
