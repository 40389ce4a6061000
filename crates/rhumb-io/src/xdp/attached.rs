//! An interface with our program on it, and rings on its queues.
//!
//! Invariant: the program is tied to the value, and to those that share the
//! interface with it, and with them to this process.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use super::interface::Interface;
use super::program::{self, Action, Wanted};
use super::queue::Queue;
use super::{Options, Refusal, bpf, sys};

/// All that belongs to one interface.
pub(super) struct Attached {
    /// Dropped first: from then on nothing is led into the rings. What several share is dropped
    /// with the last of them; a ring that is gone before leads to the kernel.
    pub(super) program: Arc<OwnedFd>,
    pub(super) queues: Vec<Queue>,
    pub(super) interface: Interface,
}

impl Attached {
    /// Leads what is wanted on `interface` into rings, on
    /// its first `most` queues unless told which.
    pub(super) fn open(
        interface: Interface,
        wanted: Wanted,
        options: &Options,
        most: usize,
    ) -> Result<Self, Refusal> {
        let name = || interface.name().to_owned();
        let numbers = match options.queue {
            Some(queue) => queue..queue + 1,
            None => 0..sys::receive_queues(interface.as_fd(), interface.name()).min(most as u32),
        };
        let rings = bpf::ring_map(numbers.end)
            .map_err(|error| Refusal::of("BPF_MAP_CREATE(XSKMAP)", error))?;
        let code = program::program(wanted, interface.addresses(), rings.as_fd(), Action::Pass);
        let program = bpf::load(&code).map_err(|error| Refusal::of("BPF_PROG_LOAD", error))?;
        let index = interface.index();
        let attach = || bpf::attach(program.as_fd(), index, options.generic);
        let program = sys::patiently(attach).map_err(|source| match source.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST) => Refusal::ProgramThere { interface: name() },
            Some(libc::EOPNOTSUPP | libc::ERANGE | libc::ENOSPC) => {
                Refusal::NoNativeMode { interface: name(), source }
            }
            _ => Refusal::of("BPF_LINK_CREATE", source),
        })?;
        let mut queues = Vec::new();
        for number in numbers {
            let queue = Queue::open(index, number)?;
            if options.zero_copy_only && !queue.is_zero_copy() {
                return Err(Refusal::NoZeroCopy { interface: name() });
            }
            bpf::insert_ring(rings.as_fd(), number, queue.as_fd())
                .map_err(|error| Refusal::of("BPF_MAP_UPDATE_ELEM(XSKMAP)", error))?;
            queues.push(queue);
        }
        Ok(Self { program: Arc::new(program), queues, interface })
    }

    /// Leaves the queues to several users of the interface, one after the other: the first, who
    /// keeps looking after the program's addresses, and the `others`, each of whom looks at the
    /// interface through a value of its own.
    pub(super) fn share(mut self, others: Vec<Interface>) -> Vec<Self> {
        let queues = std::mem::take(&mut self.queues);
        let program = Arc::clone(&self.program);
        let share =
            |interface| Self { program: Arc::clone(&program), queues: Vec::new(), interface };
        let mut all = vec![self];
        all.extend(others.into_iter().map(share));
        let users = all.len();
        for (number, queue) in queues.into_iter().enumerate() {
            all[number % users].queues.push(queue);
        }
        all
    }
}
