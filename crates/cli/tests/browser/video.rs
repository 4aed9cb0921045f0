//! The consoles of an origin and a proxy while a film plays over a pipe that loses packets.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::Value;

use crate::{
    chromium::Browser,
    harness::{Running, Terminated, command, free_port, private_folder},
    setting::started,
};

/// Origin, pipe and proxy.
pub(crate) struct VideoSetting {
    pub(crate) folder: tempfile::TempDir,
    /// The first lines of both.
    origin: Value,
    proxy: Value,
    _programs: (Running, Terminated, Running),
    ends: Arc<AtomicBool>,
}

impl VideoSetting {
    /// A library with one film of two minutes, behind a pipe that loses packets; `None` without ffmpeg, which makes the film.
    pub(crate) fn start() -> Option<Self> {
        let folder = private_folder();
        let place = folder.path();
        fs::create_dir(place.join("films")).unwrap();
        let ride = Path::new(env!("CARGO_MANIFEST_DIR")).join("../media/tests/data/bikes.mp4");
        // Twelve times the same ride, not encoded again.
        let made = Command::new("ffmpeg")
            .args(["-loglevel", "error", "-stream_loop", "11", "-i"])
            .arg(&ride)
            .args(["-c", "copy"])
            .arg(place.join("films/bikes.mp4"))
            .stdin(Stdio::null())
            .status();
        let Ok(made) = made else {
            eprintln!("skipped: there is no ffmpeg");
            return None;
        };
        assert!(made.success());
        let mut origin_program = Running::start(
            command(place)
                .args(["video", "origin", "--json", "--library", "films"])
                .args(["--key", "origin.key", "--listen", "127.0.0.1:0"])
                .args(["--console", "127.0.0.1:0"]),
        );
        let origin = origin_program.event("serving");
        let ticket: anabranch::Ticket = origin["ticket"].as_str().unwrap().parse().unwrap();
        let pipe = free_port();
        let (emulator, _) = started(command(place).args([
            "emulate",
            "--target",
            &ticket.addresses[0].to_string(),
            "--listen",
            &pipe.to_string(),
            "--path",
            "rate=20 Mbit/s, delay=20 ms, loss=5 %",
        ]));
        let ticket = anabranch::Ticket {
            addresses: vec![pipe],
            ..ticket
        };
        fs::write(place.join("ticket"), ticket.to_string()).unwrap();
        let mut proxy_program = Running::start(
            command(place)
                .args(["video", "proxy", "--json", "--cache", "cache"])
                .args(["--key", "proxy.key", "--http", "127.0.0.1:0"])
                .args(["--ticket-file", "ticket", "--prefix", "0 s", "--no-repair"])
                .args(["--console", "127.0.0.1:0"]),
        );
        let proxy = proxy_program.event("serving");
        Some(Self {
            folder,
            origin,
            proxy,
            _programs: (origin_program, emulator, proxy_program),
            ends: Arc::default(),
        })
    }

    fn links(&self) -> [&str; 2] {
        [&self.proxy, &self.origin].map(|event| event["console"].as_str().unwrap())
    }

    /// Addresses of the consoles of the proxy and of the origin.
    pub(crate) fn consoles(&self) -> [SocketAddr; 2] {
        [&self.proxy, &self.origin].map(|event| {
            let metrics = event["metrics"].as_str().unwrap();
            let at = metrics.trim_start_matches("http://");
            at.trim_end_matches("/metrics").parse().unwrap()
        })
    }

    /// Plays the film from its beginning, as a player that reads as fast as it can.
    pub(crate) fn play(&self) {
        let page = self.proxy["http"].as_str().unwrap();
        let at: SocketAddr = page
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .parse()
            .unwrap();
        let ends = Arc::clone(&self.ends);
        std::thread::spawn(move || {
            // The proxy may end, or refuse while it has not asked for the catalogue yet.
            while !ends.load(Ordering::Relaxed) && !play(at, &ends).unwrap_or_default() {
                std::thread::sleep(Duration::from_millis(200));
            }
        });
    }
}

impl Drop for VideoSetting {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// Reads the film; true if it came.
fn play(at: SocketAddr, ends: &AtomicBool) -> std::io::Result<bool> {
    let mut player = TcpStream::connect(at)?;
    write!(
        player,
        "GET /v/bikes.mp4 HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n"
    )?;
    let mut bytes = vec![0; 1 << 16];
    let (mut begin, mut whole) = (Vec::new(), 0);
    loop {
        let read = player.read(&mut bytes)?;
        if begin.len() < 12 {
            begin.extend_from_slice(&bytes[..read]);
        }
        whole += read;
        if read == 0 || ends.load(Ordering::Relaxed) {
            return Ok(begin.starts_with(b"HTTP/1.1 200") && whole > 1_000_000);
        }
    }
}

/// The number in a row of a table of the page, or below a term.
fn number(browser: &mut Browser, of: &str) -> f64 {
    let value = browser.value(of);
    let text = value.as_str().unwrap_or_default();
    text.parse().unwrap_or_default()
}

fn term(name: &str) -> String {
    format!(
        "[...document.querySelectorAll('dt')].find((dt) => dt.innerText === '{name}' && dt.offsetParent !== null)?.nextSibling.innerText"
    )
}

fn cell(row: &str, column: usize) -> String {
    format!(
        "[...document.querySelectorAll('tbody tr')].find((row) => row.innerText.startsWith('{row}'))?.children[{column}].innerText"
    )
}

#[test]
fn a_person_sees_what_plays_and_what_is_left_out() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let Some(setting) = VideoSetting::start() else {
        return;
    };
    let [proxy, origin] = setting.links();
    browser.size(1280, 900);
    browser.open(proxy);
    browser.wait_for("Proxy of stored video");
    browser.wait_for("connected to the origin");
    assert_eq!(browser.value("location.hash"), "#video");
    assert_eq!(
        browser.value("document.querySelectorAll('nav a').length"),
        1
    );
    setting.play();
    browser.wait_for("bikes");
    browser.wait(&format!("Number({}) >= 1", term("Running")));
    browser.wait("document.querySelectorAll('article canvas').length === 1");
    // The target is that of whole chunks: the film has some 400 kbit/s.
    browser.wait(&format!("/ [kM]bit.s$/.test({})", term("Target")));
    browser.wait(&format!("Number({}) > 0", cell("intra", 1)));
    browser.wait(&format!("Number({}) > 0", term("Lost on the way")));
    browser.wait(&format!("Number({}) > 0", term("Waits for the origin")));
    browser.wait(&format!(
        "Number({}) >= Number({}) && Number({}) > 0",
        term("Not shown to players"),
        term("Lost on the way"),
        term("Not shown to players")
    ));
    let intra = number(&mut browser, &cell("intra", 2));
    assert!(intra < 1.0, "key frames are sent again until they arrive");
    let cached = browser.value(&term("Size"));
    assert!(cached.as_str().unwrap().ends_with("of 10.0 GB"), "{cached}");
    pictures(&mut browser, "video");

    // The origin shows the same play, by the name of its ticket.
    browser.open(origin);
    browser.wait_for("serving, 1 proxy connected");
    browser.wait_for("Proxy with ticket default");
    browser.wait(&format!("{} === 'bikes'", cell("default", 1)));
    browser.wait(&format!("/ [kM]bit.s$/.test({})", term("Pipe held to")));
    browser.wait(&format!("Number({}) > 0", cell("intra", 1)));
    pictures(&mut browser, "origin");
    assert!(browser.problems.is_empty(), "{:?}", browser.problems);

    // A link is good once.
    browser.forget();
    browser.open("about:blank");
    browser.open(proxy);
    browser.wait_for("was used before");
}

/// The page in both themes, if pictures are wanted, and on a narrow screen.
fn pictures(browser: &mut Browser, name: &str) {
    let folder = std::env::var_os("CONSOLE_PICTURES").map(PathBuf::from);
    for theme in ["light", "dark"] {
        browser.value(&format!(
            "document.documentElement.dataset.theme = '{theme}'"
        ));
        std::thread::sleep(Duration::from_millis(700));
        if let Some(folder) = &folder {
            browser.picture(&folder.join(format!("console-{name}-{theme}.png")));
        }
    }
    browser.size(360, 740);
    // Charts follow at the next frame.
    browser.wait("document.documentElement.scrollWidth <= 360");
    browser.size(1280, 900);
}
