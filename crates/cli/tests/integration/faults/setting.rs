//! A folder with a file to send, a place to receive it, and a slow link between.

use std::{
    fs,
    net::{SocketAddr, UdpSocket},
    path::PathBuf,
    time::{Duration, Instant},
};

use anabranch::{
    Ticket,
    base::{Rate, Seed},
    net::emulate::{Emulator, PathSpec},
};
use anabranch_link::{Config, RateSource, duplex::Configs};
use tempfile::TempDir;

use crate::faults::process::Process;

/// Two seconds at the link's rate.
pub(crate) const FILE_BYTES: usize = 10_000_000;
/// Bytes after which a transfer is in the middle.
pub(crate) const MIDDLE_BYTES: u64 = 300_000;

/// Usual rate of the link.
const RATE: Rate = Rate::from_mbps(40);
/// Rate at which the middle of a transfer lasts for most of a minute, far longer than a busy machine needs to send a signal.
const SLOW: Rate = Rate::from_mbps(2);

fn links(rate: Rate) -> Configs {
    Configs::symmetric(Config {
        rate: RateSource::Constant(rate),
        delay: Duration::from_millis(2),
        ..Config::default()
    })
}

pub(crate) struct Setting {
    folder: TempDir,
    /// Port on which every receiver listens.
    port: u16,
    emulator: Emulator,
}

impl Setting {
    pub(crate) fn new() -> Self {
        Self::with_rate(RATE)
    }

    /// A setting whose link is slow, until [`Self::go_on`]: a transfer that has reached its middle does not reach its end.
    pub(crate) fn held() -> Self {
        Self::with_rate(SLOW)
    }

    fn with_rate(rate: Rate) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        fs::write(folder.path().join("film"), content()).unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        // Free now; another program could take it before the receiver does, as seldom as that is.
        let port = UdpSocket::bind(any).unwrap().local_addr().unwrap().port();
        let spec = PathSpec {
            name: "link".to_owned(),
            listen: any,
            target: SocketAddr::from(([127, 0, 0, 1], port)),
            links: links(rate),
        };
        Self {
            folder,
            port,
            emulator: Emulator::start(vec![spec], Seed(1)).unwrap(),
        }
    }

    /// Gives the link its usual rate.
    pub(crate) fn go_on(&self) {
        self.emulator.paths()[0].set(&links(RATE)).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a receiver; returns it with its ticket, whose address leads over the link.
    pub(crate) fn receiver(&self) -> (Process, String) {
        let (process, mut ticket) = self.receiver_at(self.port, "in");
        ticket.addresses = self.emulator.addresses().to_vec();
        (process, ticket.to_string())
    }

    /// Starts a receiver with the same key on a given port and into a given folder; returns it with its ticket.
    pub(crate) fn receiver_at(&self, port: u16, into: &str) -> (Process, Ticket) {
        let bind = format!("127.0.0.1:{port}");
        let arguments = ["recv", "-q", "--key", "r.key", "--bind", &bind, into];
        let out = self.path("ticket");
        // An earlier receiver may have left it.
        let _ = fs::remove_file(&out);
        let mut process = Process::start(self.folder.path(), &arguments, Some(&out));
        let mut text = String::new();
        until("a ticket", || {
            assert!(process.is_running(), "the receiver ended");
            text = fs::read_to_string(&out).unwrap_or_default();
            text.ends_with('\n')
        });
        (process, text.parse().unwrap())
    }

    /// Starts a sender of the file with further arguments.
    pub(crate) fn sender(&self, ticket: &str, more: &[&str]) -> Process {
        self.sender_with("s.key", ticket, more)
    }

    /// As [`Self::sender`], as the node with this key.
    pub(crate) fn sender_with(&self, key: &str, ticket: &str, more: &[&str]) -> Process {
        let mut arguments = vec!["send", "--key", key, "film", ticket];
        arguments.extend(more);
        Process::start(self.folder.path(), &arguments, None)
    }

    /// Waits until so many bytes are in the receiver's hidden folder.
    #[track_caller]
    pub(crate) fn arrived(&self, bytes: u64) {
        until("the middle of the transfer", || self.partial() >= bytes);
    }

    /// Bytes of the partial file, if there is one.
    pub(crate) fn partial(&self) -> u64 {
        let folders = fs::read_dir(self.path("in")).into_iter().flatten();
        let sizes = folders.flatten().filter_map(|entry| {
            let file = entry.path().join("data/film");
            fs::metadata(file).ok().map(|metadata| metadata.len())
        });
        sizes.max().unwrap_or(0)
    }

    /// Checks that the file has its final name and the right content, and that nothing else is left.
    #[track_caller]
    pub(crate) fn is_complete(&self) {
        assert!(fs::read(self.path("in/film")).unwrap() == content());
        let left = fs::read_dir(self.path("in")).unwrap().count();
        assert_eq!(left, 1, "nothing else is left");
    }

    #[track_caller]
    pub(crate) fn is_not_complete(&self) {
        assert!(
            !self.path("in/film").exists(),
            "a partial file has the name"
        );
    }
}

fn content() -> Vec<u8> {
    (0..FILE_BYTES as u32)
        .map(|n| (n.wrapping_mul(31) + n / 251) as u8)
        .collect()
}

/// Timeout of every wait; durations below it are not checked.
const TIMEOUT: Duration = Duration::from_secs(120);

#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < TIMEOUT, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
