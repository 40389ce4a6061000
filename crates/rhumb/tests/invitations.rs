//! Invitations: each admits one name, once, in time, and nobody in between. What strangers try.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rhumb_channel::{Channel, Credentials, Listener, Protocol, connect_to_anybody};
use rhumb_trust::Identity;
use rhumb_trust::invitation::{Invitation, InvitationKey, Meeting, Side};
use rhumb_wire::Role;
use rhumb_wire::admission::{Admission, Refusal};
use tokio::runtime::Runtime;

use crate::hosts::{Keeper, host, joined, redirected};

/// As the program speaks it, from both ends.
const PROTOCOL: Protocol = Protocol {
    name: "rhumb-network/1",
    max_received: Admission::MAX_TOLD_LEN,
    max_sent: Admission::MAX_TOLD_LEN,
    max_queue: Admission::MAX_TOLD_LEN,
};

/// Somebody with a name and a channel to a keeper.
struct Caller {
    channel: Channel,
    meeting: Meeting,
}

impl Caller {
    async fn to(keeper: &Keeper, identity: &Identity) -> Self {
        let address = SocketAddr::new(keeper.address.parse().unwrap(), 7462);
        let credentials = Credentials::new(identity).unwrap();
        let channel = connect_to_anybody(&credentials, address, &PROTOCOL).await.unwrap();
        let (keeper, binding) = (channel.peer, channel.binding);
        Self { channel, meeting: Meeting { keeper, joiner: identity.name(), binding } }
    }

    async fn say(&self, message: Admission) {
        self.channel.outbox.send(message.emit()).await.unwrap();
    }

    /// What is answered; nothing if the keeper says goodbye.
    async fn hear(&mut self) -> Option<Admission> {
        let message = self.channel.inbox.next().await.ok()?;
        Some(Admission::parse(&message).unwrap())
    }

    /// Claims an invitation, and returns the keeper's proof.
    async fn claim(&mut self, key: &InvitationKey) -> [u8; 32] {
        self.say(Admission::Claim(key.id())).await;
        match self.hear().await {
            Some(Admission::Proof(proof)) => proof,
            other => panic!("{other:?}"),
        }
    }

    async fn join(&mut self, key: &InvitationKey) -> Option<Admission> {
        let proof = self.claim(key).await;
        assert!(key.is_proven(Side::Keeper, &self.meeting, &proof));
        self.say(Admission::Proof(key.prove(Side::Joiner, &self.meeting))).await;
        self.hear().await
    }
}

fn identity() -> Identity {
    Identity::generate(Role::Node, 1).unwrap()
}

fn key_of(code: &str) -> InvitationKey {
    code.parse::<Invitation>().unwrap().key()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn is_invited(keeper: &Keeper, label: &str) -> bool {
    keeper.shown().iter().any(|it| it["label"] == label && it["invited_until_s"].is_u64())
}

#[test]
fn somebody_in_between_passes_on_proofs_in_vain() {
    let keeper = Keeper::create("home");
    let _running = keeper.run();
    let code = keeper.invite("alice");
    let runtime = runtime();
    // She is led to Mallory, who passes all on to the keeper, and back.
    let mallory = identity();
    let credentials = Credentials::new(&mallory).unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind(any, &credentials, &[PROTOCOL], |_| true);
    let mut listener = runtime.block_on(listener).unwrap();
    let at = listener.local_addr().unwrap();
    let alice = host();
    let led = redirected(&code, "127.0.0.1", at.port());
    let asked = std::thread::spawn(move || (alice.run(&["join", &led]), alice));
    let heard = runtime.block_on(async {
        let mut victim = listener.accept().await;
        let mut caller = Caller::to(&keeper, &mallory).await;
        let claim = victim.inbox.next().await.unwrap();
        caller.channel.outbox.send(claim).await.unwrap();
        let proof = caller.channel.inbox.next().await.unwrap();
        victim.outbox.send(proof.clone()).await.unwrap();
        // What was meant for her is no proof of his.
        caller.channel.outbox.send(proof).await.unwrap();
        (victim.inbox.next().await.is_err(), caller.hear().await)
    });
    assert_eq!(heard, (true, None), "she says no more, and he is told nothing");
    let (refused, alice) = asked.join().unwrap();
    refused.is_refused_with(&["does not know this code", "somebody is in between"]);
    assert!(is_invited(&keeper, "alice"), "nothing was spent");
    assert_eq!(alice.run(&["join", &code]).code, 0);
    assert_eq!(keeper.members(), ["alice", "host"]);
}

#[test]
fn proofs_are_of_one_channel_one_end_and_one_secret() {
    let keeper = Keeper::create("home");
    let _running = keeper.run();
    let key = key_of(&keeper.invite("alice"));
    let alice = identity();
    runtime().block_on(async {
        // One that was good on another channel of the same two names.
        let mut first = Caller::to(&keeper, &alice).await;
        first.claim(&key).await;
        let proof = key.prove(Side::Joiner, &first.meeting);
        let mut second = Caller::to(&keeper, &alice).await;
        assert_ne!(first.meeting.binding, second.meeting.binding);
        second.claim(&key).await;
        second.say(Admission::Proof(proof)).await;
        assert_eq!(second.hear().await, None, "a replay");
        // The keeper's own, sent back.
        let mut third = Caller::to(&keeper, &alice).await;
        let echoed = third.claim(&key).await;
        third.say(Admission::Proof(echoed)).await;
        assert_eq!(third.hear().await, None, "a reflection");
        // By who has seen the id and nothing else.
        let mut fourth = Caller::to(&keeper, &alice).await;
        fourth.claim(&key).await;
        let guessed = InvitationKey::from_parts(key.id(), [7; 32]);
        fourth.say(Admission::Proof(guessed.prove(Side::Joiner, &fourth.meeting))).await;
        assert_eq!(fourth.hear().await, None, "a guess");
        // An invitation that there is not gets a proof as well: nobody learns which there are.
        let mut fifth = Caller::to(&keeper, &alice).await;
        let nothing = InvitationKey::from_parts([9; 8], [9; 32]);
        let proof = fifth.claim(&nothing).await;
        assert!(!nothing.is_proven(Side::Keeper, &fifth.meeting, &proof));
        fifth.say(Admission::Proof(nothing.prove(Side::Joiner, &fifth.meeting))).await;
        assert_eq!(fifth.hear().await, None, "nothing is told");
        // What says nothing first, or what only a keeper says, is nothing here.
        for wrong in [Admission::Proof([1; 32]), Admission::Refusal(Refusal::Used)] {
            let mut caller = Caller::to(&keeper, &alice).await;
            caller.say(wrong).await;
            assert_eq!(caller.hear().await, None);
        }
        let mut stranger = Caller::to(&keeper, &alice).await;
        stranger.say(Admission::Renew).await;
        assert_eq!(stranger.hear().await, Some(Admission::Refusal(Refusal::NoMember)));
    });
    assert!(is_invited(&keeper, "alice"));
    // Whoever runs it sees that somebody tries.
    let admin = keeper.place.path("rhumb/keeper-home.sock");
    let status = ["--json", "status", "--admin", admin.to_str().unwrap()];
    let status = keeper.place.run(&status).object();
    assert_eq!(status["address"], format!("{}:7462", keeper.address), "{status}");
    let talks = &status["talks"];
    assert!(talks["unproven"].as_u64().unwrap() >= 5, "{status}");
    assert_eq!((&talks["welcomed"], &talks["refused"]), (&0.into(), &1.into()), "{status}");
}

#[test]
fn of_all_who_come_at_once_one_is_admitted_and_a_lost_answer_is_no_lost_code() {
    let keeper = Keeper::create("home");
    let running = keeper.run();
    let code = keeper.invite("alice");
    let key = key_of(&code);
    let all: Vec<Identity> = (0..8).map(|_| identity()).collect();
    let runtime = runtime();
    let answers = runtime.block_on(async {
        let mut answers = Vec::new();
        let callers = all.iter().map(|identity| async {
            let mut caller = Caller::to(&keeper, identity).await;
            caller.join(&key).await
        });
        let mut set = Vec::new();
        for caller in callers {
            set.push(Box::pin(caller));
        }
        // All of them are under way before any is done.
        let mut left = set;
        while !left.is_empty() {
            let mut rest = Vec::new();
            for mut caller in left {
                let polled = std::future::poll_fn(|context| {
                    std::task::Poll::Ready(caller.as_mut().poll(context))
                });
                match polled.await {
                    std::task::Poll::Ready(answer) => answers.push(answer),
                    std::task::Poll::Pending => rest.push(caller),
                }
            }
            left = rest;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        answers
    });
    let admitted = |it: &Option<Admission>| matches!(it, Some(Admission::Welcome(_)));
    assert_eq!(answers.iter().filter(|it| admitted(it)).count(), 1, "{answers:?}");
    let used = Some(Admission::Refusal(Refusal::Used));
    assert_eq!(answers.iter().filter(|it| **it == used).count(), 7, "{answers:?}");
    // A keeper that is killed knows it, and answers the one as before.
    running.kill();
    assert_eq!(keeper.place.processes_left(), Vec::<u32>::new());
    let _running = keeper.run();
    let again = runtime.block_on(async {
        let mut again = Vec::new();
        for identity in &all {
            again.push(Caller::to(&keeper, identity).await.join(&key).await);
        }
        again
    });
    assert_eq!(again.iter().filter(|it| admitted(it)).count(), 1);
    host().run(&["join", &code]).is_refused_with(&["this code was used", "rhumb network invite"]);
}

#[test]
fn strangers_who_say_nothing_keep_nobody_out() {
    let keeper = Keeper::create("home");
    let _running = keeper.run();
    let code = keeper.invite("alice");
    let runtime = runtime();
    let _idle = runtime.block_on(async {
        let mut idle = Vec::new();
        let stranger = Arc::new(identity());
        for _ in 0..100 {
            idle.push(Caller::to(&keeper, &stranger).await);
        }
        idle
    });
    joined(&code);
}

#[test]
fn a_code_that_is_no_good_is_said_to_be_and_why() {
    let keeper = Keeper::create("home");
    let code = keeper.invite("alice");
    let alice = host();
    // Before anything is sent: nobody is there yet.
    let mistyped = code.replacen(|letter| letter != 'Z' && letter != '-', "Z", 1);
    alice.run(&["join", &mistyped]).is_refused_with(&["mistyped", "nothing was sent"]);
    alice.run(&["join", &code[..20]]).is_refused_with(&["no code", "nothing was sent"]);
    alice.run(&["join", "what?"]).is_refused_with(&["`?` is in no code"]);
    alice.run(&["join", &code]).is_refused_with(&["7462", "not reached", "TCP port 7462"]);
    let running = keeper.run();
    // Typed with spaces, in small letters.
    let typed = code.to_lowercase().replace('-', " ");
    let words: Vec<&str> = ["join"].into_iter().chain(typed.split(' ')).collect();
    let run = alice.run(&words);
    assert_eq!(run.code, 0, "{}", run.errors);
    alice.run(&["join", &code]).is_refused_with(&["member already, as alice of home"]);
    // Another one, of the network that it is in.
    let second = keeper.invite("alice-again");
    alice.run(&["join", &second]).is_refused_with(&["already", "the code was not used"]);
    assert!(is_invited(&keeper, "alice-again"));
    // One that is over.
    let old = ["--clock-offset-s=-7200", "--json", "network", "invite", "--as", "bob"];
    let old = keeper.place.run(&old).object()["code"].as_str().unwrap().to_owned();
    host().run(&["join", &old]).is_refused_with(&["this code is over", "rhumb network invite"]);
    // One that another one took the place of.
    let first = keeper.invite("carol");
    keeper.invite("carol");
    host().run(&["join", &first]).is_refused_with(&["does not know this code"]);
    // A clock that is wrong: when it is set, the same code is good.
    let dave = host();
    let code = keeper.invite("dave");
    let wrong = dave.run(&["--clock-offset-s=-90000", "join", &code]);
    wrong.is_refused_with(&["clock is 25 h behind the keeper's", "set the clock"]);
    let run = dave.run(&["join", &code]);
    assert_eq!(run.code, 0, "{}", run.errors);
    drop(running);
    let removed = keeper.place.run(&["network", "remove", "dave"]);
    assert_eq!(removed.code, 1, "{}", removed.output);
    assert!(removed.errors.contains("the RIB does not know it yet"), "{}", removed.errors);
    keeper.place.run(&["network", "remove", "dave"]).is_refused_with(&["nobody is called dave"]);
}

#[test]
fn two_networks_of_one_label_are_told_apart() {
    let (one, two) = (Keeper::create("home"), Keeper::create("home"));
    let _running = (one.run(), two.run());
    let alice = joined(&one.invite("alice"));
    let code = two.invite("alice");
    alice.run(&["join", &code]).is_refused_with(&["home", "--called LABEL"]);
    let run = alice.run(&["join", &code, "--called", "work"]);
    assert_eq!(run.code, 0, "{}", run.errors);
    let called = alice.run(&["name"]).output;
    assert!(called.contains("host ") && called.contains("host.work "), "{called}");
    alice.run(&["up"]).is_refused_with(&["several networks", "home, work", "--network"]);
    let mut node = alice.start(&["up", "--network", "work"]);
    while node.next_object()["role"] != "node" {}
}
