//! Admission of plays to the pipe: by its known capacity, or by the performance of the plays in it [Two-flow §6].

use std::{
    collections::{BTreeMap, VecDeque},
    str::FromStr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anabranch::base::{self, Rate, rate::ParseRateError};
use anabranch_media::Part;
use anabranch_twoflow::admission::{Capacity, Gate, Measured, Thresholds};

use super::Shared;
use crate::{
    clock::Clock,
    video::Video,
    wire::{Refusal, RefusalKind},
};

/// Maximum retry time in a refusal: viewers leave before their films end.
const RETRY_MAX_S: u32 = 60;
/// Number of last chunks by which a play is judged.
const CHUNKS: usize = 2;

/// Policy by which plays are refused for lack of capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// No play is refused.
    #[default]
    Open,
    /// A play is refused if it needs more than the others leave of this capacity, at the maximum rate that each of them ever
    /// takes.
    Known(Rate),
    /// Plays are refused while any play falls short of its target rate or loses half of what is tolerated, and for 8 s after a
    /// play has joined, which is not measured yet.
    Measured,
}

impl FromStr for Admission {
    type Err = ParseRateError;

    /// A rate, or `measured`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.trim() {
            "measured" => Ok(Self::Measured),
            rate => rate.parse().map(Self::Known),
        }
    }
}

impl Admission {
    fn capacity(self) -> Capacity {
        match self {
            Self::Open => Capacity::Known(Rate::from_bps(u64::MAX)),
            Self::Known(rate) => Capacity::Known(rate),
            Self::Measured => Capacity::Measured(Thresholds::default()),
        }
    }
}

/// Keeps account of the capacity of the pipe.
#[derive(Debug)]
pub(super) struct AdmissionController {
    inside: Mutex<Inside>,
    clock: Clock,
    since: Instant,
}

#[derive(Debug)]
struct Inside {
    gate: Gate,
    /// Last measurements of the plays.
    measured: BTreeMap<u64, Measured>,
    next: u64,
}

impl AdmissionController {
    pub(super) fn new(admission: Admission, clock: Clock) -> Self {
        let inside = Inside {
            gate: Gate::new(admission.capacity()),
            measured: BTreeMap::new(),
            next: 0,
        };
        Self {
            inside: Mutex::new(inside),
            clock,
            since: clock.now(),
        }
    }

    /// Time since the start.
    fn now(&self) -> base::Instant {
        base::Instant::EPOCH + self.clock.since(self.since)
    }

    /// True if anything plays.
    pub(super) fn is_empty(&self) -> bool {
        self.inside().gate.is_empty()
    }

    /// The plays that are measured: their number, the sums of their target rates and of their rates, and the highest loss.
    pub(super) fn measured(&self) -> (usize, Measured) {
        let inside = self.inside();
        let plays = || inside.measured.values();
        let sum = Measured {
            target: plays().map(|play| play.target).sum(),
            rate: plays().map(|play| play.rate).sum(),
            loss: plays().map(|play| play.loss).fold(0.0, f64::max),
        };
        (inside.measured.len(), sum)
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the pipe; released when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    shared: Arc<Shared>,
    number: u64,
    counters: FlowCounters,
}

impl Shared {
    /// Admits one more play from `chunk` on.
    ///
    /// # Errors
    /// There is no capacity; with the reason, and the time to retry.
    pub(crate) fn admit(self: &Arc<Self>, video: &Video, chunk: u32) -> Result<Place, Refusal> {
        let wanted = video.load_max();
        let now = self.capacity.now();
        let rest = video.start(u32::MAX).saturating_sub(video.start(chunk));
        let mut inside = self.capacity.inside();
        let number = inside.next;
        let flows: Vec<Measured> = inside.measured.values().copied().collect();
        let admitted = inside
            .gate
            .admit(now, number, (wanted, Some(now + rest)), &flows);
        if let Err(refusal) = admitted {
            self.stats.refused.add(1);
            let fits = refusal.fits.map(|rate| format!("; up to {rate} would fit"));
            let words = format!("{refusal}{}", fits.unwrap_or_default());
            let seconds = refusal.retry.map(|time| time.as_secs_f64().ceil() as u32);
            return Err(Refusal {
                retry_after_s: seconds.map(|seconds| seconds.clamp(1, RETRY_MAX_S)),
                ..Refusal::new(RefusalKind::Full, words)
            });
        }
        inside.next += 1;
        Ok(Place {
            shared: self.clone(),
            number,
            counters: FlowCounters::default(),
        })
    }
}

impl Place {
    /// Notes that a chunk of the play is finished: `sent` packets of its enhanced part were sent, `arrived` came; `left_out` of
    /// its frames were left out, because the pipe has no capacity for them.
    pub(super) fn finished(
        &mut self,
        video: &Video,
        chunk: u32,
        (sent, arrived): (u32, u32),
        left_out: u32,
    ) {
        // A frame that was left out counts as a packet that did not arrive.
        let sent = sent.saturating_add(left_out);
        let lasts = video.start(chunk + 1).saturating_sub(video.start(chunk));
        let bytes = video.bytes(chunk, Part::Essential) + video.bytes(chunk, Part::Enhanced);
        let counters = &mut self.counters;
        let now = self.shared.clock.now();
        counters.add(now, lasts, bytes, (sent, arrived));
        if let Some(measured) = counters.measured() {
            let mut inside = self.shared.capacity.inside();
            inside.measured.insert(self.number, measured);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inside = self.shared.capacity.inside();
        inside.gate.release(self.number);
        inside.measured.remove(&self.number);
    }
}

/// Statistics of a play: its last chunks.
#[derive(Debug, Default)]
struct FlowCounters {
    finished_at: Option<Instant>,
    chunks: VecDeque<Finished>,
}

#[derive(Clone, Copy, Debug)]
struct Finished {
    took: Duration,
    lasts: Duration,
    bytes: u64,
    sent: u32,
    arrived: u32,
}

impl FlowCounters {
    fn add(&mut self, now: Instant, lasts: Duration, bytes: u64, (sent, arrived): (u32, u32)) {
        // The duration of the first chunk is not known: it was requested with whatever was there before.
        let Some(before) = self.finished_at.replace(now) else {
            return;
        };
        if self.chunks.len() == CHUNKS {
            self.chunks.pop_front();
        }
        self.chunks.push_back(Finished {
            took: now.saturating_duration_since(before),
            lasts,
            bytes,
            sent,
            arrived: arrived.min(sent),
        });
    }

    /// Measurement of the play over its last chunks: its target is their data in their duration; it falls short when they take
    /// longer to come, or do not come whole.
    fn measured(&self) -> Option<Measured> {
        if self.chunks.len() < CHUNKS {
            return None;
        }
        let seconds = |of: fn(&Finished) -> Duration| {
            self.chunks.iter().map(of).sum::<Duration>().as_secs_f64()
        };
        let (took_s, lasts_s) = (seconds(|one| one.took), seconds(|one| one.lasts));
        let bytes: u64 = self.chunks.iter().map(|one| one.bytes).sum();
        let sent: u32 = self.chunks.iter().map(|one| one.sent).sum();
        let arrived: u32 = self.chunks.iter().map(|one| one.arrived).sum();
        let loss = f64::from(sent - arrived) / f64::from(sent.max(1));
        let target = Rate::from_bytes_per(bytes, Duration::from_secs_f64(lasts_s.max(1e-3)));
        let in_time = (lasts_s / took_s.max(1e-3)).min(1.0);
        Some(Measured {
            target,
            rate: target * (in_time * (1.0 - loss)),
            loss,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(counters: &mut FlowCounters, took_s: &[u64], packets: (u32, u32)) {
        let mut at = Clock::system().now();
        for took_s in took_s {
            at += Duration::from_secs(*took_s);
            counters.add(at, Duration::from_secs(4), 500_000, packets);
        }
    }

    #[test]
    fn a_play_that_keeps_pace_has_its_target() {
        let mut counters = FlowCounters::default();
        after(&mut counters, &[1, 2], (100, 100));
        assert!(
            counters.measured().is_none(),
            "one chunk, whose time is known, is not enough"
        );
        after(&mut counters, &[1, 3, 3], (100, 100));
        let measured = counters.measured().unwrap();
        assert_eq!((measured.target, measured.loss), (Rate::from_mbps(1), 0.0));
        assert_eq!(
            measured.rate, measured.target,
            "what comes ahead of its time is no more than the target"
        );
    }

    #[test]
    fn a_play_that_is_late_or_loses_falls_short() {
        let mut counters = FlowCounters::default();
        after(&mut counters, &[1, 5, 5], (100, 90));
        let measured = counters.measured().unwrap();
        assert!((measured.loss - 0.1).abs() < 1e-9);
        let part = measured.rate.as_bps() as f64 / measured.target.as_bps() as f64;
        assert!((part - 0.8 * 0.9).abs() < 1e-3, "{part}");
    }

    #[test]
    fn admission_is_read() {
        assert_eq!("measured".parse(), Ok(Admission::Measured));
        assert_eq!(
            "20 Mbit/s".parse(),
            Ok(Admission::Known(Rate::from_mbps(20)))
        );
        assert!("much".parse::<Admission>().is_err());
    }
}
