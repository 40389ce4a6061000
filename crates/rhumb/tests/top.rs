//! `rhumb top` in real terminals, of real daemons: what it shows, what keys do, and what is left
//! when it ends.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Place, Run, Running, remote};
use crate::terminal::Terminal;

/// The view's own hold on its terminal.
#[allow(dead_code)] // Nobody suspends it here.
#[path = "../src/commands/top/stage.rs"]
mod stage;

/// A RIB, a router, a receiver, and somebody who talks to it.
struct Daemons {
    router: Running,
    to_router: String,
    _others: [Running; 3],
}

impl Daemons {
    fn start(place: &Place) -> Self {
        let any = "127.0.0.1:0";
        place.keygen("rib", "rib.key");
        place.keygen("router", "router.key");
        place.keygen("node", "bob.key");
        place.keygen("node", "alice.key");
        let mut rib = place.start(&["rib", "--listen", any, "--key", "rib.key", "--admin"]);
        let to_rib = remote(&rib.next_object());
        let mut router = place.start(&[
            "router",
            "--listen",
            any,
            "--key",
            "router.key",
            "--rib",
            &to_rib,
            "--admin",
        ]);
        let to_router = remote(&router.next_object());
        let mut bob = place.start(&[
            "receive", "--key", "bob.key", "--router", &to_router, "--dir", "in", "--admin",
        ]);
        bob.next_object();
        let talk = format!(
            "while \"$RHUMB\" ping bob --key alice.key --router {to_router} -c 200; do :; done"
        );
        let mut command = Command::new("sh");
        let as_here = place.command(&["-c", &talk]);
        command.args(as_here.get_args()).current_dir(place.folder());
        command.envs(as_here.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.env("RHUMB", env!("CARGO_BIN_EXE_rhumb"));
        let alice = Running::spawn(command);
        Self { router, to_router, _others: [rib, bob, alice] }
    }
}

fn batch(place: &Place, arguments: &[&str]) -> Run {
    let mut command = place.command(&["top", "--interval"]);
    Run::of(command.args(arguments).output().unwrap())
}

/// The lines of a table that are about a daemon.
fn lines_of<'a>(text: &'a str, what: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.starts_with(what)).collect()
}

#[test]
fn the_view_shows_daemons_in_terminals_of_all_sizes_and_leaves_no_trace() {
    let place = Place::new();
    std::fs::create_dir(place.path("in")).unwrap();
    let daemons = Daemons::start(&place);
    let line = "stty -a > before; \"$RHUMB\" top --interval 0.5; echo it has ended with $?; \
                stty -a > after; sleep 60";
    let Some(terminal) = Terminal::open(&place, 100, 30, line) else { return };
    let text = terminal.wait_for("rate of the router", |text| {
        let router = lines_of(text, "router");
        let forwards = |line: &&str| line.contains("PDU/s") && !line.contains(" 0 PDU/s");
        text.contains("rhumb top  3 daemons") && router.iter().any(forwards)
    });
    assert_eq!(lines_of(&text, "rib").len(), 1, "{text}");
    assert!(lines_of(&text, "node")[0].contains("bob"), "{text}");
    look_at_screens(&terminal);
    if let Some(folder) = std::env::var_os("RHUMB_PICTURES") {
        take_pictures(&place, &daemons, &terminal, Path::new(&folder));
    }

    terminal.press(&["1"]);
    terminal.resize(80, 24);
    terminal.wait_for("80 columns", |text| text.lines().count() == 24 && text.contains("DROP/S"));
    terminal.resize(30, 8);
    terminal.wait_for_words("This terminal is 30x8");
    terminal.resize(100, 30);
    terminal.wait_for_words("BIT/S");

    daemons.router.kill();
    let text = terminal.wait_for_words("it has ended");
    assert!(lines_of(&text, "router")[0].contains("says nothing for"), "{text}");

    terminal.press(&["q"]);
    let text = terminal.wait_for_words("it has ended with 0");
    // The shell's own screen is back, and so are its modes.
    assert!(!text.contains("rhumb top"), "{text}");
    terminal.wait_for("modes", |_| place.path("after").exists());
    let modes = |file| std::fs::read_to_string(place.path(file)).unwrap();
    assert_eq!(modes("before"), modes("after"));
}

/// No key and no daemon makes the view panic, so this test does, with the view's own hold on the
/// terminal: it is the program in the terminal, too, when it is told so.
#[test]
fn a_panic_gives_the_terminal_back_before_it_is_told() {
    if std::env::var_os(PANICS).is_some() {
        let mut stage = stage::Stage::take().unwrap();
        stage.draw(&mut rhumb_top::Top::new(rhumb_top::Labels::none(), 500, true)).unwrap();
        let _ = std::io::stdin().read(&mut [0; 1]);
        panic!("nobody thought of this");
    }
    let place = Place::new();
    let this = std::env::current_exe().unwrap();
    let name = "top::a_panic_gives_the_terminal_back_before_it_is_told";
    let line = format!(
        "echo what was there before; stty -a > before; {PANICS}=1 RUST_BACKTRACE=0 '{}' --exact \
         {name} --nocapture; echo it has ended with $?; stty -a > after; touch over; sleep 60",
        this.display()
    );
    let Some(terminal) = Terminal::open(&place, 100, 30, &line) else { return };
    let shown = terminal.wait_for_words("rhumb top");
    assert!(!shown.contains("what was there before"), "{shown}");
    assert_eq!((terminal.is_on_another_screen(), terminal.has_cursor()), (true, false));
    terminal.press(&["x"]);
    let text = terminal.wait_for_words("it has ended with 101");
    // What it says stands on the shell's own screen, line by line, below what was there.
    assert!(text.starts_with("what was there before\n"), "{text}");
    assert!(text.lines().any(|line| line == "nobody thought of this"), "{text}");
    assert!(!text.contains("rhumb top"), "{text}");
    terminal.wait_for("modes", |_| place.path("over").exists());
    assert_eq!((terminal.is_on_another_screen(), terminal.has_cursor()), (false, true));
    let modes = |file| std::fs::read_to_string(place.path(file)).unwrap();
    assert_eq!(modes("before"), modes("after"));
}

/// Each screen has what it is for.
fn look_at_screens(terminal: &Terminal) {
    for (key, title, expected) in [
        ("2", "TRIP", " ms "),
        ("3", "BY WAY OF", "bob"),
        ("4", "MEANS", "datagrams"),
        ("5", "lease", "own statement"),
        ("6", "PER S", "stored names"),
        ("7", "WHAT TO DO", ""),
    ] {
        terminal.press(&[key]);
        let has = |text: &str| {
            let is_empty = key == "7" && text.contains("Nothing to warn of.");
            is_empty || (text.contains(title) && text.contains(expected))
        };
        let text = terminal.wait_for(title, has);
        assert!(text.contains("q leave"), "{text}");
    }
    terminal.press(&["2", "/", "b", "o", "b", "Enter"]);
    terminal.wait_for_words("/bob 1/");
    terminal.press(&["Enter"]);
    let details = terminal.wait_for_words("more  Esc back");
    assert!(details.contains("(router)") || details.contains("(bob)"), "{details}");
    terminal.press(&["Escape"]);
    terminal.wait_for_words("TRIP");
    terminal.press(&["Escape"]);
    terminal.wait_for("all rows", |text| !text.contains("/bob"));
    terminal.press(&["?"]);
    let help = terminal.wait_for_words("the other way round");
    assert!(help.contains("hold still, and go on"), "{help}");
    terminal.press(&["Escape", "1"]);
    terminal.wait_for_words("DOES");
}

/// Two screens while a file goes from one name to another, and somebody asks for a name that is
/// nowhere.
fn take_pictures(place: &Place, daemons: &Daemons, terminal: &Terminal, folder: &Path) {
    terminal.resize(100, 14);
    let file = std::fs::File::create(place.path("file")).unwrap();
    file.set_len(400 << 20).unwrap();
    place.keygen("node", "carol.key");
    let to = daemons.to_router.as_str();
    let _file = place.start(&["send", "file", "--to", "bob", "--key", "carol.key", "--router", to]);
    let nowhere = place.keygen("node", "nowhere.key");
    place.keygen("node", "dave.key");
    let _asks = place.start(&["ping", &nowhere, "--key", "dave.key", "--router", to, "-c", "60"]);
    let sends = |text: &str| {
        lines_of(text, "router").iter().any(|it| it.contains("M  ")) && !text.contains("  0s  ")
    };
    terminal.wait_for("file that goes", sends);
    // By then all three have seen it for a whole look.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    keep_picture(folder, "top", &terminal.coloured());
    terminal.press(&["4"]);
    terminal.wait_for("drops at the router", |text| {
        text.contains("MEANS") && lines_of(text, "router").len() > 2
    });
    keep_picture(folder, "top-drops", &terminal.coloured());
    terminal.press(&["1"]);
}

/// As `cargo xtask pictures` reads it: a recording of one moment.
fn keep_picture(folder: &Path, name: &str, shown: &str) {
    let lines = shown.trim_end().lines().collect::<Vec<_>>().join("\r\n");
    let header = json!({"version": 2, "width": 100, "height": 14, "title": TITLE});
    let text = format!("{header}\n{}\n", json!([0.0, "o", lines]));
    std::fs::write(folder.join(format!("{name}.cast")), text).unwrap();
}

#[test]
fn the_picture_in_the_documents_is_of_this_view() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures/top.cast");
    let text = std::fs::read_to_string(file).unwrap();
    let frame: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    let mut plain = String::new();
    let mut is_escape = false;
    for letter in frame[2].as_str().unwrap().chars() {
        match (letter, is_escape) {
            ('\u{1b}', _) => is_escape = true,
            ('m', true) => is_escape = false,
            (_, true) => {}
            (letter, false) => plain.push(letter),
        }
    }
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let mut rib = place.start(&["rib", "--listen", "127.0.0.1:0", "--key", "rib.key", "--admin"]);
    rib.next_object();
    let now = batch(&place, &["0.5", "--count", "1"]).output;
    let titles = |text: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with("WHAT ")).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(titles(&plain), titles(&now), "{plain}\n{now}");
    assert!(plain.contains("1 Overview  2 Sessions  3 Flows"), "{plain}");
}

#[test]
fn however_it_is_told_to_end_or_to_stop_the_terminal_is_given_back() {
    let place = Place::new();
    let line = "stty -a > before; sh -c 'echo $$ > pid; exec \"$RHUMB\" top'; stty -a > after; \
                echo the shell goes on; sleep 60";
    let Some(terminal) = Terminal::open(&place, 80, 24, line) else { return };
    terminal.wait_for_words("No daemon of this user answers");
    let pid = std::fs::read_to_string(place.path("pid")).unwrap().trim().to_owned();
    let signal = |name: &str| {
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    };
    for stop in ["TSTP", "^Z"] {
        match stop {
            "^Z" => terminal.press(&["C-z"]),
            name => signal(name),
        }
        terminal.wait_for("the shell's screen", |text| !text.contains("rhumb top"));
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        assert!(state.contains(") T "), "{state}");
        signal("CONT");
        terminal.wait_for_words("rhumb top");
    }
    signal("TERM");
    let text = terminal.wait_for_words("the shell goes on");
    assert!(!text.contains("rhumb top"), "{text}");
    let modes = |file| std::fs::read_to_string(place.path(file)).unwrap();
    assert_eq!(modes("before"), modes("after"));
}

#[test]
fn where_there_is_no_terminal_or_a_dumb_one_plain_tables_are_printed() {
    let place = Place::new();
    place.keygen("rib", "rib.key");
    let mut rib = place.start(&["rib", "--listen", "127.0.0.1:0", "--key", "rib.key", "--admin"]);
    let socket = rib.next_object()["admin"].as_str().unwrap().to_owned();
    let run = batch(&place, &["0.5", "--count", "2"]);
    assert_eq!(run.code, 0, "{}", run.errors);
    assert_eq!(run.output.matches("Overview, 1 daemon\n").count(), 2, "{}", run.output);
    // From the first table on there are rates.
    assert!(lines_of(&run.output, "rib")[0].contains("0 look-ups/s"), "{}", run.output);
    assert!(!run.output.contains('\u{1b}'), "{:?}", run.output);
    let run =
        batch(&place, &["0.5", "--json", "--count", "1", "--screen", "work", "--admin", &socket]);
    let object: Value = serde_json::from_str(&run.output).unwrap();
    assert_eq!(object["screen"], "work");
    assert!(object["rows"].as_array().unwrap().iter().all(|row| row["is"].is_number()), "{object}");
    let line = "TERM=dumb \"$RHUMB\" top --interval 0.5";
    if let Some(terminal) = Terminal::open(&place, 80, 24, line) {
        terminal.wait_for("tables", |text| text.matches("Overview, 1 daemon").count() >= 2);
        // A plain program, which Ctrl-C ends.
        terminal.press(&["C-c"]);
        terminal.wait_for_end();
    }
    // Whoever reads may have seen enough.
    let mut command = place.command(&["top", "--batch", "--interval", "0.2"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_wrong_option_is_answered_with_what_to_give() {
    let place = Place::new();
    place.run(&["top", "--interval", "0"]).refused_by_the_command_line("0.2 to 3600");
    place.run(&["top", "--count", "0"]).refused_by_the_command_line("0");
    place.run(&["top", "--screen", "sky"]).refused_by_the_command_line("overview");
    place.run(&["top", "--admin", "here"]).refused_by_the_command_line("a path with a `/`");
    place
        .run(&["top", "--batch", "--admin", "socket"])
        .is_refused_with(&["no daemon of this user"]);
}

/// Somebody at a socket of the usual place who answers each question so, or not at all.
fn answer(place: &Place, name: &str, with: impl Fn(&mut dyn Write) + Send + 'static) {
    let folder = place.path("rhumb");
    let _ = std::fs::create_dir(&folder);
    let listener = UnixListener::bind(folder.join(name)).unwrap();
    // It ends with the test.
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 1024]);
            with(&mut stream);
        }
    });
}

fn status(stream: &mut dyn Write, body: &Value) {
    let body = body.to_string();
    let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
}

#[test]
fn daemons_that_hang_drip_or_never_end_their_answer_hold_up_no_other() {
    let place = Place::new();
    answer(&place, "well.sock", |stream| {
        status(stream, &json!({"role": "rib", "name": "well", "uptime_s": 9}));
    });
    answer(&place, "drips.sock", |stream| {
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    });
    // It has a place where nobody takes calls, and a full queue.
    let folder = place.path("rhumb");
    let silent = UnixListener::bind(folder.join("hangs.sock")).unwrap();
    let run = batch(&place, &["1", "--count", "6"]);
    let tables: Vec<&str> = run.output.split("Overview, ").skip(1).collect();
    assert_eq!(tables.len(), 6, "{}", run.output);
    assert!(tables.iter().all(|it| lines_of(it, "rib").len() == 1), "{}", run.output);
    let last = tables[5];
    assert!(last.starts_with("3 daemons"), "{last}");
    assert_eq!(last.matches("it does not answer in time").count(), 2, "{last}");
    drop(silent);
}

#[test]
fn a_daemon_that_lies_does_nothing_to_the_terminal() {
    let place = Place::new();
    let attack = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[31mred\u{9b}5n\r\n\u{202e}";
    answer(&place, "liar.sock", move |stream| {
        let session = json!({
            "peer": attack, "calls_itself": attack, "address": attack, "role": attack,
            "transport": attack, "age_s": 1, "largest_datagram": 1,
        });
        let lie = json!({
            "role": "router", "name": attack, "uptime_s": 1, "clock": attack, "version": attack,
            "sessions": [session], "dropped_pdus": {attack: 5}, "counters": {attack: 5},
        });
        status(stream, &lie);
    });
    let Some(terminal) = Terminal::open(&place, 120, 30, "\"$RHUMB\" top --interval 0.5") else {
        return;
    };
    terminal.wait_for_words("\\u{1b}]0;owned");
    for keys in [&["2"][..], &["Enter"], &["Escape", "4"], &["6"], &["7"], &["1", "Enter"]] {
        terminal.press(keys);
        // It is drawn at the next look at the latest.
        let text = terminal.wait_for("lie", |text| text.contains("\\u{1b}"));
        assert!(text.contains("rhumb top  1 daemon"), "{text}");
    }
    assert_ne!(terminal.title().trim(), "owned");
}

const TITLE: &str = "rhumb top: daemons with their rates, drops and warnings, one in a row";
/// Says to the test of a panic that it is the program that panics.
const PANICS: &str = "RHUMB_TOP_PANICS";
