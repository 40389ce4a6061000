//! What was acknowledged is there after `kill -9`, and one process at a time has a store.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rhumb_rib::store::Embedded;
use rhumb_rib::{Asker, Config, Outcome, Rib, RibError};
use rhumb_trust::verify_statement;
use rhumb_wire::rib::{Refusal, RequestId, RibRequest, RibRequestBody, RibResponseBody};
use rhumb_wire::{Metadata, Name};
use world::{Directory, Holder, NOW_S};

use crate::world;

/// The tests below that run in processes of their own, and the
/// variable that tells them which store to use.
const UNTIL_KILLED: &str = "durability::publishes_until_it_is_killed";
const UNTIL_FULL: &str = "durability::publishes_until_the_disk_is_full";
const CHILD_STORE: &str = "RHUMB_TEST_STORE";

/// A process that publishes; killed when this is dropped.
struct Publisher {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Publisher {
    fn start(store: &Path) -> Self {
        let program = std::env::current_exe().expect("this program");
        Self::spawn(Command::new(program).arg(UNTIL_KILLED), store)
    }

    /// One that cannot make a file longer than 2 MiB, as if the disk were full.
    fn start_confined(store: &Path) -> Self {
        let program = std::env::current_exe().expect("this program");
        let confined = "trap '' XFSZ; ulimit -f 4096; exec \"$0\" \"$@\"";
        Self::spawn(Command::new("sh").args(["-c", confined]).arg(program).arg(UNTIL_FULL), store)
    }

    fn spawn(command: &mut Command, store: &Path) -> Self {
        let mut child = command
            .args(["--exact", "--ignored", "--nocapture"])
            .env(CHILD_STORE, store)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, lines }
    }

    /// The next acknowledgement: a name and a sequence. None
    /// when the process has ended and all was read.
    fn next(&mut self) -> Option<(Name, u64)> {
        let mut line = String::new();
        while self.lines.read_line(&mut line).expect("text") > 0 {
            // A line that was cut short by the kill was not an acknowledgement yet.
            if let Some(acknowledgement) = line.strip_suffix('\n').and_then(parse) {
                return Some(acknowledgement);
            }
            line.clear();
        }
        None
    }

    fn kill(&mut self) {
        // SIGKILL.
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse(line: &str) -> Option<(Name, u64)> {
    let (name, sequence) = line.rsplit_once("acknowledged ")?.1.split_once(' ')?;
    Some((name.parse().ok()?, sequence.parse().ok()?))
}

/// Stages newer locators of some names, commits them together, and prints what is acknowledged.
fn publish_together(rib: &mut Rib<Embedded>, holders: &[Holder], sequence: u64) -> RibResponseBody {
    let asker = Asker::admitted(world::ASKER, 1300);
    for holder in holders {
        let (metadata, certificates) = (vec![holder.metadata()], vec![holder.locator(sequence)]);
        let body = RibRequestBody::Publish { metadata, certificates };
        let mut data = Vec::new();
        RibRequest { id: RequestId(0), body }.emit(&mut data);
        assert!(matches!(rib.handle_request(asker, &data, NOW_S), Outcome::Staged(_)));
    }
    let answers = rib.commit();
    assert_eq!(answers.len(), holders.len());
    assert!(answers.iter().all(|answer| answer.body == answers[0].body));
    if answers[0].body == RibResponseBody::Stored {
        for holder in holders {
            println!("acknowledged {} {sequence}", holder.name());
        }
    }
    answers[0].body.clone()
}

fn child_directory() -> Option<Directory<Embedded>> {
    let path = std::env::var(CHILD_STORE).ok()?;
    let mut config = Config::default();
    config.signatures_per_admitted_per_s = u32::MAX;
    // What is asked for comes from the file.
    (config.cached_entries, config.cached_bytes) = (0, 0);
    Some(Directory::over(Embedded::open(Path::new(&path)).expect("a store"), config))
}

/// A few names, ever again, now more of them to a commit and now fewer.
#[test]
#[ignore = "runs in a child process, until that is killed"]
fn publishes_until_it_is_killed() {
    let Some(mut directory) = child_directory() else { return };
    let holders = Holder::line(8);
    for sequence in 1.. {
        let together = &holders[..1 + sequence as usize % holders.len()];
        let answer = publish_together(&mut directory.rib, together, sequence);
        assert_eq!(answer, RibResponseBody::Stored);
    }
}

/// Ever new names, until there is no room; then what was
/// acknowledged must still be found in this same process.
#[test]
#[ignore = "runs in a child process, which may not write long files"]
fn publishes_until_the_disk_is_full() {
    let Some(mut directory) = child_directory() else { return };
    let mut stored = Vec::new();
    loop {
        let holders = Holder::line(64);
        match publish_together(&mut directory.rib, &holders, 1) {
            RibResponseBody::Stored => stored.extend(holders.iter().map(Holder::name)),
            answer => {
                assert_eq!(answer, RibResponseBody::Refused(Refusal::StoreFailed));
                break;
            }
        }
        assert!(stored.len() < 100_000, "the disk is never full");
    }
    let error = directory.rib.poll_error();
    assert!(matches!(error, Some(RibError::Database(_))), "{error:?}");
    assert_eq!(directory.rib.counters().refused(Refusal::StoreFailed), 64);
    for name in &stored {
        assert_eq!(held(&mut directory, *name), 1);
    }
    println!("acknowledged {} {}", Name([0; 32]), stored.len());
}

#[test]
fn whatever_was_acknowledged_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rib");
    let mut acknowledged: HashMap<Name, u64> = HashMap::new();
    let mut moment = u64::from(std::process::id());
    for round in 0..12 {
        let mut publisher = Publisher::start(&path);
        let first = publisher.next().expect("an acknowledgement");
        // Some moment within the next few commits, another one each time.
        moment =
            moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        pause(Duration::from_micros((moment >> 32) % 60_000));
        publisher.kill();
        let mut count = 0;
        for (name, sequence) in
            std::iter::once(first).chain(std::iter::from_fn(|| publisher.next()))
        {
            let newest = acknowledged.entry(name).or_default();
            *newest = sequence.max(*newest);
            count += 1;
        }
        assert!(count > 0);
        let mut directory = Directory::over(Embedded::open(&path).unwrap(), Config::default());
        for (name, sequence) in &acknowledged {
            let held = held(&mut directory, *name);
            assert!(held >= *sequence, "round {round}: {held} of {sequence} for {name}");
        }
    }
    assert!(acknowledged.len() >= 12, "{}", acknowledged.len());
}

/// The sequence of the locator found, once its signature is checked.
fn held(directory: &mut Directory<Embedded>, name: Name) -> u64 {
    let RibResponseBody::Found { metadata, certificates, .. } =
        directory.ask(RibRequestBody::LookUpRoute(name))
    else {
        return 0;
    };
    let [metadata]: [Metadata; 1] = metadata.try_into().expect("the issuer's");
    verify_statement(&certificates[0], &metadata, NOW_S).expect("genuine").sequence
}

#[test]
fn a_full_disk_costs_refusals_and_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rib");
    let mut publisher = Publisher::start_confined(&path);
    let mut acknowledged: Vec<_> = std::iter::from_fn(|| publisher.next()).collect();
    assert!(publisher.child.wait().unwrap().success());
    // Said by the child when it had found all of them again.
    let (_, found) = acknowledged.pop().unwrap();
    assert_eq!(found, acknowledged.len() as u64);
    assert!(found > 64, "{found}");
    let mut directory = Directory::over(Embedded::open(&path).unwrap(), Config::default());
    for (name, sequence) in acknowledged {
        assert_eq!(held(&mut directory, name), sequence);
    }
    let late = Holder::new();
    assert_eq!(directory.tell(&late, late.locator(1)), Ok(()));
}

#[expect(clippy::disallowed_methods, reason = "lets another process get on")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[test]
fn a_second_process_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rib");
    let mut publisher = Publisher::start(&path);
    publisher.next().expect("an acknowledgement");
    let refused = Embedded::open(&path).err().expect("refused");
    assert!(matches!(&refused, RibError::StoreInUse { path: of } if *of == path), "{refused}");
    assert!(refused.to_string().contains("in use by another process"), "{refused}");
    publisher.kill();
    assert!(Embedded::open(&path).is_ok());
}

fn refusal(path: &Path) -> RibError {
    Embedded::open(path).err().expect("refused")
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("letter");
    let text = "Dear all, this is not a store. ".repeat(1000);
    fs::write(&path, &text).unwrap();
    let error = refusal(&path);
    assert!(matches!(error, RibError::NotAStore { .. }), "{error:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let error = refusal(&folder.path().join("nowhere").join("rib"));
    assert!(matches!(error, RibError::StoreFile { .. }), "{error:?}");
    let error = refusal(folder.path());
    assert!(matches!(error, RibError::StoreFile { .. }), "{error:?}");
}

#[test]
fn a_store_of_a_later_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rib");
    drop(Embedded::open(&path).unwrap());
    let database = redb::Database::open(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let format = redb::TableDefinition::<&str, u64>::new("format");
    transaction.open_table(format).unwrap().insert("version", 3).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let error = refusal(&path);
    assert!(matches!(error, RibError::UnknownFormat { version: 3 }), "{error:?}");
}

#[test]
fn a_damaged_entry_is_reported_and_harms_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rib");
    let mut directory = Directory::over(Embedded::open(&path).unwrap(), Config::default());
    let (good, bad) = (Holder::new(), Holder::new());
    for holder in [&good, &bad] {
        assert_eq!(directory.tell(holder, holder.locator(1)), Ok(()));
    }
    drop(directory);
    let database = redb::Database::open(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let names = redb::TableDefinition::<&[u8; 32], &[u8]>::new("names");
    transaction.open_table(names).unwrap().insert(&bad.name().0, &b"?"[..]).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let mut directory = Directory::over(Embedded::open(&path).unwrap(), Config::default());
    let answer = directory.look_up(bad.name());
    assert_eq!(answer, RibResponseBody::Refused(Refusal::StoreFailed));
    let error = directory.rib.poll_error();
    assert!(matches!(error, Some(RibError::DamagedEntry { name }) if name == bad.name()));
    assert_eq!(directory.found(good.name()).len(), 1);
    // The sweep passes it by.
    directory.now_s += 2 * rhumb_rib::MAX_LIFETIME_S;
    for _ in 0..4 {
        directory.rib.sweep(directory.now_s, 1);
    }
    assert_eq!(directory.stored_names(), 1);
}
