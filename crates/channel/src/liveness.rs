//! Liveness of a path.
//!
//! QUIC's own detection is slow: probe time-outs double, and a connection is given up after many seconds. A session
//! with other channels cannot wait. A channel with something outstanding and no acknowledgement for about two smoothed
//! round trips is *suspected*: it gets no more slots, its outstanding data moves elsewhere, and it is probed with
//! exponential back-off until an acknowledgement shows that it is back.

use std::time::Duration;

use anabranch_base::Instant;

/// Smoothed round trips without an acknowledgement before a channel is suspected; together with the deviation and the
/// acknowledgement delay, about three.
const SILENT_RTTS: u32 = 2;
/// Deviations of the round trip added to that.
const SILENT_DEVIATIONS: u32 = 4;
/// Slack for the peer's timer and ours.
const SLACK: Duration = Duration::from_millis(5);
/// Shortest time between two probes.
const PROBE_MIN: Duration = Duration::from_millis(20);
/// Longest time between two probes while the outage is young (see [`YOUNG`]).
const PROBE_MAX_YOUNG: Duration = Duration::from_millis(250);
/// Longest time between two probes.
const PROBE_MAX: Duration = Duration::from_secs(5);
/// An outage is young for this long: tunnels, handovers, a cable pulled and put back.
const YOUNG: Duration = Duration::from_secs(30);

/// Liveness of a channel, judged by its silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Acknowledgements arrive, or nothing is outstanding.
    Active,
    /// Silent although something is outstanding.
    Suspected {
        /// Time at which suspicion arose.
        since: Instant,
        /// Time at which the next probe is due.
        probe_at: Instant,
        /// Time between the last probe and the next.
        interval: Duration,
    },
}

/// Action that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing.
    Nothing,
    /// The channel has just become suspected.
    Suspect,
    /// Send a probe.
    Probe,
}

/// Measurements by which silence is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signs {
    /// Time since which something is outstanding without any acknowledgement.
    pub outstanding_since: Option<Instant>,
    pub rtt_smoothed: Duration,
    pub rtt_variation: Duration,
    pub ack_delay_max: Duration,
}

impl Signs {
    /// Time at which the silence becomes suspicious.
    fn suspect_at(&self) -> Option<Instant> {
        let timeout = self.rtt_smoothed * SILENT_RTTS
            + (self.rtt_variation * SILENT_DEVIATIONS).min(self.rtt_smoothed)
            + self.ack_delay_max
            + SLACK;
        Some(self.outstanding_since? + timeout)
    }
}

impl Liveness {
    /// True if the channel may be used for new data.
    pub fn is_active(&self) -> bool {
        matches!(self, Self::Active)
    }

    /// Time at which [`Liveness::check`] has to be called next.
    pub(crate) fn next_check(&self, signs: &Signs) -> Option<Instant> {
        match self {
            Self::Active => signs.suspect_at(),
            Self::Suspected { probe_at, .. } => Some(*probe_at),
        }
    }

    /// Updates the state to `now`.
    pub(crate) fn check(&mut self, now: Instant, signs: &Signs) -> Due {
        match self {
            Self::Active => {
                if signs.suspect_at().is_none_or(|at| now < at) {
                    return Due::Nothing;
                }
                let interval = signs.rtt_smoothed.clamp(PROBE_MIN, PROBE_MAX_YOUNG);
                *self = Self::Suspected {
                    since: now,
                    probe_at: now + interval,
                    interval,
                };
                Due::Suspect
            }
            Self::Suspected {
                since,
                probe_at,
                interval,
            } => {
                if now < *probe_at {
                    return Due::Nothing;
                }
                let ceiling = if now.since(*since) < YOUNG {
                    PROBE_MAX_YOUNG.max(signs.rtt_smoothed)
                } else {
                    PROBE_MAX
                };
                *interval = (*interval * 2).min(ceiling);
                *probe_at = now + *interval;
                Due::Probe
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signs(outstanding_since: Option<Instant>) -> Signs {
        Signs {
            outstanding_since,
            rtt_smoothed: Duration::from_millis(40),
            rtt_variation: Duration::from_millis(2),
            ack_delay_max: Duration::from_millis(4),
        }
    }

    #[test]
    fn silence_of_three_round_trips_is_suspicious() {
        let mut liveness = Liveness::Active;
        let start = Instant::from_millis(100);
        let silent = signs(Some(start));
        assert_eq!(
            liveness.check(start + Duration::from_millis(90), &silent),
            Due::Nothing
        );
        assert_eq!(
            liveness.check(start + Duration::from_millis(120), &silent),
            Due::Suspect
        );
        assert!(!liveness.is_active());
    }

    #[test]
    fn an_idle_channel_is_never_suspected() {
        let mut liveness = Liveness::Active;
        assert_eq!(
            liveness.check(Instant::from_secs(1000), &signs(None)),
            Due::Nothing
        );
        assert_eq!(liveness.next_check(&signs(None)), None);
    }

    #[test]
    fn probes_back_off_to_a_ceiling() {
        let mut liveness = Liveness::Active;
        let silent = signs(Some(Instant::EPOCH));
        let mut now = Instant::from_millis(200);
        assert_eq!(liveness.check(now, &silent), Due::Suspect);
        let mut gaps = Vec::new();
        for _ in 0..6 {
            let at = liveness.next_check(&silent).expect("a probe is due");
            gaps.push(at.since(now).as_millis());
            now = at;
            assert_eq!(liveness.check(now, &silent), Due::Probe);
        }
        assert_eq!(gaps, [40, 80, 160, 250, 250, 250]);
    }
}
