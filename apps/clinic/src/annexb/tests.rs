//! Tests of the reader of access units, with made streams, and those of an encoder where there is one.

use std::process::{Command, Stdio};

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

const SPS: &[u8] = &[0x67, 66, 0, 30, 0x80, 7];
const PPS: &[u8] = &[0x68, 0xc0];
const DELIMITER: &[u8] = &[9, 0xf0];
/// First macroblock 0, and types I (7), P (5), B (6): 1, 0001000, 00110, 00111.
const IDR: &[u8] = &[0x65, 0x88, 0x80, 1];
const P: &[u8] = &[0x41, 0b1001_1000, 0x80, 2];
const B: &[u8] = &[0x01, 0b1001_1100, 0x80];
/// A second slice: first macroblock 1 (010).
const P2: &[u8] = &[0x41, 0b0100_0110, 0x80, 3];

fn stream(nals: &[&[u8]]) -> Vec<u8> {
    nals.iter()
        .flat_map(|nal| [&START_CODE, *nal].concat())
        .collect()
}

fn read(bytes: &[u8], piece: usize) -> Result<Vec<AccessUnit>, AnnexBError> {
    let (mut reader, mut units) = (Reader::default(), Vec::new());
    for part in bytes.chunks(piece) {
        units.extend(reader.push(part)?);
    }
    units.extend(reader.finish()?);
    Ok(units)
}

#[test]
fn pictures_are_whole_whatever_the_pieces() {
    let bytes = stream(&[DELIMITER, SPS, PPS, IDR, DELIMITER, P, P2, P, P2, IDR]);
    for piece in [1, 2, 3, 7, 1_000] {
        let units = read(&bytes, piece).unwrap();
        let shape: Vec<_> = units
            .iter()
            .map(|unit| (unit.kind.letter(), unit.is_key))
            .collect();
        assert_eq!(
            shape,
            [("I", true), ("P", false), ("P", false), ("I", true)]
        );
        assert_eq!(units[0].bytes, stream(&[DELIMITER, SPS, PPS, IDR]));
        assert_eq!(units[1].bytes, stream(&[DELIMITER, P, P2]));
        assert_eq!(units[2].bytes, stream(&[P, P2]));
        assert_eq!(
            units[3].bytes,
            stream(&[SPS, PPS, IDR]),
            "with the sets before it"
        );
    }
}

#[test]
fn start_codes_of_three_bytes_and_zeros_between_units_are_read() {
    let bytes = [
        &[0, 0, 0, 0, 0, 1][..],
        SPS,
        &[0, 0, 1],
        PPS,
        &[0, 0, 0, 0, 1],
        IDR,
        &[0, 0],
    ]
    .concat();
    let units = read(&bytes, 4).unwrap();
    assert_eq!(units[0].bytes, stream(&[SPS, PPS, IDR]));
}

#[test]
fn a_picture_without_sets_is_no_place_to_begin() {
    let units = read(&stream(&[IDR, P]), 100).unwrap();
    assert!(units.iter().all(|unit| !unit.is_key));
    assert_eq!(read(&stream(&[SPS, PPS]), 100), Ok(Vec::new()));
}

#[test]
fn sets_are_repeated_after_the_delimiter_and_replaced_by_number() {
    let other = &[0x67, 66, 0, 40, 0x80, 7][..];
    let bytes = stream(&[SPS, PPS, IDR, other, P, DELIMITER, IDR]);
    let units = read(&bytes, 5).unwrap();
    assert_eq!(units[2].bytes, stream(&[DELIMITER, other, PPS, IDR]));
}

#[test]
fn what_cannot_be_sent_is_refused() {
    assert_eq!(
        read(b"\0\0\0\x20ftypisom", 3),
        Err(AnnexBError::NoStartCode)
    );
    assert_eq!(read(b"", 1), Err(AnnexBError::NoStartCode));
    assert_eq!(read(&[0; 9], 4), Err(AnnexBError::NoStartCode));
    assert_eq!(
        read(&stream(&[SPS, PPS, IDR, B]), 9),
        Err(AnnexBError::Bidirectional)
    );
    assert!(matches!(
        read(&stream(&[&[0x42, 0x80]]), 9),
        Err(AnnexBError::Damaged(_))
    ));
    assert!(matches!(
        read(&stream(&[&[0x41, 0]]), 9),
        Err(AnnexBError::Damaged(_))
    ));
    assert!(matches!(
        read(&stream(&[&[0x67, 1]]), 9),
        Err(AnnexBError::Damaged(_))
    ));
    let long = [&stream(&[IDR])[..], &vec![1; UNIT_BYTES_MAX]].concat();
    assert_eq!(read(&long, 1 << 16), Err(AnnexBError::Long));
    let flood = stream(&vec![&[6, 1][..]; UNIT_BYTES_MAX / 6 + 1]);
    assert_eq!(read(&flood, 1 << 16), Err(AnnexBError::Long));
}

#[test]
fn emulation_prevention_is_no_part_of_numbers() {
    // 16 zeros, then 1: the code of 2¹⁶ − 1 + the next 16 bits.
    let mut bits = Bits::new(&[0, 0, 3, 0x80, 0, 0x80]);
    assert_eq!(bits.golomb(), Some(65_535 + 1));
    assert_eq!(Bits::new(&[0, 0, 3, 3]).bytes, [0, 0, 3]);
}

fn encoded(arguments: &[&str]) -> Option<Vec<u8>> {
    let mut ffmpeg = Command::new("ffmpeg");
    let source = [
        "-loglevel",
        "error",
        "-f",
        "lavfi",
        "-i",
        "testsrc=size=192x144:rate=25:duration=3",
    ];
    ffmpeg
        .args(source)
        .args(["-c:v", "libx264", "-g", "25"])
        .args(arguments);
    let output = ffmpeg
        .args(["-f", "h264", "-"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(output.stdout)
}

#[test]
fn pictures_of_an_encoder_are_counted() {
    // Without ffmpeg and x264 there is nothing to read.
    let Some(bytes) = encoded(&["-bf", "0", "-slices", "3"]) else {
        return;
    };
    let units = read(&bytes, 1_000).unwrap();
    assert_eq!(units.len(), 75);
    let keys: Vec<_> = (0..75).filter(|at| units[*at].is_key).collect();
    assert_eq!(keys, [0, 25, 50]);
    let joined: Vec<u8> = units.iter().flat_map(|unit| unit.bytes.clone()).collect();
    assert_eq!(read(&joined, 333).unwrap(), units);
    let with_b = encoded(&["-bf", "2"]).unwrap();
    assert_eq!(read(&with_b, 1_000), Err(AnnexBError::Bidirectional));
}

proptest! {
    #[test]
    fn units_do_not_depend_on_the_pieces_and_are_read_again(
        nals in vec(select(vec![SPS, PPS, DELIMITER, IDR, P, P2, &[6, 5, 1], &[0x67, 66, 0, 30, 0x40]]), 1..20),
        noise in vec(select(vec![0_u8, 1, 3, 0x65, 0x88, 0xff]), 0..12),
        piece in 1..40_usize,
    ) {
        let bytes = [stream(&nals), noise].concat();
        let at_once = read(&bytes, bytes.len());
        prop_assert_eq!(&at_once, &read(&bytes, piece));
        if let Ok(units) = at_once && !units.is_empty() {
            let joined: Vec<u8> = units.iter().flat_map(|unit| unit.bytes.clone()).collect();
            let again = read(&joined, piece).unwrap();
            let bytes = |units: &[AccessUnit]| -> Vec<Vec<u8>> { units.iter().map(|unit| unit.bytes.clone()).collect() };
            prop_assert_eq!(bytes(&again), bytes(&units));
        }
    }
}
