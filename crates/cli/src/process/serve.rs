//! `anabranch process serve`.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use anabranch::base::duration;
use anabranch_processing::{
    process::Modules,
    service::{Report, Service, Settings},
};
use serde_json::json;
use tokio::sync::mpsc;

use super::tell;
use crate::{
    attach,
    exit::{Failure, Outcome, stopped},
    recv::parse_size,
};

/// Times for which peers can be waited for.
const GRACE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3_600);
/// Reports that wait to be printed.
const REPORTS_MAX: usize = 256;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Streams are readable here: both legs of a processed stream end at this node. Sources and subscribers need the right use-service in the node's \
configuration: services = [\"process/1/offer/NAME/*\"] and [\"process/1/subscribe/NAME/*\"]; [\"process/1/status\"] shows the state. The source names \
the subscribers that may derive from its stream, too. With [\"process/1/module/NAME/*\"], subscribers may bring WebAssembly modules (subscribe --module).

What is kept for peers has a bound together (--memory). A peer may have as much again as is free; a source then waits, an unreliable subscriber \
loses its oldest ADUs, and a reliable one ends.

Nothing is kept on disk. When this command starts again, sources and subscribers return, and nothing of a reliable stream is lost or repeated.")]
pub(super) struct Arguments {
    /// Memory for what is kept for sources and subscribers.
    #[arg(long, value_name = "SIZE", default_value = "512 MiB", value_parser = parse_memory)]
    memory: usize,
    /// Time for which a source or reliable subscriber that is away is waited for.
    #[arg(long, value_name = "TIME", default_value = "30 s", value_parser = parse_grace)]
    grace: Duration,
    /// Folder of WebAssembly modules (*.wasm), read when this command starts; pipelines name them by the step that is printed: 'wasm HASH'.
    #[cfg(feature = "wasm")]
    #[arg(long, value_name = "DIR")]
    modules: Option<std::path::PathBuf>,
    /// Print events as lines of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: attach::Place,
}

/// The modules of the folder, if there is one.
fn modules(arguments: &Arguments) -> Result<Modules, Failure> {
    #[cfg(feature = "wasm")]
    if let Some(folder) = &arguments.modules {
        return super::modules::folder(folder, arguments.json);
    }
    let _ = arguments;
    Ok(Modules::default())
}

/// Parses a size with its unit, such as `512 MiB`.
fn parse_memory(text: &str) -> Result<usize, String> {
    let bytes = parse_size(text)?;
    let bytes = usize::try_from(bytes).map_err(|_| format!("'{text}' is too large"))?;
    if bytes < Settings::MEMORY_MIN {
        let least = Settings::MEMORY_MIN >> 20;
        return Err(format!("'{text}' is too small; give at least {least} MiB"));
    }
    Ok(bytes)
}

fn parse_grace(text: &str) -> Result<Duration, String> {
    let grace = duration::parse(text).map_err(|error| error.to_string())?;
    if !GRACE.contains(&grace) {
        return Err(format!("'{text}' is not from 1 s to 1 h"));
    }
    Ok(grace)
}

pub(super) async fn run(arguments: &Arguments) -> Outcome {
    let (reports, mut reported) = mpsc::channel(REPORTS_MAX);
    let settings = Settings {
        memory: arguments.memory,
        grace: arguments.grace,
        modules: modules(arguments)?,
    };
    let service = Service::new(settings, reports);
    let serving = attach::keep(async |is_first| serve(arguments, &service, is_first).await);
    let reporting = async {
        while let Some(report) = reported.recv().await {
            show(arguments, &report)?;
        }
        std::future::pending().await
    };
    tokio::select! {
        failure = serving => Err(failure),
        failed = reporting => failed,
        stopped = stopped() => stopped,
    }
}

/// Serves until the connection to the node is over.
async fn serve(
    arguments: &Arguments,
    service: &Arc<Service>,
    is_first: bool,
) -> Result<Failure, Failure> {
    let client = arguments.place.attach("anabranch process serve").await;
    let client = client.map_err(attach::failure)?;
    let registration = service.register(&client).await.map_err(attach::failure)?;
    if is_first {
        let event = json!({"kind": "serving", "node": client.node().to_string()});
        tell(arguments.json, &event, "Processing the streams of peers.")?;
    }
    tokio::select! {
        over = service.serve(&registration) => Ok(attach::failure(over)),
        never = service.publish(&client) => match never {},
    }
}

fn show(arguments: &Arguments, report: &Report) -> Outcome {
    let (event, words) = match report {
        Report::Offered { peer, name, next } => (
            json!({"kind": "offered", "peer": peer.to_string(), "name": name, "next": next}),
            format!("{peer} offers '{name}', from ADU {next} on."),
        ),
        Report::OfferOver {
            peer,
            name,
            is_complete,
        } => {
            let end = if *is_complete {
                "has sent all of"
            } else {
                "is away with"
            };
            (
                json!({"kind": "offer_over", "peer": peer.to_string(), "name": name, "is_complete": is_complete}),
                format!("{peer} {end} '{name}'."),
            )
        }
        Report::Subscribed {
            peer,
            name,
            pipeline,
        } => (
            json!({"kind": "subscribed", "peer": peer.to_string(), "name": name, "pipeline": pipeline}),
            format!("{peer} subscribes to '{name}': {}", shown(pipeline)),
        ),
        Report::Changed {
            peer,
            name,
            pipeline,
        } => (
            json!({"kind": "changed", "peer": peer.to_string(), "name": name, "pipeline": pipeline}),
            format!(
                "{peer} changes its pipeline of '{name}': {}",
                shown(pipeline)
            ),
        ),
        Report::SubscriptionOver { peer, name, sent } => (
            json!({"kind": "subscription_over", "peer": peer.to_string(), "name": name, "sent": sent}),
            format!("{peer} has left '{name}': {sent} ADUs were sent."),
        ),
        Report::Module {
            peer,
            name,
            hash,
            bytes,
        } => (
            json!({"kind": "module_brought", "peer": peer.to_string(), "name": name, "hash": hash.to_string(), "bytes": bytes}),
            format!("{peer} has brought the module {hash}, {bytes} bytes, for '{name}'."),
        ),
        Report::Refused { peer, name, why } => (
            json!({"kind": "refused", "peer": peer.to_string(), "name": name, "why": why}),
            format!("Refused to {peer} about '{name}': {why}"),
        ),
        _ => return Ok(()),
    };
    tell(arguments.json, &event, &words)
}

fn shown(pipeline: &str) -> &str {
    if pipeline.is_empty() {
        "as it is"
    } else {
        pipeline
    }
}
