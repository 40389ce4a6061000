//! Floods of look-ups, of forged orders, and of silent subscribers: what they hold up of others'.

use std::time::{Duration, Instant};

use rhumb_link::Source;
use rhumb_rib::store::Memory;
use rhumb_rib::{Asker, Config, DropReason, Outcome, Rib};
use rhumb_trust::{Now, Standing};
use rhumb_wire::Name;
use rhumb_wire::rib::{
    Refusal, RequestId, RibRequest, RibRequestBody, RibResponse, RibResponseBody,
};

use crate::world::{Directory, Holder, NOW_S};

const VIA: Name = Name([1; 32]);

fn asker(number: u32, source: u8, standing: Standing) -> Asker {
    let mut name = [0x77; 32];
    name[..4].copy_from_slice(&number.to_be_bytes());
    let source = Source::V4([192, 0, 2, source]);
    Asker { source, standing, ..Asker::stranger(Name(name), 1300) }
}

fn ask(rib: &mut Rib<Memory>, asker: Asker, id: u32, body: RibRequestBody) -> Outcome {
    let mut data = Vec::new();
    RibRequest { id: RequestId(id), body }.emit(&mut data);
    rib.handle_request(asker, &data, NOW_S)
}

fn order(holder: &Holder, sequence: u64) -> RibRequestBody {
    let certificates = vec![holder.route(VIA, sequence)];
    RibRequestBody::Publish { metadata: vec![holder.metadata()], certificates }
}

fn forged(holder: &Holder, number: u64) -> RibRequestBody {
    let mut certificate = holder.route(VIA, 1);
    certificate.signature[32..40].copy_from_slice(&number.to_be_bytes());
    let (metadata, certificates) = (vec![holder.metadata()], vec![certificate]);
    RibRequestBody::Publish { metadata, certificates }
}

#[test]
fn look_ups_of_random_names_hold_up_no_publication_and_nobody_else() {
    let mut directory = Directory::new();
    let rib = &mut directory.rib;
    let attacker = asker(1, 1, Standing::Stranger);
    let look_up = |number: u32| {
        let mut name = [0xEE; 32];
        name[..4].copy_from_slice(&number.to_be_bytes());
        RibRequestBody::LookUpRoute(Name(name))
    };
    // From as many names as it likes.
    let mut answered = 0;
    for number in 0..5_500 {
        let by = asker(number, 1, Standing::Stranger);
        answered += u32::from(matches!(ask(rib, by, number, look_up(number)), Outcome::Answer(_)));
    }
    assert_eq!(answered, Config::default().absences_per_asker_per_s);
    let holder = Holder::new();
    assert!(matches!(ask(rib, attacker, 1, order(&holder, 1)), Outcome::Staged(_)));
    assert_eq!(rib.commit().len(), 1);
    for (source, standing) in [(2, Standing::Stranger), (1, Standing::Admitted)] {
        let by = asker(6_000, source, standing);
        let outcome = ask(rib, by, 1, look_up(10_000 + u32::from(source)));
        assert!(matches!(outcome, Outcome::Answer(_)), "{outcome:?}");
    }
    // All sources together leave the admitted theirs.
    for number in 0..20_000 {
        let by = asker(number, (number % 100) as u8 + 3, Standing::Stranger);
        ask(rib, by, number, look_up(20_000 + number));
    }
    let outcome = ask(rib, asker(6_000, 1, Standing::Admitted), 1, look_up(50_000));
    assert!(matches!(outcome, Outcome::Answer(_)), "{outcome:?}");
}

#[test]
fn thirty_publishers_of_forgeries_hold_up_others_by_one_turn() {
    let mut directory = Directory::new();
    let rib = &mut directory.rib;
    let holder = Holder::new();
    let mut dropped = 0;
    for number in 0..6_000u32 {
        let by = asker(number % 30, (number % 3) as u8 + 1, Standing::Stranger);
        match ask(rib, by, number, forged(&holder, u64::from(number))) {
            Outcome::Staged(_) => {}
            Outcome::Dropped(DropReason::TooManyOrders) => dropped += 1,
            Outcome::Answer(RibResponse { body, .. }) => {
                assert_eq!(body, RibResponseBody::Refused(Refusal::QuotaExceeded));
                dropped += 1;
            }
            Outcome::Noted => panic!("an order is answered"),
            Outcome::Dropped(reason) => panic!("{reason:?}"),
        }
    }
    assert!(dropped > 3_000, "{dropped}");
    // A stranger from elsewhere and an admitted router come
    // last, and are among the next few all the same.
    let (stranger, admitted) = (Holder::new(), Holder::new());
    let outcomes = [
        ask(rib, asker(1, 50, Standing::Stranger), 1, order(&stranger, 1)),
        ask(rib, asker(2, 1, Standing::Admitted), 2, order(&admitted, 1)),
    ];
    assert!(outcomes.iter().all(|it| matches!(it, Outcome::Staged(_))), "{outcomes:?}");
    for _ in 0..8 {
        let verdict = rib.poll_verification().unwrap().run();
        rib.handle_verified(verdict);
    }
    let committed = rib.poll_commit().unwrap().run(&mut Memory::new());
    rib.handle_committed(committed);
    let answers = std::iter::from_fn(|| rib.poll_answer());
    let stored = answers.filter(|(_, answer)| answer.body == RibResponseBody::Stored).count();
    assert_eq!(stored, 2);
}

#[test]
fn the_same_forgery_is_refused_again_without_a_look_at_its_signature() {
    let mut directory = Directory::new();
    let rib = &mut directory.rib;
    let holder = Holder::new();
    let by = asker(1, 1, Standing::Stranger);
    let bad = forged(&holder, 1);
    assert!(matches!(ask(rib, by, 1, bad.clone()), Outcome::Staged(_)));
    assert_eq!(rib.commit()[0].body, RibResponseBody::Refused(Refusal::BadSignature));
    for other in 0..5_000 {
        let outcome = ask(rib, asker(other, 2, Standing::Stranger), 7, bad.clone());
        let body = RibResponseBody::Refused(Refusal::BadSignature);
        assert_eq!(outcome, Outcome::Answer(RibResponse { id: RequestId(7), body }));
    }
    assert!(rib.poll_verification().is_none());
    // The signature that it has instead is another order.
    assert!(matches!(ask(rib, by, 1, order(&holder, 1)), Outcome::Staged(_)));
}

#[test]
fn silent_subscribers_are_sent_little_however_many_sessions_they_have() {
    let mut directory = Directory::new();
    let rib = &mut directory.rib;
    let (name, honest) = (Holder::new(), asker(9_999, 9, Standing::Stranger));
    assert!(matches!(
        ask(rib, asker(0, 50, Standing::Admitted), 1, order(&name, 1)),
        Outcome::Staged(_)
    ));
    assert_eq!(rib.commit().len(), 1);
    let mut asked = 0;
    for session in 0..400 {
        let body = RibRequestBody::LookUpRoute(name.name());
        asked += 37 + 76 + 28;
        ask(rib, asker(session, 1, Standing::Stranger), session, body);
    }
    ask(rib, honest, 1, RibRequestBody::LookUpRoute(name.name()));
    let mut now = start();
    let (mut told, mut pushed) = (0, 0);
    for round in 0..60u64 {
        let by = asker(0, 50, Standing::Admitted);
        let certificates = vec![name.route(Name([round as u8 + 2; 32]), round + 2)];
        let change = RibRequestBody::Publish { metadata: Vec::new(), certificates };
        assert!(matches!(ask(rib, by, 1, change), Outcome::Staged(_)));
        assert_eq!(rib.commit().len(), 1);
        for turn in 0..200 {
            while let Some(push) = rib.poll_change(now) {
                let mut data = Vec::new();
                push.response.emit(&mut data);
                if push.asker == honest.name {
                    assert_eq!(turn, 0, "who answers is told at once");
                    told += 1;
                    ask(rib, honest, push.response.id.0, RibRequestBody::Acknowledge);
                } else {
                    pushed += data.len() + 76 + 28;
                }
            }
            now = now.plus(Duration::from_millis(5));
        }
    }
    assert_eq!(told, 60);
    // A minute of changes, 400 sessions: what the first window lets out,
    // then six datagrams a second to all of them.
    assert!(pushed <= asked * 5, "{pushed} bytes for {asked}");
}

#[expect(clippy::disallowed_methods, reason = "a test's clock begins somewhere")]
fn start() -> Now {
    Now { instant: Instant::now(), unix_ms: NOW_S * 1000 }
}
