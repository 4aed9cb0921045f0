//! Setting of a run: the paths of a set, the promised streams, and the times at which the paths change.

use std::{ops::Range, time::Duration};

use anabranch_base::{Instant, Rate, Seed};
use anabranch_session::{Guarantee, StreamSpec};
use anabranch_sim::apps::make_adu;
use bytes::Bytes;

use crate::{
    experiments::path_sets::sets::{Choice, PathSet, choose_as},
    kit::{corpus::Corpus, recording::Recording, streams::RecordedPath},
};

/// Time at which the applications begin; until then, the sessions are set up.
pub const START: Duration = Duration::from_secs(1);
/// Number of receiving nodes, each with a session.
pub const PEERS: usize = 2;
/// Windows of the promises.
pub const WINDOW: Duration = Duration::from_secs(1);

/// The sets from which those of a run are taken, alternately of both kinds.
const CANDIDATES: Choice = Choice {
    name: "promises-live",
    together: &[(3, 8), (4, 4)],
    apart: &[(3, 8), (4, 4)],
};
/// Duration for which the recordings of a set last at least, so that shorter runs use the same sets.
const LEAST: Duration = Duration::from_secs(301);
/// Sum of the paths' mean rates at most. Faster paths would only add packets.
const SUM_MAX: Rate = Rate::from_mbps(12);
/// Rate that the first paths of a set together have in 90 % of windows, at least.
const P10_MIN_BPS: f64 = 400e3;
/// Quantile of the sum of rates to which the promised rates are proportional.
const QUANTILE: f64 = 0.1;
/// Bytes of an ADU at most, and ADUs in a second at least.
const ADU_BYTES: f64 = 1_200.0;
const ADUS_MIN: f64 = 10.0;

/// Label, receiving node, share of the 10th percentile of the paths' sum, and probability of each stream.
const STREAMS: [(&str, usize, f64, f64); 3] = [
    ("first", 0, 0.25, 0.95),
    ("second", 0, 0.15, 0.9),
    ("third", 1, 0.2, 0.95),
];

/// Size of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of sets of paths.
    pub sets: usize,
    /// Duration of each run, in seconds.
    pub seconds: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            sets: 10,
            seconds: 300,
        }
    }
}

impl Plan {
    /// Time at which the applications end.
    pub fn end(self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// Time for which the first path carries nothing: from 120 s to 150 s of 300 s.
    pub fn cut(self) -> Range<Duration> {
        self.end().mul_f64(0.4)..self.end().mul_f64(0.5)
    }

    /// Time at which the last path is added: 180 s of 300 s.
    pub fn join(self) -> Duration {
        self.end().mul_f64(0.6)
    }

    /// Whole windows from [`START`] to the end.
    pub fn windows(self) -> usize {
        self.end().saturating_sub(START).as_secs() as usize
    }
}

/// A stream that asks for a promise, and sends at exactly the rate for which it asks.
#[derive(Clone, Copy, Debug)]
pub struct PromisedStream {
    /// Label.
    pub label: &'static str,
    /// Receiving node, from 0.
    pub peer: usize,
    /// Probability that is asked for.
    pub probability: f64,
    /// Size of an ADU.
    pub adu_bytes: usize,
    /// ADUs in a second.
    pub adus_per_s: u64,
}

impl PromisedStream {
    fn new((label, peer, share, probability): (&'static str, usize, f64, f64), bps: f64) -> Self {
        let bytes_per_s = share * bps / 8.0;
        let adus_per_s = (bytes_per_s / ADU_BYTES).ceil().max(ADUS_MIN);
        Self {
            label,
            peer,
            probability,
            // An ADU has a head of 16 bytes.
            adu_bytes: (bytes_per_s / adus_per_s).max(16.0) as usize,
            adus_per_s: adus_per_s as u64,
        }
    }

    /// Its rate.
    pub fn rate(&self) -> Rate {
        Rate::from_bps(self.adu_bytes as u64 * 8 * self.adus_per_s)
    }

    /// Specification: opens at once, and is promised its rate as soon as possible.
    pub fn spec(&self) -> StreamSpec {
        let guarantee = Guarantee::rate(self.rate(), self.probability).waiting();
        StreamSpec::messages(self.label).with_guarantee(guarantee)
    }

    /// Time at which ADU `number` is made.
    pub fn due(&self, number: u64) -> Duration {
        START + Duration::from_nanos(number * 1_000_000_000 / self.adus_per_s)
    }

    /// Number of ADUs made before `time`.
    pub fn made_before(&self, time: Duration) -> u64 {
        let nanos = time.saturating_sub(START).as_nanos() as u64;
        (nanos * self.adus_per_s).div_ceil(1_000_000_000)
    }

    /// ADU `number`.
    pub fn adu(&self, number: u64) -> Bytes {
        make_adu(Instant::EPOCH + self.due(number), number, self.adu_bytes)
    }
}

/// An ADU of bulk data.
pub fn bulk_adu() -> Bytes {
    Bytes::from_static(&[0; 64 << 10])
}

/// A set of paths with its streams.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Number of the set, from 1.
    pub number: usize,
    /// Names of its recordings.
    pub name: String,
    /// Origin of the recordings: `simultaneous` or `independent`.
    pub origin: &'static str,
    /// The paths; the first is cut, the last is added.
    pub paths: Vec<RecordedPath>,
    /// Rate that all paths but the last together have in 90 % of windows.
    pub p10: Rate,
    /// The promised streams.
    pub streams: Vec<PromisedStream>,
    /// Size of the experiment.
    pub plan: Plan,
}

impl Setting {
    /// Setting on a set of recordings; `None` if one of them is no path, or if they are too slow.
    fn new(set: &PathSet<'_>, plan: Plan) -> Option<Self> {
        let paths = set.recordings.iter();
        let paths: Option<Vec<RecordedPath>> = paths.map(|path| RecordedPath::new(path)).collect();
        let mut paths = paths?;
        // No path is much faster than the others, so that each of them matters.
        let most_bps = SUM_MAX.as_bps() as f64 / paths.len() as f64;
        for path in &mut paths {
            path.scale = (most_bps / path.mean_bps()).min(1.0);
        }
        let (_, first) = paths.split_last()?;
        let windows = first.iter().map(|path| {
            let count = plan.end().as_secs() as usize;
            path.windows_bps(WINDOW, count)
        });
        let sums = windows.reduce(|sums, path| {
            let pairs = sums.into_iter().zip(path);
            pairs.map(|(sum, own)| sum + own).collect()
        });
        let mut sums = sums?;
        sums.sort_by(f64::total_cmp);
        let p10_bps = *sums.get((QUANTILE * sums.len() as f64) as usize)?;
        (p10_bps >= P10_MIN_BPS).then(|| Self {
            number: 0,
            name: set.name(),
            origin: set.origin(),
            streams: STREAMS.map(|one| PromisedStream::new(one, p10_bps)).into(),
            p10: Rate::from_bps(p10_bps as u64),
            paths,
            plan,
        })
    }

    /// Paths that are there from the beginning.
    pub fn first_paths(&self) -> usize {
        self.paths.len() - 1
    }
}

/// Settings of an experiment. They depend on the seed and the recordings only; a smaller number of sets is the beginning of a
/// larger one. Where no set of recordings is long enough, all recordings together are one set, and repeat.
pub fn settings(corpus: &Corpus, seed: Seed, plan: Plan) -> Vec<Setting> {
    let least = LEAST.max(plan.end());
    let sets = choose_as(CANDIDATES, least, corpus, seed);
    let of = |is_simultaneous: bool| {
        let own = sets.iter();
        own.filter(move |set| set.is_simultaneous == is_simultaneous)
            .filter_map(move |set| Setting::new(set, plan))
    };
    let (mut together, mut apart) = (of(true), of(false));
    let mut settings = Vec::new();
    loop {
        let pair = [together.next(), apart.next()];
        if pair.iter().all(Option::is_none) {
            break;
        }
        settings.extend(pair.into_iter().flatten());
    }
    if settings.is_empty() {
        let all = PathSet {
            recordings: few(corpus),
            is_simultaneous: false,
        };
        settings.extend(Setting::new(&all, plan).filter(|all| all.paths.len() > 1));
    }
    settings.truncate(plan.sets);
    for (setting, number) in settings.iter_mut().zip(1..) {
        setting.number = number;
    }
    settings
}

/// The first recordings of a corpus that has too few long ones; only one direction of each link.
fn few(corpus: &Corpus) -> Vec<&Recording> {
    let recordings = corpus.recordings.iter();
    let usable = recordings
        .filter(|recording| !recording.name.ends_with("-up"))
        .filter(|recording| RecordedPath::new(recording).is_some());
    usable.take(3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_send_at_the_rates_for_which_they_ask() {
        let stream = PromisedStream::new(("s", 0, 0.25, 0.95), 4e6);
        // 125,000 bytes in a second, in ADUs of at most 1,200.
        assert_eq!((stream.adus_per_s, stream.adu_bytes), (105, 1_190));
        assert!(stream.spec().validate().is_ok());
        assert_eq!(stream.due(210), START + Duration::from_secs(2));
        for number in [0, 1, 104, 105, 1_000] {
            assert_eq!(stream.made_before(stream.due(number)), number);
        }
        let slow = PromisedStream::new(("s", 0, 0.25, 0.95), 64e3);
        assert_eq!((slow.adus_per_s, slow.adu_bytes), (10, 200));
    }

    #[test]
    fn the_bundled_recordings_are_one_set() {
        let plan = Plan::default();
        let settings = settings(&Corpus::bundled(), Seed(1), plan);
        let [setting] = &settings[..] else {
            panic!("{settings:?}");
        };
        assert_eq!((setting.paths.len(), setting.first_paths()), (3, 2));
        assert_eq!(
            plan.cut(),
            Duration::from_secs(120)..Duration::from_secs(150)
        );
        assert_eq!(plan.join(), Duration::from_secs(180));
        let asked: u64 = setting.streams.iter().map(|s| s.rate().as_bps()).sum();
        let share = asked as f64 / setting.p10.as_bps() as f64;
        assert!((0.58..=0.6).contains(&share), "{share}");
    }
}
