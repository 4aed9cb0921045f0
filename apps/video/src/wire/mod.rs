//! Messages between proxy and origin, in one session: the pipe.
//!
//! | stream | opened by | kind | ADUs |
//! |---|---|---|---|
//! | [`CONTROL_LABEL`] | proxy, both ways | reliable, ordered | [`Request`]s and [`Reply`]s, JSON |
//! | [`FETCH_LABEL`] | origin | reliable, ordered | [`Piece`]s of indexes and of chunks that were requested |
//! | [`Flow::Essential`] | origin, one for each play | reliable, ordered | [`Essential`] |
//! | [`Flow::Enhanced`] | origin, one for each play | unreliable, with a deadline | [`Enhanced`] |
//!
//! ```text
//! proxy                               origin
//!   Hello ─────────────────────────►          the ticket's secret
//!        ◄────────────────── Welcome | Refused
//!   List, Open ────────────────────►
//!        ◄── Catalogue, Opened | Refused      the index in pieces on the fetch stream
//!   Play ──────────────────────────►
//!        ◄────────────────── Playing | Refused
//!        ◄── essential: Data … , Sent         chunks ahead; what was sent of a chunk's enhanced data
//!        ◄── enhanced: part of a frame …      in real time
//!   Repair ────────────────────────►          single frames in pieces, where there is time
//!   Seek, Stop ────────────────────►
//! ```
//!
//! The digit in a label is the version. Every message has a maximum length; a longer or invalid one ends the session.

mod control;
mod record;

pub(crate) use control::{ENTRIES_MAX, REPAIRED_MAX};
pub use control::{
    Entry, From, MESSAGE_BYTES_MAX, NAME_BYTES_MAX, Refusal, RefusalKind, Reply, Request,
};
pub use record::{
    ADU_BYTES_MAX, ENHANCED_HEADER_BYTES, Enhanced, Essential, PIECE_BYTES_MAX, Piece,
};

/// Label of the control stream.
pub const CONTROL_LABEL: &str = "anabranch-video/1";
/// Label of the stream with requested pieces.
pub const FETCH_LABEL: &str = "anabranch-video-fetch/1";
const ESSENTIAL_LABEL: &str = "anabranch-video-essential/1 ";
const ENHANCED_LABEL: &str = "anabranch-video-enhanced/1 ";

/// An invalid message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer sent an invalid message: {0}")]
pub struct WireError(pub String);

/// One of the two flows of a play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Data that must arrive.
    Essential,
    /// Data that may be lost.
    Enhanced,
}

impl Flow {
    /// The label of this flow's stream of a play.
    pub fn label(self, play: u32) -> String {
        match self {
            Self::Essential => format!("{ESSENTIAL_LABEL}{play}"),
            Self::Enhanced => format!("{ENHANCED_LABEL}{play}"),
        }
    }

    /// The flow and the play of the stream with this label; `None`: the label is of neither flow.
    pub fn of_label(label: &str) -> Option<(Self, u32)> {
        let found = label
            .strip_prefix(ESSENTIAL_LABEL)
            .map(|play| (Self::Essential, play));
        let found = found.or_else(|| {
            let play = label.strip_prefix(ENHANCED_LABEL)?;
            Some((Self::Enhanced, play))
        });
        let (flow, play) = found?;
        let play = play.parse().ok()?;
        (flow.label(play) == label).then_some((flow, play))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_the_flow_and_the_play() {
        for flow in [Flow::Essential, Flow::Enhanced] {
            assert_eq!(Flow::of_label(&flow.label(17)), Some((flow, 17)));
        }
        for label in [
            "",
            "telemetry",
            "anabranch-video-essential/1 +1",
            "anabranch-video-essential/1 x",
        ] {
            assert_eq!(Flow::of_label(label), None, "{label}");
        }
    }
}
