//! `anabranch top` in a pseudo-terminal.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use rustix::{
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};
use serde_json::{Value, json};

use crate::harness::{Killed, Running, command, configure, free_port, isolate, limited, signal};

/// Looks of 50 ms before something is taken not to come.
const LOOKS: u32 = 1_200;

/// A terminal in which the command runs.
struct Terminal {
    process: Killed,
    keys: File,
    screen: Arc<Mutex<vt100::Parser>>,
}

fn winsize(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

impl Terminal {
    fn start(folder: &Path, control: &str) -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        tcsetwinsize(&keys, winsize(100, 30)).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let side = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
        let mut command = Command::new("setsid");
        isolate(&mut command, folder)
            .args([
                "--ctty",
                env!("CARGO_BIN_EXE_anabranch"),
                "top",
                "--control",
            ])
            .arg(control)
            .env("TERM", "xterm-256color")
            .stdin(side.try_clone().unwrap())
            .stdout(side.try_clone().unwrap())
            .stderr(side);
        let process = Killed(command.spawn().unwrap());
        let keys = File::from(keys);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(30, 100, 0)));
        let (mut output, seen) = (keys.try_clone().unwrap(), Arc::clone(&screen));
        // It ends with the terminal.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = output.read(&mut bytes) {
                seen.lock().unwrap().process(&bytes[..count]);
            }
        });
        Self {
            process,
            keys,
            screen,
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    #[track_caller]
    fn wait(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        for _ in 0..LOOKS {
            if is_so(&self.text()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{what} is not to be seen in\n{}", self.text());
    }

    #[track_caller]
    fn wait_for(&self, words: &str) {
        self.wait(words, |text| text.contains(words));
    }

    fn resize(&self, columns: u16, rows: u16) {
        self.screen
            .lock()
            .unwrap()
            .screen_mut()
            .set_size(rows, columns);
        tcsetwinsize(&self.keys, winsize(columns, rows)).unwrap();
    }

    /// True if the terminal is as a shell expects it.
    fn is_given_back(&self) -> bool {
        let modes = tcgetattr(&self.keys).unwrap().local_modes;
        let parser = self.screen.lock().unwrap();
        modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
            && !parser.screen().alternate_screen()
            && !parser.screen().hide_cursor()
    }

    /// Waits for the end; the exit code.
    #[track_caller]
    fn ended(mut self) -> Option<i32> {
        let code = self.process.0.wait().unwrap().code();
        self.wait("the terminal given back", |_| self.is_given_back());
        code
    }
}

fn node(folder: &Path) -> Running {
    Running::start(command(folder).args(["node", "--config", "far.toml"]))
}

#[test]
fn a_node_is_shown_while_it_comes_and_goes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    configure(
        folder,
        free_port(),
        &"a".repeat(52),
        "{ right = \"use-service\", services = [\"*\"] }",
    );
    let mut terminal = Terminal::start(folder, "far.sock");
    terminal.wait_for("NO NODE YET");
    let running = node(folder);
    terminal.wait_for("No session is open, so there are no paths.");
    terminal.wait_for("0 sessions");
    for (key, words) in [
        ("\t", "No stream is open."),
        ("\x1b[C", "[3 Promises]"),
        ("\x1b[Z", "[2 Streams]"),
        ("1", "[1 Paths]"),
        ("/xyz", "Filter: xyz_"),
        ("\r", "filter 'xyz'"),
    ] {
        terminal.press(key);
        terminal.wait_for(words);
    }
    terminal.resize(40, 12);
    terminal.wait("a narrow view", |text| {
        text.contains("[1 Paths] 2 Streams  3 Promises") && text.lines().all(|line| line.len() < 60)
    });
    running.interrupt();
    terminal.wait_for("NO ANSWER for");
    let _again = node(folder);
    terminal.wait("the new node", |text| !text.contains("NO ANSWER"));
    let once = limited(folder, 60)
        .args(["top", "--once", "--control", "far.sock"])
        .output()
        .unwrap();
    let text = String::from_utf8(once.stdout).unwrap();
    assert!(
        once.status.success() && text.contains("\nStreams\nNo stream is open.\n"),
        "{text}"
    );
    terminal.press("q");
    assert_eq!(terminal.ended(), Some(0));
}

#[test]
fn the_terminal_is_given_back_whatever_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for end in ["\x03", "TERM", "INT"] {
        let mut terminal = Terminal::start(folder, "nobody");
        terminal.wait_for("NO NODE YET");
        assert!(!terminal.is_given_back());
        match end {
            "\x03" => terminal.press(end),
            name => signal(terminal.process.0.id(), name),
        }
        assert_eq!(terminal.ended(), Some(0), "{end}");
    }
    // Ctrl-Z, by key and by signal.
    for by_key in [true, false] {
        let mut terminal = Terminal::start(folder, "nobody");
        terminal.wait_for("NO NODE YET");
        let id = terminal.process.0.id();
        match by_key {
            true => terminal.press("\x1a"),
            false => signal(id, "TSTP"),
        }
        terminal.wait("the terminal given back", |_| terminal.is_given_back());
        signal(id, "CONT");
        terminal.wait("the screen taken again", |text| {
            !terminal.is_given_back() && text.contains("NO NODE YET")
        });
        terminal.press("q");
        assert_eq!(terminal.ended(), Some(0));
    }
}

#[test]
fn without_a_terminal_the_error_names_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let output = limited(folder.path(), 60)
        .args(["top", "--control", "nobody"])
        .output()
        .unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        words.contains("needs a terminal") && words.contains("--once"),
        "{words}"
    );
    let output = limited(folder.path(), 60)
        .args(["top", "--once", "--control", "nobody"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
}

/// A node with many streams, whose labels a terminal would obey.
fn many(path: &Path) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut line = String::new();
            let reading = OwnedFd::from(connection.try_clone().unwrap());
            BufReader::new(File::from(reading))
                .read_line(&mut line)
                .unwrap();
            let request: Value = serde_json::from_str(&line).unwrap();
            let rows: Vec<Value> = match request["show"].as_str().unwrap() {
                "status" => vec![json!({"kind": "node", "node": "n", "uptime_s": 5, "sessions": 1})],
                "streams" => (0..1000)
                    .map(|number| {
                        json!({"session": "session-0", "peer": "p", "peer_name": "far\u{1b}]0;x\u{7}", "stream": format!("stream-{number}"),
                            "label": format!("\u{1b}[2J\u{1b}[31m<b>{number}\u{202e}")})
                    })
                    .collect(),
                _ => Vec::new(),
            };
            // A client may have ended.
            let _ = writeln!(
                connection,
                "{}",
                json!({"version": "9", "rows": rows, "rows_left_out": 7})
            );
        }
    });
}

#[test]
fn labels_of_a_thousand_streams_do_the_terminal_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    many(&folder.path().join("many"));
    let mut terminal = Terminal::start(folder.path(), "many");
    terminal.press("2");
    terminal.wait_for("1 of 1001");
    terminal.wait_for("\\u001b[2J\\u001b[31m<b>0");
    assert!(
        terminal.text().starts_with("anabranch  9"),
        "{}",
        terminal.text()
    );
    terminal.press("G");
    terminal.wait_for("and 7 more, which the node does not list");
    terminal.wait_for("far\\u001b]0;x\\u0007");
    terminal.press("q");
    assert_eq!(terminal.ended(), Some(0));
}
