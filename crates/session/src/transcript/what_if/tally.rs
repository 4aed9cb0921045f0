//! Counts of what streams sent, what arrived, and when.

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{ChannelId, Instant, Rate, StreamId};
use anabranch_spec::Priority;

use crate::transcript::Record;

/// What streams sent, and what arrived.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// By stream.
    pub streams: BTreeMap<StreamId, StreamEstimate>,
    /// Packets of which the transcript has no outcome; in the model they met the smoothed round trip.
    pub beyond_packets: u64,
}

/// What a stream sent, and what arrived.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamEstimate {
    /// Its label.
    pub label: String,
    /// Application bytes sent on each channel, those sent again and copies included.
    pub sent_bytes: BTreeMap<ChannelId, u64>,
    /// ADUs handed over.
    pub adus: u64,
    /// ADUs that arrived whole.
    pub arrived: u64,
    /// Of these, ADUs that arrived after their lifetime.
    pub late: u64,
    /// Median and 95th percentile of the time from handing over to arrival; `None`: nothing arrived.
    pub transit_p50: Option<Duration>,
    /// See above.
    pub transit_p95: Option<Duration>,
    /// Windows of its guarantee in which what was guaranteed, or all that there was, arrived; and all windows in which there was
    /// something to send, of those that the transcript contains whole. `None`: it has no guarantee.
    pub windows: Option<(u64, u64)>,
    /// Length of these windows, and the time from the stream's first ADU to the end of the transcript.
    pub window_of: Option<(Duration, Duration)>,
}

/// Demand of a stream.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    pub(super) label: String,
    pub(super) priority: Priority,
    pub(super) is_reliable: bool,
    pub(super) lifetime: Option<Duration>,
    guarantee: Option<(Rate, Duration)>,
}

impl Default for Demand {
    fn default() -> Self {
        Self {
            label: String::new(),
            priority: Priority::NORMAL,
            is_reliable: true,
            lifetime: None,
            guarantee: None,
        }
    }
}

impl Demand {
    /// The demand of a stream that was opened.
    pub(super) fn of(opened: &Record) -> Self {
        let Record::Opened {
            label,
            priority,
            is_reliable,
            lifetime,
            guarantee,
            ..
        } = opened
        else {
            return Self::default();
        };
        Self {
            label: label.clone(),
            priority: *priority,
            is_reliable: *is_reliable,
            lifetime: *lifetime,
            guarantee: *guarantee,
        }
    }
}

/// An ADU: the time of its handing over, its size, and when its parts arrived.
#[derive(Debug)]
struct Adu {
    at: Instant,
    bytes: u64,
    parts: Vec<(u64, u64, Instant)>,
}

impl Adu {
    /// Time at which all of it had arrived.
    fn arrived_at(&mut self) -> Option<Instant> {
        self.parts.sort_unstable();
        let mut covered = 0;
        let mut last = self.at;
        for &(offset, bytes, at) in &self.parts {
            if offset > covered {
                return None;
            }
            let end = offset.saturating_add(bytes);
            if end > covered {
                covered = end;
                last = last.max(at);
            }
        }
        (covered >= self.bytes).then_some(last)
    }
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    demands: BTreeMap<StreamId, Demand>,
    adus: BTreeMap<(StreamId, u64), Adu>,
    sent_bytes: BTreeMap<StreamId, BTreeMap<ChannelId, u64>>,
    pub(super) beyond_packets: u64,
}

impl Tally {
    /// Notes a stream that was opened, or an ADU that was handed over.
    pub(super) fn note(&mut self, record: &Record) {
        match record {
            Record::Opened { stream, .. } => {
                self.demands.insert(*stream, Demand::of(record));
            }
            Record::Adu {
                at,
                stream,
                sequence,
                bytes,
            } => {
                let adu = Adu {
                    at: *at,
                    bytes: *bytes,
                    parts: Vec::new(),
                };
                self.adus.insert((*stream, *sequence), adu);
            }
            _ => {}
        }
    }

    /// Time at which an ADU was handed over.
    pub(super) fn handed_over(&self, adu: (StreamId, u64)) -> Option<Instant> {
        self.adus.get(&adu).map(|adu| adu.at)
    }

    pub(super) fn sent(&mut self, stream: StreamId, channel: ChannelId, bytes: u64) {
        let on = self.sent_bytes.entry(stream).or_default();
        let sent = on.entry(channel).or_default();
        *sent = sent.saturating_add(bytes);
    }

    pub(super) fn arrived(
        &mut self,
        adu: (StreamId, u64),
        (offset, bytes): (u64, u64),
        at: Instant,
    ) {
        if let Some(adu) = self.adus.get_mut(&adu) {
            adu.parts.push((offset, bytes, at));
        }
    }

    pub(super) fn finish(mut self, until: Instant) -> Estimate {
        let mut estimate = Estimate {
            beyond_packets: self.beyond_packets,
            ..Estimate::default()
        };
        let mut transits: BTreeMap<StreamId, Vec<Duration>> = BTreeMap::new();
        let mut windows: BTreeMap<StreamId, Windows> = BTreeMap::new();
        for (&(stream, _), adu) in &mut self.adus {
            let of = estimate.streams.entry(stream).or_default();
            of.adus += 1;
            let demand = self.demands.entry(stream).or_default();
            let arrived_at = adu.arrived_at();
            if let Some((rate, window)) = demand.guarantee {
                let windows = windows
                    .entry(stream)
                    .or_insert_with(|| Windows::new(adu.at, rate, window));
                windows.add(adu, until);
            }
            let Some(arrived_at) = arrived_at.filter(|&at| at <= until) else {
                continue;
            };
            of.arrived += 1;
            let transit = arrived_at.since(adu.at);
            let is_late = demand.lifetime.is_some_and(|lifetime| transit > lifetime);
            of.late += u64::from(is_late);
            transits.entry(stream).or_default().push(transit);
        }
        for (stream, sent_bytes) in self.sent_bytes {
            estimate.streams.entry(stream).or_default().sent_bytes = sent_bytes;
        }
        for (stream, of) in &mut estimate.streams {
            if let Some(demand) = self.demands.get(stream) {
                of.label.clone_from(&demand.label);
            }
            let transits = transits.entry(*stream).or_default();
            transits.sort_unstable();
            let at = |part: usize| {
                transits.get((transits.len() * part / 100).min(transits.len().saturating_sub(1)))
            };
            of.transit_p50 = at(50).copied();
            of.transit_p95 = at(95).copied();
            let windows = windows.get(stream);
            of.windows = windows.map(Windows::kept);
            of.window_of = windows.map(|windows| (windows.window, until.since(windows.from)));
        }
        estimate
    }
}

/// Windows of a guarantee: bytes handed over and arrived in each.
#[derive(Debug)]
struct Windows {
    from: Instant,
    window: Duration,
    needed: u64,
    offered_arrived: BTreeMap<u64, (u64, u64)>,
}

impl Windows {
    fn new(from: Instant, rate: Rate, window: Duration) -> Self {
        Self {
            from,
            window: window.max(Duration::from_millis(1)),
            needed: rate.bytes_in(window),
            offered_arrived: BTreeMap::new(),
        }
    }

    fn number(&self, at: Instant) -> u64 {
        let number = at.since(self.from).as_nanos() / self.window.as_nanos();
        u64::try_from(number).unwrap_or(u64::MAX)
    }

    fn add(&mut self, adu: &Adu, until: Instant) {
        // A window that the transcript does not contain whole is not judged.
        let end = self.number(until);
        let number = self.number(adu.at);
        if number < end {
            self.offered_arrived.entry(number).or_default().0 += adu.bytes;
        }
        let mut covered = 0;
        for &(offset, bytes, at) in &adu.parts {
            let fresh = offset
                .saturating_add(bytes)
                .saturating_sub(covered.max(offset));
            covered = covered.max(offset.saturating_add(bytes));
            let number = self.number(at);
            if number < end {
                self.offered_arrived.entry(number).or_default().1 += fresh;
            }
        }
    }

    /// Windows kept, and windows in which there was something to send.
    fn kept(&self) -> (u64, u64) {
        let (mut kept, mut all, mut backlog) = (0, 0, 0_u64);
        for &(offered, arrived) in self.offered_arrived.values() {
            let wanted = backlog.saturating_add(offered);
            if wanted > 0 {
                all += 1;
                // What was handed over within the window may be under way at its end.
                let due = self.needed.min(backlog.max(offered));
                kept += u64::from(arrived >= due);
            }
            backlog = wanted.saturating_sub(arrived);
        }
        (kept, all)
    }
}
