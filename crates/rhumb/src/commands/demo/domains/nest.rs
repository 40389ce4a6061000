//! The network of the demo of trust domains: five domains on three levels, each with a key, a RIB
//! and, inside of another one, a border router; two of them have a router inside, too:
//!
//! ```text
//! world ── sea ─── port: A
//!    └──── land ── farm: B and C
//! ```
//!
//! Keys are made here; who belongs to whom, and who stands at which border, is said by the commands
//! that anybody would use: `rhumb domain admit`, `rhumb domain delegate`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::words::Labels;
use rhumb_wire::{Name, Role};

use super::super::children::Process;
use super::super::network::{Daemon, Holder};
use super::super::patience::Patience;

/// A domain with its RIB.
pub(super) struct Domain {
    pub(super) holder: Holder,
    /// The domains around it, the nearest first.
    pub(super) around: Vec<Name>,
    pub(super) rib: Daemon,
}

/// Everything that runs. Fields are ended in this order: who depends on others first.
pub(super) struct Nest<'a> {
    /// In the port, and known outside of it by its own word.
    pub(super) a: Holder,
    /// In the farm, and known outside of it by its own word.
    pub(super) b: Holder,
    /// In the farm, and known to nobody outside.
    pub(super) c: Holder,
    pub(super) b_receives: Process,
    _c_receives: Process,
    pub(super) port_router: Daemon,
    pub(super) farm_router: Daemon,
    /// Where the sea's traffic comes in and goes out, that of its own nodes, too.
    pub(super) sea_border: Daemon,
    /// Where the land's traffic comes in and goes out.
    pub(super) land_border: Option<Daemon>,
    borders: Vec<Daemon>,
    pub(super) farm: Domain,
    pub(super) port: Domain,
    pub(super) land: Domain,
    pub(super) sea: Domain,
    pub(super) world: Domain,
    pub(super) ground: Ground<'a>,
    /// Names that nobody outside of the farm is to learn.
    pub(super) inside: Vec<Name>,
}

/// What is started with, and who there is by now.
pub(super) struct Ground<'a> {
    pub(super) folder: &'a Path,
    pub(super) patience: &'a Patience,
    pub(super) labels: Labels,
}

impl<'a> Nest<'a> {
    /// Starts all of it; B puts what it receives into `inbox`.
    pub(super) fn start(folder: &'a Path, inbox: &Path, patience: &'a Patience) -> Outcome<Self> {
        let mut ground = Ground { folder, patience, labels: Labels::default() };
        let world = ground.domain("world", "world's RIB", None)?;
        let sea = ground.domain("sea", "sea's RIB", Some(&world))?;
        let land = ground.domain("land", "land's RIB", Some(&world))?;
        let port = ground.domain("port", "port's RIB", Some(&sea))?;
        let farm = ground.domain("farm", "farm's RIB", Some(&land))?;
        let sea_border = ground.border(&sea, "sea's border")?.0;
        let mut borders = vec![ground.border(&port, "port's border")?.0];
        let land_border = Some(ground.border(&land, "land's border")?.0);
        let (farm_border, farm_border_name) = ground.border(&farm, "farm's border")?;
        borders.push(farm_border);
        let (port_router, _) = ground.interior(&port, "port's router")?;
        let (farm_router, farm_router_name) = ground.interior(&farm, "farm's router")?;

        // With the right to publish it may ask the port's RIB, which answers members only.
        let a = ground.member("A", Role::Node, &port, "join,publish")?;
        let b = ground.member("B", Role::Node, &farm, "join")?;
        let c = ground.member("C", Role::Node, &farm, "join")?;
        let receive = |node: &Holder, more: &[&OsStr]| -> Outcome<Process> {
            let plain =
                ["receive".as_ref(), "--quiet".as_ref(), "--dir".as_ref(), inbox.as_os_str()];
            let mut process = node.run(&[&plain, more].concat(), farm_router.remote)?;
            process.next_object(patience)?;
            Ok(process)
        };
        let by_farm = farm.holder.name().to_string();
        let b_receives = receive(&b, &["--export".as_ref(), by_farm.as_ref()])?;
        let c_receives = receive(&c, &[])?;
        let farm_rib = farm.rib.remote.name.unwrap_or(farm_router_name);
        Ok(Self {
            inside: vec![farm_router_name, farm_border_name, farm_rib, c.name()],
            a,
            b,
            c,
            b_receives,
            _c_receives: c_receives,
            port_router,
            farm_router,
            sea_border,
            land_border,
            borders,
            farm,
            port,
            land,
            sea,
            world,
            ground,
        })
    }

    /// From the outermost to the innermost.
    pub(super) fn domains(&self) -> [&Domain; 5] {
        [&self.world, &self.sea, &self.land, &self.port, &self.farm]
    }

    /// How many processes run by now.
    pub(super) fn processes(&self) -> usize {
        let (ribs, routers, nodes) = (self.domains().len(), self.borders.len() + 4, 2);
        ribs + routers + nodes
    }

    /// Starts a command of A, which is known outside of the port by its own word.
    pub(super) fn run_as_a(&self, arguments: &[&OsStr]) -> Outcome<Process> {
        let by = self.port.holder.name().to_string();
        let exported = [arguments, &["--export".as_ref(), by.as_ref()]].concat();
        self.a.run(&exported, self.port_router.remote)
    }

    /// As [`Nest::run_as_a`], for a command that is expected to fail.
    pub(super) fn run_as_a_silent(&self, arguments: &[&OsStr]) -> Outcome<Process> {
        let by = self.port.holder.name().to_string();
        let exported = [arguments, &["--export".as_ref(), by.as_ref()]].concat();
        self.a.run_silent(&exported, self.port_router.remote)
    }
}

impl Ground<'_> {
    /// A key, and nobody's word for it.
    pub(super) fn stranger(&mut self, label: &'static str, role: Role) -> Outcome<Holder> {
        let holder = Holder::make(label, role, self.folder)?;
        self.labels.insert(holder.name(), label);
        Ok(holder)
    }

    /// A key, and the word of `domain` for it beside it.
    pub(super) fn member(
        &mut self,
        label: &'static str,
        role: Role,
        domain: &Domain,
        rights: &str,
    ) -> Outcome<Holder> {
        let holder = self.stranger(label, role)?;
        self.admit(&holder, &domain.holder, rights)?;
        Ok(holder)
    }

    /// The word of a domain for one of its members, in the file beside its key.
    fn admit(&self, member: &Holder, domain: &Holder, rights: &str) -> Outcome {
        self.admit_by((domain, None), member, rights, "membership").map(drop)
    }

    /// The word of a group's owner for one of its members, in a file of its own.
    pub(super) fn let_take_part(
        &self,
        group: &Holder,
        member: &Holder,
        rights: &str,
    ) -> Outcome<PathBuf> {
        self.admit_by((group, None), member, rights, "group")
    }

    /// The same word, handed on by a domain that was itself let take part as this file says.
    pub(super) fn hand_on(&self, domain: &Holder, own: &Path, member: &Holder) -> Outcome<PathBuf> {
        self.admit_by((domain, Some(own)), member, "join", "group")
    }

    fn admit_by(
        &self,
        (owner, own): (&Holder, Option<&Path>),
        member: &Holder,
        rights: &str,
        extension: &str,
    ) -> Outcome<PathBuf> {
        let (name, file) = (member.name().to_string(), member.key.with_extension(extension));
        let own: Vec<&OsStr> = own.map_or(Vec::new(), |own| vec!["--as".as_ref(), own.as_ref()]);
        let admit: [&OsStr; 8] = [
            "admit".as_ref(),
            name.as_ref(),
            "--key".as_ref(),
            owner.key.as_ref(),
            "--rights".as_ref(),
            rights.as_ref(),
            "--out".as_ref(),
            file.as_ref(),
        ];
        self.say(&[&admit[..], &own].concat())?;
        Ok(file)
    }

    /// The word of a group's owner for who is at its root, in a file.
    pub(super) fn let_serve(&self, group: &Holder, server: &Holder) -> Outcome<PathBuf> {
        let (name, file) = (server.name().to_string(), group.key.with_extension("adcert"));
        self.run(&[
            "certify".as_ref(),
            "--key".as_ref(),
            group.key.as_ref(),
            "--server".as_ref(),
            name.as_ref(),
            "--out".as_ref(),
            file.as_ref(),
        ])?;
        Ok(file)
    }

    /// Runs `rhumb domain ARGUMENTS` to its end.
    fn say(&self, arguments: &[&OsStr]) -> Outcome {
        self.run(&[&["domain".as_ref()], arguments].concat())
    }

    fn run(&self, arguments: &[&OsStr]) -> Outcome {
        let mut command = Process::start("a domain's command", arguments)?;
        command.next_object(self.patience)?;
        match command.succeeds(self.patience)? {
            true => Ok(()),
            false => Err(Failure::operation_text("a domain did not sign what it was to sign")),
        }
    }

    /// A domain, with its RIB, which takes its members alone.
    fn domain(
        &mut self,
        label: &'static str,
        rib: &'static str,
        parent: Option<&Domain>,
    ) -> Outcome<Domain> {
        let holder = self.stranger(label, Role::Domain)?;
        let mut around = Vec::new();
        if let Some(parent) = parent {
            self.admit(&holder, &parent.holder, "join,carry,publish,admit")?;
            around = [&[parent.holder.name()], &parent.around[..]].concat();
        }
        let rib = self.stranger(rib, Role::Rib)?;
        self.admit(&rib, &holder, "publish")?;
        let name = holder.name().to_string();
        let store = self.folder.join(format!("{label}.redb"));
        let mut options = closed(&name);
        options.extend(["--domain".into(), (&name).into(), "--store".into(), store.into()]);
        if let Some(parent) = parent {
            options.extend(["--parent".into(), parent.rib.remote.to_string().into()]);
        }
        let rib = self.daemon(&rib, "rib", &options)?;
        Ok(Domain { holder, around, rib })
    }

    /// A router inside of `domain`, which takes its members alone.
    fn interior(&mut self, domain: &Domain, label: &'static str) -> Outcome<(Daemon, Name)> {
        let router = self.member(label, Role::Router, domain, "carry,publish")?;
        let name = domain.holder.name().to_string();
        let mut options = closed(&name);
        options.extend(["--domain".into(), name.into()]);
        options.extend(placed(domain));
        Ok((self.daemon(&router, "router", &options)?, router.name()))
    }

    /// A border router of `domain`. Whoever is outside comes to it, so it takes strangers.
    pub(super) fn border(
        &mut self,
        domain: &Domain,
        label: &'static str,
    ) -> Outcome<(Daemon, Name)> {
        let router = self.member(label, Role::Router, domain, "carry,publish")?;
        let (name, words) = (router.name().to_string(), router.key.with_extension("border"));
        let mut said: Vec<OsString> =
            ["delegate", "--to", &name, "--key"].into_iter().map(OsString::from).collect();
        said.extend([(&domain.holder.key).into(), "--out".into(), (&words).into()]);
        if let Some(parent) = domain.around.first() {
            said.extend(["--parent".into(), parent.to_string().into()]);
        }
        self.say(&said.iter().map(AsRef::as_ref).collect::<Vec<_>>())?;
        let mut options = placed(domain);
        options.extend(["--border".into(), words.into()]);
        Ok((self.daemon(&router, "router", &options)?, router.name()))
    }

    fn daemon(&self, holder: &Holder, command: &str, options: &[OsString]) -> Outcome<Daemon> {
        let options: Vec<&OsStr> = options.iter().map(AsRef::as_ref).collect();
        Daemon::start(holder, command, &options, self.patience)
    }
}

/// Options by which a daemon takes members of a domain, and nobody else.
fn closed(domain: &str) -> Vec<OsString> {
    ["--strangers", "refused", "--admit-domain", domain].map(OsString::from).to_vec()
}

/// Options that say to which RIB a router belongs, and which domains are around.
fn placed(domain: &Domain) -> Vec<OsString> {
    let around = domain.around.iter().flat_map(|it| ["--around".into(), it.to_string().into()]);
    let rib = ["--rib".into(), domain.rib.remote.to_string().into()];
    rib.into_iter().chain(around).collect()
}
