//! `anabranch demo-overlay`: four nodes on this machine, emulated links between them, a transfer over two ways, and a relay that
//! is killed on the way.
//!
//! Every node is a process of its own, `anabranch node`, and the transfer is `anabranch send --overlay`: what a user would run.
//! Only the links are emulated, in this process.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anabranch::{
    Ticket,
    base::{NodeId, Seed},
    control::{self, Question, WaysText},
    keys,
    net::emulate::{Emulator, PathSpec},
};
use anabranch_link::describe::parse_both;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::table;
use crate::{
    control::rows,
    emulate::load_trace,
    exit::{Failure, Outcome, print_line},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Megabytes to send.
    #[arg(long, value_name = "MB", default_value_t = 24, value_parser = clap::value_parser!(u64).range(4..=1000))]
    megabytes: u64,
    /// Same seed, same losses.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON, and nothing else.
    #[arg(long)]
    json: bool,
}

/// The nodes; the first sends, the second receives, the others relay.
const NODES: [&str; 4] = ["lab", "clinic", "relay", "spare"];
const LAB: usize = 0;
const CLINIC: usize = 1;
const RELAYS: [usize; 2] = [2, 3];
/// Rate and delay of the links between them.
const LINKS: [([usize; 2], &str); 6] = [
    ([0, 1], "rate=8 Mbit/s, delay=20 ms, queue=100 ms"),
    ([0, 2], "rate=20 Mbit/s, delay=8 ms, queue=100 ms"),
    ([2, 1], "rate=8 Mbit/s, delay=12 ms, queue=100 ms"),
    ([0, 3], "rate=20 Mbit/s, delay=10 ms, queue=100 ms"),
    ([3, 1], "rate=6 Mbit/s, delay=15 ms, queue=100 ms"),
    ([2, 3], "rate=20 Mbit/s, delay=10 ms, queue=100 ms"),
];
/// Ports that a relay has for circuits. All that it sees here comes from one address, so that circuits can share none.
const PORTS: u16 = 12;
/// How long the nodes may take to find and measure each other.
const SETTLED: Duration = Duration::from_secs(60);
/// How long they measure at least.
const MEASURED: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(250);
/// How long the transfer may take.
const SENT: Duration = Duration::from_secs(300);

/// A running node; killed when this is dropped.
struct Node {
    id: NodeId,
    address: SocketAddr,
    config: PathBuf,
    control: PathBuf,
    process: Option<Child>,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    tokio::select! {
        outcome = show(&arguments) => outcome,
        _ = tokio::signal::ctrl_c() => Err(Failure::ctrl_c("stopped")),
    }
}

async fn show(arguments: &Arguments) -> Outcome {
    let say = |line: &str| {
        if arguments.json {
            Ok(())
        } else {
            print_line(line)
        }
    };
    let folder = tempfile::tempdir().map_err(Failure::file)?;
    let (mut nodes, emulators, ticket) = lay_out(folder.path(), arguments.seed)?;
    for (name, node) in NODES.iter().zip(&mut nodes) {
        node.start().await?;
        say(&format!("{name:<7} {}", node.id))?;
    }
    for ([a, b], link) in LINKS {
        say(&format!("{:>7} – {:<7} {link}", NODES[a], NODES[b]))?;
    }
    say("\nthe nodes find each other and measure their links …")?;
    let bytes = arguments.megabytes * 1_000_000;
    let lab = &nodes[LAB];
    let (before, relay) = settled(lab, nodes[CLINIC].id, bytes).await?;
    for line in table::lines(&before) {
        say(&line)?;
    }

    say(&format!(
        "\n{} MB from lab to clinic, over the overlay …",
        arguments.megabytes
    ))?;
    let file = folder.path().join("scan.bin");
    write_noise(&file, bytes, arguments.seed)?;
    let clock = tokio::time::Instant::now();
    let mut sending = send(folder.path(), &file, &ticket, lab)?;
    let partly = folder.path().join("send.control");
    let share = progress_of(&partly, bytes, 0.35, &mut sending).await?;
    say(&format!(
        "{:.1} s: {:.0} % is there; {} is killed",
        clock.elapsed().as_secs_f64(),
        100.0 * share,
        NODES[relay]
    ))?;
    for line in channels(&partly).await {
        say(&line)?;
    }
    for line in table::circuits(&nodes[relay].overlay().await) {
        say(&line)?;
    }
    let killed = tokio::time::Instant::now();
    nodes[relay].kill().await;
    let (after, took) = rerouted(&nodes[LAB], NODES[relay], killed).await?;
    say(&format!(
        "{:.1} s after that, other ways are open:",
        took.as_secs_f64()
    ))?;
    for line in table::ways(&after) {
        say(&line)?;
    }
    let ended = tokio::time::timeout(SENT, sending.wait()).await;
    let status = ended.map_err(|_| Failure::other("the transfer takes too long"))?;
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
        say(&format!(
            "\n{:.1} s in all, {mbps:.1} Mbit/s; {} relayed {:.1} MB; the file {}",
            seconds,
            NODES[other],
            relayed as f64 / 1e6,
            if is_intact {
                "is intact"
            } else {
                "is NOT what was sent"
            }
        ))?;
    }
    for node in &mut nodes {
        node.kill().await;
    }
    drop(emulators);
    if is_intact {
        Ok(())
    } else {
        Err(Failure::other("the file did not arrive as it was sent"))
    }
}

/// The ways among the rows.
fn table_rows(rows: &[Value]) -> Vec<&Value> {
    table::of(rows, "way").collect()
}

/// Addresses of loopback that are free now.
fn free(count: usize) -> Result<Vec<SocketAddr>, Failure> {
    let sockets: Result<Vec<_>, _> = (0..count).map(|_| UdpSocket::bind("127.0.0.1:0")).collect();
    let of = |socket: &UdpSocket| socket.local_addr();
    let addresses: Result<Vec<_>, _> = sockets.map_err(Failure::other)?.iter().map(of).collect();
    addresses.map_err(Failure::other)
}

/// So many ports in a row that are free now, on loopback and where the others see the relay.
fn free_range(public: IpAddr) -> Result<u16, Failure> {
    for first in (20_000..30_000).step_by(32) {
        let first = first + (std::process::id() % 16) as u16;
        let is_free = |port| {
            [IpAddr::V4(Ipv4Addr::LOCALHOST), public]
                .iter()
                .all(|&ip| UdpSocket::bind((ip, port)).is_ok())
        };
        if (first..first + PORTS).all(is_free) {
            return Ok(first);
        }
    }
    Err(Failure::other("no ports are free on 127.0.0.1"))
}

/// Keys, configurations and emulated links; and where the receiver is reached.
fn lay_out(folder: &Path, seed: u64) -> Result<(Vec<Node>, Vec<Emulator>, Ticket), Failure> {
    let addresses = free(NODES.len())?;
    let mut nodes = Vec::new();
    for (name, &address) in NODES.iter().zip(&addresses) {
        let key = keys::create(&folder.join(format!("{name}.key")))?;
        nodes.push(Node {
            id: key.node_id(),
            address,
            config: folder.join(format!("{name}.toml")),
            control: folder.join(format!("{name}.control")),
            process: None,
        });
    }
    let sender = keys::create(&folder.join("sender.key"))?;
    std::fs::create_dir(folder.join("received")).map_err(Failure::file)?;
    let mut specs = Vec::new();
    // By the index of the link and its direction: where the end that calls finds the other one.
    let mut doors: Vec<([usize; 2], usize)> = Vec::new();
    for (ends, text) in LINKS {
        let links = parse_both(text, &mut load_trace).map_err(Failure::other)?;
        for [from, to] in [ends, [ends[1], ends[0]]] {
            doors.push(([from, to], specs.len()));
            specs.push(PathSpec {
                name: format!("{}-{}", NODES[from], NODES[to]),
                listen: ([127, 0, 0, 1], 0).into(),
                target: nodes[to].address,
                links: links.clone(),
            });
        }
    }
    // What the lab sends to a relay's circuits goes over the link between them, too: as if the relay stood behind a translator.
    let mut public = Vec::new();
    for (number, relay) in RELAYS.into_iter().enumerate() {
        let seen = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2 + number as u8));
        let first = free_range(seen)?;
        public.push((seen, first));
        let (_, text) = LINKS[doors
            .iter()
            .position(|(ends, _)| *ends == [LAB, relay])
            .unwrap_or(0)
            / 2];
        for port in first..first + PORTS {
            specs.push(PathSpec {
                name: format!("{} circuits {port}", NODES[relay]),
                listen: (seen, port).into(),
                target: (Ipv4Addr::LOCALHOST, port).into(),
                links: parse_both(text, &mut load_trace).map_err(Failure::other)?,
            });
        }
    }
    let emulator = Emulator::start(specs, Seed(seed)).map_err(Failure::other)?;
    let door = |from: usize, to: usize| {
        let found = doors.iter().find(|(ends, _)| *ends == [from, to]);
        found.map(|&(_, index)| emulator.addresses()[index])
    };
    for (own, node) in nodes.iter().enumerate() {
        let mut text = format!(
            "key = {:?}\nlisten = [\"{}\"]\ncontrol = {:?}\n",
            folder.join(format!("{}.key", NODES[own])),
            node.address,
            node.control
        );
        if own == CLINIC {
            text += &format!(
                "allow = [\"{}\"]\nreceive = {:?}\n",
                sender.node_id(),
                folder.join("received")
            );
        }
        text += "[overlay]\npaths = 2\n";
        if let Some(number) = RELAYS.iter().position(|&relay| relay == own) {
            let (seen, first) = public[number];
            let last = first + PORTS - 1;
            text += &format!(
                "relay = \"50 Mbit/s\"\nrelay_public = \"{seen}\"\nrelay_ports = \"{first}-{last}\"\n"
            );
        }
        for (other, site) in nodes.iter().enumerate().filter(|(other, _)| *other != own) {
            let Some(address) = door(own, other) else {
                continue;
            };
            text += &format!(
                "[[overlay.member]]\nname = \"{}\"\nnode = \"{}\"\naddresses = [\"{address}\"]\n",
                NODES[other], site.id
            );
        }
        std::fs::write(&node.config, text).map_err(Failure::file)?;
    }
    let ticket = Ticket {
        node: nodes[CLINIC].id,
        secret: None,
        addresses: door(LAB, CLINIC).into_iter().collect(),
    };
    Ok((nodes, vec![emulator], ticket))
}

/// This program.
fn program() -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe().map_err(Failure::other)?);
    command
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    Ok(command)
}

impl Node {
    async fn start(&mut self) -> Outcome {
        let process = program()?
            .arg("node")
            .arg("--config")
            .arg(&self.config)
            .spawn();
        self.process = Some(process.map_err(Failure::other)?);
        let deadline = tokio::time::Instant::now() + SETTLED;
        while control::ask(&self.control, &Question::show("status"))
            .await
            .is_err()
        {
            if tokio::time::Instant::now() > deadline {
                return Err(Failure::other(
                    "a node does not start; is a port of it taken?",
                ));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    async fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().await.ok();
        }
    }

    async fn overlay(&self) -> Vec<Value> {
        match control::ask(&self.control, &Question::show("overlay")).await {
            Ok(answer) => rows(&answer).to_vec(),
            Err(_) => Vec::new(),
        }
    }
}

/// Waits until a way from the lab to the clinic leads over a relay; what the lab tells of its overlay, and which relay.
async fn settled(lab: &Node, to: NodeId, bytes: u64) -> Result<(Vec<Value>, usize), Failure> {
    let question = Question {
        ways: Some(WaysText {
            to: to.to_string(),
            user: 1 << 40,
            bytes,
            ..WaysText::default()
        }),
        ..Question::show("overlay_ways")
    };
    let deadline = tokio::time::Instant::now() + SETTLED;
    // The first estimates are rough.
    let first = tokio::time::Instant::now() + MEASURED;
    loop {
        let answer = control::ask(&lab.control, &question)
            .await
            .map_err(Failure::other)?;
        let ways = rows(&answer);
        let is_open = |relay: &usize| {
            let mut ways = ways.iter();
            ways.any(|way| way["via"] == NODES[*relay] && way["near"].is_string())
        };
        let used = RELAYS.into_iter().find(is_open);
        if let Some(relay) = used.filter(|_| tokio::time::Instant::now() > first) {
            return Ok((lab.overlay().await, relay));
        }
        if tokio::time::Instant::now() > deadline {
            for line in table::lines(&lab.overlay().await) {
                print_line(&line)?;
            }
            return Err(Failure::other(
                "no way over a relay was found to be worth it within a minute",
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

/// Waits until the sender has sent this part of the bytes; the part.
async fn progress_of(
    control: &Path,
    bytes: u64,
    part: f64,
    sending: &mut Child,
) -> Result<f64, Failure> {
    loop {
        let sent = match control::ask(control, &Question::show("paths")).await {
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

/// What the sender's channels carry.
async fn channels(control: &Path) -> Vec<String> {
    let answer = control::ask(control, &Question::show("paths")).await;
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

/// Waits until the relay that is gone is in no way any more; the ways there are instead, and how long that took.
async fn rerouted(
    lab: &Node,
    gone: &str,
    killed: tokio::time::Instant,
) -> Result<(Vec<Value>, Duration), Failure> {
    loop {
        let rows = lab.overlay().await;
        let via = |name: &str| table::of(&rows, "way").any(|way| way["via"] == name);
        let is_any = table::of(&rows, "way").next().is_some();
        if is_any && !via(gone) {
            return Ok((rows, killed.elapsed()));
        }
        if killed.elapsed() > SETTLED {
            return Err(Failure::other("no other way was found within a minute"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Bytes that a relay has carried to their destinations on the circuits that it has.
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
