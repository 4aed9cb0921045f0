//! Viewers and their pipelines.

use anabranch_process::Pipeline;

use crate::kit::sources::visualisation::NAMES;

/// A viewer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Viewer {
    /// Its name.
    pub(super) name: &'static str,
    /// Rates of its leg, relative to the first leg's.
    pub(super) share: f64,
    /// Its pipeline for each stream.
    pub(super) pipelines: [&'static str; 3],
}

/// The viewers, the one with the widest leg first.
pub(super) const VIEWERS: [Viewer; 3] = [
    Viewer {
        name: "wall",
        share: 1.0,
        pipelines: ["", "", "region box 0 0 0 50 100 100 of f32"],
    },
    Viewer {
        name: "desk",
        share: 0.5,
        pipelines: [
            "precision 12 of f32 then delta",
            "precision 10 of f32 then delta",
            "every 5 then region sphere 50 50 50 25 of f32",
        ],
    },
    Viewer {
        name: "tablet",
        share: 0.25,
        pipelines: [
            "every 2",
            "region box 0 0 0 50 100 100 of f32 then every 2",
            "drop layer 1",
        ],
    },
];

/// Share of windows in which each leg is to have the rate, so that both have it in 95 %: at most one window in forty fails on each.
pub(super) const LEG_PROBABILITY: f64 = 0.975;

impl Viewer {
    /// Pipeline for a stream.
    pub(super) fn pipeline(&self, stream: usize, is_processed: bool) -> Pipeline {
        let text = if is_processed {
            self.pipelines[stream]
        } else {
            ""
        };
        text.parse().expect("pipelines of viewers are tested")
    }
}

/// True if windows of a stream must get its rate.
pub(super) fn is_critical(stream: usize) -> bool {
    stream < 2
}

/// Name under which a stream is offered.
pub(super) fn name(stream: usize) -> &'static str {
    NAMES[stream]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelines_are_read_as_they_are_written() {
        for viewer in VIEWERS {
            for (stream, text) in viewer.pipelines.iter().enumerate() {
                assert_eq!(viewer.pipeline(stream, true).to_string(), *text);
                assert!(viewer.pipeline(stream, false).steps().is_empty());
            }
        }
    }
}
