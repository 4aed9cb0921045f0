//! Estimate of what another policy would have done, by a model of what would have followed.
//!
//! What the network would have done with other packets is not in a transcript. The model: every channel takes as many packets as it
//! did, none earlier than then, and slots that were left unused as well; the nth packet on a channel meets what the nth one met
//! (its round trip, or its loss), whatever it carries. Packets beyond those that were sent meet the smoothed round trip, and are not lost.
//! Data that is lost goes back to the queue of a reliable stream as late after its sending as the loss was found. An ADU arrives half of the
//! shortest round trip before its acknowledgement. Copies, caps, credit, drop orders, control frames and admission are left out.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
    time::Duration,
};

use anabranch_base::{ChannelId, Instant, Seed, StreamId};
use anabranch_sched::{
    AnyScheduler, Changes, ChannelView, Decision, Policy, Scheduler, StreamView, View,
};
use anabranch_spec::{ChannelChoice, ChannelMask};

use super::{
    decode::{Malformed, Transcript},
    record::{Outcome, Record},
};

mod tally;

use tally::{Demand, Tally};
pub use tally::{Estimate, StreamEstimate};

/// A fragment smaller than this is not worth its header.
const FRAGMENT_BYTES_MIN: u64 = 96;
/// Bytes of a fragment's header, about.
const HEADER_BYTES: u64 = 8;

/// What was, and what would have been.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    /// The policy that decided.
    pub policy: String,
    /// What the transcript shows.
    pub recorded: Estimate,
    /// What the model yields for the policy that decided: the difference from `recorded` is the error of the model. `None`: its
    /// decisions cannot be repeated.
    pub modelled: Option<Estimate>,
    /// What the model yields for the policy that was asked.
    pub asked: Estimate,
}

/// Asks a policy what it would have done.
///
/// # Errors
/// The file is no transcript, is truncated or damaged.
pub fn what_if(file: &[u8], policy: Policy) -> Result<WhatIf, Malformed> {
    let past = Past::read(file)?;
    let decided = past.policy.parse::<Policy>().ok();
    Ok(WhatIf {
        recorded: past.tally(file)?,
        modelled: decided
            .map(|decided| Model::run(file, &past, decided))
            .transpose()?,
        asked: Model::run(file, &past, policy)?,
        policy: past.policy,
    })
}

/// A packet with data that was sent.
#[derive(Clone, Copy, Debug)]
struct Carried {
    container: u64,
    at: Instant,
    /// Time to its outcome, and whether it was lost; `None`: the transcript ends before.
    outcome: Option<(Duration, bool)>,
}

/// Packets with data on each channel, in order.
#[derive(Debug, Default)]
struct Past {
    policy: String,
    seed: u64,
    packets: BTreeMap<ChannelId, Vec<Carried>>,
}

impl Past {
    fn read(file: &[u8]) -> Result<Self, Malformed> {
        let mut past = Self::default();
        let mut transcript = Transcript::new(file)?;
        while let Some(record) = transcript.next() {
            match record? {
                Record::Policy { policy, seed } => (past.policy, past.seed) = (policy, seed),
                Record::Packet {
                    channel,
                    container,
                    fragments,
                    ..
                } if !fragments.is_empty() => {
                    let carried = Carried {
                        container,
                        at: transcript.time(),
                        outcome: None,
                    };
                    past.packets.entry(channel).or_default().push(carried);
                }
                Record::Outcome {
                    at,
                    channel,
                    container,
                    outcome,
                } => past.settle(at, (channel, container), outcome),
                _ => {}
            }
        }
        Ok(past)
    }

    fn settle(&mut self, at: Instant, (channel, container): (ChannelId, u64), outcome: Outcome) {
        let Some(packet) = self.packet_mut(channel, container) else {
            return;
        };
        packet.outcome = Some(match outcome {
            Outcome::Acked(rtt) => (rtt, false),
            Outcome::Lost => (at.since(packet.at), true),
        });
    }

    fn packet_mut(&mut self, channel: ChannelId, container: u64) -> Option<&mut Carried> {
        let packets = self.packets.get_mut(&channel)?;
        let index = packets.binary_search_by_key(&container, |packet| packet.container);
        packets.get_mut(index.ok()?)
    }

    fn packet(&self, channel: ChannelId, container: u64) -> Option<&Carried> {
        let packets = self.packets.get(&channel)?;
        let index = packets.binary_search_by_key(&container, |packet| packet.container);
        packets.get(index.ok()?)
    }

    /// What the transcript shows.
    fn tally(&self, file: &[u8]) -> Result<Estimate, Malformed> {
        let mut tally = Tally::default();
        let mut rtts_min = BTreeMap::new();
        let mut transcript = Transcript::new(file)?;
        while let Some(record) = transcript.next() {
            match record? {
                record @ (Record::Opened { .. } | Record::Adu { .. }) => tally.note(&record),
                Record::Run { channels, .. } => {
                    rtts_min = channels
                        .iter()
                        .map(|view| (view.id, view.rtt_min))
                        .collect();
                }
                Record::Packet {
                    channel,
                    container,
                    fragments,
                    ..
                } => {
                    let at = transcript.time();
                    let outcome = self.packet(channel, container).and_then(|it| it.outcome);
                    let rtt_min = rtts_min.get(&channel).copied().unwrap_or_default();
                    let arrival = match outcome {
                        Some((rtt, false)) => Some(at + rtt.saturating_sub(rtt_min / 2)),
                        _ => None,
                    };
                    for fragment in &fragments {
                        tally.sent(fragment.stream, channel, fragment.bytes);
                        if let Some(arrival) = arrival {
                            let part = (fragment.offset, fragment.bytes);
                            tally.arrived((fragment.stream, fragment.sequence), part, arrival);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(tally.finish(transcript.time()))
    }
}

/// Part of an ADU that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    sequence: u64,
    offset: u64,
    bytes: u64,
}

/// Stream in the model.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Part>,
    demand: Demand,
    /// The view that the policy had last.
    view: Option<StreamView>,
}

struct Model<'a> {
    past: &'a Past,
    queues: BTreeMap<StreamId, Queue>,
    /// Packets with data on each channel: recorded so far, and in the model.
    carried: BTreeMap<ChannelId, (usize, usize)>,
    /// Lost parts, by the time at which that is found.
    lost: BinaryHeap<Reverse<(Instant, StreamId, Part)>>,
    tally: Tally,
}

impl<'a> Model<'a> {
    fn run(file: &[u8], past: &'a Past, policy: Policy) -> Result<Estimate, Malformed> {
        let mut model = Self {
            past,
            queues: BTreeMap::new(),
            carried: BTreeMap::new(),
            lost: BinaryHeap::new(),
            tally: Tally::default(),
        };
        let mut scheduler = policy.build(Seed(past.seed));
        let mut transcript = Transcript::new(file)?;
        let mut is_begun = false;
        let mut restated = 0_u64;
        for record in transcript.by_ref() {
            let record = record?;
            if restated > 0 {
                restated -= 1;
                continue;
            }
            match &record {
                Record::Begin { restated: of, .. } if is_begun => restated = *of,
                Record::Begin { .. } => is_begun = true,
                Record::Opened { stream, .. } => {
                    model.tally.note(&record);
                    model.queues.entry(*stream).or_default().demand = Demand::of(&record);
                }
                Record::Adu {
                    stream,
                    sequence,
                    bytes,
                    ..
                } => {
                    model.tally.note(&record);
                    let part = Part {
                        sequence: *sequence,
                        offset: 0,
                        bytes: *bytes,
                    };
                    model
                        .queues
                        .entry(*stream)
                        .or_default()
                        .waiting
                        .push_back(part);
                }
                Record::Plan { at, plan } => scheduler.remap(*at, plan),
                Record::Packet {
                    channel, fragments, ..
                } if !fragments.is_empty() => model.carried.entry(*channel).or_default().0 += 1,
                Record::Run {
                    at,
                    channels,
                    views,
                    expected,
                    ..
                } => {
                    for view in views {
                        model.queues.entry(view.id).or_default().view = Some(view.clone());
                    }
                    let channels = model.channels(channels);
                    model.decide(&mut scheduler, (*at, *expected), channels);
                }
                _ => {}
            }
        }
        Ok(model.tally.finish(transcript.time()))
    }

    /// Views of channels, with the slots that the model leaves.
    fn channels(&self, recorded: &[ChannelView]) -> Vec<ChannelView> {
        let adjusted = |view: &ChannelView| {
            let (was, is) = self.carried.get(&view.id).copied().unwrap_or_default();
            let more = was as i64 - is as i64;
            let slots = (view.slots as i64).saturating_add(more).max(0);
            let bytes = more.saturating_mul(view.packet_bytes as i64);
            ChannelView {
                slots: slots as usize,
                in_flight_bytes: view.in_flight_bytes.saturating_add_signed(-bytes),
                ..view.clone()
            }
        };
        recorded.iter().map(adjusted).collect()
    }

    fn decide(
        &mut self,
        scheduler: &mut AnyScheduler,
        (now, expected): (Instant, Option<Instant>),
        mut channels: Vec<ChannelView>,
    ) {
        while let Some(Reverse((at, stream, part))) = self.lost.peek().copied()
            && at <= now
        {
            self.lost.pop();
            if let Some(queue) = self.queues.get_mut(&stream) {
                queue.waiting.push_front(part);
            }
        }
        let tally = &self.tally;
        for (&stream, queue) in &mut self.queues {
            let Some(lifetime) = queue.demand.lifetime else {
                continue;
            };
            queue.waiting.retain(|part| {
                let at = tally.handed_over((stream, part.sequence));
                at.is_none_or(|at| at + lifetime > now)
            });
        }
        let count = channels.len();
        let mut views: Vec<StreamView> = (self.queues.iter())
            .filter(|(_, queue)| !queue.waiting.is_empty())
            .map(|(&id, queue)| queue.view(id, count))
            .collect();
        self.update(&mut views);
        scheduler.begin(&view(now, &channels, &views), Changes::Any);
        scheduler.expect(expected);
        loop {
            let (stream, on) = match scheduler.next(&view(now, &channels, &views)) {
                Decision::Send { stream, channels } => (stream, channels),
                // Nothing was planned.
                Decision::SendAdu { .. } | Decision::Wait => return,
            };
            let is_possible = stream < views.len()
                && !on.is_empty()
                && on
                    .iter()
                    .all(|index| channels.get(index).is_some_and(|it| it.slots > 0));
            if !is_possible {
                return;
            }
            let mut left = on
                .iter()
                .map(|index| channels[index].packet_bytes as u64)
                .min();
            let mut index = Some(stream);
            while let (Some(current), Some(space)) = (index, left) {
                let (taken, rest) = self.take((now, views[current].id), space, (&channels, on));
                if taken > 0 {
                    let view = view(now, &channels, &views);
                    scheduler.sent(&view, current, on, taken as usize);
                } else if current == stream {
                    // It has no data for a packet of this size.
                    return;
                }
                left = Some(rest);
                let priority = views[stream].priority;
                let from = if current == stream { 0 } else { current + 1 };
                index = (from..views.len()).find(|&other| {
                    let view = &views[other];
                    rest >= FRAGMENT_BYTES_MIN
                        && other != stream
                        && view.is_waiting()
                        && view.priority <= priority
                        && on.iter().all(|channel| view.may_use(channel))
                });
            }
            for index in on.iter() {
                self.carried.entry(channels[index].id).or_default().1 += 1;
                channels[index].slots -= 1;
                channels[index].in_flight_bytes += channels[index].packet_bytes as u64;
            }
            self.update(&mut views);
        }
    }

    /// Updates backlogs and deadlines.
    fn update(&self, views: &mut [StreamView]) {
        for view in views {
            let Some(queue) = self.queues.get(&view.id) else {
                continue;
            };
            view.backlog_bytes = queue.waiting.iter().map(|part| part.bytes).sum();
            let oldest = queue.waiting.front().zip(queue.demand.lifetime);
            view.deadline = oldest.and_then(|(part, lifetime)| {
                Some(self.tally.handed_over((view.id, part.sequence))? + lifetime)
            });
        }
    }

    /// Puts data of a stream into a packet with `space` bytes for each of these channels; returns its bytes, and the space left.
    fn take(
        &mut self,
        (now, stream): (Instant, StreamId),
        mut space: u64,
        (channels, on): (&[ChannelView], ChannelMask),
    ) -> (u64, u64) {
        let mut taken = 0;
        while let Some(queue) = self.queues.get_mut(&stream)
            && let Some(part) = queue.waiting.front_mut()
        {
            let fits = space.saturating_sub(HEADER_BYTES).min(part.bytes);
            if fits == 0 || (fits < part.bytes && fits < FRAGMENT_BYTES_MIN) {
                break;
            }
            let piece = Part {
                bytes: fits,
                ..*part
            };
            part.offset += fits;
            part.bytes -= fits;
            if part.bytes == 0 {
                queue.waiting.pop_front();
            }
            let is_reliable = queue.demand.is_reliable;
            space -= fits + HEADER_BYTES.min(space - fits);
            taken += fits;
            self.launch((now, stream), piece, (channels, on), is_reliable);
        }
        (taken, space)
    }

    fn launch(
        &mut self,
        (now, stream): (Instant, StreamId),
        piece: Part,
        (channels, on): (&[ChannelView], ChannelMask),
        is_reliable: bool,
    ) {
        let mut arrival: Option<Instant> = None;
        let mut found: Option<Instant> = None;
        for view in on.iter().map(|index| &channels[index]) {
            let (_, position) = self.carried.get(&view.id).copied().unwrap_or_default();
            let packets = self.past.packets.get(&view.id);
            let met = packets.and_then(|packets| packets.get(position)?.outcome);
            if met.is_none() {
                self.tally.beyond_packets += 1;
            }
            let (time, is_lost) = met.unwrap_or((view.rtt_smoothed, false));
            self.tally.sent(stream, view.id, piece.bytes);
            if is_lost {
                let at = now + time;
                found = Some(found.map_or(at, |earlier| earlier.max(at)));
            } else {
                let at = now + time.saturating_sub(view.rtt_min / 2);
                arrival = Some(arrival.map_or(at, |earlier| earlier.min(at)));
            }
        }
        match (arrival, found) {
            (Some(at), _) => {
                let part = (piece.offset, piece.bytes);
                self.tally.arrived((stream, piece.sequence), part, at);
            }
            (None, Some(at)) if is_reliable => self.lost.push(Reverse((at, stream, piece))),
            _ => {}
        }
    }
}

impl Queue {
    /// The stream's view, whose backlog and deadline are those of the model.
    fn view(&self, id: StreamId, channels: usize) -> StreamView {
        let known = self.view.clone();
        let mut view = known.unwrap_or_else(|| StreamView {
            id,
            priority: self.demand.priority,
            weight: 100,
            backlog_bytes: 0,
            deadline: None,
            pinned: None,
            choice: ChannelChoice::default(),
            redundant: false,
            claim: None,
        });
        if view.pinned.flatten().is_some_and(|index| index >= channels) {
            view.pinned = Some(None);
        }
        view
    }
}

fn view<'a>(now: Instant, channels: &'a [ChannelView], streams: &'a [StreamView]) -> View<'a> {
    View {
        now,
        channels,
        streams,
    }
}
