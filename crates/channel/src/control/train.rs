//! Packet trains: the rate of the path from the spacing of a flight's acknowledgements.
//!
//! A delivery-rate sample over a round trip [draft-ietf-ccwg-bbr, Delivery Rate Samples] includes the silence of a
//! window that does not fill the pipe, so during the start it reflects the window and not the path. The packets of one
//! flight leave close together and arrive with the spacing of the slowest link (packet trains; Jain and Routhier 1986,
//! Dovrolis et al. 2004).

use std::time::Instant;

use super::Ack;

/// Number of consecutively acknowledged packets that give a measurement.
const PACKETS: f64 = 16.0;
/// Factor by which a train must arrive more slowly than it left to show the path's spacing, not ours.
const STRETCHED: f64 = 1.25;

/// Measurement of a train.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Passage {
    /// Bytes per second at which it came through: the slower of sending and acknowledging. Never above the rate at
    /// which it was sent, so compressed acknowledgements cannot exaggerate it.
    pub rate: f64,
    /// It arrived clearly more slowly than it left: the rate is the path's.
    pub is_stretched: bool,
}

/// The packets acknowledged since the round began. O(1) per packet, no allocation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Train {
    first: Option<Car>,
}

#[derive(Clone, Copy, Debug)]
struct Car {
    sent: Instant,
    acked: Instant,
    delivered: u64,
}

impl Train {
    /// Begins another flight.
    pub(super) fn restart(&mut self) {
        self.first = None;
    }

    /// Processes a packet of the flight; `None` while the train is too short. `packet` is the size of a full packet;
    /// acknowledgements may be late by `ack_delay_s` seconds.
    pub(super) fn on_ack(
        &mut self,
        ack: &Ack<'_>,
        packet: f64,
        ack_delay_s: f64,
    ) -> Option<Passage> {
        let this = Car {
            sent: ack.sent,
            acked: ack.now,
            delivered: ack.delivered,
        };
        let first = self.first.get_or_insert(this);
        if first.acked == ack.now {
            // Packets covered by one acknowledgement have no spacing: the train begins with the last of them.
            *first = this;
            return None;
        }
        let bytes = (ack.delivered - first.delivered) as f64;
        if bytes < PACKETS * packet {
            return None;
        }
        let sent_s = ack.sent.saturating_duration_since(first.sent).as_secs_f64();
        let acked_s = ack.now.saturating_duration_since(first.acked).as_secs_f64();
        Some(Passage {
            rate: bytes / sent_s.max(acked_s),
            is_stretched: acked_s > STRETCHED * sent_s + ack_delay_s,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::control::test_epoch;

    /// Measurement of 40 packets of 1000 bytes that are sent and acknowledged so many µs apart, the acknowledgements in
    /// batches.
    fn show(sent_us: u64, acked_us: u64, batch: u64) -> Option<Passage> {
        let epoch = test_epoch();
        let mut train = Train::default();
        let mut last = None;
        for index in 0..40 {
            let acked = 100_000 + (index / batch + 1) * batch * acked_us;
            last = train.on_ack(
                &Ack {
                    now: epoch + Duration::from_micros(acked),
                    sent: epoch + Duration::from_micros(index * sent_us),
                    bytes: 1_000,
                    packet: index,
                    app_limited: false,
                    is_capped: false,
                    rate_sample: None,
                    delivered_at_sent: 0,
                    delivered: (index + 1) * 1_000,
                    in_flight_at_sent: 40_000,
                    lost_since_sent: 0,
                    rtt_excess_s: 0.0,
                    rtt: None,
                },
                1_000.0,
                0.004,
            );
        }
        last
    }

    #[test]
    fn a_slow_link_spaces_the_packets() {
        for batch in [1, 4, 8] {
            let passage = show(100, 1_000, batch).expect("long enough");
            assert!((passage.rate - 1e6).abs() < 1e3, "{passage:?}");
            assert!(passage.is_stretched);
        }
    }

    #[test]
    fn a_fast_link_shows_the_rate_of_sending_only() {
        let passage = show(1_000, 990, 1).expect("long enough");
        assert!((passage.rate - 1e6).abs() < 1e3, "{passage:?}");
        assert!(!passage.is_stretched);
        let compressed = show(1_000, 1, 1).expect("long enough");
        assert!((compressed.rate - 1e6).abs() < 1e3, "{compressed:?}");
    }

    #[test]
    fn a_delayed_acknowledgement_does_not_stretch_a_burst() {
        let passage = show(0, 90, 8).expect("long enough");
        assert!(!passage.is_stretched, "{passage:?}");
    }

    #[test]
    fn one_acknowledgement_for_all_gives_no_measurement() {
        assert_eq!(show(100, 10, 40), None);
    }
}
