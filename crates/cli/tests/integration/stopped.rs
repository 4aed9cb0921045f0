//! Commands that run until they are stopped, and such as are stopped before they are done.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    harness::{Killed, Running, free_port, limited, private_folder, signal},
    numbered::{id, key, start},
};

/// A net for what takes a moment on a quiet machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of the file and of the records, which take eight seconds at [`SLOW`].
const BYTES: usize = 6_000_000;
const SLOW: &str = "[channel]\ncontroller = \"fixed 6 Mbit/s\"\n";

/// A node with a folder that it exports, a second one that knows it, and the key of a third.
struct Setting {
    folder: tempfile::TempDir,
    far: SocketAddr,
    _nodes: (Killed, Running),
}

impl Setting {
    fn start() -> Self {
        let folder = private_folder();
        let at = folder.path();
        fs::create_dir_all(at.join("data")).unwrap();
        fs::write(at.join("data/film"), vec![7; BYTES]).unwrap();
        fs::create_dir_all(at.join("sets/numbers")).unwrap();
        fs::write(at.join("sets/numbers/all.dat"), vec![7; BYTES]).unwrap();
        fs::write(
            at.join("sets/numbers/records.toml"),
            "[[component]]\nname = \"numbers\"\nfile = \"all.dat\"\nsize = 60000\n[records]\ncount = 100\n",
        )
        .unwrap();
        key(at, 3);
        let far = free_port();
        let nodes = (provider(at, far), caller(at, far));
        Self {
            folder,
            far,
            _nodes: nodes,
        }
    }

    fn at(&self) -> &Path {
        self.folder.path()
    }

    /// Ends of sessions with the third node in the log of the far one, when there are so many.
    #[track_caller]
    fn ends(&self, count: usize) -> Vec<String> {
        self.notes("disconnected from n3 after ", count)
    }

    /// Lines with these words in the log of the far node, when there are so many.
    #[track_caller]
    fn notes(&self, words: &str, count: usize) -> Vec<String> {
        let until = Instant::now() + LIMIT;
        loop {
            let log = fs::read_to_string(self.at().join("2.log")).unwrap();
            let lines = log.lines().filter(|line| line.contains(words));
            let lines: Vec<String> = lines.map(str::to_owned).collect();
            if lines.len() >= count {
                return lines;
            }
            assert!(Instant::now() < until, "not {count} '{words}' in {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Node 2, which writes a log.
fn provider(at: &Path, far: SocketAddr) -> Killed {
    let key = key(at, 2);
    let peer = |own: u8| {
        format!(
            "[[peer]]\nname = \"n{own}\"\nnode = \"{}\"\nmay = [\"call\", {{ right = \"read-export\", exports = [\"data\"] }}, \
             {{ right = \"forward\", to = [\"127.0.0.1:9\"] }}, {{ right = \"use-service\", services = [\"*\"] }}]\n",
            id(own)
        )
    };
    let text = format!(
        "key = {key:?}\nlisten = [\"{far}\"]\ncontrol = \"2.sock\"\nlocal = \"2.local\"\n\
         [[export]]\nname = \"data\"\npath = {:?}\n{}{}{SLOW}",
        at.join("data"),
        peer(1),
        peer(3)
    );
    fs::write(at.join("2.toml"), text).unwrap();
    let mut node = limited(at, 300);
    node.args(["node", "--config", "2.toml", "-v"])
        .stderr(fs::File::create(at.join("2.log")).unwrap());
    let mut child = node.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let node = Killed(child);
    assert!(lines.next().unwrap().unwrap().starts_with("node "));
    // A node that cannot write its further lines would end.
    std::thread::spawn(move || lines.for_each(drop));
    node
}

fn caller(at: &Path, far: SocketAddr) -> Running {
    let peer = format!(
        "[[peer]]\nname = \"far\"\nnode = \"{}\"\nmay = []\naddresses = [\"{far}\"]\n",
        id(2)
    );
    start(at, 1, &[free_port()], &peer)
}

/// Runs a command until an event of this kind and until it is `ready`, stops it by a signal, and returns its exit code and its last
/// event.
#[track_caller]
fn stopped_after(
    at: &Path,
    arguments: &[&str],
    kind: &str,
    ready: impl Fn(),
    name: &str,
) -> (Option<i32>, Value) {
    let mut command = limited(at, 120);
    command.args(arguments).arg("--json").stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut err = child.stderr.take().unwrap();
    let mut running = Killed(child);
    let mut last = Value::Null;
    let mut is_stopped = false;
    while let Some(line) = lines.next().transpose().unwrap() {
        last = serde_json::from_str(&line).unwrap();
        if last["kind"] == kind && !is_stopped {
            ready();
            signal(running.0.id(), name);
            is_stopped = true;
        }
    }
    let mut errors = String::new();
    err.read_to_string(&mut errors).unwrap();
    assert!(is_stopped, "{arguments:?}: {errors}");
    assert!(!errors.contains("panic"), "{arguments:?}: {errors}");
    (running.0.wait().unwrap().code(), last)
}

#[test]
fn commands_without_an_end_of_their_own_are_done_when_they_are_stopped() {
    let setting = Setting::start();
    let at = setting.at();
    fs::create_dir(at.join("films")).unwrap();
    let far = format!("{}@{}", id(2), setting.far);
    let ticket = format!("anabranch1:{}::{}", id(2), setting.far);
    let own = ["--key", "3.key"];
    let local = ["--local", "2.local"];
    let origin = ["--library", "films", "--key", "origin.key"];
    let hospital = ["--store", "store", "--key", "hospital.key"];
    let cases: Vec<(Vec<&str>, &str)> = vec![
        (
            [&["forward", "-L", "0:127.0.0.1:9", &ticket], &own[..]].concat(),
            "listening",
        ),
        ([&["socks", "0", &ticket], &own[..]].concat(), "listening"),
        ([&["ping", &far], &own[..]].concat(), "reply"),
        (
            vec!["ping", "far", "--control", "1.sock", "--local", "1.local"],
            "reply",
        ),
        #[cfg(feature = "records")]
        (
            [&["records", "serve", "sets"], &local[..]].concat(),
            "serving",
        ),
        #[cfg(feature = "process")]
        ([&["process", "serve"], &local[..]].concat(), "serving"),
        #[cfg(feature = "video")]
        (
            [&["video", "origin", "--listen", "127.0.0.1:0"], &origin[..]].concat(),
            "serving",
        ),
        #[cfg(feature = "clinic")]
        (
            [
                &["clinic", "hospital", "--listen", "127.0.0.1:0"],
                &hospital[..],
            ]
            .concat(),
            "serving",
        ),
    ];
    let mut of_third = 0;
    for (arguments, kind) in &cases {
        for name in ["TERM", "INT"] {
            let is_third = arguments.contains(&"3.key");
            of_third += usize::from(is_third);
            // It listens before it is connected.
            let ready = || {
                if is_third {
                    setting.notes("connected with n3, ", of_third);
                }
            };
            let (code, last) = stopped_after(at, arguments, kind, ready, name);
            assert_eq!(code, Some(0), "{arguments:?}: {last}");
            // The peer is not left to find out.
            if is_third {
                let ends = setting.ends(of_third);
                assert!(
                    ends[of_third - 1].contains("the peer disconnected"),
                    "{ends:?}"
                );
            }
        }
    }
}

#[test]
fn commands_that_are_stopped_before_they_are_done_say_so() {
    let setting = Setting::start();
    let at = setting.at();
    let film = format!("{}@{}:/data/film", id(2), setting.far);
    let cases: Vec<(Vec<&str>, &str)> = vec![
        (vec!["get", &film, "a", "--key", "3.key"], "progress"),
        (
            vec!["get", "far:/data/film", "b", "--local", "1.local"],
            "progress",
        ),
    ];
    for (arguments, kind) in &cases {
        for name in ["TERM", "INT"] {
            let (code, last) = stopped_after(at, arguments, kind, || (), name);
            assert_eq!(code, Some(130), "{arguments:?}: {last}");
            assert_eq!(
                (&last["kind"], &last["code"]),
                (&"failed".into(), &130.into())
            );
        }
    }
    let ends = setting.ends(2);
    assert!(
        ends.iter().all(|end| end.contains("the peer disconnected")),
        "{ends:?}"
    );
    // Neither has the name, and the same command goes on.
    assert!(!at.join("a").exists() && !at.join("b").exists());
    let again = [&cases[0].0[..], &["--json"]].concat();
    let output = limited(at, 120).args(again).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let got: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(got["kind"], "got", "{out}");
    assert_ne!(got["bytes_present_before"], 0, "{out}");
}

#[cfg(feature = "records")]
#[test]
fn a_fetch_of_records_that_is_stopped_goes_on_later() {
    let setting = Setting::start();
    let at = setting.at();
    let serve = ["records", "serve", "sets", "--json", "--local", "2.local"];
    let mut served = Running::start(crate::harness::command(at).args(serve));
    served.event("serving");
    let peer = format!("{}@{}:numbers", id(2), setting.far);
    let get = ["records", "get", &peer, "copy", "--key", "3.key"];
    let list = ["records", "ls", "far:numbers", "--local", "1.local"];
    let (code, last) = stopped_after(at, &get, "record", || (), "TERM");
    assert_eq!(code, Some(130), "{last}");
    assert_eq!(
        (&last["kind"], &last["code"]),
        (&"failed".into(), &130.into())
    );
    let ends = setting.ends(1);
    assert!(ends[0].contains("the peer disconnected"), "{ends:?}");
    assert!(
        limited(at, 60)
            .args(list)
            .output()
            .unwrap()
            .status
            .success()
    );
    let again = [&get[..], &["--json"]].concat();
    let output = limited(at, 120).args(again).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let fetched: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(fetched["is_complete"], true, "{out}");
    assert!(
        fetched["bytes_moved"].as_u64().unwrap() < BYTES as u64,
        "{out}"
    );
    let same = |path: &str| fs::read(at.join(path)).unwrap() == vec![7; BYTES];
    assert!(same("copy/all.dat"));
}
