//! The control group (version 2) that a stamped command runs in: each socket made by a process in
//! it gets a mark, by which the rules of routing know its packets.
//!
//! The group is made below our own, so whatever limits us limits the command. The mark is tied to
//! the group, not to us: what is left running when we are killed stays marked, and its packets go
//! nowhere rather than by the usual way.
//!
//! Invariant: an empty group is removed, by us or by the next one of us that starts. A lock on its
//! folder says whether its maker lives. See `docs/decisions/0020-stamping.md`.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_io::marks::mark_sockets_of_group;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// A control group of ours.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
    /// Where this process belongs.
    home: PathBuf,
    _lock: File,
    _hierarchy: Hierarchy,
}

/// Where control groups are.
#[derive(Debug)]
struct Hierarchy {
    root: PathBuf,
    /// This process's group.
    own: PathBuf,
    /// The mount, where it is one that only we see.
    _mount: Option<OwnedFd>,
}

impl Group {
    /// A group whose sockets are marked, of instance `number`.
    pub(crate) fn make(number: u32, mark: u32) -> Outcome<Self> {
        let hierarchy = Hierarchy::find().map_err(|error| {
            Failure::setup_text(format!(
                "a command is stamped by its control group, and this system has no hierarchy of version 2 \
                 ({error}); boot with systemd.unified_cgroup_hierarchy=1, or use `rhumb stamp daemon --user`"
            ))
        })?;
        let folder = hierarchy.own.join(name(number).map_err(Failure::setup)?);
        let failed = |step: &str, error: io::Error| {
            Failure::setup_text(format!("control group {}: {step}: {error}", folder.display()))
        };
        let lock = make_locked(&folder).map_err(|error| failed("cannot be made", error))?;
        let made = Removal(&folder);
        mark_sockets_of_group(lock.as_fd(), mark).map_err(|error| {
            failed(
                "its sockets cannot be marked, which takes BPF in the kernel (CONFIG_CGROUP_BPF), \
                 CAP_BPF and CAP_NET_ADMIN, and no group above that allows no further program",
                error,
            )
        })?;
        std::mem::forget(made);
        let home = hierarchy.own.clone();
        Ok(Self { folder, home, _lock: lock, _hierarchy: hierarchy })
    }

    /// Starts a command in the group. For that this process goes there for a moment: nobody may
    /// make sockets meanwhile that are not to be marked.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        enter(&self.folder)?;
        let child = command.spawn();
        // Should it fail, all that follows would be stamped by itself: better to say so and end.
        let back = enter(&self.home);
        match (child, back) {
            (child, Ok(())) => child,
            (Ok(mut child), Err(error)) => {
                child.kill()?;
                child.wait()?;
                Err(error)
            }
            (Err(_), Err(error)) => Err(error),
        }
    }

    /// Whether a process is in it.
    pub(crate) fn is_populated(&self) -> bool {
        is_populated(&self.folder)
    }

    /// Ends all processes in it.
    pub(crate) fn kill(&self) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.kill"), "1")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.folder) {
            let group = self.folder.display();
            tracing::warn!(%group, %error, "the control group stays until its processes have ended");
        }
    }
}

/// Removes groups whose makers are gone, where nothing runs in them. Returns the numbers of the
/// instances of this network namespace whose commands still run: those stay cut off.
pub(crate) fn clean_leftovers() -> Vec<u32> {
    let (Ok(hierarchy), Ok(namespace)) = (Hierarchy::find(), namespace()) else {
        return Vec::new();
    };
    let mut cut_off = Vec::new();
    let mut folders = vec![(hierarchy.root.clone(), 0)];
    let mut looked_at = 0;
    while let Some((folder, depth)) = folders.pop() {
        looked_at += 1;
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let inner = entries.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir()));
        for entry in inner {
            let file_name = entry.file_name();
            match file_name.to_str().and_then(parse_name) {
                Some((its_namespace, number)) => {
                    let is_mine = its_namespace == namespace;
                    if matches!(remove_abandoned(&entry.path()), Some(Err(_))) && is_mine {
                        cut_off.push(number);
                    }
                }
                None if depth < DEEPEST && looked_at < MOST_GROUPS => {
                    folders.push((entry.path(), depth + 1));
                }
                None => {}
            }
        }
    }
    cut_off
}

impl Hierarchy {
    fn find() -> io::Result<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let own = groups.lines().find_map(|line| line.strip_prefix("0::"));
        let own = own.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let places = mounts.lines().filter_map(|line| place_of_mount(line, own));
        for (root, own) in places {
            if own.join(PROCESSES).exists() {
                return Ok(Self { root, own, _mount: None });
            }
        }
        // Not mounted, or hidden by another mount, as `ip netns exec`
        // does: it is mounted where only we see it.
        let context = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(context.as_fd())?;
        let mount =
            fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        let own = root.join(own.trim_start_matches('/'));
        Ok(Self { root, own, _mount: Some(mount) })
    }
}

/// Mount point and our group, when a line of mountinfo is about control groups of version 2.
fn place_of_mount(line: &str, own: &str) -> Option<(PathBuf, PathBuf)> {
    let (mount, kind) = line.split_once(" - ")?;
    if kind.split(' ').next() != Some("cgroup2") {
        return None;
    }
    let mut fields = mount.split(' ').skip(3);
    let (part, point) = (fields.next()?, PathBuf::from(fields.next()?));
    let below = Path::new(own).strip_prefix(part).ok()?;
    let own = point.join(below);
    Some((point, own))
}

fn enter(folder: &Path) -> io::Result<()> {
    fs::write(folder.join(PROCESSES), "0")
}

fn is_populated(folder: &Path) -> bool {
    let events = fs::read_to_string(folder.join("cgroup.events")).unwrap_or_default();
    events.lines().any(|line| line == "populated 1")
}

/// Makes the folder of a group, and the lock which says that its maker lives. Between the two
/// another one that starts takes it for a leftover and removes it: then it is made once more.
///
/// INVARIANT: nobody removes a group, and nobody uses one, without its lock.
fn make_locked(folder: &Path) -> io::Result<File> {
    fs::create_dir(folder)?;
    for _ in 0..MOST_TRIES {
        match File::open(folder) {
            Ok(lock) if !lock_soon(&lock) => return Err(io::Error::other("somebody locks it")),
            Ok(lock) if is_at(&lock, folder) => return Ok(lock),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir(folder)?,
        }
    }
    Err(io::Error::other("it is removed again and again"))
}

/// Locks a folder, if that is possible within the time that it takes another one to remove it.
fn lock_soon(folder: &File) -> bool {
    (0..LOCK_TRIES).any(|nth| {
        if nth > 0 {
            std::thread::sleep(LOCK_AGAIN_AFTER);
        }
        folder.try_lock().is_ok()
    })
}

/// Whether what was opened is still what stands at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |of: fs::Metadata| (of.dev(), of.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(opened), Ok(there)) => place(opened) == place(there),
        _ => false,
    }
}

/// Removes a group whose maker is gone; `None` when its maker lives.
fn remove_abandoned(folder: &Path) -> Option<io::Result<()>> {
    let lock = File::open(folder).ok()?;
    lock.try_lock().ok()?;
    is_at(&lock, folder).then(|| remove(folder))
}

/// The groups below, and then the group.
fn remove(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_type().is_ok_and(|it| it.is_dir()) {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(folder)
}

struct Removal<'a>(&'a Path);

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.0);
    }
}

fn name(number: u32) -> io::Result<String> {
    Ok(format!("{PREFIX}{}-{number}", namespace()?))
}

fn parse_name(name: &str) -> Option<(u64, u32)> {
    let (namespace, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
    Some((namespace.parse().ok()?, number.parse().ok()?))
}

/// What tells the network namespaces of a host apart.
fn namespace() -> io::Result<u64> {
    fs::metadata("/proc/self/ns/net").map(|it| it.ino())
}

const PREFIX: &str = "rhumb-stamp-";
const PROCESSES: &str = "cgroup.procs";
/// Others that start at the same time are few, and each looks once.
const MOST_TRIES: usize = 20;
/// Ten times what it takes to remove a folder.
const LOCK_AGAIN_AFTER: Duration = Duration::from_millis(1);
/// A second, since who removes it may have to wait for a processor.
const LOCK_TRIES: usize = 1000;
/// Where leftovers are looked for: deeper than service managers nest, and more than hosts have.
const DEEPEST: usize = 12;
const MOST_GROUPS: usize = 20_000;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn mounts_tell_where_our_group_is() {
        let line = |part: &str, kind: &str| {
            format!("41 31 0:38 {part} /sys/fs/cgroup rw,relatime - {kind} cgroup2 rw")
        };
        let place = place_of_mount(&line("/", "cgroup2"), "/user.slice/a.scope");
        let expected = ("/sys/fs/cgroup".into(), "/sys/fs/cgroup/user.slice/a.scope".into());
        assert_eq!(place, Some(expected));
        let place = place_of_mount(&line("/box", "cgroup2"), "/box/inner");
        assert_eq!(place, Some(("/sys/fs/cgroup".into(), "/sys/fs/cgroup/inner".into())));
        assert_eq!(place_of_mount(&line("/box", "cgroup2"), "/elsewhere"), None);
        assert_eq!(place_of_mount(&line("/", "cgroup"), "/"), None);
        assert_eq!(place_of_mount("", "/"), None);
    }

    #[test]
    fn who_cleans_up_takes_nothing_from_who_has_just_begun() {
        let world = tempfile::tempdir().unwrap();
        let folder = world.path().join("rhumb-stamp-1-0");
        // How many have begun; none begins any more at the largest number.
        let begun = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            // Each removes one of those that begin at most, as one that starts does.
            let clean = || {
                let (mut removed, mut done_with) = (0, 0);
                loop {
                    match begun.load(Ordering::Relaxed) {
                        usize::MAX => return removed,
                        number if number == done_with => std::thread::yield_now(),
                        number => {
                            if matches!(remove_abandoned(&folder), Some(Ok(()))) {
                                (removed, done_with) = (removed + 1, number);
                            }
                        }
                    }
                }
            };
            let cleaners = [scope.spawn(clean), scope.spawn(clean)];
            for number in 1..=2000 {
                begun.store(number, Ordering::Relaxed);
                let lock = make_locked(&folder);
                let holds = lock.as_ref().is_ok_and(|lock| is_at(lock, &folder));
                if !holds || number == 2000 {
                    begun.store(usize::MAX, Ordering::Relaxed);
                }
                assert!(holds, "{lock:?}");
                fs::remove_dir(&folder).unwrap();
            }
            let removed: usize = cleaners.map(|it| it.join().unwrap()).into_iter().sum();
            assert!(removed > 0, "nobody was in the way");
        });
    }

    #[test]
    fn names_read_back() {
        assert_eq!(parse_name(&format!("{PREFIX}4026531840-3")), Some((4_026_531_840, 3)));
        for other in ["rhumb-stamp-", "rhumb-stamp-1", "rhumb-stamp-x-1", "init.scope"] {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }
}
