//! Files of every awkward length arrive whole, and a large one costs little.

use super::pair::{MS, Pair, Path, file};
use rhumb_node::transfer::SenderConfig;
use rhumb_wire::transfer::Message;

#[test]
fn awkward_lengths() {
    let chunk = SenderConfig::default().max_body_len - Message::CHUNK_OVERHEAD;
    for len in [0, 1, chunk - 1, chunk, chunk + 1, 2 * chunk, 10 * chunk, 10 * chunk + 1, 64 * 1024]
    {
        let content = file(len, len as u64);
        let report = Pair::in_memory(&content, Path::new(MS * 10)).run_and_compare(&content);
        let chunks = len.div_ceil(chunk);
        let least = (len + chunks * Message::CHUNK_OVERHEAD) as u64;
        assert!(
            report.sent - least < 128,
            "{len}: an offer and a last word is all else: {report:?}"
        );
        assert!(report.told_after >= MS * 20);
    }
}

#[test]
fn an_empty_file_takes_one_round_trip() {
    let report = Pair::in_memory(&[], Path::new(MS * 10)).run_and_compare(&[]);
    assert_eq!(report.told_after, MS * 20);
}

#[test]
fn fifty_megabytes_on_a_clean_path_are_sent_once() {
    let content = file(50_000_000, 50);
    let pair = Pair::in_memory(&content, Path::new(MS / 20));
    let report = pair.run_and_compare(&content);
    let chunk = (SenderConfig::default().max_body_len - Message::CHUNK_OVERHEAD) as u64;
    let least = 50_000_000 + 50_000_000u64.div_ceil(chunk) * Message::CHUNK_OVERHEAD as u64;
    assert!(report.sent - least < 200, "{report:?}");
    assert!(report.answered < report.sent / 100, "acknowledgements are few: {report:?}");
    assert!(report.told_after < MS * 200, "{report:?}");
}
