//! Runs a command whose sockets are stamped: starts it in a control group, hands signals on, and
//! waits until the last of its processes has ended.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::SyncSender;

use rhumb_daemon::failure::{Failure, Outcome};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::signal::unix::{SignalKind, signal};

use super::Event;
use super::group::Group;

/// A command that was started.
#[derive(Debug)]
pub(crate) struct Running {
    descriptor: std::os::fd::OwnedFd,
}

impl Running {
    /// Starts it. Its end comes as an event. `Err` with what the
    /// system said, when there is no such command.
    pub(crate) fn start(
        command: &[OsString],
        group: &Group,
        events: SyncSender<Event>,
    ) -> Outcome<io::Result<Self>> {
        let [program, arguments @ ..] = command else {
            return Err(Failure::setup_text("no command; give it behind --"));
        };
        let child = match group.spawn(Command::new(program).args(arguments)) {
            Ok(child) => child,
            Err(error) => return Ok(Err(error)),
        };
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Failure::operation_text("the command has no process id"))?;
        let descriptor = pidfd_open(pid, PidfdFlags::empty()).map_err(Failure::operation)?;
        std::thread::Builder::new()
            .name("waiter".to_owned())
            .spawn(move || wait(child, &events))
            .map_err(Failure::operation)?;
        Ok(Ok(Self { descriptor }))
    }

    /// Hands a signal on. The command may have ended: then nobody gets it.
    pub(crate) fn signal(&self, number: i32) {
        if let Some(signal) = Signal::from_named_raw(number) {
            let _ = pidfd_send_signal(&self.descriptor, signal);
        }
    }
}

fn wait(mut child: Child, events: &SyncSender<Event>) {
    let status = child.wait().unwrap_or_else(|_| ExitStatus::from_raw(0xFF00));
    // Nobody to tell is nobody who wants to know.
    let _ = events.send(Event::Ended(status));
}

/// The exit code that says how a command ended, as a shell would.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// The exit code for a command that could not be started, as a shell's.
pub(crate) fn exit_code_of_start(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}

/// Lets signals come as events from now on. With `for_command`, those of a terminal's keys are left
/// out at a terminal: they reach the command without us.
pub(crate) fn catch_signals(events: SyncSender<Event>, for_command: bool) -> Outcome {
    let mut kinds = vec![
        SignalKind::terminate(),
        SignalKind::hangup(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
    ];
    let by_keys = [SignalKind::interrupt(), SignalKind::quit()];
    let is_at_terminal = for_command && io::stdin().is_terminal();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(Failure::operation)?;
    kinds.extend(by_keys);
    let mut signals = Vec::new();
    {
        let _entered = runtime.enter();
        for kind in kinds {
            signals.push((kind, signal(kind).map_err(Failure::operation)?));
        }
    }
    let local = async move {
        let tasks = signals.into_iter().map(|(kind, mut signal)| {
            let events = events.clone();
            let is_known = is_at_terminal && by_keys.contains(&kind);
            tokio::spawn(async move {
                while signal.recv().await.is_some() {
                    if !is_known && events.try_send(Event::Signal(kind.as_raw_value())).is_err() {
                        return;
                    }
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            let _ = task.await;
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(local))
        .map_err(Failure::operation)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        assert_eq!(exit_code(ExitStatus::from_raw(0)), 0);
        assert_eq!(exit_code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
        assert_eq!(exit_code_of_start(&io::ErrorKind::NotFound.into()), 127);
        assert_eq!(exit_code_of_start(&io::ErrorKind::PermissionDenied.into()), 126);
    }
}
