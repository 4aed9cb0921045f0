//! `anabranch demo-gateway`: unchanged programs through forwards over three emulated paths, one of which is cut.
//!
//! `anabranch node` and `anabranch forward` are separate processes, as a user would run them; only the links are emulated, in
//! this process. A download and database queries share the session.

mod database;

use std::{
    net::SocketAddr,
    path::Path as FilePath,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anabranch::{Ticket, base::Seed, keys, net::emulate::Emulator};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use self::database::Database;
use super::{
    data::Data,
    links::{CUT, emulate, rows, table, watch},
    stage::{Narrator, Place, Running, percentile, until_ctrl_c},
    web::{self, Download},
};
use crate::exit::{Failure, Outcome, print_line};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    data: Data,
    /// Size of the download, in megabytes.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(5..=1000))]
    megabytes: u64,
    /// Seed of the random losses; the same seed gives the same losses.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Interval between two queries.
const QUERY_EVERY: Duration = Duration::from_millis(200);

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    until_ctrl_c(show(&arguments)).await
}

async fn show(arguments: &Arguments) -> Outcome {
    let narrator = Narrator::new(arguments.json);
    let folder = tempfile::tempdir().map_err(Failure::file)?;
    let bytes = usize::try_from(arguments.megabytes * 1_000_000).map_err(Failure::usage)?;
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.map_err(Failure::other)?;
    let web = listener.local_addr().map_err(Failure::other)?;
    web::serve(listener, bytes);
    let rows = folder.path().join("database");
    std::fs::create_dir(&rows).map_err(Failure::file)?;
    database::open_folder(folder.path())?;
    let database = Database::start(&rows).await?;

    let (_far, ticket) = far(folder.path(), &[web, database.at()]).await?;
    let mut ticket: Ticket = ticket.parse().map_err(Failure::other)?;
    let emulator = emulate(&arguments.data, ticket.addresses[0], Seed(arguments.seed))?;
    ticket.addresses = emulator.addresses().to_vec();
    let (_near, [web_here, database_here]) =
        near(folder.path(), &ticket, [web, database.at()]).await?;
    narrator.say(format!("the node beside the servers: {}", ticket.node))?;
    for path in emulator.paths() {
        let rate = path.rates().1.map(|rate| rate.to_string());
        let rate = rate.unwrap_or_default();
        narrator.say(format!("path {:<10} {rate} at first", path.name()))?;
    }
    narrator.say(format!(
        "download  http://{web_here}/, which is {web} there"
    ))?;
    let text = format!(
        "database  {database_here}, which is {} there: {}",
        database.at(),
        database.name()
    );
    narrator.say(text)?;
    narrator.say("")?;

    let received = AtomicU64::new(0);
    let share = || received.load(Ordering::Relaxed) as f64 / bytes as f64;
    let mut queries = Queries::default();
    let download = tokio::select! {
        download = web::download(Place::Here, web_here, bytes, &received) => download?,
        failure = queries.run(&database, database_here) => return Err(failure),
        never = watch(emulator.paths(), CUT, share, narrator) => return never,
    };
    let report = report(
        &download,
        bytes,
        &queries,
        &emulator,
        arguments.seed,
        database.name(),
    );
    if arguments.json {
        print_line(&report.to_string())?;
    } else {
        narrator.say_all(lines(&report))?;
    }
    Ok(())
}

/// Starts the node beside the servers, which allows the other one connections to them; returns its ticket, too.
async fn far(folder: &FilePath, targets: &[SocketAddr]) -> Result<(Running, String), Failure> {
    let near = keys::create(&folder.join("near.key"))?;
    let targets: Vec<String> = targets
        .iter()
        .map(|target| format!("\"{target}\""))
        .collect();
    let text = format!(
        "key = \"far.key\"\nlisten = [\"127.0.0.1:0\"]\ncontrol = \"far.sock\"\nlocal = \"\"\n\
         [[peer]]\nname = \"near\"\nnode = \"{}\"\n\
         may = [\"call\", {{ right = \"forward\", to = [{}] }}]\n",
        near.node_id(),
        targets.join(", "),
    );
    std::fs::write(folder.join("far.toml"), text).map_err(Failure::file)?;
    let mut node = Running::start(Place::Here, folder, &["node", "--config", "far.toml"])?;
    loop {
        let line = node.line().await?;
        let last = line.rsplit(' ').next().unwrap_or_default();
        if last.starts_with("anabranch1:") {
            return Ok((node, last.to_owned()));
        }
    }
}

/// Starts the forwards; returns where they accept connections, too.
async fn near(
    folder: &FilePath,
    ticket: &Ticket,
    targets: [SocketAddr; 2],
) -> Result<(Running, [SocketAddr; 2]), Failure> {
    let [web, database] = targets.map(|target| format!("0:{target}"));
    let ticket = ticket.to_string();
    let arguments = [
        "forward",
        "--json",
        "--key",
        "near.key",
        "--bind",
        "127.0.0.1:0",
        "-L",
        &web,
        "-L",
        &database,
        &ticket,
    ];
    let mut forward = Running::start(Place::Here, folder, &arguments)?;
    let mut listening = Vec::new();
    while listening.len() < 2 {
        let event: Value = serde_json::from_str(&forward.line().await?).map_err(Failure::other)?;
        if event["kind"] == "listening" {
            let at = event["at"].as_str().unwrap_or_default();
            listening.push(at.parse().map_err(Failure::other)?);
        }
    }
    Ok((forward, [listening[0], listening[1]]))
}

/// Answered queries, in milliseconds.
#[derive(Debug, Default)]
struct Queries {
    times_ms: Vec<f64>,
}

impl Queries {
    /// Asks again and again; returns only on failure.
    async fn run(&mut self, database: &Database, at: SocketAddr) -> Failure {
        for number in 0.. {
            let begin = Instant::now();
            if let Err(failure) = database.ask(at, number).await {
                return failure;
            }
            self.times_ms.push(begin.elapsed().as_secs_f64() * 1e3);
            tokio::time::sleep(QUERY_EVERY).await;
        }
        unreachable!("the numbers do not end")
    }
}

fn report(
    download: &Download,
    bytes: usize,
    queries: &Queries,
    emulator: &Emulator,
    seed: u64,
    database: &str,
) -> Value {
    json!({
        "seed": seed,
        "download": {
            "program": download.program,
            "bytes": bytes,
            "seconds": download.time.as_secs_f64(),
            "mbps": bytes as f64 * 8e-6 / download.time.as_secs_f64(),
            "longest_stall_ms": download.stall.as_secs_f64() * 1e3,
        },
        "queries": {
            "database": database,
            "answered": queries.times_ms.len(),
            "p50_ms": percentile(&queries.times_ms, 0.5),
            "p90_ms": percentile(&queries.times_ms, 0.9),
            "max_ms": percentile(&queries.times_ms, 1.0),
        },
        "paths": rows(emulator.paths()),
    })
}

fn lines(report: &Value) -> Vec<String> {
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let (download, queries) = (&report["download"], &report["queries"]);
    let mut lines = vec![
        String::new(),
        format!(
            "download  {} by {}: {:.1} Mbit/s, every byte right, longest stall {:.0} ms",
            format_args!("{:.0} MB", number(&download["bytes"]) / 1e6),
            download["program"].as_str().unwrap_or_default(),
            number(&download["mbps"]),
            number(&download["longest_stall_ms"]),
        ),
        format!(
            "queries   {} answered beside it, with the start of the client: median {:.0} ms, 90 % within {:.0} ms, longest {:.0} ms",
            queries["answered"],
            number(&queries["p50_ms"]),
            number(&queries["p90_ms"]),
            number(&queries["max_ms"]),
        ),
    ];
    lines.extend(table(&report["paths"]));
    lines
}
