//! Path computation on the overlay graph: choice of paths for a message, and its division among them [Daemons §4, §5].
//! One algorithm per file; no clock, no sockets, and no state except that which the caller passes in.
//!
//! | module | contents |
//! |---|---|
//! | [`graph`] | nodes, measured links, paths |
//! | [`mod@quickest`] | the path on which a message of a given size arrives first |
//! | [`multiple`] | several paths on the residual graph |
//! | [`mod@partition`] | division of a message over paths, so that all finish together |
//! | [`start`] | start-up losses of a fresh channel while it finds the rate of its path |
//! | [`flow`] | bounds on every set of paths: the maximum flow, and the quickest flow |
//! | [`decline`] | detection of links that have become markedly worse |
//! | [`hysteresis`] | decision when to change routes |
//! | [`design`] | choice of links to probe, with rates and message sizes |
//!
//! A [`quickest::Finder`] is kept between calls: it holds the working memory of searches.

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
