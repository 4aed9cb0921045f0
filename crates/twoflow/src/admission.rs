//! Admission to a pipe [Two-flow §6].
//!
//! If the pipe's capacity is known by contract, a video is admitted if the peak rate of both its flows is no more
//! than what the admitted videos leave. Where it is not known, the running flows decide: all of them must be near their
//! targets and lose clearly less than is tolerated, and each that joins must have been measured before the next may.

use std::{collections::BTreeMap, fmt, time::Duration};

use anabranch_base::{Instant, Rate};

/// Delay before asking again, unless it is known when capacity will be free.
const RETRY: Duration = Duration::from_secs(30);

/// Capacity of a pipe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Capacity {
    /// It is known.
    Known(Rate),
    /// It is unknown; measurements of the flows decide.
    Measured(Thresholds),
}

/// Conditions that the running flows must meet for another to join them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Least ratio of the measured rate to the target rate.
    pub near: f64,
    /// Share of packets that a flow may lose.
    pub loss: f64,
    /// Ratio of the measured loss to [`Thresholds::loss`] that counts as significantly less.
    pub clearly: f64,
    /// Time for which a flow must have run before it is judged: an adjustment interval.
    pub settled: Duration,
}

impl Default for Thresholds {
    /// The paper's 5 % of loss, half of it as significantly less, 95 % of the target, and its interval of 8 s.
    fn default() -> Self {
        Self {
            near: 0.95,
            loss: 0.05,
            clearly: 0.5,
            settled: Duration::from_secs(8),
        }
    }
}

/// A flow as it was measured over the last interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Its target rate.
    pub target: Rate,
    /// Its measured rate.
    pub rate: Rate,
    /// Share of its packets that were lost or sent again.
    pub loss: f64,
}

/// Reason for refusing a video.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// It needs more than the admitted videos leave.
    Full {
        /// Rate that it needs.
        needed: Rate,
        /// Rate that is left.
        residual: Rate,
    },
    /// It needs more than the whole pipe carries: it will never fit.
    TooLarge {
        /// Rate that it needs.
        needed: Rate,
        /// Rate that the pipe carries.
        capacity: Rate,
    },
    /// A flow has less than its target.
    BelowTarget {
        /// Ratio of its measured rate to its target.
        part: f64,
    },
    /// A flow loses too much.
    Losses {
        /// Share of its packets that it loses.
        loss: f64,
    },
    /// The video admitted last has not been measured yet.
    Settling,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { needed, residual } => {
                write!(
                    f,
                    "it takes up to {needed}, and the pipe has {residual} left"
                )
            }
            Self::TooLarge { needed, capacity } => {
                write!(
                    f,
                    "it takes up to {needed}, and the whole pipe carries {capacity}"
                )
            }
            Self::BelowTarget { part } => {
                write!(
                    f,
                    "a flow in the pipe has {:.0} % of its target rate",
                    part * 100.0
                )
            }
            Self::Losses { loss } => {
                write!(
                    f,
                    "a flow in the pipe loses {:.1} % of its packets",
                    loss * 100.0
                )
            }
            Self::Settling => {
                f.write_str("the video that was admitted last has not been measured yet")
            }
        }
    }
}

/// Refusal of a video, with what would fit and when to ask again.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the pipe has no capacity for this video: {reason}")]
pub struct Refusal {
    /// Reason.
    pub reason: Reason,
    /// The largest rate that would be admitted now; `None` where it is not known.
    pub fits: Option<Rate>,
    /// Delay before asking again; `None` if the video will never fit.
    pub retry: Option<Duration>,
}

/// A video in the pipe.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    rate: Rate,
    ends: Option<Instant>,
}

/// Admission control of one pipe.
#[derive(Clone, Debug)]
pub struct Gate {
    capacity: Capacity,
    admitted: BTreeMap<u64, Admitted>,
    newest: Option<Instant>,
}

impl Gate {
    /// An empty pipe.
    pub fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            admitted: BTreeMap::new(),
            newest: None,
        }
    }

    /// Sets another contract or another rule. Admitted videos stay.
    pub fn set_capacity(&mut self, capacity: Capacity) {
        self.capacity = capacity;
    }

    /// Sum of the peak rates of the admitted videos.
    pub fn taken(&self) -> Rate {
        let rates = self.admitted.values().map(|one| one.rate.as_bps());
        Rate::from_bps(rates.fold(0, u64::saturating_add))
    }

    /// Rate that they leave of a known capacity.
    pub fn residual(&self) -> Option<Rate> {
        match self.capacity {
            Capacity::Known(capacity) => Some(Rate::from_bps(
                capacity.as_bps().saturating_sub(self.taken().as_bps()),
            )),
            Capacity::Measured(_) => None,
        }
    }

    /// Number of admitted videos.
    pub fn len(&self) -> usize {
        self.admitted.len()
    }

    /// True if no video is admitted.
    pub fn is_empty(&self) -> bool {
        self.admitted.is_empty()
    }

    /// Checks whether a video with a peak rate of `rate` may join now, beside `flows` as they were measured; these count only where
    /// the capacity is not known. Changes nothing. O(admitted + flows).
    ///
    /// # Errors
    /// If it may not: the reason, what would fit and when to ask again.
    pub fn ask(&self, now: Instant, rate: Rate, flows: &[Measured]) -> Result<(), Refusal> {
        match self.capacity {
            Capacity::Known(capacity) => self.ask_known(now, rate, capacity),
            Capacity::Measured(thresholds) => self.ask_measured(now, thresholds, flows),
        }
    }

    fn ask_known(&self, now: Instant, needed: Rate, capacity: Rate) -> Result<(), Refusal> {
        let residual = self.residual().unwrap_or_default();
        if needed <= residual {
            return Ok(());
        }
        if needed > capacity {
            return Err(Refusal {
                reason: Reason::TooLarge { needed, capacity },
                fits: Some(residual),
                retry: None,
            });
        }
        Err(Refusal {
            reason: Reason::Full { needed, residual },
            fits: Some(residual),
            retry: Some(self.time_to_fit(now, needed, residual).unwrap_or(RETRY)),
        })
    }

    /// Time until enough of the admitted videos have ended, as far as that is known, for the rest to leave enough
    /// capacity.
    fn time_to_fit(&self, now: Instant, needed: Rate, residual: Rate) -> Option<Duration> {
        let known = self
            .admitted
            .values()
            .filter_map(|one| Some((one.ends?, one.rate)));
        let mut ends: Vec<(Instant, Rate)> = known.collect();
        ends.sort_unstable();
        let mut free = residual.as_bps();
        for (at, rate) in ends {
            free = free.saturating_add(rate.as_bps());
            if free >= needed.as_bps() {
                return Some(at.since(now).max(Duration::from_secs(1)));
            }
        }
        None
    }

    fn ask_measured(
        &self,
        now: Instant,
        at: Thresholds,
        flows: &[Measured],
    ) -> Result<(), Refusal> {
        let refuse = |reason, retry| {
            Err(Refusal {
                reason,
                fits: None,
                retry: Some(retry),
            })
        };
        if let Some(newest) = self.newest.filter(|_| !self.is_empty()) {
            let since = now.since(newest);
            if since < at.settled {
                return refuse(Reason::Settling, at.settled - since);
            }
        }
        for flow in flows {
            if flow.loss > at.clearly * at.loss {
                return refuse(Reason::Losses { loss: flow.loss }, RETRY);
            }
            let target = flow.target.as_bps() as f64;
            let part = if target > 0.0 {
                flow.rate.as_bps() as f64 / target
            } else {
                1.0
            };
            if part < at.near {
                return refuse(Reason::BelowTarget { part }, RETRY);
            }
        }
        Ok(())
    }

    /// Admits `id` with up to `rate`, until about `ends`, if that is known. A video that was admitted before changes its rate.
    ///
    /// # Errors
    /// Those of [`Gate::ask`]; nothing changes then.
    pub fn admit(
        &mut self,
        now: Instant,
        id: u64,
        (rate, ends): (Rate, Option<Instant>),
        flows: &[Measured],
    ) -> Result<(), Refusal> {
        let before = self.admitted.remove(&id);
        if let Err(refusal) = self.ask(now, rate, flows) {
            if let Some(before) = before {
                self.admitted.insert(id, before);
            }
            return Err(refusal);
        }
        self.admitted.insert(id, Admitted { rate, ends });
        self.newest = Some(now);
        Ok(())
    }

    /// Removes `id`; false if it was not admitted.
    pub fn release(&mut self, id: u64) -> bool {
        self.admitted.remove(&id).is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kbps(kbps: u64) -> Rate {
        Rate::from_kbps(kbps)
    }

    #[test]
    fn a_known_pipe_is_filled_and_no_more() {
        let mut gate = Gate::new(Capacity::Known(kbps(2_000)));
        let now = Instant::from_secs(10);
        let ends = Instant::from_secs(100);
        assert_eq!(gate.admit(now, 1, (kbps(1_500), Some(ends)), &[]), Ok(()));
        let refusal = gate.admit(now, 2, (kbps(600), None), &[]).unwrap_err();
        assert_eq!(refusal.fits, Some(kbps(500)));
        assert_eq!(refusal.retry, Some(Duration::from_secs(90)));
        assert_eq!(
            refusal.to_string(),
            "the pipe has no capacity for this video: it takes up to 600 kbit/s, and the pipe has 500 kbit/s left"
        );
        assert_eq!(gate.admit(now, 2, (kbps(500), None), &[]), Ok(()));
        // Its rate may change within what is left, and stays as it was where a change is refused.
        assert!(gate.admit(now, 2, (kbps(501), None), &[]).is_err());
        assert_eq!(gate.taken(), kbps(2_000));
        let never = gate.ask(now, kbps(2_001), &[]).unwrap_err();
        assert_eq!(never.retry, None);
        assert!(gate.release(1) && !gate.release(1));
        assert_eq!(gate.residual(), Some(kbps(1_500)));
    }

    #[test]
    fn a_measured_pipe_depends_on_its_flows() {
        let mut gate = Gate::new(Capacity::Measured(Thresholds::default()));
        let flow = |rate, loss| Measured {
            target: kbps(1_000),
            rate: kbps(rate),
            loss,
        };
        let at = Instant::from_secs;
        assert_eq!(gate.admit(at(0), 1, (kbps(1_000), None), &[]), Ok(()));
        let refusal = gate
            .admit(at(3), 2, (kbps(1), None), &[flow(1_000, 0.0)])
            .unwrap_err();
        assert_eq!(refusal.reason, Reason::Settling);
        assert_eq!(refusal.retry, Some(Duration::from_secs(5)));
        let ask = |flows: &[Measured]| {
            gate.ask(at(8), kbps(1), flows)
                .map_err(|refusal| refusal.reason)
        };
        assert_eq!(ask(&[flow(990, 0.0), flow(960, 0.02)]), Ok(()));
        assert_eq!(
            ask(&[flow(940, 0.0)]),
            Err(Reason::BelowTarget { part: 0.94 })
        );
        assert_eq!(
            ask(&[flow(1_000, 0.03)]),
            Err(Reason::Losses { loss: 0.03 })
        );
    }

    proptest! {
        /// In any sequence of arrivals and departures, the admitted videos never take more than a known pipe carries,
        /// and a rate reported to fit is admitted.
        #[test]
        fn a_known_pipe_is_never_overbooked(
            steps in prop::collection::vec((0u64..20, 1u64..900, any::<bool>()), 1..100),
        ) {
            let capacity = kbps(2_000);
            let mut gate = Gate::new(Capacity::Known(capacity));
            let now = Instant::EPOCH;
            for (id, rate, joins) in steps {
                if joins {
                    if let Err(refusal) = gate.admit(now, id, (kbps(rate), None), &[]) {
                        let fits = refusal.fits.unwrap();
                        prop_assert!(fits < kbps(rate));
                        prop_assert!(gate.clone().admit(now, 1_000, (gate.residual().unwrap(), None), &[]).is_ok());
                    }
                } else {
                    gate.release(id);
                }
                prop_assert!(gate.taken() <= capacity);
            }
        }
    }
}
