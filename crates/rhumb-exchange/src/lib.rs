//! The private exchange (SIXPACK, CoNEXT 2017), sans-IO: two route servers that hand out routes without seeing to whom, or which
//! their members prefer. What they compute together is in [`circuits`].

#![forbid(unsafe_code)]

pub mod circuits;
