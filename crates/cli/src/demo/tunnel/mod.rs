//! `anabranch demo-tunnel`: unchanged traffic through a tunnel over three emulated paths, one of which is cut.
//!
//! `anabranch tun` runs at both ends as separate processes, as a user would run them, in network namespaces of their own; only the links
//! are emulated, in this process. A download and small messages share the tunnel.

mod layout;
mod messages;
mod report;

use std::{
    net::{IpAddr, SocketAddr},
    path::Path as FilePath,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use anabranch::{base::Seed, keys};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use self::{
    layout::{CUT, HOST, Layout, PATHS, SERVER},
    messages::Messages,
};
use super::{
    links::{rows, watch},
    stage::{Narrator, Place, Running, until_ctrl_c},
    web::{self, Download},
};
use crate::exit::{Failure, Outcome, print_line};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Size of the download over IPv4, in megabytes; another over IPv6 has a quarter of it.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(4..=150))]
    megabytes: u64,
    /// Seed of the emulated links.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Longest time that all takes.
const LIMIT: Duration = Duration::from_secs(55);
/// Time for which messages are sent alone.
const ALONE: Duration = Duration::from_secs(2);
/// Time that a message through the tunnel, or past it, may take at most.
const REACHED: Duration = Duration::from_secs(10);
/// Time after which the host counts as unreachable over IPv6, to which the laptop has no route without the tunnel.
const UNREACHABLE: Duration = Duration::from_secs(1);
/// Times in which the host answers over IPv4 and IPv6, without the tunnel and in it.
const PAST: [Duration; 2] = [REACHED, UNREACHABLE];
const THROUGH: [Duration; 2] = [REACHED; 2];

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    until_ctrl_c(async {
        let shown = tokio::time::timeout(LIMIT, show(&arguments)).await;
        shown.unwrap_or_else(|_| {
            Err(Failure::interrupted(format!(
                "the demonstration took longer than {} s; is the machine busy?",
                LIMIT.as_secs()
            )))
        })
    })
    .await
}

async fn show(arguments: &Arguments) -> Outcome {
    let narrator = Narrator::new(arguments.json);
    let layout = Layout::new(Seed(arguments.seed))?;
    let folder = tempfile::tempdir().map_err(Failure::file)?;
    let bytes = usize::try_from(arguments.megabytes * 1_000_000).map_err(Failure::usage)?;
    let host = Host::start(&layout, [bytes, bytes / 4])?;
    let [v4, v6] = HOST;
    narrator.say(format!(
        "a laptop with three paths to a server, {SERVER}, and a host behind it, {v4} and {v6}"
    ))?;
    for (name, link) in PATHS {
        narrator.say(format!("path {name:<10} {link}"))?;
    }
    let laptop = layout.laptop.place();
    let before = seen(laptop, host.messages, PAST).await?;
    narrator.say(format!("without the tunnel {}", report::seen(&before)))?;
    narrator.say("")?;

    let (_server, ticket) = serve(&layout, folder.path()).await?;
    narrator.say("server     anabranch tun --serve --allow NODE")?;
    let (client, up) = join(&layout, folder.path(), &ticket).await?;
    narrator.say("laptop     anabranch tun TICKET --default-route")?;
    narrator.say(format!("           {up}"))?;
    let during = seen(laptop, host.messages, THROUGH).await?;
    narrator.say(format!("in the tunnel {}", report::seen(&during)))?;
    narrator.say("")?;

    let mut messages = [
        Messages::new(laptop, host.messages[0])?,
        Messages::new(laptop, host.messages[1])?,
    ];
    // It ends at the timeout: messages are sent until then.
    let _ = tokio::time::timeout(ALONE, exchange(&mut messages)).await;
    let alone = messages.each_mut().map(Messages::report);
    let received = AtomicU64::new(0);
    let share = || received.load(Ordering::Relaxed) as f64 / bytes as f64;
    let download = tokio::select! {
        download = web::download(laptop, host.web[0], bytes, &received) => download?,
        never = exchange(&mut messages) => return never,
        never = watch(layout.emulator.paths(), CUT, share, narrator) => return never,
    };
    let beside = messages.each_mut().map(Messages::report);
    let over_v6 = web::download(laptop, host.web[1], bytes / 4, &AtomicU64::new(0)).await?;
    client.interrupt().await?;
    let after = seen(laptop, host.messages, PAST).await?;

    let result = json!({
        "seed": arguments.seed,
        "source": { "before": before, "tunnel": during, "after": after },
        "downloads": [row(&download, bytes), row(&over_v6, bytes / 4)],
        "messages_alone": alone,
        "messages_beside": beside,
        "paths": rows(layout.emulator.paths()),
    });
    match arguments.json {
        true => print_line(&result.to_string()),
        false => narrator.say_all(report::lines(&result)),
    }
}

/// Servers of the host: a web server and one that answers messages, for each family.
struct Host {
    web: [SocketAddr; 2],
    messages: [SocketAddr; 2],
}

impl Host {
    fn start(layout: &Layout, bytes: [usize; 2]) -> Result<Self, Failure> {
        let place = layout.host.place();
        let addresses = HOST.map(|text| text.parse::<IpAddr>().expect("these are addresses"));
        let listen = |address: IpAddr| {
            let opened = place.within(|| {
                let listener = std::net::TcpListener::bind((address, 80))?;
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener)
            })?;
            opened.map_err(Failure::other)
        };
        for (address, bytes) in addresses.into_iter().zip(bytes) {
            web::serve(listen(address)?, bytes);
        }
        Ok(Self {
            web: addresses.map(|address| SocketAddr::new(address, 80)),
            messages: [
                messages::serve(place, addresses[0])?,
                messages::serve(place, addresses[1])?,
            ],
        })
    }
}

/// Addresses that the host sees of the laptop, as texts; null where it is not reached.
async fn seen(
    laptop: Place<'_>,
    host: [SocketAddr; 2],
    within: [Duration; 2],
) -> Result<Value, Failure> {
    let (v4, v6) = tokio::try_join!(
        messages::source(laptop, host[0], within[0]),
        messages::source(laptop, host[1], within[1]),
    )?;
    Ok(json!([v4, v6]))
}

/// Starts the server of the tunnel; returns its ticket, too.
async fn serve(layout: &Layout, folder: &FilePath) -> Result<(Running, String), Failure> {
    let client = keys::create(&folder.join("laptop.key"))?.node_id();
    let arguments = [
        &["tun", "--json", "--serve", "--key", "server.key"][..],
        &["--leases", "leases", "--allow", &client.to_string()],
        &["--listen", &format!("{SERVER}:4433")],
    ];
    let place = layout.server.place();
    let mut server = Running::start(place, folder, &arguments.concat())?;
    let event = event(&mut server, "ticket").await?;
    let ticket = event["ticket"].as_str().unwrap_or_default().to_owned();
    Ok((server, ticket))
}

/// Starts the client; returns what it says when it is up, too.
async fn join(
    layout: &Layout,
    folder: &FilePath,
    ticket: &str,
) -> Result<(Running, String), Failure> {
    let arguments = [
        &["tun", "--json", ticket, "--key", "laptop.key"][..],
        &["--default-route"],
    ];
    let place = layout.laptop.place();
    let mut client = Running::start(place, folder, &arguments.concat())?;
    let event = event(&mut client, "up").await?;
    let text = event["text"].as_str().unwrap_or_default().to_owned();
    Ok((client, text))
}

/// The next event of a kind.
async fn event(process: &mut Running, kind: &str) -> Result<Value, Failure> {
    loop {
        let event: Value = serde_json::from_str(&process.line().await?).map_err(Failure::other)?;
        if event["kind"] == kind {
            return Ok(event);
        }
    }
}

/// Sends messages of both families until dropped.
async fn exchange(messages: &mut [Messages; 2]) -> Outcome {
    let [v4, v6] = messages;
    tokio::join!(v4.run(), v6.run());
    Ok(())
}

fn row(download: &Download, bytes: usize) -> Value {
    json!({
        "program": download.program,
        "bytes": bytes,
        "seconds": download.time.as_secs_f64(),
        "mbps": bytes as f64 * 8e-6 / download.time.as_secs_f64(),
        "longest_stall_ms": download.stall.as_secs_f64() * 1e3,
    })
}
