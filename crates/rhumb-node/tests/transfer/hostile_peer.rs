//! Whatever messages and NACKs come, in whatever order: no panic, no
//! message too long, no endless talk, one outcome.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use rhumb_node::transfer::{Event, MIN_BODY_LEN, Receiver, ReceiverConfig, Sender, SenderConfig};
use rhumb_wire::nack::Reason;
use rhumb_wire::transfer::{
    Ack, CancelReason, Chunk, FileName, Message, MessageBody, Offer, Verdict,
};

use super::pair::{ID, file};

const LEN: u64 = 40_000;

#[derive(Debug, Clone)]
enum Step {
    Message(MessageBody<'static>),
    Nack(Reason),
    Wait(Duration),
    Transmit(usize),
    Cancel,
}

fn any_offset() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..LEN + 2, Just(LEN), LEN - 5..LEN + 5, 0..u64::MAX / 2]
}

fn any_body() -> impl Strategy<Value = MessageBody<'static>> {
    let number = || prop_oneof![0u32..40, any::<u32>()];
    let pairs = prop::collection::vec((1u64..3000, 1u64..3000), 0..6);
    let ack = (any_offset(), any::<u32>(), number(), pairs).prop_map(
        |(cumulative, window, newest, pairs)| {
            let mut end = cumulative;
            let mut ranges = Vec::new();
            for (gap, len) in pairs {
                ranges.push(end + gap..end + gap + len);
                end += gap + len;
            }
            MessageBody::Ack(Ack { cumulative, window, newest, ranges })
        },
    );
    let chunk = (number(), any::<u8>(), any_offset(), 1usize..1400).prop_map(
        |(number, ack_every, offset, len)| {
            let bytes = &[0x55; 1400][..len];
            MessageBody::Chunk(Chunk { number, ack_every, offset, bytes })
        },
    );
    let verdict = prop_oneof![Just(Verdict::Intact), Just(Verdict::Corrupt)];
    prop_oneof![
        2 => prop_oneof![Just(0), 0u32..5000, any::<u32>()].prop_map(|window| MessageBody::Accept { window }),
        8 => ack,
        8 => chunk,
        1 => Just(MessageBody::Offer(offer(LEN))),
        1 => any_offset().prop_map(|length| MessageBody::Offer(offer(length))),
        1 => verdict.prop_map(MessageBody::Finished),
        1 => Just(MessageBody::Cancel(CancelReason::Busy)),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let reason = prop_oneof![
        any::<u16>().prop_map(Reason::NotYet),
        any::<u16>().prop_map(Reason::TooBig),
        (0u16..100).prop_map(Reason::Overloaded),
        Just(Reason::UnknownFlow),
    ];
    prop_oneof![
        12 => any_body().prop_map(Step::Message),
        2 => reason.prop_map(Step::Nack),
        4 => (0u64..100_000).prop_map(|us| Step::Wait(Duration::from_micros(us))),
        1 => (0u64..40).prop_map(|s| Step::Wait(Duration::from_secs(s))),
        12 => (1usize..30).prop_map(Step::Transmit),
        1 => Just(Step::Cancel),
    ]
}

fn offer(length: u64) -> Offer {
    Offer { length, sha256: [1; 32], name: FileName::new("f").expect("a good name") }
}

/// Both ends as one, to take the same steps.
trait End {
    fn step(&mut self, step: &Step, now: Instant);
    fn transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool;
    fn timeout(&self) -> Option<Instant>;
    fn event(&mut self) -> Option<Event>;
    fn is_closed(&self) -> bool;
}

macro_rules! end {
    ($end:ty) => {
        impl End for $end {
            fn step(&mut self, step: &Step, now: Instant) {
                match step {
                    Step::Message(body) => {
                        self.handle_message(&Message { id: ID, body: body.clone() }, now);
                    }
                    Step::Nack(reason) => self.handle_nack(*reason, now),
                    Step::Cancel => self.cancel(now),
                    Step::Wait(_) | Step::Transmit(_) => {}
                }
            }
            fn transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
                self.poll_transmit(now, out)
            }
            fn timeout(&self) -> Option<Instant> {
                self.poll_timeout()
            }
            fn event(&mut self) -> Option<Event> {
                self.poll_event()
            }
            fn is_closed(&self) -> bool {
                Self::is_closed(self)
            }
        }
    };
}

end!(Sender<Vec<u8>>);
end!(Receiver<Vec<u8>>);

/// Takes the steps, then leaves the end alone until it is closed.
fn survive(end: &mut dyn End, steps: &[Step], max_len: usize, mut now: Instant) {
    let mut outcomes = 0;
    let mut listen = |end: &mut dyn End, now: Instant, most: usize| {
        let mut out = Vec::new();
        let mut count = 0;
        while count < most && end.transmit(now, &mut out) {
            assert!(out.len() <= max_len, "{} bytes", out.len());
            assert!(Message::parse(&out).is_ok());
            out.clear();
            count += 1;
        }
        while let Some(event) = end.event() {
            assert_eq!(outcomes, 0, "nothing follows the outcome: {event:?}");
            outcomes += usize::from(!matches!(event, Event::Progress { .. }));
        }
        count
    };
    for step in steps {
        end.step(step, now);
        match step {
            Step::Wait(time) => now += *time,
            Step::Transmit(most) => _ = listen(end, now, *most),
            _ => {}
        }
    }
    let (mut rounds, deadline) = (0, now + Duration::from_secs(120));
    while !end.is_closed() {
        let count = listen(end, now, 10_000);
        assert!(count < 10_000, "it talks without end");
        let Some(next) = end.timeout() else { break };
        now = now.max(next);
        rounds += 1;
        assert!(rounds < 5_000 && now < deadline, "it never gives up");
    }
    listen(end, now, 10);
    assert!(end.is_closed() && outcomes == 1, "{outcomes} outcomes");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_sender_survives(steps in prop::collection::vec(any_step(), 0..60)) {
        let now = Instant::now();
        let config = SenderConfig::default();
        let mut sender = Sender::new(ID, offer(LEN), file(LEN as usize, 1), &config, now);
        // Else most runs would end before they begin.
        let first = [Step::Transmit(1), Step::Message(MessageBody::Accept { window: 30_000 })];
        let steps: Vec<Step> = first.into_iter().chain(steps).collect();
        survive(&mut sender, &steps, config.max_body_len, now);
    }

    #[test]
    fn a_receiver_survives(
        steps in prop::collection::vec(any_step(), 0..60),
        length in prop_oneof![Just(0), Just(LEN), Just(u64::MAX)],
        window in prop_oneof![Just(0u32), Just(5000), Just(1 << 20)],
    ) {
        let now = Instant::now();
        let config = ReceiverConfig { window, ..ReceiverConfig::default() };
        let mut receiver = Receiver::new(ID, offer(length), &config, now, |_| Ok(Vec::new()));
        survive(&mut receiver, &steps, MIN_BODY_LEN, now);
    }
}
