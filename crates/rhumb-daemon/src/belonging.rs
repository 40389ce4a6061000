//! What a process that runs for long shows of its trust domain: the membership that lies beside
//! its key, read again while it runs.
//!
//! 1. A thread looks at the file every few seconds, and at SIGHUP where that does not end the
//!    process. It asks for what the file is, and reads it only when that is something else.
//! 2. What it reads is verified, has to be about the same name, and to hold now.
//! 3. The process is alerted, shows the new one to its peers, and its sessions go on.
//!
//! Invariant: what cannot be read or does not hold changes nothing, and is said. So is, once each,
//! that the membership will end soon, and that it has ended.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rhumb_trust::{Identity, Membership};
use rhumb_wire::{Limits, Name};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::clock::{self, date_and_time, span};
use crate::daemon::{Metric, Snapshot};
use crate::failure::{Failure, Outcome};
use crate::secret_file::{self, Look};
use crate::words;

/// An identity with the membership that it shows now. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Belonging(Arc<Shown>);

#[derive(Debug)]
struct Shown {
    identity: Mutex<Arc<Identity>>,
    /// Where its membership lies; none of a key that was made for this run.
    file: Option<PathBuf>,
    is_new: AtomicBool,
}

/// The thread's own.
struct Follower {
    belonging: Belonging,
    file: PathBuf,
    seen: Option<Look>,
    said: Nearness,
}

/// How near the end of a membership is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nearness {
    Far,
    Soon,
    Over,
}

impl Belonging {
    /// `identity`, as it was read from the key file `key` with the membership beside it.
    pub fn of(identity: Arc<Identity>, key: Option<&Path>) -> Self {
        let file = key.map(|key| key.with_extension("membership"));
        Self(Arc::new(Shown { identity: identity.into(), file, is_new: false.into() }))
    }

    /// The identity as it is now.
    pub fn identity(&self) -> Arc<Identity> {
        Arc::clone(&self.0.identity.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The trust domains that it shows a membership of: that whose it is, and those between.
    pub fn domains(&self) -> Vec<Name> {
        let identity = self.identity();
        let Some(membership) = identity.membership() else { return Vec::new() };
        let issuers = membership.certificates().iter().map(|it| it.issuer);
        issuers.filter(|issuer| membership.is_of(issuer)).collect()
    }

    /// Looks at the file from now on, and calls `alert` when [`Belonging::poll`] has something.
    /// `hears_hangup`: SIGHUP asks to look at once, and whoever else catches it sees to it that it
    /// ends nothing.
    ///
    /// # Errors
    /// When the system gives no thread, or no signal.
    pub fn follow(&self, hears_hangup: bool, alert: impl Fn() + Send + 'static) -> Outcome {
        let Some(file) = self.0.file.clone() else { return Ok(()) };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(Failure::operation)?;
        let mut hangup = {
            let _entered = runtime.enter();
            let caught = hears_hangup.then(|| signal(SignalKind::hangup()));
            caught.transpose().map_err(Failure::operation)?
        };
        let mut follower =
            Follower { belonging: self.clone(), file, seen: None, said: Nearness::Far };
        let follow = move || {
            let mut asked = false;
            loop {
                if follower.look(asked, clock::now().unix_s()) {
                    alert();
                }
                asked = runtime.block_on(wait(hangup.as_mut()));
            }
        };
        let thread = std::thread::Builder::new().name("membership".to_owned());
        thread.spawn(follow).map_err(Failure::operation)?;
        Ok(())
    }

    /// The identity with what it is to show from now on, if that has changed since the last time.
    pub fn poll(&self) -> Option<Arc<Identity>> {
        self.0.is_new.swap(false, Ordering::AcqRel).then(|| self.identity())
    }

    /// Adds until when the membership holds to what a daemon tells.
    pub fn report(&self, snapshot: &mut Snapshot) {
        let identity = self.identity();
        let Some(membership) = identity.membership() else { return };
        let now_s = clock::now().unix_s();
        let left_s = membership.not_after_s().saturating_sub(now_s);
        let limits = membership.limits();
        snapshot.metrics.push(LEFT.is(left_s));
        snapshot.status["membership"] = json!({
            "domain": membership.domain().to_string(),
            "issuers": membership.certificates().iter().map(|it| it.issuer.to_string()).collect::<Vec<_>>(),
            "rights": membership.rights().names().collect::<Vec<_>>(),
            "limits": (limits != Limits::NONE).then(|| words::limits_as_json(&limits)),
            "expires_in_s": left_s,
            "warning": warning(membership, now_s),
        });
    }

    fn show(&self, identity: Identity) {
        let mut shown = self.0.identity.lock().unwrap_or_else(PoisonError::into_inner);
        *shown = Arc::new(identity);
        self.0.is_new.store(true, Ordering::Release);
    }
}

impl Follower {
    /// Reads the file if it is another one than at the last look, or `asked` to. Whether there is
    /// something new to show.
    fn look(&mut self, asked: bool, now_s: u64) -> bool {
        let look = secret_file::look(&self.file).ok();
        let was_there = std::mem::replace(&mut self.seen, look);
        let is_new = (look != was_there || asked) && self.read(look.is_some(), now_s);
        self.say_when_it_ends(now_s);
        is_new
    }

    fn read(&self, is_there: bool, now_s: u64) -> bool {
        let identity = self.belonging.identity();
        let file = self.file.display();
        if !is_there {
            if identity.membership().is_some() {
                tracing::warn!("{file} is not there; going on with the membership from before");
            }
            return false;
        }
        let read = Membership::load(&self.file);
        let read = read.and_then(|it| it.check(&identity.name(), now_s).map(|()| it));
        match read {
            Ok(membership) if identity.membership() == Some(&membership) => false,
            Ok(membership) => {
                let until = date_and_time(membership.not_after_s());
                let rights = membership.rights().names().collect::<Vec<_>>().join(", ");
                match identity.showing(Some(membership)) {
                    Ok(identity) => {
                        self.belonging.show(identity);
                        tracing::info!(until, rights, "read the membership again");
                        true
                    }
                    Err(error) => {
                        tracing::warn!(%error, "going on with the membership from before");
                        false
                    }
                }
            }
            Err(error) if identity.membership().is_some() => {
                tracing::warn!("{file}: {error}; going on with the membership from before");
                false
            }
            Err(error) => {
                tracing::warn!("{file}: {error}; going on without a membership");
                false
            }
        }
    }

    fn say_when_it_ends(&mut self, now_s: u64) {
        let identity = self.belonging.identity();
        let Some(membership) = identity.membership() else { return };
        let nearness = Nearness::of(membership, now_s);
        if nearness == std::mem::replace(&mut self.said, nearness) {
            return;
        }
        let (file, left_s) = (self.file.display(), membership.not_after_s().saturating_sub(now_s));
        match nearness {
            Nearness::Far => {}
            Nearness::Soon => tracing::warn!(
                "the membership ends in {}; put another from the domain at {file}",
                span(left_s)
            ),
            Nearness::Over => {
                tracing::warn!("the membership is over; put another from the domain at {file}");
            }
        }
    }
}

impl Nearness {
    fn of(membership: &Membership, now_s: u64) -> Self {
        let end_s = membership.not_after_s();
        let begins = membership.certificates().iter().map(|it| it.not_before_s);
        let given_s = end_s.saturating_sub(begins.max().unwrap_or(end_s));
        match end_s.checked_sub(now_s) {
            None => Self::Over,
            Some(left_s) if left_s < (given_s / 10).min(SOON_S) => Self::Soon,
            Some(_) => Self::Far,
        }
    }
}

/// What is to be done about how near the end of a membership is, if anything.
pub fn warning(membership: &Membership, now_s: u64) -> Option<&'static str> {
    match Nearness::of(membership, now_s) {
        Nearness::Far => None,
        Nearness::Soon => Some("it ends soon: ask the domain for another"),
        Nearness::Over => Some("it is over: ask the domain for another"),
    }
}

/// Waits for the time of the next look, or SIGHUP: whether it was that.
async fn wait(hangup: Option<&mut Signal>) -> bool {
    let pause = tokio::time::sleep(LOOK_EVERY);
    match hangup {
        Some(hangup) => tokio::select! {
            Some(()) = hangup.recv() => true,
            () = pause => false,
        },
        None => {
            pause.await;
            false
        }
    }
}

/// Falls to 0 when the membership ends: by then the domain has to have given another one.
const LEFT: Metric = Metric::gauge(
    "rhumb_daemon_membership_left_seconds",
    "Seconds until the membership that this process shows ends.",
);
/// A look costs a system call.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// What was given for a tenth of it or less ends soon, and what was given for a year in two weeks:
/// as in `rhumb domain list`.
const SOON_S: u64 = 14 * 86_400;

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_trust::Window;
    use rhumb_wire::{Rights, Role};

    const NOW_S: u64 = 1_000_000;

    struct Scene {
        domain: Identity,
        folder: tempfile::TempDir,
        follower: Follower,
        sequence: u64,
    }

    impl Scene {
        /// A node whose key has no membership beside it.
        fn new() -> Self {
            let (domain, node) = (
                Identity::generate(Role::Domain, 1).unwrap(),
                Identity::generate(Role::Node, 1).unwrap(),
            );
            let folder = tempfile::tempdir().unwrap();
            let key = folder.path().join("node.key");
            let belonging = Belonging::of(Arc::new(node), Some(&key));
            let file = key.with_extension("membership");
            let follower = Follower { belonging, file, seen: None, said: Nearness::Far };
            Self { domain, folder, follower, sequence: 0 }
        }

        /// Puts a membership there that lasts so long from [`NOW_S`] on, by renaming.
        fn put(&mut self, rights: Rights, lifetime_s: u64) {
            let window = Window::starting(NOW_S, lifetime_s);
            let member = self.follower.belonging.identity().name();
            self.sequence += 1;
            let signed =
                Membership::sign(&self.domain, None, member, rights, self.sequence, window);
            self.put_text(&signed.unwrap().to_text());
        }

        fn put_text(&self, text: &str) {
            let beside = self.folder.path().join("new");
            std::fs::write(&beside, text).unwrap();
            std::fs::rename(&beside, &self.follower.file).unwrap();
        }

        fn rights(&self) -> Option<Rights> {
            let identity = self.follower.belonging.identity();
            identity.membership().map(Membership::rights)
        }
    }

    #[test]
    fn what_is_put_beside_the_key_is_shown_once() {
        let mut scene = Scene::new();
        assert!(!scene.follower.look(true, NOW_S));
        scene.put(Rights::JOIN, 1000);
        assert!(scene.follower.look(false, NOW_S));
        assert_eq!(scene.rights(), Some(Rights::JOIN));
        assert!(scene.follower.belonging.poll().is_some_and(|it| it.membership().is_some()));
        assert!(scene.follower.belonging.poll().is_none());
        assert!(!scene.follower.look(false, NOW_S), "nothing has changed");
        assert!(!scene.follower.look(true, NOW_S), "it is the same one");
        scene.put(Rights::JOIN.and(Rights::PUBLISH), 1000);
        assert!(scene.follower.look(false, NOW_S));
        assert_eq!(scene.rights(), Some(Rights::JOIN.and(Rights::PUBLISH)));
    }

    #[test]
    fn what_does_not_serve_changes_nothing() {
        let mut scene = Scene::new();
        scene.put(Rights::JOIN, 1000);
        assert!(scene.follower.look(false, NOW_S));
        scene.put_text("rhumb-membership 1\nmember x");
        assert!(!scene.follower.look(false, NOW_S), "damaged");
        scene.put(Rights::PUBLISH, 10);
        assert!(!scene.follower.look(false, NOW_S + 71), "over");
        std::fs::remove_file(&scene.follower.file).unwrap();
        assert!(!scene.follower.look(true, NOW_S), "gone");
        let mut other = Scene::new();
        other.put(Rights::PUBLISH, 1000);
        scene.put_text(&std::fs::read_to_string(&other.follower.file).unwrap());
        assert!(!scene.follower.look(false, NOW_S), "another name's");
        assert_eq!(scene.rights(), Some(Rights::JOIN));
        scene.put(Rights::PUBLISH, 1000);
        assert!(scene.follower.look(false, NOW_S));
        assert_eq!(scene.rights(), Some(Rights::PUBLISH));
    }

    #[test]
    fn its_end_is_near_in_its_last_tenth_and_told_of_in_status() {
        let mut scene = Scene::new();
        scene.put(Rights::JOIN, 1000);
        scene.follower.look(false, NOW_S);
        let identity = scene.follower.belonging.identity();
        let at = |left_s| Nearness::of(identity.membership().unwrap(), NOW_S + 1000 - left_s);
        assert_eq!((at(100), at(99), at(0)), (Nearness::Far, Nearness::Soon, Nearness::Soon));
        assert_eq!(Nearness::of(identity.membership().unwrap(), NOW_S + 1001), Nearness::Over);
        scene.put(Rights::JOIN, 366 * 86_400);
        scene.follower.look(false, NOW_S);
        let identity = scene.follower.belonging.identity();
        let near = |days: u64| {
            let now_s = NOW_S + (366 - days) * 86_400;
            Nearness::of(identity.membership().unwrap(), now_s)
        };
        assert_eq!((near(14), near(13)), (Nearness::Far, Nearness::Soon));

        // By the clock of this machine it ended long ago.
        let mut snapshot = Snapshot { status: json!({}), metrics: Vec::new() };
        scene.follower.belonging.report(&mut snapshot);
        let told = &snapshot.status["membership"];
        assert_eq!(told["rights"], json!(["join"]));
        assert_eq!(told["expires_in_s"], 0);
        assert!(told["warning"].as_str().unwrap().contains("it is over"));
        assert!(snapshot.prometheus_text().contains("rhumb_daemon_membership_left_seconds 0"));
    }
}
