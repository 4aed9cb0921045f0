//! `anabranch hose` as a user runs it: messages, files, exit codes.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

use crate::{
    harness::{Running, command, free_port, private_folder},
    numbered::{id, start},
    stream::accept,
};

fn run(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .arg("hose")
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read its input may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn samples() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "hose", "samples"]
        .iter()
        .collect()
}

const WRONG: &str = "objective {\n  context { adu:a { stream_id == 1 } }\n  goal { b::length < 1 }\n  utility { a { 1 } }\n}\n";

#[test]
fn check_reports_errors_and_their_places() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("wrong.hose"), WRONG).unwrap();
    let output = run(folder.path(), &["check", "wrong.hose"], "");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("--> wrong.hose:3:10") && said.contains("did you mean 'a'?"),
        "{said}"
    );

    let output = run(folder.path(), &["check", "--json", "-"], WRONG);
    assert_eq!(output.status.code(), Some(2));
    let row: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(row["is_sound"], false);
    assert_eq!(
        (
            &row["diagnostics"][0]["line"],
            &row["diagnostics"][0]["column"]
        ),
        (&3.into(), &10.into())
    );

    let output = run(folder.path(), &["check", "nowhere.hose"], "");
    assert_eq!(output.status.code(), Some(6), "{}", text(&output.stderr));
}

#[test]
fn check_passes_every_sample() {
    let mut files: Vec<String> = fs::read_dir(samples())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".hose"))
        .collect();
    files.push("../../../apps/clinic/src/objectives.hose".to_owned());
    // The configuration provides everything that they name.
    let mut arguments = vec!["check", "--against", "node.toml", "--deny-warnings"];
    arguments.extend(files.iter().map(String::as_str));
    let output = run(&samples(), &arguments, "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).matches(": OK: ").count(), files.len());
}

#[test]
fn check_warns_of_what_nothing_provides() {
    let folder = tempfile::tempdir().unwrap();
    let objective = "hose 2\nobjective o {\n  context { adu:a { label == \"vidoe\" } }\n  goal { a::channel::technology == \"fibre\" }\n  \
                utility { a { 1 } }\n}\n";
    fs::write(folder.path().join("o.hose"), objective).unwrap();
    let config =
        "[[stream]]\nlabel = \"video\"\n[[interface]]\non = \"eth0\"\ntechnology = \"fiber\"\n";
    fs::write(folder.path().join("node.toml"), config).unwrap();
    let check = |more: &[&str]| run(folder.path(), &[&["check", "o.hose"], more].concat(), "");

    let output = check(&[]);
    assert_eq!(text_of(&output), (Some(0), String::new()));
    let output = check(&["--against", "node.toml"]);
    let expected = "\
warning: nothing provides the label 'vidoe'
 --> o.hose:3:30
  |
3 |   context { adu:a { label == \"vidoe\" } }
  |                              ^^^^^^^
  = help: did you mean 'video'?

warning: nothing provides the technology 'fibre'
 --> o.hose:4:36
  |
4 |   goal { a::channel::technology == \"fibre\" }
  |                                    ^^^^^^^
  = help: did you mean 'fiber'?

";
    assert_eq!(text_of(&output), (Some(0), expected.to_owned()));
    assert!(text(&output.stdout).starts_with("o.hose: OK"));

    let output = check(&["--against", "node.toml", "--deny-warnings"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).ends_with("anabranch: 2 warnings in the objectives\n"));
    let output = check(&["--against", "node.toml", "--json"]);
    let row: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&row["warnings"], &row["errors"]), (&2.into(), &0.into()));
    assert_eq!(row["diagnostics"][1]["severity"], "warning");

    // Several sources add up; a session needs a node.
    let more =
        "[[stream]]\nlabel = \"vidoe\"\n[[interface]]\non = \"eth0\"\ntechnology = \"fibre\"\n";
    fs::write(folder.path().join("more.toml"), more).unwrap();
    let both = ["--against", "node.toml", "--against", "more.toml"];
    assert_eq!(text_of(&check(&both)), (Some(0), String::new()));
    for (source, code) in [("none.toml", 6), ("o.hose", 2), ("session-0", 3)] {
        let output = check(&["--against", source, "--control", "none.sock"]);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    }
}

/// Exit code and messages.
fn text_of(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), text(&output.stderr))
}

#[test]
fn fmt_rewrites_checks_and_filters() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.hose");
    let loose = "objective{context{adu:a{true}}goal{true}utility{a{1}}}";
    fs::write(&file, loose).unwrap();
    let output = run(folder.path(), &["fmt", "--check", "x.hose"], "");
    assert_eq!(
        (output.status.code(), text(&output.stdout).trim()),
        (Some(1), "x.hose")
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), loose);
    assert_eq!(
        run(folder.path(), &["fmt", "x.hose"], "").status.code(),
        Some(0)
    );
    let formatted = fs::read_to_string(&file).unwrap();
    assert!(
        formatted.starts_with("objective {\n  context { adu:a { true } }\n"),
        "{formatted}"
    );
    assert_eq!(
        run(folder.path(), &["fmt", "--check", "x.hose"], "")
            .status
            .code(),
        Some(0)
    );
    assert_eq!(
        text(&run(folder.path(), &["fmt", "-"], loose).stdout),
        formatted
    );
    assert_eq!(
        run(folder.path(), &["fmt", "-"], "objective {")
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn eval_reports_scores_and_their_reasons() {
    let arguments = ["eval", "s4.hose", "--schedule", "schedule.json"];
    let output = run(&samples(), &arguments, "");
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(said.starts_with("utility 4870\n"), "{said}");
    assert!(
        said.contains("its goal is met in 10 of 16 contexts"),
        "{said}"
    );
    assert!(
        said.contains("foo = stream 3 #1: 100; expected(foo::latency) <= 700 (600, 700)"),
        "{said}"
    );

    let output = run(
        &samples(),
        &[arguments.as_slice(), &["--json"]].concat(),
        "",
    );
    let row: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&row["utility"], row["objectives"].as_array().unwrap().len()),
        (&4870.0.into(), 4)
    );

    let output = run(
        &samples(),
        &["eval", "x1.hose", "--schedule", "-"],
        "{\"slots\": [{\"loss\": 3}]}",
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("slots[0]: 'loss' is 3"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn the_library_is_listed_shown_and_checked_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["list"], "");
    let said = text(&output.stdout);
    for usage in [
        "low_latency(label, ms)",
        "keep_whole(label, field, [type])",
        "avoid_metered",
    ] {
        assert!(said.contains(usage), "{said}");
    }
    let output = run(folder.path(), &["list", "--json"], "");
    let rows: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (rows.len(), &rows[2]["parameters"][1]["name"]),
        (5, &Value::from("ms"))
    );

    // With parameters, what is shown is a file of objectives.
    let shown = run(folder.path(), &["show", "low_latency(voice, 150)"], "");
    fs::write(folder.path().join("shown.hose"), &shown.stdout).unwrap();
    let checks = ["check", "fmt"].map(|what| {
        let arguments: &[&str] = if what == "fmt" {
            &["fmt", "--check", "shown.hose"]
        } else {
            &["check", "shown.hose"]
        };
        run(folder.path(), arguments, "").status.code()
    });
    assert_eq!(checks, [Some(0), Some(0)], "{}", text(&shown.stdout));
    let alone = text(&run(folder.path(), &["show", "newest_first"], "").stdout);
    assert!(
        alone.starts_with("// $label: the label of a stream")
            && alone.contains("label == \"$label\""),
        "{alone}"
    );

    let named = run(
        folder.path(),
        &["check", "keep_whole(video, group); avoid_metered"],
        "",
    );
    assert!(text(&named.stdout).ends_with(
        "OK: 2 single-message objectives, 1 over several messages, 0 over streams; 0 rates\n"
    ));
    fs::write(
        folder.path().join("names.hose"),
        "// Of the clinic.\nlow_latency(voice, 150)\nnewest_first(position)\n",
    )
    .unwrap();
    assert_eq!(
        run(folder.path(), &["check", "names.hose"], "")
            .status
            .code(),
        Some(0)
    );
    for (arguments, help) in [
        (
            ["show", "low_latncy"],
            "did you mean 'low_latency(label, ms)'?",
        ),
        (
            ["show", "low_latency(voice, soon)"],
            "ms is a number of milliseconds, above 0",
        ),
        (["show", "a b"], "'anabranch hose list' prints all"),
        (["check", "newest_first()"], "write newest_first(label)"),
        (
            ["check", "newest_first.hose"],
            "cannot read newest_first.hose",
        ),
    ] {
        let output = run(folder.path(), &arguments, "");
        let said = text(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(2 | 6)) && said.contains(help),
            "{said}"
        );
    }
}

/// Two nodes; the first follows an objective about the stream `voice`, on which somebody writes a message every few milliseconds.
#[test]
fn a_plan_of_a_running_node_is_explained_and_evaluated_again() {
    let folder = private_folder();
    let at = folder.path();
    let listen = free_port();
    let may = format!(
        "[[peer]]\nname = \"near\"\nnode = \"{}\"\nmay = [\"call\", {{ right = \"use-service\", services = [\"voice\"] }}]\n",
        id(1)
    );
    let _far = start(at, 2, &[listen], &may);
    let follows = format!(
        "[session]\npolicy = \"assign\"\nobjectives = \"low_latency(voice, 500)\"\n\
         [[peer]]\nname = \"far\"\nnode = \"{}\"\nmay = []\naddresses = [\"{listen}\"]\n",
        id(2)
    );
    let _near = start(at, 1, &[free_port()], &follows);
    let explain = |arguments: &[&str]| {
        let all = [&["explain", "--control", "1.sock"], arguments].concat();
        run(at, &all, "")
    };
    // Nothing is sent, and this session does not plan.
    let late = explain(&["--within", "1 ms"]);
    assert_eq!(late.status.code(), Some(1));
    let other = run(at, &["explain", "--control", "2.sock"], "");
    let said = text(&other.stderr);
    assert!(
        other.status.code() == Some(1) && said.contains("nothing is planned"),
        "{said}"
    );
    // Its output is not read: the pipe holds what is said here.
    let _accepting = accept(at, &["voice"]);
    let open = ["stream", "open", "far", "voice", "--local", "1.local"];
    let (_open, mut input) = Running::start_writing(command(at).args(open));
    let speaking = std::thread::spawn(move || {
        while writeln!(input, "word").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    });
    let shown = explain(&["--within", "60 s", "--save", "cycle.json"]);
    let said = text(&shown.stdout);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    for part in [
        "policy assign: ",
        "CHANNEL",
        "#",
        "(voice, 4 B, waits ",
        "→ ",
        "not sent: worth ",
        "low_latency: ",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // The same, from the file; and under another objective.
    let again = ["eval", "--schedule", "cycle.json", "--alternatives", "10"];
    let again = run(at, &again, "");
    assert!(again.status.success(), "{}", text(&again.stderr));
    let utility = |said: &str| {
        let (_, after) = said.split_once("utility ").unwrap();
        after.lines().next().unwrap().to_owned()
    };
    assert_eq!(utility(&text(&again.stdout)), utility(&said));
    let other = ["eval", "avoid_metered", "--schedule", "cycle.json"];
    let other = run(at, &[&other[..], &["--json"]].concat(), "");
    let result: Value = serde_json::from_slice(&other.stdout).unwrap();
    assert_eq!(result["objectives"][0]["name"], "avoid_metered");
    // As JSON, with the plan itself.
    let shown = explain(&["--within", "60 s", "--json"]);
    let answer: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let row = &answer["rows"][0];
    assert_eq!(row["schedule"]["adus"][0]["label"], "voice");
    assert_eq!(row["alternatives"][0]["choices"][0]["difference"], 0.0);
    assert!(row["explanation"]["utility"].as_f64() > Some(0.0));
    drop(_open);
    speaking.join().unwrap();
}

#[test]
fn a_schedule_without_objectives_needs_a_file_of_them() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.json"), "{}").unwrap();
    let output = run(folder.path(), &["eval", "--schedule", "s.json"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("s.json holds none"));
    fs::write(folder.path().join("s.json"), "{\"slots\": 5}").unwrap();
    let output = run(folder.path(), &["eval", "--schedule", "s.json"], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("s.json: not a schedule"));
}
