//! `anabranch config` and `anabranch reload` with a node that runs.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
};

use serde_json::Value;

use crate::harness::{
    Killed, command, configure, free_port, keygen, limited, node, private_folder, signal,
};

/// Output, error output and exit code.
fn run(folder: &Path, arguments: &[&str]) -> (String, String, Option<i32>) {
    let output = command(folder).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (
        text(&output.stdout),
        text(&output.stderr),
        output.status.code(),
    )
}

#[test]
fn a_check_names_every_mistake_and_its_place() {
    let folder = private_folder();
    let path = folder.path();
    fs::write(
        path.join("a.toml"),
        "prot = 7\n[session]\npolicy = \"best\"\ntimeout = 3\n",
    )
    .unwrap();
    let (out, error, code) = run(path, &["config", "check", "a.toml"]);
    assert_eq!((code, error.as_str()), (Some(2), "anabranch: 3 mistakes\n"));
    let lines: Vec<&str> = out.lines().collect();
    assert!(
        lines[0].starts_with("a.toml:1:1: there is no key 'prot'; did you mean 'port'?"),
        "{out}"
    );
    assert!(
        lines[1].starts_with("a.toml:3:1: session.policy = \"best\""),
        "{out}"
    );
    assert!(
        lines[2].starts_with("a.toml:4:11: timeout = 3: expected a text in quotes"),
        "{out}"
    );
    let (out, _, code) = run(path, &["config", "check", "a.toml", "--json"]);
    let all: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &all["mistakes"][0]["line"]),
        (Some(2), &Value::from(1))
    );
    fs::write(path.join("a.toml"), "port = 7\n").unwrap();
    let (out, error, code) = run(path, &["config", "check", "a.toml"]);
    assert_eq!(code, Some(0), "{out}{error}");
    assert!(out.ends_with("configuration OK\n"), "{out}");
}

/// The running node shows what it has; a file that is cut is refused at each place, and the previous configuration stays in force.
#[test]
fn a_node_shows_its_configuration_and_keeps_it_when_the_file_is_cut() {
    let folder = private_folder();
    let path = folder.path();
    configure(path, free_port(), &keygen(path), "\"tunnel\"");
    let file = path.join("far.toml");
    let text = fs::read_to_string(&file)
        .unwrap()
        .replace(", \"tunnel\"", "");
    fs::write(&file, &text).unwrap();
    let (_node, _) = node(path);
    let control = ["--control", "far.sock"];
    let ask = |words: &[&str]| run(path, &[words, &control].concat());
    let (before, error, _) = ask(&["config", "show"]);
    assert!(
        before.contains("may = [\"call\"]  # far.toml:7\n"),
        "{before}{error}"
    );
    assert!(
        before.contains("policy = \"default\"  # default\n"),
        "{before}"
    );

    // Cut in the header of the peer, in its name, in its id, in its rights.
    for word in ["[[pe", "name = \"ne", "node = \"", "may = [\"ca"] {
        let at = text.find(word).unwrap() + word.len();
        fs::write(&file, &text[..at]).unwrap();
        let (out, error, code) = ask(&["reload"]);
        assert_eq!(code, Some(1), "{word}: {out}");
        assert!(error.contains("far.toml: line"), "{word}: {error}");
        assert_eq!(ask(&["config", "show"]).0, before, "{word}");
    }

    // As editors write: another file, in the place of the first.
    let changed = text
        .replace("[\"call\"", "[")
        .replace("[[peer]]", "[session]\npolicy = \"ecf\"\n[[peer]]");
    fs::write(path.join("far.new"), &changed).unwrap();
    fs::rename(path.join("far.new"), &file).unwrap();
    let (out, error, code) = ask(&["reload"]);
    assert_eq!(code, Some(0), "{error}");
    for line in [
        "have fewer rights: near",
        "peer.near.may: [\"call\"] → []",
        "session.policy: \"default\" → \"ecf\"",
    ] {
        assert!(out.lines().any(|own| own == line), "{line}\n{out}");
    }
    assert!(
        ask(&["config", "show"])
            .0
            .contains("policy = \"ecf\"  # far.toml:5\n")
    );
}

#[test]
fn the_known_word_that_is_nearest_to_an_unknown_one_is_named() {
    let folder = private_folder();
    let path = folder.path();
    fs::write(
        path.join("a.toml"),
        "key = \"a.key\"\n[session]\npolicy = \"assgin\"\n",
    )
    .unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["sned", "film"], "'send'"),
        (&["config", "chek"], "'check'"),
        (&["paths", "--wacth"], "'--watch'"),
        (
            &["node", "--key", "a.key", "--policy", "assgin"],
            "did you mean 'assign'?",
        ),
        (&["node", "--config", "a.toml"], "did you mean 'assign'?"),
        (
            &["node", "--config", "a.toml", "--check"],
            "line 3: session.policy",
        ),
    ];
    for (arguments, words) in cases {
        let (out, error, code) = run(path, arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {out}{error}");
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
    let (out, error, code) = run(path, &["config", "check", "a.toml"]);
    assert_eq!(code, Some(2), "{out}{error}");
    assert!(out.contains("did you mean 'assign'?"), "{out}");
    assert!(!path.join("a.key").exists());
}

/// The first line on standard error of a node with this configuration, and the one after it when the node has been stopped.
fn first_lines(folder: &Path, text: &str) -> [String; 2] {
    fs::write(folder.join("a.toml"), text).unwrap();
    let mut child = limited(folder, 60)
        .args(["node", "--config", "a.toml", "--control", "a.sock"])
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut node = Killed(child);
    let mut id = String::new();
    out.read_line(&mut id).unwrap();
    assert!(id.starts_with("node "), "{id}");
    signal(node.0.id(), "TERM");
    let mut lines = [String::new(), String::new()];
    for line in &mut lines {
        err.read_line(line).unwrap();
    }
    assert_eq!(node.0.wait().unwrap().code(), Some(0));
    lines
}

#[test]
fn a_node_that_nobody_may_call_says_so_at_its_start() {
    let folder = private_folder();
    let path = folder.path();
    let listen = "key = \"a.key\"\nlisten = [\"127.0.0.1:0\"]\n";
    let [first, second] = first_lines(path, listen);
    assert!(first.contains("no node may call this one"), "{first}");
    assert!(first.contains("[[peer]]"), "{first}");
    assert_eq!(second, "");
    // Another node that may call it, or that it calls, is enough.
    let other = "a".repeat(52);
    for peer in [
        "may = [\"call\"]",
        "may = []\naddresses = [\"127.0.0.1:9\"]",
    ] {
        let peer = format!("{listen}[[peer]]\nname = \"far\"\nnode = \"{other}\"\n{peer}\n");
        let [first, _] = first_lines(path, &peer);
        assert!(!first.contains("no node may call"), "{first}");
    }
}
