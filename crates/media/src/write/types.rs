//! Types of fragments: options, sources and results.

use bytes::Bytes;

use crate::{depend::Dependents, index::FrameType};

/// The frames that are available.
pub trait Frames {
    /// Bytes of a sample (track and sample by position); `None` if they did not arrive. Bytes of another length than in
    /// the index count as missing.
    fn get(&self, track: usize, sample: usize) -> Option<Bytes>;
}

impl<F: Fn(usize, usize) -> Option<Bytes>> Frames for F {
    fn get(&self, track: usize, sample: usize) -> Option<Bytes> {
        self(track, sample)
    }
}

/// Layout of the bytes of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Only what is available: for HLS, where a player takes a fragment as a whole.
    #[default]
    Compact,
    /// The same size and the same offsets whatever is missing: for a progressive file with byte ranges.
    Stable,
}

/// Options for writing fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Layout of the bytes.
    pub layout: Layout,
    /// Treatment of frames that depend on a missing one.
    pub dependents: Dependents,
}

/// Number of samples by type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts([u32; FrameType::ALL.len()]);

impl Counts {
    /// Number of samples of one type.
    pub const fn of(&self, frame: FrameType) -> u32 {
        self.0[frame as usize]
    }

    /// Number of all samples.
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

/// A run of bytes in a fragment, after its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A sample: track and sample by position, and its size.
    Sample(usize, usize, u32),
    /// The given bytes: the stand-in of a sample, or filler.
    Data(Bytes),
    /// A number of zeros.
    Zeros(u64),
}

/// A fragment without its samples: the pieces to write, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// 'moof', and 'mdat' up to its first byte of data.
    pub head: Bytes,
    /// The pieces after the head, in order.
    pub pieces: Vec<Piece>,
    /// Size of the whole fragment.
    pub bytes: u64,
    /// Samples that did not arrive.
    pub missing: Counts,
    /// Samples that are not in the fragment: the missing ones, and those left out because of them.
    pub left_out: Counts,
    /// Those of them that were replaced by a stand-in.
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
    /// Those of them that were replaced by a stand-in.
    pub replaced: Counts,
}
