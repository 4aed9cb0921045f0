//! Statistics of the proxy.

use anabranch_media::{FrameType, write::Counts};
use serde_json::{Value, json};

use crate::counter::Counter;

/// Frames by type.
#[derive(Debug, Default)]
pub(crate) struct FrameCounters {
    sent: [Counter; FrameType::ALL.len()],
    lost: [Counter; FrameType::ALL.len()],
    late: [Counter; FrameType::ALL.len()],
    left_out: [Counter; FrameType::ALL.len()],
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

    /// Counts frames that a viewer did not get, whether lost or useless without a lost one.
    pub(crate) fn left_out(&self, counts: &Counts) {
        for frame in FrameType::ALL {
            self.left_out[frame as usize].add(counts.of(frame).into());
        }
    }

    fn all_left_out(&self) -> u64 {
        self.left_out.iter().map(Counter::get).sum()
    }

    fn json(&self) -> Value {
        let of = |frame: FrameType| {
            let of = |counters: &[Counter]| counters[frame as usize].get();
            let (sent, lost, late) = (of(&self.sent), of(&self.lost), of(&self.late));
            let left_out = of(&self.left_out);
            let counts = json!({ "sent": sent, "lost": lost, "late": late, "left_out": left_out });
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
    /// Frames that the origin sent and that were lost.
    pub(crate) lost_on_the_way: Counter,
    /// Requests for chunks that were answered at once, from memory or the cache.
    pub(crate) at_once: Counter,
    /// Requests for chunks that had to wait for the origin and were answered, and the sum of their times in ms.
    pub(crate) waits: Counter,
    pub(crate) waited_ms: Counter,
    /// Stalls of players as far as the proxy can tell, and the sum of their times in ms.
    pub(crate) stalls: Counter,
    pub(crate) stalled_ms: Counter,
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
            "lost_on_the_way_frames": self.lost_on_the_way.get(),
            "left_out_frames": self.frames.all_left_out(),
            "at_once": self.at_once.get(),
            "waits": self.waits.get(),
            "waited_ms": self.waited_ms.get(),
            "stalls": self.stalls.get(),
            "stalled_ms": self.stalled_ms.get(),
            "responses": self.responses.get(),
            "response_bytes": self.response_bytes.get(),
        })
    }
}
