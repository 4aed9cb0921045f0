//! Statistics of the proxy.

use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_media::{FrameType, write::Counts};
use serde_json::{Value, json};

/// A monotonic counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Frames by type.
#[derive(Debug, Default)]
pub(crate) struct FrameCounters {
    sent: [Counter; FrameType::ALL.len()],
    lost: [Counter; FrameType::ALL.len()],
    late: [Counter; FrameType::ALL.len()],
}

impl FrameCounters {
    pub(crate) fn sent(&self, frame: FrameType, count: u64) {
        self.sent[frame as usize].add(count);
    }

    pub(crate) fn lost(&self, counts: &Counts) {
        for frame in FrameType::ALL {
            self.lost[frame as usize].add(counts.of(frame).into());
        }
    }

    /// Counts a lost frame that came after its chunk had been finished without it.
    pub(crate) fn late(&self, frame: FrameType) {
        self.late[frame as usize].add(1);
    }

    fn json(&self) -> Value {
        let of = |frame: FrameType| {
            let of = |counters: &[Counter]| counters[frame as usize].get();
            let (sent, lost, late) = (of(&self.sent), of(&self.lost), of(&self.late));
            let counts = json!({ "sent": sent, "lost": lost, "late": late });
            (frame.letter().to_string(), counts)
        };
        FrameType::ALL
            .into_iter()
            .map(of)
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

/// Counters of a proxy.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) plays: Counter,
    pub(crate) refused: Counter,
    pub(crate) essential_bytes: Counter,
    pub(crate) enhanced_bytes: Counter,
    /// ADUs of enhanced frames that the origin sent, and those of them that came in time.
    pub(crate) sent_adus: Counter,
    pub(crate) arrived_adus: Counter,
    /// ADUs of enhanced frames that came after their chunk was finished.
    pub(crate) late_adus: Counter,
    /// Frames of chunks that came from the origin.
    pub(crate) frames: FrameCounters,
    /// Frames that the origin left out, because the pipe had no capacity for them; they count as lost, too.
    pub(crate) thinned: Counter,
    /// Frames that were lost and came in time after a repeated request.
    pub(crate) repaired: Counter,
    /// Frames that viewers did not get, whether lost or useless without a lost one.
    pub(crate) left_out: Counter,
    pub(crate) responses: Counter,
    pub(crate) response_bytes: Counter,
}

impl Stats {
    pub(crate) fn json(&self) -> Value {
        json!({
            "plays": self.plays.get(),
            "refused": self.refused.get(),
            "essential_bytes": self.essential_bytes.get(),
            "enhanced_bytes": self.enhanced_bytes.get(),
            "sent_adus": self.sent_adus.get(),
            "arrived_adus": self.arrived_adus.get(),
            "late_adus": self.late_adus.get(),
            "frames": self.frames.json(),
            "thinned_frames": self.thinned.get(),
            "repaired_frames": self.repaired.get(),
            "left_out_frames": self.left_out.get(),
            "responses": self.responses.get(),
            "response_bytes": self.response_bytes.get(),
        })
    }
}
