//! Anabranch: an application's data streams over several unreliable paths at once.
//!
//! This is the library to build on. [`Host`] is a running node: it opens [`Session`]s to other nodes over every available path,
//! and sessions carry [`Stream`]s, each with a [`StreamSpec`] that specifies its requirements. Around these are the things that
//! most applications need: a configuration file, keys, tickets, file transfers and a control socket.
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
//! A stream may ask for a guarantee. It is admitted or refused, and a refusal states what could be promised instead; later
//! events report that a promise can no longer be kept (`docs/guarantees.md`).
//!
//! ```no_run
//! # async fn example(session: anabranch::Session) -> Result<(), anabranch::StreamFailure> {
//! use anabranch::{Guarantee, PromiseEvent, StreamSpec};
//!
//! // 22 Mbit/s in 95 % of all seconds; the stream opens even before that can be promised.
//! let wanted = Guarantee::rate("22 Mbit/s".parse().expect("a rate"), 0.95).waiting();
//! let stream = session.open_stream(StreamSpec::messages("frames").with_guarantee(wanted))?;
//! loop {
//!     match stream.next_promise().await? {
//!         PromiseEvent::Promised(grant) => println!("promised, {grant}"),
//!         // Still in force, but not for long: ask for what will be available.
//!         PromiseEvent::Warned(refusal) => {
//!             if let Some(rate) = refusal.offer.rate {
//!                 stream.change_guarantee(Some(Guarantee::rate(rate, 0.95).waiting()))?;
//!             }
//!         }
//!         PromiseEvent::Withdrawn(refusal) => println!("no longer promised: {refusal}"),
//!         _ => {}
//!     }
//! }
//! # }
//! ```
//!
//! The utility of a service can be stated in objectives (`docs/hose.md`), even while everything runs:
//!
//! ```no_run
//! # fn example(session: anabranch::Session, stream: anabranch::Stream) -> Result<(), Box<dyn std::error::Error>> {
//! use anabranch::{FieldValue, Policy};
//!
//! session.set_policy(Policy::Assign)?;
//! let injected = session.inject_objectives(
//!     r#"objective {
//!         context { adu:frame { frame_type == "I" } }
//!         goal { prob(frame::lost?) < 10 }
//!         utility { frame { 100 * (10 - prob(frame::lost?)) } }
//!     }"#,
//! )?;
//! let fields = [("frame_type", FieldValue::Text("I"))];
//! stream.try_send_with_fields("a key frame".into(), 0, &fields)?;
//! session.remove_objective(injected.ids[0])?;
//! # Ok(()) }
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | the configuration of a node: flags, environment, file, defaults |
//! | [`keys`] | the file with a node's secret key |
//! | [`objectives`] | files of objectives that apply to sessions from their start |
//! | [`spec`] | stream specifications in text form |
//! | [`texts`] | short texts that travel as files |
//! | [`peer_clock`] | the clock of a peer, and ages by it |
//! | [`ledger`] | usage ledger: what was sent where sending costs something, kept over restarts |
//! | [`codes`] | three words that bring two nodes together
//! | [`ticket`] | one line of text that lets one sender reach a receiver |
//! | [`transcripts`] | transcripts of sessions, written when a promise is broken |
//! | [`transfer`] | files and directories over a session |
//! | [`exports`] | directories of a peer, read by byte ranges |
//! | [`rendezvous`] | nodes that meet at a relay, and circuits between them |
//! | [`rights`] | what each node may do here |
//! | [`service`] | the parts of a node that take the streams of peers |
//! | [`daemon`] | a node that runs by its configuration |
//! | [`local`] | the local interface: applications attached to a running node; [`Client`] |
//! | [`outcome`] | whether an application took or refused the data of a stream |
//! | [`pace`] | the rate that several senders share |
//! | [`api`] | traits of sessions and streams, in this process or through a running node |
//! | [`control`] | the local socket through which a running node reports its state |
//! | [`net`] | the host: sockets, sessions, streams, emulators |

pub mod api;
mod channel_names;
pub mod codes;
pub mod config;
pub mod control;
pub mod daemon;
pub mod evidence;
pub mod exports;
pub mod keys;
pub mod ledger;
pub mod local;
pub mod objectives;
pub mod outcome;
pub mod overlay;
pub mod pace;
pub mod peer_clock;
pub mod record;
pub mod rendezvous;
pub mod rights;
pub mod service;
mod socket_file;
pub mod spec;
pub mod texts;
pub mod ticket;
pub mod transcripts;
pub mod transfer;
mod whole_file;

pub use anabranch_base as base;
pub use anabranch_net as net;
pub use anabranch_net::{
    Bind, BudgetReport, Closed, ConnectError, Counted, Field, Host, HostAddress, HostConfig,
    HostEvent, Locals, Outgoing, Place, PromiseEvent, Remotes, Session, SessionEvent, StartError,
    Stream, StreamEvent, StreamFailure, Tariff,
};
pub use anabranch_session::{
    AllowList, Callback, Chances, Controller, Ctcp, Demand, Discarded, DropOrder, Explanation,
    FieldValue, Grade, Grant, Guarantee, GuaranteeError, ObjectiveError, ObjectiveId, Offer,
    OnWarning, Order, PathRule, Policy, Preferences, Priority, Profile, Reason, Reduction, Refusal,
    SecretKey, Selector, SessionCloseReason, Share, Shares, StreamParameters, StreamSpec, Tenant,
    Term, Treatment, Walk, objective,
    promise::{Account, Note},
};
pub use api::{AduListener, AduSession, AduStream, Failure};
pub use local::client::{Client, ClientError, LocalAddress};
pub use ticket::Ticket;
