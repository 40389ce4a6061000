//! Programs that know nothing of names reach them through `rhumb proxy`, and by datagrams, as
//! `docs/ports.md` says: curl by each kind of proxy, and UDP by SOCKS and by `--udp`.
#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Place, Running};
use crate::network::Network;

/// A program that answers each TCP connection with what it was asked, as a web server would.
pub(crate) fn echoing_web_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut tcp in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut asked = Vec::new();
                let mut part = [0; 1024];
                while !asked.windows(4).any(|end| end == b"\r\n\r\n") {
                    match tcp.read(&mut part) {
                        Ok(len @ 1..) => asked.extend_from_slice(&part[..len]),
                        _ => return,
                    }
                }
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", asked.len());
                let _ = tcp.write_all(head.as_bytes()).and_then(|()| tcp.write_all(&asked));
            });
        }
    });
    address
}

/// A program that sends datagrams back, with a word before each.
pub(crate) fn echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&[b"echo ", &buffer[..len]].concat(), from);
        }
    });
    address
}

pub(crate) fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    socket
}

/// Sends until that is the answer: datagrams may get lost, and be late.
pub(crate) fn answers(socket: &UdpSocket, to: SocketAddr, what: &[u8], expected: &[u8]) {
    let mut buffer = [0; 2048];
    for _ in 0..20 {
        socket.send_to(what, to).unwrap();
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            assert_eq!(from, to);
            if buffer[..len] == *expected {
                return;
            }
        }
    }
    panic!("no such answer to twenty datagrams");
}

/// What is there, and comes within half a second.
fn received(socket: &UdpSocket) -> Vec<Vec<u8>> {
    let mut buffer = [0; 2048];
    std::iter::from_fn(|| socket.recv(&mut buffer).ok().map(|len| buffer[..len].to_vec())).collect()
}

fn served(place: &Place, router: &str, to: SocketAddr, more: &[&str]) -> (Running, String) {
    let client = place.keygen("node", "client.key");
    let name = place.keygen("node", "server.key");
    let to = to.to_string();
    let node = ["--key", "server.key", "--router", router, "--to", &to, "--allow", &client];
    let mut server = place.start(&[&["serve", "80"], &node[..], more].concat());
    assert_eq!(server.next_object()["ready"], json!(true));
    (server, name)
}

fn proxied(place: &Place, router: &str) -> (Running, Value) {
    let arguments = ["proxy", "127.0.0.1:0", "--key", "client.key", "--router", router];
    let mut proxy = place.start(&arguments);
    let ready = proxy.next_object();
    assert_eq!(ready["suffix"], json!(".rhumb.internal"));
    (proxy, ready)
}

pub(crate) fn curl(arguments: &[&str]) -> Output {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "30"]).args(arguments);
    command.stdin(Stdio::null()).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn curl_reaches_a_name_by_each_kind_of_proxy() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let (_server, name) = served(&place, &router, echoing_web_server(), &[]);
    let (_proxy, ready) = proxied(&place, &router);
    let local = ready["local"].as_str().unwrap();
    let socks = format!("socks5h://{local}");
    let http = format!("http://{local}");
    // By its name in full, by its label in the local book, whatever the case.
    let hosts = [name.clone(), name.to_uppercase(), "server".to_owned(), "SERVER".to_owned()];
    for host in hosts.map(|it| format!("{it}.rhumb.internal")) {
        let url = format!("http://{host}/path?x=1");
        for proxy in [&["--proxy", &socks][..], &["--proxy", &http, "--proxytunnel"]] {
            let output = curl(&[proxy, &["-H", "X-Mine: 1", &url]].concat());
            let echoed = text(&output.stdout);
            assert!(echoed.starts_with("GET /path?x=1 HTTP/1.1\r\n"), "{output:?}");
            assert!(echoed.contains("X-Mine: 1\r\n"), "{echoed}");
        }
        let output = curl(&["--proxy", &http, "-H", "X-Mine: 1", &url]);
        let echoed = text(&output.stdout);
        assert!(echoed.starts_with("GET /path?x=1 HTTP/1.1\r\n"), "{output:?}");
        assert!(echoed.contains("Connection: close\r\n"), "one request a connection: {echoed}");
        assert!(!echoed.contains("Proxy-Connection"), "{echoed}");
    }
    // What a browser is configured with.
    let output = curl(&[&format!("{http}/proxy.pac")]);
    let script = text(&output.stdout);
    assert!(script.contains(&format!("SOCKS5 {local}")) && script.contains("DIRECT"), "{script}");
}

#[test]
fn a_browser_opens_a_name() {
    if Command::new("chromium").arg("--version").output().is_err() {
        println!("skipped: it needs chromium");
        return;
    }
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let (_server, _) = served(&place, &router, echoing_web_server(), &[]);
    let (_proxy, ready) = proxied(&place, &router);
    let configuration = format!("http://{}/proxy.pac", ready["local"].as_str().unwrap());
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .arg(format!("--user-data-dir={}", place.path("browser").display()))
        .arg(format!("--proxy-pac-url={configuration}"))
        .args(["--timeout=30000", "--dump-dom", "http://server.rhumb.internal/opened"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let page = text(&output.stdout);
    assert!(page.contains("GET /opened HTTP/1.1"), "{page}{}", text(&output.stderr));
    assert!(page.contains("Host: server.rhumb.internal"), "{page}");
}

#[test]
fn what_a_proxy_does_not_lead_to_is_said() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let (mut server, name) = served(&place, &router, echoing_web_server(), &[]);
    let (mut proxy, ready) = proxied(&place, &router);
    let local = ready["local"].as_str().unwrap();
    let http = format!("http://{local}");
    let nobody = place.keygen("node", "nobody.key");
    let cases = [
        ("http://example.org/".to_owned(), "403", "is no name"),
        ("http://192.0.2.1/".to_owned(), "403", "is no name"),
        ("http://unheard-of.rhumb.internal/".to_owned(), "403", "nothing is called so"),
        (format!("http://{nobody}.rhumb.internal/"), "502", "no way to"),
        (format!("http://{name}.rhumb.internal:81/"), "502", "nothing is served on that port"),
    ];
    for (url, status, why) in cases {
        let output = curl(&["--proxy", &http, "--write-out", "%{http_code}", &url]);
        let said = text(&output.stdout);
        assert!(said.contains(why) && said.ends_with(status), "{url}: {said}");
        let refused = proxy.next_object();
        assert!(refused["reason"].as_str().unwrap().contains(why), "{refused}");
        // The same by SOCKS, in its own words, before the program believes that it is connected.
        let output = curl(&["--proxy", &format!("socks5h://{local}"), &url]);
        assert_eq!(output.status.code(), Some(97), "{url}: {output:?}");
        proxy.next_object();
    }
    // A page of somebody else's that has a browser ask the proxy itself gets nothing of it.
    let output = curl(&["--write-out", "%{http_code}", &format!("{http}/anything")]);
    assert!(text(&output.stdout).ends_with("400"), "{output:?}");
    // What is neither protocol, and what never ends, costs a connection and no more.
    let mut tcp = TcpStream::connect(local).unwrap();
    tcp.write_all(&[5, 0]).unwrap();
    let mut answered = Vec::new();
    tcp.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    tcp.read_to_end(&mut answered).unwrap();
    assert_eq!(answered, [5, 0xff]);
    // Somebody whom the server does not know.
    drop(proxy);
    let mut stranger = place.start(&["proxy", "127.0.0.1:0", "--router", &router]);
    let ready = stranger.next_object();
    let http = format!("http://{}", ready["local"].as_str().unwrap());
    let output = curl(&["--proxy", &http, &format!("http://{name}.rhumb.internal/")]);
    assert!(text(&output.stdout).contains("takes no connections from this name"), "{output:?}");
    assert!(server.next_object()["refused"].is_string());
    assert_eq!(stranger.end().0, 0);
}

#[test]
fn datagrams_of_programs_go_to_a_name_and_back() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let (mut server, name) = served(&place, &router, echo(), &["--udp"]);
    let service = format!("{name}:80");
    let node = ["--key", "client.key", "--router", &router];
    let forward = ["forward", "127.0.0.1:0", &service, "--udp"];
    let mut forwarder = place.start(&[&forward[..], &node].concat());
    let ready = forwarder.next_object();
    let local: SocketAddr = ready["local"].as_str().unwrap().parse().unwrap();
    // Two programs at once, each of which gets its own answers.
    let (first, second) = (socket(), socket());
    for n in 0..20u8 {
        answers(&first, local, &[b'a', n], &[&b"echo a"[..], &[n]].concat());
        answers(&second, local, &[b'b', n], &[&b"echo b"[..], &[n]].concat());
    }
    answers(&first, local, &[7; 1095], &[&b"echo "[..], &[7; 1095]].concat());
    assert!(server.next_object()["connected"].is_string());
    assert!(server.next_object()["connected"].is_string());
    // A longer one than any path carries is dropped, and nothing else suffers.
    first.send_to(&[7; 3000], local).unwrap();
    answers(&first, local, b"again", b"echo again");
    let to_second = received(&second);
    assert!(to_second.iter().all(|it| it.starts_with(b"echo b")), "{to_second:?}");
    assert_eq!(forwarder.end().0, 0);
    // The same port of streams is another one.
    let mut tcp = place.start(&[&["forward", "127.0.0.1:0", &service], &node[..]].concat());
    let ready = tcp.next_object();
    let url = format!("http://{}/", ready["local"].as_str().unwrap());
    assert!(!curl(&[&url]).status.success());
    assert!(tcp.next_object()["reason"].is_string());
    assert_eq!(server.end().0, 0);
}

#[test]
fn datagrams_go_by_socks_for_as_long_as_it_is_asked() {
    let place = Place::new();
    let network = Network::start(&place);
    let router = network.router();
    let (_server, _) = served(&place, &router, echo(), &["--udp"]);
    let (mut proxy, ready) = proxied(&place, &router);
    // RFC 1928, sections 3, 4 and 7, by hand.
    let mut tcp = TcpStream::connect(ready["local"].as_str().unwrap()).unwrap();
    tcp.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    let mut answer = [0; 12];
    tcp.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..10], [5, 0, 5, 0, 0, 1, 127, 0, 0, 1]);
    let relay = SocketAddr::from(([127, 0, 0, 1], u16::from_be_bytes([answer[10], answer[11]])));
    let head = |host: &str| [&[0, 0, 0, 3, host.len() as u8], host.as_bytes(), &[0, 80]].concat();
    let ours = socket();
    let by_name = head("server.rhumb.internal");
    for n in 0..5u8 {
        // It says who answered.
        let expected = [&by_name[..], b"echo ", &[n]].concat();
        answers(&ours, relay, &[&by_name[..], &[n]].concat(), &expected);
    }
    // Another program that finds the port, a fragment, and a host that is no name.
    let other = socket();
    other.send_to(&[&by_name[..], b"stolen"].concat(), relay).unwrap();
    let mut fragment = [&by_name[..], b"a part"].concat();
    fragment[2] = 1;
    ours.send_to(&fragment, relay).unwrap();
    ours.send_to(&[&head("example.org")[..], b"outside"].concat(), relay).unwrap();
    assert!(proxy.next_object()["reason"].as_str().unwrap().contains("is no name"));
    let to_ours = received(&ours);
    assert!(
        to_ours.iter().all(|it| it.len() == by_name.len() + 6),
        "answers of before: {to_ours:?}"
    );
    assert!(received(&other).is_empty());
    // It ends with the connection that asked for it.
    drop(tcp);
    std::thread::sleep(Duration::from_millis(300));
    let _ = ours.send_to(&[&by_name[..], b"late"].concat(), relay);
    assert!(received(&ours).is_empty());
}
