//! The load for zenoh: a publisher in the client's namespace and a subscriber
//! in the server's, each a client of one router.
//!
//! `zenoh-load subscribe CONFIG SOCKET` connects to the publisher's socket, over which it tells
//! what arrives; `zenoh-load publish CONFIG SOCKET` prints `ready` and then answers each line
//! `PAYLOAD WINDOW PER_SECOND MILLISECONDS` (of window and rate, one is 0) with `SENT ARRIVED WALL
//! P50 P99`, times in nanoseconds. The pace is that of the bench's load for datagrams.

use std::error::Error;
use std::io::{BufRead, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use zenoh::qos::CongestionControl;
use zenoh::{Config, Wait};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["publish", config, socket] => publish(config, socket),
        ["subscribe", config, socket] => subscribe(config, socket),
        _ => Err("usage: zenoh-load publish|subscribe CONFIG SOCKET".into()),
    }
}

/// Tells the publisher how long each message took: 8 bytes of nanoseconds each.
fn subscribe(config: &str, socket: &str) -> Outcome {
    let stream = UnixStream::connect(socket)?;
    let session = zenoh::open(Config::from_file(config)?).wait()?;
    let told = Arc::new(Mutex::new((stream, Vec::new())));
    let tell = |(stream, waiting): &mut (UnixStream, Vec<u8>)| {
        let outcome = stream.write_all(waiting);
        waiting.clear();
        outcome
    };
    let heard = told.clone();
    let _subscriber = session
        .declare_subscriber(KEY)
        .callback(move |sample| {
            let now = unix_ns();
            let payload = sample.payload().to_bytes();
            let stamp = payload.first_chunk().map_or(now, |bytes| u64::from_le_bytes(*bytes));
            let mut told = heard.lock().expect("nobody panics with it");
            told.1.extend_from_slice(&now.saturating_sub(stamp).to_le_bytes());
            if told.1.len() >= TELL_AT * 8 && tell(&mut told).is_err() {
                std::process::exit(0);
            }
        })
        .wait()?;
    loop {
        std::thread::sleep(TELL_AFTER);
        let mut told = told.lock().expect("nobody panics with it");
        if !told.1.is_empty() {
            tell(&mut told)?;
        }
    }
}

/// What has arrived in this slice.
#[derive(Default)]
struct Arrivals {
    took: Vec<u64>,
    last: Option<Instant>,
}

fn publish(config: &str, socket: &str) -> Outcome {
    let listener = UnixListener::bind(socket)?;
    let session = zenoh::open(Config::from_file(config)?).wait()?;
    // Blocking, as a sender that must not lose: what the router cannot take yet waits here.
    let publisher =
        session.declare_publisher(KEY).congestion_control(CongestionControl::Block).wait()?;
    println!("ready");
    let (stream, _) = listener.accept()?;
    let arrivals = Arc::new(Mutex::new(Arrivals::default()));
    let (listening, publisher_thread) = (arrivals.clone(), std::thread::current());
    std::thread::spawn(move || listen(stream, &listening, &publisher_thread));
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let fields: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [payload, window, per_s, time_ms] = fields[..] else { return Err(line.into()) };
        let time = Duration::from_millis(time_ms);
        let (sent, wall) = slice(payload as usize, (window, per_s), time, &arrivals, |data| {
            publisher.put(data).wait()
        })?;
        let mut took = std::mem::take(&mut arrivals.lock().expect("nobody panics with it").took);
        took.sort_unstable();
        let last = took.len().saturating_sub(1);
        let [p50, p99] = [50, 99].map(|percent| took.get(last * percent / 100).unwrap_or(&0));
        println!("{sent} {} {} {p50} {p99}", took.len(), wall.as_nanos());
    }
    Ok(())
}

/// Publishes for that `time` and waits for what is under way. How many
/// were sent, and the time to the last arrival.
fn slice(
    payload: usize,
    (window, per_s): (u64, u64),
    time: Duration,
    arrivals: &Mutex<Arrivals>,
    put: impl Fn(Vec<u8>) -> Outcome,
) -> Outcome<(u64, Duration)> {
    *arrivals.lock().expect("nobody panics with it") = Arrivals::default();
    let (begin, mut sent) = (Instant::now(), 0);
    let mut patient_since = (0, begin);
    loop {
        let (arrived, last) = {
            let arrivals = arrivals.lock().expect("nobody panics with it");
            (arrivals.took.len() as u64, arrivals.last)
        };
        let is_over = begin.elapsed() >= time;
        if arrived > patient_since.0 {
            patient_since = (arrived, Instant::now());
        }
        if is_over && (arrived >= sent || patient_since.1.elapsed() > PATIENCE) {
            return Ok((sent, last.map_or(time, |last| last - begin)));
        }
        let due = match per_s {
            _ if is_over => 0,
            0 => window.saturating_sub(sent - arrived.min(sent)),
            _ => ((begin.elapsed().as_secs_f64() * per_s as f64) as u64 + 1).saturating_sub(sent),
        };
        for _ in 0..due.min(BATCH) {
            let mut data = vec![0x5A; payload];
            data[..8].copy_from_slice(&unix_ns().to_le_bytes());
            put(data)?;
            sent += 1;
        }
        if due == 0 {
            let next = match per_s {
                0 => None,
                _ => Some(Duration::from_secs_f64(sent as f64 / per_s as f64)),
            };
            let wait = next.filter(|_| !is_over).map_or(WAIT, |at| at.saturating_sub(begin.elapsed()));
            std::thread::park_timeout(wait.min(WAIT));
        }
    }
}

/// Takes what the subscriber tells.
fn listen(mut stream: UnixStream, arrivals: &Mutex<Arrivals>, publisher: &Thread) {
    let mut bytes = vec![0; 1 << 16];
    let mut held = 0;
    while let Ok(len) = stream.read(&mut bytes[held..]) {
        if len == 0 {
            break;
        }
        held += len;
        let whole = held - held % 8;
        let mut arrivals = arrivals.lock().expect("nobody panics with it");
        let took = bytes[..whole].chunks_exact(8).filter_map(|chunk| chunk.try_into().ok());
        arrivals.took.extend(took.map(u64::from_le_bytes));
        arrivals.last = Some(Instant::now());
        drop(arrivals);
        bytes.copy_within(whole..held, 0);
        held -= whole;
        publisher.unpark();
    }
}

/// One clock for both processes.
fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

const KEY: &str = "rhumb/bench";
/// Messages between two looks at what has arrived, as in the load for datagrams.
const BATCH: u64 = 64;
/// Arrivals told at once, at most.
const TELL_AT: usize = 16;
/// The longest that an arrival is not told.
const TELL_AFTER: Duration = Duration::from_millis(1);
const WAIT: Duration = Duration::from_millis(10);
/// After this long without an arrival, what is under way is lost.
const PATIENCE: Duration = Duration::from_secs(2);
