//! The page while a case comes: a viewer that reads all of it, beside one that does not read.

use std::{net::SocketAddr, time::Duration};

use anabranch_clinic::{
    ambulance::{self, Output},
    hospital::page::{Address, Page, serve_page},
    wire::{Contents, Origin},
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpSocket,
    net::TcpStream,
    time::timeout,
};

use crate::setting::{Car, FREQUENCY, Running, begin, film_of, kept, loopback, nothing, record};

/// Longest time of a test, for a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// Head of the answer to a request, and the connection with its body.
async fn ask(at: SocketAddr, request: &str) -> (String, BufReader<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    // A page that does not read has little space.
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut connection = BufReader::new(socket.connect(at).await.unwrap());
    let request = match request.contains("\r\nHost: ") {
        true => request.to_owned(),
        false => request.replacen("\r\n", &format!("\r\nHost: {at}\r\n"), 1),
    };
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(connection.read_line(&mut head).await.unwrap() > 0, "{head}");
    }
    (head, connection)
}

/// The cookie for a new link.
async fn cookie(page: &Page) -> String {
    let link = page.link().unwrap();
    let token = link.split_once("token=").unwrap().1;
    let body = format!("{{\"token\":\"{token}\"}}");
    let request = format!(
        "POST /api/enter HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (head, _) = ask(page.address(), &request).await;
    let cookie = head
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "));
    cookie.unwrap().split(';').next().unwrap().to_owned()
}

/// A body in chunks (RFC 9112 §7.1), as it comes.
struct Body {
    connection: BufReader<TcpStream>,
    held: Vec<u8>,
}

impl Body {
    async fn feed(page: &Page) -> Self {
        let request = format!(
            "GET /api/feed HTTP/1.1\r\nCookie: {}\r\n\r\n",
            cookie(page).await
        );
        let (head, connection) = ask(page.address(), &request).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let held = Vec::new();
        Self { connection, held }
    }

    async fn take(&mut self, bytes: usize) -> Vec<u8> {
        while self.held.len() < bytes {
            let mut size = String::new();
            self.connection.read_line(&mut size).await.unwrap();
            let size = usize::from_str_radix(size.trim(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            self.connection.read_exact(&mut chunk).await.unwrap();
            self.held.extend_from_slice(&chunk[..size]);
        }
        self.held.drain(..bytes).collect()
    }

    async fn record(&mut self) -> Vec<u8> {
        let bytes = self.take(4).await;
        let bytes = u32::from_le_bytes(bytes.try_into().unwrap());
        self.take(bytes as usize).await
    }

    /// Reads until the case is over and nothing waits any more; returns samples, pictures, and the last state.
    async fn until_over(mut self) -> (Vec<i16>, u64, Value) {
        let (mut samples, mut pictures, mut is_over) = (Vec::new(), 0, false);
        loop {
            let record = self.record().await;
            if record[0] == 0 {
                let state: Value = serde_json::from_slice(&record[1..]).unwrap();
                let is_last = state["case"] == 1 && state["is_open"] == false;
                if is_last && is_over {
                    return (samples, pictures, state);
                }
                is_over = is_last;
                continue;
            }
            is_over = false;
            match record[0] {
                1 => {
                    let body = record[32..].chunks(2);
                    samples.extend(body.map(|two| i16::from_le_bytes(two.try_into().unwrap())));
                }
                _ => pictures += 1,
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_does_not_read_costs_the_others_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let (ekg, samples) = record(folder.path(), 3 * FREQUENCY);
    // More than the connection of a page that does not read takes.
    let (film, _) = film_of(folder.path(), 120, 40_000, 50.0);
    let hospital = Running::start(&store, loopback());
    let page = serve_page(loopback(), hospital.live.clone()).unwrap();
    let (head, _) = ask(page.address(), "GET /api/feed HTTP/1.1\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 401"), "{head}");
    let (head, _) = ask(page.address(), "GET / HTTP/1.1\r\n\r\n").await;
    assert!(
        head.contains("content-security-policy: default-src 'none'"),
        "{head}"
    );
    assert!(head.contains("media-src blob:"), "{head}");
    // Its answer has begun, and is not read while the case comes.
    let silent = Body::feed(&page).await;
    let reading = tokio::spawn(Body::feed(&page).await.until_over());
    let (ambulance, _reports) = begin(ambulance::Settings {
        ekg: Some(ekg),
        film: Some(film),
        is_video_repaired: true,
        contents: Contents {
            ekg: Origin::Generated,
            video: Origin::Generated,
            ..Contents::default()
        },
        ..nothing(&hospital.ticket)
    });
    let session = Car::new(2).call(&hospital.ticket).await;
    timeout(LONG, ambulance.run(&session))
        .await
        .unwrap()
        .unwrap();
    let (seen, pictures, state) = timeout(LONG, reading).await.unwrap().unwrap();
    assert_eq!(seen, samples, "what is shown is what is kept");
    assert_eq!(kept(&store).0, samples);
    assert_eq!(state["viewers"], 2);
    assert_eq!(state["dropped"]["samples"], 0);
    assert_eq!(state["contents"]["video"], "generated");
    assert_eq!(state["ekg"]["has_ended"], true);
    assert!(state["vital"]["dated"]["error_us"].is_u64(), "{state}");
    let dropped = |state: &Value| state["dropped"]["pictures"].as_u64().unwrap();
    assert_eq!(state["video"]["received"], pictures + dropped(&state));
    // What the other did not read is counted.
    let (_, pictures, state) = timeout(LONG, silent.until_over()).await.unwrap();
    assert_eq!(state["video"]["received"], pictures + dropped(&state));
    hospital.stop().await;
}

/// Status and body of the answer to a message in JSON.
async fn post(page: &Page, cookie: &str, path: &str, message: &Value) -> (String, Value) {
    let body = message.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nCookie: {cookie}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (head, mut connection) = ask(page.address(), &request).await;
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    connection.read_exact(&mut body).await.unwrap();
    let status = head.split(' ').nth(1).unwrap().to_owned();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

/// Requests as a web server in front of the page passes them on: with the `Host` and `Origin` of the browser.
#[tokio::test(flavor = "multi_thread")]
async fn a_web_server_in_front_serves_the_page_over_tls_and_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let hospital = Running::start(folder.path(), loopback());
    let at = Address {
        listen: loopback(),
        name: Some("ward.example".parse().unwrap()),
    };
    let page = serve_page(at, hospital.live.clone()).unwrap();
    let enter = async |host: &str, origin: &str| {
        let link = page.link().unwrap();
        let token = link.strip_prefix("https://ward.example/#token=").unwrap();
        let body = format!("{{\"token\":\"{token}\"}}");
        let request = format!(
            "POST /api/enter HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        ask(page.address(), &request).await.0
    };
    for (host, origin) in [
        ("ward.example", "http://ward.example"),
        ("ward.example", "https://evil.example"),
        ("evil.example", "https://evil.example"),
    ] {
        let head = enter(host, origin).await;
        assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    }
    let head = enter("ward.example", "https://ward.example").await;
    assert!(head.starts_with("HTTP/1.1 204"), "{head}");
    let cookies = |head: &str| {
        let mut lines = head.lines();
        lines.find_map(|line| Some(line.strip_prefix("set-cookie: ")?.to_owned()))
    };
    let cookie = cookies(&head).unwrap();
    assert!(cookie.ends_with("; Secure"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    for (host, cookie, status) in [
        ("ward.example", cookie, "200"),
        ("ward.example", "none=1", "401"),
        ("evil.example", cookie, "403"),
    ] {
        let request =
            format!("GET /api/state HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n");
        let (head, _) = ask(page.address(), &request).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
    }
    // On this machine it is as without a web server: a cookie for a connection without TLS.
    let own = page.address().to_string();
    let head = enter(&own, &format!("http://{own}")).await;
    let cookie = cookies(&head).unwrap();
    assert!(!cookie.contains("Secure"), "{cookie}");
    hospital.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_page_speaks_and_another_is_told_who_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let hospital = Running::start(folder.path(), loopback());
    let page = serve_page(loopback(), hospital.live.clone()).unwrap();
    let cookie = cookie(&page).await;
    let said = |speaker: u32, data: &str| {
        serde_json::json!({
            "case": 1, "speaker": speaker, "name": "Dr. A", "packets": [{"age_ms": 1.5, "data": data}]
        })
    };
    let say =
        async |speaker, data: &str| post(&page, &cookie, "/api/speak", &said(speaker, data)).await;
    let (status, answer) = say(1, "0801").await;
    assert_eq!(status, "409");
    assert!(
        answer["error"]
            .as_str()
            .unwrap()
            .contains("no ambulance listens"),
        "{answer}"
    );
    let (ambulance, _reports) = begin(ambulance::Settings {
        output: Some(Output::File(folder.path().join("heard.opus"))),
        ..nothing(&hospital.ticket)
    });
    let session = Car::new(2).call(&hospital.ticket).await;
    let speaking = async {
        while !hospital.live.state().speech.is_heard {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(
            say(1, "0801").await,
            ("200".to_owned(), serde_json::json!({"lost": 0}))
        );
        let (status, answer) = say(2, "0801").await;
        assert_eq!(status, "409");
        assert_eq!(answer["error"], "Dr. A speaks; wait for the end");
        for wrong in ["", "00ff", "8"] {
            assert_eq!(say(1, wrong).await.0, "400", "{wrong}");
        }
        let state = serde_json::json!(hospital.live.state());
        assert_eq!(state["speech"]["speaker"]["name"], "Dr. A");
        // A wish for a key picture of a case without a video changes nothing.
        let wish = serde_json::json!({"case": 1, "after": 0});
        assert_eq!(post(&page, &cookie, "/api/key", &wish).await.0, "204");
        assert_eq!(
            post(&page, &cookie, "/api/key", &Value::Null).await.0,
            "400"
        );
        assert_eq!(
            post(&page, "", "/api/speak", &said(1, "0801")).await.0,
            "401"
        );
    };
    // It only listens, and does not end by itself.
    tokio::select! {
        ended = ambulance.run(&session) => panic!("{ended:?}"),
        spoken = timeout(LONG, speaking) => spoken.unwrap(),
    }
    hospital.stop().await;
}
