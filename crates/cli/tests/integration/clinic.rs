//! `anabranch clinic`: an ambulance and a hospital, which is killed and started again.

use std::{fs, path::Path};

use crate::harness::{Running, command, private_folder, signal};

mod outage;

/// Frames per second, and seconds of the record.
const FREQUENCY: usize = 250;
const SECONDS: usize = 6;

/// A record of two leads in one file, and a third in a file that is missing; returns the bytes of the file.
fn record(folder: &Path) -> Vec<u8> {
    let samples = (0..FREQUENCY * SECONDS).flat_map(|frame| [frame as i16, !(frame as i16)]);
    let bytes: Vec<u8> = samples.flat_map(i16::to_le_bytes).collect();
    fs::write(folder.join("r.dat"), &bytes).unwrap();
    let header = format!(
        "r 3 {FREQUENCY} {}\nr.dat 16 200 16 0 0\nr.dat 16 200 16 0 -1\nr.xyz 16 200 16 0 0 0 0 vz\n",
        FREQUENCY * SECONDS
    );
    fs::write(folder.join("r.hea"), header).unwrap();
    bytes
}

/// A hospital with a key of its own, and its ticket.
fn hospital(folder: &Path) -> (Running, String) {
    let words = [
        "clinic",
        "hospital",
        "--store",
        "store",
        "--key",
        "hospital.key",
        "--json",
    ];
    let mut hospital = Running::start(command(folder).args(words));
    let ticket = hospital.event("serving")["ticket"]
        .as_str()
        .unwrap()
        .to_owned();
    (hospital, ticket)
}

#[test]
fn a_hospital_that_is_killed_goes_on_with_the_same_record() {
    let folder = private_folder();
    let at = folder.path();
    let samples = record(at);
    fs::create_dir(at.join("stills")).unwrap();
    fs::write(at.join("stills/a.jpg"), [7; 100_000]).unwrap();
    let (mut first, ticket) = hospital(at);
    fs::write(at.join("ticket"), &ticket).unwrap();
    let words = [
        "clinic",
        "ambulance",
        "--ticket-file",
        "ticket",
        "--key",
        "ambulance.key",
        "--consent",
        "yes",
    ];
    let more = ["--ekg", "r.hea", "--stills", "stills", "--json"];
    let mut ambulance = Running::start(command(at).args(words).args(more));
    let left_out = ambulance.event("left_out");
    assert_eq!(
        (&left_out["file"], &left_out["leads"][0]),
        (&"r.xyz".into(), &"vz".into())
    );
    assert_eq!(ambulance.event("begun")["next"], 0);
    first.event("vital");
    signal(first.id(), "KILL");
    while !first.line().is_empty() {}
    let (mut second, again) = hospital(at);
    assert_eq!(again, ticket);
    assert!(second.event("ekg")["next"].as_u64().unwrap() > 0);
    assert!(ambulance.event("begun")["next"].as_u64().unwrap() > 0);
    let case = whole(at, [&mut second, &mut ambulance], &samples);
    assert_eq!(
        fs::read(case.join("stills/0000-a.jpg")).unwrap(),
        [7; 100_000]
    );
}

/// Waits until both sides have ended the record, which is whole; returns the folder of its case.
fn whole(
    at: &Path,
    [hospital, ambulance]: [&mut Running; 2],
    samples: &[u8],
) -> std::path::PathBuf {
    let ended = hospital.event("ended");
    let frames = FREQUENCY * SECONDS;
    assert_eq!(
        (&ended["frames"], &ended["missing"]),
        (&frames.into(), &0.into())
    );
    assert_eq!(ambulance.event("ended")["held"], frames);
    while !ambulance.line().is_empty() {}
    let case = second_folder(at);
    assert_eq!(fs::read(case.join("ekg.dat")).unwrap(), samples);
    case
}

/// The only case in the store.
fn second_folder(at: &Path) -> std::path::PathBuf {
    let entries = fs::read_dir(at.join("store")).unwrap();
    let mut folders = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir());
    let case = folders.next().unwrap();
    assert!(folders.next().is_none(), "one case");
    case
}

#[test]
fn what_cannot_be_sent_is_one_line() {
    let folder = private_folder();
    let at = folder.path();
    record(at);
    let fails = |words: &[&str]| {
        let mut ambulance = command(at);
        let output = ambulance
            .args(["clinic", "ambulance", "--consent", "no"])
            .args(words)
            .output()
            .unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(message.lines().count(), 1, "{message}");
        (output.status.code().unwrap(), message)
    };
    let (code, message) = fails(&["--ekg", "r.hea"]);
    assert_eq!(code, 2);
    assert!(message.contains("no ticket"), "{message}");
    let (_running, ticket) = hospital(at);
    let (code, message) = fails(&[&ticket]);
    assert_eq!(code, 2);
    assert!(message.contains("nothing to send"), "{message}");
    let unasked = command(at)
        .args(["clinic", "ambulance", &ticket, "--ekg", "r.hea"])
        .output()
        .unwrap();
    let message = String::from_utf8(unasked.stderr).unwrap();
    assert_eq!(
        (unasked.status.code(), message.lines().count()),
        (Some(2), 1)
    );
    assert!(message.contains("say with --consent"), "{message}");
    fs::write(at.join("r.dat"), [0; 100]).unwrap();
    let (code, message) = fails(&[&ticket, "--ekg", "r.hea"]);
    assert_eq!(code, 6);
    assert!(
        message.contains("r.dat holds 25 samples of each lead, and the header states 1500"),
        "{message}"
    );
    let (code, message) = fails(&[&ticket, "--ekg", "none.hea"]);
    assert_eq!(code, 6);
    assert!(message.contains("none.hea"), "{message}");
    let (code, message) = fails(&[&ticket, "--ekg", "r.hea", "--objectives", "none.hose"]);
    assert_eq!(code, 6);
    assert!(
        message.contains("cannot read objectives none.hose"),
        "{message}"
    );
}

/// A page is for this machine; others get it from a web server here that adds TLS, by a link under its name.
#[test]
fn a_page_for_other_machines_needs_a_web_server_with_tls() {
    let folder = private_folder();
    let at = folder.path();
    let words = ["clinic", "hospital", "--store", "store", "--key", "key"];
    let fails = |more: &[&str]| {
        let output = command(at).args(words).args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let message = fails(&["--http", "0.0.0.0:0"]);
    assert_eq!(message.lines().count(), 1, "{message}");
    for words in [
        "addresses of this machine only",
        "ssh -L",
        "a web server on this machine that adds TLS, with --http-name",
    ] {
        assert!(message.contains(words), "{message}");
    }
    let message = fails(&["--http-name", "ward.example"]);
    assert!(message.contains("--http"), "{message}");
    let message = fails(&["--http", "--http-name", "https://ward.example"]);
    assert!(message.contains("such as ward.example"), "{message}");
    let page = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--json"];
    let name = ["--http-name", "ward.example:8443"];
    let mut hospital = Running::start(command(at).args(words).args(page).args(name));
    let listening = hospital.event("listening");
    let link = listening["link"].as_str().unwrap();
    assert!(
        link.starts_with("https://ward.example:8443/#token="),
        "{link}"
    );
    let own = listening["at"].as_str().unwrap();
    assert!(own.starts_with("127.0.0.1:"), "{own}");
}

/// A video that is none fails in one line; a file beside it arrives, and the exit code tells that something is missing.
#[test]
fn a_part_that_fails_leaves_the_others_alone() {
    let folder = private_folder();
    let at = folder.path();
    fs::create_dir(at.join("stills")).unwrap();
    fs::write(at.join("stills/a.jpg"), [7; 1_000]).unwrap();
    // An access unit of a B picture.
    let slice = [0, 0, 0, 1, 0x01, 0xa8, 0x80];
    let sets: &[u8] = &[0, 0, 0, 1, 0x67, 66, 0, 30, 0x80, 7, 0, 0, 0, 1, 0x68, 0xc0];
    fs::write(at.join("b.h264"), [sets, &slice, &slice].concat()).unwrap();
    let (_running, ticket) = hospital(at);
    let output = command(at)
        .args(["clinic", "ambulance", &ticket, "--key", "ambulance.key"])
        .args(["--consent", "2 days"])
        .args(["--video", "b.h264", "--stills", "stills"])
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(7), "{errors}");
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 2, "{errors}");
    assert!(lines[0].contains("B pictures"), "{errors}");
    assert!(lines[1].contains("not all was sent: video"), "{errors}");
    let kept = second_folder(at).join("stills/0000-a.jpg");
    assert_eq!(fs::read(kept).unwrap(), [7; 1_000]);
}

#[test]
fn an_ambulance_takes_objectives_by_name() {
    let folder = private_folder();
    let at = folder.path();
    let samples = record(at);
    let (_running, ticket) = hospital(at);
    let send = |objectives: &str| {
        let output = command(at)
            .args(["clinic", "ambulance", &ticket, "--key", "ambulance.key"])
            .args(["--consent", "2 days", "--ekg", "r.hea"])
            .args(["--objectives", objectives])
            .output()
            .unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), errors)
    };
    let (code, errors) = send("keep_hole(\"clinic/1/video\", \"group\")");
    assert_eq!(code, 2, "{errors}");
    let help = "did you mean 'keep_whole(label, field, [type])'?";
    assert!(errors.contains(help), "{errors}");
    let named =
        "keep_whole(\"clinic/1/video\", \"group\"); low_latency(\"clinic/1/speech_up\", 400)";
    let (code, errors) = send(named);
    assert_eq!(code, 0, "{errors}");
    let kept = second_folder(at).join("ekg.dat");
    assert_eq!(fs::read(kept).unwrap(), samples);
}

/// The ambulance's node carries the case beside whatever else it carries, and without one there is a word about it.
#[test]
fn an_ambulance_sends_over_the_paths_of_a_running_node() {
    let folder = private_folder();
    let at = folder.path();
    let samples = record(at);
    let (mut hospital, ticket) = hospital(at);
    fs::write(at.join("ticket"), &ticket).unwrap();
    let words = ["clinic", "ambulance", "--ticket-file", "ticket", "--attach"];
    let more = [
        "--local",
        "node.local",
        "--consent",
        "yes",
        "--ekg",
        "r.hea",
    ];
    let missing = command(at).args(words).args(more).output().unwrap();
    assert_eq!(missing.status.code(), Some(3), "there is no node");
    let both = command(at)
        .args(words)
        .args(more)
        .args(["--policy", "assign"])
        .output()
        .unwrap();
    assert_eq!(both.status.code(), Some(2), "the node has its own policy");
    let text = "key = \"node.key\"\nlisten = [\"0.0.0.0:0\"]\ncontrol = \"node.sock\"\nlocal = \"node.local\"\n";
    fs::write(at.join("node.toml"), text).unwrap();
    let made = command(at)
        .args(["keygen", "--key", "node.key"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut node = Running::start(command(at).args(["node", "--config", "node.toml"]));
    let line = node.line();
    assert!(line.starts_with("node "), "{line}");
    let mut ambulance = Running::start(command(at).args(words).args(more).arg("--json"));
    whole(at, [&mut hospital, &mut ambulance], &samples);
}
