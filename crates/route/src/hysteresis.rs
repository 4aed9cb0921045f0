//! Hysteresis of routes: changes to better ones without flapping.
//!
//! Estimates are noisy, and the best of many noisy candidates looks better than it is. A change for the better therefore
//! needs a gain that lasts: candidates are followed one by one, each starts with no gain at all, its gain (the logarithm
//! of the ratio of times) is averaged, and must stay above a threshold for some time. The threshold is higher where the
//! estimates report large errors, and the time longer after recent changes. Failures and marked declines
//! ([`crate::decline`]) do not wait. Neither do paths that join those in use ([`Keeper::widen`]): no path is given up for
//! them, so they cannot flap.

use std::time::Duration;

use anabranch_base::Instant;

/// Expected performance of routes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Time that a typical message takes.
    pub time: Duration,
    /// Standard error of the time relative to it; 0 when it is not known.
    pub error: f64,
}

/// Health of the routes in use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Health {
    /// As usual.
    Fine,
    /// One of their links has declined markedly.
    Degraded {
        /// Factor by which a path must be quicker than the declined one that it would replace, each with a message of its
        /// own; 1 where that is not known. Among several paths in use, the decline of one to a tenth hardly shows in all
        /// of them together.
        part: f64,
    },
    /// One of their links or relays has failed.
    Failed,
}

/// Reason for a change of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// There were none before.
    First,
    /// Those in use failed.
    Failed,
    /// Those in use declined, and the others are better now.
    Degraded,
    /// The others have been better for long enough.
    Better,
    /// More paths joined those in use.
    Wider,
}

/// Thresholds and times that govern changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Least gain for a change: 0.15 is a message in 1/1.15 of the time.
    pub gain_min: f64,
    /// Number of the estimates' standard errors by which the gain must exceed `gain_min`.
    pub errors: f64,
    /// Time over which a gain is averaged, approximately.
    pub smoothing: Duration,
    /// Time for which the averaged gain must last.
    pub hold: Duration,
    /// Least time between a change and the next one for the better. Doubles, as `hold` does, with each change for the
    /// better, up to eightfold, and is halved again by every `calm` without one.
    pub pause: Duration,
    /// Time without a change after which `pause` and `hold` are halved.
    pub calm: Duration,
    /// Least gain for leaving routes that have declined, by the same measure as `gain_min`.
    pub urgent_gain_min: f64,
    /// Least gain over the declined path alone for replacing it, if all paths together do not lose by it: 0.7 means a
    /// path that is 1.7 times as quick.
    pub urgent_part_min: f64,
    /// Least time between a change and the next one because of a decline, or to more paths.
    pub urgent_pause: Duration,
    /// Time for which more paths must promise a gain of `gain_min` before they are taken.
    pub wider_hold: Duration,
}

impl Default for Config {
    /// For estimates every 0.5 to 1 s with errors of up to 20 %.
    fn default() -> Self {
        Self {
            gain_min: 0.15,
            errors: 0.5,
            smoothing: Duration::from_secs(4),
            hold: Duration::from_secs(8),
            pause: Duration::from_secs(10),
            calm: Duration::from_secs(60),
            urgent_gain_min: 0.15,
            urgent_part_min: 0.7,
            urgent_pause: Duration::from_secs(2),
            wider_hold: Duration::from_secs(1),
        }
    }
}

/// Candidates followed at a time; the one of least gain is replaced by a new one.
pub const CANDIDATES_MAX: usize = 4;
/// Limit on the growth of `hold` and `pause`, in doublings.
const DOUBLINGS_MAX: u32 = 3;

/// A candidate and its gain so far.
#[derive(Debug, Clone)]
struct Candidate<R> {
    routes: R,
    /// Averaged ln(time of those in use / its time).
    gain: f64,
    seen: Instant,
    /// Time since which the gain has been high enough.
    since: Option<Instant>,
}

/// Keeps routes of type `R` (the paths of one destination, for example) in use until others are worth the change.
#[derive(Debug, Clone)]
pub struct Keeper<R> {
    config: Config,
    current: Option<R>,
    candidates: Vec<Candidate<R>>,
    /// Time of the last change of any kind.
    changed: Instant,
    /// Time of the last change for the better, and the number of doublings in force after it.
    settled: Option<(Instant, u32)>,
    /// Time since which more paths have promised a gain.
    wider_since: Option<Instant>,
}

impl<R: Clone + PartialEq> Keeper<R> {
    /// Creates a keeper without routes.
    pub const fn new(config: Config) -> Self {
        Self {
            config,
            current: None,
            candidates: Vec::new(),
            changed: Instant::EPOCH,
            settled: None,
            wider_since: None,
        }
    }

    /// The routes in use.
    pub const fn current(&self) -> Option<&R> {
        self.current.as_ref()
    }

    /// The same state with routes in another form: as `convert` returns them; `None`: they are no longer possible, and are forgotten.
    #[must_use]
    pub fn map<S>(self, mut convert: impl FnMut(R) -> Option<S>) -> Keeper<S> {
        let candidates = self.candidates.into_iter().filter_map(|candidate| {
            Some(Candidate {
                routes: convert(candidate.routes)?,
                gain: candidate.gain,
                seen: candidate.seen,
                since: candidate.since,
            })
        });
        Keeper {
            config: self.config,
            candidates: candidates.collect(),
            current: self.current.and_then(&mut convert),
            changed: self.changed,
            settled: self.settled,
            wider_since: self.wider_since,
        }
    }

    /// Reconsiders the routes after new estimates; `best` are the best routes by these, and `cost` returns the cost of
    /// any routes by these (`None`: they cannot be used). Returns the reason if routes have changed to `best`, or to an
    /// earlier best one. To be called with every round of estimates, because the averages cover only the estimates seen
    /// here. Calls `cost` up to [`CANDIDATES_MAX`] + 2 times.
    pub fn consider(
        &mut self,
        now: Instant,
        health: Health,
        best: &R,
        mut cost: impl FnMut(&R) -> Option<Cost>,
    ) -> Option<Reason> {
        let offered = cost(best)?;
        let Some(current) = self.current.clone() else {
            return Some(self.change(now, best.clone(), Reason::First));
        };
        let used = cost(&current);
        let Some(used) = used.filter(|_| health != Health::Failed) else {
            // Failed, and no alternative: estimates are late, and failed paths are retried elsewhere.
            return (current != *best).then(|| self.change(now, best.clone(), Reason::Failed));
        };
        if let Health::Degraded { part } = health
            && current != *best
            && self.is_worth_leaving(gain(&used, &offered), part)
            && now.since(self.changed) >= self.config.urgent_pause
        {
            return Some(self.change(now, best.clone(), Reason::Degraded));
        }
        if current != *best {
            self.follow(now, best);
        }
        let doublings = self.doublings(now);
        let mut winner: Option<(f64, usize)> = None;
        let config = self.config;
        self.candidates.retain_mut(|candidate| {
            let Some(offered) = cost(&candidate.routes) else {
                return false;
            };
            candidate.observe(now, &config, &used, &offered);
            true
        });
        for (at, candidate) in self.candidates.iter().enumerate() {
            let hold = config.hold * 2u32.pow(doublings);
            let is_held = candidate
                .since
                .is_some_and(|since| now.since(since) >= hold);
            if is_held && winner.is_none_or(|(gain, _)| candidate.gain > gain) {
                winner = Some((candidate.gain, at));
            }
        }
        let (_, at) = winner?;
        if now.since(self.changed) < config.pause * 2u32.pow(doublings) {
            return None;
        }
        let routes = self.candidates.swap_remove(at).routes;
        self.settled = Some((now, (doublings + 1).min(DOUBLINGS_MAX)));
        Some(self.change(now, routes, Reason::Better))
    }

    /// Takes `wider`, which contains everything in use and more, if it has promised enough for long enough; to be called
    /// after each [`Self::consider`] that changed nothing, with `None` where nothing can join. The joining paths may
    /// differ from call to call; those of this call are taken. The caller bounds the number of paths, and with it how
    /// often this happens. Calls `cost` up to twice.
    pub fn widen(
        &mut self,
        now: Instant,
        wider: Option<&R>,
        mut cost: impl FnMut(&R) -> Option<Cost>,
    ) -> Option<Reason> {
        let gained = self
            .current
            .as_ref()
            .zip(wider)
            .and_then(|(current, wider)| {
                let gain = gain(&cost(current)?, &cost(wider)?);
                (gain >= self.config.gain_min.ln_1p()).then_some(wider)
            });
        let Some(wider) = gained else {
            self.wider_since = None;
            return None;
        };
        let since = *self.wider_since.get_or_insert(now);
        let is_due = now.since(since) >= self.config.wider_hold
            && now.since(self.changed) >= self.config.urgent_pause;
        is_due.then(|| self.change(now, wider.clone(), Reason::Wider))
    }

    fn is_worth_leaving(&self, gain: f64, part: f64) -> bool {
        let config = &self.config;
        let replaces = gain >= 0.0 && part >= 1.0 + config.urgent_part_min;
        replaces || gain >= config.urgent_gain_min.ln_1p()
    }

    fn change(&mut self, now: Instant, routes: R, reason: Reason) -> Reason {
        self.current = Some(routes);
        self.candidates.clear();
        self.wider_since = None;
        self.changed = now;
        reason
    }

    fn follow(&mut self, now: Instant, best: &R) {
        if self.candidates.iter().any(|known| known.routes == *best) {
            return;
        }
        if self.candidates.len() == CANDIDATES_MAX {
            let least = (0..CANDIDATES_MAX)
                .min_by(|&a, &b| self.candidates[a].gain.total_cmp(&self.candidates[b].gain));
            self.candidates.remove(least.unwrap_or(0));
        }
        self.candidates.push(Candidate {
            routes: best.clone(),
            gain: 0.0,
            seen: now,
            since: None,
        });
    }

    /// Number of doublings in force.
    fn doublings(&self, now: Instant) -> u32 {
        self.settled.map_or(0, |(at, doublings)| {
            let calm = self.config.calm.as_secs_f64().max(1e-3);
            let halvings = (now.since(at).as_secs_f64() / calm) as u32;
            doublings.saturating_sub(halvings)
        })
    }
}

impl<R> Candidate<R> {
    fn observe(&mut self, now: Instant, config: &Config, used: &Cost, offered: &Cost) {
        let elapsed = now.since(self.seen).as_secs_f64();
        let share = 1.0 - (-elapsed / config.smoothing.as_secs_f64().max(1e-3)).exp();
        self.gain += (gain(used, offered) - self.gain) * share;
        self.seen = now;
        let needed = config.gain_min.ln_1p() + config.errors * used.error.hypot(offered.error);
        if self.gain >= needed {
            self.since.get_or_insert(now);
        } else {
            self.since = None;
        }
    }
}

/// ln(time in use / time offered): above 0 if the offer is better.
fn gain(used: &Cost, offered: &Cost) -> f64 {
    let seconds = |cost: &Cost| cost.time.as_secs_f64().max(1e-9);
    (seconds(used) / seconds(offered)).ln()
}

#[cfg(test)]
mod tests;
