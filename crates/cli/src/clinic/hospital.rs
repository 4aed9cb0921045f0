//! `anabranch clinic hospital`.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anabranch::{AllowList, HostConfig, StartError, keys};
use anabranch_clinic::hospital::{
    Hospital, Report,
    page::{Address, PublicName, serve_page},
};
use anabranch_console::StartError as PageError;
use serde_json::json;
use tokio::sync::mpsc;

use super::{
    consent::{parse_time, words},
    failure, tell,
};
use crate::{
    exit::{Failure, Outcome, note, print_line, stopped},
    keygen::key_path,
    page, recv,
};

/// Reports that wait to be printed.
const REPORTS_MAX: usize = 1_024;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The ticket is bound to the first ambulance that uses it; another one needs a hospital with another --store. It stays the same as long as the key and the \
store do, so that the ambulance finds a hospital that was started again, and the record goes on.

\
With --http, a link to the page is printed, which is good once, within ten minutes; Enter prints another one. Up to eight pages can be open. One \
that does not read loses samples and pictures, which it counts, and holds up nobody. From another machine: ssh -L 8472:127.0.0.1:8472 HOST, or a web server \
on this machine that adds TLS and passes requests on with their Host: give its name with --http-name.

No fitness for diagnosis is claimed.")]
pub(super) struct Arguments {
    /// Folder of the cases; made if it is missing.
    #[arg(long, value_name = "DIR", default_value = "clinic")]
    store: PathBuf,
    /// Longest time for which a case is kept after its end, such as '30 days'; then it is removed. A patient can consent to less, or to nothing
    /// (`clinic ambulance --consent`).
    #[arg(long, value_name = "TIME", default_value = "30 days", value_parser = parse_time)]
    keep: Duration,
    /// Address to listen on, IP:PORT; may be repeated [default: every interface, on a port that stays the same for this store and key, if
    /// it is free].
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<SocketAddr>,
    /// Show the newest case in a browser, at this address of this machine; with port 0, at a free one; without an address, at 127.0.0.1:8472.
    #[arg(long, value_name = "IP:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:8472", conflicts_with = "quiet", value_parser = page::address)]
    http: Option<SocketAddr>,
    /// Name under which a web server on this machine serves the page to others, over TLS: HOST, or HOST:PORT if the port is not 443. Links lead
    /// there.
    #[arg(long, value_name = "NAME", requires = "http")]
    http_name: Option<PublicName>,
    /// Key file [default: ~/.config/anabranch/key, created if missing].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
    /// Print only the ticket.
    #[arg(short, long)]
    quiet: bool,
    /// Print events as lines of JSON.
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
}

/// The failure of the page.
fn unserved(error: PageError) -> Failure {
    match error {
        PageError::Remote(_) => Failure::usage(format!(
            "{error}, or a web server on this machine that adds TLS, with --http-name"
        )),
        other => page::failed(other),
    }
}

pub(super) async fn run(arguments: &Arguments) -> Outcome {
    // Before the first output: a script that reads it may send a signal at once.
    let stopped = stopped();
    let key = keys::load_or_create(&key_path(arguments.key.as_ref()))?;
    let (sender, mut reports) = mpsc::channel(REPORTS_MAX);
    let hospital =
        Hospital::open(&arguments.store, arguments.keep, &key, sender).map_err(failure)?;
    let open = |port| {
        let config = HostConfig::new(key.clone(), AllowList::everyone());
        recv::host(&arguments.listen, port, config)
    };
    // The previous port, so that a ticket is still good after a restart; any other if that one is in use.
    let served = arguments.http.map(|listen| {
        let name = arguments.http_name.clone();
        serve_page(Address { listen, name }, hospital.live())
    });
    let served = served.transpose().map_err(unserved)?;
    let host = match open(hospital.port()) {
        Err(StartError::Bind(error)) if arguments.listen.is_empty() => {
            tracing::info!(%error, "the previous port is not available; using another");
            open(0)?
        }
        opened => opened?,
    };
    let ticket = hospital.ticket(&host).to_string();
    let store = arguments.store.display().to_string();
    match (arguments.quiet, arguments.json) {
        (true, _) => print_line(&ticket)?,
        (_, is_json) => tell(
            is_json,
            &json!({"kind": "serving", "ticket": ticket, "store": store, "keep_s": arguments.keep.as_secs()}),
            &format!(
                "Cases are kept in {store}, for {} after their end at most. In the ambulance, run this command with the ticket in a file, or in ANABRANCH_TICKET:\n\n    \
                 anabranch clinic ambulance --ekg RECORD.hea --ticket-file FILE\n\n    {ticket}\n",
                words(arguments.keep)
            ),
        )?,
    }
    if let Some(served) = &served {
        let link = served.link().map_err(Failure::other)?;
        let event = json!({"kind": "listening", "at": served.address(), "link": link});
        let words = format!(
            "Open this link in a browser, within ten minutes; it is good once:\n\n    {link}\n"
        );
        tell(arguments.json, &event, &words)?;
    }
    let links = async {
        match &served {
            Some(served) if !arguments.json => page::more_links(|| served.link()).await,
            _ => std::future::pending().await,
        }
    };
    let showing = async {
        while let Some(report) = reports.recv().await {
            show(arguments, &report)?;
        }
        Ok(())
    };
    let outcome = tokio::select! {
        () = hospital.serve(&host) => Ok(()),
        shown = showing => shown,
        failed = links => failed,
        stopped = stopped => stopped,
    };
    host.shutdown().await;
    outcome
}

fn show(arguments: &Arguments, report: &Report) -> Outcome {
    let (event, words) = match report {
        Report::Begun { node, folder, kept } => (
            json!({"kind": "begun", "node": node.to_string(), "folder": folder.display().to_string(), "kept_s": kept.as_secs()}),
            format!(
                "The ambulance is there; its case is {}, {}.",
                folder.display(),
                match kept.as_secs() {
                    0 => "which is removed when it has ended".to_owned(),
                    _ => format!("and is kept for {} after its end", words(*kept)),
                }
            ),
        ),
        Report::Removed { folder, why } => {
            let folder = folder.display().to_string();
            let words = match why {
                None => format!("The time of {folder} was over; it is removed."),
                Some(why) => {
                    format!("The time of {folder} is over, but it cannot be removed: {why}.")
                }
            };
            (
                json!({"kind": "removed", "folder": folder, "why": why}),
                words,
            )
        }
        Report::Ekg { leads, next } => (
            json!({"kind": "ekg", "leads": leads, "next": next}),
            match next {
                0 => format!(
                    "The record has {} leads: {}.",
                    leads.len(),
                    leads.join(", ")
                ),
                next => format!("The record goes on with frame {next}."),
            },
        ),
        Report::Hole(hole) => (
            json!({"kind": "hole", "first": hole.first, "frames": hole.frames}),
            format!(
                "{} frames from frame {} on never came.",
                hole.frames, hole.first
            ),
        ),
        Report::Ended { frames, missing } => (
            json!({"kind": "ended", "frames": frames, "missing": missing}),
            format!("The record has ended: {frames} frames, {missing} of them missing."),
        ),
        Report::Vital { number, heart_rate } if arguments.json => (
            json!({"kind": "vital", "second": number, "heart_rate": heart_rate}),
            String::new(),
        ),
        Report::Still { path, bytes } => (
            json!({"kind": "still", "path": path.display().to_string(), "bytes": bytes}),
            format!("Kept {} ({bytes} bytes).", path.display()),
        ),
        Report::Pictures(of) => (
            json!({"kind": "pictures", "received": of.received, "missing": of.missing, "in_time": of.in_time, "keys_requested": of.keys_requested}),
            format!(
                "Video: {} pictures came, {} of them within 800 ms; {} did not. Key pictures that were asked for: {}.",
                of.received, of.in_time, of.missing, of.keys_requested
            ),
        ),
        Report::Speech(of) => (
            json!({"kind": "speech", "received": of.received, "missing": of.missing, "in_time": of.in_time}),
            format!(
                "Speech: {} packets came, {} of them within 400 ms; {} did not.",
                of.received, of.in_time, of.missing
            ),
        ),
        Report::Left { node, why } => (
            json!({"kind": "left", "node": node.to_string(), "why": why}),
            format!("The session is over: {why}."),
        ),
        Report::Failed { purpose, why } => {
            let event = json!({"kind": "failed", "stream": purpose.to_string(), "why": why});
            if !arguments.json {
                note(&format!("{purpose}: {why}"));
                return Ok(());
            }
            (event, String::new())
        }
        _ => return Ok(()),
    };
    match arguments.quiet {
        true => Ok(()),
        false => tell(arguments.json, &event, &words),
    }
}
