//! Horde's six channels, probed as the published ones were.

use std::time::Duration;

use anabranch_base::{Instant, Seed};
use anabranch_link::{Duplex, Verdict};
use anabranch_sim::topology::{Channel, PACKET_BYTES};

/// Time for which a channel is filled, and probed.
const FILLED: Duration = Duration::from_secs(600);
const PROBED: Duration = Duration::from_secs(3600);
/// An acknowledgement.
const ANSWER_BYTES: usize = 60;

/// Measurements of one channel.
pub(super) struct Probes {
    /// Throughput of each second.
    pub(super) bandwidth_bps: Vec<f64>,
    /// Round-trip times of the packets that arrived, in order of sending.
    pub(super) rtt_ms: Vec<f64>,
    /// Outcomes of the packets in order of sending: true if lost.
    pub(super) lost: Vec<bool>,
}

pub(super) fn probe(channel: &Channel, seed: Seed) -> Option<Probes> {
    let mut probes = Probes {
        bandwidth_bps: vec![0.0; FILLED.as_secs() as usize],
        rtt_ms: Vec::new(),
        lost: Vec::new(),
    };
    let gap = channel.rate.time_to_send(PACKET_BYTES as u64);

    let mut link = Duplex::new(channel.configs(), seed.child("filled")).ok()?;
    let mut now = Instant::EPOCH;
    while now.since_epoch() < FILLED {
        if let Verdict::Deliver { at, .. } = link.forward.offer(now, PACKET_BYTES, false) {
            let second = at.since_epoch().as_secs() as usize;
            if let Some(bits) = probes.bandwidth_bps.get_mut(second) {
                *bits += PACKET_BYTES as f64 * 8.0;
            }
        }
        now += gap;
    }
    // The first seconds have no arrivals yet.
    probes.bandwidth_bps.drain(..2);

    let mut link = Duplex::new(channel.configs(), seed.child("probed")).ok()?;
    let mut now = Instant::EPOCH;
    let mut answers = Vec::new();
    while now.since_epoch() < PROBED {
        match link.forward.offer(now, PACKET_BYTES, false) {
            Verdict::Deliver { at, .. } => {
                answers.push((at, now));
                probes.lost.push(false);
            }
            Verdict::Drop(_) => probes.lost.push(true),
        }
        now += gap * 2;
    }
    // Packets may overtake each other on the way; answers leave in the order of arrival.
    answers.sort_unstable();
    let mut round_trips = Vec::new();
    for (at, sent) in answers {
        if let Verdict::Deliver { at: back, .. } = link.backward.offer(at, ANSWER_BYTES, false) {
            round_trips.push((sent, back.since(sent).as_secs_f64() * 1e3));
        }
    }
    round_trips.sort_unstable_by_key(|&(sent, _)| sent);
    probes.rtt_ms = round_trips.into_iter().map(|(_, ms)| ms).collect();
    Some(probes)
}
