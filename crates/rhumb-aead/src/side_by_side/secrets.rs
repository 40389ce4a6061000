//! Whether a branch or an address depends on a key, a plaintext or a tag, as memcheck of valgrind
//! sees it: secrets are marked as not initialised, which it follows through all that is computed.
//!
//! It knows neither AVX-512 nor VAES, and no processor but the one it runs on, so what it follows
//! is the narrow backend, with what all of them have in common: `algorithm!` is one text for each
//! width, and of the other backends' own operations those alone branch that take a part of a
//! register, by its length.

use std::arch::asm;
use std::process::Command;

use crate::{Algorithm, Backend, Choice, Key, Record, open, seal};

#[test]
fn no_branch_and_no_address_depends_on_a_secret() {
    if is_followed() {
        return seal_and_open_secrets();
    }
    let name = "side_by_side::secrets::no_branch_and_no_address_depends_on_a_secret";
    let Some((code, said)) = follow(name) else { return };
    assert_eq!(code, Some(0), "{said}");
}

/// Or else the test above would show nothing.
#[test]
fn a_branch_that_depends_on_a_secret_is_noticed() {
    if is_followed() {
        let mut secret = [7_u8];
        mark(&mut secret, SECRET);
        assert_ne!(std::hint::black_box(secret[0]), 8);
        return;
    }
    let name = "side_by_side::secrets::a_branch_that_depends_on_a_secret_is_noticed";
    let Some((code, said)) = follow(name) else { return };
    assert_eq!(code, Some(FOUND), "{said}");
    assert!(said.contains("depends on uninitialised value"), "{said}");
}

/// A number of which no more is told than what `subtle` makes of it.
pub(super) fn public(number: u64) -> u64 {
    let mut cell = [number];
    mark(&mut cell, PUBLIC);
    cell[0]
}

fn seal_and_open_secrets() {
    let backend = Backend::AesNi;
    // This is also what a processor without the wider registers sees.
    assert_eq!(
        Backend::of(Choice::Own),
        backend,
        "valgrind shows programs a processor with AES-NI"
    );
    for algorithm in [Algorithm::Aes128Gcm, Algorithm::Aes256Gcm] {
        let mut secret = vec![7_u8; algorithm.key_len()];
        mark(&mut secret, SECRET);
        let key = Key::for_backend(algorithm, &secret, backend);
        for len in (0..300).chain([512, 1000, 2049]) {
            let mut buffers = [vec![1_u8; len], vec![2_u8; len + 1], vec![3_u8; len / 2]];
            buffers.iter_mut().for_each(|buffer| mark(buffer, SECRET));
            let mut records = buffers.each_mut().map(|bytes| {
                Record::in_place(&key, [len as u8; 12], &AAD[..len % AAD.len()], bytes)
            });
            seal(&mut records);
            for record in &mut records {
                mark(record.bytes, PUBLIC);
                mark(&mut record.tag, PUBLIC);
            }
            records[1].tag[3] ^= 1;
            assert_eq!(open(&mut records).bits(), 0b101);
        }
    }
}

/// Runs the test of this name under valgrind: how it ended, and what was said. `None` where there
/// is none.
fn follow(name: &str) -> Option<(Option<i32>, String)> {
    let this = std::env::current_exe().unwrap();
    let error_code = format!("--error-exitcode={FOUND}");
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=memcheck", &error_code]).arg(this);
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]);
    match command.output() {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            assert!(said.contains("1 passed"), "{said}");
            Some((output.status.code(), said))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: needs valgrind (Debian package valgrind)");
            None
        }
        Err(error) => panic!("valgrind: {error}"),
    }
}

fn is_followed() -> bool {
    request::<u8>(RUNNING_ON_VALGRIND, &mut []) != 0
}

/// The values are borrowed to be changed, or else what they were would be taken for what they are.
fn mark<T: Copy>(values: &mut [T], how: u64) {
    request(how, values);
}

/// Asks valgrind, by a sequence of instructions that has no effect elsewhere: gives zero there.
/// Source: `valgrind.h`, "client request mechanism", for amd64 on Linux.
fn request<T: Copy>(code: u64, values: &mut [T]) -> u64 {
    let arguments = [code, values.as_mut_ptr() as u64, size_of_val(values) as u64, 0, 0, 0];
    let mut answer = 0_u64;
    // SAFETY: on a processor the four rotations are by 128 bits in all, and the exchange is of a
    // register with itself. Valgrind reads the six numbers, which live until then, and writes the
    // one register that is given; marking changes no value.
    unsafe {
        asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") answer,
        );
    }
    answer
}

const AAD: &[u8; 40] = &[9; 40];
/// What valgrind ends with where it has found something.
const FOUND: i32 = 99;
const RUNNING_ON_VALGRIND: u64 = 0x1001;
/// Not initialised, and initialised: of memcheck, whose requests begin with its two letters.
const SECRET: u64 = 0x4D43_0001;
const PUBLIC: u64 = 0x4D43_0002;
