//! The file of a store: whose it is to read, and what an older program left.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use rhumb_rib::Account;
use rhumb_rib::store::{Embedded, Store};
use rhumb_wire::Name;

use crate::world::{ASKER, Directory, Holder};

const VIA: Name = Name([1; 32]);
const NAMES: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("names");
const PUBLISHERS: TableDefinition<'_, &[u8; 32], u64> = TableDefinition::new("publishers");
const ACCOUNTS: TableDefinition<'_, &[u8], (u64, u64)> = TableDefinition::new("accounts");
const FORMATS: TableDefinition<'_, &str, u64> = TableDefinition::new("format");

fn store_of_two(path: &Path) -> Holder {
    let mut directory = Directory::over(Embedded::open(path).expect("a store"), Default::default());
    let (holder, other) = (Holder::new(), Holder::new());
    assert_eq!(directory.tell(&holder, holder.locator(1)), Ok(()));
    assert_eq!(directory.tell(&other, other.route(VIA, 1)), Ok(()));
    holder
}

#[cfg(unix)]
#[test]
fn it_is_its_owners_alone_and_made_so_where_it_is_not() {
    use std::fs::{Permissions, metadata, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rib");
    store_of_two(&path);
    let mode = || metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let mut store = Embedded::open(&path).unwrap();
    assert_eq!((mode(), store.names().unwrap()), (0o600, 2));
}

/// Rewrites a store as the first format had it.
fn make_old(path: &Path) -> Result<(), redb::Error> {
    let database = Database::create(path)?;
    let transaction = database.begin_write()?;
    {
        let mut names = transaction.open_table(NAMES)?;
        let records: Vec<([u8; 32], Vec<u8>)> = names
            .iter()?
            .map(|record| record.map(|(name, it)| (*name.value(), it.value().to_vec())))
            .collect::<Result<_, _>>()?;
        for (name, record) in records {
            let old = [&[1], &record[1..41], &record[48..]].concat();
            names.insert(&name, old.as_slice())?;
        }
        transaction.open_table(FORMATS)?.insert("version", 1)?;
        transaction.open_table(PUBLISHERS)?.insert(&ASKER.0, 2)?;
    }
    transaction.delete_table(ACCOUNTS)?;
    transaction.commit()?;
    Ok(())
}

#[test]
fn a_store_of_the_first_format_is_counted_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rib");
    let holder = store_of_two(&path);
    make_old(&path).unwrap();
    for _ in 0..2 {
        let mut store = Embedded::open(&path).unwrap();
        assert_eq!(store.held(&Account::Publisher(ASKER)).unwrap().names, 2);
        let strangers = store.held(&Account::Strangers).unwrap();
        assert!(strangers.names == 2 && strangers.bytes > 1000, "{strangers:?}");
    }
    let mut directory =
        Directory::over(Embedded::open(&path).unwrap(), rhumb_rib::Config::default());
    assert_eq!(directory.found(holder.name()).len(), 1);
    // What is published anew counts where it belongs.
    assert_eq!(directory.tell(&holder, holder.locator(2)), Ok(()));
    let fill = directory.rib.fill().unwrap();
    assert_eq!((fill.admitted.names, fill.strangers.names), (1, 1));
    drop(directory);
    let database = Database::create(&path).unwrap();
    assert!(database.begin_read().unwrap().open_table(PUBLISHERS).is_err());
}
