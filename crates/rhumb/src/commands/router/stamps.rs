//! The capabilities that a router has for peers that demand them: from files, read again when they
//! change, and from key servers, each principal's by a thread of its own.
//!
//! Invariant: what is in use stays until something else has been read and found in order. A file
//! that is missing later, or was damaged, costs a line in the log.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rhumb_capability::{Credential, Window, file};
use rhumb_daemon::clock;
use rhumb_daemon::config::BorderStampSettings;
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_daemon::key_fetch::{KeyFetch, random};
use rhumb_daemon::secret_file::{self, Look};
use rhumb_io::Wake;
use rhumb_keyserver::client::KeyClient;
use rhumb_keyserver::principal::PrincipalFile;
use rhumb_switch::{NamePrefix, Stamp, Stamps, short_address};
use rhumb_wire::Name;
use zeroize::Zeroizing;

/// Where capabilities come from.
pub(super) struct StampFiles {
    sources: Vec<Source>,
    seen: Vec<Option<Look>>,
    news: Receiver<Fetched>,
    /// The last of each source that has a principal.
    fetched: HashMap<usize, Vec<Zeroizing<String>>>,
}

struct Source {
    peer: Name,
    names: NamePrefix,
    files: Vec<PathBuf>,
}

/// The capabilities of a principal, as the texts of files: credentials are not copied.
struct Fetched {
    source: usize,
    texts: Vec<Zeroizing<String>>,
}

impl StampFiles {
    /// Starts the threads that fetch. They wake `wake` when
    /// they have something, and end with the process.
    pub(super) fn open(settings: &[BorderStampSettings], wake: &Wake) -> Outcome<Self> {
        let (tell, news) = channel();
        for (number, stamp) in settings.iter().enumerate() {
            if let Some(path) = &stamp.principal {
                fetch(number, stamp, path, tell.clone(), wake.clone())?;
            }
        }
        let source = |stamp: &BorderStampSettings| Source {
            peer: stamp.peer,
            names: stamp.source,
            files: stamp.capabilities.clone(),
        };
        let sources = settings.iter().map(source).collect();
        Ok(Self { sources, seen: Vec::new(), news, fetched: HashMap::new() })
    }

    /// All capabilities, if a file has changed, one was fetched, or if `asked` for them.
    pub(super) fn read_again(&mut self, asked: bool) -> Outcome<Option<Stamps>> {
        let mut is_news = false;
        for Fetched { source, texts } in self.news.try_iter() {
            self.fetched.insert(source, texts);
            is_news = true;
        }
        let files = self.sources.iter().flat_map(|source| &source.files);
        let seen: Vec<_> = files.map(|path| secret_file::look(path).ok()).collect();
        if self.sources.is_empty() || seen == self.seen && !asked && !is_news {
            return Ok(None);
        }
        // Also when one cannot be read: then once, not each time.
        self.seen = seen;
        let mut all = Vec::new();
        for (number, source) in self.sources.iter().enumerate() {
            for path in &source.files {
                all.push(source.stamp(load(path)?));
            }
            for text in self.fetched.get(&number).into_iter().flatten() {
                all.push(source.stamp(file::decode(text).map_err(Failure::operation)?));
            }
        }
        let random = random()? as u32;
        let mut stamps = Stamps::new(all, random).map_err(|error| {
            Failure::setup_text(format!(
                "{error}: a [[border.stamp]] has a capability for another router than its peer"
            ))
        })?;
        self.sources.iter().for_each(|source| stamps.expect(source.peer));
        Ok(Some(stamps))
    }
}

impl Source {
    fn stamp(&self, credential: Credential) -> Stamp {
        Stamp { peer: self.peer, source: self.names, credential }
    }
}

fn load(path: &Path) -> Outcome<Credential> {
    file::load(path).map_err(|error| {
        Failure::setup_text(format!("capability file {}: {error}", path.display()))
    })
}

/// Starts a thread that has the present key, and the next one, as soon as there is one.
fn fetch(
    source: usize,
    settings: &BorderStampSettings,
    path: &Path,
    tell: Sender<Fetched>,
    wake: Wake,
) -> Outcome {
    let text = secret_file::read(path, "rhumb capability mint NUMBER")?;
    let wrong = |why: &dyn std::fmt::Display| {
        Failure::setup_text(format!("file of a principal {}: {why}", path.display()))
    };
    let principal = PrincipalFile::parse(&text).map_err(|fault| wrong(&fault))?;
    let waypoint = short_address(&settings.peer);
    if !principal.waypoints().iter().any(|known| known.address == waypoint) {
        return Err(wrong(&format!(
            "it does not name {}, which is to be stamped for",
            settings.peer
        )));
    }
    let mut fetch = KeyFetch::new(KeyClient::new(principal), &settings.resolvers)?;
    let run = move || {
        let mut held = Vec::new();
        loop {
            let is_other = |client: &KeyClient, now_ms| windows(client, waypoint, now_ms) != held;
            match fetch.run(LOOK_AGAIN_AFTER, is_other) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(failure) => {
                    tracing::error!("{failure}; keys are fetched no longer");
                    return;
                }
            }
            let now_ms = clock::now().unix_ms;
            held = windows(fetch.client(), waypoint, now_ms);
            let texts = credentials(fetch.client(), waypoint, now_ms).map(file::encode).collect();
            if tell.send(Fetched { source, texts }).is_err() {
                return;
            }
            wake.wake();
        }
    };
    std::thread::Builder::new().name("fetch".to_owned()).spawn(run).map_err(Failure::operation)?;
    Ok(())
}

fn credentials(
    client: &KeyClient,
    waypoint: IpAddr,
    now_ms: u64,
) -> impl Iterator<Item = &Credential> {
    client.credential(waypoint, now_ms).into_iter().chain(client.next_credential(waypoint, now_ms))
}

fn windows(client: &KeyClient, waypoint: IpAddr, now_ms: u64) -> Vec<Window> {
    let all = credentials(client, waypoint, now_ms);
    all.map(|credential| credential.capability().window).collect()
}

/// The client says when it has something to do; this bounds how long it is left alone with that.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(60);
