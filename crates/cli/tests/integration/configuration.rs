//! `anabranch config` and `anabranch reload` with a node that runs.

use std::{fs, path::Path};

use serde_json::Value;

use crate::harness::{command, configure, free_port, keygen, node, private_folder};

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
