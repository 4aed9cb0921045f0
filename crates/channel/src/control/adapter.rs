//! noq-proto's controllers behind our trait.

use std::{sync::Arc, time::Instant};

use noq_proto::congestion::{Controller, ControllerFactory};

use super::{Ack, Congestion, Control, Lost, paced};

#[derive(Debug)]
struct Adapter(Box<dyn Controller>);

pub(super) fn wrap(
    factory: Arc<dyn ControllerFactory>,
    now: Instant,
    mtu: u16,
) -> Box<dyn Control> {
    Box::new(Adapter(factory.build(now, mtu)))
}

impl Control for Adapter {
    fn on_sent(&mut self, now: Instant, bytes: u16, packet: u64) {
        self.0.on_packet_sent(now, bytes, packet);
        self.0.on_sent(now, u64::from(bytes), packet);
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let Some(rtt) = ack.rtt else {
            return;
        };
        self.0.on_ack(
            ack.now,
            ack.sent,
            ack.bytes,
            ack.packet,
            ack.app_limited,
            rtt,
        );
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, max: Option<u64>) {
        self.0.on_end_acks(now, in_flight, app_limited, max);
    }

    fn on_lost(&mut self, lost: &Lost) {
        let bytes = u16::try_from(lost.bytes).unwrap_or(u16::MAX);
        self.0.on_packet_lost(bytes, lost.packet, lost.now);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.0.on_congestion_event(
            event.now,
            event.sent,
            event.is_persistent,
            event.is_ecn,
            event.lost_bytes,
            event.lost_packet_max,
        );
    }

    fn on_spurious(&mut self) {
        self.0.on_spurious_congestion_event();
    }

    fn on_window_limited(&mut self) {
        self.0.on_cwnd_limited();
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.0.on_mtu_update(mtu);
    }

    fn window(&self) -> u64 {
        self.0.window()
    }

    fn pacing_rate(&self, rtt_smoothed_s: f64) -> f64 {
        match self.0.metrics().pacing_rate {
            Some(bytes_per_s) => bytes_per_s as f64,
            None => paced(self.window() as f64, rtt_smoothed_s, self.is_starting()),
        }
    }

    fn is_starting(&self) -> bool {
        self.0
            .metrics()
            .ssthresh
            .is_some_and(|ssthresh| self.window() < ssthresh)
    }
}
