//! Arrival times of packets, by channel.

mod outlook;

use std::{borrow::Borrow, time::Duration};

pub(crate) use self::outlook::Outlook;
use crate::view::ChannelView;

/// Channels for which [`completion`] allocates nothing.
const FEW: usize = 16;

/// Predicted time from sending a packet now to its arrival: half the shortest round trip, and the
/// queue it will meet.
///
/// The queue is what the smoothed round trip exceeds the shortest by (data fills the queue of its own
/// direction), or what is in flight beyond the path itself, whichever is longer: round trips show
/// the queue as it was one of them ago, while bytes in flight show at once that a rate fell.
pub fn one_way(channel: &ChannelView) -> Duration {
    let seen = channel.rtt_smoothed.saturating_sub(channel.rtt_min);
    channel.rtt_min / 2 + seen.max(queue_in_flight(channel))
}

/// Time that what is in flight takes beyond one shortest round trip; zero while no rate was measured.
pub fn queue_in_flight(channel: &ChannelView) -> Duration {
    if channel.rate_bytes_per_s <= 0.0 {
        return Duration::ZERO;
    }
    time_to_deliver(channel, channel.in_flight_bytes).saturating_sub(channel.rtt_min)
}

/// Time until the channel will have a free slot: none while there are slots, else the time to
/// deliver what exceeds the window, at least one packet.
pub fn wait_for_slot(channel: &ChannelView) -> Duration {
    if channel.slots > 0 {
        return Duration::ZERO;
    }
    let packet = channel.packet_bytes as u64;
    let excess = (channel.in_flight_bytes + packet).saturating_sub(channel.window_bytes);
    time_to_deliver(channel, excess.max(packet))
}

/// Time the channel needs for `bytes`, once they may leave.
pub fn time_to_deliver(channel: &ChannelView, bytes: u64) -> Duration {
    let rate = rate(channel);
    if rate <= 0.0 {
        return channel.rtt_smoothed;
    }
    Duration::from_secs_f64((bytes as f64 / rate).min(3600.0))
}

/// Delivery rate in bytes per second; one window per round trip while nothing was measured.
pub fn rate(channel: &ChannelView) -> f64 {
    if channel.rate_bytes_per_s > 0.0 {
        return channel.rate_bytes_per_s;
    }
    let rtt = channel.rtt_smoothed.as_secs_f64();
    if rtt > 0.0 {
        channel.window_bytes as f64 / rtt
    } else {
        0.0
    }
}

/// Predicted arrival of a packet that takes the channel's next slot, from now.
pub fn next_arrival(channel: &ChannelView) -> Duration {
    wait_for_slot(channel) + one_way(channel)
}

/// Bytes that the channel delivers from now until `time` has passed, if it sends as soon and as fast
/// as it can: none before [`next_arrival`].
pub fn delivered_within(channel: &ChannelView, time: Duration) -> f64 {
    rate(channel) * time.saturating_sub(next_arrival(channel)).as_secs_f64()
}

/// Time until the last of `bytes` has arrived if all of `channels` carry them, each as much as is
/// best: the quickest schedule to move a message over paths of different rates and delays.
/// `None` without a channel that has a rate. O(channels²); allocates nothing for up to 16 channels.
pub fn completion<C>(channels: C, bytes: u64) -> Option<Duration>
where
    C: Iterator<Item: Borrow<ChannelView>>,
{
    // Most often there are few.
    let mut few = [(Duration::ZERO, 0.0, 0.0); FEW];
    let mut many = Vec::new();
    let mut count = 0;
    for channel in channels {
        let channel = channel.borrow();
        let (arrival, rate) = (next_arrival(channel), rate(channel));
        let line = (arrival, rate, rate * arrival.as_secs_f64());
        match few.get_mut(count) {
            Some(place) => *place = line,
            None if many.is_empty() => {
                many.extend_from_slice(&few);
                many.push(line);
            }
            None => many.push(line),
        }
        count += 1;
    }
    let lines = if many.is_empty() {
        &few[..count]
    } else {
        &many
    };
    // With a set of channels in use, bytes = Σ rate·(T − arrival). The set is that of all channels
    // on which something arrives before T: the nearest ones; and it is the one with the smallest T.
    let sets = lines.iter().map(|(reach, ..)| {
        let (mut rates, mut head_starts) = (0.0, 0.0);
        for (arrival, rate, head_start) in lines {
            if arrival <= reach {
                rates += rate;
                head_starts += head_start;
            }
        }
        (bytes as f64 + head_starts) / rates
    });
    let time_s = sets
        .filter(|time_s| time_s.is_finite())
        .min_by(f64::total_cmp)?;
    Some(Duration::from_secs_f64(time_s.min(3600.0)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use anabranch_base::ChannelId;

    pub(crate) fn channel(id: u64, slots: usize, rtt_ms: u64, rate_mbps: f64) -> ChannelView {
        let rate = rate_mbps * 1e6 / 8.0;
        let rtt = Duration::from_millis(rtt_ms);
        let window = (rate * rtt.as_secs_f64()) as u64;
        ChannelView {
            id: ChannelId(id),
            slots,
            packet_bytes: 1400,
            rtt_smoothed: rtt,
            rtt_min: rtt,
            rtt_usual: Duration::ZERO,
            rtt_variation: Duration::ZERO,
            rate_bytes_per_s: rate,
            window_bytes: window,
            in_flight_bytes: if slots > 0 { 0 } else { window },
            loss: 0.0,
        }
    }

    #[test]
    fn a_full_channel_costs_the_wait_for_a_slot() {
        let free = channel(0, 1, 20, 11.2);
        let full = channel(0, 0, 20, 11.2);
        assert_eq!(next_arrival(&free), Duration::from_millis(10));
        // 1400 bytes at 11.2 Mbit/s take 1 ms.
        assert_eq!(next_arrival(&full), Duration::from_millis(11));
    }

    #[test]
    fn bytes_in_flight_show_a_queue_that_round_trips_do_not_show_yet() {
        let mut slowed = channel(0, 1, 100, 8.0);
        slowed.in_flight_bytes = 150_000;
        // 150 ms of traffic on a path of 100 ms: 50 ms of queue, and half of the path.
        assert_eq!(one_way(&slowed), Duration::from_millis(100));
        slowed.rtt_smoothed = Duration::from_millis(180);
        assert_eq!(one_way(&slowed), Duration::from_millis(130));
    }

    #[test]
    fn without_a_measured_rate_the_window_counts() {
        let mut view = channel(0, 0, 100, 8.0);
        view.rate_bytes_per_s = 0.0;
        view.window_bytes = 10_000;
        assert_eq!(rate(&view), 100_000.0);
    }

    #[test]
    fn a_message_is_complete_when_all_parts_are() {
        // 11.2 Mbit/s are 1400 bytes per millisecond.
        let near = channel(0, 1, 20, 11.2);
        let far = channel(1, 1, 60, 22.4);
        let time = |bytes| completion([&near, &far].into_iter(), bytes);
        // The near one alone: 10 ms on the way and 10 ms of sending.
        assert_eq!(time(14_000), Some(Duration::from_millis(20)));
        // 30 ms are enough for 28,000 bytes on the near one; then both carry 4,200 each ms.
        assert_eq!(time(28_000 + 42_000), Some(Duration::from_millis(40)));
        assert_eq!(completion([].iter(), 1), None);
    }

    #[test]
    fn any_number_of_channels_shares_a_message() {
        for count in [1, FEW, FEW + 1, 3 * FEW] {
            // 1400 bytes per millisecond on each, after 10 ms.
            let channels = vec![channel(0, 1, 20, 11.2); count];
            let time = completion(channels.iter(), 14_000 * count as u64);
            assert_eq!(time, Some(Duration::from_millis(20)), "{count}");
        }
    }
}
