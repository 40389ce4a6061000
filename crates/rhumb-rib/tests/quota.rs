//! Every bound on what strangers may cause, from both sides.

use rhumb_rib::store::{Embedded, Memory, Store};
use rhumb_rib::{Config, MAX_LIFETIME_S};
use rhumb_trust::Standing;
use rhumb_wire::Name;
use rhumb_wire::rib::Refusal;

use crate::world::{Directory, Holder, NOW_S, routes};

const VIA: Name = Name([1; 32]);
const ONE: Name = Name([0x11; 32]);
const OTHER: Name = Name([0x22; 32]);

fn config(max_names: u64, max_names_per_publisher: u64) -> Config {
    let mut config = Config::default();
    (config.max_names, config.max_names_per_publisher) = (max_names, max_names_per_publisher);
    config
}

#[test]
fn a_full_store_renews_but_takes_nothing_new() {
    let mut directory = Directory::with(config(4, 100));
    let line = Holder::line(6);
    for holder in &line[..3] {
        assert_eq!(directory.tell(holder, holder.route(VIA, 1)), Ok(()));
    }
    // A chain of two new names does not fit, and so neither of them is taken.
    let two: Vec<_> = line[3..5].iter().collect();
    assert_eq!(directory.publish(&two, routes(&line[3..6], 1)), Err(Refusal::QuotaExceeded));
    assert_eq!(directory.stored_names(), 3);
    assert_eq!(directory.tell(&line[3], line[3].route(VIA, 1)), Ok(()));
    assert_eq!(directory.tell(&line[4], line[4].route(VIA, 1)), Err(Refusal::QuotaExceeded));
    assert_eq!(directory.tell(&line[0], line[0].route(VIA, 2)), Ok(()));
    if crate::ELSEWHERE {
        return;
    }
    // Room comes back with time.
    directory.now_s = NOW_S + 2 * MAX_LIFETIME_S;
    directory.sweep();
    assert_eq!(directory.stored_names(), 0);
}

fn a_publisher_has_its_share(store: impl Store) {
    let mut directory = Directory::over(store, config(100, 2));
    let line = Holder::line(4);
    let mut tell = |publisher, at: usize, sequence| {
        directory.publish_as(publisher, &[&line[at]], vec![line[at].route(VIA, sequence)])
    };
    assert_eq!(tell(ONE, 0, 1), Ok(()));
    assert_eq!(tell(ONE, 1, 1), Ok(()));
    assert_eq!(tell(ONE, 2, 1), Err(Refusal::QuotaExceeded));
    assert_eq!(tell(ONE, 1, 2), Ok(()));
    assert_eq!(tell(OTHER, 2, 1), Ok(()));
    // A name that moves counts where it went, and no longer where it was.
    assert_eq!(tell(OTHER, 0, 2), Ok(()));
    assert_eq!(tell(OTHER, 1, 3), Err(Refusal::QuotaExceeded));
    assert_eq!(tell(ONE, 3, 1), Ok(()));
    assert_eq!(tell(ONE, 0, 3), Err(Refusal::QuotaExceeded));
    assert_eq!(directory.held_by(ONE), 2);
}

#[test]
fn a_publisher_has_its_share_in_memory() {
    a_publisher_has_its_share(crate::usual(Memory::new()));
}

#[test]
fn a_publisher_has_its_share_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    a_publisher_has_its_share(Embedded::open(&folder.path().join("rib")).unwrap());
}

#[test]
fn bad_signatures_use_up_the_allowance_of_whoever_sends_them_only() {
    let mut config = Config::default();
    config.signatures_per_source_per_s = 10;
    let mut directory = Directory::with(config);
    directory.standing = Standing::Stranger;
    let holder = Holder::new();
    let mut forged = holder.route(VIA, 5);
    forged.signature[0] ^= 1;
    let mut answers = Vec::new();
    for number in 0..100 {
        // The very same again costs nothing, so each is another; the first byte is wrong in all.
        forged.signature[1] = number;
        answers.push(directory.publish_as(ONE, &[&holder], vec![forged.clone()]).unwrap_err());
    }
    assert_eq!(answers[..10], [Refusal::BadSignature; 10]);
    assert_eq!(answers[10..], [Refusal::QuotaExceeded; 90]);
    let good = holder.route(VIA, 4);
    assert_eq!(directory.publish_as(OTHER, &[&holder], vec![good.clone()]), Ok(()));
    // What is stored already needs no signature checked.
    assert_eq!(directory.publish_as(ONE, &[], vec![good]), Ok(()));
    directory.now_s += 1;
    assert_eq!(directory.publish_as(ONE, &[], vec![holder.route(VIA, 6)]), Ok(()));
}
