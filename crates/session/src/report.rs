//! Reports of the receiver for the sender: packets, bytes and one-way delay per channel.
//!
//! A report contains no losses: the sender knows every packet's outcome from QUIC.

use std::time::Duration;

use anabranch_base::Instant;

use crate::wire::{Control, container::relative_delay_us};

/// Time between two reports of a channel on which packets arrive.
pub(crate) const REPORT_PERIOD: Duration = Duration::from_millis(100);
/// Time between two timestamps on a channel.
pub(crate) const TIMESTAMP_PERIOD: Duration = Duration::from_millis(5);
/// The smallest delay is discarded after one to two of these, so that clock drift does not add up.
const BASE_PERIOD: Duration = Duration::from_secs(60);

/// Key: channel, at the receiver.
#[derive(Debug)]
pub(crate) struct Collector {
    packets: u64,
    bytes: u64,
    delays: u32,
    delay_sum_us: i64,
    delay_min_us: i64,
    delay_max_us: i64,
    /// Smallest relative delay of the last period and of the current one.
    base_us: [i64; 2],
    base_since: Instant,
    due: Option<Instant>,
}

impl Collector {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            packets: 0,
            bytes: 0,
            delays: 0,
            delay_sum_us: 0,
            delay_min_us: i64::MAX,
            delay_max_us: i64::MIN,
            base_us: [i64::MAX; 2],
            base_since: now,
            due: None,
        }
    }

    /// A container arrived.
    pub(crate) fn on_container(&mut self, now: Instant, bytes: usize, timestamp: Option<u32>) {
        self.packets += 1;
        self.bytes += bytes as u64;
        let Some(timestamp) = timestamp else {
            return;
        };
        let delay = relative_delay_us(timestamp, now);
        if now.since(self.base_since) > BASE_PERIOD {
            self.base_us = [self.base_us[1], i64::MAX];
            self.base_since = now;
        }
        self.base_us[1] = self.base_us[1].min(delay);
        self.delays += 1;
        self.delay_sum_us += delay;
        self.delay_min_us = self.delay_min_us.min(delay);
        self.delay_max_us = self.delay_max_us.max(delay);
    }

    /// Has a report sent soon.
    pub(crate) fn schedule(&mut self, now: Instant) {
        self.due.get_or_insert(now + REPORT_PERIOD);
    }

    /// Time at which the next report is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The report, if it is due; starts a new period.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Control> {
        if self.due.is_none_or(|due| now < due) {
            return None;
        }
        let base = self.base_us[0].min(self.base_us[1]);
        let above = |delay: i64| Duration::from_micros(u64::try_from(delay - base).unwrap_or(0));
        let delays = if self.delays == 0 {
            [Duration::ZERO; 3]
        } else {
            [
                above(self.delay_min_us),
                above(self.delay_sum_us / i64::from(self.delays)),
                // Not zero: that says that none was stamped.
                above(self.delay_max_us).max(Duration::from_micros(1)),
            ]
        };
        let report = Control::Report {
            packets: self.packets,
            bytes: self.bytes,
            delay_min: delays[0],
            delay_mean: delays[1],
            delay_max: delays[2],
        };
        *self = Self {
            base_us: self.base_us,
            base_since: self.base_since,
            ..Self::new(now)
        };
        Some(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::container::timestamp;

    #[test]
    fn delays_are_relative_to_the_smallest() {
        let start = Instant::from_secs(10);
        let mut collector = Collector::new(start);
        // The sender's clock is 3 s behind; delays are 20, 35 and 26 ms.
        for (index, delay_ms) in [20u64, 35, 26].into_iter().enumerate() {
            let sent = start + Duration::from_millis(index as u64 * 10);
            let tick = timestamp(sent - Duration::from_secs(3));
            let arrived = sent + Duration::from_millis(delay_ms);
            collector.on_container(arrived, 1000, Some(tick));
            collector.schedule(arrived);
        }
        assert_eq!(collector.take(start), None, "not due yet");
        let Some(Control::Report {
            packets,
            bytes,
            delay_min,
            delay_mean,
            delay_max,
        }) = collector.take(start + Duration::from_millis(120))
        else {
            panic!("due");
        };
        assert_eq!((packets, bytes), (3, 3000));
        let near = |d: Duration, ms: f64| (d.as_secs_f64() * 1e3 - ms).abs() < 0.05;
        assert!(near(delay_min, 0.0) && near(delay_mean, 7.0) && near(delay_max, 15.0));
        assert_eq!(collector.take(start + Duration::from_secs(9)), None);
        // None was stamped; then one, which met no queue.
        let mut longest = |tick| {
            let now = start + Duration::from_secs(10);
            collector.on_container(now, 1000, tick);
            collector.schedule(now);
            match collector.take(now + REPORT_PERIOD) {
                Some(Control::Report { delay_max, .. }) => delay_max.as_micros(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(longest(None), 0);
        let sent = start + Duration::from_millis(6_980);
        assert_eq!(longest(Some(timestamp(sent))), 1);
    }
}
