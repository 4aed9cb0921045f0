//! Binomial congestion control: increase by α/Wᵏ a round trip, decrease by β·Wˡ on loss [Bansal and
//! Balakrishnan, "Binomial congestion control algorithms", INFOCOM 2001].
//!
//! The window W is in full packets. Below the slow-start threshold it doubles every round trip, and a loss there halves
//! it, whatever k and l are: the paper's algorithms begin after slow start. The rest is that of RFC 9002 §7: one
//! decrease per round trip, no increase while the application is the limit, the smallest window on persistent
//! congestion.
//!
//! A share w is one of 1/w parts of a single flow with the window W/w: the parts decrease together
//! ([`Control::on_partner_congestion`]), and each does w of what that flow does, so that α' = α·w^(k+1) and
//! β' = β·w^(1−l).

use std::time::Instant;

use super::{Ack, Congestion, Control, paced};
use crate::config;

/// Fewest packets in flight (RFC 9002 §7.2 has 2; our acknowledgements cover up to 8 packets at a time).
const WINDOW_MIN_PACKETS: f64 = 4.0;
/// Most packets in flight, 1.5 GB: keeps powers of it finite.
const WINDOW_MAX_PACKETS: f64 = 1e6;

#[derive(Debug)]
pub(super) struct Binomial {
    parameters: config::Binomial,
    /// Bytes of a full packet.
    mtu: f64,
    /// In packets, as is everything below.
    window: f64,
    threshold: f64,
    share: f64,
    recovery_since: Option<Instant>,
    /// Window and threshold before the last decrease, in case it was spurious.
    before: Option<(f64, f64)>,
}

impl Binomial {
    pub(super) fn new(parameters: config::Binomial, window_bytes: u64, mtu: u16) -> Self {
        let mtu = f64::from(mtu.max(1));
        Self {
            parameters,
            mtu,
            window: bounded(window_bytes as f64 / mtu),
            threshold: f64::INFINITY,
            share: 1.0,
            recovery_since: None,
            before: None,
        }
    }

    fn grow(&mut self, packets: f64) {
        let config::Binomial { k, increase, .. } = self.parameters;
        let gained = if self.is_starting() {
            packets
        } else {
            // α/Wᵏ a round trip, in which W packets are acknowledged.
            let increase = increase * self.share.powf(k + 1.0);
            increase / self.window.powf(k + 1.0) * packets
        };
        self.window = bounded(self.window + gained);
    }
}

fn bounded(packets: f64) -> f64 {
    packets.clamp(WINDOW_MIN_PACKETS, WINDOW_MAX_PACKETS)
}

impl Control for Binomial {
    fn on_sent(&mut self, _now: Instant, _bytes: u16, _packet: u64) {}

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let recovering = self.recovery_since.is_some_and(|since| ack.sent <= since);
        if !recovering && !ack.app_limited && !ack.is_capped {
            self.grow(ack.bytes as f64 / self.mtu);
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        if self.recovery_since.is_some_and(|since| event.sent <= since) {
            return;
        }
        self.recovery_since = Some(event.now);
        if event.is_persistent && self.window <= WINDOW_MIN_PACKETS {
            // Continued silence gives no new information: the threshold stays (RFC 5681 §3.1).
            return;
        }
        self.before = Some((self.window, self.threshold));
        let config::Binomial { l, decrease, .. } = self.parameters;
        let left = if self.is_starting() {
            self.window / 2.0
        } else {
            let decrease = decrease * self.share.powf(1.0 - l);
            self.window - decrease * self.window.powf(l)
        };
        self.threshold = bounded(left);
        self.window = if event.is_persistent {
            WINDOW_MIN_PACKETS
        } else {
            self.threshold
        };
    }

    fn on_partner_congestion(&mut self, event: &Congestion) {
        self.on_congestion(event);
    }

    fn on_spurious(&mut self) {
        if let Some((window, threshold)) = self.before.take() {
            self.window = self.window.max(window);
            self.threshold = threshold;
            self.recovery_since = None;
        }
    }

    fn on_mtu(&mut self, mtu: u16) {
        let mtu = f64::from(mtu.max(1));
        // The data in flight is unchanged, counted in packets of the new size.
        self.window = bounded(self.window * self.mtu / mtu);
        self.mtu = mtu;
    }

    fn set_share(&mut self, share: f64) {
        self.share = share.clamp(0.01, 1.0);
    }

    fn window(&self) -> u64 {
        (self.window * self.mtu) as u64
    }

    fn pacing_rate(&self, rtt_smoothed_s: f64) -> f64 {
        paced(self.window * self.mtu, rtt_smoothed_s, self.is_starting())
    }

    fn is_starting(&self) -> bool {
        self.window < self.threshold
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::control::test_epoch;

    /// One round trip in which `window` packets are acknowledged.
    fn round(control: &mut Binomial, now: Instant) {
        for packet in 0..control.window.round() as u64 {
            control.on_ack(&Ack {
                now,
                sent: now,
                bytes: 1_000,
                packet,
                app_limited: false,
                is_capped: false,
                rate_sample: None,
                delivered_at_sent: 0,
                delivered: 0,
                in_flight_at_sent: 0,
                lost_since_sent: 0,
                rtt_excess_s: 0.0,
                rtt: None,
            });
        }
    }

    fn lose(control: &mut Binomial, now: Instant) {
        control.on_congestion(&Congestion {
            now,
            sent: now,
            is_persistent: false,
            is_ecn: false,
            lost_bytes: 1_000,
            lost_packet_max: 0,
        });
    }

    /// After slow start at 200 packets: W after a loss, the increase in a round trip, and the decrease at the next loss.
    fn steps(parameters: config::Binomial) -> [f64; 3] {
        let epoch = test_epoch();
        let mut control = Binomial::new(parameters, 200_000, 1_000);
        lose(&mut control, epoch);
        let left = control.window;
        round(&mut control, epoch + Duration::from_secs(1));
        let gained = control.window - left;
        let before = control.window;
        lose(&mut control, epoch + Duration::from_secs(2));
        [left, gained, before - control.window]
    }

    #[test]
    fn increase_and_decrease_are_those_of_equation_2() {
        let near = |ours: [f64; 3], theirs: [f64; 3]| {
            for (ours, theirs) in ours.into_iter().zip(theirs) {
                assert!((ours - theirs).abs() < 0.01 * theirs, "{ours} {theirs}");
            }
        };
        let aimd = config::Binomial {
            k: 0.0,
            l: 1.0,
            increase: 1.0,
            decrease: 0.5,
        };
        near(steps(aimd), [100.0, 1.0, 50.5]);
        // α/√100 = 0.1; β·√100.1 = 6.67.
        near(steps(config::Binomial::SQRT), [100.0, 0.1, 6.67]);
        // α/100; β.
        near(steps(config::Binomial::IIAD), [100.0, 0.01, 2.0 / 3.0]);
    }

    #[test]
    fn two_halves_grow_and_shrink_as_one() {
        for parameters in [config::Binomial::SQRT, config::Binomial::IIAD] {
            let epoch = test_epoch();
            let mut one = Binomial::new(parameters, 200_000, 1_000);
            let mut half = Binomial::new(parameters, 100_000, 1_000);
            half.set_share(0.5);
            for second in 0..20 {
                let now = epoch + Duration::from_secs(second);
                for control in [&mut one, &mut half] {
                    round(control, now);
                    lose(control, now);
                }
                let ratio = one.window / half.window;
                assert!((ratio - 2.0).abs() < 0.02, "{ratio} after {second} s");
            }
        }
    }

    #[test]
    fn a_mistaken_decrease_is_taken_back() {
        let epoch = test_epoch();
        let mut control = Binomial::new(config::Binomial::SQRT, 200_000, 1_000);
        lose(&mut control, epoch);
        control.on_spurious();
        assert_eq!(control.window(), 200_000);
        assert!(control.is_starting());
    }
}
