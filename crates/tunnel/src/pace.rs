//! Pace of a session: what its paths carry, and what follows from that for the queues in front of it.

use std::{num::NonZeroU32, time::Duration};

use anabranch::{
    Session, Stream, StreamFailure, StreamParameters, base::Instant, net::session::ChannelReport,
};

/// Time between two looks at what the paths carry.
const LOOK: Duration = Duration::from_millis(100);
/// Time for which what waits unsent lasts at the rate of the paths: several times as long as the session lets slots gather.
const AHEAD: Duration = Duration::from_millis(12);
/// Time for which a path counts as busy after it was: flows do not change their stream, and so their order, with each look.
const BUSY: Duration = Duration::from_secs(2);
/// Bytes that may always wait unsent: the first window of a path.
const UNSENT_BYTES_MIN: f64 = 16_000.0;
/// Bytes that may wait unsent at most.
const UNSENT_BYTES_MAX: f64 = 1_048_576.0;
/// Range of the interval of the queues.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
const INTERVAL_MAX: Duration = Duration::from_millis(500);

/// Rate of the paths, and the limit that follows from it.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    pub(crate) looked_at: Option<Instant>,
    /// Bytes that may wait unsent.
    pub(crate) unsent_bytes: u64,
    /// Rate of all paths.
    pub(crate) bytes_per_s: f64,
    /// Number of paths.
    pub(crate) paths: usize,
    /// True if a path was half full lately, of whatever the session carries.
    pub(crate) is_busy: bool,
    pub(crate) busy_at: Option<Instant>,
}

/// Target and interval of the queues.
pub(crate) type Times = (Duration, Duration);

impl Pace {
    /// Looks at the paths, once in a while, and limits what waits unsent in the stream; returns the times of the queues then.
    pub(crate) fn follow(
        &mut self,
        now: Instant,
        session: &Session,
        stream: &Stream,
    ) -> Result<Option<Times>, StreamFailure> {
        if self.looked_at.is_some_and(|at| now.since(at) < LOOK) {
            return Ok(None);
        }
        self.looked_at = Some(now);
        let channels = session.channels();
        self.paths = channels.len();
        self.bytes_per_s = channels.iter().map(rate).sum();
        let is_half_full = channels.iter().any(|channel| {
            let stats = &channel.stats;
            2 * stats.in_flight_bytes > stats.window_bytes
        });
        if is_half_full {
            self.busy_at = Some(now);
        }
        self.is_busy = self.busy_at.is_some_and(|at| now.since(at) < BUSY);
        let bytes = unsent_bytes(self.bytes_per_s);
        // Small changes are not worth a command.
        if bytes * 4 > self.unsent_bytes * 5 || bytes * 5 < self.unsent_bytes * 4 {
            self.unsent_bytes = bytes;
            limit(stream, bytes)?;
        }
        let rtts = channels.iter().map(|channel| channel.stats.rtt_smoothed);
        Ok(rtts.max().map(times))
    }
}

/// Limits what waits unsent in a stream.
pub(crate) fn limit(stream: &Stream, bytes: u64) -> Result<(), StreamFailure> {
    stream.adjust(StreamParameters {
        unsent_max: Some(NonZeroU32::new(bytes as u32)),
        ..StreamParameters::default()
    })
}

/// Has each packet of a stream sent on every path that has a slot, or on one.
pub(crate) fn send_on_all(stream: &Stream, is_on: bool) -> Result<(), StreamFailure> {
    stream.adjust(StreamParameters {
        redundant: Some(is_on),
        ..StreamParameters::default()
    })
}

/// Rate of a path in bytes per second, by its window or by what it delivers.
fn rate(channel: &ChannelReport) -> f64 {
    let stats = &channel.stats;
    let rtt_s = stats.rtt_smoothed.as_secs_f64().max(1e-3);
    let by_window = stats.window_bytes as f64 / rtt_s;
    by_window.max(stats.rate_delivered.as_bytes_per_s())
}

/// Bytes that may wait unsent: what all paths carry in [`AHEAD`], within bounds.
fn unsent_bytes(bytes_per_s: f64) -> u64 {
    let ahead = bytes_per_s * AHEAD.as_secs_f64();
    ahead.clamp(UNSENT_BYTES_MIN, UNSENT_BYTES_MAX) as u64
}

/// Target and interval of the queues (RFC 8289 §3.2): the interval is to be the round trip of a connection, which is longer than that
/// of the slowest path, because packets of the others wait for it at the exit; the target a tenth of it, the upper end of the range that
/// the standard gives.
fn times(rtt: Duration) -> Times {
    let interval = (2 * rtt).clamp(INTERVAL_MIN, INTERVAL_MAX);
    (interval / 10, interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_the_longest_round_trip() {
        let millis = Duration::from_millis;
        assert_eq!(times(Duration::ZERO), (millis(10), millis(100)));
        assert_eq!(times(millis(90)), (millis(18), millis(180)));
        assert_eq!(times(millis(700)), (millis(50), millis(500)));
    }

    #[test]
    fn what_waits_unsent_has_bounds() {
        assert_eq!(unsent_bytes(0.0), 16_000);
        // 100 Mbit/s.
        assert_eq!(unsent_bytes(12.5e6), 150_000);
        assert_eq!(unsent_bytes(1e12), 1 << 20);
    }
}
