//! Two machines that know each other: `up`, names in place of tickets, `ping`.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

use crate::harness::{Killed, command, free_port, limited, private_folder};

/// Time after which a command that hangs is ended.
const SECONDS: u32 = 60;

/// A node of `anabranch up` with a folder of its own, on loopback.
struct Node<'f> {
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

    fn home(&self) -> std::path::PathBuf {
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
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = text(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        text(&output.stdout)
    }

    /// Exit code and errors of a command that fails.
    #[track_caller]
    fn failed(&self, arguments: &[&str]) -> (Option<i32>, String) {
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
            .stderr(std::process::Stdio::inherit());
        let mut child = up.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains("node"), "{line}");
        // A node that cannot write its further lines would end.
        std::thread::spawn(move || lines.for_each(drop));
        self.running = Some(Killed(child));
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
        };
        let file = self.home().join("node.toml");
        anabranch::config::edit::add_peer_to(&file, &peer).unwrap();
    }
}

/// Two nodes that know each other, and run.
fn pair(folder: &Path) -> (Node<'_>, Node<'_>) {
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
    let out = near.done(&["ping", "far", "-c", "3", "-i", "100 ms", "--json"]);
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
    let out = near.done(&["ping", &peer, "-c", "1", "--key", key.to_str().unwrap()]);
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
