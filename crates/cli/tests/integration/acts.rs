//! `anabranch stream set` and `anabranch path` about a running node, and its log of what was changed.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::Path,
    process::Stdio,
    time::Duration,
};

use anabranch::{Client, StreamSpec};
use serde_json::Value;

use crate::harness::{Terminated, command, free_port, keygen, limited, private_folder};

/// A node that runs in this folder, with its log in `log`, a JSON object a line.
fn node(home: &Path, config: &str) -> Terminated {
    fs::write(home.join("node.toml"), config).unwrap();
    let log = File::create(home.join("log")).unwrap();
    let mut command = limited(home, 300);
    command
        .args(["-v", "--log-format", "json"])
        .args(["node", "--config", "node.toml"])
        .stdout(Stdio::null())
        .stderr(log);
    Terminated(command.spawn().unwrap())
}

/// Exit code and output of a command about the node in this folder.
fn ask(home: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = command(home)
        .args(arguments)
        .args(["--control", "control"])
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

/// Lines of the log about changes: message, request and reason.
fn changes(home: &Path) -> Vec<Value> {
    let text = fs::read_to_string(home.join("log")).unwrap();
    // Notices for people are no lines of the log.
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let is_change = |line: &Value| {
        let message = line["message"].as_str().unwrap_or_default();
        ["changed by request", "a change was refused"].contains(&message)
    };
    lines.filter(is_change).collect()
}

#[test]
fn acts_are_done_as_a_whole_and_logged_with_who_asked() {
    let folder = private_folder();
    let [near, far] = ["near", "far"].map(|name| folder.path().join(name));
    for home in [&near, &far] {
        fs::create_dir(home).unwrap();
    }
    let (near_id, far_id) = (keygen(&near), keygen(&far));
    let ports = [free_port(), free_port()].map(|at| format!("\"{at}\""));
    let ports = ports.join(", ");
    let common = "key = \"mine.key\"\ncontrol = \"control\"\nlocal = \"local\"\nevidence = \"\"\n";
    let may = "may = [\"call\", { right = \"use-service\", services = [\"*\"] }]\n";
    let _far = node(
        &far,
        &format!(
            "{common}listen = [{ports}]\n[[peer]]\nname = \"near\"\nnode = \"{near_id}\"\n{may}"
        ),
    );
    let _near = node(
        &near,
        &format!(
            "{common}listen = [\"127.0.0.1:0\"]\n[[peer]]\nname = \"far\"\nnode = \"{far_id}\"\n{may}addresses = [{ports}]\n"
        ),
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let attach = async |home: &Path| {
        loop {
            match Client::attach(home.join("local"), "test").await {
                Ok(client) => return client,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let (stream, _held) = runtime.block_on(async {
        let service = attach(&far).await.register("s").await.unwrap();
        let session = attach(&near).await.connect("far").await.unwrap();
        let stream = session.open_stream(StreamSpec::messages("s")).await;
        let stream = stream.unwrap();
        stream.send(vec![7; 100]).await.unwrap();
        let accepted = service.accept().await.unwrap();
        (stream, (accepted, session, service))
    });
    while ask(&near, &["paths"]).1.matches(" active").count() < 2 {
        std::thread::sleep(Duration::from_millis(50));
    }

    let name = stream.id().to_string();
    let set = |arguments: &[&str]| ask(&near, &[&["stream", "set", &name], arguments].concat());
    let (code, text) = set(&["--weight", "7", "--cap", "4 Mbit/s"]);
    assert_eq!(
        (code, text),
        (Some(0), format!("{name} of session-0: changed\n"))
    );
    let (_, streams) = ask(&near, &["streams", "--json"]);
    for value in ["\"weight\":7", "\"cap_bps\":4000000"] {
        assert!(streams.contains(value), "{streams}");
    }
    let (code, text) = set(&["--priority", "urgent", "--lifetime", "300 ms"]);
    assert_eq!(code, Some(0), "{text}");
    let (_, streams) = ask(&near, &["streams", "--json"]);
    for value in ["\"priority\":192", "\"lifetime_ms\":300.0"] {
        assert!(streams.contains(value), "{streams}");
    }
    // A guarantee that waits is not said to be promised.
    let (code, text) = set(&["--rate", "3 Mbit/s", "--wait"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("no promise is in force yet: it waits for 3.00 Mbit/s in 95 %"),
        "{text}"
    );
    assert!(text.lines().count() > 1, "with the reason: {text}");
    assert_eq!(set(&["--release"]).0, Some(0));
    // Refused, with the reason; the weight is as before.
    let (code, text) = set(&["--rate", "900 Mbit/s", "--weight", "8", "--cap", "none"]);
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("stays as it was: "), "{text}");
    let (code, text) = set(&["--weight", "0"]);
    assert_ne!(code, Some(0));
    assert!(text.contains("weight"), "{text}");
    let (_, streams) = ask(&near, &["streams", "--json"]);
    for value in ["\"weight\":7", "\"cap_bps\":4000000"] {
        assert!(streams.contains(value), "{streams}");
    }
    let (code, text) = set(&["--release", "--json"]);
    assert_eq!(code, Some(0), "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["rows"][0]["is_changed"], true);
    let (code, text) = ask(&near, &["stream", "set", "stream-98", "--weight", "2"]);
    assert_ne!(code, Some(0));
    assert!(text.contains("no open stream-98"), "{text}");
    let (code, text) = set(&["--release", "--rate", "1 Mbit/s"]);
    assert_eq!(code, Some(2), "no request: {text}");

    let paths: Value = serde_json::from_str(&ask(&near, &["paths", "--json"]).1).unwrap();
    let channel = |at: usize| paths["rows"][at]["channel"].as_str().unwrap();
    let (code, text) = ask(&near, &["path", "out", channel(1), "--for", "10 min"]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = ask(&near, &["path", "out", channel(0)]);
    assert_ne!(code, Some(0));
    assert!(text.contains("last path"), "{text}");
    let (code, text) = ask(&near, &["path", "in", channel(1), "--json"]);
    assert_eq!(code, Some(0), "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    let row = &answer["rows"][0];
    assert_eq!(row["kind"], "path_in", "{answer}");
    assert_eq!(row["channel"], channel(1), "{answer}");

    // Questions are not in the log; every change is, with its user and what came of it.
    let user = format!("user {}", fs::metadata(&near).unwrap().uid());
    let expected = [
        ("changed by request", "\"weight\":7", ""),
        ("changed by request", "\"priority\":\"urgent\"", ""),
        ("changed by request", "3 Mbit/s", ""),
        ("changed by request", "\"release\":true", ""),
        ("a change was refused", "900 Mbit/s", "need"),
        ("a change was refused", "\"weight\":0", "weight"),
        ("changed by request", "\"release\":true", ""),
        ("a change was refused", "stream-98", "no open stream-98"),
        ("changed by request", "path_out", ""),
        ("a change was refused", "path_out", "last path"),
        ("changed by request", "path_in", ""),
    ];
    let changes = changes(&near);
    assert_eq!(changes.len(), expected.len(), "{changes:#?}");
    for (line, (message, request, reason)) in changes.iter().zip(expected) {
        assert_eq!(line["message"], message, "{line}");
        assert_eq!(line["by"], user, "{line}");
        let of = |field: &str| line[field].as_str().unwrap_or_default();
        assert!(of("request").contains(request), "{line}");
        assert!(of("reason").contains(reason), "{line}");
    }
}
