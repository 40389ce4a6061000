//! Whoever was told something hears when it holds no longer:
//! once, until it says so, and only what changed.

use std::time::{Duration, Instant};

use rhumb_rib::{Asker, Config, DropReason, Outcome};
use rhumb_trust::{Now, Window};
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody, RibResponseBody};
use rhumb_wire::{Certificate, Name, Scope, Statement};

use crate::world::{ASKER, Directory, Holder, LIFETIME_S, NOW_S};

const PUBLISHER: Name = Name([0x11; 32]);
const REPEAT: Duration = Duration::from_millis(200);

struct Scene {
    directory: Directory<crate::Usual>,
    start: Instant,
    passed: Duration,
}

impl Scene {
    fn new(config: Config) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the virtual clock begins somewhere")]
        let start = Instant::now();
        Self { directory: Directory::with(config), start, passed: Duration::ZERO }
    }

    fn now(&self) -> Now {
        let unix_ms = self.directory.now_s * 1000;
        Now { instant: self.start + self.passed, unix_ms }
    }

    fn publish(&mut self, holder: &Holder, certificate: Certificate) {
        let published = self.directory.publish_as(PUBLISHER, &[holder], vec![certificate]);
        assert_eq!(published, Ok(()));
    }

    /// The changes that are due: who is told, under which identifier, about whom, and what.
    fn changes(&mut self) -> Vec<(Name, RequestId, Name, Vec<Certificate>)> {
        let now = self.now();
        let rib = &mut self.directory.rib;
        std::iter::from_fn(|| rib.poll_change(now))
            .map(|push| match push.response.body {
                RibResponseBody::Changed { name, certificates, metadata, .. } => {
                    assert!(!metadata.is_empty());
                    (push.asker, push.response.id, name, certificates)
                }
                body => panic!("{body:?} is no change"),
            })
            .collect()
    }

    /// As [`Scene::changes`], for one asker, each acknowledged.
    fn heard(&mut self) -> Vec<(Name, Vec<Certificate>)> {
        let changes = self.changes();
        for (asker, id, ..) in &changes {
            assert_eq!(self.acknowledge(*asker, *id), Outcome::Noted);
        }
        changes.into_iter().map(|(_, _, name, certificates)| (name, certificates)).collect()
    }

    fn acknowledge(&mut self, name: Name, id: RequestId) -> Outcome {
        let mut data = Vec::new();
        RibRequest { id, body: RibRequestBody::Acknowledge }.emit(&mut data);
        let asker = Asker::admitted(name, 1300);
        self.directory.rib.handle_request(asker, &data, self.directory.now_s)
    }
}

#[test]
fn a_move_an_appearance_and_a_withdrawal_are_told_and_a_renewal_is_not() {
    let mut scene = Scene::new(Config::default());
    let (holder, [one, other]) = (Holder::new(), [Name([1; 32]), Name([2; 32])]);
    assert!(matches!(scene.directory.look_up(holder.name()), RibResponseBody::Absent(_)));
    let first = holder.route(one, 1);
    scene.publish(&holder, first.clone());
    assert_eq!(scene.heard(), [(holder.name(), vec![first])]);
    // The same again, for longer: who needs it asks for it.
    scene.publish(&holder, holder.route(one, 2));
    assert_eq!(scene.heard(), []);
    let moved = holder.route(other, 3);
    scene.publish(&holder, moved.clone());
    assert_eq!(scene.heard(), [(holder.name(), vec![moved])]);
    let withdrawal = holder.withdrawal(4);
    scene.publish(&holder, withdrawal.clone());
    assert_eq!(scene.heard(), [(holder.name(), vec![withdrawal])]);
    let back = holder.route(other, 5);
    scene.publish(&holder, back.clone());
    assert_eq!(scene.heard(), [(holder.name(), vec![back])]);
    assert_eq!(scene.directory.rib.counters().changes_acknowledged, 4);
}

#[test]
fn every_issuer_of_an_answer_is_subscribed_to_and_metadata_alone_too() {
    let mut scene = Scene::new(Config::default());
    let line = Holder::line(4);
    for pair in line[..3].windows(2) {
        scene.publish(&pair[0], pair[0].route(pair[1].name(), 1));
    }
    scene.publish(&line[2], line[2].locator(1));
    scene.publish(&line[3], line[3].locator(1));
    assert_eq!(scene.directory.found(line[0].name()).len(), 3);
    scene.directory.ask(RibRequestBody::LookUpMetadata(line[3].name()));
    for holder in &line {
        scene.publish(holder, holder.withdrawal(2));
        assert_eq!(scene.heard().len(), 1, "{:?}", holder.name());
    }
    // Nobody asked for this one.
    let stranger = Holder::new();
    scene.publish(&stranger, stranger.locator(1));
    assert_eq!(scene.heard(), []);
}

#[test]
fn a_change_is_repeated_five_times_unless_it_is_acknowledged() {
    let mut scene = Scene::new(Config::default());
    let holder = Holder::new();
    scene.publish(&holder, holder.locator(1));
    scene.directory.found(holder.name());
    scene.publish(&holder, holder.withdrawal(2));
    let [(asker, id, ..)] = scene.changes()[..] else { panic!("one change") };
    assert_eq!(asker, ASKER);
    for _ in 0..5 {
        assert_eq!(scene.changes(), []);
        assert_eq!(scene.directory.rib.poll_timeout(), Some(scene.start + scene.passed + REPEAT));
        scene.passed += REPEAT;
        assert_eq!(scene.changes().len(), 1);
    }
    let unexpected = Outcome::Dropped(DropReason::UnexpectedAcknowledgement);
    assert_eq!(scene.acknowledge(PUBLISHER, id), unexpected);
    scene.passed += REPEAT;
    assert_eq!(scene.changes(), []);
    assert_eq!(scene.acknowledge(ASKER, id), unexpected, "it was given up");
    let counters = scene.directory.rib.counters();
    assert_eq!((counters.changes_sent, counters.changes_given_up), (6, 1));
    assert_eq!(scene.directory.rib.poll_timeout(), None);
}

#[test]
fn what_is_told_is_the_newest_whenever_it_is_told() {
    let mut scene = Scene::new(Config::default());
    let holder = Holder::new();
    scene.directory.look_up(holder.name());
    scene.publish(&holder, holder.locator(1));
    let [(_, old, ..)] = scene.changes()[..] else { panic!("one change") };
    // Withdrawn before the first was acknowledged: the
    // acknowledgement that comes now is of nothing.
    let withdrawal = holder.withdrawal(2);
    scene.publish(&holder, withdrawal.clone());
    assert!(matches!(scene.acknowledge(ASKER, old), Outcome::Dropped(_)));
    scene.passed += REPEAT;
    assert_eq!(scene.heard(), [(holder.name(), vec![withdrawal])]);
    scene.passed += REPEAT;
    assert_eq!(scene.heard(), []);
}

#[test]
fn a_publisher_hears_when_another_one_takes_over_and_not_of_itself() {
    let mut scene = Scene::new(Config::default());
    let (holder, other) = (Holder::new(), Name([0x22; 32]));
    scene.publish(&holder, holder.route(Name([1; 32]), 1));
    scene.publish(&holder, holder.route(Name([2; 32]), 2));
    assert_eq!(scene.changes(), []);
    let taken = holder.route(Name([3; 32]), 3);
    let published = scene.directory.publish_as(other, &[&holder], vec![taken.clone()]);
    assert_eq!(published, Ok(()));
    let changes = scene.changes();
    assert_eq!(changes.len(), 1);
    assert_eq!((changes[0].0, &changes[0].3), (PUBLISHER, &vec![taken]));
}

#[test]
fn subscriptions_end_with_the_session_with_time_and_at_their_bound() {
    let mut config = Config::default();
    config.max_subscriptions_per_asker = 2;
    let mut scene = Scene::new(config);
    let line = Holder::line(3);
    for holder in &line {
        scene.publish(holder, holder.locator(1));
        scene.directory.found(holder.name());
    }
    // The oldest of three is lost.
    for (holder, told) in line.iter().zip([0, 1, 1]) {
        scene.publish(holder, holder.withdrawal(2));
        assert_eq!(scene.heard().len(), told);
    }
    scene.directory.rib.forget_asker(&ASKER);
    let now = scene.now();
    scene.directory.rib.advance(now);
    assert_eq!(scene.directory.rib.subscriptions(), 2, "the publisher's");
    scene.publish(&line[2], line[2].locator(3));
    assert_eq!(scene.heard(), []);
    // A name that does not appear within a minute is asked for again by who needs it.
    let late = Holder::new();
    scene.directory.look_up(late.name());
    scene.directory.now_s += 61;
    let statement = Statement::Route { via: ASKER, scope: Scope::Any };
    let window = Window::starting(NOW_S, LIFETIME_S);
    scene.publish(&late, late.say(statement, 1, window));
    assert_eq!(scene.heard(), []);
}
