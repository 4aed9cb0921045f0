//! Facts as far as this user can see them, each within a time limit. Nothing is sent to any network.

use std::{
    fs,
    net::{IpAddr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    time::Duration,
};

use anabranch::{
    config::{Finding as ConfigFinding, Layer, NodeConfig, review},
    control::Request,
    net::Locals,
};
use serde_json::Value;
use tokio::{process::Command, time::timeout};

use super::{
    clock,
    facts::{
        Address, Bound, Config, Facts, Firewall, Firewalld, Interface, Listen, Node,
        Path as PathFact, System, Ufw,
    },
};
use crate::{
    config::{usual_file, variable_for},
    control, node,
};

/// Time for each program and each question.
const LIMIT: Duration = Duration::from_secs(2);
/// Addresses of documentation, towards which routes are looked up.
const ELSEWHERE_V4: &str = "192.0.2.1";
const ELSEWHERE_V6: &str = "2001:db8::1";
/// Bit of CAP_NET_ADMIN in the sets of capabilities.
const NET_ADMIN: u32 = 12;

/// Gathers all facts; `file` names the configuration, and `socket` the control socket.
pub(super) async fn facts(file: Option<&Path>, socket: Option<PathBuf>) -> Facts {
    let file = file.map(Path::to_owned).or_else(usual_file);
    let (mut config, resolved) = configuration(file.as_deref());
    let socket = socket.or_else(|| resolved.as_ref().map(|config| config.control.clone()));
    let node = match &socket {
        Some(socket) => running(socket).await,
        None => None,
    };
    if let (Some(resolved), None) = (&resolved, &node) {
        config.listen = listen(resolved).await;
    }
    if config.ports.is_empty() {
        let sockets = node.iter().flat_map(|node| &node.sockets);
        config.ports = sockets.map(SocketAddr::port).collect();
        config.ports.sort_unstable();
        config.ports.dedup();
    }
    let (mut system, interfaces, firewall) =
        tokio::join!(system(resolved.as_ref()), interfaces(), firewall());
    system.clock.since_node_ms = match (&socket, &node) {
        (Some(socket), Some(node)) => clock::since_node_ms(socket, node),
        _ => None,
    };
    Facts {
        config,
        socket,
        node,
        system,
        interfaces,
        firewall,
        probes: Vec::new(),
    }
}

/// Output of a program that succeeds in time.
pub(super) async fn output(program: &str, arguments: &str) -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let ran = Command::new(program)
        .args(arguments.split(' '))
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .env("LC_ALL", "C")
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true)
        .output();
    let ran = timeout(LIMIT, ran).await.ok()?.ok()?;
    ran.status
        .success()
        .then(|| String::from_utf8_lossy(&ran.stdout).into_owned())
}

/// Programs and files of the firewall.
async fn firewall() -> Firewall {
    let read = |path: &str| fs::read_to_string(path).ok();
    let (rules, state, zones) = tokio::join!(
        output("nft", "list ruleset"),
        output("firewall-cmd", "--state"),
        output("firewall-cmd", "--list-all-zones")
    );
    let file = ["/etc/nftables.conf", "/etc/sysconfig/nftables.conf"];
    let file = file
        .iter()
        .find_map(|path| Some((PathBuf::from(path), read(path)?)));
    Firewall {
        rules,
        file,
        ufw: read("/etc/ufw/ufw.conf").map(|config| Ufw {
            config,
            defaults: read("/etc/default/ufw").unwrap_or_default(),
            rules: read("/etc/ufw/user.rules"),
            rules6: read("/etc/ufw/user6.rules"),
        }),
        firewalld: state.map(|state| Firewalld { state, zones }),
    }
}

async fn json(program: &str, arguments: &str) -> Vec<Value> {
    let text = output(program, arguments).await.unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

fn configuration(file: Option<&Path>) -> (Config, Option<NodeConfig>) {
    let mut facts = Config {
        file: file.map(Path::to_owned),
        ..Config::default()
    };
    let Some(file) = file else {
        return (facts, None);
    };
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            facts.faults.push(format!("{}: {error}", file.display()));
            return (facts, None);
        }
    };
    let variable = variable_for(file);
    let environment = match Layer::from_environment(&variable) {
        Ok(layer) => layer,
        Err(error) => {
            facts.faults.push(error.to_string());
            return (facts, None);
        }
    };
    match review(&text, &environment, &variable) {
        Err(mistakes) => {
            let place = file.display();
            facts
                .faults
                .extend(mistakes.into_iter().map(|mistake| match mistake.place {
                    Some((line, column)) => format!("{place}:{line}:{column}: {}", mistake.words),
                    None => format!("{place}: {}", mistake.words),
                }));
            (facts, None)
        }
        Ok(config) => {
            // Addresses have a check of their own.
            let faults = node::examine(&config)
                .into_iter()
                .filter_map(|finding| match finding {
                    ConfigFinding::Fault(words) if !words.starts_with("listen:") => Some(words),
                    _ => None,
                });
            facts.faults.extend(faults);
            facts.has_tunnel = config.tunnel.server.is_some() || config.tunnel.client.is_some();
            facts.needs_nft = (config.tunnel.server.as_ref())
                .is_some_and(|server| server.masquerade)
                || (config.tunnel.client.as_ref()).is_some_and(|client| !client.lan.is_empty());
            match &config.locals {
                Locals::Fixed(binds) => {
                    facts.ports = binds.iter().map(|bind| bind.address.port()).collect();
                }
                Locals::Interfaces { port, only } => {
                    facts.ports = vec![*port];
                    facts.only.clone_from(only);
                }
            }
            facts.ports.retain(|port| *port != 0);
            facts.ports.dedup();
            (facts, Some(config))
        }
    }
}

/// Result of a bind to each address of the configuration, and the program that has it.
async fn listen(config: &NodeConfig) -> Vec<Listen> {
    let addresses: Vec<SocketAddr> = match &config.locals {
        Locals::Fixed(binds) => binds.iter().map(|bind| bind.address).collect(),
        Locals::Interfaces { port: 0, .. } => Vec::new(),
        Locals::Interfaces { port, .. } => vec![SocketAddr::from(([0, 0, 0, 0], *port))],
    };
    let mut all = Vec::new();
    for address in addresses {
        let bound = match UdpSocket::bind(address) {
            Ok(_) => Bound::Free,
            Err(error) => match error.kind() {
                std::io::ErrorKind::AddrInUse => Bound::Taken(holder(address.port()).await),
                std::io::ErrorKind::PermissionDenied => Bound::Denied,
                _ => Bound::NoSuchAddress,
            },
        };
        all.push(Listen { address, bound });
    }
    all
}

/// The program that has a UDP port, from `users:(("NAME",pid=ID,fd=3))`.
async fn holder(port: u16) -> Option<(String, u32)> {
    let text = output("ss", &format!("-Hulnp sport = :{port}")).await?;
    let (_, rest) = text.split_once("users:((\"")?;
    let (name, rest) = rest.split_once('"')?;
    let id = rest.split_once("pid=")?.1.split([',', ')']).next()?;
    Some((name.to_owned(), id.parse().ok()?))
}

/// The node at a control socket.
async fn running(socket: &Path) -> Option<Node> {
    let ask = |request: Request| async move {
        timeout(LIMIT, control::ask_at(socket, &request))
            .await
            .ok()?
            .ok()
    };
    let status = ask(Request::Status {}).await?;
    let paths = ask(Request::Paths {}).await?;
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let of_kind = |kind: &'static str| {
        control::rows(&status)
            .iter()
            .filter(move |row| row["kind"] == kind)
    };
    Some(Node {
        version: text(&status, "version"),
        uptime_ms: of_kind("node").find_map(|row| row["uptime_ms"].as_i64()),
        peers: of_kind("session")
            .map(|row| {
                (
                    text(row, "peer_name"),
                    row["wire_version"].as_u64().unwrap_or_default(),
                )
            })
            .collect(),
        sockets: of_kind("socket")
            .filter_map(|row| text(row, "local").parse().ok())
            .collect(),
        paths: control::rows(&paths)
            .iter()
            .map(|row| PathFact {
                peer: text(row, "peer_name"),
                interface: row["interface"].as_str().map(str::to_owned),
                remote: text(row, "remote"),
                state: text(row, "state"),
                mtu_bytes: row["mtu_bytes"].as_u64(),
            })
            .collect(),
    })
}

async fn system(config: Option<&NodeConfig>) -> System {
    let number = |file: &str| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    // They are those of the machine, and cannot be seen in every container.
    let receive = number("/proc/sys/net/core/rmem_max");
    let send = number("/proc/sys/net/core/wmem_max");
    let mut disks = Vec::new();
    let places = config.into_iter().flat_map(|config| {
        let state = config.costs.ledger.parent().map(Path::to_owned);
        state.into_iter().chain(config.receive.clone())
    });
    for place in places {
        if let Some(free) = free_bytes(&place).await {
            disks.push((place, free));
        }
    }
    System {
        buffers_max: receive.zip(send),
        open_files: open_files(),
        clock: clock::look().await,
        is_net_admin: capabilities().map(|set| set >> NET_ADMIN & 1 == 1),
        has_tun: Path::new("/dev/net/tun").exists(),
        has_nft: output("nft", "--version").await.is_some(),
        disks,
    }
}

/// Hard limit on open files.
fn open_files() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    let line = text
        .lines()
        .find(|line| line.starts_with("Max open files"))?;
    match line.split_whitespace().nth(4)? {
        "unlimited" => Some(u64::MAX),
        limit => limit.parse().ok(),
    }
}

fn capabilities() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let set = text.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

/// Free bytes where a file would be, or where its folder will be made.
async fn free_bytes(place: &Path) -> Option<u64> {
    let exists = place.ancestors().find(|folder| folder.exists())?.to_owned();
    let ran = Command::new("df")
        .arg("-Pk")
        .arg(exists)
        .kill_on_drop(true)
        .output();
    let ran = timeout(LIMIT, ran).await.ok()?.ok()?;
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    let line = text.lines().nth(1)?;
    Some(line.split_whitespace().nth(3)?.parse::<u64>().ok()? << 10)
}

/// Interfaces with addresses, other than loopback.
async fn interfaces() -> Vec<Interface> {
    let listed = json("ip", "-json address show up scope global").await;
    let mut all = Vec::new();
    for entry in listed {
        let name = entry["ifname"].as_str().unwrap_or_default().to_owned();
        let addresses: Vec<IpAddr> = entry["addr_info"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|own| own["local"].as_str()?.parse().ok())
            .collect();
        if addresses.is_empty() || name == "lo" {
            continue;
        }
        let mut own = Interface {
            mtu_bytes: entry["mtu"].as_u64().unwrap_or_default(),
            qdisc: entry["qdisc"].as_str().map(str::to_owned),
            gateways: gateways(&name).await,
            name,
            addresses: Vec::new(),
        };
        let flags = entry["flags"].as_array();
        let is_point_to_point = flags
            .into_iter()
            .flatten()
            .any(|flag| flag == "POINTOPOINT" || flag == "NOARP");
        let is_direct = {
            let query = format!("-json route show default dev {}", own.name);
            let routes = json("ip", &query).await;
            routes.iter().any(|route| !route["gateway"].is_string())
        };
        for ip in addresses {
            let elsewhere = if ip.is_ipv4() {
                ELSEWHERE_V4
            } else {
                ELSEWHERE_V6
            };
            let query = format!("-json route get {elsewhere} from {ip} oif {}", own.name);
            let route = json("ip", &query).await;
            // Where no route is, the kernel takes every address to be on the link.
            let has_gateway = route
                .first()
                .is_some_and(|route| route["gateway"].is_string());
            let has_route = has_gateway || is_point_to_point || (!route.is_empty() && is_direct);
            own.addresses.push(Address { ip, has_route });
        }
        all.push(own);
    }
    all
}

/// Gateways behind an interface, each with the table of its route.
async fn gateways(name: &str) -> Vec<(IpAddr, String)> {
    let mut all = Vec::new();
    for version in ["-4", "-6"] {
        let routes = json(
            "ip",
            &format!("{version} -json route show table all dev {name}"),
        )
        .await;
        all.extend(routes.iter().filter_map(|route| {
            let gateway = route["gateway"].as_str()?.parse().ok()?;
            Some((
                gateway,
                route["table"].as_str().unwrap_or("main").to_owned(),
            ))
        }));
    }
    // A table of its own says that a rule is missing.
    all.sort_by_key(|(_, table)| table == "main");
    all
}
