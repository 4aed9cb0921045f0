//! Two machines that know each other: `up`, names in place of tickets, `ping`.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::harness::{Killed, Running, command, free_port, limited, private_folder};

/// Time after which a command that hangs is ended.
const SECONDS: u32 = 60;

/// A node of `anabranch up` with a folder of its own, on loopback.
pub(crate) struct Node<'f> {
    folder: &'f Path,
    name: &'static str,
    running: Option<Killed>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl<'f> Node<'f> {
    /// Makes a node without running it: it is started once and killed.
    fn new(folder: &'f Path, name: &'static str) -> Self {
        let mut node = Self {
            folder,
            name,
            running: None,
        };
        node.start(&["--name", name]);
        node.running = None;
        node
    }

    pub(crate) fn home(&self) -> std::path::PathBuf {
        self.folder.join(self.name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = limited(self.folder, SECONDS);
        command.args(arguments).env("ANABRANCH_HOME", self.home());
        command
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Output of a command that succeeds.
    #[track_caller]
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = text(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        text(&output.stdout)
    }

    /// Exit code and errors of a command that fails.
    #[track_caller]
    pub(crate) fn failed(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.run(arguments);
        assert!(!output.status.success(), "{}", text(&output.stdout));
        (output.status.code(), text(&output.stderr))
    }

    /// Starts it, and waits for its first output.
    fn start(&mut self, arguments: &[&str]) {
        use std::io::{BufRead, BufReader};
        let mut up = command(self.folder);
        up.arg("up")
            .args(arguments)
            .env("ANABRANCH_HOME", self.home())
            .env("ANABRANCH_LISTEN", format!("127.0.0.1:{}", self.port()))
            .arg("-v")
            .stderr(fs::File::create(self.log()).unwrap());
        let mut child = up.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains("node"), "{line}");
        // A node that cannot write its further lines would end.
        std::thread::spawn(move || lines.for_each(drop));
        self.running = Some(Killed(child));
    }

    fn log(&self) -> std::path::PathBuf {
        self.folder.join(format!("{}.log", self.name))
    }

    /// Waits until its log has a line with these words, and returns it.
    #[track_caller]
    fn logs(&self, words: &str) -> String {
        let until = Instant::now() + Duration::from_secs(u64::from(SECONDS));
        loop {
            let log = fs::read_to_string(self.log()).unwrap();
            if let Some(line) = log.lines().find(|line| line.contains(words)) {
                return line.to_owned();
            }
            assert!(Instant::now() < until, "no '{words}' in {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Files that it has received.
    fn received(&self) -> Vec<String> {
        let entries = fs::read_dir(self.home().join("received")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.starts_with('.')).collect()
    }

    /// Its port, chosen once.
    fn port(&self) -> u16 {
        let file = self.folder.join(format!("{}.port", self.name));
        if let Ok(text) = fs::read_to_string(&file) {
            return text.parse().unwrap();
        }
        let port = free_port().port();
        fs::write(file, port.to_string()).unwrap();
        port
    }

    fn id(&self) -> String {
        let key = self.home().join("key");
        let output = self.run(&["keygen", "--show", "--key", key.to_str().unwrap()]);
        text(&output.stdout).trim().to_owned()
    }

    /// Lists another node as a peer, as `anabranch pair` does.
    fn link(&self, other: &Node<'_>, dials: bool) {
        let address = format!("127.0.0.1:{}", other.port());
        let peer = anabranch::config::edit::NewPeer {
            name: other.name.to_owned(),
            node: other.id().parse().unwrap(),
            addresses: if dials { vec![address] } else { Vec::new() },
            may: ["call", "send-files"]
                .map(|right| anabranch::config::GrantLayer::Name(right.to_owned()))
                .to_vec(),
            via: None,
        };
        let file = self.home().join("node.toml");
        anabranch::config::edit::add_peer_to(&file, &peer).unwrap();
    }
}

/// Two nodes that know each other, and run.
pub(crate) fn pair(folder: &Path) -> (Node<'_>, Node<'_>) {
    let (mut near, mut far) = (Node::new(folder, "near"), Node::new(folder, "far"));
    near.link(&far, true);
    far.link(&near, false);
    far.start(&[]);
    near.start(&[]);
    (near, far)
}

#[test]
fn up_makes_a_node_that_other_commands_find() {
    let folder = private_folder();
    let mut node = Node::new(folder.path(), "studio");
    let config = fs::read_to_string(node.home().join("node.toml")).unwrap();
    assert!(config.contains("name = \"studio\""), "{config}");
    assert!(node.home().join("received").is_dir());
    let (code, errors) = node.failed(&["status"]);
    assert_eq!(code, Some(3), "{errors}");
    assert!(errors.contains("anabranch up"), "{errors}");

    // What exists is used and not changed.
    node.start(&[]);
    assert!(node.done(&["status"]).contains(&node.id()));
    let again = node.done(&["up"]);
    assert!(
        again.starts_with("The node of this machine runs already."),
        "{again}"
    );
    assert!(
        again.contains(&node.id()) && again.contains("studio"),
        "{again}"
    );
    let event: Value = serde_json::from_str(&node.done(&["up", "--json"])).unwrap();
    assert_eq!(
        (&event["name"], &event["node"]),
        (&"studio".into(), &node.id().into())
    );
    let (code, errors) = node.failed(&["up", "--port", "9"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("--port is for a new node"), "{errors}");
    assert_eq!(
        fs::read_to_string(node.home().join("node.toml")).unwrap(),
        config
    );
}

#[test]
fn a_configuration_that_is_refused_is_named() {
    let folder = private_folder();
    let node = Node::new(folder.path(), "studio");
    fs::write(node.home().join("node.toml"), "port = 1\nlistne = []\n").unwrap();
    for arguments in [&["up"][..], &["up", "--detach"]] {
        let (code, errors) = node.failed(arguments);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains("did you mean 'listen'?"), "{errors}");
    }
    let other = Node {
        folder: folder.path(),
        name: "other",
        running: None,
    };
    let (code, errors) = other.failed(&["up", "--name", "my studio"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(!other.home().join("node.toml").exists(), "{errors}");
}

#[test]
fn up_in_the_background_returns_when_it_answers() {
    let folder = private_folder();
    let node = Node {
        folder: folder.path(),
        name: "studio",
        running: None,
    };
    let mut up = node.command(&["up", "--detach"]);
    up.env("ANABRANCH_LISTEN", format!("127.0.0.1:{}", node.port()));
    let output = up.output().unwrap();
    let (out, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{errors}");
    let process = out.split("`kill ").nth(1).unwrap();
    let process: u32 = process.split('`').next().unwrap().parse().unwrap();
    let answer = node.run(&["status"]);
    crate::harness::signal(process, "TERM");
    assert!(answer.status.success(), "{}", text(&answer.stderr));
    let unit = node.run(&["up", "--service"]);
    let unit = text(&unit.stdout);
    assert!(
        unit.contains("Type=notify") && unit.contains(" up --home "),
        "{unit}"
    );
}

#[test]
fn ping_measures_each_path() {
    let folder = private_folder();
    let (near, far) = pair(folder.path());
    let out = near.done(&[
        "ping", "far", "-c", "3", "-i", "100 ms", "--within", "10 s", "--json",
    ]);
    let events: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let replies = events.iter().filter(|event| event["kind"] == "reply");
    assert_eq!(replies.clone().count(), 3, "{out}");
    for reply in replies {
        assert_eq!(reply["remote"], format!("127.0.0.1:{}", far.port()));
        assert!(reply["round_trip_ms"].as_f64().is_some(), "{out}");
    }
    let last = events.last().unwrap();
    assert_eq!(
        (&last["kind"], &last["received"]),
        (&"statistics".into(), &3.into())
    );

    // A node of the command's own, with a key that the other one lists.
    let peer = format!("{}@localhost:{}", far.id(), far.port());
    let key = near.home().join("key");
    let key = key.to_str().unwrap();
    let out = near.done(&["ping", &peer, "-c", "1", "--within", "10 s", "--key", key]);
    assert!(
        out.contains("lo → 127.0.0.1:") && out.contains("REPLIES"),
        "{out}"
    );

    let (code, errors) = near.failed(&["ping", "farr", "-c", "1"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("did you mean 'far'?"), "{errors}");
    drop(far);
    let (code, errors) = near.failed(&["ping", "far", "-c", "1", "--within", "300 ms"]);
    assert_eq!(code, Some(3), "{errors}");
}

#[test]
fn files_and_texts_are_sent_by_name() {
    let folder = private_folder();
    let (near, far) = pair(folder.path());
    fs::write(folder.path().join("note.md"), "words").unwrap();
    let out = near.done(&["send", "note.md", "far:"]);
    assert!(out.contains("over a session of the running node"), "{out}");
    near.done(&["send", "--text", "https://example.org/\u{1b}[2J", "far:"]);
    let mut received = far.received();
    received.sort();
    let [note, text] = &received[..] else {
        panic!("{received:?}");
    };
    assert_eq!(note, "note.md");
    assert!(anabranch::texts::is_text(text), "{text}");
    let kept = fs::read_to_string(far.home().join("received").join(text)).unwrap();
    assert_eq!(kept, "https://example.org/\u{1b}[2J");

    // The log has names, and nothing that a terminal obeys.
    let line = far.logs("received note.md from near: 5 bytes in ");
    assert!(line.contains("INFO"), "{line}");
    let line = far.logs("text from near: https://example.org/");
    assert!(!line.contains('\u{1b}'), "{line}");
    far.logs("connected with near, which called");
    near.logs("connected with far, which was called");
    let line = near.logs("path to far is up: lo → 127.0.0.1:");
    assert!(line.ends_with(&far.port().to_string()), "{line}");

    for (target, words) in [
        ("farr:", "did you mean 'far'?"),
        ("far:docs", "'far:' is one without a folder"),
    ] {
        let (code, errors) = near.failed(&["send", "note.md", target]);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(words), "{errors}");
    }
    let (code, errors) = near.failed(&["send", "--text", "", "far:"]);
    assert_eq!(code, Some(2), "{errors}");
    let process = far.running.as_ref().unwrap().0.id();
    crate::harness::signal(process, "TERM");
    near.logs("disconnected from far after ");
}

#[test]
fn without_a_node_a_name_says_what_to_do() {
    let folder = private_folder();
    let node = Node::new(folder.path(), "studio");
    fs::write(folder.path().join("note.md"), "words").unwrap();
    let (code, errors) = node.failed(&["send", "note.md", "ship:"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("anabranch up"), "{errors}");
    let (code, errors) = node.failed(&["ping", "ship", "-c", "1"]);
    assert_eq!(code, Some(3), "{errors}");
    assert!(errors.contains("anabranch up"), "{errors}");
}

#[test]
fn a_text_is_printed_by_recv() {
    let folder = private_folder();
    for json in [true, false] {
        let mut receiving = command(folder.path());
        receiving.args(["recv", "in", "--bind", "127.0.0.1:0"]);
        if json {
            receiving.arg("--json");
        } else {
            receiving.args(["--key", "other"]);
        }
        let mut receiver = Running::start(&mut receiving);
        let ticket = if json {
            let event = receiver.event("ticket");
            event["ticket"].as_str().unwrap().to_owned()
        } else {
            let mut lines = std::iter::repeat_with(|| receiver.line());
            lines.find(|line| line.starts_with("anabranch1:")).unwrap()
        };
        let mut sending = limited(folder.path(), SECONDS);
        sending.args(["send", "--text", "one\ntwo\u{1b}[2J", &ticket]);
        let sent = sending.output().unwrap();
        assert!(sent.status.success(), "{}", text(&sent.stderr));
        if json {
            assert_eq!(receiver.event("received")["text"], "one\ntwo\u{1b}[2J");
        } else {
            let mut lines = std::iter::repeat_with(|| receiver.line());
            lines.find(|line| line.starts_with("received ")).unwrap();
            assert_eq!(receiver.line(), "");
            assert_eq!(receiver.line(), "one");
            assert_eq!(receiver.line(), "two\\u001b[2J");
        }
    }
}
