//! Monitor of a service: what its operators, its machine and its queues are busy with, smoothed over the last seconds.
//!
//! The host takes samples; nothing here knows a clock.

pub(crate) mod machine;

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use anabranch_stats::mean::Ewma;

use self::machine::Times;
use crate::wire::message::LoadState;

/// Samples after which the weight of one has fallen by half; there is one a second.
const HALF_LIFE: f64 = 4.0;

/// Effort of the operators of all sources since the service began.
#[derive(Debug, Default)]
pub(crate) struct Effort {
    busy_ns: AtomicU64,
    work: AtomicU64,
}

impl Effort {
    /// Adds time and units of work.
    pub(crate) fn add(&self, busy: Duration, work: u64) {
        let busy = u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX);
        self.busy_ns.fetch_add(busy, Ordering::Relaxed);
        self.work.fetch_add(work, Ordering::Relaxed);
    }

    /// Time, and units of work.
    pub(crate) fn so_far(&self) -> (Duration, u64) {
        let busy = Duration::from_nanos(self.busy_ns.load(Ordering::Relaxed));
        (busy, self.work.load(Ordering::Relaxed))
    }
}

/// A sample: counters since the beginning, and what waits now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Time in operators, and units of work.
    pub(crate) effort: (Duration, u64),
    /// Processor time of the machine; `None`: unknown.
    pub(crate) machine: Option<Times>,
    /// Derived ADUs that wait for subscribers, and their bytes.
    pub(crate) queued: (usize, usize),
}

/// Smoothed figures of a service.
#[derive(Debug)]
pub(crate) struct Monitor {
    cores: u32,
    before: Option<Sample>,
    machine: Ewma,
    /// Time in operators, and units of work, in a second.
    busy: Ewma,
    work: Ewma,
    queued_adus: Ewma,
    queued_bytes: Ewma,
    unit_ps: Option<u64>,
}

impl Monitor {
    /// A monitor on a machine with that many processors; 0: unknown.
    pub(crate) fn new(cores: u32) -> Self {
        let new = || Ewma::with_half_life(HALF_LIFE);
        Self {
            cores,
            before: None,
            machine: new(),
            busy: new(),
            work: new(),
            queued_adus: new(),
            queued_bytes: new(),
            unit_ps: None,
        }
    }

    /// Takes a sample, so long after the one before.
    pub(crate) fn take(&mut self, sample: Sample, since: Duration) {
        let before = self.before.replace(sample);
        self.queued_adus.push(sample.queued.0 as f64);
        self.queued_bytes.push(sample.queued.1 as f64);
        let Some(before) = before.filter(|_| !since.is_zero()) else {
            return;
        };
        let busy = sample.effort.0.saturating_sub(before.effort.0);
        let work = sample.effort.1.saturating_sub(before.effort.1);
        self.busy.push(busy.as_secs_f64() / since.as_secs_f64());
        self.work.push(work as f64 / since.as_secs_f64());
        if let (Some(now), Some(before)) = (sample.machine, before.machine) {
            // Without an answer there is nothing to average.
            self.machine
                .push(now.share_since(before).unwrap_or(f64::NAN));
        }
        // Both have the same weights, so that this is the mean by work. It stays while there is no work.
        if let (Some(busy), Some(work)) = (self.busy.get(), self.work.get())
            && work >= 1.0
        {
            self.unit_ps = Some((busy / work * 1e12).round().max(1.0) as u64);
        }
    }

    /// The load; `None` before the second sample.
    pub(crate) fn load(&self) -> Option<LoadState> {
        let whole = |mean: &Ewma| mean.get().unwrap_or_default().round() as u64;
        let permille = |share: f64| (share * 1e3).round() as u32;
        Some(LoadState {
            machine_permille: self.machine.get().map(permille),
            cores: self.cores,
            operators_permille: permille(self.busy.get()?),
            queued_adus: whole(&self.queued_adus),
            queued_bytes: whole(&self.queued_bytes),
            unit_ps: self.unit_ps,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn sample(busy_ms: u64, work: u64, queued: usize) -> Sample {
        Sample {
            effort: (Duration::from_millis(busy_ms), work),
            machine: Some(Times {
                busy: busy_ms / 5,
                all: 1_000 + work / 1_000,
            }),
            queued: (queued, 1_000 * queued),
        }
    }

    #[test]
    fn a_steady_load_is_shown_as_it_is() {
        let mut monitor = Monitor::new(2);
        monitor.take(sample(0, 0, 5), SECOND);
        assert_eq!(monitor.load(), None, "a share needs two samples");
        // Half of the time in operators, a unit takes 2 ns; half of the machine's time, which passes in 200 parts a second.
        for second in 1..20 {
            monitor.take(
                Sample {
                    machine: Some(Times {
                        busy: 100 * second,
                        all: 200 * second + 1_000,
                    }),
                    ..sample(500 * second, 250_000_000 * second, 5)
                },
                SECOND,
            );
        }
        let load = monitor.load().unwrap();
        assert_eq!((load.operators_permille, load.unit_ps), (500, Some(2_000)));
        assert_eq!((load.queued_adus, load.queued_bytes), (5, 5_000));
        assert!(load.machine_permille.is_some_and(|share| share <= 500));
        assert_eq!(load.cores, 2);
    }

    #[test]
    fn a_burst_fades_and_the_time_of_a_unit_stays_without_work() {
        let mut monitor = Monitor::new(1);
        monitor.take(sample(0, 0, 0), SECOND);
        monitor.take(sample(800, 400_000_000, 64), SECOND);
        let burst = monitor.load().unwrap();
        assert_eq!(
            (burst.operators_permille, burst.unit_ps),
            (800, Some(2_000))
        );
        for _ in 0..60 {
            monitor.take(sample(800, 400_000_000, 0), SECOND);
        }
        let idle = monitor.load().unwrap();
        assert_eq!((idle.operators_permille, idle.queued_adus), (0, 0));
        assert_eq!(idle.unit_ps, Some(2_000));
    }

    #[test]
    fn counters_that_go_back_and_no_time_are_borne() {
        let mut monitor = Monitor::new(0);
        monitor.take(sample(900, 1_000, 1), SECOND);
        monitor.take(sample(100, 10, 1), SECOND);
        monitor.take(sample(200, 10, 1), Duration::ZERO);
        let load = monitor.load().unwrap();
        assert_eq!((load.operators_permille, load.unit_ps), (0, None));
        let effort = Effort::default();
        effort.add(SECOND, 3);
        effort.add(SECOND, 4);
        assert_eq!(effort.so_far(), (2 * SECOND, 7));
    }
}
