use std::collections::BTreeSet;

use anabranch_media::Index;
use proptest::prelude::*;

use super::*;
use crate::{video::Division, wire::PIECE_BYTES_MAX};

/// A film with B frames and sound, in chunks of about a second.
fn film() -> (Arc<Video>, &'static [u8]) {
    let film: &'static [u8] = include_bytes!("../../../../../crates/media/tests/data/bikes.mp4");
    let mut source = film;
    let index = Index::read(&mut source, film.len() as u64).unwrap();
    let division = Division {
        chunk: std::time::Duration::from_secs(1),
        ..Division::default()
    };
    (Arc::new(Video::new("film", "1", index, division)), film)
}

/// The bytes of one part, as the origin sends them.
fn bytes(video: &Video, film: &[u8], chunk: u32, part: Part) -> Bytes {
    let frames = video.frames(chunk, part).flat_map(|frame| {
        let sample = &video.index.tracks[frame.track].samples[frame.sample];
        film[sample.offset as usize..sample.end() as usize].to_vec()
    });
    frames.collect()
}

/// A chunk's enhanced data in ADUs of at most `most` bytes.
fn adus(video: &Video, film: &[u8], chunk: u32, most: usize) -> Vec<Enhanced> {
    let mut adus = Vec::new();
    for frame in video.frames(chunk, Part::Enhanced) {
        let sample = &video.index.tracks[frame.track].samples[frame.sample];
        let data = &film[sample.offset as usize..sample.end() as usize];
        for (n, part) in data.chunks(most).enumerate() {
            adus.push(Enhanced {
                sequence: 0,
                timestamp: 0,
                chunk,
                track: frame.track as u8,
                sample: frame.sample as u32,
                offset: (n * most) as u32,
                data: Bytes::copy_from_slice(part),
            });
        }
    }
    adus
}

/// An arriving chunk with its essential part.
fn arriving(video: &Arc<Video>, film: &[u8], chunk: u32) -> Assembly {
    let mut assembly = Assembly::new(video.clone(), chunk);
    let essential = bytes(video, film, chunk, Part::Essential);
    let total = essential.len() as u32;
    for (n, piece) in essential.chunks(PIECE_BYTES_MAX).enumerate() {
        let offset = (n * PIECE_BYTES_MAX) as u32;
        assert!(assembly.essential().is_none());
        assert!(assembly.put_essential(offset, total, piece));
    }
    assert_eq!(assembly.essential(), Some(&essential[..]));
    assembly
}

/// Checks that the frames of the content are those of the film.
fn check(content: &Content, film: &[u8], is_there: impl Fn(FrameId) -> bool) {
    let video = content.video().clone();
    let mut missing = 0;
    for part in [Part::Essential, Part::Enhanced] {
        for frame in video.frames(content.chunk, part) {
            let sample = &video.index.tracks[frame.track].samples[frame.sample];
            let own = &film[sample.offset as usize..sample.end() as usize];
            let found = content.get(frame.track, frame.sample);
            if part == Part::Essential || is_there(frame) {
                assert_eq!(found.as_deref(), Some(own), "{frame:?}");
            } else {
                assert_eq!(found, None, "{frame:?}");
                missing += 1;
            }
        }
    }
    assert_eq!(content.missing.total(), missing);
    assert_eq!(content.get(0, usize::MAX), None);
    assert_eq!(content.get(9, 0), None);
}

#[test]
fn a_chunk_that_came_whole_is_the_film() {
    let (video, film) = film();
    for chunk in 0..video.count() {
        let mut assembly = arriving(&video, film, chunk);
        for adu in adus(&video, film, chunk, 1_000) {
            assert!(assembly.put_enhanced(&adu));
        }
        assert_eq!(assembly.missing(), []);
        let content = assembly.finish(None).unwrap();
        check(&content, film, |_| true);
        let [essential, enhanced] =
            [Part::Essential, Part::Enhanced].map(|part| bytes(&video, film, chunk, part));
        let same = Content::complete(video.clone(), chunk, essential, enhanced).unwrap();
        assert_eq!(same.stored(), content.stored());
    }
}

#[test]
fn what_is_no_part_of_the_chunk_is_refused() {
    let (video, film) = film();
    let mut assembly = Assembly::new(video.clone(), 0);
    let essential = bytes(&video, film, 0, Part::Essential);
    let total = essential.len() as u32;
    assert!(!assembly.put_essential(1, total, b"x"), "not at its begin");
    assert!(!assembly.put_essential(0, total + 1, b"x"), "another chunk");
    assert!(assembly.put_essential(0, total, &essential[..10]));
    assert!(!assembly.put_essential(0, total, &essential[..10]), "twice");

    let good = adus(&video, film, 0, 700).remove(0);
    let is_taken = |assembly: &mut Assembly, change: &dyn Fn(&mut Enhanced)| {
        let mut adu = good.clone();
        change(&mut adu);
        assembly.put_enhanced(&adu)
    };
    assert!(!is_taken(&mut assembly, &|adu| adu.track = 9));
    assert!(!is_taken(&mut assembly, &|adu| adu.sample = u32::MAX));
    assert!(!is_taken(&mut assembly, &|adu| adu.offset = u32::MAX));
    let intra = video.frames(0, Part::Essential).next().unwrap();
    let of_essential = |adu: &mut Enhanced| adu.sample = intra.sample as u32;
    assert!(!is_taken(&mut assembly, &of_essential));
    assert!(is_taken(&mut assembly, &|_| ()));
    assert!(!is_taken(&mut assembly, &|_| ()), "twice");
    assert!(
        !is_taken(&mut assembly, &|adu| adu.offset = 699),
        "over the end of another"
    );
    assert_eq!(assembly.adus(), 1);
    assert!(
        assembly.finish(None).is_none(),
        "without all that is essential"
    );
}

#[test]
fn the_most_needed_frames_are_asked_for_first_and_fit() {
    let (video, film) = film();
    let mut assembly = arriving(&video, film, 0);
    let all = adus(&video, film, 0, 500);
    // Only one part of the first frame.
    assert!(assembly.put_enhanced(&all[0]));
    let missing = assembly.missing();
    let frames: Vec<FrameId> = video.frames(0, Part::Enhanced).collect();
    assert_eq!(missing.len(), frames.len());
    let importance = |number: u32| {
        let frame = frames[number as usize];
        video.partition.importance(frame.track, frame.sample)
    };
    assert!(
        missing
            .windows(2)
            .all(|two| importance(two[0].0) >= importance(two[1].0))
    );
    assert!(importance(missing[0].0) > importance(missing.last().unwrap().0));

    let mut wanted: Vec<u32> = missing.iter().take(5).map(|(number, _)| *number).collect();
    wanted.push(0);
    wanted.sort_unstable();
    wanted.dedup();
    let data: Vec<u8> = wanted
        .iter()
        .flat_map(|&number| {
            let frame = frames[number as usize];
            let sample = &video.index.tracks[frame.track].samples[frame.sample];
            film[sample.offset as usize..sample.end() as usize].to_vec()
        })
        .collect();
    assert!(!assembly.put_frames(&wanted, &data[1..]));
    assert!(!assembly.put_frames(&[u32::MAX], &data));
    assert!(assembly.put_frames(&wanted, &data));
    let left: BTreeSet<u32> = assembly
        .missing()
        .into_iter()
        .map(|(number, _)| number)
        .collect();
    assert!(wanted.iter().all(|number| !left.contains(number)));
    let content = assembly.finish(None).unwrap();
    let number_of = |frame| frames.iter().position(|&one| one == frame).unwrap() as u32;
    check(&content, film, |frame| wanted.contains(&number_of(frame)));
}

/// From the store, or from memory: the dropped essential part is supplied by the caller.
#[test]
fn the_essential_part_may_lie_elsewhere() {
    let (video, film) = film();
    let mut assembly = arriving(&video, film, 0);
    let before = assembly.bytes();
    assembly.drop_essential();
    assert!(assembly.bytes() < before);
    assert!(assembly.essential().is_none());
    let essential = bytes(&video, film, 0, Part::Essential);
    let content = assembly.finish(Some(essential.clone())).unwrap();
    check(&content, film, |_| false);
    let assembly = Assembly::new(video, 0);
    assert!(
        assembly.finish(Some(essential.slice(1..))).is_none(),
        "of another chunk"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is lost, duplicated or reordered: frames that are whole are there, others are not, and the disk returns the
    /// same.
    #[test]
    fn whole_frames_are_there_and_no_others(
        chunk in 0..2_u32,
        most in 100..1_400_usize,
        order in proptest::collection::vec(any::<proptest::sample::Index>(), 0..400),
    ) {
        let (video, film) = film();
        let chunk = chunk.min(video.count() - 1);
        let adus = adus(&video, film, chunk, most);
        let mut assembly = arriving(&video, film, chunk);
        let mut come = BTreeSet::new();
        for index in &order {
            let at = index.index(adus.len());
            prop_assert_eq!(assembly.put_enhanced(&adus[at]), come.insert(at));
        }
        prop_assert_eq!(assembly.adus() as usize, come.len());
        let is_whole = |frame: FrameId| {
            let is_of = |adu: &Enhanced| (adu.track as usize, adu.sample as usize) == (frame.track, frame.sample);
            adus.iter().enumerate().all(|(at, adu)| !is_of(adu) || come.contains(&at))
        };
        let content = assembly.finish(None).unwrap();
        check(&content, film, is_whole);
        let essential = content.essential().clone();
        let restored = Content::restore(video, chunk, essential, &content.stored()).unwrap();
        check(&restored, film, is_whole);
    }

    /// The file on disk may contain anything.
    #[test]
    fn rubbish_is_not_restored(stored in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        let (video, film) = film();
        let essential = bytes(&video, film, 0, Part::Essential);
        let stored = Bytes::from(stored);
        if let Some(content) = Content::restore(video.clone(), 0, essential.clone(), &stored) {
            // Then it encodes to the same bytes.
            prop_assert_eq!(content.stored(), stored);
        }
        prop_assert!(Content::restore(video, 0, essential.slice(1..), &Bytes::new()).is_none());
    }
}
