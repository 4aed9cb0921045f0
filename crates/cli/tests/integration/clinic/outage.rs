//! Outages of all paths between an ambulance and its hospital: what the ambulance holds back arrives later, and what it could not hold is a hole.

use std::{fs, io::Write as _, ops::Range, thread::sleep, time::Duration};

use serde_json::Value;

use super::second_folder;
use crate::harness::{Running, command, private_folder};

const FREQUENCY: usize = 250;
const SECONDS: usize = 66;
/// Longest time that the ambulance holds the record back.
const HELD_S: usize = 30;
/// Seconds of the record at which both paths are down: for less than that, and for longer.
const SHORT: [usize; 2] = [3, 11];
const LONG: [usize; 2] = [16, 54];
/// Marks a sample that is not there.
const INVALID: i16 = i16::MIN;

/// A record of one lead, in which each sample is a number of its own.
fn samples() -> Vec<i16> {
    (0..(FREQUENCY * SECONDS) as i16).collect()
}

/// Holes that a hospital reports until the record has ended, parts of one joined; and its end.
fn holes_and_end(hospital: &mut Running) -> (Vec<Range<usize>>, Value) {
    let mut holes: Vec<Range<usize>> = Vec::new();
    loop {
        let event: Value = serde_json::from_str(&hospital.line()).unwrap();
        let number = |name: &str| event[name].as_u64().unwrap() as usize;
        match event["kind"].as_str().unwrap() {
            "ended" => return (holes, event),
            "hole" => {
                let first = number("first");
                let end = first + number("frames");
                match holes.last_mut().filter(|last| last.end == first) {
                    Some(last) => last.end = end,
                    None => holes.push(first..end),
                }
            }
            _ => {}
        }
    }
}

/// The record is identical but for what is listed, which begins with the long outage; both sides state how much it is.
#[test]
fn what_the_ambulance_could_not_hold_is_listed() {
    let folder = private_folder();
    let at = folder.path();
    let bytes: Vec<u8> = samples().into_iter().flat_map(i16::to_le_bytes).collect();
    fs::write(at.join("r.dat"), bytes).unwrap();
    let frames = FREQUENCY * SECONDS;
    let header = format!("r 1 {FREQUENCY} {frames}\nr.dat 16 200 16 0 0\n");
    fs::write(at.join("r.hea"), header).unwrap();
    let words = ["clinic", "hospital", "--store", "store", "--json"];
    let own = ["--key", "hospital.key", "--listen", "127.0.0.1:0"];
    let mut hospital = Running::start(command(at).args(words).args(own));
    let ticket = hospital.event("serving")["ticket"]
        .as_str()
        .unwrap()
        .to_owned();
    let (fixed, address) = ticket.split_at(ticket.rfind("127.0.0.1:").unwrap());
    let mut emulate = command(at);
    emulate.args(["emulate", "--json", "--target", address]);
    emulate.args(["--path", "a: rate=5 Mbit/s, delay=20 ms"]);
    emulate.args(["--path", "b: rate=2 Mbit/s, delay=50 ms"]);
    let (mut emulator, mut orders) = Running::start_writing(&mut emulate);
    let ends = [(); 2].map(|()| {
        emulator.event("listening")["at"]
            .as_str()
            .unwrap()
            .to_owned()
    });
    let mut both = |order: &str| writeln!(orders, "{order} a\n{order} b").unwrap();
    let ticket = format!("{fixed}{}", ends.join(","));
    let words = ["clinic", "ambulance", &ticket, "--ekg", "r.hea", "--json"];
    let own = ["--key", "ambulance.key", "--consent", "yes"];
    let bind = ["--bind", "127.0.0.1:0"];
    let mut ambulance = Running::start(command(at).args(words).args(own).args(bind));
    assert_eq!(ambulance.event("begun")["next"], 0);
    let mut before = 0;
    for outage in [SHORT, LONG] {
        let [down, up] = outage.map(|second| second as u64);
        sleep(Duration::from_secs(down - before));
        both("down");
        sleep(Duration::from_secs(up - down));
        both("up");
        before = up;
    }
    let (holes, ended) = holes_and_end(&mut hospital);
    let missing: usize = holes.iter().map(Range::len).sum();
    assert_eq!(
        (&ended["frames"], &ended["missing"]),
        (&frames.into(), &missing.into())
    );
    // Some of what was on its way when the paths went down may have arrived. The machine may be busy, and calling again takes its time.
    let (begin, end) = (holes[0].start, holes[holes.len() - 1].end);
    assert!(begin / FREQUENCY >= LONG[0] - 2, "{holes:?}");
    assert!(
        end / FREQUENCY <= LONG[1] - HELD_S + 15 && end / FREQUENCY >= LONG[1] - HELD_S - 2,
        "{holes:?}"
    );
    assert_eq!(ambulance.event("ended")["held"], frames - missing);
    assert_eq!(ambulance.ended(), Some(7));
    let kept = fs::read(second_folder(at).join("ekg.dat")).unwrap();
    let kept: Vec<i16> = kept
        .chunks_exact(2)
        .map(|two| i16::from_le_bytes([two[0], two[1]]))
        .collect();
    let mut expected = samples();
    for hole in &holes {
        expected[hole.clone()].fill(INVALID);
    }
    assert!(kept == expected, "{holes:?}: {} samples", kept.len());
}
