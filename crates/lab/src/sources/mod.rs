//! Applications that make streams: frames of data with sizes and times, the same in the lab and live.
//!
//! A [`Source`] knows no clock and no session: it says what streams it has, what each asks for, and what
//! each frame holds. Who drives it hands the parts of frame n over at [`Frame::at`].
//!
//! | module | holds |
//! |---|---|
//! | [`visualisation`] | atoms, bonds in view, bonds out of view, as SmartPointer's server sends them |
//! | [`xyz`], [`bonds`], [`view`] | a molecular-dynamics trajectory, its bonds, what an observer sees |
//! | [`video`] | base and enhancement layer, as MPEG-4 FGS |
//! | [`frames`] | traces of the sizes of video frames |

pub mod bonds;
pub mod frames;
pub mod video;
pub mod view;
pub mod visualisation;
pub mod xyz;

use std::time::Duration;

use anabranch_base::Rate;
use anabranch_session::{Guarantee, StreamSpec};
use bytes::Bytes;

pub use video::LayeredVideo;
pub use visualisation::Visualisation;

/// What a source asks for one of its streams.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// What it is called; the label of the stream.
    pub name: &'static str,
    /// What it makes, on average.
    pub rate: Rate,
    /// The rate that windows of one second need, and the share of windows that must get it; `None` for an
    /// elastic stream, which takes what is left.
    pub promise: Option<(Rate, f64)>,
    /// What fair queuing should give it, relative to the others: its rate, unless less is to be had.
    pub share: Rate,
}

/// What a source hands over at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// From 0.
    pub number: u64,
    /// Since the source began.
    pub at: Duration,
    /// Streams, as indices into [`Source::offers`], and one ADU of each; streams that have nothing to say in
    /// this frame are left out.
    pub parts: Vec<(usize, Bytes)>,
}

/// An application that makes frames, without end.
pub trait Source: Send {
    /// Its streams; what is promised comes first.
    fn offers(&self) -> &[Offer];

    /// Time between two frames.
    fn period(&self) -> Duration;

    /// The next frame. O(streams), no copy of the data.
    fn next_frame(&mut self) -> Frame;
}

impl Offer {
    /// True if the stream must get its rate.
    pub fn is_critical(&self) -> bool {
        self.promise.is_some()
    }

    /// What windows of one second need: the rate promised, or all that the stream makes.
    pub fn target(&self) -> Rate {
        self.promise.map_or(self.rate, |(rate, _)| rate)
    }

    /// The stream as a session opens it: reliable, in order, without lifetime, as the data of [IQ-Paths
    /// §VI-B] are; what is promised as a guarantee, which waits until it can be given; weights in proportion to
    /// the shares, of which `sum` is the sum; and all of one priority, so that nothing but the
    /// guarantee sets critical streams apart.
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

/// The sum of the shares of a source's streams.
pub fn share_sum(offers: &[Offer]) -> Rate {
    Rate::from_bps(offers.iter().map(|offer| offer.share.as_bps()).sum())
}

/// Bytes of a frame at a rate.
fn frame_bytes(rate: Rate, period: Duration) -> usize {
    (rate.as_bps() as f64 * period.as_secs_f64() / 8.0).round() as usize
}
