//! The overlay: a small set of nodes that know each other by key, measure the links between them and
//! carry each other's packets [Daemons §2].
//!
//! Sans-IO: what arrives goes in with the time, what should be done comes out. An [`Agent`] is one node's part
//! of the overlay; it speaks to other members through sessions that its host keeps, and never sees an
//! address except as data. It is no router: it says which ways are good, and the host opens circuits.
//!
//! | module | holds |
//! |---|---|
//! | [`agent`] | [`Agent`]: inputs, outputs, views |
//! | [`members`] | the table of members and the ring that says who watches whom |
//! | [`wire`] | messages: records, claims, digests (`spec/overlay.md`) |
//! | [`measure`] | what this node's own links can do: test messages, regression, budget |
//! | [`relay`] | a relay's book of circuits, and the requests for them (`spec/relay.md`) |
//! | [`paths`] | which ways a message should take: the graph, trust, hysteresis |
//! | [`keys`] | [`Keys`]: signatures, which the host makes and checks |
//! | [`config`] | [`Config`] |

pub mod agent;
pub mod config;
pub mod keys;
pub mod measure;
pub mod members;
pub mod paths;
pub mod relay;
pub mod wire;

pub use agent::{Agent, Event, LinkView, MemberView, Output, Refused, Sample, UnknownMember};
pub use config::{Config, ConfigError, Member};
pub use keys::{FakeKeys, Keys};
pub use measure::Source;
pub use members::State;
pub use paths::{Fault, Path, Routes};
