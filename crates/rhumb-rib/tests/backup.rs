//! A copy of a store that is made while the directory goes on: all that was acknowledged before is
//! in it, and what is no whole copy makes no store.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rhumb_rib::store::{Copied, Embedded, Store, restore};
use rhumb_rib::{Account, RibError};
use rhumb_wire::Name;
use world::{ASKER, Directory, Holder};

use crate::world;

fn copy_of(store: &Embedded) -> Vec<u8> {
    let mut copy = Vec::new();
    store.back_up(&mut copy).expect("a copy");
    copy
}

fn make(mut copy: &[u8], path: &Path) -> Result<Copied, RibError> {
    let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(path);
    restore(&mut copy, file.expect("a new file"))
}

#[test]
fn a_directory_goes_on_with_the_copy_and_counts_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(&folder.path().join("store")).unwrap();
    let (copied, holders) = (store.share(), Holder::line(50));
    let mut directory = Directory::over(store, Default::default());
    for holder in &holders {
        assert_eq!(directory.tell(holder, holder.locator(7)), Ok(()));
    }
    let copy = copy_of(&copied);
    // What comes later is not in it.
    assert_eq!(directory.tell(&holders[0], holders[0].withdrawal(8)), Ok(()));
    let path = folder.path().join("copy");
    let expected = Copied { names: 50, removals: 0, damaged: 0 };
    assert_eq!(make(&copy, &path).unwrap(), expected);
    let mut again = Embedded::open(&path).unwrap();
    let mut before = directory.rib.into_store();
    for account in [Account::Publisher(ASKER), Account::Admitted, Account::Strangers] {
        assert_eq!(again.held(&account).unwrap().names, before.held(&account).unwrap().names);
    }
    let mut directory = Directory::over(again, Default::default());
    for holder in &holders {
        assert_eq!(directory.found(holder.name()).len(), 1);
    }
    assert_eq!(directory.tell(&holders[1], holders[1].locator(8)), Ok(()));
}

#[test]
fn what_was_acknowledged_before_it_is_in_it_whatever_is_written_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(&folder.path().join("store")).unwrap();
    let (copied, holders) = (store.share(), Holder::line(40));
    let names: Vec<Name> = holders.iter().map(Holder::name).collect();
    let acknowledged = AtomicU64::new(0);
    std::thread::scope(|threads| {
        let writing = threads.spawn(|| {
            let mut directory = Directory::over(store, Default::default());
            for sequence in 1..=20 {
                for holder in &holders {
                    assert_eq!(directory.tell(holder, holder.locator(sequence)), Ok(()));
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        let mut copies = 0;
        while !writing.is_finished() || copies < 2 {
            let before = acknowledged.load(Ordering::SeqCst);
            let path = folder.path().join(format!("copy{copies}"));
            make(&copy_of(&copied), &path).unwrap();
            let mut directory = Directory::over(Embedded::open(&path).unwrap(), Default::default());
            for (at, name) in names.iter().enumerate() {
                let least = before / 40 + u64::from((at as u64) < before % 40);
                let sequence = directory.found(*name).first().map_or(0, |it| it.sequence);
                assert!(sequence >= least, "{at}: {sequence}, and {least} was acknowledged");
            }
            copies += 1;
        }
    });
}

#[test]
fn a_copy_that_breaks_off_makes_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(&folder.path().join("store")).unwrap();
    let copied = store.share();
    let mut directory = Directory::over(store, Default::default());
    for holder in Holder::line(3) {
        assert_eq!(directory.tell(&holder, holder.locator(1)), Ok(()));
    }
    let copy = copy_of(&copied);
    for len in (0..copy.len()).step_by(37).chain([copy.len() - 1]) {
        let path = folder.path().join(format!("cut{len}"));
        let cut = make(&copy[..len], &path);
        assert!(matches!(cut, Err(RibError::BackUp { .. })), "{len}: {cut:?}");
        assert_eq!(Embedded::open(&path).unwrap().names().unwrap(), 0);
    }
    // One that counts what it does not hold is not whole either.
    let mut wrong = copy.clone();
    let last = wrong.len() - 9;
    wrong[last] += 1;
    assert!(make(&wrong, &folder.path().join("wrong")).is_err());
}

/// Takes so many bytes, and then no more.
struct Narrow(usize);

impl Write for Narrow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn who_takes_no_more_of_it_costs_the_directory_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(&folder.path().join("store")).unwrap();
    let copied = store.share();
    let mut directory = Directory::over(store, Default::default());
    let holder = Holder::new();
    assert_eq!(directory.tell(&holder, holder.locator(1)), Ok(()));
    let refused = copied.back_up(&mut Narrow(60));
    assert!(matches!(refused, Err(RibError::BackUp { .. })), "{refused:?}");
    assert_eq!(directory.tell(&holder, holder.locator(2)), Ok(()));
    assert_eq!(directory.found(holder.name()).len(), 1);
}
