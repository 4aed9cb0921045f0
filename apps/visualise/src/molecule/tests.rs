//! Tests of the readers, with files that are made here, and with those of adenylate kinase where they are.

use std::path::PathBuf;

use proptest::{collection::vec, prelude::*};

use super::{Dcd, MoleculeError, Position, Topology, Trajectory, read_psf};
use crate::imd::ByteOrder;

/// A trajectory file.
#[derive(Clone, Copy)]
pub(crate) struct Written {
    pub(crate) order: ByteOrder,
    pub(crate) has_cell: bool,
    pub(crate) has_fourth: bool,
}

pub(crate) const PLAIN: Written = Written {
    order: ByteOrder::Little,
    has_cell: false,
    has_fourth: false,
};

impl Written {
    fn number(self, value: i32) -> [u8; 4] {
        match self.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        }
    }

    fn record(self, file: &mut Vec<u8>, body: &[u8]) {
        file.extend(self.number(body.len() as i32));
        file.extend(body);
        file.extend(self.number(body.len() as i32));
    }

    /// The file with these frames, and with another number of atoms or of frames in its head if given.
    pub(crate) fn file(self, frames: &[Vec<Position>], atoms: i32, stated: i32) -> Vec<u8> {
        let mut numbers = [0; 20];
        numbers[0] = stated;
        numbers[10] = i32::from(self.has_cell);
        numbers[11] = i32::from(self.has_fourth);
        numbers[19] = 24;
        let mut first = b"CORD".to_vec();
        first.extend(numbers.iter().flat_map(|number| self.number(*number)));
        let mut file = Vec::new();
        self.record(&mut file, &first);
        let mut title = self.number(1).to_vec();
        title.extend([b' '; 80]);
        self.record(&mut file, &title);
        self.record(&mut file, &self.number(atoms));
        for frame in frames {
            if self.has_cell {
                self.record(&mut file, &[1; 48]);
            }
            for axis in 0..3 + usize::from(self.has_fourth) {
                let bits = |at: &Position| at.get(axis).map_or(0, |value| value.to_bits());
                let body = frame.iter().flat_map(|at| self.number(bits(at) as i32));
                self.record(&mut file, &body.collect::<Vec<_>>());
            }
        }
        file
    }
}

fn bits(frame: &[Position]) -> Vec<[u32; 3]> {
    frame.iter().map(|at| at.map(f32::to_bits)).collect()
}

pub(crate) const TWO_WATERS: &str = "PSF\n\n 1 !NTITLE\n REMARKS\n\n 6 !NATOM\n\
    1 W 1 TIP3 OH2 OT -0.834 15.9994 0\n2 W 1 TIP3 H1 HT 0.417 1.008 0\n3 W 1 TIP3 H2 HT 0.417 1.008 0\n\
    4 W 2 TIP3 OH2 OT -0.834 15.9994 0\n5 W 2 TIP3 H1 HT 0.417 1.008 0\n6 W 2 TIP3 H2 HT 0.417 1.008 0\n\n\
    4 !NBOND: bonds\n 1 2 1 3\n 4 5 4 6\n\n 0 !NTHETA: angles\n";

#[test]
fn a_topology_has_elements_and_bonds() {
    let topology = read_psf(TWO_WATERS).unwrap();
    assert_eq!(
        topology,
        Topology {
            elements: vec![8, 1, 1, 8, 1, 1],
            bonds: vec![[0, 1], [0, 2], [3, 4], [3, 5]],
        }
    );
    let none = "PSF\n0 !NATOM\n\n0 !NBOND: bonds\n";
    assert_eq!(read_psf(none).unwrap(), Topology::default());
}

#[test]
fn lines_with_an_empty_segment_are_read_by_their_columns() {
    let line = format!(
        "{:8} {:4} {:4} {:4} {:4} {:4} {:14.6} {:8.3}           0",
        1, "", "1", "MET", "CA", "22", 0.21, 12.011
    );
    let extended = format!(
        "{:10} {:8} {:8} {:8} {:8} {:4} {:14.6} {:8.3}           0",
        1, "", "1", "MET", "CA", "22", 0.21, 12.011
    );
    for (first, line) in [("PSF", line), ("PSF EXT", extended)] {
        let text = format!("{first}\n1 !NATOM\n{line}\n0 !NBOND\n");
        assert_eq!(read_psf(&text).unwrap().elements, [6], "{line}");
    }
}

#[test]
fn topologies_that_cannot_be_are_refused_in_words() {
    let bond = |bond: &str| TWO_WATERS.replace(" 4 5 4 6", bond);
    for (text, says) in [
        (String::new(), "begins with"),
        ("HEADER".to_owned(), "begins with"),
        ("PSF\n".to_owned(), "!NATOM"),
        ("PSF\n5 !NBOND\n".to_owned(), "before its atoms"),
        (TWO_WATERS.replace("6 !NATOM", "7 !NATOM"), "atom 7 is ''"),
        (
            "PSF\n399999 !NATOM\n".to_owned(),
            "ends after 0 of 399999 atoms",
        ),
        (
            TWO_WATERS.replace("6 !NATOM", "400001 !NATOM"),
            "up to 400000",
        ),
        (
            TWO_WATERS.replace("4 !NBOND", "99999999999 !NBOND"),
            "up to 400000",
        ),
        (
            TWO_WATERS.replace("4 !NBOND", "400000 !NBOND"),
            "ends after 4 of 400000 bonds",
        ),
        (TWO_WATERS.replace("4 !NBOND", "3 !NBOND"), "more bonds"),
        (TWO_WATERS.replace("\n2 W", "\n3 W"), "atom 2 is '3 W"),
        (TWO_WATERS.replace("15.9994", "NaN"), "atom 1 is"),
        (bond(" 4 5 4 7"), "atom '7'; there are 1 to 6"),
        (bond(" 4 5 0 6"), "atom '0'"),
        (bond(" 4 5 4 -1"), "atom '-1'"),
        (bond(" 4 5 4 x"), "atom 'x'"),
        (bond(" 4 5 4"), "ends after 3"),
    ] {
        let error = read_psf(&text).unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
}

#[test]
fn trajectories_are_read_in_both_byte_orders_bit_by_bit() {
    let frames: Vec<Vec<Position>> = vec![
        vec![[1.0, 2.0, 3.0], [f32::NAN, f32::INFINITY, -0.0]],
        vec![[4.0, 5.0, 6.0], [f32::MIN_POSITIVE / 4.0, 1e30, -7.0]],
    ];
    for order in [ByteOrder::Little, ByteOrder::Big] {
        for (has_cell, has_fourth) in [(false, false), (true, false), (false, true), (true, true)] {
            let written = Written {
                order,
                has_cell,
                has_fourth,
            };
            let file = written.file(&frames, 2, 2);
            let dcd = Dcd::read(&file).unwrap();
            assert_eq!((dcd.order, dcd.atoms, dcd.stated), (order, 2, 2));
            assert_eq!(dcd.frames_in(file.len() as u64), 2);
            for (number, frame) in frames.iter().enumerate() {
                let at = dcd.frame_at(number as u64) as usize;
                let read = dcd.frame(&file[at..at + dcd.frame_bytes()]).unwrap();
                assert_eq!(bits(&read), bits(frame));
            }
        }
    }
}

#[test]
fn the_number_of_frames_is_that_of_the_file() {
    let frames = vec![vec![[0.0; 3]; 3]; 4];
    for stated in [0, -1, i32::MAX, 4] {
        let mut file = PLAIN.file(&frames, 3, stated);
        let dcd = Dcd::read(&file).unwrap();
        assert_eq!(dcd.frames_in(file.len() as u64), 4, "{stated}");
        file.pop();
        assert_eq!(dcd.frames_in(file.len() as u64), 3, "{stated}");
        assert_eq!(dcd.frames_in(0), 0);
    }
}

#[test]
fn trajectories_that_cannot_be_are_refused_in_words() {
    let frames = vec![vec![[1.0; 3]; 2]];
    let file = |atoms| PLAIN.file(&frames, atoms, 1);
    let changed = |at: usize, to: i32| {
        let mut file = file(2);
        file[at..at + 4].copy_from_slice(&to.to_le_bytes());
        file
    };
    let mut wide = 84_u64.to_le_bytes().to_vec();
    wide.extend(b"CORD");
    for (file, says) in [
        (Vec::new(), "shorter"),
        (b"GIF89a..".to_vec(), "84 bytes"),
        (wide, "64 bits"),
        (file(2)[..50].to_vec(), "within a record of 84"),
        (changed(4, i32::from_le_bytes(*b"VELD")), "CORD"),
        (changed(40, 7), "fixed atoms"),
        (changed(88, 85), "another length"),
        (changed(92, -3), "a record of -3 bytes"),
        (changed(92, i32::MAX), "within a record"),
        (file(-1), "negative"),
        (file(400_001), "up to 400000"),
    ] {
        let error = Dcd::read(&file).unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
    // The head is right, and the frame is of another number of atoms.
    let file = file(3);
    let dcd = Dcd::read(&file).unwrap();
    let rest = &file[dcd.frame_at(0) as usize..];
    let error = dcd.frame(rest).unwrap_err().to_string();
    assert!(error.contains("8 bytes in place of 12"), "{error}");
}

#[test]
fn generated_molecules_are_the_same_each_time() {
    for atoms in [0, 1, 2, 500] {
        let mut one = Trajectory::generated(atoms).unwrap();
        let mut other = Trajectory::generated(atoms).unwrap();
        assert_eq!(one.topology().atoms(), atoms);
        assert_eq!(one.topology().bonds.len(), atoms.saturating_sub(1) as usize);
        let frame = one.frame(3).unwrap();
        assert_eq!(bits(&frame), bits(&other.frame(3).unwrap()));
        assert!(frame.iter().flatten().all(|value| value.is_finite()));
    }
    let refused = Trajectory::generated(400_001);
    assert!(matches!(refused, Err(MoleculeError::TooMany { .. })));
}

/// Folder with `adk.psf` and `adk_dims.dcd`; `None` where they are absent.
pub(crate) fn adk() -> Option<[PathBuf; 2]> {
    let folder = std::env::var_os("ADK_DATA").map_or_else(
        || PathBuf::from("../../../shared/data/media"),
        PathBuf::from,
    );
    let files = ["adk.psf", "adk_dims.dcd"].map(|name| folder.join(name));
    files.iter().all(|file| file.is_file()).then_some(files)
}

#[test]
fn adenylate_kinase_is_read() {
    let Some([topology, trajectory]) = adk() else {
        return;
    };
    let mut adk = Trajectory::open(&topology, &trajectory).unwrap();
    assert_eq!(adk.topology().atoms(), 3_341);
    assert_eq!(adk.topology().bonds.len(), 3_365);
    assert_eq!(adk.topology().elements[..5], [7, 1, 1, 1, 6]);
    assert!(!adk.topology().elements.contains(&0));
    assert_eq!(adk.frames(), 98);
    // As MDAnalysis reads them.
    let first = adk.frame(0).unwrap();
    assert_eq!(first[0], [11.736044, 8.500797, -10.445281]);
    for frame in [0, 97] {
        let frame = adk.frame(frame).unwrap();
        // Bonds are short: topology and positions belong together.
        for [one, other] in &adk.topology().bonds {
            let ends = [one, other].map(|atom| frame[*atom as usize]);
            let apart: f32 = (0..3)
                .map(|axis| (ends[0][axis] - ends[1][axis]).powi(2))
                .sum();
            assert!(apart.sqrt() < 3.0, "{one} {other}");
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..400), at in 0..300_usize, value in any::<u8>()) {
        let _ = read_psf(&String::from_utf8_lossy(&bytes));
        let mut file = PLAIN.file(&[vec![[1.0; 3]; 2]], 2, 1);
        let at = at % file.len();
        file[at] = value;
        if let Ok(dcd) = Dcd::read(&file) {
            prop_assert!(dcd.frame_at(0) <= file.len() as u64);
            let rest = &file[dcd.frame_at(0) as usize..];
            let frame = &rest[..rest.len().min(dcd.frame_bytes())];
            if let Ok(read) = dcd.frame(frame) {
                prop_assert_eq!(read.len(), dcd.atoms as usize);
            }
        }
        let _ = Dcd::read(&bytes);
    }
}
