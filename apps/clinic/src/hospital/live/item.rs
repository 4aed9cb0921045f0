//! Data of a case, as viewers get it.

use std::sync::Arc;

use bytes::Bytes;

use super::Dated;

/// Samples, a picture, or a packet of speech.
#[derive(Clone, Debug)]
pub enum Item {
    /// Frames of the record.
    Samples {
        /// Number of the case.
        case: u32,
        /// Number of the first frame.
        first: u64,
        /// Leads of a frame.
        leads: usize,
        /// Time of the last frame.
        dated: Dated,
        /// Samples, frame by frame.
        samples: Arc<[i16]>,
    },
    /// A picture of the video.
    Picture {
        /// Number of the case.
        case: u32,
        /// Number of the picture.
        number: u64,
        /// A decoder can begin here.
        is_key: bool,
        /// Time of its capture.
        dated: Dated,
        /// The access unit.
        bytes: Bytes,
    },
    /// A packet of the ambulance's speech.
    Speech {
        /// Number of the case.
        case: u32,
        /// Number of the packet.
        number: u64,
        /// Time of its capture.
        dated: Dated,
        /// The packet of Opus.
        bytes: Bytes,
    },
}
