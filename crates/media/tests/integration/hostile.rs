//! Files and stored indexes that are cut short, changed, or malicious: they give errors, never panics, and memory stays
//! proportional to the file.

use crate::common;

use std::io;

use anabranch_media::{
    Index, IndexError,
    depend::Dependents,
    write::{Layout, init_segment},
};
use common::BIKES;
use proptest::prelude::*;

fn try_read(bytes: &[u8]) -> Result<Index, IndexError> {
    let mut file = bytes;
    Index::read(&mut file, bytes.len() as u64)
}

fn be(value: u32) -> [u8; 4] {
    value.to_be_bytes()
}

/// Offset of the first box of a kind in the tables of `BIKES`, which are at its end.
fn find(kind: &[u8; 4]) -> usize {
    let moov = BIKES.windows(4).rposition(|four| four == b"moov");
    let moov = moov.expect("a movie box") - 4;
    let at = BIKES[moov..].windows(4).position(|four| four == kind);
    moov + at.expect("the box is there") - 4
}

/// `BIKES` with other bytes at an offset from a box's start.
fn changed(kind: &[u8; 4], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = BIKES.to_vec();
    let at = find(kind) + at;
    file[at..at + bytes.len()].copy_from_slice(bytes);
    file
}

#[test]
fn cut_short_anywhere() {
    for cut in (0..BIKES.len())
        .step_by(997)
        .chain(BIKES.len() - 3_000..BIKES.len())
    {
        let error = try_read(&BIKES[..cut]).expect_err("cut short");
        let is_named = matches!(
            error,
            IndexError::Truncated { .. } | IndexError::NotMp4 | IndexError::Unsupported { .. }
        );
        assert!(is_named, "{cut}: {error}");
    }
}

#[test]
fn other_files_are_not_mp4() {
    for bytes in [
        &b""[..],
        b"x",
        b"\x1a\x45\xdf\xa3 matroska, which has no boxes",
        b"#EXTM3U\n#EXT-X-VERSION:3\n",
        &[0; 4096],
        &[0xff; 4096],
    ] {
        let error = try_read(bytes).expect_err("no film");
        assert!(matches!(error, IndexError::NotMp4), "{error}");
    }
}

#[test]
fn errors_name_the_fault() {
    let cases: [(Vec<u8>, &str); 13] = [
        (
            changed(b"avc1", 4, b"encv"),
            "track 1 is encrypted ('encv')",
        ),
        (changed(b"avc1", 4, b"vp08"), "track 1 has the codec 'vp08'"),
        (changed(b"avcC", 4, b"xxxx"), "codec settings are missing"),
        (changed(b"hdlr", 16, b"text"), "no video track"),
        (
            changed(b"stsz", 12, &[be(1), be(u32::MAX)].concat()),
            "samples: 4294967295, the limit is 8388608",
        ),
        (
            changed(b"stsz", 16, &be(1 << 20)),
            "fewer entries than it declares",
        ),
        (changed(b"stsz", 16, &be(249)), ""),
        // All samples of one size, so that a few bytes claim many samples.
        (
            changed(b"stsz", 12, &[be(1 << 20), be(1 << 22)].concat()),
            "the file is cut short: a sample ends at",
        ),
        (changed(b"stts", 16, &be(3)), "covers fewer samples"),
        (
            changed(b"stts", 20, &be(u32::MAX)),
            "a duration is negative",
        ),
        (changed(b"stsc", 16, &be(2)), "does not begin with chunk 1"),
        (
            changed(b"stco", 16, &be(u32::MAX)),
            "cut short: a sample ends at",
        ),
        (changed(b"mdhd", 20, &be(0)), "timescale is zero"),
    ];
    for (file, words) in cases {
        match try_read(&file) {
            Ok(index) => assert_eq!((words, index.tracks[0].samples.len()), ("", 249)),
            Err(error) => assert!(
                !words.is_empty() && error.to_string().contains(words),
                "{words}: {error}"
            ),
        }
    }
}

#[test]
fn samples_that_share_bytes_are_refused() {
    // Every chunk of the film at the same offset.
    let stco = find(b"stco");
    let count = u32::from_be_bytes(BIKES[stco + 12..stco + 16].try_into().expect("four"));
    let mut file = BIKES.to_vec();
    for chunk in 0..count as usize {
        file[stco + 16 + 4 * chunk..][..4].copy_from_slice(&be(48));
    }
    // They have as many bytes as before, and lie in the file.
    assert!(try_read(&file).is_ok());
    // A million samples of a thousand bytes each in half a megabyte.
    let samples = changed(b"stsz", 12, &[be(1_000), be(1 << 20)].concat());
    let error = try_read(&samples).expect_err("they overlap");
    assert!(matches!(
        error,
        IndexError::Corrupt { .. } | IndexError::Truncated { .. }
    ));
}

#[test]
fn a_reader_that_fails_is_named() {
    let mut reads = 0;
    let mut file = |offset: u64, into: &mut [u8]| {
        reads += 1;
        if reads > 20 {
            return Err(io::Error::other("the disk is gone"));
        }
        let start = offset as usize;
        into.copy_from_slice(&BIKES[start..start + into.len()]);
        Ok(())
    };
    let error = Index::read(&mut file, BIKES.len() as u64).expect_err("it fails");
    assert!(error.to_string().ends_with("the disk is gone"), "{error}");
}

#[test]
fn the_film_itself_is_not_read() {
    let mut bytes = 0;
    let mut most = 0;
    let mut file = |offset: u64, into: &mut [u8]| {
        bytes += into.len();
        most = most.max(into.len());
        let start = offset as usize;
        into.copy_from_slice(&BIKES[start..start + into.len()]);
        Ok(())
    };
    Index::read(&mut file, BIKES.len() as u64).expect("a film");
    assert!(bytes < BIKES.len() / 5, "{bytes}");
    assert!(most <= 64 << 10, "{most}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Changes in the tables: an error, or an index whose parts lie in the file.
    #[test]
    fn changed_tables(changes in prop::collection::vec((0usize..4_000, any::<u8>()), 1..8)) {
        let mut file = BIKES.to_vec();
        let moov = find(b"moov");
        for (at, byte) in changes {
            let at = moov + at % (file.len() - moov);
            file[at] = byte;
        }
        if let Ok(index) = try_read(&file) {
            let again = Index::decode(&index.encode()).expect("valid");
            prop_assert_eq!(again, index);
        }
    }

    /// A stored index whose bytes were changed and whose hash was recomputed.
    #[test]
    fn forged_indexes(changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6)) {
        let mut bytes = common::bikes().encode();
        bytes.truncate(bytes.len() - 16);
        for (at, byte) in changes {
            let at = 5 + at % (bytes.len() - 5);
            bytes[at] = byte;
        }
        let hash = blake3::hash(&bytes);
        bytes.extend_from_slice(&hash.as_bytes()[..16]);
        if let Ok(index) = Index::decode(&bytes) {
            prop_assert_eq!(index.encode(), bytes);
        }
    }
}

/// A film after five gigabytes of other data.
#[test]
fn offsets_beyond_four_gigabytes() {
    const HOLE: u64 = 5 << 30;
    let index = common::bikes();
    let film = common::merged(
        &index,
        BIKES,
        Layout::Compact,
        Dependents::default(),
        &|_, _| true,
    );
    let head = init_segment(&index, &[0]).len() as u64;
    // A 'free' box whose size takes 64 bits.
    let mut free = [&1u32.to_be_bytes()[..], b"free"].concat();
    free.extend_from_slice(&(HOLE).to_be_bytes());
    let mut read = 0;
    let mut file = |offset: u64, into: &mut [u8]| {
        read += into.len();
        for (at, byte) in (offset..).zip(into) {
            *byte = match at {
                at if at < head => film.file[at as usize],
                at if at < head + HOLE => free.get((at - head) as usize).copied().unwrap_or(0),
                at => film.file[(at - HOLE) as usize],
            };
        }
        Ok(())
    };
    let len = film.file.len() as u64 + HOLE;
    let again = Index::read(&mut file, len).expect("a film");
    assert_eq!(again.tracks[0].samples.len(), 250);
    for (new, old) in again.tracks[0].samples.iter().zip(&index.tracks[0].samples) {
        assert!(new.offset > HOLE);
        let place = (new.offset - HOLE) as usize;
        assert_eq!(
            film.file[place..place + new.size as usize],
            BIKES[old.offset as usize..old.end() as usize]
        );
    }
    assert!(read < BIKES.len() / 2, "{read}");
    assert_eq!(Index::decode(&again.encode()).expect("valid"), again);
}
