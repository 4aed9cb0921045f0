//! Oracle of `opt`: the future of every path of a scene.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_base::{ChannelId, Instant, Seed};
use anabranch_sched::policy::Oracle;
use anabranch_sim::topology::TopologyError;

use super::scene::Scene;

/// Steps in which the future is known.
const STEP: Duration = Duration::from_millis(10);
/// Time beyond the end of a run, for which the future continues as in its last step.
const MARGIN: Duration = Duration::from_secs(60);

/// Cumulative bytes that one path can carry.
#[derive(Clone, Debug)]
struct Path {
    /// Bytes up to the end of each step; the first entry is 0.
    sums: Vec<f64>,
    delay: Duration,
}

impl Path {
    /// Bytes from time zero to `at`, between steps in proportion to time.
    fn until(&self, at: Instant) -> f64 {
        let steps = at.as_secs_f64() / STEP.as_secs_f64();
        let last = self.sums.len() - 1;
        let index = (steps as usize).min(last.saturating_sub(1));
        let (before, after) = (self.sums[index], self.sums[(index + 1).min(last)]);
        before + (after - before) * (steps - index as f64)
    }
}

/// Future of a scene's paths. Clones share the assignment of channels.
#[derive(Clone)]
pub struct Future {
    paths: Arc<[Path]>,
    channels: Arc<Mutex<BTreeMap<ChannelId, usize>>>,
}

impl Future {
    /// Future of a scene that is set up first in a world of this seed, up to `end` and a little more.
    ///
    /// # Errors
    /// The scene's network is inconsistent.
    pub fn new(scene: &Scene, seed: Seed, end: Duration) -> Result<Self, TopologyError> {
        let count = ((end + MARGIN).as_nanos() / STEP.as_nanos()) as usize;
        let windows = scene.available_bps(seed, (STEP, count))?;
        let paths = windows.into_iter().zip(scene.delays());
        let paths = paths.map(|(rates, delay)| {
            let mut sums = vec![0.0];
            let mut sum = 0.0;
            for rate in rates {
                sum += rate / 8.0 * STEP.as_secs_f64();
                sums.push(sum);
            }
            Path { sums, delay }
        });
        Ok(Self {
            paths: paths.collect(),
            channels: Arc::default(),
        })
    }

    /// Records that a channel runs over the path of this index.
    pub fn assign(&self, channel: ChannelId, path: usize) {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels.insert(channel, path);
    }

    fn path(&self, channel: ChannelId) -> Option<&Path> {
        let channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        self.paths.get(*channels.get(&channel)?)
    }
}

impl fmt::Debug for Future {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the future of {} paths", self.paths.len())
    }
}

impl Oracle for Future {
    fn bytes(&self, channel: ChannelId, from: Instant, to: Instant) -> f64 {
        let between = |path: &Path| (path.until(to) - path.until(from)).max(0.0);
        self.path(channel).map_or(0.0, between)
    }

    fn delay(&self, channel: ChannelId) -> Duration {
        self.path(channel).map_or(Duration::ZERO, |path| path.delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::recording::Recording;
    use anabranch_base::Rate;

    #[test]
    fn the_future_is_that_of_the_path() {
        let recording = Recording {
            name: "r".to_owned(),
            times_s: vec![0.0, 1.0],
            bandwidth_bps: Some(vec![Some(8e6), Some(4e6)]),
            ..Recording::default()
        };
        let scene = Scene::of_recordings(&[&recording], Rate::from_mbps(100)).unwrap();
        let future = Future::new(&scene, Seed(1), Duration::from_secs(10)).unwrap();
        let bytes = |from_ms, to_ms| {
            let [from, to] = [from_ms, to_ms].map(Instant::from_millis);
            future.bytes(ChannelId(7), from, to)
        };
        assert_eq!(bytes(0, 1_000), 0.0, "a channel without a path");
        future.assign(ChannelId(7), 0);
        for (from_ms, to_ms, expected) in [
            (0, 1_000, 1e6),
            (500, 1_500, 0.75e6),
            (1_003, 1_004, 500.0),
            (2_000, 3_000, 1e6),
            (69_000, 71_000, 1e6),
        ] {
            let found = bytes(from_ms, to_ms);
            assert!((found - expected).abs() < 1.0, "{from_ms}: {found}");
        }
        assert_eq!(future.delay(ChannelId(7)), scene.delay_max());
    }
}
