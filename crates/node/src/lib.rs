//! Anabranch: an application's data streams over several unreliable paths at once.
//!
//! This is the library to build on. [`Host`] is a running node: it opens [`Session`]s to other nodes over
//! every path there is, and sessions carry [`Stream`]s, each with a [`StreamSpec`] that says what it needs.
//! Around that are the things most applications want: a configuration file, keys, tickets, transfers of
//! files, and a control socket.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use anabranch::{AllowList, Host, HostConfig, StreamSpec, keys};
//!
//! let host = Host::start(HostConfig::new(keys::generate()?, AllowList::default()))?;
//! let ticket: anabranch::Ticket = "anabranch1:…".parse()?;
//! let session = host.connect(ticket.node, &ticket.addresses).await?;
//! let stream = session.open_stream(StreamSpec::messages("telemetry"))?;
//! stream.send("21.5 °C".into()).await?;
//! # Ok(()) }
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | the configuration of a node: flags, environment, file, defaults |
//! | [`keys`] | the file with a node's secret key |
//! | [`ticket`] | one line of text that lets one sender reach a receiver |
//! | [`transfer`] | files and directories over a session |
//! | [`daemon`] | a node that runs by its configuration |
//! | [`control`] | the local socket over which a running node tells what it does |
//! | [`net`] | the host: sockets, sessions, streams, emulators |

pub mod config;
pub mod control;
pub mod daemon;
pub mod keys;
pub mod ticket;
pub mod transfer;

pub use anabranch_base as base;
pub use anabranch_net as net;
pub use anabranch_net::{
    Bind, Closed, ConnectError, Host, HostConfig, Locals, Session, SessionEvent, StartError,
    Stream, StreamEvent, StreamFailure,
};
pub use anabranch_session::{AllowList, Guarantee, Order, Policy, Priority, SecretKey, StreamSpec};
pub use ticket::Ticket;
