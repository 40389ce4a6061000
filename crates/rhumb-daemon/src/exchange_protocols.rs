//! What is spoken over channels between servers and members. What is in the messages is the
//! business of `rhumb_exchange`.

use std::time::Duration;

use rhumb_channel::Protocol;
use rhumb_exchange::{MAX_MEMBER_MESSAGE, MAX_PEER_MESSAGE};

/// Between a member and a server, as the server has it. The member calls. Both say a hello first.
pub const MEMBER: Protocol = Protocol {
    name: "rhumb-exchange-member/1",
    max_received: MAX_MEMBER_MESSAGE,
    max_sent: MAX_MEMBER_MESSAGE,
    max_queue: MAX_QUEUE_TO_MEMBER,
};
/// The same, as the member has it.
pub const SERVER: Protocol = Protocol {
    name: MEMBER.name,
    max_received: MEMBER.max_sent,
    max_sent: MEMBER.max_received,
    max_queue: 16 << 20,
};
/// Between the parties. Party one calls.
pub const PAIR: Protocol = Protocol {
    name: "rhumb-exchange-pair/1",
    max_received: MAX_PEER_MESSAGE,
    max_sent: MAX_PEER_MESSAGE,
    max_queue: 4 * MAX_PEER_MESSAGE,
};
/// Between a primary of party one and its standby, which calls.
pub const WATCH: Protocol =
    Protocol { name: "rhumb-exchange-watch/1", max_received: 1, max_sent: 1, max_queue: 1 << 10 };
/// Between neighbours a hello takes milliseconds.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// What a goodbye may take.
pub const GOODBYE: Duration = Duration::from_secs(2);

/// What is computed for all cannot wait for one: at 10,000 announcements a second of 250 bytes, a
/// member behind 10 Mbit/s is cut after a table of some 500,000. It is back at once, and gets what
/// it lacks at its own pace: replays wait for it.
const MAX_QUEUE_TO_MEMBER: usize = 64 << 20;
