//! `anabranch smartpointer`: a source, a viewer, and a page that is a plain HTTP client here.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
};

use serde_json::Value;

use crate::harness::{Running, command, private_folder};
use crate::numbered::pair;

const ATOMS: u64 = 600;
/// Events of frames; who asks for them must read them.
const FRAMES: &[&str] = &["--frames"];

/// Two nodes, a source at one and a viewer at the other.
struct Setting {
    source: Running,
    viewer: Running,
    page: Visitor,
    link: String,
    _nodes: [Running; 2],
    _folder: tempfile::TempDir,
}

impl Setting {
    fn start(services: &str, source: &[&str], of_viewer: &[&str]) -> Self {
        let folder = private_folder();
        let at = folder.path();
        let nodes = pair(at, services);
        let atoms = ATOMS.to_string();
        let words = ["smartpointer", "source", "--name", "adk", "--json"];
        let more = ["--generate", &atoms, "--local", "2.local"];
        let mut source = Running::start(command(at).args(words).args(more).args(source));
        let serving = source.event("serving");
        assert_eq!(
            (&serving["atoms"], &serving["bonds"]),
            (&ATOMS.into(), &(ATOMS - 1).into())
        );
        let words = ["smartpointer", "viewer", "far", "--name", "adk", "--json"];
        let more = ["--once", "--local", "1.local", "--http", "127.0.0.1:0"];
        let mut viewer = Running::start(command(at).args(words).args(more).args(of_viewer));
        let listening = viewer.event("listening");
        let link = listening["link"].as_str().unwrap().to_owned();
        let address = listening["at"].as_str().unwrap().parse().unwrap();
        let cookie = String::new();
        Self {
            source,
            viewer,
            page: Visitor { address, cookie },
            link,
            _nodes: nodes,
            _folder: folder,
        }
    }

    /// The next frame of a part.
    fn frame(&mut self, part: &str) -> Value {
        loop {
            let event = self.viewer.event("frame");
            if event["part"] == part {
                return event;
            }
        }
    }
}

/// A page, as far as its requests go.
struct Visitor {
    address: SocketAddr,
    cookie: String,
}

impl Visitor {
    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut socket = TcpStream::connect(self.address).unwrap();
        let Self { address, cookie } = self;
        let length = body.len();
        let text = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\nconnection: close\r\ncontent-length: {length}\r\n\
             {headers}content-type: application/json\r\n\r\n{body}"
        );
        socket.write_all(text.as_bytes()).unwrap();
        socket
    }

    /// Status, head and body of an answer.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String, Vec<u8>) {
        let mut all = Vec::new();
        let mut socket = self.send(method, path, headers, body);
        socket.read_to_end(&mut all).unwrap();
        let end = all.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(all[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head, all.split_off(end + 4))
    }

    fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let (status, _, body) = self.ask("POST", path, "", body);
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    fn enter(&mut self, link: &str) -> u16 {
        let token = link.split("#token=").nth(1).unwrap();
        let body = serde_json::json!({ "token": token }).to_string();
        let (status, head, _) = self.ask("POST", "/api/enter", "", &body);
        let cookie = head
            .lines()
            .find_map(|line| line.strip_prefix("set-cookie: "));
        if let Some(cookie) = cookie {
            assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
            cookie
                .split(';')
                .next()
                .unwrap()
                .clone_into(&mut self.cookie);
        }
        status
    }
}

#[test]
fn the_next_frames_follow_the_view() {
    let mut setting = Setting::start("\"smartpointer/1/watch/adk\"", &["--loop"], FRAMES);
    let begun = setting.viewer.event("begun");
    assert_eq!(begun["period_us"], 40_000);
    let atoms = setting.frame("atoms");
    assert_eq!(
        (&atoms["count"], &atoms["view"]),
        (&ATOMS.into(), &0.into())
    );
    let link = setting.link.clone();
    assert_eq!(setting.page.enter(&link), 204);
    // Half of space, and then nothing of it.
    for (planes, view) in [("[[1,0,0,0]]", 1), ("[[1,0,0,-1e6]]", 2), ("[]", 3)] {
        let body = format!("{{\"planes\":{planes}}}");
        let (status, answer) = setting.page.post("/api/view", &body);
        assert_eq!((status, &answer["view"]), (200, &view.into()), "{answer}");
        // Every later frame is divided by it, and each bond is in one part.
        let mut counts = std::collections::BTreeMap::new();
        let frame = loop {
            let event = setting.viewer.event("frame");
            let part = event["part"].as_str().unwrap().to_owned();
            if event["view"] != view || part == "atoms" {
                continue;
            }
            let frame = event["frame"].as_u64().unwrap();
            let parts: &mut Vec<(String, u64)> = counts.entry(frame).or_default();
            parts.push((part, event["count"].as_u64().unwrap()));
            if parts.len() == 2 {
                break frame;
            }
        };
        let mut parts = counts.remove(&frame).unwrap();
        parts.sort();
        let [seen, unseen] = [parts[0].1, parts[1].1];
        assert_eq!(seen + unseen, ATOMS - 1);
        match view {
            1 => assert!(seen > 0 && unseen > 0, "{seen} {unseen}"),
            2 => assert_eq!(seen, 0),
            _ => assert_eq!(unseen, 0),
        }
    }
    let view = setting.source.event("view");
    assert_eq!((&view["number"], &view["planes"]), (&1.into(), &1.into()));
}

#[test]
fn a_source_that_ends_sends_what_there_is() {
    // 250 frames at 240 a second.
    let mut setting = Setting::start("\"smartpointer/1/watch/*\"", &["--rate", "240"], &[]);
    let ended = setting.viewer.event("ended");
    assert!(
        ended["why"].as_str().unwrap().contains("is over"),
        "{ended}"
    );
    for part in 0..3 {
        let [frames, skipped] = ["frames", "skipped"].map(|of| ended[of][part].as_u64().unwrap());
        // A stream that begins later has fewer; none has a frame twice.
        assert!(frames > 0 && frames + skipped <= 250, "{ended}");
    }
    let left = setting.source.event("left");
    assert!(left["sent"][0].as_u64().unwrap() > 0, "{left}");
}

#[test]
fn pages_are_for_those_who_have_a_link() {
    let mut setting = Setting::start(
        "\"smartpointer/1/watch/adk\"",
        &["--loop", "--no-promise"],
        &[],
    );
    setting.viewer.event("begun");
    let (status, head, body) = setting.page.ask("GET", "/", "", "");
    assert_eq!(status, 200);
    assert!(
        head.contains("script-src 'self'") && head.contains("frame-ancestors 'none'"),
        "{head}"
    );
    assert!(String::from_utf8(body).unwrap().contains("SmartPointer"));
    for (method, path) in [
        ("GET", "/api/frames"),
        ("GET", "/api/elements"),
        ("GET", "/api/state"),
        ("POST", "/api/view"),
    ] {
        let (status, _, _) = setting.page.ask(method, path, "", "{}");
        assert_eq!(status, 401, "{path}");
        let (status, _, _) =
            setting
                .page
                .ask(method, path, "origin: http://evil.example\r\n", "{}");
        assert_eq!(status, 403, "{path}");
    }
    let link = setting.link.clone();
    assert_eq!(setting.page.enter(&link), 204);
    assert_eq!(setting.page.enter(&link), 403, "a link is good once");
    let (status, _, elements) = setting.page.ask("GET", "/api/elements", "", "");
    assert_eq!((status, elements.len() as u64), (200, ATOMS));
    let plane = "[1,0,0,0],";
    for (body, says) in [
        ("{}", "planes"),
        ("nonsense", "no view"),
        ("{\"planes\":[[1,0,0]]}", "no view"),
        ("{\"planes\":[[1,0,0,1e999]]}", "no view"),
        (
            &format!("{{\"planes\":[{}[1,0,0,0]]}}", plane.repeat(8)),
            "up to 8 planes",
        ),
    ] {
        let (status, answer) = setting.page.post("/api/view", body);
        assert_eq!(status, 400, "{body}");
        assert!(
            answer["error"].as_str().unwrap().contains(says),
            "{body}: {answer}"
        );
    }
    for (method, path, code) in [("GET", "/nothing", 404), ("POST", "/style.css", 405)] {
        assert_eq!(setting.page.ask(method, path, "", "").0, code, "{path}");
    }
}

#[test]
fn a_page_that_does_not_read_holds_up_nobody() {
    let mut setting = Setting::start(
        "\"smartpointer/1/watch/adk\"",
        &["--loop", "--rate", "120"],
        &[],
    );
    setting.viewer.event("begun");
    let link = setting.link.clone();
    setting.page.enter(&link);
    let _stuck = setting.page.send("GET", "/api/frames", "", "");
    let reading = setting.page.send("GET", "/api/frames", "", "");
    let mut reading = BufReader::new(reading);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        reading.read_line(&mut line).unwrap();
    }
    // 24 kB a frame: the first page's socket is full long before the second has read this.
    let mut bytes = vec![0; 1 << 20];
    for _ in 0..12 {
        reading.read_exact(&mut bytes).unwrap();
    }
    let state = || -> Value {
        let (_, _, state) = setting.page.ask("GET", "/api/state", "", "");
        serde_json::from_slice(&state).unwrap()
    };
    let first = state();
    assert_eq!(
        (&first["why"], &first["atoms"]),
        (&Value::Null, &ATOMS.into())
    );
    // Frames go on.
    let frames = |state: &Value| state["parts"][0]["frames"].as_u64().unwrap();
    while frames(&state()) <= frames(&first) {}
}

#[test]
fn who_has_no_right_is_told_of_it() {
    let mut setting = Setting::start("\"smartpointer/1/watch/other\"", &["--loop"], &[]);
    assert_eq!(setting.viewer.line(), "", "it ends");
}

#[test]
fn files_that_are_none_are_refused_in_words() {
    let folder = private_folder();
    let at = folder.path();
    std::fs::write(
        at.join("good.psf"),
        "PSF\n1 !NATOM\n1 A 1 X C C 0.1 12.0 0\n0 !NBOND\n",
    )
    .unwrap();
    std::fs::write(at.join("bad.psf"), "PSF\n900000 !NATOM\n").unwrap();
    std::fs::write(at.join("bad.dcd"), b"\x54\0\0\0CORD").unwrap();
    for (topology, trajectory, code, says) in [
        ("none.psf", "bad.dcd", 6, "none.psf cannot be read"),
        ("bad.psf", "bad.dcd", 2, "up to 400000"),
        ("good.psf", "bad.dcd", 6, "within a record of 84"),
        ("bad.dcd", "bad.dcd", 6, "begins with"),
    ] {
        let words = [
            "smartpointer",
            "source",
            "--topology",
            topology,
            "--trajectory",
            trajectory,
        ];
        let output = command(at).args(words).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(errors.contains(says), "{errors}");
        assert_eq!(output.status.code(), Some(code), "{errors}");
    }
    let output = command(at)
        .args(["smartpointer", "source"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}
