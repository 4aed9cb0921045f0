//! Stored video in two flows through a pipe [Two-flow]: what is sent when, how fast, and for whom there is room.
//!
//! A video is divided into an *essential* part (I frames, say), which travels reliably and one segment ahead of its use, and an
//! *enhanced* part, which travels in real time and may lose frames. This room decides; it does not send, knows no file
//! format, no socket and no clock. Frames come as plain lists of size, time and class ([`Frame`]), time as an argument.
//!
//! | module | holds |
//! |---|---|
//! | [`frame`] | [`Frame`]: size, time and class |
//! | [`segments`] | [`Segments`]: the film in pieces of equal time |
//! | [`rate`] | target rates, and what packets' heads add to them |
//! | [`schedule`] | [`Schedule`]: which segment of which flow travels when, and how fast |
//! | [`catching_up`] | the same for a play that may begin anywhere |
//! | [`pump`] | [`Pump`]: a leaky bucket for each flow, one timer for all |
//! | [`header`] | [`Header`]: what goes before each part of an enhanced frame on its way |
//! | [`arrivals`] | [`Arrivals`]: what came, what is missing, from sequence numbers |
//! | [`admission`] | [`admission::Gate`]: who may join a pipe; what would fit, and when to ask again |
//! | [`adaptation`] | [`adaptation::Yielding`]: how fast the enhanced flow may be while the pipe is narrow |
//! | [`thinning`] | which enhanced frames a budget is spent on |
//! | [`ahead`] | what a lightly loaded pipe sends before its time |
//! | [`prefetch`] | what a pipe has to spare, for the essential flows that play is nearest to |
//! | [`prefix`] | how much of the essential flow must lie at the proxy beforehand |
//!
//! The loop of a sender: [`Schedule::at`] says the rates of this segment; frames are cut, headed and pushed into the
//! [`Pump`]; [`Pump::poll`] releases what is due until [`Pump::poll_timeout`].

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
