//! The server of a tunnel, as a node with nothing else.

use std::{path::PathBuf, sync::Arc};

use anabranch::{
    config::{GrantLayer, Layer, PeerLayer, SERVER_DEVICE, TunnelLayer, TunnelServerLayer},
    daemon::Daemon,
};
use anabranch_gateway::{Connections, limits::raise_file_limit};
use anabranch_tunnel::{Notice, Tunnel, TunnelError};

use super::{Arguments, option};
use crate::{
    control,
    exit::{Failure, Outcome, print_line, stopped},
    keygen::key_path,
};

/// Networks of the addresses, unless others are named.
const POOLS: [&str; 2] = ["10.77.0.0/24", "fd77:616e::/64"];

/// Port to listen on, unless another is named.
const PORT: u16 = 4433;

/// The configuration of a node that serves a tunnel.
fn layer(arguments: &Arguments, control: PathBuf) -> Layer {
    let peer = |(index, node): (usize, &anabranch::base::NodeId)| PeerLayer {
        name: format!("client {}", index + 1),
        node: node.to_string(),
        may: Some(
            ["call", "tunnel"]
                .map(|name| GrantLayer::Name(name.to_owned()))
                .into(),
        ),
        ..PeerLayer::default()
    };
    let pools = match arguments.server.pools.is_empty() {
        true => POOLS.map(str::to_owned).into(),
        false => arguments.server.pools.clone(),
    };
    Layer {
        key: Some(key_path(arguments.key.as_ref())),
        listen: (!arguments.server.listen.is_empty()).then(|| arguments.server.listen.clone()),
        port: Some(arguments.server.port.unwrap_or(PORT)),
        peer: Some(
            arguments
                .server
                .allow
                .iter()
                .enumerate()
                .map(peer)
                .collect(),
        ),
        control: Some(control),
        local: Some("".into()),
        promise_record: Some("".into()),
        evidence: Some("".into()),
        tunnel: TunnelLayer {
            server: Some(TunnelServerLayer {
                pools,
                device: arguments.name.clone(),
                mtu: arguments.mtu.clone(),
                leases: arguments.server.leases.clone(),
                split_tcp: None,
                promised_share_max: None,
                masquerade: arguments.server.masquerade,
                destinations: (!arguments.server.to.is_empty())
                    .then(|| arguments.server.to.clone()),
            }),
            client: None,
        },
        ..Layer::default()
    }
}

pub(super) async fn run(arguments: Arguments) -> Outcome {
    // Before the first output: a script that reads it may send a signal at once.
    let stopped = stopped();
    if arguments.server.allow.is_empty() {
        return Err(Failure::usage(
            "name the nodes that may join with --allow NODE; `anabranch keygen` prints the ID of a node there",
        ));
    }
    let variable = |name: &str| std::env::var(name).ok();
    // A node, or another tunnel, may be running beside it.
    let control = match &arguments.control {
        Some(named) => named.clone(),
        None => {
            let device = arguments.name.as_deref().unwrap_or(SERVER_DEVICE);
            control::place::for_tunnel(device).await?
        }
    };
    let config = layer(&arguments, control).resolve(variable);
    let config = config.map_err(option::failure)?;
    let daemon = Daemon::start(config.clone())
        .await
        .map_err(Failure::other)?;
    raise_file_limit();
    let connections = Connections::new(anabranch_gateway::Notices::to_log());
    daemon.handle().show_flows(Arc::new(connections.clone()));
    let tunnel = Tunnel::start(&daemon.handle(), &config, &connections, arguments.notices());
    let _tunnel = tunnel.map_err(|error| match error {
        TunnelError::Config(error) => option::failure(error),
        _ => Failure::other(error),
    })?;
    let ticket = daemon.ticket();
    if ticket.addresses.is_empty() {
        let text = "no interface of this machine has an address at which clients could reach it, and the ticket names none: connect it to a \
                    network (`ip address`), and start this again";
        arguments.notices().show(&Notice::Warning(text.to_owned()));
    }
    if arguments.json {
        let row = serde_json::json!({ "kind": "ticket", "ticket": ticket.to_string() });
        print_line(&row.to_string())?;
    } else if !arguments.quiet {
        print_line(&format!(
            "on the client, run: anabranch tun {ticket} --default-route --split-tcp"
        ))?;
    }
    tokio::select! {
        () = daemon.run() => {}
        stopped = stopped => stopped?,
    }
    daemon.shutdown().await?;
    Ok(())
}
