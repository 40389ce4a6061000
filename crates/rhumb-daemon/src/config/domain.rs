//! Settings that place a service in a trust domain: of a router, which domain it is of, which are
//! around that, and whether it stands at the border; of a node, by which domain it is known
//! outside.

use std::path::PathBuf;

use rhumb_trust::{Delegation, DelegationError, Export};
use rhumb_wire::Name;

use super::ConfigFile;
use crate::cli::{NodeArguments, RouterArguments};
use crate::failure::{Failure, Outcome};
use crate::remote::parse_name;

/// The domain of a router, as its user says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainSettings {
    /// The domain; without one it is that of the border file.
    name: Option<Name>,
    around: Vec<Name>,
    customers: Vec<Name>,
    border: Option<PathBuf>,
}

/// The domain of a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouterDomain {
    /// The domain that it is of.
    pub name: Name,
    /// The domains around that one, the nearest first.
    pub around: Vec<Name>,
    /// The domains that lie in it, as neighbours that are customers.
    pub customers: Vec<Name>,
    /// By what it stands at the domain's border, if it does.
    pub delegation: Option<Delegation>,
}

impl DomainSettings {
    /// Reads the border file, if there is one, which has to be for `router` and to hold now, and to
    /// say of the domains what was said beside it.
    pub fn open(&self, router: Name, now_s: u64) -> Outcome<RouterDomain> {
        let Some(path) = &self.border else {
            let name = self.name.ok_or_else(nameless)?;
            let (around, customers) = (self.around.clone(), self.customers.clone());
            return Ok(RouterDomain { name, around, customers, delegation: None });
        };
        let shown = path.display();
        let refused = |problem: String| Failure::setup_text(format!("{shown}: {problem}"));
        let delegation = Delegation::load(path).map_err(|error| match error {
            DelegationError::File { source, .. } => Failure::setup_text(format!(
                "cannot read {shown}: {source}; the domain makes it: rhumb domain delegate --to {router}"
            )),
            DelegationError::Malformed { line: 1 } => refused(format!(
                "this is no border file; the domain makes one: rhumb domain delegate --to {router}"
            )),
            error => refused(format!("{error}; get it from the domain once more")),
        })?;
        delegation.check(router, now_s).map_err(|error| {
            let instead = format!("the domain makes another: rhumb domain delegate --to {router}");
            match error {
                DelegationError::OtherRouter { .. } => refused(format!("{error}; {instead}")),
                error => refused(format!("{error}; check this machine's clock, or {instead}")),
            }
        })?;
        let name = delegation.domain();
        if let Some(other) = self.name.filter(|it| *it != name) {
            return Err(refused(format!(
                "this is the border of {name}, and the router's domain is {other} (--domain, or `name` in \
                 [router.domain] of the file)"
            )));
        }
        let around = match (delegation.parent(), self.around.first()) {
            (Some(parent), None) => vec![parent.domain],
            (Some(parent), Some(nearest)) if parent.domain != *nearest => {
                return Err(refused(format!(
                    "the domain says that {} is around it, and the settings begin with {nearest} (--around, or \
                     `around` in [router.domain] of the file)",
                    parent.domain
                )));
            }
            _ => self.around.clone(),
        };
        check_around(name, &around)?;
        let customers = self.customers.clone();
        Ok(RouterDomain { name, around, customers, delegation: Some(delegation) })
    }
}

impl ConfigFile {
    /// What options, or else the file, say of a router's domain.
    pub(super) fn domain(&self, flags: &RouterArguments) -> Outcome<Option<DomainSettings>> {
        let raw = &self.raw.router.domain;
        let name = match flags.domain {
            Some(name) => Some(name),
            None => self.parsed(raw.name.as_ref(), parse_name)?,
        };
        let mut around = flags.around.clone();
        if around.is_empty() {
            for text in raw.around.iter().flatten() {
                around.extend(self.parsed(Some(text), parse_name)?);
            }
        }
        let mut customers = flags.customers.clone();
        if customers.is_empty() {
            for text in raw.customers.iter().flatten() {
                customers.extend(self.parsed(Some(text), parse_name)?);
            }
        }
        let border = flags.border.clone().or_else(|| raw.border.clone());
        match (name, &border) {
            (None, None) if around.is_empty() => return Ok(None),
            (None, None) => return Err(nameless()),
            (Some(name), _) => check_around(name, &around)?,
            (None, Some(_)) => {}
        }
        Ok(Some(DomainSettings { name, around, customers, border }))
    }

    /// What options, or else the file, say of a node's export.
    pub(super) fn export(&self, flags: &NodeArguments) -> Outcome<Option<Export>> {
        let raw = &self.raw.node;
        let domain = match flags.export {
            Some(domain) => Some(domain),
            None => self.parsed(raw.export.as_ref(), parse_name)?,
        };
        let up_to = match flags.export_up_to {
            Some(up_to) => Some(up_to),
            None => self.parsed(raw.export_up_to.as_ref(), parse_name)?,
        };
        match (domain, up_to) {
            (None, Some(_)) => Err(Failure::setup_text(
                "--export-up-to bounds an export; give --export DOMAIN, too (`export` in [node] of the file)",
            )),
            (domain, up_to) => Ok(domain.map(|domain| Export { domain, up_to })),
        }
    }
}

fn nameless() -> Failure {
    Failure::setup_text(
        "domains around a domain need that one; give --domain NAME, or --border FILE (`name` in [router.domain] of the file)",
    )
}

/// No domain is around itself.
fn check_around(name: Name, around: &[Name]) -> Outcome {
    let within = |at: usize| around[..at].contains(&around[at]) || around[at] == name;
    match (0..around.len()).find(|at| within(*at)) {
        None => Ok(()),
        Some(at) => Err(Failure::setup_text(format!(
            "{} is named twice; --around takes each domain around {name} once, the nearest first (`around` in \
             [router.domain] of the file)",
            around[at]
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::file;
    use super::*;
    use rhumb_trust::{Identity, Window};
    use rhumb_wire::Role;

    const ROUTER: Name = Name([7; 32]);
    const PARENT: Name = Name([8; 32]);
    const NOW_S: u64 = 1000;

    fn settings(text: &str, flags: &RouterArguments) -> Outcome<Option<DomainSettings>> {
        file(text).domain(flags)
    }

    #[test]
    fn a_routers_domain_is_that_of_options_or_else_of_the_file() {
        let [own, other] = [1, 2].map(|byte| Name([byte; 32]));
        let none = RouterArguments::default();
        assert_eq!(settings("", &none).unwrap(), None);
        let text = format!("[router.domain]\nname = \"{own}\"\naround = [\"{PARENT}\"]\n");
        let opened =
            |text: &str, flags| settings(text, flags).unwrap().unwrap().open(ROUTER, NOW_S);
        let expected = RouterDomain {
            name: own,
            around: vec![PARENT],
            customers: Vec::new(),
            delegation: None,
        };
        assert_eq!(opened(&text, &none).unwrap(), expected);
        let flags = RouterArguments { domain: Some(other), ..RouterArguments::default() };
        assert_eq!(opened(&text, &flags).unwrap().name, other);
        let refused = |text: &str| settings(text, &none).unwrap_err().to_string();
        let around = format!("[router.domain]\naround = [\"{PARENT}\"]\n");
        assert!(refused(&around).contains("give --domain NAME"));
        let itself =
            format!("[router.domain]\nname = \"{own}\"\naround = [\"{PARENT}\", \"{own}\"]");
        assert!(refused(&itself).contains("is named twice"));
        assert!(refused("[router.domain]\n\nname = \"x\"").contains("line 3: `x` is not a name"));
        let unknown = super::super::raw::parse("[router.domain]\nnames = \"x\"").unwrap_err();
        assert_eq!(unknown.problem, "unknown key `names` in [router.domain]; did you mean `name`?");
    }

    #[test]
    fn a_border_file_says_the_domain_and_agrees_with_what_was_said_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("router.border");
        let own = Identity::generate(Role::Domain, 1).unwrap();
        let parent = Some(Export { domain: PARENT, up_to: None });
        let window = Window::starting(NOW_S, 600);
        let delegation = Delegation::sign(&own, (ROUTER, false), parent, 5, window).unwrap();
        delegation.save(&path).unwrap();
        let beside = |name: Option<Name>, around: &[Name]| DomainSettings {
            name,
            around: around.to_vec(),
            customers: Vec::new(),
            border: Some(path.clone()),
        };
        let outer = Name([9; 32]);
        for (name, around, expected) in [
            (None, &[][..], &[PARENT][..]),
            (Some(own.name()), &[PARENT], &[PARENT]),
            (None, &[PARENT, outer], &[PARENT, outer]),
        ] {
            let opened = beside(name, around).open(ROUTER, NOW_S).unwrap();
            let delegation = Some(delegation.clone());
            let expected = RouterDomain {
                name: own.name(),
                around: expected.to_vec(),
                customers: Vec::new(),
                delegation,
            };
            assert_eq!(opened, expected);
        }
        let refused = |settings: DomainSettings, router, now_s| {
            settings.open(router, now_s).unwrap_err().to_string()
        };
        let plain = || beside(None, &[]);
        for (problem, what) in [
            (refused(plain(), PARENT, NOW_S), "is for the router"),
            (refused(plain(), ROUTER, NOW_S + 700), "check this machine's clock"),
            (refused(beside(Some(outer), &[]), ROUTER, NOW_S), "this is the border of"),
            (refused(beside(None, &[outer]), ROUTER, NOW_S), "is around it"),
            (refused(beside(None, &[PARENT, own.name()]), ROUTER, NOW_S), "is named twice"),
        ] {
            assert!(problem.contains(what), "{problem}");
        }
        std::fs::write(&path, "rhumb-adcert 1\n").unwrap();
        assert!(refused(plain(), ROUTER, NOW_S).contains("this is no border file"));
        std::fs::remove_file(&path).unwrap();
        assert!(refused(plain(), ROUTER, NOW_S).contains("rhumb domain delegate --to"));
    }

    #[test]
    fn a_node_is_exported_by_whom_options_or_else_the_file_name() {
        let [own, other] = [1, 2].map(|byte| Name([byte; 32]));
        let export = |text: &str, flags: &NodeArguments| file(text).export(flags);
        let mut flags = NodeArguments::default();
        assert_eq!(export("", &flags).unwrap(), None);
        let text = format!("[node]\nexport = \"{own}\"\nexport_up_to = \"{PARENT}\"");
        let expected = Export { domain: own, up_to: Some(PARENT) };
        assert_eq!(export(&text, &flags).unwrap(), Some(expected));
        flags.export_up_to = Some(PARENT);
        assert!(export("", &flags).unwrap_err().to_string().contains("give --export DOMAIN"));
        flags.export = Some(other);
        let expected = Export { domain: other, up_to: Some(PARENT) };
        assert_eq!(export("", &flags).unwrap(), Some(expected));
    }
}
