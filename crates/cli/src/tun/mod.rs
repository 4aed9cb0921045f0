//! `anabranch tun`: an IP tunnel to a server, or the server.

mod client;
mod misplaced;
mod option;
mod serve;

use std::{net::SocketAddr, path::PathBuf};

use anabranch::base::NodeId;
use anabranch_tunnel::{Notice, Notices};
use serde_json::json;

use crate::{
    exit::{Outcome, note, print_line},
    gateway::peer::PeerArguments,
};

/// Headings of the options of one end.
const SERVER: &str = "Options of the server";
const CLIENT: &str = "Options of the client";

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Needs root, or the right CAP_NET_ADMIN. On the server, with the ID of the client that `anabranch keygen` prints there:

    anabranch tun --serve --allow NODE --masquerade

It prints a ticket. On the client:

    anabranch tun TICKET --default-route --split-tcp

The command runs until Ctrl-C, takes back what it has set up, and joins again when it was interrupted. Instead of --serve, \
`anabranch node` may have a section [tunnel.server]. See docs/tunnel.md.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    peer: PeerArguments,
    /// Serve a tunnel that other nodes join.
    #[arg(long)]
    serve: bool,
    #[command(flatten)]
    server: ServerArguments,
    /// Name of the device [default: anabranch0, with --serve anabranch1].
    #[arg(long, value_name = "DEVICE")]
    name: Option<String>,
    /// Largest IP packet, such as "1400 B", 1280 B to 9000 B.
    #[arg(long, value_name = "SIZE")]
    mtu: Option<String>,
    /// Send all traffic of this machine through the tunnel, but for the networks of its own interfaces.
    #[arg(help_heading = CLIENT, long)]
    default_route: bool,
    /// Network that is reached through the tunnel; may be repeated.
    #[arg(help_heading = CLIENT, long, value_name = "NETWORK")]
    route: Vec<String>,
    /// End TCP connections at this node, and carry them as streams: each uses all paths fully.
    #[arg(help_heading = CLIENT, long)]
    split_tcp: bool,
    /// Server that resolves names while the tunnel is up; may be repeated [default: those of this machine].
    #[arg(help_heading = CLIENT, long, value_name = "ADDRESS")]
    dns: Vec<String>,
    /// Interface, such as eth1, behind which machines reach everything through the tunnel, under this machine's address there; may be
    /// repeated. Needs `nft` (package nftables).
    #[arg(help_heading = CLIENT, long, value_name = "INTERFACE")]
    lan: Vec<String>,
    /// Let IPv6 pass outside the tunnel if it cannot be routed into it.
    #[arg(help_heading = CLIENT, long)]
    allow_ipv6_leak: bool,
    /// Local address to use for paths, IP:PORT with port 0 for any; may be repeated [default: every interface].
    #[arg(help_heading = CLIENT, long, value_name = "ADDRESS")]
    bind: Vec<SocketAddr>,
    /// Key file [default: ~/.config/anabranch/key, created if missing].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
    /// Control socket, for `anabranch flows` and others [default: beside that of a node, and named after the device].
    #[arg(long, value_name = "FILE")]
    control: Option<PathBuf>,
    /// Print events as JSON, one per line, to standard output.
    #[arg(long)]
    json: bool,
    /// Print nothing but errors.
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
}

/// Options of `--serve` alone.
#[derive(Debug, clap::Args)]
struct ServerArguments {
    /// Node that may join; may be repeated.
    #[arg(help_heading = SERVER, long, value_name = "NODE")]
    allow: Vec<NodeId>,
    /// Network of the addresses, one of each family at most [default: 10.77.0.0/24 and fd77:616e::/64].
    #[arg(help_heading = SERVER, long = "pool", value_name = "NETWORK")]
    pools: Vec<String>,
    /// Let packets of clients leave under an address of this machine, which forwards for it until the end. Needs `nft` (package
    /// nftables).
    #[arg(help_heading = SERVER, long)]
    masquerade: bool,
    /// Destination that clients may reach beyond the tunnel: a network, an address, `internet` (all that is reachable from everywhere) or
    /// `any`; may be repeated [default: with --masquerade internet, otherwise any].
    #[arg(help_heading = SERVER, long, value_name = "DESTINATION")]
    to: Vec<String>,
    /// Address to listen on, IP:PORT; may be repeated [default: every interface].
    #[arg(help_heading = SERVER, long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Port to listen on, at every interface [default: 4433].
    #[arg(help_heading = SERVER, long)]
    port: Option<u16>,
    /// File of the addresses by node [default: ~/.local/state/anabranch/leases].
    #[arg(help_heading = SERVER, long, value_name = "FILE")]
    leases: Option<PathBuf>,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    misplaced::check(&arguments)?;
    match arguments.serve {
        true => serve::run(arguments).await,
        false => client::run(arguments).await,
    }
}

impl Arguments {
    fn notices(&self) -> Notices {
        let (json, quiet) = (self.json, self.quiet);
        Notices::new(move |notice| {
            // If the output is closed, there is no other place to report it.
            if json {
                let _ = print_line(&row(notice));
            } else if matches!(notice, Notice::Up { .. } | Notice::Serving { .. }) && !quiet {
                let _ = print_line(&notice.to_string());
            } else if !quiet || matches!(notice, Notice::Down(_) | Notice::Warning(_)) {
                note(&notice.to_string());
            }
        })
    }
}

/// A notice as a line of JSON.
fn row(notice: &Notice) -> String {
    let mut row = json!({ "kind": notice.kind(), "text": notice.to_string() });
    match notice {
        Notice::Serving { device, addresses } => {
            row["device"] = json!(device);
            row["addresses"] = json!(addresses);
        }
        Notice::Joined { node, .. } | Notice::Left { node } | Notice::Refused { node, .. } => {
            row["node"] = json!(node.to_string());
        }
        Notice::Up { device, terms } => {
            row["device"] = json!(device);
            row["v4"] = json!(terms.v4.map(|v4| v4.address.to_string()));
            row["v6"] = json!(terms.v6.map(|v6| v6.address.to_string()));
            row["mtu_bytes"] = json!(terms.mtu);
        }
        Notice::Dropped(dropped) => {
            for (reason, count) in dropped.iter() {
                row["packets"][reason.name()] = json!(count);
            }
        }
        _ => {}
    }
    row.to_string()
}
