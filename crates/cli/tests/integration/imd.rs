//! `anabranch imd`: a stand-in for a simulation, a source beside it, a viewer, and clients that read IMDv3.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
};

use anabranch_visualise::imd::{ByteOrder, Command, Frame, HELLO_BYTES, Sections, SessionInfo};

use crate::harness::{Running, command, private_folder};
use crate::numbered::pair;

const ATOMS: usize = 3_341;

/// Two nodes, a place for a simulation, a source beside it, and a viewer with two endpoints: all sections, and those that are promised.
struct Setting {
    simulation: TcpListener,
    source: Running,
    viewer: Running,
    endpoints: [SocketAddr; 2],
    _nodes: [Running; 2],
    _folder: tempfile::TempDir,
}

impl Setting {
    fn start(services: &str, source: &[&str], viewer: &[&str]) -> Self {
        let folder = private_folder();
        let at = folder.path();
        let nodes = pair(at, services);
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
        let endpoint = |number: usize| {
            let address = listening["endpoints"][number]["address"].as_str();
            address.unwrap().parse().unwrap()
        };
        let endpoints = [endpoint(0), endpoint(1)];
        Self {
            simulation,
            source,
            viewer,
            endpoints,
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
