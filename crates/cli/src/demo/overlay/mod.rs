//! `anabranch demo-overlay`: four nodes on this machine, emulated links between them, a transfer over two paths, and a relay that
//! is killed during the transfer.
//!
//! Every node is a separate process, `anabranch node`, and the transfer is `anabranch send --overlay`, as a user would run them.
//! Only the links are emulated, in this process.

mod layout;

use std::{path::Path, time::Duration};

use anabranch::{
    Ticket,
    base::{NodeId, Seed},
    control::{self, PathsQuery, Request},
};
use serde_json::{Value, json};
use tokio::process::Child;

use self::layout::{CLINIC, LAB, LINKS, NODES, Node, RELAYS, lay_out};
use super::stage::{Narrator, program, until_ctrl_c};
use crate::{
    control::rows,
    exit::{Failure, Outcome, print_line},
    overlay::table,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Size of the file to send, in megabytes.
    #[arg(long, value_name = "MB", default_value_t = 24, value_parser = clap::value_parser!(u64).range(4..=1000))]
    megabytes: u64,
    /// Seed of the random losses; the same seed gives the same losses.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON, and nothing else.
    #[arg(long)]
    json: bool,
}

/// Timeout for the nodes to find and measure each other.
const SETTLED: Duration = Duration::from_secs(60);
/// Minimum time for which they measure.
const MEASURED: Duration = Duration::from_secs(10);
/// Interval between two queries.
const LOOK: Duration = Duration::from_millis(250);
/// Timeout for the transfer.
const SENT: Duration = Duration::from_secs(300);

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    until_ctrl_c(show(&arguments)).await
}

async fn show(arguments: &Arguments) -> Outcome {
    let narrator = Narrator::new(arguments.json);
    let folder = tempfile::tempdir().map_err(Failure::file)?;
    let (mut nodes, emulator, ticket) = lay_out(folder.path(), arguments.seed)?;
    for (name, node) in NODES.iter().zip(&mut nodes) {
        node.start().await?;
        narrator.say(format!("{name:<7} {}", node.id))?;
    }
    for ([a, b], link) in LINKS {
        narrator.say(format!("{:>7} – {:<7} {link}", NODES[a], NODES[b]))?;
    }
    narrator.say("\nthe nodes find each other and measure their links …")?;
    let bytes = arguments.megabytes * 1_000_000;
    let lab = &nodes[LAB];
    let (before, relay) = settled(lab, nodes[CLINIC].id, bytes).await?;
    narrator.say_all(table::lines(&before, false))?;

    narrator.say(format!(
        "\nsending {} MB from lab to clinic, over the overlay …",
        arguments.megabytes
    ))?;
    let file = folder.path().join("scan.bin");
    write_noise(&file, bytes, arguments.seed)?;
    let clock = tokio::time::Instant::now();
    let mut sending = send(folder.path(), &file, &ticket, lab)?;
    let partly = folder.path().join("send.control");
    let share = progress_of(&partly, bytes, 0.35, &mut sending).await?;
    narrator.say(format!(
        "{:.1} s: {:.0} % is sent; {} is killed",
        clock.elapsed().as_secs_f64(),
        100.0 * share,
        NODES[relay]
    ))?;
    narrator.say_all(channels(&partly).await)?;
    narrator.say_all(table::circuits(&nodes[relay].overlay().await))?;
    let killed = tokio::time::Instant::now();
    nodes[relay].kill().await;
    let (after, took) = rerouted(&nodes[LAB], NODES[relay], killed).await?;
    narrator.say(format!(
        "{:.1} s later, the paths avoid it:",
        took.as_secs_f64()
    ))?;
    narrator.say_all(table::paths(&after))?;
    let ended = tokio::time::timeout(SENT, sending.wait()).await;
    let status = ended.map_err(|_| Failure::other("the transfer took too long"))?;
    let status = status.map_err(Failure::other)?;
    let seconds = clock.elapsed().as_secs_f64();
    let arrived = folder.path().join("received").join("scan.bin");
    let is_intact = status.success() && is_same(&file, &arrived)?;
    let other = RELAYS[usize::from(relay == RELAYS[0])];
    let relayed = carried(&nodes[other]).await;
    let mbps = bytes as f64 * 8e-6 / seconds;
    if arguments.json {
        let result = json!({
            "megabytes": arguments.megabytes,
            "seconds": seconds,
            "goodput_mbps": mbps,
            "rerouted_s": took.as_secs_f64(),
            "is_intact": is_intact,
            "killed": NODES[relay],
            "other_relayed_bytes": relayed,
            "before": table_rows(&before),
            "after": table_rows(&after),
        });
        print_line(&result.to_string())?;
    } else {
        narrator.say(format!(
            "\n{:.1} s in total, {mbps:.1} Mbit/s; {} relayed {:.1} MB; the file {}",
            seconds,
            NODES[other],
            relayed as f64 / 1e6,
            if is_intact { "is intact" } else { "is DAMAGED" }
        ))?;
    }
    for node in &mut nodes {
        node.kill().await;
    }
    drop(emulator);
    if is_intact {
        Ok(())
    } else {
        Err(Failure::other("the file did not arrive as it was sent"))
    }
}

/// Rows of paths.
fn table_rows(rows: &[Value]) -> Vec<&Value> {
    table::of(rows, "path").collect()
}

/// Waits until a path from the lab to the clinic crosses a relay; returns the lab's overlay and the index of the relay.
async fn settled(lab: &Node, to: NodeId, bytes: u64) -> Result<(Vec<Value>, usize), Failure> {
    let request = Request::OverlayPaths {
        paths: PathsQuery {
            to: to.to_string(),
            user: 1 << 40,
            bytes,
            ..PathsQuery::default()
        },
    };
    let deadline = tokio::time::Instant::now() + SETTLED;
    // The first estimates are rough.
    let first = tokio::time::Instant::now() + MEASURED;
    loop {
        let answer = control::ask(&lab.control, &request)
            .await
            .map_err(Failure::other)?;
        let paths = rows(&answer);
        let is_open = |relay: &usize| {
            let mut paths = paths.iter();
            paths.any(|path| path["via"] == NODES[*relay] && path["near"].is_string())
        };
        let used = RELAYS.into_iter().find(is_open);
        if let Some(relay) = used.filter(|_| tokio::time::Instant::now() > first) {
            return Ok((lab.overlay().await, relay));
        }
        if tokio::time::Instant::now() > deadline {
            for line in table::lines(&lab.overlay().await, false) {
                print_line(&line)?;
            }
            return Err(Failure::other(
                "within a minute, no path over a relay was worth using",
            ));
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn send(folder: &Path, file: &Path, ticket: &Ticket, lab: &Node) -> Result<Child, Failure> {
    let mut overlay = std::ffi::OsString::from("--overlay=");
    overlay.push(&lab.control);
    let mut command = program()?;
    command
        .arg("send")
        .arg("--quiet")
        .arg("--key")
        .arg(folder.join("sender.key"))
        .arg("--control")
        .arg(folder.join("send.control"))
        .arg(overlay)
        .arg(file)
        .arg(ticket.to_string());
    command.spawn().map_err(Failure::other)
}

/// Waits until the sender has sent at least `part` of the bytes; returns the part sent.
async fn progress_of(
    control: &Path,
    bytes: u64,
    part: f64,
    sending: &mut Child,
) -> Result<f64, Failure> {
    loop {
        let sent = match control::ask(control, &Request::Paths {}).await {
            Ok(answer) => rows(&answer)
                .iter()
                .filter_map(|row| row["sent_bytes"].as_u64())
                .sum(),
            Err(_) => 0,
        };
        let share = sent as f64 / bytes as f64;
        if share >= part {
            return Ok(share);
        }
        if let Some(status) = sending.try_wait().map_err(Failure::other)? {
            return Err(Failure::other(format!(
                "the transfer ended early: {status}"
            )));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Bytes sent on each of the sender's channels, as text.
async fn channels(control: &Path) -> Vec<String> {
    let answer = control::ask(control, &Request::Paths {}).await;
    let answer = answer.unwrap_or_default();
    let line = |row: &Value| {
        let sent = row["sent_bytes"].as_u64().unwrap_or_default();
        let (remote, state) = (table::text(row, "remote"), table::text(row, "state"));
        format!(
            "  channel to {remote}: {state}, {:.1} MB",
            sent as f64 / 1e6
        )
    };
    rows(&answer).iter().map(line).collect()
}

/// Waits until no path crosses the relay `gone`; returns the new paths and the time since the relay was killed.
async fn rerouted(
    lab: &Node,
    gone: &str,
    killed: tokio::time::Instant,
) -> Result<(Vec<Value>, Duration), Failure> {
    loop {
        let rows = lab.overlay().await;
        let via = |name: &str| table::of(&rows, "path").any(|path| path["via"] == name);
        let is_any = table::of(&rows, "path").next().is_some();
        if is_any && !via(gone) {
            return Ok((rows, killed.elapsed()));
        }
        if killed.elapsed() > SETTLED {
            return Err(Failure::other("no other path was found within a minute"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Bytes that a relay has forwarded to their destinations on its present circuits.
async fn carried(relay: &Node) -> u64 {
    let rows = relay.overlay().await;
    let bytes = table::of(&rows, "circuit").filter_map(|row| row["outward_bytes"].as_u64());
    bytes.sum()
}

fn write_noise(file: &Path, bytes: u64, seed: u64) -> Outcome {
    use std::io::Write;
    let mut random = Seed(seed).stream("file");
    let mut out = std::io::BufWriter::new(std::fs::File::create(file).map_err(Failure::file)?);
    for _ in 0..bytes / 8 {
        out.write_all(&random.bits().to_le_bytes())
            .map_err(Failure::file)?;
    }
    out.flush().map_err(Failure::file)?;
    Ok(())
}

fn is_same(one: &Path, other: &Path) -> Result<bool, Failure> {
    let read = |path: &Path| std::fs::read(path).map_err(Failure::file);
    Ok(read(one)? == read(other)?)
}
