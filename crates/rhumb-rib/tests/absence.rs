//! "Not here" is signed, holds for seconds, and costs a flood of look-ups no signature each.

use rhumb_rib::{Asker, Config, DropReason};
use rhumb_trust::{StatementError, verify_statement};
use rhumb_wire::rib::{RequestId, RibRequest, RibRequestBody, RibResponseBody};
use rhumb_wire::{Certificate, Name, Statement};

use crate::world::{Directory, Holder, NOW_S, look_up_with};

const NOBODY: Name = Name([7; 32]);

fn absence(body: RibResponseBody) -> Certificate {
    match body {
        RibResponseBody::Absent(certificate) => certificate,
        other => panic!("{other:?} is no absence"),
    }
}

#[test]
fn an_absence_is_believed_by_whoever_knows_the_directory() {
    let mut directory = Directory::new();
    let certificate = absence(directory.look_up(NOBODY));
    assert_eq!(certificate.statement, Statement::Absence { subject: NOBODY });
    assert_eq!(certificate.issuer, directory.identity.name());
    assert_eq!((certificate.not_before_s, certificate.not_after_s), (NOW_S, NOW_S + 2));
    assert!(verify_statement(&certificate, directory.identity.metadata(), NOW_S).is_ok());
    let other =
        Certificate { statement: Statement::Absence { subject: Name([8; 32]) }, ..certificate };
    assert_eq!(
        verify_statement(&other, directory.identity.metadata(), NOW_S),
        Err(StatementError::BadSignature)
    );
}

#[test]
fn one_signature_serves_for_its_lifetime() {
    let mut directory = Directory::new();
    let first = absence(directory.look_up(NOBODY));
    for _ in 0..1000 {
        assert_eq!(absence(directory.look_up(NOBODY)), first);
    }
    directory.now_s += 1;
    assert_eq!(absence(directory.look_up(NOBODY)), first);
    assert_eq!(directory.rib.counters().absences_signed, 1);
    directory.now_s += 1;
    assert_ne!(absence(directory.look_up(NOBODY)), first);
    // A clock that jumped back does not serve what is signed for later.
    directory.now_s -= 10;
    assert_eq!(absence(directory.look_up(NOBODY)).not_before_s, directory.now_s);
    assert_eq!(directory.rib.counters().absences_signed, 3);
    assert_eq!(directory.rib.counters().lookups_absent, 1004);
}

#[test]
fn a_name_that_appears_is_absent_no_longer() {
    let mut directory = Directory::new();
    let holder = Holder::new();
    absence(directory.look_up(holder.name()));
    assert_eq!(directory.tell(&holder, holder.locator(1)), Ok(()));
    assert_eq!(directory.found(holder.name()).len(), 1);
    assert_eq!(directory.tell(&holder, holder.withdrawal(2)), Ok(()));
    assert_eq!(absence(directory.look_up(holder.name())).not_before_s, NOW_S);
}

#[test]
fn the_signatures_of_a_second_are_bounded_for_one_and_for_all() {
    let mut config = Config::default();
    (config.absences_per_asker_per_s, config.absences_per_s) = (20, 50);
    let mut directory = Directory::with(config);
    let mut answered = [0; 4];
    let mut number = 0u32;
    for (asker, answered) in answered.iter_mut().enumerate() {
        for _ in 0..40 {
            number += 1;
            let mut name = [0; 32];
            name[..4].copy_from_slice(&number.to_be_bytes());
            let mut data = Vec::new();
            // Whatever is asked for, it is one signature.
            let body = match number % 2 {
                0 => RibRequestBody::LookUpRoute(Name(name)),
                _ => RibRequestBody::LookUpAddress(Name(name).beginning()),
            };
            RibRequest { id: RequestId(number), body }.emit(&mut data);
            let asker = Asker::stranger(Name([asker as u8; 32]), 1300);
            let answer = look_up_with(&mut directory.rib, asker, &data, NOW_S);
            *answered += u32::from(answer.is_some());
        }
    }
    assert_eq!(answered, [20, 20, 10, 0]);
    assert_eq!(directory.rib.counters().dropped(DropReason::OverBudget), 110);
    // What is known costs no signature, so it is answered all the same.
    directory.now_s += 1;
    let holder = Holder::new();
    assert_eq!(directory.tell(&holder, holder.locator(1)), Ok(()));
    for _ in 0..100 {
        assert_eq!(directory.found(holder.name()).len(), 1);
    }
}
