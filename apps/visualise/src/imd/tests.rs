use bytes::Bytes;
use proptest::{collection::vec, prelude::*};

use super::*;

fn info(bits: u8, order: ByteOrder, is_wrapped: bool) -> SessionInfo {
    let sections = Sections::from_bits(bits).unwrap();
    SessionInfo {
        order,
        sections,
        is_wrapped,
    }
}

fn frame(sections: Sections, atoms: usize, seed: u8) -> Frame {
    let mut frame = Frame::default();
    for section in sections.iter() {
        let bytes = section.fixed_bytes().unwrap_or(atoms * ATOM_BYTES);
        let body: Vec<u8> = (0..bytes).map(|at| seed.wrapping_add(at as u8)).collect();
        frame.set(section, body.into());
    }
    frame
}

/// Everything that is read of bytes that arrive in pieces.
fn read(bytes: &[u8], piece: usize) -> Result<Vec<Event>, ImdError> {
    let mut simulation = Simulation::new();
    let mut events = Vec::new();
    for part in bytes.chunks(piece) {
        simulation.buffer().extend_from_slice(part);
        while let Some(event) = simulation.next_event()? {
            events.push(event);
            if events.last() == Some(&Event::Ended) {
                return Ok(events);
            }
        }
    }
    Ok(events)
}

#[test]
fn the_beginning_of_a_session_has_the_bytes_of_the_protocol() {
    // Time, box and positions from a little-endian machine: written by hand from the description of the protocol.
    let bytes = [
        0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 7, 1, 0, 1, 1, 0, 0, 0,
    ];
    let expected = SessionInfo {
        order: ByteOrder::Little,
        sections: "time+box+positions".parse().unwrap(),
        is_wrapped: false,
    };
    assert_eq!(SessionInfo::read(&bytes), Ok(Some(expected)));
    assert_eq!(expected.to_bytes(), bytes);
    let big = [
        0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 10, 0, 0, 0, 7, 0, 0, 0, 1, 1, 1, 0,
    ];
    let read = SessionInfo::read(&big).unwrap().unwrap();
    assert_eq!((read.order, read.is_wrapped), (ByteOrder::Big, true));
    assert_eq!(read.sections.to_string(), "positions+velocities");
}

#[test]
fn wrong_beginnings_are_refused_as_soon_as_they_are_there() {
    let wrong = |bytes: &[u8]| SessionInfo::read(bytes).unwrap_err();
    assert_eq!(wrong(b"GET / HT"), ImdError::NoHandshake(0x4745_5420));
    assert_eq!(wrong(&[0, 0, 0, 4, 2, 0, 0, 0]), ImdError::Version(2));
    assert_eq!(wrong(&[0, 0, 0, 4, 0, 0, 0, 2]), ImdError::Version(2));
    let energies = [0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
    assert_eq!(wrong(&energies), ImdError::NoInfo { kind: 1, value: 1 });
    let mut nothing = info(1, ByteOrder::Big, false).to_bytes();
    nothing[2 * HEADER_BYTES] = 0;
    assert_eq!(wrong(&nothing), ImdError::NoSections);
}

#[test]
fn frames_that_are_not_as_announced_are_refused() {
    let announced = info(0b00_1001, ByteOrder::Little, false);
    let mut bytes = announced.to_bytes().to_vec();
    let whole = frame(announced.sections, 2, 0);
    bytes.extend_from_slice(&whole.packets(announced.sections));
    let header = |kind, value| Header { kind, value }.to_bytes().to_vec();
    let after = |more: Vec<u8>| read(&[bytes.clone(), more].concat(), 1_000).unwrap_err();
    assert_eq!(
        after(header(POSITIONS, 2)),
        ImdError::Unexpected {
            expected: Section::Time,
            kind: POSITIONS
        }
    );
    let (section, count) = (Section::Time, 2);
    assert_eq!(
        after(header(TIME, count)),
        ImdError::Count { section, count }
    );
    let time = [header(TIME, 1), vec![0; 24]].concat();
    for count in [-1, i32::MAX, i32::MIN] {
        let section = Section::Positions;
        assert_eq!(
            after([time.clone(), header(POSITIONS, count)].concat()),
            ImdError::Count { section, count }
        );
    }
    // Of the other byte order: 2 atoms are 33554432.
    let swapped = header(POSITIONS, 2_i32.swap_bytes());
    assert!(matches!(
        after([time, swapped].concat()),
        ImdError::Count { .. }
    ));
    let ended = [bytes.clone(), header(DISCONNECT, 0)].concat();
    assert_eq!(read(&ended, 7).unwrap().last(), Some(&Event::Ended));
}

#[test]
fn sections_of_a_frame_have_the_same_atoms() {
    let announced = info(0b01_1000, ByteOrder::Little, false);
    let mut bytes = announced.to_bytes().to_vec();
    bytes.extend_from_slice(
        &frame(Section::ALL[3..4].iter().copied().collect(), 3, 0).packets(Sections::ALL),
    );
    bytes.extend_from_slice(
        &frame(Section::ALL[4..5].iter().copied().collect(), 4, 0).packets(Sections::ALL),
    );
    let uneven = ImdError::Uneven {
        positions: 3,
        section: Section::Velocities,
        other: 4,
    };
    assert_eq!(read(&bytes, 1_000), Err(uneven));
}

#[test]
fn no_atoms_are_a_frame_too() {
    let announced = info(0b11_1000, ByteOrder::Big, false);
    let empty = frame(announced.sections, 0, 0);
    let bytes = [
        &announced.to_bytes()[..],
        &empty.packets(announced.sections),
    ]
    .concat();
    assert_eq!(
        read(&bytes, 5).unwrap(),
        [Event::Begun(announced), Event::Frame(empty)]
    );
}

#[test]
fn sections_are_named() {
    assert_eq!("all".parse(), Ok(Sections::ALL));
    let some: Sections = "forces+time".parse().unwrap();
    assert_eq!(some.to_string(), "time+forces");
    for wrong in ["", "bonds", "time,box", "time+"] {
        let error = wrong.parse::<Sections>().unwrap_err();
        assert!(error.to_string().contains("velocities"), "{error}");
    }
    assert_eq!(Sections::from_bits(0x40), None);
}

#[test]
fn forces_of_a_receiver_are_passed_over() {
    let mut commands = Commands::new();
    let mut bytes = Command::Forces(3).to_bytes().to_vec();
    bytes.extend([0xff; 3 * 16]);
    bytes.extend(Command::Pause.to_bytes());
    let mut read = Vec::new();
    for byte in bytes {
        commands.buffer().extend_from_slice(&[byte]);
        read.extend(commands.next_command().unwrap());
    }
    assert_eq!(read, [Command::Forces(3), Command::Pause]);
    for (kind, value, error) in [
        (POSITIONS, 1, ImdError::NoCommand(POSITIONS)),
        (77, 0, ImdError::NoCommand(77)),
        (APPLY_FORCES, -1, ImdError::Forces(-1)),
    ] {
        let mut commands = Commands::new();
        let bytes = Header { kind, value }.to_bytes();
        commands.buffer().extend_from_slice(&bytes);
        assert_eq!(commands.next_command(), Err(error));
    }
}

proptest! {
    #[test]
    fn what_is_sent_is_read_bit_by_bit(
        bits in 1..=0b11_1111_u8,
        is_big: bool,
        is_wrapped: bool,
        atoms in 0..40_usize,
        frames in vec(any::<u8>(), 0..6),
        piece in 1..200_usize,
    ) {
        let order = if is_big { ByteOrder::Big } else { ByteOrder::Little };
        let announced = info(bits, order, is_wrapped);
        let frames: Vec<Frame> = frames.into_iter().map(|seed| frame(announced.sections, atoms, seed)).collect();
        let mut bytes = announced.to_bytes().to_vec();
        for frame in &frames {
            bytes.extend_from_slice(&frame.packets(announced.sections));
        }
        let mut expected = vec![Event::Begun(announced)];
        expected.extend(frames.iter().cloned().map(Event::Frame));
        prop_assert_eq!(read(&bytes, piece).unwrap(), expected);
        // A frame of which a part is missing is none.
        if frames.last().is_some_and(|last| last.bytes() > 0) {
            let cut = read(&bytes[..bytes.len() - 1], piece).unwrap();
            prop_assert_eq!(cut.len(), frames.len());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200), piece in 1..50_usize, bits in 1..=0b11_1111_u8) {
        let _ = read(&bytes, piece);
        let hello = info(bits, ByteOrder::Little, false).to_bytes();
        let _ = read(&[&hello[..], &bytes].concat(), piece);
        let mut commands = Commands::new();
        commands.buffer().extend_from_slice(&bytes);
        while let Ok(Some(_)) = commands.next_command() {}
    }

    #[test]
    fn commands_are_read_as_they_are_written(rate: i32, wait: bool) {
        for command in [
            Command::Go, Command::Pause, Command::Resume, Command::Rate(rate), Command::Kill, Command::Disconnect, Command::Wait(wait),
        ] {
            let mut commands = Commands::new();
            commands.buffer().extend_from_slice(&command.to_bytes());
            prop_assert_eq!(commands.next_command(), Ok(Some(command)));
            prop_assert_eq!(commands.next_command(), Ok(None));
        }
    }
}

#[test]
fn bodies_have_the_length_of_their_section() {
    assert!(Frame::is_body(Section::Box, 36) && !Frame::is_body(Section::Box, 35));
    assert!(Frame::is_body(Section::Forces, 0) && !Frame::is_body(Section::Forces, 13));
    assert!(!Frame::is_body(
        Section::Positions,
        BODY_BYTES_MAX + ATOM_BYTES
    ));
    let mut frame = Frame::default();
    frame.set(Section::Box, Bytes::from_static(&[0; 36]));
    assert_eq!((frame.atoms(), frame.bytes()), (None, 36));
}
