//! What browsers are answered.
//!
//! | request | answer | to whom |
//! |---|---|---|
//! | `GET /` and what the page is made of | the same files for everybody | whoever asks under our name |
//! | `POST /session` with the token | both halves of a session | whoever has the token |
//! | `POST /session/end` | the session is over | who is inside |
//! | `GET /api/state`, `/api/history` | what is on the board | who is inside |
//! | `POST /api/trace` with a name | the way there, with its evidence | who is inside |
//! | `POST /api/names` with a RIB on the board | a page of the names that it stores | who is inside |
//!
//! Every request passes `requests` first, and every answer, refusals too, forbids the browser to
//! load anything from elsewhere, to run what is not in a file of ours, to make elements from text,
//! to be framed, and to tell others where it was.

use std::future::Future;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, RETRY_AFTER,
    SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rhumb_daemon::clock;
use rhumb_wire::Name;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::board::Board;
use crate::connections::{Place, Places};
use crate::door::{Door, LONGEST_TOKEN, Refused};
use crate::listing::{self, Asked};
use crate::page;
use crate::requests::{Called, cookie, is_by_tls, only};

/// Finds the way to a name, for who is inside: what `rhumb trace --json` prints, or why there is
/// none.
pub type Trace =
    Box<dyn Fn(Name) -> Pin<Box<dyn Future<Output = Result<Value, String>> + Send>> + Send + Sync>;

/// All that it takes to answer browsers.
pub struct Dashboard {
    /// What is known of the daemons.
    pub board: Arc<Board>,
    /// Who may see it.
    pub door: Door,
    /// Names that browsers may call it by, besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// How ways are traced, if they are.
    pub trace: Option<Trace>,
}

/// A dashboard at its place.
struct Desk {
    dashboard: Dashboard,
    called: Called,
    /// Of its port: another dashboard of the same host has another.
    cookie: String,
    tracing: Semaphore,
    listing: Semaphore,
}

/// Who asks.
#[derive(Debug, Clone)]
struct Caller {
    source: IpAddr,
    place: Place,
}

impl Dashboard {
    /// Answers browsers for as long as the process lives.
    ///
    /// # Errors
    /// When the listener is of no use.
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let at = listener.local_addr()?;
        let hosts = self.hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        let desk = Arc::new(Desk {
            called: Called { hosts, on_loopback: at.ip().is_loopback() },
            cookie: format!("rhumb-dashboard-{}", at.port()),
            tracing: Semaphore::new(1),
            listing: Semaphore::new(MOST_LISTINGS),
            dashboard: self,
        });
        let (router, places) = (router(&desk), Arc::new(Places::default()));
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    let place = places.take();
                    let caller = Caller { source: from.ip(), place: place.clone() };
                    let task = tokio::spawn(talk(stream, router.clone().layer(Extension(caller))));
                    place.is_of(task.abort_handle());
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }
}

/// One connection, for some minutes at most: a browser opens another one without a word.
async fn talk(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_headers(MOST_HEADERS)
        .max_buf_size(MOST_HEAD_LEN)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    if timeout(CONNECTION_LASTS, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(HEAD_WITHIN, connection).await;
    }
}

fn router(desk: &Arc<Desk>) -> Router {
    let inside = Router::new()
        .route("/api/state", get(state))
        .route("/api/history", get(history))
        .route("/api/trace", post(trace))
        .route("/api/names", post(names))
        .route("/session/end", post(end_session))
        .route_layer(from_fn_with_state(Arc::clone(desk), only_inside));
    Router::new()
        .route("/session", post(begin_session))
        .merge(inside)
        .fallback(get(file))
        .layer(DefaultBodyLimit::max(MOST_BODY_LEN))
        .layer(from_fn_with_state(Arc::clone(desk), guard))
        .with_state(Arc::clone(desk))
}

/// Refuses what is not for us, and says to the browser what it may do with any answer.
async fn guard(State(desk): State<Arc<Desk>>, request: Request, next: Next) -> Response {
    let mut response = match desk.called.check(request.headers()) {
        Err(problem) => refuse(StatusCode::FORBIDDEN, problem),
        Ok(()) => match timeout(ANSWER_WITHIN, next.run(request)).await {
            Ok(response) => response,
            Err(_) => refuse(StatusCode::REQUEST_TIMEOUT, "too slow"),
        },
    };
    let headers = response.headers_mut();
    for (name, value) in FOR_EVERY_ANSWER {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn only_inside(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    request: Request,
    next: Next,
) -> Response {
    let (cookie, key) = desk.halves(request.headers());
    if !desk.dashboard.door.knows(cookie, key, Instant::now()) {
        return refuse(StatusCode::UNAUTHORIZED, "show the token first");
    }
    caller.place.is_known();
    next.run(request).await
}

impl Desk {
    /// Both halves of a session, as far as they are shown.
    fn halves<'a>(&self, headers: &'a HeaderMap) -> (&'a str, &'a str) {
        let cookie = cookie(headers, &self.cookie).unwrap_or_default();
        (cookie, only(headers, &KEY).unwrap_or_default())
    }
}

async fn file(uri: Uri) -> Response {
    match page::file(uri.path()) {
        Some((content_type, text)) => answer(StatusCode::OK, content_type, text),
        None => refuse(StatusCode::NOT_FOUND, "there is no such page"),
    }
}

async fn state(State(desk): State<Arc<Desk>>) -> Response {
    answer(StatusCode::OK, JSON, desk.dashboard.board.state(clock::now().unix_ms))
}

async fn history(State(desk): State<Arc<Desk>>) -> Response {
    answer(StatusCode::OK, JSON, desk.dashboard.board.history())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shown {
    token: String,
}

async fn begin_session(
    State(desk): State<Arc<Desk>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    // A form of another site cannot say so without asking first.
    if only(&headers, &CONTENT_TYPE) != Some(JSON) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the token comes as JSON");
    }
    let shown =
        serde_json::from_slice(&body).ok().filter(|it: &Shown| it.token.len() <= LONGEST_TOKEN);
    let Some(Shown { token }) = shown else {
        return refuse(StatusCode::BAD_REQUEST, "a token is needed");
    };
    match desk.dashboard.door.let_in(&token, caller.source, Instant::now()) {
        Ok(halves) => {
            let secure = if is_by_tls(&headers) { "; Secure" } else { "" };
            let set = format!(
                "{}={}; Path=/; HttpOnly; SameSite=Strict{secure}",
                desk.cookie,
                halves.cookie.as_str()
            );
            let mut response = told(StatusCode::OK, &json!({ "key": halves.key.as_str() }));
            if let Ok(mut set) = HeaderValue::from_str(&set) {
                set.set_sensitive(true);
                response.headers_mut().insert(SET_COOKIE, set);
            }
            response
        }
        Err(Refused::Wrong) => {
            tracing::warn!(source = %caller.source, "somebody showed a wrong token");
            refuse(StatusCode::FORBIDDEN, "that is not the token")
        }
        Err(Refused::TooMany) => {
            let mut response =
                refuse(StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens: wait a minute");
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
            response
        }
        Err(Refused::Unrandom) => {
            refuse(StatusCode::INTERNAL_SERVER_ERROR, "the system gives no randomness")
        }
    }
}

async fn end_session(State(desk): State<Arc<Desk>>, headers: HeaderMap) -> Response {
    let (cookie, key) = desk.halves(&headers);
    desk.dashboard.door.let_out(cookie, key);
    told(StatusCode::OK, &json!({ "ended": true }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    name: String,
}

async fn trace(State(desk): State<Arc<Desk>>, body: Bytes) -> Response {
    let Some(trace) = &desk.dashboard.trace else {
        return refuse(StatusCode::NOT_FOUND, "this dashboard traces no ways");
    };
    let wanted = serde_json::from_slice::<Wanted>(&body).ok();
    let Some(name) = wanted.and_then(|wanted| wanted.name.parse::<Name>().ok()) else {
        return refuse(StatusCode::BAD_REQUEST, "a whole name is needed, of 52 letters and digits");
    };
    let Ok(_alone) = desk.tracing.try_acquire() else {
        return refuse(StatusCode::TOO_MANY_REQUESTS, "a way is being traced already");
    };
    match trace(name).await {
        Ok(way) => told(StatusCode::OK, &way),
        Err(problem) => refuse(StatusCode::BAD_GATEWAY, &problem),
    }
}

/// A page of what a RIB stores. Only those on the board are asked, wherever a browser says.
async fn names(State(desk): State<Arc<Desk>>, body: Bytes) -> Response {
    let asked = serde_json::from_slice::<Asked>(&body).ok();
    let Some((asked, wanted)) = asked.and_then(|asked| asked.wanted().map(|it| (asked, it))) else {
        return refuse(StatusCode::BAD_REQUEST, "names begin with letters and the digits 2 to 7");
    };
    let Some(admin) = desk.dashboard.board.rib_at(&asked.place) else {
        return refuse(StatusCode::NOT_FOUND, "no RIB is asked there");
    };
    let Ok(_place) = desk.listing.try_acquire() else {
        return refuse(StatusCode::TOO_MANY_REQUESTS, "others look through names, too: try again");
    };
    match listing::page(&admin, &wanted).await {
        Ok(page) => told(StatusCode::OK, &page),
        Err(problem) => refuse(StatusCode::BAD_GATEWAY, &problem),
    }
}

fn told(status: StatusCode, value: &Value) -> Response {
    answer(status, JSON, value.to_string())
}

fn refuse(status: StatusCode, problem: &str) -> Response {
    told(status, &json!({ "problem": problem }))
}

fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

const JSON: &str = "application/json";
/// The half of a session that the page keeps.
const KEY: HeaderName = HeaderName::from_static("rhumb-key");
/// What each answer says to the browser.
const FOR_EVERY_ANSWER: [(HeaderName, &str); 8] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
];
/// A RIB answers one at a time.
const MOST_LISTINGS: usize = 4;
/// Tokens, names and places are short.
const MOST_BODY_LEN: usize = 1024;
/// Browsers send about 1 kB, cookies of other ports of the host included.
const MOST_HEAD_LEN: usize = 32 * 1024;
const MOST_HEADERS: usize = 64;
/// A head that begins; and how long an idle connection is kept.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// A trace may wait for several hops that do not answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(40);
/// Whoever reads slowly holds no place for ever.
const CONNECTION_LASTS: Duration = Duration::from_secs(120);
/// Accepting fails when descriptors run out; trying again at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
