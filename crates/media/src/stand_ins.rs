//! Stand-ins of a track's frames, by sample.

/// Largest size of a stand-in.
pub(crate) const BYTES_MAX: usize = 255;

/// A few bytes for each referenced frame that can be replaced when it is missing (H.264 only): a repetition of the
/// picture shown before, which leaves the decoder in the state in which the frame would have left it. Memory: 4 bytes a
/// sample, and 13 to 20 for each that has one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StandIns {
    bytes: Vec<u8>,
    /// End of each sample's stand-in in `bytes`; empty if there are none at all.
    ends: Vec<u32>,
}

impl StandIns {
    /// The stand-in of a sample, if it has one.
    pub fn get(&self, sample: usize) -> Option<&[u8]> {
        let end = *self.ends.get(sample)? as usize;
        let start = match sample {
            0 => 0,
            _ => self.ends[sample - 1] as usize,
        };
        (start < end).then(|| &self.bytes[start..end])
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds the stand-in of the next sample; none if it is empty or too long.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if bytes.len() <= BYTES_MAX {
            self.bytes.extend_from_slice(bytes);
        }
        self.ends.push(self.bytes.len() as u32);
    }

    /// Drops the table if there are none.
    pub(crate) fn finish(mut self) -> Self {
        if self.bytes.is_empty() {
            self.ends = Vec::new();
        }
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
        self
    }
}
