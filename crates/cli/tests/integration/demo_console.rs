//! `anabranch demo --console`: its link leads to a page that shows the paths and the streams.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::{Value, json};

use crate::harness::{Running, command};

/// Looks of 100 ms before something is taken not to come.
const LOOKS: u32 = 1_200;

/// Head and body of the response to a request with a JSON body.
fn post(to: SocketAddr, path: &str, cookie: &str, body: &Value) -> (String, Value) {
    let mut connection = TcpStream::connect(to).unwrap();
    let body = body.to_string();
    write!(
        connection,
        "POST {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\ncontent-type: application/json\r\n{cookie}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let body = serde_json::from_str(body).unwrap_or(Value::Null);
    (head.to_owned(), body)
}

#[test]
fn the_link_of_the_demonstration_shows_its_paths_and_streams() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Running::start(command(folder.path()).args(["demo", "--console"]));
    let link = loop {
        let line = demo.line();
        if line.contains("#token=") {
            break line;
        }
    };
    let (at, token) = link.split_once("/#token=").unwrap();
    let at: SocketAddr = at.trim_start_matches("http://").parse().unwrap();
    let (head, _) = post(at, "/api/enter", "", &json!({ "token": token }));
    let cookie = head
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .and_then(|rest| rest.split(';').next());
    let cookie = format!("cookie: {}\r\n", cookie.unwrap_or_else(|| panic!("{head}")));
    let rows = |show: &str| -> Vec<Value> {
        let (_, answer) = post(at, "/api/ask", &cookie, &json!({ "show": show }));
        answer["rows"].as_array().cloned().unwrap_or_default()
    };
    let wait = |what: &str, is_so: &dyn Fn() -> bool| {
        for _ in 0..LOOKS {
            if is_so() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("not seen: {what}");
    };
    wait("three active paths", &|| {
        let paths = rows("paths");
        paths.len() == 3 && paths.iter().all(|path| path["state"] == "active")
    });
    wait(
        "three streams, two with a promise or waiting for it",
        &|| {
            let streams = rows("streams");
            let asked = streams.iter().filter(|stream| !stream["promise"].is_null());
            streams.len() == 3 && asked.count() == 2
        },
    );
    assert_eq!(demo.interrupt(), Some(0));
}
