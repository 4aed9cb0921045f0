//! Pacing rate and window from the model.
//!
//! [draft-ietf-ccwg-bbr, Updating Control Parameters]

use super::{Bbr3, Sample, State, WINDOW_MIN_PACKETS};

/// Margin of the pacing rate below the estimate, so that a queue drains [BBR.PacingMarginPercent].
const PACING_MARGIN: f64 = 0.01;
/// Traffic that may leave at once, in seconds of the pacing rate, and its largest size.
const QUANTUM_S: f64 = 1e-3;
const QUANTUM_MAX_BYTES: f64 = 65_536.0;

impl Bbr3 {
    pub(super) fn set_pacing_rate(&mut self) {
        let gain = match self.state {
            State::Up => self.shared(State::Up.pacing_gain()),
            other => other.pacing_gain(),
        };
        self.set_pacing_rate_with(gain);
    }

    /// The gain with its excess over 1 scaled to the share of a flow: bandwidth that probes take from others, and data
    /// that waits in the bottleneck's queue, are in proportion to it.
    fn shared(&self, gain: f64) -> f64 {
        1.0 + (gain - 1.0) * self.share
    }

    pub(super) fn set_pacing_rate_with(&mut self, gain: f64) {
        let rate = gain * self.model.bandwidth() * (1.0 - PACING_MARGIN);
        if self.pacing_rate == 0.0 {
            // Startup does not fall below the rate of the initial window.
            let rtt_s = self.rtt.shortest_s.max(1e-3);
            self.pacing_rate = State::Startup.pacing_gain() * self.initial_window / rtt_s;
        }
        if rate > 0.0 && (self.full_pipe.reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    fn window_min(&self) -> f64 {
        WINDOW_MIN_PACKETS * self.packet
    }

    /// `gain` × bandwidth × shortest round trip; the initial window while either is unknown.
    fn bdp(&self, gain: f64) -> f64 {
        let bandwidth = self.model.bandwidth();
        if self.rtt.shortest_s.is_infinite() || bandwidth <= 0.0 {
            return self.initial_window;
        }
        gain * bandwidth * self.rtt.shortest_s
    }

    /// Amount that should be in flight to use the path, unless congestion has reduced the window.
    pub(super) fn target_inflight(&self) -> f64 {
        self.bdp(1.0).min(self.window)
    }

    /// `inflight`, but at least what leaves at once, and enough packets to be acknowledged in pairs.
    fn quantised(&self, inflight: f64) -> f64 {
        let quantum = (self.pacing_rate * QUANTUM_S)
            .min(QUANTUM_MAX_BYTES)
            .max(2.0 * self.packet);
        let inflight = inflight.max(quantum).max(self.window_min());
        if self.state == State::Up {
            inflight + 2.0 * self.packet
        } else {
            inflight
        }
    }

    /// `gain` bandwidth-delay products, rounded up to a volume that can be sent.
    pub(super) fn inflight(&self, gain: f64) -> f64 {
        self.quantised(self.bdp(gain))
    }

    pub(super) fn set_window(&mut self, sample: &Sample) {
        let gain = match self.state {
            state if state.is_probe_bw() => self.shared(state.window_gain()),
            other => other.window_gain(),
        };
        let most = self.quantised(self.bdp(gain) + self.model.aggregation());
        if self.full_pipe.reached {
            self.window = (self.window + sample.newly_acked).min(most);
        } else if self.window < most || (self.delivered as f64) < self.initial_window {
            self.window += sample.newly_acked;
        }
        self.window = self.window.max(self.window_min());
        if self.state == State::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window());
        }
        self.window = self.window.min(self.bound());
    }

    /// Bound on the window from losses [BoundCwndForModel].
    fn bound(&self) -> f64 {
        let long = match self.state {
            State::Cruise | State::ProbeRtt => self.model.inflight_with_headroom(self.packet),
            state if state.is_probe_bw() => self.model.inflight_long,
            _ => f64::INFINITY,
        };
        long.min(self.model.inflight_short).max(self.window_min())
    }

    pub(super) fn probe_rtt_window(&self) -> f64 {
        self.bdp(State::ProbeRtt.window_gain())
            .max(self.window_min())
    }

    pub(super) fn save_window(&mut self) {
        self.prior_window = if self.state == State::ProbeRtt {
            self.prior_window.max(self.window)
        } else {
            self.window
        };
    }

    pub(super) fn restore_window(&mut self) {
        self.window = self.window.max(self.prior_window);
    }
}
