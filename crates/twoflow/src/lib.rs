//! Stored video in two flows through a pipe [Two-flow]: schedules, rates and admission.
//!
//! A video is divided into an *essential* part (I frames, for example), which travels reliably and one segment ahead of
//! its use, and an *enhanced* part, which travels in real time and may lose frames. This crate decides; it does not
//! send, and has no file format, no socket and no clock. Frames come as plain lists of size, time and class
//! ([`Frame`]), time as an argument.
//!
//! | module | contents |
//! |---|---|
//! | [`frame`] | [`Frame`]: size, time and class |
//! | [`segments`] | [`Segments`]: the film in segments of equal time |
//! | [`rate`] | target rates, and the overhead of packet headers |
//! | [`schedule`] | [`Schedule`]: the segment that each flow carries at a time, and its rate |
//! | [`catching_up`] | the same for a play that may begin anywhere |
//! | [`pump`] | [`Pump`]: a leaky bucket for each flow, one timer for all |
//! | [`header`] | [`Header`]: the header of each part of an enhanced frame |
//! | [`arrivals`] | [`Arrivals`]: packets that arrived or are missing, from sequence numbers |
//! | [`admission`] | [`admission::Gate`]: admission to a pipe; what would fit, and when to ask again |
//! | [`adaptation`] | [`adaptation::Yielding`]: the rate of the enhanced flow while the pipe is narrow |
//! | [`thinning`] | choice of the enhanced frames on which a budget is spent |
//! | [`ahead`] | data that a lightly loaded pipe sends before its time |
//! | [`prefetch`] | spare capacity for the essential flows closest to underrun |
//! | [`prefix`] | part of the essential flow that must be at the proxy beforehand |
//!
//! The loop of a sender: [`Schedule::at`] gives the rates of the current segment; frames are divided into parts, given
//! headers and pushed into the [`Pump`]; [`Pump::poll`] releases what is due until [`Pump::poll_timeout`].

pub mod adaptation;
pub mod admission;
pub mod ahead;
pub mod arrivals;
pub mod catching_up;
pub mod frame;
pub mod header;
pub mod prefetch;
pub mod prefix;
pub mod pump;
pub mod rate;
pub mod schedule;
pub mod segments;
pub mod thinning;

pub use arrivals::Arrivals;
pub use frame::{Class, Frame};
pub use header::{Header, HeaderError};
pub use pump::{FlowId, Pump, Release};
pub use schedule::{Schedule, Step};
pub use segments::{Segment, Segments, SegmentsError};
