//! noq-proto's controllers behind our trait.

use std::{sync::Arc, time::Instant};

use noq_proto::congestion::{Controller, ControllerFactory};

use super::{Ack, Congestion, Control, Lost, paced};

/// Fewest bytes in flight: four small packets.
const WINDOW_MIN_BYTES: u64 = 4 * 1_200;

/// A share w is one of 1/w parts of a single flow. The controller behaves as the whole flow: its window is 1/w of ours,
/// an acknowledgement counts as 1/w of them, and the parts decrease together ([`Control::on_partner_congestion`]). So
/// 1/w channels grow and shrink as one flow does.
#[derive(Debug)]
struct Adapter {
    inner: Box<dyn Controller>,
    share: f64,
    /// Acknowledgements that the other parts would have caused and that have not been counted yet; below 1.
    credit: f64,
}

pub(super) fn wrap(
    factory: Arc<dyn ControllerFactory>,
    now: Instant,
    mtu: u16,
) -> Box<dyn Control> {
    Box::new(Adapter {
        inner: factory.build(now, mtu),
        share: 1.0,
        credit: 0.0,
    })
}

impl Control for Adapter {
    fn on_sent(&mut self, now: Instant, bytes: u16, packet: u64) {
        self.inner.on_packet_sent(now, bytes, packet);
        self.inner.on_sent(now, u64::from(bytes), packet);
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let Some(rtt) = ack.rtt else {
            return;
        };
        self.credit += 1.0 / self.share;
        while self.credit >= 1.0 {
            self.credit -= 1.0;
            self.inner.on_ack(
                ack.now,
                ack.sent,
                ack.bytes,
                ack.packet,
                ack.app_limited || ack.is_capped,
                rtt,
            );
        }
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, max: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, app_limited, max);
    }

    fn on_lost(&mut self, lost: &Lost) {
        let bytes = u16::try_from(lost.bytes).unwrap_or(u16::MAX);
        self.inner.on_packet_lost(bytes, lost.packet, lost.now);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.inner.on_congestion_event(
            event.now,
            event.sent,
            event.is_persistent,
            event.is_ecn,
            event.lost_bytes,
            event.lost_packet_max,
        );
    }

    fn on_partner_congestion(&mut self, event: &Congestion) {
        self.on_congestion(event);
    }

    fn on_spurious(&mut self) {
        self.inner.on_spurious_congestion_event();
    }

    fn on_window_limited(&mut self) {
        self.inner.on_cwnd_limited();
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.inner.on_mtu_update(mtu);
    }

    fn set_share(&mut self, share: f64) {
        self.share = share.clamp(0.01, 1.0);
    }

    fn window(&self) -> u64 {
        let window = self.inner.window();
        ((window as f64 * self.share) as u64).max(window.min(WINDOW_MIN_BYTES))
    }

    fn pacing_rate(&self, rtt_smoothed_s: f64) -> f64 {
        match self.inner.metrics().pacing_rate {
            Some(bytes_per_s) => bytes_per_s as f64 * self.share,
            None => paced(self.window() as f64, rtt_smoothed_s, self.is_starting()),
        }
    }

    fn is_starting(&self) -> bool {
        self.inner
            .metrics()
            .ssthresh
            .is_some_and(|ssthresh| self.inner.window() < ssthresh)
    }
}
