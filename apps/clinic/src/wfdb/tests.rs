//! Tests of samples and files, and a recorded ECG where its files are.

use std::{fs, path::Path};

use proptest::{collection::vec, prelude::*};

use super::{
    Format, Header, Hole, Holes, INVALID, Packer, Unpacker, WfdbError,
    files::{Missing, Reader, Writer},
};

pub(super) const TWO_FILES: &str = "\
# before the record
r1 3 360/100(-2) 4 12:30:00.5 01/02/2003
a.dat 212 200(-10)/uV 12 1024 1000 4010 0 MLII or so
b.dat 16+4 0 16 0 -5 65531 0 v1
b.dat 16+4 100.5 16 0

# age: 81
";

pub(super) fn header(text: &str) -> Header {
    Header::read(text.as_bytes()).unwrap()
}

#[test]
fn samples_of_format_212_are_those_of_its_definition() {
    let mut samples = Vec::new();
    let mut unpacker = Unpacker::new(Format::F212);
    // 995 and 1011, as the first frame of record 100 of MIT-BIH; then -1 and invalid; then 5 alone.
    unpacker.push(
        &[0xe3, 0x33, 0xf3, 0xff, 0x8f, 0x00, 0x05, 0x00],
        &mut samples,
    );
    unpacker.finish(&mut samples);
    assert_eq!(samples, [995, 1011, -1, INVALID, 5]);
}

fn packed(format: Format, samples: &[i16]) -> Vec<u8> {
    let (mut packer, mut bytes) = (Packer::new(format), Vec::new());
    packer.push(samples, &mut bytes);
    packer.finish(&mut bytes);
    bytes
}

/// Two leads in format 212, an odd number of samples in all, and one in format 16 after four other bytes.
fn two_files(folder: &Path) -> Vec<i16> {
    let mut header = header(TWO_FILES);
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    let frames = [
        [1000, -5, 7],
        [1010, 0, INVALID],
        [INVALID, 3, 8],
        [1000, -3, 9],
    ];
    for [a, b, c] in frames {
        of_a.push(a);
        of_b.extend([b, c]);
    }
    fs::write(folder.join("a.dat"), packed(Format::F212, &of_a)).unwrap();
    let bytes = [b"head", &packed(Format::F16, &of_b)[..]].concat();
    fs::write(folder.join("b.dat"), bytes).unwrap();
    // -2048 in format 212: 1000 + 1010 - 2048 + 1000.
    header.leads[0].checksum = Some(962);
    fs::write(folder.join("r1.hea"), header.to_text()).unwrap();
    frames.concat()
}

#[test]
fn leads_of_several_files_and_formats_are_read_frame_by_frame() {
    let folder = tempfile::tempdir().unwrap();
    let expected = two_files(folder.path());
    let path = folder.path().join("r1.hea");
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!((reader.frames(), reader.missing()), (4, &[][..]));
    for _ in 0..2 {
        let mut samples = reader.read(3).unwrap();
        assert_eq!(reader.deviations(), [""; 0]);
        samples.extend(reader.read(3).unwrap());
        assert_eq!(samples, expected);
        assert!(reader.read(1).unwrap().is_empty());
        assert_eq!(reader.deviations(), [""; 0]);
        reader.rewind().unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replace("1000 962", "1001 962")
            .replace("-5 -5", "-5 6"),
    )
    .unwrap();
    let mut reader = Reader::open(&path).unwrap();
    reader.read(4).unwrap();
    assert_eq!(
        reader.deviations(),
        [
            "MLII or so begins with 1000, and not with 1001 as the header states",
            "the checksum of v1 is -5, and not 6 as the header states",
        ]
    );
}

#[test]
fn missing_files_take_their_leads_and_short_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let expected = two_files(folder.path());
    let path = folder.path().join("r1.hea");
    let a = folder.path().join("a.dat");
    let of_a = fs::read(&a).unwrap();
    fs::remove_file(&a).unwrap();
    let mut reader = Reader::open(&path).unwrap();
    let missing = Missing {
        file: "a.dat".to_owned(),
        leads: vec!["MLII or so".to_owned()],
    };
    assert_eq!(reader.missing(), [missing]);
    let left: Vec<i16> = expected
        .chunks(3)
        .flat_map(|frame| frame[1..].to_vec())
        .collect();
    assert_eq!(reader.read(100).unwrap(), left);
    fs::write(&a, &of_a[..3]).unwrap();
    let words = Reader::open(&path).unwrap_err().to_string();
    assert_eq!(
        words,
        "a.dat holds 2 samples of each lead, and the header states 4; it was cut off"
    );
    let b = folder.path().join("b.dat");
    for file in [&a, &b] {
        fs::remove_file(file).unwrap();
    }
    let words = Reader::open(&path).unwrap_err().to_string();
    assert!(words.contains("it needs a.dat, b.dat"), "{words}");
    fs::create_dir(&b).unwrap();
    assert!(matches!(Reader::open(&path), Err(WfdbError::File { .. })));
}

fn grown(folder: &Path) -> Writer {
    let like = header(
        "source 2 500\nx.dat 212 1000 12 0 0 0 0 i\ny.dat 16 1000 16 5 0 0 0 ii\n# hole 1 2\n# note\n",
    );
    Writer::create(folder, "case", &like).unwrap()
}

fn all(folder: &Path) -> (Vec<i16>, Vec<String>) {
    let mut reader = Reader::open(&folder.join("case.hea")).unwrap();
    let samples = reader.read(usize::MAX).unwrap();
    (samples, reader.deviations())
}

#[test]
fn a_growing_record_has_its_holes_and_no_sample_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = grown(folder.path());
    assert!(Writer::create(folder.path(), "case", &header("r 1\nr 16\n")).is_err());
    assert_eq!(writer.append(0, &[1, 2, 3, 4]).unwrap(), None);
    assert_eq!(writer.append(1, &[3, 4, 5, 6, 7]).unwrap(), None);
    let hole = Hole {
        first: 3,
        frames: 2,
    };
    assert_eq!(writer.append(5, &[7, 8]).unwrap(), Some(hole));
    assert_eq!(writer.append(2, &[5, 6]).unwrap(), None);
    assert!(writer.append(u64::MAX, &[1, 1]).is_err());
    assert_eq!((writer.frames(), writer.holes().list()), (6, &[hole][..]));
    writer.sync().unwrap();
    let expected = [1, 2, 3, 4, 5, 6, INVALID, INVALID, INVALID, INVALID, 7, 8];
    assert_eq!(all(folder.path()), (expected.to_vec(), vec![]));
    let text = fs::read_to_string(folder.path().join("case.hea")).unwrap();
    assert!(text.contains("# note\n# hole 3 2\n"), "{text}");
    assert!(!text.contains("# hole 1 2"), "of the source");
    drop(writer);
    let mut writer = Writer::resume(folder.path(), "case").unwrap().unwrap();
    assert_eq!((writer.frames(), writer.holes().list()), (6, &[hole][..]));
    writer.append(6, &[9, 10]).unwrap();
    writer.flush().unwrap();
    let (samples, deviations) = all(folder.path());
    assert_eq!((&samples[12..], deviations), (&[9, 10][..], vec![]));
}

#[test]
fn a_hole_is_filled_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = grown(folder.path());
    writer.append(4, &[9, 10]).unwrap();
    let hole = |first, frames| Hole { first, frames };
    assert_eq!(writer.holes().list(), [hole(0, 4)]);
    // What is there stays, and what is to come is appended, not filled in.
    assert_eq!(writer.fill(1, &[3, 4, 5, 6]).unwrap(), 2);
    assert_eq!(writer.fill(3, &[7, 8, 99, 99, 11, 12]).unwrap(), 1);
    assert_eq!(writer.fill(1, &[99; 6]).unwrap(), 0);
    assert_eq!(writer.holes().list(), [hole(0, 1)]);
    assert_eq!(writer.holes().within(0..9), [hole(0, 1)]);
    writer.append(5, &[11, 12]).unwrap();
    writer.flush().unwrap();
    let (samples, deviations) = all(folder.path());
    let expected = [INVALID, INVALID, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    assert_eq!((&samples[..], deviations), (&expected[..], vec![]));
    // A program that is killed before the next header knows it all the same.
    assert_eq!(writer.fill(0, &[1, 2]).unwrap(), 1);
    drop(writer);
    let mut writer = Writer::resume(folder.path(), "case").unwrap().unwrap();
    assert_eq!((writer.frames(), writer.holes().frames()), (6, 0));
    writer.sync().unwrap();
    let (samples, deviations) = all(folder.path());
    assert_eq!((samples[..2].to_vec(), deviations), (vec![1, 2], vec![]));
}

#[test]
fn a_record_is_readable_whenever_its_writer_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = grown(folder.path());
    assert!(all(folder.path()).0.is_empty());
    writer.append(0, &[1, 2]).unwrap();
    writer.flush().unwrap();
    writer.append(4, &[3, 4]).unwrap();
    // The header does not count them yet, and half of a frame follows.
    let path = folder.path().join("case.dat");
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend([1, 2, 3]);
    fs::write(&path, bytes).unwrap();
    drop(writer);
    assert_eq!(all(folder.path()), (vec![1, 2], vec![]));
    let writer = Writer::resume(folder.path(), "case").unwrap().unwrap();
    let hole = Hole {
        first: 1,
        frames: 3,
    };
    assert_eq!((writer.frames(), writer.holes().list()), (5, &[hole][..]));
    assert_eq!(fs::metadata(&path).unwrap().len(), 20);
    assert_eq!(all(folder.path()).1, [""; 0]);
    // Samples that the disk lost.
    fs::write(&path, [1, 0, 2, 0, 0, 128, 0, 128, 7]).unwrap();
    let writer = Writer::resume(folder.path(), "case").unwrap().unwrap();
    let hole = Hole {
        first: 1,
        frames: 1,
    };
    assert_eq!((writer.frames(), writer.holes().list()), (2, &[hole][..]));
    drop(writer);
    fs::remove_file(folder.path().join("case.hea")).unwrap();
    assert!(Writer::resume(folder.path(), "case").unwrap().is_none());
    assert!(!path.exists(), "samples without a header are of no use");
    two_files(folder.path());
    assert!(Writer::resume(folder.path(), "r1").is_err());
}

#[test]
fn holes_beyond_the_list_extend_the_last() {
    let mut holes = Holes::default();
    for number in 0..5_000 {
        holes.add(Hole {
            first: 3 * number,
            frames: 1,
        });
    }
    assert_eq!(holes.list().len(), 2_000);
    assert_eq!(
        holes.list()[1_999],
        Hole {
            first: 5_997,
            frames: 9_001
        }
    );
    holes.add(Hole {
        first: u64::MAX,
        frames: 2,
    });
    holes.add(Hole {
        first: 0,
        frames: 1,
    });
    assert_eq!(holes.list().len(), 2_000);
}

#[test]
fn a_recorded_ecg_is_read_whole() {
    let folder = std::env::var_os("ANABRANCH_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/media"),
        |data| Path::new(&data).join("media"),
    );
    let path = folder.join("s0010_re.hea");
    if !path.is_file() || folder.join("s0010_re.xyz").exists() {
        return;
    }
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!((reader.frames(), reader.header().leads.len()), (38_400, 12));
    let missing = Missing {
        file: "s0010_re.xyz".to_owned(),
        leads: ["vx", "vy", "vz"].map(str::to_owned).to_vec(),
    };
    assert_eq!(reader.missing(), [missing]);
    let samples = reader.read(38_400).unwrap();
    assert_eq!(samples[..3], [-489, -458, 31]);
    assert_eq!(reader.deviations(), [""; 0], "the checksums of the file");
    // By other ways: the same samples in format 212 differ nowhere, as they have less than 12 bits.
    if samples.iter().all(|sample| sample.abs() < 2_048) {
        let mut again = Vec::new();
        let mut unpacker = Unpacker::new(Format::F212);
        unpacker.push(&packed(Format::F212, &samples), &mut again);
        assert_eq!(again, samples);
    }
}

proptest! {
    #[test]
    fn samples_are_read_as_they_are_written(samples in vec(-2_047..2_048_i16, 0..50), pieces in vec(1..7_usize, 1..5)) {
        let with_invalid: Vec<i16> = samples.iter().map(|sample| if sample % 7 == 0 { INVALID } else { *sample }).collect();
        for format in [Format::F16, Format::F212] {
            let bytes = packed(format, &with_invalid);
            prop_assert_eq!(format.bytes_of(samples.len() as u64), bytes.len() as u64);
            prop_assert_eq!(format.samples_in(bytes.len() as u64), samples.len() as u64);
            let (mut read, mut unpacker) = (Vec::new(), Unpacker::new(format));
            let mut rest = &bytes[..];
            for piece in pieces.iter().cycle() {
                let (first, others) = rest.split_at(rest.len().min(*piece));
                unpacker.push(first, &mut read);
                rest = others;
                if rest.is_empty() {
                    break;
                }
            }
            unpacker.finish(&mut read);
            prop_assert_eq!(&read, &with_invalid);
        }
    }

    /// Pieces in any order, each of a few frames: what came is in its place, and the rest is listed.
    #[test]
    fn a_record_in_any_order_has_what_came_and_lists_the_rest(
        pieces in vec((0..60_u64, 1..6_usize), 1..20),
        is_killed: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = grown(folder.path());
        let mut expected: Vec<i16> = Vec::new();
        for (first, frames) in pieces {
            let end = first as usize + frames;
            let new: Vec<i16> = (first as usize..end).flat_map(|frame| [frame as i16 + 1, 7]).collect();
            writer.fill(first, &new).unwrap();
            writer.append(first, &new).unwrap();
            expected.resize(expected.len().max(2 * end), INVALID);
            expected[2 * first as usize..2 * end].copy_from_slice(&new);
        }
        if is_killed {
            drop(writer);
            writer = Writer::resume(folder.path(), "case").unwrap().unwrap();
        }
        writer.flush().unwrap();
        let missing = expected.chunks(2).filter(|frame| frame[0] == INVALID).count();
        prop_assert_eq!(writer.holes().frames(), missing as u64);
        prop_assert_eq!(all(folder.path()), (expected, vec![]));
    }

    #[test]
    fn a_record_has_what_was_appended_last_wherever_it_was_killed(
        steps in vec((0..6_u64, 0..5_usize, any::<bool>()), 1..12),
        cut in 0..200_u64,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = grown(folder.path());
        let mut expected: Vec<i16> = Vec::new();
        for (back, frames, is_flushed) in steps {
            let next = expected.len() as u64 / 2;
            // Up to two frames again, or up to three missing.
            let first = (next + back).saturating_sub(2);
            let new: Vec<i16> = (first..first + frames as u64).flat_map(|frame| [frame as i16 + 1, 7]).collect();
            writer.append(first, &new).unwrap();
            if frames > 0 && first + frames as u64 > next {
                expected.resize(2 * first.max(next) as usize, INVALID);
                let skipped = 2 * next.saturating_sub(first) as usize;
                expected.extend(&new[skipped..]);
            }
            prop_assert_eq!(2 * writer.frames() as usize, expected.len());
            if is_flushed {
                writer.flush().unwrap();
            }
        }
        drop(writer);
        let path = folder.path().join("case.dat");
        let bytes = fs::read(&path).unwrap();
        let cut = bytes.len() - (cut as usize).min(bytes.len());
        fs::write(&path, &bytes[..cut]).unwrap();
        let writer = Writer::resume(folder.path(), "case").unwrap().unwrap();
        let left = cut / 4 * 2;
        prop_assert_eq!(2 * writer.frames() as usize, left);
        let invalid = expected[..left].chunks(2).filter(|frame| frame[0] == INVALID).count();
        prop_assert_eq!(writer.holes().frames(), invalid as u64);
        let (samples, deviations) = all(folder.path());
        prop_assert_eq!(&samples, &expected[..left]);
        prop_assert!(deviations.is_empty());
    }
}
