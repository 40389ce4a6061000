//! Real routers behind proxies get what a plain route
//! server with the same policies would give them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::collections::BTreeMap;
use std::path::Path;

use members::baseline::Baseline;
use members::private::{Private, proxy_address};
use members::{
    Lan, MEMBERS, Member, PATIENCE, SERVER, Table, expect_tables, expect_tables_or, oracle,
};

use rhumb_exchange::PASS;

use crate::members;

/// All members' routers, told to speak with their proxies.
fn routers(lan: &mut Lan, folder: &Path) -> Vec<Member> {
    let member = |index| Member::new(lan, index, &proxy_address(index), folder);
    (0..MEMBERS.len()).map(member).collect()
}

/// What each has from a plain route server.
fn baseline() -> Option<BTreeMap<usize, Table>> {
    let mut lan = members::lan()?;
    let folder = tempfile::tempdir().unwrap();
    let _server = Baseline::start(&mut lan, folder.path());
    let mut all: Vec<Member> = (0..MEMBERS.len())
        .map(|index| Member::new(&mut lan, index, SERVER, folder.path()))
        .collect();
    all.iter_mut().for_each(Member::start);
    let expected = oracle::tables(all.iter(), all.iter(), None);
    expect_tables("a plain route server", all.iter(), &expected);
    Some(all.iter().map(|member| (member.index, member.received())).collect())
}

#[test]
fn a_plain_route_server_gives_what_the_oracle_says() {
    let Some(tables) = baseline() else { return };
    let routes: usize = tables.values().map(BTreeMap::len).sum();
    println!("{routes} routes at {} members", tables.len());
}

/// The exchange, its proxies and routers, told to speak with them.
struct Rig {
    _lan: Lan,
    _folder: tempfile::TempDir,
    private: Private,
    all: Vec<Member>,
}

impl Rig {
    fn new(selects: bool) -> Option<Self> {
        Self::with_roster(selects, MEMBERS.len())
    }

    /// With the first so many members in the roster.
    fn with_roster(selects: bool, members: usize) -> Option<Self> {
        let mut lan = members::lan()?;
        let folder = tempfile::tempdir().unwrap();
        let mut private = Private::new(&mut lan, selects);
        private.write_roster(members, None);
        [2, 1, 0].into_iter().for_each(|server| private.start_server(server));
        let all = routers(&mut lan, folder.path());
        Some(Self { _lan: lan, _folder: folder, private, all })
    }

    fn start(&mut self, index: usize) {
        self.private.start_proxy(index);
        self.all[index].start();
    }

    /// These members have what they should have of what these announce.
    #[track_caller]
    fn expect(&self, what: &str, receivers: &[usize], announcers: &[usize], load: Option<&[u32]>) {
        let begin = std::time::Instant::now();
        let of = |indices: &[usize]| -> Vec<&Member> {
            indices.iter().map(|index| &self.all[*index]).collect()
        };
        let receivers = of(receivers);
        let expected = oracle::tables(receivers.iter().copied(), of(announcers).into_iter(), load);
        // What was chosen by load before the last router came stands until its turn in the next
        // pass, which may be the whole of the present one away.
        let patience = if load.is_some() { 2 * PASS + PATIENCE } else { PATIENCE };
        let context = || self.private.logs();
        expect_tables_or(what, receivers.into_iter(), &expected, patience, context);
        println!("{what}: after {:.1} s", begin.elapsed().as_secs_f32());
    }
}

const ALL: [usize; 6] = [0, 1, 2, 3, 4, 5];
const BUT_LAST: [usize; 5] = [0, 1, 2, 3, 4];

#[test]
fn behind_proxies_routers_get_what_a_plain_route_server_gives() {
    let Some(recorded) = baseline() else { return };
    let Some(mut rig) = Rig::new(false) else { return };
    BUT_LAST.into_iter().for_each(|index| rig.start(index));
    rig.expect("all but one", &BUT_LAST, &BUT_LAST, None);
    rig.start(5);
    let logs = || rig.private.logs();
    expect_tables_or("with one that came late", rig.all.iter(), &recorded, PATIENCE, logs);

    let told = rig.private.ask(0, &["routes", "2001:1200::/32"]);
    let routes = told["routes"].as_array().unwrap();
    let used: Vec<_> = routes.iter().filter(|route| route["in_use"] == true).collect();
    assert_eq!(used.len(), 1, "{told:#}");
    assert_eq!(used[0]["next_hop"], recorded[&0]["2001:1200::/32"].next_hop);

    for member in &mut rig.all {
        for at in [0, 1, 2] {
            let prefix = member.routes[at * 7].prefix.clone();
            member.withdraw(&prefix);
        }
        let mut changed = member.routes[3].clone();
        changed.tail.push(64999);
        changed.large.retain(|(high, ..)| *high == member.asn);
        member.announce(changed);
    }
    rig.expect("withdrawals and changes", &ALL, &ALL, None);

    // Its settings change while it runs: nothing for the first member any more.
    rig.private.configure(2, "except = [\"AS1916\"]\n");
    rig.private.reload_proxy(2);
    let order = (members::EXCHANGE, 0, MEMBERS[0].0);
    rig.all[2].routes.iter_mut().for_each(|route| route.large.push(order));
    rig.expect("another policy", &ALL, &ALL, None);

    rig.private.end_proxy(5);
    rig.expect("one has left", &BUT_LAST, &BUT_LAST, None);
    rig.private.start_proxy(5);
    rig.expect("and is back", &ALL, &ALL, None);
}

#[test]
fn what_fails_takes_no_more_than_its_own_routes_and_comes_back() {
    let Some(mut rig) = Rig::new(false) else { return };
    ALL.into_iter().for_each(|index| rig.start(index));
    rig.expect("at the beginning", &ALL, &ALL, None);

    rig.all[4].kill();
    rig.expect("a router is killed", &[0, 1, 2, 3, 5], &[0, 1, 2, 3, 5], None);
    rig.all[4].start();
    rig.expect("it is back", &ALL, &ALL, None);

    rig.private.kill_proxy(0);
    let gone = rig.all[0].routes[3].prefix.clone();
    rig.all[0].withdraw(&gone);
    rig.private.start_proxy(0);
    rig.expect("a proxy was killed, and a route withdrawn meanwhile", &ALL, &ALL, None);

    rig.private.kill_server(0);
    let gone = rig.all[5].routes[5].prefix.clone();
    rig.all[5].withdraw(&gone);
    rig.private.start_server(0);
    rig.expect("party one was killed, and a route withdrawn meanwhile", &ALL, &ALL, None);

    rig.private.kill_server(1);
    let gone = rig.all[5].routes[6].prefix.clone();
    rig.all[5].withdraw(&gone);
    rig.expect("the standby of party two has taken over", &ALL, &ALL, None);
    let status = rig.private.ask(0, &["status"]);
    let servers = status["servers"].as_array().unwrap();
    let connected: Vec<bool> =
        servers.iter().map(|server| server["connected"].as_bool().unwrap()).collect();
    assert_eq!(connected, [true, false, true], "{status:#}");
}

#[test]
fn a_roster_changes_and_routers_of_those_who_stay_lose_no_route() {
    let Some(mut rig) = Rig::with_roster(false, 5) else { return };
    BUT_LAST.into_iter().for_each(|index| rig.start(index));
    rig.expect("five members", &BUT_LAST, &BUT_LAST, None);
    let before = rig.all[0].withdrawals().unwrap();
    let tables: Vec<Table> = BUT_LAST.iter().map(|index| rig.all[*index].received()).collect();

    rig.private.write_roster(6, None);
    rig.private.reload_servers();
    rig.start(5);
    // Nobody's proxy has read the roster, but the newcomer's, which has nothing from others yet.
    rig.private.wait_for(5, "connection", |status| status["exchange"]["synced"] == true);
    let same: Vec<Table> = BUT_LAST.iter().map(|index| rig.all[*index].received()).collect();
    assert_eq!(same, tables);
    BUT_LAST.into_iter().for_each(|index| rig.private.reload_proxy(index));
    rig.expect("a sixth was added", &ALL, &ALL, None);
    assert_eq!(rig.all[0].withdrawals(), Some(before));

    rig.private.write_roster(6, Some(5));
    rig.private.reload_servers();
    rig.expect("it was taken out", &BUT_LAST, &BUT_LAST, None);
    // None of its routes was for this one.
    assert_eq!(rig.all[0].withdrawals(), Some(before));
}

#[test]
fn within_their_best_class_routers_get_what_the_load_of_ports_says() {
    let Some(mut rig) = Rig::new(true) else { return };
    let load = [90, 70, 50, 30, 10, 80];
    rig.private.set_load(&load);
    ALL.into_iter().for_each(|index| rig.start(index));
    rig.expect("by load", &ALL, &ALL, Some(&load));
    let plain = oracle::tables(rig.all.iter(), rig.all.iter(), None);
    let loaded = oracle::tables(rig.all.iter(), rig.all.iter(), Some(&load));
    let differing = plain.iter().flat_map(|(index, table)| {
        table.iter().filter(|(prefix, route)| loaded[index].get(*prefix) != Some(route))
    });
    assert!(differing.count() > 20, "the load decides nothing");
    let status = rig.private.ask(0, &["status"]);
    assert!(status["counters"]["selected"].as_u64().unwrap() > 20, "{status:#}");
    assert!(status["exchange"]["round_p99_us"].as_u64().is_some(), "{status:#}");
}
