//! Outlook on the channels of a view, kept while it stays true.

use std::time::Duration;

use super::{next_arrival, one_way, rate};
use crate::view::{ChannelView, View};

/// [`one_way`], [`next_arrival`] and [`rate`] of each channel of a view, computed once for all packets of a run of
/// decisions but for the channels that take one. O(channels) to look again; allocates when channels come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outlook {
    channels: Vec<Known>,
    /// Nothing but slots and bytes in flight can have changed since the last look.
    is_current: bool,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    basis: Basis,
    one_way: Duration,
    cautious_s: f64,
    next_arrival: Duration,
    next_arrival_s: f64,
    rate: f64,
}

/// State of a channel on which the answers depend.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Basis {
    has_slot: bool,
    in_flight_bytes: u64,
    window_bytes: u64,
    packet_bytes: usize,
    rate_bytes_per_s: f64,
    rtt_smoothed: Duration,
    rtt_min: Duration,
    rtt_variation: Duration,
}

impl Basis {
    fn of(channel: &ChannelView) -> Self {
        Self {
            has_slot: channel.slots > 0,
            in_flight_bytes: channel.in_flight_bytes,
            window_bytes: channel.window_bytes,
            packet_bytes: channel.packet_bytes,
            rate_bytes_per_s: channel.rate_bytes_per_s,
            rtt_smoothed: channel.rtt_smoothed,
            rtt_min: channel.rtt_min,
            rtt_variation: channel.rtt_variation,
        }
    }
}

impl Known {
    fn of(channel: &ChannelView) -> Self {
        let one_way = one_way(channel);
        let next_arrival = next_arrival(channel);
        Self {
            basis: Basis::of(channel),
            one_way,
            cautious_s: (one_way + channel.rtt_variation).as_secs_f64(),
            next_arrival,
            next_arrival_s: next_arrival.as_secs_f64(),
            rate: rate(channel),
        }
    }

    fn is_like(&self, channel: &ChannelView) -> bool {
        self.basis.has_slot == (channel.slots > 0)
            && self.basis.in_flight_bytes == channel.in_flight_bytes
    }
}

impl Outlook {
    /// A run of decisions begins: anything may have changed.
    pub(crate) fn begin(&mut self) {
        self.is_current = false;
    }

    /// Brings the answers up to date; to be called before each decision.
    pub(crate) fn look(&mut self, view: &View<'_>) {
        self.channels.truncate(view.channels.len());
        for (known, channel) in self.channels.iter_mut().zip(view.channels) {
            let is_same =
                known.is_like(channel) && (self.is_current || known.basis == Basis::of(channel));
            if !is_same {
                *known = Known::of(channel);
            }
        }
        let new = &view.channels[self.channels.len()..];
        // Channels are few and seldom new, and sessions are many.
        self.channels.reserve_exact(new.len());
        self.channels.extend(new.iter().map(Known::of));
        self.is_current = true;
    }

    /// See [`one_way`].
    pub(crate) fn one_way(&self, channel: usize) -> Duration {
        self.channels[channel].one_way
    }

    /// Time at which a packet sent now arrives if it takes longer than expected, in seconds: a frame is as late as its latest
    /// packet, and a path whose queue comes and goes makes it late more often than one that takes longer every time.
    #[inline]
    pub(crate) fn cautious_s(&self, channel: usize) -> f64 {
        self.channels[channel].cautious_s
    }

    /// See [`next_arrival`].
    pub(crate) fn next_arrival(&self, channel: usize) -> Duration {
        self.channels[channel].next_arrival
    }

    /// See [`delivered_within`](super::delivered_within); the time in seconds.
    #[inline]
    pub(crate) fn delivered_within(&self, channel: usize, time_s: f64) -> f64 {
        let known = &self.channels[channel];
        known.rate * (time_s - known.next_arrival_s).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_base::Instant;

    use super::*;
    use crate::arrival::{delivered_within, tests::channel};

    #[test]
    fn it_follows_what_a_run_changes_and_what_comes_between_runs() {
        let mut channels = vec![channel(0, 2, 20, 10.0), channel(1, 1, 60, 30.0)];
        let mut outlook = Outlook::default();
        let check = |outlook: &mut Outlook, channels: &[ChannelView]| {
            outlook.look(&View {
                now: Instant::EPOCH,
                channels,
                streams: &[],
            });
            let time = Duration::from_millis(70);
            for (at, channel) in channels.iter().enumerate() {
                assert_eq!(outlook.one_way(at), one_way(channel));
                assert_eq!(outlook.next_arrival(at), next_arrival(channel));
                let bytes = outlook.delivered_within(at, time.as_secs_f64());
                assert!((bytes - delivered_within(channel, time)).abs() < 1e-6);
            }
        };
        outlook.begin();
        check(&mut outlook, &channels);
        channels[1].slots = 0;
        channels[1].in_flight_bytes = 500_000;
        check(&mut outlook, &channels);
        outlook.begin();
        channels[0].rtt_smoothed *= 3;
        channels[1].rate_bytes_per_s /= 2.0;
        check(&mut outlook, &channels);
        outlook.begin();
        channels.remove(0);
        check(&mut outlook, &channels);
        channels.push(channel(3, 1, 30, 3.0));
        check(&mut outlook, &channels);
    }
}
