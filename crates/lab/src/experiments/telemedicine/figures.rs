//! Figures of the receivers.

use std::{collections::BTreeMap, time::Duration};

use super::clinic::{Clinic, FEEDS, Picture, VIDEO_FEED};
use crate::kit::{series::quantile, streams::figures::mean_and_deviation};

/// Seconds over which the share of usable frames is stated.
pub const WINDOW_S: u64 = 10;

/// An ADU that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number, as counted by its application.
    pub number: u64,
    /// Time of arrival, since the application began.
    pub at: Duration,
}

/// A class of ADUs counted separately: a stream, or the frames of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassFigures {
    /// `video I`, `video P`, or the stream's name.
    pub name: String,
    /// ADUs that the application produced.
    pub made: u64,
    /// ADUs that arrived within their lifetime.
    pub in_time: u64,
    /// ADUs that arrived later.
    pub late: u64,
    /// Latency of all that arrived, from production to arrival: median, and 95th percentile, in milliseconds.
    pub latency_ms: [f64; 2],
    /// Mean difference of the latencies of two consecutive ADUs, in milliseconds.
    pub jitter_ms: f64,
}

/// Figures of the video as seen.
#[derive(Clone, Debug, PartialEq)]
pub struct VideoFigures {
    /// P frames that are in time together with their I frame and all P frames between.
    pub usable_p: u64,
    /// Time of all usable frames.
    pub playable: Duration,
    /// Time of all frames.
    pub length: Duration,
    /// Seconds in which every frame is usable.
    pub whole_seconds: u64,
    /// Share of usable frames in each [`WINDOW_S`] seconds.
    pub usable: Vec<f64>,
    /// 95th percentile of the latency of the frames that a decoder can show, in milliseconds: all of their group before them
    /// arrived, in time or not.
    pub shown_p95_ms: f64,
    /// Times since the application began at which a decoder could show the frames of which it can show any, in their order.
    shown_at: Vec<Duration>,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// I frames, P frames, and the other streams.
    pub classes: Vec<ClassFigures>,
    /// The video.
    pub video: VideoFigures,
}

impl ClassFigures {
    fn new(name: String, outcomes: &[Outcome], lifetime: Duration) -> Self {
        let latencies = || outcomes.iter().filter_map(|outcome| outcome.latency);
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let in_time = latencies().filter(|latency| *latency <= lifetime).count() as u64;
        let differences: Vec<f64> = outcomes
            .windows(2)
            .filter_map(|pair| Some(ms(pair[0].latency?.abs_diff(pair[1].latency?))))
            .collect();
        let at = |share: f64| quantile(latencies().map(ms), share).unwrap_or(f64::NAN);
        Self {
            name,
            made: outcomes.len() as u64,
            in_time,
            late: latencies().count() as u64 - in_time,
            latency_ms: [at(0.5), at(0.95)],
            jitter_ms: mean_and_deviation(&differences).0,
        }
    }

    /// ADUs that never arrived.
    pub fn lost(&self) -> u64 {
        self.made - self.in_time - self.late
    }

    /// Share of the ADUs produced that did not arrive in time.
    pub fn missed_fraction(&self) -> f64 {
        (self.made - self.in_time) as f64 / self.made.max(1) as f64
    }
}

/// Outcome of an ADU: its production and its arrival.
#[derive(Clone, Copy)]
struct Outcome {
    number: u64,
    latency: Option<Duration>,
}

impl Figures {
    /// Counts the ADUs produced between two times since the application began.
    pub fn new(
        clinic: &Clinic,
        received: &[Vec<Arrival>; FEEDS.len()],
        (from, to): (Duration, Duration),
    ) -> Self {
        let mut classes = Vec::new();
        let mut video = Vec::new();
        for (feed, arrivals) in received.iter().enumerate() {
            let mut first: BTreeMap<u64, Duration> = BTreeMap::new();
            for arrival in arrivals {
                first.entry(arrival.number).or_insert(arrival.at);
            }
            let numbers = clinic.first_at(feed, from)..clinic.first_at(feed, to);
            let outcomes = numbers.map(|number| Outcome {
                number,
                latency: first
                    .get(&number)
                    .map(|at| at.saturating_sub(clinic.made_at(feed, number))),
            });
            let outcomes: Vec<Outcome> = outcomes.collect();
            let (name, lifetime) = (FEEDS[feed].name, FEEDS[feed].lifetime());
            if feed == VIDEO_FEED {
                for (kind, is_key) in [("I", true), ("P", false)] {
                    let of = |outcome: &&Outcome| clinic.picture(outcome.number).is_key == is_key;
                    let own: Vec<Outcome> = outcomes.iter().filter(of).copied().collect();
                    classes.push(ClassFigures::new(format!("{name} {kind}"), &own, lifetime));
                }
                video = outcomes;
            } else {
                classes.push(ClassFigures::new(name.to_owned(), &outcomes, lifetime));
            }
        }
        Self {
            classes,
            video: VideoFigures::new(clinic, &video, from),
        }
    }

    /// Figures of one class.
    pub fn class(&self, name: &str) -> Option<&ClassFigures> {
        self.classes.iter().find(|class| class.name == name)
    }
}

impl VideoFigures {
    fn new(clinic: &Clinic, outcomes: &[Outcome], from: Duration) -> Self {
        let lifetime = FEEDS[VIDEO_FEED].lifetime();
        let period = clinic.period(VIDEO_FEED);
        // True if all of the group up to here arrived in time; groups that began before the first frame counted are left out.
        let mut is_whole = false;
        // True if all of it arrived.
        let mut is_there = false;
        let mut shown = Vec::new();
        let mut shown_at: Vec<Duration> = Vec::new();
        let mut usable_p = 0;
        let mut usable = 0_u32;
        let mut seconds: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
        for outcome in outcomes {
            let is_in_time = outcome.latency.is_some_and(|latency| latency <= lifetime);
            let Picture { is_key, .. } = clinic.picture(outcome.number);
            is_whole = is_in_time && (is_key || is_whole);
            is_there = outcome.latency.is_some() && (is_key || is_there);
            if let Some(latency) = outcome.latency.filter(|_| is_there) {
                shown.push(latency);
                let before = shown_at.last().copied().unwrap_or_default();
                let at = clinic.made_at(VIDEO_FEED, outcome.number) + latency;
                shown_at.push(at.max(before));
            }
            usable += u32::from(is_whole);
            usable_p += u64::from(is_whole && !is_key);
            let second = (clinic
                .made_at(VIDEO_FEED, outcome.number)
                .saturating_sub(from))
            .as_secs();
            let (good, all) = seconds.entry(second).or_default();
            *good += u32::from(is_whole);
            *all += 1;
        }
        let mut windows: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
        for (second, (good, all)) in &seconds {
            let window = windows.entry(second / WINDOW_S).or_default();
            *window = (window.0 + good, window.1 + all);
        }
        Self {
            usable_p,
            playable: period * usable,
            length: period * outcomes.len() as u32,
            shown_p95_ms: quantile(shown.iter().map(|time| time.as_secs_f64() * 1e3), 0.95)
                .unwrap_or(f64::NAN),
            shown_at,
            whole_seconds: seconds.values().filter(|(good, all)| good == all).count() as u64,
            usable: windows
                .values()
                .map(|(good, all)| f64::from(*good) / f64::from(*all))
                .collect(),
        }
    }

    /// The longest time without a frame that a decoder can show, of those that overlap with this time since the application began;
    /// zero if there is none.
    pub fn pause(&self, from: Duration, to: Duration) -> Duration {
        let pairs = self.shown_at.windows(2);
        let overlaps = |pair: &&[Duration]| pair[1] > from && pair[0] < to;
        let pauses = pairs.filter(overlaps).map(|pair| pair[1] - pair[0]);
        pauses.max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Seed;

    const LENGTH: Duration = Duration::from_millis(1_999);

    /// Every ADU of the first two seconds, which are 48 frames, arrives after 100 ms, unless `outcome` specifies otherwise.
    fn figures(outcome: impl Fn(usize, u64) -> Option<u64>) -> Figures {
        let clinic = Clinic::generated(Seed(1));
        let received = [0, 1, 2, 3].map(|feed| {
            let numbers = 0..clinic.first_at(feed, LENGTH);
            let arrival = |number| {
                let latency = Duration::from_millis(outcome(feed, number)?);
                let at = clinic.made_at(feed, number) + latency;
                Some(Arrival { number, at })
            };
            numbers.filter_map(arrival).collect()
        });
        Figures::new(&clinic, &received, (Duration::ZERO, LENGTH))
    }

    #[test]
    fn all_that_comes_in_time_is_usable() {
        let all = figures(|_, _| Some(100));
        let names: Vec<&str> = all
            .classes
            .iter()
            .map(|class| class.name.as_str())
            .collect();
        assert_eq!(
            names,
            ["video I", "video P", "audio_up", "ekg", "audio_down"]
        );
        let made: Vec<u64> = all.classes.iter().map(|class| class.made).collect();
        assert_eq!(made, [4, 44, 100, 50, 100]);
        for class in &all.classes {
            assert_eq!(
                (class.in_time, class.late, class.lost()),
                (class.made, 0, 0)
            );
            assert!((class.latency_ms[1] - 100.0).abs() < 1e-6 && class.jitter_ms < 1e-6);
        }
        assert_eq!((all.video.usable_p, all.video.whole_seconds), (44, 2));
        assert_eq!(all.video.usable, [1.0]);
        assert_eq!(all.video.playable, all.video.length);
        let pause = all.video.pause(Duration::ZERO, LENGTH);
        assert!(
            pause.abs_diff(Duration::from_millis(42)) < Duration::from_millis(1),
            "{pause:?}"
        );
    }

    #[test]
    fn a_frame_is_usable_if_those_before_it_in_its_group_are() {
        // Frame 12 is the second I frame: late. Frame 30, the sixth after the third I frame: lost.
        let some = figures(|feed, number| match (feed, number) {
            (VIDEO_FEED, 12) => Some(900),
            (VIDEO_FEED, 30) => None,
            (1, 5) => Some(130),
            _ => Some(100),
        });
        let [keys, rest, talk] = &some.classes[..3] else {
            panic!("{some:?}");
        };
        assert_eq!((keys.in_time, keys.late, keys.lost()), (3, 1, 0));
        assert_eq!((rest.in_time, rest.late, rest.lost()), (43, 0, 1));
        assert_eq!(keys.missed_fraction(), 0.25);
        assert_eq!(some.video.usable_p, 44 - 11 - 6);
        // Frame 12 was shown 842 ms after frame 11, those up to 29 with it, and frame 36 after 200 ms more.
        let second = (Duration::from_millis(1_450), LENGTH);
        let pauses =
            [(Duration::ZERO, second.0), second].map(|(from, to)| some.video.pause(from, to));
        let ms = pauses.map(|pause| pause.as_millis());
        assert_eq!(ms, [841, 199]);
        // A group whose first frame is late is shown all the same.
        assert!((some.video.shown_p95_ms - 100.0).abs() < 1e-6);
        assert_eq!(some.video.usable, [(48.0 - 12.0 - 6.0) / 48.0]);
        // The first second holds frames 0 … 24, of which 12 … 23 are of no use; the second loses six.
        assert_eq!(some.video.whole_seconds, 0);
        assert!((talk.jitter_ms - 60.0 / 99.0).abs() < 1e-9, "{talk:?}");
    }
}
