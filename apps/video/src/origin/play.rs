//! One play: the schedule of its two flows. Knows no clock and no stream: time is an argument, and what is due goes into the
//! pump that all plays of a session share.
//!
//! The enhanced flow leaves at the pace of the film, group by group, within a group evenly as from a leaky bucket of that rate
//! [Two-flow §4.2]; `walk` keeps its position. The essential flow has its target rate [Two-flow §4.1], and a deadline for every
//! chunk: the time at which the enhanced flow has finished the chunk.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use anabranch::base::{Instant, Rate};
use anabranch_media::Part;
use anabranch_twoflow::{
    FlowId, Pump, catching_up::Piece, rate::RETRANSMITTED, thinning::Thinning,
};
use bytes::Bytes;

use super::{
    group::{self, Group},
    walk::Walk,
};
use crate::{
    load::{PART_BYTES_MAX, PART_HEAD_BYTES},
    video::Video,
    wire::{Enhanced, Essential, From, PIECE_BYTES_MAX},
};

/// Time by which essential data is sent before it is needed.
const MARGIN: Duration = Duration::from_millis(500);
/// Number of chunks of either part in memory.
const LOADED: usize = 2;
/// Duration of a piece of the essential flow at its rate, so that pieces leave evenly; none is smaller than
/// [`PIECE_BYTES_MIN`].
const PIECE_TIME: Duration = Duration::from_millis(20);
/// Smallest piece, in bytes, except for the last of a chunk: most of a packet.
const PIECE_BYTES_MIN: usize = 1_000;
/// Part of each flow that waits in the pump, in time at its rate, and at least two pieces: less would leave it idle between two
/// ticks.
const QUEUED: Duration = Duration::from_millis(60);
/// Minimum rate of a flow of the pump: a small amount of data leaves soon all the same.
const RATE_MIN: Rate = Rate::from_kbps(8);

/// Items that the pump releases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A record of the essential flow.
    Essential(Essential),
    /// An ADU of the enhanced flow, and how many other frames need its frame.
    Enhanced(Enhanced, u32),
}

/// Current rates that a play needs of the pipe.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Need {
    /// The essential flow's target rate, in bytes of the video.
    pub(super) essential: Rate,
    /// Highest rate that its schedule has for the essential flow, and the rate requested where guarantees are requested.
    pub(super) essential_usual: Rate,
    /// The enhanced flow at the pace of the film, as UDP payload, nothing left out.
    pub(super) enhanced: Rate,
    /// Share of it that is sent.
    pub(super) kept: f64,
    /// Speed of the enhanced flow, in paces of the film.
    pub(super) pace: f64,
    /// Lead over the film, and the maximum lead.
    pub(super) ahead: Duration,
    pub(super) ahead_max: Duration,
}

pub(super) struct Play {
    pub(super) video: Arc<Video>,
    flows: Flows,
    walk: Walk,
    lead: Duration,
    ahead: Duration,
    essential: FlowCursor,
    /// The essential flow's target rate, and the chunk for which it was computed.
    target: Rate,
    target_of: Option<u32>,
    enhanced: FlowCursor,
    /// Share of the enhanced data that is sent, and extra speed over the film where there is no lead yet.
    part: f64,
    extra: f64,
    thinning: Thinning,
    /// Groups of the chunk that the enhanced flow is in; the first is being sent.
    groups: VecDeque<Group>,
    /// Size of the first group in full, and of the part sent now, as UDP payload, and its duration in the film.
    group_bytes: [u64; 2],
    group_lasts: Duration,
    /// Bytes of its first frame that were handed over.
    sent_of_frame: usize,
    /// ADUs of the chunk that were handed over, frames left out, and whether this was reported to the proxy.
    sent_adus: u32,
    left_out: u32,
    is_reported: bool,
    sequence: u32,
    /// True if the needs have changed.
    has_changed: bool,
    /// Number of seeks, so that data requested before a seek is not taken for what is needed now.
    pub(super) epoch: u32,
}

/// A play's flows in the pump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flows {
    essential: FlowId,
    enhanced: FlowId,
}

/// Position of one flow, and the data loaded for it.
struct FlowCursor {
    chunk: u32,
    /// Bytes of the chunk that were handed over.
    offset: usize,
    loaded: BTreeMap<u32, Bytes>,
    loading: BTreeSet<u32>,
}

impl FlowCursor {
    fn new(chunk: u32) -> Self {
        Self {
            chunk,
            offset: 0,
            loaded: BTreeMap::new(),
            loading: BTreeSet::new(),
        }
    }

    /// True if everything near is loaded or requested.
    fn is_served(&self) -> bool {
        self.loaded.len() + self.loading.len() >= LOADED
    }

    /// The next chunk before `until` that should be fetched from the disk now.
    fn wanted(&mut self, until: u32) -> Option<u32> {
        let near = self.chunk..until.min(self.chunk.saturating_add(LOADED as u32));
        let missing =
            |chunk: &u32| !self.loaded.contains_key(chunk) && !self.loading.contains(chunk);
        let chunk = near.into_iter().find(missing)?;
        self.loading.insert(chunk);
        Some(chunk)
    }

    fn next(&mut self) {
        self.loaded.remove(&self.chunk);
        self.chunk += 1;
        self.offset = 0;
    }
}

/// The number of the play that a flow in the pump belongs to.
pub(super) fn play_of(flow: FlowId) -> u32 {
    u32::try_from(flow.0 / 2).unwrap_or(u32::MAX)
}

impl Play {
    /// A play with its flows in `pump`.
    pub(super) fn new(
        now: Instant,
        (number, video): (u32, Arc<Video>),
        from: From,
        pump: &mut Pump<Due>,
    ) -> Self {
        let number = u64::from(number);
        let mut play = Self {
            video,
            flows: Flows {
                essential: FlowId(2 * number),
                enhanced: FlowId(2 * number + 1),
            },
            walk: Walk::new(now, Duration::ZERO, Duration::ZERO),
            lead: Duration::ZERO,
            ahead: Duration::ZERO,
            essential: FlowCursor::new(0),
            target: Rate::ZERO,
            target_of: None,
            enhanced: FlowCursor::new(0),
            part: 1.0,
            extra: 0.0,
            thinning: Thinning::new(),
            groups: VecDeque::new(),
            group_bytes: [0; 2],
            group_lasts: Duration::ZERO,
            sent_of_frame: 0,
            sent_adus: 0,
            left_out: 0,
            is_reported: false,
            sequence: 0,
            has_changed: true,
            epoch: 0,
        };
        play.seek(now, from, pump);
        play
    }

    /// Continues at another position; what waits in the pump is given up.
    pub(super) fn seek(&mut self, now: Instant, from: From, pump: &mut Pump<Due>) {
        let enhanced = from.enhanced.min(self.video.count());
        self.lead = Duration::from_millis(from.lead_ms.into());
        self.ahead = Duration::from_millis(from.ahead_ms.into());
        self.walk = Walk::new(now, self.video.start(enhanced), self.lead);
        self.target_of = None;
        self.essential = FlowCursor::new(from.essential.min(self.video.count()));
        self.enhanced = FlowCursor::new(enhanced);
        self.groups.clear();
        self.thinning = Thinning::new();
        self.epoch = self.epoch.wrapping_add(1);
        self.leave(pump);
        for flow in [self.flows.essential, self.flows.enhanced] {
            pump.add(now, flow, RATE_MIN, u64::MAX);
        }
        self.aim(now, pump);
    }

    /// Removes its flows from the pump.
    pub(super) fn leave(&self, pump: &mut Pump<Due>) {
        pump.remove(self.flows.essential);
        pump.remove(self.flows.enhanced);
    }

    /// True if everything was handed over.
    #[cfg(test)]
    pub(super) fn is_over(&self) -> bool {
        let count = self.video.count();
        self.essential.chunk >= count && self.enhanced.chunk >= count
    }

    /// The next part that should be read from the disk now: at most one request a call.
    pub(super) fn wanted(&mut self, now: Instant) -> Option<(u32, Part)> {
        // What is needed first comes first.
        if !self.enhanced.is_served()
            && let Some(chunk) = self.enhanced.wanted(self.video.count())
        {
            return Some((chunk, Part::Enhanced));
        }
        if self.essential.is_served() {
            return None;
        }
        let until = self.essential_until(now);
        Some((self.essential.wanted(until)?, Part::Essential))
    }

    /// Takes data that was read.
    pub(super) fn loaded(&mut self, chunk: u32, part: Part, data: Bytes) {
        let cursor = match part {
            Part::Essential => &mut self.essential,
            Part::Enhanced => &mut self.enhanced,
        };
        if cursor.loading.remove(&chunk) && chunk >= cursor.chunk {
            cursor.loaded.insert(chunk, data);
        }
    }

    /// Sets the share `part` of the enhanced data that is sent, from the next group on, and the extra speed `extra` over the
    /// film, in paces, from now on.
    pub(super) fn set_capacity(
        &mut self,
        now: Instant,
        part: f64,
        extra: f64,
        pump: &mut Pump<Due>,
    ) {
        self.part = part;
        self.extra = extra;
        if self.walk.set_extra(now, extra) && !self.groups.is_empty() {
            self.set_enhanced_rate(now, pump);
        }
        self.aim(now, pump);
    }

    /// Rates that the play needs of the pipe.
    pub(super) fn need(&self, now: Instant) -> Need {
        let lasts = self.group_lasts.as_secs_f64().max(1e-3);
        let [whole, kept] = self.group_bytes.map(|bytes| bytes as f64);
        let is_over = self.enhanced.chunk >= self.video.count();
        let enhanced = if is_over { 0.0 } else { 8.0 * whole / lasts };
        let step = self.video.schedule.at(self.walk.position(now));
        let usual = step.map_or(Rate::ZERO, |step| step.essential_rate);
        Need {
            essential: self.target,
            essential_usual: usual,
            enhanced: Rate::from_bps(enhanced as u64),
            kept: if whole > 0.0 { kept / whole } else { 1.0 },
            pace: self.walk.pace(),
            ahead: self.walk.ahead(now),
            ahead_max: self.lead,
        }
    }

    /// Fills the pump with what comes next. Returns whether the needs of the play have changed since the last time.
    pub(super) fn advance(&mut self, now: Instant, pump: &mut Pump<Due>) -> bool {
        self.advance_enhanced(now, pump);
        self.advance_essential(now, pump);
        std::mem::take(&mut self.has_changed)
    }

    /// Time of the next event that neither the pump nor the disk brings about; `None`: never.
    pub(super) fn poll_timeout(&self, now: Instant, pump: &Pump<Due>) -> Option<Instant> {
        let group = self.groups.front()?;
        let is_handed_over = group.members.is_empty() && pump.is_idle(self.flows.enhanced);
        is_handed_over.then(|| self.walk.ends().max(now))
    }

    fn essential_until(&self, now: Instant) -> u32 {
        let chunk = self
            .enhanced
            .chunk
            .min(self.video.count().saturating_sub(1));
        let until = self.video.essential_until(chunk);
        let near = self.walk.position(now).saturating_add(self.ahead);
        let near = self
            .video
            .chunks
            .partition_point(|chunk| chunk.start <= near);
        until.min(u32::try_from(near).unwrap_or(u32::MAX))
    }

    /// Computes the essential flow's target rate.
    fn aim(&mut self, now: Instant, pump: &mut Pump<Due>) {
        let video = &self.video;
        let position = self.walk.position(now);
        let mut pieces = Vec::new();
        for chunk in self.essential.chunk..self.essential_until(now) {
            let mut bytes = video.bytes(chunk, Part::Essential);
            if chunk == self.essential.chunk {
                bytes = bytes.saturating_sub(self.essential.offset as u64);
            }
            // A chunk is of use once its enhanced part is there, too.
            let within = self.walk.until(now, video.start(chunk + 1));
            let within = within.saturating_sub(MARGIN);
            pieces.push(Piece { bytes, within });
        }
        let schedule = &video.schedule;
        let end = schedule.at(position).map_or(position, |step| step.until);
        let ends = self.walk.until(now, end);
        let target = schedule.essential_rate(position, ends, &pieces, RETRANSMITTED);
        let chunk = pieces.first().map(|_| self.essential.chunk);
        let target = match self.target_of == chunk {
            true => target.max(self.target),
            false => target,
        };
        self.has_changed |= target != self.target;
        self.target = target;
        self.target_of = chunk;
        // What is in the pump already leaves as scheduled.
        if self.target > Rate::ZERO {
            pump.set_rate(now, self.flows.essential, self.target.max(RATE_MIN));
        }
    }

    fn advance_essential(&mut self, now: Instant, pump: &mut Pump<Due>) {
        let flow = self.flows.essential;
        loop {
            // Cheap, as it runs at every tick.
            let piece = self.target.bytes_in(PIECE_TIME) as usize;
            let piece = piece.clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX);
            let queue = self.target.bytes_in(QUEUED).max(2 * piece as u64);
            if pump.queued_bytes(flow) >= queue
                || !self.essential.loaded.contains_key(&self.essential.chunk)
                || self.essential.chunk >= self.essential_until(now)
            {
                return;
            }
            if self.target == Rate::ZERO {
                self.aim(now, pump);
            }
            let cursor = &mut self.essential;
            let Some(data) = cursor.loaded.get(&cursor.chunk) else {
                return;
            };
            let end = data.len().min(cursor.offset + piece);
            let record = Essential::Data {
                chunk: cursor.chunk,
                offset: number(cursor.offset),
                total: number(data.len()),
                data: data.slice(cursor.offset..end),
            };
            let bytes = number(end - cursor.offset);
            cursor.offset = end;
            let is_whole = end == data.len();
            if is_whole {
                cursor.next();
            }
            // Its queue has no bound of its own.
            let _ = pump.push(now, flow, bytes, Due::Essential(record));
            if is_whole {
                self.aim(now, pump);
            }
        }
    }

    fn advance_enhanced(&mut self, now: Instant, pump: &mut Pump<Due>) {
        let flow = self.flows.enhanced;
        loop {
            if self.groups.is_empty() && !self.begin_chunk(now, pump) {
                return;
            }
            if !self.hand_over(now, pump) || !pump.is_idle(flow) || now < self.walk.ends() {
                return;
            }
            self.groups.pop_front();
            if self.groups.is_empty() {
                self.enhanced.next();
            } else {
                self.begin_group(now, pump);
            }
        }
    }

    /// Divides the chunk that the enhanced flow has reached into groups; false if it is not loaded yet, or there is none.
    fn begin_chunk(&mut self, now: Instant, pump: &mut Pump<Due>) -> bool {
        let chunk = self.enhanced.chunk;
        if chunk >= self.video.count() || !self.enhanced.loaded.contains_key(&chunk) {
            return false;
        }
        self.sent_adus = 0;
        self.left_out = 0;
        self.is_reported = false;
        self.groups = group::groups(&self.video, chunk);
        self.begin_group(now, pump);
        true
    }

    fn begin_group(&mut self, now: Instant, pump: &mut Pump<Due>) {
        let Some(group) = self.groups.front_mut() else {
            return;
        };
        let whole = group.wire_bytes();
        self.left_out += group.thin(self.part, &mut self.thinning);
        self.group_bytes = [whole, group.wire_bytes()];
        let before = self.walk.position(now);
        self.walk.go_on(now, group.end, self.extra);
        self.group_lasts = group.end.saturating_sub(before);
        self.sent_of_frame = 0;
        self.set_enhanced_rate(now, pump);
        self.aim(now, pump);
    }

    /// Sets the rate at which the rest of the group has left when the group ends.
    fn set_enhanced_rate(&mut self, now: Instant, pump: &mut Pump<Due>) {
        let flow = self.flows.enhanced;
        let whole = self.groups.front().map_or(0, Group::wire_bytes);
        let waiting = whole.saturating_sub(self.sent_of_frame as u64) + pump.queued_bytes(flow);
        let left = self.walk.left(now).max(Duration::from_millis(1));
        let rate = Rate::from_bytes_per(waiting, left);
        self.has_changed = true;
        pump.set_rate(now, flow, rate.max(RATE_MIN));
    }

    /// Puts parts of the group's frames into the pump; true if all of them are in it.
    fn hand_over(&mut self, now: Instant, pump: &mut Pump<Due>) -> bool {
        let flow = self.flows.enhanced;
        let is_last = self.groups.len() == 1;
        let Some(group) = self.groups.front_mut() else {
            return true;
        };
        let chunk = self.enhanced.chunk;
        let Some(data) = self.enhanced.loaded.get(&chunk) else {
            return true;
        };
        let pace = self.walk.pace() / self.group_lasts.as_secs_f64().max(1e-3);
        let rate = self.group_bytes[1] as f64 * pace;
        let queue = (rate * QUEUED.as_secs_f64()).max(2.0 * PART_BYTES_MAX as f64) as u64;
        while let Some(member) = group.members.front() {
            if pump.queued_bytes(flow) >= queue {
                return false;
            }
            let from = member.place + self.sent_of_frame;
            let bytes = (member.size - self.sent_of_frame).min(PART_BYTES_MAX);
            let Some(data) = data
                .get(from..from + bytes)
                .map(|part| data.slice_ref(part))
            else {
                // Another version of the file; the next reader gets the error.
                group.members.clear();
                break;
            };
            if bytes > 0 {
                let ticks = self.video.decode_start(member.id).as_nanos() * 90_000 / 1_000_000_000;
                let adu = Enhanced {
                    sequence: self.sequence,
                    timestamp: (ticks & u128::from(u32::MAX)) as u32,
                    chunk,
                    track: u8::try_from(member.id.track).unwrap_or(u8::MAX),
                    sample: number(member.id.sample),
                    offset: number(self.sent_of_frame),
                    data,
                };
                let due = Due::Enhanced(adu, member.importance);
                // Its queue has no bound of its own.
                let _ = pump.push(now, flow, number(bytes + PART_HEAD_BYTES), due);
                self.sequence = self.sequence.wrapping_add(1);
                self.sent_adus += 1;
                self.sent_of_frame += bytes;
            }
            if self.sent_of_frame == member.size {
                group.members.pop_front();
                self.sent_of_frame = 0;
            }
        }
        if is_last && !self.is_reported {
            self.is_reported = true;
            let sent = Essential::Sent {
                chunk,
                adus: self.sent_adus,
                left_out: self.left_out,
            };
            // After the last part, so that it does not overtake it.
            let _ = pump.push(now, flow, 0, Due::Essential(sent));
        }
        true
    }
}

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
