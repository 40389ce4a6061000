//! Another implementation as a judge: BIRD evaluates expressions over its control socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rhumb_bgp::policy::{CommunityPattern, PathPattern, PrefixRange, PrefixSet, Vrp, Vrps};
use rustbgpd_wire::RpkiValidation;

use super::{as_path, prefix};

/// A daemon with a folder of its own.
struct Bird {
    child: Child,
    folder: PathBuf,
    lines: BufReader<UnixStream>,
}

impl Bird {
    /// `None`, and why on the terminal, where there is no BIRD.
    fn start(name: &str, configuration: &str) -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("rhumb-bird-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("bird.conf");
        std::fs::write(
            &file,
            format!("router id 192.0.2.1;\nprotocol device {{}}\n{configuration}"),
        )
        .unwrap();
        let socket = folder.join("bird.ctl");
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let child = Command::new("bird")
            .env("PATH", path)
            .args(["-f", "-c"])
            .arg(&file)
            .arg("-s")
            .arg(&socket)
            .arg("-P")
            .arg(folder.join("bird.pid"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) =
            child.inspect_err(|error| println!("skipped: bird: {error}; it is in Debian's bird2"))
        else {
            std::fs::remove_dir_all(&folder).unwrap();
            return None;
        };
        let Some(stream) = connect(&socket) else {
            child.kill().unwrap();
            child.wait().unwrap();
            std::fs::remove_dir_all(&folder).unwrap();
            println!("skipped: bird does not run here");
            return None;
        };
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut bird = Self { child, folder, lines: BufReader::new(stream) };
        bird.reply();
        Some(bird)
    }

    /// The value of an expression, as BIRD writes it.
    fn eval(&mut self, expression: &str) -> String {
        self.lines.get_mut().write_all(format!("eval {expression}\n").as_bytes()).unwrap();
        let reply = self.reply();
        assert!(reply.starts_with("0023 "), "{expression}: {reply}");
        reply["0023 ".len()..].to_owned()
    }

    fn reply(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a daemon of others needs its time; at most five seconds"
)]
fn connect(socket: &Path) -> Option<UnixStream> {
    for _ in 0..100 {
        if let Ok(stream) = UnixStream::connect(socket) {
            return Some(stream);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    None
}

/// A path of numbers as an expression of BIRD's.
fn bird_path(path: &str) -> String {
    path.split_ascii_whitespace()
        .rev()
        .fold("+empty+".to_owned(), |rest, asn| format!("prepend({rest}, {asn})"))
}

#[test]
fn paths_match_as_in_bird() {
    let Some(mut bird) = Bird::start("paths", "") else { return };
    // Expressions with a counterpart among BIRD's masks, which know numbers and not text.
    let table = [
        ("^$", "[= =]"),
        ("_65000_", "[= * 65000 * =]"),
        ("^65000_", "[= 65000 * =]"),
        ("_65000$", "[= * 65000 =]"),
        ("^65000$", "[= 65000 =]"),
        ("^65000 (.* )?65010$", "[= 65000 * 65010 =]"),
        ("^65000 [0-9]+ 65010$", "[= 65000 ? 65010 =]"),
        ("[65000-65010]", "[= * 65000..65010 * =]"),
        ("^[65000-65010]_", "[= 65000..65010 * =]"),
        ("^(65000|65001)_", "[= [65000,65001] * =]"),
        ("_65000_65001_", "[= * 65000 65001 * =]"),
        ("^65000( 65000)*$", "[= 65000+ =]"),
    ];
    let numbers = ["65000", "65001", "65010", "65011", "650001"];
    let mut paths = vec![String::new()];
    for first in numbers {
        paths.push(first.to_owned());
        for second in numbers {
            paths.push(format!("{first} {second}"));
            paths.extend(numbers.iter().map(|third| format!("{first} {second} {third}")));
        }
    }
    for (expression, mask) in table {
        let pattern: PathPattern = expression.parse().unwrap();
        let mut fitting = 0;
        for path in &paths {
            let judged = bird.eval(&format!("{} ~ {mask}", bird_path(path))) == "TRUE";
            assert_eq!(pattern.matches(&as_path(path)), judged, "{expression} and `{path}`");
            fitting += usize::from(judged);
        }
        assert!(fitting > 0 && fitting < paths.len(), "{mask} tells something");
    }
}

#[test]
fn prefixes_match_as_in_bird() {
    let Some(mut bird) = Bird::start("prefixes", "") else { return };
    let table = [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.0.0.0/8+", "10.0.0.0/8+"),
        ("10.0.0.0/8 ge 16 le 24", "10.0.0.0/8{16,24}"),
        ("10.1.0.0/16{17,18}", "10.1.0.0/16{17,18}"),
        ("0.0.0.0/0 le 8", "0.0.0.0/0{0,8}"),
        ("2001:db8::/32 le 48", "2001:db8::/32{32,48}"),
    ];
    let tried = [
        "0.0.0.0/0",
        "10.0.0.0/7",
        "10.0.0.0/8",
        "11.0.0.0/8",
        "10.0.0.0/9",
        "10.1.0.0/16",
        "10.1.0.0/17",
        "10.1.128.0/18",
        "10.2.0.0/18",
        "10.1.2.0/24",
        "10.1.2.0/25",
        "2001:db8::/32",
        "2001:db8:1::/48",
        "2001:db8:1::/49",
        "2001:db9::/32",
    ];
    for (range, theirs) in table {
        let set: PrefixSet = [range.parse::<PrefixRange>().unwrap()].into_iter().collect();
        let family = |text: &str| text.contains(':');
        for text in tried.iter().filter(|text| family(text) == family(range)) {
            let judged = bird.eval(&format!("{text} ~ [ {theirs} ]")) == "TRUE";
            assert_eq!(set.contains(prefix(text)), judged, "{text} in {range}");
        }
    }
}

#[test]
fn communities_match_as_in_bird() {
    let Some(mut bird) = Bird::start("communities", "") else { return };
    let table = [
        ("65000:1", "(65000,1)"),
        ("65000:*", "(65000,*)"),
        ("*:666", "(*,666)"),
        ("65000:100-199", "(65000,100..199)"),
        ("64512-65534:1", "(64512..65534,1)"),
        ("6695:1:*", "(6695,1,*)"),
        ("6695:*:*", "(6695,*,*)"),
        ("6695:1:5-9", "(6695,1,5..9)"),
        ("rt:65000:1", "(rt,65000,1)"),
        ("rt:65000:*", "(rt,65000,*)"),
        ("ro:65000:5-9", "(ro,65000,5..9)"),
    ];
    let tried = [
        ("65000:1", "(65000,1)"),
        ("65000:150", "(65000,150)"),
        ("65000:200", "(65000,200)"),
        ("1:666", "(1,666)"),
        ("64512:1", "(64512,1)"),
        ("6695:1:7", "(6695,1,7)"),
        ("6695:0:64500", "(6695,0,64500)"),
        ("6695:2:64500", "(6695,2,64500)"),
        ("rt:65000:1", "(rt,65000,1)"),
        ("rt:65001:1", "(rt,65001,1)"),
        ("ro:65000:7", "(ro,65000,7)"),
        ("ro:65000:1", "(ro,65000,1)"),
    ];
    // BIRD has a type for each kind, and does not compare one with another.
    let kind = |text: &str| (text.starts_with('r'), text.matches(':').count());
    for (pattern, theirs) in table {
        let ours: CommunityPattern = pattern.parse().unwrap();
        for (text, tuple) in tried.iter().filter(|(text, _)| kind(text) == kind(pattern)) {
            let judged = bird.eval(&format!("{tuple} ~ [ {theirs} ]")) == "TRUE";
            assert_eq!(ours.matches(text.parse().unwrap()), judged, "{text} and {pattern}");
        }
    }
}

#[test]
fn origins_are_valid_as_in_bird() {
    let payloads = [
        ("10.0.0.0/8", 16, 64_500),
        ("10.1.0.0/16", 24, 64_501),
        ("10.1.0.0/16", 16, 64_502),
        ("192.0.2.0/24", 24, 0),
        ("10.1.2.0/24", 24, 64_500),
        ("0.0.0.0/1", 1, 64_503),
    ];
    let routes: String = payloads
        .iter()
        .map(|(prefix, max_len, asn)| format!("  route {prefix} max {max_len} as {asn};\n"))
        .collect();
    let configuration =
        format!("roa4 table r4;\nprotocol static {{\n  roa4 {{ table r4; }};\n{routes}}}\n");
    let Some(mut bird) = Bird::start("origins", &configuration) else { return };
    let set =
        payloads.iter().map(|(text, max_len, asn)| Vrp::new(prefix(text), *max_len, *asn).unwrap());
    let vrps = Vrps::new(&set.collect());
    let mut seen = [0; 3];
    for text in [
        "10.0.0.0/8",
        "10.2.0.0/16",
        "10.2.0.0/17",
        "10.1.0.0/16",
        "10.1.2.0/24",
        "10.1.2.0/25",
        "192.0.2.0/24",
        "0.0.0.0/1",
        "128.0.0.0/1",
    ] {
        for origin in [64_500, 64_501, 64_502, 64_503, 64_504] {
            // The enum's order is unknown, valid, invalid.
            let is = |bird: &mut Bird, state: &str| {
                bird.eval(&format!("roa_check(r4, {text}, {origin}) = {state}")) == "TRUE"
            };
            let expected = if is(&mut bird, "ROA_VALID") {
                RpkiValidation::Valid
            } else if is(&mut bird, "ROA_INVALID") {
                RpkiValidation::Invalid
            } else {
                RpkiValidation::NotFound
            };
            assert_eq!(vrps.validate(prefix(text), Some(origin)), expected, "{text} by {origin}");
            seen[expected as usize] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}
