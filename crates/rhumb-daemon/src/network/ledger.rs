//! The keeper's ledger, `members.toml`: whom it has invited, and who is a member.
//!
//! INVARIANT: an invitation admits one name. That it is used is on disk before anybody hears of it,
//! and the ledger is replaced as a whole, under a lock, so that of two who come at once one wins.
//! Of an invitation the ledger holds what proofs are made with, and not its secret.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use data_encoding::HEXLOWER;
use rhumb_trust::invitation::{ID_LEN, InvitationKey};
use rhumb_wire::admission::{Refusal, Welcome};
use rhumb_wire::{Name, PublishedLabel, Rights, Role};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{Folder, folder};
use crate::failure::{Failure, Outcome};
use crate::remote::parse_name;
use crate::secret_file;

/// Invitations and members.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Who was a member, and of whose removal the RIB has not been told yet.
    removed: Vec<Name>,
    invitations: Vec<Invited>,
    members: Vec<Member>,
}

/// An invitation, as the keeper has it.
#[derive(Debug)]
pub struct Invited {
    key: InvitationKey,
    /// What whoever comes is called.
    pub label: PublishedLabel,
    /// As what he comes.
    pub rank: Rank,
    /// The last second in which he may.
    pub not_after_s: u64,
    /// Who came.
    pub used_by: Option<Name>,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// What it is called.
    pub label: PublishedLabel,
    /// Who it is.
    pub name: Name,
    /// What it may do.
    pub rank: Rank,
    /// Since when.
    pub since_s: u64,
}

/// What a member may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Rank {
    /// Join, send, receive and publish names
    Member,
    /// Carry for members, as a router
    Router,
    /// What a member may, and admit others
    Keeper,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    version: u32,
    #[serde(default)]
    removed: Vec<String>,
    #[serde(default, rename = "invitation")]
    invitations: Vec<RawInvited>,
    #[serde(default, rename = "member")]
    members: Vec<RawMember>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawInvited {
    id: String,
    key: String,
    label: String,
    role: Rank,
    not_after_s: u64,
    used_by: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMember {
    label: String,
    name: String,
    role: Rank,
    since_s: u64,
}

impl Rank {
    /// What the membership gives. Members publish at the RIB, which takes strangers' words for
    /// nothing, and hear from it who was removed.
    pub(super) fn rights(self) -> Rights {
        match self {
            Self::Member => Rights::JOIN.and(Rights::PUBLISH),
            Self::Router => Rights::CARRY.and(Rights::PUBLISH),
            Self::Keeper => {
                let member = Self::Member.rights();
                member.and(Rights::CARRY).and(Rights::SERVE).and(Rights::ADMIT)
            }
        }
    }

    /// What a key has to be for.
    pub fn key_role(self) -> Role {
        match self {
            Self::Router => Role::Router,
            Self::Member | Self::Keeper => Role::Node,
        }
    }

    /// In a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Router => "router",
            Self::Keeper => "keeper",
        }
    }
}

impl Ledger {
    /// That of a network.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(folder: &Folder) -> Outcome<Self> {
        let path = folder.file(FILE);
        let text = secret_file::read(&path, "rhumb network create")?;
        Self::parse(&text)
            .map_err(|problem| Failure::setup_text(format!("file {}: {problem}", path.display())))
    }

    /// Looks into it, while nobody changes it.
    ///
    /// # Errors
    /// When the look fails, or it cannot be read.
    pub fn while_it_is_so<T>(
        folder: &Folder,
        look: impl FnOnce(&Self) -> Outcome<T>,
    ) -> Outcome<T> {
        let _lock = Self::lock(folder)?;
        look(&Self::read(folder)?)
    }

    /// Changes it, while nobody else does; a change that fails is none.
    ///
    /// # Errors
    /// When the change fails, or it cannot be read or written.
    pub fn change<T>(folder: &Folder, change: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        let _lock = Self::lock(folder)?;
        let mut ledger = Self::read(folder)?;
        let changed = change(&mut ledger)?;
        folder::replace(&folder.file(FILE), &ledger.emit())?;
        Ok(changed)
    }

    /// Others wait until what is returned is dropped.
    fn lock(folder: &Folder) -> Outcome<File> {
        let mut lock = OpenOptions::new();
        lock.write(true).create(true).truncate(false).mode(0o600);
        let lock = lock.open(folder.file(LOCK)).map_err(|error| failed(folder, &error))?;
        lock.lock().map_err(|error| failed(folder, &error))?;
        Ok(lock)
    }

    pub(super) fn write_first(&self, folder: &Folder) -> Outcome {
        secret_file::create(&folder.file(FILE), &self.emit())
    }

    /// Where it is, for who looks whether it has changed.
    pub(super) fn look(folder: &Folder) -> Option<secret_file::Look> {
        secret_file::look(&folder.file(FILE)).ok()
    }

    /// All members.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Invitations that nobody has used, and that are not over.
    pub fn open(&self, now_s: u64) -> impl Iterator<Item = &Invited> {
        self.invitations.iter().filter(move |it| it.used_by.is_none() && it.not_after_s >= now_s)
    }

    /// The member of this name.
    pub fn member(&self, name: Name) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }

    /// Who is called so.
    pub fn called(&self, label: &PublishedLabel) -> Option<&Member> {
        self.members.iter().find(|member| member.label == *label)
    }

    /// What all are called.
    pub fn labels(&self) -> BTreeMap<PublishedLabel, Name> {
        self.members.iter().map(|it| (it.label.clone(), it.name)).collect()
    }

    /// What proofs about an invitation are made with, if there is one of this id.
    pub(super) fn key(&self, id: [u8; ID_LEN]) -> Option<InvitationKey> {
        let key = &self.invitations.iter().find(|it| it.key.id() == id)?.key;
        Some(InvitationKey::from_parts(id, *key.secret_bytes()))
    }

    pub(super) fn add(&mut self, label: PublishedLabel, name: Name, rank: Rank, since_s: u64) {
        self.members.push(Member { label, name, rank, since_s });
    }

    /// Enters an invitation; what is long over is forgotten.
    ///
    /// # Errors
    /// When somebody else is called so, or the network is full.
    pub fn invite(
        &mut self,
        key: InvitationKey,
        label: &PublishedLabel,
        rank: Rank,
        not_after_s: u64,
        now_s: u64,
    ) -> Outcome {
        if let Some(member) = self.called(label) {
            return Err(Failure::setup_text(format!(
                "{label} is a member already ({}); choose another --as, or first: rhumb network remove {label}",
                member.name.short()
            )));
        }
        self.invitations.retain(|it| it.not_after_s.saturating_add(KEPT_S) >= now_s);
        // Whoever is invited again has lost the first code: that one is worth nothing from now on.
        self.invitations.retain(|it| it.used_by.is_some() || it.label != *label);
        self.check_room(now_s)?;
        let label = label.clone();
        self.invitations.push(Invited { key, label, rank, not_after_s, used_by: None });
        Ok(())
    }

    /// Admits `name`, whose key is for `role`, by the invitation of this id, whose secret it has
    /// proven to know.
    ///
    /// # Errors
    /// Why not: then nothing is changed.
    pub(super) fn admit(
        &mut self,
        id: [u8; ID_LEN],
        name: Name,
        role: Role,
        now_s: u64,
    ) -> Result<Member, Refusal> {
        let invited = self.invitations.iter_mut().find(|it| it.key.id() == id);
        let invited = invited.ok_or(Refusal::Expired)?;
        match invited.used_by {
            // Its answer was lost, or came and was not kept.
            Some(by) if by == name => return self.member(name).cloned().ok_or(Refusal::NoMember),
            Some(_) => return Err(Refusal::Used),
            None if invited.not_after_s < now_s => return Err(Refusal::Expired),
            None if invited.rank.key_role() != role => {
                return Err(Refusal::OtherRole(invited.rank.key_role()));
            }
            None if self.members.iter().any(|member| member.name == name) => {
                return Err(Refusal::Member);
            }
            None => invited.used_by = Some(name),
        }
        let (label, rank) = (invited.label.clone(), invited.rank);
        self.has_told(name);
        self.add(label, name, rank, now_s);
        self.member(name).cloned().ok_or(Refusal::Failed)
    }

    /// Admits `name` to `network` by the word of whoever keeps it, and not by an invitation: as
    /// `wanted`, or with a number behind it if that is somebody else's label.
    ///
    /// # Errors
    /// When the network is full.
    pub fn let_in(
        &mut self,
        name: Name,
        wanted: &PublishedLabel,
        network: &PublishedLabel,
        now_s: u64,
    ) -> Outcome<Member> {
        if let Some(member) = self.member(name) {
            return Ok(member.clone());
        }
        self.check_room(now_s)?;
        let label = self.free(wanted, network, now_s);
        self.has_told(name);
        self.add(label, name, Rank::Member, now_s);
        let member = self.members.last().expect("invariant: one was entered");
        Ok(member.clone())
    }

    /// What somebody can be called in `network` who wants to be called `wanted`.
    pub fn free(
        &self,
        wanted: &PublishedLabel,
        network: &PublishedLabel,
        now_s: u64,
    ) -> PublishedLabel {
        numbered(wanted, |label| {
            label != network
                && self.called(label).is_none()
                && self.open(now_s).all(|invited| invited.label != *label)
        })
    }

    /// Whether nobody but this host is in it, was, or is invited.
    pub fn is_alone(&self, now_s: u64) -> bool {
        self.members.len() <= 1 && self.removed.is_empty() && self.open(now_s).next().is_none()
    }

    fn check_room(&self, now_s: u64) -> Outcome {
        if self.members.len() + self.open(now_s).count() < Welcome::MAX_MEMBERS {
            return Ok(());
        }
        Err(Failure::setup_text(format!(
            "a network has up to {} members; remove some, or make a domain: rhumb domain create",
            Welcome::MAX_MEMBERS
        )))
    }

    /// Who was removed, and of whom the RIB is to be told.
    pub(super) fn removed(&self) -> &[Name] {
        &self.removed
    }

    /// The RIB knows that `name` was removed.
    pub(super) fn has_told(&mut self, name: Name) {
        self.removed.retain(|removed| *removed != name);
    }

    /// Strikes a member off; its invitation stays used.
    ///
    /// # Errors
    /// When nobody is called so.
    pub fn remove(&mut self, label: &PublishedLabel) -> Outcome<Member> {
        let at = self.members.iter().position(|member| member.label == *label);
        let at = at.ok_or_else(|| {
            Failure::setup_text(format!("nobody is called {label} there: rhumb network show"))
        })?;
        let member = self.members.remove(at);
        self.removed.push(member.name);
        Ok(member)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let raw: Raw = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        if raw.version != VERSION {
            return Err(format!("it has version {}, and this rhumb reads {VERSION}", raw.version));
        }
        let label = |text: &str| text.parse().map_err(|_| format!("`{text}` is no label"));
        let invitations = raw.invitations.iter().map(|raw| {
            let used_by = raw.used_by.as_deref().map(parse_name).transpose()?;
            Ok(Invited {
                key: InvitationKey::from_parts(bytes(&raw.id)?, bytes(&raw.key)?),
                label: label(&raw.label)?,
                rank: raw.role,
                not_after_s: raw.not_after_s,
                used_by,
            })
        });
        let members = raw.members.iter().map(|raw| {
            let (name, rank, since_s) = (parse_name(&raw.name)?, raw.role, raw.since_s);
            Ok(Member { label: label(&raw.label)?, name, rank, since_s })
        });
        let removed = raw.removed.iter().map(|name| parse_name(name));
        Ok(Self {
            removed: removed.collect::<Result<_, String>>()?,
            invitations: invitations.collect::<Result<_, String>>()?,
            members: members.collect::<Result<_, String>>()?,
        })
    }

    fn emit(&self) -> Zeroizing<String> {
        let invitations = self.invitations.iter().map(|it| RawInvited {
            id: HEXLOWER.encode(&it.key.id()),
            key: HEXLOWER.encode(it.key.secret_bytes()),
            label: it.label.to_string(),
            role: it.rank,
            not_after_s: it.not_after_s,
            used_by: it.used_by.map(|name| name.to_string()),
        });
        let members = self.members.iter().map(|it| RawMember {
            label: it.label.to_string(),
            name: it.name.to_string(),
            role: it.rank,
            since_s: it.since_s,
        });
        let raw = Raw {
            version: VERSION,
            removed: self.removed.iter().map(Name::to_string).collect(),
            invitations: invitations.collect(),
            members: members.collect(),
        };
        let text = toml::to_string(&raw).expect("invariant: all of it is text and numbers");
        format!("{HEAD}{text}").into()
    }
}

/// The label, or the first of LABEL-2, LABEL-3 and so on, that is free.
pub(super) fn numbered(
    wanted: &PublishedLabel,
    is_free: impl Fn(&PublishedLabel) -> bool,
) -> PublishedLabel {
    let mut number = 1u32;
    let mut label = wanted.clone();
    while !is_free(&label) {
        number += 1;
        let end = format!("-{number}");
        let most = PublishedLabel::MAX_LEN - end.len();
        let kept = &wanted.as_str()[..wanted.as_str().len().min(most)];
        // What begins as a label and goes on with a number is one.
        label = format!("{kept}{end}").parse().expect("invariant: letters, and a number");
    }
    label
}

fn failed(folder: &Folder, error: &io::Error) -> Failure {
    Failure::operation_text(format!("file {}: {error}", folder.file(FILE).display()))
}

fn bytes<const N: usize>(hex: &str) -> Result<[u8; N], String> {
    let bytes = HEXLOWER.decode(hex.as_bytes()).ok().and_then(|it| it.try_into().ok());
    bytes.ok_or_else(|| format!("{N} bytes in hex are expected"))
}

const VERSION: u32 = 1;
const FILE: &str = "members.toml";
const LOCK: &str = "members.lock";
const HEAD: &str =
    "# Whom this network's keeper has invited, and who is a member: rhumb network show.\n";
/// Whoever comes late is told why for so long.
const KEPT_S: u64 = 90 * 86_400;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_trust::invitation::{Host, Invitation};

    const NOW_S: u64 = 1_000_000;
    const A: Name = Name([1; 32]);
    const B: Name = Name([2; 32]);

    fn label(text: &str) -> PublishedLabel {
        text.parse().unwrap()
    }

    fn invite(ledger: &mut Ledger, text: &str, rank: Rank) -> [u8; ID_LEN] {
        let invitation = Invitation::generate(Host::parse("::1").unwrap(), 1).unwrap();
        let id = invitation.key().id();
        ledger.invite(invitation.key(), &label(text), rank, NOW_S + 60, NOW_S).unwrap();
        id
    }

    #[test]
    fn an_invitation_admits_one_name_once_and_tells_it_so_again() {
        let mut ledger = Ledger::default();
        let id = invite(&mut ledger, "alice", Rank::Member);
        let first = ledger.admit(id, A, Role::Node, NOW_S).unwrap();
        assert_eq!((first.label.as_str(), first.name), ("alice", A));
        assert_eq!(ledger.admit(id, A, Role::Node, NOW_S), Ok(first.clone()));
        assert_eq!(ledger.admit(id, B, Role::Node, NOW_S), Err(Refusal::Used));
        // As it is read again, and long after.
        let mut ledger = Ledger::parse(&ledger.emit()).unwrap();
        assert_eq!(ledger.admit(id, B, Role::Node, NOW_S), Err(Refusal::Used));
        assert_eq!(ledger.admit(id, A, Role::Node, NOW_S + 999), Ok(first));
        // Whoever was removed does not come back by the same code.
        ledger.remove(&label("alice")).unwrap();
        assert_eq!(ledger.admit(id, A, Role::Node, NOW_S), Err(Refusal::NoMember));
    }

    #[test]
    fn an_invitation_ends_and_is_for_one_kind_of_key() {
        let mut ledger = Ledger::default();
        let id = invite(&mut ledger, "carrier", Rank::Router);
        let other = Err(Refusal::OtherRole(Role::Router));
        assert_eq!(ledger.admit(id, A, Role::Node, NOW_S), other);
        assert_eq!(ledger.admit(id, A, Role::Router, NOW_S + 61), Err(Refusal::Expired));
        assert_eq!(ledger.admit([0; ID_LEN], A, Role::Router, NOW_S), Err(Refusal::Expired));
        assert!(ledger.members().is_empty(), "nothing was spent");
        assert!(ledger.admit(id, A, Role::Router, NOW_S + 60).is_ok());
        let second = invite(&mut ledger, "again", Rank::Router);
        assert_eq!(ledger.admit(second, A, Role::Router, NOW_S), Err(Refusal::Member));
    }

    #[test]
    fn a_second_invitation_of_a_label_takes_the_place_of_the_first() {
        let mut ledger = Ledger::default();
        let first = invite(&mut ledger, "alice", Rank::Member);
        let second = invite(&mut ledger, "alice", Rank::Member);
        assert!(ledger.key(first).is_none());
        ledger.admit(second, A, Role::Node, NOW_S).unwrap();
        let key = Invitation::generate(Host::parse("::1").unwrap(), 1).unwrap().key();
        let refused = ledger.invite(key, &label("alice"), Rank::Member, NOW_S, NOW_S).unwrap_err();
        assert!(refused.to_string().contains("rhumb network remove alice"), "{refused}");
    }

    #[test]
    fn a_network_is_bounded_and_what_is_long_over_is_forgotten() {
        let mut ledger = Ledger::default();
        let old = invite(&mut ledger, "old", Rank::Member);
        for number in 1..Welcome::MAX_MEMBERS {
            ledger.add(label(&format!("m{number}")), Name([0; 32]), Rank::Member, 1);
        }
        let key = || Invitation::generate(Host::parse("::1").unwrap(), 1).unwrap().key();
        let full = ledger.invite(key(), &label("new"), Rank::Member, NOW_S + 60, NOW_S);
        assert!(full.unwrap_err().to_string().contains("up to 1000 members"));
        let later_s = NOW_S + 61;
        ledger.invite(key(), &label("new"), Rank::Member, later_s, later_s).unwrap();
        assert!(ledger.key(old).is_some(), "who comes late is told why");
        ledger.invitations.retain(|it| it.label.as_str() == "old");
        let later_s = NOW_S + 61 + KEPT_S;
        ledger.invite(key(), &label("new"), Rank::Member, later_s, later_s).unwrap();
        assert!(ledger.key(old).is_none());
    }

    #[test]
    fn whoever_is_let_in_takes_no_label_that_stands_for_somebody() {
        let (home, alice) = (label("home"), label("alice"));
        let mut ledger = Ledger::default();
        invite(&mut ledger, "alice-2", Rank::Member);
        assert!(!ledger.is_alone(NOW_S), "somebody is invited");
        ledger.add(alice.clone(), A, Rank::Member, NOW_S);
        let second = ledger.let_in(B, &alice, &home, NOW_S).unwrap();
        assert_eq!((second.label.as_str(), second.rank), ("alice-3", Rank::Member));
        // As before, however often.
        assert_eq!(ledger.let_in(B, &label("x"), &home, NOW_S).unwrap(), second);
        assert_eq!(ledger.members().len(), 2);
        let named = ledger.let_in(Name([3; 32]), &home, &home, NOW_S).unwrap();
        assert_eq!(named.label.as_str(), "home-2", "the network is called so");
        let long = label(&"a".repeat(PublishedLabel::MAX_LEN));
        ledger.let_in(Name([4; 32]), &long, &home, NOW_S).unwrap();
        let longer = ledger.let_in(Name([5; 32]), &long, &home, NOW_S).unwrap();
        assert_eq!(longer.label.as_str(), format!("{}-2", "a".repeat(30)));
        // A network has an end, whoever asks.
        while ledger.members.len() < Welcome::MAX_MEMBERS {
            ledger.add(label("m"), Name([0; 32]), Rank::Member, 1);
        }
        assert!(ledger.let_in(Name([6; 32]), &label("late"), &home, NOW_S).is_err());
    }

    #[test]
    fn a_ledger_that_is_damaged_is_refused() {
        assert!(Ledger::parse("version = 2\n").unwrap_err().contains("version 2"));
        let wrong = "version = 1\n[[member]]\nlabel = \"A\"\nname = \"x\"\nrole = \"member\"\nsince_s = 1\n";
        assert!(Ledger::parse(wrong).unwrap_err().contains("`x` is not a name"));
        assert!(Ledger::parse("version = 1\nmore = 2\n").is_err());
    }
}
