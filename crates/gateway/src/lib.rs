//! Gateway: unchanged programs through a node, by forwards and SOCKS (`docs/gateway.md`, `spec/forward.md`).
//!
//! A program connects to an address of its own machine; the gateway opens a stream for the connection, and the node at the other
//! end makes the connection to the target, if the right `forward` allows it. The node that is asked for connections serves them
//! with a [`Server`]; the one that asks runs [`Forward`]s, a [`socks`] server, or both, over an [`uplink`].
//!
//! | module | holds |
//! |---|---|
//! | [`endpoint`] | an address, name or Unix socket with its text form |
//! | [`target`] | forwards in the text form of `-L` and `-R` |
//! | [`wire`] | messages of a forward's stream |
//! | `credit` | receive windows of connections, and what a session's connections share |
//! | `socket` | TCP and Unix connections behind one type |
//! | `relay` | bytes between a connection and its stream |
//! | `outage` | sessions without a path that works, after which connections end |
//! | `connect` | resolution, check and connection at the far side |
//! | [`serve`] | the service that does what peers ask for |
//! | `listener` | accepting connections, whatever the limit of files |
//! | [`connections`] | tasks and number of the connections, and what they share |
//! | [`service`], [`route`] | specs of streams; where accepted connections go |
//! | [`rules`] | rules: the service, the peer, or the refusal of each flow |
//! | `register`, `source` | open flows with their bytes; where they come from |
//! | [`packets`] | rules for packets, as those of a tunnel |
//! | [`divert`] | TCP connections that another part of the node has taken over |
//! | [`forward`] | connections accepted here and made by a peer |
//! | `datagram` | datagrams with the code point of their packets |
//! | `flow`, `flows` | UDP: one flow, and the table of flows |
//! | [`reverse`] | connections accepted by a peer and made here |
//! | [`socks`] | SOCKS5 |
//! | [`uplink`] | the session with the peer, opened again when it ends |
//! | [`section`] | the section `[[forward]]` of a node's configuration |
//! | [`limits`] | limits of the gateway, and of the process on files |

mod connect;
pub mod connections;
mod credit;
mod datagram;
pub mod divert;
pub mod endpoint;
pub mod error;
mod flow;
mod flows;
pub mod forward;
pub mod limits;
mod listener;
pub mod notice;
mod outage;
pub mod packets;
mod register;
mod relay;
pub mod reverse;
pub mod route;
pub mod rules;
pub mod section;
pub mod serve;
pub mod service;
mod socket;
pub mod socks;
mod source;
pub mod target;
mod unix_socket;
pub mod uplink;
pub mod wire;

pub use connections::Connections;
pub use divert::Diverter;
pub use endpoint::{Endpoint, Host};
pub use error::{Code, Refusal};
pub use forward::{Forward, ListenError};
pub use notice::{Notice, Notices};
pub use packets::PacketRules;
pub use reverse::Reverse;
pub use route::{Chooser, Route, Switch};
pub use rules::Rules;
pub use section::Gateway;
pub use serve::Server;
pub use service::{Service, Services};
pub use target::Mapping;
