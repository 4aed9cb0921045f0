//! The engine: sessions, streams, fragments, and what goes where. Sans-IO.
//!
//! It knows no socket, clock, thread, file or global randomness; a host gives it packets and the time
//! and carries out what it asks for. The same engine runs in the simulator and on real sockets.
//!
//! The loop of a host:
//!
//! ```text
//!   packet ──► handle_packet ─┐
//!   timer  ──► handle_timeout ─┼─► poll_transmit until None, send
//!   application ──► commands  ─┘   poll_event until None, tell the application
//!                                  poll_timeout, arm the timer
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | [`Engine`]: the one mouth and the one ear; routes between channels and sessions |
//! | [`event`] | [`Event`]: what the application is told |
//! | [`config`] | [`Config`] |
//! | `session` | a session: its channels, streams, pump |
//! | `send`, `recv` | the two halves of a stream |
//! | `flight` | which fragments are in which packet |
//! | [`journal`] | what was sent when, by which channel, and what became of it |
//! | `parameters` | [`StreamParameters`]: what may be changed of an open stream |
//! | `links` | which paths to keep open, and when to dial again |
//! | [`objective`] | objectives as applications inject them, header fields |
//! | [`promise`] | what streams were promised, on what evidence, and how it was kept |
//! | `report` | what the receiver measures for the sender |
//! | `token` | how a further channel proves that it belongs to a session |
//! | [`wire`] | the format inside QUIC packets |
//! | [`ranges`] | sets of bytes and numbers |

pub mod config;
pub mod engine;
pub mod event;
mod flight;
pub mod journal;
mod links;
mod measure;
pub mod objective;
mod parameters;
pub mod promise;
pub mod ranges;
mod recv;
mod report;
mod send;
mod session;
pub mod stats;
mod token;
pub mod wire;

pub use anabranch_channel::{
    AllowList, CloseReason, Config as ChannelConfig, ConnectError, Controller, Ctcp, Liveness,
    Received, SecretKey, Stats, Transmit, faults, is_contained, is_signed,
};
pub use anabranch_hose as hose;
pub use anabranch_metering::{self as metering, Marginal};
pub use anabranch_sched::{
    Callback, Demand, DropOrder, Grade, Guarantee, GuaranteeError, Order, Policy, Priority,
    SpecError, StreamSpec, Walk,
    mapping::{Offer, Reduction, Term},
    model,
};
pub use config::{Config, Coupling};
pub use engine::{Engine, SessionMut, StreamMut};
pub use event::{
    Adu, Event, Missing, PromiseEvent, SendError, SessionCloseReason, SessionEvent, StreamError,
    StreamEvent,
};
pub use links::Link;
pub use objective::{FieldValue, ObjectiveError, ObjectiveId};
pub use parameters::StreamParameters;
pub use promise::{Explanation, Grant, Reason, Refusal};
pub use stats::{
    ChannelReport, ChannelStatus, LatencyMode, PathReport, Promise, SessionStats, StreamStats,
};
