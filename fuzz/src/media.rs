//! Stored video: files and stored indexes with arbitrary contents.

use std::{sync::OnceLock, time::Duration};

use anabranch_base::Rate;
use anabranch_media::{
    FrameType, Index, Part, Partition, Policy,
    chunk::chunks,
    depend::Dependents,
    hls,
    segment::Segments,
    write::{Layout, Options, Piece, Progressive, plan},
};

use crate::Input;

const FILM: &[u8] = include_bytes!("../../crates/media/tests/data/bikes.mp4");
/// Range of bytes that can be changed, at the ends of the templates, where their tables are.
const REACH: usize = 4_000;

/// Whatever a file or a stored index contains, the result is an error or an index that can be stored, divided and written
/// without a panic: every sample once, with the sizes announced beforehand.
pub fn media(data: &[u8]) {
    let mut input = Input(data);
    let choice = input.byte();
    let index = match choice % 4 {
        0 => read(input.0),
        1 => {
            // An index of other bytes, or a changed one, with a right hash.
            let mut bytes = if input.byte() % 2 == 0 {
                let rest = std::mem::take(&mut input.0);
                [b"ANBI\x01", rest].concat()
            } else {
                changed(stored(), &mut input)
            };
            let hash = blake3::hash(&bytes);
            bytes.extend_from_slice(&hash.as_bytes()[..16]);
            let index = Index::decode(&bytes).ok();
            if let Some(index) = &index {
                assert_eq!(index.encode(), bytes);
            }
            index
        }
        2 => read(&changed(FILM, &mut input)),
        _ => read(&changed(fragmented(), &mut input)),
    };
    if let Some(index) = index {
        use_it(&index, &mut input);
    }
}

fn read(bytes: &[u8]) -> Option<Index> {
    let mut file = bytes;
    Index::read(&mut file, bytes.len() as u64).ok()
}

/// The film's stored index without its hash.
pub(crate) fn stored() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let mut bytes = read(FILM).expect("a film").encode();
        bytes.truncate(bytes.len() - 16);
        bytes
    })
}

/// Tables of the fragmented film, without its pictures.
fn fragmented() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let index = read(FILM).expect("a film");
        let chunks = chunks(&index, Duration::from_secs(4));
        let mut bytes = Progressive::new(&index, &[0], &chunks).head().to_vec();
        for chunk in &chunks {
            let options = Options::default();
            let plan = plan(&index, &[0], chunk, &|_, sample| sample % 20 == 0, options);
            bytes.extend_from_slice(&plan.head);
            bytes.resize(bytes.len() + plan.bytes as usize - plan.head.len(), 7);
        }
        bytes
    })
}

/// A template with up to eight changed words.
pub(crate) fn changed(template: &[u8], input: &mut Input<'_>) -> Vec<u8> {
    let mut bytes = template.to_vec();
    let start = bytes.len().saturating_sub(REACH);
    for _ in 0..input.byte() % 8 {
        let place = usize::from(input.byte()) << 8 | usize::from(input.byte());
        let width = 1 + usize::from(input.byte() % 4);
        let at = if place & 0x8000 == 0 {
            start + place % (bytes.len() - start)
        } else {
            place & 0x7fff
        };
        for (byte, new) in bytes.iter_mut().skip(at).zip(input.take(width)) {
            *byte = *new;
        }
    }
    bytes
}

fn use_it(index: &Index, input: &mut Input<'_>) {
    let stored = index.encode();
    assert_eq!(&Index::decode(&stored).expect("our own"), index);
    let policy = match input.byte() % 4 {
        0 => Policy::Intra,
        1 => Policy::IntraAudio,
        2 => Policy::IntraReferenced,
        _ => Policy::Budget(Rate::from_kbps(u64::from(input.byte()))),
    };
    let partition = Partition::new(index, policy);
    let parts = [Part::Essential, Part::Enhanced].map(|part| partition.bytes(index, part));
    assert_eq!(parts[0] + parts[1], index.media_bytes());
    let segments = Segments::new(index, &partition, Duration::from_secs(2));
    let total: u64 = segments
        .segments
        .iter()
        .map(|segment| segment.essential_bytes + segment.enhanced_bytes)
        .sum();
    assert_eq!(total, index.media_bytes());

    let chunks = chunks(index, Duration::from_millis(u64::from(input.byte()) * 40));
    let tracks: Vec<usize> = (0..index.tracks.len()).collect();
    let places = Progressive::new(index, &tracks, &chunks);
    let options = Options {
        layout: if input.byte().is_multiple_of(2) {
            Layout::Stable
        } else {
            Layout::Compact
        },
        dependents: match input.byte() % 4 {
            0 => Dependents::LeaveOut,
            1 => Dependents::LeaveOutNear,
            2 => Dependents::PassOn,
            _ => Dependents::Keep,
        },
    };
    let losses = [input.byte(), input.byte(), input.byte()];
    let is_there = |track: usize, sample: usize| {
        let bits = losses[(track + sample / 8) % losses.len()];
        bits >> (sample % 8) & 1 == 0
    };
    let mut samples = 0;
    for chunk in &chunks {
        let plan = plan(index, &tracks, chunk, &is_there, options);
        let place = places.place(chunk.number as usize);
        let kept = plan
            .pieces
            .iter()
            .filter(|p| matches!(p, Piece::Sample(..)));
        samples += kept.count() + plan.left_out.total() as usize;
        if options.layout == Layout::Stable {
            assert_eq!(plan.bytes, place.end - place.start);
        }
        assert!(
            FrameType::ALL
                .iter()
                .all(|&f| plan.missing.of(f) <= plan.left_out.of(f))
        );
    }
    let all: usize = index.tracks.iter().map(|track| track.samples.len()).sum();
    assert_eq!(samples, all);
    let _ = hls::master_playlist(index, &chunks, &|track| track.to_string());
    let _ = hls::media_playlist(index, index.video(), &chunks, "i", &|n| n.to_string());
}
