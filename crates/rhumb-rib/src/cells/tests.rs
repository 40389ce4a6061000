//! Whatever several servers write at once, in whatever order it arrives, the row says what one
//! server would that admitted all of it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rhumb_link::Source;
use rhumb_trust::{CLOCK_SKEW_S, Identity, MAX_LIFETIME_S, Window};
use rhumb_wire::certificate::Locator;
use rhumb_wire::{Certificate, Name, PublishedNames, Role, Scope, Statement};

use super::{Cell, Row, Shadowed, Slot, Written, rank_of};
use crate::entry::Register;
use crate::{Account, Entry, Footprint, Share};

const NOW_S: u64 = 1_800_000_000;
const SERVERS: usize = 3;
const BY: Name = Name([9; 32]);

fn at(second: u64) -> Written {
    Written { now_s: NOW_S + second, now_us: (NOW_S + second) as i64 * 1_000_000 }
}

struct Holder(Identity);

impl Holder {
    fn of(role: Role) -> Self {
        Self(Identity::generate(role, 0).unwrap())
    }

    fn entry(&self) -> Entry {
        Entry::new((**self.0.metadata()).clone(), BY)
    }

    fn say(&self, statement: Statement, sequence: u64) -> Certificate {
        self.0.certify(statement, sequence, Window::starting(NOW_S, 600)).unwrap()
    }

    fn route(&self, sequence: u64) -> Certificate {
        self.say(Statement::Route { via: Name([1; 32]), scope: Scope::Any }, sequence)
    }

    fn service(&self, server: u8, sequence: u64) -> Certificate {
        self.say(Statement::Service { server: Name([server; 32]), several: false }, sequence)
    }
}

fn statement(kind: usize) -> Statement {
    let via = |number| Name([number; 32]);
    match kind {
        0 => Statement::Route { via: via(1), scope: Scope::Any },
        1 => Statement::Locator(Locator::new("192.0.2.1:4000".parse().unwrap()).unwrap()),
        2 => Statement::Withdrawal,
        3 => Statement::Route { via: via(2), scope: Scope::ByDomain { up_to: None } },
        _ => Statement::Route { via: via(kind as u8), scope: Scope::Several },
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// A server reads the row.
    Read(usize),
    /// It admits a statement by what it knows, and sends off what is to be written.
    Admit { server: usize, kind: usize, sequence: u64 },
    /// It admits a list of names.
    Publish { server: usize, sequence: u64 },
    /// A write arrives at the store, perhaps not for the last time.
    Arrive { which: usize, stays: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let server = || 0..SERVERS;
    prop_oneof![
        2 => server().prop_map(Step::Read),
        5 => (server(), 0..7usize, 0..12u64)
            .prop_map(|(server, kind, sequence)| Step::Admit { server, kind, sequence }),
        1 => (server(), 0..5u64).prop_map(|(server, sequence)| Step::Publish { server, sequence }),
        4 => (0..16usize, any::<bool>()).prop_map(|(which, stays)| Step::Arrive { which, stays }),
    ]
}

/// What an entry says, and what it would admit, without what makes no difference.
fn meaning(entry: &Entry) -> impl PartialEq + std::fmt::Debug + use<> {
    let held = |register: &Register| register.held().cloned();
    let over = entry.withdrawal.sequence();
    let least = |register: &Register| register.sequence().max(over);
    let Entry { route, locator, export, withdrawal, several, .. } = entry;
    (
        [route, locator, export, withdrawal].map(held),
        several.clone(),
        [route, locator, export].map(least),
        entry.several_to.max(least(route)),
        entry.published.clone(),
        entry.keep_until_s,
    )
}

fn arrive(store: &mut Row, cells: &[Cell]) {
    cells.iter().for_each(|cell| store.put(cell.clone()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 300 } else { 3000 }))]

    #[test]
    fn servers_that_write_at_once_come_to_what_one_would(
        steps in prop::collection::vec(step(), 1..60),
        order in any::<prop::sample::Index>(),
    ) {
        let holder = Holder::of(Role::Node);
        let mut store = Row::default();
        let mut known: [Row; SERVERS] = Default::default();
        let mut under_way: Vec<Vec<Cell>> = Vec::new();
        let (mut signed, mut listed) = (BTreeMap::new(), BTreeMap::new());
        let mut admitted = Vec::new();
        let mut lists: Vec<PublishedNames> = Vec::new();
        for (second, step) in steps.iter().enumerate() {
            let written = at(second as u64);
            let write = |row: &mut Row, entry: &Entry, under_way: &mut Vec<Vec<Cell>>| {
                let plan = row.plan(entry, written).unwrap();
                plan.apply(row);
                under_way.push(plan.cells);
            };
            match *step {
                Step::Read(server) => known[server] = store.clone(),
                Step::Admit { server, kind, sequence } => {
                    let row = &mut known[server];
                    let entry = row.entry(written.now_s).unwrap();
                    let mut entry = entry.unwrap_or_else(|| holder.entry());
                    // Nobody signs two of one sequence.
                    let said = signed.entry((kind, sequence));
                    let said = said.or_insert_with(|| holder.say(statement(kind), sequence)).clone();
                    if entry.admit(&said, BY, NOW_S).is_ok() {
                        write(row, &entry, &mut under_way);
                        admitted.push(said);
                    }
                }
                Step::Publish { server, sequence } => {
                    let row = &mut known[server];
                    let entry = row.entry(written.now_s).unwrap();
                    let mut entry = entry.unwrap_or_else(|| holder.entry());
                    let window = Window::starting(NOW_S, 600);
                    let sign = || holder.0.publish(BTreeMap::new(), sequence, window).unwrap();
                    let list = listed.entry(sequence).or_insert_with(sign).clone();
                    if entry.admit_names(&list, BY, NOW_S).is_ok() {
                        write(row, &entry, &mut under_way);
                        lists.push(list);
                    }
                }
                Step::Arrive { which, stays } if which < under_way.len() => {
                    arrive(&mut store, &under_way[which]);
                    if !stays {
                        under_way.swap_remove(which);
                    }
                }
                Step::Arrive { .. } => {}
            }
        }
        let turn = order.index(under_way.len() + 1) % under_way.len().max(1);
        under_way.rotate_left(turn);
        under_way.iter().for_each(|cells| arrive(&mut store, cells));

        let mut alone = holder.entry();
        for said in &admitted {
            let _ = alone.admit(said, BY, NOW_S);
        }
        for list in &lists {
            let _ = alone.admit_names(list, BY, NOW_S);
        }
        match store.entry(NOW_S).unwrap() {
            Some(entry) => prop_assert_eq!(meaning(&entry), meaning(&alone)),
            None => prop_assert!(admitted.is_empty() && lists.is_empty()),
        }
    }

    #[test]
    fn ranks_are_in_the_order_of_sequences(a in any::<u64>(), b in any::<u64>()) {
        prop_assert!(rank_of(a) > i64::MIN);
        if a < b {
            prop_assert!(rank_of(a) < rank_of(b) || a >= u64::MAX - 1);
        }
    }
}

#[test]
fn the_highest_sequences_share_a_rank_and_the_higher_one_wins() {
    let holder = Holder::of(Role::Node);
    assert_eq!(rank_of(u64::MAX), rank_of(u64::MAX - 1));
    assert_eq!(rank_of(0), i64::MIN + 1);
    for said in [[u64::MAX, u64::MAX - 1], [u64::MAX - 1, u64::MAX]] {
        let mut store = Row::default();
        for sequence in said {
            let mut entry = holder.entry();
            entry.admit(&holder.route(sequence), BY, NOW_S).unwrap();
            arrive(&mut store, &Row::default().plan(&entry, at(0)).unwrap().cells);
        }
        let entry = store.entry(NOW_S).unwrap().unwrap();
        assert_eq!(entry.route.sequence(), Some(u64::MAX));
    }
}

/// A row as a server finds it after it was written through another one.
fn read_back(row: &Row) -> Row {
    let mut read = Row::default();
    for (slot, held) in &row.0 {
        read.read(*slot, held.rank, held.value.clone()).unwrap();
    }
    read
}

fn written(row: &mut Row, entry: &Entry, second: u64) -> super::Plan {
    let plan = row.plan(entry, at(second)).unwrap();
    plan.apply(row);
    plan
}

#[test]
fn what_is_read_is_what_was_written_and_nothing_is_written_twice() {
    let holder = Holder::of(Role::Node);
    let mut row = Row::default();
    let mut entry = holder.entry();
    for (sequence, kind) in [2, 0, 1, 3, 4, 5, 6].into_iter().enumerate() {
        entry.admit(&holder.say(statement(kind), sequence as u64 + 1), BY, NOW_S).unwrap();
    }
    let plan = written(&mut row, &entry, 0);
    assert!(plan.is_to_be_read() && plan.index.is_some());
    let mut row = read_back(&row);
    assert_eq!(row.entry(NOW_S).unwrap().unwrap(), entry);
    assert_eq!(row.ways(), 3);
    assert_eq!(row.plan(&entry, at(1)), Ok(super::Plan::default()));
    // A renewal writes itself and the books.
    entry.admit(&holder.say(statement(1), 20), BY, NOW_S + 300).unwrap();
    let plan = written(&mut row, &entry, 300);
    let slots: Vec<Slot> = plan.cells.iter().map(|cell| cell.slot).collect();
    assert_eq!(slots, [Slot::Locator, Slot::Bookkeeping]);
    assert!(plan.index.is_none() && !plan.is_to_be_read());
    assert!(plan.cells.iter().all(|cell| cell.keep_until_s == entry.keep_until_s));
}

#[test]
fn a_name_is_counted_again_before_its_count_ends_and_where_it_moves() {
    let holder = Holder::of(Role::Node);
    let mut row = Row::default();
    let mut entry = holder.entry();
    let mut counted_to_s = 0;
    let mut times = 0;
    // A lease of ten minutes, renewed at half-life for two days.
    for second in (0..2 * 24 * 3600).step_by(300) {
        let window = Window::starting(NOW_S + second, 600);
        let said = holder.0.certify(statement(0), second + 1, window).unwrap();
        entry.admit(&said, BY, NOW_S + second).unwrap();
        if let Some(index) = written(&mut row, &entry, second).index {
            assert_eq!(index.accounts, [Account::Publisher(BY), Account::Admitted]);
            assert!(index.left.is_empty());
            counted_to_s = index.keep_until_s;
            times += 1;
        }
        assert!(counted_to_s >= entry.keep_until_s);
        entry = row.entry(NOW_S + second).unwrap().unwrap();
    }
    assert_eq!(times, 4);
    let other = Name([8; 32]);
    entry.admit(&holder.route(1 << 40), other, NOW_S).unwrap();
    let index = written(&mut row, &entry, 0).index.unwrap();
    assert_eq!(index.accounts, [Account::Publisher(other), Account::Admitted]);
    assert_eq!(index.left, [Account::Publisher(BY)]);
    assert_eq!(index.bytes, Footprint::of(&entry).bytes());
}

#[test]
fn who_keeps_an_entry_longer_has_the_say_in_its_books() {
    let holder = Holder::of(Role::Node);
    let stranger = Share::Stranger(Source::V4([192, 0, 2, 1]));
    let mut long = holder.entry();
    long.admit(&holder.route(5), BY, NOW_S).unwrap();
    let mut short = holder.entry();
    short.share = stranger;
    short.admit_for(stranger, &holder.say(Statement::Withdrawal, 6), Name([8; 32]), NOW_S).unwrap();
    // Neither has seen the other's.
    let plans = [(&long, 0), (&short, 1)];
    let plans = plans.map(|(entry, second)| Row::default().plan(entry, at(second)).unwrap());
    let mut store = Row::default();
    plans.iter().rev().for_each(|plan| plan.apply(&mut store));
    let entry = store.entry(NOW_S).unwrap().unwrap();
    assert_eq!((entry.publisher, entry.share), (BY, Share::Admitted));
    assert_eq!(entry.keep_until_s, NOW_S + MAX_LIFETIME_S + CLOCK_SKEW_S);
    assert!(entry.route.held().is_none(), "withdrawn");
    // The stranger's withdrawal would be gone within an hour, and the route would be back.
    let withdrawal = plans[1].cells.iter().find(|cell| cell.slot == Slot::Withdrawal).unwrap();
    assert!(plans[1].is_to_be_read() && withdrawal.keep_until_s < entry.keep_until_s);
    let longer = Cell { keep_until_s: entry.keep_until_s, ..withdrawal.clone() };
    assert_eq!(plans[1].lengthened(&Row::default(), &store), std::slice::from_ref(&longer));
    // Whoever of the two is the later one finds the other's.
    assert!(plans[0].is_to_be_read());
    assert_eq!(plans[0].lengthened(&Row::default(), &store), [longer]);
    assert!(plans[0].lengthened(&store, &store).is_empty(), "what was known is kept for long");
}

#[test]
fn what_hides_behind_a_newer_one_is_not_called_stored() {
    let holder = Holder::of(Role::Node);
    let mut entry = holder.entry();
    entry.admit(&holder.route(5), BY, NOW_S).unwrap();
    let plan = Row::default().plan(&entry, at(0)).unwrap();
    let mut store = Row::default();
    plan.apply(&mut store);
    assert_eq!(plan.check(&store), Ok(()));
    // A newer one is in force: what was written was stored, and superseded.
    let mut newer = holder.entry();
    newer.admit(&holder.route(6), BY, NOW_S).unwrap();
    Row::default().plan(&newer, at(0)).unwrap().apply(&mut store);
    assert_eq!(plan.check(&store), Ok(()));
    // Another one of the same sequence.
    let mut twin = holder.entry();
    twin.admit(&holder.route(5), BY, NOW_S).unwrap();
    let mut other = Row::default();
    Row::default().plan(&twin, at(0)).unwrap().apply(&mut other);
    assert_eq!(plan.check(&other), Err(Shadowed));
    store.0.remove(&Slot::Route);
    assert_eq!(plan.check(&store), Err(Shadowed));
}

#[test]
fn an_older_word_stands_in_until_the_newer_returns_or_one_newer_still() {
    let owner = Holder::of(Role::Capsule);
    let (old, new, newer) = (owner.service(1, 5), owner.service(2, 7), owner.service(3, 9));
    let mut store = Row::default();
    let mut entry = owner.entry();
    entry.admit(&new, BY, NOW_S).unwrap();
    written(&mut store, &entry, 0);
    let read = |store: &Row| read_back(store).entry(NOW_S).unwrap().unwrap();
    let mut entry = read(&store);
    let before = entry.clone();
    entry.step_in(&old, BY);
    let plan = written(&mut store, &entry, 1);
    assert!(plan.cells.iter().all(|cell| cell.slot != Slot::Route), "nothing is rolled back");
    assert_eq!(read(&store).route, Register::from(old.clone()));
    // The newer one's server is there again.
    let mut entry = read(&store);
    entry.admit(&new, BY, NOW_S).unwrap();
    written(&mut store, &entry, 2);
    assert_eq!(read(&store).route, Register::from(new));
    // Who decided by what was before must look again.
    let mut late = before;
    late.step_in(&old, BY);
    assert_eq!(store.plan(&late, at(3)), Err(Shadowed));
    // Something newer still ends it, whoever writes it.
    let mut entry = read(&store);
    entry.step_in(&old, BY);
    let mut elsewhere = read(&store);
    written(&mut store, &entry, 4);
    elsewhere.admit(&newer, BY, NOW_S).unwrap();
    written(&mut store, &elsewhere, 4);
    assert_eq!(read(&store).route, Register::from(newer));
    // And so does a withdrawal.
    let mut entry = read(&store);
    entry.step_in(&old, BY);
    written(&mut store, &entry, 5);
    let mut entry = read(&store);
    entry.admit(&owner.say(Statement::Withdrawal, 9), BY, NOW_S).unwrap();
    written(&mut store, &entry, 6);
    assert!(read(&store).route.held().is_none());
}

#[test]
fn nothing_is_known_without_books_and_bytes_that_do_not_fit_are_damage() {
    let holder = Holder::of(Role::Node);
    let mut entry = holder.entry();
    entry.admit(&holder.route(5), BY, NOW_S).unwrap();
    let mut row = Row::default();
    let plan = written(&mut row, &entry, 0);
    for cell in &plan.cells {
        let mut read = Row::default();
        let cut = &cell.value[..cell.value.len() - 1];
        let taken = read.read(cell.slot, cell.rank, cut.to_vec());
        if taken.is_ok() {
            let mut damaged = row.clone();
            damaged.0.get_mut(&cell.slot).unwrap().value = cut.to_vec();
            assert!(damaged.entry(NOW_S).is_err(), "{:?}", cell.slot);
        }
    }
    // A certificate in the place of another kind.
    let route = plan.cells.iter().find(|cell| cell.slot == Slot::Route).unwrap();
    let mut damaged = row.clone();
    damaged.read(Slot::Locator, 0, route.value.clone()).unwrap();
    assert!(damaged.entry(NOW_S).is_err());
    let deleted: Vec<Slot> = row.deletions().map(|(slot, _)| slot).collect();
    assert_eq!(deleted, [Slot::Bookkeeping, Slot::Route]);
    deleted.iter().for_each(|slot| _ = row.0.remove(slot));
    assert_eq!(row.entry(NOW_S), Ok(None));
    // What is past is not written.
    assert!(row.plan(&entry, at(2 * MAX_LIFETIME_S)).unwrap().cells.is_empty());
}
