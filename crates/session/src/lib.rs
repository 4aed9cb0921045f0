//! Protocol engine: sessions, streams, fragments, and their assignment to channels. Sans-IO.
//!
//! It uses no socket, clock, thread, file or global randomness; a host passes it packets and the time
//! and carries out its requests. The same engine runs in the simulator and on real sockets.
//!
//! The loop of a host:
//!
//! ```text
//!   packet ──► handle_packet ─┐
//!   timer  ──► handle_timeout ─┼─► poll_transmit until None, send
//!   application ──► commands  ─┘   poll_event until None, notify the application
//!                                  poll_timeout, arm the timer
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | [`Engine`]: the only entry and exit; routes between channels and sessions |
//! | [`event`] | [`Event`]: events for the application |
//! | [`config`] | [`Config`] |
//! | `session` | a session: its channels, streams, pump, outcomes of packets |
//! | `send`, `recv` | send streams, with the queue of what is sent again; receive streams |
//! | `flight` | the fragments in each packet in flight |
//! | [`journal`] | a log of packets: time, channel and outcome |
//! | `parameters` | [`StreamParameters`]: the parameters of an open stream that may be changed |
//! | `links` | the links to keep open, and the times to dial them again |
//! | `local` | [`LocalDescription`]: a local socket as objectives and path preferences see it |
//! | [`objective`] | objectives as applications inject them, header fields |
//! | `report` | measurements of the receiver for the sender |
//! | `reservations` | the promises of all sessions of a node on one uplink |
//! | `token` | the proof that a further channel belongs to a session |
//! | [`wire`] | the format inside QUIC packets |
//! | [`ranges`] | sets of bytes and numbers |

mod attempt;
pub mod config;
pub mod engine;
pub mod event;
mod flight;
pub mod journal;
mod links;
mod local;
pub mod objective;
mod parameters;
pub mod ranges;
mod recv;
mod report;
mod reservations;
mod send;
mod session;
pub mod stats;
mod token;
pub mod transcript;
pub mod wire;

pub use anabranch_admission::{
    Explanation, Grant, Offer, PROBABILITIES, Prior, Reason, Reduction, Refusal, Steadiness, Term,
    promise,
};
#[cfg(feature = "qlog")]
pub use anabranch_channel::qlog;
pub use anabranch_channel::{
    AllowList, CloseReason, Config as ChannelConfig, ConnectError, Controller, Ctcp, Liveness,
    Received, SecretKey, Stats, Transmit, Undeliverable, faults, is_contained, is_signed,
};
pub use anabranch_estimate::{PathReport, Promise, model};
pub use anabranch_hose as hose;
pub use anabranch_metering::{self as metering, Marginal};
pub use anabranch_sched::{Callback, Policy, Walk};
pub use anabranch_spec::{
    ADU_BYTES_MAX, Demand, DropOrder, Grade, Guarantee, GuaranteeError, LABEL_BYTES_MAX, OnWarning,
    Order, PathRule, Preferences, Priority, Profile, Selector, Share, Shares, SpecError,
    StreamSpec, Tenant, Treatment,
};
pub use attempt::{Attempt, Attempts};
pub use config::{Config, Coupling, Probing};
pub use engine::{Engine, Refusals, Refused, SessionMut, StreamMut};
pub use event::{
    Adu, Event, Missing, PromiseEvent, SendError, SessionCloseReason, SessionEvent, StreamError,
    StreamEvent,
};
pub use links::Link;
pub use local::{ATTRIBUTES_MAX, Attribute, LocalDescription};
pub use objective::{FieldValue, ObjectiveError, ObjectiveId};
pub use parameters::StreamParameters;
pub use session::{Chances, PathError, TakenOut};
pub use stats::{
    ChannelReport, ChannelStatus, Discarded, DroppedAdus, LatencyMode, SessionStats, StreamStats,
};
