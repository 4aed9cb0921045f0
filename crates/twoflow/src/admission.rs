//! Admission to a pipe [Two-flow §6].
//!
//! Where the pipe's capacity is known, by contract, a video is admitted if the most that both of its flows ever take is no more than
//! what those admitted leave. Where it is not, the flows that run are asked: all of them near their targets, and losing clearly
//! less than is tolerated; and each that joins must have been measured before the next may.

use std::{collections::BTreeMap, fmt, time::Duration};

use anabranch_base::{Instant, Rate};

/// Time to ask again, unless it is known when room will be.
const RETRY: Duration = Duration::from_secs(30);

/// State of a pipe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Capacity {
    /// It carries so much.
    Known(Rate),
    /// Nothing; what flows through it tells.
    Measured(Thresholds),
}

/// What flows must be like for another to join them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Measured over target rate, at least.
    pub near: f64,
    /// Share of packets that flows may lose.
    pub loss: f64,
    /// Measured loss over [`Thresholds::loss`] that is significantly below it.
    pub clearly: f64,
    /// Time for which a flow must have run to be judged: an adjustment interval.
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
    /// What it is to have.
    pub target: Rate,
    /// What it had.
    pub rate: Rate,
    /// Share of its packets that were lost or sent again.
    pub loss: f64,
}

/// Reason why a video may not join.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// It needs more than those admitted leave.
    Full {
        /// What it needs.
        needed: Rate,
        /// What is left.
        residual: Rate,
    },
    /// It needs more than the whole pipe carries: it will never fit.
    TooLarge {
        /// What it needs.
        needed: Rate,
        /// What the pipe carries.
        capacity: Rate,
    },
    /// A flow has less than its target.
    BelowTarget {
        /// Measured over target.
        part: f64,
    },
    /// A flow loses too much.
    Losses {
        /// The share that it loses.
        loss: f64,
    },
    /// The last one that was admitted has not been measured yet.
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

/// A refusal that says what to do.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the pipe has no room for this video: {reason}")]
pub struct Refusal {
    /// Reason.
    pub reason: Reason,
    /// The largest rate that would be admitted now; `None` where it is not known.
    pub fits: Option<Rate>,
    /// Time to ask again; `None`: it will not fit, whenever that is.
    pub retry: Option<Duration>,
}

/// A video in the pipe.
#[derive(Clone, Copy, Debug)]
struct Admitted {
    rate: Rate,
    ends: Option<Instant>,
}

/// Keeps account of one pipe.
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

    /// Another contract, or another rule. Who is in stays.
    pub fn set_capacity(&mut self, capacity: Capacity) {
        self.capacity = capacity;
    }

    /// The most that those admitted take together.
    pub fn taken(&self) -> Rate {
        let rates = self.admitted.values().map(|one| one.rate.as_bps());
        Rate::from_bps(rates.fold(0, u64::saturating_add))
    }

    /// What they leave of a known capacity.
    pub fn residual(&self) -> Option<Rate> {
        match self.capacity {
            Capacity::Known(capacity) => Some(Rate::from_bps(
                capacity.as_bps().saturating_sub(self.taken().as_bps()),
            )),
            Capacity::Measured(_) => None,
        }
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.admitted.len()
    }

    /// True if nobody is in.
    pub fn is_empty(&self) -> bool {
        self.admitted.is_empty()
    }

    /// Whether a video that takes up to `rate` may join now, beside `flows` as they were measured; these count only where the
    /// capacity is not known. Nothing changes. O(admitted + flows).
    ///
    /// # Errors
    /// It may not, with the reason, what would fit and when to ask again.
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
            retry: Some(self.room_in(now, needed, residual).unwrap_or(RETRY)),
        })
    }

    /// Time for which until so many have ended, as far as that is known, that the rest leave room.
    fn room_in(&self, now: Instant, needed: Rate, residual: Rate) -> Option<Duration> {
        let known = self
            .admitted
            .values()
            .filter_map(|one| Some((one.ends?, one.rate)));
        let mut ends: Vec<(Instant, Rate)> = known.collect();
        ends.sort_unstable();
        let mut room = residual.as_bps();
        for (at, rate) in ends {
            room = room.saturating_add(rate.as_bps());
            if room >= needed.as_bps() {
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

    /// Lets `id` in with up to `rate`, until about `ends`, if that is known. One that is in already changes its rate.
    ///
    /// # Errors
    /// As [`Gate::ask`]; nothing changes then.
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

    /// `id` has left; false if it was not in.
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
            "the pipe has no room for this video: it takes up to 600 kbit/s, and the pipe has 500 kbit/s left"
        );
        assert_eq!(gate.admit(now, 2, (kbps(500), None), &[]), Ok(()));
        // It may change within what is left, and keeps what it had where that is refused.
        assert!(gate.admit(now, 2, (kbps(501), None), &[]).is_err());
        assert_eq!(gate.taken(), kbps(2_000));
        let never = gate.ask(now, kbps(2_001), &[]).unwrap_err();
        assert_eq!(never.retry, None);
        assert!(gate.release(1) && !gate.release(1));
        assert_eq!(gate.residual(), Some(kbps(1_500)));
    }

    #[test]
    fn a_measured_pipe_asks_its_flows() {
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
        /// Whoever comes and goes: those who are in never take more than a known pipe carries, and what is said to fit
        /// does.
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
