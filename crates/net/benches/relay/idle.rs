//! Memory cost of circuits without traffic.

use std::{fs, net::SocketAddr, time::Duration};

use serde_json::{Value, json};

use crate::load::{Socket, open, relay};

const CIRCUITS: usize = 10_000;

/// Memory of this process, and of the kernel for its sockets, in bytes.
#[derive(Clone, Copy)]
struct Memory {
    process: f64,
    /// Objects of the kernel whose number grows with sockets; visible to root only.
    kernel: Option<f64>,
}

impl Memory {
    fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let process = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        let kernel = fs::read_to_string("/proc/slabinfo").ok().map(|slabs| {
            let of = |line: &str| {
                let mut fields = line.split_whitespace();
                let name = fields.next()?;
                // Sockets with their files, and entries of the list of busy ports.
                let is_of_sockets = matches!(
                    name,
                    "UDP"
                        | "UDPv6"
                        | "sock_inode_cache"
                        | "filp"
                        | "dentry"
                        | "eventpoll_epi"
                        | "eventpoll_pwq"
                );
                let active: f64 = fields.next()?.parse().ok()?;
                let size: f64 = fields.nth(1)?.parse().ok()?;
                is_of_sockets.then_some(active * size)
            };
            slabs.lines().filter_map(of).sum()
        });
        Self {
            process: process.unwrap_or(f64::NAN) * 1024.0,
            kernel,
        }
    }

    fn since(self, before: Self) -> (f64, Option<f64>) {
        let kernel = self.kernel.zip(before.kernel);
        let megabytes = |bytes: f64| (bytes / 1e4).round() / 100.0;
        (
            megabytes(self.process - before.process),
            kernel.map(|(after, before)| megabytes(after - before)),
        )
    }
}

/// Measures circuits from `sources` addresses to as many destinations, in turn.
fn circuits(rows: &mut Vec<Value>, sources: usize) {
    let before = Memory::now();
    let relay = relay(CIRCUITS);
    let address = |side: u8, n: usize| {
        let [high, low] = u16::try_from(n).expect("few").to_be_bytes();
        SocketAddr::from(([127, side, high, low], 4433))
    };
    for n in 0..CIRCUITS {
        let (source, destination) = (n % sources, n / sources % sources);
        open(&relay, n, address(1, source), address(2, destination));
    }
    let report = relay.report();
    assert_eq!(report.circuits.len(), CIRCUITS);
    let ports = report.ports;
    drop(report);
    let (process, kernel) = Memory::now().since(before);
    rows.push(json!({
        "bench": "idle",
        "what": format!("{CIRCUITS} circuits, addresses of sources and of destinations: {sources} each"),
        "ports": ports,
        "process_MB": process,
        "kernel_MB": kernel,
    }));
}

/// Measures a pair of sockets for each circuit, for as many as the process may have.
fn pairs(rows: &mut Vec<Value>) {
    const PAIRS: usize = 2_000;
    let before = Memory::now();
    let sockets: Vec<Socket> = (0..2 * PAIRS).map(|_| Socket::bind()).collect();
    let (process, kernel) = Memory::now().since(before);
    rows.push(json!({
        "bench": "idle",
        "what": format!("{PAIRS} pairs of sockets, nothing else"),
        "ports": sockets.len(),
        "process_MB": process,
        "kernel_MB": kernel,
    }));
}

pub(crate) fn memory(rows: &mut Vec<Value>) {
    // The kernel takes a moment to release the memory of sockets.
    let pause = || std::thread::sleep(Duration::from_secs(2));
    circuits(rows, 100);
    pause();
    circuits(rows, 10);
    pause();
    pairs(rows);
    pause();
    circuits(rows, 1);
}
