//! How many names a member may have at a RIB, by what it shows: together with all whom its giver
//! admitted, over sessions, memberships shown in turns, and restarts.

use std::sync::Arc;

use rhumb_rib::store::{Embedded, Store};
use rhumb_rib::{Account, Config, NameLimits};
use rhumb_trust::{Access, Identity, Membership, Rule, Standing, Window};
use rhumb_wire::rib::{Refusal, RibRequestBody, RibResponseBody};
use rhumb_wire::{Limits, Name, Rights, Role};

use crate::world::net::Net;
use crate::world::{Directory, Holder, NOW_S};

const VIA: Name = Name([1; 32]);
const FULL: Result<(), Refusal> = Err(Refusal::QuotaExceeded);

/// A domain, a site that it admitted to admit others, with names for so many, and what the site
/// says of whom it admits.
struct Site {
    domain: Holder,
    site: Holder,
    own: Membership,
}

impl Site {
    fn new(names: u32) -> Self {
        let (domain, site) = (Holder::of(Role::Domain), Holder::new());
        let own = admit((&domain, None), site.name(), names);
        Self { domain, site, own }
    }

    fn admit(&self, member: Name, names: u32) -> Membership {
        admit((&self.site, Some(&self.own)), member, names)
    }
}

fn admit((issuer, by): (&Holder, Option<&Membership>), member: Name, names: u32) -> Membership {
    let window = Window::starting(NOW_S, 24 * 3600);
    let rights = Rights::PUBLISH.and(Rights::ADMIT);
    let limits = Limits { names, ..Limits::NONE };
    Membership::sign_within(limits, (&issuer.0, by), member, rights, 1, window).expect("no wider")
}

/// Publishes the names of holders as whoever shows a membership.
fn tell<S: Store>(
    directory: &mut Directory<S>,
    shown: &Membership,
    holder: &Holder,
    sequence: u64,
) -> Result<(), Refusal> {
    directory.limits = NameLimits::of(shown);
    directory.publish_as(shown.member(), &[holder], vec![holder.route(VIA, sequence)])
}

#[test]
fn keys_that_a_member_admits_share_its_names() {
    let site = Site::new(5);
    let mut directory = Directory::new();
    let members: Vec<Membership> = (0..20).map(|_| site.admit(Holder::new().name(), 3)).collect();
    let holders = Holder::line(40);
    let taken = members.iter().zip(holders.chunks(2)).map(|(member, two)| {
        two.iter().filter(|it| tell(&mut directory, member, it, 1).is_ok()).count()
    });
    assert_eq!(taken.sum::<usize>(), 5);
    assert_eq!(tell(&mut directory, &site.own, &Holder::new(), 1), FULL, "nor the site itself");
    // What is there is renewed; it moves below the same giver, and to others below another one.
    assert_eq!(tell(&mut directory, &members[0], &holders[0], 2), Ok(()));
    assert_eq!(tell(&mut directory, &members[7], &holders[0], 3), Ok(()));
    let (other, free) = (Site::new(5), Holder::new());
    assert_eq!(tell(&mut directory, &other.admit(free.name(), 5), &holders[0], 4), Ok(()));
    assert_eq!(tell(&mut directory, &members[9], &Holder::new(), 1), Ok(()));
    assert_eq!(tell(&mut directory, &members[9], &Holder::new(), 1), FULL);
    assert_eq!(tell(&mut directory, &members[9], &holders[0], 5), FULL, "it does not come back");
    let refused = directory.rib.refused().find(|it| it.name == members[9].member()).unwrap();
    assert_eq!(refused.why, Refusal::QuotaExceeded);
}

#[test]
fn what_counts_is_what_is_shown_and_what_it_has_stays_counted() {
    let (site, member) = (Site::new(100), Holder::new());
    let [narrow, wide] = [3, 6].map(|names| site.admit(member.name(), names));
    let mut directory = Directory::new();
    let holders = Holder::line(10);
    let taken = |directory: &mut Directory<crate::Usual>, shown: &Membership, sequence| {
        holders.iter().filter(|it| tell(directory, shown, it, sequence).is_ok()).count()
    };
    assert_eq!(tell(&mut directory, &narrow, &member, 1), Ok(()));
    assert_eq!(taken(&mut directory, &narrow, 1), 2, "three with its own");
    assert_eq!(taken(&mut directory, &wide, 2), 5);
    // Now it shows the narrow one again: nothing is renewed but its own name, and what it takes
    // back is taken back.
    assert_eq!(taken(&mut directory, &narrow, 3), 0);
    assert_eq!(tell(&mut directory, &narrow, &member, 2), Ok(()));
    let back = holders[0].withdrawal(4);
    assert_eq!(directory.publish_as(member.name(), &[&holders[0]], vec![back]), Ok(()));
    assert!(directory.found(holders[0].name()).is_empty());
}

/// What is withdrawn counts on nobody's limit. One that is older than what holds withdraws nothing:
/// brought by somebody who has no room, it would take what holds off the account that it is on.
#[test]
fn an_older_withdrawal_takes_nothing_off_an_account() {
    let (site, helper) = (Site::new(3), Site::new(1));
    let (member, free) = (site.admit(Holder::new().name(), 3), Holder::new());
    let helping = helper.admit(free.name(), 1);
    let mut directory = Directory::new();
    assert_eq!(tell(&mut directory, &helping, &free, 1), Ok(()));
    let holders = Holder::line(3);
    for holder in &holders {
        assert_eq!(tell(&mut directory, &member, holder, 10), Ok(()));
        directory.limits = NameLimits::of(&helping);
        let old = holder.withdrawal(5);
        assert_eq!(directory.publish_as(free.name(), &[holder], vec![old]), FULL);
    }
    assert_eq!(tell(&mut directory, &member, &Holder::new(), 1), FULL);
    // One that withdraws is always taken.
    directory.limits = NameLimits::of(&helping);
    let newer = holders[0].withdrawal(11);
    assert_eq!(directory.publish_as(free.name(), &[&holders[0]], vec![newer]), Ok(()));
    assert_eq!(tell(&mut directory, &member, &Holder::new(), 1), Ok(()));
}

/// Puts a member's membership into its handshakes, and asks a RIB that keeps a file.
#[test]
fn a_member_has_no_more_by_new_sessions_and_restarts() {
    let site = Site::new(4);
    let mut config = Config::default();
    let members = Rule::of_domain(site.domain.name(), Rights::PUBLISH, Standing::Admitted);
    config.access =
        Access { rules: vec![members], otherwise: Standing::Refused, ..Access::default() };
    let mut net = Net::new();
    let rib = net.add_rib_with(&site.domain, &[], config);
    let ends: Vec<usize> = (0..3)
        .map(|number| {
            let key = Identity::generate(Role::Router, 0).unwrap();
            let shown = site.admit(key.name(), 3);
            let key = Arc::new(key.with_membership(shown).unwrap());
            net.add_end_as(key, Net::address(100 + number))
        })
        .collect();
    let taken = |net: &mut Net, end: usize, tries: usize| {
        let one = |_: &usize| {
            let holder = Holder::new();
            let certificates = vec![holder.route(VIA, 1)];
            let metadata = vec![holder.metadata()];
            let order = RibRequestBody::Publish { metadata, certificates };
            match net.ask(end, rib, order) {
                RibResponseBody::Stored => true,
                RibResponseBody::Refused(Refusal::QuotaExceeded) => false,
                other => panic!("{other:?}"),
            }
        };
        (0..tries).filter(one).count()
    };
    assert_eq!(taken(&mut net, ends[0], 5), 3, "its own limit");
    for _ in 0..2 {
        net.stop(rib);
        net.start(rib);
        assert_eq!(taken(&mut net, ends[0], 2), 0);
    }
    assert_eq!(taken(&mut net, ends[1], 3), 1, "that of who admitted both");
    net.stop(rib);
    net.start(rib);
    assert_eq!(taken(&mut net, ends[2], 3), 0);
}

#[test]
fn accounts_of_givers_are_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rib");
    let (site, member) = (Site::new(9), Holder::new());
    let shown = site.admit(member.name(), 8);
    let mut directory = Directory::over(Embedded::open(&path).unwrap(), Config::default());
    for holder in Holder::line(3) {
        assert_eq!(tell(&mut directory, &shown, &holder, 1), Ok(()));
    }
    drop(directory);
    let mut store = Embedded::open(&path).unwrap();
    assert_eq!(store.held(&Account::Below(site.site.name())).unwrap().names, 3);
    assert_eq!(store.held(&Account::Publisher(member.name())).unwrap().names, 3);
    assert_eq!(store.held(&Account::Below(member.name())).unwrap().names, 0);
}
