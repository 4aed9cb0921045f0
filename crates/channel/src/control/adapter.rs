//! noq-proto's controllers behind our trait.

use std::{sync::Arc, time::Instant};

use noq_proto::congestion::{Controller, ControllerFactory};

use super::{Ack, Congestion, Control, Lost, paced};

/// Fewest bytes in flight: four small packets.
const WINDOW_MIN_BYTES: u64 = 4 * 1_200;

/// `share` scales the window that the controller believes in, and slows its clock down. As acknowledgements drive
/// NewReno's growth, scaling the window scales that twice: a share w of AIMD(a, b) is AIMD(w²·a, b), which takes w
/// times the rate at a given loss. CUBIC's growth is driven by time: W ∝ (C/p³)^¼, and with a window scaled by w
/// and a clock slowed by w, C is w⁴ of what it was.
#[derive(Debug)]
struct Adapter {
    inner: Box<dyn Controller>,
    share: f64,
    /// Since when the share has held, by our clock and by the controller's.
    since: [Instant; 2],
    /// When a packet last left, by our clock.
    sent_at: Instant,
}

impl Adapter {
    /// A moment by the controller's clock.
    fn inner_time(&self, at: Instant) -> Instant {
        let [ours, its] = self.since;
        match at.checked_duration_since(ours) {
            Some(after) => its + after.mul_f64(self.share),
            // What was before keeps its distance.
            None => its.checked_sub(ours - at).unwrap_or(its),
        }
    }
}

pub(super) fn wrap(
    factory: Arc<dyn ControllerFactory>,
    now: Instant,
    mtu: u16,
) -> Box<dyn Control> {
    Box::new(Adapter {
        inner: factory.build(now, mtu),
        share: 1.0,
        since: [now; 2],
        sent_at: now,
    })
}

impl Control for Adapter {
    fn on_sent(&mut self, now: Instant, bytes: u16, packet: u64) {
        self.sent_at = now;
        let now = self.inner_time(now);
        self.inner.on_packet_sent(now, bytes, packet);
        self.inner.on_sent(now, u64::from(bytes), packet);
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let Some(rtt) = ack.rtt else {
            return;
        };
        self.inner.on_ack(
            self.inner_time(ack.now),
            self.inner_time(ack.sent),
            ack.bytes,
            ack.packet,
            ack.app_limited,
            rtt,
        );
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, max: Option<u64>) {
        self.inner
            .on_end_acks(self.inner_time(now), in_flight, app_limited, max);
    }

    fn on_lost(&mut self, lost: &Lost) {
        let bytes = u16::try_from(lost.bytes).unwrap_or(u16::MAX);
        let now = self.inner_time(lost.now);
        self.inner.on_packet_lost(bytes, lost.packet, now);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.inner.on_congestion_event(
            self.inner_time(event.now),
            self.inner_time(event.sent),
            event.is_persistent,
            event.is_ecn,
            event.lost_bytes,
            event.lost_packet_max,
        );
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
        self.since = [self.sent_at, self.inner_time(self.sent_at)];
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
