//! The client of a tunnel, with a host of the command's own.

use std::{sync::Arc, time::Duration};

use anabranch::{
    Locals,
    config::{TUNNEL_MARK, TunnelClientLayer},
    control::{Control, ControlError},
    daemon::FlowReports,
    keys,
    net::tun::Tun,
};
use anabranch_gateway::{Connections, limits::raise_file_limit, uplink::Dialled};
use anabranch_tunnel::{Client, ClientError, Joining, Notice, section::of_client};
use tokio::sync::mpsc;

use super::{Arguments, option};
use crate::{
    control,
    exit::{Failure, Outcome, note, stopped},
    keygen::key_path,
    locals, recv,
};

/// Shortest and longest pause before it joins again in a session that is open.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(10)];

/// The control socket; `None`, after a warning, where its usual folder cannot be used: the tunnel works without.
async fn open_control(arguments: &Arguments, device: &str) -> Result<Option<Control>, Failure> {
    let failed = |error: ControlError| match error {
        ControlError::Listen { .. } => Failure::file(error),
        _ => Failure::other(error),
    };
    if let Some(named) = &arguments.control {
        return Control::open(named).await.map(Some).map_err(failed);
    }
    let opened = match control::place::for_tunnel(device).await {
        Ok(path) => Control::open(&path).await.map_err(failed),
        Err(error) => Err(error),
    };
    let warn = |error: &Failure| {
        let text = format!("no control socket: {}", error.message());
        arguments.notices().show(&Notice::Warning(text));
    };
    Ok(opened.inspect_err(warn).ok())
}

fn failure(error: ClientError) -> Failure {
    match error {
        ClientError::Refused { .. } | ClientError::NoTunnel | ClientError::Withdrawn => {
            Failure::refused(error)
        }
        _ => Failure::other(error),
    }
}

pub(super) async fn run(arguments: Arguments) -> Outcome {
    // Before the first output: a script that reads it may send a signal at once.
    let stopped = stopped();
    let ticket = arguments.peer.resolve()?;
    // Not over its relay, to which no route leads past the tunnel.
    let (node, addresses) = (ticket.node, ticket.remotes());
    let settings = arguments.peer.settings(node)?;
    let layer = TunnelClientLayer {
        peer: node.to_string(),
        device: arguments.name.clone(),
        mtu: arguments.mtu.clone(),
        default_route: arguments.default_route,
        routes: arguments.route.clone(),
        dns: arguments.dns.clone(),
        allow_ipv6_leak: arguments.allow_ipv6_leak,
        split_tcp: arguments.split_tcp,
        lan: arguments.lan.clone(),
    };
    let servers = addresses.resolve().await.map_err(Failure::unreachable)?;
    let own = of_client(&layer, servers).map_err(option::failure)?;
    // First, because its errors name the rights that are missing.
    let device = Tun::create(&own.device).map_err(Failure::other)?;
    let control = open_control(&arguments, &own.device).await?;
    let key = keys::load_or_create(&key_path(arguments.key.as_ref()))?;
    let mut config = settings.host(key);
    let costs = settings.costs();
    let ledger = costs.map(|costs| costs.apply(&mut config)).transpose()?;
    let ledger = ledger.flatten();
    let bind = locals::binds(&arguments.bind, &addresses).await;
    if !bind.is_empty() {
        config.locals = Locals::Fixed(bind.into_iter().map(Into::into).collect());
    }
    config.mark = Some(TUNNEL_MARK);
    config.unused.push(own.device.clone());
    config.unused.extend(own.lan.iter().cloned());
    let host = recv::start(config)?;
    let notices = arguments.notices();
    if own.split_tcp {
        raise_file_limit();
    }
    let connections = Connections::new(anabranch_gateway::Notices::to_log());
    connections.rules().replace(settings.rules);
    connections.timeouts().set(&settings.timeouts);
    let joining = Joining {
        connections,
        server: node,
    };
    let flows = Arc::new(joining.connections.clone()) as Arc<dyn FlowReports>;
    let flows = Some(flows);
    let ends = (device, joining);
    let client = Client::start(host.clone(), ends, own, notices.clone());
    let client = Arc::new(client.map_err(Failure::other)?);
    let shown = {
        let (notices, id) = (notices.clone(), host.node_id());
        let client = Arc::downgrade(&client);
        anabranch_gateway::Notices::new(move |notice| {
            let anabranch_gateway::Notice::Disconnected(cause) = notice else {
                return;
            };
            // A server is silent towards nodes that it does not know.
            let was_up = client
                .upgrade()
                .is_some_and(|client| client.terms().is_some());
            let cause = match was_up {
                true => cause.clone(),
                false => format!(
                    "{cause}; does the server run, with its UDP port open in every firewall, and does it know this node (--allow {id})? A \
                     network whose login page nobody has filled in lets nothing through, either"
                ),
            };
            notices.show(&Notice::Down(cause));
        })
    };
    let (_uplink, dialler) = Dialled::new(host.clone(), node, addresses, shown);
    let (failing, mut failures) = mpsc::channel::<ClientError>(1);
    let dialling = dialler.run(|session| {
        let (client, failing, notices) = (client.clone(), failing.clone(), notices.clone());
        async move {
            let [mut pause, last] = PAUSES;
            while session.close_reason().is_none() {
                let error = client.serve(&session).await;
                if session.close_reason().is_some() {
                    return;
                }
                if client.terms().is_none() && error.is_final() {
                    // Most likely a mistake, which the user should see.
                    let _ = failing.send(error).await;
                    std::future::pending::<()>().await;
                    return;
                }
                notices.show(&Notice::Down(error.to_string()));
                tokio::time::sleep(pause).await;
                pause = (2 * pause).min(last);
            }
        }
    });
    let answering = async {
        match &control {
            Some(control) => control.serve_with_flows(&host, flows).await,
            None => std::future::pending().await,
        }
    };
    let outcome = tokio::select! {
        biased;
        stopped = stopped => stopped,
        () = recv::keep(ledger.as_ref(), &host) => Err(Failure::other("the usage ledger is no longer kept")),
        Some(error) = failures.recv() => Err(failure(error)),
        result = dialling => result.map_err(Failure::from),
        () = answering => unreachable!("requests are answered until this is dropped"),
        () = client.run() => unreachable!("it runs until dropped"),
    };
    if !arguments.quiet && outcome.is_ok() {
        let totals = client.totals();
        let split = match client.split_connections() {
            0 => String::new(),
            count => format!("; carried {count} TCP connections as streams"),
        };
        note(&format!(
            "sent {} packets, received {}{split}",
            totals.sent, totals.received
        ));
    }
    recv::shutdown(ledger.as_ref(), &host, outcome).await
}
