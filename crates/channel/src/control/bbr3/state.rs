//! The states of BBR and their gains [draft-ietf-ccwg-bbr, Summary of Control Behavior].

/// Pacing gain that lets the rate double every round, 4·ln 2.
const STARTUP_PACING_GAIN: f64 = 2.77;
/// Window gain that lets the rate double every round, and keeps pacing in charge afterwards.
const DEFAULT_WINDOW_GAIN: f64 = 2.0;

/// State of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Doubles the rate every round until the pipe is full.
    Startup,
    /// Empties the queue that Startup built.
    Drain,
    /// Leaves the path some headroom, and empties the queue that Up built.
    Down,
    /// Sends at the path's rate.
    Cruise,
    /// Fills the pipe without a queue, so that Up measures more than what was missing.
    Refill,
    /// Sends faster than the path delivered so far.
    Up,
    /// Keeps little in flight to measure the shortest round trip.
    ProbeRtt,
}

impl State {
    /// Pacing rate over the estimated bandwidth.
    pub(super) fn pacing_gain(self) -> f64 {
        match self {
            Self::Startup => STARTUP_PACING_GAIN,
            Self::Drain => 0.5,
            Self::Down => 0.9,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 1.0,
            Self::Up => 1.25,
        }
    }

    /// Window over the estimated bandwidth-delay product.
    pub(super) fn window_gain(self) -> f64 {
        match self {
            Self::Up => 2.25,
            Self::ProbeRtt => 0.5,
            _ => DEFAULT_WINDOW_GAIN,
        }
    }

    /// True in the four states of the steady cycle.
    pub(super) fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// True if losses now are the result of a probe, and not a sign that the path has become worse.
    pub(super) fn is_probing_bandwidth(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}
