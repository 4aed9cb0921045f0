//! `anabranch imd`: a stand-in for a simulation, a source beside it, a viewer, and clients that read IMDv3.

mod changes;
mod urgent;

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anabranch_visualise::imd::{ByteOrder, Command, Frame, HELLO_BYTES, Sections, SessionInfo};

use crate::harness::{Running, command, private_folder};
use crate::numbered::pair_with;

const ATOMS: usize = 3_341;

/// Two nodes, a place for a simulation, a source beside it, and a viewer with two endpoints: all sections, and those that are promised. Others
/// follow, if the viewer is asked for them.
struct Setting {
    simulation: TcpListener,
    source: Running,
    viewer: Running,
    endpoints: Vec<SocketAddr>,
    _nodes: [Running; 2],
    _folder: tempfile::TempDir,
}

impl Setting {
    fn start(services: &str, source: &[&str], viewer: &[&str]) -> Self {
        Self::with(services, "", source, viewer)
    }

    /// With `more` in the configuration of the node beside the simulation.
    fn with(services: &str, more: &str, source: &[&str], viewer: &[&str]) -> Self {
        let folder = private_folder();
        let at = folder.path();
        let nodes = pair_with(at, services, more);
        let simulation = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = simulation.local_addr().unwrap().to_string();
        let words = [
            "imd", "source", &address, "--name", "adk", "--json", "--local", "2.local",
        ];
        let mut source = Running::start(command(at).args(words).args(source));
        source.event("serving");
        let words = [
            "imd",
            "viewer",
            "far",
            "--name",
            "adk",
            "--json",
            "--local",
            "1.local",
            "--serve",
            "127.0.0.1:0=all",
            "--serve",
            "127.0.0.1:0=time+box+positions",
        ];
        let mut viewer = Running::start(command(at).args(words).args(viewer));
        let listening = viewer.event("listening");
        let endpoints = listening["endpoints"].as_array().unwrap().iter();
        let endpoints = endpoints.map(|one| one["address"].as_str().unwrap().parse().unwrap());
        Self {
            simulation,
            source,
            viewer,
            endpoints: endpoints.collect(),
            _nodes: nodes,
            _folder: folder,
        }
    }

    /// The source connects to the simulation, which announces these sections.
    fn begin(&self, sections: Sections, order: ByteOrder) -> TcpStream {
        let (mut socket, _) = self.simulation.accept().unwrap();
        let info = info(sections, order);
        socket.write_all(&info.to_bytes()).unwrap();
        socket
    }

    /// A client of an endpoint, which is served when this returns, and the session that is announced to it.
    fn client(&mut self, endpoint: usize) -> (TcpStream, SessionInfo) {
        let mut socket = TcpStream::connect(self.endpoints[endpoint]).unwrap();
        let mut hello = [0; HELLO_BYTES];
        socket.read_exact(&mut hello).unwrap();
        send(&mut socket, Command::Go);
        self.viewer.event("client");
        (socket, SessionInfo::read(&hello).unwrap().unwrap())
    }
}

fn info(sections: Sections, order: ByteOrder) -> SessionInfo {
    SessionInfo {
        order,
        sections,
        is_wrapped: true,
    }
}

fn send(socket: &mut TcpStream, command: Command) {
    socket.write_all(&command.to_bytes()).unwrap();
}

#[track_caller]
fn expect(socket: &mut TcpStream, command: Command) {
    let mut bytes = [0; 8];
    socket.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, command.to_bytes());
}

/// Bytes of every kind, with NaN and infinity among the numbers.
fn frame(sections: Sections, atoms: usize, number: usize) -> Frame {
    let mut frame = Frame::default();
    for section in sections.iter() {
        let bytes = section.fixed_bytes().unwrap_or(12 * atoms);
        let seed = 31 * number + 7 * section.index();
        let mut body: Vec<u8> = (0..bytes)
            .map(|at| (at * 13 + at / 251 + seed) as u8)
            .collect();
        for (place, value) in [(0, f32::NAN), (4, f32::NEG_INFINITY)] {
            if let Some(four) = body.get_mut(place..place + 4) {
                four.copy_from_slice(&value.to_le_bytes());
            }
        }
        frame.set(section, body.into());
    }
    frame
}

fn to_end(mut socket: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    socket.read_to_end(&mut all).unwrap();
    all
}

#[test]
fn every_frame_arrives_bit_by_bit() {
    let watch = "\"imd/1/watch/adk\"";
    let mut setting = Setting::start(watch, &["--wait", "--once"], &["--wait", "--once"]);
    let first = TcpStream::connect(setting.endpoints[0]).unwrap();
    let mut simulation = setting.begin(Sections::ALL, ByteOrder::Big);
    drop(first);
    let (all, announced) = setting.client(0);
    assert_eq!(announced, info(Sections::ALL, ByteOrder::Big));
    expect(&mut simulation, Command::Go);
    let (promised, announced) = setting.client(1);
    let sections = "time+box+positions".parse().unwrap();
    assert_eq!(announced, info(sections, ByteOrder::Big));
    let frames: Vec<Frame> = (0..40).map(|at| frame(Sections::ALL, ATOMS, at)).collect();
    let sending = std::thread::spawn({
        let frames = frames.clone();
        move || {
            for frame in frames {
                simulation.write_all(&frame.packets(Sections::ALL)).unwrap();
            }
        }
    });
    for (client, sections) in [(all, Sections::ALL), (promised, sections)] {
        let reading = to_end(client);
        let expected: Vec<u8> = frames
            .iter()
            .flat_map(|frame| frame.packets(sections))
            .collect();
        assert!(
            reading == expected,
            "{sections}: {} of {} bytes",
            reading.len(),
            expected.len()
        );
    }
    sending.join().unwrap();
    let ended = setting.source.event("ended");
    assert_eq!(ended["frames"], 40);
    let ended = setting.viewer.event("ended");
    assert_eq!(ended["frames"], serde_json::json!([40, 40]));
}

/// Frames on their way to a client, fewer than a queue of the source holds.
const ON_THEIR_WAY: usize = 50;
/// Frames after a promise was granted: of a section that has a sixth of the promised rate, more wait than the source holds.
const AFTER: usize = 450;

#[test]
fn a_granted_promise_keeps_positions_whole_while_others_skip_frames() {
    // A path of a known rate, so low that the busiest machine fills it. Until there is a promise, all sections have a third of it.
    let slow = "[channel]\ncontroller = \"fixed 6 Mbit/s\"\n";
    let asking = ["--promise", "4.5 Mbit/s", "--share", "50", "--once"];
    let mut setting = Setting::with("\"imd/1/watch/adk\"", slow, &asking, &["--once"]);
    let sections: Sections = "time+box+positions+velocities+forces".parse().unwrap();
    let mut simulation = setting.begin(sections, ByteOrder::Little);
    expect(&mut simulation, Command::Go);
    let ((all, _), (mut promised, announced)) = (setting.client(0), setting.client(1));
    let packets = move |at: usize, of: Sections| frame(sections, ATOMS, at).packets(of);
    let arrived = Arc::new(AtomicUsize::new(0));
    // Frame after which the simulation ends.
    let last = Arc::new(AtomicUsize::new(usize::MAX));
    let sending = std::thread::spawn({
        let (arrived, last) = (arrived.clone(), last.clone());
        move || {
            let mut number = 0;
            while number <= last.load(Ordering::Relaxed) {
                if number < arrived.load(Ordering::Relaxed) + ON_THEIR_WAY {
                    simulation.write_all(&packets(number, sections)).unwrap();
                    number += 1;
                } else {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            number
        }
    });
    // Each frame of the promised sections, bit by bit.
    let reading_promised = std::thread::spawn({
        let arrived = arrived.clone();
        move || {
            let mut read = packets(0, announced.sections).to_vec();
            let mut number = 0;
            while promised.read_exact(&mut read).is_ok() {
                assert!(
                    read == packets(number, announced.sections),
                    "frame {number}"
                );
                number += 1;
                arrived.store(number, Ordering::Relaxed);
            }
            number
        }
    });
    let reading_all = std::thread::spawn(move || to_end(all));
    let granted = loop {
        let event = setting.viewer.event("promise");
        if let Some(bps) = event["rate_bps"].as_u64() {
            break bps;
        }
    };
    assert_eq!(granted, 4_500_000);
    last.store(arrived.load(Ordering::Relaxed) + AFTER, Ordering::Relaxed);
    let frames = sending.join().unwrap();
    assert_eq!(reading_promised.join().unwrap(), frames);
    // Of the others, whole frames in their order.
    let read = reading_all.join().unwrap();
    let bytes = packets(0, sections).len();
    assert_eq!(read.len() % bytes, 0, "no frame is cut short");
    let mut numbers = 0..frames;
    for whole in read.chunks(bytes) {
        let found = numbers.find(|number| packets(*number, sections) == whole);
        assert!(found.is_some(), "a frame that was not sent, or sent twice");
    }
    let served = read.len() / bytes;
    assert!(served < frames, "a path for a third of it carried all");
    let ended = setting.viewer.event("ended");
    assert_eq!(ended["frames"], serde_json::json!([served, frames]));
    assert_eq!(ended["skipped"][1], 0, "{ended}");
}

#[test]
fn a_simulation_that_dies_is_followed_by_the_next() {
    let mut setting = Setting::start("\"imd/1/watch/*\"", &[], &[]);
    let sections = "positions+forces".parse().unwrap();
    for (atoms, order) in [(5, ByteOrder::Little), (0, ByteOrder::Big)] {
        let mut simulation = setting.begin(sections, order);
        expect(&mut simulation, Command::Go);
        let (client, announced) = setting.client(0);
        assert_eq!(announced, info(sections, order));
        let mut expected = Vec::new();
        for number in 0..2 {
            let packets = frame(sections, atoms, number).packets(sections);
            simulation.write_all(&packets).unwrap();
            expected.extend_from_slice(&packets);
        }
        // The beginning of another frame is never served.
        simulation.write_all(&expected[..9]).unwrap();
        drop(simulation);
        assert_eq!(to_end(client), expected);
        setting.viewer.event("ended");
    }
}

#[test]
fn a_simulation_is_steered_by_right() {
    let services = "\"imd/1/watch/adk\", \"imd/1/steer/adk\"";
    let mut setting = Setting::start(services, &["--allow-steer"], &["--steer"]);
    let sections = "positions".parse().unwrap();
    let mut simulation = setting.begin(sections, ByteOrder::Little);
    expect(&mut simulation, Command::Go);
    let (mut one, _) = setting.client(0);
    let (mut other, _) = setting.client(1);
    send(&mut one, Command::Pause);
    expect(&mut simulation, Command::Pause);
    send(&mut one, Command::Rate(50));
    expect(&mut simulation, Command::Rate(50));
    // Ending it takes more.
    send(&mut other, Command::Kill);
    let refused = setting.viewer.event("refused");
    assert!(
        refused["why"].as_str().unwrap().contains("--allow-kill"),
        "{refused}"
    );
    // Who leaves does not keep it paused.
    drop(one);
    expect(&mut simulation, Command::Resume);
    send(&mut other, Command::Pause);
    expect(&mut simulation, Command::Pause);
    setting.viewer.interrupt();
    expect(&mut simulation, Command::Resume);
}

#[test]
fn who_may_watch_may_not_steer() {
    let mut setting = Setting::start("\"imd/1/watch/adk\"", &["--allow-steer"], &["--steer"]);
    let sections = "positions".parse().unwrap();
    let mut simulation = setting.begin(sections, ByteOrder::Little);
    expect(&mut simulation, Command::Go);
    let (mut client, _) = setting.client(0);
    send(&mut client, Command::Pause);
    let refused = setting.viewer.event("refused");
    assert!(
        refused["why"].as_str().unwrap().contains("imd/1/steer/adk"),
        "{refused}"
    );
}
