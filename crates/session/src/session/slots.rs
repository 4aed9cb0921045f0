//! Slots that exist, and those that are expected, from what is known of a channel.
//!
//! The generic model: averages of the past [Horde §4.2]. Slots come back as acknowledgements do, at the rate at which
//! the channel delivers.

use anabranch_sched::objective::Slot;

/// Slots of a channel that are shown at a time: those that exist, and phantoms.
const SLOTS_MAX: usize = 64;
const PHANTOMS_MAX: usize = 32;
/// Deviation of a normal distribution over its mean deviation.
const DEVIATION: f64 = 1.253;

/// What is known of a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// Its index.
    pub channel: u32,
    /// Number of its next packet.
    pub next: u64,
    /// Packets that may leave now.
    pub free: usize,
    /// Payload of a packet.
    pub packet_bytes: u32,
    /// Smoothed round trip, and its mean deviation, in milliseconds.
    pub round_trip_ms: f64,
    /// See [`Figures::round_trip_ms`].
    pub variation_ms: f64,
    /// Fraction of packets lost.
    pub loss: f64,
    /// Packets delivered in a millisecond; 0 while unknown.
    pub packets_per_ms: f64,
    /// Packets that wait for their acknowledgement.
    pub in_flight: f64,
    /// What a byte costs.
    pub cost_per_byte: f64,
}

/// Writes the channel's slots, those that exist first, then phantoms of the next `look_ahead_ms`.
///
/// The k-th phantom comes when the k-th packet from now is delivered. As long as there are that many in flight, it fails to
/// come only if that packet is lost; beyond, whether it comes depends on what is still to be sent.
pub(super) fn write(figures: &Figures, look_ahead_ms: f64, slots: &mut Vec<Slot>) {
    let slot = |number: usize, wait_ms: f64, confidence: f64| Slot {
        channel: figures.channel,
        sequence: figures.next + number as u64,
        wait_ms,
        confidence,
        loss: figures.loss,
        round_trip_ms: figures.round_trip_ms,
        deviation_ms: DEVIATION * figures.variation_ms,
        cost_per_byte: figures.cost_per_byte,
        bytes_max: figures.packet_bytes,
    };
    let free = figures.free.min(SLOTS_MAX);
    slots.extend((0..free).map(|number| slot(number, 0.0, 1.0)));
    if figures.free > SLOTS_MAX || figures.packets_per_ms <= 0.0 {
        return;
    }
    for nth in 1..=PHANTOMS_MAX {
        let wait_ms = nth as f64 / figures.packets_per_ms;
        if wait_ms > look_ahead_ms {
            break;
        }
        let known = (figures.in_flight / nth as f64).min(1.0);
        let confidence = ((1.0 - figures.loss) * known).clamp(0.0, 1.0);
        if confidence <= 0.0 {
            break;
        }
        slots.push(slot(free + nth - 1, wait_ms, confidence));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: Figures = Figures {
        channel: 3,
        next: 40,
        free: 2,
        packet_bytes: 1_200,
        round_trip_ms: 50.0,
        variation_ms: 4.0,
        loss: 0.1,
        packets_per_ms: 0.1,
        in_flight: 2.0,
        cost_per_byte: 0.0,
    };

    #[test]
    fn slots_that_exist_come_first_then_those_that_acknowledgements_bring() {
        let mut slots = Vec::new();
        write(&FIGURES, 35.0, &mut slots);
        let shown: Vec<_> = (slots.iter())
            .map(|slot| (slot.sequence, slot.wait_ms, slot.confidence))
            .collect();
        // One each 10 ms; two are in flight, the third depends on what is sent yet.
        assert_eq!(
            shown,
            [
                (40, 0.0, 1.0),
                (41, 0.0, 1.0),
                (42, 10.0, 0.9),
                (43, 20.0, 0.9),
                (44, 30.0, 0.9 * 2.0 / 3.0),
            ]
        );
        assert!(
            slots
                .iter()
                .all(|slot| slot.channel == 3 && slot.bytes_max == 1_200)
        );
    }

    #[test]
    fn an_idle_or_unknown_channel_has_no_phantoms_and_a_fat_one_shows_some_slots() {
        for (packets_per_ms, in_flight) in [(0.0, 5.0), (1.0, 0.0)] {
            let mut slots = Vec::new();
            let figures = Figures {
                packets_per_ms,
                in_flight,
                ..FIGURES
            };
            write(&figures, 300.0, &mut slots);
            assert_eq!(slots.len(), 2);
        }
        let mut slots = Vec::new();
        let figures = Figures {
            free: 5_000,
            packets_per_ms: 100.0,
            ..FIGURES
        };
        write(&figures, 300.0, &mut slots);
        assert_eq!(slots.len(), SLOTS_MAX);
    }
}
