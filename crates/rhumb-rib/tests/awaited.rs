//! A store that is elsewhere: who needs something of it waits, and nobody else; what is read is as
//! new as what was heard of it; and a flood of what has to be read costs others nothing.

use std::time::{Duration, Instant};

use rhumb_link::Source;
use rhumb_rib::store::{Answer, Awaited, Memory, Read, Store};
use rhumb_rib::{Asker, Config, OrderId, Outcome, Push, Rib, RibError};
use rhumb_trust::{Now, Standing};
use rhumb_wire::rib::{
    Refusal, RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody,
};
use rhumb_wire::{Certificate, Name};

use crate::world::{ASKER, Directory, Holder, NOW_S};

const ROUTER: Name = Name([0xB6; 32]);

/// One of several directories of one store, and what drives it.
struct Served {
    rib: Rib<Awaited>,
    next_id: u32,
    /// Names that it had written, which whoever writes them tells all others of.
    written: Vec<Name>,
    /// Whether that fails, and is there all the same.
    fails: bool,
}

impl Served {
    fn new(config: Config) -> Self {
        let store = Awaited::new(Vec::new());
        let rib = Rib::new(Directory::new().identity, store, config);
        Self { rib, next_id: 0, written: Vec::new(), fails: false }
    }

    fn request(&mut self, asker: Asker, body: RibRequestBody) -> Outcome {
        self.next_id += 1;
        let mut data = Vec::new();
        RibRequest { id: RequestId(self.next_id), body }.emit(&mut data);
        self.rib.handle_request(asker, &data, NOW_S)
    }

    fn look_up(&mut self, asker: Asker, name: Name) -> Outcome {
        self.request(asker, RibRequestBody::LookUpRoute(name))
    }

    fn publish(&mut self, holder: &Holder, sequence: u64) -> Outcome {
        self.order(holder, holder.locator(sequence))
    }

    fn order(&mut self, holder: &Holder, statement: Certificate) -> Outcome {
        let metadata = vec![holder.metadata()];
        let certificates = vec![statement];
        let body = RibRequestBody::Publish { metadata, certificates };
        self.request(Asker::admitted(ASKER, 1300), body)
    }

    /// Reads what there is to read, and verifies. Whether there was anything.
    fn read(&mut self, there: &mut Memory) -> bool {
        let mut is_idle = true;
        while let Some(read) = self.rib.poll_read() {
            let answer = there.read(&read);
            self.rib.handle_read(read, answer);
            is_idle = false;
        }
        while let Some(verification) = self.rib.poll_verification() {
            self.rib.handle_verified(verification.run());
            is_idle = false;
        }
        !is_idle
    }

    /// Reads what there is to read, verifies, and writes.
    fn work(&mut self, there: &mut Memory) {
        loop {
            let mut is_idle = !self.read(there);
            while let Some(commit) = self.rib.poll_commit() {
                self.written.extend(commit.changes().iter().map(|change| change.name));
                let result = there.commit(commit.changes());
                let result = if self.fails { Err(RibError::Overloaded) } else { result };
                self.rib.handle_committed(commit.end(result));
                is_idle = false;
            }
            if is_idle {
                return;
            }
        }
    }

    fn answers(&mut self) -> Vec<(OrderId, RibResponseBody)> {
        let answers = std::iter::from_fn(|| self.rib.poll_answer());
        answers.map(|(id, RibResponse { body, .. })| (id, body)).collect()
    }

    fn stored(&mut self, holder: &Holder, sequence: u64, there: &mut Memory) {
        self.written(holder, holder.locator(sequence), there);
    }

    fn withdrawn(&mut self, holder: &Holder, sequence: u64, there: &mut Memory) {
        self.written(holder, holder.withdrawal(sequence), there);
    }

    fn written(&mut self, holder: &Holder, statement: Certificate, there: &mut Memory) {
        let Outcome::Staged(id) = self.order(holder, statement) else { panic!("no order") };
        self.work(there);
        assert_eq!(self.answers(), [(id, RibResponseBody::Stored)]);
    }

    /// The sequence by which a name is found, at once or when it has been read.
    fn found(&mut self, name: Name, there: &mut Memory) -> Option<u64> {
        let body = match self.look_up(Asker::admitted(ROUTER, 1300), name) {
            Outcome::Answer(response) => response.body,
            Outcome::Staged(id) => {
                self.work(there);
                let answers = self.answers();
                assert_eq!((answers.len(), answers[0].0), (1, id));
                answers[0].1.clone()
            }
            other => panic!("{other:?}"),
        };
        match body {
            RibResponseBody::Found { certificates, .. } => Some(certificates[0].sequence),
            RibResponseBody::Absent(_) => None,
            other => panic!("{other:?}"),
        }
    }
}

fn stranger(source: u8, name: u8) -> Asker {
    let source = Source::V4([198, 51, 100, source]);
    Asker { source, standing: Standing::Stranger, ..Asker::stranger(Name([name; 32]), 1300) }
}

fn numbered(number: u32) -> Name {
    let mut name = [0x77; 32];
    name[..4].copy_from_slice(&number.to_be_bytes());
    Name(name)
}

#[test]
fn who_needs_what_is_not_at_hand_waits_and_nobody_else() {
    let (mut there, mut served) = (Memory::new(), Served::new(Config::default()));
    let [known, other] = [Holder::new(), Holder::new()];
    served.stored(&known, 1, &mut there);
    served.stored(&other, 1, &mut there);
    served.rib.miss_changes();
    let Outcome::Staged(first) = served.look_up(Asker::admitted(ROUTER, 1300), known.name()) else {
        panic!("it is at hand");
    };
    // Who asks the same waits for the same reading.
    let Outcome::Staged(second) = served.look_up(stranger(1, 1), known.name()) else {
        panic!("it is at hand");
    };
    let read = served.rib.poll_read().expect("one reading");
    assert_eq!((read, served.rib.poll_read()), (Read::Entry(known.name()), None));
    // Something else goes on meanwhile.
    served.stored(&other, 2, &mut there);
    assert_eq!(served.found(other.name(), &mut there), Some(2));
    served.rib.handle_read(read, there.read(&read));
    let answered: Vec<OrderId> = served.answers().into_iter().map(|(id, _)| id).collect();
    assert_eq!(answered, [first, second]);
    // It is at hand from now on.
    let outcome = served.look_up(stranger(1, 1), known.name());
    assert!(matches!(outcome, Outcome::Answer(_)), "{outcome:?}");
}

#[test]
fn what_others_write_is_found_and_told_when_it_is_heard_of() {
    let mut there = Memory::new();
    let [mut one, mut other] = [(); 2].map(|()| Served::new(Config::default()));
    let holder = Holder::new();
    assert_eq!(other.found(holder.name(), &mut there), None);
    one.stored(&holder, 1, &mut there);
    // Nothing tells it yet, and it may go by what it has read.
    assert_eq!(other.found(holder.name(), &mut there), None);
    other.rib.hear_changes(&[holder.name()], NOW_S);
    let mut now = now();
    assert_eq!(told(&mut other, &mut now, &mut there), [(ROUTER, Some(1))]);
    assert_eq!(other.found(holder.name(), &mut there), Some(1));
    one.stored(&holder, 2, &mut there);
    one.stored(&holder, 3, &mut there);
    other.rib.hear_changes(&[holder.name(), holder.name()], NOW_S);
    assert_eq!(told(&mut other, &mut now, &mut there), [(ROUTER, Some(3))], "once");
}

#[test]
fn a_renewal_by_another_is_read_once_and_told_to_nobody() {
    let mut there = Memory::new();
    let [mut one, mut other] = [(); 2].map(|()| Served::new(Config::default()));
    let (holder, mut now) = (Holder::new(), now());
    one.stored(&holder, 1, &mut there);
    assert_eq!(other.found(holder.name(), &mut there), Some(1));
    one.stored(&holder, 2, &mut there);
    other.rib.hear_changes(&[holder.name()], NOW_S);
    assert_eq!(told(&mut other, &mut now, &mut there), []);
    for _ in 0..2 {
        other.rib.hear_changes_again(&[holder.name()], NOW_S);
        assert_eq!(other.rib.poll_read(), None, "it has been read");
        let Outcome::Answer(answer) = other.look_up(stranger(1, 1), holder.name()) else {
            panic!("it is not at hand");
        };
        let RibResponseBody::Found { certificates, .. } = answer.body else { panic!("no way") };
        assert_eq!(certificates[0].sequence, 2);
    }
}

#[test]
fn a_change_that_is_heard_before_it_is_there_is_told_when_it_is() {
    let mut there = Memory::new();
    let [mut one, mut other] = [(); 2].map(|()| Served::new(Config::default()));
    let ([first, second], mut now) = ([Holder::new(), Holder::new()], now());
    for holder in [&first, &second] {
        one.stored(holder, 1, &mut there);
        assert_eq!(other.found(holder.name(), &mut there), Some(1));
    }
    let names = [first.name(), second.name()];
    other.rib.hear_changes(&names, NOW_S);
    assert_eq!(told(&mut other, &mut now, &mut there), []);
    one.withdrawn(&first, 2, &mut there);
    other.rib.hear_changes_again(&names, NOW_S);
    assert_eq!(told(&mut other, &mut now, &mut there), [(ROUTER, Some(2))]);
    // The other one took longer.
    one.withdrawn(&second, 2, &mut there);
    other.rib.hear_changes_again(&names, NOW_S);
    assert_eq!(told(&mut other, &mut now, &mut there), [(ROUTER, Some(2))], "once each");
}

/// One of two changes that are under way must not be taken for the other one.
#[test]
fn of_two_changes_the_later_one_is_told_however_they_come() {
    let mut there = Memory::new();
    let [mut one, mut other] = [(); 2].map(|()| Served::new(Config::default()));
    let (holder, mut now) = (Holder::new(), now());
    one.stored(&holder, 1, &mut there);
    assert_eq!(other.found(holder.name(), &mut there), Some(1));
    // Both are heard of before either is there.
    for _ in 0..2 {
        other.rib.hear_changes(&[holder.name()], NOW_S);
        assert_eq!(told(&mut other, &mut now, &mut there), []);
    }
    one.stored(&holder, 2, &mut there);
    other.rib.hear_changes_again(&[holder.name()], NOW_S);
    assert_eq!(told(&mut other, &mut now, &mut there), []);
    one.withdrawn(&holder, 3, &mut there);
    other.rib.hear_changes_again(&[holder.name()], NOW_S);
    assert_eq!(told(&mut other, &mut now, &mut there), [(ROUTER, Some(3))]);
}

/// What a directory wrote itself says nothing of what another one writes at the same time.
#[test]
fn an_own_change_is_not_taken_for_that_of_another() {
    let mut there = Memory::new();
    let [mut one, mut other] = [(); 2].map(|()| Served::new(Config::default()));
    let (holder, mut now) = (Holder::new(), now());
    one.stored(&holder, 1, &mut there);
    assert_eq!(other.found(holder.name(), &mut there), Some(1));
    other.rib.hear_changes(&[holder.name()], NOW_S);
    other.stored(&holder, 2, &mut there);
    told(&mut other, &mut now, &mut there);
    other.rib.hear_changes_again(&[holder.name()], NOW_S);
    told(&mut other, &mut now, &mut there);
    one.rib.miss_changes();
    one.withdrawn(&holder, 3, &mut there);
    other.rib.hear_changes_again(&[holder.name()], NOW_S);
    assert_eq!(told(&mut other, &mut now, &mut there), [(ROUTER, Some(3))]);
}

/// What a commit leaves in memory was worked out when it began.
#[test]
fn what_others_change_while_a_commit_is_under_way_is_not_forgotten_by_its_end() {
    for is_lost in [false, true] {
        let mut there = Memory::new();
        let [mut one, mut other] = [(); 2].map(|()| Served::new(Config::default()));
        let (holder, mut now) = (Holder::new(), now());
        one.stored(&holder, 1, &mut there);
        assert_eq!(other.found(holder.name(), &mut there), Some(1));
        let Outcome::Staged(_) = other.publish(&holder, 5) else { panic!("no order") };
        while other.read(&mut there) {}
        let commit = other.rib.poll_commit().expect("a commit");
        one.stored(&holder, 7, &mut there);
        other.rib.hear_changes(&[holder.name()], NOW_S);
        while other.read(&mut there) {}
        other.rib.hear_changes_again(&[holder.name()], NOW_S);
        if is_lost {
            other.rib.miss_changes();
        }
        // A cluster has the newer one in force, whoever wrote last.
        other.rib.handle_committed(commit.end(Ok(Vec::new())));
        other.answers();
        told(&mut other, &mut now, &mut there);
        assert_eq!(other.found(holder.name(), &mut there), Some(7), "lost: {is_lost}");
    }
}

/// Whoever has in memory what was there before would have it for as long as that lasts.
#[test]
fn what_failed_and_is_there_is_acknowledged_when_all_have_been_told() {
    let mut there = Memory::new();
    let [mut one, mut other] = [(); 2].map(|()| Served::new(Config::default()));
    let (holder, mut now) = (Holder::new(), now());
    one.stored(&holder, 1, &mut there);
    assert_eq!(one.found(holder.name(), &mut there), Some(1));
    let withdrawal = holder.withdrawal(2);
    one.fails = true;
    let Outcome::Staged(id) = one.order(&holder, withdrawal.clone()) else { panic!("no order") };
    one.work(&mut there);
    assert_eq!(one.answers(), [(id, RibResponseBody::Refused(Refusal::StoreFailed))]);
    (one.fails, one.written) = (false, Vec::new());
    // The same again, and once more, since the answer may have been lost.
    one.written(&holder, withdrawal.clone(), &mut there);
    assert_eq!(one.written, [holder.name()], "it is told");
    assert_eq!(told(&mut one, &mut now, &mut there), [(ROUTER, Some(2))], "to routers, too");
    one.written(&holder, withdrawal.clone(), &mut there);
    assert_eq!(one.written.len(), 1, "once");
    // Who repeats it elsewhere, where it is not known who was told.
    other.written(&holder, withdrawal.clone(), &mut there);
    assert_eq!(other.written, [holder.name()]);
    // And where another has changed it since, of whom the same is not known.
    other.rib.hear_changes(&[holder.name()], NOW_S);
    other.written(&holder, withdrawal, &mut there);
    assert_eq!(other.written.len(), 2);
}

/// What is there as it is stays on the share that it is on, whoever repeats it.
#[test]
fn what_is_repeated_by_a_stranger_moves_nothing() {
    let (mut there, mut served) = (Memory::new(), Served::new(Config::default()));
    let holder = Holder::new();
    let said = holder.locator(1);
    served.written(&holder, said.clone(), &mut there);
    served.rib.miss_changes();
    let before = there.entry(&holder.name()).unwrap();
    let body =
        RibRequestBody::Publish { metadata: vec![holder.metadata()], certificates: vec![said] };
    let Outcome::Staged(id) = served.request(stranger(1, 1), body) else { panic!("no order") };
    served.work(&mut there);
    assert_eq!(served.answers(), [(id, RibResponseBody::Stored)]);
    assert_eq!(there.entry(&holder.name()).unwrap(), before);
}

/// Who is told what, at once and after what has to be read for it has been.
fn told(served: &mut Served, now: &mut Now, there: &mut Memory) -> Vec<(Name, Option<u64>)> {
    let mut told = Vec::new();
    for _ in 0..10 {
        while let Some(Push { asker, response }) = served.rib.poll_change(*now) {
            let RibResponseBody::Changed { certificates, .. } = &response.body else {
                panic!("{response:?}");
            };
            told.push((asker, certificates.first().map(|it| it.sequence)));
            let asker = Asker::admitted(asker, 1300);
            let mut data = Vec::new();
            RibRequest { id: response.id, body: RibRequestBody::Acknowledge }.emit(&mut data);
            assert_eq!(served.rib.handle_request(asker, &data, NOW_S), Outcome::Noted);
        }
        served.work(there);
        *now = now.plus(Duration::from_millis(20));
    }
    told
}

#[expect(clippy::disallowed_methods, reason = "the virtual clock begins somewhere")]
fn now() -> Now {
    Now { instant: Instant::now(), unix_ms: NOW_S * 1000 }
}

#[test]
fn what_was_read_before_a_change_is_not_taken_for_what_is_there() {
    let mut there = Memory::new();
    let [mut one, mut other] = [(); 2].map(|()| Served::new(Config::default()));
    let holder = Holder::new();
    one.stored(&holder, 1, &mut there);
    let Outcome::Staged(_) = other.look_up(Asker::admitted(ROUTER, 1300), holder.name()) else {
        panic!("it is at hand");
    };
    let read = other.rib.poll_read().expect("a reading");
    let old = there.read(&read);
    one.stored(&holder, 2, &mut there);
    other.rib.hear_changes(&[holder.name()], NOW_S);
    other.rib.handle_read(read, old);
    assert_eq!(other.answers(), []);
    other.work(&mut there);
    let answers = other.answers();
    let [(_, RibResponseBody::Found { certificates, .. })] = &answers[..] else {
        panic!("{answers:?}");
    };
    assert_eq!(certificates[0].sequence, 2);
    // The same of what this directory itself has written meanwhile.
    other.rib.miss_changes();
    other.look_up(Asker::admitted(ROUTER, 1300), holder.name());
    let read = other.rib.poll_read().expect("a reading");
    let old = there.read(&read);
    other.publish(&holder, 3);
    other.rib.handle_read(read, old);
    other.work(&mut there);
    let old = there.read(&Read::Entry(holder.name()));
    assert!(matches!(old, Ok(Answer::Entry(Some(_)))));
    assert_eq!(other.found(holder.name(), &mut there), Some(3));
}

#[test]
fn names_that_are_nowhere_are_asked_for_at_nobodys_cost() {
    let (mut there, mut served) = (Memory::new(), Served::new(Config::default()));
    let (mut parked, mut refused) = (0, 0);
    // One source, whatever names it takes, with a store that answers nothing yet.
    for number in 0..20_000 {
        match served.look_up(stranger(1, number as u8), numbered(number)) {
            Outcome::Staged(_) => parked += 1,
            Outcome::Answer(answer) => {
                assert_eq!(answer.body, RibResponseBody::Refused(Refusal::Overloaded));
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((parked, refused), (2048, 17_952), "half of what strangers may have");
    // Others find room, and are read in their turn.
    let late = numbered(50_000);
    assert!(matches!(served.look_up(stranger(2, 1), late), Outcome::Staged(_)));
    let admitted = numbered(50_001);
    let asker = Asker::admitted(ROUTER, 1300);
    assert!(matches!(served.look_up(asker, admitted), Outcome::Staged(_)));
    let first: Vec<Read> = (0..4).filter_map(|_| served.rib.poll_read()).collect();
    assert_eq!(first[0], Read::Entry(admitted), "{first:?}");
    assert!(first.contains(&Read::Entry(late)), "{first:?}");
    // The store is not asked for more at once than it can take.
    let at_once = first.len() + std::iter::from_fn(|| served.rib.poll_read()).count();
    assert_eq!(at_once, 512);
    for read in first {
        served.rib.handle_read(read, there.read(&read));
    }
    served.work(&mut there);
    assert_eq!(served.rib.counters().refused(Refusal::Overloaded), 17_952);
}

#[test]
fn a_store_that_cannot_be_read_is_said_and_nothing_waits_for_ever() {
    let (mut there, mut served) = (Memory::new(), Served::new(Config::default()));
    let holder = Holder::new();
    let Outcome::Staged(id) = served.publish(&holder, 1) else { panic!("no order") };
    let read = served.rib.poll_read().expect("a reading");
    let failure = RibError::DamagedEntry { name: holder.name() };
    served.rib.handle_read(read, Err(failure));
    let failed = |refusal| [(id, RibResponseBody::Refused(refusal))];
    assert_eq!(served.answers(), failed(Refusal::StoreFailed));
    assert!(served.rib.poll_error().is_some());
    let Outcome::Staged(id) = served.look_up(stranger(1, 1), holder.name()) else {
        panic!("no order")
    };
    let read = served.rib.poll_read().expect("a reading");
    served.rib.handle_read(read, Err(RibError::Overloaded));
    assert_eq!(served.answers(), [(id, RibResponseBody::Refused(Refusal::Overloaded))]);
    served.stored(&holder, 1, &mut there);
}

#[test]
fn what_is_kept_away_by_something_newer_is_not_acknowledged_and_takes_nobody_with_it() {
    let (mut there, mut served) = (Memory::new(), Served::new(Config::default()));
    let [kept_away, innocent] = [Holder::new(), Holder::new()];
    let ids = [&kept_away, &innocent].map(|holder| match served.publish(holder, 1) {
        Outcome::Staged(id) => id,
        other => panic!("{other:?}"),
    });
    while let Some(read) = served.rib.poll_read() {
        let answer = there.read(&read);
        served.rib.handle_read(read, answer);
    }
    while let Some(verification) = served.rib.poll_verification() {
        served.rib.handle_verified(verification.run());
    }
    let commit = served.rib.poll_commit().expect("a commit");
    assert_eq!(commit.changes().len(), 2);
    // What builds on it is staged meanwhile, and beside it something that does not.
    let [after, beside] = [&kept_away, &innocent].map(|holder| match served.publish(holder, 2) {
        Outcome::Staged(id) => id,
        other => panic!("{other:?}"),
    });
    while let Some(verification) = served.rib.poll_verification() {
        served.rib.handle_verified(verification.run());
    }
    let committed = commit.end(Ok(vec![kept_away.name()]));
    served.rib.handle_committed(committed);
    let mut answers = served.answers();
    answers.sort_by_key(|(id, _)| *id);
    let refused = RibResponseBody::Refused(Refusal::Superseded);
    let [first, second] = ids;
    let expected = [(first, refused.clone()), (second, RibResponseBody::Stored), (after, refused)];
    assert_eq!(answers, expected);
    served.work(&mut there);
    assert_eq!(served.answers(), [(beside, RibResponseBody::Stored)]);
    assert_eq!(served.found(innocent.name(), &mut there), Some(2));
}
