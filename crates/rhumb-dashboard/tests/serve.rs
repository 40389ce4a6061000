//! What browsers are answered, and what others' browsers are not.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::mpsc::channel;

use rhumb_daemon::admin::Admin;
use rhumb_dashboard::board::Told;
use rhumb_dashboard::door::FREE_TRIES;
use serde_json::{Value, json};

use crate::browser::{Answer, PATIENCE, Served, TOKEN};

#[test]
fn whoever_has_the_token_sees_and_nobody_else() {
    let served = Served::start();
    served.board.enter("a.sock");
    served.board.tell("a.sock", Told::Status(json!({"role": "rib", "name": "secret"}), 1.0), 5);
    let (cookie, key) = served.sign_in();
    let with = |headers: &[(&str, &str)]| served.ask("GET /api/state", headers, "");
    let seen = with(&[("Cookie", &cookie), ("Rhumb-Key", &key)]);
    assert_eq!(seen.status, 200, "{}", seen.body);
    assert_eq!(seen.json()["daemons"][0]["status"]["name"], "secret");
    let past = served.ask("GET /api/history", &[("Cookie", &cookie), ("Rhumb-Key", &key)], "");
    assert_eq!(past.json()["a.sock"]["moments_ms"], json!([5]));
    // Neither half of a session is worth anything alone, nor is the token.
    let (other_cookie, other_key) = served.sign_in();
    let name = cookie.split_once('=').unwrap().0.to_owned();
    let token_as_cookie = format!("{name}={TOKEN}");
    for headers in [
        vec![],
        vec![("Cookie", cookie.as_str())],
        vec![("Rhumb-Key", key.as_str())],
        vec![("Cookie", cookie.as_str()), ("Rhumb-Key", other_key.as_str())],
        vec![("Cookie", other_cookie.as_str()), ("Rhumb-Key", key.as_str())],
        vec![("Cookie", token_as_cookie.as_str()), ("Rhumb-Key", TOKEN)],
    ] {
        for line in [
            "GET /api/state",
            "GET /api/history",
            "POST /api/trace",
            "POST /api/names",
            "POST /session/end",
        ] {
            let refused = served.ask(line, &headers, "{}");
            assert_eq!(refused.status, 401, "{line} {headers:?}: {}", refused.body);
            assert!(!refused.body.contains("secret"), "{}", refused.body);
        }
    }
    let ended = served.ask("POST /session/end", &[("Cookie", &cookie), ("Rhumb-Key", &key)], "");
    assert_eq!(ended.status, 200);
    assert_eq!(with(&[("Cookie", &cookie), ("Rhumb-Key", &key)]).status, 401);
}

#[test]
fn the_cookie_is_for_no_script_and_no_other_site() {
    let served = Served::start();
    let set = served.show(TOKEN).header("set-cookie").unwrap().to_owned();
    for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/"] {
        assert!(set.contains(part), "{set}");
    }
    // Each port has a cookie of its own name, since a browser sends it to all of them.
    assert!(set.starts_with(&format!("rhumb-dashboard-{}=", served.address.port())), "{set}");
    assert!(!set.contains("Secure"), "{set}");
    let host = "board.example.org";
    let headers = [
        ("Host", host),
        ("Origin", "https://board.example.org"),
        ("Content-Type", "application/json"),
    ];
    let body = json!({ "token": TOKEN }).to_string();
    let by_tls = served.ask("POST /session", &headers, &body);
    assert!(by_tls.header("set-cookie").unwrap().ends_with("; Secure"), "{}", by_tls.head);
}

#[test]
fn wrong_tokens_are_refused_and_then_not_even_looked_at() {
    let served = Served::start();
    let (cookie, key) = served.sign_in();
    for _ in 0..FREE_TRIES as usize {
        assert_eq!(served.show("not-the-token-of-these").status, 403);
    }
    let refused = served.show(TOKEN);
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("60")));
    // Who is inside stays inside.
    let headers = [("Cookie", cookie.as_str()), ("Rhumb-Key", key.as_str())];
    assert_eq!(served.ask("GET /api/state", &headers, "").status, 200);
}

/// A name of somebody else's that points here, another site's page, and one of another port.
#[test]
fn other_peoples_pages_are_refused_whatever_they_ask() {
    let served = Served::start();
    let (cookie, key) = served.sign_in();
    let inside = [("Cookie", cookie.as_str()), ("Rhumb-Key", key.as_str())];
    let other_port = format!("http://127.0.0.1:{}", served.address.port() ^ 1);
    for foreign in [
        ("Host", "evil.example"),
        ("Host", "127.0.0.1.evil.example"),
        ("Host", "192.0.2.1"),
        ("Origin", "http://evil.example"),
        ("Origin", "null"),
        ("Origin", other_port.as_str()),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ] {
        let headers = [&inside[..], &[foreign, ("Content-Type", "application/json")]].concat();
        for line in ["GET /", "GET /app.js", "GET /api/state", "POST /session", "POST /api/trace"] {
            let body = json!({ "token": TOKEN }).to_string();
            let refused = served.ask(line, &headers, &body);
            assert_eq!(refused.status, 403, "{line} {foreign:?}: {}", refused.body);
            assert!(refused.header("access-control-allow-origin").is_none(), "{}", refused.head);
        }
        // Asking first whether it may (CORS) helps no more.
        let asks = [&headers[..], &[("Access-Control-Request-Method", "POST")]].concat();
        assert_eq!(served.ask("OPTIONS /session", &asks, "").status, 403);
    }
    let own = format!("http://{}", served.address);
    let headers = [&inside[..], &[("Origin", &own), ("Sec-Fetch-Site", "same-origin")]].concat();
    assert_eq!(served.ask("GET /api/state", &headers, "").status, 200);
    assert_eq!(served.ask("GET /", &[("Host", "board.example.org")], "").status, 200);
}

#[test]
fn every_answer_binds_the_browser() {
    let served = Served::start();
    for (line, headers, status) in [
        ("GET /", vec![], 200),
        ("GET /app.js", vec![], 200),
        ("GET /nothing", vec![], 404),
        ("GET /api/state", vec![], 401),
        ("GET /", vec![("Host", "evil.example")], 403),
        ("DELETE /", vec![], 405),
        ("GET /session", vec![], 405),
    ] {
        let answer = served.ask(line, &headers, "");
        assert_eq!(answer.status, status, "{line}");
        let policy = answer.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(part), "{line}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{line}");
        }
    }
}

#[test]
fn a_token_comes_as_json_and_short() {
    let served = Served::start();
    let post = |kind: &str, body: &str| {
        served.ask("POST /session", &[("Content-Type", kind)], body).status
    };
    let body = json!({ "token": TOKEN }).to_string();
    // What a form of another site can send without asking first.
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        assert_eq!(post(kind, &body), 415, "{kind}");
    }
    for bad in [
        "",
        "{}",
        "[]",
        "{\"token\":1}",
        "{\"token\":\"x\",\"y\":1}",
        &json!({"token": "x".repeat(201)}).to_string(),
    ] {
        assert_eq!(post("application/json", bad), 400, "{bad}");
    }
    assert_eq!(post("application/json", &json!({"token": "x".repeat(5000)}).to_string()), 413);
}

#[test]
fn heads_without_end_and_silent_connections_keep_nobody_out() {
    let served = Served::start();
    let mut long = served.connect();
    let padding = "x".repeat(64 << 10);
    let _ = long.write_all(
        format!("GET / HTTP/1.1\r\nHost: {}\r\nX: {padding}", served.address).as_bytes(),
    );
    let refused = Answer::read(long);
    assert!([0, 431].contains(&refused.status), "{}", refused.head);
    let many: String = (0..200).map(|number| format!("X-{number}: y\r\n")).collect();
    let mut stream = served.connect();
    let request = format!("GET / HTTP/1.1\r\nHost: {}\r\n{many}\r\n", served.address);
    let _ = stream.write_all(request.as_bytes());
    assert!([0, 431].contains(&Answer::read(stream).status));
    // Who says nothing makes room for whoever comes, and who is inside is not cut for him.
    let (cookie, key) = served.sign_in();
    let silent: Vec<_> = (0..300).map(|_| served.connect()).collect();
    let headers = [("Cookie", cookie.as_str()), ("Rhumb-Key", key.as_str())];
    assert_eq!(served.ask("GET /api/state", &headers, "").status, 200);
    assert_eq!(served.ask("GET /", &[], "").status, 200);
    drop(silent);
}

#[test]
fn a_way_is_traced_to_whole_names_alone() {
    let name = rhumb_wire::Name([7; 32]).to_string();
    let traced = Served::start_with(Some(Box::new(|name| {
        Box::pin(async move {
            if name == rhumb_wire::Name([7; 32]) {
                Ok(json!({ "to": name }))
            } else {
                Err("no way".to_owned())
            }
        })
    })));
    let (cookie, key) = traced.sign_in();
    let headers = [("Cookie", cookie.as_str()), ("Rhumb-Key", key.as_str())];
    let ask =
        |name: &str| traced.ask("POST /api/trace", &headers, &json!({ "name": name }).to_string());
    assert_eq!(ask(&name).json()["to"], json!(name));
    // What would be an option of the command, a label, or two words.
    for bad in ["", "bob", "--rib=x", "-h", &format!("{name} x"), &format!(" {name}"), &name[..51]]
    {
        assert_eq!(ask(bad).status, 400, "{bad}");
    }
    let away = ask(&rhumb_wire::Name([8; 32]).to_string());
    assert_eq!((away.status, away.json()["problem"].as_str()), (502, Some("no way")));
    let without = Served::start();
    let (cookie, key) = without.sign_in();
    let headers = [("Cookie", cookie.as_str()), ("Rhumb-Key", key.as_str())];
    assert_eq!(
        without.ask("POST /api/trace", &headers, &json!({ "name": name }).to_string()).status,
        404
    );
}

/// Whoever is inside says which RIB of the board, and never where a request goes.
#[test]
fn names_are_asked_of_ribs_on_the_board_alone() {
    let (folder, served) = (tempfile::tempdir().unwrap(), Served::start());
    let listen = |name: &str, answer: String| {
        let path = folder.path().join(name);
        let listener = UnixListener::bind(&path).unwrap();
        let (heard, asked) = channel();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut head = [0; 1024];
                let read = stream.read(&mut head).unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..read]).into_owned();
                let _ = heard.send(head.lines().next().unwrap_or_default().to_owned());
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        (Admin::Socket(path), asked)
    };
    let page = json!({"names": [{"name": "<b>x</b>"}], "next": null});
    let (rib, asked) = listen("rib.sock", format!("HTTP/1.1 200 OK\r\n\r\n{page}\n"));
    let (router, unasked) = listen("router.sock", "HTTP/1.1 200 OK\r\n\r\n{}".to_owned());
    let (stranger, unheard) = listen("stranger.sock", "HTTP/1.1 200 OK\r\n\r\n{}".to_owned());
    let refuses =
        "HTTP/1.1 403 Forbidden\r\n\r\nnames are listed by a Unix socket only\n".to_owned();
    let (open, _heard) = listen("open.sock", refuses);
    for (admin, role) in [(&rib, "rib"), (&router, "router"), (&open, "rib")] {
        assert!(served.board.enter_at(admin));
        served.board.tell(&admin.to_string(), Told::Status(json!({ "role": role }), 1.0), 5);
    }
    let (cookie, key) = served.sign_in();
    let headers = [("Cookie", cookie.as_str()), ("Rhumb-Key", key.as_str())];
    let ask = |body: &Value| served.ask("POST /api/names", &headers, &body.to_string());
    let after = rhumb_wire::Name([8; 32]).to_string();
    let at = rib.to_string();
    assert_eq!(ask(&json!({"place": at, "begins": "ab", "after": after})).json(), page);
    let wanted = format!("GET /names?limit=25&begins=ab&after={after} HTTP/1.1");
    assert_eq!(asked.recv_timeout(PATIENCE).unwrap(), wanted);
    assert_eq!(ask(&json!({ "place": at })).status, 200);
    assert_eq!(asked.recv_timeout(PATIENCE).unwrap(), "GET /names?limit=25 HTTP/1.1");
    // What is no name goes nowhere, nor does a place that is no RIB's of the board.
    for (body, status) in [
        (json!({"place": at, "begins": "ab HTTP/1.1\r\nX: y"}), 400),
        (json!({"place": at, "begins": "ab&limit=9"}), 400),
        (json!({"place": at, "after": "ab"}), 400),
        (json!({"place": at, "limit": 5}), 400),
        (json!({"begins": "ab"}), 400),
        (json!({ "place": router.to_string() }), 404),
        (json!({ "place": stranger.to_string() }), 404),
        (json!({"place": "127.0.0.1:1"}), 404),
    ] {
        assert_eq!(ask(&body).status, status, "{body}");
    }
    assert!(asked.try_recv().is_err() && unasked.try_recv().is_err());
    assert!(unheard.try_recv().is_err());
    let refused = ask(&json!({ "place": open.to_string() }));
    assert_eq!(refused.status, 502);
    assert_eq!(refused.json()["problem"], "names are listed by a Unix socket only");
    assert_eq!(served.ask("POST /api/names", &[], &json!({ "place": at }).to_string()).status, 401);
}

/// What peers call themselves stays text in JSON: the page makes text of it.
#[test]
fn what_peers_call_themselves_reaches_the_page_as_it_is() {
    let served = Served::start();
    let claim = "<img src=x onerror=alert(1)>\u{202e}\"</script>";
    served.board.enter("a");
    let status = json!({"role": "router", "sessions": [{"peer": "x", "calls_itself": claim}]});
    served.board.tell("a", Told::Status(status, 1.0), 5);
    let (cookie, key) = served.sign_in();
    let answer = served.ask("GET /api/state", &[("Cookie", &cookie), ("Rhumb-Key", &key)], "");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let state = answer.json();
    assert_eq!(state["daemons"][0]["status"]["sessions"][0]["calls_itself"], claim);
}
