//! One play: what of the two flows is due when. Knows no clock and no stream; the pump drives it.
//!
//! The enhanced flow leaves at the pace of the film: a position moves with the time, and within a chunk its bytes
//! leave evenly, as from a leaky bucket of that rate [Two-flow §4.2]. Until it is as far ahead of real time as the
//! proxy asked for, it moves faster. The essential flow has a deadline for every chunk, the moment at which the
//! enhanced flow gets there; its rate is the least at which every chunk of this segment and the next is in time.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use anabranch_media::Part;
use bytes::Bytes;

use super::library::Opened;
use crate::{
    video::FrameId,
    wire::{ADU_BYTES_MAX, ENHANCED_HEADER_BYTES, Enhanced, Essential, From, PIECE_BYTES_MAX},
};

/// How much faster than the film the enhanced flow goes until it has its lead.
const HASTE: f64 = 2.0;
/// A pump that was held up makes up for this much, not more: the rest is a delay, not a burst.
const STEP_MAX: Duration = Duration::from_millis(50);
/// Essential data is to be sent this long before it is needed.
const MARGIN: Duration = Duration::from_millis(500);
/// The least time that is planned for essential data: what is needed at once is sent as quickly as that.
const AT_ONCE: Duration = Duration::from_millis(250);
/// Chunks that are in memory of either part.
const LOADED: usize = 2;

/// What the pump is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A record of the essential flow.
    Essential(Essential),
    /// An ADU of the enhanced flow, and how many other frames need its frame.
    Enhanced(Enhanced, u32),
}

pub(super) struct Play {
    pub(super) opened: Arc<Opened>,
    /// Where the film was at the start, or after the last seek, and how long ago that is.
    begun: Duration,
    elapsed: Duration,
    /// Where the enhanced flow is.
    position: Duration,
    lead: Duration,
    ahead: Duration,
    essential: Lane,
    enhanced: Lane,
    /// Bytes of the essential flow that may leave now.
    credit: f64,
    /// Frames of the chunk that the enhanced flow is in, in the order of decoding, with their place in its data.
    frames: VecDeque<(FrameId, usize)>,
    /// What of the first of them has been sent.
    sent_of_frame: usize,
    /// Bytes and ADUs that were sent of the chunk.
    sent_bytes: u64,
    sent_adus: u32,
    sequence: u32,
    /// Counts seeks, so that data that was asked for before is not taken for what is needed now.
    pub(super) epoch: u32,
}

/// Where one flow is, and the data that are there for it.
struct Lane {
    chunk: u32,
    /// Bytes sent of the chunk.
    offset: usize,
    loaded: BTreeMap<u32, Bytes>,
    loading: BTreeMap<u32, ()>,
}

impl Lane {
    fn new(chunk: u32) -> Self {
        Self {
            chunk,
            offset: 0,
            loaded: BTreeMap::new(),
            loading: BTreeMap::new(),
        }
    }

    /// Chunks before `until` that should be fetched from the disk now.
    fn wanted(&mut self, until: u32) -> Option<u32> {
        let near = self.chunk..until.min(self.chunk.saturating_add(LOADED as u32));
        let missing =
            |chunk: &u32| !self.loaded.contains_key(chunk) && !self.loading.contains_key(chunk);
        let chunk = near.into_iter().find(missing)?;
        self.loading.insert(chunk, ());
        Some(chunk)
    }

    fn next(&mut self) {
        self.loaded.remove(&self.chunk);
        self.chunk += 1;
        self.offset = 0;
    }
}

impl Play {
    pub(super) fn new(opened: Arc<Opened>, from: From) -> Self {
        let mut play = Self {
            opened,
            begun: Duration::ZERO,
            elapsed: Duration::ZERO,
            position: Duration::ZERO,
            lead: Duration::ZERO,
            ahead: Duration::ZERO,
            essential: Lane::new(0),
            enhanced: Lane::new(0),
            credit: 0.0,
            frames: VecDeque::new(),
            sent_of_frame: 0,
            sent_bytes: 0,
            sent_adus: 0,
            sequence: 0,
            epoch: 0,
        };
        play.seek(from);
        play
    }

    /// Goes on elsewhere.
    pub(super) fn seek(&mut self, from: From) {
        let video = &self.opened.video;
        let enhanced = from.enhanced.min(video.count());
        self.begun = video.start(enhanced);
        self.position = self.begun;
        self.elapsed = Duration::ZERO;
        self.lead = Duration::from_millis(from.lead_ms.into());
        self.ahead = Duration::from_millis(from.ahead_ms.into());
        self.essential = Lane::new(from.essential.min(video.count()));
        self.enhanced = Lane::new(enhanced);
        self.credit = 0.0;
        self.begin_chunk();
        self.epoch += 1;
    }

    /// Whether everything was sent.
    pub(super) fn is_over(&self) -> bool {
        let count = self.opened.video.count();
        self.essential.chunk >= count && self.enhanced.chunk >= count
    }

    /// What should be read from the disk now: at most one request a call.
    pub(super) fn wanted(&mut self) -> Option<(u32, Part)> {
        let count = self.opened.video.count();
        let until = self.essential_until();
        // What is needed first comes first.
        let enhanced = self
            .enhanced
            .wanted(count)
            .map(|chunk| (chunk, Part::Enhanced));
        enhanced.or_else(|| Some((self.essential.wanted(until)?, Part::Essential)))
    }

    /// Takes what was read.
    pub(super) fn loaded(&mut self, chunk: u32, part: Part, data: Bytes) {
        let lane = match part {
            Part::Essential => &mut self.essential,
            Part::Enhanced => &mut self.enhanced,
        };
        if lane.loading.remove(&chunk).is_some() && chunk >= lane.chunk {
            lane.loaded.insert(chunk, data);
        }
        if part == Part::Enhanced && chunk == self.enhanced.chunk {
            self.begin_chunk();
        }
    }

    /// Time passes; hands what is due to `send`, which says whether there was room for it.
    pub(super) fn advance(&mut self, passed: Duration, mut send: impl FnMut(Due) -> bool) {
        let step = passed.min(STEP_MAX);
        self.elapsed += step;
        self.advance_essential(step, &mut send);
        self.advance_enhanced(step, &mut send);
    }

    fn essential_until(&self) -> u32 {
        let video = &self.opened.video;
        let chunk = self.enhanced.chunk.min(video.count().saturating_sub(1));
        let until = video.essential_until(chunk);
        let near = self.position.saturating_add(self.ahead);
        let near = video.chunks.partition_point(|chunk| chunk.start <= near);
        until.min(u32::try_from(near).unwrap_or(u32::MAX))
    }

    /// Bytes a second at which every chunk that may be sent is in time.
    fn essential_rate(&self) -> f64 {
        let video = &self.opened.video;
        let mut bytes = 0.0;
        let mut rate: f64 = 0.0;
        for chunk in self.essential.chunk..self.essential_until() {
            bytes += video.bytes(chunk, Part::Essential) as f64;
            if chunk == self.essential.chunk {
                bytes -= self.essential.offset as f64;
            }
            let left = video.start(chunk).saturating_sub(self.position);
            let left = left.saturating_sub(MARGIN).max(AT_ONCE);
            rate = rate.max(bytes / left.as_secs_f64());
        }
        rate
    }

    fn advance_essential(&mut self, step: Duration, send: &mut impl FnMut(Due) -> bool) {
        let until = self.essential_until();
        if self.essential.chunk >= until {
            self.credit = 0.0;
            return;
        }
        let rate = self.essential_rate();
        self.credit += rate * step.as_secs_f64();
        let most = (rate * STEP_MAX.as_secs_f64()).max(PIECE_BYTES_MAX as f64);
        self.credit = self.credit.min(most);
        while self.essential.chunk < until {
            let lane = &mut self.essential;
            let Some(data) = lane.loaded.get(&lane.chunk) else {
                return;
            };
            let left = data.len() - lane.offset;
            // Small pieces at a small rate, so that they leave evenly.
            let piece = left
                .min(PIECE_BYTES_MAX)
                .min((self.credit as usize).max(1_000));
            if self.credit < piece as f64 && left > 0 {
                return;
            }
            let end = lane.offset + piece;
            let record = Essential::Data {
                chunk: lane.chunk,
                offset: number(lane.offset),
                total: number(data.len()),
                data: data.slice(lane.offset..end),
            };
            if !send(Due::Essential(record)) {
                return;
            }
            self.credit -= piece as f64;
            lane.offset = end;
            if lane.offset == data.len() {
                lane.next();
            }
        }
    }

    fn advance_enhanced(&mut self, step: Duration, send: &mut impl FnMut(Due) -> bool) {
        let film = self.begun + self.elapsed;
        let has_lead = self.position >= film + self.lead;
        let pace = if has_lead { 1.0 } else { HASTE };
        let mut target = self.position + step.mul_f64(pace);
        let video_end = self.opened.video.start(u32::MAX);
        target = target.min(video_end);
        while self.enhanced.chunk < self.opened.video.count() {
            let chunk = self.enhanced.chunk;
            let Some(data) = self.enhanced.loaded.get(&chunk).cloned() else {
                // The disk is late; so is everything after.
                return;
            };
            let (start, end) = {
                let video = &self.opened.video;
                (video.start(chunk), video.start(chunk + 1))
            };
            let is_done = target >= end;
            let share = if is_done || end <= start {
                1.0
            } else {
                target.saturating_sub(start).as_secs_f64() / (end - start).as_secs_f64()
            };
            let allowed = (data.len() as f64 * share) as u64;
            if !self.send_frames(&data, allowed, is_done, send) {
                return;
            }
            self.position = target.min(end);
            if !is_done {
                return;
            }
            let sent = Essential::Sent {
                chunk,
                adus: self.sent_adus,
                left_out: 0,
            };
            if !send(Due::Essential(sent)) {
                return;
            }
            self.enhanced.next();
            self.begin_chunk();
        }
    }

    /// Sends parts of frames until `allowed` bytes of the chunk have left. False: there was no room.
    fn send_frames(
        &mut self,
        data: &Bytes,
        allowed: u64,
        is_done: bool,
        send: &mut impl FnMut(Due) -> bool,
    ) -> bool {
        while let Some(&(frame, place)) = self.frames.front() {
            if self.sent_bytes >= allowed && !is_done {
                break;
            }
            let video = &self.opened.video;
            let size = video.size(frame) as usize;
            let from = place + self.sent_of_frame;
            let bytes = (size - self.sent_of_frame).min(ADU_BYTES_MAX - ENHANCED_HEADER_BYTES);
            if bytes == 0 {
                self.frames.pop_front();
                continue;
            }
            let ticks = video.decode_start(frame).as_nanos() * 90_000 / 1_000_000_000;
            let adu = Enhanced {
                sequence: self.sequence,
                timestamp: (ticks & u128::from(u32::MAX)) as u32,
                chunk: self.enhanced.chunk,
                track: u8::try_from(frame.track).unwrap_or(u8::MAX),
                sample: number(frame.sample),
                offset: number(self.sent_of_frame),
                data: data.slice(from..from + bytes),
            };
            let importance = video.partition.importance(frame.track, frame.sample);
            if !send(Due::Enhanced(adu, importance)) {
                return false;
            }
            self.sequence = self.sequence.wrapping_add(1);
            self.sent_adus += 1;
            self.sent_bytes += bytes as u64;
            self.sent_of_frame += bytes;
            if self.sent_of_frame == size {
                self.frames.pop_front();
                self.sent_of_frame = 0;
            }
        }
        true
    }

    /// Puts the frames of the chunk that the enhanced flow is in into order.
    fn begin_chunk(&mut self) {
        self.frames.clear();
        self.sent_of_frame = 0;
        self.sent_bytes = 0;
        self.sent_adus = 0;
        let video = &self.opened.video;
        let chunk = self.enhanced.chunk;
        if chunk >= video.count() {
            return;
        }
        let mut place = 0;
        let mut frames: Vec<_> = video
            .frames(chunk, Part::Enhanced)
            .map(|frame| {
                let at = place;
                place += video.size(frame) as usize;
                (frame, at)
            })
            .collect();
        frames.sort_by_key(|&(frame, at)| (video.decode_start(frame), at));
        self.frames = frames.into();
    }
}

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
