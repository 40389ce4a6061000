//! Whatever a network and a router do to a node, it neither panics nor gets
//! stuck: once they behave, it joins and sends.

use std::time::Duration;

use proptest::prelude::*;
use rhumb_wire::nack::Reason;
use rhumb_wire::pdu::{Label, LabelledHeader};
use rhumb_wire::{Action, Batch, Name, PduHeader};

use crate::world::{OnAdvertise, World, router_address};

const TO: Name = Name([7; 32]);

#[derive(Debug, Clone)]
enum Step {
    Send(u16),
    SendUnkept,
    Ping(u8),
    Nack { about: usize, reason: Reason },
    Garbage(Vec<u8>),
    Pdu { action: u8, data: Vec<u8>, tag: u32 },
    Labelled { action: u8, data: Vec<u8>, label: u32 },
    Wait(u32),
    Cut(bool),
    Close,
    Replace,
    OnAdvertise(OnAdvertise),
}

fn any_reason() -> impl Strategy<Value = Reason> {
    prop_oneof![
        any::<u16>().prop_map(Reason::NotYet),
        any::<u16>().prop_map(Reason::Unreachable),
        any::<u16>().prop_map(Reason::TooBig),
        Just(Reason::TtlExceeded),
        Just(Reason::BadCertificate),
        Just(Reason::NotAuthorised),
        Just(Reason::UnknownFlow),
        any::<u16>().prop_map(Reason::Overloaded),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let data = || prop::collection::vec(any::<u8>(), 0..60);
    prop_oneof![
        4 => (0..1500u16).prop_map(Step::Send),
        2 => Just(Step::SendUnkept),
        2 => any::<u8>().prop_map(Step::Ping),
        6 => (any::<usize>(), any_reason()).prop_map(|(about, reason)| Step::Nack { about, reason }),
        2 => data().prop_map(Step::Garbage),
        4 => (1..=9u8, data(), any::<u32>())
            .prop_map(|(action, data, tag)| Step::Pdu { action, data, tag }),
        3 => (0..3u8, data(), 0..4u32)
            .prop_map(|(action, data, label)| Step::Labelled { action, data, label }),
        6 => (0..20_000u32).prop_map(Step::Wait),
        1 => any::<bool>().prop_map(Step::Cut),
        1 => Just(Step::Close),
        1 => Just(Step::Replace),
        1 => Just(Step::OnAdvertise(OnAdvertise::Silence)),
        1 => any::<bool>().prop_map(|published| {
            Step::OnAdvertise(OnAdvertise::Accept { lease_s: 30, published })
        }),
    ]
}

fn take(world: &mut World, step: Step) {
    match step {
        // Refusals to take more are part of the game.
        Step::Send(len) => drop(world.core.send(TO, 1, &vec![0; len.into()], world.now)),
        Step::SendUnkept => {
            let mut out = Batch::new();
            let _ = world.core.send_unkept(TO, b"message", &mut out, world.now);
            world.put_on_wire(&out);
        }
        Step::Ping(ttl) => drop(world.core.ping(TO, ttl, 0, world.now)),
        Step::Nack { about, reason } => {
            if world.router.session.is_some() && !world.router.seen.is_empty() {
                let about = world.router.seen[about % world.router.seen.len()].clone();
                world.nack(&about, reason);
            }
        }
        Step::Garbage(bytes) => {
            let mut batch = Batch::new();
            batch.push(router_address(), &bytes);
            world.core.handle_batch(&mut batch, world.now);
        }
        Step::Pdu { action, data, tag } => {
            let action = [
                Action::Data,
                Action::Nack,
                Action::Ping,
                Action::Pong,
                Action::Advertise,
                Action::Accept,
                Action::RibRequest,
                Action::RibResponse,
                Action::FlowAccept,
            ][usize::from(action) % 9];
            if world.router.session.is_some() {
                let header = PduHeader { tag, ..PduHeader::new(action, TO, world.core.name()) };
                world.router.send(header, &data, world.now);
            }
        }
        Step::Labelled { action, data, label } => {
            let action = [Action::Data, Action::Ping, Action::Nack][usize::from(action)];
            if world.router.session.is_some() {
                let header = LabelledHeader { action, ttl: 9, tag: label, label: Label(label) };
                world.router.send_labelled(header, &data, world.now);
            }
        }
        Step::Wait(ms) => world.run_for(Duration::from_millis(ms.into())),
        Step::Cut(cut) => world.cut = cut,
        Step::Close => {
            if let Some(session) = world.router.session {
                world.router.endpoint.close(session, world.now.instant);
            }
        }
        Step::Replace => world.replace_router(),
        Step::OnAdvertise(answer) => world.router.on_advertise = answer,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        max_shrink_iters: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn a_node_recovers_from_whatever_happens(steps in prop::collection::vec(any_step(), 1..60)) {
        // Once joined, no refusal is final.
        let mut world = World::joined();
        for step in steps {
            take(&mut world, step);
        }
        world.cut = false;
        world.router.on_advertise = OnAdvertise::Accept { lease_s: 600, published: true };
        // Silence is noticed after 20 s, and an attempt under way ends after 13 s.
        world.run_for(Duration::from_secs(60));
        prop_assert!(world.core.is_joined(), "{:?}", world.events.last());
        world.router.seen.clear();
        world.router.labelled.clear();
        world.core.send(TO, 1, b"at last", world.now).expect("room");
        world.run_for(Duration::from_secs(1));
        let seen = world.router.seen(Action::Data);
        let in_full = seen.iter().map(|it| &it.data);
        let mut all = in_full.chain(world.router.labelled.iter().map(|(_, data)| data));
        prop_assert!(all.any(|data| data.ends_with(b"at last")));
    }
}
