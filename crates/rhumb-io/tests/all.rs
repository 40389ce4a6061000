//! All tests of this crate that see it from outside, as one program: it is linked once, and its
//! files run side by side.

// What tests share.
mod packets;
mod sockets;
mod wire;

mod ip;
mod memory;
mod steering;
mod tun;
mod udp_delivery;
mod udp_group;
mod udp_namespace;
mod udp_trouble;
mod wake;
mod xdp;
mod xdp_choice;
mod xdp_packets;
mod xdp_workers;
