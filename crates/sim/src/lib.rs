//! Host 1: the engine in virtual time.
//!
//! A [`World`] holds nodes (each a whole [`Engine`](anabranch_session::Engine) with an [`App`] on
//! top) and wires (each a [`Duplex`](anabranch_link::Duplex) link between one socket of each of two
//! nodes). Time jumps from event to event; a run is a pure function of its seed.
//!
//! What is simulated is the network and the clock only: encryption, handshakes, congestion control,
//! scheduling are the code that runs on sockets.
//!
//! | module | holds |
//! |---|---|
//! | [`world`] | [`World`]: event queue, nodes, wires |
//! | [`app`] | [`App`]: what runs on a node, and [`Context`], what it may do |
//! | [`apps`] | ready-made applications: bulk transfer, message stream, receiver |
//! | [`log`] | the packet log, for people and for comparing runs |
//! | [`epoch`] | the one place that reads a clock, for QUIC's sake |
//! | [`storm`] | random worlds with faults, and the checkers of what must hold in all of them |

pub mod app;
pub mod apps;
pub mod epoch;
pub mod log;
pub mod storm;
pub mod world;

pub use app::{App, Context};
pub use log::PacketLog;
pub use world::{IP_UDP_BYTES, NodeIndex, Wire, WireIndex, World};
