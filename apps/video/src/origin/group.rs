//! A chunk's enhanced frames in groups, each from one key frame to the next, and the selection of frames where there is no
//! capacity for all.

use std::{collections::VecDeque, time::Duration};

use anabranch_media::{FrameType, Part};
use anabranch_twoflow::thinning::{Candidate, Thinning};

use crate::{
    load::enhanced_bytes,
    video::{FrameId, Video},
};

/// A frame of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) id: FrameId,
    /// Offset at which it begins in the chunk's enhanced data.
    pub(super) place: usize,
    pub(super) size: usize,
    /// Number of frames that need it; the maximum for sound, of which nothing replaces what is missing.
    pub(super) importance: u32,
}

/// Frames between two key frames, in decoding order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Time at which the next group begins, in the film.
    pub(super) end: Duration,
    pub(super) members: VecDeque<Member>,
}

impl Group {
    /// Size on the wire, as UDP payload.
    pub(super) fn wire_bytes(&self) -> u64 {
        let members = self.members.iter();
        members.map(|member| enhanced_bytes(member.size)).sum()
    }

    /// Leaves out what does not fit the share `part` of the group, the least needed frames first, and with a frame those that
    /// depend on it. Returns the number of frames left out.
    pub(super) fn thin(&mut self, part: f64, thinning: &mut Thinning) -> u32 {
        if part >= 1.0 {
            return 0;
        }
        let candidates: Vec<Candidate> = self
            .members
            .iter()
            .map(|member| Candidate {
                bytes: u32::try_from(enhanced_bytes(member.size)).unwrap_or(u32::MAX),
                rank: u8::try_from(member.importance).unwrap_or(u8::MAX),
            })
            .collect();
        let budget = self.wire_bytes() as f64 * part.max(0.0);
        let mut keep = Vec::new();
        thinning.choose(&candidates, budget as u64, &mut keep);
        // A frame that all later pictures need takes them with it.
        let count = self.members.len();
        let mut is_cut = false;
        for (at, member) in self.members.iter().enumerate() {
            let is_sound = member.importance == u32::MAX;
            if is_cut && !is_sound {
                keep[at] = false;
            }
            let later = self.members.range(at + 1..);
            let pictures = later.filter(|later| later.importance != u32::MAX).count();
            is_cut |=
                !keep[at] && !is_sound && pictures > 0 && member.importance as usize >= pictures;
        }
        let mut keep = keep.into_iter();
        self.members.retain(|_| keep.next().unwrap_or(true));
        u32::try_from(count - self.members.len()).unwrap_or(u32::MAX)
    }
}

/// The groups of a chunk, at least one.
///
/// # Panics
/// There is no such chunk.
pub(super) fn groups(video: &Video, chunk: u32) -> VecDeque<Group> {
    let begin = video.start(chunk);
    let end = video.start(chunk + 1);
    let keys = video.frames(chunk, Part::Essential);
    let keys = keys.filter(|&frame| video.kind(frame) == FrameType::Intra);
    let mut starts: Vec<Duration> = keys
        .map(|frame| video.decode_start(frame))
        .filter(|&at| at > begin && at < end)
        .collect();
    starts.sort_unstable();
    starts.dedup();
    let mut place = 0;
    let mut members: Vec<(Duration, Member)> = video
        .frames(chunk, Part::Enhanced)
        .map(|id| {
            let size = video.size(id) as usize;
            place += size;
            let importance = match video.kind(id) {
                FrameType::Audio => u32::MAX,
                _ => video.partition.importance(id.track, id.sample),
            };
            let member = Member {
                id,
                place: place - size,
                size,
                importance,
            };
            (video.decode_start(id), member)
        })
        .collect();
    members.sort_by_key(|(at, member)| (*at, member.place));
    let mut members = members.into_iter().peekable();
    let ends = starts.into_iter().map(|at| (at, at));
    // Frames decoded beyond the end belong to the last group.
    let ends = ends.chain([(end, Duration::MAX)]);
    ends.map(|(end, until)| {
        let of_group = std::iter::from_fn(|| members.next_if(|(at, _)| *at < until));
        Group {
            end,
            members: of_group.map(|(_, member)| member).collect(),
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::film;

    #[test]
    fn a_chunk_is_divided_at_its_key_frames() {
        let film = film(2);
        let all: Vec<_> = groups(&film, 0).into();
        let ends: Vec<_> = all.iter().map(|group| group.end.as_millis()).collect();
        // A key frame is decoded one picture before it is shown.
        assert_eq!(ends, [960, 2_000]);
        let sizes: Vec<Vec<usize>> = all
            .iter()
            .map(|group| group.members.iter().map(|member| member.size).collect())
            .collect();
        // P, B, B, P, B, B, … after each key frame: decoding order.
        assert_eq!(sizes[0][..6], [3_000, 500, 500, 3_000, 500, 500]);
        assert_eq!(sizes[0], sizes[1]);
        let places: Vec<usize> = all
            .iter()
            .flat_map(|group| group.members.iter().map(|member| member.place))
            .collect();
        assert!(
            places.is_sorted(),
            "one track's frames lie as they are decoded"
        );
        let bytes: usize = sizes.iter().flatten().sum();
        assert_eq!(bytes as u64, film.bytes(0, Part::Enhanced));
    }

    #[test]
    fn the_least_needed_are_left_out_first() {
        let film = film(1);
        let group = groups(&film, 0).remove(0).expect("a group");
        let all = group.members.len();
        let mut whole = group.clone();
        assert_eq!(whole.thin(1.0, &mut Thinning::new()), 0);
        assert_eq!(whole, group);
        let sizes = |part| {
            let mut group = group.clone();
            let out = group.thin(part, &mut Thinning::new());
            assert_eq!(out as usize + group.members.len(), all);
            let members = group.members.iter();
            members.map(|member| member.size).collect::<Vec<_>>()
        };
        // There is space for the P frames and some of the others.
        let some = sizes(0.85);
        let count = |sizes: &[usize], size| sizes.iter().filter(|&&s| s == size).count();
        let predicted = count(&sizes(1.0), 3_000);
        assert_eq!(count(&some, 3_000), predicted);
        assert!((1..all - predicted).contains(&count(&some, 500)));
        // Not even for these: the first of them stay, and nothing that depends on one that is gone.
        let few = sizes(0.4);
        assert!((1..predicted).contains(&count(&few, 3_000)));
        let last = few.iter().rposition(|&size| size == 3_000).expect("one");
        assert!(few.len() - last <= 3, "{few:?}");
        assert_eq!(sizes(0.0), [0; 0]);
    }
}
