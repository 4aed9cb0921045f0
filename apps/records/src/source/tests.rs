use std::fs;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{
    shelf,
    wire::{Item, Kind, Piece, pieces},
};

/// A set of three records: numbers in one file at a stride, an image each, an optional note.
fn set(folder: &Path) -> Arc<Source> {
    let numbers: Vec<u8> = (0..60).collect();
    fs::write(folder.join("numbers.dat"), numbers).unwrap();
    fs::create_dir(folder.join("images")).unwrap();
    for record in 0..3_usize {
        let image = vec![record as u8; record * 400_000];
        fs::write(folder.join(format!("images/{record}.png")), image).unwrap();
    }
    fs::write(folder.join("1.txt"), "one").unwrap();
    let manifest = r#"
        name = "three"
        [[component]]
        name = "numbers"
        file = "numbers.dat"
        offset = 6
        size = 10
        stride = 18
        [[component]]
        name = "image"
        file = "images/{n}.png"
        [[component]]
        name = "note"
        file = "{n}.txt"
        optional = true
        [records]
        count = 3
    "#;
    fs::write(folder.join("records.toml"), manifest).unwrap();
    Arc::new(shelf::open_set(folder).unwrap())
}

fn all(from: u64, to: u64, components: &[u16]) -> Item {
    Item::Records {
        from,
        to,
        components: components.to_vec(),
        bytes: None,
    }
}

fn read(reading: &mut Reading) -> (Vec<Piece>, Vec<Next>) {
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    while let Some(next) = reading.next_out() {
        match next {
            Next::Pack(adu) => match Kind::of(&adu).unwrap() {
                Kind::Pieces(adu) => found.extend(pieces(&adu).unwrap()),
                other => panic!("{other:?}"),
            },
            fault => faults.push(fault),
        }
    }
    (found, faults)
}

/// The bytes of a part that pieces have.
fn assembled(pieces: &[Piece], record: u64, component: u16) -> Vec<u8> {
    let own = pieces
        .iter()
        .filter(|piece| (piece.record, piece.component) == (record, component));
    let mut bytes = Vec::new();
    for piece in own {
        bytes.resize(piece.part_bytes as usize, 0xff);
        let at = piece.offset as usize;
        bytes[at..at + piece.data.len()].copy_from_slice(&piece.data);
    }
    bytes
}

#[test]
fn parts_are_read_in_order_and_small_ones_share_a_pack() {
    let folder = tempfile::tempdir().unwrap();
    let mut reading = Reading::new(set(folder.path()));
    reading.want([all(0, 3, &[0, 2]), all(0, 3, &[1])]);
    let Some(Next::Pack(first)) = reading.next_out() else {
        panic!("nothing was read");
    };
    let Kind::Pieces(first) = Kind::of(&first).unwrap() else {
        panic!("no pieces");
    };
    let mut found = pieces(&first).unwrap();
    assert!(found.len() > 7, "{}", found.len());
    let (rest, faults) = read(&mut reading);
    found.extend(rest);
    assert_eq!(faults, []);
    for record in 0..3_u64 {
        let start = 6 + 18 * record as u8;
        let numbers: Vec<u8> = (start..start + 10).collect();
        assert_eq!(assembled(&found, record, 0), numbers);
        let image = vec![record as u8; record as usize * 400_000];
        assert_eq!(assembled(&found, record, 1), image);
    }
    let notes: Vec<_> = found.iter().filter(|piece| piece.component == 2).collect();
    let absent: Vec<bool> = notes.iter().map(|piece| piece.is_absent).collect();
    assert_eq!(absent, [true, false, true]);
    assert_eq!(notes[1].data, Bytes::from_static(b"one"));
}

#[test]
fn only_what_is_missing_is_read_unless_the_file_is_another() {
    let folder = tempfile::tempdir().unwrap();
    let source = set(folder.path());
    let version = Reader::new(source.clone())
        .open(2, 1)
        .unwrap()
        .unwrap()
        .version;
    let part = |version| Item::Part {
        record: 2,
        component: 1,
        version,
        ranges: vec![(10, 20), (799_990, u64::MAX)],
    };
    let sizes = |item| {
        let mut reading = Reading::new(source.clone());
        reading.want([item]);
        let (found, _) = read(&mut reading);
        found.iter().map(|piece| piece.data.len()).sum::<usize>()
    };
    assert_eq!(
        (sizes(part(version)), sizes(part(version ^ 1))),
        (20, 800_000)
    );
    let between = Item::Records {
        from: 0,
        to: 3,
        components: vec![0],
        bytes: Some((8, 100)),
    };
    assert_eq!(sizes(between), 3 * 2);
    // Beyond the end, and without an end.
    assert_eq!(sizes(all(3, u64::MAX, &[0])), 0);
    assert_eq!(sizes(all(5, 1, &[0])), 0);
    assert_eq!(sizes(all(0, 3, &[])), 0);
}

#[test]
fn what_is_missing_short_or_changed_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let source = set(folder.path());
    fs::remove_file(folder.path().join("images/0.png")).unwrap();
    fs::write(folder.path().join("numbers.dat"), [7; 40]).unwrap();
    let mut reading = Reading::new(source);
    reading.want([all(0, 3, &[0, 1, 9])]);
    let mut faults = Vec::new();
    while let Some(next) = reading.next_out() {
        match next {
            Next::Fault {
                record,
                component,
                fault,
                version,
            } => faults.push((record, component, fault, version.is_some())),
            // The file is changed after its first bytes were sent.
            Next::Pack(_) => fs::write(folder.path().join("images/2.png"), [9; 800_000]).unwrap(),
        }
    }
    let expected = [
        (0, 1, Fault::Missing, false),
        (0, 9, Fault::Missing, false),
        (1, 9, Fault::Missing, false),
        (2, 0, Fault::Short, false),
        (2, 1, Fault::Changed, true),
        (2, 9, Fault::Missing, false),
    ];
    assert_eq!(faults, expected);
}

#[test]
fn a_part_of_a_file_that_grows_is_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.dat");
    fs::write(&path, vec![5; 1_000_000]).unwrap();
    let manifest =
        "[[component]]\nname = \"x\"\nfile = \"all.dat\"\nsize = \"1 MB\"\n[records]\ncount = 1";
    fs::write(folder.path().join("records.toml"), manifest).unwrap();
    let source = Arc::new(shelf::open_set(folder.path()).unwrap());
    for (change, is_fault) in [(vec![5; 1_000_001], false), (vec![6; 1_000_001], true)] {
        let mut reading = Reading::new(source.clone());
        reading.want([all(0, 1, &[0])]);
        let first = reading.next_out();
        assert!(matches!(first, Some(Next::Pack(_))));
        fs::write(&path, &change).unwrap();
        let (_, faults) = read(&mut reading);
        assert_eq!(!faults.is_empty(), is_fault, "{faults:?}");
    }
}

#[test]
fn hashes_are_those_of_the_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let source = set(folder.path());
    fs::write(folder.path().join("images/1.png"), vec![3; 2_500_000]).unwrap();
    let mut reading = Reading::new(source);
    reading.want([all(1, 3, &[1, 2])]);
    let mut blocks = Vec::new();
    while let Some(block) = reading.next_hashes() {
        blocks.push(block.unwrap());
    }
    let lengths: Vec<_> = blocks
        .iter()
        .map(|block| (block.record, block.bytes, block.hashes.len()))
        .collect();
    let expected = [
        (1, Some(2_500_000), 3),
        (1, Some(3), 1),
        (2, Some(800_000), 1),
        (2, None, 0),
    ];
    assert_eq!(lengths, expected);
    assert_eq!(
        blocks[0].hashes[2],
        crate::wire::Digest::of(&vec![3; 2_500_000 - 2 * (1 << 20)])
    );
}

proptest! {
    /// The lanes of a layout together have every byte once.
    #[test]
    fn lanes_divide_all_bytes(lanes in 1_u32..5, kind in 0_usize..2, from in 0_u64..3) {
        let folder = tempfile::tempdir().unwrap();
        let source = set(folder.path());
        let layout: anabranch_recordset::Layout = ["partitioned", "blocked:64KiB"][kind].parse().unwrap();
        let (mut bytes, mut absent) = (0, 0);
        let mut spans = crate::spans::Spans::default();
        for lane in 0..lanes {
            let mut reading = Reading::new(source.clone());
            reading.want([all(from, 3, &[0, 1, 2])]);
            reading.only(layout, lanes, lane);
            let (found, faults) = read(&mut reading);
            prop_assert_eq!(faults, []);
            for piece in found {
                let part = (piece.record * 3 + u64::from(piece.component)) << 32;
                let place = part + piece.offset..part + piece.offset + piece.data.len() as u64;
                prop_assert_eq!(spans.insert(place), piece.data.len() as u64);
                bytes += piece.data.len();
                absent += usize::from(piece.is_absent);
            }
        }
        let images: usize = (from..3).map(|record| record as usize * 400_000).sum();
        let note = if from <= 1 { 3 } else { 0 };
        prop_assert_eq!(bytes, images + 10 * (3 - from as usize) + note);
        prop_assert_eq!(absent, [2, 1, 1][from as usize]);
    }
}
