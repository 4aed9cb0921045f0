//! The link model: computes the delay and loss of each packet between two nodes, without clock or socket.
//!
//! A [`Link`] is one direction of a link: a transmitter (constant, walking or recorded rate), a drop-tail queue in
//! bytes, a loss process, propagation delay with jitter, and a switch. The driver offers a packet and immediately
//! learns its arrival time or the reason for its loss:
//!
//! ```
//! use anabranch_base::{Instant, Rate, Seed};
//! use anabranch_link::{Config, Link, RateSource, Verdict};
//! use std::time::Duration;
//!
//! let config = Config {
//!     rate: RateSource::Constant(Rate::from_mbps(12)),
//!     delay: Duration::from_millis(30),
//!     ..Config::default()
//! };
//! let mut link = Link::new(config, Seed(1))?;
//! let now = Instant::EPOCH;
//! let Verdict::Deliver { at, ticket, .. } = link.offer(now, 1500, false) else { panic!() };
//! assert_eq!(at, Instant::from_millis(31)); // 1 ms to send 1500 bytes, 30 ms of propagation
//! // The driver waits until `at`; the link may have been cut in between.
//! assert!(link.still_delivers(ticket));
//! # Ok::<(), anabranch_link::ConfigError>(())
//! ```
//!
//! The same value serves three drivers: the simulator (virtual time), the userspace emulator (between loopback sockets)
//! and the TUN emulator. It models neither active queue management nor a shared medium: one queue, first in, first out.
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | [`Config`] of one direction |
//! | `limits` | the limits of its values, and [`ConfigError`] |
//! | [`source`] | [`RateSource`]: constant, walk, trace, unlimited |
//! | [`queue`], [`loss`], [`jitter`] | the other three parts of a config and their processes |
//! | [`link`] | [`Link`], [`Verdict`], [`Ticket`] |
//! | [`stats`] | [`Stats`]: counts of packets offered, delivered, dropped |
//! | [`duplex`] | [`Duplex`]: both directions together |
//! | [`trace`] | [`Trace`]: recorded rates, read from CSV or mahimahi text |
//! | [`recording`] | [`Recording`]: recorded packets, read from Bellcore, mahimahi or CSV text |
//! | [`traffic`] | [`Traffic`]: cross-traffic: paced, Poisson, Pareto on–off, replayed |
//! | [`preset`] | named presets: `wifi`, `lte`, `geo`, … |
//! | [`describe`] | text form of a config on one line |

pub mod config;
pub mod describe;
pub mod duplex;
pub mod jitter;
mod limits;
pub mod link;
pub mod loss;
pub mod preset;
pub mod queue;
pub mod recording;
pub mod source;
pub mod stats;
pub mod trace;
pub mod traffic;
mod transmitter;

pub use config::{Config, ConfigError, Outage};
pub use duplex::Duplex;
pub use jitter::Jitter;
pub use link::{DropReason, Link, Ticket, Verdict};
pub use loss::Loss;
pub use queue::Queue;
pub use recording::Recording;
pub use source::RateSource;
pub use stats::Stats;
pub use trace::Trace;
pub use traffic::Traffic;
