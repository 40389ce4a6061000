//! The roster of a private exchange: a file that both servers and all members have alike.
//!
//! ```toml
//! max_routes = 262144  # of each site; one may have its own
//! max_mib = 128        # of these routes, sealed
//!
//! [[site]]
//! member = "Example Net"
//! site = "fra1"
//! asn = 64500
//! name = "NAME"   # of its key, as `rhumb keygen` prints it
//! removed = true  # of a site that is gone
//! max_routes = 1000000
//! ```
//!
//! Each site of a member is a lane of its own. New sites are added at the end,
//! and those that are gone stay in their place: it is the lane's number, and
//! policies that were shared before stay right.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use rhumb_exchange::{Lane, MAX_ROUTES_PER_LANE, Quota, Roster};
use rhumb_wire::Name;
use serde::Deserialize;
use toml::Spanned;

use crate::config::raw::{check_item_keys, from_text};
use crate::config::value::{Fault, line_at};
use crate::failure::{Failure, Outcome};
use crate::remote::parse_name;

/// A site, which is a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// Whose site it is.
    pub member: String,
    /// Which of the member's; no two have the same.
    pub site: String,
    /// The number of its AS.
    pub asn: u32,
    /// Of the key by which it proves to be this site.
    pub name: Name,
    /// It is gone, and its place is nobody's.
    pub is_removed: bool,
    /// How much it may announce.
    pub quota: Quota,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawRoster {
    max_routes: Option<Spanned<u32>>,
    max_mib: Option<Spanned<u32>>,
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
    max_routes: Option<Spanned<u32>>,
    max_mib: Option<Spanned<u32>>,
}

/// Reads the roster in `path`.
pub fn load(path: &Path) -> Outcome<Vec<Site>> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::setup_text(format!("roster {}: {error}", path.display())))?;
    parse(&text).map_err(|Fault { line, problem }| {
        Failure::setup_text(format!("roster {}, line {line}: {problem}", path.display()))
    })
}

fn parse(text: &str) -> Result<Vec<Site>, Fault> {
    check_item_keys(text, "site", QUOTA_KEYS, &[SITE_KEYS, QUOTA_KEYS].concat())?;
    let raw: RawRoster = from_text(text)?;
    let at =
        |span: std::ops::Range<usize>, problem| Fault { line: line_at(text, Some(&span)), problem };
    let common = quota(text, Quota::default(), raw.max_routes.as_ref(), raw.max_mib.as_ref())?;
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
        let quota = quota(text, common, raw.max_routes.as_ref(), raw.max_mib.as_ref())?;
        let (asn, is_removed) = (raw.asn.into_inner(), raw.removed);
        sites.push(Site { member, site, asn, name, is_removed, quota });
    }
    if sites.is_empty() {
        let problem = "no site; give [[site]] with member, site, asn and name".to_owned();
        return Err(Fault { line: 1, problem });
    }
    Ok(sites)
}

/// What is not said is as it is otherwise.
fn quota(
    text: &str,
    otherwise: Quota,
    routes: Option<&Spanned<u32>>,
    mib: Option<&Spanned<u32>>,
) -> Result<Quota, Fault> {
    let within = |name, raw: Option<&Spanned<u32>>, most: u32| match raw {
        Some(value) if !(1..=most).contains(value.get_ref()) => {
            let line = line_at(text, Some(&value.span()));
            Err(Fault { line, problem: format!("{name} is 1 to {most}") })
        }
        value => Ok(value.map(|value| *value.get_ref())),
    };
    let routes = within("max_routes", routes, MAX_ROUTES_PER_LANE as u32)?;
    let mib = within("max_mib", mib, MOST_MIB)?;
    Ok(Quota {
        routes: routes.unwrap_or(otherwise.routes),
        bytes: mib.map_or(otherwise.bytes, |mib| u64::from(mib) << 20),
    })
}

impl Site {
    /// `member/site`, as port loads and logs have it.
    pub fn label(&self) -> String {
        format!("{}/{}", self.member, self.site)
    }
}

/// The lane of the site with this key, which the roster at `path` is to have.
pub fn lane_of(sites: &[Site], name: Name, path: &Path) -> Outcome<Lane> {
    let place = sites.iter().position(|site| site.name == name).ok_or_else(|| {
        Failure::setup_text(format!(
            "the roster {} has no site with our key, {name}; the exchange's operator adds it",
            path.display()
        ))
    })?;
    if sites[place].is_removed {
        return Err(Failure::setup_text(format!(
            "the roster {} has our site as removed",
            path.display()
        )));
    }
    u16::try_from(place).map(Lane).map_err(Failure::setup)
}

/// The roster as the exchange has it.
pub fn for_exchange(sites: &[Site]) -> Outcome<Arc<Roster>> {
    let known = sites.iter().map(|site| {
        let (id, member) = (site.label(), site.member.clone());
        rhumb_exchange::Site { id, member, asn: site.asn, key: site.name.0 }
    });
    let roster = Roster::new(known.collect()).map_err(Failure::setup)?;
    let roster = roster.with_quotas(sites.iter().map(|site| site.quota));
    let removed = (0..).map(Lane).zip(sites).filter(|(_, site)| site.is_removed);
    Ok(Arc::new(roster.without(removed.map(|(lane, _)| lane))))
}

const SITE_KEYS: &[&str] = &["member", "site", "asn", "name", "removed"];
/// Of all sites, or of one.
const QUOTA_KEYS: &[&str] = &["max_routes", "max_mib"];
/// No table has so much: 64 GiB.
const MOST_MIB: u32 = 1 << 16;
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
    fn a_site_has_its_own_quota_or_that_of_all() {
        let own = site("b", Name([2; 32])) + "max_routes = 7\n";
        let text = "max_mib = 3\n".to_owned() + &site("a", Name([1; 32])) + &own;
        let roster = for_exchange(&parse(&text).unwrap()).unwrap();
        let routes = Quota::default().routes;
        assert_eq!(roster.quota(Lane(0)), Quota { routes, bytes: 3 << 20 });
        assert_eq!(roster.quota(Lane(1)), Quota { routes: 7, bytes: 3 << 20 });
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
            (site("a", one) + "max_routes = 0\n", 6, "max_routes is 1 to 2097152"),
            ("max_mib = 65537\n".to_owned() + &site("a", one), 1, "max_mib is 1 to 65536"),
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
