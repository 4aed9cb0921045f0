//! Applications that produce streams: frames of data with sizes and times, the same in the lab and live.
//!
//! A [`Source`] has no clock and no session: it lists its streams, the demand of each, and the contents of each frame. Its
//! driver hands over the parts of frame n at [`Frame::at`].
//!
//! | module | holds |
//! |---|---|
//! | [`visualisation`] | atoms, bonds in view, bonds out of view, as SmartPointer's server sends them |
//! | [`xyz`], [`bonds`], [`view`] | a molecular-dynamics trajectory, its bonds, the view of an observer |
//! | [`video`] | base and enhancement layer, as MPEG-4 FGS |
//! | [`records`] | records of a climate database in three components, as GridFTP moves them |
//! | [`frames`] | traces of the sizes of video frames |

pub mod bonds;
pub mod frames;
pub mod records;
pub mod video;
pub mod view;
pub mod visualisation;
pub mod xyz;

use std::time::Duration;

use anabranch_base::Rate;
use anabranch_session::{Guarantee, StreamSpec};
use bytes::Bytes;

pub use records::Records;
pub use video::LayeredVideo;
pub use visualisation::Visualisation;

/// Demand of a source for one of its streams.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Name, which is the label of the stream.
    pub name: &'static str,
    /// Average rate at which it produces data.
    pub rate: Rate,
    /// Rate that windows of one second need, and the share of windows that must get it; `None` for an elastic stream, which
    /// takes the remaining capacity.
    pub promise: Option<(Rate, f64)>,
    /// Share that fair queuing should give it, relative to the others: its rate, unless less is available.
    pub share: Rate,
}

/// Data that a source hands over at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Number of the frame, from 0.
    pub number: u64,
    /// Time since the source began.
    pub at: Duration,
    /// Streams, as indices into [`Source::offers`], and one ADU of each; streams without data in this frame are left out.
    pub parts: Vec<(usize, Bytes)>,
}

/// An application that produces frames, without end.
pub trait Source: Send {
    /// Its streams; promised ones come first.
    fn offers(&self) -> &[Offer];

    /// Time between two frames.
    fn period(&self) -> Duration;

    /// True if frames of elastic streams wait in the application when the session's buffer is full, as those of a transfer do; by
    /// default they are left out.
    fn keeps_elastic(&self) -> bool {
        false
    }

    /// The next frame. O(streams), without copying the data.
    fn next_frame(&mut self) -> Frame;
}

impl Offer {
    /// True if the stream must get its rate.
    pub fn is_critical(&self) -> bool {
        self.promise.is_some()
    }

    /// Rate that windows of one second need: the rate promised, or all that the stream produces.
    pub fn target(&self) -> Rate {
        self.promise.map_or(self.rate, |(rate, _)| rate)
    }

    /// The stream as a session opens it: reliable, in order, without lifetime, like the data of [IQ-Paths §VI-B]; with the
    /// promise as a guarantee, which waits until it can be given; weights in proportion to the shares, of which `sum` is the
    /// sum; and all of one priority, so that critical streams differ only in their guarantee.
    pub fn spec(&self, sum: Rate) -> StreamSpec {
        let share = self.share.as_bps() as f64 / sum.as_bps().max(1) as f64;
        StreamSpec {
            weight: ((share * 1e4).round() as u32).clamp(1, 10_000),
            guarantee: self
                .promise
                .map(|(rate, probability)| Guarantee::rate(rate, probability).waiting())
                .map(Box::new),
            label: self.name.to_owned(),
            ..StreamSpec::default()
        }
    }
}

/// Sum of the shares of a source's streams.
pub fn share_sum(offers: &[Offer]) -> Rate {
    Rate::from_bps(offers.iter().map(|offer| offer.share.as_bps()).sum())
}

/// Bytes of a frame at a rate.
fn frame_bytes(rate: Rate, period: Duration) -> usize {
    (rate.as_bps() as f64 * period.as_secs_f64() / 8.0).round() as usize
}
