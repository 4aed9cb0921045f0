//! `anabranch video proxy`: serves an origin's videos to players.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anabranch::{AllowList, HostConfig, Ticket, keys};
use anabranch_video::proxy::{Admission, Config, Http, Prefix, Proxy};
use serde_json::json;

use super::{
    console::{self, Shown},
    parse_bytes, parse_duration, reach,
};
use crate::{
    exit::{Failure, Outcome, print_line, stopped},
    keygen::key_path,
    locals, recv,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Players open http://ADDRESS/v/NAME.mp4 or http://ADDRESS/v/NAME/master.m3u8; http://ADDRESS/ lists the videos, and \
http://ADDRESS/stats.json counts what was sent, lost and left out.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    origin: reach::Origin,
    /// Directory of the cache; created if missing.
    #[arg(long, value_name = "DIR")]
    cache: PathBuf,
    /// Maximum size of the cache, such as `10 GB`.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, default_value = "10 GB")]
    cache_size: u64,
    /// Address on which the HTTP server listens.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8080")]
    http: SocketAddr,
    /// Host name under which players reach this proxy, besides localhost, IP addresses and this machine's own name; may be
    /// repeated. Requests for other host names are refused.
    #[arg(long, value_name = "NAME")]
    http_name: Vec<String>,
    /// Web origin whose pages may read the proxy's responses (CORS), such as `https://example.org`, or `*` for all; may be
    /// repeated [default: only the proxy's own page].
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,
    /// Maximum number of concurrent HTTP connections, at most half of them from one address.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=65_536), default_value_t = 512)]
    connections: u32,
    /// Maximum time that a player waits for a chunk before it is served without the missing frames.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "2 s")]
    start_delay: Duration,
    /// Time by which frames of the enhanced flow are sent ahead of the viewer.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "8 s")]
    lead: Duration,
    /// Part of every video's beginning to prefetch, so that it starts at once: a time, `0 s` for none, or `auto` to compute it
    /// from the video's rates and the link's RTT and losses.
    #[arg(long, value_name = "DURATION|auto", value_parser = parse_prefix, default_value = "auto")]
    prefix: Prefix,
    /// Capacity of the link to the origin, such as `20 Mbit/s`, or `measured`. A viewer is refused if the capacity does not
    /// suffice, or while others get less than they need [default: no viewer is refused].
    #[arg(long, value_name = "RATE")]
    capacity: Option<Admission>,
    /// Do not request lost frames again.
    #[arg(long)]
    no_repair: bool,
    /// Local address to call the origin from, IP:PORT with port 0 for any; may be repeated [default: every interface].
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<SocketAddr>,
    /// Key file [default: ~/.config/anabranch/key, created if missing].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
    #[command(flatten)]
    console: console::Flag,
    /// Print only the address, and the link of the console on a second line.
    #[arg(short, long)]
    quiet: bool,
    /// Print a line of JSON when it serves.
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
}

fn parse_prefix(text: &str) -> Result<Prefix, String> {
    match text.trim() {
        "auto" => Ok(Prefix::Auto),
        time => parse_duration(time).map(Prefix::Fixed),
    }
}

/// Opens the host: on loopback for an origin on this machine, else on the interfaces.
pub(super) async fn host(
    bind: &[SocketAddr],
    key: Option<&PathBuf>,
    origin: &Ticket,
) -> Result<anabranch::Host, Failure> {
    let bind = locals::binds(bind, &origin.remotes()).await;
    let key = keys::load_or_create(&key_path(key))?;
    let config = HostConfig::new(key, AllowList::default());
    Ok(recv::host(&bind, 0, config)?)
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    // Before the first output: a script that reads it may send a signal at once.
    let stopped = stopped();
    let ticket = arguments.origin.ticket()?;
    let host = host(&arguments.bind, arguments.key.as_ref(), &ticket).await?;
    let config = Config {
        cache_bytes: arguments.cache_size,
        start_delay: arguments.start_delay,
        lead: arguments.lead,
        prefix: arguments.prefix,
        repairs: !arguments.no_repair,
        admission: arguments.capacity.unwrap_or_default(),
        http: Http {
            connections: arguments.connections as usize,
            per_address: (arguments.connections / 2) as usize,
            names: arguments.http_name,
            cors: arguments.cors,
        },
        ..Config::new(arguments.cache)
    };
    let proxy = Proxy::open(config, arguments.http, &ticket).await?;
    let console = arguments.console.start(Shown::Proxy(proxy.monitor()))?;
    let address = proxy.address();
    if arguments.json {
        let mut event = json!({
            "kind": "serving",
            "http": format!("http://{address}/"),
            "origin": ticket.node.to_string(),
        });
        console.add_to(&mut event)?;
        print_line(&event.to_string())?;
    } else if arguments.quiet {
        print_line(&format!("http://{address}/"))?;
        console.print(true)?;
    } else {
        print_line(&format!("Players find the videos at http://{address}/"))?;
        console.print(false)?;
    }
    let stop = async {
        // If signals cannot be received, it runs until it is killed.
        if stopped.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = proxy.run(&host, &ticket, stop) => {}
        () = console.more_links() => {}
    }
    host.shutdown().await;
    Ok(())
}
