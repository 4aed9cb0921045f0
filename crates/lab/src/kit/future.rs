//! Future of simulated links, for the optimum that knows it (`anabranch_sched::Opt`).

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{ChannelId, Instant, SessionId};
use anabranch_link::{Config, RateSource, trace::Shape};
use anabranch_sched::{AnyScheduler, Opt, Oracle};
use anabranch_session::Link;
use anabranch_sim::{NodeIndex, World};

/// Capacity of a link, from the epoch to the end of time.
#[derive(Clone, Debug)]
struct Future {
    /// Points of one lap, ascending from 0, with the bytes up to each; straight lines between them.
    knots: Vec<(f64, f64)>,
    /// Position in the lap at which the epoch lies, in seconds.
    start_s: f64,
    delay: Duration,
}

impl Future {
    /// `None` for links whose rate is not known beforehand: unlimited, or drawn at random.
    fn of(config: &Config) -> Option<Self> {
        let (knots, start_s) = match &config.rate {
            RateSource::Constant(rate) => (vec![(0.0, 0.0), (1.0, rate.as_bytes_per_s())], 0.0),
            RateSource::Trace(playback) => {
                let duration_s = playback.trace.duration().as_secs_f64();
                let mut knots = vec![(0.0, 0.0)];
                match playback.trace.shape() {
                    Shape::Steps(steps) => {
                        let ends = steps.iter().skip(1).map(|step| step.at.as_secs_f64());
                        let mut bytes = 0.0;
                        for (step, end) in steps.iter().zip(ends.chain([duration_s])) {
                            let from = step.at.as_secs_f64();
                            bytes += step.rate.as_bytes_per_s() * playback.scale * (end - from);
                            knots.push((end, bytes));
                        }
                    }
                    Shape::Opportunities(times) => {
                        let each = anabranch_link::trace::OPPORTUNITY_BYTES as f64 * playback.scale;
                        for (index, at) in times.iter().enumerate() {
                            knots.push((at.as_secs_f64(), (index + 1) as f64 * each));
                        }
                    }
                }
                (knots, playback.start.as_secs_f64())
            }
            RateSource::Walk(_) | RateSource::Unlimited => return None,
        };
        Some(Self {
            knots,
            start_s,
            delay: config.delay,
        })
    }

    /// Bytes from the beginning of the first lap to `at`.
    fn bytes_until(&self, at: Instant) -> f64 {
        let Some(&(lap_s, lap_bytes)) = self.knots.last() else {
            return 0.0;
        };
        let position = at.as_secs_f64() + self.start_s;
        let laps = (position / lap_s).floor();
        let within = position - laps * lap_s;
        let next = self.knots.partition_point(|&(knot_s, _)| knot_s <= within);
        let bytes = match (self.knots.get(next.wrapping_sub(1)), self.knots.get(next)) {
            (Some(&(from_s, from)), Some(&(to_s, to))) => {
                from + (to - from) * (within - from_s) / (to_s - from_s)
            }
            (Some(&(_, bytes)), None) => bytes,
            (None, _) => 0.0,
        };
        laps * lap_bytes + bytes
    }
}

/// Futures of a session's links, by channel.
#[derive(Debug)]
struct Known(BTreeMap<ChannelId, Future>);

impl Oracle for Known {
    fn bytes(&self, channel: ChannelId, from: Instant, to: Instant) -> f64 {
        let known = self.0.get(&channel);
        known.map_or(0.0, |future| {
            future.bytes_until(to) - future.bytes_until(from)
        })
    }

    fn delay(&self, channel: ChannelId) -> Duration {
        self.0
            .get(&channel)
            .map_or(Duration::ZERO, |future| future.delay)
    }
}

/// Gives the session of `node` the scheduler that knows the future of its links; to be called once all its channels have been
/// dialled. `links`: the sending link of each channel, with the configuration of that direction. Returns false if there is no
/// session or a link's future is unknown.
pub fn foresee(
    world: &mut World,
    node: NodeIndex,
    session: SessionId,
    links: &[(Link, Config)],
) -> bool {
    let reports = world
        .engine(node)
        .session(session)
        .map(|mut session| session.channel_stats())
        .unwrap_or_default();
    let mut known = BTreeMap::new();
    for report in &reports {
        let is_it = |link: &Link| link.socket == report.socket && link.remote == report.remote;
        let config = links.iter().find(|(link, _)| is_it(link));
        let Some(future) = config.and_then(|(_, config)| Future::of(config)) else {
            return false;
        };
        known.insert(report.channel, future);
    }
    let scheduler = Box::new(Opt::new(Box::new(Known(known))));
    let engine = world.engine(node);
    engine
        .session(session)
        .map(|mut session| session.set_scheduler(AnyScheduler::Plain(scheduler)))
        .is_ok()
}

#[cfg(test)]
mod tests {
    use anabranch_base::Rate;
    use anabranch_link::{Trace, source::Playback};

    use super::*;

    #[test]
    fn a_trace_is_known_through_all_its_laps() {
        let rates = [8, 0, 16].map(Rate::from_mbps);
        let trace = Trace::from_rates("t", Duration::from_secs(1), &rates);
        let config = Config {
            rate: RateSource::Trace(Playback {
                trace: trace.into(),
                scale: 0.5,
                start: Duration::from_millis(500),
            }),
            ..Config::default()
        };
        let future = Future::of(&config).unwrap();
        let known = Known([(ChannelId(3), future)].into());
        let bytes = |from_ms, to_ms| {
            let (from, to) = (Instant::from_millis(from_ms), Instant::from_millis(to_ms));
            known.bytes(ChannelId(3), from, to).round()
        };
        // From half a second in: 0.25 MB, nothing for a second, 1 MB, and so on.
        assert_eq!(bytes(0, 500), 250_000.0);
        assert_eq!(bytes(500, 1500), 0.0);
        assert_eq!(bytes(0, 3000), 1_500_000.0);
        assert_eq!(bytes(2000, 3000), 750_000.0);
        assert_eq!(bytes(0, 30_250), 15_125_000.0);
        assert_eq!(
            known.bytes(ChannelId(0), Instant::EPOCH, Instant::from_secs(1)),
            0.0
        );
    }
}
