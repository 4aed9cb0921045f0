//! Measurement of a stream where its operator is: what an estimate for other places needs.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use anabranch_base::{Instant, NodeId, Rate};

use super::estimate::Flow;

/// Least and longest time over which means are taken.
const SPAN: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(10));
/// Most samples.
const SAMPLES_MAX: usize = 64;
/// Share of what is derived that is sent at most over a leg that is full.
const SENT_MOST: f64 = 0.9;

/// Bytes for the subscribers of a node at the place in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Derived {
    /// Bytes that were derived: sent, waiting or lost.
    pub bytes: u64,
    /// Bytes that were sent; to reliable subscribers, that they hold.
    pub sent: u64,
    /// Bytes that wait now, or are on their way.
    pub waiting: u64,
}

/// Totals of a stream since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// ADUs that the source has made.
    pub made: u64,
    /// Their bytes.
    pub made_bytes: u64,
    /// ADUs that the operators have taken at the place in use.
    pub taken: u64,
    /// Units of work that these took.
    pub work: u64,
    /// Bytes for the subscribers of each node there.
    pub derived: BTreeMap<NodeId, Derived>,
}

/// Means of a stream over the last seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The stream, and the work on it.
    pub flow: Flow,
    /// Bytes that are derived for the subscribers of each node from an ADU of the source.
    pub derived: BTreeMap<NodeId, f64>,
    /// Rates of the legs to nodes whose subscribers get less than is derived for them: at each sample of the last four seconds or more data
    /// waited, and either a tenth of what was derived meanwhile was not sent, or a second's worth waits.
    pub full: BTreeMap<NodeId, Rate>,
}

/// Meter of a stream. It holds up to 64 samples of the last seconds.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    samples: VecDeque<(Instant, Totals)>,
}

impl Meter {
    /// Adds a sample. Totals that have become smaller are those of another place: the means begin anew.
    pub fn add(&mut self, now: Instant, totals: Totals) {
        let is_anew = |last: &Totals| {
            last.taken > totals.taken || last.work > totals.work || last.made > totals.made
        };
        if self.samples.back().is_some_and(|(_, last)| is_anew(last)) {
            self.samples.clear();
        }
        self.samples.push_back((now, totals));
        let is_old = |at: Instant| now.since(at) >= SPAN.1;
        while self.samples.len() > SAMPLES_MAX
            || self
                .samples
                .get(1)
                .is_some_and(|(second, _)| is_old(*second))
        {
            self.samples.pop_front();
        }
    }

    /// Means between the oldest and the newest sample; `None`: they are closer than four seconds, or no ADU was made or taken meanwhile.
    pub fn measured(&self) -> Option<Measured> {
        let ((begin, first), (end, last)) = (self.samples.front()?, self.samples.back()?);
        let span = end.since(*begin);
        let (made, taken) = (last.made - first.made, last.taken - first.taken);
        if span < SPAN.0 || made == 0 || taken == 0 {
            return None;
        }
        let each = |sum: u64, count: u64| sum as f64 / count as f64;
        let derived = last.derived.iter().map(|(node, now)| {
            let before = first.derived.get(node).copied().unwrap_or_default();
            (*node, each(now.bytes.saturating_sub(before.bytes), taken))
        });
        let full = last.derived.iter().filter_map(|(node, now)| {
            let at = |totals: &Totals| totals.derived.get(node).copied();
            let samples = self.samples.iter().rev();
            let waited = samples.map_while(|(since, totals)| {
                let then = at(totals).filter(|then| then.waiting > 0)?;
                Some((end.since(*since), then))
            });
            let (span, then) = waited.last().filter(|(span, _)| *span >= SPAN.0)?;
            let bytes = now.bytes.saturating_sub(then.bytes);
            let sent = now.sent.saturating_sub(then.sent);
            let is_short = (sent as f64) < SENT_MOST * bytes as f64
                || now.waiting as f64 * span.as_secs_f64() >= bytes as f64;
            let rate = Rate::from_bps((8.0 * sent as f64 / span.as_secs_f64()) as u64);
            is_short.then_some((*node, rate))
        });
        Some(Measured {
            flow: Flow {
                period: span.div_f64(made as f64),
                bytes: each(last.made_bytes.saturating_sub(first.made_bytes), made),
                units: each(last.work - first.work, taken),
            },
            derived: derived.collect(),
            full: full.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(made: u64, taken: u64, derived: &[(u8, u64)]) -> Totals {
        let node = |number: u8| NodeId::from_public_key([number; 32]);
        let derived = derived.iter().map(|&(number, bytes)| {
            let derived = Derived {
                bytes,
                sent: bytes,
                waiting: 0,
            };
            (node(number), derived)
        });
        Totals {
            made,
            made_bytes: 1_000 * made,
            taken,
            work: 50 * taken,
            derived: derived.collect(),
        }
    }

    #[test]
    fn means_are_those_of_the_last_seconds() {
        let mut meter = Meter::default();
        assert_eq!(meter.measured(), None);
        for second in 0..=20_u64 {
            // Twenty a second, and from the tenth second on twice as many; half as many bytes are derived.
            let made = 20 * second + 20 * second.saturating_sub(10);
            let totals = totals(made, made, &[(3, 500 * made)]);
            meter.add(Instant::from_secs(second), totals);
            assert_eq!(meter.measured().is_some(), second >= 4, "{second}");
        }
        let Measured {
            flow,
            derived,
            full,
        } = meter.measured().unwrap();
        assert!(full.is_empty());
        assert_eq!(flow.period, Duration::from_millis(25));
        assert_eq!((flow.bytes, flow.units), (1_000.0, 50.0));
        assert_eq!(derived.values().copied().collect::<Vec<_>>(), [500.0]);
    }

    #[test]
    fn a_leg_whose_data_waits_has_the_rate_of_what_is_sent() {
        // 20 ADUs a second, of 500 bytes; the bytes that were sent until a second, and those that wait then.
        let full = |seconds: u64, sent_waiting: &dyn Fn(u64) -> (u64, u64)| {
            let mut meter = Meter::default();
            for second in 1..=seconds {
                let mut totals = totals(20 * second, 20 * second, &[(3, 10_000 * second)]);
                for derived in totals.derived.values_mut() {
                    (derived.sent, derived.waiting) = sent_waiting(second);
                }
                meter.add(Instant::from_secs(second), totals);
            }
            let full = meter.measured().map(|measured| measured.full);
            let rate = full?.values().next().copied();
            rate.map(|rate| rate.as_bps())
        };
        assert_eq!(full(10, &|second| (10_000 * second, 0)), None);
        // The rest waits, or most of it is lost.
        assert_eq!(
            full(10, &|second| (3_000 * second, 7_000 * second)),
            Some(24_000)
        );
        assert_eq!(full(10, &|second| (3_000 * second, 500)), Some(24_000));
        // A little waits whenever one looks.
        assert_eq!(full(10, &|second| (9_900 * second, 100)), None);
        // It waits since the leg was narrow; by now all of it is sent.
        assert_eq!(full(10, &|second| (10_000 * second, 30_000)), Some(80_000));
        // It is narrow since the fifth second, and data has waited from the sixth on.
        let narrow = |second: u64| {
            let waiting = 7_000 * second.saturating_sub(5);
            (10_000 * second - waiting, waiting)
        };
        for seconds in 1..10 {
            assert_eq!(full(seconds, &narrow), None, "{seconds}");
        }
        assert_eq!(full(10, &narrow), Some(24_000));
        // Nothing is sent at all.
        assert_eq!(full(5, &|second| (0, 10_000 * second)), Some(0));
    }

    #[test]
    fn another_place_and_another_subscriber_begin_anew() {
        let mut meter = Meter::default();
        for second in 0..5 {
            let made = 20 * second;
            meter.add(Instant::from_secs(second), totals(made, made, &[(3, made)]));
        }
        // The new place has taken fewer ADUs.
        meter.add(Instant::from_secs(5), totals(100, 4, &[(3, 4)]));
        assert_eq!(meter.measured(), None);
        meter.add(Instant::from_secs(9), totals(180, 44, &[(3, 44), (4, 80)]));
        let Measured { derived, .. } = meter.measured().unwrap();
        assert_eq!(derived.values().copied().collect::<Vec<_>>(), [1.0, 2.0]);
        // Nothing is taken: nothing is known.
        let mut idle = Meter::default();
        idle.add(Instant::EPOCH, totals(0, 0, &[]));
        idle.add(Instant::from_secs(5), totals(60, 0, &[]));
        assert_eq!(idle.measured(), None);
    }
}
