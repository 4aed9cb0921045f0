//! Cost of an operator at a candidate.

use std::{fmt, time::Duration};

use super::leg::Leg;

/// A stream and the work of the operator on it, for each ADU of the source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Mean time between two ADUs of the source, above 0.
    pub period: Duration,
    /// Mean bytes of one.
    pub bytes: f64,
    /// Mean units of work of all operators on one ([`Running::costs`](crate::Running::costs)).
    pub units: f64,
}

/// Demand that is to be kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Share of windows that have to be in time, [0, 1].
    pub share: f64,
    /// Time from the source to a subscriber; `None`: it has to keep up only.
    pub deadline: Option<Duration>,
}

/// Processor of a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Processor {
    /// Mean time of a unit of work, in picoseconds.
    pub unit_ps: f64,
    /// Share of a processor that the operator can have, (0, 1]: it works on one ADU at a time.
    pub free: f64,
}

/// Part of a subscriber.
#[derive(Clone, Debug, PartialEq)]
pub struct Last {
    /// The leg to it; `None`: it is where the operator is.
    pub leg: Option<Leg>,
    /// Mean bytes that are derived for it from an ADU of the source.
    pub bytes: f64,
}

/// Place at which the operator can be.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The leg from the source; `None`: it is the source.
    pub first: Option<Leg>,
    /// Its processor.
    pub processor: Processor,
    /// Its subscribers, in the same order for every candidate.
    pub last: Vec<Last>,
}

/// Part of the way from the source to a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// From the source to the operator.
    First,
    /// The operator.
    Processing,
    /// From the operator to the subscriber.
    Last,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "the source leg",
            Self::Processing => "processing",
            Self::Last => "the last leg",
        })
    }
}

/// Cost of the operator at a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Share of the pairs of windows in which the demand is kept, [0, 1]: that of the subscriber with the least.
    pub share: f64,
    /// Mean time from the source to a subscriber in those windows, in seconds; infinite without any.
    pub time_s: f64,
    /// Bytes on both legs for each ADU of the source.
    pub bytes: f64,
    /// The part that is used most in relation to what it has.
    pub tightest: Part,
    /// Its use: the share of its mean rate, or of its processor's time, that is needed; above 1 it does not keep up.
    pub use_share: f64,
}

impl Estimate {
    /// The estimate for a candidate. O(w log w) for each subscriber with w windows of each leg.
    pub fn of(candidate: &Candidate, flow: &Flow, demand: &Demand) -> Self {
        let work = candidate.processor.time(flow);
        let period = flow.period.as_secs_f64();
        let first = Windows::of(candidate.first.as_ref(), flow.bytes, period);
        let ways = candidate.last.iter().map(|last| {
            let second = Windows::of(last.leg.as_ref(), last.bytes, period);
            kept(&first, work, &second, period, demand)
        });
        let ways: Vec<(f64, f64)> = ways.collect();
        let share = ways.iter().map(|way| way.0).fold(1.0, f64::min);
        let time_s = ways.iter().map(|way| way.1).sum::<f64>() / ways.len().max(1) as f64;
        let lasts = candidate.last.iter();
        let carried = lasts.clone().filter(|last| last.leg.is_some());
        let derived: f64 = carried.map(|last| last.bytes).sum();
        let sent = candidate.first.as_ref().map_or(0.0, |_| flow.bytes);
        let lasts = lasts.map(|last| (Part::Last, use_of(last.leg.as_ref(), last.bytes, period)));
        let parts = [
            (
                Part::First,
                use_of(candidate.first.as_ref(), flow.bytes, period),
            ),
            (Part::Processing, work / period),
        ];
        let parts = parts.into_iter().chain(lasts);
        let (tightest, use_share) = parts
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap_or((Part::Processing, 0.0));
        Self {
            share,
            time_s,
            bytes: sent + derived,
            tightest,
            use_share,
        }
    }

    /// True if the demand is kept in as many windows as it asks for.
    pub fn keeps(&self, demand: &Demand) -> bool {
        self.share >= demand.share && self.share > 0.0
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.share;
        if self.time_s.is_finite() {
            write!(
                f,
                "in time in {percent:.0} % of windows, after {:.0} ms",
                self.time_s * 1e3
            )
        } else {
            let part = self.tightest;
            write!(
                f,
                "never in time, because of {part} ({:.0} % of it are needed)",
                100.0 * self.use_share
            )
        }
    }
}

impl Processor {
    /// Time of the work on an ADU, in seconds.
    fn time(&self, flow: &Flow) -> f64 {
        flow.units * self.unit_ps * 1e-12 / self.free.clamp(1e-3, 1.0)
    }
}

/// Times of an ADU on a leg in its windows.
struct Windows {
    /// In seconds, ascending, of windows in which the leg keeps up.
    times: Vec<f64>,
    /// Number of all windows.
    count: usize,
    /// Sums of the first times; one more than these.
    sums: Vec<f64>,
}

impl Windows {
    fn of(leg: Option<&Leg>, bytes: f64, period: f64) -> Self {
        let bits = 8.0 * bytes.max(0.0);
        let (times, count) = match leg {
            None => (vec![0.0], 1),
            Some(leg) => {
                let keeps_up = leg.rates().iter().filter(|rate| **rate * period >= bits);
                // What is not sent takes no time, even at a rate of 0.
                let time = |rate: &f64| leg.delay() + if bits > 0.0 { bits / rate } else { 0.0 };
                (keeps_up.rev().map(time).collect(), leg.rates().len())
            }
        };
        let mut sums = vec![0.0];
        for time in &times {
            sums.push(sums[sums.len() - 1] + time);
        }
        Self { times, count, sums }
    }
}

/// Share of the pairs of windows in which the demand is kept, and the mean time in these.
fn kept(first: &Windows, work: f64, second: &Windows, period: f64, demand: &Demand) -> (f64, f64) {
    let deadline = demand
        .deadline
        .map_or(f64::INFINITY, |time| time.as_secs_f64());
    let (mut pairs, mut sum) = (0_usize, 0.0);
    if work <= period {
        for time in &first.times {
            let left = deadline - time - work;
            let most = second.times.partition_point(|other| *other <= left);
            pairs += most;
            sum += (time + work) * most as f64 + second.sums[most];
        }
    }
    let share = pairs as f64 / (first.count * second.count) as f64;
    let mean = if pairs > 0 {
        sum / pairs as f64
    } else {
        f64::INFINITY
    };
    (share, mean)
}

/// Share of a leg's mean rate that is needed.
fn use_of(leg: Option<&Leg>, bytes: f64, period: f64) -> f64 {
    let Some(leg) = leg else { return 0.0 };
    let mean = leg.rates().iter().sum::<f64>() / leg.rates().len() as f64;
    let needed = 8.0 * bytes.max(0.0) / period;
    if needed > 0.0 {
        needed / mean.max(1e-9)
    } else {
        0.0
    }
}
