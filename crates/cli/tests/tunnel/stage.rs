//! Two namespaces joined by two emulated links, with a server of the tunnel in one and a client in the other.

use std::{
    fs,
    io::Write,
    path::PathBuf,
    time::{Duration, Instant},
};

use anabranch::{
    SecretKey,
    base::{NodeId, Seed},
    keys,
    net::emulate::tun::{End, TunEmulator, TunSpec},
};
use anabranch_link::describe::parse_both;
use serde_json::Value;

use crate::{
    namespace::{Namespace, namespaces_with_tun},
    process::Process,
};

/// Longest wait for what takes a few seconds on a quiet machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// Address of the server in the tunnel.
pub(crate) const SERVER: &str = "10.77.0.1";
/// Address of the first client in the tunnel.
pub(crate) const CLIENT: &str = "10.77.0.2";
/// Address of a host that the client reaches with and without the tunnel.
pub(crate) const HOST: &str = "198.51.100.1";

/// Prints the reason for skipping a test, bypassing the test harness, which would suppress it.
pub(crate) fn skip(reason: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    // If standard error is closed, there is no other place to report it.
    let _ = writeln!(std::io::stderr(), "skipped {test}: {reason}");
}

#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < TIMEOUT, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) struct Stage {
    folder: tempfile::TempDir,
    pub(crate) client: Namespace,
    pub(crate) server: Namespace,
    emulator: TunEmulator,
}

/// A command that runs, with the events that it prints.
pub(crate) struct Running {
    pub(crate) process: Process,
    out: PathBuf,
}

impl Running {
    /// Its events of a kind so far.
    pub(crate) fn events(&self, kind: &str) -> Vec<Value> {
        let text = fs::read_to_string(&self.out).unwrap();
        let rows = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        rows.filter(|row: &Value| row["kind"] == kind).collect()
    }

    /// Waits until there are so many events of a kind; returns the last.
    #[track_caller]
    pub(crate) fn wait(&mut self, kind: &str, count: usize) -> Value {
        let start = Instant::now();
        loop {
            let mut events = self.events(kind);
            if events.len() >= count {
                return events.pop().unwrap();
            }
            let text = fs::read_to_string(&self.out).unwrap();
            assert!(self.process.is_running(), "it ended before {kind}: {text}");
            assert!(start.elapsed() < TIMEOUT, "never {kind}: {text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Number of packets that it has dropped for a reason.
    pub(crate) fn dropped(&self, reason: &str) -> u64 {
        let events = self.events("dropped");
        let counts = events.iter().map(|row| row["packets"][reason].as_u64());
        counts.flatten().sum()
    }
}

impl Stage {
    /// `None`, after printing the reason, without root.
    pub(crate) fn new() -> Option<Self> {
        Self::with(["rate=40 Mbit/s, delay=5 ms", "rate=20 Mbit/s, delay=15 ms"])
    }

    pub(crate) fn with(paths: [&str; 2]) -> Option<Self> {
        let address = |index: usize, side: u8| format!("10.95.{index}.{side}/24");
        let stage = Self::over(paths, address)?;
        stage.client.ip("route add default via 10.95.0.2 dev path0");
        Some(stage)
    }

    /// Paths without IPv4.
    pub(crate) fn with_v6() -> Option<Self> {
        let paths = ["rate=40 Mbit/s, delay=5 ms", "rate=20 Mbit/s, delay=15 ms"];
        let address = |index: usize, side: u8| format!("2001:db8:{index}::{side}/64");
        let stage = Self::over(paths, address)?;
        stage
            .client
            .ip("-6 route add default via 2001:db8:0::2 dev path0");
        Some(stage)
    }

    /// Paths with the addresses of the client (1) and the server (2) on each; there is no default route.
    fn over(paths: [&str; 2], address: impl Fn(usize, u8) -> String) -> Option<Self> {
        let [client, server] = namespaces_with_tun()?;
        let spec = |(index, text): (usize, &str)| {
            let end = |namespace: &Namespace, side: u8| End {
                namespace: Some(namespace.name().to_owned()),
                device: format!("path{index}"),
                address: address(index, side),
            };
            TunSpec {
                name: format!("path{index}"),
                first: end(&client, 1),
                second: end(&server, 2),
                links: parse_both(text, &mut |_| Err("no traces here".to_owned())).unwrap(),
            }
        };
        let specs = paths.into_iter().enumerate().map(spec).collect();
        let emulator = TunEmulator::start(specs, Seed(1)).unwrap();
        // A host behind the server's machine.
        server.ip(&format!("address add {HOST}/32 dev lo"));
        Some(Self {
            folder: tempfile::tempdir().unwrap(),
            client,
            server,
            emulator,
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Cuts a path, or mends it.
    pub(crate) fn set_up(&self, index: usize, is_up: bool) {
        self.emulator.paths()[index].set_up(is_up);
    }

    pub(crate) fn key(&self, name: &str) -> SecretKey {
        keys::load_or_create(&self.path(name)).unwrap()
    }

    pub(crate) fn id(&self, key: &str) -> NodeId {
        self.key(key).node_id()
    }

    fn start(&self, namespace: &Namespace, arguments: &[&str]) -> Running {
        let program = env!("CARGO_BIN_EXE_anabranch");
        self.start_by(namespace, &[program], arguments)
    }

    /// Starts the command in a namespace, with these words for the program.
    pub(crate) fn start_by(
        &self,
        namespace: &Namespace,
        words: &[&str],
        arguments: &[&str],
    ) -> Running {
        static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let out = self.path(&format!("out{number}"));
        let arguments = [&["tun", "--json"], arguments].concat();
        let words = [&["ip", "netns", "exec", namespace.name()], words].concat();
        let process = Process::start_by(&words, self.folder.path(), &arguments, Some(&out));
        Running { process, out }
    }

    /// Starts a server that lets the key `client.key` in; returns its ticket.
    #[track_caller]
    pub(crate) fn serve(&self, more: &[&str]) -> (Running, String) {
        let id = self.id("client.key").to_string();
        let own = ["--serve", "--key", "server.key", "--allow", &id];
        let mut running = self.start(&self.server, &[&own[..], more].concat());
        let ticket = running.wait("ticket", 1)["ticket"]
            .as_str()
            .unwrap()
            .to_owned();
        (running, ticket)
    }

    /// Starts a client, whether it comes up or not.
    pub(crate) fn dial(&self, ticket: &str, more: &[&str]) -> Running {
        let own = match more.contains(&"--key") {
            true => &[ticket][..],
            false => &[ticket, "--key", "client.key"],
        };
        self.start(&self.client, &[own, more].concat())
    }

    /// Starts a node with a configuration in the server's namespace.
    #[track_caller]
    pub(crate) fn node(&self, config: &str) -> Process {
        self.node_in(&self.server, config)
    }

    #[track_caller]
    pub(crate) fn node_in(&self, namespace: &Namespace, config: &str) -> Process {
        let (out, name) = (self.path("node.out"), Some(namespace.name()));
        let arguments = ["node", "--config", config];
        let mut process = Process::start_in(name, self.folder.path(), &arguments, Some(&out));
        until("the node runs", || {
            assert!(process.is_running(), "the node ended");
            fs::read_to_string(&out).unwrap().contains("node ")
        });
        process
    }

    /// The servers that resolve names for what starts in the client's namespace from now on.
    pub(crate) fn names(&self, text: &str) -> Resolvers {
        let folder = PathBuf::from("/etc/netns").join(self.client.name());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("resolv.conf"), text).unwrap();
        Resolvers(folder)
    }

    /// Starts a client, and waits until it is up.
    #[track_caller]
    pub(crate) fn join(&self, ticket: &str, more: &[&str]) -> Running {
        let mut running = self.dial(ticket, more);
        running.wait("up", 1);
        running
    }

    /// Output of `ip` in the client's namespace.
    pub(crate) fn shown(&self, words: &str) -> String {
        let name = self.client.name();
        let output = std::process::Command::new("ip")
            .args(["-n", name])
            .args(words.split_whitespace())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A folder whose files `ip netns exec` puts over those of `/etc`; removed when dropped.
pub(crate) struct Resolvers(PathBuf);

impl Resolvers {
    pub(crate) fn text(&self) -> String {
        fs::read_to_string(self.0.join("resolv.conf")).unwrap()
    }
}

impl Drop for Resolvers {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
