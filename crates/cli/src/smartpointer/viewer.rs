//! `anabranch smartpointer viewer`.

use std::{net::SocketAddr, time::Duration};

use anabranch::base::{Rate, duration, text::printable};
use anabranch_visualise::smartpointer::{
    page::serve_page,
    viewer::{Arrived, Report, Settings, Viewer},
};
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};

use super::NAME;
use crate::{
    attach,
    direct::{self, Direct},
    exit::{Failure, Outcome, note, stopped},
    imd::{failure, line, parse_name},
    page,
};

/// Pause before the source is asked again.
const PAUSE: Duration = Duration::from_secs(1);
/// Reports that wait to be printed.
const REPORTS_MAX: usize = 256;
/// Frames that wait to be printed.
const FRAMES_MAX: usize = 1_024;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A link to the page is printed, which is good once, within ten minutes; Enter prints another one. The page shows the molecule as it comes, with \
the age of each part of a frame and its promise. What the picture shows is the view: bonds in it are sent before the others. All pages of a \
viewer share it.

A page that does not read loses whole frames, and holds up nobody.")]
pub(super) struct Arguments {
    /// Peer with the source: its name, ID@HOST:PORT, or a ticket.
    #[arg(value_name = "PEER")]
    peer: String,
    /// Name of the molecule at the source.
    #[arg(long, value_name = "NAME", default_value = NAME, value_parser = parse_name)]
    name: String,
    /// Address of the page, on this machine; with port 0, a free one.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8471", value_parser = page::address)]
    http: SocketAddr,
    /// End with the source.
    #[arg(long)]
    once: bool,
    /// Time for which an unreachable source is tried again.
    #[arg(long, value_name = "DURATION", default_value = "1 h", value_parser = parse_duration)]
    retry: Duration,
    /// Print events as lines of JSON.
    #[arg(long)]
    json: bool,
    /// With --json, an event for each part of a frame, too.
    #[arg(long, requires = "json")]
    frames: bool,
    #[command(flatten)]
    place: attach::Place,
    #[command(flatten)]
    direct: direct::Flags,
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

pub(super) async fn run(arguments: &Arguments) -> Outcome {
    let (reports, mut reported) = mpsc::channel(REPORTS_MAX);
    let (frames, mut framed) = mpsc::channel(FRAMES_MAX);
    let settings = Settings {
        name: arguments.name.clone(),
        arrived: arguments.frames.then_some(frames),
    };
    let viewer = Viewer::new(settings, reports);
    viewer.wait_for("no source is there yet");
    let served = serve_page(arguments.http, viewer.clone()).map_err(page::failed)?;
    let link = served.link().map_err(Failure::other)?;
    let event = json!({"kind": "listening", "at": served.address(), "link": link});
    let words = format!(
        "Open this link in a browser, within ten minutes; it is good once:\n\n    {link}\n"
    );
    // Before the first output: a script that reads it may send a signal at once.
    let stopped = stopped();
    line(arguments.json, &event, &words)?;
    let reporting = async {
        loop {
            tokio::select! {
                Some(report) = reported.recv() => show(arguments, &report)?,
                Some(arrived) = framed.recv() => frame(&arrived)?,
                else => std::future::pending().await,
            }
        }
    };
    let links = async {
        match arguments.json {
            true => std::future::pending().await,
            false => page::more_links(|| served.link()).await,
        }
    };
    let ended = tokio::select! {
        ended = watch(arguments, &viewer) => ended,
        failed = reporting => failed,
        failed = links => failed,
        stopped = stopped => stopped,
    };
    while let Ok(report) = reported.try_recv() {
        show(arguments, &report)?;
    }
    ended
}

/// One session with the source after the other.
async fn watch(arguments: &Arguments, viewer: &Viewer) -> Outcome {
    let mut until = None;
    let mut before = String::new();
    loop {
        match once(arguments, viewer).await {
            Ok(()) if arguments.once => return Ok(()),
            Ok(()) => (until, before) = (None, String::new()),
            // A source that was there and is not, as between two of them, is waited for like one that cannot be reached.
            Err(failure) if matches!(failure.code(), 3 | 5) || was_there(viewer, &failure) => {
                let now = Instant::now();
                if now >= *until.get_or_insert(now + arguments.retry) {
                    return Err(failure);
                }
                viewer.wait_for(failure.message());
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

fn was_there(viewer: &Viewer, failure: &Failure) -> bool {
    failure.code() == 4 && viewer.was_begun()
}

/// Watches the molecule until its source shows nothing more.
async fn once(arguments: &Arguments, viewer: &Viewer) -> Outcome {
    let watched = if direct::is_meant_by(&arguments.peer) {
        let own = Direct::open(&arguments.peer, &arguments.direct).await?;
        let watched = viewer.watch(own.session()).await;
        own.close().await;
        watched
    } else {
        let place = &arguments.place;
        let client = place.attach("anabranch smartpointer viewer").await;
        let client = client.map_err(attach::failure)?;
        let session = (client.connect(&arguments.peer).await).map_err(attach::failure)?;
        viewer.watch(&session).await
    };
    watched.map(drop).map_err(failure)
}

fn frame(arrived: &Arrived) -> Outcome {
    let event = json!({
        "kind": "frame",
        "part": arrived.part,
        "frame": arrived.frame,
        "view": arrived.view,
        "count": arrived.count,
        "bytes": arrived.bytes,
        "age_us": arrived.age.map(|age| age.age.as_micros() as u64),
    });
    crate::events::print(&event)
}

fn show(arguments: &Arguments, report: &Report) -> Outcome {
    let (event, words) = match report {
        Report::Begun(begun) => (
            json!({"kind": "begun", "atoms": begun.atoms, "bonds": begun.bonds, "period_us": begun.period_us}),
            format!("{} atoms and {} bonds are shown.", begun.atoms, begun.bonds),
        ),
        Report::Promise {
            part,
            rate_bps,
            why,
        } => {
            let why = printable(why, 500);
            let words = match rate_bps {
                Some(bps) => format!("{} are promised for {part}.", Rate::from_bps(*bps)),
                None => format!("Nothing is promised for {part}: {why}"),
            };
            (
                json!({"kind": "promise", "part": part, "rate_bps": rate_bps, "why": why}),
                words,
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
                format!("The source shows nothing more: {why}."),
            )
        }
        _ => return Ok(()),
    };
    line(arguments.json, &event, &words)
}
