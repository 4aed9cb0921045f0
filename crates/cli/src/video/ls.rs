//! `anabranch video ls`: the videos of an origin.

use std::{net::SocketAddr, path::PathBuf};

use anabranch::base::text::{REASON_CHARS, printable};
use anabranch_video::proxy;
use serde_json::json;

use super::reach;
use crate::exit::{Outcome, print_line};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Ticket that `anabranch video origin` or `video ticket new` printed, or `-` for standard input. Other users of this
    /// machine can see it here; prefer --ticket-file or the variable ANABRANCH_TICKET.
    #[arg(value_name = "TICKET")]
    origin: Option<String>,
    /// File with the ticket in its first line; `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "origin")]
    ticket_file: Option<PathBuf>,
    /// Local address to call the origin from, IP:PORT with port 0 for any; may be repeated [default: every interface].
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<SocketAddr>,
    /// Key file [default: ~/.config/anabranch/key, created if missing].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let ticket = reach::ticket(
        arguments.origin.as_deref(),
        arguments.ticket_file.as_deref(),
    )?;
    let host = super::proxy::host(&arguments.bind, arguments.key.as_ref(), &ticket).await?;
    let videos = proxy::list(&host, &ticket).await;
    host.shutdown().await;
    let videos = videos?;
    if arguments.json {
        return print_line(&json!(videos).to_string());
    }
    for video in videos {
        print_line(&format!(
            "{:>10.1} MB  {}",
            video.bytes as f64 / 1e6,
            printable(&video.name, REASON_CHARS)
        ))?;
    }
    Ok(())
}
