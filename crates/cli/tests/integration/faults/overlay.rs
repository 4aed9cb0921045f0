//! Transfers between sites in namespaces with relays between them: over one relay, where a link degrades, a relay is killed and
//! another link is cut during the transfer; and over two relays. Needs root; without it, the test prints one line and passes.
#![cfg(target_os = "linux")]

use std::{fs, path::Path};

use anabranch::{
    SecretKey, Ticket,
    control::{self, PathsQuery, Request},
};
use serde_json::Value;

use crate::faults::{
    namespace::{Namespace, namespaces_with_tun},
    process::Process,
    setting::{Setting, until},
};

const NODES: [&str; 4] = ["lab", "clinic", "relay", "spare"];
const PORT: u16 = 4433;
/// Ends, name and description of a link.
type Link = (usize, usize, &'static str);

fn key(node: usize) -> SecretKey {
    SecretKey::from_seed([node as u8 + 1; 32])
}

fn sender() -> SecretKey {
    SecretKey::from_seed([9; 32])
}

/// Bytes without repetition in a kilobyte or more.
fn reel(bytes: u32) -> Vec<u8> {
    let byte = |n: u32| (n.wrapping_mul(31) + n / 251) as u8;
    (0..bytes).map(byte).collect()
}

fn write_key(folder: &Path, name: &str, key: &SecretKey) {
    let path = folder.join(name);
    fs::write(&path, key.to_text()).unwrap();
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&path, owner_only).unwrap();
}

/// Nodes in namespaces with emulated links between them. The k-th link is the network 10.96.k.0/24, so that a node has a separate
/// address for each neighbour. The first node sends to the second, the others are relays.
struct Mesh {
    setting: Setting,
    links: &'static [Link],
    emulator: Process,
    nodes: Vec<Process>,
    /// The namespaces, which are removed last.
    sites: [Namespace; 4],
}

impl Mesh {
    /// Starts the nodes; returns `None` after printing a line if namespaces cannot be created.
    fn start(links: &'static [Link]) -> Option<Self> {
        let sites = namespaces_with_tun::<4>()?;
        let setting = Setting::new();
        let folder = setting.path("");
        let mut arguments = vec!["emulate".to_owned()];
        for (link, (a, b, path)) in links.iter().enumerate() {
            let network = format!("10.96.{}", link + 1);
            let (a, b) = (sites[*a].name(), sites[*b].name());
            arguments.push("--tun".to_owned());
            arguments.push(format!("{a}:{network}.1/24,{b}:{network}.2/24"));
            arguments.push("--path".to_owned());
            arguments.push((*path).to_owned());
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let out = setting.path("emulator");
        let emulator = Process::start(&folder, &arguments, Some(&out));
        let said = || fs::read_to_string(&out).unwrap();
        until("all links", || {
            said().matches("joins").count() == links.len()
        });
        let mut mesh = Self {
            setting,
            links,
            emulator,
            nodes: Vec::new(),
            sites,
        };
        write_key(&folder, "s.key", &sender());
        for (node, name) in NODES.iter().enumerate() {
            mesh.configure(node);
            let arguments = ["node", "--config", &format!("{name}.toml")];
            let out = mesh.setting.path(&format!("{name}.out"));
            let site = Some(mesh.sites[node].name());
            let process = Process::start_in(site, &folder, &arguments, Some(&out));
            mesh.nodes.push(process);
        }
        Some(mesh)
    }

    /// Place where `node` is on the link with `other`, if they have one.
    fn address(&self, node: usize, other: usize) -> Option<String> {
        let mut links = self.links.iter();
        let link =
            links.position(|&(a, b, _)| [a, b] == [node, other] || [b, a] == [node, other])?;
        let end = if self.links[link].0 == node { 1 } else { 2 };
        Some(format!("10.96.{}.{end}", link + 1))
    }

    /// Writes the configuration of a node; the receiver accepts files from the sender.
    fn configure(&self, node: usize) {
        let (name, folder) = (NODES[node], self.setting.path(""));
        write_key(&folder, &format!("{name}.key"), &key(node));
        let others = (0..NODES.len()).filter(|&other| other != node);
        let own: Vec<String> = (others.clone())
            .filter_map(|other| Some(format!("\"{}:{PORT}\"", self.address(node, other)?)))
            .collect();
        let mut text = format!(
            "key = \"{name}.key\"\ncontrol = \"{name}.control\"\nlisten = [{}]\n",
            own.join(", ")
        );
        if node == 1 {
            let allowed = sender().node_id();
            text += "receive = \"in\"\n";
            text += &format!(
                "[[peer]]\nname = \"sender\"\nnode = \"{allowed}\"\nmay = [\"call\", \"send-files\"]\n"
            );
        }
        text += "[overlay]\n";
        let mut may = "";
        if node >= 2 {
            text += "relay = \"50 Mbit/s\"\n";
            may = "\"use-relay\"";
        }
        for other in others {
            let at = self.address(other, node);
            let at = at.map(|ip| format!("\"{ip}:{PORT}\""));
            text += &format!(
                "[[overlay.member]]\nname = \"{}\"\nnode = \"{}\"\naddresses = [{}]\nmay = [{may}]\n",
                NODES[other],
                key(other).node_id(),
                at.unwrap_or_default()
            );
        }
        fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    }

    /// Rows of one kind in a node's report on its overlay.
    fn rows(&self, node: usize, kind: &str) -> Vec<Value> {
        let control = format!("{}.control", NODES[node]);
        let arguments = ["overlay", "--json", "--control", &control];
        let asked = Process::start(&self.setting.path(""), &arguments, None).ended();
        let Ok(answer) = serde_json::from_str::<Value>(&asked.out) else {
            return Vec::new();
        };
        let all = answer["rows"].as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|row| row["kind"] == kind).collect()
    }

    /// Bytes that a relay has forwarded on its present circuits.
    fn relayed(&self, node: usize) -> u64 {
        let circuits = self.rows(node, "circuit");
        circuits
            .iter()
            .filter_map(|row| row["outward_bytes"].as_u64())
            .sum()
    }

    /// Waits until the first node knows these links.
    fn until_known(&self, links: &[(&str, &str)]) {
        until("links that are known", || {
            let known = self.rows(0, "link");
            links.iter().all(|&(from, to)| {
                known
                    .iter()
                    .any(|row| row["from"] == from && row["to"] == to)
            })
        });
    }

    /// Asks for paths to the receiver until an open one meets the condition.
    fn until_path(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        let wanted = Request::OverlayPaths {
            paths: PathsQuery {
                to: key(1).node_id().to_string(),
                user: 1 << 40,
                bytes: 10_000_000,
                ..PathsQuery::default()
            },
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        until(what, || {
            std::thread::sleep(std::time::Duration::from_millis(200));
            let answer = runtime.block_on(control::ask(&self.setting.path("lab.control"), &wanted));
            let answer = answer.unwrap();
            let mut paths = answer["rows"].as_array().unwrap().iter();
            paths.any(|path| path["near"].is_string() && is_so(path))
        });
    }

    /// Writes the file `reel` with these bytes, and starts to send it.
    fn send(&self, bytes: &[u8]) -> Process {
        fs::write(self.setting.path("reel"), bytes).unwrap();
        let at = format!("{}:{PORT}", self.address(1, 0).unwrap());
        let ticket = Ticket {
            hosts: Vec::new(),
            via: None,
            node: key(1).node_id(),
            secret: None,
            addresses: vec![at.parse().unwrap()],
        };
        let arguments = [
            "send",
            "-q",
            "--key",
            "s.key",
            "--overlay=lab.control",
            "reel",
            &ticket.to_string(),
        ];
        let site = Some(self.sites[0].name());
        Process::start_in(site, &self.setting.path(""), &arguments, None)
    }

    /// Checks that the transfer succeeds and leaves nothing but the file.
    fn arrives(self, transfer: Process, bytes: &[u8]) {
        transfer.ended().is(0, &[]);
        assert!(fs::read(self.setting.path("in/reel")).unwrap() == bytes);
        // Its note stays until the receiver knows that the confirmation has arrived.
        until("nothing else is left", || {
            fs::read_dir(self.setting.path("in")).unwrap().count() == 1
        });
        self.emulator.signal("INT");
        self.emulator.ended().is(0, &[]);
    }
}

#[test]
fn a_transfer_over_relays_survives_a_killed_relay_and_a_cut_link() {
    const LINKS: [Link; 6] = [
        (0, 1, "direct: rate=2 Mbit/s, delay=15 ms"),
        (0, 2, "lab-relay: rate=10 Mbit/s, delay=5 ms"),
        (2, 1, "relay-clinic: rate=5 Mbit/s, delay=8 ms"),
        (0, 3, "lab-spare: rate=10 Mbit/s, delay=5 ms"),
        (3, 1, "spare-clinic: rate=5 Mbit/s, delay=10 ms"),
        (2, 3, "relay-spare: rate=10 Mbit/s, delay=5 ms"),
    ];
    let Some(mut mesh) = Mesh::start(&LINKS) else {
        return;
    };
    mesh.until_known(&[
        ("here", "clinic"),
        ("here", "relay"),
        ("relay", "clinic"),
        ("spare", "clinic"),
    ]);
    mesh.until_path("a path over a relay", |_| true);
    // Far more than the links carry during all events below, however busy the machine is; the rest goes over quicker ones.
    let reel = reel(60_000_000);
    let mut transfer = mesh.send(&reel);
    // Either relay may be in use; that one is killed.
    let mut used = 0;
    until("a relay in use", || {
        assert!(
            transfer.is_running(),
            "it has ended: {:?}",
            mesh.rows(0, "path")
        );
        used = [2, 3]
            .into_iter()
            .find(|&node| mesh.relayed(node) > 200_000)
            .unwrap_or(0);
        used > 0
    });
    // The link to it degrades. Its estimate falls, either by the transfer's measurements or by test messages.
    let name = NODES[used];
    mesh.emulator
        .say(&format!("set lab-{name} rate=500 kbit/s, delay=40 ms"));
    let estimate = || {
        let links = mesh.rows(0, "link");
        let link = |row: &&Value| row["from"] == "here" && row["to"] == name;
        let found = links.iter().find(link)?;
        Some(found["bandwidth_bps"].as_f64()? * found["trust"].as_f64()?)
    };
    until("a lower estimate of the bad link", || {
        assert!(transfer.is_running(), "it has ended: {:?}", estimate());
        estimate().is_none_or(|bps| bps < 3e6)
    });
    mesh.emulator
        .say(&format!("set lab-{name} rate=10 Mbit/s, delay=5 ms"));
    mesh.nodes[used].signal("KILL");
    mesh.emulator.say("down direct");
    let other = 5 - used;
    until("the other relay in use", || {
        !transfer.is_running() || mesh.relayed(other) > 200_000
    });
    mesh.emulator.say("up direct");
    for link in [
        "direct",
        "lab-relay",
        "relay-clinic",
        "lab-spare",
        "spare-clinic",
    ] {
        mesh.emulator
            .say(&format!("set {link} rate=200 Mbit/s, delay=5 ms"));
    }
    mesh.arrives(transfer, &reel);
}

/// The relays know each other, and the last one the receiver, at addresses that the sender does not know.
#[test]
fn a_path_over_two_relays_carries_a_transfer() {
    const LINKS: [Link; 5] = [
        (0, 1, "direct: rate=0.5 Mbit/s, delay=15 ms"),
        (0, 2, "lab-relay: rate=5 Mbit/s, delay=5 ms"),
        (2, 3, "relay-spare: rate=5 Mbit/s, delay=5 ms"),
        (3, 1, "spare-clinic: rate=5 Mbit/s, delay=5 ms"),
        (0, 3, "lab-spare: rate=0.5 Mbit/s, delay=15 ms"),
    ];
    let Some(mesh) = Mesh::start(&LINKS) else {
        return;
    };
    mesh.until_known(&[("here", "relay"), ("relay", "spare"), ("spare", "clinic")]);
    mesh.until_path("a path over both relays", |path| {
        path["via"] == "relay > spare"
    });
    let reel = reel(8_000_000);
    let mut transfer = mesh.send(&reel);
    until("both relays in use", || {
        assert!(
            transfer.is_running(),
            "it has ended: {:?}",
            mesh.rows(0, "path")
        );
        [2, 3].iter().all(|&node| mesh.relayed(node) > 1_000_000)
    });
    mesh.arrives(transfer, &reel);
}
