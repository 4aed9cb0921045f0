//! A path with recorded rates.

use std::{sync::Arc, time::Duration};

use anabranch_base::Rate;
use anabranch_link::{
    Config, Queue, RateSource, Trace,
    duplex::Configs,
    source::Playback,
    trace::{Shape, Step},
};

use crate::kit::recording::Recording;

/// One-way delay of a recorded path. Recordings of bandwidth do not contain it.
const DELAY: Duration = Duration::from_millis(20);
/// Queue of a recorded path at its mean rate: mobile networks and satellites have long ones.
const QUEUE: Duration = Duration::from_millis(200);
/// Rate of a recorded path's return direction.
const BACKWARD: Rate = Rate::from_mbps(100);

/// A path whose rate was recorded.
#[derive(Clone, Debug)]
pub struct RecordedPath {
    /// The recording's name.
    pub name: String,
    trace: Arc<Trace>,
    /// Factor on the recorded rate.
    pub scale: f64,
    /// Position in the recording at time zero.
    start: Duration,
    /// Properties of the link beside its rate.
    link: Config,
}

impl RecordedPath {
    /// Path of a recording: the rate of each row holds until the next, and it starts again at its end. `None` without two
    /// measured bandwidths, or without any above 0.
    pub fn new(recording: &Recording) -> Option<Self> {
        let begin = recording.times_s.first()?;
        let values = recording.bandwidth_bps.as_ref()?;
        let mut steps: Vec<Step> = Vec::new();
        for (time, value) in recording.times_s.iter().zip(values) {
            let Some(value) = value else { continue };
            let at = Duration::from_secs_f64((time - begin).max(0.0));
            // Of two rows with the same time the later one holds.
            steps.retain(|step| step.at < at);
            steps.push(Step {
                at,
                rate: Rate::from_bps(*value as u64),
                rtt: None,
                loss: None,
            });
        }
        let text: String = std::iter::once("t_s,bandwidth_bps\n".to_owned())
            .chain(steps.iter().map(|step| {
                let (at, rate) = (step.at.as_secs_f64(), step.rate.as_bps());
                format!("{at},{rate}\n")
            }))
            .collect();
        let trace = Trace::parse(&recording.name, text.as_bytes()).ok()?;
        let is_usable = steps.len() > 1 && trace.rate_max() > Rate::ZERO;
        let link = Config {
            delay: DELAY,
            queue: Queue::time(QUEUE),
            ..Config::default()
        };
        is_usable.then(|| Self {
            name: recording.name.clone(),
            trace: trace.into(),
            scale: 1.0,
            start: Duration::ZERO,
            link,
        })
    }

    /// Path of a link that plays a recording of rates, with all its properties. `None` if its rate is another, or never above 0.
    pub fn of_link(name: &str, link: Config) -> Option<Self> {
        let RateSource::Trace(playback) = &link.rate else {
            return None;
        };
        let (trace, scale, start) = (playback.trace.clone(), playback.scale, playback.start);
        let is_usable = matches!(trace.shape(), Shape::Steps(_))
            && trace.rate_max() > Rate::ZERO
            && scale > 0.0;
        is_usable.then(|| Self {
            name: name.to_owned(),
            trace,
            scale,
            start,
            link,
        })
    }

    /// The same path, at time zero so many seconds further in its recording, or earlier, with its end before its beginning.
    #[must_use]
    pub fn moved(mut self, by_s: f64) -> Self {
        let lap_s = self.trace.duration().as_secs_f64();
        let start_s = (self.start.as_secs_f64() + by_s).rem_euclid(lap_s);
        self.start = Duration::from_secs_f64(start_s);
        self
    }

    /// Mean of its rate, in bits per second.
    pub fn mean_bps(&self) -> f64 {
        self.trace.rate_mean().as_bps() as f64 * self.scale
    }

    /// One-way delay without queueing.
    pub fn delay(&self) -> Duration {
        self.link.delay
    }

    /// The recorded rates, unscaled.
    pub fn trace(&self) -> &Arc<Trace> {
        &self.trace
    }

    /// Duration of the recording.
    pub fn duration(&self) -> Duration {
        self.trace.duration()
    }

    /// Capacity in each of `count` windows of `width`, in bits per second. O(windows + rows).
    pub fn windows_bps(&self, width: Duration, count: usize) -> Vec<f64> {
        let Shape::Steps(steps) = self.trace.shape() else {
            return vec![0.0; count];
        };
        let lap_s = self.trace.duration().as_secs_f64();
        let rates = steps.iter().map(|step| step.rate.as_bps() as f64);
        let begins = steps.iter().map(|step| step.at.as_secs_f64());
        let ends = begins.clone().skip(1).chain([lap_s]);
        let pieces: Vec<(f64, f64)> = ends.zip(rates).collect();
        let width_s = width.as_secs_f64();
        let mut windows = vec![0.0; count];
        // Piece that is played, and the beginning of its lap.
        let start_s = self.start.as_secs_f64() % lap_s;
        let mut piece = pieces.partition_point(|&(end_s, _)| end_s <= start_s);
        let (mut lap_begin_s, mut at_s) = (-start_s, 0.0);
        for (index, window) in windows.iter_mut().enumerate() {
            let end_s = width_s * (index + 1) as f64;
            while at_s < end_s {
                let (piece_end_s, rate_bps) = pieces[piece];
                let until_s = end_s.min(lap_begin_s + piece_end_s);
                *window += rate_bps * (until_s - at_s).max(0.0) * self.scale / width_s;
                at_s = until_s;
                if until_s < end_s {
                    piece += 1;
                    if piece == pieces.len() {
                        piece = 0;
                        lap_begin_s += lap_s;
                    }
                }
            }
        }
        windows
    }

    /// The link: the recorded rate forward, 100 Mbit/s backward.
    pub fn configs(&self) -> Configs {
        let forward = Config {
            rate: RateSource::Trace(Playback {
                trace: Arc::clone(&self.trace),
                scale: self.scale,
                start: self.start,
            }),
            ..self.link.clone()
        };
        let backward = Config {
            rate: RateSource::Constant(BACKWARD),
            delay: self.link.delay,
            ..Config::default()
        };
        Configs { forward, backward }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_plays_a_recording_is_a_path_from_there_on() {
        let rates = [8, 0, 16].map(Rate::from_mbps);
        let trace = Trace::from_rates("t", Duration::from_secs(1), &rates);
        let link = Config {
            rate: RateSource::Trace(Playback {
                trace: trace.into(),
                scale: 0.5,
                start: Duration::from_millis(500),
            }),
            delay: Duration::from_millis(45),
            ..Config::default()
        };
        let constant = Config {
            rate: RateSource::Constant(BACKWARD),
            ..Config::default()
        };
        assert!(RecordedPath::of_link("c", constant).is_none());
        let path = RecordedPath::of_link("t", link).unwrap();
        let half = Duration::from_millis(500);
        let at = |by_s| path.clone().moved(by_s).windows_bps(half, 7);
        assert_eq!(at(0.0), [4e6, 0.0, 0.0, 8e6, 8e6, 4e6, 4e6]);
        assert_eq!(at(2.0), [8e6, 4e6, 4e6, 0.0, 0.0, 8e6, 8e6]);
        assert_eq!(at(-1.0), at(2.0));
        let configs = path.moved(2.0).configs();
        assert_eq!(configs.backward.delay, Duration::from_millis(45));
        let RateSource::Trace(playback) = &configs.forward.rate else {
            panic!("{configs:?}");
        };
        assert_eq!(playback.start, Duration::from_millis(2_500));
    }
}
