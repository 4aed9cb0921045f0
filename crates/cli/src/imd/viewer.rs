//! `anabranch imd viewer`.

use std::{net::SocketAddr, time::Duration};

use anabranch::base::{Rate, duration, text::printable};
use anabranch_visualise::{
    VisualiseError,
    imd::Sections,
    viewer::{Report, Settings, Viewer},
};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

use super::{NAME, failure, line, parse_name};
use crate::{
    attach,
    direct::{self, Direct},
    exit::{Failure, Outcome, note, stopped},
};

/// Pause before the source is asked again.
const PAUSE: Duration = Duration::from_secs(1);
/// Time for clients to take what they have not read when the command ends with the simulation.
const DRAIN_TIME: Duration = Duration::from_secs(60);
/// Reports that wait to be printed.
const REPORTS_MAX: usize = 256;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Clients connect as to a simulation: imdclient, or MDAnalysis with imd://127.0.0.1:8888 in place of a trajectory. Each client gets whole \
frames only. A frame that lacks a section is skipped for the endpoints that serve this section, and for no others: \
--serve 127.0.0.1:8888=time+box+positions --serve 127.0.0.1:8889=all has the promised sections at one port, and all at another.

A client that does not read loses frames, and holds up nobody, unless --wait is given. The pause of a client holds back its own frames; \
with --steer, it pauses the simulation, if the source allows that to this node.")]
pub(super) struct Arguments {
    /// Peer with the source: its name, ID@HOST:PORT, or a ticket.
    #[arg(value_name = "PEER")]
    peer: String,
    /// Name of the simulation at the source.
    #[arg(long, value_name = "NAME", default_value = NAME, value_parser = parse_name)]
    name: String,
    /// Address for clients, and the sections that they get: some of time, energies, box, positions, velocities, forces with + between
    /// them, or all [default: all]; may be repeated.
    #[arg(long, value_name = "IP:PORT[=SECTIONS]", default_value = "127.0.0.1:8888", value_parser = parse_endpoint)]
    serve: Vec<(SocketAddr, Sections)>,
    /// Skip nothing here: frames begin with the first client, and the slowest client holds up all. With --wait of the source, every
    /// frame arrives.
    #[arg(long)]
    wait: bool,
    /// Send pauses, rates of frames and ends by clients to the simulation.
    #[arg(long)]
    steer: bool,
    /// End with the simulation.
    #[arg(long)]
    once: bool,
    /// Time for which an unreachable source is tried again.
    #[arg(long, value_name = "DURATION", default_value = "1 h", value_parser = parse_duration)]
    retry: Duration,
    /// Print events as lines of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: attach::Place,
    #[command(flatten)]
    direct: direct::Flags,
}

fn parse_endpoint(text: &str) -> Result<(SocketAddr, Sections), String> {
    let (address, sections) = text.split_once('=').unwrap_or((text, "all"));
    let address = address.parse().map_err(|_| {
        format!("'{address}' is no IP:PORT; give such as 127.0.0.1:8888=time+box+positions")
    })?;
    let sections = sections.parse();
    Ok((
        address,
        sections.map_err(|error: anabranch_visualise::imd::NoSection| error.to_string())?,
    ))
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

pub(super) async fn run(arguments: &Arguments) -> Outcome {
    let mut endpoints = Vec::new();
    let mut addresses = Vec::new();
    for (address, sections) in &arguments.serve {
        let listener = TcpListener::bind(address).await.map_err(|error| {
            Failure::usage(format!(
                "cannot listen at {address}: {error}; choose another port with --serve"
            ))
        })?;
        addresses.push(listener.local_addr().unwrap_or(*address));
        endpoints.push((listener, *sections));
    }
    let (reports, mut reported) = mpsc::channel(REPORTS_MAX);
    let settings = Settings {
        name: arguments.name.clone(),
        is_waiting: arguments.wait,
        is_steering: arguments.steer,
    };
    let mut viewer = Viewer::new(endpoints, settings, reports);
    // Before the first output: a script that reads it may send a signal at once.
    let stopped = stopped();
    listening(arguments, &addresses)?;
    let reporting = async {
        while let Some(report) = reported.recv().await {
            show(arguments, &report)?;
        }
        std::future::pending().await
    };
    let ended = tokio::select! {
        ended = watch(arguments, &mut viewer) => ended,
        failed = reporting => failed,
        stopped = stopped => stopped,
    };
    while let Ok(report) = reported.try_recv() {
        show(arguments, &report)?;
    }
    ended
}

/// One session with the simulation after the other.
async fn watch(arguments: &Arguments, viewer: &mut Viewer) -> Outcome {
    let mut until = None;
    let mut before = String::new();
    loop {
        match once(arguments, viewer).await {
            Ok(()) if arguments.once => {
                // A client that does not read is left behind.
                let _ = timeout(DRAIN_TIME, viewer.drained()).await;
                return Ok(());
            }
            Ok(()) => (until, before) = (None, String::new()),
            Err(failure) if matches!(failure.code(), 3 | 5) => {
                let now = Instant::now();
                if now >= *until.get_or_insert(now + arguments.retry) {
                    return Err(failure);
                }
                if before != failure.message() {
                    note(&format!("{}; trying again", failure.message()));
                    failure.message().clone_into(&mut before);
                }
            }
            Err(failure) => return Err(failure),
        }
        sleep(PAUSE).await;
    }
}

/// Watches the simulation until it is over.
async fn once(arguments: &Arguments, viewer: &mut Viewer) -> Outcome {
    if direct::is_meant_by(&arguments.peer) {
        let own = Direct::open(&arguments.peer, &arguments.direct).await?;
        let watched = viewer.watch(own.session()).await;
        own.close().await;
        return settled(watched);
    }
    let client = (arguments.place.attach("anabranch imd viewer").await).map_err(attach::failure)?;
    let session = (client.connect(&arguments.peer).await).map_err(attach::failure)?;
    settled(viewer.watch(&session).await)
}

fn settled(watched: Result<String, VisualiseError>) -> Outcome {
    watched.map(drop).map_err(failure)
}

fn listening(arguments: &Arguments, addresses: &[SocketAddr]) -> Outcome {
    let sections = arguments.serve.iter().map(|(_, sections)| sections);
    let endpoints = || addresses.iter().zip(sections.clone());
    let rows: Vec<Value> = endpoints()
        .map(|(address, sections)| json!({"address": address, "sections": sections.to_string()}))
        .collect();
    line(
        arguments.json,
        &json!({"kind": "listening", "endpoints": rows}),
        &endpoints()
            .map(|(address, sections)| format!("Serving {sections} at imd://{address}."))
            .collect::<Vec<_>>()
            .join("\n"),
    )
}

fn show(arguments: &Arguments, report: &Report) -> Outcome {
    let (event, words) = match report {
        Report::Waiting { why } => {
            let why = printable(why, 200);
            (
                json!({"kind": "waiting", "why": why}),
                format!("Waiting: {why}."),
            )
        }
        Report::Begun(info) => (
            json!({"kind": "begun", "sections": info.sections.to_string(), "byte_order": info.order}),
            format!("The simulation sends {}.", info.sections),
        ),
        Report::Promise { rate_bps, why } => {
            let why = printable(why, 500);
            let words = match rate_bps {
                Some(bps) => format!("{} are promised for positions.", Rate::from_bps(*bps)),
                None => format!("Nothing is promised for positions: {why}"),
            };
            (
                json!({"kind": "promise", "rate_bps": rate_bps, "why": why}),
                words,
            )
        }
        Report::Skipped { sections, frames } => (
            json!({"kind": "skipped", "sections": sections, "frames": frames}),
            format!("{frames} frames lacked a part of {sections}."),
        ),
        Report::Client { address, sections } => (
            json!({"kind": "client", "address": address, "sections": sections}),
            format!("{address} gets {sections}."),
        ),
        Report::Left {
            address,
            served,
            skipped,
            why,
        } => {
            let why = why.as_ref().map(|why| printable(why, 200));
            let words = why.as_ref().map(|why| format!(": {why}"));
            (
                json!({"kind": "left", "address": address, "served": served, "skipped": skipped, "why": why}),
                format!(
                    "{address} has left after {served} frames, {skipped} of which it did not read in time were left out{}.",
                    words.unwrap_or_default()
                ),
            )
        }
        Report::Refused { why } => {
            let why = printable(why, 300);
            (
                json!({"kind": "refused", "why": why}),
                format!("A command was refused: {why}."),
            )
        }
        Report::Ended {
            why,
            frames,
            skipped,
        } => {
            let why = printable(why, 200);
            (
                json!({"kind": "ended", "why": why, "frames": frames, "skipped": skipped}),
                format!("The simulation is over: {why}."),
            )
        }
        _ => return Ok(()),
    };
    line(arguments.json, &event, &words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_addresses_with_sections() {
        let (address, sections) = parse_endpoint("127.0.0.1:8888").unwrap();
        assert_eq!((address.port(), sections), (8888, Sections::ALL));
        let (_, sections) = parse_endpoint("[::1]:8888=box+positions").unwrap();
        assert_eq!(sections.to_string(), "box+positions");
        for (wrong, says) in [
            ("localhost:8888", "IP:PORT"),
            ("127.0.0.1", "IP:PORT"),
            ("127.0.0.1:8888=bonds", "velocities"),
            ("127.0.0.1:8888=", "velocities"),
        ] {
            let error = parse_endpoint(wrong).unwrap_err();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }
}
