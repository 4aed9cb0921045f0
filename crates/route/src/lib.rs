//! The overlay as a graph: which ways a message should take, and how it is divided among them
//! [Daemons §4, §5]. One algorithm a file; no clock, no sockets, no state but what the caller hands in.
//!
//! | module | holds |
//! |---|---|
//! | [`graph`] | nodes, measured links, paths |
//! | [`mod@quickest`] | the path on which a message of a given size arrives first |
//! | [`multiple`] | several paths on the residual graph |
//! | [`mod@partition`] | how much of a message goes over each path, so that all finish together |
//! | [`start`] | what a fresh channel loses while it finds the rate of its path |
//! | [`flow`] | what no set of paths can exceed: the maximum flow, and the quickest flow |
//! | [`decline`] | whether a link has become markedly worse |
//! | [`hysteresis`] | when to change routes |
//! | [`design`] | which links to probe how often, and with messages of which sizes |
//!
//! A [`quickest::Finder`] is kept between calls: it holds the memory that searches work in.

pub mod decline;
pub mod design;
pub mod flow;
pub mod graph;
pub mod hysteresis;
pub mod multiple;
pub mod partition;
pub mod quickest;
pub mod start;

pub use graph::{Builder, Estimate, Graph, Link, LinkIndex, Names, NodeIndex, Path};

#[cfg(test)]
mod testing;
