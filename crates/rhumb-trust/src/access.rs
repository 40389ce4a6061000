//! Who may use a service: rules by name, domain, role and label, of which the first that fits
//! counts.
//!
//! A name is proven, and so is a membership in a trust domain; role and label are what their holder
//! wrote into its metadata, so a rule that admits by them alone admits whoever writes the same.
//! They serve to refuse, or beside a name.

use rhumb_wire::metadata::Role;
use rhumb_wire::{Limit, Metadata, Name, Rights};

use crate::{Membership, Removals};

/// Somebody at a moment: what is known of him.
#[derive(Debug, Clone, Copy)]
pub struct Who<'a> {
    /// The name that he has proven.
    pub name: &'a Name,
    /// What it is the hash of.
    pub metadata: &'a Metadata,
    /// What he has shown of a domain, unverified.
    pub membership: Option<&'a Membership>,
    /// The moment, seconds since 1970.
    pub now_s: u64,
}

/// How a service treats somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Is refused.
    Refused,
    /// Shares with all other strangers what is left for them: names cost nothing.
    Stranger,
    /// Has a share that no stranger can touch.
    Admitted,
}

impl Standing {
    /// In a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Stranger => "stranger",
            Self::Admitted => "admitted",
        }
    }
}

/// Rules, and what counts when none fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The first that fits counts.
    pub rules: Vec<Rule>,
    /// For whom no rule fits.
    pub otherwise: Standing,
    /// Memberships that do not count, whatever they say.
    pub removals: Removals,
}

/// A rule fits who has all that it asks for; one that asks for nothing fits everybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// This name.
    pub name: Option<Name>,
    /// Members of this domain who have these rights.
    pub domain: Option<(Name, Rights)>,
    /// This role, by its own word.
    pub role: Option<Role>,
    /// This label, by its own word: the attribute [`LABEL`].
    pub label: Option<String>,
    /// What it gives.
    pub standing: Standing,
}

impl Access {
    /// How somebody is treated, and why.
    pub fn explain(&self, who: &Who<'_>) -> Treatment {
        let standing = self.standing(who);
        let fits = |rule: &Rule| rule.fits(who, &self.removals);
        let rule = self.rules.iter().position(fits).map(|at| at + 1);
        let gives_more = |rule: &&Rule| rank(rule.standing) > rank(standing);
        let missing =
            self.rules.iter().filter(gives_more).find_map(|rule| rule.missing(who, &self.removals));
        Treatment { standing, rule, missing }
    }

    /// How somebody is treated.
    pub fn standing(&self, who: &Who<'_>) -> Standing {
        let fitting = self.rules.iter().find(|rule| rule.fits(who, &self.removals));
        fitting.map_or(self.otherwise, |rule| rule.standing)
    }

    /// How a name is treated that somebody else answers for: by the rule about the name itself, and
    /// otherwise as a rule about a domain has it whose members may *serve*, if `by` is one.
    pub fn standing_of_served(&self, served: &Who<'_>, by: &Who<'_>) -> Standing {
        if let Some(rule) = self.rules.iter().find(|rule| rule.fits(served, &self.removals)) {
            return rule.standing;
        }
        let lets_serve = |rule: &&Rule| {
            let also = rule.domain.map(|(domain, rights)| (domain, rights.and(Rights::SERVE)));
            also.is_some() && Rule { domain: also, ..(*rule).clone() }.fits(by, &self.removals)
        };
        let by_rule = self.rules.iter().find(lets_serve).map(|rule| rule.standing);
        by_rule.filter(|it| rank(*it) > rank(self.otherwise)).unwrap_or(self.otherwise)
    }

    /// Whether somebody belongs to a domain, whatever he may do there.
    pub fn is_member(&self, who: &Who<'_>, domain: &Name) -> bool {
        who.belongs_to(domain, &self.removals, |_| true)
    }

    /// Whether somebody belongs to a domain, with these rights there.
    pub fn has_rights(&self, who: &Who<'_>, domain: &Name, rights: Rights) -> bool {
        who.belongs_to(domain, &self.removals, |has| has.hold(rights))
    }

    /// The domains whose members the rules are about.
    pub fn domains(&self) -> impl Iterator<Item = Name> {
        self.rules.iter().filter_map(|rule| rule.domain).map(|(domain, _)| domain)
    }
}

/// How somebody is treated, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Treatment {
    /// How.
    pub standing: Standing,
    /// The number of the rule that says so, from 1; none where no rule fits.
    pub rule: Option<usize>,
    /// What is missing for the first rule about a domain that would give more.
    pub missing: Option<Missing>,
}

/// What somebody lacks who is not taken for a member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// He has shown none.
    #[error("it has shown no membership of {domain}")]
    Membership {
        /// The domain.
        domain: Name,
    },
    /// He has shown one of another domain.
    #[error("it has shown a membership of {shown}, not of {domain}")]
    ThisDomain {
        /// The domain.
        domain: Name,
        /// Whose he has shown.
        shown: Name,
    },
    /// He may do something else there.
    #[error("its membership of {domain} does not give it the right to {}", in_words(*.rights))]
    Rights {
        /// The domain.
        domain: Name,
        /// What is asked for.
        rights: Rights,
    },
    /// Whoever answers for it may not do so for others.
    #[error("{server}, which answers for it, has shown no membership with the right to serve")]
    Serving {
        /// Who answers.
        server: Name,
    },
    /// It was taken back, by the domain or by whom that admitted to admit others.
    #[error("it was removed from {domain} by {}", by_whom(.domain, .by))]
    Removed {
        /// The domain.
        domain: Name,
        /// By whom.
        by: Name,
    },
    /// It is over, not yet valid, of another name, or not signed by whom it says.
    #[error("its membership of {domain} does not hold: {why}")]
    Holding {
        /// The domain.
        domain: Name,
        /// Why not.
        why: String,
    },
    /// It, or whoever admitted it, has as many names as its domain leaves it.
    #[error("{giver} and all whom it admitted have {names} names here, which is what it may have")]
    Names {
        /// Whose limit it is.
        giver: Name,
        /// How many.
        names: u32,
    },
    /// It, or whoever admitted it, sends as much as its domain leaves it.
    #[error("{giver} and all whom it admitted sent more than the {kbit_per_s} kbit/s that it may")]
    Rate {
        /// Whose limit it is.
        giver: Name,
        /// How much.
        kbit_per_s: u32,
    },
    /// Its domain lets it send to one name.
    #[error("{domain} lets it send to {only_to} only")]
    Only {
        /// The domain.
        domain: Name,
        /// To whom.
        only_to: Name,
    },
    /// Its domain lets it send inside only.
    #[error("{domain} lets it send inside only")]
    Inside {
        /// The domain.
        domain: Name,
    },
}

impl Missing {
    /// What its domain limits that it would have to have more of.
    pub fn limit(&self) -> Option<Limit> {
        match self {
            Self::Names { .. } => Some(Limit::Names),
            Self::Rate { .. } => Some(Limit::Rate),
            Self::Only { .. } | Self::Inside { .. } => Some(Limit::Reach),
            _ => None,
        }
    }
}

fn by_whom(domain: &Name, by: &Name) -> String {
    match by == domain {
        true => "that domain".to_owned(),
        false => by.to_string(),
    }
}

fn in_words(rights: Rights) -> String {
    rights.names().collect::<Vec<_>>().join(", ")
}

impl Default for Access {
    /// Everybody is a stranger.
    fn default() -> Self {
        let (rules, removals) = (Vec::new(), Removals::default());
        Self { rules, otherwise: Standing::Stranger, removals }
    }
}

impl Who<'_> {
    fn belongs_to(
        &self,
        domain: &Name,
        removals: &Removals,
        has_rights: impl Fn(Rights) -> bool,
    ) -> bool {
        self.membership.is_some_and(|membership| {
            membership.is_of(domain)
                && has_rights(membership.rights())
                && removals.against(membership).is_none()
                && membership.check(self.name, self.now_s).is_ok()
        })
    }
}

impl Rule {
    /// A rule about one name.
    pub fn named(name: Name, standing: Standing) -> Self {
        Self { name: Some(name), domain: None, role: None, label: None, standing }
    }

    /// A rule about the members of a domain who have these rights.
    pub fn of_domain(domain: Name, rights: Rights, standing: Standing) -> Self {
        Self { name: None, domain: Some((domain, rights)), role: None, label: None, standing }
    }

    /// What he lacks who fits this rule but for its domain.
    fn missing(&self, who: &Who<'_>, removals: &Removals) -> Option<Missing> {
        let (domain, rights) = self.domain?;
        let is_fit_but_for_it = Self { domain: None, ..self.clone() }.fits(who, removals);
        let lack = || match who.membership {
            None => Missing::Membership { domain },
            Some(shown) if !shown.is_of(&domain) => {
                Missing::ThisDomain { domain, shown: shown.domain() }
            }
            Some(shown) => match (shown.check(who.name, who.now_s), removals.against(shown)) {
                (Err(why), _) => Missing::Holding { domain, why: why.to_string() },
                (Ok(()), Some(by)) => Missing::Removed { domain, by },
                (Ok(()), None) => Missing::Rights { domain, rights },
            },
        };
        is_fit_but_for_it.then(lack)
    }

    fn fits(&self, who: &Who<'_>, removals: &Removals) -> bool {
        let label = who.metadata.attributes().get(LABEL);
        // What costs signatures comes last, and only for who claims to belong to that domain.
        self.name.is_none_or(|expected| expected == *who.name)
            && self.role.is_none_or(|expected| expected == who.metadata.role)
            && self.label.as_ref().is_none_or(|expected| label == Some(expected))
            && self.domain.is_none_or(|(domain, rights)| {
                who.belongs_to(&domain, removals, |has| has.hold(rights))
            })
    }
}

fn rank(standing: Standing) -> u8 {
    match standing {
        Standing::Refused => 0,
        Standing::Stranger => 1,
        Standing::Admitted => 2,
    }
}

/// The attribute that holds the label of a name.
pub const LABEL: &str = "label";

#[cfg(test)]
mod tests {
    use rhumb_wire::metadata::PublicKey;

    use super::*;
    use crate::{Identity, Window, name_of};

    fn metadata(role: Role, created_s: u64) -> Metadata {
        Metadata::new(role, PublicKey::Ed25519([7; 32]), created_s)
    }

    fn rule(standing: Standing) -> Rule {
        Rule { name: None, domain: None, role: None, label: None, standing }
    }

    #[test]
    fn who_may_serve_brings_names_that_no_rule_refuses() {
        let domain = Identity::generate(Role::Domain, 0).unwrap();
        let (server, capsule) = (metadata(Role::Node, 1), metadata(Role::Capsule, 2));
        let (server_name, name) = (name_of(&server), name_of(&capsule));
        let window = Window { not_before_s: 0, not_after_s: 100 };
        let shown =
            |rights| Membership::sign(&domain, None, server_name, rights, 1, window).unwrap();
        let members = Rule::of_domain(domain.name(), Rights::JOIN, Standing::Admitted);
        let closed = |rules| Access { rules, otherwise: Standing::Refused, ..Access::default() };
        let access = closed(vec![members.clone()]);
        let served = Who { name: &name, metadata: &capsule, membership: None, now_s: 50 };
        let of = |access: &Access, membership: &Membership, now_s| {
            let (name, metadata) = (&server_name, &server);
            let by = Who { name, metadata, membership: Some(membership), now_s };
            access.standing_of_served(&served, &by)
        };
        let (joins, serves) = (shown(Rights::JOIN), shown(Rights::JOIN.and(Rights::SERVE)));
        assert_eq!(of(&access, &joins, 50), Standing::Refused);
        assert_eq!(of(&access, &serves, 50), Standing::Admitted);
        assert_eq!(of(&access, &serves, 161), Standing::Refused, "it is over");
        assert_eq!(of(&access, &shown(Rights::SERVE), 50), Standing::Refused, "it may not join");
        let refused = vec![Rule::named(name, Standing::Refused), members.clone()];
        assert_eq!(of(&closed(refused), &serves, 50), Standing::Refused);
        let named = vec![Rule::named(name, Standing::Admitted), members.clone()];
        assert_eq!(of(&closed(named), &joins, 50), Standing::Admitted);
        // Where strangers are taken, nothing is needed, and a member's names are its own.
        let open = Access { rules: vec![members], ..Access::default() };
        assert_eq!(of(&open, &joins, 50), Standing::Stranger);
        assert_eq!(of(&open, &serves, 50), Standing::Admitted);
    }

    #[test]
    fn it_says_which_rule_counts_and_what_is_missing_for_a_better_one() {
        let domain = Identity::generate(Role::Domain, 0).unwrap();
        let other = Identity::generate(Role::Domain, 0).unwrap();
        let node = metadata(Role::Node, 1);
        let name = name_of(&node);
        let access = Access {
            rules: vec![Rule::of_domain(domain.name(), Rights::JOIN, Standing::Admitted)],
            otherwise: Standing::Refused,
            ..Access::default()
        };
        let shown = |issuer: &Identity, rights| {
            let window = Window::starting(1000, 60);
            Membership::sign(issuer, None, name, rights, 1, window).unwrap()
        };
        let explain = |membership: Option<&Membership>, now_s| {
            access.explain(&Who { name: &name, metadata: &node, membership, now_s })
        };
        let (member, barren) = (shown(&domain, Rights::JOIN), shown(&domain, Rights::PUBLISH));
        let fits = explain(Some(&member), 1000);
        assert_eq!((fits.standing, fits.rule, fits.missing), (Standing::Admitted, Some(1), None));
        let domain = domain.name();
        let lacks = |membership, now_s| {
            let treatment = explain(membership, now_s);
            assert_eq!((treatment.standing, treatment.rule), (Standing::Refused, None));
            treatment.missing.unwrap()
        };
        assert_eq!(lacks(None, 1000), Missing::Membership { domain });
        let shown_of = other.name();
        let foreign = shown(&other, Rights::JOIN);
        assert_eq!(lacks(Some(&foreign), 1000), Missing::ThisDomain { domain, shown: shown_of });
        assert_eq!(lacks(Some(&barren), 1000), Missing::Rights { domain, rights: Rights::JOIN });
        assert!(lacks(Some(&member), 9000).to_string().contains("does not hold"));
    }

    #[test]
    fn the_first_rule_that_fits_counts() {
        let (node, router) = (metadata(Role::Node, 1), metadata(Role::Router, 2));
        let labelled = node.clone().with_attribute(LABEL, "sea").unwrap();
        let access = Access {
            rules: vec![
                Rule { name: Some(name_of(&router)), ..rule(Standing::Admitted) },
                Rule {
                    role: Some(Role::Node),
                    label: Some("sea".into()),
                    ..rule(Standing::Refused)
                },
                Rule { role: Some(Role::Node), ..rule(Standing::Admitted) },
            ],
            ..Access::default()
        };
        let treated = |access: &Access, metadata: &Metadata| {
            let name = &name_of(metadata);
            access.standing(&Who { name, metadata, membership: None, now_s: 0 })
        };
        let standing = |metadata: &Metadata| treated(&access, metadata);
        assert_eq!(standing(&router), Standing::Admitted);
        assert_eq!(standing(&labelled), Standing::Refused);
        assert_eq!(standing(&node), Standing::Admitted);
        assert_eq!(standing(&metadata(Role::Router, 3)), Standing::Stranger);
        assert_eq!(treated(&Access::default(), &node), Standing::Stranger);
        let closed = Access { rules: vec![rule(Standing::Refused)], ..Access::default() };
        assert_eq!(treated(&closed, &node), Standing::Refused);
    }
}
