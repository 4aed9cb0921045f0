//! Topology of the demonstration: its nodes and the links between them.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    time::Duration,
};

use anabranch::{
    Ticket,
    base::{NodeId, Seed},
    control::{self, Request},
    keys,
    net::emulate::{Emulator, PathSpec},
};
use anabranch_link::describe::parse_both;
use serde_json::Value;
use tokio::process::Child;

use super::super::stage::program;
use crate::{
    control::rows,
    emulate::load_trace,
    exit::{Failure, Outcome},
};

/// Names of the nodes; the first sends, the second receives, the others relay.
pub(super) const NODES: [&str; 4] = ["lab", "clinic", "relay", "spare"];
pub(super) const LAB: usize = 0;
pub(super) const CLINIC: usize = 1;
pub(super) const RELAYS: [usize; 2] = [2, 3];
/// Links between the nodes: their ends and properties.
pub(super) const LINKS: [([usize; 2], &str); 6] = [
    ([0, 1], "rate=8 Mbit/s, delay=20 ms, queue=100 ms"),
    ([0, 2], "rate=20 Mbit/s, delay=8 ms, queue=100 ms"),
    ([2, 1], "rate=8 Mbit/s, delay=12 ms, queue=100 ms"),
    ([0, 3], "rate=20 Mbit/s, delay=10 ms, queue=100 ms"),
    ([3, 1], "rate=6 Mbit/s, delay=15 ms, queue=100 ms"),
    ([2, 3], "rate=20 Mbit/s, delay=10 ms, queue=100 ms"),
];
/// Ports of a relay for circuits. All packets come from one address here, so that circuits cannot share a port.
const PORTS: u16 = 12;
/// Timeout for the start of a node.
const STARTED: Duration = Duration::from_secs(60);
/// Interval between two queries of a node that starts.
const LOOK: Duration = Duration::from_millis(250);

/// A running node; killed when this is dropped.
pub(super) struct Node {
    pub(super) id: NodeId,
    address: SocketAddr,
    config: PathBuf,
    pub(super) control: PathBuf,
    process: Option<Child>,
}

/// Finds [`PORTS`] consecutive free ports on loopback and on the address `seen`, apart from those `taken` before, and returns the
/// first. All are below the ephemeral ports of the system, any of which may be in use again before the node binds it.
fn free_ports(seen: Option<IpAddr>, taken: &mut Vec<u16>) -> Result<u16, Failure> {
    let at = [Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), seen];
    for first in (20_000..30_000).step_by(32) {
        let first = first + (std::process::id() % 16) as u16;
        let is_free = |port| {
            let mut at = at.iter().flatten();
            at.all(|&ip| UdpSocket::bind((ip, port)).is_ok())
        };
        if !taken.contains(&first) && (first..first + PORTS).all(is_free) {
            taken.push(first);
            return Ok(first);
        }
    }
    Err(Failure::other("no ports are free on 127.0.0.1"))
}

/// Creates keys, configurations and emulated links, and the ticket with the address of the receiver.
pub(super) fn lay_out(folder: &Path, seed: u64) -> Result<(Vec<Node>, Emulator, Ticket), Failure> {
    let mut taken = Vec::new();
    let first = free_ports(None, &mut taken)?;
    let mut nodes = Vec::new();
    for (name, port) in NODES.iter().zip(first..) {
        let key = keys::create(&folder.join(format!("{name}.key")))?;
        nodes.push(Node {
            id: key.node_id(),
            address: (Ipv4Addr::LOCALHOST, port).into(),
            config: folder.join(format!("{name}.toml")),
            control: folder.join(format!("{name}.control")),
            process: None,
        });
    }
    let sender = keys::create(&folder.join("sender.key"))?;
    std::fs::create_dir(folder.join("received")).map_err(Failure::file)?;
    let mut specs = Vec::new();
    // Index of the emulated path by caller and callee.
    let mut entries: Vec<([usize; 2], usize)> = Vec::new();
    for (ends, text) in LINKS {
        let links = parse_both(text, &mut load_trace).map_err(Failure::other)?;
        for [from, to] in [ends, [ends[1], ends[0]]] {
            entries.push(([from, to], specs.len()));
            specs.push(PathSpec {
                name: format!("{}-{}", NODES[from], NODES[to]),
                listen: ([127, 0, 0, 1], 0).into(),
                target: nodes[to].address,
                links: links.clone(),
            });
        }
    }
    // Packets from the lab to a relay's circuits cross the link between them, too, as if the relay were behind a NAT.
    // The relays must not have a port in common: packets in flight to the first would reach the second.
    let mut public = Vec::new();
    for (number, relay) in RELAYS.into_iter().enumerate() {
        let seen = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2 + number as u8));
        let first = free_ports(Some(seen), &mut taken)?;
        public.push((seen, first));
        let (_, text) = LINKS[entries
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
    let entry = |from: usize, to: usize| {
        let found = entries.iter().find(|(ends, _)| *ends == [from, to]);
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
                "receive = {:?}\n[[peer]]\nname = \"sender\"\nnode = \"{}\"\nmay = [\"call\", \"send-files\"]\n",
                folder.join("received"),
                sender.node_id()
            );
        }
        text += "[overlay]\npaths = 2\n";
        let mut may = "";
        if let Some(number) = RELAYS.iter().position(|&relay| relay == own) {
            let (seen, first) = public[number];
            let last = first + PORTS - 1;
            may = "\"use-relay\"";
            text += &format!(
                "relay = \"50 Mbit/s\"\nrelay_public = \"{seen}\"\nrelay_ports = \"{first}-{last}\"\n"
            );
        }
        for (other, site) in nodes.iter().enumerate().filter(|(other, _)| *other != own) {
            let Some(address) = entry(own, other) else {
                continue;
            };
            text += &format!(
                "[[overlay.member]]\nname = \"{}\"\nnode = \"{}\"\naddresses = [\"{address}\"]\nmay = [{may}]\n",
                NODES[other], site.id
            );
        }
        std::fs::write(&node.config, text).map_err(Failure::file)?;
    }
    let ticket = Ticket {
        hosts: Vec::new(),
        via: None,
        node: nodes[CLINIC].id,
        secret: None,
        addresses: entry(LAB, CLINIC).into_iter().collect(),
    };
    Ok((nodes, emulator, ticket))
}

impl Node {
    pub(super) async fn start(&mut self) -> Outcome {
        let process = program()?
            .arg("node")
            .arg("--config")
            .arg(&self.config)
            .spawn();
        self.process = Some(process.map_err(Failure::other)?);
        let deadline = tokio::time::Instant::now() + STARTED;
        while control::ask(&self.control, &Request::Status {})
            .await
            .is_err()
        {
            if tokio::time::Instant::now() > deadline {
                return Err(Failure::other(
                    "a node did not start in time; is one of its ports in use?",
                ));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    pub(super) async fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().await.ok();
        }
    }

    pub(super) async fn overlay(&self) -> Vec<Value> {
        match control::ask(&self.control, &Request::Overlay {}).await {
            Ok(answer) => rows(&answer).to_vec(),
            Err(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_have_a_port_in_common() {
        let mut taken = Vec::new();
        for number in 1..5 {
            let seen = (number > 1).then_some(Ipv4Addr::new(127, 0, 0, number).into());
            let before = taken.clone();
            let first = free_ports(seen, &mut taken).ok().unwrap();
            let is_apart = |&other: &u16| other.abs_diff(first) >= PORTS;
            assert!(before.iter().all(is_apart), "{first}: {before:?}");
        }
    }
}
