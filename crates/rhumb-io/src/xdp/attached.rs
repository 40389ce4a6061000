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
use crate::ethtool::receive_queues;

/// All that one of its users has of an interface.
pub(super) struct Attached {
    /// Dropped first: from then on nothing is led into the rings. What several share is dropped
    /// with the last of them; a ring that is gone before leads to the kernel.
    _program: Arc<OwnedFd>,
    pub(super) queues: Vec<Queue>,
    pub(super) interface: Interface,
    /// The queue that this user sends on.
    sends_on: usize,
}

/// How several users share the queues of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Division {
    /// Queue n belongs to user n modulo their number.
    ByQueue,
    /// Every user has rings on every queue; the program leads a
    /// datagram to those of the user whose lane it is on.
    ByLane,
}

impl Attached {
    /// Leads what is wanted on an interface into rings, on its first `most` queues unless told
    /// which. There is a user for each value in `all`, through which it looks at the interface; the
    /// first keeps looking after the program's addresses.
    pub(super) fn open(
        mut all: Vec<Interface>,
        wanted: Wanted,
        division: Division,
        options: &Options,
        most: usize,
    ) -> Result<Vec<Self>, Refusal> {
        let users = all.len() as u32;
        let interface = &mut all[0];
        let name = || interface.name().to_owned();
        let numbers = match options.queue {
            Some(queue) => queue..queue + 1,
            None => 0..receive_queues(interface.as_fd(), interface.name()).min(most as u32),
        };
        let on_a_queue = if division == Division::ByLane { users } else { 1 };
        let rings = bpf::ring_map(numbers.end * on_a_queue)
            .map_err(|error| Refusal::of("BPF_MAP_CREATE(XSKMAP)", error))?;
        let addresses = interface.addresses();
        let code = program::program(wanted, on_a_queue, addresses, rings.as_fd(), Action::Pass);
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
            let users = Queue::open(index, number, on_a_queue)?;
            if options.zero_copy_only && !users.iter().all(Queue::is_zero_copy) {
                return Err(Refusal::NoZeroCopy { interface: name() });
            }
            for (user, queue) in (0..).zip(&users) {
                bpf::insert_ring(rings.as_fd(), number * on_a_queue + user, queue.as_fd())
                    .map_err(|error| Refusal::of("BPF_MAP_UPDATE_ELEM(XSKMAP)", error))?;
            }
            queues.push(users);
        }
        Ok(divide(all, &Arc::new(program), division, queues))
    }

    /// The queue to send on, while there is one.
    pub(super) fn sending(&mut self) -> Option<&mut Queue> {
        self.queues.get_mut(self.sends_on)
    }

    /// Whether frames wait in a ring that a full queue,
    /// or an interface that is down, has not taken.
    pub(super) fn has_unsent(&self) -> bool {
        self.queues.get(self.sends_on).is_some_and(Queue::has_unsent)
    }
}

/// Gives each user of an interface what is its own of the queues.
fn divide(
    all: Vec<Interface>,
    program: &Arc<OwnedFd>,
    division: Division,
    queues: Vec<Vec<Queue>>,
) -> Vec<Attached> {
    let (users, numbers) = (all.len(), queues.len());
    let sends_on = |user: usize| match division {
        Division::ByQueue => 0,
        // Users spread over the queues that they have all of.
        Division::ByLane => user % numbers.max(1),
    };
    let mut shares: Vec<Attached> = (0..)
        .zip(all)
        .map(|(user, interface)| Attached {
            _program: Arc::clone(program),
            queues: Vec::new(),
            interface,
            sends_on: sends_on(user),
        })
        .collect();
    for (number, of_users) in queues.into_iter().enumerate() {
        for (user, queue) in of_users.into_iter().enumerate() {
            let user = if division == Division::ByLane { user } else { number % users };
            shares[user].queues.push(queue);
        }
    }
    shares
}
