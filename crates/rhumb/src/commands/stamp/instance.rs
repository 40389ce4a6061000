//! What one running stamper has in the system: TUN devices,
//! rules and tables, found again by their numbers.
//!
//! ```text
//! priority     rule
//! +0, +1       to port 53, UDP and TCP: skip to +299     (unless DNS is to be stamped)
//! +10 .. +41   marked for way 0 to 31: its table
//! +80          marked for any other way of ours: unreachable
//! +100 .. +163 user policies: the table of their way
//! +170         of this host: skip to +299
//! +180 .. +243 policies for what is forwarded: the table of their way
//! +299         nothing: where skips lead to
//! ```
//!
//! Instance n begins at 21000 + 300 n, and has device `stampN` as long as it lives, and `stampN-W`
//! for way W. Its marks and tables are 0x5268nn00 and up.
//!
//! Invariant: rules of an instance whose device is gone are leftovers, and removed by the next one
//! of us that starts; except where its command still runs, which stays cut off.

use std::net::IpAddr;

use rhumb_daemon::cli::CarriedInUdp;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_io::ip::{Tun, TunOptions};
use rhumb_io::steering::{Action, Rule, Selector, Steering};
use rhumb_waypoint::policy::MOST_POLICIES;
use rhumb_waypoint::stamping::Fallback;
use rhumb_waypoint::{Family, Policy, Via};

use super::group;
use super::keys::Keys;
use super::lane::Departure;
use super::way::{Way, no_way};

/// A running stamper's part of the system.
#[derive(Debug)]
pub(crate) struct Instance {
    number: u32,
    steering: Steering,
    /// Carries nothing: its name says that we live.
    _anchor: Tun,
    ways: Vec<Option<Way>>,
    /// By way and family, which of this host's addresses new connections get.
    sources: Vec<[Option<IpAddr>; 2]>,
    rules: Vec<Rule>,
    fallback: Fallback,
    udp: Vec<CarriedInUdp>,
}

impl Instance {
    /// Cleans up behind others that were killed, and takes the first number that is free.
    pub(crate) fn claim(
        stamp_dns: bool,
        fallback: Fallback,
        udp: Vec<CarriedInUdp>,
    ) -> Outcome<Self> {
        let mut steering = Steering::new().map_err(Failure::setup)?;
        let taken = clean_leftovers(&mut steering)?;
        let mut refused = None;
        for number in (0..MOST_INSTANCES).filter(|number| !taken.contains(number)) {
            match Tun::open(&TunOptions { name: device(number), ..TunOptions::default() }) {
                Ok(anchor) => {
                    let mut instance = Self {
                        number,
                        steering,
                        _anchor: anchor,
                        ways: Vec::new(),
                        sources: Vec::new(),
                        rules: Vec::new(),
                        fallback,
                        udp,
                    };
                    instance.begin(stamp_dns)?;
                    return Ok(instance);
                }
                // Somebody else was faster, or it is another reason that holds for all numbers.
                Err(error) => refused = Some(error),
            }
            if !steering.has_device(&device(number)) {
                break;
            }
        }
        Err(refused.map_or_else(
            || Failure::setup_text(format!("{MOST_INSTANCES} stampers run here already")),
            Failure::setup,
        ))
    }

    fn begin(&mut self, stamp_dns: bool) -> Outcome {
        let mut rules = Vec::new();
        if !stamp_dns {
            for (place, protocol) in [(DNS, UDP), (DNS + 1, TCP)] {
                let selector = Selector {
                    protocol: Some(protocol),
                    destination_ports: Some(DNS_PORTS),
                    ..Selector::default()
                };
                rules.push((place, selector, Action::SkipTo(self.priority(END))));
            }
        }
        let ours = Selector { mark: Some((self.mark_base(), MARK_MASK)), ..Selector::default() };
        rules.push((UNKNOWN_MARK, ours, Action::Unreachable));
        let local = Selector { is_local: true, ..Selector::default() };
        rules.push((LOCAL, local, Action::SkipTo(self.priority(END))));
        // A rule that skips comes after the one that it
        // skips to, or it would do nothing for a moment.
        rules.insert(0, (END, Selector::default(), Action::Nothing));
        for (place, selector, action) in rules {
            for is_v6 in [false, true] {
                let priority = self.priority(place);
                self.add(Rule { priority, is_v6, selector: selector.clone(), action })?;
            }
        }
        Ok(())
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The ways that are in use, with their numbers.
    pub(crate) fn ways(&self) -> impl Iterator<Item = (usize, &Way)> {
        self.ways.iter().enumerate().filter_map(|(index, way)| Some((index, way.as_ref()?)))
    }

    /// The mark of packets for a way; its table has the same number.
    pub(crate) fn mark(&self, way: usize) -> u32 {
        self.mark_base() + 1 + way as u32
    }

    /// The way through these waypoints, made if there is none.
    pub(crate) fn way(&mut self, via: &Via, keys: &Keys, now_ms: u64) -> Outcome<usize> {
        if let Some((index, _)) = self.ways().find(|(_, way)| way.via() == via) {
            return Ok(index);
        }
        if let Some(waypoint) = via.iter().find(|waypoint| !keys.know(*waypoint)) {
            return Err(Failure::setup_text(format!(
                "no key for waypoint {waypoint}, and none to come; give a capability file or a principal file \
                 that names it"
            )));
        }
        let free = self.ways.iter().position(Option::is_none).unwrap_or(self.ways.len());
        if free >= MOST_WAYS {
            return Err(Failure::setup_text(format!("{MOST_WAYS} ways are in use already")));
        }
        let mut departures = [Vec::new(), Vec::new()];
        let mut sources = [None; 2];
        for is_v6 in [false, true] {
            let family = usize::from(is_v6);
            let mut missing = None;
            for list in via.of(is_v6) {
                let departure = self.departure(list[0]);
                let found = departure.map_err(|why| missing = missing.take().or(Some(why))).ok();
                sources[family] = sources[family].or(found.as_ref().map(Departure::source));
                departures[family].push(found);
            }
            if let (None, Some(why)) = (sources[family], missing) {
                return Err(why);
            }
        }
        let name = format!("{}-{free}", device(self.number));
        let options = TunOptions { name, ..TunOptions::default() };
        let tun = Tun::open(&options).map_err(Failure::setup)?;
        let mut way = Way::start(via.clone(), tun, departures, self.fallback)?;
        way.refresh(keys, now_ms, true);
        let device = way.device().to_owned();
        if self.ways.len() == free {
            self.ways.push(None);
            self.sources.push([None; 2]);
        }
        self.ways[free] = Some(way);
        self.sources[free] = sources;
        for (is_v6, source) in [false, true].into_iter().zip(sources) {
            self.lead(free, is_v6, source.map(|source| (&*device, source)))?;
        }
        Ok(free)
    }

    /// How packets leave for a first waypoint. An error when there is no route.
    fn departure(&mut self, first: IpAddr) -> Outcome<Departure> {
        let udp = self.udp.iter().find(|it| it.waypoint == first).map(|it| it.to);
        let to = udp.map_or(first, |to| to.ip());
        let source = self.steering.source_to(to).ok_or_else(|| no_way(first, to))?;
        Departure::new(source, to, udp)
    }

    /// Leads what is marked for a way there. What is of a family without waypoints is refused, or
    /// goes the usual way where that is allowed.
    fn lead(&mut self, way: usize, is_v6: bool, through: Option<(&str, IpAddr)>) -> Outcome {
        if through.is_none() && self.fallback == Fallback::Plain {
            return Ok(());
        }
        let mark = self.mark(way);
        match self.steering.lead(mark, is_v6, through) {
            // A host without IPv6 has nothing of it to lead.
            Err(_) if is_v6 && through.is_none() => return Ok(()),
            led => led.map_err(Failure::setup)?,
        }
        let selector = Selector { mark: Some((mark, u32::MAX)), ..Selector::default() };
        let priority = self.priority(MARKED + way as u32);
        self.add(Rule { priority, is_v6, selector, action: Action::Table(mark) })
    }

    /// Takes the addresses that this host has now: they may
    /// change, and a route without its source is gone.
    pub(crate) fn follow_sources(&mut self) {
        for index in 0..self.ways.len() {
            for is_v6 in [false, true] {
                self.follow_departures(index, is_v6);
            }
        }
        self.follow_choices();
    }

    /// Looks at the routes to the first waypoints of a way.
    fn follow_departures(&mut self, index: usize, is_v6: bool) {
        let Some(Some(way)) = self.ways.get(index) else { return };
        let firsts: Vec<IpAddr> = way.via().of(is_v6).iter().map(|list| list[0]).collect();
        for (lane, first) in firsts.into_iter().enumerate() {
            let found = self.departure(first).ok();
            let Some(Some(way)) = self.ways.get_mut(index) else { return };
            let before = way.departures(is_v6)[lane].as_ref().map(Departure::source);
            let after = found.as_ref().map(Departure::source);
            // What has no route now may have one in a moment: what is known is kept.
            if after.is_some() && before != after {
                tracing::info!(source = ?after, via = %way.via(), "this host has another address");
                way.depart(is_v6, lane, found);
            }
        }
    }

    /// Gives new connections the address that fits the lane in use.
    pub(crate) fn follow_choices(&mut self) {
        for (index, (way, led)) in self.ways.iter().zip(&mut self.sources).enumerate() {
            let Some(way) = way else { continue };
            for is_v6 in [false, true] {
                let departure = way.departures(is_v6).get(way.current(is_v6));
                let source = departure.and_then(|it| it.as_ref()).map(Departure::source);
                let Some(source) = source.filter(|it| led[usize::from(is_v6)] != Some(*it)) else {
                    continue;
                };
                let table = (MARK | self.number << 8) + 1 + index as u32;
                match self.steering.lead(table, is_v6, Some((way.device(), source))) {
                    Ok(()) => led[usize::from(is_v6)] = Some(source),
                    Err(error) => tracing::warn!(%error, %source, "cannot send from this address"),
                }
            }
        }
    }

    /// Ends a way: packets marked for it are refused from now on.
    pub(crate) fn close_way(&mut self, way: usize) {
        let priority = self.priority(MARKED + way as u32);
        self.remove_rules(|rule| rule.priority == priority);
        let mark = self.mark(way);
        if let Some(way) = self.ways.get_mut(way).and_then(Option::take) {
            self.steering.forget(mark);
            drop(way);
        }
    }

    /// Has these policies instead of those before, in this order. Rules that stay are not touched,
    /// and new ones are there before old ones go: what a policy leads is led at every moment.
    /// After an error those before hold.
    pub(crate) fn set_policies(
        &mut self,
        policies: &[Policy],
        keys: &Keys,
        now_ms: u64,
    ) -> Outcome {
        let mut wanted = Vec::new();
        for (index, policy) in policies.iter().enumerate() {
            if index >= MOST_POLICIES {
                return Err(Failure::setup_text(format!("more than {MOST_POLICIES} policies")));
            }
            let way = self.way(&policy.via, keys, now_ms)?;
            let action = Action::Table(self.mark(way));
            let base = if policy.selector.users.is_some() { USER } else { FORWARDED };
            let priority = self.priority(base + index as u32);
            for (is_v6, family) in [(false, Family::V4), (true, Family::V6)] {
                let is_refused = policy.via.of(is_v6).is_empty();
                if policy.family.is_some_and(|only| only != family)
                    || is_refused && self.fallback == Fallback::Plain
                {
                    continue;
                }
                wanted.push(Rule { priority, is_v6, selector: policy.selector.clone(), action });
            }
        }
        let before = self.rules.len();
        for rule in &wanted {
            if !self.rules.contains(rule)
                && let Err(why) = self.add(rule.clone())
            {
                let added = self.rules.split_off(before);
                self.remove_from_system(&added);
                return Err(why);
            }
        }
        let (first, last) = (self.priority(USER), self.priority(END));
        let is_old = |rule: &Rule| {
            (first..last).contains(&rule.priority)
                && !matches!(rule.action, Action::SkipTo(_))
                && !wanted.contains(rule)
        };
        self.remove_rules(is_old);
        Ok(())
    }

    /// Whether a policy leads to a way.
    pub(crate) fn has_policy(&self, way: usize) -> bool {
        let (first, last) = (self.priority(USER), self.priority(END));
        let action = Action::Table(self.mark(way));
        let leads = |rule: &Rule| (first..last).contains(&rule.priority) && rule.action == action;
        self.rules.iter().any(leads)
    }

    /// Takes the keys for now. Those missing are said, unless they are waited for.
    pub(crate) fn refresh(&mut self, keys: &Keys, now_ms: u64, are_waited_for: bool) {
        for way in self.ways.iter_mut().flatten() {
            way.refresh(keys, now_ms, are_waited_for);
        }
    }

    fn add(&mut self, rule: Rule) -> Outcome {
        match self.steering.add_rule(&rule) {
            Ok(()) => self.rules.push(rule),
            // A host without IPv6 has no rules for it.
            Err(error) if rule.is_v6 && error.raw_os_error() == Some(NO_SUCH_FAMILY) => {}
            Err(error) => {
                let what =
                    format!("rule {}: {error}; rules need CAP_NET_ADMIN, or root", rule.priority);
                return Err(Failure::setup_text(what));
            }
        }
        Ok(())
    }

    fn remove_rules(&mut self, which: impl Fn(&Rule) -> bool) {
        let gone: Vec<Rule> = self.rules.extract_if(.., |rule| which(rule)).collect();
        self.remove_from_system(&gone);
    }

    fn remove_from_system(&mut self, rules: &[Rule]) {
        for rule in rules {
            if let Err(error) = self.steering.remove_rule(rule) {
                tracing::warn!(%error, priority = rule.priority, "a rule of ours was not there");
            }
        }
    }

    fn priority(&self, place: u32) -> u32 {
        FIRST_PRIORITY + self.number * SPAN + place
    }

    fn mark_base(&self) -> u32 {
        MARK | self.number << 8
    }
}

impl Drop for Instance {
    /// Rules first, so that nothing is led to what is gone; what skips before what it skips to.
    fn drop(&mut self) {
        self.rules.reverse();
        self.remove_rules(|_| true);
        for way in 0..self.ways.len() {
            self.close_way(way);
        }
    }
}

/// Removes the rules of instances that are gone. Returns the numbers that cannot be had.
fn clean_leftovers(steering: &mut Steering) -> Outcome<Vec<u32>> {
    let cut_off = group::clean_leftovers();
    let rules = steering.rules().map_err(Failure::setup)?;
    let mut cleaned = Vec::new();
    for (priority, is_v6) in rules {
        let number = priority.wrapping_sub(FIRST_PRIORITY) / SPAN;
        let is_gone = number < MOST_INSTANCES
            && !cut_off.contains(&number)
            && !steering.has_device(&device(number));
        if is_gone {
            // Another one of us may clean up at the same time.
            let _ = steering.remove_rule_at(priority, is_v6);
            cleaned.push(number);
        }
    }
    cleaned.sort_unstable();
    cleaned.dedup();
    for number in cleaned {
        tracing::info!(number, "removed what a stamper that was killed had left");
        for way in 0..MOST_WAYS as u32 {
            steering.forget((MARK | number << 8) + 1 + way);
        }
    }
    for number in &cut_off {
        tracing::warn!(number, "a command still runs whose stamper was killed: it stays cut off");
    }
    Ok(cut_off)
}

/// The device of an instance; those of its ways have a number behind.
fn device(number: u32) -> String {
    format!("stamp{number}")
}

/// Before the rules of the system, at 32766 and up, and behind where people put theirs by hand.
const FIRST_PRIORITY: u32 = 21_000;
/// Priorities of one instance.
const SPAN: u32 = 300;
/// As many as fit before the rules of the system.
const MOST_INSTANCES: u32 = 32;
/// More ways than that through four waypoints nobody can tell apart.
pub(crate) const MOST_WAYS: usize = 32;

const DNS: u32 = 0;
const MARKED: u32 = 10;
const UNKNOWN_MARK: u32 = 80;
const USER: u32 = 100;
const LOCAL: u32 = 170;
const FORWARDED: u32 = 180;
const END: u32 = 299;

/// R and h, and then instance and way: no other software is known
/// to use such marks, or tables of such numbers.
const MARK: u32 = 0x5268_0000;
const MARK_MASK: u32 = 0xFFFF_FF00;

const DNS_PORTS: std::ops::RangeInclusive<u16> = 53..=53;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// EAFNOSUPPORT.
const NO_SUCH_FAMILY: i32 = 97;

const _: () = assert!(MARKED + MOST_WAYS as u32 <= UNKNOWN_MARK);
const _: () = assert!(USER + MOST_POLICIES as u32 <= LOCAL);
const _: () = assert!(FORWARDED + MOST_POLICIES as u32 <= END);
const _: () = assert!(FIRST_PRIORITY + MOST_INSTANCES * SPAN < 32_766);
