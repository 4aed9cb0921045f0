//! The console over HTTP, in front of a node that answers what the test says.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a failure of a test")]

use std::{
    collections::HashMap,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use anabranch_console::{Console, Settings, Source, StartError};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpStream, UnixListener},
    task::JoinHandle,
};

/// Limit of a test that hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// A node that answers each `show` with these rows, and remembers what it was asked.
struct Node {
    rows: Arc<Mutex<HashMap<String, Value>>>,
    asked: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

impl Node {
    fn start(path: &Path) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let rows = Arc::<Mutex<HashMap<String, Value>>>::default();
        let asked = Arc::<Mutex<Vec<Value>>>::default();
        let (own_rows, own_asked) = (Arc::clone(&rows), Arc::clone(&asked));
        let task = tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                let (rows, asked) = (Arc::clone(&own_rows), Arc::clone(&own_asked));
                tokio::spawn(async move {
                    let mut connection = BufReader::new(connection);
                    let mut line = String::new();
                    connection.read_line(&mut line).await.unwrap();
                    let request: Value = serde_json::from_str(&line).unwrap();
                    let show = request["show"].as_str().unwrap().to_owned();
                    asked.lock().unwrap().push(request);
                    let answer = match rows.lock().unwrap().get(&show) {
                        Some(rows) => {
                            json!({ "show": show, "version": "7.0", "rows": rows, "rows_left_out": 0 })
                        }
                        None => json!({ "error": format!("no {show} here") }),
                    };
                    let _ = connection.write_all(format!("{answer}\n").as_bytes()).await;
                });
            }
        });
        let node = Self { rows, asked, task };
        for show in ["status", "paths", "streams"] {
            node.set(show, json!([]));
        }
        node
    }

    fn set(&self, show: &str, rows: Value) {
        self.rows.lock().unwrap().insert(show.to_owned(), rows);
    }

    fn was_asked(&self, show: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .filter(|request| request["show"] == show)
            .count()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Setting {
    node: Node,
    console: Console,
    folder: tempfile::TempDir,
}

async fn setting() -> Setting {
    let folder = tempfile::tempdir().unwrap();
    let control = folder.path().join("control");
    let node = Node::start(&control);
    let console = start(&control);
    Setting {
        node,
        console,
        folder,
    }
}

fn start(control: &Path) -> Console {
    let settings = Settings {
        listen: ([127, 0, 0, 1], 0).into(),
        source: Source::Node(control.to_owned()),
    };
    Console::start(settings).unwrap()
}

struct Response {
    status: u16,
    head: String,
    body: String,
}

/// Sends a request with these header lines and a body; reads the response to its end.
async fn send(to: SocketAddr, start: &str, headers: &[&str], body: &str) -> Response {
    let work = async {
        let mut connection = open(to, start, headers, body).await;
        let mut bytes = Vec::new();
        connection.read_to_end(&mut bytes).await.unwrap();
        parse(&bytes)
    };
    tokio::time::timeout(LIMIT, work).await.unwrap()
}

async fn open(to: SocketAddr, start: &str, headers: &[&str], body: &str) -> TcpStream {
    let mut connection = TcpStream::connect(to).await.unwrap();
    let mut text = format!("{start} HTTP/1.1\r\nconnection: close\r\n");
    if !headers
        .iter()
        .any(|line| line.to_lowercase().starts_with("host:"))
    {
        text.push_str(&format!("host: {to}\r\n"));
    }
    for line in headers {
        text.push_str(&format!("{line}\r\n"));
    }
    text.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
    connection.write_all(text.as_bytes()).await.unwrap();
    connection
}

fn parse(bytes: &[u8]) -> Response {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    Response {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_lowercase(),
        body: body.to_owned(),
    }
}

const JSON: &str = "content-type: application/json";

impl Setting {
    async fn get(&self, path: &str) -> Response {
        send(self.console.address(), &format!("GET {path}"), &[], "").await
    }

    fn token(&self) -> String {
        let link = self.console.link().unwrap();
        link.split_once("#token=").unwrap().1.to_owned()
    }

    async fn enter(&self, token: &str) -> Response {
        let body = json!({ "token": token }).to_string();
        send(self.console.address(), "POST /api/enter", &[JSON], &body).await
    }

    async fn ask(&self, cookie: &str, request: &Value) -> Response {
        let headers = [JSON, cookie];
        send(
            self.console.address(),
            "POST /api/ask",
            &headers,
            &request.to_string(),
        )
        .await
    }
}

#[tokio::test]
async fn the_page_is_whole_and_holds_no_data() {
    let setting = setting().await;
    let page = setting.get("/").await;
    assert_eq!(page.status, 200);
    assert!(
        page.head
            .contains("content-security-policy: default-src 'none'; script-src 'self'")
    );
    assert!(page.head.contains("x-content-type-options: nosniff"));
    // Every file that the page or a script names is there, and nothing of another place.
    let mut left = vec!["/".to_owned()];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(path) = left.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let file = setting.get(&path).await;
        assert_eq!(file.status, 200, "{path}");
        for quoted in file.body.split('"').skip(1).step_by(2) {
            let name = quoted.trim_start_matches("./").trim_start_matches("../");
            let is_file = name.ends_with(".js") || name.ends_with(".css");
            assert!(
                path.contains("vendor")
                    || !quoted.starts_with("http")
                    || quoted.starts_with("http://www.w3.org/"),
                "{quoted}"
            );
            if is_file {
                left.push(format!("/{}", name.trim_start_matches('/')));
            }
        }
    }
    assert!(seen.len() > 12, "{seen:?}");
    assert_eq!(setting.node.was_asked("status"), 0);
    assert_eq!(setting.get("/../Cargo.toml").await.status, 404);
    assert_eq!(
        send(setting.console.address(), "DELETE /", &[], "")
            .await
            .status,
        405
    );
}

#[tokio::test]
async fn data_needs_a_link_which_is_good_once() {
    let setting = setting().await;
    let token = setting.token();
    assert_eq!(setting.get("/api/events").await.status, 401);
    assert_eq!(
        setting
            .ask("x: y", &json!({ "show": "paths" }))
            .await
            .status,
        401
    );
    let wrong = setting.enter("AAAAAAAAAAAAAAAAAAAAAA").await;
    assert_eq!(wrong.status, 403);
    assert!(wrong.body.contains("anabranch console"), "{}", wrong.body);
    assert_eq!(setting.enter(&token).await.status, 204);
    assert_eq!(setting.enter(&token).await.status, 403, "used");
    for body in ["", "{}", "null", "[", "{\"token\":7}"] {
        let to = setting.console.address();
        assert_eq!(
            send(to, "POST /api/enter", &[JSON], body).await.status,
            403,
            "{body}"
        );
    }
    assert_eq!(setting.node.was_asked("paths"), 0);
}

/// A response to a token, with the cookie as the browser keeps it.
async fn cookie(setting: &Setting) -> String {
    entered_cookie(setting.console.address(), &setting.token()).await
}

async fn entered_cookie(to: SocketAddr, token: &str) -> String {
    let body = json!({ "token": token }).to_string();
    let mut connection = open(to, "POST /api/enter", &[JSON], &body).await;
    let mut text = String::new();
    connection.read_to_string(&mut text).await.unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .unwrap();
    assert!(
        line.contains("; HttpOnly; SameSite=Strict; Path=/; Max-Age="),
        "{line}"
    );
    format!("cookie: other=1; {}", line.split(';').next().unwrap())
}

#[tokio::test]
async fn a_page_may_look_and_act_and_nothing_else() {
    let setting = setting().await;
    let cookie = cookie(&setting).await;
    setting.node.set("admit", json!([{ "kind": "answer" }]));
    let answer = setting
        .ask(
            &cookie,
            &json!({ "show": "admit", "spec": { "label": "x" } }),
        )
        .await;
    assert_eq!(answer.status, 200);
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(answer["rows"][0]["kind"], "answer");
    assert_eq!(
        setting.node.asked.lock().unwrap().last().unwrap()["spec"]["label"],
        "x"
    );
    // A refusal of the node is its answer.
    let refused = setting
        .ask(&cookie, &json!({ "show": "objective_add", "text": "?" }))
        .await;
    assert_eq!(
        (refused.status, refused.body.as_str()),
        (200, "{\"error\":\"no objective_add here\"}")
    );
    for request in [
        json!({ "show": "overlay_paths" }),
        json!({}),
        json!([]),
        json!({ "show": 1 }),
    ] {
        assert_eq!(
            setting.ask(&cookie, &request).await.status,
            400,
            "{request}"
        );
    }
    let long = json!({ "show": "objective_add", "text": "x".repeat(70_000) });
    assert_eq!(setting.ask(&cookie, &long).await.status, 413);
}

#[tokio::test]
async fn pages_of_other_sites_are_refused() {
    let setting = setting().await;
    let cookie = cookie(&setting).await;
    let to = setting.console.address();
    let request = json!({ "show": "paths" }).to_string();
    let own = format!("origin: http://{to}");
    assert_eq!(
        send(to, "POST /api/ask", &[JSON, &cookie, &own], &request)
            .await
            .status,
        200
    );
    for line in [
        "origin: http://evil.example",
        "origin: null",
        "host: evil.example",
        "sec-fetch-site: cross-site",
    ] {
        let response = send(to, "POST /api/ask", &[JSON, &cookie, line], &request).await;
        assert_eq!(response.status, 403, "{line}");
    }
    let form = "content-type: text/plain";
    assert_eq!(
        send(to, "POST /api/ask", &[form, &cookie], &request)
            .await
            .status,
        403
    );
    let rebound = "host: evil.example";
    assert_eq!(send(to, "GET /metrics", &[rebound], "").await.status, 403);
}

/// The data of the next event.
async fn event(reader: &mut BufReader<TcpStream>) -> Value {
    loop {
        let mut line = String::new();
        let read = tokio::time::timeout(LIMIT, reader.read_line(&mut line)).await;
        assert!(read.unwrap().unwrap() > 0, "the events end");
        if let Some(data) = line.strip_prefix("data: ") {
            return serde_json::from_str(data).unwrap();
        }
    }
}

#[tokio::test]
async fn events_show_the_node_as_it_is() {
    let setting = setting().await;
    let cookie = cookie(&setting).await;
    let hostile = "</script><img src=x onerror=alert(1)>\u{202e}";
    setting.node.set("streams", json!([{ "label": hostile }]));
    let connection = open(setting.console.address(), "GET /api/events", &[&cookie], "").await;
    let mut reader = BufReader::new(connection);
    assert_eq!(
        event(&mut reader).await["streams"]["rows"][0]["label"],
        hostile
    );
    setting.node.set("streams", json!([]));
    while event(&mut reader).await["streams"]["rows"] != json!([]) {}
    // The node goes; the page is notified, and again when it returns.
    let control = setting.folder.path().join("control");
    drop(setting.node);
    std::fs::remove_file(&control).unwrap();
    loop {
        if let Some(error) = event(&mut reader).await["error"].as_str() {
            assert!(error.contains("no node answers"), "{error}");
            break;
        }
    }
    let _node = Node::start(&control);
    while event(&mut reader).await.get("error").is_some() {}
}

#[tokio::test]
async fn the_node_is_asked_only_while_somebody_looks() {
    let setting = setting().await;
    let cookie = cookie(&setting).await;
    assert_eq!(setting.node.was_asked("paths"), 0);
    let first = open(setting.console.address(), "GET /api/events", &[&cookie], "").await;
    let mut reader = BufReader::new(first);
    event(&mut reader).await;
    drop(reader);
    // The end of a connection is found when something is written to it.
    let mut before = usize::MAX;
    while setting.node.was_asked("paths") != before {
        before = setting.node.was_asked("paths");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test]
async fn a_browser_that_reads_nothing_gives_way() {
    let setting = setting().await;
    let cookie = cookie(&setting).await;
    setting
        .node
        .set("streams", json!([{ "label": "x".repeat(200_000) }]));
    let mut silent = Vec::new();
    for _ in 0..64 {
        silent.push(open(setting.console.address(), "GET /api/events", &[&cookie], "").await);
    }
    // All places are taken, and after a while one that makes no progress is given to somebody else.
    let work = async {
        loop {
            let mut connection = open(setting.console.address(), "GET /health", &[], "").await;
            let mut text = String::new();
            let _ = connection.read_to_string(&mut text).await;
            match text.starts_with("HTTP/1.1 200") {
                true => return,
                false => tokio::time::sleep(Duration::from_millis(500)).await,
            }
        }
    };
    tokio::time::timeout(LIMIT, work).await.unwrap();
}

#[tokio::test]
async fn metrics_are_openmetrics() {
    let setting = setting().await;
    setting.node.set(
        "status",
        json!([
            { "kind": "node", "uptime_s": 12.0 },
            { "kind": "socket", "interface": "wlan0", "is_up": true, "sent_bytes": 100, "received_bytes": 7, "sent_packets": 2, "received_packets": 1 },
            { "kind": "socket", "interface": "wlan0", "is_up": false, "sent_bytes": 11 },
            { "kind": "session", "peer_name": "a \"b\"\\\n", "send_held_bytes": 5 },
            { "kind": "budget", "place": "wwan0", "used_bytes": 10, "left_bytes": null },
            { "kind": "refused", "of": "channel", "cause": "not_listed", "count": 4 },
            { "kind": "refused", "of": "right", "cause": "tunnel", "count": 0 },
            { "kind": "dropped", "of": "tunnel", "cause": "loop", "packets": 3 },
            { "kind": "dropped", "of": "tunnel", "cause": "loop", "packets": 2 },
            { "kind": "of a later version" },
        ]),
    );
    let path = |channel: u32, rate: f64, rtt: f64| json!({ "peer_name": "studio", "interface": "wlan0", "state": "active", "channel": channel, "rate_delivered_bps": rate, "rtt_ms": rtt });
    setting
        .node
        .set("paths", json!([path(1, 8e6, 20.0), path(2, 16e6, 30.0)]));
    setting.node.set(
        "streams",
        json!([null, { "peer_name": "studio", "promise": "renewable", "promise_is_warned": true }]),
    );
    setting.node.set("promise_events", json!([{ "kind": "position", "next": 3, "missed": 0 }, { "kind": "promise_event", "event": "warned" }]));
    let mut text = String::new();
    for _ in 0..10 {
        let accept = "accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;q=0.4";
        let to = setting.console.address();
        let response = send(to, "GET /metrics", &[accept], "").await;
        assert_eq!(response.status, 200, "{}", response.body);
        assert!(
            response
                .head
                .contains("content-type: application/openmetrics-text; version=1.0.0")
        );
        text = response.body;
    }
    for line in [
        "anabranch_build_info{version=\"7.0\"} 1.0",
        "anabranch_uptime_seconds 12.0",
        "anabranch_interface_up{interface=\"wlan0\"} 1.0",
        "anabranch_interface_bytes_total{interface=\"wlan0\",direction=\"sent\"} 111",
        "anabranch_sessions{peer=\"a \\\"b\\\"\\\\\\n\"} 1.0",
        "anabranch_refused_total{of=\"channel\",cause=\"not_listed\"} 4",
        "anabranch_refused_total{of=\"right\",cause=\"tunnel\"} 0",
        "anabranch_packets_dropped_total{of=\"tunnel\",cause=\"loop\"} 5",
        "anabranch_quota_used_bytes{place=\"wwan0\"} 10.0",
        "anabranch_path_rate_bytes_per_second{peer=\"studio\",interface=\"wlan0\"} 3000000.0",
        "anabranch_path_round_trip_seconds{peer=\"studio\",interface=\"wlan0\"} 0.03",
        "anabranch_streams{peer=\"studio\",promise=\"warned\"} 1.0",
        "anabranch_promise_events_total{event=\"warned\"} 10",
        "anabranch_promise_events_total{event=\"withdrawn\"} 0",
    ] {
        assert!(text.lines().any(|own| own == line), "{line}\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    assert!(
        !text.contains("quota_left_bytes{"),
        "there is no such limit"
    );
    assert_eq!(setting.get("/health").await.status, 200);
    assert_eq!(setting.get("/ready").await.status, 200);
}

#[tokio::test]
async fn without_a_node_it_is_healthy_and_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let console = start(&folder.path().join("none"));
    let get = |path: &str| {
        let start = format!("GET {path}");
        let to = console.address();
        async move { send(to, &start, &[], "").await }
    };
    assert_eq!(get("/health").await.status, 200);
    for path in ["/ready", "/metrics"] {
        let response = get(path).await;
        assert_eq!(response.status, 503);
        assert!(
            response.body.starts_with("no node answers at "),
            "{}",
            response.body
        );
    }
}

#[tokio::test]
async fn it_listens_on_this_machine_only() {
    for address in ["0.0.0.0:0", "192.0.2.1:80", "[::]:0", "[2001:db8::1]:80"] {
        let settings = Settings {
            listen: address.parse().unwrap(),
            source: Source::Node("/nowhere".into()),
        };
        let error = Console::start(settings).unwrap_err();
        assert!(matches!(error, StartError::Remote(_)), "{error}");
    }
}

#[tokio::test]
async fn a_port_in_use_is_answered_with_what_to_do() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let settings = Settings {
        listen: taken.local_addr().unwrap(),
        source: Source::Node("/nowhere".into()),
    };
    let error = Console::start(settings).unwrap_err().to_string();
    assert!(error.contains("or 0 for a free one"), "{error}");
}

/// A proxy that is in this state.
#[derive(Debug)]
struct Proxy(Mutex<Value>);

impl anabranch_console::Video for Proxy {
    fn state(&self) -> String {
        self.0.lock().unwrap().to_string()
    }
}

#[tokio::test]
async fn a_program_with_stored_video_is_shown_from_its_own_process() {
    let state = json!({ "kind": "proxy", "version": "7.0", "trouble": "the origin is away", "counters": { "plays": 3 } });
    let proxy = Arc::new(Proxy(Mutex::new(state)));
    let settings = Settings {
        listen: ([127, 0, 0, 1], 0).into(),
        source: Source::Video(proxy.clone()),
    };
    let console = Console::start(settings).unwrap();
    let to = console.address();
    let get = async |path: &str| send(to, &format!("GET {path}"), &[], "").await;
    assert!(get("/").await.body.contains("data-shows=\"video\""));
    let ready = get("/ready").await;
    assert_eq!(
        (ready.status, ready.body.as_str()),
        (503, "the origin is away\n")
    );
    proxy.0.lock().unwrap()["trouble"] = Value::Null;
    assert_eq!(get("/ready").await.status, 200);
    let metrics = get("/metrics").await;
    assert_eq!(metrics.status, 200);
    assert!(metrics.body.contains("anabranch_video_plays_begun_total 3"));

    // A page is signed in as one of a node, and may ask for nothing.
    let link = console.link().unwrap();
    let token = link.split_once("#token=").unwrap().1;
    let body = json!({ "token": token }).to_string();
    let entered = send(to, "POST /api/enter", &[JSON], &body).await;
    assert_eq!(entered.status, 204);
    assert_eq!(send(to, "GET /api/events", &[], "").await.status, 401);
    let token = console.link().unwrap();
    let token = token.split_once("#token=").unwrap().1;
    let cookie = entered_cookie(to, token).await;
    let body = json!({ "show": "status" }).to_string();
    let asked = send(to, "POST /api/ask", &[JSON, &cookie], &body).await;
    assert_eq!(asked.status, 502);
    assert!(asked.body.contains("answers no requests"), "{}", asked.body);
    let mut events = open(to, "GET /api/events", &[&cookie], "").await;
    let mut text = String::new();
    while !text.contains("\"video\":{") {
        let mut bytes = [0; 1_024];
        let read = tokio::time::timeout(LIMIT, events.read(&mut bytes)).await;
        let read = read.unwrap().unwrap();
        assert!(read > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    assert!(text.contains("\"plays\":3"), "{text}");
}
