//! The server of a tunnel, as a node with nothing else.

use anabranch::{
    config::{GrantLayer, Layer, PeerLayer, TunnelLayer, TunnelServerLayer, default_control},
    daemon::Daemon,
};
use anabranch_gateway::{Connections, limits::raise_file_limit};
use anabranch_tunnel::{Tunnel, TunnelError};

use super::Arguments;
use crate::{
    exit::{Failure, Outcome, print_line, stopped},
    keygen::key_path,
};

/// Networks of the addresses, unless others are named.
const POOLS: [&str; 2] = ["10.77.0.0/24", "fd77:616e::/64"];

/// Port to listen on, unless another is named.
const PORT: u16 = 4433;

/// The configuration of a node that serves a tunnel.
fn layer(arguments: &Arguments) -> Layer {
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
    let pools = match arguments.pools.is_empty() {
        true => POOLS.map(str::to_owned).into(),
        false => arguments.pools.clone(),
    };
    let variable = |name: &str| std::env::var(name).ok();
    // A node may be running beside it.
    let control = default_control(variable).map(|path| path.with_file_name("anabranch-tun.sock"));
    Layer {
        key: Some(key_path(arguments.key.as_ref())),
        listen: (!arguments.listen.is_empty()).then(|| arguments.listen.clone()),
        port: Some(arguments.port.unwrap_or(PORT)),
        peer: Some(arguments.allow.iter().enumerate().map(peer).collect()),
        control,
        local: Some("".into()),
        promise_record: Some("".into()),
        evidence: Some("".into()),
        tunnel: TunnelLayer {
            server: Some(TunnelServerLayer {
                pools,
                device: arguments.name.clone(),
                mtu: arguments.mtu.clone(),
                leases: arguments.leases.clone(),
                split_tcp: None,
                promised_share_max: None,
                masquerade: arguments.masquerade,
                destinations: (!arguments.to.is_empty()).then(|| arguments.to.clone()),
            }),
            client: None,
        },
        ..Layer::default()
    }
}

pub(super) async fn run(arguments: Arguments) -> Outcome {
    // Before the first output: a script that reads it may send a signal at once.
    let stopped = stopped();
    if arguments.allow.is_empty() {
        return Err(Failure::usage(
            "name the nodes that may join with --allow NODE; `anabranch keygen` prints the ID of a node there",
        ));
    }
    let variable = |name: &str| std::env::var(name).ok();
    let config = layer(&arguments).resolve(variable);
    let config = config.map_err(Failure::usage)?;
    let daemon = Daemon::start(config.clone())
        .await
        .map_err(Failure::other)?;
    raise_file_limit();
    let connections = Connections::new(anabranch_gateway::Notices::to_log());
    let tunnel = Tunnel::start(&daemon.handle(), &config, &connections, arguments.notices());
    let _tunnel = tunnel.map_err(|error| match error {
        TunnelError::Config(error) => Failure::usage(error),
        _ => Failure::other(error),
    })?;
    let ticket = daemon.ticket();
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
