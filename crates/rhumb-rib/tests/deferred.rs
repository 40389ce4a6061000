//! Verifications and commits on other threads: look-ups go on
//! meanwhile, and no order is acknowledged too early.

use rhumb_rib::store::{Change, Embedded, Memory, RemovalChange, Store};
use rhumb_rib::{Account, Asker, Config, DropReason, Entry, Held, Outcome, Rib, RibError};
use rhumb_trust::Removal;
use rhumb_wire::Name;
use rhumb_wire::rib::{
    Refusal, RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody,
};

use crate::world::{ASKER, Directory, Holder, NOW_S};

const ONE: Asker = Asker::admitted(ASKER, 1300);

/// A store whose commits fail on demand.
#[derive(Default)]
struct Failing {
    memory: Memory,
    fails: bool,
}

impl Store for Failing {
    fn entry(&mut self, name: &Name) -> Result<Option<Entry>, RibError> {
        self.memory.entry(name)
    }

    fn entries_after(
        &mut self,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, RibError> {
        self.memory.entries_after(after, limit)
    }

    fn names(&mut self) -> Result<u64, RibError> {
        self.memory.names()
    }

    fn held(&mut self, account: &Account) -> Result<Held, RibError> {
        self.memory.held(account)
    }

    fn commit(&mut self, changes: &[Change]) -> Result<Vec<Name>, RibError> {
        match self.fails {
            true => Err(RibError::DamagedEntry { name: ASKER }),
            false => self.memory.commit(changes),
        }
    }

    fn removals(&mut self) -> Result<Vec<Option<Removal>>, RibError> {
        self.memory.removals()
    }

    fn commit_removals(&mut self, changes: &[RemovalChange]) -> Result<(), RibError> {
        match self.fails {
            true => Err(RibError::DamagedRemoval),
            false => self.memory.commit_removals(changes),
        }
    }
}

fn request<S: Store>(rib: &mut Rib<S>, id: u32, body: RibRequestBody) -> Outcome {
    let mut data = Vec::new();
    RibRequest { id: RequestId(id), body }.emit(&mut data);
    rib.handle_request(ONE, &data, NOW_S)
}

fn publish<S: Store>(rib: &mut Rib<S>, id: u32, holder: &Holder, sequence: u64) -> Outcome {
    let metadata = vec![holder.metadata()];
    let certificates = vec![holder.locator(sequence)];
    request(rib, id, RibRequestBody::Publish { metadata, certificates })
}

fn verify_all<S: Store>(rib: &mut Rib<S>) {
    while let Some(verification) = rib.poll_verification() {
        rib.handle_verified(verification.run());
    }
}

fn answers<S: Store>(rib: &mut Rib<S>) -> Vec<(u32, RibResponseBody)> {
    std::iter::from_fn(|| rib.poll_answer())
        .map(|(_, RibResponse { id, body })| (id.0, body))
        .collect()
}

fn is_found<S: Store>(rib: &mut Rib<S>, name: Name) -> bool {
    match request(rib, 99, RibRequestBody::LookUpRoute(name)) {
        Outcome::Answer(response) => matches!(response.body, RibResponseBody::Found { .. }),
        outcome => panic!("{outcome:?}: look-ups are answered at once"),
    }
}

#[test]
fn look_ups_go_on_while_a_commit_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(&folder.path().join("rib")).unwrap();
    let mut writer = store.share();
    let mut rib = Rib::new(Directory::new().identity, store, Config::default());
    let line = Holder::line(3);
    assert!(matches!(publish(&mut rib, 0, &line[0], 1), Outcome::Staged(_)));
    verify_all(&mut rib);
    let first = rib.poll_commit().expect("a commit");
    assert!(rib.poll_commit().is_none(), "one at a time");
    assert!(!is_found(&mut rib, line[0].name()));
    // What comes in meanwhile sees what is being written, and waits for the next one.
    publish(&mut rib, 1, &line[1], 1);
    let Outcome::Answer(answer) = publish(&mut rib, 2, &line[0], 1) else { panic!("no answer") };
    assert_eq!(shown(&answer.body), Some((line[0].name(), 1)), "by what is being written");
    publish(&mut rib, 3, &line[0], 2);
    verify_all(&mut rib);
    assert_eq!(answers(&mut rib), []);
    #[expect(clippy::disallowed_methods, reason = "the thread of who drives it")]
    let committed = std::thread::spawn(move || {
        let committed = first.run(&mut writer);
        (committed, writer)
    });
    let (committed, mut writer) = committed.join().unwrap();
    assert!(!is_found(&mut rib, line[0].name()), "not before it is known to be durable");
    rib.handle_committed(committed);
    assert_eq!(answers(&mut rib), [(0, RibResponseBody::Stored)]);
    assert!(is_found(&mut rib, line[0].name()));
    assert!(!is_found(&mut rib, line[1].name()));
    let second = rib.poll_commit().expect("a commit").run(&mut writer);
    rib.handle_committed(second);
    assert_eq!(answers(&mut rib), [1, 3].map(|id| (id, RibResponseBody::Stored)));
    assert!(is_found(&mut rib, line[1].name()));
    assert_eq!((rib.stored_names().unwrap(), rib.counters().commits), (2, 2));
}

#[test]
fn the_very_same_order_waits_for_the_commit_it_is_in() {
    let mut rib = Rib::new(Directory::new().identity, Memory::new(), Config::default());
    let holder = Holder::new();
    let body = RibRequestBody::Publish {
        metadata: vec![holder.metadata()],
        certificates: vec![holder.locator(1)],
    };
    request(&mut rib, 0, body.clone());
    verify_all(&mut rib);
    let commit = rib.poll_commit().expect("a commit");
    assert!(matches!(request(&mut rib, 1, body), Outcome::Staged(_)));
    assert_eq!((rib.poll_commit().is_none(), answers(&mut rib)), (true, Vec::new()));
    let mut elsewhere = Memory::new();
    let committed = commit.run(&mut elsewhere);
    rib.handle_committed(committed);
    assert!(rib.poll_commit().is_none(), "there is nothing to write");
    assert_eq!(answers(&mut rib), [0, 1].map(|id| (id, RibResponseBody::Stored)));
}

#[test]
fn what_builds_on_a_commit_that_fails_is_refused_with_it() {
    let mut rib = Rib::new(Directory::new().identity, Failing::default(), Config::default());
    let (holder, mut broken) = (Holder::new(), Failing { fails: true, ..Failing::default() });
    publish(&mut rib, 0, &holder, 1);
    verify_all(&mut rib);
    let commit = rib.poll_commit().expect("a commit");
    publish(&mut rib, 1, &holder, 2);
    verify_all(&mut rib);
    publish(&mut rib, 2, &holder, 3);
    let committed = commit.run(&mut broken);
    rib.handle_committed(committed);
    let failed = RibResponseBody::Refused(Refusal::StoreFailed);
    assert_eq!(answers(&mut rib), [0, 1].map(|id| (id, failed.clone())));
    assert!(!is_found(&mut rib, holder.name()));
    // One that was still being verified stands by itself.
    let answers: Vec<_> = rib.commit().into_iter().map(|r| (r.id.0, r.body)).collect();
    assert_eq!(answers, [(2, RibResponseBody::Stored)]);
    assert!(is_found(&mut rib, holder.name()));
}

#[test]
fn an_order_that_is_overtaken_while_it_is_verified_is_refused() {
    let mut rib = Rib::new(Directory::new().identity, Memory::new(), Config::default());
    let holder = Holder::new();
    publish(&mut rib, 0, &holder, 1);
    publish(&mut rib, 1, &holder, 2);
    let [first, second] = [0, 1].map(|_| rib.poll_verification().expect("one").run());
    // Whichever is ready first.
    rib.handle_verified(second);
    rib.handle_verified(first);
    let answers: Vec<_> = rib.commit().into_iter().map(|r| (r.id.0, r.body)).collect();
    assert_eq!(answers.len(), 2);
    assert_eq!(shown(&answers[0].1), Some((holder.name(), 2)), "by what is staged");
    assert_eq!(answers[1], (1, RibResponseBody::Stored));
}

/// By which statement, of whom and of which sequence, something is superseded.
fn shown(body: &RibResponseBody) -> Option<(Name, u64)> {
    match body {
        RibResponseBody::Superseded(newer) => Some((newer.issuer, newer.sequence)),
        _ => None,
    }
}

#[test]
fn orders_that_wait_are_bounded() {
    let mut config = Config::default();
    config.max_orders_waiting = 2;
    let mut rib = Rib::new(Directory::new().identity, Memory::new(), config);
    let line = Holder::line(3);
    let too_many = Outcome::Dropped(DropReason::TooManyOrders);
    assert!(matches!(publish(&mut rib, 0, &line[0], 1), Outcome::Staged(_)));
    assert!(matches!(publish(&mut rib, 1, &line[1], 1), Outcome::Staged(_)));
    assert_eq!(publish(&mut rib, 2, &line[2], 1), too_many);
    // Under way or staged, they are still there.
    let verification = rib.poll_verification().expect("one");
    assert_eq!(publish(&mut rib, 2, &line[2], 1), too_many);
    rib.handle_verified(verification.run());
    assert_eq!(publish(&mut rib, 2, &line[2], 1), too_many);
    assert_eq!(rib.commit().len(), 2);
    assert!(matches!(publish(&mut rib, 2, &line[2], 1), Outcome::Staged(_)));
}
