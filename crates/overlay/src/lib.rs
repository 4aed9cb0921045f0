//! The overlay: a small set of nodes that know each other by key, measure the links between them and
//! carry each other's packets [Daemons §2].
//!
//! Sans-IO: the host passes in events with the time, and carries out the requests that it gets. An [`Agent`] is the part of the
//! overlay on one node; it exchanges messages with other members through sessions that its host keeps, and handles addresses only
//! as data. It is not a router: it chooses paths, and the host opens circuits.
//!
//! | module | holds |
//! |---|---|
//! | [`agent`] | [`Agent`]: inputs, outputs, views |
//! | [`members`] | the member table, and the ring that assigns monitors to members |
//! | [`wire`] | messages: records, claims, digests (`spec/overlay.md`) |
//! | [`measure`] | measurement of this node's own links: test messages, regression, budget |
//! | [`relay`] | the circuit table of a relay, and the requests for circuits (`spec/relay.md`) |
//! | [`paths`] | the choice of paths for a message: the graph, trust, hysteresis |
//! | [`keys`] | [`Keys`]: signatures, which the host creates and verifies |
//! | [`config`] | [`Config`] |

pub mod agent;
pub mod config;
pub mod keys;
pub mod measure;
pub mod members;
pub mod paths;
pub mod relay;
pub mod wire;

pub use agent::{
    Agent, Event, LinkView, MemberView, Output, Refused, Sample, Setup, UnknownMember,
};
pub use config::{Config, ConfigError, Member};
pub use keys::{FakeKeys, Keys};
pub use measure::Source;
pub use members::State;
pub use paths::{Fault, Path, Routes};
pub use wire::{Load, record::ADDRESSES_MAX};
