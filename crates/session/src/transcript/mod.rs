//! Transcript of a session: what passes between its streams, its scheduling policy and its channels, to repeat the decisions later.
//!
//! It contains the inputs of the policy (slots, round trips and rates of channels, backlogs and deadlines of streams, the mapping of
//! promised streams), its decisions, the fragments that were put on each channel, the outcomes of packets, and the sizes of ADUs.
//! It contains nothing of what an ADU says. Format: `spec/transcript.md`.
//!
//! | file | holds |
//! |---|---|
//! | `codec` | integers of variable length, strings |
//! | `recorder` | [`Recorder`]: writes while a session runs, in memory of bounded size |
//! | `encode` | the bytes of each record |
//! | `record` | [`Record`]: a record that was read |
//! | `decode` | [`Transcript`]: reads the records of a file |
//! | `replay` | [`replay()`]: asks the same policy again, and compares its decisions |
//! | `what_if` | [`what_if()`]: asks another policy, with a model of what would have followed |

mod codec;
mod decode;
mod encode;
mod record;
mod recorder;
mod replay;
mod state;
#[cfg(test)]
mod tests;
mod what_if;

pub use self::{
    decode::{Malformed, Transcript},
    record::{ChannelChange, Fragment, Outcome, Record},
    recorder::{BYTES_MIN, Recorder},
    replay::{Difference, Replayed, Unrepeatable, WARM_UP, replay},
    what_if::{Estimate, StreamEstimate, WhatIf, what_if},
};

/// First bytes of a file.
const MAGIC: &[u8; 8] = b"ABTRANSC";
/// Version of the format. Others are refused.
const VERSION: u64 = 2;
