//! `anabranch video ls`

use std::{net::SocketAddr, path::PathBuf};

use anabranch::Ticket;
use anabranch_video::proxy;
use serde_json::json;

use crate::exit::{Outcome, print_line};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The ticket that `anabranch video origin` printed.
    #[arg(value_name = "TICKET", env = "ANABRANCH_ORIGIN")]
    origin: Ticket,
    /// Addresses to call the origin from, IP:PORT with port 0 for any; may be repeated [default: all interfaces].
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<SocketAddr>,
    /// Key file [default: ~/.config/anabranch/key, made if missing].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let host = super::proxy::host(&arguments.bind, arguments.key.as_ref(), &arguments.origin)?;
    let videos = proxy::list(&host, &arguments.origin).await;
    host.shutdown().await;
    let videos = videos?;
    if arguments.json {
        return print_line(&json!(videos).to_string());
    }
    for video in videos {
        print_line(&format!(
            "{:>10.1} MB  {}",
            video.bytes as f64 / 1e6,
            video.name
        ))?;
    }
    Ok(())
}
