//! The policies of a member: `[member.export]`, `[member.import]`, and
//! the lists of prefixes that their rules name.
//!
//! Who a rule names is only known with the exchange's roster, which changes while the proxy runs:
//! expressions and lists are read once, and [`PolicySettings::compile`] puts in the members
//! whenever there is another roster.

use std::collections::HashMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use rhumb_bgp::policy::{
    Conditions, Edits, ExportPolicy, ImportPolicy, MOST_PREFIXES, MOST_RULES, Member, MemberSet,
    Policy, PrefixRange, PrefixSet, Ranking, Roster, RpkiValidation, Rule, Ties, Verdict,
};
use rhumb_bgp::wire::Origin;
use serde::Deserialize;
use toml::Spanned;

use super::super::{ConfigFile, Fault, line_at, refuse};
use super::parse_numbers;
use crate::failure::{Failure, Outcome};

/// `[[member.prefixes]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPrefixes {
    name: String,
    #[serde(default)]
    ranges: Vec<Spanned<String>>,
    file: Option<PathBuf>,
}

/// `[member.export]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawExport {
    otherwise: Option<Spanned<String>>,
    only: Option<Vec<Spanned<String>>>,
    except: Vec<Spanned<String>>,
    rule: Vec<Spanned<RawRule>>,
}

/// `[member.import]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawImport {
    otherwise: Option<Spanned<String>>,
    first_asn: Option<bool>,
    blackhole: Option<bool>,
    rpki_first: Option<bool>,
    ties: Option<Spanned<String>>,
    rule: Vec<Spanned<RawRule>>,
}

/// `[[member.export.rule]]` and `[[member.import.rule]]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawRule {
    prefix: Vec<Spanned<String>>,
    path: Vec<Spanned<String>>,
    community: Vec<Spanned<String>>,
    origin: Vec<Spanned<String>>,
    origin_asn: Vec<Spanned<String>>,
    med: Option<Spanned<String>>,
    path_length: Option<Spanned<String>>,
    next_hop: Vec<Spanned<String>>,
    from: Option<Vec<Spanned<String>>>,
    rpki: Vec<Spanned<String>>,
    action: Option<Spanned<String>>,
    local_preference: Option<u32>,
    delete_community: Vec<Spanned<String>>,
    add_community: Vec<Spanned<String>>,
    set_med: Option<u32>,
    prepend: Option<u8>,
    to: Option<Vec<Spanned<String>>>,
    not_to: Option<Vec<Spanned<String>>>,
}

pub(super) const PREFIXES_KEYS: &[&str] = &["name", "ranges", "file"];
pub(super) const EXPORT_KEYS: &[&str] = &["otherwise", "only", "except", "rule"];
pub(super) const IMPORT_KEYS: &[&str] =
    &["otherwise", "first_asn", "blackhole", "rpki_first", "ties", "rule"];
pub(super) const RULE_KEYS: &[&str] = &[
    "prefix",
    "path",
    "community",
    "origin",
    "origin_asn",
    "med",
    "path_length",
    "next_hop",
    "from",
    "rpki",
    "action",
    "local_preference",
    "delete_community",
    "add_community",
    "set_med",
    "prepend",
    "to",
    "not_to",
];

/// Both policies, as far as they are known without a roster.
#[derive(Debug)]
pub struct PolicySettings {
    asn: u32,
    exchange_asn: u32,
    export: Rules,
    only: Option<Vec<Who>>,
    except: Vec<Who>,
    import: Rules,
    first_asn: bool,
    blackhole: bool,
    ranking: Ranking,
}

#[derive(Debug)]
struct Rules {
    rules: Vec<RuleSettings>,
    otherwise: Verdict,
}

/// A rule without the members that it names.
#[derive(Debug)]
struct RuleSettings {
    rule: Rule,
    from: Option<Vec<Who>>,
    to: Option<Vec<Who>>,
    not_to: Vec<Who>,
}

/// Members, as an operator names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// All ports of an AS.
    Asn(u32),
    /// All sites of a member of the roster.
    Member(String),
    /// One of them.
    Site(String, String),
}

/// A line of the exchange's roster, as far as policies know it. Its place is the member's index.
#[derive(Debug, Clone, Copy)]
pub struct SiteName<'a> {
    /// Whose site it is.
    pub member: &'a str,
    /// Which of the member's.
    pub site: &'a str,
    /// The number of its AS.
    pub asn: u32,
}

/// Policies for a roster.
#[derive(Debug)]
pub struct Compiled {
    pub roster: Roster,
    pub export: ExportPolicy,
    pub import: ImportPolicy,
    /// Whom rules and lists name, and the roster does not have: to be told
    /// to the operator, since one may be mistyped.
    pub unknown: Vec<Who>,
}

impl PolicySettings {
    /// The policies of the member at `own` among the members of a roster.
    pub fn compile(&self, sites: &[SiteName<'_>], own: Member) -> Outcome<Compiled> {
        let roster = Roster::new(sites.iter().map(|site| site.asn).collect()).ok_or_else(|| {
            Failure::setup_text(format!("the roster has more than {} sites", Roster::MOST))
        })?;
        let mut unknown = Vec::new();
        let mut members = |named: &[Who]| {
            let mut all = roster.none();
            for who in named {
                let found = who.among(&roster, sites);
                if found.is_empty() && !unknown.contains(who) {
                    unknown.push(who.clone());
                }
                all.unite(&found);
            }
            all
        };
        let mut allowed = self.only.as_deref().map_or_else(|| roster.all(), &mut members);
        allowed.subtract(&members(&self.except));
        let mut compiled = |rules: &Rules| {
            let compile = |it: &RuleSettings| {
                let mut rule = it.rule.clone();
                rule.when.announcers = it.from.as_deref().map(&mut members);
                if it.to.is_some() || !it.not_to.is_empty() {
                    let mut to = it.to.as_deref().map_or_else(|| roster.all(), &mut members);
                    to.subtract(&members(&it.not_to));
                    rule.edits.recipients = Some(to);
                }
                rule
            };
            let rules_of = rules.rules.iter().map(compile).collect();
            Policy::new(rules_of, rules.otherwise).map_err(Failure::setup)
        };
        let export = ExportPolicy {
            rules: compiled(&self.export)?,
            allowed,
            own,
            exchange_asn: self.exchange_asn,
        };
        let import = ImportPolicy {
            rules: compiled(&self.import)?,
            own_asn: self.asn,
            first_asn: self.first_asn,
            blackhole: self.blackhole,
            ranking: self.ranking,
        };
        Ok(Compiled { roster, export, import, unknown })
    }

    /// Whether a rule, or the ranking, asks what the RPKI says.
    pub(crate) fn asks_validity(&self) -> bool {
        let rules = self.export.rules.iter().chain(&self.import.rules);
        self.ranking.validity_first
            || rules.into_iter().any(|it| !it.rule.when.validities.is_empty())
    }
}

impl Who {
    fn parse(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix("AS").unwrap_or(text);
        if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
            let asn = number.parse().ok().filter(|asn| *asn > 0);
            return asn.map(Self::Asn).ok_or_else(|| format!("`{text}` is no AS number"));
        }
        match text.split_once('/') {
            _ if text.is_empty() => {
                Err("a member has a name; give AS64501, NAME or NAME/SITE".to_owned())
            }
            Some((member, site)) => Ok(Self::Site(member.to_owned(), site.to_owned())),
            None => Ok(Self::Member(text.to_owned())),
        }
    }

    fn among(&self, roster: &Roster, sites: &[SiteName<'_>]) -> MemberSet {
        let named = |fits: &dyn Fn(&SiteName<'_>) -> bool| {
            let places = roster.iter().zip(sites).filter(|(_, site)| fits(site));
            roster.set(places.map(|((member, _), _)| member))
        };
        match self {
            Self::Asn(asn) => roster.set(roster.of_asn(*asn).iter().copied()),
            Self::Member(name) => named(&|site| site.member == name),
            Self::Site(name, place) => named(&|site| site.member == name && site.site == place),
        }
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asn(asn) => write!(f, "AS{asn}"),
            Self::Member(name) => f.write_str(name),
            Self::Site(name, site) => write!(f, "{name}/{site}"),
        }
    }
}

/// Lists of prefixes by their names.
type Lists = HashMap<String, Arc<PrefixSet>>;

/// Which of the two policies a rule is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Export,
    Import,
}

impl ConfigFile {
    /// Both policies of `[member]`.
    pub(super) fn member_policy(&self, asn: u32, exchange_asn: u32) -> Outcome<PolicySettings> {
        let raw = &self.raw.member;
        let lists = self.prefix_lists()?;
        let export = &raw.export;
        let import = &raw.import;
        let ties = self.parsed(import.ties.as_ref(), |text| match text {
            "preference" => Ok(Ties::Preference),
            "path_length" => Ok(Ties::PathLength),
            other => Err(format!("ties is `{other}`; give preference or path_length")),
        })?;
        Ok(PolicySettings {
            asn,
            exchange_asn,
            export: self.rules(&export.rule, export.otherwise.as_ref(), &lists, Side::Export)?,
            only: self.each(export.only.as_deref(), Who::parse)?,
            except: self.all(&export.except, Who::parse)?,
            import: self.rules(&import.rule, import.otherwise.as_ref(), &lists, Side::Import)?,
            first_asn: import.first_asn.unwrap_or(true),
            blackhole: import.blackhole.unwrap_or(false),
            ranking: Ranking {
                validity_first: import.rpki_first.unwrap_or(false),
                ties: ties.unwrap_or_default(),
            },
        })
    }

    fn prefix_lists(&self) -> Outcome<Lists> {
        let mut lists = Lists::new();
        let mut total = 0;
        for raw in &self.raw.member.prefixes {
            let list = raw.get_ref();
            let mut ranges = self.all(&list.ranges, parse_range)?;
            if let Some(path) = &list.file {
                ranges.extend(read_ranges(path)?);
            }
            total += ranges.len();
            if total > MOST_PREFIXES {
                return Err(
                    self.wrong(raw, format!("more than {MOST_PREFIXES} prefixes in all lists"))
                );
            }
            let set = Arc::new(ranges.into_iter().collect());
            if lists.insert(list.name.clone(), set).is_some() {
                return Err(self.wrong(raw, format!("there are two lists `{}`", list.name)));
            }
        }
        Ok(lists)
    }

    fn rules(
        &self,
        raw: &[Spanned<RawRule>],
        otherwise: Option<&Spanned<String>>,
        lists: &Lists,
        side: Side,
    ) -> Outcome<Rules> {
        if let Some(beyond) = raw.get(MOST_RULES) {
            return Err(self.wrong(beyond, format!("more than {MOST_RULES} rules")));
        }
        let rules =
            raw.iter().map(|rule| self.rule(rule, lists, side)).collect::<Outcome<Vec<_>>>()?;
        // RFC 8212: without a policy, nothing is announced and nothing is taken.
        let otherwise = self.parsed(otherwise, parse_verdict)?.unwrap_or(Verdict::Reject);
        let whole = rules.iter().map(|it| it.rule.clone()).collect();
        Policy::new(whole, otherwise).map_err(Failure::setup)?;
        Ok(Rules { rules, otherwise })
    }

    fn rule(&self, spanned: &Spanned<RawRule>, lists: &Lists, side: Side) -> Outcome<RuleSettings> {
        let raw = spanned.get_ref();
        let action = self.parsed(raw.action.as_ref(), parse_verdict)?;
        let Some(verdict) = action else {
            return Err(
                self.wrong(spanned, "a rule needs action = \"accept\" or \"reject\"".to_owned())
            );
        };
        let edits = self.edits(raw)?;
        if verdict == Verdict::Reject && edits != Edits::default() {
            return Err(self.wrong(spanned, "a rule that rejects changes nothing".to_owned()));
        }
        let misplaced = match side {
            Side::Export if raw.local_preference.is_some() => {
                Some("local_preference is for [member.import]")
            }
            Side::Export if raw.from.is_some() => {
                Some("from is for [member.import]: here all routes are the member's")
            }
            Side::Import if raw.to.is_some() || raw.not_to.is_some() => {
                Some("to and not_to are for [member.export]")
            }
            _ if verdict == Verdict::Reject && (raw.to.is_some() || raw.not_to.is_some()) => {
                Some("a rule that rejects goes to nobody: to and not_to go with accept")
            }
            _ => None,
        };
        if let Some(problem) = misplaced {
            return Err(self.wrong(spanned, problem.to_owned()));
        }
        Ok(RuleSettings {
            rule: Rule { when: self.conditions(raw, lists)?, verdict, edits },
            from: self.each(raw.from.as_deref(), Who::parse)?,
            to: self.each(raw.to.as_deref(), Who::parse)?,
            not_to: self.each(raw.not_to.as_deref(), Who::parse)?.unwrap_or_default(),
        })
    }

    fn conditions(&self, raw: &RawRule, lists: &Lists) -> Outcome<Conditions> {
        let (mut prefixes, mut ranges) = (Vec::new(), Vec::new());
        for text in &raw.prefix {
            match text.get_ref().strip_prefix('@') {
                Some(name) => prefixes.push(self.list(text, name, lists)?),
                None => ranges.extend(self.parsed(Some(text), parse_range)?),
            }
        }
        if !ranges.is_empty() {
            prefixes.push(Arc::new(ranges.into_iter().collect()));
        }
        let next_hops = self.all(&raw.next_hop, parse_range)?;
        let numbers = |raw: Option<&Spanned<String>>| -> Outcome<Option<RangeInclusive<u32>>> {
            self.parsed(raw, parse_numbers)
        };
        Ok(Conditions {
            prefixes,
            paths: self.all(&raw.path, parse_expression)?,
            communities: self.all(&raw.community, parse_expression)?,
            origins: self.all(&raw.origin, parse_origin)?,
            origin_asns: self.all(&raw.origin_asn, parse_numbers)?,
            med: numbers(raw.med.as_ref())?,
            path_length: numbers(raw.path_length.as_ref())?,
            next_hops: (!next_hops.is_empty()).then(|| Arc::new(next_hops.into_iter().collect())),
            announcers: None,
            validities: self.all(&raw.rpki, parse_validity)?,
        })
    }

    fn list(&self, text: &Spanned<String>, name: &str, lists: &Lists) -> Outcome<Arc<PrefixSet>> {
        lists.get(name).cloned().ok_or_else(|| {
            let mut known: Vec<&str> = lists.keys().map(String::as_str).collect();
            known.sort_unstable();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            self.wrong(
                text,
                format!("there is no list `{name}` in [[member.prefixes]]; there are: {known}"),
            )
        })
    }

    fn edits(&self, raw: &RawRule) -> Outcome<Edits> {
        Ok(Edits {
            preference: raw.local_preference,
            delete_communities: self.all(&raw.delete_community, parse_expression)?,
            add_communities: self.all(&raw.add_community, parse_expression)?,
            med: raw.set_med,
            prepend: raw.prepend.unwrap_or(0),
            recipients: None,
        })
    }

    /// All of a list, parsed.
    fn all<T>(
        &self,
        raw: &[Spanned<String>],
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Outcome<Vec<T>> {
        let parsed = raw.iter().map(|text| {
            parse(text.get_ref()).map_err(|problem| {
                let line = line_at(&self.text, Some(&text.span()));
                refuse(&self.path, &Fault { line, problem })
            })
        });
        parsed.collect()
    }

    /// The same for a list that may be absent, which is not the same as empty.
    fn each<T>(
        &self,
        raw: Option<&[Spanned<String>]>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Outcome<Option<Vec<T>>> {
        raw.map(|raw| self.all(raw, parse)).transpose()
    }
}

/// A file of ranges, one a line; what follows a `#` is a remark.
fn read_ranges(path: &PathBuf) -> Outcome<Vec<PrefixRange>> {
    let refused =
        |problem: String| Failure::setup_text(format!("prefix list {}: {problem}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let mut ranges = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let range = line.split('#').next().unwrap_or_default().trim();
        if range.is_empty() {
            continue;
        }
        ranges.push(
            parse_range(range).map_err(|problem| refused(format!("line {number}: {problem}")))?,
        );
        if ranges.len() > MOST_PREFIXES {
            return Err(refused(format!("more than {MOST_PREFIXES} prefixes")));
        }
    }
    Ok(ranges)
}

fn parse_range(text: &str) -> Result<PrefixRange, String> {
    parse_expression(text)
}

/// What the policies' own expressions say is wrong with a text.
fn parse_expression<T: std::str::FromStr<Err = rhumb_bgp::policy::PolicyError>>(
    text: &str,
) -> Result<T, String> {
    text.parse().map_err(|error| match error {
        rhumb_bgp::policy::PolicyError::Path { .. } => format!("path expression `{text}`, {error}"),
        error => error.to_string(),
    })
}

fn parse_verdict(text: &str) -> Result<Verdict, String> {
    match text {
        "accept" => Ok(Verdict::Accept),
        "reject" => Ok(Verdict::Reject),
        other => Err(format!("`{other}` is nothing to do with a route; give accept or reject")),
    }
}

fn parse_origin(text: &str) -> Result<Origin, String> {
    match text {
        "igp" => Ok(Origin::Igp),
        "egp" => Ok(Origin::Egp),
        "incomplete" => Ok(Origin::Incomplete),
        other => Err(format!("there is no origin `{other}`; give igp, egp or incomplete")),
    }
}

fn parse_validity(text: &str) -> Result<RpkiValidation, String> {
    match text {
        "valid" => Ok(RpkiValidation::Valid),
        "invalid" => Ok(RpkiValidation::Invalid),
        "not-found" => Ok(RpkiValidation::NotFound),
        other => Err(format!("rpki is `{other}`; give valid, invalid or not-found")),
    }
}
