//! Prefix of a video that the proxy holds beforehand [Two-flow §5.2, Figure 10].

use std::time::Duration;

use anabranch_media::Part;
use anabranch_twoflow::prefix::{Supply, needed};

use super::due::GRACE;
use crate::video::Video;

/// Round trips from a request to the first data.
const STARTS_AFTER: f64 = 1.5;

/// Part of the beginning of every video that is prefetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefix {
    /// Computed from the video's rates, and the pipe's round trip and losses.
    #[default]
    Auto,
    /// A fixed duration; zero: nothing is prefetched.
    Fixed(Duration),
}

/// Measurements of the pipe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pipe {
    pub(super) rtt: Duration,
    /// Share of packets that are lost.
    pub(super) loss: f64,
}

impl Default for Pipe {
    /// A long path without losses, where nothing is known.
    fn default() -> Self {
        Self {
            rtt: Duration::from_millis(100),
            loss: 0.0,
        }
    }
}

impl Prefix {
    /// True if anything is prefetched.
    pub(super) fn is_any(self) -> bool {
        self != Self::Fixed(Duration::ZERO)
    }

    /// Number of chunks of a video that belong to it, at least one. O(chunks).
    pub(super) fn chunks(self, video: &Video, pipe: Pipe) -> u32 {
        match self {
            Self::Fixed(time) => video.prefix(time),
            Self::Auto => planned(video, pipe),
        }
    }
}

/// Number of chunks at the proxy with which a viewer who begins has every later chunk in time, although both flows begin only
/// then.
fn planned(video: &Video, pipe: Pipe) -> u32 {
    let all = 0..video.count();
    let essential = all.clone().map(|chunk| {
        let bytes = video.bytes(chunk, Part::Essential);
        (video.start(chunk), bytes)
    });
    let supply = Supply {
        rate: video.schedule.essential_rate_max(),
        rtt: pipe.rtt,
        loss: pipe.loss,
    };
    let bytes = needed(essential.clone(), &supply);
    let mut sum = 0;
    let covers = essential.take_while(|(_, more)| {
        let is_short = sum < bytes;
        sum += more;
        is_short
    });
    let by_rate = u32::try_from(covers.count()).unwrap_or(u32::MAX);
    // The enhanced part of the first missing chunk comes at the pace of the film, and is waited for a little.
    let span = pipe.rtt.mul_f64(STARTS_AFTER) + GRACE;
    let mut later = all.filter(|&chunk| {
        let lasts = video.start(chunk + 1).saturating_sub(video.start(chunk));
        video.start(chunk) >= lasts + span
    });
    let by_time = later.next().unwrap_or(video.count());
    by_rate.max(by_time).clamp(1, video.count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::film;

    fn planned_for(rtt_ms: u64, loss: f64) -> u32 {
        let pipe = Pipe {
            rtt: Duration::from_millis(rtt_ms),
            loss,
        };
        Prefix::Auto.chunks(&film(60), pipe)
    }

    #[test]
    fn the_prefix_follows_the_pipe() {
        // Chunks of 2 s: the second is there when it has come at its pace and its losses were waited for, in 2.8 s and the
        // round trip.
        assert_eq!(planned_for(20, 0.0), 2);
        assert_eq!(planned_for(700, 0.0), 2);
        assert_eq!(planned_for(900, 0.0), 3);
        // Repeated repairs take time in which nothing is delivered in order.
        assert!(planned_for(900, 0.3) > 3);
        assert_eq!(
            Prefix::Auto.chunks(&film(2), Pipe::default()),
            1,
            "no more than there is"
        );
    }

    #[test]
    fn a_fixed_time_stays_what_it_is() {
        let seconds = |seconds| Prefix::Fixed(Duration::from_secs(seconds));
        assert_eq!(seconds(8).chunks(&film(60), Pipe::default()), 4);
        assert!(seconds(8).is_any() && Prefix::Auto.is_any() && !seconds(0).is_any());
    }
}
