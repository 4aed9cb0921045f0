//! Fragments: the request and its content.

use bytes::Bytes;

use crate::{depend::Dependents, index::FrameType};

/// The frames that are there.
pub trait Frames {
    /// The bytes of a sample (track and sample by place); `None` if they did not arrive. Bytes of another length
    /// than the index says count as missing.
    fn get(&self, track: usize, sample: usize) -> Option<Bytes>;
}

impl<F: Fn(usize, usize) -> Option<Bytes>> Frames for F {
    fn get(&self, track: usize, sample: usize) -> Option<Bytes> {
        self(track, sample)
    }
}

/// How the bytes of a fragment lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Nothing but what is there: for HLS, where a player takes a fragment as a whole.
    #[default]
    Compact,
    /// The same size and the same places whatever is missing: for a progressive file with byte ranges.
    Stable,
}

/// How to write fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// How the bytes lie.
    pub layout: Layout,
    /// Outcome of frames that need a missing one.
    pub dependents: Dependents,
}

/// Samples by type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts([u32; FrameType::ALL.len()]);

impl Counts {
    /// Samples of one type.
    pub const fn of(&self, frame: FrameType) -> u32 {
        self.0[frame as usize]
    }

    /// All samples.
    pub fn total(&self) -> u32 {
        self.0.iter().sum()
    }

    /// Counts one more.
    pub const fn add(&mut self, frame: FrameType) {
        self.0[frame as usize] += 1;
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, rhs: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(rhs.0) {
            *mine += theirs;
        }
    }
}

/// Bytes that follow each other in a fragment, behind its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A sample: track and sample by place, and its size.
    Sample(usize, usize, u32),
    /// These bytes: the stand-in of a sample, or filler.
    Data(Bytes),
    /// So many zeros.
    Zeros(u64),
}

/// A fragment without its samples: what to write, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// 'moof', and 'mdat' up to its first byte of data.
    pub head: Bytes,
    /// What follows.
    pub pieces: Vec<Piece>,
    /// Size of the whole fragment.
    pub bytes: u64,
    /// Samples that did not arrive.
    pub missing: Counts,
    /// Samples that are not in the fragment: the missing ones, and those left out because of them.
    pub left_out: Counts,
    /// Those of them that a stand-in has replaced.
    pub replaced: Counts,
}

/// A fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    /// 'moof' and 'mdat'.
    pub bytes: Bytes,
    /// Samples that did not arrive.
    pub missing: Counts,
    /// Samples that are not in it: the missing ones, and those left out because of them.
    pub left_out: Counts,
    /// Those of them that a stand-in has replaced.
    pub replaced: Counts,
}
