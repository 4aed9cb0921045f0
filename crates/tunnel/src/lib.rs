//! Tunnel: the whole traffic of machines through a node, as IP packets (`docs/tunnel.md`, `spec/tunnel.md`).
//!
//! A server has a device with a network of addresses, and assigns one to each node with the right `tunnel`. A client has a device with
//! the address that it got. Each IP packet is an ADU of an unordered stream between the two, with a lifetime, so that the packets of all
//! flows use all paths of the session. It is not a VPN between many sites, and neither hides nor filters anything: what leaves the server, and under
//! which address, is for its operating system to decide.
//!
//! ```text
//!   programs ─► device ─► checks ─► fair queues ─► stream ═══ paths ═══ stream ─► checks ─► order ─► device ─► kernel
//!               (entrance)          (fq_codel)                                              (order)   (exit)
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`packet`] | headers, flows, congestion marks, segment sizes and ICMP answers; bytes only |
//! | [`fq_codel`] | fair queues at the entrance, in virtual time (RFC 8290) |
//! | [`order`] | the order of each flow at the exit, in virtual time |
//! | [`wire`] | messages and the header of a packet |
//! | [`lease`] | networks, and the addresses of each node |
//! | [`destinations`] | the addresses that clients may reach through the server |
//! | [`counters`], [`notice`] | what was carried and dropped; events for logs and progress lines |
//! | `own`, `entrance` | the node's own packets; checks of what enters |
//! | `outlet`, `meter`, `pace`; `exit` | the sending side, the flows that send little, and what the paths carry; the receiving side |
//! | `class`, `numbers`, `flows` | packets that share a service; their numbers; the table of flows |
//! | [`server`], [`client`] | the two ends |
//! | [`split`] | TCP connections that end at the node |
//! | [`system`] | addresses, routes, rules and names of the machine |
//! | [`section`] | the sections `[tunnel.server]` and `[tunnel.client]` of a node's configuration |

#![cfg(target_os = "linux")]

mod class;
pub mod client;
pub mod counters;
pub mod destinations;
mod entrance;
mod exit;
mod flows;
pub mod fq_codel;
pub mod lease;
mod meter;
pub mod notice;
mod numbers;
pub mod order;
mod outlet;
mod own;
mod pace;
pub mod packet;
pub mod section;
pub mod server;
mod spare;
pub mod split;
pub mod system;
pub mod wire;

pub use client::{Client, ClientError, Joining};
pub use counters::{Counters, Dropped, Totals};
pub use destinations::{Destinations, DestinationsError};
pub use notice::{Notice, Notices};
pub use section::{Tunnel, TunnelError};
pub use server::Server;
