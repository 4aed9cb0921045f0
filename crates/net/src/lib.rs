//! The host on real sockets: the engine's clock, sockets, timers and interfaces.
//!
//! One thread drives the engine ([`Host`]): it takes packets from all sockets in batches, hands them over
//! with the time, sends the packets of the engine, and wakes the tasks that wait for an event. Handles
//! ([`Host`], [`Session`], [`Stream`]) call the engine under the same lock and wake the thread. This crate
//! makes no decisions about streams or paths; it executes those of the engine.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use anabranch_net::{Host, HostConfig, session::{AllowList, SecretKey, StreamSpec}};
//!
//! let key = SecretKey::from_seed([7; 32]); // from a cryptographic generator
//! let peer = "the peer's node id".parse()?;
//! let host = Host::start(HostConfig::new(key, AllowList::of([peer])))?;
//! let session = host.connect(peer, &["192.0.2.7:4433".parse()?]).await?;
//! let stream = session.open_stream(StreamSpec::bulk("greeting"))?;
//! stream.send("hello".into()).await?;
//! stream.finish()?;
//! stream.delivered().await?;
//! host.shutdown().await;
//! # Ok(()) }
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `clock`, `timer`, `timerfd`, `waker` | the only clock below the node, a timer with the kernel's resolution, the timers behind it, a sleep that an event ends |
//! | `socket`, `inbox`, `undeliverable` | UDP with segmentation offload and ECN; receiving in batches; reports of packets that were not delivered |
//! | `sockets`, `rebind`, `retired` | the set of sockets and the addresses that they are for; other addresses while the host runs; the end of sockets on former ones |
//! | `moderation` | the time for which packets may gather before they are received together |
//! | `driver`, `state` | the thread, and the engine with the tasks that wait for its events |
//! | `host`, `session_handle`, `session_events`, `stream`, `outgoing` | the handles, and ADUs that wait to be sent; `handles`: what their clones share, and what the last one ends |
//! | [`bytestream`] | `AsyncRead` and `AsyncWrite` over ADUs |
//! | `place`, `tariff`, `budgets`, `repricing` | the costs of sending at local addresses, the events about them, the budgets of a running host, and other tariffs and descriptions for it |
//! | `acts` | changes by the user of a node in its sessions: paths in use, parameters of streams |
//! | `links`, `remotes`, `detour`, `follow`, `watch` | the links that a session tries; addresses and host names of peers, and what is tried beside them; the search for a peer without a path; changes of the interfaces |
//! | [`log`] | the limit of log lines that peers can cause |
//! | [`relay`] | forwarding between the ports of circuits |
//! | `qlog`, a feature | traces of channels as files |
//! | `tun` | TUN devices (Linux) |
//! | [`emulate`] | the link model between loopback sockets and between network namespaces |

mod acts;
mod budgets;
pub mod bytestream;
mod clock;
mod detour;
mod driver;
pub mod emulate;
mod error;
mod follow;
mod handles;
mod host;
mod inbox;
mod links;
pub mod log;
mod moderation;
mod outgoing;
mod pings;
mod place;
#[cfg(feature = "qlog")]
pub mod qlog;
mod rebind;
pub mod relay;
mod remotes;
mod repricing;
mod retired;
mod session_events;
mod session_handle;
mod socket;
mod sockets;
mod state;
mod stream;
mod tariff;
mod timer;
#[cfg(target_os = "linux")]
mod timerfd;
#[cfg(target_os = "linux")]
pub mod tun;
mod undeliverable;
mod waiters;
mod waker;
mod watch;

pub use anabranch_session as session;
pub use anabranch_session::LocalDescription;
pub use anabranch_session::{PromiseEvent, SessionEvent, StreamEvent};
pub use clock::Clock;
pub use detour::Detour;
pub use error::{Closed, ConnectError, StartError, StreamFailure};
pub use host::{Host, HostConfig, PromiseReport, SessionReport};
pub use outgoing::{Field, Outgoing};
pub use place::{ParsePlaceError, Place};
pub use rebind::Prepared;
pub use remotes::{HostAddress, LookupError, ParseAddressError, Remotes};
pub use session_events::SessionEvents;
pub use session_handle::{Session, WeakSession};
pub use socket::{Bind, BindError, SocketStats};
pub use sockets::{Locals, SocketReport};
pub use stream::{CODE_DROPPED, Stream};
pub use tariff::{BudgetReport, Counted, HostEvent, Tariff};
pub use timer::Timer;
