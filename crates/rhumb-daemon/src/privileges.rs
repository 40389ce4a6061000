//! Giving up what a daemon needs no more once its sockets are open:
//! capabilities, and, with `run_as`, root's files.
//!
//! On Linux, privileges belong to threads, and threads have those of the one that started them. So
//! this is done before there is a second one.
//!
//! Invariant: when [`give_up`] returns, this process has no capability but
//! those it was told to keep, and can gain none.

#[cfg(target_os = "linux")]
pub use linux::give_up;

use std::path::Path;

#[cfg(target_os = "linux")]
use rustix::thread::CapabilitySet;

/// Who a daemon goes on as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// Of the user (UID).
    pub id: u32,
    /// Of its own group (GID).
    pub group: u32,
}

/// Capabilities that a daemon goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// None: its sockets are open.
    Nothing,
    /// To open raw sockets, and to change rules, routes and devices.
    #[cfg(target_os = "linux")]
    Network,
}

/// A user by name or number. A number that is not in the list of users is its own group's, too.
///
/// # Errors
/// When there is no such name: in words.
pub fn user(name: &str) -> Result<User, String> {
    user_in(Path::new(USERS), name)
}

fn user_in(users: &Path, name: &str) -> Result<User, String> {
    let text = std::fs::read_to_string(users).unwrap_or_default();
    let number = name.parse::<u32>().ok();
    let found = text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [its_name, _, id, group, ..] = fields[..] else { return None };
        let user = User { id: id.parse().ok()?, group: group.parse().ok()? };
        (its_name == name || Some(user.id) == number).then_some(user)
    });
    found
        .or(number.map(|id| User { id, group: id }))
        .ok_or_else(|| format!("there is no user `{name}` in {}; give the number", users.display()))
}

/// Other systems have no capabilities, and no packet I/O that needs any.
#[cfg(not(target_os = "linux"))]
pub fn give_up(run_as: Option<User>, _: Keep) -> crate::failure::Outcome {
    match run_as {
        None => Ok(()),
        Some(_) => Err(crate::failure::Failure::setup_text("--run-as needs Linux")),
    }
}

#[cfg(target_os = "linux")]
impl Keep {
    fn capabilities(self) -> CapabilitySet {
        match self {
            Self::Nothing => CapabilitySet::empty(),
            Self::Network => CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW,
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use rustix::io;
    use rustix::process::{Gid, Uid, getegid, geteuid};
    use rustix::thread::{
        CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
        set_capabilities, set_keep_capabilities, set_no_new_privs, set_thread_groups,
        set_thread_res_gid, set_thread_res_uid,
    };

    use super::{Keep, User};
    use crate::failure::{Failure, Outcome};

    /// Gives up everything but `keep`, and goes on as `run_as` if given.
    pub fn give_up(run_as: Option<User>, keep: Keep) -> Outcome {
        let threads = std::fs::read_dir("/proc/self/task").map(Iterator::count);
        // Without /proc it is not known; who calls this has started none.
        if threads.is_ok_and(|threads| threads != 1) {
            return Err(Failure::operation_text("other threads would keep their privileges"));
        }
        if let Some(user) = run_as {
            become_user(user).map_err(|error| {
                Failure::setup_text(format!(
                    "cannot go on as user {}: {error}; --run-as needs root",
                    user.id
                ))
            })?;
        }
        lessen(keep)
            .map_err(|error| Failure::setup_text(format!("cannot give up privileges: {error}")))
    }

    /// Changes user and groups. What capabilities are permitted stays so until [`lessen`].
    fn become_user(user: User) -> io::Result<()> {
        let (id, group) = (Uid::from_raw(user.id), Gid::from_raw(user.group));
        if (geteuid(), getegid()) == (id, group) {
            // Whoever started us has seen to it.
            return Ok(());
        }
        set_keep_capabilities(true)?;
        set_thread_groups(&[group])?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(id, id, id)?;
        set_keep_capabilities(false)
    }

    fn lessen(keep: Keep) -> io::Result<()> {
        // What was not had cannot be kept: who started us knows
        // why, and an error says so where it is needed.
        let kept = keep.capabilities() & capabilities(None)?.permitted;
        let inheritable = CapabilitySet::empty();
        clear_ambient_capability_set()?;
        set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?;
        set_no_new_privs(true)
    }
}

const USERS: &str = "/etc/passwd";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_or_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let users = folder.path().join("passwd");
        std::fs::write(&users, "root:x:0:0::/root:/bin/sh\nalice:x:1007:1008::/:/bin/sh\n")
            .unwrap();
        let alice = User { id: 1007, group: 1008 };
        assert_eq!(user_in(&users, "alice"), Ok(alice));
        assert_eq!(user_in(&users, "1007"), Ok(alice));
        assert_eq!(user_in(&users, "1234"), Ok(User { id: 1234, group: 1234 }));
        assert!(user_in(&users, "bob").unwrap_err().contains("give the number"));
        assert_eq!(user_in(&folder.path().join("none"), "7").map(|it| it.id), Ok(7));
    }
}
