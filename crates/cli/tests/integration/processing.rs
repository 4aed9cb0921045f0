//! `anabranch process`: a processing node, sources and subscribers.

use std::{
    io::Write,
    path::Path,
    process::{ChildStdin, Command, Stdio},
};

use serde_json::Value;

use crate::harness::{Running, command, private_folder, signal};
use crate::numbered::{id, pair};

const RIGHTS: &str = "\"process/1/*\"";

/// A processing node, a node of sources and subscribers, and the service.
struct Setting {
    service: Running,
    _nodes: [Running; 2],
    folder: tempfile::TempDir,
}

fn serve(at: &Path) -> Running {
    let words = [
        "process", "serve", "--json", "--local", "2.local", "--memory", "64 MiB",
    ];
    let mut service = Running::start(command(at).args(words));
    service.event("serving");
    service
}

impl Setting {
    fn start(services: &str) -> Self {
        let folder = private_folder();
        let nodes = pair(folder.path(), services);
        Self {
            service: serve(folder.path()),
            _nodes: nodes,
            folder,
        }
    }

    /// Kills the service, and starts it again.
    fn restart(&mut self) {
        let id = self.service.id();
        signal(id, "KILL");
        while !self.service.line().is_empty() {}
        self.service = serve(self.folder.path());
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = command(self.folder.path());
        command
            .arg("process")
            .args(words)
            .args(["--at", "far", "--local", "1.local"])
            .stdin(Stdio::piped());
        command
    }

    fn offer(&self, name: &str, more: &[&str]) -> (Running, ChildStdin) {
        let words = ["offer", name, "--for", &id(1), "--as", "json"];
        Running::start_writing(self.command(&words).args(more))
    }

    fn subscribe(&self, name: &str, pipeline: &str, more: &[&str]) -> (Running, ChildStdin) {
        let words = ["subscribe", name, "--pipeline", pipeline, "--as", "json"];
        let (mut subscriber, input) = Running::start_writing(self.command(&words).args(more));
        let begun = subscriber.event("begun");
        assert_eq!(begun["source"], id(1));
        (subscriber, input)
    }

    fn status(&self) -> Vec<Value> {
        let status = self.command(&["status", "--json"]).output().unwrap();
        let rows = String::from_utf8(status.stdout).unwrap();
        let rows = rows.lines().map(|row| serde_json::from_str(row).unwrap());
        rows.collect()
    }

    /// Rows that a node answers a question with.
    fn ask(&self, own: u8, words: &[&str]) -> Vec<Value> {
        let output = command(self.folder.path())
            .args(words)
            .args(["--json", "--control", &format!("{own}.sock")])
            .output()
            .unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        answer["rows"].as_array().unwrap().clone()
    }

    /// What `explain` says at a node of the place where the stream of messages with this purpose is processed. On a busy machine, the processing
    /// node may not answer in time.
    fn explained(&self, own: u8, purpose: &str) -> Value {
        let streams = self.ask(own, &["streams"]);
        let label = format!("process/1/{purpose}/frames/0");
        let stream = streams.iter().find(|row| row["label"] == label);
        let stream = stream.unwrap_or_else(|| panic!("{label} in {streams:?}"));
        let [number, session] = ["stream", "session"].map(|key| stream[key].as_str().unwrap());
        let local = format!("{own}.local");
        let words = ["explain", number, "--session", session, "--local", &local];
        loop {
            let mut rows = self.ask(own, &words).into_iter();
            let row = rows.find(|row| row["kind"] == "processed").unwrap();
            if row["role"] == "processing" || row["subscribers"].is_array() {
                return row;
            }
        }
    }

    /// Runs a command that fails, and returns its exit code and its message.
    fn fails(&self, words: &[&str]) -> (i32, String) {
        let output = self.command(words).stdin(Stdio::null()).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap(), message)
    }
}

/// Writes messages with these numbers, each with its layer.
fn write(input: &mut ChildStdin, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let layer = number % 3;
        writeln!(
            input,
            "{{\"data\": \"m{number}\", \"fields\": {{\"layer\": {layer}}}}}"
        )
        .unwrap();
    }
}

fn sequences(subscriber: &mut Running, count: usize) -> Vec<u64> {
    let adu = |_| {
        let event = subscriber.event("adu");
        let sequence = event["sequence"].as_u64().unwrap();
        assert_eq!(event["data"], format!("m{sequence}"));
        sequence
    };
    (0..count).map(adu).collect()
}

/// The subscriber ends with the source, and receives nothing more.
fn ends(mut subscriber: Running) {
    let mut line = subscriber.line();
    while !line.is_empty() {
        assert!(!line.contains("\"adu\""), "{line}");
        line = subscriber.line();
    }
}

#[test]
fn an_operator_that_panics_costs_its_derivation_only() {
    let mut setting = Setting::start(RIGHTS);
    let (offer, mut input) = setting.offer("frames", &[]);
    let (_other, mut other_input) = setting.offer("others", &[]);
    for _ in 0..2 {
        setting.service.event("offered");
    }
    let (mut panicking, _open) = setting.subscribe("frames", "panic 4", &[]);
    let (mut all, _open_too) = setting.subscribe("frames", "", &[]);
    let (mut other, _open_three) = setting.subscribe("others", "every 2", &[]);
    write(&mut input, 0..20);
    write(&mut other_input, 0..20);
    // What it cannot process is missing there, and nowhere else.
    let rest: Vec<u64> = (0..20).filter(|number| number % 4 != 0).collect();
    assert_eq!(sequences(&mut panicking, 15), rest);
    assert_eq!(sequences(&mut all, 20), (0..20).collect::<Vec<_>>());
    let every = (0..20).step_by(2).collect::<Vec<_>>();
    assert_eq!(sequences(&mut other, 10), every);
    let dropped = loop {
        let event = panicking.event("dropped");
        if event["failed"] == 5 {
            break event;
        }
    };
    assert_eq!(dropped["lost"], 0);
    let why = dropped["why"].as_str().unwrap();
    assert!(
        why.starts_with("step 1, \"panic\", cannot process ADU 16: it panicked (ADU 16 is a"),
        "{why}"
    );
    let rows = setting.status();
    let failures = rows.iter().filter(|row| row["is"] == "derivation");
    let failures: u64 = failures
        .flat_map(|row| row["operators"].as_array().unwrap())
        .map(|operator| operator["failures"].as_u64().unwrap())
        .sum();
    assert_eq!(failures, 5);
    // The node goes on.
    write(&mut input, 20..30);
    assert_eq!(sequences(&mut all, 10), (20..30).collect::<Vec<_>>());
    assert_eq!(sequences(&mut panicking, 7), [21, 22, 23, 25, 26, 27, 29]);
    drop(input);
    ends(all);
    ends(panicking);
    drop(offer);
}

#[test]
fn each_subscriber_gets_what_its_pipeline_derives_and_changes_it_meanwhile() {
    let mut setting = Setting::start(RIGHTS);
    let (offer, mut input) = setting.offer("frames", &[]);
    setting.service.event("offered");
    let (mut fifth, mut changes) = setting.subscribe("frames", "every 5", &[]);
    let (mut base, _open) = setting.subscribe("frames", "where layer == 0", &["--unreliable"]);
    write(&mut input, 0..20);
    assert_eq!(sequences(&mut fifth, 4), [0, 5, 10, 15]);
    assert_eq!(sequences(&mut base, 7), [0, 3, 6, 9, 12, 15, 18]);
    writeln!(changes, "evry 2").unwrap();
    let refused = fifth.event("not_changed")["why"].to_string();
    assert!(
        refused.contains("every") && refused.contains("column 1"),
        "{refused}"
    );
    writeln!(changes, "drop layer 1 then every 2").unwrap();
    assert_eq!(fifth.event("changed")["number"], 1);
    write(&mut input, 20..40);
    // In effect with the first message after the answer.
    let first = fifth.event("adu");
    assert_eq!(
        (&first["sequence"], &first["pipeline"]),
        (&21.into(), &1.into())
    );
    assert_eq!(first["fields"]["layer"], 0.0);
    assert_eq!(sequences(&mut fifth, 3), [27, 33, 39]);
    assert_eq!(sequences(&mut base, 1), [21]);

    let rows = setting.status();
    assert_eq!(
        (&rows[0]["is"], &rows[0]["sources"]),
        (&"service".into(), &1.into())
    );
    assert_eq!(
        (&rows[1]["is"], &rows[1]["adus"]),
        (&"source".into(), &40.into())
    );
    let operators: Vec<&Value> = rows
        .iter()
        .filter(|row| row["is"] == "derivation")
        .flat_map(|row| row["operators"].as_array().unwrap())
        .collect();
    let of = |step: &str| {
        let found = operators.iter().find(|operator| operator["step"] == step);
        found.unwrap_or_else(|| panic!("{step} in {operators:?}"))
    };
    assert_eq!(
        (
            &of("where layer == 0")["adus_in"],
            &of("where layer == 0")["adus_out"]
        ),
        (&40.into(), &14.into())
    );
    assert_eq!(of("every 2")["adus_out"], 4);
    // The end of the source reaches all.
    drop(input);
    assert_eq!(sequences(&mut base, 6), [24, 27, 30, 33, 36, 39]);
    [fifth, base].into_iter().for_each(ends);
    drop(offer);
}

#[test]
fn a_stream_explains_where_it_is_processed_and_how() {
    let mut setting = Setting::start(RIGHTS);
    let (_offer, mut input) = setting.offer("frames", &[]);
    setting.service.event("offered");
    let (mut subscriber, _open) = setting.subscribe("frames", "every 5", &[]);
    write(&mut input, 0..10);
    assert_eq!(sequences(&mut subscriber, 2), [0, 5]);
    for (own, purpose, role) in [
        (1, "offer", "source"),
        (1, "subscribe", "subscriber"),
        (2, "offer", "processing"),
        (2, "subscribe", "processing"),
    ] {
        let row = setting.explained(own, purpose);
        assert_eq!(
            (&row["name"], &row["role"]),
            (&"frames".into(), &role.into()),
            "{row}"
        );
        if own == 2 {
            continue;
        }
        assert_eq!(row["source"], id(1), "{row}");
        let subscribers = row["subscribers"].as_array().unwrap();
        assert_eq!(subscribers.len(), 1, "{row}");
        assert_eq!(
            (&subscribers[0]["node"], &subscribers[0]["pipeline"]),
            (&id(1).into(), &"every 5".into())
        );
    }
}

#[test]
fn viewers_that_stop_reading_cost_no_other_anything() {
    let mut setting = Setting::start(RIGHTS);
    let (_offer, mut input) = setting.offer("frames", &["--live"]);
    setting.service.event("offered");
    let (mut lossy, _open) = setting.subscribe("frames", "every 1", &["--unreliable"]);
    let (reliable, _open_too) = setting.subscribe("frames", "every 1", &[]);
    let (mut other, _open_as_well) = setting.subscribe("frames", "", &[]);
    for stopped in [&lossy, &reliable] {
        signal(stopped.id(), "STOP");
    }
    let padding = "x".repeat(100_000);
    let mut next = 0;
    loop {
        for number in next..next + 50 {
            writeln!(input, "{{\"data\": \"m{number}{padding}\"}}").unwrap();
        }
        for number in next..next + 50 {
            assert_eq!(other.event("adu")["sequence"], number);
        }
        next += 50;
        // A node has half of the memory at most.
        let rows = setting.status();
        assert_eq!(rows[0]["memory_bound"], 64 << 20);
        assert!(rows[0]["memory_used"].as_u64().unwrap() <= 32 << 20);
        if rows.iter().any(|row| row["has_ended"] == true) {
            break;
        }
        assert!(next < 5_000, "{rows:?}");
    }
    // The reliable one has all up to its end.
    for stopped in [&lossy, &reliable] {
        signal(stopped.id(), "CONT");
    }
    let mut expected = 0;
    let mut reliable = reliable;
    while let Some(line) = Some(reliable.line()).filter(|line| !line.is_empty()) {
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["kind"] == "adu" {
            assert_eq!(event["sequence"], expected);
            expected += 1;
        }
    }
    assert!((1..next).contains(&expected), "{expected} of {next}");
    // It has lost the last ones, too, perhaps, and gets what is new.
    write(&mut input, next..next + 50);
    while lossy.event("adu")["sequence"].as_u64() < Some(next) {}
}

#[test]
fn nothing_is_lost_or_repeated_when_the_service_starts_again() {
    let mut setting = Setting::start(RIGHTS);
    let (_offer, mut input) = setting.offer("frames", &[]);
    setting.service.event("offered");
    let (mut third, _open) = setting.subscribe("frames", "every 3", &[]);
    let (mut all, _open_too) = setting.subscribe("frames", "", &[]);
    let mut next = 0;
    let (mut of_third, mut of_all) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        write(&mut input, next..next + 100);
        of_all.extend(sequences(&mut all, 50));
        // Killed while messages are on their way.
        setting.restart();
        next += 100;
        of_all.extend(sequences(&mut all, 50));
        of_third.extend(sequences(
            &mut third,
            next.div_ceil(3) as usize - of_third.len(),
        ));
    }
    assert_eq!(of_all, (0..300).collect::<Vec<_>>());
    assert_eq!(of_third, (0..300).step_by(3).collect::<Vec<_>>());
    drop(input);
    [third, all].into_iter().for_each(ends);
}

#[test]
fn those_without_a_right_and_wrong_requests_are_refused_in_one_line() {
    let mut setting = Setting::start("\"process/1/offer/*\", \"process/1/subscribe/frames/*\"");
    let (_offer, _input) =
        Running::start_writing(&mut setting.command(&["offer", "frames", "--for", &id(2)]));
    setting.service.event("offered");
    for (words, code, says) in [
        (
            &["subscribe", "frames", "--pipeline", "evry 5"][..],
            2,
            "every",
        ),
        (
            &["subscribe", "frames", "--pipeline", "every 5 then"],
            2,
            "column",
        ),
        (&["subscribe", "frames"], 4, "does not let"),
        (&["subscribe", "other"], 4, "grant the right"),
        (&["offer", "frames", "--for", "*"], 4, "is offered already"),
        (
            &["offer", "frames", "--for", "near"],
            2,
            "give the ID of a node",
        ),
        (&["offer", "fra/mes", "--for", "*"], 2, "1 to 64 letters"),
        (&["status"], 4, "grant the right"),
    ] {
        let (found, message) = setting.fails(words);
        assert_eq!(found, code, "{words:?}: {message}");
        assert!(message.contains(says), "{words:?}: {message}");
        assert!(code == 2 || message.lines().count() == 1, "{message}");
    }
}

#[test]
fn without_a_node_here_nothing_is_tried_again() {
    let folder = private_folder();
    for words in [
        &["status"][..],
        &["subscribe", "frames"],
        &["offer", "frames", "--for", "*"],
    ] {
        let output = command(folder.path())
            .arg("process")
            .args(words)
            .args(["--at", "far", "--local", "none.local"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{message}");
        assert!(message.contains("anabranch up"), "{message}");
    }
}
