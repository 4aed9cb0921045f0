//! The first example of the guide to objectives, run as it stands there: files, commands, effect.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::UdpSocket,
    path::Path,
    process::{Command, Output, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::harness::{Terminated, free_port, isolate};

const GUIDE: &str = include_str!("../../../../docs/hose.md");
const HEADING: &str = "## A drone, in ten minutes\n";
/// Ports of the guide, which others may use on this machine.
const PORTS: [&str; 4] = ["7100", "7101", "7102", "7200"];

/// Fenced blocks of the section: the words after the fence, and the content.
fn blocks() -> Vec<(Vec<&'static str>, &'static str)> {
    let section = GUIDE.split_once(HEADING).expect("the section").1;
    let section = section.split("\n## ").next().unwrap_or(section);
    let inside = section.split("```").skip(1).step_by(2);
    let block = |text: &'static str| {
        let (head, body) = text.split_once('\n').expect("a line for the fence");
        (head.split_whitespace().collect(), body)
    };
    inside.map(block).collect()
}

/// A command of the guide, killed soon after the test if it does not end.
fn shell(folder: &Path, line: &str) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_anabranch"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    let mut command = Command::new("timeout");
    command
        .args(["-k", "5", "120", "sh", "-c", line])
        .stdin(Stdio::null());
    isolate(&mut command, folder).env("PATH", path);
    command
}

/// Starts a command; waits for its first line, unless it sends on a stream, which prints none.
fn start(folder: &Path, line: &str) -> Terminated {
    // A pipe for standard input, because `emulate` reads commands from it.
    let mut child = shell(folder, &format!("{{ {line} ; }} 2>&1"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Nobody waits any more.
            let _ = ready.send(line);
        }
    });
    let running = Terminated(child);
    if !line.contains("stream open") {
        let first = is_ready.recv_timeout(Duration::from_secs(60));
        first.unwrap_or_else(|_| panic!("`{line}` is not ready"));
    }
    running
}

fn run(folder: &Path, line: &str) -> Output {
    let output = shell(folder, line).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "`{line}`: {errors}");
    output
}

fn rows(folder: &Path, line: &str) -> Vec<Value> {
    let output = run(folder, &format!("{line} --json"));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    answer["rows"].as_array().cloned().unwrap_or_default()
}

/// Waits until both paths of the drone are in use.
fn wait_for_paths(folder: &Path) {
    let until = Instant::now() + Duration::from_secs(60);
    let active = || {
        let paths = rows(folder, "anabranch paths --control drone.sock");
        paths.iter().filter(|row| row["state"] == "active").count()
    };
    while active() < 2 {
        assert!(Instant::now() < until, "the drone has no session");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_guide_runs_as_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let ports = PORTS.map(|_| free_port_of_both().to_string());
    let own = |text: &str| {
        // In two steps: the digits of one of them may contain those of the next.
        let mark = |at: usize| format!("<port {at}>");
        let marked = PORTS.iter().enumerate();
        let marked = marked.fold(text.to_owned(), |text, (at, port)| {
            text.replace(port, &mark(at))
        });
        let all = ports.iter().enumerate();
        all.fold(marked, |text, (at, own)| text.replace(&mark(at), own))
    };
    let mut commands = Vec::new();
    let mut files = 0;
    for (words, body) in blocks() {
        match words[..] {
            ["console"] => commands.extend(body.lines().filter_map(|line| line.strip_prefix("$ "))),
            [_, name] => {
                fs::write(folder.join(name), own(body)).unwrap();
                files += 1;
            }
            _ => panic!("{words:?}"),
        }
    }
    assert_eq!(files, 5);
    let commands: Vec<String> = commands.into_iter().map(own).collect();

    let mut running = Vec::new();
    for line in &commands {
        match line.strip_suffix(" &") {
            Some(line) => running.push(start(folder, line)),
            None if line.starts_with("anabranch paths") => {
                wait_for_paths(folder);
                run(folder, line);
            }
            // What is listed is looked at below, once everything has been sent.
            None => drop(run(folder, line)),
        }
    }
    // Those that send or accept one stream end by themselves.
    for (child, line) in running
        .iter_mut()
        .zip(commands.iter().filter(|line| line.ends_with('&')))
    {
        if line.contains("stream") {
            let status = child.0.wait().unwrap();
            // Late frames are lost, which is no failure.
            assert!(status.success(), "`{line}`: {status}");
        }
    }

    let lines = |name: &str| {
        fs::read_to_string(folder.join(name))
            .unwrap()
            .lines()
            .count()
    };
    assert_eq!((lines("telemetry.log"), lines("commands.log")), (100, 100));
    assert!(lines("video.log") > 0);
    let tally = |node: &str, name: &str| -> (u64, u64, f64) {
        let line = format!("anabranch objective list --control {node}.sock");
        let rows = rows(folder, &line);
        let row = rows.iter().find(|row| row["name"] == name).unwrap();
        let number = |key: &str| row[key].as_f64().unwrap();
        let counts = ["contexts", "contexts_met"].map(|key| number(key) as u64);
        (counts[0], counts[1], number("utility"))
    };
    let (contexts, met, utility) = tally("ground", "commands_early");
    assert!(
        contexts >= 90 && met > 0 && utility > 0.0,
        "{contexts}, {met}"
    );
    assert_eq!(tally("drone", "commands_early").0, 0);
    // Telemetry was sent, and none of it by LTE.
    let (contexts, met, _) = tally("drone", "telemetry_gives_way");
    assert!(contexts >= 90 && met == 0, "{contexts}, {met}");
    for name in ["key_frames_safe", "frames_early"] {
        let (contexts, met, utility) = tally("drone", name);
        assert!(contexts > 0 && met > 0 && utility > 0.0, "{name}");
    }
    check_against_session(folder);
}

/// Against the drone's session, once all its streams are over: labels are gone; what is known of fields and channels stays.
fn check_against_session(folder: &Path) {
    let check = "anabranch hose check drone.hose --against session-0 --control drone.sock";
    let errors = String::from_utf8(run(folder, check).stderr).unwrap();
    let label = "nothing provides the label 'commands'";
    assert!(errors.contains(label), "{errors}");
    for known in ["field 'frame'", "technology 'lte'"] {
        assert!(!errors.contains(known), "{errors}");
    }
    let denied = shell(folder, &format!("{check} --deny-warnings")).output();
    assert_eq!(denied.unwrap().status.code(), Some(2));
}

/// A port of the loopback addresses of both families that is free, and stays so.
fn free_port_of_both() -> u16 {
    for _ in 0..100 {
        let port = free_port().port();
        if UdpSocket::bind(("::1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free at 127.0.0.1 and ::1; the guide needs both");
}
