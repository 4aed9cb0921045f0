//! Recorder: writes a transcript while a session runs, in memory of bounded size.
//!
//! The memory has two halves. When one is full, the older one is emptied and written next; each begins with all that is known, so
//! that a transcript can begin with either. The memory is reserved at the start; a record that is larger than what a half has left
//! ends up in the next one.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anabranch_base::{ChannelId, Instant, Seed, StreamId};
use anabranch_sched::{Changes, ChannelView, Decision, Policy, StreamView};
use anabranch_spec::{ChannelMask, Plan, StreamSpec};

use super::{
    MAGIC, VERSION,
    codec::{put, put_text},
    encode,
    record::{ChannelChange, Fragment, Outcome},
};

/// Smallest memory of a recorder.
pub const BYTES_MIN: usize = 64 << 10;
/// Streams that are stated again at the beginning of a part.
const STREAMS_KNOWN_MAX: usize = 4096;

/// State that the next part begins with.
#[derive(Debug, Default)]
struct Known {
    policy: Option<(String, u64)>,
    streams: BTreeMap<StreamId, Arc<StreamSpec>>,
    channels: Vec<(ChannelId, ChannelChange)>,
    plan: Option<Plan>,
}

/// Recorder of a session.
#[derive(Debug)]
pub struct Recorder {
    half_bytes: usize,
    /// The half that is written.
    current: Vec<u8>,
    /// The half before it.
    older: Vec<u8>,
    records: [u64; 2],
    known: Known,
    /// Time of the last record.
    at: Instant,
    /// Views of channels in the run before; empty at the beginning of a part.
    channels: Vec<ChannelView>,
    /// Streams that the views of a reader contain; `None`: it has none yet.
    streams: Option<Vec<StreamId>>,
    /// Between a run's beginning and its end nothing else may begin.
    is_in_run: bool,
}

impl Recorder {
    /// A recorder that holds so many bytes at most, [`BYTES_MIN`] at least. `is_start`: the session begins now.
    pub(crate) fn new(now: Instant, bytes_max: usize, is_start: bool) -> Self {
        let half_bytes = bytes_max.max(BYTES_MIN) / 2;
        let mut recorder = Self {
            half_bytes,
            current: Vec::with_capacity(half_bytes),
            older: Vec::new(),
            records: [0; 2],
            known: Known::default(),
            at: now,
            channels: Vec::new(),
            streams: None,
            is_in_run: false,
        };
        recorder.begin(now, is_start);
        recorder
    }

    /// Bytes of the records so far.
    pub(crate) fn bytes(&self) -> usize {
        self.older.len() + self.current.len()
    }

    /// The transcript so far, as a file.
    pub fn file(&self) -> Vec<u8> {
        let mut file = Vec::with_capacity(self.bytes() + 32);
        file.extend_from_slice(MAGIC);
        put(&mut file, VERSION);
        file.extend_from_slice(&self.older);
        file.extend_from_slice(&self.current);
        file.push(encode::END);
        put(&mut file, self.records[0] + self.records[1]);
        file
    }

    fn begin(&mut self, now: Instant, is_start: bool) {
        self.at = now;
        self.channels.clear();
        self.streams = None;
        self.tag(encode::BEGIN);
        put(&mut self.current, now.as_nanos());
        self.current.push(u8::from(is_start));
        let known = std::mem::take(&mut self.known);
        let streams = known.streams.len().min(STREAMS_KNOWN_MAX);
        let others = usize::from(known.policy.is_some()) + usize::from(known.plan.is_some());
        put(
            &mut self.current,
            (streams + known.channels.len() + others) as u64,
        );
        if let Some((policy, seed)) = &known.policy {
            self.write_policy(policy, *seed);
        }
        for (&stream, spec) in known.streams.iter().take(STREAMS_KNOWN_MAX) {
            self.timed(encode::OPENED, now);
            encode::opened(&mut self.current, stream, spec);
        }
        for &(channel, change) in &known.channels {
            self.timed(encode::CHANNEL, now);
            put(&mut self.current, channel.0);
            self.current.push(encode::change(change));
        }
        if let Some(plan) = &known.plan {
            self.timed(encode::PLAN, now);
            encode::plan(&mut self.current, plan);
        }
        self.known = known;
    }

    /// Begins the other half if this one is full.
    fn advance(&mut self, now: Instant) {
        if self.is_in_run || self.current.len() < self.half_bytes {
            return;
        }
        std::mem::swap(&mut self.current, &mut self.older);
        self.records.swap(0, 1);
        self.records[1] = 0;
        self.current.clear();
        self.current.reserve_exact(self.half_bytes);
        self.begin(now, false);
    }

    fn tag(&mut self, tag: u8) {
        self.current.push(tag);
        self.records[1] += 1;
    }

    fn timed(&mut self, tag: u8, now: Instant) {
        self.tag(tag);
        encode::put_time(&mut self.current, self.at, now);
        self.at = now;
    }

    fn write_policy(&mut self, policy: &str, seed: u64) {
        self.tag(encode::POLICY);
        put_text(&mut self.current, policy);
        self.current.extend_from_slice(&seed.to_le_bytes());
    }

    /// Records the policy; `None`: a scheduler that has no name.
    pub(crate) fn policy(&mut self, policy: Option<Policy>, seed: Seed) {
        let text = policy.map_or(String::new(), |policy| policy.to_string());
        self.write_policy(&text, seed.0);
        self.known.policy = Some((text, seed.0));
    }

    pub(crate) fn opened(&mut self, now: Instant, stream: StreamId, spec: &Arc<StreamSpec>) {
        self.advance(now);
        self.timed(encode::OPENED, now);
        encode::opened(&mut self.current, stream, spec);
        self.known.streams.insert(stream, spec.clone());
    }

    pub(crate) fn adu(&mut self, now: Instant, stream: StreamId, sequence: u64, bytes: usize) {
        self.advance(now);
        self.timed(encode::ADU, now);
        put(&mut self.current, stream.0);
        put(&mut self.current, sequence);
        put(&mut self.current, bytes as u64);
    }

    pub(crate) fn over(&mut self, stream: StreamId) {
        self.known.streams.remove(&stream);
        self.tag(encode::OVER);
        put(&mut self.current, stream.0);
    }

    /// Records a change of a channel; without `now` it is as of the last record.
    pub(crate) fn channel(
        &mut self,
        now: Option<Instant>,
        channel: ChannelId,
        change: ChannelChange,
    ) {
        let now = now.unwrap_or(self.at);
        self.advance(now);
        self.timed(encode::CHANNEL, now);
        put(&mut self.current, channel.0);
        self.current.push(encode::change(change));
        self.known.channels.retain(|(known, _)| *known != channel);
        if change != ChannelChange::Closed {
            self.known.channels.push((channel, change));
        }
    }

    pub(crate) fn outcome(
        &mut self,
        now: Instant,
        (channel, container): (ChannelId, u64),
        rtt: Option<Duration>,
    ) {
        self.advance(now);
        self.timed(encode::OUTCOME, now);
        put(&mut self.current, channel.0);
        put(&mut self.current, container);
        encode::outcome(&mut self.current, rtt.map_or(Outcome::Lost, Outcome::Acked));
    }

    pub(crate) fn plan(&mut self, now: Instant, plan: &Plan) {
        self.advance(now);
        self.timed(encode::PLAN, now);
        encode::plan(&mut self.current, plan);
        self.known.plan = Some(plan.clone());
    }

    /// Records what the policy sees at the beginning of a run of decisions.
    pub(crate) fn run(
        &mut self,
        now: Instant,
        (channels, streams): (&[ChannelView], &[StreamView]),
        changes: Changes<'_>,
        (expected, is_planned): (Option<Instant>, bool),
    ) {
        self.advance(now);
        self.is_in_run = true;
        let changed = match changes {
            Changes::Any => None,
            Changes::Only(changed) => Some(changed),
        };
        let are_all = self.are_all_needed(streams, changed);
        let same_ids = channels.len() == self.channels.len()
            && channels
                .iter()
                .zip(&self.channels)
                .all(|(a, b)| a.id == b.id);
        self.timed(encode::RUN, now);
        let flags = encode::flags([
            (are_all, encode::RUN_ALL_VIEWS),
            (changed.is_none(), encode::RUN_ANY_CHANGED),
            (expected.is_some(), encode::RUN_EXPECTED),
            (is_planned, encode::RUN_PLANNED),
            (!same_ids, encode::RUN_NEW_CHANNELS),
        ]);
        let bytes = &mut self.current;
        bytes.push(flags);
        if let Some(expected) = expected {
            encode::put_time(bytes, now, expected);
        }
        if !same_ids {
            self.channels.clear();
            put(bytes, channels.len() as u64);
            channels.iter().for_each(|view| put(bytes, view.id.0));
        }
        for (index, view) in channels.iter().enumerate() {
            encode::channel_view(bytes, view, self.channels.get(index));
        }
        self.channels.clear();
        self.channels.extend_from_slice(channels);
        if let Some(changed) = changed {
            put(bytes, changed.len() as u64);
            changed.iter().for_each(|stream| put(bytes, stream.0));
        }
        if are_all {
            put(bytes, streams.len() as u64);
            for view in streams {
                encode::stream_view(bytes, now, view);
            }
            return;
        }
        let place = |stream: &StreamId| streams.binary_search_by_key(stream, |view| view.id).ok();
        let changed = changed.unwrap_or_default();
        let count = changed.iter().filter_map(place).count();
        put(bytes, count as u64);
        for index in changed.iter().filter_map(place) {
            encode::stream_view(bytes, now, &streams[index]);
        }
    }

    /// True if a reader cannot derive the views from those that changed.
    fn are_all_needed(&mut self, streams: &[StreamView], changed: Option<&[StreamId]>) -> bool {
        let ids = || streams.iter().map(|view| view.id);
        let (Some(known), Some(changed)) = (&mut self.streams, changed) else {
            let known = self.streams.get_or_insert_default();
            known.clear();
            known.extend(ids());
            return true;
        };
        for stream in changed {
            let is_there = streams.binary_search_by_key(stream, |view| view.id).is_ok();
            if let Err(at) = known.binary_search(stream)
                && is_there
            {
                known.insert(at, *stream);
            }
        }
        // The others contain all of these: they are the same if there are as many.
        let is_same = known.len() == streams.len();
        if !is_same {
            known.clear();
            known.extend(ids());
        }
        !is_same
    }

    pub(crate) fn decision(&mut self, decision: Decision) {
        let (stream, channels, adu) = match decision {
            Decision::Send { stream, channels } => (stream, channels, None),
            Decision::SendAdu {
                stream,
                adu,
                channels,
            } => (stream, channels, Some(adu)),
            Decision::Wait => {
                self.is_in_run = false;
                return self.tag(encode::WAIT);
            }
        };
        self.tag(encode::DECISION);
        put(
            &mut self.current,
            (stream as u64) << 1 | u64::from(adu.is_some()),
        );
        encode::mask(&mut self.current, channels);
        if let Some(adu) = adu {
            put(&mut self.current, adu);
        }
    }

    pub(crate) fn took(&mut self, stream: usize, bytes: usize) {
        self.tag(encode::TOOK);
        put(&mut self.current, stream as u64);
        put(&mut self.current, bytes as u64);
    }

    pub(crate) fn packet(
        &mut self,
        (channel, container): (ChannelId, u64),
        bytes: u64,
        fragments: impl Iterator<Item = Fragment> + Clone,
    ) {
        self.records[1] += 1;
        encode::packet(&mut self.current, (channel, container), bytes);
        put(&mut self.current, fragments.clone().count() as u64);
        for fragment in fragments {
            encode::fragment(&mut self.current, &fragment);
        }
    }

    /// Records the views after a decision on `channels` was carried out; `None`: nothing was sent.
    pub(crate) fn filled(
        &mut self,
        (channels, streams): (&[ChannelView], &[StreamView]),
        filled: &[usize],
        sent_on: Option<ChannelMask>,
    ) {
        self.tag(encode::FILLED);
        put(&mut self.current, filled.len() as u64);
        for &index in filled {
            let view = &streams[index];
            put(&mut self.current, index as u64);
            put(&mut self.current, view.backlog_bytes);
            self.current.push(u8::from(view.deadline.is_some()));
            if let Some(deadline) = view.deadline {
                encode::put_time(&mut self.current, self.at, deadline);
            }
        }
        let sent_on = sent_on.unwrap_or(ChannelMask::NONE);
        put(&mut self.current, sent_on.iter().count() as u64);
        for index in sent_on.iter() {
            put(&mut self.current, channels[index].in_flight_bytes);
        }
    }

    pub(crate) fn rested(&mut self, stream: usize) {
        self.tag(encode::RESTED);
        put(&mut self.current, stream as u64);
    }
}
