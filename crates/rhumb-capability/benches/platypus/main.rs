//! Platypus's costs, as in the paper's Table 3 and Figure 4: null forwarding,
//! verification and stamping, in memory and over veth, beside what Linux takes to
//! forward IPv4, and SRv6 with and without its HMAC.
//!
//! Run by `cargo xtask bench platypus`; `--json` prints one object. Takes two minutes; what is over
//! veth needs root. After `--` `memory` or `veth` measures that part alone, `header-aes` and its
//! like that suite. `load` measures another part, alone: the series for `cargo xtask figures`.

#![expect(clippy::disallowed_methods, reason = "a bench owns its clock and its threads")]

mod forwarder;
mod keys;
#[path = "../../../rhumb-io/benches/machine/mod.rs"]
mod machine;
mod memory;
mod path;
mod report;
#[path = "../../../rhumb-io/benches/rig/mod.rs"]
mod rig;
mod traffic;

use report::Report;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let mut conditions = report::conditions();
    if has("load") {
        return report::print_load(path::load::measure(), conditions, has("--json"));
    }
    let memory = if has("veth") { Vec::new() } else { memory::measure(&arguments) };
    let measured = if has("memory") { Err("not asked for") } else { path::measure() };
    let path = measured.unwrap_or_else(|why| {
        conditions.insert("veth_left_out".to_owned(), why.into());
        Vec::new()
    });
    conditions.insert("load_average_after".to_owned(), machine::load_average().into());
    let report = Report { conditions, memory, path };
    if has("--json") { report.print_json() } else { report.print_text() }
}
