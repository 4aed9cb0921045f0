//! Partition of samples into essential and enhanced ([Two-flow §3]).

use std::cmp::Reverse;

use anabranch_base::Rate;

use crate::{
    depend::{self, Role},
    index::{FrameType, Index, time},
};

/// Rule that selects the essential samples of a video; the rest is enhanced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// I frames: the paper's choice.
    Intra,
    /// I frames and audio: a gap in the audio is noticed before a still picture is.
    IntraAudio,
    /// I frames, audio, and the frames on which all later ones depend (P, and B used as P).
    IntraReferenced,
    /// As much as fits this rate, the most important first: I frames and audio always, then by the number of frames
    /// that depend on each. A group of pictures spends what its time allows, less what the groups before overspent.
    Budget(Rate),
}

/// One of the two flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Delivered reliably, a segment ahead.
    Essential,
    /// Delivered in real time, best effort.
    Enhanced,
}

/// Part and importance of every sample. Memory: 5 bytes per sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    policy: Policy,
    tracks: Vec<Shares>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Shares {
    is_essential: Vec<bool>,
    dependents: Vec<u32>,
}

impl Partition {
    /// Divides the samples of an index. A pure function of index and policy. O(samples · log(samples of a group)).
    pub fn new(index: &Index, policy: Policy) -> Self {
        let tracks = index.tracks.iter().map(|track| {
            let roles = depend::roles(track);
            let is_essential = track.samples.iter().zip(&roles).map(|(sample, &role)| {
                match (sample.frame, policy) {
                    (FrameType::Intra, _) => true,
                    (FrameType::Audio, _) => policy != Policy::Intra,
                    (_, Policy::IntraReferenced) => role == Role::Anchor,
                    _ => false,
                }
            });
            Shares {
                is_essential: is_essential.collect(),
                dependents: depend::dependents(track),
            }
        });
        let mut partition = Self {
            policy,
            tracks: tracks.collect(),
        };
        if let Policy::Budget(rate) = policy {
            partition.spend(index, rate);
        }
        partition
    }

    /// Policy of this partition.
    pub const fn policy(&self) -> Policy {
        self.policy
    }

    /// Part of a sample. Panics if there is no such sample.
    pub fn part(&self, track: usize, sample: usize) -> Part {
        if self.tracks[track].is_essential[sample] {
            Part::Essential
        } else {
            Part::Enhanced
        }
    }

    /// Number of frames that depend on a sample (itself not counted): the order in which to send the enhanced flow, and
    /// the reverse order in which to drop it. 0 for disposable frames. Panics if there is no such sample.
    pub fn importance(&self, track: usize, sample: usize) -> u32 {
        self.tracks[track].dependents[sample]
    }

    /// Size of one part of the film in bytes.
    pub fn bytes(&self, index: &Index, part: Part) -> u64 {
        let tracks = index.tracks.iter().enumerate();
        tracks
            .flat_map(|(place, track)| {
                let samples = track.samples.iter().enumerate();
                samples.filter(move |(at, _)| self.part(place, *at) == part)
            })
            .map(|(_, sample)| u64::from(sample.size))
            .sum()
    }

    /// Mean rate of one part.
    pub fn rate(&self, index: &Index, part: Part) -> Rate {
        Rate::from_bytes_per(self.bytes(index, part), index.duration)
    }

    fn spend(&mut self, index: &Index, rate: Rate) {
        let sound: u64 = index
            .tracks
            .iter()
            .filter(|t| !t.is_video())
            .map(|t| t.bytes())
            .sum();
        let sound = Rate::from_bytes_per(sound, index.duration);
        let rate = Rate::from_bps(rate.as_bps().saturating_sub(sound.as_bps()));
        for (track, shares) in index.tracks.iter().zip(&mut self.tracks) {
            if !track.is_video() {
                continue;
            }
            let samples = &track.samples;
            let mut debt = 0u64;
            let mut start = 0;
            while start < samples.len() {
                let rest = &samples[start + 1..];
                let next = rest.iter().position(|sample| sample.is_sync);
                let end = next.map_or(samples.len(), |next| start + 1 + next);
                let units = track.decode_end(end) - samples[start].decode_time;
                let allowed = rate.bytes_in(time(units, track.timescale));
                let keys = (start..end).filter(|&at| shares.is_essential[at]);
                let spent: u64 = keys.map(|at| u64::from(samples[at].size)).sum();
                let mut left = allowed.saturating_sub(debt).saturating_sub(spent);
                debt = (debt + spent).saturating_sub(allowed);
                let mut order: Vec<usize> = (start..end)
                    .filter(|&at| !shares.is_essential[at])
                    .collect();
                order.sort_by_key(|&at| (Reverse(shares.dependents[at]), at));
                for at in order {
                    // Samples that come later in this order may depend on one that does not fit.
                    let Some(after) = left.checked_sub(u64::from(samples[at].size)) else {
                        break;
                    };
                    left = after;
                    shares.is_essential[at] = true;
                }
                start = end;
            }
        }
    }
}
