//! `anabranch forward`: ports of this machine for targets of a peer, and the reverse.

use std::{sync::Arc, time::Duration};

use anabranch_gateway::{
    Endpoint, Forward, Mapping, Notice, Refusal, Reverse, Route, Service, Switch,
};
use tokio::{sync::mpsc, task::JoinSet};

use super::{Common, Running, refused};
use crate::{
    exit::{Failure, Outcome, stopped},
    recv,
};

/// Pause before listeners are asked for again that the peer refused after an interruption.
const PAUSE: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The peer must give this node the right to forward, with the targets:

    may = [\"call\", { right = \"forward\", to = [\"db.internal:5432\"], listen = [\"127.0.0.1:8000-8010\"] }]

Prefix `udp:` for datagrams; write unix:PATH in place of [ADDRESS:]PORT or of HOST:PORT. The command runs until Ctrl-C, and dials \
the peer again when it was interrupted. See docs/gateway.md.")]
pub(crate) struct Arguments {
    /// Accept connections here, and have the peer connect to the target: [ADDRESS:]PORT:HOST:PORT; may be repeated.
    #[arg(
        short = 'L',
        long = "local",
        value_name = "MAPPING",
        required_unless_present = "remote"
    )]
    local: Vec<Mapping>,
    /// Accept connections at the peer, and connect to the target from here: [ADDRESS:]PORT:HOST:PORT; may be repeated.
    #[arg(short = 'R', long = "remote", value_name = "MAPPING")]
    remote: Vec<Mapping>,
    #[command(flatten)]
    common: Common,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    // Before the first output: a script that reads it may send a signal at once.
    let stopped = stopped();
    let Running {
        host,
        ledger,
        uplink,
        dialler,
        connections,
        notices,
    } = arguments.common.start().await?;
    let text = arguments.common.service();
    let own = |to: &Endpoint| {
        let service = text.as_ref().map(|text| Service::from_text(to, text));
        service.transpose().map_err(Failure::usage)
    };
    let mut accepting = JoinSet::new();
    for mapping in &arguments.local {
        let forward =
            Forward::open(&mapping.accept, connections.clone()).map_err(Failure::other)?;
        notices.show(&Notice::Listening {
            at: forward.local().clone(),
            to: Some(mapping.to.clone()),
            is_remote: false,
        });
        let route = Route::to(&mapping.to, own(&mapping.to)?, uplink.clone());
        accepting.spawn(forward.run(Switch::new(route)));
    }
    let mut mappings = Vec::new();
    for mapping in &arguments.remote {
        let service = own(&mapping.to)?;
        let service = service.unwrap_or_else(|| Service::of(&mapping.to));
        mappings.push((mapping.clone(), service));
    }
    let has_remote = !mappings.is_empty();
    let remote = arguments
        .remote
        .first()
        .map(|mapping| mapping.accept.clone());
    let reverse = Arc::new(Reverse::new(mappings, connections));
    let (failing, mut failures) = mpsc::channel::<Refusal>(1);
    let mut is_first = true;
    let dialling = dialler.run(|session| {
        let is_first = std::mem::take(&mut is_first);
        let (reverse, failing, notices) = (reverse.clone(), failing.clone(), notices.clone());
        let remote = remote.clone();
        async move {
            while has_remote && session.close_reason().is_none() {
                let Err(refusal) = reverse.serve(&session).await else {
                    return;
                };
                if is_first {
                    // Most likely a mistake, which the user should see.
                    let _ = failing.send(refusal).await;
                } else if let Some(to) = remote.clone() {
                    notices.show(&Notice::Failed { to, refusal });
                }
                // An address may be taken until the peer knows that the old session is over.
                tokio::time::sleep(PAUSE).await;
            }
            session.closed().await;
        }
    });
    let outcome = tokio::select! {
        biased;
        stopped = stopped => stopped,
        () = recv::keep(ledger.as_ref(), &host) => Err(Failure::other("the usage ledger is no longer kept")),
        Some(refusal) = failures.recv() => Err(refused(&refusal)),
        result = dialling => result.map_err(Failure::from),
    };
    drop(accepting);
    recv::shutdown(ledger.as_ref(), &host, outcome).await
}
