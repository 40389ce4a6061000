//! `[[rib.neighbour]]`: the domains beside a RIB's own, who each is to it, how much its ways are
//! liked, what it is told, and by which word it may carry for the domain.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rhumb_rib::{Neighbour, Relation, Tell};
use rhumb_trust::{Carriage, DelegationError};
use rhumb_wire::Name;
use serde::Deserialize;
use toml::Spanned;

use super::{ConfigFile, Fault, SeatSettings, line_at, refuse};
use crate::clock;
use crate::failure::{Failure, Outcome};
use crate::remote::{Pinned, parse_address, parse_name};

/// The domains beside a RIB's own, and where to read of them again.
#[derive(Debug, Clone, Default)]
pub struct NeighbourSettings {
    /// As they were when this was read.
    pub neighbours: Vec<Neighbour>,
    /// The sites at the exchange of those that are told there, as `member/site`.
    pub sites: BTreeMap<Name, String>,
    /// The exchange.
    pub exchange: Option<SeatSettings>,
    /// The domains around, besides those of which this one is a customer.
    pub around: Vec<Name>,
    /// Where RIBs of other domains reach this one.
    pub address: Option<SocketAddr>,
    domain: Option<Name>,
    file: PathBuf,
}

/// `[[rib.neighbour]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawNeighbour {
    name: Option<Spanned<String>>,
    relation: Option<Spanned<String>>,
    rib: Option<Vec<Spanned<String>>>,
    site: Option<Spanned<String>>,
    carriage: Option<PathBuf>,
    preference: Option<Spanned<u16>>,
    cost: Option<Spanned<u32>>,
    tell: Option<Spanned<String>>,
    withhold: Option<Vec<Spanned<String>>>,
    refuse: Option<Vec<Spanned<String>>>,
}

/// The keys of [`RawNeighbour`].
pub(super) const NEIGHBOUR_KEYS: &[&str] = &[
    "name",
    "relation",
    "rib",
    "site",
    "carriage",
    "preference",
    "cost",
    "tell",
    "withhold",
    "refuse",
];

impl NeighbourSettings {
    /// Reads them again, of a RIB whose other settings stay as they are.
    pub fn again(&self) -> Outcome<Self> {
        let Some(domain) = self.domain.filter(|_| !self.file.as_os_str().is_empty()) else {
            return Ok(self.clone());
        };
        let file = ConfigFile::read(&self.file)?;
        let (neighbours, sites) = file.neighbours(domain)?;
        Ok(Self { neighbours, sites, ..self.clone() })
    }
}

/// Neighbours, and the sites of those that are told through the exchange.
type Beside = (Vec<Neighbour>, BTreeMap<Name, String>);

impl ConfigFile {
    /// What the file says of the domains beside that of a RIB, which listens there.
    pub(super) fn neighbour_settings(
        &self,
        domain: Option<Name>,
        has_parents: bool,
        listen: SocketAddr,
    ) -> Outcome<NeighbourSettings> {
        let raw = &self.raw.rib;
        let mut around = Vec::new();
        for text in raw.around.iter().flatten() {
            around.extend(self.parsed(Some(text), parse_name)?);
        }
        let address = self.parsed(raw.address.as_ref(), parse_address)?;
        let Some(domain) = domain else {
            return match raw.neighbour.is_empty() {
                true => Ok(NeighbourSettings::default()),
                false => Err(Failure::setup_text(
                    "a RIB with neighbours is of a domain of its own; give --domain NAME",
                )),
            };
        };
        let (neighbours, sites) = self.neighbours(domain)?;
        if !neighbours.is_empty() && has_parents {
            return Err(Failure::setup_text(
                "a domain lies in one other (`parent` in [rib]), or is beside others (`[[rib.neighbour]]`, of which one \
                 may be a provider); give either",
            ));
        }
        let listens_at = (!listen.ip().is_unspecified()).then_some(listen);
        let address = address.or(listens_at);
        if address.is_none() && !neighbours.is_empty() {
            return Err(Failure::setup_text(
                "RIBs of other domains ask this one about its names, and it listens everywhere; give address = \
                 \"IP:PORT\" in [rib], where they reach it",
            ));
        }
        let (domain, file) = (Some(domain), self.path.clone());
        let exchange = self.seat_settings()?;
        Ok(NeighbourSettings { neighbours, sites, exchange, around, address, domain, file })
    }

    fn neighbours(&self, own: Name) -> Outcome<Beside> {
        let items = self.raw.rib.neighbour.iter();
        let neighbours: Vec<Neighbour> =
            items.map(|raw| self.neighbour(own, raw)).collect::<Outcome<_>>()?;
        let mut known = BTreeSet::from([own]);
        let mut sites = BTreeMap::new();
        for (neighbour, raw) in neighbours.iter().zip(&self.raw.rib.neighbour) {
            if !known.insert(neighbour.domain) {
                let name = neighbour.domain;
                return Err(
                    self.fault(raw, format!("{name} is named twice, or is this domain itself"))
                );
            }
            if let Some(site) = &raw.get_ref().site
                && sites.insert(neighbour.domain, site.get_ref().clone()).is_none()
                && sites.values().filter(|it| *it == site.get_ref()).count() > 1
            {
                return Err(
                    self.wrong(site, format!("the site {} is two neighbours'", site.get_ref()))
                );
            }
        }
        Ok((neighbours, sites))
    }

    fn neighbour(&self, own: Name, raw: &Spanned<RawNeighbour>) -> Outcome<Neighbour> {
        let item = raw.get_ref();
        let lacks = |what: &str| self.fault(raw, format!("a neighbour needs {what}"));
        let name = self.parsed(item.name.as_ref(), parse_name)?;
        let name = name.ok_or_else(|| lacks("`name`, that of its domain"))?;
        let relation = self.parsed(item.relation.as_ref(), parse_relation)?;
        let relation = relation.ok_or_else(|| lacks("`relation`: customer, peer or provider"))?;
        let mut neighbour = Neighbour::new(name, relation);
        for text in item.rib.iter().flatten() {
            let parse = |text: &str| Pinned::parse(text, ", which its operator knows");
            let rib = self.parsed(Some(text), parse)?;
            neighbour.ribs.extend(rib.map(|it| (it.name, it.address)));
        }
        match (&item.site, neighbour.ribs.is_empty()) {
            (None, true) => {
                return Err(lacks(
                    "`rib`, its RIBs, each as NAME@ADDR, or `site`, its site at the exchange, as MEMBER/SITE",
                ));
            }
            (Some(_), false) => {
                let either =
                    "a neighbour is told by its RIBs or through the exchange; give `rib` or `site`";
                return Err(self.fault(raw, either.to_owned()));
            }
            (Some(site), true) if self.raw.rib.exchange.is_none() => {
                let none = "a neighbour is told through an exchange, and there is none; give [rib.exchange]";
                return Err(self.wrong(site, none.to_owned()));
            }
            _ => {}
        }
        let number = |value: &Spanned<u16>| *value.get_ref();
        neighbour.preference = item.preference.as_ref().map_or(neighbour.preference, number);
        neighbour.cost = item.cost.as_ref().map_or(neighbour.cost, |it| *it.get_ref());
        let tell = self.parsed(item.tell.as_ref(), parse_tell)?;
        neighbour.tell = tell.unwrap_or(neighbour.tell);
        for text in item.withhold.iter().flatten() {
            neighbour.withhold.extend(self.parsed(Some(text), parse_name)?);
        }
        for text in item.refuse.iter().flatten() {
            neighbour.refuse.extend(self.parsed(Some(text), parse_name)?);
        }
        if let Some(path) = &item.carriage {
            let carriage = open_carriage(path, own, name)?;
            neighbour.carriage = Some(carriage.certificate().clone());
        }
        Ok(neighbour)
    }

    fn fault(&self, raw: &Spanned<RawNeighbour>, problem: String) -> Failure {
        let line = line_at(&self.text, Some(&raw.span()));
        refuse(&self.path, &Fault { line, problem })
    }
}

/// Reads a domain's word for a neighbour, which has to be that, and to hold now.
fn open_carriage(path: &Path, own: Name, neighbour: Name) -> Outcome<Carriage> {
    let shown = path.display();
    let refused = |problem: String| {
        Failure::setup_text(format!(
            "{shown}: {problem}; the domain makes another: rhumb domain carry --by {neighbour}"
        ))
    };
    let carriage = Carriage::load(path).map_err(|error| match error {
        DelegationError::File { source, .. } => Failure::setup_text(format!(
            "cannot read {shown}: {source}; the domain makes it: rhumb domain carry --by {neighbour}"
        )),
        DelegationError::Malformed { line: 1 } => refused("this is no carriage file".to_owned()),
        error => refused(error.to_string()),
    })?;
    if carriage.domain() != own {
        return Err(refused(format!("this is the word of {}, not of {own}", carriage.domain())));
    }
    if carriage.neighbour() != neighbour {
        return Err(refused(format!("this is for {}, not for {neighbour}", carriage.neighbour())));
    }
    carriage.check(clock::now().unix_s()).map_err(|error| refused(error.to_string()))?;
    Ok(carriage)
}

fn parse_relation(text: &str) -> Result<Relation, String> {
    let all = [Relation::Customer, Relation::Peer, Relation::Provider];
    let found = all.into_iter().find(|it| it.as_str() == text);
    found.ok_or_else(|| format!("relation is `{text}`; give customer, peer or provider"))
}

fn parse_tell(text: &str) -> Result<Tell, String> {
    let all = [Tell::Nothing, Tell::Own, Tell::Customers, Tell::All];
    let found = all.into_iter().find(|it| it.as_str() == text);
    found.ok_or_else(|| format!("tell is `{text}`; give nothing, own, customers or all"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::file;
    use super::*;
    use rhumb_trust::{Identity, Window};
    use rhumb_wire::Role;

    const OWN: Name = Name([1; 32]);
    const OTHER: Name = Name([2; 32]);
    const RIB: Name = Name([3; 32]);

    fn settings(text: &str) -> Outcome<NeighbourSettings> {
        let listen = ([192, 0, 2, 1], 7461).into();
        file(text).neighbour_settings(Some(OWN), false, listen)
    }

    fn item(more: &str) -> String {
        format!(
            "[[rib.neighbour]]\nname = \"{OTHER}\"\nrelation = \"peer\"\nrib = [\"{RIB}@192.0.2.9:7461\"]\n{more}"
        )
    }

    #[test]
    fn a_neighbour_is_what_the_file_says_or_else_what_goes_with_its_relation() {
        let plain = settings(&item("")).unwrap();
        assert_eq!(plain.address, Some(([192, 0, 2, 1], 7461).into()));
        let expected = Neighbour {
            ribs: vec![(RIB, ([192, 0, 2, 9], 7461).into())],
            ..Neighbour::new(OTHER, Relation::Peer)
        };
        assert_eq!(plain.neighbours, std::slice::from_ref(&expected));
        assert_eq!((expected.preference, expected.tell), (200, Tell::Customers));
        let more = format!(
            "preference = 7\ncost = 3\ntell = \"own\"\nwithhold = [\"{RIB}\"]\nrefuse = [\"{OWN}\"]"
        );
        let said = settings(&item(&more)).unwrap().neighbours.remove(0);
        assert_eq!((said.preference, said.cost, said.tell), (7, 3, Tell::Own));
        assert_eq!((said.withhold, said.refuse), (vec![RIB], vec![OWN]));
        assert!(settings("").unwrap().neighbours.is_empty());
    }

    #[test]
    fn what_is_wrong_with_a_neighbour_is_said_with_its_line() {
        let refused = |text: &str| settings(text).unwrap_err().to_string();
        for (text, what) in [
            (
                item("tell = \"some\""),
                "line 5: tell is `some`; give nothing, own, customers or all",
            ),
            (item("refuse = [\"x\"]"), "line 5: `x` is not a name"),
            (item("").replace("peer", "friend"), "give customer, peer or provider"),
            (item("").replace(&format!("{RIB}@"), ""), "says not who must answer there"),
            (item("") + &item(""), "is named twice"),
            (item("").replace(&OTHER.to_string(), &OWN.to_string()), "is this domain itself"),
            ("[[rib.neighbour]]\nrelation = \"peer\"".to_owned(), "needs `name`"),
            (format!("[[rib.neighbour]]\nname = \"{OTHER}\""), "needs `relation`"),
            (item("").replace("rib = [", "# rib = ["), "needs `rib`"),
        ] {
            let problem = refused(&text);
            assert!(problem.contains(what), "{problem}");
        }
        let everywhere =
            file(&item("")).neighbour_settings(Some(OWN), false, ([0; 4], 7461).into());
        assert!(everywhere.unwrap_err().to_string().contains("give address ="));
        let at = ([192, 0, 2, 1], 7461).into();
        let nested = file(&item("")).neighbour_settings(Some(OWN), true, at);
        assert!(nested.unwrap_err().to_string().contains("give either"));
        let nameless = file(&item("")).neighbour_settings(None, false, at);
        assert!(nameless.unwrap_err().to_string().contains("give --domain NAME"));
        let unknown = super::super::raw::parse("[[rib.neighbour]]\ncosts = 1").unwrap_err();
        assert_eq!(unknown.problem, "unknown key `costs` in [rib.neighbour]; did you mean `cost`?");
    }

    #[test]
    fn a_carriage_is_this_domains_for_that_neighbour_and_holds() {
        let folder = tempfile::tempdir().unwrap();
        let domain = Identity::generate(Role::Domain, 1).unwrap();
        let now_s = clock::now().unix_s();
        let write = |label: &str, to: Name, from_s: u64| {
            let path = folder.path().join(label);
            let window = Window::starting(from_s, 600);
            Carriage::sign(&domain, to, None, 5, window).unwrap().save(&path).unwrap();
            path
        };
        let path = write("good", OTHER, now_s);
        let opened = open_carriage(&path, domain.name(), OTHER).unwrap();
        assert_eq!(opened.neighbour(), OTHER);
        for (path, own, what) in [
            (path, OWN, "this is the word of"),
            (write("other", RIB, now_s), domain.name(), "this is for"),
            (write("old", OTHER, now_s - 1000), domain.name(), "does not hold"),
            (folder.path().join("none"), domain.name(), "rhumb domain carry --by"),
        ] {
            let problem = open_carriage(&path, own, OTHER).unwrap_err().to_string();
            assert!(problem.contains(what), "{problem}");
        }
    }
}
