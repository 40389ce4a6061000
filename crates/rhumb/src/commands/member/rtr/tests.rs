//! Against StayRTR, a cache that others wrote, and against caches that misbehave.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rhumb_bgp::policy::prefix::parse_prefix;
use rhumb_bgp::policy::{RpkiValidation, Vrp};
use tokio::net::TcpListener;

use super::*;

/// A StayRTR that serves a file.
struct Cache {
    child: Child,
    address: SocketAddr,
    file: PathBuf,
}

impl Cache {
    /// `None`, and why on the terminal, where there is no StayRTR.
    fn start(folder: &Path, address: SocketAddr, vrps: &[&str]) -> Option<Self> {
        let file = folder.join("vrps.json");
        write(&file, vrps);
        let child = Command::new("stayrtr")
            .args(["-bind", &address.to_string(), "-cache"])
            .arg(&file)
            .args(["-checktime=false", "-refresh", "1", "-metrics.addr", ""])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = child
            .inspect_err(|error| println!("skipped: stayrtr: {error}; it is Debian's stayrtr"));
        Some(Self { child: child.ok()?, address, file })
    }

    fn end(mut self) -> SocketAddr {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.address
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Each is `PREFIX MAX ASN`. Written beside and renamed, so that nobody reads half of it.
fn write(file: &Path, vrps: &[&str]) {
    let roas: Vec<serde_json::Value> = vrps
        .iter()
        .map(|vrp| {
            let words: Vec<&str> = vrp.split(' ').collect();
            let (most, asn): (u8, u32) = (words[1].parse().unwrap(), words[2].parse().unwrap());
            serde_json::json!({ "prefix": words[0], "maxLength": most, "asn": format!("AS{asn}"), "ta": "test" })
        })
        .collect();
    let json =
        serde_json::json!({ "metadata": { "buildtime": "2026-11-21T00:00:00Z" }, "roas": roas });
    let beside = file.with_extension("new");
    std::fs::write(&beside, json.to_string()).unwrap();
    std::fs::rename(&beside, file).unwrap();
}

/// An address that nobody listens at.
fn free() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        timeout(PATIENCE, test).await.expect("it takes longer than any machine needs");
    });
}

async fn until(feed: &RtrFeed, fits: impl Fn(&Vrps) -> bool) -> Published {
    let mut published = feed.subscribe();
    published.wait_for(|it| fits(&it.vrps)).await.unwrap().clone()
}

async fn until_report(feed: &RtrFeed, fits: impl Fn(&[CacheReport]) -> bool) -> Vec<CacheReport> {
    loop {
        let report = feed.report();
        if fits(&report) {
            return report;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn state(vrps: &Vrps, prefix: &str, origin: u32) -> RpkiValidation {
    vrps.validate(parse_prefix(prefix).unwrap(), Some(origin))
}

#[test]
fn a_cache_of_others_is_followed_through_changes_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let first = ["10.0.0.0/8 16 64500", "2001:db8::/32 48 64500", "192.0.2.0/24 24 0"];
    let Some(cache) = Cache::start(folder.path(), free(), &first) else { return };
    run(async {
        let feed = RtrFeed::start(&[cache.address]);
        let published = until(&feed, |vrps| vrps.len() == 3).await;
        assert_eq!(published.cache, Some(cache.address));
        assert_eq!(state(&published.vrps, "10.1.0.0/16", 64_500), RpkiValidation::Valid);
        assert_eq!(state(&published.vrps, "2001:db8:1::/48", 64_501), RpkiValidation::Invalid);
        assert_eq!(state(&published.vrps, "192.0.2.0/24", 64_500), RpkiValidation::Invalid);
        assert_eq!(state(&published.vrps, "198.51.100.0/24", 64_500), RpkiValidation::NotFound);
        // One goes, one comes, one stays: as a change, not as a whole.
        write(&cache.file, &["10.0.0.0/8 16 64500", "10.0.0.0/8 16 64501", "192.0.2.0/24 24 0"]);
        let changed =
            until(&feed, |vrps| state(vrps, "10.0.0.0/8", 64_501) == RpkiValidation::Valid).await;
        assert_eq!(state(&changed.vrps, "2001:db8:1::/48", 64_501), RpkiValidation::NotFound);
        assert_eq!(changed.vrps.len(), 3);
        let report = feed.report();
        assert_eq!((report[0].resets, report[0].payloads, report[0].in_force), (1, Some(3), true));
        assert!(report[0].deltas >= 1 && report[0].connected && report[0].faults == 0);
        // While it is away its set counts; when it is back,
        // with another session, there is the new one.
        let address = cache.end();
        let report = until_report(&feed, |report| !report[0].connected).await;
        assert_eq!((report[0].payloads, report[0].expired), (Some(3), 0));
        assert!(report[0].problem.is_some());
        let cache = Cache::start(folder.path(), address, &["10.0.0.0/8 8 64509"]).unwrap();
        let published = until(&feed, |vrps| vrps.len() == 1).await;
        assert_eq!(
            published.vrps.iter().next(),
            Vrp::new(parse_prefix("10.0.0.0/8").unwrap(), 8, 64_509)
        );
        assert_eq!(feed.report()[0].resets, 2);
        drop(cache);
    });
}

#[test]
fn the_preferred_cache_counts_as_soon_as_it_is_there() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let addresses = [free(), free()];
    let second = Cache::start(folders[1].path(), addresses[1], &["10.0.0.0/8 8 2"]);
    let Some(second) = second else { return };
    run(async {
        let feed = RtrFeed::start(&addresses);
        let published = until(&feed, |vrps| !vrps.is_empty()).await;
        assert_eq!(published.cache, Some(addresses[1]));
        let first = Cache::start(folders[0].path(), addresses[0], &["10.0.0.0/8 8 1"]).unwrap();
        let published =
            until(&feed, |vrps| state(vrps, "10.0.0.0/8", 1) == RpkiValidation::Valid).await;
        assert_eq!((published.cache, published.vrps.len()), (Some(addresses[0]), 1));
        // What the other one says now is kept for later.
        write(&second.file, &["10.0.0.0/8 8 2", "10.0.0.0/8 8 3"]);
        let report = until_report(&feed, |report| report[1].payloads == Some(2)).await;
        assert!(report[0].in_force && !report[1].in_force);
        assert_eq!(feed.subscribe().borrow().vrps.len(), 1);
        drop(first);
    });
}

#[test]
fn a_cache_that_talks_nonsense_is_left_and_tried_again() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let feed = RtrFeed::start(&[listener.local_addr().unwrap()]);
        for (said, problem) in [
            (&b"SSH-2.0-OpenSSH_9.9\r\n"[..], "no message of RFC 8210: kind 83"),
            (&[][..], "the cache has closed the connection"),
            (
                &[1, 3, 0, 7, 0, 0, 0, 8, 1, 3, 0, 7, 0, 0, 0, 8][..],
                "a message that has no place there",
            ),
        ] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 8];
            stream.read_exact(&mut asked).await.unwrap();
            assert_eq!(asked, [1, 2, 0, 0, 0, 0, 0, 8], "a reset query");
            stream.write_all(said).await.unwrap();
            if !said.is_empty() {
                // It says what is wrong, and goes.
                let mut report = Vec::new();
                stream.read_to_end(&mut report).await.unwrap();
                assert_eq!(report.get(1), Some(&10), "an error report");
            }
            drop(stream);
            let fits = |report: &[CacheReport]| report[0].problem.as_deref() == Some(problem);
            let report = until_report(&feed, fits).await;
            assert_eq!((report[0].payloads, report[0].connected), (None, false));
        }
        assert_eq!(feed.report()[0].faults, 2);
        assert!(feed.subscribe().borrow().cache.is_none());
    });
}

/// For a whole test.
const PATIENCE: Duration = Duration::from_secs(60);
