//! Transfers of 200 files, 20 MB, whose sender, receiver or both are killed (SIGKILL) at random moments, once or
//! twice; the same commands are started again, and every file must end with the right bytes.
//!
//! `KILLS` is the number of steps (10), `KILLS_SEED` their seed (1). `KILLS_CSV` names a file with a row per step; steps
//! that have a row there are not repeated. `tools/kill-transfers` runs 1,000.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    net::UdpSocket,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anabranch::{Ticket, transfer::Hasher};
use tempfile::TempDir;

use crate::faults::{
    process::{Ended, Process},
    setting::until,
};

const FILES: usize = 200;
const BYTES: usize = 20_000_000;
/// Latest time of a kill after the start, relative to the duration of an undisturbed transfer.
const LATEST: f64 = 1.0;
/// Attempts to hit a transfer before its end.
const TRIES: usize = 20;
/// Time for which a restarted sender may look for a receiver that has finished and exited.
const GRACE: Duration = Duration::from_secs(2);
/// Senders that may be started again because their receiver was not there yet.
const REPEATED_MAX: u32 = 10;

/// Reproducible pseudo-random numbers (splitmix64).
struct Noise(u64);

impl Noise {
    fn of(seed: u64, step: u64) -> Self {
        let mut noise = Self(seed ^ step.wrapping_mul(0xd129_42d1_ab5e_2f03));
        noise.next();
        noise
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

type Hashes = BTreeMap<PathBuf, String>;

/// BLAKE3 of every file below `root`, by relative path.
fn hashes(root: &Path) -> Hashes {
    let mut found = Hashes::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let mut hasher = Hasher::new();
                hasher.update(&fs::read(&path).unwrap());
                let name = path.strip_prefix(root).unwrap().to_owned();
                found.insert(name, hasher.finalize().to_hex().to_string());
            }
        }
    }
    found
}

/// Writes files of very different sizes, one of them empty, into a few folders.
fn plant(root: &Path, seed: u64) {
    let mut noise = Noise::of(seed, u64::MAX);
    let weights: Vec<f64> = (0..FILES).map(|_| noise.fraction().powi(3)).collect();
    let whole: f64 = weights.iter().sum();
    for (index, weight) in weights.iter().enumerate() {
        let folder = root.join(format!("folder-{}", index % 7));
        fs::create_dir_all(&folder).unwrap();
        let bytes = match index {
            0 => 0,
            _ => (BYTES as f64 * weight / whole) as usize,
        };
        let content: Vec<u8> = (0..bytes.div_ceil(8))
            .flat_map(|_| noise.next().to_le_bytes())
            .take(bytes)
            .collect();
        fs::write(folder.join(format!("file-{index}")), content).unwrap();
    }
}

/// One transfer, with its folder and its port.
struct Scene {
    folder: TempDir,
    port: u16,
    ticket: String,
    receiver: Option<Process>,
    sender: Option<Process>,
    is_sender_new: bool,
    /// The receiver was killed before it had noted the ticket: a new one is needed, as its message states.
    is_ticket_lost: bool,
    /// Senders that were started again because they had not found the receiver.
    repeated: u32,
}

impl Scene {
    fn new(source: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        std::os::unix::fs::symlink(source, folder.path().join("tree")).unwrap();
        // Free now; another program could take it before the receiver does, as seldom as that is.
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        drop(socket);
        let mut scene = Self {
            folder,
            port,
            ticket: String::new(),
            receiver: None,
            sender: None,
            is_sender_new: false,
            is_ticket_lost: false,
            repeated: 0,
        };
        scene.start_receiver();
        scene.read_ticket();
        scene.start_sender();
        scene
    }

    fn read_ticket(&mut self) {
        let mut text = String::new();
        until("a ticket", || {
            text = fs::read_to_string(self.path("ticket")).unwrap_or_default();
            text.ends_with('\n')
        });
        let ticket: Ticket = text.parse().unwrap();
        self.ticket = ticket.to_string();
    }

    /// Directory of the files until the transfer is complete.
    fn data(&self) -> Option<PathBuf> {
        let entries = fs::read_dir(self.path("in")).unwrap();
        entries
            .flatten()
            .map(|entry| entry.path().join("data"))
            .find(|data| data.is_dir())
    }

    /// True if the receiver has noted the node to which the ticket belongs.
    fn is_noted(&self) -> bool {
        let entries = fs::read_dir(self.path("in")).unwrap();
        entries
            .flatten()
            .any(|entry| entry.path().join("note").exists())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start_receiver(&mut self) {
        let bind = format!("127.0.0.1:{}", self.port);
        let arguments = ["recv", "-q", "--key", "r.key", "--bind", &bind, "in"];
        let out = self.path("ticket");
        self.receiver = Some(Process::start(self.folder.path(), &arguments, Some(&out)));
    }

    fn start_sender(&mut self) {
        let arguments = ["send", "-q", "--key", "s.key", "tree", &self.ticket];
        self.sender = Some(Process::start(self.folder.path(), &arguments, None));
    }

    /// Kills the victims that still run and starts them again; returns the number of killed processes.
    fn kill(&mut self, victims: Victims) -> usize {
        let mut killed = 0;
        let is_running =
            |process: &mut Option<Process>| process.as_mut().is_some_and(Process::is_running);
        if victims.has_receiver() && is_running(&mut self.receiver) {
            self.receiver = None;
            killed += 1;
            self.is_ticket_lost = !self.is_noted();
        }
        if victims.has_sender() && is_running(&mut self.sender) {
            self.sender = None;
            killed += 1;
        }
        if self.receiver.is_none() {
            self.start_receiver();
        }
        if self.sender.is_none() {
            self.is_sender_new = true;
            self.start_sender();
        }
        killed
    }

    /// Repeats the transfer with a new ticket, after the sender was refused because the old one was lost with the receiver.
    fn begin_again(mut self, step: u64) -> (&'static str, TempDir) {
        self.read_ticket();
        self.start_sender();
        (self.is_sender_new, self.is_ticket_lost) = (false, false);
        let (outcome, folder) = self.end(step);
        assert_eq!(outcome, "both knew");
        ("with a new ticket", folder)
    }

    /// Starts the sender once more, which had given up.
    fn repeat(mut self, step: u64, ended: &Ended) -> (&'static str, TempDir) {
        self.repeated += 1;
        assert!(self.repeated < REPEATED_MAX, "step {step}: {ended:?}");
        self.start_sender();
        self.end(step)
    }

    /// Waits for the end and returns the outcome, in a word. Panics at a wrong one.
    fn end(mut self, step: u64) -> (&'static str, TempDir) {
        let mut receiver = self.receiver.take().unwrap();
        let mut sender = self.sender.take().unwrap();
        let mut done_since = None;
        until("the end of a transfer", || {
            if !receiver.is_running() {
                done_since.get_or_insert_with(Instant::now);
            }
            // A sender that does not know that the transfer is complete cannot find a receiver that has exited.
            let is_left = self.is_sender_new && done_since.is_some_and(|at| at.elapsed() > GRACE);
            !sender.is_running() || is_left
        });
        if self.is_ticket_lost && !self.path("in/tree").exists() && done_since.is_none() {
            let ended = sender.ended();
            self.receiver = Some(receiver);
            if ended.status.code() != Some(4) {
                return self.repeat(step, &ended);
            }
            ended.is(4, &["does not know this ticket"]);
            return self.begin_again(step);
        }
        // One that goes on may have been killed after its last message, and wait for another sender now.
        let receiver = match done_since {
            Some(_) => {
                let ended = receiver.ended();
                assert!(ended.status.success(), "step {step}: {ended:?}");
                None
            }
            None => Some(receiver),
        };
        if sender.is_running() {
            drop(sender);
            return ("the receiver knew", self.folder);
        }
        let ended = sender.ended();
        let outcome = match ended.status.code() {
            Some(0) => "both knew",
            // Both were started anew, and the receiver was not there yet when the sender gave up.
            Some(3..=5) if self.is_sender_new && !self.path("in/tree").exists() => {
                self.receiver = receiver;
                return self.repeat(step, &ended);
            }
            // Killed between its last message and its exit; the data that it had sent is checked below.
            Some(3..=5) if self.is_sender_new => "the receiver knew",
            _ => panic!("step {step}: {ended:?}"),
        };
        (outcome, self.folder)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victims {
    Receiver,
    Sender,
    Both,
}

impl Victims {
    fn has_receiver(self) -> bool {
        self != Self::Sender
    }

    fn has_sender(self) -> bool {
        self != Self::Receiver
    }
}

/// Checks that everything has its name and its bytes, and that no partial data is left.
#[track_caller]
fn is_right(folder: &Path, right: &Hashes, step: u64) {
    let into = folder.join("in");
    assert!(into.join("tree").is_dir(), "step {step}: not there");
    assert!(
        &hashes(&into.join("tree")) == right,
        "step {step}: wrong bytes"
    );
    for entry in fs::read_dir(&into).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // A receiver that was killed after its last message leaves a note.
        let is_note = name.starts_with(".anabranch-") && !path.join("data/tree").exists();
        assert!(name == "tree" || is_note, "step {step}: {name} is left");
    }
}

/// Result of a step.
struct Row {
    /// Killed processes.
    killed: usize,
    /// Time from the start to the last kill.
    kill_s: f64,
    last_s: f64,
    /// Files in the transfer's folder at the last kill.
    partial: usize,
    outcome: &'static str,
}

fn one(
    tree: &Path,
    right: &Hashes,
    step: u64,
    victims: Victims,
    kills: usize,
    whole: Duration,
    noise: &mut Noise,
) -> Row {
    let begun = Instant::now();
    let mut scene = Scene::new(tree);
    let (mut killed, mut kill_s, mut partial) = (0, 0.0, 0);
    for _ in 0..kills {
        let pause = whole.mul_f64(LATEST * noise.fraction());
        std::thread::sleep(pause);
        kill_s += pause.as_secs_f64();
        let data = scene.data();
        partial = data.map_or(0, |data| count(&data));
        killed += scene.kill(victims);
    }
    let (outcome, folder) = scene.end(step);
    is_right(folder.path(), right, step);
    Row {
        killed,
        kill_s,
        last_s: begun.elapsed().as_secs_f64(),
        partial,
        outcome,
    }
}

/// Number of files below a folder, which may change meanwhile.
fn count(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.path() {
            path if path.is_dir() => count(&path),
            _ => 1,
        })
        .sum()
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

#[test]
fn killed_at_random_moments_every_retry_ends_with_the_right_bytes() {
    let (steps, seed) = (number("KILLS", 10), number("KILLS_SEED", 1));
    let csv = std::env::var_os("KILLS_CSV").map(PathBuf::from);
    let rows = csv.as_ref().and_then(|path| fs::read_to_string(path).ok());
    let done = rows.map_or(0, |text| text.lines().skip(1).count() as u64);
    let source = tempfile::tempdir().unwrap();
    let tree = source.path().join("tree");
    plant(&tree, seed);
    let right = hashes(&tree);
    assert_eq!(right.len(), FILES);
    if let Some(path) = csv.as_ref().filter(|path| !path.exists()) {
        fs::write(
            path,
            "step,seed,victims,killed,kill_s,last_s,partial_files,outcome\n",
        )
        .unwrap();
    }

    let start = Instant::now();
    let (outcome, folder) = Scene::new(&tree).end(0);
    assert_eq!(outcome, "both knew");
    is_right(folder.path(), &right, 0);
    let whole = start.elapsed();

    for step in done..steps {
        let mut noise = Noise::of(seed, step);
        let victims = [Victims::Receiver, Victims::Sender, Victims::Both][noise.below(3)];
        let kills = 1 + noise.below(4) / 3;
        let row = (0..TRIES)
            // Transfers may be quicker by now than the one that was measured.
            .map(|tried| whole.mul_f64(0.8_f64.powi(tried as i32)))
            .map(|whole| one(&tree, &right, step, victims, kills, whole, &mut noise))
            .find(|row| row.killed > 0)
            .expect("a moment before the end");
        if let Some(path) = &csv {
            let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
            let Row {
                killed,
                kill_s,
                last_s,
                partial,
                outcome,
            } = row;
            writeln!(
                file,
                "{step},{seed},{victims:?},{killed},{kill_s:.3},{last_s:.3},{partial},{outcome}"
            )
            .unwrap();
        }
    }
}
