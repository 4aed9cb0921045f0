//! Congestion controllers behind one trait.
//!
//! The tap calls them; they handle bytes, packet numbers and time, never streams or fragments. There is one controller
//! per file or folder; those of noq-proto are wrapped by [`adapter`].

mod adapter;
mod aimd;
mod auto;
mod bbr3;
mod binomial;
mod ctcp;
pub(crate) mod filter;
mod fixed;
#[cfg(test)]
mod harness;
mod losses;
mod returning;
#[cfg(test)]
mod tests;
mod train;
mod verb;

use std::{
    fmt::Debug,
    sync::Arc,
    time::{Duration, Instant},
};

use anabranch_base::{Rate, Seed};
use noq_proto::RttEstimator;

use crate::config::{Config, Controller};

/// Length of queue to aim for at the bottleneck, as the session chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum QueueGoal {
    /// Keep enough in flight that changes of rate do not leave the path idle.
    #[default]
    Full,
    /// Keep delay low and even, but lose no rate: a promised stream shares this channel.
    Steady,
    /// Keep delay low: latency-sensitive data shares this channel.
    Short,
    /// Keep the path busy at any delay that leaves data in time: all data on this channel is useless after this lifetime, and no
    /// better for being earlier.
    Within(Duration),
}

/// An acknowledged packet.
pub(crate) struct Ack<'a> {
    pub now: Instant,
    pub sent: Instant,
    pub bytes: u64,
    pub packet: u64,
    /// The application, not the network, limited what was in flight when this packet was sent.
    pub app_limited: bool,
    /// A ceiling on the channel's rate limited what was in flight when this packet was sent. A window that is not used does not show
    /// what the path carries, and must not grow.
    pub is_capped: bool,
    /// Bytes per second at which the path delivered around this packet; `None` when unknown.
    pub rate_sample: Option<f64>,
    /// All bytes acknowledged so far when this packet was sent: a round ends when a packet sent after its beginning is
    /// acknowledged.
    pub delivered_at_sent: u64,
    /// All bytes acknowledged so far.
    pub delivered: u64,
    /// Bytes in flight once it was sent, and bytes declared lost since.
    pub in_flight_at_sent: u64,
    pub lost_since_sent: u64,
    /// Excess of the [usual](crate::usual_rtt) round trip over the shortest one, in seconds; 0 if it is not known.
    pub rtt_excess_s: f64,
    /// QUIC's own estimator; `None` where there is no QUIC, as in tests.
    pub rtt: Option<&'a RttEstimator>,
}

/// A packet declared lost.
pub(crate) struct Lost {
    pub now: Instant,
    pub bytes: u64,
    pub packet: u64,
    /// As in [`Ack`].
    pub app_limited: bool,
    /// As in [`Ack`].
    pub in_flight_at_sent: u64,
    /// As in [`Ack`], this packet included.
    pub lost_since_sent: u64,
    /// The path was silent and is back: the loss does not indicate congestion.
    pub is_forgiven: bool,
}

/// A congestion event: packets were declared lost or marked.
pub(crate) struct Congestion {
    pub now: Instant,
    pub sent: Instant,
    pub is_persistent: bool,
    pub is_ecn: bool,
    pub lost_bytes: u64,
    pub lost_packet_max: u64,
}

/// A congestion controller: determines the bytes in flight and the rate at which they leave.
pub(crate) trait Control: Send + Sync + Debug {
    /// An ack-eliciting packet left.
    fn on_sent(&mut self, now: Instant, bytes: u16, packet: u64);
    /// A packet was acknowledged.
    fn on_ack(&mut self, ack: &Ack<'_>);
    /// A batch of acknowledgements that arrived together is over.
    fn on_end_acks(
        &mut self,
        _now: Instant,
        _in_flight: u64,
        _app_limited: bool,
        _max: Option<u64>,
    ) {
    }
    /// A packet was declared lost.
    fn on_lost(&mut self, _lost: &Lost) {}
    /// A batch of losses, or an ECN mark, is a congestion event.
    fn on_congestion(&mut self, event: &Congestion);
    /// A channel that is coupled with this one had a congestion event. Controllers that respond to losses decrease as
    /// one; those that measure rates or delays detect it themselves.
    fn on_partner_congestion(&mut self, _event: &Congestion) {}
    /// The last congestion event was spurious.
    fn on_spurious(&mut self) {}
    /// The sender had data but no space in the window.
    fn on_window_limited(&mut self) {}
    /// Called after every run of the pump: true if the sender has more to send than it had slots for.
    fn on_backlog(&mut self, _is_backlogged: bool) {}
    /// The round trip of the handshake, before the first sample of a packet.
    fn seed_rtt(&mut self, _rtt: Duration) {}
    /// The size of a full packet changed.
    fn on_mtu(&mut self, mtu: u16);
    /// Sets the length of queue to aim for from now on.
    fn set_queue_goal(&mut self, _goal: QueueGoal) {}
    /// Packets met this queue on their way, in the mean, in the last period of the peer's reports: their one-way delay above the smallest.
    fn note_queue(&mut self, _queue: Duration) {}
    /// From now on, take this share of what one flow would take: 1 for a flow of its own, 1/n for each of
    /// n that share a bottleneck. Above 0, at most 1.
    fn set_share(&mut self, _share: f64) {}
    /// Holds this rate, above zero, from now on; false where the controller holds none.
    fn set_rate(&mut self, _rate: Rate) -> bool {
        false
    }
    /// Bytes that may be in flight.
    fn window(&self) -> u64;
    /// Bytes in flight with which the path is full, at most the window: without those that it holds so that jitter does not leave the path
    /// idle. What there is to send may never fill these, and the path would never be measured.
    fn window_unjittered(&self) -> u64 {
        self.window()
    }
    /// Bytes per second at which packets may leave.
    fn pacing_rate(&self, rtt_smoothed_s: f64) -> f64;
    /// True if packets are to leave one by one, at that rate and not in small bursts.
    fn is_even(&self) -> bool {
        false
    }
    /// True if the window is still searching for the capacity of the path.
    fn is_starting(&self) -> bool;
}

/// Builds the controller that `config` names. `seed` determines its random draws.
pub(crate) fn build(config: &Config, seed: Seed, now: Instant, mtu: u16) -> Box<dyn Control> {
    let window = u64::from(config.initial_window_packets) * u64::from(mtu);
    match config.controller {
        Controller::Auto => Box::new(auto::Auto::new(config, window, mtu)),
        Controller::Aimd(aimd) => Box::new(aimd::new(aimd, window, mtu)),
        Controller::Binomial(binomial) => Box::new(binomial::Binomial::new(binomial, window, mtu)),
        Controller::Verb(verb) => Box::new(verb::Verb::new(verb, window, mtu)),
        Controller::Ctcp(ctcp) => Box::new(ctcp::Ctcp::new(ctcp, config, (seed, now, mtu))),
        Controller::Fixed(rate) => Box::new(fixed::Fixed::new(rate)),
        Controller::Cubic => {
            let mut cubic = noq_proto::congestion::CubicConfig::default();
            cubic.initial_window(window);
            adapter::wrap(Arc::new(cubic), now, mtu)
        }
        Controller::NewReno => {
            let mut reno = noq_proto::congestion::NewRenoConfig::default();
            reno.initial_window(window);
            adapter::wrap(Arc::new(reno), now, mtu)
        }
        Controller::Bbr3 => Box::new(bbr3::Bbr3::new(seed.stream("bbr3"), now, window, mtu)),
    }
}

/// Pacing gain while a window doubles every round trip, so that pacing does not slow it.
const GAIN_STARTING: f64 = 2.0;
/// Pacing gain otherwise (RFC 9002 §7.7 recommends 1.25).
const GAIN_STEADY: f64 = 1.25;

/// Pacing rate, in bytes per second, for a window that is not computed from a rate.
fn paced(window: f64, rtt_smoothed_s: f64, is_starting: bool) -> f64 {
    let gain = if is_starting {
        GAIN_STARTING
    } else {
        GAIN_STEADY
    };
    gain * window / rtt_smoothed_s.max(1e-4)
}

/// Any instant will do in tests: only differences count.
#[cfg(test)]
#[allow(clippy::disallowed_methods)]
pub(crate) fn test_epoch() -> Instant {
    Instant::now()
}
