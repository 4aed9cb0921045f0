//! Bytes of each record.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, StreamId};
use anabranch_sched::{ChannelView, StreamView};
use anabranch_spec::{ChannelChoice, ChannelMask, Plan, StreamSpec};

use super::{
    codec::{put, put_f64, put_signed, put_text},
    record::{ChannelChange, Fragment, Outcome},
};

pub(super) const BEGIN: u8 = 1;
pub(super) const POLICY: u8 = 2;
pub(super) const OPENED: u8 = 3;
pub(super) const ADU: u8 = 4;
pub(super) const OVER: u8 = 5;
pub(super) const CHANNEL: u8 = 6;
pub(super) const OUTCOME: u8 = 7;
pub(super) const PLAN: u8 = 8;
pub(super) const RUN: u8 = 9;
pub(super) const DECISION: u8 = 10;
pub(super) const TOOK: u8 = 11;
pub(super) const PACKET: u8 = 12;
pub(super) const FILLED: u8 = 13;
pub(super) const RESTED: u8 = 14;
pub(super) const WAIT: u8 = 15;
pub(super) const END: u8 = 255;

/// Flags of a run.
pub(super) const RUN_ALL_VIEWS: u8 = 1;
pub(super) const RUN_ANY_CHANGED: u8 = 2;
pub(super) const RUN_EXPECTED: u8 = 4;
pub(super) const RUN_PLANNED: u8 = 8;
pub(super) const RUN_NEW_CHANNELS: u8 = 16;

/// Flags of a stream's view.
pub(super) const VIEW_DEADLINE: u8 = 1;
pub(super) const VIEW_CHOICE: u8 = 2;
pub(super) const VIEW_REDUNDANT: u8 = 4;
pub(super) const VIEW_CLAIM: u8 = 8;
pub(super) const VIEW_PINNED: u8 = 16;

/// Flags of a stream.
pub(super) const STREAM_RELIABLE: u8 = 1;
pub(super) const STREAM_LIFETIME: u8 = 2;
pub(super) const STREAM_GUARANTEE: u8 = 4;

/// The flags that are set.
pub(super) fn flags<const N: usize>(flags: [(bool, u8); N]) -> u8 {
    let set = flags.into_iter().filter(|(is_set, _)| *is_set);
    set.fold(0, |all, (_, flag)| all | flag)
}

pub(super) fn put_duration(bytes: &mut Vec<u8>, duration: Duration) {
    put(
        bytes,
        u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX),
    );
}

/// Writes a time by its difference from `base`.
pub(super) fn put_time(bytes: &mut Vec<u8>, base: Instant, at: Instant) {
    put_signed(bytes, at.as_nanos().wrapping_sub(base.as_nanos()) as i64);
}

pub(super) fn opened(bytes: &mut Vec<u8>, stream: StreamId, spec: &StreamSpec) {
    put(bytes, stream.0);
    bytes.push(spec.priority.0);
    let flags = flags([
        (spec.reliable, STREAM_RELIABLE),
        (spec.lifetime.is_some(), STREAM_LIFETIME),
        (spec.guarantee.is_some(), STREAM_GUARANTEE),
    ]);
    bytes.push(flags);
    if let Some(lifetime) = spec.lifetime {
        put_duration(bytes, lifetime);
    }
    if let Some(guarantee) = &spec.guarantee {
        put(bytes, guarantee.required().as_bps());
        put_duration(bytes, guarantee.window);
    }
    put_text(bytes, &spec.label);
}

pub(super) fn change(change: ChannelChange) -> u8 {
    change as u8
}

pub(super) fn outcome(bytes: &mut Vec<u8>, outcome: Outcome) {
    match outcome {
        Outcome::Lost => bytes.push(0),
        Outcome::Acked(rtt) => {
            bytes.push(1);
            put_duration(bytes, rtt);
        }
    }
}

pub(super) fn plan(bytes: &mut Vec<u8>, plan: &Plan) {
    put(bytes, plan.assignments.len() as u64);
    for assignment in &plan.assignments {
        put(bytes, assignment.stream.0);
        put_duration(bytes, assignment.window);
        put_f64(bytes, assignment.window_bytes);
        put_f64(bytes, assignment.constraint);
        bytes.push(u8::from(assignment.may_split));
        put(bytes, assignment.shares.len() as u64);
        for &(channel, share) in &assignment.shares {
            put(bytes, channel.0);
            put_f64(bytes, share);
        }
    }
}

/// Fields of a channel's view, in the order of the bits that tell which of them follow.
fn fields(view: &ChannelView) -> [u64; 10] {
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    [
        view.slots as u64,
        view.packet_bytes as u64,
        nanos(view.rtt_smoothed),
        nanos(view.rtt_min),
        nanos(view.rtt_variation),
        view.rate_bytes_per_s.to_bits().swap_bytes(),
        view.window_bytes,
        view.in_flight_bytes,
        view.loss.to_bits().swap_bytes(),
        nanos(view.rtt_usual),
    ]
}

/// Writes the fields in which a view differs from the one before.
pub(super) fn channel_view(bytes: &mut Vec<u8>, view: &ChannelView, before: Option<&ChannelView>) {
    let now = fields(view);
    let before = before.map(fields);
    let differs = |index: usize| before.is_none_or(|before| before[index] != now[index]);
    let bits = (0..now.len()).fold(0_u64, |bits, index| {
        bits | u64::from(differs(index)) << index
    });
    put(bytes, bits);
    for (index, &value) in now.iter().enumerate() {
        if differs(index) {
            put(bytes, value);
        }
    }
}

pub(super) fn mask(bytes: &mut Vec<u8>, mask: ChannelMask) {
    put(bytes, mask.bits());
}

pub(super) fn stream_view(bytes: &mut Vec<u8>, base: Instant, view: &StreamView) {
    put(bytes, view.id.0);
    let has_choice = view.choice != ChannelChoice::default();
    let flags = flags([
        (view.deadline.is_some(), VIEW_DEADLINE),
        (has_choice, VIEW_CHOICE),
        (view.redundant, VIEW_REDUNDANT),
        (view.claim.is_some(), VIEW_CLAIM),
        (view.pinned.is_some(), VIEW_PINNED),
    ]);
    bytes.push(flags);
    bytes.push(view.priority.0);
    put(bytes, u64::from(view.weight));
    put(bytes, view.backlog_bytes);
    if let Some(deadline) = view.deadline {
        put_time(bytes, base, deadline);
    }
    if has_choice {
        mask(bytes, view.choice.preferred);
        mask(bytes, view.choice.neutral);
        mask(bytes, view.choice.avoided);
    }
    if let Some(claim) = &view.claim {
        put_f64(bytes, claim.bytes_per_s);
        put_duration(bytes, claim.window);
        put(bytes, u64::from(claim.rank));
    }
    if let Some(pinned) = view.pinned {
        put(bytes, pinned.map_or(0, |index| index as u64 + 1));
    }
}

pub(super) fn fragment(bytes: &mut Vec<u8>, fragment: &Fragment) {
    put(bytes, fragment.stream.0);
    put(bytes, fragment.sequence);
    put(bytes, fragment.offset);
    put(bytes, fragment.bytes << 1 | u64::from(fragment.is_copy));
}

pub(super) fn packet(bytes: &mut Vec<u8>, (channel, container): (ChannelId, u64), size: u64) {
    bytes.push(PACKET);
    put(bytes, channel.0);
    put(bytes, container);
    put(bytes, size);
}
