//! Simulator: a host that runs the engine in virtual time.
//!
//! A [`World`] holds nodes (each a whole [`Engine`](anabranch_session::Engine) with an [`App`] on top) and the network
//! between them. In the simplest case the network consists of wires, each a [`Duplex`](anabranch_link::Duplex) link
//! between one socket of each of two nodes; otherwise of routes of several hops, which may share wires with each other
//! and with cross-traffic. Time jumps from event to event; a run is a pure function of its seed.
//!
//! Only the network and the clock are simulated: encryption, handshakes, congestion control and scheduling are the code
//! that runs on sockets.
//!
//! | module | contents |
//! |---|---|
//! | [`world`] | [`World`]: event queue, nodes |
//! | `hop` | numbers of nodes, wires and routes; [`Hop`], one direction of a wire |
//! | [`network`] | wires, routes, cross-traffic, packets in transit |
//! | [`app`] | [`App`]: the application of a node, and [`Context`], its interface to the node |
//! | [`machine`] | [`Raw`]: a node without an engine |
//! | [`apps`] | ready-made applications: bulk transfer, message stream, receiver |
//! | [`flow`] | greedy flows of the same engine, as competition |
//! | [`topology`] | networks by name, and the papers' testbeds |
//! | [`log`] | the packet log, readable, and comparable between runs |
//! | [`epoch`] | the only code that reads a clock, which QUIC needs |
//! | [`overlay`] | overlay agents by the thousand, with messages between them without the engine |
//! | [`storm`] | random worlds with faults, and checkers of the invariants that hold in all of them |

pub mod app;
pub mod apps;
pub mod epoch;
pub mod flow;
mod hop;
pub mod log;
pub mod machine;
pub mod network;
pub mod overlay;
pub mod storm;
pub mod topology;
pub mod world;

pub use app::{App, Context};
pub use flow::{Flow, FlowPlan};
pub use hop::{CrossIndex, Hop, NodeIndex, RouteIndex, WireIndex};
pub use log::PacketLog;
pub use machine::Raw;
pub use network::{IP_UDP_BYTES, Wire};
pub use topology::Topology;
pub use world::World;
