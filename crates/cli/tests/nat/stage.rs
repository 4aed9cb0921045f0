//! Two machines behind translators, and a relay that both reach.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    RELAY,
    namespace::{Namespace, namespaces},
    process::Process,
};

/// Longest wait for what takes a few seconds on a quiet machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Behaviour of the translators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A port inside is the same port outside, whatever the destination.
    KeepsPorts,
    /// Each destination sees another port.
    RandomPorts,
}

pub(crate) struct Stage {
    folder: tempfile::TempDir,
    pub(crate) near: Namespace,
    pub(crate) far: Namespace,
    middle: [Namespace; 3],
    relay: Option<Process>,
}

impl Stage {
    /// `None`, after printing the reason, without root or nft.
    pub(crate) fn new(kind: Kind) -> Option<Self> {
        Self::with(kind, "[rendezvous]\nstrangers = true\n")
    }

    /// With this rendezvous in the relay's configuration.
    pub(crate) fn with(kind: Kind, rendezvous: &str) -> Option<Self> {
        if Command::new("nft")
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_err()
        {
            // If standard error is closed, there is no other place to report it.
            let _ = writeln!(std::io::stderr(), "skipped: nft is missing");
            return None;
        }
        let [near, left, relay, right, far] = namespaces()?;
        near.join(("eth0", "10.1.0.2/24"), &left, ("in", "10.1.0.1/24"));
        left.join(
            ("out", "198.51.101.2/24"),
            &relay,
            ("left", "198.51.101.1/24"),
        );
        far.join(("eth0", "10.2.0.2/24"), &right, ("in", "10.2.0.1/24"));
        right.join(
            ("out", "198.51.102.2/24"),
            &relay,
            ("right", "198.51.102.1/24"),
        );
        relay.ip(&format!("address add {RELAY}/32 dev lo"));
        for (namespace, gateway) in [
            (&near, "10.1.0.1"),
            (&far, "10.2.0.1"),
            (&left, "198.51.101.1"),
            (&right, "198.51.102.1"),
        ] {
            namespace.ip(&format!("route add default via {gateway}"));
        }
        for namespace in [&left, &relay, &right] {
            namespace.run(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
        }
        for namespace in [&left, &right] {
            translate(namespace, kind);
        }
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "key = \"r.key\"\nlisten = [\"{RELAY}:4433\"]\ncontrol = \"r.sock\"\nlocal = \"\"\n{rendezvous}"
        );
        fs::write(folder.path().join("r.toml"), config).unwrap();
        let mut stage = Self {
            folder,
            near,
            far,
            middle: [left, relay, right],
            relay: None,
        };
        stage.start_relay();
        Some(stage)
    }

    fn start_relay(&mut self) {
        let arguments = ["node", "--config", "r.toml"];
        let process = self.start(&self.middle[1], &arguments, Some("relay.out"));
        self.relay = Some(process);
    }

    /// Ends the relay by this signal, and returns what it has logged.
    pub(crate) fn stop_relay(&mut self, signal: &str) -> String {
        let relay = self.relay.take().unwrap();
        relay.signal(signal);
        relay.ended().err
    }

    /// Ends the relay by this signal, and starts it again.
    pub(crate) fn restart_relay(&mut self, signal: &str) {
        self.stop_relay(signal);
        self.start_relay();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn start(
        &self,
        namespace: &Namespace,
        arguments: &[&str],
        out: Option<&str>,
    ) -> Process {
        let out = out.map(|name| self.path(name));
        Process::start_in(
            Some(namespace.name()),
            self.folder.path(),
            arguments,
            out.as_deref(),
        )
    }

    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < TIMEOUT, "never: {what}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn relay_ticket(&self) -> String {
        word(&self.path("relay.out"), |word| {
            word.starts_with("anabranch1:")
        })
    }

    /// The code that a command has printed into a file.
    pub(crate) fn code(&self, file: &str) -> String {
        word(&self.path(file), is_code)
    }
}

pub(crate) fn is_code(word: &str) -> bool {
    word.matches('-').count() == 2
}

/// The first word of a file that is wanted, once there is one.
#[track_caller]
pub(crate) fn word(file: &Path, is_wanted: impl Fn(&str) -> bool) -> String {
    let start = Instant::now();
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        // The last line may be incomplete.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        if let Some(word) = whole.split_whitespace().find(|word| is_wanted(word)) {
            return word.to_owned();
        }
        assert!(
            start.elapsed() < TIMEOUT,
            "never in {}: {text}",
            file.display()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Lets only answers in, and translates what goes out.
fn translate(namespace: &Namespace, kind: Kind) {
    let ports = match kind {
        Kind::KeepsPorts => "",
        Kind::RandomPorts => "fully-random",
    };
    let rules = format!(
        "table ip translator {{
            chain outgoing {{
                type nat hook postrouting priority 100;
                oifname \"out\" masquerade {ports};
            }}
            chain forwarding {{
                type filter hook forward priority 0; policy drop;
                iifname \"in\" accept;
                ct state established,related accept;
            }}
            chain incoming {{
                type filter hook input priority 0; policy drop;
                iifname \"in\" accept;
                ct state established,related accept;
            }}
        }}\n"
    );
    let mut nft = Command::new("ip")
        .args(["netns", "exec", namespace.name(), "nft", "-f", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    nft.stdin
        .take()
        .unwrap()
        .write_all(rules.as_bytes())
        .unwrap();
    assert!(nft.wait().unwrap().success(), "nft");
}
