//! State of a processing node and of its peers, without sockets and clocks: ADUs that a source keeps, the offered stream at the node, the
//! place of each subscriber in it, and a subscriber's account of what it has. Together they lose and repeat nothing of a reliable stream,
//! wherever a session ends or a node starts again (`spec/processing.md` §5).
//!
//! ```text
//! source                        processing node                               subscriber
//! Retained ──ADUs──────────────► Offered ◄── Subscription::next ──ADUs, marks──► Progress
//!          ◄──acknowledged──────         ◄── Offered::held ◄──────────held──────
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `retained` | [`Retained`]: a source's ADUs until nobody needs them |
//! | `offered` | [`Offered`]: an offered stream with its derivations |
//! | `subscription` | [`Subscription`]: a subscriber's place in it |
//! | `progress` | [`Progress`]: what a subscriber has |
//! | [`windows`] | [`Windows`](windows::Windows): which windows of the source's time were in time at a node, and what was late |
//! | `verdicts` | [`Verdicts`]: the accounts of both ends put together |

mod offered;
mod progress;
mod retained;
mod subscription;
#[cfg(test)]
mod tests;
mod verdicts;
pub mod windows;

pub use offered::{End, GRACE, Gap, Offered, ReaderId, Rules, SOURCE, Terms};
pub use progress::Progress;
pub use retained::{OutOfRange, Retained};
pub use subscription::{Next, Request, Subscription, TOO_SLOW, delivery};
pub use verdicts::Verdicts;

/// Place of a subscriber in the stream of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Number of the source's next ADU.
    pub next: u64,
    /// Phase of each operator, one for each step ([`Running::phases`](crate::Running::phases)); `None`: that right after an ADU that passed
    /// all steps.
    pub phases: Option<Vec<u32>>,
}
