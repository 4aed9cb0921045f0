//! Host 1: the engine in virtual time.
//!
//! A [`World`] holds nodes (each a whole [`Engine`](anabranch_session::Engine) with an [`App`] on
//! top) and the network between them: in the simplest case wires, each a
//! [`Duplex`](anabranch_link::Duplex) link between one socket of each of two nodes; else routes of several
//! hops, which may share wires with each other and with cross-traffic. Time jumps from event to event; a
//! run is a pure function of its seed.
//!
//! What is simulated is the network and the clock only: encryption, handshakes, congestion control,
//! scheduling are the code that runs on sockets.
//!
//! | module | holds |
//! |---|---|
//! | [`world`] | [`World`]: event queue, nodes |
//! | [`network`] | wires, routes, cross-traffic, packets under way |
//! | [`app`] | [`App`]: what runs on a node, and [`Context`], what it may do |
//! | [`machine`] | [`Raw`]: a node without an engine |
//! | [`apps`] | ready-made applications: bulk transfer, message stream, receiver |
//! | [`flow`] | greedy flows of the same engine, as competition |
//! | [`topology`] | networks by name, and the papers' testbeds |
//! | [`log`] | the packet log, for people and for comparing runs |
//! | [`epoch`] | the one place that reads a clock, for QUIC's sake |
//! | [`overlay`] | overlay agents by the thousand, messages between them without the engine |
//! | [`storm`] | random worlds with faults, and the checkers of what must hold in all of them |

pub mod app;
pub mod apps;
pub mod epoch;
pub mod flow;
pub mod log;
pub mod machine;
pub mod network;
pub mod overlay;
pub mod storm;
pub mod topology;
pub mod world;

pub use app::{App, Context};
pub use flow::{Flow, FlowPlan};
pub use log::PacketLog;
pub use machine::Raw;
pub use network::{CrossIndex, Hop, IP_UDP_BYTES, RouteIndex, Wire, WireIndex};
pub use topology::Topology;
pub use world::{NodeIndex, World};
