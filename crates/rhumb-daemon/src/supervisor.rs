//! What a daemon tells the service manager that started it (systemd, or whoever speaks as it does):
//! that others may use it, that it reads its settings again, that it ends, and that it still goes
//! round. The protocol is that of `sd_notify(3)`: datagrams of `KEY=VALUE` to the socket that
//! `$NOTIFY_SOCKET` names. Who was started by hand has no such socket, and tells nobody.
//!
//! 1. [`say_ready`] prints the line that a daemon prints when others may use it, and tells `READY`.
//! 2. [`reloading`] tells `RELOADING`; when what it returns is dropped, `READY` again.
//! 3. A [`Heart`] in a daemon's main loop tells `WATCHDOG` as often as `$WATCHDOG_USEC` asks: there
//!    is no thread for it, so a loop that hangs is heard to hang.
//! 4. When the process is told to end, `STOPPING` is told, after which nothing is.
//!
//! Invariant: the loop that moves packets never waits for the manager: a beat that finds no room is
//! left out. The other words are rare, and are waited with for a moment.
//!
//! A process takes the manager's variables for its own, and hands them to none that it starts:
//! [`not_for`].

use std::convert::Infallible;
use std::fmt;
use std::io;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use serde::Serialize;
use tokio::time::sleep;

use crate::clock;
use crate::output::Form;

/// Prints the one line of a daemon that others may use from now on, and tells the manager.
pub fn say_ready<R: Serialize + fmt::Display>(form: Form, report: &R) {
    form.print(report);
    ready();
}

/// Tells the manager that others may use this process from now on.
pub fn ready() {
    OF_PROCESS.ready();
}

/// Settings are read again, until what is returned is dropped.
pub fn reloading() -> Reloading {
    OF_PROCESS.reloading()
}

/// This process ends. Said of one that never was ready, nothing is told.
pub(crate) fn stopping() {
    OF_PROCESS.stopping();
}

/// Variables that are for this process, and for none that it starts: what such a one told would be
/// taken for this one's word.
pub fn not_for(child: &mut tokio::process::Command) {
    for variable in [SOCKET, EVERY, WHOSE] {
        child.env_remove(variable);
    }
}

/// The while in which settings are read again.
#[derive(Debug)]
#[must_use = "settings count as read when it is dropped"]
pub struct Reloading(Option<&'static Supervisor>);

impl Drop for Reloading {
    fn drop(&mut self) {
        if let Some(supervisor) = self.0 {
            supervisor.reloaded();
        }
    }
}

/// Tells the manager that the loop which has it goes round.
#[derive(Debug)]
pub struct Heart {
    supervisor: &'static Supervisor,
    beaten: Instant,
}

impl Heart {
    /// One that beats if the manager watches this process.
    pub fn new(now: Instant) -> Self {
        Self { supervisor: &OF_PROCESS, beaten: now }
    }

    /// To be called in each round; costs nothing unless it is time.
    pub fn beat(&mut self, now: Instant) {
        let Some(every) = self.supervisor.every else { return };
        if now.saturating_duration_since(self.beaten) >= every {
            self.beaten = now;
            self.supervisor.beat();
        }
    }

    /// How long a round may wait, at most; nothing if nobody watches.
    pub fn pause(&self) -> Option<Duration> {
        self.supervisor.every
    }
}

/// Beats for as long as the runtime goes round that this is polled by. Ends never.
pub async fn beat_on() -> Infallible {
    let mut heart = Heart::new(clock::now().instant);
    while let Some(pause) = heart.pause() {
        sleep(pause).await;
        heart.beat(clock::now().instant);
    }
    std::future::pending().await
}

/// Who started this process, if he wants to be told.
#[derive(Debug)]
struct Supervisor {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// A third of the time after which he takes us for dead: one round may come late.
    every: Option<Duration>,
    phase: Mutex<Phase>,
}

#[derive(Debug, Default)]
struct Phase {
    is_ready: bool,
    is_stopping: bool,
    /// How often settings are being read just now.
    reloads: usize,
}

impl Supervisor {
    /// As the environment says.
    fn of_process() -> Self {
        let text = |key| std::env::var(key).ok();
        let every = watched(text(EVERY).as_deref(), text(WHOSE).as_deref(), std::process::id());
        Self::at(text(SOCKET).as_deref(), every)
    }

    fn at(place: Option<&str>, every: Option<Duration>) -> Self {
        let opened = place.filter(|place| !place.is_empty()).map(open);
        let socket = match opened.transpose() {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%error, "the service manager is told nothing: {SOCKET}");
                None
            }
        };
        let every = every.filter(|_| socket.is_some());
        Self { socket, every, phase: Mutex::default() }
    }

    fn ready(&self) {
        let mut phase = self.phase();
        if !phase.is_stopping {
            phase.is_ready = true;
            self.tell("READY=1");
        }
    }

    fn reloading(&'static self) -> Reloading {
        let mut phase = self.phase();
        // Before it is ready it cannot be ready again.
        if !phase.is_ready || phase.is_stopping {
            return Reloading(None);
        }
        phase.reloads += 1;
        self.tell("RELOADING=1");
        Reloading(Some(self))
    }

    fn reloaded(&self) {
        let mut phase = self.phase();
        phase.reloads = phase.reloads.saturating_sub(1);
        if phase.reloads == 0 && !phase.is_stopping {
            self.tell("READY=1");
        }
    }

    fn stopping(&self) {
        let mut phase = self.phase();
        if phase.is_ready && !phase.is_stopping {
            phase.is_stopping = true;
            self.tell("STOPPING=1");
        }
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Words that the manager waits for: said until there is room, for a moment.
    fn tell(&self, words: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.send(words) {
                Err(error) if is_full(&error) && Instant::now() < until => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => {
                    tracing::warn!(%error, words, "the service manager is not told");
                    return;
                }
                Ok(()) => return,
            }
        }
    }

    fn beat(&self) {
        if let Err(error) = self.send("WATCHDOG=1") {
            tracing::debug!(%error, "the service manager does not hear that this process lives");
        }
    }

    fn send(&self, words: &str) -> io::Result<()> {
        match &self.socket {
            Some((socket, manager)) => socket.send_to_addr(words.as_bytes(), manager).map(drop),
            None => Ok(()),
        }
    }
}

/// A socket, and the manager's: a path, or after an `@` a name without one.
fn open(place: &str) -> io::Result<(UnixDatagram, SocketAddr)> {
    let manager = match place.strip_prefix('@') {
        #[cfg(target_os = "linux")]
        Some(name) => SocketAddr::from_abstract_name(name)?,
        #[cfg(not(target_os = "linux"))]
        Some(_) => return Err(io::ErrorKind::Unsupported.into()),
        None if place.starts_with('/') => SocketAddr::from_pathname(place)?,
        None => {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a path nor @NAME"));
        }
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, manager))
}

/// How often process `own` has to beat: what the manager says, unless he means another one.
fn watched(every_us: Option<&str>, whose: Option<&str>, own: u32) -> Option<Duration> {
    let is_own = whose.is_none_or(|whose| whose.parse() == Ok(own));
    let every_us: u64 = every_us?.parse().ok()?;
    (is_own && every_us > 0).then(|| Duration::from_micros(every_us) / 3)
}

fn is_full(error: &io::Error) -> bool {
    [Errno::AGAIN, Errno::NOBUFS].map(Some).contains(&Errno::from_io_error(error))
}

static OF_PROCESS: LazyLock<Supervisor> = LazyLock::new(Supervisor::of_process);

const SOCKET: &str = "NOTIFY_SOCKET";
const EVERY: &str = "WATCHDOG_USEC";
const WHOSE: &str = "WATCHDOG_PID";
/// A manager that does not read for so long has other troubles than ours.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    /// A manager's socket, and a supervisor that tells it.
    fn pair(every: Option<Duration>) -> (UnixDatagram, &'static Supervisor, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_nonblocking(true).unwrap();
        let supervisor = Supervisor::at(path.to_str(), every);
        (manager, Box::leak(Box::new(supervisor)), folder)
    }

    fn heard(manager: &UnixDatagram) -> Vec<String> {
        let mut all = Vec::new();
        let mut buffer = [0; 64];
        while let Ok(len) = manager.recv(&mut buffer) {
            all.push(String::from_utf8(buffer[..len].to_vec()).unwrap());
        }
        all
    }

    #[test]
    fn it_is_ready_again_when_the_last_of_several_reloads_is_over() {
        let (manager, supervisor, _folder) = pair(None);
        drop(supervisor.reloading());
        supervisor.stopping();
        assert!(heard(&manager).is_empty(), "it was not ready yet");
        supervisor.ready();
        let (one, other) = (supervisor.reloading(), supervisor.reloading());
        drop(one);
        assert_eq!(heard(&manager), ["READY=1", "RELOADING=1", "RELOADING=1"]);
        drop(other);
        assert_eq!(heard(&manager), ["READY=1"]);
        let late = supervisor.reloading();
        supervisor.stopping();
        drop(late);
        supervisor.stopping();
        supervisor.ready();
        drop(supervisor.reloading());
        assert_eq!(heard(&manager), ["RELOADING=1", "STOPPING=1"], "the end is told once");
    }

    #[test]
    fn a_heart_beats_when_it_is_time_and_waits_for_nobody() {
        let every = Duration::from_secs(5);
        let (manager, supervisor, _folder) = pair(Some(every));
        let start = Instant::now();
        let mut heart = Heart { supervisor, beaten: start };
        heart.beat(start + every / 2);
        assert!(heard(&manager).is_empty());
        heart.beat(start + every);
        heart.beat(start + every);
        assert_eq!(heard(&manager), ["WATCHDOG=1"]);
        // Nobody reads any more: its queue is full long before this many.
        let until = 100_000;
        (2..until).for_each(|turn| heart.beat(start + every * turn));
        assert!(supervisor.send("WATCHDOG=1").is_err_and(|error| is_full(&error)));
        assert!(heard(&manager).len() < until as usize / 2);
    }

    #[test]
    fn without_a_manager_nothing_is_told_and_nothing_is_watched() {
        let every = Some(Duration::from_secs(1));
        for place in [None, Some(""), Some("relative"), Some("vsock:2:9")] {
            let supervisor: &'static Supervisor = Box::leak(Box::new(Supervisor::at(place, every)));
            supervisor.ready();
            supervisor.stopping();
            assert!(supervisor.socket.is_none() && supervisor.every.is_none(), "{place:?}");
        }
    }

    #[test]
    fn a_manager_may_have_a_name_instead_of_a_path() {
        let name = format!("rhumb-supervisor-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        manager.set_nonblocking(true).unwrap();
        Supervisor::at(Some(&format!("@{name}")), None).ready();
        assert_eq!(heard(&manager), ["READY=1"]);
    }

    #[test]
    fn a_watchdog_of_another_process_is_none_of_ours() {
        let third = Some(Duration::from_secs(1));
        assert_eq!(watched(Some("3000000"), None, 7), third);
        assert_eq!(watched(Some("3000000"), Some("7"), 7), third);
        assert_eq!(watched(Some("3000000"), Some("8"), 7), None);
        assert_eq!(watched(Some("0"), None, 7), None);
        assert_eq!(watched(Some("soon"), None, 7), None);
        assert_eq!(watched(None, None, 7), None);
    }
}
