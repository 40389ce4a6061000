//! All tests of this crate that see from outside what leads by name, and what reaches more than one
//! product, as one program: it is linked once, and its files run side by side.

// What tests share.
mod attackers;
#[path = "../../rhumb-cql/tests/cassandra/mod.rs"]
#[allow(dead_code, reason = "each program uses its part of it")]
mod cassandra;
mod driven;
mod harness;
mod hosts;
mod inbox;
mod namespaces;
mod network;
mod pages;
mod recorder;
mod stamping;
mod terminal;
mod waypoints;
#[path = "../../rhumb-io/tests/wire/mod.rs"]
mod wire;

mod access;
mod admin_socket;
mod attacks;
mod border;
mod capture;
mod cli;
mod clock;
mod config;
mod daemons;
mod dashboard;
mod demo;
mod discovery;
mod doctor;
mod domain_files;
mod domain_keys;
mod domain_receivers;
mod domain_removal;
mod domain_renewal;
mod domains;
mod folders;
mod for_one;
mod groups;
mod hello_flood;
mod input;
mod invitations;
mod lan;
mod logs;
mod manual;
mod mobility;
mod names;
mod neighbours;
mod neighbours_capabilities;
mod neighbours_exchange;
mod own_network;
mod path_mtu;
mod ports;
mod privileges;
mod prometheus;
mod proxy;
mod published;
mod python_client;
mod receive_rules;
mod resume;
mod rib_cluster;
mod rib_cluster_tls;
mod rib_conduct;
mod rib_log;
mod rib_parent;
mod rib_store;
mod ribs_away;
mod serve;
mod state;
mod supervised;
mod tls;
mod top;
mod top_elsewhere;
mod tours;
mod tun;
mod tun_programs;
mod two_nodes;
mod two_processes;
mod up;
mod upgrade;
mod upstreams;
mod workers;
mod xdp;
