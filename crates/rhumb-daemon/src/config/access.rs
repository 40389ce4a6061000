//! Who may use a router or a RIB, or send to a receiver: options for the
//! common cases, and `[[router.access]]`, `[[rib.access]]` and
//! `[[receive.access]]` of the configuration file for the rest.
//!
//! Options come first, refusals before admissions, then the file's rules in their order;
//! `strangers` says what becomes of everybody else. A rule that admits has to name whom, or a trust
//! domain: a role or a label is what its holder wrote, so whoever writes the same would have it.

use std::path::{Path, PathBuf};

use rhumb_trust::{Access, Rule, Standing};
use rhumb_wire::{Name, Rights, Role};
use serde::Deserialize;
use toml::Spanned;

use super::value::{Fault, line_at};
use super::{ConfigFile, refuse};
use crate::cli::{AccessArguments, Strangers};
use crate::failure::{Failure, Outcome};
use crate::remote::parse_name;

/// The rules of a service, and where to read them again.
#[derive(Debug, Clone)]
pub struct AccessSettings {
    /// The rules as they were when this was read.
    pub access: Access,
    service: Service,
    flags: AccessArguments,
    file: PathBuf,
}

/// What the rules are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Publishing at a RIB, and asking it.
    Rib,
    /// Being carried for by a router.
    Router,
    /// Sending to a receiver.
    Receive,
}

/// `[[router.access]]` and its like.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRule {
    name: Option<Spanned<String>>,
    names: Option<Spanned<PathBuf>>,
    domain: Option<Spanned<String>>,
    role: Option<Spanned<String>>,
    label: Option<String>,
    standing: Option<Spanned<String>>,
}

/// The keys of [`RawRule`].
pub(super) const RULE_KEYS: &[&str] = &["name", "names", "domain", "role", "label", "standing"];

impl ConfigFile {
    /// The rules of `service`: those of the options, then those of the file.
    pub(crate) fn access(
        &self,
        service: Service,
        flags: &AccessArguments,
    ) -> Outcome<AccessSettings> {
        let (raw_rules, raw_strangers) = match service {
            Service::Rib => (&self.raw.rib.access, &self.raw.rib.strangers),
            Service::Router => (&self.raw.router.access, &self.raw.router.strangers),
            Service::Receive => (&self.raw.receive.access, &self.raw.receive.strangers),
        };
        let mut rules = flag_rules(service, flags)?;
        for raw in raw_rules {
            rules.extend(self.rules_of(service, raw)?);
        }
        let strangers = match flags.strangers {
            Some(strangers) => Some(strangers),
            None => self.parsed(raw_strangers.as_ref(), parse_strangers)?,
        };
        let otherwise = match strangers.unwrap_or(Strangers::Allowed) {
            Strangers::Allowed => Standing::Stranger,
            Strangers::Refused => Standing::Refused,
        };
        let (flags, file) = (flags.clone(), self.path.clone());
        Ok(AccessSettings {
            access: Access { rules, otherwise, ..Access::default() },
            service,
            flags,
            file,
        })
    }

    /// What one item of the file says: a rule, or one for each name of a list.
    fn rules_of(&self, service: Service, raw: &Spanned<RawRule>) -> Outcome<Vec<Rule>> {
        let fault = |problem: String| {
            let line = line_at(&self.text, Some(&raw.span()));
            refuse(&self.path, &Fault { line, problem })
        };
        let item = raw.get_ref();
        let standing = self.parsed(item.standing.as_ref(), parse_standing)?;
        let standing = standing.unwrap_or(Standing::Admitted);
        let role = self.parsed(item.role.as_ref(), parse_role)?;
        let label = item.label.clone();
        let mut names: Vec<Name> =
            self.parsed(item.name.as_ref(), parse_name)?.into_iter().collect();
        if let Some(list) = &item.names {
            if item.name.is_some() {
                return Err(fault("`name` is one, `names` a file of them; give either".to_owned()));
            }
            names = read_names(list.get_ref())?;
        }
        let domain = self.parsed(item.domain.as_ref(), parse_name)?;
        let is_named = item.name.is_some() || item.names.is_some();
        let asks_for_more = role.is_some() || label.is_some() || domain.is_some();
        if domain.is_some() && standing == Standing::Refused {
            let problem = "who is refused for a membership would not show it; refuse by `name`, or with `strangers`";
            return Err(fault(problem.to_owned()));
        }
        if !is_named && !asks_for_more {
            let problem = "this rule asks for nothing; give `name`, `names`, `domain`, `role` or `label`, or for everybody \
                           `strangers`";
            return Err(fault(problem.to_owned()));
        }
        if !is_named && domain.is_none() && standing == Standing::Admitted {
            let problem = "anybody can write this role or label, and would be admitted; give `name`, `names` or `domain`, \
                           too, or standing = \"stranger\"";
            return Err(fault(problem.to_owned()));
        }
        let names: Vec<Option<Name>> = match is_named {
            true => names.into_iter().map(Some).collect(),
            false => vec![None],
        };
        let plain = names.into_iter().map(|name| {
            let label = label.clone();
            Rule { name, domain: None, role, label, standing }
        });
        Ok(match domain {
            Some(domain) => plain.flat_map(|rule| of_domain(service, domain, &rule)).collect(),
            None => plain.collect(),
        })
    }
}

impl AccessSettings {
    /// The rules as they are now: files are read again.
    pub fn again(&self) -> Outcome<Access> {
        let file = match self.file.as_os_str().is_empty() {
            true => ConfigFile::default(),
            false => ConfigFile::find(Some(&self.file))?,
        };
        Ok(file.access(self.service, &self.flags)?.access)
    }

    /// Whether nobody has a share of his own, and nobody is shut out.
    pub fn admits_nobody(&self) -> bool {
        let is_admitted = |rule: &Rule| rule.standing == Standing::Admitted;
        self.access.otherwise != Standing::Refused && !self.access.rules.iter().any(is_admitted)
    }
}

/// A rule for members of a domain only, with the right that `service` asks of them.
fn of_domain(service: Service, domain: Name, rule: &Rule) -> Vec<Rule> {
    let rights: &[(Option<Role>, Rights)] = match service {
        Service::Router => &[(Some(Role::Router), Rights::CARRY), (Some(Role::Node), Rights::JOIN)],
        Service::Rib => &[(None, Rights::PUBLISH)],
        Service::Receive => &[(None, Rights::JOIN)],
    };
    let fitting = rights
        .iter()
        .filter(|(role, _)| role.is_none() || rule.role.is_none() || *role == rule.role);
    let narrowed = fitting.map(|(role, rights)| Rule {
        role: role.or(rule.role),
        domain: Some((domain, *rights)),
        ..rule.clone()
    });
    narrowed.collect()
}

fn flag_rules(service: Service, flags: &AccessArguments) -> Outcome<Vec<Rule>> {
    let rule = |name, standing| Rule::named(name, standing);
    let mut rules: Vec<Rule> =
        flags.refuse.iter().map(|name| rule(*name, Standing::Refused)).collect();
    rules.extend(flags.admit.iter().map(|name| rule(*name, Standing::Admitted)));
    for path in &flags.admit_file {
        rules.extend(read_names(path)?.into_iter().map(|name| rule(name, Standing::Admitted)));
    }
    let anybody =
        Rule { name: None, domain: None, role: None, label: None, standing: Standing::Admitted };
    let members = flags.admit_domain.iter();
    rules.extend(members.flat_map(|domain| of_domain(service, *domain, &anybody)));
    Ok(rules)
}

/// The names in a file: one a line; what follows a `#` is for people.
fn read_names(path: &Path) -> Outcome<Vec<Name>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::setup_text(format!("file of names {shown}: {error}")))?;
    let lines = text.lines().enumerate().map(|(number, line)| {
        (number + 1, line.split_once('#').map_or(line, |(name, _)| name).trim())
    });
    lines
        .filter(|(_, name)| !name.is_empty())
        .map(|(number, name)| {
            parse_name(name).map_err(|problem| {
                Failure::setup_text(format!("file of names {shown}, line {number}: {problem}"))
            })
        })
        .collect()
}

fn parse_standing(text: &str) -> Result<Standing, String> {
    match text {
        "admitted" => Ok(Standing::Admitted),
        "stranger" => Ok(Standing::Stranger),
        "refused" => Ok(Standing::Refused),
        text => Err(format!("standing is `{text}`; give admitted, stranger or refused")),
    }
}

fn parse_strangers(text: &str) -> Result<Strangers, String> {
    match text {
        "allowed" => Ok(Strangers::Allowed),
        "refused" => Ok(Strangers::Refused),
        text => Err(format!("strangers is `{text}`; give allowed or refused")),
    }
}

fn parse_role(text: &str) -> Result<Role, String> {
    let roles = [Role::Node, Role::Router, Role::Rib, Role::Capsule];
    roles
        .into_iter()
        .find(|role| role.as_str() == text)
        .ok_or_else(|| format!("role is `{text}`; give node, router, rib or capsule"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::file;
    use super::*;
    use rhumb_trust::Who;
    use rhumb_wire::{Metadata, PublicKey};

    const A: Name = Name([1; 32]);
    const B: Name = Name([2; 32]);
    const C: Name = Name([3; 32]);

    fn standing_of(access: &Access, name: Name, role: Role) -> Standing {
        let metadata = &Metadata::new(role, PublicKey::Ed25519([7; 32]), 1);
        access.standing(&Who { name: &name, metadata, membership: None, now_s: 1 })
    }

    #[test]
    fn options_come_before_the_file_and_refusals_before_admissions() {
        let text = format!(
            "[router]\nstrangers = \"refused\"\n[[router.access]]\nname = \"{A}\"\nstanding = \"refused\"\n\
             [[router.access]]\nname = \"{B}\"\n[[router.access]]\nrole = \"node\"\nstanding = \"stranger\"\n"
        );
        let standing = |flags: &AccessArguments, name, role| {
            let settings = file(&text).access(Service::Router, flags).unwrap();
            standing_of(&settings.access, name, role)
        };
        let none = AccessArguments::default();
        assert_eq!(standing(&none, A, Role::Router), Standing::Refused);
        assert_eq!(standing(&none, B, Role::Router), Standing::Admitted);
        assert_eq!(standing(&none, C, Role::Router), Standing::Refused);
        assert_eq!(standing(&none, C, Role::Node), Standing::Stranger);
        let flags = AccessArguments {
            admit: vec![A, B],
            refuse: vec![B],
            strangers: Some(Strangers::Allowed),
            ..AccessArguments::default()
        };
        assert_eq!(standing(&flags, A, Role::Router), Standing::Admitted);
        assert_eq!(standing(&flags, B, Role::Router), Standing::Refused);
        assert_eq!(standing(&flags, C, Role::Router), Standing::Stranger);
        assert!(file("").access(Service::Router, &none).unwrap().admits_nobody());
        assert!(!file(&text).access(Service::Router, &none).unwrap().admits_nobody());
    }

    #[test]
    fn members_of_a_domain_need_the_right_that_the_service_asks_for() {
        let of = |service, flags: &AccessArguments, text: &str| {
            let rules = file(text).access(service, flags).unwrap().access.rules;
            let domain = |rule: &Rule| rule.domain.map(|(name, rights)| (rule.role, name, rights));
            rules.iter().map(domain).collect::<Vec<_>>()
        };
        let flags = AccessArguments { admit_domain: vec![A], ..AccessArguments::default() };
        let router = [(Role::Router, Rights::CARRY), (Role::Node, Rights::JOIN)];
        let router = router.map(|(role, rights)| Some((Some(role), A, rights)));
        assert_eq!(of(Service::Router, &flags, ""), router);
        assert_eq!(of(Service::Rib, &flags, ""), [Some((None, A, Rights::PUBLISH))]);
        let none = AccessArguments::default();
        let text = format!("[[router.access]]\ndomain = \"{A}\"\n");
        assert_eq!(of(Service::Router, &none, &text), router);
        let text = format!("{text}role = \"node\"\n");
        assert_eq!(of(Service::Router, &none, &text), router[1..]);
        let text = format!("[[receive.access]]\ndomain = \"{A}\"\n");
        assert_eq!(of(Service::Receive, &none, &text), [Some((None, A, Rights::JOIN))]);
    }

    #[test]
    fn a_rule_that_means_something_else_than_it_says_is_refused() {
        let problem = |service: &str, rule: &str| {
            let text = format!("[[{service}.access]]\n{rule}\n");
            let service = match service {
                "rib" => Service::Rib,
                "router" => Service::Router,
                _ => Service::Receive,
            };
            file(&text).access(service, &AccessArguments::default()).unwrap_err().to_string()
        };
        assert!(problem("rib", "label = \"sea\"").contains("anybody can write"));
        assert!(problem("router", "role = \"router\"").contains("anybody can write"));
        assert!(problem("router", "standing = \"refused\"").contains("asks for nothing"));
        assert!(problem("router", "role = \"king\"").contains("node, router, rib or capsule"));
        assert!(problem("router", "name = \"me\"").contains("line 2: `me` is not a name"));
        assert!(problem("router", "names = \"none\"").contains("file of names none"));
        let both = format!("name = \"{A}\"\nnames = \"x\"");
        assert!(problem("router", &both).contains("give either"));
        let hidden = format!("domain = \"{A}\"\nstanding = \"refused\"");
        assert!(problem("router", &hidden).contains("would not show it"));
        let wrong = format!("name = \"{A}\"\nstanding = \"friend\"");
        assert!(problem("rib", &wrong).contains("line 3: standing is `friend`; give admitted"));
        assert!(problem("receive", "label = \"sea\"").contains("anybody can write"));
        let refused = super::super::raw::parse("[[router.access]]\nnane = \"x\"\n").unwrap_err();
        assert_eq!(
            refused.problem,
            "unknown key `nane` in [[router.access]]; did you mean `name`?"
        );
    }

    #[test]
    fn a_file_of_names_is_read_again_and_its_bad_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("friends");
        std::fs::write(&path, format!("# friends\n\n{A}  # the first\n")).unwrap();
        let flags = AccessArguments { admit_file: vec![path.clone()], ..Default::default() };
        let settings = file("").access(Service::Rib, &flags);
        let mut settings = settings.unwrap();
        settings.file = PathBuf::new();
        let standing = |access: &Access, name| standing_of(access, name, Role::Router);
        assert_eq!(standing(&settings.access, A), Standing::Admitted);
        assert_eq!(standing(&settings.access, B), Standing::Stranger);
        std::fs::write(&path, format!("{B}\n")).unwrap();
        let access = settings.again().unwrap();
        assert_eq!(standing(&access, A), Standing::Stranger);
        assert_eq!(standing(&access, B), Standing::Admitted);
        std::fs::write(&path, format!("{B}\nB\n")).unwrap();
        let refused = settings.again().unwrap_err().to_string();
        assert!(refused.contains("line 2: `B` is not a name"), "{refused}");
    }
}
