//! Simulations that stop for a while, and simulations that change.

use std::{
    io::{Read, Write},
    time::Duration,
};

use anabranch_visualise::imd::{ByteOrder, Command, Sections};

use super::{ATOMS, Setting, expect, frame, info, to_end};

const WATCH: &str = "\"imd/1/watch/adk\"";

/// Limits of the source and of the viewer have tests in virtual time; this is for the nodes between them.
const PAUSE: Duration = Duration::from_secs(5);

#[test]
fn a_simulation_that_stops_within_a_frame_goes_on() {
    let mut setting = Setting::start(WATCH, &["--once"], &["--once"]);
    let sections = Sections::ALL;
    let mut simulation = setting.begin(sections, ByteOrder::Little);
    expect(&mut simulation, Command::Go);
    let (client, announced) = setting.client(0);
    assert_eq!(announced, info(sections, ByteOrder::Little));
    let packets = |number| frame(sections, ATOMS, number).packets(sections);
    let [before, stopped, after] = [0, 1, 2].map(packets);
    simulation.write_all(&before).unwrap();
    let (half, rest) = stopped.split_at(stopped.len() / 2);
    simulation.write_all(half).unwrap();
    std::thread::sleep(PAUSE);
    simulation.write_all(rest).unwrap();
    simulation.write_all(&after).unwrap();
    drop(simulation);
    let read = to_end(client);
    let expected = [before, stopped, after].concat();
    assert!(
        read == expected,
        "{} of {} bytes",
        read.len(),
        expected.len()
    );
    // One session, in which nothing is missing.
    for ended in [setting.source.event("ended"), setting.viewer.event("ended")] {
        let why = ended["why"].as_str().unwrap();
        assert!(why.contains("closed the connection"), "{ended}");
    }
}

#[test]
fn clients_of_a_simulation_that_grows_come_again() {
    let mut setting = Setting::start(WATCH, &[], &[]);
    let sections = "time+positions".parse().unwrap();
    let mut simulation = setting.begin(sections, ByteOrder::Little);
    expect(&mut simulation, Command::Go);
    let packets = |atoms, number| frame(sections, atoms, number).packets(sections);
    let (mut client, _) = setting.client(0);
    for number in 0..2 {
        let expected = packets(5, number);
        simulation.write_all(&expected).unwrap();
        let mut read = vec![0; expected.len()];
        client.read_exact(&mut read).unwrap();
        assert!(read == expected, "frame {number}");
    }
    // Clients of IMDv3 allocate once: this is another session.
    let larger = packets(7, 2);
    simulation.write_all(&larger).unwrap();
    assert!(to_end(client).is_empty());
    let ended = setting.viewer.event("ended");
    let why = ended["why"].as_str().unwrap();
    assert!(why.contains("from 5 atoms to 7"), "{ended}");
    let (mut client, announced) = setting.client(0);
    assert_eq!(announced, info(sections, ByteOrder::Little));
    // Whether a viewer came in time for the first one depends on the machine.
    simulation.write_all(&larger).unwrap();
    let mut read = vec![0; larger.len()];
    client.read_exact(&mut read).unwrap();
    assert!(read == larger);
}
