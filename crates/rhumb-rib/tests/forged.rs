//! Nothing that is not its issuer's own word is stored, and an order is taken whole or not at all.

use rhumb_rib::{Asker, DropReason, Outcome};
use rhumb_wire::rib::{Refusal, RequestId, RibRequest, RibRequestBody, RibResponseBody};
use rhumb_wire::{Certificate, Name, Statement};

use crate::world::{ASKER, Directory, Holder, NOW_S, routes, window};

const VIA: Name = Name([1; 32]);

#[test]
fn any_flipped_bit_is_refused() {
    let mut directory = Directory::new();
    let holder = Holder::new();
    let mut bytes = Vec::new();
    holder.route(VIA, 5).emit(&mut bytes);
    let mut refused = 0;
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let Ok(certificate) = Certificate::parse(&flipped) else { continue };
        assert!(directory.tell(&holder, certificate).is_err(), "bit {bit}");
        refused += 1;
        directory.now_s += 1; // A fresh allowance of signatures.
        directory.now_s = NOW_S + directory.now_s % 2;
    }
    assert!(refused > 800, "{refused}");
    assert_eq!(directory.stored_names(), 0);
    assert_eq!(directory.tell(&holder, holder.route(VIA, 5)), Ok(()));
}

#[test]
fn nobody_speaks_for_another() {
    let mut directory = Directory::new();
    let (victim, attacker) = (Holder::new(), Holder::new());
    let forged = Certificate { issuer: victim.name(), ..attacker.route(attacker.name(), 9) };
    let both = [&victim, &attacker];
    assert_eq!(directory.publish(&both, vec![forged.clone()]), Err(Refusal::BadSignature));
    // Only the attacker's metadata: they hash to another name, so the victim's key is not known.
    assert_eq!(directory.publish(&[&attacker], vec![forged.clone()]), Err(Refusal::UnknownIssuer));
    // Once the victim is known, its own key is what counts, whatever is sent along.
    let honest = victim.route(VIA, 1);
    assert_eq!(directory.tell(&victim, honest.clone()), Ok(()));
    assert_eq!(directory.publish(&both, vec![forged.clone()]), Err(Refusal::BadSignature));
    let withdrawn = Certificate { issuer: victim.name(), ..attacker.withdrawal(9) };
    assert_eq!(directory.publish(&both, vec![withdrawn]), Err(Refusal::BadSignature));
    assert_eq!(directory.found(victim.name()), [honest]);
    // A signature for one kind of statement does not serve for another.
    let route = victim.route(VIA, 3);
    let twisted = Certificate { statement: Statement::Withdrawal, ..route };
    assert_eq!(directory.tell(&victim, twisted), Err(Refusal::BadSignature));
}

#[test]
fn an_order_is_taken_whole_or_not_at_all() {
    let mut directory = Directory::new();
    let line = Holder::line(3);
    let issuers: Vec<_> = line.iter().collect();
    let good = routes(&line, 1);
    let mut forged = good.clone();
    forged[1].signature[7] ^= 1;
    assert_eq!(directory.publish(&issuers, forged), Err(Refusal::BadSignature));
    assert_eq!(directory.publish(&issuers[..1], good.clone()), Err(Refusal::UnknownIssuer));
    assert_eq!(directory.tell(&line[1], line[1].route(VIA, 2)), Ok(()));
    assert_eq!(directory.publish(&issuers, good.clone()), Err(Refusal::Superseded));
    assert_eq!(directory.found(line[0].name()), []);
    assert_eq!(directory.stored_names(), 1);
}

#[test]
fn several_statements_must_be_one_chain() {
    let mut directory = Directory::new();
    let line = Holder::line(4);
    let issuers: Vec<_> = line.iter().collect();
    let good = routes(&line, 1);
    let mut refuse = |certificates: Vec<Certificate>| {
        assert_eq!(directory.publish(&issuers, certificates), Err(Refusal::Malformed));
    };
    refuse(vec![]);
    refuse(vec![good[0].clone(), good[2].clone()]);
    refuse(vec![good[1].clone(), good[0].clone()]);
    refuse(vec![good[0].clone(), good[0].clone()]);
    refuse(vec![line[0].locator(1), good[0].clone()]);
    refuse(vec![good[0].clone(), line[1].withdrawal(1)]);
    // A chain that leads back into itself.
    refuse(vec![good[0].clone(), line[1].route(line[0].name(), 1)]);
    refuse(vec![good[0].clone(), line[1].route(line[0].name(), 1), line[0].route(VIA, 2)]);
    assert_eq!(directory.stored_names(), 0);
}

#[test]
fn an_absence_cannot_be_published() {
    let mut directory = Directory::new();
    let holder = Holder::new();
    let absence = holder.say(Statement::Absence { subject: VIA }, 1, window());
    assert_eq!(directory.tell(&holder, absence), Err(Refusal::NotPublishable));
}

#[test]
fn what_cannot_be_read_is_refused_if_it_can_be_told_which_it_was() {
    let mut directory = Directory::new();
    let asker = Asker::admitted(ASKER, 1300);
    let mut data = Vec::new();
    RibRequest { id: RequestId(77), body: RibRequestBody::LookUpRoute(VIA) }.emit(&mut data);
    for len in 0..data.len() {
        match directory.rib.handle_request(asker, &data[..len], NOW_S) {
            Outcome::Answer(answer) => {
                assert!(len >= 5);
                assert_eq!(answer.id, RequestId(77));
                assert_eq!(answer.body, RibResponseBody::Refused(Refusal::Malformed));
            }
            outcome => {
                assert!(len < 5);
                assert_eq!(outcome, Outcome::Dropped(DropReason::UnreadableRequest));
            }
        }
    }
    assert_eq!(directory.rib.counters().dropped(DropReason::UnreadableRequest), 5);
}
