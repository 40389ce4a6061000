//! A network of the LAN: found and joined, or made and kept, with no file and no name by hand. Why
//! so, and who may come in: [decision
//! 0120](../../../../../docs/decisions/0120-two-machines-of-one-lan.md).
//!
//! 1. The links are asked for networks. One that is found is asked to let this host in, once
//!    people here have agreed that it is the one that they mean; of several none is taken that
//!    nobody chose.
//! 2. If there is none this host makes one, and keeps it: router, RIB, keeper, and its own node.
//! 3. Who keeps a network is told who asks, and lets in or says no ([`Lan::attend`]). While nobody
//!    is in it the links are asked again: of two that were made at one time one gives way to the
//!    other.
//!
//! INVARIANT: a host that is in a network looks for no other one unless it is told to, and joins or
//! lets in nobody without a yes, or `--trust-lan`.

use std::collections::HashSet;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use rhumb_daemon::cli::UpArguments;
use rhumb_daemon::config::{ConfigFile, WayUp};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key;
use rhumb_daemon::network::admitting::{self, Asking, digits, told_by};
use rhumb_daemon::network::declining::decline;
use rhumb_daemon::network::neighbours::{Admitted, Around, Asker, Found, find_again};
use rhumb_daemon::network::running::{Parts, Passed};
use rhumb_daemon::network::{Created, Joined, Ledger, Making, Openness, address_on_link};
use rhumb_daemon::output::Form;
use rhumb_daemon::supervisor;
use rhumb_wire::{Name, PublishedLabel, Role};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::people::{People, is_no, is_yes};
use super::telling::Told;

/// What the command goes by.
pub(super) struct Lan<'a> {
    pub(super) arguments: &'a UpArguments,
    pub(super) file: &'a ConfigFile,
    pub(super) passed: &'a Passed<'a>,
    pub(super) with_parent: bool,
    pub(super) form: Form,
    pub(super) people: Option<People>,
}

/// What a host that keeps a network has seen of it.
struct Seen {
    /// Whoever was told of.
    asking: Vec<Asking>,
    /// When the last of them was told of, or left.
    changed_at: Option<Instant>,
    members: HashSet<Name>,
    /// Whom people have chosen, and who has to agree, too.
    chosen: Option<Asking>,
    /// Whom people say no to, and the numbers of those who have been told so.
    refused: Option<Asking>,
    told_no: HashSet<String>,
    /// Keepers of networks that were seen once.
    met: HashSet<Name>,
    /// Keepers of networks that are not joined, and were told of.
    others: HashSet<Name>,
    is_open: bool,
}

impl Lan<'_> {
    pub(super) fn run(self, way: WayUp) -> Outcome {
        match way {
            WayUp::Usual => super::run(self.file.up(self.arguments)?, self.with_parent, self.form),
            WayUp::IsIn(joined) => self.be_member(*joined),
            WayUp::Keeps(created) => self.keep(*created),
            WayUp::Looks => self.look(),
        }
    }

    /// Runs the node of a member, whose network's host may have got another address.
    fn be_member(self, mut joined: Joined) -> Outcome {
        let identity = key::load(&joined.key(), Role::Node)?;
        if !runtime()?.block_on(find_again(&identity, &mut joined))? {
            self.form.say(&format!(
                "the host of {} is not found on this LAN; does `rhumb up` run there? It is looked for on",
                joined.folder.label()
            ));
        }
        self.run_member(joined)
    }

    fn run_member(self, joined: Joined) -> Outcome {
        let settings = self.file.up_in(self.arguments, Some(joined))?;
        super::run(settings, self.with_parent, self.form)
    }

    /// Looks for a network, and makes one if there is none.
    fn look(mut self) -> Outcome {
        let runtime = runtime()?;
        let asker = Asker::new(self.label())?;
        let around = runtime.block_on(asker.look(None))?;
        match self.choose(around)? {
            Choice::Join(found) => {
                let admitted = runtime.block_on(self.ask(*found, &asker))?;
                drop(runtime);
                let Some(admitted) = admitted else {
                    return Err(Failure::setup_text(
                        "nothing was joined, and nothing was written. If the number on the other screen was another \
                         one, somebody is in between",
                    ));
                };
                let joined = admitted.settle()?;
                self.form.print(&Told::Joined(joined.clone()));
                self.run_member(joined)
            }
            Choice::Router => {
                drop(runtime);
                let settings = self.file.up_in(self.arguments, None)?;
                super::run(settings, self.with_parent, self.form)
            }
            Choice::Make => {
                drop(runtime);
                let (created, _) = Making::for_lan(self.label())?.make()?;
                self.keep(created)
            }
        }
    }

    /// What is to be done about what was found.
    fn choose(&self, mut around: Around) -> Outcome<Choice> {
        if let Some(error) = around.unsent {
            return Err(Failure::setup_text(format!(
                "this host cannot ask on its LAN ({error}): let UDP port 7462 out, to broadcast and multicast \
                 addresses; or join by a code: rhumb join CODE"
            )));
        }
        let which = self.arguments.lan.as_ref().and_then(Option::as_deref);
        let chosen = |it: &Found| match which {
            None => true,
            Some(which) => {
                it.offer.network.as_str() == which
                    || (which.len() >= LEAST_FINGERPRINT
                        && it.keeper.to_string().starts_with(which))
            }
        };
        around.networks.retain(chosen);
        match around.networks.len() {
            0 => {}
            1 => return self.check_new(around.networks.remove(0)),
            _ => return Err(several(&around.networks)),
        }
        if let Some(which) = which {
            return Err(Failure::setup_text(format!(
                "no network that is called {which}, or whose fingerprint begins so, takes members on this LAN"
            )));
        }
        if let Some(closed) = around.closed.first() {
            self.form.say(&format!(
                "a network on this LAN, at {closed}, takes members by invitation: rhumb join CODE"
            ));
        } else if let Some(router) = around.routers.first() {
            self.form.say(&format!(
                "a router is on this LAN, at {router}, and no network that takes members: this host goes by the router"
            ));
            return Ok(Choice::Router);
        }
        Ok(Choice::Make)
    }

    fn check_new(&self, found: Found) -> Outcome<Choice> {
        if let Some(joined) = Joined::all()?.iter().find(|it| it.keeper.0 == found.keeper) {
            return Err(Failure::setup_text(format!(
                "this host is {joined} already: rhumb up --network {}",
                joined.folder.label()
            )));
        }
        if self.people.is_none() && !self.arguments.trust_lan {
            return Err(Failure::setup_text(format!(
                "network {} is on this LAN, at {} (fingerprint {}), and nobody can be asked here whether it is the \
                 right one: run `rhumb up` in a terminal, give --trust-lan to take it unseen, or join by a code: rhumb \
                 join CODE",
                found.offer.network,
                found.host,
                found.fingerprint()
            )));
        }
        Ok(Choice::Join(Box::new(found)))
    }

    /// Asks a network to let this host in: nothing if people here do not agree.
    async fn ask(&mut self, mut found: Found, asker: &Asker) -> Outcome<Option<Admitted>> {
        let number = found.reveal(asker).await?;
        self.form.print(&Told::compare(&found, number));
        if !self.arguments.trust_lan {
            self.form.say("is it the same? [y/N]");
            let agreed = match &mut self.people {
                Some(people) => tokio::select! {
                    agreed = timeout(AGREE_WITHIN, people.agree()) => agreed.unwrap_or(false),
                    failure = found.refusal() => return Err(failure),
                },
                None => false,
            };
            if !agreed {
                return Ok(None);
            }
        }
        self.form.print(&Told::Waits);
        found.agree(asker).await.map(Some)
    }

    /// Keeps a network of this host's, until it is told to end or gives way to another one.
    fn keep(mut self, mut created: Created) -> Outcome {
        let network = created.folder.label().clone();
        if told_by(&created).is_ok() {
            return Err(Failure::setup_text(format!(
                "network {network} runs here already; who asks to be let in: rhumb network admit"
            )));
        }
        match address_on_link() {
            Ok(address) => created.move_to(address)?,
            Err(failure) => self.form.say(&format!("nobody finds this host now: {failure}")),
        }
        let open = self.arguments.trust_lan.then_some(OPEN_FOR);
        let openness = open.map_or(Openness::Asked, Openness::OpenFor);
        let own = Joined::find(&created.folder)?.map(|own| own.label);
        let own = own.unwrap_or_else(|| self.label());
        let node = Some(self.options_of_node());
        let parts = Parts::of_keeper(&created, self.passed, openness, node)?;
        let (form, with_parent) = (self.form, self.with_parent);
        let asker = Asker::new(own.clone())?;
        let say = |has_node| {
            let open_min = open.map(|it| it.as_secs() / 60);
            let (created, own) = (created.clone(), own.clone());
            supervisor::say_ready(form, &Told::Keeps { created, own, has_node, open_min });
        };
        let given_way = parts.run(with_parent, self.attend(&created, &asker), say)?;
        let Some(admitted) = given_way else { return Ok(()) };
        let is_gone = created.discard_if_alone()?;
        let joined = admitted.settle()?;
        form.print(&Told::Joined(joined.clone()));
        if !is_gone {
            return Err(Failure::operation_text(format!(
                "somebody came into {network} meanwhile, so this host is in two networks now; say which: rhumb up \
                 --network {network}, or --network {}",
                joined.folder.label()
            )));
        }
        let mut arguments = self.options_of_node();
        arguments.extend(["--network", joined.folder.label().as_str()].map(OsString::from));
        arguments.insert(0, "up".into());
        if self.form == Form::Json {
            arguments.push("--json".into());
        }
        if self.with_parent {
            arguments.push("--with-parent".into());
        }
        Err(self.passed.go_on_as(arguments))
    }

    /// What was said of the node itself.
    fn options_of_node(&self) -> Vec<OsString> {
        let mut options: Vec<OsString> = Vec::new();
        if let Some(admin) = &self.arguments.admin {
            options.push(format!("--admin={admin}").into());
        }
        if let Some(user) = &self.arguments.run_as {
            options.push(format!("--run-as={user}").into());
        }
        options.extend(self.arguments.serve.iter().map(|it| format!("--serve={it}").into()));
        options
    }

    /// Tells who asks and who came, lets in whom people choose, and looks for another network while
    /// nobody is in this one. Ends if that is to be joined.
    async fn attend(&mut self, created: &Created, asker: &Asker) -> Outcome<Admitted> {
        let began = Instant::now();
        let mut seen = Seen::of(created, self.arguments.trust_lan)?;
        let mut look_at = began + LOOK_FIRST;
        loop {
            let typed = async {
                match &mut self.people {
                    Some(people) => people.line().await,
                    None => std::future::pending().await,
                }
            };
            let typed = timeout(LOOK_EVERY, typed).await.ok();
            let (of, ledger_of) = (created.clone(), created.folder.clone());
            let told = spawn_blocking(move || (told_by(&of), Ledger::read(&ledger_of)));
            let (told, ledger) = told.await.map_err(Failure::operation)?;
            seen.tell_members(&ledger?, self.form);
            // What was typed is about what stood there then.
            if let Some(line) = typed {
                seen.choose(&line, Instant::now(), self.form);
            }
            // It is being started again, and is asked later.
            let Ok(told) = told else { continue };
            seen.refuse(created, self.form);
            seen.tell_asking(told.asking, Instant::now(), self.form);
            seen.tell_closed(told.open_for_s.is_some(), self.form);
            seen.let_in(created)?;
            if seen.members.len() <= 1 && Instant::now() >= look_at {
                if let Some(admitted) = self.look_again(created, asker, &mut seen).await? {
                    return Ok(admitted);
                }
                let is_early = began.elapsed() < EARLY;
                look_at = Instant::now() + if is_early { LOOK_AGAIN } else { LOOK_LATER };
            }
        }
    }

    /// Looks for another network, to which this one gives way: one that has members, or of two that
    /// have none the one whose keeper's name is the lesser.
    async fn look_again(
        &mut self,
        created: &Created,
        asker: &Asker,
        seen: &mut Seen,
    ) -> Outcome<Option<Admitted>> {
        // What fails now is tried again.
        let Ok(around) = asker.look(Some(created)).await else { return Ok(None) };
        for found in around.networks {
            if seen.others.contains(&found.keeper) {
                continue;
            }
            let gives_way = found.offer.has_members || found.keeper < created.keeper;
            if !gives_way || (self.people.is_none() && !self.arguments.trust_lan) {
                // Whoever gives way to this one gets the time to ask.
                let is_new = seen.met.insert(found.keeper);
                if gives_way || (!is_new && seen.asking.is_empty()) {
                    seen.others.insert(found.keeper);
                    self.form.print(&Told::another(&found));
                }
                continue;
            }
            seen.others.insert(found.keeper);
            // One at a time: each is a try of somebody's who may be in between.
            return match self.ask(found, asker).await {
                Ok(admitted) => Ok(admitted),
                Err(failure) => {
                    let said = format!("the other network does not let this host in: {failure}");
                    self.form.say(&said);
                    Ok(None)
                }
            };
        }
        Ok(None)
    }

    /// What this host is called: as it is told, or as its system calls it.
    fn label(&self) -> PublishedLabel {
        let usual = || {
            let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            label_of(&name)
        };
        self.arguments.own.clone().unwrap_or_else(usual)
    }
}

/// What is done about what was found.
enum Choice {
    Join(Box<Found>),
    /// By a router that lets everybody in, as a node without a network.
    Router,
    Make,
}

impl Seen {
    fn of(created: &Created, is_open: bool) -> Outcome<Self> {
        let ledger = Ledger::read(&created.folder)?;
        Ok(Self {
            asking: Vec::new(),
            changed_at: None,
            members: ledger.members().iter().map(|it| it.name).collect(),
            chosen: None,
            refused: None,
            told_no: HashSet::new(),
            met: HashSet::new(),
            others: HashSet::new(),
            is_open,
        })
    }

    fn tell_members(&mut self, ledger: &Ledger, form: Form) {
        for member in ledger.members() {
            if self.members.insert(member.name) {
                form.print(&Told::Came(member.label.clone(), ledger.members().len()));
            }
        }
        self.members.retain(|name| ledger.member(*name).is_some());
    }

    fn tell_asking(&mut self, asking: Vec<Asking>, now: Instant, form: Form) {
        let numbers = |of: &[Asking]| of.iter().map(|it| it.number.clone()).collect::<Vec<_>>();
        if numbers(&asking) != numbers(&self.asking) {
            self.changed_at = Some(now);
        }
        let is_new = |it: &&Asking| self.asking.iter().all(|other| other.number != it.number);
        // Whoever comes in unseen is told of when he is in.
        if !self.is_open {
            asking.iter().filter(is_new).for_each(|it| form.print(&Told::Asks(it.clone())));
        }
        for before in &self.asking {
            let is_gone = asking.iter().all(|it| it.number != before.number);
            let is_member = self.members.contains(&before.name);
            if is_gone && !self.told_no.remove(&before.number) && !is_member {
                form.print(&Told::Gone(before.label.clone()));
            }
        }
        self.asking = asking;
    }

    fn tell_closed(&mut self, is_open: bool, form: Form) {
        if self.is_open && !is_open {
            form.print(&Told::Closed(self.members.len()));
        }
        self.is_open = self.is_open && is_open;
    }

    /// A yes or a no is for the only one who asks, if that has stood there for long enough to be
    /// read; a number is a yes for whoever's it is, and behind an `n` a no.
    fn choose(&mut self, line: &str, now: Instant, form: Form) {
        if line.trim().is_empty() && (self.chosen.is_some() || self.is_open) {
            return;
        }
        let (refuses, number) = match line.trim().strip_prefix(['n', 'N']) {
            Some(rest) => (true, rest),
            None => (is_no(line), line),
        };
        let typed = digits(number);
        let is_number = number.chars().all(|it| it.is_ascii_digit() || it.is_whitespace());
        let mut with_number =
            self.asking.iter().filter(|it| is_number && digits(&it.number) == typed);
        let is_read = self.changed_at.is_some_and(|at| now >= at + READ_WITHIN);
        let found = match (&self.asking[..], is_yes(line) || is_no(line)) {
            ([one], true) if is_read => Some(one),
            ([_, ..], true) => {
                form.say(
                    "who asks has just changed, or several do: type the number that stands on the right one's screen, or \
                     n and the number of one that is to be told no",
                );
                None
            }
            // Of two with one number nobody knows which is meant.
            (_, false) => with_number.next().filter(|_| with_number.next().is_none()),
            ([], true) => None,
        };
        // Who was told no asks again, under another number.
        let is_over = |it: &&Asking| self.told_no.contains(&it.number);
        let Some(found) = found.filter(|it| !is_over(it)).cloned() else { return };
        if refuses {
            self.chosen = self.chosen.take().filter(|it| it.number != found.number);
            self.refused = Some(found);
            return;
        }
        if !found.agreed {
            form.print(&Told::NotAgreed(found.label.clone()));
        }
        self.chosen = Some(found);
    }

    /// Tells no to whom people say it.
    fn refuse(&mut self, created: &Created, form: Form) {
        let Some(refused) = self.refused.take() else { return };
        match decline(created, &refused) {
            Ok(()) => {
                form.print(&Told::Declined(refused.label));
                self.told_no.insert(refused.number);
            }
            Err(failure) => form.say(&failure.to_string()),
        }
    }

    /// Lets in who was chosen, once its own people have agreed.
    fn let_in(&mut self, created: &Created) -> Outcome {
        let Some(chosen) = &self.chosen else { return Ok(()) };
        let is_it = |it: &&Asking| it.number == chosen.number && it.name == chosen.name;
        match self.asking.iter().find(is_it) {
            None => self.chosen = None,
            Some(it) if it.agreed => {
                admitting::let_in(created, it)?;
                self.chosen = None;
            }
            Some(_) => {}
        }
        Ok(())
    }
}

fn several(networks: &[Found]) -> Failure {
    let each = |it: &Found| {
        format!("{} at {} (fingerprint {})", it.offer.network, it.host, it.fingerprint())
    };
    let all: Vec<String> = networks.iter().map(each).collect();
    Failure::setup_text(format!(
        "several networks are on this LAN; say which, rhumb up --lan FINGERPRINT: {}",
        all.join(", ")
    ))
}

/// A label of a host's name; `host` if nothing of that can be one.
fn label_of(name: &str) -> PublishedLabel {
    let first = name.trim().split('.').next().unwrap_or_default().to_ascii_lowercase();
    let fit = |it: char| if it.is_ascii_alphanumeric() || it == '_' { it } else { '-' };
    let fit: String = first.chars().map(fit).collect();
    let fit = fit.trim_start_matches(['-', '_']);
    let fit = &fit[..fit.len().min(PublishedLabel::MAX_LEN)];
    match fit.parse() {
        Ok(label) if fit != "localhost" => label,
        _ => "host".parse().expect("invariant: it is a label"),
    }
}

fn runtime() -> Outcome<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Failure::operation)
}

/// Whoever is trusted unseen has been told to type `rhumb up` by then.
const OPEN_FOR: Duration = Duration::from_secs(600);
/// As long as the keeper waits.
const AGREE_WITHIN: Duration = Duration::from_secs(180);
/// Until who asks is told of.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// So long a request has to stand on the screen before a yes can be about it.
const READ_WITHIN: Duration = Duration::from_secs(1);
/// Two that were begun at one time see each other soon.
const LOOK_FIRST: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_secs(4);
/// Later only a link that was down, or joined to another one, brings another network.
const LOOK_LATER: Duration = Duration::from_secs(60);
const EARLY: Duration = Duration::from_secs(60);
/// What tells two apart. A liar can make a name that begins as another does; then both fit, and
/// neither is taken.
const LEAST_FINGERPRINT: usize = Name::SHORT_LEN;

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(name: u8, number: &str) -> Asking {
        let (label, number) = ("desk".parse().unwrap(), number.to_owned());
        let address = "10.9.0.2".to_owned();
        Asking { name: Name([name; 32]), label, number, address, agreed: false }
    }

    fn seen() -> Seen {
        Seen {
            asking: Vec::new(),
            changed_at: None,
            members: HashSet::new(),
            chosen: None,
            refused: None,
            told_no: HashSet::new(),
            met: HashSet::new(),
            others: HashSet::new(),
            is_open: false,
        }
    }

    #[test]
    fn a_yes_is_for_what_has_been_read_and_a_number_for_one() {
        let now = Instant::now();
        let mut seen = seen();
        let form = Form::Json;
        let chosen = |seen: &mut Seen, line: &str, at: Duration| {
            seen.choose(line, now + at, form);
            seen.refused = None;
            seen.chosen.take().map(|it| it.name)
        };
        let (soon, later) = (READ_WITHIN / 2, READ_WITHIN * 3);
        assert_eq!(chosen(&mut seen, "y", later), None);
        seen.tell_asking(vec![asking(1, "111 111")], now, form);
        assert_eq!(chosen(&mut seen, "y", soon), None, "nobody has read it");
        assert_eq!(chosen(&mut seen, "y", later), Some(Name([1; 32])));
        assert_eq!(chosen(&mut seen, "111111", soon), Some(Name([1; 32])));
        for other in ["n", "", "111 112", "0", "n 111 111", "x 111 111"] {
            assert_eq!(chosen(&mut seen, other, later), None, "{other}");
        }
        // The first one leaves as somebody else comes, in the moment in which people say yes.
        seen.tell_asking(vec![asking(2, "222 222")], now + later, form);
        assert_eq!(chosen(&mut seen, "y", later + soon), None);
        seen.tell_asking(vec![asking(2, "222 222"), asking(3, "333 333")], now, form);
        assert_eq!(chosen(&mut seen, "y", later), None);
        assert_eq!(chosen(&mut seen, "333 333", later), Some(Name([3; 32])));
        seen.tell_asking(vec![asking(2, "222 222"), asking(3, "222 222")], now, form);
        assert_eq!(chosen(&mut seen, "222 222", later), None, "of two nobody knows which");
    }

    #[test]
    fn a_no_is_for_what_has_been_read_and_takes_a_yes_back() {
        let (now, form) = (Instant::now(), Form::Json);
        let mut seen = seen();
        let refused = |seen: &mut Seen, line: &str, at: Duration| {
            seen.choose(line, now + at, form);
            seen.refused.take().map(|it| it.name)
        };
        let (soon, later) = (READ_WITHIN / 2, READ_WITHIN * 3);
        assert_eq!(refused(&mut seen, "n", later), None);
        seen.tell_asking(vec![asking(1, "111 111")], now, form);
        assert_eq!(refused(&mut seen, "n", soon), None, "nobody has read it");
        for no in ["n", "No", "", "n 111 111", "N111111"] {
            assert_eq!(refused(&mut seen, no, later), Some(Name([1; 32])), "{no}");
        }
        for other in ["y", "n 111 112", "nothing", "x", "111 112"] {
            assert_eq!(refused(&mut seen, other, later), None, "{other}");
        }
        // A key that is pressed once more takes nothing back that was said; a no does.
        seen.choose("y", now + later, form);
        assert_eq!(refused(&mut seen, "", later), None);
        assert!(seen.chosen.is_some());
        assert_eq!(refused(&mut seen, "n", later), Some(Name([1; 32])));
        assert!(seen.chosen.is_none());
        seen.tell_asking(vec![asking(1, "111 111"), asking(3, "333 333")], now, form);
        assert_eq!(refused(&mut seen, "n", later), None, "nobody knows which");
        assert_eq!(refused(&mut seen, "n 333 333", later), Some(Name([3; 32])));
        seen.told_no.insert("333 333".to_owned());
        seen.choose("333 333", now + later, form);
        assert!(seen.chosen.is_none(), "it was told no");
        // Of whom nothing is shown nobody has read anything.
        seen.is_open = true;
        seen.tell_asking(vec![asking(4, "444 444")], now, form);
        assert_eq!(refused(&mut seen, "", later), None);
    }

    #[test]
    fn a_hosts_name_gives_a_label_whatever_it_is() {
        for (name, label) in [
            ("Kitchen.example.net\n", "kitchen"),
            ("bob's laptop", "bob-s-laptop"),
            ("", "host"),
            ("localhost.localdomain", "host"),
            ("-_-", "host"),
            ("käse", "k-se"),
            ("a-host-with-a-name-of-more-than-32-letters", "a-host-with-a-name-of-more-than-"),
        ] {
            assert_eq!(label_of(name).as_str(), label, "{name}");
        }
    }
}
