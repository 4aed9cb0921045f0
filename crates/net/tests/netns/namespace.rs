//! Network namespaces that live as long as a test. Creating them needs root; without it, tests that need
//! them print one line and pass.

use std::{
    fs::File,
    io::Write,
    os::fd::AsFd,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Prefix of the names of all namespaces of these tests; the process ID follows.
const PREFIX: &str = "anabtest";

/// A private namespace of this test, removed when dropped.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: String,
}

/// Creates `N` namespaces with loopback up; `None`, after printing the reason, if that is not possible.
pub(crate) fn namespaces<const N: usize>() -> Option<[Namespace; N]> {
    remove_orphans();
    let made: Result<Vec<_>, String> = (0..N).map(|_| Namespace::new()).collect();
    match made {
        Ok(made) => made.try_into().ok(),
        Err(reason) => {
            skip(&reason);
            None
        }
    }
}

/// As [`namespaces`], and `None` also if the kernel has no TUN devices.
pub(crate) fn namespaces_with_tun<const N: usize>() -> Option<[Namespace; N]> {
    if let Err(error) = File::options().write(true).open("/dev/net/tun") {
        skip(&format!("/dev/net/tun: {error}"));
        return None;
    }
    namespaces()
}

/// Prints the reason for skipping a test, bypassing the test harness, which would suppress it.
fn skip(reason: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    // If standard error is closed, there is no other place to report it.
    let _ = writeln!(
        std::io::stderr(),
        "skipped {test}: network namespaces need root and `ip` ({reason})"
    );
}

impl Namespace {
    fn new() -> Result<Self, String> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}-{}-{number}", std::process::id());
        ip(&format!("netns add {name}"))?;
        let namespace = Self { name };
        namespace.ip("link set lo up");
        Ok(namespace)
    }

    /// Its name in `ip netns`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with these arguments in the namespace.
    #[track_caller]
    pub(crate) fn ip(&self, words: &str) {
        if let Err(error) = ip(&format!("-n {} {words}", self.name)) {
            panic!("ip {words}: {error}");
        }
        if words.ends_with(" nodad") {
            self.await_route(words);
        }
    }

    /// Waits until the kernel has the route of an IPv6 address, which it adds after the command that sets the address has ended.
    fn await_route(&self, words: &str) {
        let address = words.split_whitespace().find(|word| word.contains(':'));
        let address = address.unwrap().split('/').next().unwrap();
        let question = format!("-n {} -6 route show table local {address}", self.name);
        for _ in 0..1_000 {
            let output = Command::new("ip").args(question.split(' ')).output();
            if !output.unwrap().stdout.is_empty() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("ip {words}: the kernel has no route to the address");
    }

    /// Connects this namespace to another by a virtual cable with a device and an address at each end.
    pub(crate) fn join(&self, (device, address): (&str, &str), other: &Self, far: (&str, &str)) {
        let there = &other.name;
        self.ip(&format!(
            "link add {device} type veth peer name {} netns {there}",
            far.0
        ));
        for (namespace, (device, address)) in [(self, (device, address)), (other, far)] {
            namespace.ip(&format!("address add {address} dev {device}"));
            namespace.ip(&format!("link set {device} up"));
        }
    }

    /// Moves the calling thread, and the threads that it starts later, into the namespace.
    pub(crate) fn enter(&self) {
        let file = File::open(format!("/var/run/netns/{}", self.name)).unwrap();
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
    }

    /// Runs `work` on a thread in the namespace and waits for it.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            self.enter();
            work()
        };
        let ended = std::thread::scope(|scope| scope.spawn(inside).join());
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Namespaces that remain are removed by the next run.
        let _ = ip(&format!("netns delete {}", self.name));
    }
}

/// Removes the namespaces that a killed test has left.
fn remove_orphans() {
    let Ok(entries) = std::fs::read_dir("/var/run/netns") else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        let owner = rest.trim_start_matches('-').split('-').next();
        let is_alive =
            owner.is_some_and(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists());
        if !is_alive {
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip")
        .args(words.split_whitespace())
        .output()
        .map_err(|error| format!("cannot run `ip`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}
