//! Energies, which are of a few bytes and come before all others.

use std::{
    io::{Read, Write},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anabranch_visualise::imd::{ByteOrder, Command, Sections};

use super::{ATOMS, ON_THEIR_WAY, Setting, expect, frame};

/// Frames of the simulation, more than twice what the source holds for a stream.
const FRAMES: usize = 600;

#[test]
fn energies_arrive_complete_while_others_skip_frames() {
    // A path of a known rate: a frame takes it two seconds.
    let slow = "[channel]\ncontroller = \"fixed 500 kbit/s\"\n";
    let small: Sections = "time+energies".parse().unwrap();
    let endpoint = format!("127.0.0.1:0={small}");
    let asking = ["--promise", "none"];
    let serving = ["--once", "--serve", &endpoint];
    let mut setting = Setting::with("\"imd/1/watch/adk\"", slow, &asking, &serving);
    let mut simulation = setting.begin(Sections::ALL, ByteOrder::Little);
    expect(&mut simulation, Command::Go);
    let (mut energies, announced) = setting.client(2);
    assert_eq!(announced.sections, small);
    let packets = |number: usize, of: Sections| frame(Sections::ALL, ATOMS, number).packets(of);
    let arrived = Arc::new(AtomicUsize::new(0));
    let sending = std::thread::spawn({
        let arrived = arrived.clone();
        move || {
            for number in 0..FRAMES {
                while number >= arrived.load(Ordering::Relaxed) + ON_THEIR_WAY {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let packets = packets(number, Sections::ALL);
                simulation.write_all(&packets).unwrap();
            }
            simulation
        }
    });
    let mut read = packets(0, small).to_vec();
    for number in 0..FRAMES {
        energies.read_exact(&mut read).unwrap();
        assert!(read == packets(number, small), "frame {number}");
        arrived.store(number + 1, Ordering::Relaxed);
    }
    let _simulation = sending.join().unwrap();
    setting.viewer.interrupt();
    for _ in 0..4 {
        let left = setting.source.event("left");
        let skipped = left["skipped"].as_u64().unwrap();
        let is_small = left["sections"] == small.to_string();
        assert_eq!(skipped == 0, is_small, "{left}");
    }
}
