//! Bound of the experiment: one queue in front of all links, of which each takes the oldest packet when it can carry one.

use std::{collections::VecDeque, time::Duration};

use anabranch_link::duplex::Configs;

use super::{COUNT, INTERVAL, LIFETIME, PACKET_BYTES};

/// Step of the calculation.
const STEP: Duration = Duration::from_millis(1);

/// Fraction of the media in time. Each link takes the oldest packet that would still be in time, the nearest link first.
pub(super) fn in_time(links: &[Configs], rates: impl Fn(usize, Duration) -> f64) -> f64 {
    let packet_bits = (PACKET_BYTES * 8) as f64;
    let mut waiting: VecDeque<Duration> = VecDeque::new();
    let mut credits = vec![0.0_f64; links.len()];
    let (mut made, mut in_time) = (0, 0_u64);
    let mut now = Duration::ZERO;
    while made < COUNT || !waiting.is_empty() {
        while made < COUNT && INTERVAL * made as u32 <= now {
            waiting.push_back(INTERVAL * made as u32);
            made += 1;
        }
        for (index, link) in links.iter().enumerate() {
            credits[index] += rates(index, now) * STEP.as_secs_f64();
            while credits[index] >= packet_bits {
                let is_late = |at: &Duration| now + link.forward.delay > *at + LIFETIME;
                while waiting.front().is_some_and(is_late) {
                    waiting.pop_front();
                }
                if waiting.pop_front().is_none() {
                    // What an idle link could have carried is lost.
                    credits[index] = packet_bits;
                    break;
                }
                credits[index] -= packet_bits;
                in_time += 1;
            }
        }
        now += STEP;
    }
    in_time as f64 / COUNT as f64
}
